//! Queries on the parts of a filter's payload.

use sstfilter::internal::code_line::{self, Portable, Query, Select};
use sstfilter::internal::prefetch;

use super::exact::Exact;
#[cfg(test)]
use super::exact::Form;
use super::hashed::query::Hashing;
use super::lines::{Code, Lines, Lows};
use super::ordered::{Segments, Spread};
use super::params::{CodeMap, ExactMap, HashedMap, RangeShape, SEGMENT_BYTES};
use sstfilter::KeyRange;

/// The data that a query reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) shape: &'a RangeShape,
    pub(super) layout: &'a Layout,
    pub(super) hashing: &'a Hashing,
    pub(super) payload: &'a [u8],
}

/// The offsets at which the parts of a payload end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    lines: usize,
    lows: usize,
    payload: usize,
    /// Bytes of the segments, after the low bits.
    records: usize,
    spread: Spread,
}

impl Layout {
    /// Returns the layout of the payload at the start of `block`. Reads the first and the last head of ordered codes.
    pub(super) fn new(shape: &RangeShape, block: &[u8]) -> Self {
        // On 32-bit platforms, a length that does not fit saturates, and then `get` finds no such part.
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let lines = bytes(shape.lines_bytes());
        let lows = bytes(shape.lines_bytes() + shape.lows_bytes());
        let records = bytes(u64::from(shape.lines) * SEGMENT_BYTES);
        let spread = match shape.map {
            CodeMap::Ordered(_) => {
                Spread::new(block.get(lows..).and_then(|rest| rest.get(..records)).unwrap_or_default())
            }
            CodeMap::Hashed(_) | CodeMap::Exact(_) => Spread::default(),
        };
        Self { lines, lows, payload: bytes(shape.payload_bytes()), records, spread }
    }

    /// Returns the payload at the start of `block`; `None` if the block has become shorter since it was opened.
    #[inline(always)]
    pub(super) fn payload<'a>(&self, block: &'a [u8]) -> Option<&'a [u8]> {
        block.get(..self.payload)
    }
}

/// How keys became codes, with the data that queries need.
#[derive(Clone, Copy, Debug)]
enum Map<'a> {
    Hashed(&'a HashedMap),
    Ordered(Segments<'a>),
}

/// Ranges of a batch that are in flight at once: their lines are prefetched before the first of them is probed.
const UNDER_WAY: usize = 16;

impl<'a> View<'a> {
    /// Returns the lines, and how keys became codes in them; `None` for exact codes, which have no lines.
    #[inline(always)]
    fn open(&self) -> Option<(Lines<'a>, Map<'a>)> {
        let Layout { lines, lows, payload, records, spread } = *self.layout;
        let part = |from: usize, to: usize| self.payload.get(from..to).unwrap_or_default();
        let (all, low_bytes, rest) = (part(0, lines).as_chunks().0, part(lines, lows), part(lows, payload));
        match &self.shape.map {
            CodeMap::Hashed(map) => {
                let lows = Lows::Uniform { codes: self.shape.codes.into() };
                Some((Lines { all, low_bytes, overflow: rest, lows }, Map::Hashed(map)))
            }
            CodeMap::Ordered(map) => {
                let (records, tails) = rest.split_at(records.min(rest.len()));
                let segments = Segments::new(records, tails, spread, self.shape, map);
                Some((Lines { all, low_bytes, overflow: &[], lows: Lows::PerLine }, Map::Ordered(segments)))
            }
            CodeMap::Exact(_) => None,
        }
    }

    /// Returns the first and the last code of a range, or the answer if it does not depend on them.
    #[inline(always)]
    fn codes<S: Select>(&self, lines: &Lines<'_>, map: &Map<'_>, range: KeyRange<'_>) -> Result<(Code, Code), bool> {
        match map {
            _ if self.shape.keys == 0 => Err(false),
            Map::Hashed(map) => {
                let units = self.hashing.units(self.shape, map, range)?;
                match units.interval(self.shape, map) {
                    Some(codes) => Ok(codes),
                    None => Err(units.any_in_chunks::<S>(self.shape, map, lines)),
                }
            }
            Map::Ordered(segments) => segments.interval(range).ok_or(false),
        }
    }

    /// Returns the parts of a filter of exact codes.
    #[inline(always)]
    pub(super) fn exact_of(&self, map: ExactMap) -> Exact<'a> {
        let Layout { lines, lows, payload, .. } = *self.layout;
        let part = |from: usize, to: usize| self.payload.get(from..to).unwrap_or_default();
        Exact::new(self.shape, map, self.payload, [part(0, lines), part(lines, lows), part(lows, payload)])
    }

    /// Whether the file may contain a key in the range.
    #[inline(always)]
    pub(super) fn may_contain_range<S: Select>(self, range: KeyRange<'_>) -> bool {
        let Some((lines, map)) = self.open() else { return true };
        let has_codes = match self.codes::<S>(&lines, &map, range) {
            Ok((from, to)) => lines.any_in::<S>(from, to),
            Err(answer) => answer,
        };
        // Checked last: few ranges are empty, and a negative answer needs no check.
        has_codes && !range.is_empty()
    }

    /// Answers `may_contain_range` for up to 64 ranges, one bit each.
    #[inline(always)]
    pub(super) fn may_contain_range_each<S: Select>(self, ranges: &[KeyRange<'_>]) -> u64 {
        let Some((lines, map)) = self.open() else { return u64::MAX };
        // Loops, not iterators: a closure that is not inlined would be compiled without the target features.
        let (mut word, mut shift) = (0, 0);
        for ranges in ranges.chunks(UNDER_WAY) {
            let mut pending = [Err(false); UNDER_WAY];
            for (range, slot) in ranges.iter().zip(&mut pending) {
                *slot = self.codes::<S>(&lines, &map, *range);
                if let Ok((from, _)) = slot
                    && let Some(line) = lines.line_bytes(from.line)
                {
                    prefetch(line);
                    // The bytes may start at any alignment, so a line may end in the next cache line.
                    prefetch(&raw const line[63]);
                }
            }
            for (position, (range, slot)) in ranges.iter().zip(&pending).enumerate() {
                let has_codes = match *slot {
                    Ok((from, to)) => lines.any_in::<S>(from, to),
                    Err(answer) => answer,
                };
                word |= u64::from(has_codes && !range.is_empty()) << (shift + position);
            }
            shift += UNDER_WAY;
        }
        word
    }

    /// Returns a lower bound of the first key at or above `lower`.
    #[inline(always)]
    pub(super) fn seek_hint<S: Select>(self, lower: &[u8]) -> Option<Vec<u8>> {
        match self.open() {
            _ if self.shape.keys == 0 => None,
            None | Some((_, Map::Hashed(_))) => Some(lower.to_vec()),
            Some((lines, Map::Ordered(segments))) => segments.seek_hint::<S>(&lines, lower),
        }
    }
}

/// A query of one range. By reference, because both are passed in memory, and would be copied.
struct OneRange<'q>(&'q View<'q>, &'q KeyRange<'q>);

impl Query for OneRange<'_> {
    type Answer = bool;

    #[inline(always)]
    fn run<S: Select>(self) -> bool {
        self.0.may_contain_range::<S>(*self.1)
    }
}

/// A query of up to 64 ranges.
struct ManyRanges<'q>(&'q View<'q>, &'q [KeyRange<'q>]);

impl Query for ManyRanges<'_> {
    type Answer = u64;

    #[inline(always)]
    fn run<S: Select>(self) -> u64 {
        self.0.may_contain_range_each::<S>(self.1)
    }
}

/// [`View::may_contain_range`], with the instructions in use. Never inlined, so that callers run exactly the code that
/// is tested on each platform.
#[inline(never)]
pub(super) fn may_contain_range(view: View<'_>, range: KeyRange<'_>) -> bool {
    code_line::answer(OneRange(&view, &range))
}

/// [`View::may_contain_range_each`], with the instructions in use.
#[inline(never)]
pub(super) fn may_contain_range_each(view: View<'_>, ranges: &[KeyRange<'_>]) -> u64 {
    code_line::answer(ManyRanges(&view, ranges))
}

/// Answers for up to 64 ranges of exact codes, one bit each, with the instructions in use.
#[inline(never)]
pub(super) fn exact_may_contain_each(view: View<'_>, map: ExactMap, ranges: &[KeyRange<'_>]) -> u64 {
    code_line::answer(ExactRanges(&view, map, ranges))
}

/// A query of up to 64 ranges of exact codes. Apart from the others, which would be slower with it.
pub(super) struct ExactRanges<'q>(pub(super) &'q View<'q>, pub(super) ExactMap, pub(super) &'q [KeyRange<'q>]);

impl Query for ExactRanges<'_> {
    type Answer = u64;

    #[inline(always)]
    fn run<S: Select>(self) -> u64 {
        let (exact, mut word) = (self.0.exact_of(self.1), 0);
        for (place, range) in self.2.iter().enumerate() {
            word |= u64::from(exact.any_in::<S>(*range)) << place;
        }
        word
    }
}

/// A query of one code that is split.
struct OneCode<'q>(&'q View<'q>, ExactMap, u64);

impl Query for OneCode<'_> {
    type Answer = bool;

    #[inline(always)]
    fn run<S: Select>(self) -> bool {
        self.0.exact_of(self.1).has_code::<S>(self.2)
    }
}

/// [`Exact::has_code`], with the instructions in use.
#[inline(never)]
pub(super) fn has_code(view: View<'_>, map: ExactMap, code: u64) -> bool {
    code_line::answer(OneCode(&view, map, code))
}

/// In plain Rust: a scan calls it once per file, too seldom to pay for its own instructions.
#[inline(never)]
pub(super) fn seek_hint(view: View<'_>, lower: &[u8]) -> Option<Vec<u8>> {
    match view.shape.map {
        // Only damaged bytes make the next key lower.
        CodeMap::Exact(map) => view.exact_of(map).next_key(lower).map(|next| next.max(lower.to_vec())),
        _ => view.seek_hint::<Portable>(lower),
    }
}

#[cfg(test)]
mod tests {
    use sstfilter::KeyHasher;

    use super::*;
    use crate::RangeFilter;
    use crate::vectors::vectors;

    #[test]
    fn keys_have_the_codes_of_the_vectors() {
        for vector in vectors("ranges").rows("filters") {
            let filter = RangeFilter::load(vector.whole(), &KeyHasher::default()).unwrap();
            let view = filter.view().unwrap();
            let opened = view.open();
            for row in vector.rows("codes") {
                let key = row.text("key").as_bytes();
                if let CodeMap::Exact(map) = view.shape.map {
                    assert_eq!(
                        map.code(&Form::in_payload(view.shape, view.payload), key),
                        Some(row.hex("code")),
                        "{row}"
                    );
                    continue;
                }
                let (lines, map) = opened.unwrap();
                let (code, last) = view.codes::<Portable>(&lines, &map, KeyRange::from(key..=key)).unwrap();
                assert_eq!(code, last, "{row}");
                let cell = u64::from(code.quotient) << code.low_bits | code.low;
                assert_eq!((code.line, cell), (row.number("line"), row.hex("cell")), "{row}");
            }
        }
    }
}
