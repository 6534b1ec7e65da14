//! Writes pages from sorted entries.

use core::ops::{Range, RangeInclusive};

use sstfilter::KeyHash;

use crate::list::{LIST_CHECK_BYTES, encode_ids, list_check};
use crate::page::{
    LINE_ENTRIES, LIST_BYTES, MAX_LINE_ENTRIES, MAX_PAGE_BYTES, OUTGROWN, OVERFLOWED, OVERFULL, PageTrailer, State,
    UNKNOWN,
};
use crate::shape::{LINE_BYTES, PAGE_TRAILER_BYTES, Place, Shape};

/// From this many files on, a key's files are a list outside of its page: otherwise a hundred keys that all files have
/// would fill pages, and every lookup in such a page would read a second one.
pub(crate) const LIST_FILES: usize = 32;

/// Packs an entry, a prefix and a file that has keys with it, into one number, so that sorting numbers sorts entries.
/// The number has the type of a hash, because it is sorted like one: its high bits are spread as evenly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    /// The smallest prefix of the entries.
    base: u64,
    id_bits: u32,
    /// Unused low bits: the high bits of sorted numbers must differ.
    shift: u32,
}

impl Packing {
    /// Packs entries with prefixes `first..end`; `None` if they have more than 64 bits.
    pub(crate) fn new(first: u64, end: u64, files: u32) -> Option<Self> {
        let id_bits = 32 - files.saturating_sub(1).leading_zeros();
        let prefix_bits = 64 - (end - first).saturating_sub(1).leading_zeros();
        let shift = 64_u32.checked_sub(prefix_bits + id_bits)?.min(63);
        Some(Self { base: first, id_bits, shift })
    }

    #[inline(always)]
    pub(crate) fn pack(&self, prefix: u64, id: u32) -> KeyHash {
        KeyHash::from_well_mixed(((prefix - self.base) << self.id_bits | u64::from(id)) << self.shift)
    }

    #[inline(always)]
    pub(crate) fn unpack(&self, packed: KeyHash) -> (u64, u32) {
        let entry = packed.get() >> self.shift;
        (self.base + (entry >> self.id_bits), (entry & ((1 << self.id_bits) - 1)) as u32)
    }
}

/// A list's files, still without a place in the tail.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) field: u32,
    pub(crate) bytes: Vec<u8>,
}

/// What a page has outside of its own bytes.
#[derive(Debug)]
pub(crate) struct Outside {
    /// The page's first byte among the pages that were written with it.
    pub(crate) start: usize,
    pub(crate) lists: Vec<List>,
    /// The whole page, if it has outgrown its bytes.
    pub(crate) outgrown: Option<Vec<u8>>,
    /// That of the page with the entries.
    pub(crate) trailer: PageTrailer,
}

impl Outside {
    pub(crate) const fn is_outgrown(&self) -> bool {
        self.outgrown.is_some()
    }

    pub(crate) fn lists(&self) -> usize {
        self.lists.len()
    }
}

/// Writes the pages of one map. It is reused for many pages.
#[derive(Debug)]
pub(crate) struct PageWriter {
    shape: Shape,
    /// The fingerprint of the map's id.
    map: u64,
    fields: BitWriter,
    lines: Vec<[[u64; 4]; 2]>,
    open: OpenLine,
    run_ends: Vec<u16>,
    lists: Vec<List>,
    /// The lines whose entries were too many for an input.
    overflowed: Vec<RangeInclusive<u64>>,
    /// How many lines of the last page have overflowed.
    pub(crate) overflowed_lines: u64,
}

/// The line that is being written.
#[derive(Debug, Default)]
struct OpenLine {
    occupied: [u64; 4],
    run_ends: [u64; 4],
    /// Positions of the last entries of the runs, for an overfull line.
    ends: Vec<u16>,
    quotient: u8,
    /// Entries so far.
    count: u32,
    /// Where its fields begin, and the number of lists before it.
    start: (BitEnd, usize),
}

impl OpenLine {
    /// Begins the run of `quotient`, unless it is the open one.
    #[inline(always)]
    fn begin(&mut self, quotient: u8) {
        if self.count == 0 || quotient != self.quotient {
            self.end_run();
            self.quotient = quotient;
            set_bit(&mut self.occupied, quotient.into());
        }
    }

    #[inline(always)]
    fn end_run(&mut self) {
        let Some(last) = self.count.checked_sub(1) else { return };
        set_bit(&mut self.run_ends, last);
        self.ends.push(last as u16);
    }
}

/// Sets a bit, if it is below 256.
#[inline(always)]
fn set_bit(words: &mut [u64; 4], bit: u32) {
    if let Some(word) = words.get_mut((bit >> 6) as usize) {
        *word |= 1 << (bit & 63);
    }
}

/// Writes numbers of any bits one after the other.
#[derive(Debug, Default)]
struct BitWriter {
    /// Eight bytes longer than what was written, so that each number is stored as a whole word.
    bytes: Vec<u8>,
    at: BitEnd,
}

/// The end of what was written.
#[derive(Clone, Copy, Debug, Default)]
struct BitEnd {
    end: usize,
    pending: u64,
    pending_bits: u32,
    count: u32,
}

impl BitWriter {
    /// Goes back to an earlier end.
    fn rewind(&mut self, end: BitEnd) {
        self.at = end;
        self.store();
    }

    fn store(&mut self) {
        if let Some(word) = self.bytes.get_mut(self.at.end..).and_then(<[u8]>::first_chunk_mut) {
            *word = self.at.pending.to_le_bytes();
        }
    }

    /// Appends a number of at most 56 bits.
    #[inline(always)]
    fn put(&mut self, value: u64, bits: u8) {
        if self.at.end + 8 > self.bytes.len() {
            self.bytes.resize((self.at.end + 8).next_multiple_of(1 << 16), 0);
        }
        self.at.pending |= value << self.at.pending_bits;
        self.at.pending_bits += u32::from(bits);
        self.store();
        let at = &mut self.at;
        at.end += at.pending_bits as usize / 8;
        // At most 7 whole bytes: fewer than 8 bits were pending.
        at.pending >>= at.pending_bits & !7;
        at.pending_bits &= 7;
        at.count += 1;
    }

    fn written(&self) -> &[u8] {
        // The last byte was stored with the last number.
        let end = self.at.end + usize::from(self.at.pending_bits > 0);
        self.bytes.get(..end).unwrap_or_default()
    }
}

impl PageWriter {
    pub(crate) fn new(shape: Shape, map: u64) -> Self {
        Self {
            shape,
            map,
            fields: BitWriter::default(),
            lines: Vec::new(),
            open: OpenLine::default(),
            run_ends: Vec::new(),
            lists: Vec::new(),
            overflowed: Vec::new(),
            overflowed_lines: 0,
        }
    }

    /// Appends page `page`, which has these entries, in ascending order; an entry may repeat. The lines with prefixes
    /// of `overflowed` have overflowed, and so has each line that has too many entries. If it returns what the page has
    /// outside, the page is complete after [`finish`](Self::finish).
    pub(crate) fn write(
        &mut self,
        page: u64,
        (entries, packing): (&[KeyHash], &Packing),
        overflowed: &[Range<u64>],
        out: &mut Vec<u8>,
    ) -> Option<Outside> {
        let lines = |prefixes: &Range<u64>| {
            let [first, last] = [prefixes.start, prefixes.end - 1].map(|prefix| self.shape.place_of_prefix(prefix));
            let first_line = if first.page < page { 0 } else { first.line };
            let last_line = if last.page > page { self.shape.lines - 1 } else { last.line };
            (first.page <= page && page <= last.page).then_some(first_line..=last_line)
        };
        self.overflowed = overflowed.iter().filter_map(lines).collect();
        self.collect(entries, packing);
        if self.trailer(page).bytes(&self.shape) > MAX_PAGE_BYTES {
            self.overflowed = vec![0..=self.shape.lines - 1];
            self.collect(&[], packing);
        }
        let trailer = self.trailer(page);
        let lists = core::mem::take(&mut self.lists);
        let (bytes, start) = (trailer.bytes(&self.shape), out.len());
        let has_outgrown = bytes > self.shape.page_bytes() as u64;
        let mut outgrown = has_outgrown.then(Vec::new);
        if let Some(outgrown) = &mut outgrown {
            self.put(bytes as usize, lists.len(), outgrown);
            self.put_without_entries(page, State::Outgrown, out);
        } else {
            self.put(self.shape.page_bytes(), lists.len(), out);
            if lists.is_empty() {
                seal(out, start, &trailer);
                return None;
            }
        }
        Some(Outside { start, lists, outgrown, trailer })
    }

    /// The trailer of the page that was collected.
    fn trailer(&self, page: u64) -> PageTrailer {
        PageTrailer {
            fields: self.fields.at.count,
            run_ends: self.run_ends.len() as u32,
            lists: self.lists.len() as u32,
            page,
            state: State::Whole,
            map: self.map,
        }
    }

    /// Appends page `page`, whose entries are unknown: every file may have every key of it.
    pub(crate) fn write_unknown(&self, page: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let trailer = self.put_without_entries(page, State::Unknown, out);
        seal(out, start, &trailer);
    }

    /// Collects the lines and fields of the entries.
    fn collect(&mut self, entries: &[KeyHash], packing: &Packing) {
        self.fields.rewind(BitEnd::default());
        self.lines.clear();
        self.run_ends.clear();
        self.lists.clear();
        self.overflowed_lines = 0;
        self.open = OpenLine::default();
        let (radix, field_bits) = (self.shape.radix(), self.shape.field_bits);
        let mut rest = entries;
        while let Some(&first) = rest.first() {
            let (prefix, first_id) = packing.unpack(first);
            let Place { line, quotient, low, .. } = self.shape.place_of_prefix(prefix);
            self.end_lines_before(line);
            self.open.begin(quotient);
            let count = 1 + rest.iter().skip(1).take_while(|&&entry| packing.unpack(entry).0 == prefix).count();
            let (of_key, after) = rest.split_at(count);
            rest = after;
            let field = low * radix;
            if count == 1 {
                self.put_field(field + u64::from(first_id), field_bits);
                continue;
            }
            let mut ids: Vec<u32> = of_key.iter().map(|&entry| packing.unpack(entry).1).collect();
            // Two maps may cover the same file.
            ids.dedup();
            if ids.len() >= LIST_FILES {
                self.lists.push(List { field: self.fields.at.count, bytes: encode_ids(&ids) });
                ids = vec![self.shape.files];
            }
            ids.iter().for_each(|&id| self.put_field(field + u64::from(id), field_bits));
        }
        self.end_lines_before(self.shape.lines);
    }

    #[inline(always)]
    fn put_field(&mut self, field: u64, bits: u8) {
        self.fields.put(field, bits);
        self.open.count += 1;
    }

    #[inline(always)]
    fn end_lines_before(&mut self, line: u64) {
        while (self.lines.len() as u64) < line {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let (open, line) = (&mut self.open, self.lines.len() as u64);
        open.end_run();
        let (start, lists) = open.start;
        // At most 2^30: a page has 2^14 lines.
        let rank = start.count;
        let has_overflowed = open.count > MAX_LINE_ENTRIES || self.overflowed.iter().any(|lines| lines.contains(&line));
        self.overflowed_lines += u64::from(has_overflowed);
        let second_half = if has_overflowed {
            self.fields.rewind(start);
            self.lists.truncate(lists);
            open.occupied = [u64::MAX; 4];
            [OVERFLOWED.into(), 0, 0, u64::from(rank | OVERFULL) << 32]
        } else if open.count <= LINE_ENTRIES {
            let [first, second, third, fourth] = open.run_ends;
            [first, second, third, fourth | u64::from(rank) << 32]
        } else {
            let place = self.run_ends.len() as u64 | u64::from(open.count) << 32;
            self.run_ends.extend_from_slice(&open.ends);
            [place, 0, 0, u64::from(rank | OVERFULL) << 32]
        };
        self.lines.push([open.occupied, second_half]);
        open.ends.clear();
        (open.occupied, open.run_ends, open.count) = ([0; 4], [0; 4], 0);
        open.start = (self.fields.at, self.lists.len());
    }

    /// Appends a page of `bytes` bytes with the lines, fields and run ends that were collected, and room for `lists`
    /// lists.
    fn put(&self, bytes: usize, lists: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(self.lines.as_flattened().as_flattened().iter().flat_map(|word| word.to_le_bytes()));
        out.extend_from_slice(self.fields.written());
        let behind = self.run_ends.len() * 2 + lists * LIST_BYTES + PAGE_TRAILER_BYTES as usize;
        out.resize(start + bytes - behind, 0);
        out.extend(self.run_ends.iter().flat_map(|end| end.to_le_bytes()));
        out.resize(start + bytes, 0);
    }

    /// Appends a page without entries, and returns its trailer.
    fn put_without_entries(&self, page: u64, state: State, out: &mut Vec<u8>) -> PageTrailer {
        let place = if state == State::Outgrown { OUTGROWN } else { UNKNOWN };
        let line = [u64::MAX, u64::MAX, u64::MAX, u64::MAX, place.into(), 0, 0, u64::from(OVERFULL) << 32];
        let start = out.len();
        (0..self.shape.lines).for_each(|_| out.extend(line.iter().flat_map(|word| word.to_le_bytes())));
        out.resize(start + self.shape.page_bytes(), 0);
        PageTrailer { fields: 0, run_ends: 0, lists: 0, page, state, map: self.map }
    }

    /// Finishes a page that was written to `pages`: appends what it has outside of its own bytes to the tail, whose
    /// first `before` bytes are elsewhere.
    pub(crate) fn finish(&self, outside: Outside, pages: &mut [u8], before: u64, tail: &mut Vec<u8>) {
        let Outside { start, lists, outgrown, trailer } = outside;
        let Some(own) = pages.get_mut(start..).and_then(|bytes| bytes.get_mut(..self.shape.page_bytes())) else {
            return;
        };
        let mut places = Vec::with_capacity(lists.len() * LIST_BYTES);
        for list in &lists {
            let (offset, bytes) = (before + tail.len() as u64, list.bytes.len() + LIST_CHECK_BYTES);
            places.extend_from_slice(&list.field.to_le_bytes());
            places.extend_from_slice(&(bytes as u32).to_le_bytes());
            places.extend_from_slice(&offset.to_le_bytes());
            tail.extend_from_slice(&list.bytes);
            tail.extend_from_slice(&list_check(self.map, offset, &list.bytes).to_le_bytes());
        }
        let Some(mut outgrown) = outgrown else {
            seal_with_lists(own, &places, &trailer);
            return;
        };
        seal_with_lists(&mut outgrown, &places, &trailer);
        let elsewhere = [before + tail.len() as u64, outgrown.len() as u64];
        tail.extend_from_slice(&outgrown);
        let fields = (self.shape.lines * LINE_BYTES) as usize;
        if let Some(bytes) = own.get_mut(fields..fields + 16) {
            bytes.copy_from_slice(elsewhere.map(u64::to_le_bytes).as_flattened());
        }
        let stub = PageTrailer { fields: 0, run_ends: 0, lists: 0, state: State::Outgrown, ..trailer };
        seal_with_lists(own, &[], &stub);
    }
}

/// Writes the places of lists, the trailer and the checksum at the end of a page.
fn seal_with_lists(page: &mut [u8], lists: &[u8], trailer: &PageTrailer) {
    let end = [lists, &trailer.encode()].concat();
    let Some((covered, checksum)) = page.split_last_chunk_mut() else { return };
    let (_, room) = covered.split_at_mut(covered.len().saturating_sub(end.len()));
    room.copy_from_slice(&end);
    *checksum = crc32c::crc32c(covered).to_le_bytes();
}

/// Seals the page without lists that begins at `start`.
fn seal(out: &mut [u8], start: usize, trailer: &PageTrailer) {
    if let Some(page) = out.get_mut(start..) {
        seal_with_lists(page, &[], trailer);
    }
}
