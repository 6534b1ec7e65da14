//! From a hash to three cells and a fingerprint.

use crate::codec::map_to_range;
use crate::filter::fingerprint::{Locate, fingerprint_bits};
use crate::filter::peel::Placement;
use crate::hash::{KeyHash, SaltStep};

/// Where keys have their cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XorCells {
    block_cells: u64,
    salt: u8,
}

impl XorCells {
    pub(super) fn new(block_cells: u32, salt: u8) -> Self {
        Self { block_cells: block_cells.into(), salt }
    }
}

impl Locate<3> for XorCells {
    /// One cell in each block. With salt 0 the first ascends with the hash: of sorted keys, one cell in three is near
    /// that of the key before.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "cells are in memory, or not found")]
    fn locate(&self, hash: u64) -> ([usize; 3], u32) {
        let salted = KeyHash::from_well_mixed(hash).salted(SaltStep::new(self.salt));
        let first = if self.salt == 0 { hash } else { salted.rotate_left(42) };
        let cell = |block: u64, bits| (block * self.block_cells + map_to_range(bits, self.block_cells)) as usize;
        ([cell(0, first), cell(1, salted), cell(2, salted.rotate_left(21))], fingerprint_bits(salted))
    }
}

impl Placement<3> for XorCells {
    #[inline]
    fn cells_of(&self, hash: u64) -> [usize; 3] {
        self.locate(hash).0
    }
}
