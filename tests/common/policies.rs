//! Policies of every kind, and the two ways to get no filter.

use std::sync::Arc;

use sstfilter::kind;
use sstfilter::{AutoPolicy, BitsPerKey, BlockBuilder, BuildContext, FilterPolicy, FixedPolicy, Sizing};

/// Declines to build a filter for any file.
#[derive(Debug)]
pub(crate) struct Declining;

impl FilterPolicy for Declining {
    fn name(&self) -> &'static str {
        "declining"
    }

    fn builder(&self, _: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        None
    }
}

/// Filters of every kind, some of them small enough for many false positives; `None` is a table without a filter.
pub(crate) fn every_policy() -> Vec<Option<Arc<dyn FilterPolicy>>> {
    let bits = |bits| Sizing::from(BitsPerKey::new(bits).unwrap());
    let bloom = |size| FixedPolicy::bloom(bits(size)).unwrap();
    let mut policies: Vec<Arc<dyn FilterPolicy>> = vec![
        Arc::new(Declining),
        Arc::new(bloom(10.0).with_self_check()),
        Arc::new(AutoPolicy::default()),
        Arc::new(super::ribbon(0.3)),
    ];
    // A small filter of each kind, if it has one, and a large one.
    for entry in kind::all() {
        let sizes = [bits(4.6), bits(20.0), Sizing::FingerprintBits(8), Sizing::FingerprintBits(32)];
        let all = sizes.into_iter().filter_map(|sizing| entry.configure(sizing).ok());
        policies.extend(all.map(|policy| Arc::new(policy.with_min_keys(0)) as Arc<dyn FilterPolicy>));
    }
    [None].into_iter().chain(policies.into_iter().map(Some)).collect()
}

/// The policies that build a filter.
pub(crate) fn building_policies() -> impl Iterator<Item = Arc<dyn FilterPolicy>> {
    every_policy().into_iter().flatten().filter(|policy| policy.name() != Declining.name())
}
