//! Bands one section of a layer: decides which keys are kept, and brings their equations into echelon form.
//!
//! This is the *priority sweep*. Buckets are processed from left to right. In a bucket, keys that start further right
//! have priority: keys on the left compete with rows that spill over from the previous bucket, so they are bumped
//! first. One sweep over the slots of the bucket settles all thresholds at once: at each slot, the pending row of the
//! highest priority that has the slot's bit becomes its pivot and is eliminated from the others. So no row is changed
//! by a row of lower priority. When a row turns out to be contradictory, all rows of its priority or lower can be
//! dropped, and the rest is still in echelon form without undoing anything.
//!
//! The kept keys depend only on which equations contradict each other, and the pivots' slots only on the kept
//! equations. So the same keys give the same bytes in any order.

use super::equation::{BUCKET_SLOTS, THRESHOLDS, WIDTH, coefficients, result};
use super::layer::Layer;
use super::simd::sweep::{Bucket, ChosenPivots, Echelon, Pending, PivotBlock, RESERVED_ROWS, equation, sweep};
use crate::hash::KeyHash;

/// The threshold code that bumps a whole bucket.
pub(super) const WHOLE_BUCKET: u8 = 3;

/// A bucket with more keys than this is bumped whole, and its equations are not examined. The mean is 133; only badly
/// mixed hashes or an attacker's keys exceed the limit, and few of those keys could stay. The limit bounds the memory
/// for pending equations, and the time that an attacker can make a bucket take.
pub(super) const MAX_BUCKET_KEYS: usize = 1_024;

/// The outcome of banding a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Banded {
    /// The number of keys that start in the bucket.
    pub(super) keys: usize,
    /// The threshold code: keys that start left of its threshold are bumped.
    pub(super) code: u8,
}

/// The echelon form of one section, reused from section to section.
#[derive(Debug, Default)]
pub(crate) struct Section {
    first_slot: u64,
    pub(super) echelon: Echelon,
    pending: Pending,
    /// The pivots that the sweep found in this bucket and beyond.
    chosen: ChosenPivots,
}

impl Section {
    /// Clears the section and moves it to slots `first_slot` to `end_slot`, multiples of 64.
    pub(super) fn reset(&mut self, first_slot: u64, end_slot: u64) {
        let blocks = usize::try_from((end_slot - first_slot) / WIDTH).unwrap_or_default();
        self.first_slot = first_slot;
        let Echelon { occupied, rows, results } = &mut self.echelon;
        occupied.clear();
        // Exactly the size that the build planned: growing by doubling, a section that served a smaller file before
        // would take up to 3 MB more.
        occupied.reserve_exact(blocks);
        occupied.resize(blocks, 0);
        // Clears only the occupancy: stale entries of slots without a pivot are never read, and clearing them too would
        // write 3 MB for each section.
        if let Some(more) = blocks.checked_sub(rows.len()) {
            rows.reserve_exact(more);
            rows.resize(blocks, [0; 64]);
            results.reserve_exact(more);
            results.resize(blocks, [0; 64]);
        }
    }

    /// Returns the bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let Echelon { occupied, rows, results } = &self.echelon;
        let slots = occupied.capacity() * 8 + rows.capacity() * 64 * 8 + results.capacity() * 64 * 4;
        (slots + self.pending.bytes() + size_of::<ChosenPivots>()) as u64
    }

    /// Bands the keys that start in the bucket at `bucket_start`: the first of the ascending `hashes`.
    pub(super) fn band_bucket(
        &mut self,
        bucket_start: u64,
        hashes: &[KeyHash],
        layer: &Layer,
        result_mask: u32,
    ) -> Banded {
        let is_here = |hash: &KeyHash| layer.start(hash.get()) < bucket_start + BUCKET_SLOTS;
        if hashes.get(MAX_BUCKET_KEYS).is_some_and(is_here) {
            return Banded { keys: hashes.partition_point(is_here), code: WHOLE_BUCKET };
        }
        let first_block = ((bucket_start - self.first_slot) / WIDTH) as usize;
        self.pending.clear();
        self.chosen.clear();
        let mut direct = [0; BUCKET_BLOCKS];
        let mut keys = 0;
        for (index, direct) in direct.iter_mut().enumerate() {
            keys += self.load(first_block + index, index, &hashes[keys..], layer, result_mask, direct);
        }
        // The sweep chooses pivots for all pending rows, including those about to be bumped: only the end of a row's
        // elimination shows whether it is contradictory. Pivots of bumped keys are dropped afterwards.
        let code = threshold_code(sweep(Bucket {
            pending: &mut self.pending,
            echelon: &mut self.echelon,
            first_block,
            result_bytes: (u32::BITS - result_mask.leading_zeros()).div_ceil(8) as usize,
            chosen: &mut self.chosen,
        }));
        if code > 0 {
            self.drop_pivots_below(THRESHOLDS[usize::from(code)], first_block, direct);
        }
        Banded { keys, code }
    }

    /// Loads the keys that start in block `block` of the section, which is the bucket's block `index`, and returns
    /// their number. `direct` gets a bit for each slot whose first key became its pivot.
    ///
    /// The first key that starts at a free slot becomes its pivot at once. The sweep would choose it too, because rows
    /// that start further left have lower priority. So about two fifths of the keys never enter the sweep.
    #[expect(clippy::cast_possible_truncation, reason = "less than 64, or 128 slots of a bucket")]
    fn load(
        &mut self,
        block: usize,
        index: usize,
        hashes: &[KeyHash],
        layer: &Layer,
        result_mask: u32,
        direct: &mut u64,
    ) -> usize {
        let Some(PivotBlock { occupied, rows, results }) = self.echelon.block(block) else { return 0 };
        let first_slot = self.first_slot + block as u64 * WIDTH;
        let before = *occupied;
        let mut after = before;
        let mut keys = 0;
        for chunk in hashes.chunks(RESERVED_ROWS) {
            let reserved = self.pending.reserve();
            let (mut pending, keys_before) = (0, keys);
            for hash in chunk.iter().map(|hash| hash.get()) {
                // Hashes ascend, so none starts before the block, and the first beyond it ends the loop. A wrapped
                // offset is also beyond it.
                let offset = layer.start(hash).wrapping_sub(first_slot);
                if offset >= WIDTH {
                    break;
                }
                let slot = offset as usize % 64;
                // Circular form: bit `i` stands for the slot congruent to `i`, so that the elimination never shifts a
                // row.
                let row = coefficients(hash).rotate_left(slot as u32);
                let result = result(hash) & result_mask;
                let is_pending = after >> slot & 1 == 1;
                after |= 1 << slot;
                // Both are selected without a branch: whether a slot is taken is random, and a misprediction costs more
                // than the two loads and stores. The row is always written to the reserve, and kept only if pending.
                rows[slot] = if is_pending { rows[slot] } else { row };
                results[slot] = if is_pending { results[slot] } else { result };
                reserved[pending % RESERVED_ROWS] = equation(row, result, (index * 64 + slot) as u8);
                pending += usize::from(is_pending);
                keys += 1;
            }
            self.pending.commit(pending);
            if keys - keys_before < chunk.len() {
                break;
            }
        }
        *occupied = after;
        *direct = after & !before;
        keys
    }

    /// Drops the pivots of keys that start left of `threshold` in the bucket.
    #[expect(clippy::cast_possible_truncation, reason = "one of two blocks")]
    fn drop_pivots_below(&mut self, threshold: u8, first_block: usize, direct: [u64; BUCKET_BLOCKS]) {
        let occupied = &mut self.echelon.occupied[first_block..];
        for (index, (occupied, direct)) in occupied.iter_mut().zip(direct).enumerate() {
            let below = u32::from(threshold).saturating_sub(index as u32 * 64).min(64);
            *occupied &= !(direct & u64::MAX.checked_shr(64 - below).unwrap_or(0));
        }
        for [slot, _] in self.chosen.as_slice().iter().filter(|[_, offset]| *offset < threshold) {
            occupied[usize::from(slot / 64)] &= !(1 << (slot % 64));
        }
    }
}

/// The blocks of a bucket.
const BUCKET_BLOCKS: usize = (BUCKET_SLOTS / WIDTH) as usize;

/// Returns the code of the smallest threshold that bumps the key at this offset, and with it all keys to its left.
fn threshold_code(last_contradiction: Option<u8>) -> u8 {
    let passed = |&&threshold: &&u8| last_contradiction.is_some_and(|offset| offset >= threshold);
    THRESHOLDS.iter().take(3).filter(passed).fold(0, |code, _| code + 1)
}
