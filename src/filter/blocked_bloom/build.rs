//! Builds in one pass over the hashes, in any order.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::line;
use super::shape::BloomShape;
use crate::codec::{AlignedBuffer, LINE_BYTES};
use crate::filter::cache::{HASHES_AHEAD, PARTITION_BYTES, PARTITION_FROM_BYTES};
use crate::filter::{BuildLimits, FilterShape, StreamedPayload, for_each_chunk};
use crate::hash::KeyHash;
use crate::kernel::prefetch::prefetch;

/// A blocked Bloom payload under construction.
#[derive(Debug)]
pub(crate) struct BloomBits {
    shape: BloomShape,
    payload: AlignedBuffer,
    scratch_limit: u64,
    scratch_bytes: u64,
}

impl BloomBits {
    /// Creates empty lines. `None` when allocation fails. `limits` apply to the memory in addition to the payload.
    pub(crate) fn new(shape: BloomShape, limits: BuildLimits) -> Option<Self> {
        let payload = AlignedBuffer::zeroed(shape.payload_bytes())?;
        let scratch_limit = limits.scratch_bytes.unwrap_or(u64::MAX);
        Some(Self { shape, payload, scratch_limit, scratch_bytes: 0 })
    }
}

impl StreamedPayload for BloomBits {
    fn insert_all(&mut self, hashes: &[KeyHash]) {
        insert_into(&mut self.payload, self.shape, hashes);
    }

    /// Fills a filter that exceeds the caches in parts that fit, if there are enough hashes and memory.
    fn insert_and_count(&mut self, last: Option<KeyHash>, hashes: &[KeyHash]) -> u64 {
        let Self { shape, payload, .. } = self;
        let Some(mut parts) = Parts::new(*shape, hashes.len() as u64, self.scratch_limit) else {
            return for_each_chunk(last, hashes, |chunk| insert_into(payload, *shape, chunk));
        };
        let mut insert = |part: &[KeyHash]| insert_into(payload, *shape, part);
        let differing = for_each_chunk(last, hashes, |chunk| parts.add(chunk, &mut insert));
        parts.rest(&mut insert);
        self.scratch_bytes = self.scratch_bytes.max(parts.bytes());
        differing
    }

    fn scratch_bytes(&self) -> u64 {
        self.scratch_bytes
    }

    fn into_payload(self: Box<Self>) -> AlignedBuffer {
        self.payload
    }
}

fn insert_into(payload: &mut AlignedBuffer, shape: BloomShape, hashes: &[KeyHash]) {
    let (lines, _) = payload.as_mut_slice().as_chunks_mut();
    line::insert_batch(lines, shape.probes(), hashes);
}

/// log2 of the maximum number of parts: each part is a write stream, and more of them exceed the TLB and cost more than
/// they save.
const MAX_LOG2_PARTS: u32 = 9;

/// With fewer keys per line than this, a pass over the whole filter costs more than partitioning saves.
const MIN_KEYS_PER_LINE: u64 = 2;

/// Keys per line that wait for their part: at 8 bytes a key, they take as much memory as the filter's lines.
const WAITING_KEYS_PER_LINE: u64 = 8;

/// Hashes that wait for their part of the filter. A part is inserted into when enough hashes wait for it, so that its
/// lines come into the cache once for all of them.
///
/// The high bits of the hashes determine the part. A key's line is monotone in its hash, so the hashes of a part belong
/// to neighbouring lines, and no line is computed to find the part. Each part has a buffer of fixed size, which is
/// inserted when it is full. So no earlier pass has to count the hashes of each part.
#[derive(Debug)]
struct Parts {
    /// The right shift that turns a hash into the number of its part.
    shift: u32,
    waiting: Vec<KeyHash>,
    /// The number of hashes that wait for each part.
    counts: Vec<usize>,
    /// The capacity for each part.
    most: usize,
}

impl Parts {
    /// Returns `None` when parts would not pay: for a small filter, too few hashes, or too little memory.
    fn new(shape: BloomShape, hashes: u64, scratch_limit: u64) -> Option<Self> {
        let least = shape.lines().count() * MIN_KEYS_PER_LINE;
        if shape.payload_bytes() < PARTITION_FROM_BYTES || hashes < least {
            return None;
        }
        let log2_parts = (shape.payload_bytes() / PARTITION_BYTES).ilog2().min(MAX_LOG2_PARTS);
        let affordable = scratch_limit.saturating_sub((size_of::<usize>() as u64) << log2_parts) / 8;
        let waiting = hashes.min(shape.lines().count() * WAITING_KEYS_PER_LINE).min(affordable);
        if waiting < least {
            return None;
        }
        let most = usize::try_from(waiting >> log2_parts).ok()?;
        let mut parts =
            Self { shift: u64::BITS - log2_parts, waiting: Vec::new(), counts: vec![0; 1 << log2_parts], most };
        // Reserved first: `resize` would abort when allocation fails, and the filter can be built without parts.
        parts.waiting.try_reserve_exact(most << log2_parts).ok()?;
        parts.waiting.resize(most << log2_parts, KeyHash::from_well_mixed(0));
        Some(parts)
    }

    /// Adds hashes, and calls `insert` with the hashes of each part that is full.
    #[expect(clippy::cast_possible_truncation, reason = "at most 2^9 parts")]
    fn add(&mut self, hashes: &[KeyHash], insert: &mut impl FnMut(&[KeyHash])) {
        for line in hashes.chunks(LINE_BYTES / size_of::<KeyHash>()) {
            // Prefetched here, because hardware prefetches end with each page: every 512 hashes.
            prefetch(line.as_ptr().wrapping_add(HASHES_AHEAD));
            for &hash in line {
                let part = (hash.get() >> self.shift) as usize;
                let first = part * self.most;
                let count = &mut self.counts[part];
                self.waiting[first + *count] = hash;
                *count += 1;
                if *count == self.most {
                    *count = 0;
                    insert(&self.waiting[first..first + self.most]);
                }
            }
        }
    }

    /// Calls `insert` with all hashes that still wait.
    fn rest(&mut self, insert: &mut impl FnMut(&[KeyHash])) {
        for (waiting, count) in self.waiting.chunks(self.most).zip(&self.counts) {
            insert(&waiting[..*count]);
        }
    }

    fn bytes(&self) -> u64 {
        (self.waiting.capacity() * size_of::<KeyHash>() + self.counts.capacity() * size_of::<usize>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BitsPerKey;

    fn build(keys: u64, size: BitsPerKey) -> (BloomShape, AlignedBuffer) {
        let mut bits = BloomBits::new(BloomShape::for_keys(keys, size).unwrap(), BuildLimits::default()).unwrap();
        (0..keys).for_each(|key| bits.insert_all(&[KeyHash::mix(key)]));
        (bits.shape, bits.payload)
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
            (bits.scratch_bytes(), bits.payload)
        };
        let at_once: fn(&mut BloomBits, &[KeyHash]) = |bits, hashes| _ = bits.insert_and_count(None, hashes);
        let (plain_scratch, plain) = build(Some(0), at_once);
        let (partitioned_scratch, partitioned) = build(None, at_once);
        let (_, staged) = build(None, |bits, hashes| hashes.chunks(256).for_each(|some| bits.insert_all(some)));
        assert_eq!(plain_scratch, 0);
        assert!((8 * 1_199_000..8 * 1_201_000).contains(&partitioned_scratch), "{partitioned_scratch}");
        assert!(plain.as_slice() == partitioned.as_slice() && plain.as_slice() == staged.as_slice());
        assert!(hashes.iter().all(|&hash| shape.may_contain(plain.as_slice(), hash)));
    }

    #[test]
    fn only_large_filters_with_keys_and_memory_for_it_are_worth_partitioning() {
        let shape = |keys| BloomShape::for_keys(keys, BitsPerKey::TEN).unwrap();
        let is_partitioned = |keys, count, limit| Parts::new(shape(keys), count, limit).is_some();
        assert!(is_partitioned(7_000_000, 300_000, u64::MAX));
        assert!(is_partitioned(30_000_000, 2_000_000, u64::MAX));
        assert!(is_partitioned(30_000_000, 2_000_000, 16_000_000));
        assert!(!is_partitioned(30_000_000, 2_000_000, 1_000_000));
        assert!(!is_partitioned(30_000_000, 1_000_000, u64::MAX));
        assert!(!is_partitioned(6_000_000, 2_000_000, u64::MAX));
        assert!(!is_partitioned(0, 0, u64::MAX));
    }

    /// Fills the buffer of one part again and again, also with repeated hashes.
    #[test]
    fn hashes_that_crowd_in_one_part_are_inserted_and_counted_too() {
        let shape = BloomShape::for_keys(7_000_000, BitsPerKey::TEN).unwrap();
        let crowded = |key: u64| KeyHash::from_well_mixed(KeyHash::mix(key / 3).get() >> 8);
        let hashes: Vec<KeyHash> = (0..900_000).map(crowded).chain((0..5_000).map(KeyHash::mix)).collect();
        let mut bits = BloomBits::new(shape, BuildLimits::default()).unwrap();
        assert_eq!(bits.insert_and_count(None, &hashes), 305_000);
        assert_eq!(bits.insert_and_count(hashes.last().copied(), &hashes[904_999..]), 0);
        let scratch = bits.scratch_bytes();
        let payload = bits.payload;
        assert!(scratch > 0 && hashes.iter().all(|&hash| shape.may_contain(payload.as_slice(), hash)));
    }
}
