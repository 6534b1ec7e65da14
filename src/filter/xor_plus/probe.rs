//! Asking.

use super::rank::{Line, place_of};
use super::shape::XorPlusShape;
use crate::filter::fingerprint::{Bits8, Bits16, Locate, PREFETCHED_FROM, Width};
use crate::filter::xor::{XorCells, XorWidth};
use crate::filter::{FilterShape, all_may_be_present};
use crate::hash::KeyHash;
use crate::kernel::prefetch::fetch;

/// A filter as it is asked.
#[derive(Clone, Copy)]
struct Filter<'a, W> {
    placement: XorCells,
    width: W,
    third_block: usize,
    lines: &'a [Line],
    /// The first two blocks, and what is kept of the third.
    cells: &'a [u8],
}

/// A key on the way to its answer.
#[derive(Clone, Copy, Default)]
struct Asked {
    cells: [usize; 3],
    /// Whether the third cell is kept; before that is known, its number is that in the whole filter.
    is_kept: bool,
    bits: u32,
}

/// Whether the key of `hash` may be in the filter.
#[inline]
pub(super) fn may_contain(shape: &XorPlusShape, payload: &[u8], hash: KeyHash) -> bool {
    // Read as zeros, a payload that is too short could deny.
    let Some((lines, cells)) = parts(shape, payload) else { return true };
    match shape.width() {
        XorWidth::Eight => Filter::new(shape, Bits8, lines, cells).holds(hash),
        XorWidth::Sixteen => Filter::new(shape, Bits16, lines, cells).holds(hash),
    }
}

/// Sets bit `i % 64` of word `i / 64` of `hits` to the answer for hash `i`.
pub(super) fn may_contain_batch(shape: &XorPlusShape, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
    let Some((lines, cells)) = parts(shape, payload) else { return all_may_be_present(hashes, hits) };
    match shape.width() {
        XorWidth::Eight => Filter::new(shape, Bits8, lines, cells).ask_all(hashes, hits),
        XorWidth::Sixteen => Filter::new(shape, Bits16, lines, cells).ask_all(hashes, hits),
    }
}

/// The lines and the cells of a payload of the shape's length.
#[inline]
fn parts<'a>(shape: &XorPlusShape, payload: &'a [u8]) -> Option<(&'a [Line], &'a [u8])> {
    let (lines, cells) = payload.split_at_checked(usize::try_from(shape.line_bytes()).ok()?)?;
    (payload.len() as u64 == shape.payload_bytes()).then_some((lines.as_chunks().0, cells))
}

impl<'a, W: Width> Filter<'a, W> {
    #[inline]
    fn new(shape: &XorPlusShape, width: W, lines: &'a [Line], cells: &'a [u8]) -> Self {
        Self { placement: shape.placement(), width, third_block: shape.third_block(), lines, cells }
    }

    #[inline]
    fn holds(self, hash: KeyHash) -> bool {
        self.answer(self.found(self.located(hash)))
    }

    #[inline]
    fn located(self, hash: KeyHash) -> Asked {
        let (cells, bits) = self.placement.locate(hash.get());
        Asked { cells, is_kept: false, bits }
    }

    /// The third cell's place.
    #[inline]
    fn found(self, mut asked: Asked) -> Asked {
        let (place, is_kept) = place_of(self.lines, asked.cells[2] - self.third_block);
        asked.cells[2] = self.third_block.saturating_add(place);
        Asked { is_kept, ..asked }
    }

    #[inline]
    fn answer(self, asked: Asked) -> bool {
        // The payload has all cells, but counts that lie can lead beyond it.
        let [first, second, third] = asked.cells.map(|cell| self.width.read(self.cells, cell).unwrap_or_default());
        // No branch: two in three are kept.
        let third = third & 0_u32.wrapping_sub(asked.is_kept.into());
        self.width.is_zero(first ^ second ^ third ^ self.width.fingerprint(asked.bits))
    }

    fn ask_all(self, hashes: &[KeyHash], hits: &mut [u64]) {
        if self.cells.len() > PREFETCHED_FROM {
            return self.ask_ahead(hashes, hits);
        }
        for (chunk, word) in hashes.chunks(64).zip(hits) {
            let bits = chunk.iter().enumerate();
            *word = bits.fold(0, |answers, (bit, &hash)| answers | u64::from(self.holds(hash)) << bit);
        }
    }

    /// For a payload outside the nearest caches, 64 keys at a time: lines and first two cells are asked for when those
    /// of the 64 before are there, and third cells before the answers of the 64 before are read.
    fn ask_ahead(self, hashes: &[KeyHash], hits: &mut [u64]) {
        let mut upcoming = hashes.chunks(64);
        let mut locate = || {
            let mut group = [Asked { cells: [0, 0, self.third_block], ..Asked::default() }; 64];
            for (&hash, asked) in upcoming.next().unwrap_or_default().iter().zip(&mut group) {
                *asked = self.located(hash);
                asked.cells[..2].iter().for_each(|&cell| self.fetch_cell(cell));
                let line = (asked.cells[2] - self.third_block) / super::rank::LINE_CELLS;
                fetch(self.lines.as_ptr().wrapping_add(line).cast());
            }
            group
        };
        let find = |group: &mut [Asked; 64]| {
            for asked in group {
                *asked = self.found(*asked);
                self.fetch_cell(asked.cells[2]);
            }
        };
        let mut here = locate();
        find(&mut here);
        let mut next = locate();
        for (chunk, word) in hashes.chunks(64).zip(hits) {
            let ahead = locate();
            find(&mut next);
            let keys = here.iter().take(chunk.len()).enumerate();
            *word = keys.fold(0, |answers, (bit, &asked)| answers | u64::from(self.answer(asked)) << bit);
            (here, next) = (next, ahead);
        }
    }

    #[inline]
    fn fetch_cell(self, cell: usize) {
        fetch(self.cells.as_ptr().wrapping_add(self.width.byte(cell)));
    }
}
