//! Forces each reason for a fallback, and checks requested sizes and rates.

use super::kind::RibbonKind;
use crate::block::FallbackReason;
use crate::block::FilterBlock;
use crate::filter::blocked_bloom::{BlockedBloomKind, expected_fpr};
use crate::filter::{BuildLimits, FilterShape, Kind, KindId, MAX_KEYS, RATE_KEYS};
use crate::hash::{KeyHash, KeyHasher};
use crate::policy::{BuildContext, BuiltFilter, FixedPolicy};
use crate::units::{BitsPerKey, FalsePositiveRate, Sizing};

fn rate(rate: f64) -> Sizing {
    FalsePositiveRate::new(rate).unwrap().into()
}

fn policy(sizing: impl Into<Sizing>) -> FixedPolicy {
    FixedPolicy::ribbon(sizing).unwrap()
}

fn one_percent() -> FixedPolicy {
    policy(FalsePositiveRate::ONE_PERCENT)
}

/// The bytes of the Bloom filter that replaces `kind`'s.
fn bloom_block_bytes(kind: &RibbonKind, keys: u64) -> u64 {
    BlockedBloomKind::new(kind.fallback_size().unwrap()).plan(keys).unwrap().block_bytes()
}

fn build(policy: &FixedPolicy, context: &BuildContext, keys: u64) -> BuiltFilter {
    build_of(policy, context, &(0..keys).map(KeyHash::mix).collect::<Vec<_>>())
}

fn build_of(policy: &FixedPolicy, context: &BuildContext, hashes: &[KeyHash]) -> BuiltFilter {
    let mut builder = policy.builder(context);
    builder.add_hashes(hashes);
    let built = builder.finish();
    let filter = FilterBlock::open_unverified(built.block.as_ref().unwrap()).unwrap();
    assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
    built
}

fn context() -> BuildContext {
    BuildContext::new(&KeyHasher::default())
}

fn outcome(built: &BuiltFilter) -> (Option<KindId>, FallbackReason) {
    assert_eq!(built.report.requested, KindId::RIBBON);
    let info = FilterBlock::open_unverified(built.block.as_ref().unwrap()).unwrap().info();
    assert_eq!((Some(info.kind), info.requested), (built.report.used, KindId::RIBBON));
    assert_eq!(built.report.reason, info.reason);
    (built.report.used, info.reason)
}

const BLOOM: Option<KindId> = Some(KindId::BLOCKED_BLOOM);
const RIBBON: Option<KindId> = Some(KindId::RIBBON);

#[test]
fn the_edge_of_the_minimum_is_exact() {
    for (policy, edge) in [(one_percent(), 1_024), (one_percent().with_min_keys(5_000), 5_000)] {
        assert_eq!(outcome(&build(&policy, &context(), edge)), (RIBBON, FallbackReason::None));
        assert_eq!(outcome(&build(&policy, &context(), edge - 1)), (BLOOM, FallbackReason::TooFewKeys));
    }
}

#[test]
fn below_the_crossover_ribbon_is_not_smaller_and_the_rule_is_monotone() {
    for rate in [0.5, 0.3, 0.01, 0.001, 1e-9] {
        let kind = RibbonKind::configure(self::rate(rate)).unwrap();
        let policy = FixedPolicy::from(kind.clone()).with_min_keys(0);
        let edge = kind.smaller_from();
        assert!(edge < 1_024, "{rate}: {edge}");
        assert_eq!(outcome(&build(&policy, &context(), edge)), (RIBBON, FallbackReason::None));
        if let Some(below) = edge.checked_sub(1) {
            assert_eq!(outcome(&build(&policy, &context(), below)), (BLOOM, FallbackReason::NotSmaller));
        }
        // One block of 30 columns is larger than one line of Bloom.
        assert!(edge > 0 || rate > 1e-9);
        for keys in edge..20_000 {
            let ribbon = kind.plan(keys).unwrap().block_bytes();
            assert!(ribbon < bloom_block_bytes(&kind, keys), "{rate}: {keys}");
        }
    }
}

// promise: never-fails-a-write
#[test]
fn more_keys_than_the_maximum_get_bloom() {
    let policy = one_percent().with_max_keys(2_000);
    assert_eq!(outcome(&build(&policy, &context(), 2_000)), (RIBBON, FallbackReason::None));
    assert_eq!(outcome(&build(&policy, &context(), 2_001)), (BLOOM, FallbackReason::TooManyKeys));
    assert_eq!(one_percent().plan(MAX_KEYS + 1, None), Err(FallbackReason::TooManyKeys));
    assert_eq!(one_percent().plan(u64::MAX, None), Err(FallbackReason::TooManyKeys));
}

// promise: never-fails-a-write
#[test]
fn a_memory_budget_that_building_would_exceed_gives_bloom() {
    let needed = one_percent().plan(10_000, None).unwrap().build_bytes;
    let with_budget = |budget| build(&one_percent(), &context().with_memory_budget(budget), 10_000);
    assert_eq!(outcome(&with_budget(needed)), (RIBBON, FallbackReason::None));
    assert_eq!(outcome(&with_budget(needed - 1)), (BLOOM, FallbackReason::MemoryBudget));
}

// promise: never-fails-a-write
#[test]
fn a_construction_that_fails_gives_bloom() {
    let kind = RibbonKind::configure(rate(0.01)).unwrap();
    let once = FixedPolicy::from(kind.clone().with_max_attempts(1).unwrap());
    let failing = (1_024..1_300).find(|&keys| build(&one_percent(), &context(), keys).report.attempts > 1).unwrap();
    assert_eq!(outcome(&build(&once, &context(), failing)), (BLOOM, FallbackReason::ConstructionFailed));
    assert!(kind.with_max_attempts(0).is_err());
}

#[test]
fn a_large_known_number_of_keys_that_leads_to_bloom_is_not_buffered() {
    let policy = one_percent().with_max_keys(2_000);
    for (keys, is_buffered) in [(65_536, true), (65_537, false)] {
        let built = build(&policy, &context().with_expected_keys(keys), keys);
        assert_eq!(outcome(&built), (BLOOM, FallbackReason::TooManyKeys));
        assert_eq!(built.report.peak_build_bytes > built.report.block_bytes, is_buffered);
        assert_eq!(built.block, build(&policy, &context(), keys).block);
    }
}

#[test]
fn an_announced_number_below_the_minimum_does_not_decide() {
    for announced in [0, 1, 1_000, 1_023] {
        let built = build(&one_percent(), &context().with_expected_keys(announced), 10_000);
        assert_eq!(outcome(&built), (RIBBON, FallbackReason::None), "{announced} announced");
    }
}

#[test]
fn the_fallback_has_the_rate_that_was_asked_for() {
    let built = build(&one_percent().with_min_keys(u64::MAX), &context(), 100_000);
    assert!((0.0099..0.01001).contains(&built.report.expected_fpr), "{}", built.report.expected_fpr);
}

#[test]
fn the_memory_estimate_bounds_what_building_takes() {
    for keys in [1_024, 5_000, 5_001, 30_000, 300_000, 1_000_000] {
        let built = build(&one_percent(), &context(), keys);
        let beside = built.report.peak_build_bytes - built.report.block_bytes;
        let hashes = (keys * 8).next_power_of_two();
        let estimate = one_percent().plan(keys, None).unwrap().build_bytes;
        // The block has some spare capacity for the chance in the number of bumped keys.
        assert!(beside <= estimate + hashes + built.report.block_bytes / 10, "{keys}: {beside} against {estimate}");
    }
}

#[test]
fn a_policy_by_size_gives_ribbon_from_the_minimum_on() {
    for bits in [1.0, 2.0, 5.0, 10.0, 30.0, 100.0] {
        let policy = policy(BitsPerKey::new(bits).unwrap());
        assert_eq!(outcome(&build(&policy, &context(), 1_024)), (RIBBON, FallbackReason::None), "{bits} bits");
    }
}

#[test]
fn a_size_is_met_and_a_bloom_rate_is_matched() {
    for (keys, tolerance) in [(5_000, 0.02), (20_000, 0.01), (200_000, 0.004)] {
        for bits in [2.0, 7.5, 9.9, 20.0] {
            let size = BitsPerKey::new(bits).unwrap();
            let built = build(&policy(size), &context(), keys);
            let ratio = built.report.bits_per_key() / bits;
            assert!((ratio - 1.0).abs() < tolerance, "{keys} keys at {bits}: {ratio}");
        }
    }
    let same = build(&FixedPolicy::from(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN).unwrap()), &context(), 100_000);
    let rate = expected_fpr(RATE_KEYS, BitsPerKey::TEN);
    assert!((same.report.expected_fpr / rate - 1.0).abs() < 0.01);
    assert!(same.report.bits_per_key() < 7.0);
}

/// Hashes that crowd: mixed ones, mapped to fewer positions than there are.
fn crowded(keys: u64) -> impl Iterator<Item = (&'static str, Vec<KeyHash>)> {
    type Make = fn(u64, u64) -> u64;
    let makes: [(&str, Make); 8] = [
        ("all in one place", |_, mixed| mixed >> 24),
        ("all in the last place", |_, mixed| !(mixed >> 24)),
        ("0, 1, 2, ...", |key, _| key),
        ("half in one place", |key, mixed| if key % 2 == 0 { mixed >> 24 } else { mixed }),
        ("a tenth in one place", |key, mixed| if key % 10 == 0 { mixed >> 24 } else { mixed }),
        ("in four places", |key, mixed| (key % 4) << 62 | mixed >> 24),
        ("in a thousand places", |key, mixed| (key % 1_000) << 54 | mixed >> 24),
        ("in half of all places", |_, mixed| mixed >> 1),
    ];
    makes.into_iter().map(move |(what, make)| {
        let hash = |key| KeyHash::from_well_mixed(make(key, KeyHash::mix(key).get()));
        (what, (0..keys).map(hash).collect())
    })
}

// promise: bounded-memory
#[test]
fn no_block_is_larger_than_blooms_of_the_same_rate_however_hashes_crowd() {
    let rates = [0.5, 0.01, 1e-6].map(|rate| RibbonKind::configure(self::rate(rate)).unwrap());
    let (mut ribbons, mut blooms) = (0, 0);
    for kind in rates.into_iter().chain([RibbonKind::same_rate_as_bloom(BitsPerKey::TEN).unwrap()]) {
        let policy = FixedPolicy::from(kind.clone());
        for keys in [1_024, 5_000, 5_001, 20_000] {
            let bloom = bloom_block_bytes(&kind, keys);
            for (what, hashes) in crowded(keys) {
                let built = build_of(&policy, &context(), &hashes);
                let bytes = built.report.block_bytes;
                assert!(bytes <= bloom, "{kind:?}, {keys} keys {what}: {bytes} bytes, Bloom {bloom}");
                match outcome(&built) {
                    (RIBBON, FallbackReason::None) => ribbons += 1,
                    (BLOOM, FallbackReason::NotSmaller) => {
                        blooms += 1;
                        assert_eq!(bytes, bloom);
                        assert!(built.report.peak_build_bytes > 2 * bloom, "the ribbon is forgotten");
                    }
                    other => panic!("{kind:?}, {keys} keys {what}: {other:?}"),
                }
            }
        }
    }
    assert!(ribbons >= 20 && blooms >= 20, "{ribbons} ribbons, {blooms} blooms");
}

#[test]
fn a_million_hashes_in_one_place_give_bloom() {
    let hashes = (0..1_000_000).map(|key| KeyHash::from_well_mixed(KeyHash::mix(key).get() >> 24));
    let built = build_of(&one_percent(), &context(), &hashes.collect::<Vec<_>>());
    assert_eq!(outcome(&built), (BLOOM, FallbackReason::NotSmaller));
    assert_eq!(built.report.block_bytes, bloom_block_bytes(&RibbonKind::configure(rate(0.01)).unwrap(), 1_000_000));
}

#[test]
fn a_planned_size_is_exceeded_by_a_sixteenth_at_most_however_hashes_crowd() {
    for bits in [1.0, 3.0, 10.0, 25.0] {
        let kind = RibbonKind::configure(BitsPerKey::new(bits).unwrap()).unwrap();
        let policy = FixedPolicy::from(kind.clone());
        for keys in [1_024, 5_001, 50_000] {
            let bloom = bloom_block_bytes(&kind, keys);
            for (what, hashes) in crowded(keys) {
                let built = build_of(&policy, &context(), &hashes);
                let planned = policy.block_bytes(keys).unwrap().max(bloom);
                let most = planned + planned / 16;
                assert!(built.report.block_bytes <= most, "{bits} bits, {keys} keys {what}: {:?}", built.report);
            }
        }
    }
}

#[test]
fn builds_leave_their_memory_to_the_next_ones_and_keep_up_to_eight_sections_of_4_mib() {
    let kind = RibbonKind::configure(rate(0.01)).unwrap();
    let idle = || kind.shared.idle_sections.lock().unwrap();
    // The last two have a whole section each. In the last one half of the keys crowd in one bucket.
    let crowds = |key: u64, mixed: u64| if key.is_multiple_of(2) { mixed >> 24 } else { mixed };
    for (keys, are_mixed) in [(5_000, true), (272_000, true), (280_000, true), (280_000, false)] {
        let mixed = (0..keys).map(|key| (key, KeyHash::mix(key).get()));
        let hashes = mixed.map(|(key, mixed)| if are_mixed { mixed } else { crowds(key, mixed) });
        let mut hashes: Vec<KeyHash> = hashes.map(KeyHash::from_well_mixed).collect();
        hashes.sort_unstable();
        kind.clone().build(&kind.plan(keys).unwrap(), &hashes, BuildLimits::default()).unwrap();
        assert_eq!(idle().len(), 1);
        assert!(idle()[0].bytes() <= 4 << 20, "{keys} keys: {} bytes", idle()[0].bytes());
    }
    assert!(idle()[0].bytes() > 3 << 20);
    // More concurrent builds leave no more than eight sections.
    for (before, after) in [(7, 7), (8, 8), (9, 8)] {
        idle().resize_with(before, Default::default);
        kind.build(&kind.plan(1_024).unwrap(), &[], BuildLimits::default()).unwrap();
        assert_eq!(idle().len(), after);
    }
}

/// `BuildLimits` is public, so a user-defined kind that wraps this one can pass any number.
#[test]
fn limits_of_no_threads_build_on_one() {
    let kind = RibbonKind::configure(rate(0.01)).unwrap();
    let mut hashes: Vec<KeyHash> = (0..20_000).map(KeyHash::mix).collect();
    hashes.sort_unstable();
    let plan = kind.plan(20_000).unwrap();
    let build = |threads| {
        let built = kind.build(&plan, &hashes, BuildLimits { threads, ..BuildLimits::default() }).unwrap();
        (built.payload.as_slice().to_vec(), built.peak_bytes)
    };
    assert!(build(0) == build(1));
}
