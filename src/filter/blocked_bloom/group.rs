//! Grouping hashes by where in the filter their lines lie, so that a filter larger than the caches is built
//! in parts that fit.
//!
//! One pass of a radix sort over the top bits. A key's line index is monotone in its hash, so groups are
//! neighbouring parts of the filter, and no line index is computed for it.

use super::shape::BloomShape;
use crate::filter::FilterShape;
use crate::hash::KeyHash;

/// Filters from this size on are built from grouped hashes: about what the last level of cache holds.
const GROUPED_FROM_BYTES: u64 = 32 << 20;

/// Of the part of a filter that one group fills: within the second level of cache.
const PART_BYTES: u64 = 256 << 10;

/// More groups than this are slower to write to than they gain.
const MAX_GROUP_BITS: u32 = 9;

/// Keys per line below which reading and writing the whole filter costs more than it saves.
const MIN_KEYS_PER_LINE: u64 = 2;

/// Keys per line grouped at once: the scratch is then as large as the filter.
const CHUNK_KEYS_PER_LINE: u64 = 8;

/// Hashes, chunk by chunk, each grouped.
pub(super) struct GroupedHashes<'a> {
    rest: &'a [KeyHash],
    scratch: Vec<KeyHash>,
    group_bits: u32,
}

impl<'a> GroupedHashes<'a> {
    /// `None` when `hashes` had better be inserted as they are: into a small filter, too few of them, or with no
    /// memory for it.
    pub(super) fn worthwhile(shape: BloomShape, hashes: &'a [KeyHash], scratch_limit: u64) -> Option<Self> {
        let keys = hashes.len() as u64;
        if shape.payload_bytes() < GROUPED_FROM_BYTES || keys < shape.lines() * MIN_KEYS_PER_LINE {
            return None;
        }
        let chunk = keys.min(shape.lines() * CHUNK_KEYS_PER_LINE).min(scratch_limit / size_of::<KeyHash>() as u64);
        if chunk < shape.lines() * MIN_KEYS_PER_LINE {
            return None;
        }
        let group_bits = (shape.payload_bytes() / PART_BYTES).ilog2().min(MAX_GROUP_BITS);
        Self::new(hashes, usize::try_from(chunk).ok()?, group_bits)
    }

    /// Groups by the top `group_bits` of the hashes, `chunk` at a time. `None` without memory.
    fn new(hashes: &'a [KeyHash], chunk: usize, group_bits: u32) -> Option<Self> {
        let mut scratch = Vec::new();
        scratch.try_reserve_exact(chunk).ok()?;
        scratch.resize(chunk, KeyHash::from_well_mixed(0));
        Some(Self { rest: hashes, scratch, group_bits })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.scratch.capacity() as u64 * size_of::<KeyHash>() as u64
    }

    /// The next chunk, in order of its groups.
    pub(super) fn next_chunk(&mut self) -> Option<&[KeyHash]> {
        let (chunk, rest) = self.rest.split_at(self.scratch.len().min(self.rest.len()));
        self.rest = rest;
        let grouped = &mut self.scratch[..chunk.len()];
        let mut next = group_starts(chunk, self.group_bits);
        for &hash in chunk {
            let slot = &mut next[group_of(hash, self.group_bits)];
            grouped[*slot] = hash;
            *slot += 1;
        }
        (!chunk.is_empty()).then_some(grouped)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a group's number has few bits")]
fn group_of(hash: KeyHash, group_bits: u32) -> usize {
    (hash.get() >> (64 - group_bits)) as usize
}

/// Where each group begins.
fn group_starts(hashes: &[KeyHash], group_bits: u32) -> Vec<usize> {
    let mut starts = vec![0; 1 << group_bits];
    hashes.iter().for_each(|&hash| starts[group_of(hash, group_bits)] += 1);
    let mut start = 0;
    for count in &mut starts {
        start += core::mem::replace(count, start);
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BitsPerKey;

    #[test]
    fn chunks_hold_the_same_hashes_in_order_of_their_top_bits() {
        let hashes: Vec<KeyHash> = (0..1_000).map(KeyHash::from_remixed).collect();
        for (chunk, group_bits) in [(1_000, 4), (1_000, 1), (300, 9), (999, 3), (1, 2)] {
            let mut grouped = GroupedHashes::new(&hashes, chunk, group_bits).unwrap();
            for expected in hashes.chunks(chunk) {
                let mut expected = expected.to_vec();
                expected.sort_by_key(|&hash| group_of(hash, group_bits));
                assert_eq!(grouped.next_chunk(), Some(&expected[..]));
            }
            assert_eq!(grouped.next_chunk(), None);
        }
    }

    #[test]
    fn only_large_filters_with_keys_and_memory_for_it_are_worth_grouping() {
        let shape = |keys| BloomShape::for_keys(keys, BitsPerKey::TEN).unwrap();
        let hashes = vec![KeyHash::from_remixed(1); 2_000_000];
        let is_grouped = |keys, count, limit| GroupedHashes::worthwhile(shape(keys), &hashes[..count], limit).is_some();
        assert!(is_grouped(30_000_000, 2_000_000, u64::MAX));
        assert!(is_grouped(30_000_000, 2_000_000, 16_000_000));
        assert!(!is_grouped(30_000_000, 2_000_000, 1_000_000));
        assert!(!is_grouped(30_000_000, 1_000_000, u64::MAX));
        assert!(!is_grouped(20_000_000, 2_000_000, u64::MAX));
        assert!(!is_grouped(0, 0, u64::MAX));
    }
}
