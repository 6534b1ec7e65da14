//! The ends of a scan, which outlive what they were made from.

use core::ops::Bound;

use bytes::Bytes;

use crate::range::KeyRange;

/// A range of keys that owns its ends. Clones share their bytes.
#[derive(Clone, Debug)]
pub(crate) struct KeyBounds {
    lower: Bound<Bytes>,
    upper: Bound<Bytes>,
    /// The least byte string that the range may contain: an exclusive lower end has a zero appended here.
    start: Bytes,
}

impl KeyBounds {
    pub(crate) fn new(range: KeyRange<'_>) -> Self {
        let lower = range.lower.map(Bytes::copy_from_slice);
        let start = match &lower {
            Bound::Included(lower) => lower.clone(),
            Bound::Excluded(lower) => Bytes::from([lower, &b"\0"[..]].concat()),
            Bound::Unbounded => Bytes::new(),
        };
        Self { lower, upper: range.upper.map(Bytes::copy_from_slice), start }
    }

    /// All keys that begin with `prefix`: from the prefix on to the least byte string above all of them, if there is
    /// one.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        let start = Bytes::copy_from_slice(prefix);
        Self { lower: Bound::Included(start.clone()), upper: KeyRange::end_of_prefix(prefix).map(Bytes::from), start }
    }

    pub(crate) fn range(&self) -> KeyRange<'_> {
        KeyRange::from((self.lower.as_ref(), self.upper.as_ref()))
    }

    /// Where a walk of the range begins. No byte string below it is in the range; it is, unless the range is empty.
    pub(crate) fn start(&self) -> &Bytes {
        &self.start
    }

    pub(crate) fn upper(&self) -> &Bound<Bytes> {
        &self.upper
    }

    /// Whether a key that is not below the start is above the range.
    pub(crate) fn end_before(&self, key: &[u8]) -> bool {
        is_beyond(&self.upper, key)
    }
}

/// Whether `key` is above everything that this upper end allows.
pub(crate) fn is_beyond(upper: &Bound<Bytes>, key: &[u8]) -> bool {
    match upper {
        Bound::Included(upper) => key > upper,
        Bound::Excluded(upper) => key >= upper,
        Bound::Unbounded => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_a_prefix_contain_the_keys_that_begin_with_it_and_no_others() {
        let keys = [&b""[..], b"a", b"a\xff", b"a\xff\0", b"a\xff\xff", b"b", b"b\0", b"\xff", b"\xff\0", b"\xff\xff"];
        for prefix in [&b""[..], b"a", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff", b"\0"] {
            let bounds = KeyBounds::of_prefix(prefix);
            for key in keys {
                assert_eq!(bounds.range().contains(key), key.starts_with(prefix), "{prefix:?} {key:?}");
            }
        }
    }

    #[test]
    fn a_walk_begins_at_the_least_key_that_its_range_contains() {
        let lower = |lower| KeyBounds::new(KeyRange { lower, upper: Bound::Unbounded });
        assert_eq!(lower(Bound::Unbounded).start(), "");
        assert_eq!(lower(Bound::Included(b"a")).start(), "a");
        assert_eq!(lower(Bound::Excluded(b"a")).start(), "a\0");
    }
}
