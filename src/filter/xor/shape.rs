//! The shape of an xor filter.

use super::cells::XorCells;
use super::probe;
use crate::error::BlockError;
use crate::filter::{EncodedShape, FilterKind, FilterShape, ParamWords};
use crate::hash::KeyHash;

/// The bits of a fingerprint in an xor or xor+ filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum XorWidth {
    /// Eight: one absent key in 256 gets through.
    #[default]
    Eight,
    /// Sixteen: one in 65,536.
    Sixteen,
}

impl XorWidth {
    /// As a number.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }

    /// The width of so many bits.
    pub(crate) fn decode(bits: u32) -> Result<Self, BlockError> {
        match bits {
            8 => Ok(Self::Eight),
            16 => Ok(Self::Sixteen),
            got => Err(BlockError::Field { field: "fingerprint bits", expected: "8 or 16", got: got.into() }),
        }
    }
}

/// The shape of an xor filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XorShape {
    width: XorWidth,
    block_cells: u32,
    salt: u8,
}

impl XorShape {
    /// A shape with salt 0; `None` for empty blocks.
    pub(crate) fn new(width: XorWidth, block_cells: u32) -> Option<Self> {
        (block_cells > 0).then_some(Self { width, block_cells, salt: 0 })
    }

    pub(crate) fn with_salt(self, salt: u8) -> Self {
        Self { salt, ..self }
    }

    pub(crate) fn width(self) -> XorWidth {
        self.width
    }

    /// Cells of each of the three blocks.
    pub(crate) fn block_cells(self) -> u32 {
        self.block_cells
    }

    /// Cells of all blocks.
    pub(crate) fn cells(self) -> u64 {
        3 * u64::from(self.block_cells)
    }

    /// Where keys have their cells.
    #[inline]
    pub(crate) fn placement(self) -> XorCells {
        XorCells::new(self.block_cells, self.salt)
    }

    /// The two first parameter words.
    pub(crate) fn decode_words(bits: u32, block_cells: u32) -> Result<Self, BlockError> {
        let no_cells = BlockError::Field { field: "cells of a block", expected: "at least 1", got: 0 };
        Self::new(XorWidth::decode(bits)?, block_cells).ok_or(no_cells)
    }
}

impl FilterShape for XorShape {
    const KIND: FilterKind = FilterKind::XOR;

    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let field = |field, expected, got| Err(BlockError::Field { field, expected, got });
        let &[bits, block_cells] = encoded.params.as_slice() else {
            return field("parameter words", "2 for xor", encoded.params.count().into());
        };
        let shape = Self::decode_words(bits, block_cells)?;
        if shape.payload_bytes() != encoded.payload_bytes {
            return field("payload bytes", "what the parameters give", encoded.payload_bytes);
        }
        Ok(shape.with_salt(encoded.salt))
    }

    fn params(&self) -> ParamWords {
        [self.width.bits(), self.block_cells].into_iter().collect()
    }

    fn salt(&self) -> u8 {
        self.salt
    }

    fn payload_bytes(&self) -> u64 {
        (self.cells() * u64::from(self.width.bits() / 8)).next_multiple_of(8)
    }

    /// 2^-w for fingerprints of w bits, whatever the number of keys.
    fn expected_fpr(&self, _keys: u64) -> f64 {
        1.0 / (1_u64 << self.width.bits()) as f64
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        vec![
            ("fingerprint bits", self.width.bits().to_string()),
            ("cells", self.cells().to_string()),
            ("salt", self.salt.to_string()),
        ]
    }

    #[inline]
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        probe::may_contain(*self, payload, hash)
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        probe::may_contain_batch(*self, payload, hashes, hits);
    }
}
