//! Asking.

use super::cells::specialised;
use super::shape::{FuseArity, FuseShape, Inlined};
use crate::filter::fingerprint::{self, Bits8, Bits16, Bits32, Packed};
use crate::filter::{FilterShape, all_may_be_present};
use crate::hash::KeyHash;

/// Whether the key of `hash` may be in the filter.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call is a fifth of a probe")]
pub(super) fn may_contain(shape: &FuseShape, payload: &[u8], hash: KeyHash) -> bool {
    // The usual shapes become part of the caller's loop, the others are a call away.
    match shape.inlined() {
        Inlined::ThreeOf8 => fingerprint::may_contain(shape.placement::<3>(), Bits8, payload, hash),
        Inlined::ThreeOf16 => fingerprint::may_contain(shape.placement::<3>(), Bits16, payload, hash),
        Inlined::None => may_contain_other(shape, payload, hash),
    }
}

#[inline(never)]
fn may_contain_other(shape: &FuseShape, payload: &[u8], hash: KeyHash) -> bool {
    use fingerprint::may_contain;
    specialised!(shape, may_contain(payload, hash))
}

/// Sets bit `i % 64` of word `i / 64` of `hits` to the answer for hash `i`.
pub(super) fn may_contain_batch(shape: &FuseShape, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
    use fingerprint::may_contain_batch;
    if payload.len() as u64 == shape.payload_bytes() {
        specialised!(shape, may_contain_batch(payload, hashes, hits));
    } else {
        all_may_be_present(hashes, hits);
    }
}
