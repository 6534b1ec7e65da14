//! Asking.

use super::{Locate, Width};
use crate::hash::KeyHash;
use crate::kernel::prefetch::fetch;

/// Payloads above this many bytes are asked for ahead of use.
pub(crate) const PREFETCHED_FROM: usize = 256 * 1_024;

/// Whether the key of `hash` may be in the filter. A payload that lacks one of its cells cannot deny.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call is a fifth of a probe")]
pub(crate) fn may_contain<const ARITY: usize>(
    placement: impl Locate<ARITY>,
    width: impl Width,
    payload: &[u8],
    hash: KeyHash,
) -> bool {
    let (cells, bits) = placement.locate(hash.get());
    let mut sum = width.fingerprint(bits);
    for cell in cells {
        let Some(value) = width.read(payload, cell) else { return true };
        sum ^= value;
    }
    width.is_zero(sum)
}

/// Sets bit `i % 64` of word `i / 64` of `hits` to the answer for hash `i`. The payload has all cells.
pub(crate) fn may_contain_batch<const ARITY: usize>(
    placement: impl Locate<ARITY>,
    width: impl Width,
    payload: &[u8],
    hashes: &[KeyHash],
    hits: &mut [u64],
) {
    if payload.len() > PREFETCHED_FROM {
        ask_ahead(placement, width, payload, hashes, hits);
    } else {
        ask(placement, width, payload, hashes, hits);
    }
}

#[inline]
fn agrees<const ARITY: usize>(width: impl Width, payload: &[u8], cells: [usize; ARITY], bits: u32) -> bool {
    // The payload has all cells.
    let read = |cell| width.read(payload, cell).unwrap_or_default();
    width.is_zero(cells.into_iter().fold(width.fingerprint(bits), |sum, cell| sum ^ read(cell)))
}

fn ask<const ARITY: usize>(
    placement: impl Locate<ARITY>,
    width: impl Width,
    payload: &[u8],
    hashes: &[KeyHash],
    hits: &mut [u64],
) {
    for (chunk, word) in hashes.chunks(64).zip(hits) {
        *word = chunk.iter().enumerate().fold(0, |answers, (bit, &hash)| {
            let (cells, bits) = placement.locate(hash.get());
            answers | u64::from(agrees(width, payload, cells, bits)) << bit
        });
    }
}

/// The same for a payload outside the nearest caches: cells are located and asked for 64 keys at a time, and read
/// after those of the next 64 have been asked for.
fn ask_ahead<const ARITY: usize>(
    placement: impl Locate<ARITY>,
    width: impl Width,
    payload: &[u8],
    hashes: &[KeyHash],
    hits: &mut [u64],
) {
    let locate = |chunk: &[KeyHash], located: &mut [([usize; ARITY], u32); 64]| {
        for (&hash, place) in chunk.iter().zip(located) {
            *place = placement.locate(hash.get());
            place.0.iter().for_each(|&cell| fetch(payload.as_ptr().wrapping_add(width.byte(cell))));
        }
    };
    let (mut here, mut ahead) = ([([0; ARITY], 0); 64], [([0; ARITY], 0); 64]);
    let mut upcoming = hashes.chunks(64);
    locate(upcoming.next().unwrap_or_default(), &mut here);
    for (chunk, word) in hashes.chunks(64).zip(hits) {
        locate(upcoming.next().unwrap_or_default(), &mut ahead);
        *word =
            here.iter().take(chunk.len()).enumerate().fold(0, |answers, (bit, &(cells, bits))| {
                answers | u64::from(agrees(width, payload, cells, bits)) << bit
            });
        core::mem::swap(&mut here, &mut ahead);
    }
}
