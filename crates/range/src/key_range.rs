//! Ranges of keys, and their equivalents among keys of one length.

use core::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys in bytewise order. Each end is inclusive, exclusive or unbounded.
///
/// Converts from Rust's ranges of byte slices and from pairs of bounds:
///
/// ```
/// use std::ops::Bound;
///
/// use sstfilter_range::KeyRange;
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

/// Returns the smallest byte string above all that begin with `prefix`, split into all bytes but the last, and the last
/// one. It is the prefix up to its last byte that is not 0xff, with that byte raised by one. `None` if no byte string
/// is above them.
pub(super) fn successor(prefix: &[u8]) -> Option<(&[u8], u8)> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    Some((prefix.get(..last)?, prefix.get(last)? + 1))
}

/// Returns the bytes of an end, and whether it is exclusive; `None` if it is unbounded.
#[inline(always)]
pub(super) fn end(bound: Bound<&[u8]>) -> Option<(&[u8], bool)> {
    match bound {
        Bound::Included(end) => Some((end, false)),
        Bound::Excluded(end) => Some((end, true)),
        Bound::Unbounded => None,
    }
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
    /// use sstfilter_range::KeyRange;
    ///
    /// assert_eq!(KeyRange::prefix_upper_bound(b"t041"), Bound::Excluded(b"t042".to_vec()));
    /// assert_eq!(KeyRange::prefix_upper_bound(b"a\xff"), Bound::Excluded(b"b".to_vec()));
    /// assert_eq!(KeyRange::prefix_upper_bound(b"\xff"), Bound::Unbounded);
    /// ```
    #[must_use]
    pub fn prefix_upper_bound(prefix: &[u8]) -> Bound<Vec<u8>> {
        successor(prefix).map_or(Bound::Unbounded, |(shared, raised)| Bound::Excluded([shared, &[raised]].concat()))
    }

    /// Whether the range ends before it starts, so that it can contain no key.
    #[must_use]
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
    pub fn contains(&self, key: &[u8]) -> bool {
        RangeBounds::<[u8]>::contains(&(self.lower, self.upper), key)
    }

    /// Returns a range that contains the same keys of `length` bytes and has no longer ends. An exclusive lower end and
    /// an inclusive upper end then have exactly `length` bytes. If keys have various lengths, the range is unchanged.
    #[inline(always)]
    pub(super) fn of_keys_with_length(self, length: Option<usize>) -> Self {
        let Some(length) = length else { return self };
        let lower = match self.lower {
            // A key of this length that is above a longer end is also above the end's first `length` bytes.
            Bound::Included(lower) | Bound::Excluded(lower) if lower.len() > length => {
                Bound::Excluded(lower.get(..length).unwrap_or(lower))
            }
            // No key equals a shorter end. `Cells::lower` expects an exclusive end to have the keys' length.
            Bound::Excluded(lower) if lower.len() < length => Bound::Included(lower),
            lower => lower,
        };
        let upper = match self.upper {
            // A key of this length that is below a longer end is below the end's first `length` bytes, or equal to
            // them.
            Bound::Included(upper) | Bound::Excluded(upper) if upper.len() > length => {
                Bound::Included(upper.get(..length).unwrap_or(upper))
            }
            Bound::Included(upper) if upper.len() < length => Bound::Excluded(upper),
            upper => upper,
        };
        Self { lower, upper }
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
mod tests {
    use super::*;

    /// All strings of up to `most` bytes over an alphabet with the lowest and the highest byte.
    fn strings(most: u32) -> Vec<Vec<u8>> {
        let alphabet = [0, 1, 0xff];
        let of_length = |length: u32| {
            (0..3_usize.pow(length)).map(move |number| {
                (0..length).map(|place| alphabet[number / 3_usize.pow(place) % 3]).collect::<Vec<u8>>()
            })
        };
        (0..=most).flat_map(of_length).collect()
    }

    fn all_ranges(ends: &[Vec<u8>]) -> impl Iterator<Item = KeyRange<'_>> {
        let bounds = |end| [Bound::Included(end), Bound::Excluded(end), Bound::Unbounded];
        let pairs = ends.iter().flat_map(move |lower| ends.iter().map(move |upper| (lower, upper)));
        pairs.flat_map(move |(lower, upper)| {
            bounds(lower).into_iter().flat_map(move |lower| bounds(upper).map(|upper| KeyRange::from((lower, upper))))
        })
    }

    #[test]
    fn an_empty_range_contains_nothing() {
        let ends = strings(2);
        for range in all_ranges(&ends).filter(KeyRange::is_empty) {
            assert!(!ends.iter().any(|key| range.contains(key)), "{range:?}");
        }
    }

    #[test]
    fn for_keys_of_one_length_ends_are_cut_to_it_without_gain_or_loss() {
        let ends = strings(3);
        for length in 1..=3 {
            let keys: Vec<_> = strings(3).into_iter().filter(|key| key.len() == length).collect();
            for range in all_ranges(&ends) {
                let cut = range.of_keys_with_length(Some(length));
                assert!(keys.iter().all(|key| range.contains(key) == cut.contains(key)), "{range:?} {cut:?}");
                assert!(!matches!(cut.lower, Bound::Excluded(end) if end.len() != length), "{cut:?}");
                assert!(!matches!(cut.upper, Bound::Included(end) if end.len() != length), "{cut:?}");
            }
        }
    }
}
