//! Asking, the same for bits and for counters.
//!
//! Of absent keys, half fail at the first probe of a full filter, and which ones cannot be predicted: an exit after each
//! probe would cost a misprediction per key. The first few probes are therefore taken together, without a branch
//! between them; only one absent key in sixteen goes on, and then each probe can be the last.

use super::spread::Spread;
use crate::hash::KeyHash;
use crate::kernel::prefetch::fetch;

/// What stands at a position of a payload.
pub(crate) trait Cell {
    /// The byte that it is in.
    fn byte_of(position: u64) -> u64;

    /// Not 0 when it is taken; so is one that is beyond the payload.
    fn taken(payload: &[u8], position: u64) -> u8;
}

/// The byte of a cell; all ones beyond the payload.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the payload is in memory, and its positions in it")]
#[expect(clippy::inline_always, reason = "one load of a loop over keys")]
pub(crate) fn byte_at<C: Cell>(payload: &[u8], position: u64) -> u8 {
    payload.get(C::byte_of(position) as usize).copied().unwrap_or(u8::MAX)
}

/// Probes that are taken before the first branch.
const TOGETHER: u8 = 4;

/// Payloads that fit into the cache next to the core are asked without fetching ahead.
const NEAR_BYTES: usize = 256 << 10;

/// Keys whose cells are fetched ahead of the one that is asked for.
const AHEAD: usize = 16;

/// Whether all positions of `hash` are taken.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of loops over keys")]
pub(crate) fn may_contain<C: Cell>(spread: Spread, payload: &[u8], hash: KeyHash) -> bool {
    let mut walk = spread.walk(hash);
    let mut left = spread.probes();
    if left >= TOGETHER {
        let taken = [(); TOGETHER as usize].map(|()| u8::from(C::taken(payload, walk.next()) != 0));
        if taken.into_iter().fold(1, |all, one| all & one) == 0 {
            return false;
        }
        left -= TOGETHER;
    }
    (0..left).all(|_| C::taken(payload, walk.next()) != 0)
}

/// [`FilterShape::may_contain_batch`](crate::filter::FilterShape::may_contain_batch).
pub(crate) fn may_contain_batch<C: Cell>(spread: Spread, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
    if payload.len() <= NEAR_BYTES {
        for (chunk, word) in hashes.chunks(64).zip(hits) {
            *word = hits_of::<C>(spread, payload, chunk);
        }
        return;
    }
    let ahead = hashes.get(AHEAD..).unwrap_or_default();
    hashes.iter().take(AHEAD).for_each(|&hash| fetch_first::<C>(spread, payload, hash));
    let mut coming = ahead.iter();
    for (chunk, word) in hashes.chunks(64).zip(hits) {
        let mut bits = 0;
        for (bit, &hash) in chunk.iter().enumerate() {
            if let Some(&hash) = coming.next() {
                fetch_first::<C>(spread, payload, hash);
            }
            bits |= u64::from(may_contain::<C>(spread, payload, hash)) << bit;
        }
        *word = bits;
    }
}

fn hits_of<C: Cell>(spread: Spread, payload: &[u8], hashes: &[KeyHash]) -> u64 {
    let answers = hashes.iter().map(|&hash| u64::from(may_contain::<C>(spread, payload, hash)));
    answers.enumerate().fold(0, |bits, (bit, answer)| bits | answer << bit)
}

/// Fetches what is asked for before the first branch.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of a loop over keys")]
fn fetch_first<C: Cell>(spread: Spread, payload: &[u8], hash: KeyHash) {
    fetch_cells::<C>(spread, payload, hash, spread.probes().min(TOGETHER));
}

/// Fetches the first `probes` cells of a key.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of a loop over keys")]
#[expect(clippy::cast_possible_truncation, reason = "the payload is in memory, and its positions in it")]
pub(crate) fn fetch_cells<C: Cell>(spread: Spread, payload: &[u8], hash: KeyHash, probes: u8) {
    let mut walk = spread.walk(hash);
    for _ in 0..probes {
        fetch(payload.as_ptr().wrapping_add(C::byte_of(walk.next()) as usize));
    }
}
