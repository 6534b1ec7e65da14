//! Answers from exact codes.

use core::ops::Bound;

use byteorder::{BigEndian, ByteOrder};
use sstfilter::KeyRange;
use sstfilter::internal::code_line::{Portable, Select};
use sstfilter::internal::key_head::{head, partition_point};

use super::super::key_range::{Beyond, end, of_keys_with_length, rest_after};
use super::super::params::{ExactMap, RangeShape, SAMPLE_QUOTIENTS};
use super::tree::Tree;

/// The form of a file's keys: their length, and the bytes before the integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form<'a> {
    pub(crate) key_bytes: usize,
    pub(crate) prefix: &'a [u8],
}

impl<'a> Form<'a> {
    /// Returns the form of a filter's keys. The bytes before the integer are the last in a payload.
    #[inline(always)]
    pub(crate) fn in_payload(shape: &RangeShape, payload: &'a [u8]) -> Self {
        let key_bytes = shape.key_bytes.unwrap_or(0) as usize;
        let Some(prefix_bytes @ 1..) = key_bytes.checked_sub(8) else { return Self { key_bytes, prefix: &[] } };
        let at = payload.len().saturating_sub(prefix_bytes.next_multiple_of(8));
        Self { key_bytes, prefix: payload.get(at..at + prefix_bytes).unwrap_or_default() }
    }

    /// Returns the form of keys with the same length and first bytes as `key`.
    pub(crate) fn of(key: &'a [u8]) -> Self {
        Self { key_bytes: key.len(), prefix: key.get(..key.len().saturating_sub(8)).unwrap_or_default() }
    }

    /// Returns the integer of a key; `None` for a key of another form.
    #[inline(always)]
    pub(crate) fn integer(&self, key: &[u8]) -> Option<u64> {
        if key.len() != self.key_bytes {
            return None;
        }
        match key.split_last_chunk::<8>() {
            Some((prefix, &integer)) => rest_after(self.prefix, prefix).ok().map(|_| BigEndian::read_u64(&integer)),
            None => Some(self.of_head(key)),
        }
    }

    /// Returns the integer of at most eight bytes.
    #[inline(always)]
    fn of_head(&self, bytes: &[u8]) -> u64 {
        head(bytes) >> (64 - 8 * self.key_bytes.clamp(1, 8) as u32)
    }

    /// Returns the integer of an end that is not longer than keys, padded with zeros.
    #[inline(always)]
    fn padded(&self, end: &[u8]) -> Result<u64, Beyond> {
        rest_after(self.prefix, end).map(|rest| self.of_head(rest))
    }
}

impl ExactMap {
    /// Returns the code of a key; `None` if no key of the file has one.
    #[inline(always)]
    pub(crate) fn code(&self, form: &Form<'_>, key: &[u8]) -> Option<u64> {
        Some(form.integer(key)?.wrapping_sub(self.first)).filter(|&code| code <= self.span)
    }
}

/// Returns 1 if a bitmap has a code, otherwise 0: a number, because a branch on it would be unpredictable. Bytes that
/// have become shorter since they were opened may have had any code.
#[inline(always)]
pub(crate) fn bit(payload: &[u8], code: u64) -> u64 {
    payload.get((code / 8) as usize).map_or(1, |byte| u64::from(byte >> (code % 8) & 1))
}

/// The parts of a payload. Damaged bytes cause wrong answers, but never a panic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact<'a> {
    form: Form<'a>,
    map: ExactMap,
    low_bits: u32,
    tree: Tree<'a>,
    /// The low bits of all codes; empty for a bitmap.
    lows: &'a [u8],
    /// For each 256th quotient, where its unary part begins.
    samples: &'a [[u8; 4]],
}

impl<'a> Exact<'a> {
    /// `upper`, `lows` and `samples` are parts of `payload`, the third with what follows it.
    #[inline(always)]
    pub(crate) fn new(
        shape: &RangeShape,
        map: ExactMap,
        payload: &'a [u8],
        [upper, lows, samples]: [&'a [u8]; 3],
    ) -> Self {
        let tree = Tree::new(upper, shape.upper_bits());
        let form = Form::in_payload(shape, payload);
        Self { form, map, low_bits: shape.low_bits, tree, lows, samples: samples.as_chunks().0 }
    }

    /// Whether the file has a key with this code, which is split.
    #[inline(always)]
    pub(crate) fn has_code<S: Select>(&self, code: u64) -> bool {
        self.in_run::<S>(code).is_ok_and(|found| found == code)
    }

    /// Whether the file has a key in the range.
    #[inline(always)]
    pub(crate) fn any_in<S: Select>(&self, range: KeyRange<'_>) -> bool {
        if range.is_empty() {
            return false;
        }
        let range = of_keys_with_length(range, Some(self.form.key_bytes));
        let (Some(lowest), Some(highest)) = (self.lowest(range.lower), self.highest(range.upper)) else { return false };
        lowest <= highest && self.first_from::<S>(lowest).is_some_and(|code| code <= highest)
    }

    /// Returns the first key at or above `lower`.
    pub(crate) fn next_key(&self, lower: &[u8]) -> Option<Vec<u8>> {
        let range = of_keys_with_length(KeyRange::from(lower..), Some(self.form.key_bytes));
        let code = self.first_from::<Portable>(self.lowest(range.lower)?)?;
        let integer = self.map.first.saturating_add(code).swap_bytes().to_le_bytes();
        let own_bytes = integer.get(8 - self.form.key_bytes.min(8)..).unwrap_or_default();
        Some([self.form.prefix, own_bytes].concat())
    }

    /// Returns the lowest code of keys above a lower end; `None` if it is above all.
    #[inline(always)]
    fn lowest(&self, lower: Bound<&[u8]>) -> Option<u64> {
        let Some((bound, is_exclusive)) = end(lower) else { return Some(0) };
        let integer = match self.form.padded(bound) {
            Err(Beyond::Below) => return Some(0),
            Err(Beyond::Above) => return None,
            // An exclusive end has the length of keys.
            Ok(integer) => integer.checked_add(is_exclusive.into())?,
        };
        Some(integer.saturating_sub(self.map.first)).filter(|&code| code <= self.map.span)
    }

    /// Returns the highest code of keys below an upper end; `None` if it is below all.
    #[inline(always)]
    fn highest(&self, upper: Bound<&[u8]>) -> Option<u64> {
        let Some((bound, is_exclusive)) = end(upper) else { return Some(self.map.span) };
        let integer = match self.form.padded(bound) {
            Err(Beyond::Below) => return None,
            Err(Beyond::Above) => return Some(self.map.span),
            Ok(integer) => integer.checked_sub(is_exclusive.into())?,
        };
        Some(integer.checked_sub(self.map.first)?.min(self.map.span))
    }

    /// Returns the first code that is not below `code`.
    #[inline(always)]
    fn first_from<S: Select>(&self, code: u64) -> Option<u64> {
        if self.low_bits == 0 {
            return self.tree.first_from(code);
        }
        match self.in_run::<S>(code) {
            Ok(found) => Some(found),
            Err((end, rank)) => {
                let next = self.tree.first_from(end)?;
                // Each set bit is a code and each other ends a quotient. There are no codes in between.
                Some(next.saturating_sub(rank) << self.low_bits | self.low(rank))
            }
        }
    }

    /// Returns the first code that is not below `code` and has its quotient. If there is none, returns where the codes
    /// of the quotient end, and how many codes come before that.
    #[inline(always)]
    fn in_run<S: Select>(&self, code: u64) -> Result<u64, (u64, u64)> {
        let (quotient, low) = (code >> self.low_bits, code & ((1 << self.low_bits) - 1));
        let start = self.start::<S>(quotient);
        let rank = start.saturating_sub(quotient);
        let run = self.tree.ones_from(start);
        let above = partition_point(0..run as usize, |at| self.low(rank + at as u64) < low) as u64;
        if above < run { Ok(code ^ low | self.low(rank + above)) } else { Err((start + run, rank + run)) }
    }

    /// Returns the position of a quotient's first bit: the one after as many zeros.
    #[inline(always)]
    fn start<S: Select>(&self, quotient: u64) -> u64 {
        let sample = self.samples.get((quotient / SAMPLE_QUOTIENTS) as usize).copied().unwrap_or_default();
        let (sample, mut left) = (u64::from(u32::from_le_bytes(sample)), (quotient % SAMPLE_QUOTIENTS) as u32);
        if left == 0 {
            return sample;
        }
        let mut number = sample / 64;
        let mut zeros = !self.tree.word(number) & u64::MAX << (sample % 64);
        // Ends: words beyond the last are zeros.
        while zeros.count_ones() < left {
            left -= zeros.count_ones();
            number += 1;
            zeros = !self.tree.word(number);
        }
        number * 64 + u64::from(S::select_in_word(zeros, left - 1)) + 1
    }

    /// Returns the low bits of a code.
    #[inline(always)]
    fn low(&self, rank: u64) -> u64 {
        let bit = rank * u64::from(self.low_bits);
        // Eight bytes of padding follow the last.
        let word = self.lows.get((bit / 8) as usize..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |&word| u64::from_le_bytes(word) >> (bit % 8)) & ((1 << self.low_bits) - 1)
    }
}
