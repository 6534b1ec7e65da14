//! Asking, the same for bits and for counters.
//!
//! Of absent keys, half fail at the first probe of a full filter, and which ones cannot be predicted: an exit after each
//! probe would cost a misprediction per key. The first few probes are therefore taken together, without a branch
//! between them; only one absent key in sixteen goes on, and takes the others together, too.

use super::spread::{Spread, with_probes};
use crate::hash::KeyHash;
use crate::kernel::prefetch::fetch;

/// What stands at a position of a payload.
pub(crate) trait Cell {
    /// The binary logarithm of the positions in a word of 8 bytes.
    const PER_WORD_LOG2: u32;

    /// Bit 0 says whether a position within its word is taken; the others have no meaning.
    fn taken(word: u64, position: u64) -> u64;

    /// The word of a position.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one shift of a loop over keys")]
    #[expect(clippy::cast_possible_truncation, reason = "the payload is in memory, and its words in it")]
    fn word_of(position: u64) -> usize {
        (position >> Self::PER_WORD_LOG2) as usize
    }
}

/// A word of a payload.
pub(crate) type Word = [u8; 8];

/// Probes that are taken before the first branch.
const TOGETHER: u8 = 4;

/// Payloads that fit into the cache next to the core are asked without fetching ahead.
const NEAR_BYTES: usize = 256 << 10;

/// Keys whose cells are fetched ahead of the one that is asked for.
const AHEAD: usize = 16;

/// Whether all positions of `hash` are taken.
pub(crate) fn may_contain<C: Cell>(spread: Spread, payload: &[u8], hash: KeyHash) -> bool {
    let (words, _) = payload.as_chunks();
    with_probes!(spread, PROBES => contains::<C, PROBES>(spread, words, hash))
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of loops over keys")]
fn contains<C: Cell, const PROBES: u8>(spread: Spread, words: &[Word], hash: KeyHash) -> bool {
    let probes = spread.probes_or::<PROBES>();
    let mut walk = spread.walk(hash);
    let mut taken = 1;
    for _ in 0..probes.min(TOGETHER) {
        taken &= taken_at::<C>(words, walk.next());
    }
    if taken & 1 == 1 {
        for _ in TOGETHER..probes {
            taken &= taken_at::<C>(words, walk.next());
        }
    }
    taken & 1 == 1
}

/// [`Cell::taken`] at a position; all ones beyond the payload.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of loops over keys")]
fn taken_at<C: Cell>(words: &[Word], position: u64) -> u64 {
    words.get(C::word_of(position)).map_or(u64::MAX, |&word| C::taken(u64::from_le_bytes(word), position))
}

/// [`FilterShape::may_contain_batch`](crate::filter::FilterShape::may_contain_batch).
pub(crate) fn may_contain_batch<C: Cell>(spread: Spread, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
    let (words, _) = payload.as_chunks();
    with_probes!(spread, PROBES => {
        if payload.len() <= NEAR_BYTES {
            near_batch::<C, PROBES>(spread, words, hashes, hits);
        } else {
            far_batch::<C, PROBES>(spread, words, hashes, hits);
        }
    });
}

fn near_batch<C: Cell, const PROBES: u8>(spread: Spread, words: &[Word], hashes: &[KeyHash], hits: &mut [u64]) {
    for (chunk, word) in hashes.chunks(64).zip(hits) {
        let answers = chunk.iter().map(|&hash| u64::from(contains::<C, PROBES>(spread, words, hash)));
        *word = answers.enumerate().fold(0, |bits, (bit, answer)| bits | answer << bit);
    }
}

fn far_batch<C: Cell, const PROBES: u8>(spread: Spread, words: &[Word], hashes: &[KeyHash], hits: &mut [u64]) {
    let first = spread.probes().min(TOGETHER);
    hashes.iter().take(AHEAD).for_each(|&hash| fetch_cells::<C>(spread, words, hash, first));
    let mut coming = hashes.iter().skip(AHEAD);
    for (chunk, word) in hashes.chunks(64).zip(hits) {
        let mut bits = 0;
        for (bit, &hash) in chunk.iter().enumerate() {
            if let Some(&hash) = coming.next() {
                fetch_cells::<C>(spread, words, hash, first);
            }
            bits |= u64::from(contains::<C, PROBES>(spread, words, hash)) << bit;
        }
        *word = bits;
    }
}

/// Fetches the first `probes` cells of a key.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of a loop over keys")]
pub(crate) fn fetch_cells<C: Cell>(spread: Spread, words: &[Word], hash: KeyHash, probes: u8) {
    let mut walk = spread.walk(hash);
    for _ in 0..probes {
        fetch(words.as_ptr().wrapping_add(C::word_of(walk.next())).cast());
    }
}
