//! Plain Rust: all lanes of a round are computed, including inactive ones. A branch on whether a lane is active would
//! mispredict. Rejected: a loop over the active lanes only, unrolled for each number of probes; it was at most 5 %
//! faster.

use super::batch::{LINES_AHEAD, batch_loops, line_at, line_at_mut, prefetch_distance, with_constants};
use super::{ActiveRows, Candidate, Line, LineMask, MULTIPLIERS, active_rows, covered_by, in_line_bits};
use crate::hash::KeyHash;
use crate::kernel::prefetch::{prefetch, prefetch_line};

batch_loops!();

/// The bits of one key, for keys of `ROUNDS` rounds of eight lanes.
#[derive(Clone, Copy)]
struct Lanes<const ROUNDS: usize> {
    rows: [&'static ActiveRows; 2],
}

impl<const ROUNDS: usize> Lanes<ROUNDS> {
    #[inline]
    fn new(probes: u8) -> Self {
        Self { rows: active_rows(probes) }
    }

    /// For lane `lane` of round `round`: its word, the bit within the word, and 1 if the lane is active.
    #[inline(always)]
    fn lane(self, x: u32, round: usize, lane: usize) -> (usize, u32, u32) {
        let product = x.wrapping_mul(MULTIPLIERS.0[round][lane]);
        let word = (round * 8 + lane) ^ ((product >> 31) as usize * 8);
        (word, product >> 26 & 31, self.rows[round].0[(x >> (round * 3) & 7) as usize][lane])
    }

    /// Whether the line has all of the key's bits. There is no early exit: on absent keys it would
    /// mispredict once per key, which costs more than the probes it saves.
    #[inline]
    fn test(self, line: &Line, hash: KeyHash) -> bool {
        let x = in_line_bits(hash);
        let (words, _) = line.as_chunks::<4>();
        let mut missing = 0;
        for round in 0..ROUNDS {
            for lane in 0..8 {
                let (word, bit, active) = self.lane(x, round, lane);
                missing |= active & !(u32::from_le_bytes(words[word & 15]) >> bit);
            }
        }
        missing == 0
    }

    /// Tests eight keys, each in its line: bit `i` is the answer for the `i`th.
    #[inline]
    fn test_eight(self, lines: &[Line], keys: &[KeyHash; 8]) -> u8 {
        let mut matches = 0;
        for (i, &hash) in keys.iter().enumerate() {
            matches |= u8::from(self.test(line_at(lines, hash), hash)) << i;
        }
        matches
    }

    /// Sets the key's bits.
    #[inline]
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as in the other sets, where its place in memory counts")]
    fn set(self, line: &mut Line, hash: &KeyHash) {
        let x = in_line_bits(*hash);
        let (words, _) = line.as_chunks_mut::<4>();
        for round in 0..ROUNDS {
            for lane in 0..8 {
                let (word, bit, active) = self.lane(x, round, lane);
                let word = &mut words[word & 15];
                *word = (u32::from_le_bytes(*word) | active << bit).to_le_bytes();
            }
        }
    }
}

pub(super) fn contains(line: &Line, hash: KeyHash, probes: u8) -> bool {
    if probes <= 8 { Lanes::<1>::new(probes).test(line, hash) } else { Lanes::<2>::new(probes).test(line, hash) }
}

pub(super) fn insert(line: &mut Line, hash: KeyHash, probes: u8) {
    if probes <= 8 { Lanes::<1>::new(probes).set(line, &hash) } else { Lanes::<2>::new(probes).set(line, &hash) }
}

pub(super) fn mask(hash: KeyHash, probes: u8) -> LineMask {
    let mut line = [0; 64];
    insert(&mut line, hash, probes);
    words(&line)
}

/// A line as eight little-endian words.
pub(super) fn words(line: &Line) -> LineMask {
    let (words, _) = line.as_chunks::<8>();
    let mut mask = [0; 8];
    for (out, word) in mask.iter_mut().zip(words) {
        *out = u64::from_le_bytes(*word);
    }
    mask
}

pub(super) fn ones(lines: &[Line]) -> u64 {
    lines.iter().flat_map(words).map(|word| u64::from(word.count_ones())).sum()
}

pub(super) fn covered<'a>(mask: &LineMask, candidates: impl Iterator<Item = Candidate<'a>>) -> u64 {
    covered_by(candidates, |line| super::covers(line, mask))
}
