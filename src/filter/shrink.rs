//! Makes a filter smaller without its keys: lists the shapes that it can have, and writes their payloads.
//!
//! A kind lists the shapes that a payload can be reduced to (`next_smaller`) and reduces it (`shrink_into`). The filter
//! still contains every key; only its rate rises.

use alloc::vec::Vec;

use super::AnyShape;
use crate::codec::AlignedBuffer;
use crate::error::ShrinkError;

/// No filter is made smaller than this rate allows: it would be negative for fewer than one absent key in a hundred,
/// and is better dropped. The limit also bounds how many divisors of a Bloom filter's lines are listed.
const MAX_FPR: f64 = 0.99;

/// The maximum number of steps listed. Ribbon has up to 31, Bloom at usual sizes about 10; a user-defined kind may have
/// one for each byte.
const MAX_STEPS: usize = 64;

impl AnyShape {
    /// Lists the steps of a filter of `keys` keys, largest first: the bytes of the unbound block, and its rate.
    pub(crate) fn shrink_steps(&self, keys: u64) -> Vec<(u64, f64)> {
        let mut steps = Vec::new();
        let mut below_bytes = self.payload_bytes();
        while steps.len() < MAX_STEPS
            && let Some(smaller) = self.shrink_step(below_bytes)
            && smaller.payload_bytes() < below_bytes
            && smaller.is_worth_having(keys)
        {
            below_bytes = smaller.payload_bytes();
            steps.push((smaller.block_bytes(), smaller.expected_fpr(keys)));
        }
        steps
    }

    /// Makes the largest payload of at most `max_bytes`, which is a copy if `payload` has no more. Returns it with its
    /// shape. `too_small` makes an error of the bytes of the smallest useful payload.
    pub(crate) fn shrink(
        &self,
        keys: u64,
        payload: &[u8],
        max_bytes: u64,
        too_small: impl Fn(u64) -> ShrinkError,
    ) -> Result<(Self, AlignedBuffer), ShrinkError> {
        let own_bytes = self.payload_bytes();
        if own_bytes <= max_bytes {
            let mut copy = AlignedBuffer::empty(own_bytes).ok_or(ShrinkError::NoMemory { bytes: own_bytes })?;
            copy.append(payload);
            return Ok((self.clone(), copy));
        }
        let smaller = self.worthwhile(keys, max_bytes).ok_or_else(|| too_small(self.min_bytes(keys)))?;
        let bytes = smaller.payload_bytes();
        // The library's kinds always return a smaller shape within the limit. A user-defined kind may not; it then has
        // no other size.
        if bytes > max_bytes {
            return Err(too_small(own_bytes));
        }
        let mut out = AlignedBuffer::zeroed(bytes).ok_or(ShrinkError::NoMemory { bytes })?;
        let is_done = match (self, &smaller) {
            (Self::BlockedBloom(shape), Self::BlockedBloom(smaller)) => {
                shape.shrink_into(smaller, payload, out.as_mut_slice())
            }
            #[cfg(feature = "ribbon")]
            (Self::Ribbon(shape), Self::Ribbon(smaller)) => shape.shrink_into(smaller, payload, out.as_mut_slice()),
            (Self::User(shape), Self::User(smaller)) => shape.shrink_into(smaller, payload, out.as_mut_slice()),
            _ => false,
        };
        if is_done { Ok((smaller, out)) } else { Err(too_small(own_bytes)) }
    }

    /// Returns the largest smaller shape with at most `max_bytes` of payload, for kinds whose filters can shrink.
    fn next_smaller(&self, max_bytes: u64) -> Option<Self> {
        match self {
            Self::BlockedBloom(shape) => shape.next_smaller(max_bytes).map(Self::BlockedBloom),
            #[cfg(feature = "ribbon")]
            Self::Ribbon(shape) => shape.next_smaller(max_bytes).map(Self::Ribbon),
            Self::User(shape) => shape.next_smaller(max_bytes).map(Self::User),
            _ => None,
        }
    }

    /// Returns the largest shape worth choosing among those with fewer than `below_bytes` of payload. Ribbon can shrink
    /// to almost any size, but lists fewer steps.
    fn shrink_step(&self, below_bytes: u64) -> Option<Self> {
        match self {
            #[cfg(feature = "ribbon")]
            Self::Ribbon(shape) => shape.shrink_step(below_bytes).map(Self::Ribbon),
            // One byte less is enough to exclude the present size.
            _ => self.next_smaller(below_bytes.checked_sub(1)?),
        }
    }

    /// Returns the largest shape of at most `max_bytes`, if a filter of `keys` keys is useful at that size.
    fn worthwhile(&self, keys: u64, max_bytes: u64) -> Option<Self> {
        self.next_smaller(max_bytes).filter(|shape| shape.is_worth_having(keys))
    }

    /// Returns whether a filter of `keys` keys is useful. NaN is not.
    fn is_worth_having(&self, keys: u64) -> bool {
        self.expected_fpr(keys) <= MAX_FPR
    }

    /// Returns the size of the smallest useful payload; this one's if none is smaller.
    fn min_bytes(&self, keys: u64) -> u64 {
        // Bisection, because rates fall as sizes grow, and a user-defined kind may have too many steps to go through.
        let (mut too_few, mut enough) = (0, self.payload_bytes());
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            match self.worthwhile(keys, middle) {
                // Uses the shape's own size, unless it contradicts the request: a user-defined kind could otherwise
                // make the loop endless.
                Some(shape) => enough = shape.payload_bytes().clamp(too_few + 1, middle),
                None => too_few = middle,
            }
        }
        enough
    }
}
