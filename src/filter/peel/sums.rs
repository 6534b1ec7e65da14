//! The cells while keys are added and peeled.

use core::ops::Range;

use super::{CellIndex, PeelOrder, Placement, zeroed};
use crate::filter::BuildFailure;
use crate::hash::KeyHash;

/// Cells that wait to be peeled, at the most. One that finds no room is found again by the next scan.
const WAITING: usize = 4_096;

/// Cells that are looked at together.
const SCANNED: usize = 512;

/// Scans of all cells in a row after which peeling is given up. Keys that are spread take 25 at the most where cells are
/// spared, else one or two; keys that were chosen to hang together like a chain take a scan for every two of them.
const SCANS: usize = 100;

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
        Self::in_memory_of(Vec::new(), cells)
    }

    /// The same, in memory that other work has left, if it is large enough and not far too large: taking new pages
    /// from the system can cost more than all that is done in them.
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

    /// Peels all keys off; `None` if some remain, or would take too long. [`assign`](Self::assign) follows.
    pub(crate) fn peel<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY>,
    ) -> Result<Option<PeelOrder>, BuildFailure> {
        self.peel_sparing(placement, self.hashes.len())
    }

    /// The same, but the cells from `eager` on are left without a key as far as can be: a key goes to one of them
    /// only where no other cell is free.
    pub(crate) fn peel_sparing<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY>,
        eager: usize,
    ) -> Result<Option<PeelOrder>, BuildFailure> {
        if self.added > self.hashes.len() as u64 {
            return Ok(None);
        }
        if self.hashes.len() as u64 > 1 << 32 {
            Ok(self.peel_into(placement, eager, zeroed(self.added)?).map(PeelOrder::Wide))
        } else {
            Ok(self.peel_into(placement, eager, zeroed(self.added)?).map(PeelOrder::Narrow))
        }
    }

    fn peel_into<const ARITY: usize, I: CellIndex>(
        &mut self,
        placement: impl Placement<ARITY>,
        eager: usize,
        mut order: Vec<I>,
    ) -> Option<Vec<I>> {
        let mut waiting = [I::default(); WAITING];
        let mut peeled = 0;
        for _ in 0..SCANS {
            if peeled == order.len() {
                return Some(order);
            }
            let before = peeled;
            for first in (0..eager).step_by(SCANNED) {
                let scanned = first..(first + SCANNED).min(eager);
                peeled = self.peel_from(placement, eager, scanned, &mut order, peeled, &mut waiting);
            }
            // One by one: each may free others of the eager cells.
            for spared in eager..self.keys.len() {
                if self.keys[spared] == 1 {
                    peeled = self.peel_from(placement, eager, spared..spared + 1, &mut order, peeled, &mut waiting);
                }
            }
            if peeled == before {
                break;
            }
        }
        (peeled == order.len()).then_some(order)
    }

    /// Peels the free ones of some cells, at most [`SCANNED`], and those below `eager` that become free by it,
    /// wherever they are; first come, first served, so that the CPU can begin with one before the others are done.
    /// Returns how many are peeled now.
    fn peel_from<const ARITY: usize, I: CellIndex>(
        &mut self,
        placement: impl Placement<ARITY>,
        eager: usize,
        scanned: Range<usize>,
        order: &mut [I],
        mut peeled: usize,
        waiting: &mut [I; WAITING],
    ) -> usize {
        let (sums, keys) = (self.hashes.as_mut_slice(), self.keys.as_mut_slice());
        let keys = &mut keys[..sums.len()];
        let (mut next, mut end) = (0_usize, 0_usize);
        for (cell, &count) in keys.iter().enumerate().take(scanned.end).skip(scanned.start) {
            // No branch here nor below: whether a cell is free is a coin's toss.
            waiting[end % WAITING] = I::new(cell);
            end += usize::from(count == 1);
        }
        while next < end {
            let cell = waiting[next % WAITING].get();
            next += 1;
            if keys[cell] != 1 {
                continue;
            }
            let Some(place) = order.get_mut(peeled) else { return peeled };
            *place = I::new(cell);
            peeled += 1;
            let hash = sums[cell];
            for other in placement.cells_of(hash) {
                let count = keys[other].wrapping_sub(1);
                keys[other] = count;
                sums[other] ^= hash;
                waiting[end % WAITING] = I::new(other);
                let has_room = usize::from(end - next < WAITING - 1);
                end += usize::from(count == 1) & usize::from(other < eager) & has_room;
            }
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
