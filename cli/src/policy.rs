//! From options to a filter policy.

use std::sync::Arc;

use anyhow::Context;
use sstfilter::{
    AutoPolicy, BitsPerKey, BloomPolicy, ConfigError, FalsePositiveRate, FilterPolicy, FusePolicy, FuseSizing,
    RibbonPolicy, RibbonSizing, StandardBloomPolicy, XorLayout, XorPolicy, XorSizing,
};

use crate::args::{FilterArgs, PolicyName};

/// The policy that `args` describe; 10 bits per key unless they say otherwise.
pub(crate) fn from_args(args: &FilterArgs) -> anyhow::Result<Arc<dyn FilterPolicy>> {
    let size = args.bits_per_key.unwrap_or(BitsPerKey::TEN);
    let option = if args.fpr.is_some() { "--fpr" } else { "--bits-per-key" };
    policy(args.policy, size, args.fpr).context(option)
}

fn policy(
    name: PolicyName,
    size: BitsPerKey,
    rate: Option<FalsePositiveRate>,
) -> Result<Arc<dyn FilterPolicy>, ConfigError> {
    let xor_sizing = rate.map_or(XorSizing::Size(size), XorSizing::Rate);
    Ok(match (name, rate) {
        (PolicyName::Xor, _) => Arc::new(XorPolicy::new(XorLayout::Plain, xor_sizing)?),
        (PolicyName::XorPlus, _) => Arc::new(XorPolicy::new(XorLayout::Plus, xor_sizing)?),
        (PolicyName::Bloom, None) => Arc::new(BloomPolicy::new(size)),
        (PolicyName::Bloom, Some(rate)) => Arc::new(BloomPolicy::for_rate(rate)?),
        (PolicyName::Ribbon, None) => Arc::new(RibbonPolicy::new(RibbonSizing::Size(size))?),
        (PolicyName::Ribbon, Some(rate)) => Arc::new(RibbonPolicy::new(RibbonSizing::Rate(rate))?),
        (PolicyName::StandardBloom, None) => Arc::new(StandardBloomPolicy::new(size)),
        (PolicyName::StandardBloom, Some(rate)) => Arc::new(StandardBloomPolicy::for_rate(rate)?),
        (PolicyName::Fuse, None) => Arc::new(FusePolicy::new(fuse_of(size)?)?),
        (PolicyName::Fuse, Some(rate)) => Arc::new(FusePolicy::new(FuseSizing::Rate(rate))?),
        (PolicyName::Auto, None) => Arc::new(AutoPolicy::new(size)?),
        (PolicyName::Auto, Some(rate)) => {
            let ribbon = RibbonPolicy::new(RibbonSizing::Rate(rate))?;
            Arc::new(AutoPolicy::from_parts(BloomPolicy::for_rate(rate)?, ribbon))
        }
    })
}

/// The longest fingerprints of binary fuse filters that are not above `size`, in filters of a million keys.
fn fuse_of(size: BitsPerKey) -> Result<FuseSizing, ConfigError> {
    let cells_per_key = 1.131;
    let fits = |&bits: &u8| f64::from(bits) * cells_per_key <= size.get();
    let bits = [32].into_iter().chain((4..=16).rev()).find(fits).ok_or(ConfigError::OutOfRange {
        option: "size of a binary fuse filter in thousandths of a bit per key",
        expected: "at least 4524",
        got: size.millibits().into(),
    })?;
    Ok(FuseSizing::FingerprintBits(bits))
}
