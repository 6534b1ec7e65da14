//! The cells while keys are added and peeled.

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{AttemptError, PeelOrder, Placement, zeroed};
use crate::filter::FallbackReason;
use crate::filter::cache::PEEL_PREFETCH_BYTES;
use crate::hash::KeyHash;
use crate::kernel::prefetch::prefetch;
use crate::threads::share;

/// Capacity of the queue of free cells: a ring of 16 KiB, which fits L1 together with the cells. If the ring is full, a
/// free cell waits for the next scan. Part of the format, because it decides the order of peeling.
const QUEUE_CELLS: usize = 4_096;

/// Cells that are scanned for free ones before those are peeled: few enough for their sums to stay in the first-level
/// cache (9 bytes each), and enough to keep the two loops long. Part of the format, for the same reason.
const SCANNED_CELLS: usize = 512;

/// Peeling fails after this many scans of all cells. Well-mixed keys take at most 25 scans if some cells have to stay
/// empty, otherwise one or two. An attacker could choose keys that form a chain, which takes a scan for every two of
/// them: without a limit, the build would take quadratic time.
const SCANS: usize = 100;

/// How many entries ahead in the queue a key's cells are prefetched: about the loads in flight that a core supports, at
/// three cells of two loads each.
const PEELED_AHEAD: usize = 8;

/// How many cells ahead in the order a hash is prefetched before its cell is set, with one load each.
const ASSIGNED_AHEAD: usize = 32;

/// The number of keys of each cell, and the exclusive or of their hashes.
#[derive(Debug)]
pub(crate) struct CellSums {
    pub(super) hashes: Vec<u64>,
    pub(super) keys: Vec<u8>,
    pub(super) added: u64,
}

impl CellSums {
    /// Bytes for each cell: a hash and a count.
    pub(crate) const BYTES: u64 = 9;

    /// Allocates `cells` cells without keys.
    pub(crate) fn new(cells: u64) -> Result<Self, FallbackReason> {
        Self::in_memory_of(Vec::new(), cells)
    }

    /// Like [`new`](Self::new), but reuses memory left from other work if it is large enough and at most half too
    /// large: the first touch of a new page can cost more than all the work in it.
    pub(crate) fn in_memory_of(mut spare: Vec<KeyHash>, cells: u64) -> Result<Self, FallbackReason> {
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
        // Skips memory that is still untouched: writing zeros would make the system allocate its pages.
        if self.added == 0 {
            return;
        }
        self.hashes.fill(0);
        self.keys.fill(0);
        self.added = 0;
    }

    /// Returns the bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.hashes.len() as u64 * Self::BYTES
    }

    /// Adds keys. Returns [`AttemptError::Retry`] when a cell gets its 256th key, because the keys repeat or are badly
    /// mixed. A repeated key is never alone in a cell: it remains when the others are peeled, with the keys that share
    /// its cells.
    pub(crate) fn add_all<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY>,
        hashes: impl Iterator<Item = KeyHash>,
    ) -> Result<(), AttemptError> {
        let (keys, overflows) = self.all_cells().add(hashes, |hash| placement.cells_of(hash));
        self.added += keys;
        if overflows { Err(AttemptError::Retry) } else { Ok(()) }
    }

    /// Like [`add_all`](Self::add_all), for keys in parts that up to `threads` threads share. All cells of a part's
    /// keys lie in its range; the ranges ascend and do not overlap.
    pub(crate) fn add_parts<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY> + Sync,
        parts: Vec<(Range<usize>, &[KeyHash])>,
        threads: usize,
    ) -> Result<(), AttemptError> {
        self.added += parts.iter().map(|(_, hashes)| hashes.len() as u64).sum::<u64>();
        self.add_shared(parts, threads, |mut cells, hashes| {
            cells.add(hashes.iter().copied(), |hash| placement.cells_of(hash)).1
        })
    }

    /// Like [`add_all`](Self::add_all), for cells in `ARITY` blocks of equal length, with one cell of each key in each
    /// block. Up to `threads` threads share the blocks.
    pub(crate) fn add_by_block<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY> + Sync,
        hashes: &[KeyHash],
        threads: usize,
    ) -> Result<(), AttemptError> {
        self.added += hashes.len() as u64;
        let block_cells = self.hashes.len() / ARITY;
        let blocks = (0..ARITY).map(|block| (block * block_cells..(block + 1) * block_cells, block)).collect();
        self.add_shared(blocks, threads, |mut cells, block| {
            cells.add(hashes.iter().copied(), |hash| [placement.cells_of(hash)[block]]).1
        })
    }

    /// Calls `add` for each of `parts` with the cells of its range; `add` returns whether a cell overflows.
    fn add_shared<T: Send>(
        &mut self,
        parts: Vec<(Range<usize>, T)>,
        threads: usize,
        add: impl Fn(CellRange<'_>, T) -> bool + Sync,
    ) -> Result<(), AttemptError> {
        let mut rest = self.all_cells();
        let split = |(range, keys): (Range<usize>, T)| {
            rest.split_off_to(range.start);
            (rest.split_off_to(range.end), keys)
        };
        let mut parts: Vec<_> = parts.into_iter().map(split).collect();
        // The first block of an xor filter takes the least time, because its cells ascend with the keys. It comes last,
        // to fill the gap when other threads are still busy.
        parts.reverse();
        let overflows = AtomicBool::new(false);
        share(threads, parts, &mut (), |(), (cells, keys)| {
            overflows.fetch_or(add(cells, keys), Ordering::Relaxed);
        });
        if overflows.into_inner() { Err(AttemptError::Retry) } else { Ok(()) }
    }

    fn all_cells(&mut self) -> CellRange<'_> {
        CellRange { first: 0, hashes: &mut self.hashes, keys: &mut self.keys }
    }

    /// Peels all keys; [`AttemptError::Retry`] if some remain or peeling takes too long. [`assign`](Self::assign)
    /// follows. As many cells as possible from `reserve` on stay empty: a key takes one of them only if no other cell
    /// is free.
    pub(crate) fn peel<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY>,
        reserve: usize,
    ) -> Result<PeelOrder, AttemptError> {
        let reserve = reserve.min(self.hashes.len());
        // More keys than cells cannot all come off; checked before the order is allocated.
        if self.added > self.hashes.len() as u64 {
            return Err(AttemptError::Retry);
        }
        let mut order = zeroed(self.added)?;
        let (mut waiting, mut peeled) = ([0; QUEUE_CELLS], 0);
        for _ in 0..SCANS {
            if peeled == order.len() {
                return Ok(order);
            }
            let before = peeled;
            for first in (0..reserve).step_by(SCANNED_CELLS) {
                let scanned = first..(first + SCANNED_CELLS).min(reserve);
                peeled = self.peel_from(placement, reserve, scanned, &mut order, peeled, &mut waiting);
            }
            // One cell at a time, because each may free cells before the reserve, which take precedence.
            for cell in reserve..self.keys.len() {
                if self.keys[cell] == 1 {
                    peeled = self.peel_from(placement, reserve, cell..cell + 1, &mut order, peeled, &mut waiting);
                }
            }
            if peeled == before {
                break;
            }
        }
        if peeled == order.len() { Ok(order) } else { Err(AttemptError::Retry) }
    }

    /// Peels the free cells among `scanned`, at most [`SCANNED_CELLS`], and all cells below `reserve` that become free.
    /// Returns how many keys are peeled now.
    ///
    /// A queue, not a stack: neighbours in a queue are independent, so their loads overlap. With a stack, the next cell
    /// would be the one whose load has just begun.
    #[expect(clippy::cast_possible_truncation, reason = "no more than `MAX_PEELED_CELLS`")]
    fn peel_from<const ARITY: usize>(
        &mut self,
        placement: impl Placement<ARITY>,
        reserve: usize,
        scanned: Range<usize>,
        order: &mut [u32],
        mut peeled: usize,
        waiting: &mut [u32; QUEUE_CELLS],
    ) -> usize {
        let looks_ahead = self.bytes() > PEEL_PREFETCH_BYTES;
        let (sums, keys) = (self.hashes.as_mut_slice(), self.keys.as_mut_slice());
        let keys = &mut keys[..sums.len()];
        let (mut next, mut end) = (0_usize, 0_usize);
        for (cell, &count) in keys.iter().enumerate().take(scanned.end).skip(scanned.start) {
            // Written unconditionally and kept if free: no branch predictor can guess which cells are free.
            waiting[end % QUEUE_CELLS] = cell as u32;
            end += usize::from(count == 1);
        }
        while next < end {
            let cell = waiting[next % QUEUE_CELLS] as usize;
            next += 1;
            if looks_ahead {
                // The ring always holds a valid cell there, even if it will not be peeled.
                let coming = waiting[(next + PEELED_AHEAD) % QUEUE_CELLS] as usize;
                for other in placement.cells_of(sums[coming]) {
                    prefetch(sums.as_ptr().wrapping_add(other));
                    prefetch(keys.as_ptr().wrapping_add(other));
                }
            }
            if keys[cell] != 1 {
                continue;
            }
            // There can be more free cells than keys, but only if keys repeat.
            let Some(place) = order.get_mut(peeled) else { return peeled };
            *place = cell as u32;
            peeled += 1;
            let hash = sums[cell];
            for other in placement.cells_of(hash) {
                let count = keys[other].wrapping_sub(1);
                keys[other] = count;
                sums[other] ^= hash;
                waiting[end % QUEUE_CELLS] = other as u32;
                let has_place = usize::from(end - next < QUEUE_CELLS - 1);
                end += usize::from(count == 1) & usize::from(other < reserve) & has_place;
            }
            // Restores the hash, which the loop has cleared, for `assign`.
            sums[cell] = hash;
        }
        peeled
    }

    /// Calls `set` for each cell that took a key, with the key's hash, in the order in which the cells can be set.
    #[inline]
    pub(crate) fn assign(&self, order: &PeelOrder, mut set: impl FnMut(usize, u64)) {
        let mut coming = order.iter().rev().skip(ASSIGNED_AHEAD);
        for cell in order.iter().rev() {
            if let Some(coming) = coming.next() {
                prefetch(self.hashes.as_ptr().wrapping_add(*coming as usize));
            }
            set(*cell as usize, self.hashes[*cell as usize]);
        }
    }
}

/// A range of neighbouring cells, while keys are added.
struct CellRange<'a> {
    /// The number of the first cell.
    first: usize,
    hashes: &'a mut [u64],
    keys: &'a mut [u8],
}

impl<'a> CellRange<'a> {
    /// Splits off the cells below number `end`.
    fn split_off_to(&mut self, end: usize) -> CellRange<'a> {
        let (first, count) = (self.first, end - self.first);
        let hashes = self.hashes.split_off_mut(..count).unwrap_or_default();
        let keys = self.keys.split_off_mut(..count).unwrap_or_default();
        self.first = end;
        CellRange { first, hashes, keys }
    }

    /// Adds keys. Returns their number, and whether a cell got its 256th.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled with the placement; the first cell is mostly known to be 0")]
    fn add<const CELLS: usize>(
        &mut self,
        hashes: impl Iterator<Item = KeyHash>,
        cells_of: impl Fn(u64) -> [usize; CELLS],
    ) -> (u64, bool) {
        let (sums, first) = (&mut *self.hashes, self.first);
        let keys = &mut self.keys[..sums.len()];
        let (mut added, mut overflows) = (0, false);
        for hash in hashes {
            for cell in cells_of(hash.get()) {
                let cell = cell - first;
                let count = keys[cell].wrapping_add(1);
                keys[cell] = count;
                overflows |= count == 0;
                sums[cell] ^= hash.get();
            }
            added += 1;
        }
        (added, overflows)
    }
}
