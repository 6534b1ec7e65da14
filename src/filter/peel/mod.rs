//! Peeling: how xor and binary fuse filters are built.
//!
//! Each key has a few cells of an array, and the exclusive or of their values must give the key's fingerprint.
//! Seen as a hypergraph, cells are vertices and keys edges. A cell that only one key has can be set last, to
//! whatever that key still needs; so the key is taken off, and other cells may become free for others. When all
//! keys come off, setting the cells in the reverse order satisfies every key. With enough cells per key (1.23
//! for three anywhere, 1.09 for three near each other) that nearly always succeeds (Majewski, Wormald, Havas,
//! Czech 1996; Botelho, Pagh, Ziviani 2007).
//!
//! A cell holds the number of its keys and the exclusive or of their hashes, 9 bytes: where the number is 1, the
//! exclusive or is the key's hash. So no list of keys is needed, nor their hashes once they are added, and the cells
//! are the same whatever order they came in. The order of peeling takes 4 bytes per key, because a cell that
//! took a key keeps its hash. Cells are scanned in ascending order, 512 at a time, and what becomes free is peeled
//! before the next are looked at: where a key's cells are near each other, so is the work. The order is a function of
//! the set of keys alone.
//!
//! This module knows neither fingerprints nor payloads; a kind says where a key's cells are ([`Placement`]).

mod cells;
#[cfg(test)]
#[cfg(feature = "xor")]
mod hostile_tests;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use crate::filter::FallbackReason;

pub(crate) use cells::CellSums;

/// Salts; each is tried once. Four bits of a block's trailer hold the salt. Of well-mixed keys at most one
/// attempt in six fails (one in 40 for binary fuse), so that 16 failures in a row mean that the keys are not.
pub(crate) const SALTS: u8 = 16;

/// The reserve of [`CellSums::peel`] when no cell is to stay empty.
pub(crate) const NO_RESERVE: usize = usize::MAX;

/// Where the cells of a key are under one salt, and what they must add up to.
pub(crate) trait Placement<const ARITY: usize>: Copy {
    /// The key's cells, different ones below the number of cells; and 32 bits of which the fingerprint takes the
    /// highest.
    fn place(&self, hash: u64) -> ([usize; ARITY], u32);

    /// The cells alone.
    #[inline]
    fn cells_of(&self, hash: u64) -> [usize; ARITY] {
        self.place(hash).0
    }
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptError {
    /// Not all keys could be peeled, or too many met in one cell. Another salt may succeed.
    Retry,
    /// No salt helps.
    Fatal(FallbackReason),
}

impl From<FallbackReason> for AttemptError {
    fn from(failure: FallbackReason) -> Self {
        Self::Fatal(failure)
    }
}

/// The first success of `attempt` with the salts from 0 up.
pub(crate) fn try_salts<T>(mut attempt: impl FnMut(u8) -> Result<T, AttemptError>) -> Result<T, FallbackReason> {
    for salt in 0..SALTS {
        match attempt(salt) {
            Ok(done) => return Ok(done),
            Err(AttemptError::Retry) => {}
            Err(AttemptError::Fatal(failure)) => return Err(failure),
        }
    }
    Err(FallbackReason::ConstructionFailed)
}

/// The cells that took a key each, in the order of peeling.
pub(crate) type PeelOrder = Vec<u32>;

/// The most cells that are peeled: 32 bits number them in the order. They are enough for 3.4 billion keys.
pub(crate) const MAX_PEELED_CELLS: u64 = 1 << 32;

/// `length` zeros, or `NoMemory`.
fn zeroed<T: Clone + Default>(length: u64) -> Result<Vec<T>, FallbackReason> {
    let length = usize::try_from(length).map_err(|_| FallbackReason::MemoryBudget)?;
    // `vec!` takes zeroed pages from the system, but aborts when there are none, so memory is
    // reserved and freed first. The black box keeps the compiler from leaving that out.
    core::hint::black_box(&mut Vec::<T>::new()).try_reserve_exact(length).map_err(|_| FallbackReason::MemoryBudget)?;
    Ok(vec![T::default(); length])
}
