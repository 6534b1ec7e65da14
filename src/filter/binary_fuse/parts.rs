//! Divides keys into parts that several threads add: where the first cell ascends with the hash, neighbouring hashes
//! have neighbouring cells.

use alloc::vec::Vec;
use core::ops::Range;

use super::shape::FuseShape;
use crate::hash::{KeyHash, map_to_range};

/// log2 of the slices of hash space that parts consist of. If there are [`FEWEST_HASHES`], partitioned hashes ascend in
/// at least this many of their highest bits.
const LOG2_SLICES: u32 = 5;

const SLICES: u64 = 1 << LOG2_SLICES;

/// From this number on, hashes are partitioned into a window for each slice, or more.
const FEWEST_HASHES: usize = 1 << (12 + LOG2_SLICES);

/// The minimum number of segments in a part: more than the keys of a part reach into the next one.
const SEGMENTS_PER_PART: u64 = 8;

/// A range of cells, and the keys whose cells all lie in it.
type Part<'a> = (Range<usize>, &'a [KeyHash]);

impl FuseShape {
    /// Divides partitioned `hashes` into about two parts for each thread, grouped into even and odd ones. Parts of one
    /// group have no cells in common. `None` when there are too few keys, or they are not partitioned.
    pub(super) fn parts<'a>(&self, mut hashes: &'a [KeyHash], threads: usize) -> Option<[Vec<Part<'a>>; 2]> {
        // Twice the threads, because even and odd parts are added one group after the other.
        let count = SLICES.min(2 * threads as u64).min(self.range / self.segment / SEGMENTS_PER_PART);
        // With fewer than four parts, a group would have only one, and no work to share.
        let is_enough = hashes.len() >= FEWEST_HASHES && count >= 4;
        // Checked, because a kind that delegates to this one may pass its hashes in any order.
        if !is_enough || !hashes.is_sorted_by_key(|&hash| slice_of(hash)) {
            return None;
        }
        let [mut even, mut odd] = [const { Vec::new() }; 2];
        for part in 0..count {
            let [first, end] = [part, part + 1].map(|part| (part * SLICES).div_ceil(count));
            // Partitioned hashes ascend by slice, so that a bisection finds the end of each part.
            let keys = hashes.partition_point(|&hash| slice_of(hash) < end);
            let keys = hashes.split_off(..keys).unwrap_or_default();
            let group = if part % 2 == 0 { &mut even } else { &mut odd };
            group.push((self.cells_of(first, end)?, keys));
        }
        Some([even, odd])
    }

    /// Returns the cells of keys in some slices, with salt 0.
    fn cells_of(&self, first_slice: u64, end_slice: u64) -> Option<Range<usize>> {
        let first_hash = |slice: u64| u128::from(slice) << (u64::BITS - LOG2_SLICES);
        let first_cell = |hash: u128| Some(map_to_range(u64::try_from(hash).ok()?, self.range));
        let first = first_cell(first_hash(first_slice))?;
        let last_segment = first_cell(first_hash(end_slice) - 1)? / self.segment;
        let end = (last_segment + u64::from(self.arity.get())) * self.segment;
        Some(usize::try_from(first).ok()?..usize::try_from(end).ok()?)
    }
}

fn slice_of(hash: KeyHash) -> u64 {
    hash.get() >> (u64::BITS - LOG2_SLICES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::binary_fuse::shape::{FuseArity, shape_for};
    use crate::filter::fingerprint::PeeledShape;
    use crate::filter::peel::Placement;

    #[test]
    fn keys_of_a_part_have_their_cells_in_its_range_and_ranges_of_a_group_are_apart() {
        for keys in [131_072, 200_000, 1_000_000] {
            let mut hashes: Vec<KeyHash> = (0..keys).map(KeyHash::mix).collect();
            hashes.extend([0, u64::MAX].map(KeyHash::from_well_mixed));
            hashes.sort_unstable();
            let shape = shape_for(keys, FuseArity::Three, 8).unwrap();
            for threads in [2, 3, 8, 64] {
                let groups = shape.parts(&hashes, threads).unwrap();
                assert!(groups.iter().all(|parts| parts.is_sorted_by(|one, next| one.0.end <= next.0.start)));
                let cells_of = |hash: &KeyHash| shape.placement::<3>().cells_of(hash.get());
                for (range, keys) in groups.iter().flatten() {
                    assert!(keys.iter().flat_map(cells_of).all(|cell| range.contains(&cell)), "{range:?}");
                    assert!(range.end as u64 <= shape.cells());
                }
                let of_parts = groups.iter().flatten().map(|(_, keys)| keys.len()).sum::<usize>();
                assert_eq!((of_parts, groups.iter().all(|parts| parts.len() >= 2)), (hashes.len(), true));
            }
        }
    }

    #[test]
    fn few_keys_are_not_cut_into_parts() {
        let hashes: Vec<KeyHash> = (0..131_071).map(KeyHash::mix).collect();
        let shape = shape_for(131_071, FuseArity::Three, 8).unwrap();
        assert!(shape.parts(&hashes, 2).is_none());
    }
}
