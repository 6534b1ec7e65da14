//! The cells while keys are added and peeled.

use core::ops::Range;

use super::{AttemptError, CellIndex, PeelOrder, Placement, zeroed};
use crate::filter::BuildFailure;
use crate::hash::KeyHash;

/// Capacity of the queue of free cells: a ring of 16 KiB, which fits L1 beside the cells. A cell that finds it full is
/// found again by the next scan. Part of the format, because it decides the order of peeling.
const QUEUE_CELLS: usize = 4_096;

/// Cells that are scanned for free ones before those are peeled: few enough for their sums to stay in the first-level
/// cache (9 bytes each), and enough to keep the two loops long. Part of the format, as above.
const SCANNED_CELLS: usize = 512;

/// Scans of all cells in a row after which peeling fails. Well-mixed keys take at most 25 where some cells are to stay
/// empty, else one or two. Keys that an attacker chose, so that they hang together like a chain, would take a scan for
/// every two of them: without a limit, a build of quadratic time.
const SCANS: usize = 100;

/// How many keys each cell has, and the exclusive or of their hashes.
#[derive(Debug)]
pub(crate) struct CellSums {
    hashes: Vec<u64>,
    keys: Vec<u8>,
    added: u64,
}

impl CellSums {
    /// Bytes for each cell.
    pub(crate) const BYTES: u64 = 9;

    /// `cells` cells without keys.
    pub(crate) fn new(cells: u64) -> Result<Self, BuildFailure> {
        Self::in_memory_of(Vec::new(), cells)
    }

    /// The same in memory left from other work, if it is large enough and at most half too large: the first touch of a
    /// new page can cost more than all the work in it.
    pub(crate) fn in_memory_of(mut spare: Vec<KeyHash>, cells: u64) -> Result<Self, BuildFailure> {
        spare.clear();
        let mut spare: Vec<u64> = spare.into_iter().map(KeyHash::get).collect();
        let fits = (cells..=cells.saturating_add(cells / 2)).contains(&(spare.capacity() as u64));
        let hashes = match usize::try_from(cells) {
            Ok(cells) if fits => {
                spare.resize(cells, 0);
                spare
            }
            _ => {
                drop(spare);
                zeroed(cells)?
            }
        };
        Ok(Self { hashes, keys: zeroed(cells)?, added: 0 })
    }

    /// Removes all keys, for the next attempt.
    pub(crate) fn clear(&mut self) {
        // New memory is not written: its pages may not exist yet.
        if self.added == 0 {
            return;
        }
        self.hashes.fill(0);
        self.keys.fill(0);
        self.added = 0;
    }

    /// Keys added since it was empty.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.hashes.len() as u64 * Self::BYTES
    }

    /// Adds keys; [`AttemptError::Retry`] when a cell meets its 256th, because the keys repeat or are badly mixed. A
    /// key that comes twice is never alone in a cell: it remains, with those that it shares cells with, when the others
    /// are peeled.
    pub(crate) fn add_all<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY>,
        hashes: impl Iterator<Item = KeyHash>,
    ) -> Result<(), AttemptError> {
        let (sums, keys) = (self.hashes.as_mut_slice(), self.keys.as_mut_slice());
        let keys = &mut keys[..sums.len()];
        let (mut added, mut overflows) = (0, false);
        for hash in hashes {
            for cell in placement.cells_of(hash.get()) {
                let count = keys[cell].wrapping_add(1);
                keys[cell] = count;
                overflows |= count == 0;
                sums[cell] ^= hash.get();
            }
            added += 1;
        }
        self.added += added;
        if overflows { Err(AttemptError::Retry) } else { Ok(()) }
    }

    /// Peels all keys off; [`AttemptError::Retry`] if some remain, or would take too long. [`assign`](Self::assign)
    /// follows. As many as possible of the cells from `reserve` on stay empty: a key goes to one of them only where no
    /// other cell is free.
    pub(crate) fn peel<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY>,
        reserve: usize,
    ) -> Result<PeelOrder, AttemptError> {
        let reserve = reserve.min(self.hashes.len());
        if self.added > self.hashes.len() as u64 {
            return Err(AttemptError::Retry);
        }
        let order = if self.hashes.len() as u64 > 1 << 32 {
            self.peel_into(placement, reserve, zeroed(self.added)?).map(PeelOrder::Wide)
        } else {
            self.peel_into(placement, reserve, zeroed(self.added)?).map(PeelOrder::Narrow)
        };
        order.ok_or(AttemptError::Retry)
    }

    fn peel_into<const ARITY: usize, I: CellIndex>(
        &mut self,
        placement: impl Placement<ARITY>,
        reserve: usize,
        mut order: Vec<I>,
    ) -> Option<Vec<I>> {
        let mut waiting = [I::default(); QUEUE_CELLS];
        let mut peeled = 0;
        for _ in 0..SCANS {
            if peeled == order.len() {
                return Some(order);
            }
            let before = peeled;
            for first in (0..reserve).step_by(SCANNED_CELLS) {
                let scanned = first..(first + SCANNED_CELLS).min(reserve);
                peeled = self.peel_from(placement, reserve, scanned, &mut order, peeled, &mut waiting);
            }
            // One by one, because each may free cells before the reserve, which take precedence.
            for cell in reserve..self.keys.len() {
                if self.keys[cell] == 1 {
                    peeled = self.peel_from(placement, reserve, cell..cell + 1, &mut order, peeled, &mut waiting);
                }
            }
            if peeled == before {
                break;
            }
        }
        (peeled == order.len()).then_some(order)
    }

    /// Peels the free ones of some cells, at most [`SCANNED_CELLS`], and those below `reserve` that become free by it,
    /// wherever they are. Returns how many are peeled now.
    ///
    /// First come, first served: neighbours in a queue are independent, so their loads overlap. With a stack, the next
    /// cell would be the one whose load has only just begun.
    fn peel_from<const ARITY: usize, I: CellIndex>(
        &mut self,
        placement: impl Placement<ARITY>,
        reserve: usize,
        scanned: Range<usize>,
        order: &mut [I],
        mut peeled: usize,
        waiting: &mut [I; QUEUE_CELLS],
    ) -> usize {
        let (sums, keys) = (self.hashes.as_mut_slice(), self.keys.as_mut_slice());
        let keys = &mut keys[..sums.len()];
        let (mut next, mut end) = (0_usize, 0_usize);
        for (cell, &count) in keys.iter().enumerate().take(scanned.end).skip(scanned.start) {
            // Written unconditionally, kept if free: no branch predictor can guess which cells are free.
            waiting[end % QUEUE_CELLS] = I::new(cell);
            end += usize::from(count == 1);
        }
        while next < end {
            let cell = waiting[next % QUEUE_CELLS].get();
            next += 1;
            if keys[cell] != 1 {
                continue;
            }
            // More free cells than keys: only where keys repeat.
            let Some(place) = order.get_mut(peeled) else { return peeled };
            *place = I::new(cell);
            peeled += 1;
            let hash = sums[cell];
            for other in placement.cells_of(hash) {
                let count = keys[other].wrapping_sub(1);
                keys[other] = count;
                sums[other] ^= hash;
                waiting[end % QUEUE_CELLS] = I::new(other);
                let has_place = usize::from(end - next < QUEUE_CELLS - 1);
                end += usize::from(count == 1) & usize::from(other < reserve) & has_place;
            }
            // The loop has cleared it with the others; `assign` reads it.
            sums[cell] = hash;
        }
        peeled
    }

    /// Calls `set` for each cell that took a key, in the order in which they can be set, with the key's hash.
    #[inline]
    pub(crate) fn assign(&self, order: &PeelOrder, mut set: impl FnMut(usize, u64)) {
        match order {
            PeelOrder::Narrow(order) => order.iter().rev().for_each(|cell| set(cell.get(), self.hashes[cell.get()])),
            PeelOrder::Wide(order) => order.iter().rev().for_each(|cell| set(cell.get(), self.hashes[cell.get()])),
        }
    }
}
