//! The policy that chooses for itself.

use super::{BloomPolicy, BuildContext, BuildPurpose, FilterBuilder, FilterPolicy, RibbonPolicy, RibbonSizing};
use crate::error::ConfigError;
use crate::units::BitsPerKey;

/// Bloom for flushes and small files, Ribbon for large ones, all of the same false positive rate.
///
/// A flush is in the way of writers and soon merged away, so it gets the filter that is quickest to
/// build. What compactions and ingestions write is large and lives long: Ribbon's 30 % less memory is
/// worth its build time there. Small files fall back to Bloom by [`RibbonPolicy`]'s rule.
///
/// ```
/// use sstfilter::{AutoPolicy, BitsPerKey, BuildContext, BuildPurpose, FilterKind, FilterPolicy, KeyHasher};
///
/// let policy = AutoPolicy::new(BitsPerKey::TEN)?;
/// let kind_for = |purpose| {
///     let context = BuildContext::new(&KeyHasher::default()).with_purpose(purpose);
///     let mut builder = policy.builder(&context).expect("it never declines");
///     (0..2_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
///     builder.finish().report.used
/// };
/// assert_eq!(kind_for(BuildPurpose::Flush), Some(FilterKind::BLOCKED_BLOOM));
/// assert_eq!(kind_for(BuildPurpose::Compaction), Some(FilterKind::RIBBON));
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AutoPolicy {
    bloom: BloomPolicy,
    ribbon: RibbonPolicy,
}

impl AutoPolicy {
    /// Filters with the rate of a blocked Bloom filter of `bloom_size`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RibbonRate`] when that rate is above 1/2: below about 1.5 bits per key.
    pub fn new(bloom_size: BitsPerKey) -> Result<Self, ConfigError> {
        let ribbon = RibbonPolicy::new(RibbonSizing::SameRateAsBloom(bloom_size))?;
        Ok(Self::from_parts(BloomPolicy::new(bloom_size), ribbon))
    }

    /// The two policies to choose between.
    #[must_use]
    pub fn from_parts(bloom: BloomPolicy, ribbon: RibbonPolicy) -> Self {
        Self { bloom, ribbon }
    }
}

impl FilterPolicy for AutoPolicy {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        match context.purpose {
            BuildPurpose::Flush => self.bloom.builder(context),
            BuildPurpose::Compaction | BuildPurpose::Ingest => self.ribbon.builder(context),
        }
    }
}
