//! Writes pages from sorted entries.

use core::ops::{Range, RangeInclusive};

use sstfilter::KeyHash;
use sstfilter::internal::code_line::{BitEnd, BitWriter, OpenLine};

use crate::list::{LIST_CHECK_BYTES, encode_ids, list_check};
use crate::page::{LIST_BYTES, MAX_LINE_ENTRIES, MAX_PAGE_BYTES, OUTGROWN, OVERFLOWED, PageTrailer, State, UNKNOWN};
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
    pub(crate) fn prefix(&self, packed: KeyHash) -> u64 {
        self.unpack(packed).0
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
    field: u32,
    bytes: Vec<u8>,
}

/// What a page has outside of its own bytes.
#[derive(Debug)]
pub(crate) struct Outside {
    /// The page's first byte among the pages that were written with it.
    start: usize,
    pub(crate) lists: Vec<List>,
    /// The whole page, if it has outgrown its bytes.
    pub(crate) outgrown: Option<Vec<u8>>,
    /// That of the page with the entries.
    trailer: PageTrailer,
}

/// The lines and fields of a page's entries.
#[derive(Default)]
struct Body {
    lines: Vec<[u8; 64]>,
    fields: BitWriter,
    run_ends: Vec<u16>,
    lists: Vec<List>,
    overflowed_lines: u64,
    open: OpenLine,
    /// Where the open line begins: the entries, the fields and the lists before it.
    rank: u32,
    start: (BitEnd, usize),
}

impl Body {
    /// Collects the lines and fields of ascending entries. The lines of `overflowed` have overflowed.
    fn new(shape: &Shape, (entries, packing): (&[KeyHash], &Packing), overflowed: &[RangeInclusive<u64>]) -> Self {
        let mut body = Self { lines: Vec::with_capacity(shape.lines as usize), ..Self::default() };
        let end_lines_before = |body: &mut Self, line: u64| {
            while (body.lines.len() as u64) < line {
                body.end_line(overflowed);
            }
        };
        let (radix, field_bits) = (shape.radix(), shape.field_bits.into());
        for of_key in entries.chunk_by(|one, other| packing.prefix(*one) == packing.prefix(*other)) {
            let Some((prefix, first_id)) = of_key.first().map(|&entry| packing.unpack(entry)) else { continue };
            let Place { line, quotient, low, .. } = shape.place_of_prefix(prefix);
            end_lines_before(&mut body, line);
            let push = |body: &mut Self, id: u32| {
                body.open.push(quotient);
                body.fields.push(low * radix + u64::from(id), field_bits);
            };
            if of_key.len() == 1 {
                push(&mut body, first_id);
                continue;
            }
            let mut ids: Vec<u32> = of_key.iter().map(|&entry| packing.unpack(entry).1).collect();
            // Two maps may cover the same file.
            ids.dedup();
            if ids.len() >= LIST_FILES {
                body.lists.push(List { field: body.rank + body.open.codes(), bytes: encode_ids(&ids) });
                ids = vec![shape.files];
            }
            ids.iter().for_each(|&id| push(&mut body, id));
        }
        end_lines_before(&mut body, shape.lines);
        body
    }

    fn end_line(&mut self, overflowed: &[RangeInclusive<u64>]) {
        let (entries, number) = (self.open.codes(), self.lines.len() as u64);
        let line = if entries > MAX_LINE_ENTRIES || overflowed.iter().any(|lines| lines.contains(&number)) {
            self.overflowed_lines += 1;
            self.open.clear();
            self.fields.rewind(self.start.0);
            self.lists.truncate(self.start.1);
            OpenLine::marked(OVERFLOWED, self.rank)
        } else {
            let run_ends = &mut self.run_ends;
            let line = self.open.end(self.rank, |ends| {
                let first = run_ends.len() as u32;
                run_ends.extend(ends.iter().map(|&end| end as u16));
                first
            });
            // At most 2^30: a page has 2^14 lines.
            self.rank += entries;
            line
        };
        self.lines.push(line);
        self.start = (self.fields.end(), self.lists.len());
    }

    fn trailer(&self, page: u64, map: u64) -> PageTrailer {
        let (run_ends, lists) = (self.run_ends.len() as u32, self.lists.len() as u32);
        PageTrailer { fields: self.rank, run_ends, lists, page, state: State::Whole, map }
    }

    /// Appends a page up to its run ends. The lists and the trailer, which follow, make it `bytes` bytes.
    fn put(&self, bytes: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.lines.as_flattened());
        self.fields.append_to(out);
        let behind = self.run_ends.len() * 2 + self.lists.len() * LIST_BYTES + PAGE_TRAILER_BYTES as usize;
        out.resize(start + bytes - behind, 0);
        out.extend(self.run_ends.iter().flat_map(|end| end.to_le_bytes()));
        out.resize(start + bytes, 0);
    }
}

/// Writes the pages of one map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageWriter {
    shape: Shape,
    /// The fingerprint of the map's id.
    map: u64,
}

impl PageWriter {
    pub(crate) const fn new(shape: Shape, map: u64) -> Self {
        Self { shape, map }
    }

    /// Appends page `page`, which has these entries, in ascending order; an entry may repeat. The lines with prefixes
    /// of `overflowed` have overflowed, and so has each line that has too many entries. Returns how many have, and what
    /// the page has outside: if any, the page is complete after [`finish`](Self::finish).
    pub(crate) fn write(
        &self,
        page: u64,
        (entries, packing): (&[KeyHash], &Packing),
        overflowed: &[Range<u64>],
        out: &mut Vec<u8>,
    ) -> (u64, Option<Outside>) {
        let lines = |prefixes: &Range<u64>| {
            let [first, last] = [prefixes.start, prefixes.end - 1].map(|prefix| self.shape.place_of_prefix(prefix));
            let first_line = if first.page < page { 0 } else { first.line };
            let last_line = if last.page > page { self.shape.lines - 1 } else { last.line };
            (first.page <= page && page <= last.page).then_some(first_line..=last_line)
        };
        let overflowed: Vec<_> = overflowed.iter().filter_map(lines).collect();
        let mut body = Body::new(&self.shape, (entries, packing), &overflowed);
        if body.trailer(page, self.map).bytes(&self.shape) > MAX_PAGE_BYTES {
            body = Body::new(&self.shape, (&[], packing), &[0..=self.shape.lines - 1]);
        }
        let (trailer, start) = (body.trailer(page, self.map), out.len());
        let bytes = trailer.bytes(&self.shape) as usize;
        let outgrown = (bytes > self.shape.page_bytes()).then(|| {
            let mut outgrown = Vec::new();
            body.put(bytes, &mut outgrown);
            outgrown
        });
        if outgrown.is_some() {
            self.put_without_entries(page, State::Outgrown, out);
        } else {
            body.put(self.shape.page_bytes(), out);
            if body.lists.is_empty() {
                seal(out.split_at_mut(start).1, &[], &trailer);
                return (body.overflowed_lines, None);
            }
        }
        (body.overflowed_lines, Some(Outside { start, lists: body.lists, outgrown, trailer }))
    }

    /// Appends page `page`, whose entries are unknown: every file may have every key of it.
    pub(crate) fn write_unknown(&self, page: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let trailer = self.put_without_entries(page, State::Unknown, out);
        seal(out.split_at_mut(start).1, &[], &trailer);
    }

    /// Appends a page without entries, and returns its trailer.
    fn put_without_entries(&self, page: u64, state: State, out: &mut Vec<u8>) -> PageTrailer {
        let (start, mark) = (out.len(), if state == State::Outgrown { OUTGROWN } else { UNKNOWN });
        (0..self.shape.lines).for_each(|_| out.extend_from_slice(&OpenLine::marked(mark, 0)));
        out.resize(start + self.shape.page_bytes(), 0);
        PageTrailer { fields: 0, run_ends: 0, lists: 0, page, state, map: self.map }
    }

    /// Finishes a page that was written to `pages`: appends what it has outside of its own bytes to the tail.
    pub(crate) fn finish(&self, outside: Outside, pages: &mut [u8], tail: &mut Vec<u8>) {
        let Outside { start, lists, outgrown, trailer } = outside;
        let Some(own) = pages.get_mut(start..).and_then(|bytes| bytes.get_mut(..self.shape.page_bytes())) else {
            return;
        };
        let mut places = Vec::with_capacity(lists.len() * LIST_BYTES);
        for list in &lists {
            let (offset, bytes) = (tail.len() as u64, list.bytes.len() + LIST_CHECK_BYTES);
            places.extend_from_slice(&list.field.to_le_bytes());
            places.extend_from_slice(&(bytes as u32).to_le_bytes());
            places.extend_from_slice(&offset.to_le_bytes());
            tail.extend_from_slice(&list.bytes);
            tail.extend_from_slice(&list_check(self.map, offset, &list.bytes).to_le_bytes());
        }
        let Some(mut outgrown) = outgrown else {
            seal(own, &places, &trailer);
            return;
        };
        seal(&mut outgrown, &places, &trailer);
        let elsewhere = [tail.len() as u64, outgrown.len() as u64];
        tail.extend_from_slice(&outgrown);
        let fields = (self.shape.lines * LINE_BYTES) as usize;
        if let Some(bytes) = own.get_mut(fields..fields + 16) {
            bytes.copy_from_slice(elsewhere.map(u64::to_le_bytes).as_flattened());
        }
        let stub = PageTrailer { fields: 0, run_ends: 0, lists: 0, state: State::Outgrown, ..trailer };
        seal(own, &[], &stub);
    }
}

/// Writes the places of lists, the trailer and the checksum at the end of a page.
fn seal(page: &mut [u8], lists: &[u8], trailer: &PageTrailer) {
    let end = [lists, &trailer.encode()].concat();
    let Some((covered, checksum)) = page.split_last_chunk_mut() else { return };
    let (_, room) = covered.split_at_mut(covered.len().saturating_sub(end.len()));
    room.copy_from_slice(&end);
    *checksum = crc32c::crc32c(covered).to_le_bytes();
}
