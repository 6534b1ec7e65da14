//! The policy of Ribbon filters, with its fallback to blocked Bloom.

use std::sync::Arc;

use self::scratch::ScratchPool;
use super::bloom::{RATE_KEYS, bloom_block_bytes};
use super::buffered::{self, BufferedKind};
use super::{BuildContext, FilterBuilder, FilterPolicy, SelfCheck};
use crate::block::trailer::{MAX_KEYS, MAX_PAYLOAD_BYTES, MAX_TAIL_BYTES};
use crate::block::{FallbackReason, block_bytes};
use crate::error::ConfigError;
use crate::filter::blocked_bloom::{expected_fpr, smallest_size_for};
use crate::filter::ribbon::expected_shape;
use crate::filter::ribbon::{self, Columns, RibbonRequest, RibbonShape};
use crate::filter::{BuildFailure, BuiltPayload, FilterShape};
use crate::hash::KeyHash;
use crate::units::{BitsPerKey, FalsePositiveRate};

/// What a Ribbon filter's size is chosen by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RibbonSizing {
    /// The false positive rate, 2^-32 to 1/2: never more, and from 10,000 keys on less by at most 1 %.
    Rate(FalsePositiveRate),
    /// The size of the whole block, met to within 1 % from 10,000 keys on. No filter has more than 32
    /// columns, about 33 bits per key, whatever the size asked for.
    Size(BitsPerKey),
    /// The rate that a blocked Bloom filter of this size has: the same reads for about 30 % less memory.
    SameRateAsBloom(BitsPerKey),
}

/// Ribbon filters, and blocked Bloom filters of the same rate where Ribbon does not serve.
///
/// The fallback rule. A file gets a Ribbon filter unless, in this order,
///
/// 1. it has fewer keys than the minimum (1,024 by default): [`FallbackReason::TooFewKeys`];
/// 2. Ribbon would not be smaller at the same rate, at this or any larger number of keys:
///    [`FallbackReason::NotSmaller`] (never from 1,024 keys on, so only with a lower minimum);
/// 3. it has more keys than the maximum, or than the format can record: [`FallbackReason::TooManyKeys`];
/// 4. building would take more memory than the context allows: [`FallbackReason::MemoryBudget`];
/// 5. no attempt at building it succeeds: [`FallbackReason::ConstructionFailed`];
/// 6. the finished block is larger than Bloom's at the same rate, or, where a size is asked for, larger by more than a
///    sixteenth than planned: [`FallbackReason::NotSmaller`]. That takes hashes that crowd: of well-mixed ones every
///    block is smaller than Bloom's by about 30 %;
/// 7. the finished filter denies one of its keys, if it is asked to check:
///    [`FallbackReason::SelfCheckFailed`].
///
/// The Bloom filter has the rate asked for, as far as 100 bits per key give it (about 2.75e-10), or the size
/// asked for; the report and the block say which rate is to be expected. When the number of keys is
/// announced and leads to Bloom, that is settled there and then.
///
/// A policy and its clones keep the memory of up to eight builds, at most 4 MiB each, for the next ones. With the
/// feature `parallel`, building takes about 3 MB more for each thread, which the memory budget does not count, so
/// that the choice of the kind does not depend on the machine.
///
/// Rules 1 and 2 are monotone: once a number of well-mixed keys gets Ribbon, every larger one does, up to rule 3.
///
/// ```
/// use sstfilter::{BuildContext, FallbackReason, FalsePositiveRate, FilterKind, FilterPolicy};
/// use sstfilter::{KeyHasher, RibbonPolicy, RibbonSizing};
///
/// let policy = RibbonPolicy::new(RibbonSizing::Rate(FalsePositiveRate::ONE_PERCENT))?;
/// let hasher = KeyHasher::default();
/// let report_of = |keys: u32| {
///     let mut builder = policy.builder(&BuildContext::new(&hasher)).expect("it never declines");
///     (0..keys).for_each(|key| builder.add_key(&key.to_le_bytes()));
///     builder.finish().report
/// };
/// assert_eq!(report_of(1_024).used, Some(FilterKind::RIBBON));
/// assert_eq!(report_of(1_023).used, Some(FilterKind::BLOCKED_BLOOM));
/// assert_eq!(report_of(1_023).reason, FallbackReason::TooFewKeys);
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RibbonPolicy {
    sizing: RibbonSizing,
    /// The columns at the policy's rate; for a size, those of the rate that Bloom has at that size.
    columns: Columns,
    fallback_size: BitsPerKey,
    /// From here on Ribbon is smaller than Bloom.
    smaller_from: u64,
    min_keys: u64,
    max_keys: u64,
    max_attempts: u32,
    self_check: SelfCheck,
    /// Shared by all clones of the policy.
    scratch: Arc<ScratchPool>,
}

/// Above this many keys Ribbon is smaller than Bloom at every rate that it offers.
const SMALLER_FROM_AT_MOST: u64 = 4_096;

const DEFAULT_MIN_KEYS: u64 = 1_024;
const DEFAULT_MAX_ATTEMPTS: u32 = 64;

impl RibbonPolicy {
    /// Ribbon filters of a rate or a size.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RibbonRate`] when the rate is above 1/2 or below 2^-32.
    pub fn new(sizing: RibbonSizing) -> Result<Self, ConfigError> {
        // The columns that give the rate of the fallback. At small sizes Bloom's rate is higher than any that
        // Ribbon offers: then there are none, and no size to compare.
        let (equal, fallback_size) = match sizing {
            RibbonSizing::Rate(rate) => (Some(Columns::for_rate(rate)?), smallest_size_for(RATE_KEYS, rate)),
            RibbonSizing::SameRateAsBloom(size) => (Some(Columns::for_rate(bloom_rate(size)?)?), size),
            RibbonSizing::Size(size) => (bloom_rate(size).and_then(Columns::for_rate).ok(), size),
        };
        Ok(Self {
            sizing,
            columns: equal.unwrap_or(Columns::ONE),
            fallback_size,
            smaller_from: equal.map_or(0, |columns| smaller_from(columns, fallback_size)),
            min_keys: DEFAULT_MIN_KEYS,
            max_keys: MAX_KEYS,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            self_check: SelfCheck::Off,
            scratch: Arc::default(),
        })
    }

    /// Sets the least number of keys for a Ribbon filter.
    #[must_use]
    pub fn with_min_keys(self, keys: u64) -> Self {
        Self { min_keys: keys, ..self }
    }

    /// Sets the greatest number of keys for a Ribbon filter, at most 2^40 - 1.
    #[must_use]
    pub fn with_max_keys(self, keys: u64) -> Self {
        Self { max_keys: keys.min(MAX_KEYS), ..self }
    }

    /// Limits the attempts at each filter; 64 by default, of which 1 or 2 are usual.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] when `attempts` is not from 1 to 1,024.
    pub fn with_max_attempts(self, attempts: u32) -> Result<Self, ConfigError> {
        if !(1..=1_024).contains(&attempts) {
            let (option, expected) = ("attempts at a ribbon filter", "1 to 1024");
            return Err(ConfigError::OutOfRange { option, expected, got: attempts.into() });
        }
        Ok(Self { max_attempts: attempts, ..self })
    }

    /// Whether finished filters are asked for all of their keys.
    #[must_use]
    pub fn with_self_check(self, self_check: SelfCheck) -> Self {
        Self { self_check, ..self }
    }

    /// About how many bytes the block of `keys` keys has: exact when it falls back to Bloom and, but for
    /// rare extra attempts, up to 5,000 keys; within 1 % above, and half a percent from 20,000 on. `None`
    /// beyond the format.
    #[must_use]
    pub fn estimated_block_bytes(&self, keys: u64) -> Option<u64> {
        self.estimated_bytes(keys)
    }

    /// About how many bytes building takes beside the hashes and the finished block, at the most.
    #[must_use]
    pub fn estimated_build_bytes(&self, keys: u64) -> Option<u64> {
        ribbon::estimated_build_bytes(keys, self.columns_for(keys))
    }

    fn columns_for(&self, keys: u64) -> Columns {
        match self.sizing {
            RibbonSizing::Size(size) => ribbon::columns_for_size(keys, size, tail_bytes).unwrap_or(self.columns),
            RibbonSizing::Rate(_) | RibbonSizing::SameRateAsBloom(_) => self.columns,
        }
    }
}

impl BufferedKind for RibbonPolicy {
    type Shape = RibbonShape;
    type Plan = Columns;

    /// Rules 1 to 4: the columns of a Ribbon filter of `keys` keys, or why there is to be none.
    fn plan(&self, keys: u64, memory_budget: Option<u64>) -> Result<Columns, FallbackReason> {
        if keys < self.min_keys {
            return Err(FallbackReason::TooFewKeys);
        }
        if keys < self.smaller_from {
            return Err(FallbackReason::NotSmaller);
        }
        let columns = self.columns_for(keys);
        let fits = expected_shape(keys, columns).is_some_and(|shape| shape.payload_bytes() <= MAX_PAYLOAD_BYTES);
        if keys > self.max_keys || !fits {
            return Err(FallbackReason::TooManyKeys);
        }
        let over_budget = |needed| memory_budget.is_some_and(|budget| needed > budget);
        if ribbon::estimated_build_bytes(keys, columns).is_none_or(over_budget) {
            return Err(FallbackReason::MemoryBudget);
        }
        Ok(columns)
    }

    fn build(&self, columns: Columns, hashes: &[KeyHash]) -> Result<BuiltPayload<RibbonShape>, BuildFailure> {
        let request = RibbonRequest { columns, max_attempts: self.max_attempts, tail_capacity: MAX_TAIL_BYTES };
        let mut section = self.scratch.take();
        let built = ribbon::build(hashes, request, &mut section);
        self.scratch.give_back(section);
        built
    }

    fn planned_bytes(&self, keys: u64, &columns: &Columns) -> Option<u64> {
        ribbon_block_bytes(keys, columns)
    }

    /// Rule 6. Keys that a bucket cannot take cost twice, in the bucket's empty slots and in the next layer: with all
    /// keys in one place the block is twice as large as planned.
    fn most_block_bytes(&self, keys: u64, &columns: &Columns) -> Option<u64> {
        let bloom = bloom_block_bytes(keys, self.fallback_size)?;
        match self.sizing {
            RibbonSizing::Rate(_) | RibbonSizing::SameRateAsBloom(_) => Some(bloom),
            RibbonSizing::Size(_) => {
                // Few keys at 1 bit per key may need some bits more than Bloom.
                let planned = ribbon_block_bytes(keys, columns)?.max(bloom);
                Some(planned + planned / 16)
            }
        }
    }

    fn fallback_size(&self) -> BitsPerKey {
        self.fallback_size
    }

    fn self_check(&self) -> SelfCheck {
        self.self_check
    }
}

impl FilterPolicy for RibbonPolicy {
    fn name(&self) -> &'static str {
        "ribbon"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        Some(buffered::builder(self, context))
    }
}

/// The rate of a Bloom filter of `size`.
fn bloom_rate(size: BitsPerKey) -> Result<FalsePositiveRate, ConfigError> {
    FalsePositiveRate::new(expected_fpr(RATE_KEYS, size))
}

/// About how many bytes a Ribbon block of `keys` keys has.
fn ribbon_block_bytes(keys: u64, columns: Columns) -> Option<u64> {
    expected_shape(keys, columns).map(|shape| block_bytes(&shape))
}

/// What a block adds to a Ribbon payload.
fn tail_bytes(shape: &RibbonShape) -> u64 {
    block_bytes(shape) - shape.payload_bytes()
}

/// The least number of keys from which on Ribbon's block is always smaller than Bloom's.
fn smaller_from(columns: Columns, bloom_size: BitsPerKey) -> u64 {
    let not_smaller = |&keys: &u64| ribbon_block_bytes(keys, columns) >= bloom_block_bytes(keys, bloom_size);
    (1..SMALLER_FROM_AT_MOST).rev().find(not_smaller).map_or(0, |keys| keys + 1)
}

mod scratch;
#[cfg(test)]
mod tests;
