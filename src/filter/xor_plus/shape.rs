//! The shape of an xor+ filter, and its probe: the kept cells of the third block decide where a third cell is.

use core::hint::select_unpredictable;

use super::rank::{LINE_CELLS, Line, ZERO_BYTE, place_of};
use crate::codec::LINE_BYTES;
use crate::error::BlockError;
use crate::filter::batch;
use crate::filter::fingerprint::{PeeledShape, WholeBytes, agrees, may_contain_batch, with_width};
use crate::filter::peel::Placement;
use crate::filter::xor::{self, XorCells, XorShape};
use crate::filter::{EncodedShape, FilterShape, ParamWords, ShapeFields, require};
use crate::hash::KeyHash;

/// The shape of an xor+ filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XorPlusShape {
    /// The filter with all cells.
    pub(super) whole: XorShape,
    /// Cells of the third block that are kept: at most all of them.
    pub(super) kept: u32,
}

impl XorPlusShape {
    /// Bytes of the lines that tell which cells are kept.
    pub(super) fn line_bytes(&self) -> u64 {
        u64::from(self.whole.block_cells).div_ceil(LINE_CELLS as u64) * LINE_BYTES as u64
    }

    /// Where keys have their cells of `cell_bytes` bytes in a payload; `None` if it has another length than the shape's.
    #[inline]
    fn placement<'a>(&self, payload: &'a [u8], cell_bytes: usize) -> Option<KeptCells<'a>> {
        let lines = payload.get(..usize::try_from(self.line_bytes()).ok()?)?;
        (payload.len() as u64 == self.payload_bytes()).then(|| KeptCells {
            all: self.whole.placement(),
            third_block: self.whole.third_block(),
            lines: lines.as_chunks().0,
            line_cells: lines.len() / cell_bytes,
            zero: ZERO_BYTE / cell_bytes,
        })
    }

    /// Whether the key of `hash` may be in the filter, whose cells have `BYTES` bytes.
    #[inline]
    fn holds<const BYTES: usize>(&self, payload: &[u8], hash: KeyHash) -> bool {
        // Read as zeros, a payload that is too short could give negatives.
        let Some(placement) = self.placement(payload, BYTES) else { return true };
        agrees(WholeBytes::<BYTES>, payload, placement.place(hash.get()))
    }
}

impl FilterShape for XorPlusShape {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let [bits, block_cells, kept] = encoded.words("3 for xor+")?;
        let whole = XorShape::decode_words(bits, block_cells)?.with_salt(encoded.salt);
        require(kept <= block_cells, "cells kept", "at most those of a block", kept)?;
        Ok(Self { whole, kept })
    }

    fn params(&self) -> ParamWords {
        [self.whole.bits.into(), self.whole.block_cells, self.kept].into_iter().collect()
    }

    fn salt(&self) -> u8 {
        self.whole.salt()
    }

    fn payload_bytes(&self) -> u64 {
        let cells = 2 * u64::from(self.whole.block_cells) + u64::from(self.kept);
        self.line_bytes() + (cells * u64::from(self.whole.bits / 8)).next_multiple_of(8)
    }

    /// 2^-w for fingerprints of w bits, whatever the number of keys.
    fn expected_fpr(&self, keys: u64) -> f64 {
        self.whole.expected_fpr(keys)
    }

    fn describe(&self) -> ShapeFields {
        vec![
            ("fingerprint bits", self.whole.bits.to_string()),
            ("cells", self.whole.cells().to_string()),
            ("kept of the third block", self.kept.to_string()),
            ("salt", self.salt().to_string()),
        ]
    }

    #[inline]
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        if self.whole.bits == 8 { self.holds::<1>(payload, hash) } else { self.holds::<2>(payload, hash) }
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        let cell_bytes = usize::from(self.whole.bits / 8);
        let Some(placement) = self.placement(payload, cell_bytes) else { return batch::all_match(hashes, matches) };
        with_width!(self.whole.bits, may_contain_batch(placement, payload, hashes, matches));
    }
}

/// Of 10,000 keys, those whose cell is in the third block, measured on large filters.
const IN_THIRD_BLOCK: u128 = 2_617;

/// With few keys, the 32 cells beyond 1.23 per key leave this many cells of the third block empty; measured from 1,000
/// to 50,000 keys.
const FEWER_WITH_FEW_KEYS: u128 = 14;

/// About the shape of a filter of `keys` keys; `None` beyond what can be recorded of it.
pub(crate) fn expected_shape(keys: u64, bits: u8) -> Option<XorPlusShape> {
    let whole = xor::shape_for(keys, bits)?;
    Some(XorPlusShape { whole, kept: u32::try_from(expected_kept(keys, whole)).ok()? })
}

/// About how many cells of the third block are not 0.
fn expected_kept(keys: u64, whole: XorShape) -> u128 {
    let taken = u128::from(keys) * IN_THIRD_BLOCK / 10_000;
    let taken = taken.saturating_sub(FEWER_WITH_FEW_KEYS).max(taken / 2);
    // A cell that took a key is 0 by chance once in 2^w, and is then left out as well.
    taken - (taken >> whole.bits)
}

/// Where keys have their cells: places in the whole payload, lines included, in which some cells are left out.
#[derive(Clone, Copy)]
struct KeptCells<'a> {
    all: XorCells,
    third_block: usize,
    lines: &'a [Line],
    /// Cells that would fit the lines.
    line_cells: usize,
    /// Where a 0 is read for a cell that is left out.
    zero: usize,
}

impl Placement<3> for KeptCells<'_> {
    #[inline]
    fn place(&self, hash: u64) -> ([usize; 3], u32) {
        let ([first, second, third], bits) = self.all.place(hash);
        let (place, is_kept) = place_of(self.lines, third - self.third_block);
        // Counts that lie can lead beyond the payload.
        let kept = (self.line_cells + self.third_block).saturating_add(place);
        // No branch: two in three are kept, which no predictor can guess.
        let third = select_unpredictable(is_kept, kept, self.zero);
        ([self.line_cells + first, self.line_cells + second, third], bits)
    }
}
