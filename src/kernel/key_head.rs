//! Searches sorted keys by their heads.
//!
//! Comparing whole keys costs a call and at least one cache miss each. The head of a key is its first eight bytes after
//! the prefix that it shares with its neighbours, as a number that has the order of the bytes. Heads are contiguous,
//! eight to a cache line, and different heads decide. Only keys with equal heads are compared whole.
//!
//! A [`SharedPrefix`] is separate from the heads, so that one prefix can serve many arrays of heads: a lookup computes
//! the head of its key once, and calls [`lower_bound`] for each array.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use byteorder::{BigEndian, ByteOrder};

/// Returns the first eight bytes as a big-endian number, padded with zeros.
///
/// `a <= b` implies `head(a) <= head(b)`. The converse fails for bytes that differ in trailing zeros or after the
/// eighth byte.
#[expect(clippy::inline_always, reason = "kernels for ranges call it, and inline all that they call")]
#[inline(always)]
#[must_use]
pub fn head(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        BigEndian::read_u64(first)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // 4 to 7 bytes: the last four overlap the first.
        let overlap = 8 * (8 - bytes.len());
        u64::from(BigEndian::read_u32(first)) << 32 | u64::from(BigEndian::read_u32(last)) << overlap
    } else {
        bytes.iter().fold((0, 56), |(number, shift), &byte| (number | u64::from(byte) << shift, shift - 8)).0
    }
}

/// Returns the length of the longest common prefix.
#[must_use]
#[inline]
pub fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

/// The last levels of a binary search are replaced by two counts: of every 16th head, and of the 16 heads that remain.
/// The loads of a count are independent, while each load of a binary search waits for the one before.
const STEP: usize = 16;

/// Returns the first number in a range for which `is_before` is false; the range's end if there is none. `is_before`
/// must be false for all numbers above.
#[inline]
pub fn partition_point(Range { mut start, mut end }: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    while start < end {
        let middle = start.midpoint(end);
        if is_before(middle) { start = middle + 1 } else { end = middle }
    }
    start
}

/// Returns the number of ascending `heads` that are below `bound`.
#[inline]
#[must_use]
pub fn lower_bound(heads: &[u64], bound: u64) -> usize {
    let (mut below, mut rest) = (0, heads);
    // Halving, until two counts of at most 16 heads are enough.
    while rest.len() > STEP * STEP {
        let (left, right) = rest.split_at(rest.len() / 2);
        if left.last().is_some_and(|&last| last < bound) {
            below += left.len();
            rest = right;
        } else {
            rest = left;
        }
    }
    let is_below = |head: &&u64| **head < bound;
    let steps = rest.iter().step_by(STEP).filter(is_below).count();
    let start = steps.saturating_sub(1) * STEP;
    below + start + rest.get(start..).unwrap_or_default().iter().take(STEP).filter(is_below).count()
}

/// Returns the range of ascending `heads` that are equal to `head`; empty, at its lower bound, if none is.
#[inline]
pub(crate) fn equal_range(heads: &[u64], head: u64) -> Range<usize> {
    let first = lower_bound(heads, head);
    match heads.get(first..) {
        Some(rest) if rest.first() == Some(&head) => first..first + rest.partition_point(|&other| other == head),
        _ => first..first,
    }
}

/// A prefix shared by some keys, which their heads omit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedPrefix(Box<[u8]>);

impl SharedPrefix {
    /// Returns the longest common prefix of all `keys`. For ascending keys, the first and the last are enough.
    pub fn of<'a>(keys: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let shared = keys.into_iter().reduce(|shared, key| shared.split_at(common_prefix(shared, key)).0);
        Self(shared.unwrap_or_default().into())
    }

    /// Returns the prefix.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the head of `key` after the prefix. `None` if `key` does not begin with the prefix: it is below or above
    /// all keys that do.
    #[inline]
    pub fn head(&self, key: &[u8]) -> Option<u64> {
        // Comparing with an empty prefix would still be a call.
        if self.0.is_empty() { Some(head(key)) } else { key.strip_prefix(&*self.0).map(head) }
    }
}

/// The heads of ascending keys, which are stored elsewhere.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KeyHeads {
    prefix: SharedPrefix,
    heads: Vec<u64>,
}

impl KeyHeads {
    /// Computes the heads of `keys`. The first ones may be `None`, which is below every key.
    pub fn new<'a>(keys: impl DoubleEndedIterator<Item = Option<&'a [u8]>> + Clone) -> Self {
        let ends = [keys.clone().flatten().next(), keys.clone().flatten().next_back()];
        let prefix = SharedPrefix::of(ends.into_iter().flatten());
        let heads = keys.map(|key| key.and_then(|key| prefix.head(key)).unwrap_or(0)).collect();
        Self { prefix, heads }
    }

    /// Returns the position of the first key for which `is_before` is false. `is_before` compares the key at a position
    /// with `key`, must be false for all later keys, and is called only where heads do not decide.
    #[inline]
    pub fn partition_point(&self, key: &[u8], is_before: impl Fn(usize) -> bool) -> usize {
        let undecided = match self.prefix.head(key) {
            Some(head) => equal_range(&self.heads, head),
            // A key without the prefix is below or above all keys; comparisons of whole keys find out which.
            None => 0..self.heads.len(),
        };
        partition_point(undecided, is_before)
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Keys with long common prefixes. Many differ only in trailing zeros.
    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let key = vec(prop_oneof![Just(0_u8), Just(1), Just(0xff)], 0..12);
        (vec(any::<u8>(), 0..10), vec(key, 0..600)).prop_map(|(prefix, mut rests)| {
            rests.sort();
            rests.into_iter().map(|rest| [&prefix[..], &rest].concat()).collect()
        })
    }

    #[test]
    fn a_head_is_the_first_eight_bytes_padded_with_zeros() {
        let bytes: Vec<u8> = (1..=10).collect();
        for length in 0..=10 {
            let mut padded = [0; 8];
            padded[..length.min(8)].copy_from_slice(&bytes[..length.min(8)]);
            assert_eq!(head(&bytes[..length]), BigEndian::read_u64(&padded), "{length} bytes");
        }
    }

    #[test]
    fn a_lower_bound_is_the_one_of_a_search_by_halves() {
        let heads: Vec<u64> = (0..1_000).map(|at| at / 3 * 2).collect();
        for length in [0, 1, 15, 16, 17, 31, 64, 255, 256, 257, 512, 513, 999, 1_000] {
            let heads = &heads[..length];
            for bound in 0..700 {
                let expected = heads.partition_point(|&head| head < bound);
                assert_eq!(lower_bound(heads, bound), expected, "{bound} in {length}");
                let end = heads.partition_point(|&head| head <= bound);
                assert_eq!(equal_range(heads, bound), expected..end, "{bound} in {length}");
            }
        }
    }

    #[test]
    fn the_shared_prefix_is_the_longest_that_all_keys_begin_with() {
        let shared = |keys: &[&'static [u8]]| SharedPrefix::of(keys.iter().copied()).0;
        assert_eq!(&*shared(&[]), b"");
        assert_eq!(&*shared(&[b"user:1"]), b"user:1");
        assert_eq!(&*shared(&[b"user:17", b"user:1", b"user:192"]), b"user:1");
        assert_eq!(&*shared(&[b"user:17", b"", b"user:17"]), b"");
    }

    #[test]
    fn keys_are_compared_only_where_heads_are_equal() {
        let keys = [&b"user:aaaaaaaa"[..], b"user:bbbbbbbb1", b"user:bbbbbbbb2", b"user:cccccccc"];
        let heads = KeyHeads::new(keys.iter().copied().map(Some));
        for (key, position, compared) in
            [(&b"user:a"[..], 0, 0), (b"user:b", 1, 0), (b"user:bbbbbbbb2", 2, 2), (b"user:d", 4, 0), (b"user", 0, 3)]
        {
            let calls = Cell::new(0);
            let found = heads.partition_point(key, |at| {
                calls.set(calls.get() + 1);
                keys[at] < key
            });
            assert_eq!((found, calls.get()), (position, compared), "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn heads_are_ordered_as_their_keys_are(one in vec(0..3_u8, 0..12), other in vec(0..3_u8, 0..12)) {
            let (lower, higher) = if one <= other { (one, other) } else { (other, one) };
            prop_assert!(head(&lower) <= head(&higher));
        }

        #[test]
        fn a_key_is_found_where_a_search_of_whole_keys_finds_it(
            keys in keys(),
            missing in 0..3_usize,
            others in vec(vec(any::<u8>(), 0..12), 0..20),
        ) {
            let all: Vec<Option<&[u8]>> =
                core::iter::repeat_n(None, missing).chain(keys.iter().map(|key| Some(&key[..]))).collect();
            let heads = KeyHeads::new(all.iter().copied());
            let near = keys.iter().flat_map(|key| {
                [&key[..], &key[..key.len().saturating_sub(1)], &[key, &b"\0"[..]].concat()].map(<[u8]>::to_vec)
            });
            for key in near.chain(others) {
                let key = key.as_slice();
                let expected = all.partition_point(|&other| other < Some(key));
                prop_assert_eq!(heads.partition_point(key, |at| all[at] < Some(key)), expected, "{:?}", key);
            }
        }
    }
}
