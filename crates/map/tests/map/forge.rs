//! Forged maps: bytes that no writer wrote, with checksums that hold.

use sstfilter::KeyHash;

/// Bytes after the covered files.
const END: usize = 60;
const PAGE_TRAILER: usize = 32;
const LIST_PLACE: usize = 16;

/// Pseudorandom numbers, the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        KeyHash::mix(self.0).get()
    }

    /// A number below `count`, which is not 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A number that is likely to break something: a power of two or next to it, or any number.
    fn awkward(&mut self) -> u64 {
        let power = 1_u64 << self.below(64);
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => power,
            3 => power - 1,
            4 => self.next() >> self.below(64),
            _ => self.below(40) as u64,
        }
    }
}

/// A map that is being forged. Its parts stay where they were in the sound map.
#[derive(Clone)]
pub(crate) struct Forged {
    pub(crate) bytes: Vec<u8>,
    page_bytes: usize,
    lines: usize,
    pages: usize,
    tail_bytes: usize,
    covered_bytes: usize,
    /// Places of outgrown pages in the map.
    outgrown: Vec<(usize, usize)>,
}

impl Forged {
    /// Begins with a sound map.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let end = bytes.len() - END;
        let page_bytes = 1 << bytes[end + 51];
        let number = |at: usize| number(&bytes, at, 8) as usize;
        let (pages, tail_bytes) = (number(end + 4), number(end + 12));
        let lines = number(end) & 0xffff_ffff;
        let covered_bytes = 16 * (number(end + 36) & 0xffff_ffff);
        let own = Self { bytes, page_bytes, lines, pages, tail_bytes, covered_bytes, outgrown: Vec::new() };
        let stubs = (0..pages).filter(|page| own.bytes[own.trailer(*page) + 17] == 1);
        let place = |page: usize| {
            let at = page * page_bytes + 64 * lines;
            (own.tail() + own.number(at, 8) as usize, own.number(at + 8, 8) as usize)
        };
        let outgrown = stubs.map(place).collect();
        Self { outgrown, ..own }
    }

    pub(crate) fn number(&self, at: usize, bytes: usize) -> u64 {
        number(&self.bytes, at, bytes)
    }

    pub(crate) fn set(&mut self, at: usize, bytes: usize, number: u64) {
        self.bytes[at..at + bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
    }

    /// First byte of the trailer of a page.
    pub(crate) fn trailer(&self, page: usize) -> usize {
        (page + 1) * self.page_bytes - PAGE_TRAILER
    }

    pub(crate) fn tail(&self) -> usize {
        self.pages * self.page_bytes
    }

    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// First byte of the place of an outgrown page, in the page.
    pub(crate) fn elsewhere(&self, page: usize) -> usize {
        page * self.page_bytes + 64 * self.lines
    }

    /// First byte of the numbers at the end of the map.
    pub(crate) fn end(&self) -> usize {
        self.bytes.len() - END
    }

    pub(crate) fn covered(&self) -> usize {
        self.end() - self.covered_bytes
    }

    /// Places of all pages, also of those that were outgrown in the sound map.
    fn all_pages(&self) -> Vec<(usize, usize)> {
        let own = (0..self.pages).map(|page| (page * self.page_bytes, self.page_bytes));
        self.outgrown.iter().copied().chain(own).collect()
    }

    /// Places of the places of lists, of those that are inside of their page.
    fn lists(&self) -> Vec<usize> {
        let of_page = |(start, bytes): (usize, usize)| {
            let trailer = start + bytes - PAGE_TRAILER;
            let count = (self.number(trailer + 8, 4) as usize).min((bytes - PAGE_TRAILER) / LIST_PLACE);
            (1..=count).map(move |list| trailer - list * LIST_PLACE)
        };
        self.all_pages().into_iter().flat_map(of_page).collect()
    }

    /// Makes one random change.
    pub(crate) fn change(&mut self, random: &mut Random) {
        let (pages, lists) = (self.all_pages(), self.lists());
        let (start, bytes) = random.pick(&pages);
        let trailer = start + bytes - PAGE_TRAILER;
        let line = start + 64 * random.below(self.lines);
        match random.below(12) {
            0 => {
                let at = random.below(self.bytes.len());
                self.bytes[at] ^= 1 << random.below(8);
            }
            1 => {
                let fields = [(0, 4), (4, 8), (12, 8), (36, 4), (44, 5), (49, 1), (50, 1), (51, 1), (52, 1), (53, 1)];
                let (at, bytes) = random.pick(&fields);
                self.set(self.end() + at, bytes, random.awkward());
            }
            2 => {
                // Small changes, which more checks let pass.
                let at = self.end() + random.pick(&[0, 4, 12, 36, 44, 49, 50, 51]);
                self.bytes[at] = self.bytes[at].wrapping_add(random.pick(&[1, 255, 2, 254]));
            }
            3 => {
                let at = self.covered() + 8 * random.below(self.covered_bytes / 8);
                self.set(at, 8, random.awkward());
            }
            4 => {
                let (at, bytes) = random.pick(&[(0, 4), (4, 4), (8, 4), (8, 2), (12, 5), (17, 1), (18, 2), (20, 8)]);
                self.set(trailer + at, bytes, random.awkward());
            }
            5 => self.set(trailer + 17, 1, random.below(3) as u64),
            6 => {
                let fill = random.pick(&[0, 0xff, 0x55, 0x01]);
                let from = random.below(64);
                self.bytes[line + from..line + 64].fill(fill);
            }
            // A rank, overfull or not, and a place of run ends.
            7 => self.set(line + 60, 4, random.awkward() | random.pick(&[0, 1 << 31])),
            8 => self.set(line + 32, 4, random.pick(&[random.0 % 40, 0xffff_fffe, 0xffff_ffff, 0x7fff_ffff])),
            9 => {
                let at = start + 64 * self.lines + random.below(bytes - 64 * self.lines - 8);
                self.set(at, random.pick(&[1, 2, 8]), random.awkward());
            }
            10 if !lists.is_empty() => {
                let at = random.pick(&lists) + random.pick(&[0, 4, 8]);
                let other = random.pick(&lists);
                let value = if random.one_in(2) { random.awkward() } else { self.number(other + 8, 4) };
                self.set(at, 4, value);
            }
            _ if self.tail_bytes > 8 => {
                let at = self.tail() + random.below(self.tail_bytes - 8);
                self.set(at, random.pick(&[1, 8]), random.awkward());
            }
            _ => self.set(start + 64 * self.lines, 8, random.awkward()),
        }
    }

    /// Makes all checksums hold, as far as their places make sense.
    pub(crate) fn seal(&mut self) {
        let map = self.bytes[self.end() + 20..self.end() + 28].to_vec();
        for place in self.lists() {
            let (length, offset) = (self.number(place + 4, 4) as usize, self.number(place + 8, 8));
            let start = self.tail() + (offset as usize).min(self.tail_bytes);
            if length >= 4 && length <= self.tail() + self.tail_bytes - start {
                let head = crc32c::crc32c(&[&map, &offset.to_le_bytes()[..]].concat());
                let check = crc32c::crc32c_append(head, &self.bytes[start..start + length - 4]);
                self.set(start + length - 4, 4, check.into());
            }
        }
        for (start, bytes) in self.all_pages() {
            self.seal_range(start, bytes);
        }
        let covered = crc32c::crc32c(&self.bytes[self.covered()..self.end()]);
        self.set(self.end() + 40, 4, covered.into());
        self.seal_range(self.end(), END);
    }

    /// Makes the checksum in the last four bytes of a range hold.
    pub(crate) fn seal_range(&mut self, start: usize, bytes: usize) {
        let end = start + bytes - 4;
        self.set(end, 4, crc32c::crc32c(&self.bytes[start..end]).into());
    }
}

/// A map of one page, whose `keys` keys have the same list of all `files` files.
pub(crate) fn of_one_list(files: u32, keys: usize) -> Vec<u8> {
    let (map, page_bytes) = (crate::support::map_id().fingerprint().to_le_bytes(), 1 << 12);
    let field_bits = 32 - files.leading_zeros() as usize;
    let mut page = vec![0; page_bytes];
    for bit in 0..keys {
        page[bit / 8] |= 1 << (bit % 8);
        page[32 + bit / 8] |= 1 << (bit % 8);
    }
    for bit in (0..keys * field_bits).filter(|bit| files >> (bit % field_bits) & 1 == 1) {
        page[64 + bit / 8] |= 1 << (bit % 8);
    }
    let mut list = vec![0; files as usize];
    let check = crc32c::crc32c_append(crc32c::crc32c(&[map, [0; 8]].concat()), &list);
    list.extend(check.to_le_bytes());
    let trailer = page_bytes - PAGE_TRAILER;
    for key in 0..keys {
        let at = trailer - (keys - key) * LIST_PLACE;
        page[at..at + 4].copy_from_slice(&(key as u32).to_le_bytes());
        page[at + 4..at + 8].copy_from_slice(&(list.len() as u32).to_le_bytes());
    }
    page[trailer..trailer + 4].copy_from_slice(&(keys as u32).to_le_bytes());
    page[trailer + 8..trailer + 12].copy_from_slice(&(keys as u32).to_le_bytes());
    page[trailer + 20..trailer + 28].copy_from_slice(&map);
    let check = crc32c::crc32c(&page[..page_bytes - 4]).to_le_bytes();
    page[page_bytes - 4..].copy_from_slice(&check);
    let covered: Vec<u8> = (1..=u64::from(files)).flat_map(|file| [file, 1]).flat_map(u64::to_le_bytes).collect();
    with_end(&page, &list, &covered, u64::from(files), [8, field_bits as u8, 12])
}

/// The map of these pages of a line each, with the numbers at its end. `bits` are those of a prefix, a field, and a
/// page.
fn with_end(pages: &[u8], tail: &[u8], covered: &[u8], entries: u64, bits: [u8; 3]) -> Vec<u8> {
    let (map, seed) = (crate::support::map_id().fingerprint(), sstfilter::KeyHasher::default().identity().seed);
    let mut end = 1_u32.to_le_bytes().to_vec();
    end.extend([pages.len() as u64 >> bits[2], tail.len() as u64, map, seed].map(u64::to_le_bytes).as_flattened());
    end.extend([covered.len() as u32 / 16, crc32c::crc32c(covered)].map(u32::to_le_bytes).as_flattened());
    end.extend(&entries.to_le_bytes()[..5]);
    end.extend(bits);
    end.extend([1 << 4, 0x11, b'S', b'M']);
    end.extend(crc32c::crc32c(&end).to_le_bytes());
    [pages, tail, covered, &end].concat()
}

/// A map of one file, whose every page names the whole tail: as its list of one id, or as the page that it has outgrown
/// to, which is none.
pub(crate) fn same_tail(pages: u64, tail: usize, is_outgrown: bool) -> Vec<u8> {
    let (map, page_bytes) = (crate::support::map_id().fingerprint().to_le_bytes(), 1 << 10);
    let mut list = vec![0; tail - 4];
    list.extend(crc32c::crc32c_append(crc32c::crc32c(&[map, [0; 8]].concat()), &list).to_le_bytes());
    let mut bytes = Vec::new();
    for number in 0..pages {
        let mut page = vec![0; page_bytes];
        if is_outgrown {
            page[..36].fill(0xff);
            page[63] = 0x80;
            page[72..80].copy_from_slice(&(tail as u64).to_le_bytes());
            page[page_bytes - 15] = 1;
        } else {
            // A run of one entry, which is the mark of a list.
            (page[0], page[32], page[64]) = (1, 1, 1);
            page[page_bytes - 44..page_bytes - 40].copy_from_slice(&(tail as u32).to_le_bytes());
            (page[page_bytes - 32], page[page_bytes - 24]) = (1, 1);
        }
        page[page_bytes - 20..page_bytes - 15].copy_from_slice(&number.to_le_bytes()[..5]);
        page[page_bytes - 12..page_bytes - 4].copy_from_slice(&map);
        let check = crc32c::crc32c(&page[..page_bytes - 4]).to_le_bytes();
        page[page_bytes - 4..].copy_from_slice(&check);
        bytes.extend(page);
    }
    let covered = [1, pages].map(u64::to_le_bytes).concat();
    with_end(&bytes, &list, &covered, pages, [8 + pages.ilog2() as u8, 1, 10])
}

fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    bytes[at..at + count].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
