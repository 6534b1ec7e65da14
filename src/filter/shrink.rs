//! Making a filter smaller without its keys: the shapes that it can have then, and their payloads.
//!
//! A kind says which shapes a payload can be reduced to ([`FilterShape::shrunk`]) and does it
//! ([`FilterShape::shrink_into`]). The filter still contains every key; only its rate rises.

use super::kind::{EncodedShape, FilterShape};
use crate::codec::AlignedBuffer;

/// A size that a block can be [shrunk to](crate::FilterBlock::shrunk_to).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShrinkStep {
    /// Bytes of the whole block.
    pub block_bytes: u64,
    /// Its expected false positive rate, from 0 to 1.
    pub expected_fpr: f64,
}

/// Steps end where the filter would be negative for fewer than one absent key in a hundred: it is better dropped then.
/// The limit also bounds how many divisors of a Bloom filter's lines are listed.
const MOST_FPR: f64 = 0.99;

/// The most steps listed. Ribbon has up to 31, Bloom at usual sizes about 10; a user's kind may have one for each byte.
const MOST_STEPS: usize = 64;

/// Why there is no smaller payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShrinkFailure {
    /// Its kind has no shape of so few bytes.
    NoShape,
    /// Allocation failed.
    NoMemory {
        /// The bytes of the payload.
        bytes: u64,
    },
}

/// What blocks do with a shape that can shrink.
pub(crate) trait Shrink: FilterShape {
    /// The steps of a filter of `keys` keys, largest first, as unbound blocks.
    fn shrink_steps(&self, keys: u64) -> Vec<ShrinkStep> {
        let mut steps = Vec::new();
        let mut below_bytes = self.payload_bytes();
        while steps.len() < MOST_STEPS
            && let Some(smaller) = self.shrink_step(below_bytes)
            && smaller.payload_bytes() < below_bytes
        {
            let expected_fpr = smaller.expected_fpr(keys);
            if expected_fpr > MOST_FPR {
                break;
            }
            below_bytes = smaller.payload_bytes();
            steps.push(ShrinkStep { block_bytes: smaller.block_bytes(), expected_fpr });
        }
        steps
    }

    /// The largest payload of at most `most_bytes`, fewer than `payload` has, that the kind makes of it; and its shape.
    fn shrink(
        &self,
        keys: u64,
        payload: &[u8],
        most_bytes: u64,
    ) -> Result<(EncodedShape, AlignedBuffer), ShrinkFailure> {
        let smaller = self.shrunk(most_bytes).ok_or(ShrinkFailure::NoShape)?;
        let encoded = smaller.encode(keys);
        let bytes = encoded.payload_bytes;
        // The library's kinds meet this; a user's may not.
        let is_readable = Self::decode(&encoded).is_ok_and(|decoded| decoded.encode(keys) == encoded);
        if !is_readable || bytes > most_bytes || bytes >= self.payload_bytes() {
            return Err(ShrinkFailure::NoShape);
        }
        let mut out = AlignedBuffer::zeroed(bytes).ok_or(ShrinkFailure::NoMemory { bytes })?;
        let is_done = self.shrink_into(&smaller, payload, out.as_mut_slice());
        if is_done { Ok((encoded, out)) } else { Err(ShrinkFailure::NoShape) }
    }
}

impl<S: FilterShape> Shrink for S {}
