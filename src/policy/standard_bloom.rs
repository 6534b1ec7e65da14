//! The policy of standard Bloom filters.

use super::bloom::{BitsInMaking, BloomBuilder, BloomRequest, RATE_KEYS};
use super::{BuildContext, FilterBuilder, FilterPolicy, SelfCheck};
use crate::block::FallbackReason;
use crate::block::trailer::MAX_PAYLOAD_BYTES;
use crate::codec::AlignedBuffer;
use crate::error::ConfigError;
use crate::filter::standard_bloom::{StandardBits, StandardBloomShape, size_for_rate};
use crate::filter::{FilterKind, FilterShape};
use crate::hash::KeyHash;
use crate::units::{BitsPerKey, FalsePositiveRate};

/// Standard Bloom filters of one size, 10 bits per key by default: 0.82 % of absent keys get through.
///
/// Like blocked Bloom they are made in one pass, and with the number of keys known beforehand nothing is buffered.
/// They are smaller at the same rate, and slower to ask, the more so the lower the rate:
/// [`standard_bloom`](crate::filter::standard_bloom) has the figures.
///
/// ```
/// use sstfilter::{BuildContext, FalsePositiveRate, FilterKind, FilterPolicy, KeyHasher, StandardBloomPolicy};
///
/// let policy = StandardBloomPolicy::for_rate(FalsePositiveRate::ONE_PERCENT)?;
/// let hasher = KeyHasher::default();
/// let mut builder = policy.builder(&BuildContext::new(&hasher)).expect("it never declines");
/// (0..10_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
/// let report = builder.finish().report;
/// assert_eq!(report.used, Some(FilterKind::STANDARD_BLOOM));
/// assert!(report.bits_per_key() < 9.7);
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StandardBloomPolicy {
    size: BitsPerKey,
    self_check: SelfCheck,
}

impl StandardBloomPolicy {
    /// Filters of `size`.
    #[must_use]
    pub fn new(size: BitsPerKey) -> Self {
        Self { size, self_check: SelfCheck::Off }
    }

    /// The smallest filters whose expected rate is at most `rate`; those of a few keys can be a few percent above it.
    ///
    /// # Errors
    ///
    /// [`ConfigError::StandardBloomRate`] when 100 bits per key are not enough.
    pub fn for_rate(rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        size_for_rate(RATE_KEYS, rate).map(Self::new)
    }

    /// Whether finished filters are asked for all of their keys.
    #[must_use]
    pub fn with_self_check(self, self_check: SelfCheck) -> Self {
        Self { self_check, ..self }
    }

    /// The exact bytes of the block for `keys` keys, and 8 more if it is bound to a file; `None` beyond the format's limit of 32 GiB.
    ///
    /// ```
    /// use sstfilter::StandardBloomPolicy;
    ///
    /// assert_eq!(StandardBloomPolicy::default().block_bytes(1_000), Some(157 * 8 + 40));
    /// ```
    #[must_use]
    pub fn block_bytes(&self, keys: u64) -> Option<u64> {
        StandardBits::block_bytes(keys, self.size)
    }
}

impl FilterPolicy for StandardBloomPolicy {
    fn name(&self) -> &'static str {
        "standard-bloom"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        let request = BloomRequest {
            size: self.size,
            requested: FilterKind::STANDARD_BLOOM,
            reason: FallbackReason::None,
            self_check: self.self_check,
            memory_budget: context.memory_budget,
        };
        Some(Box::new(BloomBuilder::<StandardBits>::new(request, context)))
    }
}

impl BitsInMaking for StandardBits {
    type Shape = StandardBloomShape;

    fn shape_for(keys: u64, size: BitsPerKey) -> Option<StandardBloomShape> {
        Some(StandardBloomShape::for_keys(keys, size)).filter(|shape| shape.payload_bytes() <= MAX_PAYLOAD_BYTES)
    }

    /// Nothing is used beside the bits.
    fn new(shape: StandardBloomShape, tail_capacity: usize, _scratch_limit: Option<u64>) -> Option<Self> {
        Self::new(shape, tail_capacity)
    }

    fn insert(&mut self, hash: KeyHash) {
        self.insert(hash);
    }

    fn insert_all(&mut self, hashes: &[KeyHash]) {
        self.insert_uncounted(hashes);
    }

    fn shape(&self) -> StandardBloomShape {
        self.shape()
    }

    fn scratch_bytes(&self) -> u64 {
        0
    }

    fn into_payload(self) -> AlignedBuffer {
        self.into_payload()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::FilterBlock;
    use crate::hash::KeyHasher;

    #[test]
    fn streaming_and_buffering_give_the_same_bytes_and_nothing_is_buffered() {
        let context = BuildContext::new(&KeyHasher::default());
        for keys in [0, 1, 6, 7, 1_000] {
            let build = |context: &BuildContext| {
                let mut builder = StandardBloomPolicy::default().builder(context).unwrap();
                (0..keys).for_each(|key| builder.add_hash(KeyHash::from_remixed(key)));
                builder.finish()
            };
            let (buffered, streamed) = (build(&context), build(&context.clone().with_expected_keys(keys)));
            assert_eq!(buffered.block, streamed.block);
            assert_eq!(streamed.report.block_bytes, StandardBloomPolicy::default().block_bytes(keys).unwrap());
            assert_eq!(streamed.report.peak_build_bytes, streamed.report.block_bytes);
            assert_eq!(FilterBlock::open_unverified(buffered.block.unwrap()).unwrap().info().keys, keys);
        }
    }

    #[test]
    fn sizes_of_any_number_of_keys_are_computed_and_nothing_is_allocated() {
        let policy = StandardBloomPolicy::default();
        assert_eq!(policy.block_bytes(1 << 32), Some((10 << 29) + 40));
        assert_eq!(policy.block_bytes(u64::MAX), None);
        for expected in [1 << 33, 1 << 50, u64::MAX] {
            let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(expected);
            if policy.block_bytes(expected).is_none() {
                assert!(policy.builder(&context).unwrap().finish().block.is_some());
            }
        }
    }

    #[test]
    fn a_self_check_passes_and_says_nothing() {
        let policy = StandardBloomPolicy::default().with_self_check(SelfCheck::On);
        let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default()).with_expected_keys(3)).unwrap();
        (0..3).for_each(|key| builder.add_hash(KeyHash::from_remixed(key)));
        assert_eq!(builder.finish().report.reason, FallbackReason::None);
    }
}
