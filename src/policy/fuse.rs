//! The policy of binary fuse filters, and their direct construction from keys that are read several times.

use std::time::Instant;

use super::bloom::RATE_KEYS;
use super::buffered::{self, BufferedKind, seal};
use super::readings::Readings;
use super::{BuildContext, BuiltFilter, FilterBuilder, FilterPolicy, SelfCheck};
use crate::block::trailer::{MAX_KEYS, MAX_PAYLOAD_BYTES, MAX_TAIL_BYTES};
use crate::block::{FallbackReason, FilterBlock, block_bytes};
use crate::error::{ConfigError, FilterError};
use crate::filter::binary_fuse::{self, BuiltFromReadings, FuseArity, FuseShape, is_fingerprint_bits, shape_for};
use crate::filter::blocked_bloom::smallest_size_for;
use crate::filter::{BuildFailure, BuiltPayload, FilterShape};
use crate::hash::{HashIdentity, KeyHash};
use crate::units::{BitsPerKey, FalsePositiveRate};

/// What a binary fuse filter's fingerprints are chosen by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FuseSizing {
    /// The false positive rate, at least 2^-32: that of the shortest fingerprints whose rate is not above it.
    Rate(FalsePositiveRate),
    /// The bits of a fingerprint: 4 to 16, or 32. The rate is 2^-bits.
    FingerprintBits(u8),
}

/// Binary fuse filters: three or four cells to read for each key asked for, and about 9 or 8.6 bits per key at
/// a rate of 2^-8 with a million keys.
///
/// A file gets a blocked Bloom filter of the same rate instead if it has more keys than the format can record
/// ([`FallbackReason::TooManyKeys`]), if building would take more memory than the context allows
/// ([`FallbackReason::MemoryBudget`]), if all of 16 attempts fail ([`FallbackReason::ConstructionFailed`]; of
/// well-mixed hashes about one attempt in 40 fails), or if the filter denies one of its keys, where it is asked to check
/// ([`FallbackReason::SelfCheckFailed`]).
///
/// ```
/// use sstfilter::{BuildContext, FilterKind, FilterPolicy, FusePolicy, FuseSizing, KeyHasher};
///
/// let policy = FusePolicy::new(FuseSizing::FingerprintBits(8))?;
/// let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default())).expect("it never declines");
/// (0..100_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
/// let report = builder.finish().report;
/// assert_eq!(report.used, Some(FilterKind::BINARY_FUSE));
/// assert!(report.bits_per_key() < 9.52);
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FusePolicy {
    arity: FuseArity,
    fingerprint_bits: u8,
    fallback_size: BitsPerKey,
    self_check: SelfCheck,
}

impl FusePolicy {
    /// Filters of a rate, or with fingerprints of some bits; three cells for each key.
    ///
    /// # Errors
    ///
    /// [`ConfigError::FuseRate`] when the rate is below 2^-32; [`ConfigError::OutOfRange`] when there are no
    /// fingerprints of so many bits.
    pub fn new(sizing: FuseSizing) -> Result<Self, ConfigError> {
        let fingerprint_bits = match sizing {
            FuseSizing::Rate(rate) => bits_for(rate)?,
            FuseSizing::FingerprintBits(bits) if is_fingerprint_bits(bits) => bits,
            FuseSizing::FingerprintBits(bits) => {
                let (option, expected) = ("fingerprint bits of a binary fuse filter", "4 to 16, or 32");
                return Err(ConfigError::OutOfRange { option, expected, got: bits.into() });
            }
        };
        let rate = FalsePositiveRate::from_fingerprint_bits(fingerprint_bits.into())?;
        Ok(Self {
            arity: FuseArity::Three,
            fingerprint_bits,
            fallback_size: smallest_size_for(RATE_KEYS, rate),
            self_check: SelfCheck::Off,
        })
    }

    /// Sets how many cells each key has.
    #[must_use]
    pub fn with_arity(self, arity: FuseArity) -> Self {
        Self { arity, ..self }
    }

    /// Whether finished filters are asked for all of their keys.
    #[must_use]
    pub fn with_self_check(self, self_check: SelfCheck) -> Self {
        Self { self_check, ..self }
    }

    /// The exact bytes of the block of `keys` distinct keys, unless it falls back to Bloom; `None` beyond the format.
    ///
    /// ```
    /// use sstfilter::{FusePolicy, FuseSizing};
    ///
    /// let policy = FusePolicy::new(FuseSizing::FingerprintBits(8))?;
    /// assert_eq!(policy.block_bytes(1_000_000), Some(138 * 8_192 + 8 + 40));
    /// # Ok::<(), sstfilter::ConfigError>(())
    /// ```
    #[must_use]
    pub fn block_bytes(&self, keys: u64) -> Option<u64> {
        self.shape(keys).map(|shape| block_bytes(&shape))
    }

    /// About how many bytes building takes beside the hashes and the finished block.
    #[must_use]
    pub fn estimated_build_bytes(&self, keys: u64) -> Option<u64> {
        self.shape(keys).map(|shape| binary_fuse::build_bytes(keys, &shape))
    }

    /// Builds the filter of keys that need not be held in memory: `read` may be called several times, and gives the same
    /// hashes each time, in any order: readings that differ are an error. `keys` is the number of distinct ones, from which the size
    /// is taken: a greater number makes a larger filter, a much smaller one cannot succeed.
    ///
    /// Building takes about 14 bytes per key and the finished block; repeated keys that do not follow each other
    /// add 2 bytes, and eight more readings. Sorted hashes are fastest. The block is, byte for byte, the one that
    /// this policy's builder makes of the same keys, bound to no file.
    ///
    /// ```
    /// use sstfilter::{FilterBlock, FusePolicy, FuseSizing, KeyHasher};
    ///
    /// let hasher = KeyHasher::default();
    /// let hash = |key: u64| hasher.hash(&key.to_le_bytes());
    /// let policy = FusePolicy::new(FuseSizing::FingerprintBits(16))?;
    /// let built = policy.build_repeatable(|| (0..50_000).map(hash), 50_000, hasher.identity())?;
    /// let filter = FilterBlock::load(built.block.expect("it was built"), &hasher)?;
    /// assert!((0..50_000).all(|key| filter.may_contain(hash(key))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FilterError::ReadingsDiffer`] when a reading has other hashes than the one before, and so a key may be missing;
    /// [`FilterError::ConstructionFailed`] when there are more keys than announced, when hashes are not well
    /// mixed, or when a self-check finds a key denied; [`FilterError::TooLarge`] and [`FilterError::NoMemory`].
    pub fn build_repeatable<I: Iterator<Item = KeyHash>>(
        &self,
        read: impl Fn() -> I,
        keys: u64,
        identity: HashIdentity,
    ) -> Result<BuiltFilter, FilterError> {
        let started = Instant::now();
        let shape = self.shape(keys).ok_or(too_large(u64::MAX))?;
        let needed = binary_fuse::build_bytes(keys, &shape);
        let readings = Readings::default();
        let read = || readings.watched(read());
        let built = binary_fuse::build_repeatable(read, keys, shape, MAX_TAIL_BYTES);
        if readings.have_differed() {
            return Err(FilterError::ReadingsDiffer);
        }
        let built = built.map_err(|failure| match failure {
            BuildFailure::TooManyKeys => too_large(shape.payload_bytes()),
            BuildFailure::NoMemory => FilterError::NoMemory { bytes: needed + shape.payload_bytes() },
            BuildFailure::AttemptsExhausted => construction_failed(),
        })?;
        let BuiltFromReadings { payload, added, distinct } = built;
        let mut built = seal(payload, identity.into(), distinct).ok_or(too_large(shape.payload_bytes()))?;
        if self.self_check == SelfCheck::On && !contains_each(built.block.as_deref(), read()) {
            return Err(construction_failed());
        }
        if readings.have_differed() {
            return Err(FilterError::ReadingsDiffer);
        }
        built.report.keys_added = added;
        built.report.finish_time = started.elapsed();
        Ok(built)
    }

    /// The shape of a filter that a block can carry.
    fn shape(&self, keys: u64) -> Option<FuseShape> {
        let shape = shape_for(keys, self.arity, self.fingerprint_bits)?;
        (keys <= MAX_KEYS && shape.payload_bytes() <= MAX_PAYLOAD_BYTES).then_some(shape)
    }
}

impl BufferedKind for FusePolicy {
    type Shape = FuseShape;
    type Plan = FuseShape;

    fn plan(&self, keys: u64, memory_budget: Option<u64>) -> Result<FuseShape, FallbackReason> {
        let shape = self.shape(keys).ok_or(FallbackReason::TooManyKeys)?;
        let needed = binary_fuse::build_bytes(keys, &shape);
        if memory_budget.is_some_and(|budget| needed > budget) {
            return Err(FallbackReason::MemoryBudget);
        }
        Ok(shape)
    }

    fn build(&self, shape: FuseShape, hashes: &[KeyHash]) -> Result<BuiltPayload<FuseShape>, BuildFailure> {
        binary_fuse::build(hashes, shape, MAX_TAIL_BYTES)
    }

    const TAKES_ROUGH_ORDER: bool = true;

    /// Sorting in full would be a third of all work. Keys that come twice are never peeled off.
    fn build_at_once(
        &self,
        shape: FuseShape,
        hashes: &[KeyHash],
        spare: Vec<KeyHash>,
    ) -> Option<BuiltPayload<FuseShape>> {
        binary_fuse::build_at_once(hashes, shape, spare, MAX_TAIL_BYTES)
    }

    fn planned_bytes(&self, _keys: u64, shape: &FuseShape) -> Option<u64> {
        Some(block_bytes(shape))
    }

    fn fallback_size(&self) -> BitsPerKey {
        self.fallback_size
    }

    fn self_check(&self) -> SelfCheck {
        self.self_check
    }
}

impl FilterPolicy for FusePolicy {
    fn name(&self) -> &'static str {
        "fuse"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        Some(buffered::builder(self, context))
    }
}

fn contains_each(block: Option<&[u8]>, mut hashes: impl Iterator<Item = KeyHash>) -> bool {
    let filter = block.map(FilterBlock::open_unverified);
    filter.is_some_and(|filter| filter.is_ok_and(|filter| hashes.all(|hash| filter.may_contain(hash))))
}

/// The shortest fingerprints whose rate is at most `rate`.
fn bits_for(rate: FalsePositiveRate) -> Result<u8, ConfigError> {
    let is_enough = |&bits: &u8| rate.get() * (1_u64 << bits) as f64 >= 1.0;
    let fitting = (4..=32).filter(|&bits| is_fingerprint_bits(bits)).find(is_enough);
    fitting.ok_or(ConfigError::FuseRate { got: rate.get() })
}

fn too_large(got: u64) -> FilterError {
    FilterError::TooLarge { most_bytes: MAX_PAYLOAD_BYTES, got }
}

fn construction_failed() -> FilterError {
    FilterError::ConstructionFailed { salts: (0..binary_fuse::SALTS).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(bits: u8) -> FusePolicy {
        FusePolicy::new(FuseSizing::FingerprintBits(bits)).unwrap()
    }

    #[test]
    fn rates_get_the_shortest_fingerprints_that_keep_them() {
        let bits = |rate| FusePolicy::new(FuseSizing::Rate(FalsePositiveRate::new(rate).unwrap())).unwrap();
        let all = [0.9, 0.0625, 0.06, 0.01, 0.003_906_25, 0.003_9, 1e-4, 1.6e-5, 1.5e-5, 2.4e-10];
        assert_eq!(all.map(|rate| bits(rate).fingerprint_bits), [4, 4, 5, 7, 8, 9, 14, 16, 32, 32]);
        let too_low = FuseSizing::Rate(FalsePositiveRate::new(2e-10).unwrap());
        assert_eq!(FusePolicy::new(too_low).unwrap_err(), ConfigError::FuseRate { got: 2e-10 });
    }

    #[test]
    fn fingerprints_of_other_widths_are_refused() {
        for bits in (0..4).chain(17..32).chain(33..=255) {
            let error = FusePolicy::new(FuseSizing::FingerprintBits(bits)).unwrap_err();
            assert!(matches!(error, ConfigError::OutOfRange { got, .. } if got == u64::from(bits)));
        }
    }

    #[test]
    fn billions_of_keys_have_a_size_and_take_no_memory() {
        assert!(policy(8).block_bytes(1 << 32).is_some_and(|bytes| bytes > 1 << 32));
        assert_eq!((policy(8).block_bytes(1 << 35), policy(8).block_bytes(u64::MAX)), (None, None));
        let read = || -> core::iter::Empty<KeyHash> { panic!("it is settled before") };
        let identity = crate::KeyHasher::default().identity();
        let refused = policy(8).build_repeatable(read, 1 << 40, identity);
        assert!(matches!(refused, Err(FilterError::TooLarge { .. })), "{refused:?}");
    }
}
