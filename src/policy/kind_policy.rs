//! The policy that uses the same kind for every file.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::builder::{Job, Rules, contains_all};
use super::{BlockBuilder, BuildContext, FilterPolicy};
use crate::block::{BlockIdentity, FallbackReason};
use crate::error::ConfigError;
use crate::filter::user::{GuardedKind, UserKind};
use crate::filter::{AnyKind, BlockedBloomKind, BuildLimits, KindId};

/// Uses filters of one kind and size for all files: blocked Bloom at 10 bits per key by default.
///
/// A file gets a blocked Bloom filter of the same rate instead
///
/// - if it has fewer keys than the policy's minimum ([`FallbackReason::TooFewKeys`]),
/// - if the kind reports that Bloom is smaller ([`FallbackReason::NotSmaller`]),
/// - if it has more keys than the policy's maximum, a block or the kind allows ([`FallbackReason::TooManyKeys`]),
/// - if building would exceed the context's memory budget ([`FallbackReason::MemoryBudget`]),
/// - if building fails ([`FallbackReason::ConstructionFailed`]), or
/// - if a self-check finds a key missing ([`FallbackReason::SelfCheckFailed`]).
///
/// The report and the block record the reason. If the announced number of keys leads to Bloom, keys are not buffered.
///
/// ```
/// use sstfilter::{BuildContext, FallbackReason, FalsePositiveRate, KindId, KeyHasher, FixedPolicy};
///
/// let policy = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT)?;
/// let hasher = KeyHasher::default();
/// let report_of = |keys: u32| {
///     let mut builder = policy.builder(&BuildContext::new(&hasher));
///     (0..keys).for_each(|key| builder.add_key(&key.to_le_bytes()));
///     builder.finish().report
/// };
/// assert_eq!(report_of(1_024).used, Some(KindId::RIBBON));
/// assert_eq!(report_of(1_023).used, Some(KindId::BLOCKED_BLOOM));
/// assert_eq!(report_of(1_023).reason, FallbackReason::TooFewKeys);
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct FixedPolicy {
    kind: Arc<dyn AnyKind>,
    /// The kind of filters that will shrink. Made once, because a size of a rate takes long to find.
    shrinkable: Arc<dyn AnyKind>,
    pub(super) rules: Rules,
}

/// The planned sizes and rate of a filter; exact except for Ribbon, xor+ and user-defined kinds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// Bytes of the whole unbound block; binding adds 8.
    pub block_bytes: u64,
    /// The maximum number of bytes that building takes on one thread, in addition to the hashes and the finished block.
    /// If memory allows, blocked Bloom filters of 8 MiB or more take up to their own size in addition, to be built
    /// faster.
    pub build_bytes: u64,
    /// The maximum number of bytes that each further thread adds to `build_bytes`.
    pub thread_bytes: u64,
    /// The expected false positive rate.
    pub expected_fpr: f64,
    /// The parameters by name, as in [`BlockInfo::shape`](crate::BlockInfo::shape).
    pub shape: Vec<(&'static str, String)>,
}

impl FixedPolicy {
    /// Filters of a user-defined kind. Each is [self-checked](Self::with_self_check) by default.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] if the kind's number is below 128: those belong to the library.
    pub fn user_defined(kind: impl UserKind) -> Result<Self, ConfigError> {
        // Tests cover the library's kinds, but not a user's. One probe per key finds a lost key.
        Ok(Self::new(Arc::new(GuardedKind::new(kind)?)).with_self_check())
    }

    pub(super) fn new(kind: Arc<dyn AnyKind>) -> Self {
        let rules = Rules::of(&*kind);
        Self { shrinkable: kind.shrinkable().unwrap_or_else(|| kind.clone()), kind, rules }
    }

    /// Returns kind and rules for the filters of a context.
    fn in_context(&self, context: &BuildContext) -> (&Arc<dyn AnyKind>, Rules) {
        let kind = if context.shrinkable { &self.shrinkable } else { &self.kind };
        (kind, Rules { is_shrinkable: context.shrinkable, ..self.rules })
    }

    /// Builds these filters instead of filters of a kind that is not compiled in.
    #[cfg(not(feature = "ribbon"))]
    pub(super) fn instead_of(self, kind: KindId) -> Self {
        Self { rules: Rules { instead_of: Some(kind), ..self.rules }, ..self }
    }

    /// Probes each finished filter for all of its keys, and does not use one that answers "absent". By default, only
    /// [user-defined](Self::user_defined) kinds are checked.
    ///
    /// The check costs one probe per key, and makes Bloom builders buffer their hashes.
    pub fn with_self_check(self) -> Self {
        Self { rules: Rules { self_check: Some(contains_all), ..self.rules }, ..self }
    }

    /// Returns finished filters without probing them for their keys.
    pub fn without_self_check(self) -> Self {
        Self { rules: Rules { self_check: None, ..self.rules }, ..self }
    }

    /// Sets the minimum number of keys for the kind; smaller files get a blocked Bloom filter. The default is 1,024 for
    /// Ribbon, 3,000 for line ribbon and 0 for all others.
    pub fn with_min_keys(self, keys: u64) -> Self {
        Self { rules: Rules { min_keys: keys, ..self.rules }, ..self }
    }

    /// Sets the maximum number of keys for the kind, at most 2^40 - 1; larger files get a blocked Bloom filter.
    pub fn with_max_keys(self, keys: u64) -> Self {
        Self { rules: Rules { max_keys: keys, ..self.rules }, ..self }
    }

    /// The kind that files get unless the policy falls back.
    pub fn kind(&self) -> KindId {
        self.kind.id()
    }

    /// Plans the filter of `keys` distinct keys.
    ///
    /// # Errors
    ///
    /// Returns the reason to fall back to a blocked Bloom filter.
    pub fn plan(&self, keys: u64, memory_budget: Option<u64>) -> Result<Plan, FallbackReason> {
        let planned = self.rules.plan(&*self.kind, keys, memory_budget)?;
        Ok(Plan {
            block_bytes: planned.shape.block_bytes(),
            build_bytes: planned.build_bytes,
            thread_bytes: planned.thread_bytes,
            expected_fpr: planned.shape.expected_fpr(keys),
            shape: planned.shape.describe(),
        })
    }

    /// Returns the size in bytes of the unbound block for `keys` distinct keys, with the fallback; `None` beyond the
    /// format's limits. The size is exact except for Ribbon and xor+, where it depends on the keys: Ribbon is within 1
    /// % above 5,000 keys and within 0.5 % from 20,000 keys, xor+ within 2 % from 1,000 keys and within 0.3 % from
    /// 100,000 keys.
    ///
    /// ```
    /// use sstfilter::FixedPolicy;
    ///
    /// assert_eq!(FixedPolicy::default().block_bytes(1_000), Some(20 * 64 + 36));
    /// ```
    #[must_use]
    pub fn block_bytes(&self, keys: u64) -> Option<u64> {
        self.rules.block_bytes(&*self.kind, keys)
    }

    /// Returns the bytes and the false positive rate of the unbound block for `keys` distinct keys, with the fallback;
    /// `None` beyond the format's limits.
    #[must_use]
    pub fn bytes_and_fpr(&self, keys: u64) -> Option<(u64, f64)> {
        let fallback = |_| Self::from(self.rules.fallback()).plan(keys, None);
        let plan = self.plan(keys, None).or_else(fallback).ok()?;
        Some((plan.block_bytes, plan.expected_fpr))
    }

    /// Returns a builder for one file.
    #[must_use]
    pub fn builder(&self, context: &BuildContext) -> Box<dyn BlockBuilder> {
        let identity = BlockIdentity { hash: context.hasher.identity(), file: context.file_id };
        let limits = BuildLimits { scratch_bytes: context.memory_budget, threads: context.threads };
        let (kind, rules) = self.in_context(context);
        Job::new(kind.clone(), rules, identity, limits).builder(context)
    }
}

impl Default for FixedPolicy {
    fn default() -> Self {
        Self::from(BlockedBloomKind::default())
    }
}

impl FilterPolicy for FixedPolicy {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        Some(self.builder(context))
    }

    fn block_bytes(&self, context: &BuildContext, keys: u64) -> Option<u64> {
        let (kind, rules) = self.in_context(context);
        rules.block_bytes(&**kind, keys)
    }
}
