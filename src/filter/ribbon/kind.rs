//! Configuration of Ribbon filters as a kind, with the rules for falling back to a blocked Bloom filter.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

use super::band::Section;
use super::build;
use super::columns::{Columns, MAX_COLUMNS};
use super::section::thread_bytes;
use super::shape::{RibbonShape, columns_for_size, estimated_build_bytes, expected_shape};
use crate::error::ConfigError;
use crate::filter::blocked_bloom::{BloomShape, expected_fpr, smallest_size_for};
use crate::filter::{BuildLimits, BuildResult, FallbackReason, FilterShape, Kind, RATE_KEYS};
use crate::hash::KeyHash;
use crate::ids::KindId;
use crate::units::{BitsPerKey, FalsePositiveRate, Sizing};

/// Ribbon filters of a rate or a size. A rate from 2^-32 to 1/2 is never exceeded, and from 10,000 keys on the filter's
/// rate is at most 1 % lower. The whole block meets a size to within 1 % from 10,000 keys on. No filter has more than
/// 32 columns, about 33 bits per key.
///
/// A file gets a Ribbon filter unless, in this order,
///
/// 1. it has fewer keys than the policy's minimum, 1,024 by default: [`TooFewKeys`];
/// 2. at this number of keys or at a larger one, Ribbon would not be smaller at the same rate: [`NotSmaller`] (never
///    from 1,024 keys on, so only with a lower minimum);
/// 3. it has more keys than the maximum, or than the format can record: [`TooManyKeys`];
/// 4. building would take more memory than the context allows: [`MemoryBudget`];
/// 5. no attempt to build it succeeds: [`ConstructionFailed`];
/// 6. the finished block is larger than Bloom's at the same rate or, if a size is requested, exceeds the plan by more
///    than a sixteenth: [`NotSmaller`]. Only hashes that crowd cause this: with well-mixed hashes every block is about
///    30 % smaller than Bloom's;
/// 7. the finished filter lacks one of its keys, if a self-check is on: [`SelfCheckFailed`].
///
/// The Bloom filter has the same rate, as far as 100 bits per key reach it (about 1.4e-9), or the same size; the
/// report and the block record the expected rate. Rules 1 and 2 are monotone: if a number of well-mixed keys gets
/// Ribbon, every larger number does, up to rule 3.
///
/// A configured kind and its clones keep the memory of up to eight builds, at most 4 MiB each, for later builds. Each
/// thread beyond the first takes about 3 MB more; the memory budget limits the number of threads, and the choice of the
/// kind does not depend on it.
///
/// [`TooFewKeys`]: crate::FallbackReason::TooFewKeys
/// [`NotSmaller`]: crate::FallbackReason::NotSmaller
/// [`TooManyKeys`]: crate::FallbackReason::TooManyKeys
/// [`MemoryBudget`]: crate::FallbackReason::MemoryBudget
/// [`ConstructionFailed`]: crate::FallbackReason::ConstructionFailed
/// [`SelfCheckFailed`]: crate::FallbackReason::SelfCheckFailed
#[derive(Clone, Debug)]
pub struct RibbonKind {
    /// The size of a block; `None` if the rate is given.
    size: Option<BitsPerKey>,
    /// The columns at the rate; for a size, those of the rate that Bloom has at that size. At small sizes Bloom's rate
    /// is higher than any that Ribbon offers: then `None`, and there is no size to compare.
    equal: Option<Columns>,
    fallback_size: BitsPerKey,
    max_attempts: u32,
    pub(super) shared: Arc<Shared>,
}

/// State that a kind shares with its clones.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The number of keys from which Ribbon is smaller than Bloom, plus 1; 0 until it is computed. It is computed for
    /// the first small file: that takes milliseconds, and an engine may configure a kind for every table that it opens.
    /// Threads that compute it at the same time get equal results.
    smaller_from: AtomicU32,
    /// Sections of about 3 MB that one build leaves to the next; otherwise the system would clear fresh pages for every
    /// file. Without `std` there are no locks, and each build allocates its own.
    #[cfg(feature = "std")]
    pub(super) idle_sections: std::sync::Mutex<Vec<Section>>,
}

/// Above this number of keys Ribbon is smaller than Bloom at every rate that it offers.
const SMALLER_FROM_AT_MOST: u32 = 4_096;

/// 1 or 2 attempts are usual; 64 fail only with hashes that are not well mixed.
const DEFAULT_MAX_ATTEMPTS: u32 = 64;

impl RibbonKind {
    /// Configures filters of a rate or a size.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for a rate below 2^-32 or above 1/2, and for fingerprint bits outside 1 to 32.
    pub fn configure(sizing: impl Into<Sizing>) -> Result<Self, ConfigError> {
        match sizing.into() {
            Sizing::Rate(rate) => Self::of_rate(rate),
            Sizing::BitsPerKey(size) => {
                let equal = bloom_rate(size).and_then(Columns::for_rate).ok();
                Ok(Self::of(Some(size), equal, size))
            }
            Sizing::FingerprintBits(bits @ 1..=MAX_COLUMNS) => {
                Self::of_rate(FalsePositiveRate::from_fingerprint_bits(bits.into())?)
            }
            Sizing::FingerprintBits(bits) => {
                Err(ConfigError::out_of_range("fingerprint bits of a ribbon filter", "1 to 32", bits))
            }
        }
    }

    /// Configures filters with the false positive rate of a blocked Bloom filter of `size`, in about 30 % less memory.
    /// A file that cannot have a Ribbon filter gets the Bloom filter of that size.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RateOutOfRange`] when that rate is above 1/2: below about 1.5 bits per key.
    pub fn same_rate_as_bloom(size: BitsPerKey) -> Result<Self, ConfigError> {
        Ok(Self::of(None, Some(Columns::for_rate(bloom_rate(size)?)?), size))
    }

    fn of_rate(rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        Ok(Self::of(None, Some(Columns::for_rate(rate)?), smallest_size_for(RATE_KEYS, rate)))
    }

    fn of(size: Option<BitsPerKey>, equal: Option<Columns>, fallback_size: BitsPerKey) -> Self {
        Self { size, equal, fallback_size, max_attempts: DEFAULT_MAX_ATTEMPTS, shared: Arc::default() }
    }

    /// Limits the attempts for each filter. The default is 64; usually 1 or 2 are needed.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] when `attempts` is not from 1 to 1,024.
    pub fn with_max_attempts(self, attempts: u32) -> Result<Self, ConfigError> {
        let refused = ConfigError::out_of_range("attempts at a ribbon filter", "1 to 1024", attempts);
        if (1..=1_024).contains(&attempts) { Ok(Self { max_attempts: attempts, ..self }) } else { Err(refused) }
    }

    /// Returns the smallest number of keys from which Ribbon's block is always smaller than Bloom's.
    pub(super) fn smaller_from(&self) -> u64 {
        let Some(columns) = self.equal else { return 0 };
        if let Some(known) = self.shared.smaller_from.load(Ordering::Relaxed).checked_sub(1) {
            return known.into();
        }
        let ribbon = |keys| expected_shape(keys, columns).map(|shape| shape.block_bytes());
        let bloom = |keys| BloomShape::for_keys(keys, self.fallback_size).map(|shape| shape.block_bytes());
        let not_smaller = |&keys: &u32| ribbon(keys.into()) >= bloom(keys.into());
        let found = (1..SMALLER_FROM_AT_MOST).rev().find(not_smaller).map_or(0, |keys| keys + 1);
        // Relaxed: a thread that misses the value computes an equal one.
        self.shared.smaller_from.store(found + 1, Ordering::Relaxed);
        found.into()
    }
}

impl Kind for RibbonKind {
    type Shape = RibbonShape;

    const ID: KindId = KindId::RIBBON;
    const STRENGTH: &'static str =
        "takes the least memory for its rate: within half a percent of the information bound for large files";
    /// With fewer keys, the trailer and the last layer's slack cost more than the columns save.
    const DEFAULT_MIN_KEYS: u64 = 1_024;
    /// Exact up to 5,000 keys, except for rare extra attempts; within 1 % above, and half a percent from 20,000 on.
    const HAS_EXACT_SIZE: bool = false;

    /// Applies rules 2 and 3.
    fn plan(&self, keys: u64) -> Result<RibbonShape, FallbackReason> {
        if keys < SMALLER_FROM_AT_MOST.into() && keys < self.smaller_from() {
            return Err(FallbackReason::NotSmaller);
        }
        let columns = self.size.and_then(|size| columns_for_size(keys, size)).or(self.equal).unwrap_or(Columns::ONE);
        expected_shape(keys, columns).ok_or(FallbackReason::TooManyKeys)
    }

    fn build_bytes(&self, keys: u64, plan: &RibbonShape) -> u64 {
        estimated_build_bytes(keys, plan.columns()).unwrap_or(u64::MAX)
    }

    fn thread_bytes(&self, keys: u64, _plan: &RibbonShape) -> u64 {
        thread_bytes(keys)
    }

    fn build(&self, plan: &Self::Shape, hashes: &[KeyHash], limits: BuildLimits) -> BuildResult<Self::Shape> {
        // The lock is held only to take or return a section, so that builds run in parallel.
        #[cfg(feature = "std")]
        let mut section = self.shared.idle_sections.lock().ok().and_then(|mut idle| idle.pop()).unwrap_or_default();
        #[cfg(not(feature = "std"))]
        let mut section = Section::default();
        let built = build::build(hashes, plan.columns(), self.max_attempts, limits.threads, &mut section);
        #[cfg(feature = "std")]
        if let Ok(mut idle) = self.shared.idle_sections.lock()
            && idle.len() < MAX_KEPT
        {
            idle.push(section);
        }
        built
    }

    /// Applies rule 6. Keys that a bucket cannot take cost twice, in the bucket's empty slots and in the next layer:
    /// with all keys in one place the block is twice as large as planned.
    fn max_block_bytes(&self, keys: u64, plan: &RibbonShape) -> Option<u64> {
        let bloom = BloomShape::for_keys(keys, self.fallback_size)?.block_bytes();
        if self.size.is_none() {
            return Some(bloom);
        }
        // At 1 bit per key, few keys may need some bits more than Bloom.
        let planned = plan.block_bytes().max(bloom);
        Some(planned + planned / 16)
    }

    fn fallback_size(&self) -> Option<BitsPerKey> {
        Some(self.fallback_size)
    }
}

/// Returns the rate of a Bloom filter of `size`.
fn bloom_rate(size: BitsPerKey) -> Result<FalsePositiveRate, ConfigError> {
    FalsePositiveRate::new(expected_fpr(RATE_KEYS, size))
}

/// The maximum number of sections kept for reuse: one for each concurrent build.
#[cfg(feature = "std")]
const MAX_KEPT: usize = 8;
