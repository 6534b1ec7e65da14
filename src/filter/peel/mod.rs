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
//! other is the key's hash. So no list of keys is needed, nor their hashes once they are added, and the cells
//! are the same whatever order they came in. The order of peeling takes 4 bytes per key, because a cell that
//! took a key keeps its hash. Cells are scanned in ascending order, 512 at a time, and what becomes free is peeled
//! before the next are looked at: where a key's cells are near each other, so is the work. The order is a function of
//! the set of keys alone.
//!
//! This module knows neither fingerprints nor payloads; a kind says where a key's cells are ([`Placement`]).

mod distinct;
#[cfg(test)]
mod hostile_tests;
mod sums;
#[cfg(test)]
mod tests;

use crate::filter::BuildFailure;

pub(crate) use distinct::add_distinct;
pub(crate) use sums::{CellSums, Crowded};

/// Where the cells of a key are, under one salt.
pub(crate) trait Placement<const ARITY: usize>: Copy {
    /// The cells of the key with this hash: different ones, all below the number of cells.
    fn cells_of(&self, hash: u64) -> [usize; ARITY];
}

/// The cells that took a key each, in the order of peeling.
#[derive(Debug)]
pub(crate) enum PeelOrder {
    /// Up to 2^32 cells.
    Narrow(Vec<u32>),
    /// More.
    Wide(Vec<u64>),
}

impl PeelOrder {
    /// Bytes for each key, by the number of cells.
    pub(crate) fn bytes_per_key(cells: u64) -> u64 {
        if cells > 1 << 32 { 8 } else { 4 }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        (match self {
            Self::Narrow(cells) => cells.capacity() * 4,
            Self::Wide(cells) => cells.capacity() * 8,
        }) as u64
    }
}

/// The number of a cell, as it stands in the order.
trait CellIndex: Copy + Default {
    fn new(cell: usize) -> Self;
    fn get(self) -> usize;
}

#[expect(clippy::cast_possible_truncation, reason = "chosen by the number of cells")]
impl CellIndex for u32 {
    #[inline]
    fn new(cell: usize) -> Self {
        cell as Self
    }

    #[inline]
    fn get(self) -> usize {
        self as usize
    }
}

#[expect(clippy::cast_possible_truncation, reason = "they were indices")]
impl CellIndex for u64 {
    #[inline]
    fn new(cell: usize) -> Self {
        cell as Self
    }

    #[inline]
    fn get(self) -> usize {
        self as usize
    }
}

/// `length` zeros; `NoMemory` where there are none to be had.
fn zeroed<T: Clone + Default>(length: u64) -> Result<Vec<T>, BuildFailure> {
    let length = usize::try_from(length).map_err(|_| BuildFailure::NoMemory)?;
    // `vec!` takes zeroed pages from the system, but aborts when there are none; so ask first.
    core::hint::black_box(&mut Vec::<T>::new()).try_reserve_exact(length).map_err(|_| BuildFailure::NoMemory)?;
    Ok(vec![T::default(); length])
}
