use super::*;
use crate::filter::FilterKind;
use crate::hash::{KeyHash, KeyHasher};

fn policy(layout: XorLayout, width: XorWidth) -> XorPolicy {
    XorPolicy::new(layout, XorSizing::Width(width)).unwrap()
}

#[test]
fn rates_get_the_shortest_fingerprints_that_keep_them() {
    let width = |rate| {
        let sizing = XorSizing::Rate(FalsePositiveRate::new(rate).unwrap());
        XorPolicy::new(XorLayout::Plain, sizing).map(|policy| policy.width)
    };
    assert_eq!([0.9, 0.01, 1.0 / 256.0].map(|rate| width(rate).unwrap()), [XorWidth::Eight; 3]);
    assert_eq!([0.0039, 1e-4, 1.0 / 65_536.0].map(|rate| width(rate).unwrap()), [XorWidth::Sixteen; 3]);
    assert_eq!(width(1.5e-5).unwrap_err(), ConfigError::XorRate { got: 1.5e-5 });
}

#[test]
fn sizes_get_the_longest_fingerprints_that_fit() {
    let width = |layout, millibits| {
        let sizing = XorSizing::Size(BitsPerKey::from_millibits(millibits).unwrap());
        XorPolicy::new(layout, sizing).map(|policy| policy.width)
    };
    for (layout, eight, sixteen) in [(XorLayout::Plain, 9_841, 19_681), (XorLayout::Plus, 9_123, 17_780)] {
        assert!(matches!(width(layout, eight - 10), Err(ConfigError::OutOfRange { .. })));
        assert_eq!(width(layout, eight), Ok(XorWidth::Eight));
        assert_eq!(width(layout, sixteen - 20), Ok(XorWidth::Eight));
        assert_eq!(width(layout, sixteen), Ok(XorWidth::Sixteen));
    }
}

#[test]
fn billions_of_keys_have_a_size_and_take_no_memory() {
    for layout in [XorLayout::Plain, XorLayout::Plus] {
        let bytes = |keys| policy(layout, XorWidth::Eight).estimated_block_bytes(keys);
        assert!(bytes(1 << 32).is_some_and(|bytes| bytes > 1 << 32));
        assert_eq!([1 << 34, 1 << 40, u64::MAX].map(bytes), [None; 3]);
        let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(1 << 33);
        assert!(policy(layout, XorWidth::Eight).builder(&context).unwrap().estimated_bytes() < 1_000);
    }
}

/// What is built of `keys` keys, and why.
fn built(policy: &XorPolicy, keys: u64, memory_budget: u64) -> (Option<FilterKind>, FallbackReason) {
    let context = BuildContext::new(&KeyHasher::default()).with_memory_budget(memory_budget);
    let mut builder = policy.builder(&context).unwrap();
    (0..keys).for_each(|key| builder.add_hash(KeyHash::from_remixed(key)));
    let report = builder.finish().report;
    (report.used, report.reason)
}

#[test]
fn a_memory_budget_that_is_too_small_leads_to_bloom() {
    for (layout, kind) in [(XorLayout::Plain, FilterKind::XOR), (XorLayout::Plus, FilterKind::XOR_PLUS)] {
        let policy = policy(layout, XorWidth::Sixteen).with_self_check(SelfCheck::On);
        let needed = policy.estimated_build_bytes(10_000).unwrap();
        assert_eq!(built(&policy, 10_000, needed), (Some(kind), FallbackReason::None));
        let fallen_back = (Some(FilterKind::BLOCKED_BLOOM), FallbackReason::MemoryBudget);
        assert_eq!(built(&policy, 10_000, needed - 1), fallen_back);
    }
}
