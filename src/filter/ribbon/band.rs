//! Banding one section of a layer: which keys are kept, and the echelon form of their equations.
//!
//! This is the *priority sweep*. Buckets are done from left to right. In a bucket, keys that start
//! further right have priority: those on the left compete with what spills over from the bucket
//! before, so they are the ones given up. One sweep over the slots of the bucket settles all thresholds
//! at once: at each slot, the pending row of the highest priority that has the slot's bit becomes its
//! pivot and is eliminated from the others. A row is therefore never changed by one of lower priority;
//! where a row comes out contradictory, all rows with its priority or less can be dropped and the rest
//! is still in echelon form, without undoing anything.
//!
//! Which keys are kept is decided by which equations contradict each other, not by their order, and
//! the pivots' slots by the kept equations alone; so the same keys give the same bytes in any order.

use super::equation::{Starts, WIDTH, coefficients, result};
use super::shape::{BUCKET_SLOTS, THRESHOLDS};
use crate::hash::KeyHash;
use crate::kernel::sweep::{Bucket, Echelon, Pending, Picks, ROOM, equation, sweep};

/// The code that bumps a whole bucket.
pub(super) const WHOLE_BUCKET: u8 = 3;

/// Keys above which a bucket is bumped whole without a look at its equations. There are 133 in the mean; so many come
/// together only when hashes are badly mixed or keys were chosen for it, and few of them could stay. It bounds the
/// memory for pending equations.
pub(super) const CROWDED_KEYS: usize = 1_024;

/// What became of a bucket's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Banded {
    /// Keys that start in the bucket.
    pub(super) keys: usize,
    /// The threshold code: keys that start left of that threshold were not taken.
    pub(super) code: u8,
}

/// The echelon form of one section, reused from section to section.
#[derive(Debug, Default)]
pub(crate) struct Section {
    first_slot: u64,
    pub(super) echelon: Echelon,
    pending: Pending,
    /// Pivots that the sweep found in this bucket and beyond.
    picks: Picks,
}

impl Section {
    /// Empties the section and lays it over slots `first_slot` to `end_slot`, multiples of 64.
    pub(super) fn reset(&mut self, first_slot: u64, end_slot: u64) {
        let blocks = usize::try_from((end_slot - first_slot) / WIDTH).unwrap_or_default();
        self.first_slot = first_slot;
        self.echelon.occupied.clear();
        self.echelon.occupied.resize(blocks, 0);
        // What stands in slots without a pivot is never read, so nothing is cleared.
        if self.echelon.rows.len() < blocks {
            self.echelon.rows.resize(blocks, [0; 64]);
            self.echelon.results.resize(blocks, [0; 64]);
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let Echelon { occupied, rows, results } = &self.echelon;
        let slots = occupied.capacity() * 8 + rows.capacity() * 64 * 8 + results.capacity() * 64 * 4;
        (slots + self.pending.bytes() + size_of::<Picks>()) as u64
    }

    /// Bands the keys that start in the bucket at `bucket_start`: the first of `hashes`, which ascend.
    pub(super) fn band_bucket(
        &mut self,
        bucket_start: u64,
        hashes: &[KeyHash],
        starts: Starts,
        result_mask: u32,
    ) -> Banded {
        let is_here = |hash: &KeyHash| starts.start(hash.get()) < bucket_start + BUCKET_SLOTS;
        if hashes.get(CROWDED_KEYS).is_some_and(is_here) {
            return Banded { keys: hashes.partition_point(is_here), code: WHOLE_BUCKET };
        }
        let first_block = ((bucket_start - self.first_slot) / WIDTH) as usize;
        self.pending.clear();
        self.picks.clear();
        let mut direct = [0; BUCKET_BLOCKS];
        let mut keys = 0;
        for (index, direct) in direct.iter_mut().enumerate() {
            let loaded = self.load(first_block + index, index, &hashes[keys..], starts, result_mask);
            keys += loaded.keys;
            *direct = loaded.direct;
        }
        let code = threshold_code(sweep(Bucket {
            pending: &mut self.pending,
            echelon: &mut self.echelon,
            first_block,
            result_bytes: (u32::BITS - result_mask.leading_zeros()).div_ceil(8) as usize,
            picks: &mut self.picks,
        }));
        if code > 0 {
            self.drop_pivots_below(THRESHOLDS[usize::from(code)], first_block, direct);
        }
        Banded { keys, code }
    }

    /// Takes the keys that start in block `block` of the section, which is the bucket's block `index`.
    ///
    /// The first key of a slot becomes its pivot at once: it is the one that the sweep would choose, for none
    /// that starts before it comes first.
    #[expect(clippy::cast_possible_truncation, reason = "less than 64, or 128 slots of a bucket")]
    fn load(&mut self, block: usize, index: usize, hashes: &[KeyHash], starts: Starts, result_mask: u32) -> Loaded {
        let Echelon { occupied, rows, results } = &mut self.echelon;
        let (Some(occupied), Some(rows), Some(results)) =
            (occupied.get_mut(block), rows.get_mut(block), results.get_mut(block))
        else {
            return Loaded::default();
        };
        let first_slot = self.first_slot + block as u64 * WIDTH;
        let before = *occupied;
        let mut after = before;
        let mut keys = 0;
        for chunk in hashes.chunks(ROOM) {
            let room = self.pending.room();
            let (mut pending, keys_before) = (0, keys);
            for hash in chunk.iter().map(|hash| hash.get()) {
                let offset = starts.start(hash).wrapping_sub(first_slot);
                if offset >= WIDTH {
                    break;
                }
                let slot = offset as usize % 64;
                let row = coefficients(hash).rotate_left(slot as u32);
                let result = result(hash) & result_mask;
                let is_pending = after >> slot & 1 == 1;
                after |= 1 << slot;
                // Selected, not branched upon: nothing could predict it.
                rows[slot] = if is_pending { rows[slot] } else { row };
                results[slot] = if is_pending { results[slot] } else { result };
                room[pending % ROOM] = equation(row, result, (index * 64 + slot) as u8);
                pending += usize::from(is_pending);
                keys += 1;
            }
            self.pending.added(pending);
            if keys - keys_before < chunk.len() {
                break;
            }
        }
        *occupied = after;
        Loaded { keys, direct: after & !before }
    }

    /// Takes back the pivots of keys that start left of `threshold` in the bucket.
    #[expect(clippy::cast_possible_truncation, reason = "one of two blocks")]
    fn drop_pivots_below(&mut self, threshold: u8, first_block: usize, direct: [u64; BUCKET_BLOCKS]) {
        let occupied = &mut self.echelon.occupied[first_block..];
        for (index, (occupied, direct)) in occupied.iter_mut().zip(direct).enumerate() {
            let below = u32::from(threshold).saturating_sub(index as u32 * 64).min(64);
            *occupied &= !(direct & u64::MAX.checked_shr(64 - below).unwrap_or(0));
        }
        for pick in self.picks.as_slice().iter().filter(|pick| pick.offset < threshold) {
            occupied[usize::from(pick.slot / 64)] &= !(1 << (pick.slot % 64));
        }
    }
}

/// What a bucket's block took.
#[derive(Clone, Copy, Debug, Default)]
struct Loaded {
    /// Keys that start in it.
    keys: usize,
    /// A bit for each slot whose first key became its pivot.
    direct: u64,
}

/// Blocks of a bucket.
const BUCKET_BLOCKS: usize = (BUCKET_SLOTS / WIDTH) as usize;

/// The code of the least threshold that bumps a key at this offset.
fn threshold_code(last_contradiction: Option<u8>) -> u8 {
    let passed = |&&threshold: &&u8| last_contradiction.is_some_and(|offset| offset >= threshold);
    THRESHOLDS.iter().take(3).filter(passed).fold(0, |code, _| code + 1)
}
