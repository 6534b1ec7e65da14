//! Plain Rust: computes all lanes of a round, including inactive ones, because a branch on whether a lane is active
//! would mispredict. Rejected: a loop over only the active lanes, unrolled for each number of probes; it was at most 5
//! % faster.

use super::batch::{functions_of_set, line_at, line_at_mut};
use super::{ActiveRows, Candidate, Line, MULTIPLIERS, active_rows, covered_by, in_line_bits};
use crate::filter::batch::word_of;
use crate::hash::KeyHash;

functions_of_set!(few);

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

    /// Returns the word of lane `lane` of round `round`, the bit within the word, and 1 if the lane is active.
    #[inline(always)]
    fn lane(self, x: u32, round: usize, lane: usize) -> (usize, u32, u32) {
        let product = x.wrapping_mul(MULTIPLIERS.0[round][lane]);
        let word = (round * 8 + lane) ^ ((product >> 31) as usize * 8);
        (word, product >> 26 & 31, self.rows[round].0[(x >> (round * 3) & 7) as usize][lane])
    }

    /// Returns whether the line has all of the key's bits. There is no early exit: it would mispredict once per absent
    /// key, which costs more than the probes it saves.
    #[inline]
    fn contains(self, line: &Line, hash: KeyHash) -> bool {
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

    /// Tests eight keys, each in its line: bit `i` is the answer for key `i`.
    #[inline]
    fn test_eight(self, lines: &[Line], keys: &[KeyHash; 8]) -> u8 {
        word_of(keys.iter().map(|&hash| self.contains(line_at(lines, hash), hash))) as u8
    }

    /// Sets the key's bits.
    #[inline]
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

pub(super) fn covered<'a>(mask: &Line, candidates: impl Iterator<Item = Candidate<'a>>) -> u64 {
    covered_by(candidates, |line| covers(line, mask))
}

/// Returns whether all bits of `mask` are set in `line`.
fn covers(line: &Line, mask: &Line) -> bool {
    let words = line.as_chunks::<8>().0.iter().zip(mask.as_chunks::<8>().0);
    words.fold(0, |missing, (line, mask)| missing | u64::from_le_bytes(*mask) & !u64::from_le_bytes(*line)) == 0
}
