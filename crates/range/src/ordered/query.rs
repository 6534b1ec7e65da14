//! Answers from ordered codes whether a range may contain a key, and computes seek hints.

use core::ops::Bound;

use sstfilter::internal::code_line::{QUOTIENT_BITS, Select};

use super::segments::{Segment, Segments};
use crate::key_range::{Beyond, end, of_keys_with_length};
use crate::lines::{Code, Lines};
use sstfilter::KeyRange;
use sstfilter::internal::key_head::head;

impl Segment<'_> {
    /// Returns the code of a cell, which must not be below the segment's first one; `None` if it is above every cell.
    #[inline(always)]
    fn code(&self, line: u64, cell: u128) -> Option<Code> {
        // Saturating, because damaged bytes may place the first cell higher.
        let cell = cell.saturating_sub(self.window() >> self.shift);
        (cell >> (QUOTIENT_BITS + self.low_bits) == 0).then_some(Code::new(line, cell as u64, self.low_bits))
    }
}

impl Segments<'_> {
    /// Returns the first code of keys above a bound in this segment.
    #[inline(always)]
    fn lower_code(&self, number: u64, rest: &[u8], is_exclusive: bool) -> Code {
        let above = Code::start_of(number + 1);
        let Some(segment) = self.segment(number) else { return above };
        let Some(rest) = segment.rest_of(rest) else { return above };
        match self.cells(&segment).lower(rest, is_exclusive) {
            Some(cell) => segment.code(number, cell).unwrap_or(above),
            None => above,
        }
    }

    /// Returns the last code of keys below a bound in this segment, or the end of the previous segment; `None` if there
    /// is none.
    #[inline(always)]
    fn upper_code(&self, number: u64, rest: &[u8], is_exclusive: bool) -> Option<Code> {
        let whole = Some(Code::end_of(number));
        let Some(segment) = self.segment(number) else { return whole };
        let Some(rest) = segment.rest_of(rest) else { return whole };
        match self.cells(&segment).upper(rest, is_exclusive) {
            Some(cell) if cell >= segment.window() >> segment.shift => segment.code(number, cell).or(whole),
            _ => Some(Code::end_of(number.checked_sub(1)?)),
        }
    }

    /// Returns the first and the last code of keys in a range; `None` if no key of the file can be in it.
    #[inline(always)]
    pub(crate) fn interval(&self, range: KeyRange<'_>) -> Option<(Code, Code)> {
        let range = of_keys_with_length(range, self.key_bytes);
        let from = self.lower(range.lower)?;
        let to = self.upper(range.upper, from.line)?;
        (from.position() <= to.position()).then_some((from, to))
    }

    /// Returns the first code of keys in a range with this lower end; `None` if the end is above every key.
    #[inline(always)]
    fn lower(&self, lower: Bound<&[u8]>) -> Option<Code> {
        let Some((bound, is_exclusive)) = end(lower) else { return Some(Code::start_of(0)) };
        let rest = match self.rest_of(bound) {
            Ok(rest) => rest,
            Err(Beyond::Above) => return None,
            Err(Beyond::Below) => return Some(Code::start_of(0)),
        };
        match self.place(rest) {
            Some(number) => Some(self.lower_code(number, rest, is_exclusive)),
            None => Some(Code::start_of(0)),
        }
    }

    /// Returns the last code of keys in a range with this upper end. `near` is the segment of the lower end.
    #[inline(always)]
    fn upper(&self, upper: Bound<&[u8]>, near: u64) -> Option<Code> {
        let last = Code::end_of(self.count().checked_sub(1)?);
        let Some((bound, is_exclusive)) = end(upper) else { return Some(last) };
        let rest = match self.rest_of(bound) {
            Ok(rest) => rest,
            Err(Beyond::Above) => return Some(last),
            Err(Beyond::Below) => return None,
        };
        let head = head(rest);
        // Most ranges end in the segment in which they begin, which saves the search.
        let place = match usize::try_from(near) {
            Ok(near_index) if self.is_last_up_to(near, head) => self.settle(rest, head, near_index),
            _ => self.place(rest),
        };
        self.upper_code(place?, rest, is_exclusive)
    }

    /// Returns a lower bound of the first key at or above `lower`; `None` if there is no such key.
    pub(crate) fn seek_hint<S: Select>(&self, lines: &Lines<'_>, lower: &[u8]) -> Option<Vec<u8>> {
        let from = self.lower(of_keys_with_length(KeyRange::from(lower..), self.key_bytes).lower)?;
        let least = self.min_key(lines.first_from::<S>(from, |line| self.low_bits(line))?);
        // The smallest byte string of the cell of `lower` itself may be below `lower`.
        Some(if least.as_slice() < lower { lower.to_vec() } else { least })
    }

    /// Returns the smallest byte string that can have this code: the bytes that its segment shares, and the first bytes
    /// of its cell. Omits trailing zeros, because they may be padding.
    fn min_key(&self, code: Code) -> Vec<u8> {
        let Some(segment) = self.segment(code.line) else { return Vec::new() };
        let mut key = self.common.to_vec();
        segment.append_shared(&mut key);
        let cell = u128::from(code.quotient) << segment.low_bits | u128::from(code.low);
        let cell = (segment.window() >> segment.shift).saturating_add(cell);
        let bytes = cell.checked_shl(segment.shift).unwrap_or(0).swap_bytes().to_le_bytes();
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        key.extend_from_slice(bytes.get(..end).unwrap_or_default());
        key
    }
}
