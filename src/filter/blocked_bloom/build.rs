//! Building: one pass over the hashes, in any order.

use super::line;
use super::shape::BloomShape;
use crate::codec::AlignedBuffer;
use crate::filter::FilterShape;
use crate::filter::cache::{PARTITION_BYTES, PARTITION_FROM_BYTES};
use crate::filter::kind::{BuildLimits, Payload, StreamedPayload};
use crate::hash::{KeyHash, scatter_by_high_bits};

/// Keys that are staged before they are inserted together, so that their lines can be prefetched: several times the
/// prefetch distance of 48, in 2 KiB that stay in L1.
const STAGED_KEYS: usize = 256;

/// A blocked Bloom payload under construction.
#[derive(Debug)]
pub(crate) struct BloomBits {
    shape: BloomShape,
    payload: AlignedBuffer,
    /// Keys that were added one by one and await insertion.
    staged: Box<[KeyHash; STAGED_KEYS]>,
    staged_keys: usize,
    scratch_limit: u64,
    scratch_bytes: u64,
}

impl BloomBits {
    /// All lines empty. `None` when allocation fails. `limits` are for what inserting uses beside the payload.
    pub(crate) fn new(shape: BloomShape, limits: BuildLimits) -> Option<Self> {
        let payload = AlignedBuffer::zeroed(shape.payload_bytes())?;
        let staged = Box::new([KeyHash::from_well_mixed(0); STAGED_KEYS]);
        let scratch_limit = limits.scratch_bytes.unwrap_or(u64::MAX);
        Some(Self { shape, payload, staged, staged_keys: 0, scratch_limit, scratch_bytes: 0 })
    }

    #[cold]
    fn insert_staged(&mut self) {
        insert_into(&mut self.payload, self.shape, &self.staged[..self.staged_keys]);
        self.staged_keys = 0;
    }
}

impl StreamedPayload for BloomBits {
    #[inline]
    fn insert(&mut self, hash: KeyHash) {
        if self.staged_keys == STAGED_KEYS {
            self.insert_staged();
        }
        self.staged[self.staged_keys] = hash;
        self.staged_keys += 1;
    }

    /// Inserts many. For a filter that exceeds the caches, they are first partitioned, chunk by chunk, by the position
    /// of their lines, so that it is filled in parts that fit.
    ///
    /// One radix pass over the high bits. A key's line index is monotone in its hash, so the hashes of a part belong to
    /// neighbouring lines, and no line index is computed for it.
    fn insert_all(&mut self, hashes: &[KeyHash]) {
        let mut scratch = Vec::new();
        let partitioning = partitioning(self.shape, hashes.len() as u64, self.scratch_limit)
            .filter(|&(chunk, _)| scratch.try_reserve_exact(chunk).is_ok());
        let Some((chunk, log2_parts)) = partitioning else {
            return insert_into(&mut self.payload, self.shape, hashes);
        };
        scratch.resize(chunk, KeyHash::from_well_mixed(0));
        self.scratch_bytes = self.scratch_bytes.max((scratch.capacity() * size_of::<KeyHash>()) as u64);
        let mut part_ends = Vec::new();
        for hashes in hashes.chunks(chunk) {
            let partitioned = &mut scratch[..hashes.len()];
            scatter_by_high_bits(hashes, partitioned, log2_parts, &mut part_ends);
            insert_into(&mut self.payload, self.shape, partitioned);
        }
    }

    fn scratch_bytes(&self) -> u64 {
        self.scratch_bytes
    }

    fn into_payload(mut self) -> Payload {
        self.insert_staged();
        Payload(self.payload)
    }
}

fn insert_into(payload: &mut AlignedBuffer, shape: BloomShape, hashes: &[KeyHash]) {
    let (lines, _) = payload.as_mut_slice().as_chunks_mut();
    line::insert_batch(lines, shape.probes(), hashes);
}

/// log2 of the most parts: each is a write stream, and more of them exceed the TLB and cost more than they gain.
const MAX_LOG2_PARTS: u32 = 9;

/// With fewer keys per line than this, a pass over the whole filter costs more than partitioning saves.
const MIN_KEYS_PER_LINE: u64 = 2;

/// Keys per line that are partitioned at once: at 8 bytes a key, the copy is then as large as the filter.
const CHUNK_KEYS_PER_LINE: u64 = 8;

/// How many hashes to partition at a time, and log2 of the number of parts. `None` when partitioning would not pay: for a
/// small filter, too few hashes, or too little memory.
fn partitioning(shape: BloomShape, keys: u64, scratch_limit: u64) -> Option<(usize, u32)> {
    let least = shape.lines() * MIN_KEYS_PER_LINE;
    if shape.payload_bytes() < PARTITION_FROM_BYTES || keys < least {
        return None;
    }
    let most = (shape.lines() * CHUNK_KEYS_PER_LINE).min(u32::MAX.into());
    let chunk = keys.min(most).min(scratch_limit / size_of::<KeyHash>() as u64);
    let log2_parts = (shape.payload_bytes() / PARTITION_BYTES).ilog2().min(MAX_LOG2_PARTS);
    if chunk < least { None } else { Some((usize::try_from(chunk).ok()?, log2_parts)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BitsPerKey;

    fn build(keys: u64, size: BitsPerKey) -> (BloomShape, AlignedBuffer) {
        let mut bits = BloomBits::new(BloomShape::for_keys(keys, size).unwrap(), BuildLimits::default()).unwrap();
        (0..keys).for_each(|key| bits.insert(KeyHash::mix(key)));
        (bits.shape, bits.into_payload().0)
    }

    #[test]
    fn every_key_added_is_found_at_every_size() {
        for millibits in (1_000..=100_000).step_by(3_300) {
            let size = BitsPerKey::from_millibits(millibits).unwrap();
            for keys in [0, 1, 2, 3, 7, 63, 64, 65, 1_000] {
                let (shape, payload) = build(keys, size);
                assert_eq!(payload.as_slice().len() as u64, shape.payload_bytes());
                assert!((0..keys).all(|key| shape.may_contain(payload.as_slice(), KeyHash::mix(key))));
            }
        }
    }

    #[test]
    fn an_empty_filter_contains_nothing() {
        let (shape, payload) = build(0, BitsPerKey::TEN);
        assert!((0..1_000).all(|key| !shape.may_contain(payload.as_slice(), KeyHash::mix(key))));
    }

    #[test]
    fn partitioned_staged_and_plain_inserts_give_the_same_bytes() {
        let shape = BloomShape::for_keys(27_000_000, BitsPerKey::TEN).unwrap();
        let hashes: Vec<KeyHash> = (0..1_200_000).map(KeyHash::mix).collect();
        let build = |scratch_bytes, insert: fn(&mut BloomBits, &[KeyHash])| {
            let limits = BuildLimits { scratch_bytes, ..BuildLimits::default() };
            let mut bits = BloomBits::new(shape, limits).unwrap();
            insert(&mut bits, &hashes);
            (bits.scratch_bytes(), bits.into_payload().0)
        };
        let (plain_scratch, plain) = build(Some(0), BloomBits::insert_all);
        let (partitioned_scratch, partitioned) = build(None, BloomBits::insert_all);
        let (_, staged) = build(None, |bits, hashes| hashes.iter().for_each(|&hash| bits.insert(hash)));
        assert_eq!((plain_scratch, partitioned_scratch), (0, 8 * 1_200_000));
        assert!(plain.as_slice() == partitioned.as_slice() && plain.as_slice() == staged.as_slice());
        assert!(hashes.iter().all(|&hash| shape.may_contain(plain.as_slice(), hash)));
    }

    #[test]
    fn only_large_filters_with_keys_and_memory_for_it_are_worth_partitioning() {
        let shape = |keys| BloomShape::for_keys(keys, BitsPerKey::TEN).unwrap();
        let is_partitioned = |keys, count, limit| partitioning(shape(keys), count, limit).is_some();
        assert!(is_partitioned(30_000_000, 2_000_000, u64::MAX));
        assert!(is_partitioned(30_000_000, 2_000_000, 16_000_000));
        assert!(!is_partitioned(30_000_000, 2_000_000, 1_000_000));
        assert!(!is_partitioned(30_000_000, 1_000_000, u64::MAX));
        assert!(!is_partitioned(20_000_000, 2_000_000, u64::MAX));
        assert!(!is_partitioned(0, 0, u64::MAX));
    }
}
