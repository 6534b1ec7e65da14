//! From a hash to cells and a fingerprint; from cells to bits of the payload.

use crate::codec::map_to_range;
use crate::filter::peel::Placement;
use crate::hash::KeyHash;

/// The second 64 bits of the fraction of pi, which are odd.
const FINGERPRINT_MULTIPLIER: u64 = 0x1319_8a2e_0370_7345;

/// Where keys have their cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct FuseCells<const ARITY: usize> {
    /// Cells that can be a key's first.
    pub(super) range: u64,
    /// Length of a segment, and its binary logarithm.
    pub(super) segment: u64,
    pub(super) log2_segment: u8,
    pub(super) salt: u8,
}

impl<const ARITY: usize> FuseCells<ARITY> {
    /// The cells of a key, one in each of consecutive segments, and its fingerprint of 32 bits.
    ///
    /// With salt 0 the first cell ascends with the hash, so that sorted keys are built from one end to the other.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "cells are in memory, or not found")]
    pub(super) fn locate(&self, hash: u64) -> ([usize; ARITY], u32) {
        let salted = KeyHash::from_well_mixed(hash).salted(self.salt);
        let first = map_to_range(if self.salt == 0 { hash } else { salted }, self.range);
        let mut cells = [first as usize; ARITY];
        let (mut next, mut offsets) = (first, salted);
        for cell in cells.iter_mut().skip(1) {
            next += self.segment;
            *cell = (next ^ (offsets & (self.segment - 1))) as usize;
            offsets >>= self.log2_segment;
        }
        (cells, (salted.wrapping_mul(FINGERPRINT_MULTIPLIER) >> 32) as u32)
    }
}

impl<const ARITY: usize> Placement<ARITY> for FuseCells<ARITY> {
    #[inline]
    fn cells_of(&self, hash: u64) -> [usize; ARITY] {
        self.locate(hash).0
    }
}

/// How fingerprints lie in the payload.
pub(super) trait Width: Copy {
    /// What remains of a key's 32 bits.
    fn fingerprint(self, bits: u32) -> u32;
    /// The bits in a cell, and above them perhaps some of its neighbours; `None` beyond the payload.
    fn read(self, payload: &[u8], cell: usize) -> Option<u32>;
    /// Writes a cell whose bits are 0.
    fn write(self, payload: &mut [u8], cell: usize, fingerprint: u32);
    /// Where the cell begins.
    fn byte(self, cell: usize) -> usize;
    /// Whether all bits of a cell are 0 in what was read.
    fn is_zero(self, sum: u32) -> bool;
}

/// Defines a width of whole bytes.
macro_rules! whole_bytes {
    ($name:ident, $number:ty) => {
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name;

        impl Width for $name {
            #[inline]
            fn fingerprint(self, bits: u32) -> u32 {
                bits >> (32 - <$number>::BITS)
            }

            #[inline]
            fn read(self, payload: &[u8], cell: usize) -> Option<u32> {
                payload.as_chunks().0.get(cell).map(|&bytes| <$number>::from_le_bytes(bytes).into())
            }

            #[inline]
            #[expect(clippy::allow_attributes, reason = "u32 is not truncated")]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::unnecessary_cast,
                reason = "fingerprints have as many bits"
            )]
            fn write(self, payload: &mut [u8], cell: usize, fingerprint: u32) {
                if let Some(bytes) = payload.as_chunks_mut().0.get_mut(cell) {
                    *bytes = (fingerprint as $number).to_le_bytes();
                }
            }

            #[inline]
            fn byte(self, cell: usize) -> usize {
                cell * size_of::<$number>()
            }

            #[inline]
            fn is_zero(self, sum: u32) -> bool {
                sum == 0
            }
        }
    };
}

whole_bytes!(Bits8, u8);
whole_bytes!(Bits16, u16);
whole_bytes!(Bits32, u32);

/// Any number of bits up to 16: cell `i` begins at bit `i * bits`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    pub(super) bits: u8,
}

impl Width for Packed {
    #[inline]
    fn fingerprint(self, bits: u32) -> u32 {
        bits >> (32 - self.bits)
    }

    #[inline]
    fn read(self, payload: &[u8], cell: usize) -> Option<u32> {
        let bytes = payload.get(self.byte(cell)..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes) >> (cell * usize::from(self.bits) % 8))
    }

    #[inline]
    fn write(self, payload: &mut [u8], cell: usize, fingerprint: u32) {
        if let Some(bytes) = payload.get_mut(self.byte(cell)..).and_then(<[u8]>::first_chunk_mut) {
            let bits = fingerprint & ((1 << self.bits) - 1);
            *bytes = (u32::from_le_bytes(*bytes) | bits << (cell * usize::from(self.bits) % 8)).to_le_bytes();
        }
    }

    #[inline]
    fn byte(self, cell: usize) -> usize {
        cell * usize::from(self.bits) / 8
    }

    #[inline]
    fn is_zero(self, sum: u32) -> bool {
        sum << (32 - self.bits) == 0
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
