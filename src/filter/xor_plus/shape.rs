//! The shape of an xor+ filter, and its probe: the kept cells of the third block determine where a third cell lies.

use alloc::string::ToString;

use super::rank::{LINE_CELLS, Line, place_of};
use crate::codec::LINE_BYTES;
use crate::error::BlockError;
use crate::filter::batch::{self, word_of};
use crate::filter::cache::PROBE_PREFETCH_BYTES;
use crate::filter::fingerprint::{PeeledShape, WholeBytes, Width};
use crate::filter::peel::Placement;
use crate::filter::xor::{self, XorCells, XorShape};
use crate::filter::{EncodedShape, FilterShape, ParamWords, ShapeFields};
use crate::hash::KeyHash;
use crate::kernel::prefetch::prefetch;

/// The shape of an xor+ filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XorPlusShape {
    /// The xor filter that still has all cells.
    pub(super) whole: XorShape,
    /// The number of cells kept of the third block: at most all of them.
    pub(super) kept: u32,
}

impl XorPlusShape {
    /// Returns the bytes of the lines that record which cells are kept.
    pub(super) fn line_bytes(&self) -> u64 {
        u64::from(self.whole.block_cells).div_ceil(LINE_CELLS as u64) * LINE_BYTES as u64
    }

    /// Splits a payload of the shape's length into lines and cells.
    #[inline]
    fn parts<'a>(&self, payload: &'a [u8]) -> Option<(&'a [Line], &'a [u8])> {
        let (lines, cells) = payload.split_at_checked(usize::try_from(self.line_bytes()).ok()?)?;
        (payload.len() as u64 == self.payload_bytes()).then_some((lines.as_chunks().0, cells))
    }
}

impl FilterShape for XorPlusShape {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let [bits, block_cells, kept] = encoded.words("3 for xor+")?;
        let whole = XorShape::decode_words(bits, block_cells)?.with_salt(encoded.salt);
        BlockError::require(kept <= block_cells, "cells kept", "at most the cells of a block", kept)?;
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

    /// Returns 2^-w for fingerprints of w bits, for any number of keys.
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
        // A short payload must not be read as zeros: these could make a present key negative.
        let Some((lines, cells)) = self.parts(payload) else { return true };
        match self.whole.bits {
            8 => Filter::new(self, WholeBytes::<1>, lines, cells).holds(hash),
            _ => Filter::new(self, WholeBytes::<2>, lines, cells).holds(hash),
        }
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        let Some((lines, cells)) = self.parts(payload) else { return batch::all_match(hashes, matches) };
        match self.whole.bits {
            8 => Filter::new(self, WholeBytes::<1>, lines, cells).answer_all(hashes, matches),
            _ => Filter::new(self, WholeBytes::<2>, lines, cells).answer_all(hashes, matches),
        }
    }
}

/// The share of keys, in 1/10,000, whose cell is in the third block, measured on large filters.
const IN_THIRD_BLOCK: u128 = 2_617;

/// With few keys, the 32 cells beyond 1.23 per key leave this many cells of the third block empty; measured from 1,000
/// to 50,000 keys.
const FEWER_WITH_FEW_KEYS: u128 = 14;

/// Returns the approximate shape of a filter of `keys` keys; `None` if it cannot be recorded.
pub(crate) fn expected_shape(keys: u64, bits: u8) -> Option<XorPlusShape> {
    let whole = xor::shape_for(keys, bits)?;
    Some(XorPlusShape { whole, kept: u32::try_from(expected_kept(keys, whole)).ok()? })
}

/// Returns about how many cells of the third block are not 0.
fn expected_kept(keys: u64, whole: XorShape) -> u128 {
    let taken = u128::from(keys) * IN_THIRD_BLOCK / 10_000;
    let taken = taken.saturating_sub(FEWER_WITH_FEW_KEYS).max(taken / 2);
    // A cell that took a key is 0 by chance once in 2^w, and is then left out as well.
    taken - (taken >> whole.bits)
}

/// The parts of a filter that a probe reads.
#[derive(Clone, Copy)]
struct Filter<'a, W> {
    placement: XorCells,
    width: W,
    third_block: usize,
    lines: &'a [Line],
    /// The first two blocks, and the kept cells of the third.
    cells: &'a [u8],
}

/// A key between the steps of its probe.
#[derive(Clone, Copy, Default)]
struct KeyCells {
    cells: [usize; 3],
    /// Whether the third cell is kept. Until `found` has set it, the third cell is numbered as in the whole filter.
    is_kept: bool,
    bits: u32,
}

impl<'a, W: Width> Filter<'a, W> {
    #[inline]
    fn new(shape: &XorPlusShape, width: W, lines: &'a [Line], cells: &'a [u8]) -> Self {
        Self { placement: shape.whole.placement(), width, third_block: shape.whole.third_block(), lines, cells }
    }

    #[inline]
    fn holds(self, hash: KeyHash) -> bool {
        self.answer(self.found(self.located(hash)))
    }

    #[inline]
    fn located(self, hash: KeyHash) -> KeyCells {
        let (cells, bits) = self.placement.place(hash.get());
        KeyCells { cells, is_kept: false, bits }
    }

    /// Finds the third cell's position among the kept cells.
    #[inline]
    fn found(self, mut probe: KeyCells) -> KeyCells {
        let (place, is_kept) = place_of(self.lines, probe.cells[2] - self.third_block);
        probe.cells[2] = self.third_block.saturating_add(place);
        KeyCells { is_kept, ..probe }
    }

    #[inline]
    fn answer(self, probe: KeyCells) -> bool {
        // The payload has all cells, but wrong counts in a damaged one can point beyond it.
        let [first, second, third] = probe.cells.map(|cell| self.width.read(self.cells, cell).unwrap_or_default());
        // Masked without a branch: two third cells in three are kept, which no predictor can guess.
        let third = third & 0_u32.wrapping_sub(probe.is_kept.into());
        self.width.is_zero(first ^ second ^ third ^ self.width.fingerprint(probe.bits))
    }

    fn answer_all(self, hashes: &[KeyHash], matches: &mut [u64]) {
        // Three chunks of 64 keys are in flight, which pays from two on.
        if self.cells.len() > PROBE_PREFETCH_BYTES && hashes.len() >= 128 {
            return self.answers_by_chunk(hashes, matches);
        }
        batch::answers(hashes, matches, |hash| self.holds(hash));
    }

    /// Answers for a payload larger than the nearer caches, 64 keys at a time. It prefetches the lines and the first
    /// two cells of a chunk, then the third cells, whose positions depend on the lines, before it answers for the
    /// previous chunk.
    fn answers_by_chunk(self, hashes: &[KeyHash], matches: &mut [u64]) {
        let mut upcoming = hashes.chunks(64);
        let mut locate = || {
            let mut group = [KeyCells { cells: [0, 0, self.third_block], ..KeyCells::default() }; 64];
            for (&hash, probe) in upcoming.next().into_iter().flatten().zip(&mut group) {
                *probe = self.located(hash);
                probe.cells[..2].iter().for_each(|&cell| self.prefetch_cell(cell));
                let line = (probe.cells[2] - self.third_block) / LINE_CELLS;
                prefetch(self.lines.as_ptr().wrapping_add(line));
            }
            group
        };
        let find = |group: &mut [KeyCells; 64]| {
            for probe in group {
                *probe = self.found(*probe);
                self.prefetch_cell(probe.cells[2]);
            }
        };
        // Three chunks are in flight: one located, one found and one read.
        let mut here = locate();
        find(&mut here);
        let mut next = locate();
        for (chunk, word) in hashes.chunks(64).zip(matches) {
            let ahead = locate();
            find(&mut next);
            *word = word_of(here.iter().take(chunk.len()).map(|&probe| self.answer(probe)));
            (here, next) = (next, ahead);
        }
    }

    #[inline]
    fn prefetch_cell(self, cell: usize) {
        prefetch(self.cells.as_ptr().wrapping_add(self.width.byte(cell)));
    }
}
