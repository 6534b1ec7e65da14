//! Peeling: how xor and binary fuse filters are built.
//!
//! Each key has a few cells of an array, and the exclusive or of their values must be the key's fingerprint. Seen as a
//! hypergraph, cells are vertices and keys are edges. A cell that only one key has can be set last, to the value that
//! the key still needs. So the key is taken off, which may leave other cells with a single key. When all keys come off,
//! setting the cells in the reverse order satisfies every key. With enough cells per key (1.23 for three anywhere, 1.09
//! for three near each other) this nearly always succeeds (Majewski, Wormald, Havas, Czech 1996; Botelho, Pagh, Ziviani
//! 2007).
//!
//! A cell holds the number of its keys and the exclusive or of their hashes, 9 bytes. If the number is 1, the exclusive
//! or is the key's hash. So neither a list of keys nor the added hashes are needed, and the cells do not depend on the
//! order of the keys. The order of peeling takes 4 bytes per key, because a cell that took a key keeps its hash. Cells
//! are scanned in ascending order, 512 at a time, and the cells that become free are peeled before the next 512 are
//! scanned: if a key's cells are near each other, so are the memory accesses. The order depends only on the set of
//! keys.
//!
//! This module knows neither fingerprints nor payloads; a kind defines each key's cells ([`Placement`]).

mod cells;
#[cfg(test)]
#[cfg(all(feature = "fuse", feature = "xor"))]
mod hostile_tests;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use crate::filter::FallbackReason;

pub(crate) use cells::CellSums;

/// The number of salts; each is tried once. Four bits of a block's trailer hold the salt. With well-mixed keys, at most
/// one attempt in six fails (one in 40 for binary fuse), so that 16 failures in a row mean that the keys are not well
/// mixed.
pub(crate) const SALTS: u8 = 16;

/// The reserve of [`CellSums::peel`] when no cell has to stay empty.
pub(crate) const NO_RESERVE: usize = usize::MAX;

/// The placement of a key in cells under one salt, and the fingerprint that they must add up to.
pub(crate) trait Placement<const ARITY: usize>: Copy {
    /// Returns the key's cells, which are distinct and below the number of cells, and 32 bits; the fingerprint is the
    /// highest of them.
    fn place(&self, hash: u64) -> ([usize; ARITY], u32);

    /// Returns only the cells.
    #[inline]
    fn cells_of(&self, hash: u64) -> [usize; ARITY] {
        self.place(hash).0
    }
}

/// The reason why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptError {
    /// Not all keys could be peeled, or too many shared one cell. Another salt may succeed.
    Retry,
    /// No salt would succeed.
    Fatal(FallbackReason),
}

impl From<FallbackReason> for AttemptError {
    fn from(failure: FallbackReason) -> Self {
        Self::Fatal(failure)
    }
}

/// Returns the first success of `attempt` with the salts from 0 up.
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

/// The maximum number of cells: the order numbers them with 32 bits. They are enough for 3.4 billion keys.
pub(crate) const MAX_PEELED_CELLS: u64 = 1 << 32;

/// Allocates `length` zeros, or returns `MemoryBudget`.
fn zeroed<T: Clone + Default>(length: u64) -> Result<Vec<T>, FallbackReason> {
    let length = usize::try_from(length).map_err(|_| FallbackReason::MemoryBudget)?;
    // `vec!` gets zeroed pages from the system, but aborts when there are none. So the memory is first reserved and
    // freed; the black box keeps the compiler from removing that.
    core::hint::black_box(&mut Vec::<T>::new()).try_reserve_exact(length).map_err(|_| FallbackReason::MemoryBudget)?;
    Ok(vec![T::default(); length])
}
