//! Answers whether a range may contain a key, from hashed codes.

use core::ops::Bound;
use std::sync::Arc;

use sstfilter::internal::code_line::Select;
use sstfilter::{KeyExtractor, KeyHash, KeyHasher};

use super::{chunk_hash, chunk_start};
use crate::key_range::{end, of_keys_with_length, successor};
use crate::lines::{Code, Lines};
use crate::params::{HashedMap, RangeShape};
use crate::window::Cells;
use sstfilter::KeyRange;
use sstfilter::internal::key_head::head;

/// The units of the keys in a range with one prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitRange {
    prefix: KeyHash,
    from: u64,
    to: u64,
}

/// How the keys of a filter were hashed.
#[derive(Clone, Debug)]
pub(crate) struct Hashing {
    hasher: KeyHasher,
    extractor: Option<Arc<dyn KeyExtractor>>,
    /// The hash of the empty prefix.
    empty_prefix: KeyHash,
}

impl Hashing {
    pub(crate) fn new(hasher: KeyHasher, extractor: Option<Arc<dyn KeyExtractor>>) -> Self {
        let empty_prefix = hasher.hash(b"");
        Self { hasher, extractor, empty_prefix }
    }

    /// Whether the key is in the extractor's domain. Without an extractor, every key is.
    pub(crate) fn has_prefix(&self, key: &[u8]) -> bool {
        self.extractor.as_ref().is_none_or(|extractor| extractor.extract(key).is_some())
    }

    /// Returns the prefix's length and hash, and the range's ends after the prefix. `None` if keys in the range may
    /// have several prefixes, or none.
    #[inline(always)]
    fn within<'a>(&self, range: KeyRange<'a>) -> Option<(usize, KeyHash, KeyRange<'a>)> {
        match &self.extractor {
            None => Some((0, self.empty_prefix, range)),
            Some(extractor) => self.within_prefix(extractor.as_ref(), range),
        }
    }

    fn within_prefix<'a>(
        &self,
        extractor: &dyn KeyExtractor,
        range: KeyRange<'a>,
    ) -> Option<(usize, KeyHash, KeyRange<'a>)> {
        let (Bound::Included(lower) | Bound::Excluded(lower)) = range.lower else { return None };
        let part = extractor.extract(lower)?;
        let lower_rest = lower.strip_prefix(part.as_ref())?;
        // If the part of the part is itself, all keys that begin with it have this part. Two ends with the part have
        // only such keys between them.
        if extractor.extract_prefix(&part).as_ref() != Some(&part) {
            return None;
        }
        let upper = match range.upper {
            Bound::Excluded(upper) if upper.split_last().map(|(last, shared)| (shared, *last)) == successor(&part) => {
                Bound::Unbounded
            }
            Bound::Excluded(upper) => Bound::Excluded(upper.strip_prefix(part.as_ref())?),
            Bound::Included(upper) => Bound::Included(upper.strip_prefix(part.as_ref())?),
            Bound::Unbounded => return None,
        };
        let lower = range.lower.map(|_| lower_rest);
        Some((part.len(), self.hasher.hash(&part), KeyRange { lower, upper }))
    }

    /// Returns the units of the keys in a range, or the answer if it follows without the codes.
    #[inline(always)]
    pub(crate) fn units(&self, shape: &RangeShape, map: &HashedMap, range: KeyRange<'_>) -> Result<UnitRange, bool> {
        let key_bytes = shape.key_bytes.map(|bytes| bytes as usize);
        // The most frequent ranges: the general way below has the same result, with numbers twice as wide.
        if let (None, Bound::Included(lower), Bound::Included(upper)) = (&self.extractor, range.lower, range.upper)
            && key_bytes.is_none_or(|bytes| lower.len() == bytes && upper.len() == bytes)
        {
            let (from, to) = (head(lower) >> map.unit_shift, head(upper) >> map.unit_shift);
            let is_held = from <= to && shape.lines != 0;
            return if is_held { Ok(UnitRange { prefix: self.empty_prefix, from, to }) } else { Err(false) };
        }
        let Some((prefix_bytes, prefix, rest)) = self.within(of_keys_with_length(range, key_bytes)) else {
            return Err(true);
        };
        let rest_bytes = match key_bytes {
            // The prefix is longer than every key, so no key has it.
            Some(bytes) if bytes < prefix_bytes => return Err(false),
            bytes => bytes.map(|bytes| bytes - prefix_bytes),
        };
        let cells = Cells { shift: 64 + map.unit_shift, rest_bytes };
        let last = u64::MAX >> map.unit_shift;
        let from = match end(rest.lower) {
            Some((lower, is_exclusive)) => cells.lower(lower, is_exclusive),
            None => Some(0),
        };
        let to = match end(rest.upper) {
            Some((upper, is_exclusive)) => cells.upper(upper, is_exclusive),
            None => Some(last.into()),
        };
        match (from, to) {
            // Without codes, all keys of the file are outside the extractor's domain, and keys in the range would be
            // inside.
            _ if shape.lines == 0 => Err(false),
            (Some(from), Some(to)) if from <= to => Ok(UnitRange { prefix, from: from as u64, to: to as u64 }),
            _ => Err(false),
        }
    }
}

impl UnitRange {
    /// Returns the first and the last code if they form one interval: the range stays in its chunk and does not wrap
    /// around.
    #[inline(always)]
    pub(crate) fn interval(&self, shape: &RangeShape, map: &HashedMap) -> Option<(Code, Code)> {
        let chunk = self.from >> map.chunk_bits;
        let start = chunk_start(chunk_hash(self.prefix, chunk), shape.code_space());
        let mask = (1 << map.chunk_bits) - 1;
        let to = start + (self.to & mask);
        let is_one = chunk == self.to >> map.chunk_bits && to < shape.code_space();
        is_one.then(|| (code(shape, start + (self.from & mask)), code(shape, to)))
    }

    /// Whether a key may be in a range that crosses into the next chunk or wraps around: up to four intervals. Longer
    /// ranges are always positive.
    #[cold]
    #[inline(never)]
    pub(crate) fn any_in_chunks<S: Select>(&self, shape: &RangeShape, map: &HashedMap, lines: &Lines<'_>) -> bool {
        let (first, last) = (self.from >> map.chunk_bits, self.to >> map.chunk_bits);
        let mask = (1 << map.chunk_bits) - 1;
        let any = |chunk: u64, from: u64, to: u64| self.any_in_chunk::<S>(shape, lines, chunk, (from, to));
        match last - first {
            0 => any(first, self.from & mask, self.to & mask),
            1 => any(first, self.from & mask, mask) || any(last, 0, self.to & mask),
            // Three chunks or more: the range contains a whole chunk, so it is longer than the policy declared.
            _ => true,
        }
    }

    fn any_in_chunk<S: Select>(
        &self,
        shape: &RangeShape,
        lines: &Lines<'_>,
        chunk: u64,
        (from, to): (u64, u64),
    ) -> bool {
        let space = shape.code_space();
        // Such a range covers the whole space.
        if to - from >= space {
            return true;
        }
        let start = chunk_start(chunk_hash(self.prefix, chunk), space);
        let any = |from, to| lines.any_in::<S>(code(shape, from), code(shape, to));
        match (start + from, start + to) {
            (from, to) if to < space => any(from, to),
            (from, to) if from >= space => any(from - space, to - space),
            (from, to) => any(from, space - 1) || any(0, to - space),
        }
    }
}

/// Returns the code of a number.
#[inline(always)]
fn code(shape: &RangeShape, number: u64) -> Code {
    let bits = shape.cell_bits();
    Code::new(number >> bits, number & ((1 << bits) - 1), shape.low_bits)
}
