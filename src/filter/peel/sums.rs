//! The cells while keys are added and peeled.

use super::{CellIndex, PeelOrder, Placement, zeroed};
use crate::filter::BuildFailure;
use crate::hash::KeyHash;

/// Cells that wait to be peeled, at the most. One that finds no room is found again by the next scan.
const WAITING: usize = 4_096;

/// A cell met its 256th key: keys come again and again, or are not spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowded;

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
        Ok(Self { hashes: zeroed(cells)?, keys: zeroed(cells)?, added: 0 })
    }

    /// Takes all keys off.
    pub(crate) fn clear(&mut self) {
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

    /// Adds keys. One that comes twice is never alone in a cell: it and those it meets remain when the others are
    /// peeled.
    pub(crate) fn add_all<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY>,
        hashes: impl Iterator<Item = KeyHash>,
    ) -> Result<(), Crowded> {
        let (sums, keys) = (self.hashes.as_mut_slice(), self.keys.as_mut_slice());
        let keys = &mut keys[..sums.len()];
        let (mut added, mut is_crowded) = (0, false);
        for hash in hashes {
            for cell in placement.cells_of(hash.get()) {
                let count = keys[cell].wrapping_add(1);
                keys[cell] = count;
                is_crowded |= count == 0;
                sums[cell] ^= hash.get();
            }
            added += 1;
        }
        self.added += added;
        if is_crowded { Err(Crowded) } else { Ok(()) }
    }

    /// Peels all keys off; `None` if some remain. [`assign`](Self::assign) follows.
    pub(crate) fn peel<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY>,
    ) -> Result<Option<PeelOrder>, BuildFailure> {
        if self.hashes.len() as u64 > 1 << 32 {
            Ok(self.peel_into(placement, zeroed(self.added)?).map(PeelOrder::Wide))
        } else {
            Ok(self.peel_into(placement, zeroed(self.added)?).map(PeelOrder::Narrow))
        }
    }

    fn peel_into<const ARITY: usize, I: CellIndex>(
        &mut self,
        placement: impl Placement<ARITY>,
        mut order: Vec<I>,
    ) -> Option<Vec<I>> {
        let mut waiting = [I::default(); WAITING];
        let mut peeled = 0;
        while peeled < order.len() {
            let before = peeled;
            self.scan(placement, &mut order, &mut peeled, &mut waiting);
            if peeled == before {
                return None;
            }
        }
        Some(order)
    }

    /// Peels what is free, cell by cell, and what becomes free by it.
    #[inline]
    fn scan<const ARITY: usize, I: CellIndex>(
        &mut self,
        placement: impl Placement<ARITY>,
        order: &mut [I],
        peeled: &mut usize,
        waiting: &mut [I; WAITING],
    ) {
        let (sums, keys) = (self.hashes.as_mut_slice(), self.keys.as_mut_slice());
        let keys = &mut keys[..sums.len()];
        let mut done = *peeled;
        for first in 0..keys.len() {
            if keys[first] != 1 {
                continue;
            }
            waiting[0] = I::new(first);
            let mut top = 1;
            while top > 0 {
                top -= 1;
                let cell = waiting[top].get();
                if keys[cell] != 1 {
                    continue;
                }
                let Some(place) = order.get_mut(done) else { return };
                *place = I::new(cell);
                done += 1;
                let hash = sums[cell];
                for other in placement.cells_of(hash) {
                    let count = keys[other].wrapping_sub(1);
                    keys[other] = count;
                    sums[other] ^= hash;
                    // No branch: whether a cell is free is a coin's toss.
                    waiting[top.min(WAITING - 1)] = I::new(other);
                    top = (top + usize::from(count == 1)).min(WAITING - 1);
                }
                sums[cell] = hash;
            }
        }
        *peeled = done;
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
