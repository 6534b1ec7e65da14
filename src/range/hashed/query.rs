//! Whether a range may hold a key, by hashed codes.

use core::ops::Bound;
use std::sync::Arc;

use super::{chunk_hash, chunk_start};
use crate::hash::{KeyExtractor, KeyHash, KeyHasher};
use crate::range::key_range::KeyRange;
use crate::range::lines::{Code, Lines, Select};
use crate::range::params::{HashedMap, RangeShape};
use crate::range::window::Cells;

/// What a query knows of its range before it reads the filter.
#[derive(Clone, Copy, Debug)]
pub(in crate::range) enum Query {
    /// No key can be in the range.
    Empty,
    /// The map does not tell.
    Unknown,
    /// The intervals of codes that keys in the range have.
    Intervals(Intervals),
}

/// Up to four intervals: a range may cross into the next chunk, and each chunk may wrap around.
#[derive(Clone, Copy, Debug)]
pub(in crate::range) struct Intervals {
    intervals: [(u64, u64); 4],
    count: usize,
}

impl Intervals {
    const fn new() -> Self {
        Self { intervals: [(0, 0); 4], count: 0 }
    }

    #[inline(always)]
    fn push(&mut self, from: u64, to: u64) {
        if let Some(slot) = self.intervals.get_mut(self.count) {
            *slot = (from, to);
            self.count += 1;
        }
    }

    #[inline(always)]
    pub(in crate::range) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.intervals.iter().copied().take(self.count)
    }
}

/// How the keys of a filter were hashed.
#[derive(Clone, Debug)]
pub(in crate::range) struct Hashing {
    hasher: KeyHasher,
    extractor: Option<Arc<dyn KeyExtractor>>,
    /// The hash of no prefix.
    empty_prefix: KeyHash,
}

/// The first key after all keys with this prefix, if `end` is it: the prefix with its last byte that is not 0xff raised
/// by one, and cut after it.
fn is_successor(end: &[u8], prefix: &[u8]) -> bool {
    let Some(last) = prefix.iter().rposition(|&byte| byte != 0xff) else { return false };
    let Some((raised, shared)) = end.split_last() else { return false };
    prefix.get(..last) == Some(shared) && prefix.get(last).is_some_and(|byte| byte + 1 == *raised)
}

impl Hashing {
    pub(in crate::range) fn new(hasher: KeyHasher, extractor: Option<Arc<dyn KeyExtractor>>) -> Self {
        let empty_prefix = hasher.hash(b"");
        Self { hasher, extractor, empty_prefix }
    }

    /// The range's ends after its prefix, and the prefix's length and hash. `None` when keys in the range may have
    /// several prefixes, or none.
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
        // Then all keys that begin with the part have it, and those are all keys between two such ends.
        if extractor.extract_prefix(&part).as_ref() != Some(&part) {
            return None;
        }
        let upper = match range.upper {
            Bound::Excluded(upper) if is_successor(upper, &part) => Bound::Unbounded,
            Bound::Excluded(upper) => Bound::Excluded(upper.strip_prefix(part.as_ref())?),
            Bound::Included(upper) => Bound::Included(upper.strip_prefix(part.as_ref())?),
            Bound::Unbounded => return None,
        };
        let lower = range.lower.map(|_| lower_rest);
        Some((part.len(), self.hasher.hash(&part), KeyRange { lower, upper }))
    }

    /// The codes of keys in a range that is not empty.
    #[inline(always)]
    pub(in crate::range) fn query(&self, shape: &RangeShape, map: &HashedMap, range: KeyRange<'_>) -> Query {
        let key_bytes = shape.key_bytes.map(|bytes| bytes as usize);
        let range = key_bytes.map_or(range, |bytes| range.of_keys_with_length(bytes));
        let Some((prefix_bytes, prefix, rest)) = self.within(range) else { return Query::Unknown };
        let rest_bytes = match key_bytes {
            // A prefix longer than every key: no key has it.
            Some(bytes) if bytes < prefix_bytes => return Query::Empty,
            bytes => bytes.map(|bytes| bytes - prefix_bytes),
        };
        let cells = Cells { shift: 64 + map.unit_shift, rest_bytes };
        let last = u64::MAX >> map.unit_shift;
        let from = match rest.lower {
            Bound::Included(lower) => cells.lower(lower, false),
            Bound::Excluded(lower) => cells.lower(lower, true),
            Bound::Unbounded => Some(0),
        };
        let to = match rest.upper {
            Bound::Included(upper) => cells.upper(upper, false),
            Bound::Excluded(upper) => cells.upper(upper, true),
            Bound::Unbounded => Some(last.into()),
        };
        match (from, to) {
            (Some(from), Some(to)) if from <= to => Self::intervals(shape, map, prefix, from as u64, to as u64),
            _ => Query::Empty,
        }
    }

    /// The intervals of `from..=to` units after a prefix.
    #[inline(always)]
    fn intervals(shape: &RangeShape, map: &HashedMap, prefix: KeyHash, from: u64, to: u64) -> Query {
        let space = shape.code_space();
        let (first, last) = (from >> map.chunk_bits, to >> map.chunk_bits);
        if last - first > 1 || to - from >= space {
            return Query::Unknown;
        }
        let mut intervals = Intervals::new();
        let mut add = |chunk: u64, from: u64, to: u64| {
            let start = chunk_start(chunk_hash(prefix, chunk), space);
            let (from, to) = (start + from, start + to);
            if to < space {
                intervals.push(from, to);
            } else if from >= space {
                intervals.push(from - space, to - space);
            } else {
                intervals.push(from, space - 1);
                intervals.push(0, to - space);
            }
        };
        let mask = (1 << map.chunk_bits) - 1;
        if first == last {
            add(first, from & mask, to & mask);
        } else {
            add(first, from & mask, mask);
            add(last, 0, to & mask);
        }
        Query::Intervals(intervals)
    }
}

/// The code of a number.
#[inline(always)]
pub(in crate::range) fn code(shape: &RangeShape, number: u64) -> Code {
    let bits = shape.cell_bits();
    Code::new(number >> bits, number & ((1 << bits) - 1), shape.low_bits)
}

/// Whether any code is in one of the intervals.
#[inline(always)]
pub(in crate::range) fn any_in<S: Select>(shape: &RangeShape, lines: &Lines<'_>, intervals: &Intervals) -> bool {
    intervals.iter().any(|(from, to)| lines.any_in::<S>(code(shape, from), code(shape, to), [shape.low_bits; 2]))
}
