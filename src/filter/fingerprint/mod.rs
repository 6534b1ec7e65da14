//! Fingerprints in cells: what xor and binary fuse filters have in common once their keys are peeled.
//!
//! A kind says where a key's cells are ([`Locate`]); the exclusive or of their values is the key's fingerprint.

mod ask;
mod width;

use crate::filter::peel::{CellSums, PeelOrder, Placement};

pub(crate) use ask::{PREFETCHED_FROM, may_contain, may_contain_batch};
pub(crate) use width::{Bits8, Bits16, Bits32, Packed, Width};

/// Salts; each is tried once.
pub(crate) const SALTS: u8 = 16;

/// The second 64 bits of the fraction of pi, which are odd.
const FINGERPRINT_MULTIPLIER: u64 = 0x1319_8a2e_0370_7345;

/// The 32 bits of which a fingerprint takes the highest.
#[inline]
pub(crate) const fn fingerprint_bits(salted: u64) -> u32 {
    (salted.wrapping_mul(FINGERPRINT_MULTIPLIER) >> 32) as u32
}

/// Where a key's cells are, and what they must add up to.
pub(crate) trait Locate<const ARITY: usize>: Placement<ARITY> {
    /// The cells, and 32 bits of which the fingerprint takes the highest.
    fn locate(&self, hash: u64) -> ([usize; ARITY], u32);
}

/// Sets the cells, zeros before, so that those of every peeled key add up to its fingerprint.
pub(crate) fn set_cells<const ARITY: usize>(
    placement: impl Locate<ARITY>,
    width: impl Width,
    sums: &CellSums,
    order: &PeelOrder,
    cells: &mut [u8],
) {
    sums.assign(order, |free, hash| {
        let (places, bits) = placement.locate(hash);
        // The free cell is still 0.
        let read = |place| width.read(cells, place).unwrap_or_default();
        let sum = places.into_iter().fold(width.fingerprint(bits), |sum, place| sum ^ read(place));
        width.write(cells, free, sum);
    });
}
