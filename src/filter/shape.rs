//! The shape of one filter, whichever kind it has.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::batch;
use super::encoded::{EncodedShape, ParamWords};
use crate::error::BlockError;
use crate::hash::KeyHash;

/// The shape of one filter: the parameters that a probe needs beside the payload.
///
/// Probes never fail and never read beyond the payload: if it is too short, they answer "may be present".
pub(crate) trait FilterShape: fmt::Debug + Send + Sync + 'static {
    /// Decodes a shape, and checks every field. The caller checks that the payload has the shape's length.
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError>
    where
        Self: Sized;

    /// The kind's parameters, as [`decode`](Self::decode) reads them.
    fn params(&self) -> ParamWords;

    /// Which of the kind's salts the build ended with, 0 to 15.
    fn salt(&self) -> u8 {
        0
    }

    /// Length of the payload, exactly: a multiple of 8.
    fn payload_bytes(&self) -> u64;

    /// The false positive rate of a filter of this shape with `keys` distinct keys.
    fn expected_fpr(&self, keys: u64) -> f64;

    /// The parameters by name, for display.
    fn describe(&self) -> ShapeFields;

    /// How full the filter is, from 0 to 1; `None` for kinds that do not fill up. Reads the whole payload.
    fn fill_ratio(&self, _payload: &[u8]) -> Option<f64> {
        None
    }

    /// Whether the key of `hash` may have been added.
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool;

    /// Probes many: bit `i % 64` of word `i / 64` of `matches` becomes the answer for hash `i`.
    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        batch::answers(hashes, matches, |hash| self.may_contain(payload, hash));
    }

    /// Whether every one of `hashes` is found.
    fn contains_all(&self, payload: &[u8], hashes: &[KeyHash]) -> bool {
        // 16,384 keys at a time: their answers are 2 KiB and stay in L1.
        let mut matches = [0_u64; 1 << 8];
        hashes.chunks(64 * matches.len()).all(|chunk| {
            let matches = &mut matches[..chunk.len().div_ceil(64)];
            self.may_contain_batch(payload, chunk, matches);
            matches.iter().map(|word| word.count_ones() as usize).sum::<usize>() == chunk.len()
        })
    }

    /// The shape's fields for a trailer.
    fn encode(&self, keys: u64) -> EncodedShape {
        EncodedShape { params: self.params(), salt: self.salt(), keys, payload_bytes: self.payload_bytes() }
    }

    /// Bytes of the whole unbound block.
    fn block_bytes(&self) -> u64 {
        self.encode(0).block_bytes()
    }
}

/// The parameters of a shape by name, for display: `("lines", "1")`, `("probes", "7")`.
pub(crate) type ShapeFields = Vec<(&'static str, String)>;
