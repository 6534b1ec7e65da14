//! Every policy, and the two ways of having none.

use std::sync::Arc;

use sstfilter::{
    AutoPolicy, BitsPerKey, BloomPolicy, BuildContext, FilterBuilder, FilterPolicy, FuseArity, FusePolicy, FuseSizing,
    SelfCheck, StandardBloomPolicy,
};

/// Wants no filter for any file.
#[derive(Debug)]
pub(crate) struct Declining;

impl FilterPolicy for Declining {
    fn name(&self) -> &'static str {
        "declining"
    }

    fn builder(&self, _: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        None
    }
}

/// Filters of every kind that a policy can ask for, some of them so small that they let much through; `None` is a
/// table that is written without.
pub(crate) fn every_policy() -> Vec<Option<Arc<dyn FilterPolicy>>> {
    let bits = |bits| BitsPerKey::new(bits).unwrap();
    let fuse = |bits, arity| FusePolicy::new(FuseSizing::FingerprintBits(bits)).unwrap().with_arity(arity);
    let mut policies: Vec<Arc<dyn FilterPolicy>> = vec![
        Arc::new(Declining),
        Arc::new(BloomPolicy::new(bits(3.0))),
        Arc::new(BloomPolicy::new(bits(10.0)).with_self_check(SelfCheck::On)),
        Arc::new(BloomPolicy::new(bits(20.0))),
        Arc::new(StandardBloomPolicy::new(bits(4.0))),
        Arc::new(StandardBloomPolicy::new(bits(12.0))),
        Arc::new(AutoPolicy::new(bits(10.0)).unwrap()),
        Arc::new(super::ribbon(0.01)),
        Arc::new(super::ribbon(0.3)),
        Arc::new(fuse(4, FuseArity::Three)),
        Arc::new(fuse(8, FuseArity::Four)),
        Arc::new(fuse(32, FuseArity::Three)),
    ];
    policies.extend(super::xor_policies().into_iter().map(|policy| Arc::new(policy) as Arc<dyn FilterPolicy>));
    [None].into_iter().chain(policies.into_iter().map(Some)).collect()
}
