//! Whether a range may hold a key, by ordered codes.

use core::ops::Bound;

use super::segments::{Place, Segment, Segments};
use crate::range::key_range::KeyRange;
use crate::range::lines::{Code, Lines, Select};
use crate::range::window::head;

/// Where a bound's codes begin or end.
#[derive(Clone, Copy, Debug)]
struct End<'b> {
    rest: &'b [u8],
    is_exclusive: bool,
}

/// The codes of keys in a range.
#[derive(Clone, Copy, Debug)]
pub(in crate::range) struct Interval {
    pub(in crate::range) from: Code,
    pub(in crate::range) to: Code,
}

/// The code before the first one of a line, if there is one.
fn end_before(line: u64, cell_bits: u32) -> Option<Code> {
    Some(Code { line: line.checked_sub(1)?, cell: (1 << cell_bits) - 1 })
}

impl<'a> Segments<'a> {
    /// The cell of a bound's window, counted from the segment's first; `None` when it is above every cell.
    #[inline(always)]
    fn relative(&self, segment: &Segment<'_>, cell: u128, cell_bits: u32) -> Option<u64> {
        let first = segment.window() >> segment.shift;
        // Not below the separator, so not below its cell; damaged bytes may say otherwise.
        let cell = cell.saturating_sub(first);
        (cell >> cell_bits == 0).then_some(cell as u64)
    }

    /// The first code of keys that are above a bound in this segment.
    #[inline(always)]
    fn lower_code(&self, number: u64, end: End<'_>, cell_bits: u32) -> Code {
        let above = Code { line: number + 1, cell: 0 };
        let Some(segment) = self.segment(number) else { return above };
        let Some(rest) = segment.rest_of(end.rest) else { return above };
        let cell = self.cells(&segment).lower(rest, end.is_exclusive);
        let cell = cell.and_then(|cell| self.relative(&segment, cell, cell_bits));
        cell.map_or(above, |cell| Code { line: number, cell })
    }

    /// The last code of keys that are below a bound in this segment, or in the one before; `None` when there is none.
    #[inline(always)]
    fn upper_code(&self, number: u64, end: End<'_>, cell_bits: u32) -> Option<Code> {
        let whole = end_before(number + 1, cell_bits);
        let Some(segment) = self.segment(number) else { return whole };
        let Some(rest) = segment.rest_of(end.rest) else { return whole };
        let Some(cell) = self.cells(&segment).upper(rest, end.is_exclusive) else {
            return end_before(number, cell_bits);
        };
        if cell < segment.window() >> segment.shift {
            return end_before(number, cell_bits);
        }
        self.relative(&segment, cell, cell_bits).map_or(whole, |cell| Some(Code { line: number, cell }))
    }

    /// The range for keys of this filter: its ends cut to their length, if they have one.
    #[inline(always)]
    fn cut<'b>(&self, range: KeyRange<'b>, key_bytes: Option<usize>) -> KeyRange<'b> {
        key_bytes.map_or(range, |bytes| range.of_keys_with_length(bytes))
    }

    /// The codes of keys in a range; `None` when no key of the file can be in it.
    #[inline(always)]
    pub(in crate::range) fn interval(
        &self,
        range: KeyRange<'_>,
        key_bytes: Option<usize>,
        cell_bits: u32,
    ) -> Option<Interval> {
        let range = self.cut(range, key_bytes);
        let from = self.lower(range.lower, cell_bits)?;
        let to = match range.upper {
            Bound::Unbounded => end_before(self.count(), cell_bits)?,
            Bound::Included(upper) => self.upper(upper, false, from.line, cell_bits)?,
            Bound::Excluded(upper) => self.upper(upper, true, from.line, cell_bits)?,
        };
        (from <= to).then_some(Interval { from, to })
    }

    /// The first code of keys in a range with this end; `None` when the end is above every key.
    #[inline(always)]
    pub(super) fn lower(&self, lower: Bound<&[u8]>, cell_bits: u32) -> Option<Code> {
        let first = Code { line: 0, cell: 0 };
        let (bound, is_exclusive) = match lower {
            Bound::Included(bound) => (bound, false),
            Bound::Excluded(bound) => (bound, true),
            Bound::Unbounded => return Some(first),
        };
        let place = self.rest_of(bound).map(|rest| (rest, self.place(rest)));
        match place {
            Err(Place::Below) | Ok((_, Place::Below)) => Some(first),
            Err(_) | Ok((_, Place::Above)) => None,
            Ok((rest, Place::In(number))) => Some(self.lower_code(number, End { rest, is_exclusive }, cell_bits)),
        }
    }

    /// The last code of keys in a range with this end. `near` is the segment of its other end.
    #[inline(always)]
    fn upper(&self, bound: &[u8], is_exclusive: bool, near: u64, cell_bits: u32) -> Option<Code> {
        let rest = match self.rest_of(bound) {
            Ok(rest) => rest,
            Err(Place::Above) => return end_before(self.count(), cell_bits),
            Err(_) => return None,
        };
        let head = head(rest);
        // Most ranges end in the segment that they begin in.
        let place = match usize::try_from(near) {
            Ok(near_index) if self.is_last_up_to(near, head) => self.settle(rest, head, near_index),
            _ => self.place(rest),
        };
        match place {
            Place::Below => None,
            Place::Above => end_before(self.count(), cell_bits),
            Place::In(number) => self.upper_code(number, End { rest, is_exclusive }, cell_bits),
        }
    }
}

/// Whether any code is in the interval.
#[inline(always)]
pub(in crate::range) fn any_in<S: Select>(lines: &Lines<'_>, interval: Interval) -> bool {
    lines.any_in::<S>(interval.from, interval.to)
}
