//! Whether a range may hold a key, by ordered codes.

use core::ops::Bound;

use super::segments::{Beyond, Segment, Segments};
use crate::key_head::head;
use crate::range::key_range::KeyRange;
use crate::range::lines::{Code, Lines, Select};
use crate::range::params::QUOTIENT_BITS;

/// Where a bound's codes begin or end.
#[derive(Clone, Copy, Debug)]
struct End<'b> {
    rest: &'b [u8],
    is_exclusive: bool,
}

/// The codes of keys in a range, and how many low bits the codes of their lines have.
#[derive(Clone, Copy, Debug)]
pub(in crate::range) struct Interval {
    from: PlacedCode,
    to: PlacedCode,
}

impl Interval {
    /// The line that is read first.
    pub(in crate::range) fn first_line(&self) -> u64 {
        self.from.code.line
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedCode {
    pub(super) code: Code,
    low_bits: u32,
}

impl PlacedCode {
    /// Where a line starts.
    const fn start_of(line: u64) -> Self {
        Self { code: Code::start_of(line), low_bits: 0 }
    }

    /// Where the line before this one ends, if there is one.
    fn end_before(line: u64) -> Option<Self> {
        Some(Self { code: Code::end_of(line.checked_sub(1)?), low_bits: 0 })
    }
}

impl Segment<'_> {
    /// The code of a cell, which is not below the segment's first one; `None` when it is above every cell.
    #[inline(always)]
    fn code(&self, line: u64, cell: u128) -> Option<PlacedCode> {
        // Damaged bytes may place the first cell higher.
        let cell = cell.saturating_sub(self.window() >> self.shift);
        let code = Code::new(line, cell as u64, self.low_bits);
        (cell >> (QUOTIENT_BITS + self.low_bits) == 0).then_some(PlacedCode { code, low_bits: self.low_bits })
    }
}

impl Segments<'_> {
    /// The first code of keys that are above a bound in this segment.
    #[inline(always)]
    fn lower_code(&self, number: u64, end: End<'_>) -> PlacedCode {
        let above = PlacedCode::start_of(number + 1);
        let Some(segment) = self.segment(number) else { return above };
        let Some(rest) = segment.rest_of(end.rest) else { return above };
        match self.cells(&segment).lower(rest, end.is_exclusive) {
            Some(cell) => segment.code(number, cell).unwrap_or(above),
            None => above,
        }
    }

    /// The last code of keys that are below a bound in this segment, or in the one before; `None` when there is none.
    #[inline(always)]
    fn upper_code(&self, number: u64, end: End<'_>) -> Option<PlacedCode> {
        let whole = PlacedCode::end_before(number + 1);
        let Some(segment) = self.segment(number) else { return whole };
        let Some(rest) = segment.rest_of(end.rest) else { return whole };
        match self.cells(&segment).upper(rest, end.is_exclusive) {
            Some(cell) if cell >= segment.window() >> segment.shift => segment.code(number, cell).or(whole),
            _ => PlacedCode::end_before(number),
        }
    }

    /// The codes of keys in a range; `None` when no key of the file can be in it.
    #[inline(always)]
    pub(in crate::range) fn interval(&self, range: KeyRange<'_>, key_bytes: Option<usize>) -> Option<Interval> {
        let range = Self::cut(range, key_bytes);
        self.interval_from(&range, self.lower(range.lower)?)
    }

    /// The codes from the first one on to the range's upper end.
    #[inline(always)]
    fn interval_from(&self, range: &KeyRange<'_>, from: PlacedCode) -> Option<Interval> {
        let to = match range.upper {
            Bound::Unbounded => PlacedCode::end_before(self.count())?,
            Bound::Included(upper) => self.upper(upper, false, from.code.line)?,
            Bound::Excluded(upper) => self.upper(upper, true, from.code.line)?,
        };
        (from.code <= to.code).then_some(Interval { from, to })
    }

    /// The range for keys of this filter: its ends cut to their length, if they have one.
    #[inline(always)]
    fn cut(range: KeyRange<'_>, key_bytes: Option<usize>) -> KeyRange<'_> {
        match key_bytes {
            Some(bytes) => range.of_keys_with_length(bytes),
            None => range,
        }
    }

    /// The first code of keys in a range with this end; `None` when the end is above every key.
    #[inline(always)]
    pub(super) fn lower(&self, lower: Bound<&[u8]>) -> Option<PlacedCode> {
        let (bound, is_exclusive) = match lower {
            Bound::Included(bound) => (bound, false),
            Bound::Excluded(bound) => (bound, true),
            Bound::Unbounded => return Some(PlacedCode::start_of(0)),
        };
        let rest = match self.rest_of(bound) {
            Ok(rest) => rest,
            Err(Beyond::Above) => return None,
            Err(Beyond::Below) => return Some(PlacedCode::start_of(0)),
        };
        match self.place(rest) {
            Some(number) => Some(self.lower_code(number, End { rest, is_exclusive })),
            None => Some(PlacedCode::start_of(0)),
        }
    }

    /// The last code of keys in a range with this end. `near` is the segment of its other end.
    #[inline(always)]
    fn upper(&self, bound: &[u8], is_exclusive: bool, near: u64) -> Option<PlacedCode> {
        let rest = match self.rest_of(bound) {
            Ok(rest) => rest,
            Err(Beyond::Above) => return PlacedCode::end_before(self.count()),
            Err(Beyond::Below) => return None,
        };
        let head = head(rest);
        // Most ranges end in the segment that they begin in.
        let place = match usize::try_from(near) {
            Ok(near_index) if self.is_last_up_to(near, head) => self.settle(rest, head, near_index),
            _ => self.place(rest),
        };
        self.upper_code(place?, End { rest, is_exclusive })
    }
}

/// Whether any code is in the interval.
#[inline(always)]
pub(in crate::range) fn any_in<S: Select>(lines: &Lines<'_>, interval: Interval) -> bool {
    let Interval { from, to } = interval;
    // In one line, an end that is open has no low bits of its own to go by.
    let from_bits = if from.code.line == to.code.line { from.low_bits.max(to.low_bits) } else { from.low_bits };
    lines.any_in::<S>(from.code, to.code, [from_bits, to.low_bits])
}
