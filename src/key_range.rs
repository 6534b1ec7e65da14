//! Ranges of keys.

use alloc::vec::Vec;
use core::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys in bytewise order. Each end is inclusive, exclusive or unbounded.
///
/// Converts from Rust's ranges of byte slices and from pairs of bounds:
///
/// ```
/// use std::ops::Bound;
///
/// use sstfilter::KeyRange;
///
/// let names = KeyRange::from(&b"apple"[..]..&b"plum"[..]);
/// assert_eq!(names.lower, Bound::Included(&b"apple"[..]));
/// assert!(!names.is_empty());
/// let after = KeyRange::from((Bound::Excluded(&b"apple"[..]), Bound::Unbounded));
/// assert!(after.contains(b"apple\0") && !after.contains(b"apple"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange<'a> {
    /// Lower end.
    pub lower: Bound<&'a [u8]>,
    /// Upper end.
    pub upper: Bound<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Returns the upper end of the range of all keys that begin with `prefix`; the lower end is the prefix itself.
    ///
    /// Hashed filters with prefixes recognize exactly this end. With any other end outside the prefix, they answer "may
    /// be present".
    ///
    /// ```
    /// use std::ops::Bound;
    ///
    /// use sstfilter::KeyRange;
    ///
    /// assert_eq!(KeyRange::prefix_upper_bound(b"t041"), Bound::Excluded(b"t042".to_vec()));
    /// assert_eq!(KeyRange::prefix_upper_bound(b"a\xff"), Bound::Excluded(b"b".to_vec()));
    /// assert_eq!(KeyRange::prefix_upper_bound(b"\xff"), Bound::Unbounded);
    /// ```
    #[must_use]
    pub fn prefix_upper_bound(prefix: &[u8]) -> Bound<Vec<u8>> {
        // Bytes of 255 have none above them.
        let last = prefix.iter().rposition(|&byte| byte != u8::MAX);
        let mut upper = prefix.split_at(last.map_or(0, |last| last + 1)).0.to_vec();
        match upper.last_mut() {
            Some(last) => *last += 1,
            None => return Bound::Unbounded,
        }
        Bound::Excluded(upper)
    }

    /// Whether the range ends before it starts, so that it can contain no key.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        match (self.lower, self.upper) {
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (Bound::Included(lower) | Bound::Excluded(lower), Bound::Excluded(upper))
            | (Bound::Excluded(lower), Bound::Included(upper)) => lower >= upper,
            // Nothing is below the empty key.
            (Bound::Unbounded, Bound::Excluded(upper)) => upper.is_empty(),
            _ => false,
        }
    }

    /// Whether `key` is in the range.
    #[must_use]
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        RangeBounds::<[u8]>::contains(&(self.lower, self.upper), key)
    }
}

impl<'a, K: AsRef<[u8]> + ?Sized> From<(Bound<&'a K>, Bound<&'a K>)> for KeyRange<'a> {
    fn from((lower, upper): (Bound<&'a K>, Bound<&'a K>)) -> Self {
        Self { lower: lower.map(AsRef::as_ref), upper: upper.map(AsRef::as_ref) }
    }
}

/// Implements `From` for one of Rust's range types.
macro_rules! from_range {
    ($($range:ident($name:pat) => $lower:expr, $upper:expr;)+) => {
        $(impl<'a, K: AsRef<[u8]> + ?Sized> From<$range<&'a K>> for KeyRange<'a> {
            fn from($name: $range<&'a K>) -> Self {
                Self::from(($lower, $upper))
            }
        })+
    };
}

from_range! {
    Range(range) => Bound::Included(range.start), Bound::Excluded(range.end);
    RangeInclusive(range) => Bound::Included(*range.start()), Bound::Included(*range.end());
    RangeFrom(range) => Bound::Included(range.start), Bound::Unbounded;
    RangeTo(range) => Bound::Unbounded, Bound::Excluded(range.end);
    RangeToInclusive(range) => Bound::Unbounded, Bound::Included(range.end);
}

impl From<RangeFull> for KeyRange<'_> {
    fn from(_: RangeFull) -> Self {
        Self { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }
}

#[cfg(test)]
#[path = "../tests/common/short_ranges.rs"]
mod short_ranges;

#[cfg(test)]
mod tests {
    use super::short_ranges::{all_ranges, strings};
    use super::*;

    #[test]
    fn an_empty_range_contains_nothing() {
        let ends = strings(2);
        for range in all_ranges(&ends).filter(KeyRange::is_empty) {
            assert!(!ends.iter().any(|key| range.contains(key)), "{range:?}");
        }
    }
}
