//! The policy that chooses the kind by a file's purpose and size.

use alloc::boxed::Box;

use super::{BlockBuilder, BuildContext, BuildPurpose, FilterPolicy, FixedPolicy};
use crate::error::ConfigError;
#[cfg(not(feature = "ribbon"))]
use crate::filter::KindId;
#[cfg(feature = "ribbon")]
use crate::filter::RibbonKind;
use crate::units::{BitsPerKey, FalsePositiveRate, Sizing};

/// Chooses Bloom for flushes and small files, and Ribbon for large files. By default, all have the false positive rate
/// of blocked Bloom at 10 bits per key.
///
/// Writers wait for a flush, and its file is soon merged away, so it gets the filter that builds fastest. Compacted and
/// ingested files are large and live long, so there Ribbon's 30 % less memory is worth its build time. Small files fall
/// back to Bloom by [Ribbon's rules](crate::kind::RibbonKind). Without the feature `ribbon`, all files get Bloom, and
/// the reports say why ([`FallbackReason::NotCompiled`](crate::FallbackReason::NotCompiled)).
///
/// In a store of `sstfilter-store` with range filters, files of dense integers get an exact bitmap of 1 to 8 bits per
/// key instead, whatever the policy is (docs/engines.md, section 4).
///
/// ```
/// use sstfilter::{AutoPolicy, BuildContext, BuildPurpose, KindId, KeyHasher};
///
/// let policy = AutoPolicy::default();
/// let kind_for = |purpose| {
///     let context = BuildContext::new(&KeyHasher::default()).with_purpose(purpose);
///     let mut builder = policy.builder(&context);
///     (0..2_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
///     builder.finish().report.used
/// };
/// assert_eq!(kind_for(BuildPurpose::Flush), Some(KindId::BLOCKED_BLOOM));
/// assert_eq!(kind_for(BuildPurpose::Compaction), Some(KindId::RIBBON));
/// ```
#[derive(Clone, Debug)]
pub struct AutoPolicy {
    flushes: FixedPolicy,
    large_files: FixedPolicy,
}

impl AutoPolicy {
    /// Creates a policy for a false positive rate, or for the rate of blocked Bloom at the given size.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RateOutOfRange`] if the rate is above 1/2 (below about 1.5 bits per key) or lower than Bloom
    /// reaches.
    pub fn new(sizing: impl Into<Sizing>) -> Result<Self, ConfigError> {
        let rate = match sizing.into() {
            // Rejected: Ribbon of that size. Flushes and large files should have the same false positive rate.
            Sizing::BitsPerKey(size) => {
                return Ok(Self::from_parts(FixedPolicy::bloom(size)?, ribbon_like_bloom(size)?));
            }
            Sizing::Rate(rate) => rate,
            Sizing::FingerprintBits(bits) => FalsePositiveRate::from_fingerprint_bits(bits.into())?,
        };
        #[cfg(feature = "ribbon")]
        let large_files = FixedPolicy::ribbon(rate)?;
        #[cfg(not(feature = "ribbon"))]
        let large_files = FixedPolicy::bloom(rate)?.instead_of(KindId::RIBBON);
        Ok(Self::from_parts(FixedPolicy::bloom(rate)?, large_files))
    }

    /// Creates a policy that chooses between these two.
    #[must_use]
    pub fn from_parts(flushes: FixedPolicy, large_files: FixedPolicy) -> Self {
        Self { flushes, large_files }
    }

    /// Returns a builder for one file.
    #[must_use]
    pub fn builder(&self, context: &BuildContext) -> Box<dyn BlockBuilder> {
        self.policy_for(context).builder(context)
    }

    fn policy_for(&self, context: &BuildContext) -> &FixedPolicy {
        match context.purpose {
            // By purpose only: the number of keys may be unknown here, and Ribbon's own rules give small files Bloom.
            BuildPurpose::Flush => &self.flushes,
            BuildPurpose::Compaction | BuildPurpose::Ingest => &self.large_files,
        }
    }
}

/// Ribbon filters of the rate that Bloom has at `size`, or those Bloom filters if Ribbon is not compiled in.
fn ribbon_like_bloom(size: BitsPerKey) -> Result<FixedPolicy, ConfigError> {
    #[cfg(feature = "ribbon")]
    return RibbonKind::same_rate_as_bloom(size).map(FixedPolicy::from);
    #[cfg(not(feature = "ribbon"))]
    FixedPolicy::bloom(size).map(|bloom| bloom.instead_of(KindId::RIBBON))
}

impl Default for AutoPolicy {
    fn default() -> Self {
        // Ten bits per key are within Ribbon's range, so `unwrap_or` never puts Bloom in its place.
        let bloom = FixedPolicy::default();
        Self::from_parts(bloom.clone(), ribbon_like_bloom(BitsPerKey::TEN).unwrap_or(bloom))
    }
}

impl FilterPolicy for AutoPolicy {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        Some(self.builder(context))
    }

    fn block_bytes(&self, context: &BuildContext, keys: u64) -> Option<u64> {
        FilterPolicy::block_bytes(self.policy_for(context), context, keys)
    }
}
