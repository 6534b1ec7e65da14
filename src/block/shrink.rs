//! Shrinking a block, without its keys.

use alloc::vec::Vec;

use bytes::Bytes;

use super::open::{FilterBlock, open_shape};
use super::trailer::Trailer;
use crate::codec::checksum;
use crate::error::ShrinkError;

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Returns the largest possible block of up to `max_bytes` bytes with the same keys and a higher false positive
    /// rate. It is made without the keys. A block that is small enough already is copied.
    ///
    /// At the smallest size, the filter still answers "absent" for one absent key in a hundred. The error contains this
    /// size. If you have fewer bytes, drop the filter.
    ///
    /// Blocked Bloom filters fold adjacent lines into one, so the number of lines is divided by one of its divisors;
    /// [`BlockedBloomKind::with_fold`](crate::kind::BlockedBloomKind::with_fold) builds filters whose number of lines
    /// has small divisors. Ribbon filters drop columns, down to one, and can have almost any size in between. The
    /// library's other kinds keep their size.
    ///
    /// For a Bloom filter, take a size from [`shrink_steps`](Self::shrink_steps). Do not halve its *bytes*: half of the
    /// lines and a trailer take a little more, so you would get the next smaller fold, or none if the number of lines
    /// has no small divisor.
    ///
    /// Hash, file, number of keys, requested kind and fallback reason do not change, nor does any other property of the
    /// block except its rate, which [`info`](Self::info) returns. The same block and size yield the same bytes
    /// everywhere.
    ///
    /// ```
    /// use sstfilter::{BuildContext, FalsePositiveRate, FilterBlock, KeyHasher, FixedPolicy};
    ///
    /// let hasher = KeyHasher::default();
    /// let policy = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT)?;
    /// let mut builder = policy.builder(&BuildContext::new(&hasher));
    /// (0..10_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
    /// let block = FilterBlock::load(builder.finish().block.unwrap_or_default(), &hasher)?;
    ///
    /// let half = block.info().block_bytes / 2;
    /// let smaller = FilterBlock::load(block.shrink_to(half).map(FilterBlock::into_inner)?, &hasher)?;
    /// assert!(smaller.info().block_bytes <= half && smaller.info().expected_fpr < 0.12);
    /// assert!(smaller.may_contain(hasher.hash(&4_711_u32.to_be_bytes())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ShrinkError::Block`] if the payload differs from its checksum. Every call compares it, because a new checksum
    /// over damaged lines would hide lost keys. [`ShrinkError::TooSmall`], with the smallest size, if `max_bytes` is
    /// below that size. [`ShrinkError::NoMemory`] if allocation fails.
    pub fn shrink_to(&self, max_bytes: u64) -> Result<FilterBlock<Bytes>, ShrinkError> {
        let payload = self.verified_payload()?;
        let (block_bytes, payload_bytes) = (self.trailer.block_bytes(), self.trailer.shape.payload_bytes);
        let tail_bytes = block_bytes - payload_bytes;
        let too_small = |min_payload_bytes| ShrinkError::TooSmall {
            kind: self.trailer.kind,
            block_bytes,
            max_bytes,
            min_bytes: tail_bytes + min_payload_bytes,
        };
        // Saturates to an empty payload, which no kind has, so that the kind reports its minimum.
        let max_payload_bytes = max_bytes.saturating_sub(tail_bytes);
        let keys = self.trailer.shape.keys;
        let (any, payload) = self.shape.any.shrink(keys, payload, max_payload_bytes, too_small)?;
        let shape = any.encode(keys);
        let trailer = Trailer { shape, payload_checksum: checksum(payload.as_slice()), ..self.trailer };
        let data = trailer.seal(payload, self.held_parts()).filter(|data| data.len() as u64 <= max_bytes);
        let data = data.ok_or_else(|| too_small(payload_bytes))?;
        let shape = open_shape(&trailer, any);
        Ok(FilterBlock { data, is_verified: true, trailer, shape, answered: self.answered })
    }

    /// Returns the best sizes for [`shrink_to`](Self::shrink_to) in bytes of the whole block, largest first, each with
    /// the expected false positive rate, from 0 to 1. A blocked Bloom filter has one for each divisor of its number of
    /// lines, a Ribbon filter one for each smaller number of columns. The last is the smallest size that `shrink_to`
    /// makes: below it, the filter would exclude fewer than one absent key in a hundred. Empty for kinds that do not
    /// shrink; the first 64 for kinds with more.
    ///
    /// ```
    /// use sstfilter::{BuildContext, FalsePositiveRate, FilterBlock, KeyHasher, FixedPolicy};
    ///
    /// let hasher = KeyHasher::default();
    /// let policy = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT)?; // seven columns
    /// let mut builder = policy.builder(&BuildContext::new(&hasher));
    /// (0..10_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
    /// let block = FilterBlock::load(builder.finish().block.unwrap_or_default(), &hasher)?;
    ///
    /// let rates: Vec<f64> = block.shrink_steps().iter().map(|(_, rate)| (rate * 64.0).round()).collect();
    /// assert_eq!(rates, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn shrink_steps(&self) -> Vec<(u64, f64)> {
        let mut steps = self.shape.any.shrink_steps(self.trailer.shape.keys);
        // Kinds count unbound blocks of whole keys.
        let more_bytes = self.trailer.identity.file_bytes() + u64::from(self.trailer.parts_bytes);
        steps.iter_mut().for_each(|(block_bytes, _)| *block_bytes += more_bytes);
        steps
    }
}
