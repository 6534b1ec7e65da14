//! Asking.

use super::shape::{XorShape, XorWidth};
use crate::filter::fingerprint::{self, Bits8, Bits16};
use crate::filter::{FilterShape, all_may_be_present};
use crate::hash::KeyHash;

/// Whether the key of `hash` may be in the filter.
#[inline]
pub(super) fn may_contain(shape: XorShape, payload: &[u8], hash: KeyHash) -> bool {
    match shape.width() {
        XorWidth::Eight => fingerprint::may_contain(shape.placement(), Bits8, payload, hash),
        XorWidth::Sixteen => fingerprint::may_contain(shape.placement(), Bits16, payload, hash),
    }
}

/// Sets bit `i % 64` of word `i / 64` of `hits` to the answer for hash `i`.
pub(super) fn may_contain_batch(shape: XorShape, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
    if payload.len() as u64 != shape.payload_bytes() {
        return all_may_be_present(hashes, hits);
    }
    match shape.width() {
        XorWidth::Eight => fingerprint::may_contain_batch(shape.placement(), Bits8, payload, hashes, hits),
        XorWidth::Sixteen => fingerprint::may_contain_batch(shape.placement(), Bits16, payload, hashes, hits),
    }
}
