//! From a hash to cells and a fingerprint.

use crate::codec::map_to_range;
use crate::filter::fingerprint::{Locate, fingerprint_bits};
use crate::filter::peel::Placement;
use crate::hash::{KeyHash, SaltStep};

/// Where keys have their cells.
#[derive(Clone, Copy, Debug)]
pub(in crate::filter) struct FuseCells<const ARITY: usize> {
    /// Cells that can be a key's first.
    pub(super) range: u64,
    /// Length of a segment, and its binary logarithm.
    pub(super) segment: u64,
    pub(super) log2_segment: u8,
    pub(super) salt_step: SaltStep,
    /// Whether the first cell is placed by the hash as it is: with salt 0.
    pub(super) is_raw: bool,
}

impl<const ARITY: usize> Locate<ARITY> for FuseCells<ARITY> {
    /// One cell in each of consecutive segments.
    ///
    /// With salt 0 the first cell ascends with the hash, so that sorted keys are built from one end to the other.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "cells are in memory, or not found")]
    fn locate(&self, hash: u64) -> ([usize; ARITY], u32) {
        let salted = KeyHash::from_well_mixed(hash).salted(self.salt_step);
        let first = map_to_range(if self.is_raw { hash } else { salted }, self.range);
        let mut cells = [first as usize; ARITY];
        let (mut next, mut offsets) = (first, salted);
        for cell in cells.iter_mut().skip(1) {
            next += self.segment;
            *cell = (next ^ (offsets & (self.segment - 1))) as usize;
            offsets >>= self.log2_segment;
        }
        (cells, fingerprint_bits(salted))
    }
}

impl<const ARITY: usize> Placement<ARITY> for FuseCells<ARITY> {
    #[inline]
    fn cells_of(&self, hash: u64) -> [usize; ARITY] {
        self.locate(hash).0
    }
}

/// Calls a function with the constant arity and the width of a shape.
macro_rules! specialised {
    ($shape:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match ($shape.arity(), $shape.fingerprint_bits()) {
            (FuseArity::Three, 8) => $function($shape.placement::<3>(), Bits8, $($argument),*),
            (FuseArity::Three, 16) => $function($shape.placement::<3>(), Bits16, $($argument),*),
            (FuseArity::Three, 32) => $function($shape.placement::<3>(), Bits32, $($argument),*),
            (FuseArity::Three, bits) => $function($shape.placement::<3>(), Packed { bits }, $($argument),*),
            (FuseArity::Four, 8) => $function($shape.placement::<4>(), Bits8, $($argument),*),
            (FuseArity::Four, 16) => $function($shape.placement::<4>(), Bits16, $($argument),*),
            (FuseArity::Four, 32) => $function($shape.placement::<4>(), Bits32, $($argument),*),
            (FuseArity::Four, bits) => $function($shape.placement::<4>(), Packed { bits }, $($argument),*),
        }
    };
}
pub(super) use specialised;
