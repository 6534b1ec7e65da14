//! The shape of an xor+ filter.

use super::probe;
use super::rank::LINE_CELLS;
use crate::codec::LINE_BYTES;
use crate::error::BlockError;
use crate::filter::xor::{XorCells, XorShape, XorWidth};
use crate::filter::{EncodedShape, FilterKind, FilterShape, ParamWords};
use crate::hash::KeyHash;

/// The shape of an xor+ filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XorPlusShape {
    /// The filter with all cells.
    whole: XorShape,
    /// Cells of the third block that are kept.
    kept: u32,
}

impl XorPlusShape {
    /// The filter that keeps `kept` cells of the third block of `whole`; `None` when there are not as many.
    pub(crate) fn new(whole: XorShape, kept: u32) -> Option<Self> {
        (kept <= whole.block_cells()).then_some(Self { whole, kept })
    }

    pub(crate) fn width(&self) -> XorWidth {
        self.whole.width()
    }

    #[inline]
    pub(super) fn placement(&self) -> XorCells {
        self.whole.placement()
    }

    /// Cells of the first two blocks.
    #[expect(clippy::cast_possible_truncation, reason = "as many cells are in memory, or not found")]
    pub(super) fn third_block(&self) -> usize {
        2 * u64::from(self.whole.block_cells()) as usize
    }

    /// Bytes of the lines that tell which cells are kept.
    pub(super) fn line_bytes(&self) -> u64 {
        u64::from(self.whole.block_cells()).div_ceil(LINE_CELLS as u64) * LINE_BYTES as u64
    }
}

impl FilterShape for XorPlusShape {
    const KIND: FilterKind = FilterKind::XOR_PLUS;

    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let field = |field, expected, got| BlockError::Field { field, expected, got };
        let &[bits, block_cells, kept] = encoded.params.as_slice() else {
            return Err(field("parameter words", "3 for xor+", encoded.params.count().into()));
        };
        let whole = XorShape::decode_words(bits, block_cells)?.with_salt(encoded.salt);
        let shape = Self::new(whole, kept).ok_or(field("cells kept", "at most those of a block", kept.into()))?;
        if shape.payload_bytes() != encoded.payload_bytes {
            return Err(field("payload bytes", "what the parameters give", encoded.payload_bytes));
        }
        Ok(shape)
    }

    fn params(&self) -> ParamWords {
        [self.width().bits(), self.whole.block_cells(), self.kept].into_iter().collect()
    }

    fn salt(&self) -> u8 {
        self.whole.salt()
    }

    fn payload_bytes(&self) -> u64 {
        let cells = 2 * u64::from(self.whole.block_cells()) + u64::from(self.kept);
        self.line_bytes() + (cells * u64::from(self.width().bits() / 8)).next_multiple_of(8)
    }

    /// 2^-w for fingerprints of w bits, whatever the number of keys.
    fn expected_fpr(&self, keys: u64) -> f64 {
        self.whole.expected_fpr(keys)
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let mut fields = self.whole.describe();
        fields.insert(2, ("kept of the third block", self.kept.to_string()));
        fields
    }

    #[inline]
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        probe::may_contain(self, payload, hash)
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        probe::may_contain_batch(self, payload, hashes, hits);
    }
}
