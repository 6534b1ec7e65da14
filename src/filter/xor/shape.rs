//! The shape of an xor filter: its number of cells, their placement, and its probe.

use alloc::string::ToString;

use crate::error::BlockError;
use crate::filter::batch;
use crate::filter::fingerprint::{
    PeeledShape, Placed, VectorPlacement, WholeBytes, fingerprint_bits, may_contain, may_contain_batch, set_cells,
    with_width,
};
use crate::filter::peel::{AttemptError, CellSums, MAX_PEELED_CELLS, PeelOrder, Placement};
use crate::filter::{AnyShape, EncodedShape, FilterShape, OpenShape, ParamWords, ShapeFields, SingleProbe};
use crate::hash::{KeyHash, SaltStep, map_to_range, map_to_small_range};

/// The fingerprint widths of xor and xor+ filters: one absent key in 256 is a false positive, or one in 65,536.
pub(crate) const WIDTHS: [u8; 2] = [8, 16];

/// The shape of an xor filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XorShape {
    /// The bits of a fingerprint: 8 or 16.
    pub(crate) bits: u8,
    /// The cells of each of the three blocks: at least 1.
    pub(crate) block_cells: u32,
    salt: u8,
}

impl XorShape {
    /// Returns a shape with salt 0.
    pub(crate) fn new(bits: u8, block_cells: u32) -> Self {
        Self { bits, block_cells, salt: 0 }
    }

    /// Returns the placement of keys in cells.
    #[inline]
    pub(crate) fn placement(self) -> XorCells {
        XorCells { block_cells: self.block_cells.into(), salt: self.salt }
    }

    /// Returns the first cell of the third block.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a cell beyond memory is not found in the payload")]
    pub(crate) fn third_block(self) -> usize {
        2 * u64::from(self.block_cells) as usize
    }

    /// Returns a faster probe of single keys, for unsalted filters: nearly all filters are unsalted.
    pub(in crate::filter) fn single_probe(self) -> Option<SingleProbe> {
        match (self.bits, self.salt) {
            (8, 0) => Some(probe_unsalted::<1>),
            (16, 0) => Some(probe_unsalted::<2>),
            _ => None,
        }
    }

    /// Decodes the first two parameter words.
    pub(crate) fn decode_words(bits: u32, block_cells: u32) -> Result<Self, BlockError> {
        let [width, ..] = bits.to_le_bytes();
        BlockError::require(u32::from(width) == bits && WIDTHS.contains(&width), "fingerprint bits", "8 or 16", bits)?;
        BlockError::require(block_cells > 0, "cells of a block", "at least 1", block_cells)?;
        Ok(Self::new(width, block_cells))
    }
}

impl FilterShape for XorShape {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let [bits, block_cells] = encoded.words("2 for xor")?;
        Ok(Self::decode_words(bits, block_cells)?.with_salt(encoded.salt))
    }

    fn params(&self) -> ParamWords {
        [self.bits.into(), self.block_cells].into_iter().collect()
    }

    fn salt(&self) -> u8 {
        self.salt
    }

    fn payload_bytes(&self) -> u64 {
        (self.cells() * u64::from(self.bits / 8)).next_multiple_of(8)
    }

    /// Returns 2^-w for fingerprints of w bits, for any number of keys.
    fn expected_fpr(&self, _keys: u64) -> f64 {
        1.0 / (1_u64 << self.bits) as f64
    }

    fn describe(&self) -> ShapeFields {
        vec![
            ("fingerprint bits", self.bits.to_string()),
            ("cells", self.cells().to_string()),
            ("salt", self.salt.to_string()),
        ]
    }

    #[inline]
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        with_width!(self.bits, may_contain(self.placement(), payload, hash))
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        if payload.len() as u64 != self.payload_bytes() {
            return batch::all_match(hashes, matches);
        }
        with_width!(self.bits, may_contain_batch(self.placement(), payload, hashes, matches));
    }
}

/// Probes for one key in an unsalted filter of cells of `BYTES` bytes. `decode` has checked that all cells lie in the
/// payload, so the whole block can be passed instead.
fn probe_unsalted<const BYTES: usize>(data: &[u8], hash: KeyHash, open: &OpenShape) -> bool {
    let AnyShape::Xor(shape) = &open.any else { return true };
    let placement = XorCells { salt: 0, ..shape.placement() };
    may_contain(placement, WholeBytes::<BYTES>, data, hash)
}

impl PeeledShape for XorShape {
    fn with_salt(self, salt: u8) -> Self {
        Self { salt, ..self }
    }

    fn cells(&self) -> u64 {
        3 * u64::from(self.block_cells)
    }

    fn add_all(&self, sums: &mut CellSums, hashes: &[KeyHash], threads: usize) -> Result<(), AttemptError> {
        // Adding by block reads all keys once for each block; one thread adds all three cells in one pass.
        if threads > 1 {
            return sums.add_by_block(self.placement(), hashes, threads);
        }
        sums.add_all(self.placement(), hashes.iter().copied())
    }

    fn peel(&self, sums: &mut CellSums, reserve: usize) -> Result<PeelOrder, AttemptError> {
        sums.peel(self.placement(), reserve)
    }

    fn set_cells(&self, sums: &CellSums, order: &PeelOrder, cells: &mut [u8]) {
        with_width!(self.bits, set_cells(self.placement(), sums, order, cells));
    }
}

/// Returns the shape of a filter of `keys` keys; `None` if it cannot be recorded. It has at least 1.23 times as many
/// cells as keys, and 32 more (Graf and Lemire 2020).
pub(crate) fn shape_for(keys: u64, bits: u8) -> Option<XorShape> {
    let block_cells = (u128::from(keys) * 123 + 3_200).div_ceil(300);
    Some(XorShape::new(bits, u32::try_from(block_cells).ok()?)).filter(|shape| shape.cells() <= MAX_PEELED_CELLS)
}

/// The placement of keys in cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XorCells {
    block_cells: u64,
    salt: u8,
}

impl Placement<3> for XorCells {
    /// Places one cell in each block. With salt 0 the first cell ascends with the hash, so that with sorted keys one
    /// cell in three is near the previous key's, and building misses the caches less often.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a cell beyond memory is not found in the payload")]
    fn place(&self, hash: u64) -> ([usize; 3], u32) {
        let salted = KeyHash::from_well_mixed(hash).salted(SaltStep::new(self.salt));
        // Rotations by thirds of a word: each block chooses its cell by other high bits.
        let first = if self.salt == 0 { hash } else { salted.rotate_left(42) };
        let cell = |block: u64, bits| (block * self.block_cells + map_to_range(bits, self.block_cells)) as usize;
        ([cell(0, first), cell(1, salted), cell(2, salted.rotate_left(21))], fingerprint_bits(salted))
    }
}

impl VectorPlacement<3> for XorCells {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled with the instructions of its caller")]
    #[expect(clippy::cast_possible_truncation, reason = "a cell beyond memory is not found in the payload")]
    fn place_all(&self, hashes: &[KeyHash], placed: &mut Placed<3>) {
        let mut salted = [0; 64];
        let salted = &mut salted[..hashes.len().min(64)];
        for (salted, hash) in salted.iter_mut().zip(hashes) {
            *salted = hash.salted(SaltStep::new(self.salt));
        }
        let cell = |block: u64, bits| (block * self.block_cells + map_to_small_range(bits, self.block_cells)) as usize;
        let Placed { cells: [firsts, seconds, thirds], bits } = placed;
        for ((first, hash), salted) in firsts.iter_mut().zip(hashes).zip(&*salted) {
            *first = cell(0, if self.salt == 0 { hash.get() } else { salted.rotate_left(42) });
        }
        for (second, salted) in seconds.iter_mut().zip(&*salted) {
            *second = cell(1, *salted);
        }
        for (third, salted) in thirds.iter_mut().zip(&*salted) {
            *third = cell(2, salted.rotate_left(21));
        }
        for (bits, salted) in bits.iter_mut().zip(&*salted) {
            *bits = fingerprint_bits(*salted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterShape;

    #[test]
    fn there_are_three_blocks_of_at_least_a_third_of_1_23_cells_per_key_and_32() {
        let bytes = |keys| shape_for(keys, 8).unwrap().payload_bytes();
        assert_eq!([0, 1, 2, 100, 1_000_000].map(bytes), [40, 40, 40, 160, 1_230_040]);
        for keys in (0..5_000).chain((5_000..1_000_000).step_by(991)) {
            let cells = 3 * u128::from(shape_for(keys, 8).unwrap().block_cells);
            let least = (u128::from(keys) * 123 + 3_200) as f64 / 100.0;
            assert!((least..least + 3.0).contains(&(cells as f64)), "{keys} keys: {cells} cells");
        }
    }

    #[test]
    fn numbers_beyond_what_can_be_recorded_have_no_shape() {
        assert!(shape_for(3 << 30, 16).is_some());
        // 1.23 cells for each key, and 32, in three equal blocks.
        let most = ((1 << 32) / 3 * 300 - 3_200) / 123;
        assert!(shape_for(most, 8).is_some_and(|shape| shape.cells() <= 1 << 32));
        assert_eq!(shape_for(most + 1, 8), None);
        assert_eq!(shape_for(u64::MAX, 8), None);
    }
}
