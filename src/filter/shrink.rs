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

/// No filter is made smaller than this: it would be negative for fewer than one absent key in a hundred, and is better
/// dropped. The limit also bounds how many divisors of a Bloom filter's lines are listed.
const MOST_FPR: f64 = 0.99;

/// The most steps listed. Ribbon has up to 31, Bloom at usual sizes about 10; a user's kind may have one for each byte.
const MOST_STEPS: usize = 64;

/// Why there is no smaller payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShrinkFailure {
    /// Its kind has no shape of so few bytes that is worth having.
    NoShape {
        /// The smallest payload that there is.
        least_bytes: u64,
    },
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
            if !smaller.is_worth_having(keys) {
                break;
            }
            below_bytes = smaller.payload_bytes();
            steps.push(ShrinkStep { block_bytes: smaller.block_bytes(), expected_fpr: smaller.expected_fpr(keys) });
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
        let too_small = || ShrinkFailure::NoShape { least_bytes: self.least_bytes(keys) };
        let smaller = self.worthwhile(keys, most_bytes).ok_or_else(too_small)?;
        let encoded = smaller.encode(keys);
        let bytes = encoded.payload_bytes;
        // The library's kinds meet this; a user's may not, and then has no other size.
        let failed = ShrinkFailure::NoShape { least_bytes: self.payload_bytes() };
        let is_readable = Self::decode(&encoded).is_ok_and(|decoded| decoded.encode(keys) == encoded);
        if !is_readable || bytes > most_bytes || bytes >= self.payload_bytes() {
            return Err(failed);
        }
        let mut out = AlignedBuffer::zeroed(bytes).ok_or(ShrinkFailure::NoMemory { bytes })?;
        let is_done = self.shrink_into(&smaller, payload, out.as_mut_slice());
        if is_done { Ok((encoded, out)) } else { Err(failed) }
    }

    /// The largest shape of at most `most_bytes`, if a filter of `keys` keys is worth having at that size.
    fn worthwhile(&self, keys: u64, most_bytes: u64) -> Option<Self> {
        self.shrunk(most_bytes).filter(|shape| shape.is_worth_having(keys))
    }

    /// A rate that is no number is none worth having.
    fn is_worth_having(&self, keys: u64) -> bool {
        self.expected_fpr(keys) <= MOST_FPR
    }

    /// The smallest payload that is worth having; this one if none is smaller.
    fn least_bytes(&self, keys: u64) -> u64 {
        // By halving, because rates fall as sizes grow: the steps of a user's kind may be too many to go through.
        let (mut too_few, mut enough) = (0, self.payload_bytes());
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            match self.worthwhile(keys, middle) {
                // Its own bytes, unless they contradict the request.
                Some(shape) => enough = shape.payload_bytes().clamp(too_few + 1, middle),
                None => too_few = middle,
            }
        }
        enough
    }
}

impl<S: FilterShape> Shrink for S {}
