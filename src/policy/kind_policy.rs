//! The policy that gives every file the same kind.

use core::any::Any;
use core::fmt;
use std::sync::Arc;

use super::builder::{Job, Rules, guarded, thread_bytes};
use super::{BuildContext, BuiltFilter, FilterBuilder, FilterPolicy, SelfCheck};
use crate::block::BlockIdentity;
use crate::error::ConfigError;
use crate::filter::blocked_bloom::{BlockedBloomKind, smallest_size_for};
use crate::filter::kind::{BuildLimits, FallbackReason, FilterShape, Kind, MAX_KEYS, RATE_KEYS, ShapeFields};
use crate::filter::{FilterKind, is_of_library};
use crate::hash::KeyHash;
use crate::ids::for_each_kind;
use crate::units::{BitsPerKey, FalsePositiveRate, Sizing};

/// Gives all files filters of one kind and size: blocked Bloom at 10 bits per key by default.
///
/// A file gets a blocked Bloom filter of the same rate instead if it has fewer keys than the policy's minimum
/// ([`FallbackReason::TooFewKeys`]), if the kind says that Bloom is smaller ([`FallbackReason::NotSmaller`]), if it has
/// more keys than the policy's maximum or than a block can record ([`FallbackReason::TooManyKeys`]), if building would
/// take more memory than the context allows ([`FallbackReason::MemoryBudget`]), if building fails
/// ([`FallbackReason::ConstructionFailed`]), or if a self-check finds a key missing
/// ([`FallbackReason::SelfCheckFailed`]). The report and the block record why. When the announced number of keys leads
/// to Bloom, keys are not buffered.
///
/// ```
/// use sstfilter::{BuildContext, FallbackReason, FalsePositiveRate, FilterKind, KeyHasher, KindPolicy};
///
/// let policy = KindPolicy::ribbon(FalsePositiveRate::ONE_PERCENT)?;
/// let hasher = KeyHasher::default();
/// let report_of = |keys: u32| {
///     let mut builder = policy.builder(&BuildContext::new(&hasher));
///     (0..keys).for_each(|key| builder.add_key(&key.to_le_bytes()));
///     builder.finish().report
/// };
/// assert_eq!(report_of(1_024).used, Some(FilterKind::RIBBON));
/// assert_eq!(report_of(1_023).used, Some(FilterKind::BLOCKED_BLOOM));
/// assert_eq!(report_of(1_023).reason, FallbackReason::TooFewKeys);
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct KindPolicy {
    pub(super) kind: Arc<dyn ErasedKind>,
    pub(super) rules: Rules,
}

/// A type-erased configured kind.
pub(super) trait ErasedKind: Any + fmt::Debug + Send + Sync {
    fn id(&self) -> FilterKind;

    fn name(&self) -> &'static str;

    fn plan(&self, rules: &Rules, keys: u64, memory_budget: Option<u64>) -> Result<Plan, FallbackReason>;

    fn block_bytes(&self, rules: &Rules, keys: u64) -> Option<u64>;

    fn builder(&self, rules: Rules, identity: BlockIdentity, context: &BuildContext) -> Box<dyn FilterBuilder>;

    /// The filter of all of a file's hashes.
    fn build_buffered(&self, rules: Rules, identity: BlockIdentity, hashes: Vec<KeyHash>) -> BuiltFilter;
}

impl<K: Kind> ErasedKind for K {
    fn id(&self) -> FilterKind {
        K::Shape::KIND
    }

    fn name(&self) -> &'static str {
        K::NAME
    }

    fn plan(&self, rules: &Rules, keys: u64, memory_budget: Option<u64>) -> Result<Plan, FallbackReason> {
        let shape = rules.plan(self, keys, memory_budget)?;
        guarded::<K, _>(|| {
            Ok(Plan {
                block_bytes: shape.block_bytes(),
                build_bytes: self.build_bytes(keys, &shape),
                thread_bytes: thread_bytes(self, keys, &shape),
                expected_fpr: shape.expected_fpr(keys),
                shape: shape.describe(),
            })
        })
    }

    fn block_bytes(&self, rules: &Rules, keys: u64) -> Option<u64> {
        rules.block_bytes(self, keys)
    }

    fn builder(&self, rules: Rules, identity: BlockIdentity, context: &BuildContext) -> Box<dyn FilterBuilder> {
        let limits = BuildLimits { scratch_bytes: context.memory_budget, threads: context.threads };
        Job::new(self.clone(), rules, identity, limits).builder(context)
    }

    fn build_buffered(&self, rules: Rules, identity: BlockIdentity, hashes: Vec<KeyHash>) -> BuiltFilter {
        Job::new(self.clone(), rules, identity, BuildLimits::default()).build(hashes)
    }
}

/// What a filter will be; exact except for [Ribbon and xor+](Kind::HAS_EXACT_SIZE).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// Bytes of the whole unbound block; binding adds 8.
    pub block_bytes: u64,
    /// The most bytes that building takes on one thread beside the hashes and the finished block. Where memory allows,
    /// blocked Bloom filters from 8 MiB on take up to their own size more, to be built faster.
    pub build_bytes: u64,
    /// The most bytes by which each thread but the first raises that.
    pub thread_bytes: u64,
    /// The false positive rate.
    pub expected_fpr: f64,
    /// The parameters by name, as in a block's [`info`](crate::BlockInfo::shape).
    pub shape: ShapeFields,
}

/// Gives [`KindPolicy`] a constructor for each kind.
macro_rules! constructors {
    ($($number:literal $constant:ident $name:literal $constructor:ident $folder:ident::$kind:ident $what:literal)+) => {
        impl KindPolicy {
            $(
                #[doc = concat!("Filters of the kind `", $name, "`, of a rate or a size.")]
                #[doc = ""]
                #[doc = $what]
                ///
                /// # Errors
                ///
                /// [`ConfigError`] where the kind has no such filters.
                pub fn $constructor(sizing: impl Into<Sizing>) -> Result<Self, ConfigError> {
                    crate::filter::$folder::$kind::configure(sizing.into()).map(Self::new)
                }
            )+
        }
    };
}

for_each_kind!(constructors);

/// The size at which blocked Bloom has this kind's false positive rate.
fn bloom_size_of_equal_rate(kind: &impl Kind) -> BitsPerKey {
    let rate = kind.plan(RATE_KEYS).map(|shape| shape.expected_fpr(RATE_KEYS));
    let rate = rate.ok().and_then(|rate| FalsePositiveRate::new(rate).ok());
    rate.map_or(BitsPerKey::TEN, |rate| smallest_size_for(RATE_KEYS, rate))
}

impl KindPolicy {
    /// Filters of a configured kind. A user-defined kind is self-checked by default
    /// ([`with_self_check`](Self::with_self_check) turns that off); one with a number of the library's gets Bloom
    /// filters.
    #[must_use]
    pub fn new<K: Kind>(kind: K) -> Self {
        let size = guarded::<K, _>(|| Ok(kind.fallback_size().unwrap_or_else(|| bloom_size_of_equal_rate(&kind))));
        let fallback_size = size.unwrap_or(BitsPerKey::TEN);
        let (min_keys, max_keys) = (K::DEFAULT_MIN_KEYS, MAX_KEYS);
        // The library's kinds are covered by its tests, a user's kind is not: one probe per key finds a lost key.
        let self_check = if is_of_library::<K>() { SelfCheck::Off } else { SelfCheck::On };
        let rules = Rules { self_check, min_keys, max_keys, fallback_size };
        Self { kind: Arc::new(kind), rules }
    }

    /// Sets whether finished filters are probed for all of their keys.
    #[must_use]
    pub fn with_self_check(mut self, self_check: SelfCheck) -> Self {
        self.rules.self_check = self_check;
        self
    }

    /// Sets the minimum number of keys for the kind; smaller files get a blocked Bloom filter. The default is 1,024 for
    /// Ribbon and 0 for all others.
    #[must_use]
    pub fn with_min_keys(mut self, keys: u64) -> Self {
        self.rules.min_keys = keys;
        self
    }

    /// Sets the maximum number of keys for the kind, at most 2^40 - 1; larger files get a blocked Bloom filter.
    #[must_use]
    pub fn with_max_keys(mut self, keys: u64) -> Self {
        self.rules.max_keys = keys;
        self
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> FilterKind {
        self.kind.id()
    }

    /// Plans the filter of `keys` distinct keys.
    ///
    /// # Errors
    ///
    /// The reason to fall back to a blocked Bloom filter.
    pub fn plan(&self, keys: u64, memory_budget: Option<u64>) -> Result<Plan, FallbackReason> {
        self.kind.plan(&self.rules, keys, memory_budget)
    }

    /// Size in bytes of the unbound block for `keys` distinct keys, fallback included; `None` beyond the format's
    /// limits. Exact except for Ribbon and xor+, where it depends on the keys: Ribbon is within 1 % above 5,000 keys
    /// and within 0.5 % from 20,000 on, xor+ within 2 % from 1,000 on and within 0.3 % from 100,000 on.
    ///
    /// ```
    /// use sstfilter::{KindPolicy, Sizing};
    ///
    /// assert_eq!(KindPolicy::default().block_bytes(1_000), Some(20 * 64 + 36));
    /// let fuse = KindPolicy::binary_fuse(Sizing::FingerprintBits(8))?;
    /// assert_eq!(fuse.block_bytes(1_000_000), Some(138 * 8_192 + 8 + 40));
    /// # Ok::<(), sstfilter::ConfigError>(())
    /// ```
    #[must_use]
    pub fn block_bytes(&self, keys: u64) -> Option<u64> {
        self.kind.block_bytes(&self.rules, keys)
    }

    /// Bytes and false positive rate of the unbound block for `keys` distinct keys, fallback included; `None` beyond
    /// the format's limits.
    pub(crate) fn bytes_and_fpr(&self, keys: u64) -> Option<(u64, f64)> {
        let fallback = |_| Self::new(BlockedBloomKind::new(self.rules.fallback_size)).plan(keys, None);
        let plan = self.plan(keys, None).or_else(fallback).ok()?;
        Some((plan.block_bytes, plan.expected_fpr))
    }

    /// A builder for one file.
    #[must_use]
    pub fn builder(&self, context: &BuildContext) -> Box<dyn FilterBuilder> {
        let identity = BlockIdentity { hash: context.hasher.identity(), file: context.file_id };
        self.kind.builder(self.rules, identity, context)
    }
}

impl Default for KindPolicy {
    fn default() -> Self {
        Self::new(BlockedBloomKind::default())
    }
}

impl FilterPolicy for KindPolicy {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        Some(self.builder(context))
    }

    fn block_bytes(&self, _: &BuildContext, keys: u64) -> Option<u64> {
        self.block_bytes(keys)
    }
}
