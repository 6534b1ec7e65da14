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

use super::equation::row;
use super::shape::THRESHOLDS;
use crate::kernel::sweep::{Lanes, Row};

/// A key on its way into a layer: its hash there, and the first slot of its equation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) hash: u64,
    pub(super) start: u64,
}

/// The echelon form of one section, reused from section to section.
#[derive(Debug, Default)]
pub(super) struct Section {
    first_slot: u64,
    /// One bit per slot: whether it has a pivot. Without, what stands in the arrays is left over.
    occupied: Vec<u64>,
    rows: Vec<u64>,
    results: Vec<u32>,
    lanes: Lanes,
    /// Pivots found in this bucket: the slot in the section, and the offset of the key it came from.
    pivots: Vec<(usize, u8)>,
}

impl Section {
    /// Empties the section and lays it over slots `first_slot` to `end_slot`.
    pub(super) fn reset(&mut self, first_slot: u64, end_slot: u64) {
        let slots = usize::try_from(end_slot - first_slot).unwrap_or_default();
        self.first_slot = first_slot;
        self.occupied.clear();
        self.occupied.resize(slots.div_ceil(64), 0);
        self.rows.resize(slots, 0);
        self.results.resize(slots, 0);
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        let slots = self.occupied.capacity() * 8 + self.rows.capacity() * 8 + self.results.capacity() * 4;
        (slots + self.lanes.bytes() + self.pivots.capacity() * size_of::<(usize, u8)>()) as u64
    }

    /// Slots in the section.
    pub(super) fn slots(&self) -> usize {
        self.rows.len()
    }

    /// The pivot of a slot: its row in circular form and its result.
    #[inline]
    pub(super) fn pivot(&self, slot: usize) -> Option<(u64, u32)> {
        let occupied = self.occupied[slot / 64] >> (slot % 64) & 1 == 1;
        occupied.then(|| (self.rows[slot], self.results[slot]))
    }

    /// Bands the keys that start in the bucket at `bucket_start`, in ascending order of their starts, and
    /// returns the threshold code: keys that start left of that threshold were not taken.
    pub(super) fn band_bucket(&mut self, bucket_start: u64, keys: &[Candidate], result_mask: u32) -> u8 {
        self.lanes.clear();
        self.pivots.clear();
        let rows = keys.iter().map(|key| (key.start, row(key.hash, key.start, bucket_start, result_mask)));
        let last_contradiction = self.sweep(rows);
        let code = threshold_code(last_contradiction);
        let threshold = THRESHOLDS[usize::from(code)];
        for &(slot, _) in self.pivots.iter().filter(|&&(_, offset)| offset < threshold) {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        code
    }

    /// Gives every slot the pivot it can get, and returns the largest offset of a contradictory row.
    fn sweep(&mut self, rows: impl Iterator<Item = (u64, Row)>) -> Option<u8> {
        let mut rows = rows.peekable();
        let mut last_contradiction = None;
        while let Some(&(start, _)) = rows.peek() {
            let mut slot = start;
            loop {
                let mut starting_here = || rows.next_if(|&(start, _)| start == slot).map(|(_, row)| row);
                let first = starting_here();
                while let Some(row) = starting_here() {
                    self.lanes.push(row);
                }
                if !self.sweep_slot(slot, first) {
                    break;
                }
                slot += 1;
            }
            last_contradiction = last_contradiction.max(self.lanes.last_contradiction());
            self.lanes.clear();
        }
        last_contradiction
    }

    /// Eliminates the pivot of `slot` from the pending rows, choosing one first if there is none: `first`, a
    /// row that starts here, if there is one, because none can have a higher priority. Returns whether any
    /// pending row has bits left.
    #[expect(clippy::cast_possible_truncation, reason = "a slot of this section, which is in memory")]
    fn sweep_slot(&mut self, slot: u64, first: Option<Row>) -> bool {
        let bit = (slot % 64) as u32;
        let slot = (slot - self.first_slot) as usize;
        if let Some((row, result)) = self.pivot(slot) {
            first.into_iter().for_each(|row| self.lanes.push(row));
            return self.lanes.eliminate(bit, row, result);
        }
        let Some(pivot) = first.or_else(|| self.lanes.take_highest(bit)) else {
            return self.lanes.any_left();
        };
        self.rows[slot] = pivot.coefficients;
        self.results[slot] = pivot.result;
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.pivots.push((slot, pivot.offset));
        self.lanes.eliminate(bit, pivot.coefficients, pivot.result)
    }
}

/// The code of the least threshold that bumps a key at this offset.
fn threshold_code(last_contradiction: Option<u8>) -> u8 {
    let passed = |&&threshold: &&u8| last_contradiction.is_some_and(|offset| offset >= threshold);
    THRESHOLDS.iter().take(3).filter(passed).fold(0, |code, _| code + 1)
}

/// The code that bumps a whole bucket.
pub(super) const WHOLE_BUCKET: u8 = 3;
