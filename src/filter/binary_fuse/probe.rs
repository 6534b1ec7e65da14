//! Asking.

use super::cells::{Bits8, Bits16, Bits32, FuseCells, Packed, Width, specialised};
use super::shape::{FuseArity, FuseShape, Inlined};
use crate::filter::FilterShape;
use crate::hash::KeyHash;
use crate::kernel::prefetch::fetch;

/// Payloads above this many bytes are asked for ahead of use.
const PREFETCHED_FROM: usize = 256 * 1_024;

/// Whether the key of `hash` may be in the filter.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call is a fifth of a probe")]
pub(super) fn may_contain(shape: &FuseShape, payload: &[u8], hash: KeyHash) -> bool {
    // The usual shapes become part of the caller's loop, the others are a call away.
    match shape.inlined() {
        Inlined::ThreeOf8 => holds(shape.placement::<3>(), Bits8, payload, hash),
        Inlined::ThreeOf16 => holds(shape.placement::<3>(), Bits16, payload, hash),
        Inlined::None => may_contain_other(shape, payload, hash),
    }
}

#[inline(never)]
fn may_contain_other(shape: &FuseShape, payload: &[u8], hash: KeyHash) -> bool {
    specialised!(shape, holds(payload, hash))
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "as above")]
fn holds<const ARITY: usize, W: Width>(placement: FuseCells<ARITY>, width: W, payload: &[u8], hash: KeyHash) -> bool {
    let (cells, bits) = placement.locate(hash.get());
    let mut sum = width.fingerprint(bits);
    for cell in cells {
        // A payload that is too short cannot deny.
        let Some(value) = width.read(payload, cell) else { return true };
        sum ^= value;
    }
    width.is_zero(sum)
}

/// Sets bit `i % 64` of word `i / 64` of `hits` to the answer for hash `i`.
pub(super) fn may_contain_batch(shape: &FuseShape, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
    if payload.len() as u64 != shape.payload_bytes() {
        hits.iter_mut().zip(hashes.chunks(64)).for_each(|(word, chunk)| *word = u64::MAX >> (64 - chunk.len()));
    } else if payload.len() > PREFETCHED_FROM {
        specialised!(shape, ask_ahead(payload, hashes, hits));
    } else {
        specialised!(shape, ask(payload, hashes, hits));
    }
}

#[inline]
fn agrees<const ARITY: usize, W: Width>(width: W, payload: &[u8], cells: [usize; ARITY], bits: u32) -> bool {
    // The payload has all cells.
    let read = |cell| width.read(payload, cell).unwrap_or_default();
    width.is_zero(cells.into_iter().fold(width.fingerprint(bits), |sum, cell| sum ^ read(cell)))
}

fn ask<const ARITY: usize, W: Width>(
    placement: FuseCells<ARITY>,
    width: W,
    payload: &[u8],
    hashes: &[KeyHash],
    hits: &mut [u64],
) {
    for (chunk, word) in hashes.chunks(64).zip(hits) {
        *word = chunk.iter().enumerate().fold(0, |answers, (bit, &hash)| {
            let (cells, fingerprint) = placement.locate(hash.get());
            answers | u64::from(agrees(width, payload, cells, fingerprint)) << bit
        });
    }
}

/// The same for a payload outside the nearest caches: cells are located and asked for 64 keys at a time, and read
/// after those of the next 64 have been asked for.
fn ask_ahead<const ARITY: usize, W: Width>(
    placement: FuseCells<ARITY>,
    width: W,
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
