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

use super::equation::{Starts, coefficients, result};
use super::shape::{BUCKET_SLOTS, THRESHOLDS};
use crate::hash::KeyHash;
use crate::kernel::sweep::{Echelon, Pending, Pick, sweep};

/// The code that bumps a whole bucket.
pub(super) const WHOLE_BUCKET: u8 = 3;

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
    picks: Vec<Pick>,
}

impl Section {
    /// Empties the section and lays it over slots `first_slot` to `end_slot`, multiples of 64.
    pub(super) fn reset(&mut self, first_slot: u64, end_slot: u64) {
        let slots = usize::try_from(end_slot - first_slot).unwrap_or_default();
        self.first_slot = first_slot;
        self.echelon.occupied.clear();
        self.echelon.occupied.resize(slots.div_ceil(64), 0);
        self.echelon.rows.resize(slots, 0);
        self.echelon.results.resize(slots, 0);
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        let Echelon { occupied, rows, results } = &self.echelon;
        let slots = occupied.capacity() * 8 + rows.capacity() * 8 + results.capacity() * 4;
        (slots + self.pending.bytes() + self.picks.capacity() * size_of::<Pick>()) as u64
    }

    /// Slots in the section.
    pub(super) fn slots(&self) -> usize {
        self.echelon.rows.len()
    }

    /// Bands the keys that start in the bucket at `bucket_start`: the first of `hashes`, which ascend.
    #[expect(clippy::cast_possible_truncation, reason = "a slot of this section, which is in memory")]
    pub(super) fn band_bucket(
        &mut self,
        bucket_start: u64,
        hashes: &[KeyHash],
        starts: Starts,
        result_mask: u32,
    ) -> Banded {
        let bucket = (bucket_start - self.first_slot) as usize;
        self.pending.clear();
        self.picks.clear();
        let mut direct = [0; BUCKET_WORDS];
        let mut keys = 0;
        for (half, direct) in direct.iter_mut().enumerate() {
            let word = bucket / 64 + half;
            if word < self.echelon.occupied.len() {
                let (taken, found) = self.load(word, half, &hashes[keys..], starts, result_mask);
                keys += taken;
                *direct = found;
            }
        }
        let code = threshold_code(sweep(&mut self.pending, &mut self.echelon, bucket, &mut self.picks));
        self.drop_pivots_below(THRESHOLDS[usize::from(code)], bucket, direct);
        Banded { keys, code }
    }

    /// Takes the keys that start in the section's 64 slots of index `word`, the bucket's half `half`: how many
    /// they are, and a bit for each slot whose first key became its pivot at once.
    ///
    /// That is the key which the sweep would choose, since no key that starts before it comes first.
    #[expect(clippy::cast_possible_truncation, reason = "less than 64, or 128 slots of a bucket")]
    fn load(
        &mut self,
        word: usize,
        half: usize,
        hashes: &[KeyHash],
        starts: Starts,
        result_mask: u32,
    ) -> (usize, u64) {
        let first_slot = self.first_slot + word as u64 * 64;
        let (rows, _) = self.echelon.rows.as_chunks_mut::<64>();
        let (results, _) = self.echelon.results.as_chunks_mut::<64>();
        let (Some(rows), Some(results)) = (rows.get_mut(word), results.get_mut(word)) else { return (0, 0) };
        let before = self.echelon.occupied[word];
        let mut occupied = before;
        let mut keys = 0;
        for hash in hashes.iter().map(|hash| hash.get()) {
            let offset = starts.start(hash).wrapping_sub(first_slot);
            if offset >= 64 {
                break;
            }
            let slot = offset as usize % 64;
            let row = coefficients(hash).rotate_left(slot as u32);
            let result = result(hash) & result_mask;
            let is_pending = occupied >> slot & 1 == 1;
            occupied |= 1 << slot;
            // Selected, not branched upon: nothing could predict it.
            rows[slot] = if is_pending { rows[slot] } else { row };
            results[slot] = if is_pending { results[slot] } else { result };
            self.pending.push_if(is_pending, row, result, (half * 64 + slot) as u8);
            keys += 1;
        }
        self.echelon.occupied[word] = occupied;
        (keys, occupied & !before)
    }

    /// Takes back the pivots of keys that start left of `threshold` in the bucket.
    fn drop_pivots_below(&mut self, threshold: u8, bucket: usize, direct: [u64; BUCKET_WORDS]) {
        for (half, direct) in direct.into_iter().enumerate() {
            let below = u32::from(threshold).saturating_sub(half as u32 * 64).min(64);
            let dropped = direct & u64::MAX.checked_shr(64 - below).unwrap_or(0);
            if dropped != 0 {
                self.echelon.occupied[bucket / 64 + half] &= !dropped;
            }
        }
        for pick in self.picks.iter().filter(|pick| pick.offset < threshold) {
            self.echelon.occupied[pick.slot / 64] &= !(1 << (pick.slot % 64));
        }
    }
}

/// Words of occupancy per bucket.
const BUCKET_WORDS: usize = BUCKET_SLOTS as usize / 64;

/// The code of the least threshold that bumps a key at this offset.
fn threshold_code(last_contradiction: Option<u8>) -> u8 {
    let passed = |&&threshold: &&u8| last_contradiction.is_some_and(|offset| offset >= threshold);
    THRESHOLDS.iter().take(3).filter(passed).fold(0, |code, _| code + 1)
}
