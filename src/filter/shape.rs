//! The shape of one filter of any kind.

use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;

use super::batch;
use super::encoded::{EncodedShape, ParamWords};
use crate::error::BlockError;
use crate::hash::KeyHash;

/// The shape of one filter: the parameters that a probe needs in addition to the payload.
///
/// Probes never fail and never read beyond the payload: if it is too short, they return "may be present".
pub(crate) trait FilterShape: Any + Send + Sync {
    /// Decodes a shape and checks every field. The caller checks that the payload has the shape's length.
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError>
    where
        Self: Sized;

    /// Returns the kind's parameters, as [`decode`](Self::decode) reads them.
    fn params(&self) -> ParamWords;

    /// Returns the salt of the successful attempt, 0 to 15.
    fn salt(&self) -> u8 {
        0
    }

    /// Returns the exact length of the payload, a multiple of 8.
    fn payload_bytes(&self) -> u64;

    /// Returns the false positive rate of a filter of this shape with `keys` distinct keys.
    fn expected_fpr(&self, keys: u64) -> f64;

    /// Returns the parameters by name, for display.
    ///
    /// Not a method of trait objects, like the next three: a program that never calls them does not link them.
    fn describe(&self) -> ShapeFields
    where
        Self: Sized;

    /// Returns how full the filter is, from 0 to 1; `None` for kinds that do not fill up. Reads the whole payload.
    fn fill_ratio(&self, _payload: &[u8]) -> Option<f64>
    where
        Self: Sized,
    {
        None
    }

    /// Returns whether the key of `hash` may have been added.
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool
    where
        Self: Sized;

    /// Sets bit `i % 64` of word `i / 64` of `matches` to the answer for hash `i`.
    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64])
    where
        Self: Sized,
    {
        batch::answers(hashes, matches, |hash| self.may_contain(payload, hash));
    }

    /// Returns how many bits a key sets, if the payload is nothing but bits that keys set, so that the OR of two
    /// payloads is that of both sets of keys.
    fn bits_of_key(&self) -> Option<u8> {
        None
    }

    /// Returns whether `keys` keys are expected to set more than 70 % of the bits. Blocked and standard Bloom filters
    /// of any size are planned for at most 64 %. `false` for kinds without bits of a key.
    fn is_overfull(&self, keys: u64) -> bool {
        // `x` times as many set as there are bits leave e^-x of these clear: 30 % for 1.2, or 9.6 for each byte.
        u128::from(keys) * u128::from(self.bits_of_key().unwrap_or(0)) * 10 > u128::from(self.payload_bytes()) * 96
    }

    /// Returns the shape's fields for a trailer.
    fn encode(&self, keys: u64) -> EncodedShape {
        // The number of keys belongs to the block: many numbers of keys share one shape.
        EncodedShape { params: self.params(), salt: self.salt(), keys, payload_bytes: self.payload_bytes() }
    }

    /// Returns the size of the whole unbound block.
    fn block_bytes(&self) -> u64 {
        self.encode(0).block_bytes()
    }
}

/// The parameters of a shape by name, for display: `("lines", "1")`, `("probes", "7")`.
pub(crate) type ShapeFields = Vec<(&'static str, String)>;
