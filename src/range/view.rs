//! A filter's queries, over the parts of its payload.

use super::hashed::query::{self as hashed, Hashing};
use super::key_range::KeyRange;
use super::lines::{Lines, Lows, Select};
use super::ordered::next::NextKey;
use super::ordered::{Segments, Spread, query as ordered};
use super::params::{CodeMap, HashedMap, OrderedMap, RangeShape, SEGMENT_BYTES};
use crate::kernel::prefetch::prefetch_line;

/// What a query reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) shape: &'a RangeShape,
    pub(super) layout: &'a Layout,
    pub(super) hashing: &'a Hashing,
    pub(super) payload: &'a [u8],
}

/// Where the parts of a payload end.
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
    /// The layout of the payload at the start of `block`, of which two heads are read.
    pub(super) fn new(shape: &RangeShape, block: &[u8]) -> Self {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let lines = bytes(shape.lines_bytes());
        let lows = bytes(shape.lines_bytes() + shape.lows_bytes());
        let records = bytes(u64::from(shape.lines) * SEGMENT_BYTES);
        let spread = match shape.map {
            CodeMap::Ordered(_) => {
                Spread::new(block.get(lows..).and_then(|rest| rest.get(..records)).unwrap_or_default())
            }
            CodeMap::Hashed(_) => Spread::default(),
        };
        Self { lines, lows, payload: bytes(shape.payload_bytes()), records, spread }
    }

    /// The payload at the start of `block`; `None` if the block has become shorter than it was.
    #[inline(always)]
    pub(super) fn payload<'a>(&self, block: &'a [u8]) -> Option<&'a [u8]> {
        block.get(..self.payload)
    }
}

/// The parts of a payload.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    lines: &'a [[u8; 64]],
    lows: &'a [u8],
    rest: &'a [u8],
}

/// Ranges that a batch has under way at once: their lines are prefetched before the first of them is probed.
const UNDER_WAY: usize = 16;

impl<'a> View<'a> {
    #[inline(always)]
    fn parts(&self) -> Parts<'a> {
        let Layout { lines, lows, .. } = *self.layout;
        let part = |from: usize, to: usize| self.payload.get(from..to).unwrap_or_default();
        Parts { lines: part(0, lines).as_chunks().0, lows: part(lines, lows), rest: part(lows, self.layout.payload) }
    }

    #[inline(always)]
    fn lines(&self) -> Lines<'a> {
        let Parts { lines, lows, rest } = self.parts();
        let uniform = Lows::Uniform { low_bits: self.shape.low_bits, codes: self.shape.codes.into() };
        Lines { all: lines, low_bytes: lows, overflow: rest, lows: uniform }
    }

    #[inline(always)]
    fn segments(&self, map: &OrderedMap) -> (Lines<'a>, Segments<'a>) {
        let Parts { lines, lows, rest } = self.parts();
        let (records, tails) = rest.split_at(self.layout.records.min(rest.len()));
        let lines = Lines { all: lines, low_bytes: lows, overflow: &[], lows: Lows::PerLine };
        (lines, Segments::new(records, tails, self.layout.spread, self.shape, map))
    }

    fn key_bytes(&self) -> Option<usize> {
        self.shape.key_bytes.map(|bytes| bytes as usize)
    }

    /// Whether the file may hold a key in the range.
    #[inline(always)]
    pub(super) fn may_hold<S: Select>(self, range: KeyRange<'_>) -> bool {
        // Most ranges are not empty, and most of those are negative without a look at that.
        self.has_codes::<S>(range) && !range.is_empty()
    }

    /// Whether the filter has codes in the range, or does not tell.
    #[inline(always)]
    fn has_codes<S: Select>(self, range: KeyRange<'_>) -> bool {
        match &self.shape.map {
            _ if self.shape.keys == 0 => false,
            CodeMap::Hashed(map) => match self.hashing.units(self.shape, map, range) {
                Ok(units) => match units.interval(self.shape, map) {
                    Some(interval) => hashed::any_in::<S>(self.shape, &self.lines(), interval),
                    None => units.any_in_chunks::<S>(self.shape, map, &self.lines()),
                },
                Err(answer) => answer,
            },
            CodeMap::Ordered(map) => {
                let (lines, segments) = self.segments(map);
                match segments.interval(range, self.key_bytes()) {
                    Some(interval) => ordered::any_in::<S>(&lines, interval),
                    None => false,
                }
            }
        }
    }

    /// Whether it may, for up to 64 ranges: one bit each.
    #[inline(always)]
    pub(super) fn may_hold_each<S: Select>(self, ranges: &[KeyRange<'_>]) -> u64 {
        // Loops instead of iterators with closures, here and below: a closure that is not inlined would be compiled
        // without the instructions.
        let (mut word, mut shift) = (0, 0);
        for ranges in ranges.chunks(UNDER_WAY) {
            let mut bits = match &self.shape.map {
                _ if self.shape.keys == 0 => 0,
                CodeMap::Hashed(map) => self.hashed_group::<S>(map, ranges),
                CodeMap::Ordered(map) => self.ordered_group::<S>(map, ranges),
            };
            for (position, range) in ranges.iter().enumerate() {
                if bits >> position & 1 == 1 && range.is_empty() {
                    bits &= !(1 << position);
                }
            }
            word |= bits << shift;
            shift += UNDER_WAY;
        }
        word
    }

    #[inline(always)]
    fn hashed_group<S: Select>(self, map: &HashedMap, ranges: &[KeyRange<'_>]) -> u64 {
        let lines = self.lines();
        // The answers that need no line, and the intervals of the others.
        let (mut answers, mut pending) = (0, 0_u64);
        let mut intervals = [(0, 0); UNDER_WAY];
        for (position, (range, slot)) in ranges.iter().zip(&mut intervals).enumerate() {
            match self.hashing.units(self.shape, map, *range) {
                Ok(units) => match units.interval(self.shape, map) {
                    Some(interval) => {
                        *slot = interval;
                        pending |= 1 << position;
                        if let Some(line) = lines.line_bytes(interval.0 >> self.shape.cell_bits()) {
                            prefetch_line(line);
                        }
                    }
                    None => answers |= u64::from(units.any_in_chunks::<S>(self.shape, map, &lines)) << position,
                },
                Err(answer) => answers |= u64::from(answer) << position,
            }
        }
        while pending != 0 {
            let position = pending.trailing_zeros() as usize;
            if let Some(&interval) = intervals.get(position) {
                answers |= u64::from(hashed::any_in::<S>(self.shape, &lines, interval)) << position;
            }
            pending &= pending - 1;
        }
        answers
    }

    #[inline(always)]
    fn ordered_group<S: Select>(self, map: &OrderedMap, ranges: &[KeyRange<'_>]) -> u64 {
        let (lines, segments) = self.segments(map);
        let mut intervals = [None; UNDER_WAY];
        for (range, slot) in ranges.iter().zip(&mut intervals) {
            *slot = segments.interval(*range, self.key_bytes());
            if let Some(interval) = slot
                && let Some(line) = lines.line_bytes(interval.first_line())
            {
                prefetch_line(line);
            }
        }
        let mut answers = 0;
        for (position, interval) in intervals.iter().take(ranges.len()).enumerate() {
            if let Some(interval) = interval {
                answers |= u64::from(ordered::any_in::<S>(&lines, *interval)) << position;
            }
        }
        answers
    }

    /// A lower bound of the first key from `lower` on.
    #[inline(always)]
    pub(super) fn first_at_least<S: Select>(self, lower: &[u8]) -> NextKey {
        match &self.shape.map {
            _ if self.shape.keys == 0 => NextKey::None,
            CodeMap::Hashed(_) => NextKey::AtLeast(lower.to_vec()),
            CodeMap::Ordered(map) => {
                let (lines, segments) = self.segments(map);
                segments.first_at_least::<S>(&lines, lower, self.key_bytes())
            }
        }
    }
}
