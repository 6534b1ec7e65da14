//! Short keys and all ranges between them, for the unit tests of the library and of `sstfilter-range`.

use core::ops::Bound;

use super::KeyRange;

/// All strings of up to `max_bytes` bytes over an alphabet with the lowest and the highest byte.
pub(crate) fn strings(max_bytes: u32) -> Vec<Vec<u8>> {
    let alphabet = [0, 1, 0xff];
    let of_length = |length: u32| {
        (0..3_usize.pow(length))
            .map(move |number| (0..length).map(|place| alphabet[number / 3_usize.pow(place) % 3]).collect::<Vec<u8>>())
    };
    (0..=max_bytes).flat_map(of_length).collect()
}

pub(crate) fn all_ranges(ends: &[Vec<u8>]) -> impl Iterator<Item = KeyRange<'_>> {
    let bounds = |end| [Bound::Included(end), Bound::Excluded(end), Bound::Unbounded];
    let pairs = ends.iter().flat_map(move |lower| ends.iter().map(move |upper| (lower, upper)));
    pairs.flat_map(move |(lower, upper)| {
        bounds(lower).into_iter().flat_map(move |lower| bounds(upper).map(|upper| KeyRange::from((lower, upper))))
    })
}
