//! The policy of one kind, for each kind: sizes, announced keys, memory budgets.

use super::{AutoPolicy, BuildContext, BuiltFilter, FilterPolicy, FixedPolicy};
use crate::block::{FallbackReason, FilterBlock};
use crate::error::ConfigError;
#[cfg(feature = "fuse")]
use crate::filter::{BinaryFuseKind, Kind};
use crate::filter::{BlockedBloomKind, KindId};
use crate::hash::{KeyHash, KeyHasher};
use crate::kind::KindEntry;
use crate::units::{BitsPerKey, FalsePositiveRate, Sizing};

fn build(context: &BuildContext, keys: u32) -> BuiltFilter {
    let mut builder = FixedPolicy::default().builder(context);
    (0..keys).for_each(|key| builder.add_key(&key.to_le_bytes()));
    builder.finish()
}

fn finds_all(built: &BuiltFilter, hashes: &[KeyHash]) -> bool {
    let filter = FilterBlock::open_unverified(built.block.as_ref().unwrap()).unwrap();
    hashes.iter().all(|&hash| filter.may_contain(hash))
}

/// A policy of a kind, at a size that the kind supports.
fn some_policy(entry: &KindEntry) -> FixedPolicy {
    let sizes = [17.0, 40.0, 100.0].map(|size| Sizing::BitsPerKey(BitsPerKey::new(size).unwrap()));
    sizes.into_iter().find_map(|sizing| entry.configure(sizing).ok()).unwrap()
}

/// Lines, probes and rate of the Bloom filter of `keys` keys that `policy` builds, with its planned bytes.
fn bloom_of(policy: &dyn FilterPolicy, context: &BuildContext, keys: u32) -> (u64, u8, f64) {
    let mut builder = policy.builder(context).unwrap();
    (0..keys).for_each(|key| builder.add_key(&key.to_le_bytes()));
    assert_eq!(Some(builder.estimated_bytes()), policy.block_bytes(context, keys.into()));
    let built = builder.finish();
    let block = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
    assert_eq!(Some(block.info().block_bytes), policy.block_bytes(context, keys.into()));
    let shape = block.info().shape;
    let field = |name| shape.iter().find(|(field, _)| *field == name).unwrap().1.parse::<u64>().unwrap();
    (field("lines"), field("probes") as u8, built.report.expected_fpr)
}

#[test]
fn shrinkable_bloom_filters_fold_by_two_and_three_wherever_that_is_cheap() {
    let context = BuildContext::new(&KeyHasher::default());
    for keys in [1_000, 1_700, 5_000, 9_950, 250_000] {
        let [(plain, ..), (lines, probes, rate)] = [context.clone(), context.clone().shrinkable()]
            .map(|context| bloom_of(&AutoPolicy::default(), &context, keys));
        let factor = match plain {
            192.. => 12,
            96.. => 6,
            32.. => 2,
            _ => 1,
        };
        assert_eq!((lines, probes), (plain.next_multiple_of(factor), 4), "{keys} keys");
        assert!(rate < 0.013 && lines * 16 <= plain * 17, "{keys} keys: {rate}");
    }
}

#[test]
fn shrinkable_bloom_filters_keep_a_rate_and_every_setting_of_the_engine() {
    let context = BuildContext::new(&KeyHasher::default()).shrinkable();
    let bloom = |kind: BlockedBloomKind| bloom_of(&FixedPolicy::from(kind), &context, 20_011);
    let (lines, probes, rate) = bloom(BlockedBloomKind::configure(FalsePositiveRate::ONE_PERCENT).unwrap());
    assert!(rate <= 0.01 && probes == 4 && lines.is_multiple_of(12), "{rate}, {lines} lines");
    let ten = BlockedBloomKind::default();
    assert_eq!(bloom(ten.with_probes(6).unwrap()).1, 6);
    assert_eq!(bloom(ten.with_fold(7).unwrap()).0, 391_u64.next_multiple_of(7));
}

#[cfg(feature = "ribbon")]
#[test]
fn a_shrinkable_fallback_has_the_rate_of_the_kind_and_so_keeps_its_probes() {
    use crate::filter::RibbonKind;

    let context = BuildContext::new(&KeyHasher::default()).shrinkable();
    let ribbon = FixedPolicy::from(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN).unwrap()).with_min_keys(1 << 20);
    let (lines, probes, rate) = bloom_of(&ribbon, &context, 20_011);
    assert!(probes == 6 && rate < 0.0098 && lines.is_multiple_of(12), "{rate}, {lines} lines");
}

#[cfg(not(feature = "ribbon"))]
#[test]
fn without_ribbon_large_files_get_bloom_and_the_report_says_why() {
    let hasher = KeyHasher::default();
    let context = BuildContext::new(&hasher).with_purpose(super::BuildPurpose::Compaction);
    for policy in [AutoPolicy::default(), AutoPolicy::new(FalsePositiveRate::ONE_PERCENT).unwrap()] {
        let mut builder = policy.builder(&context);
        let hashes: Vec<KeyHash> = (0..2_000).map(KeyHash::mix).collect();
        builder.add_hashes(&hashes);
        let built = builder.finish();
        assert!(finds_all(&built, &hashes));
        assert_eq!((built.report.requested, built.report.used), (KindId::RIBBON, Some(KindId::BLOCKED_BLOOM)));
        assert_eq!(built.report.reason, FallbackReason::NotCompiled);
        let info = FilterBlock::load(built.block.unwrap(), &hasher).unwrap().info();
        assert_eq!((info.requested, info.reason), (KindId::RIBBON, FallbackReason::ConstructionFailed));
    }
}

#[test]
fn streaming_and_buffering_give_the_same_bytes() {
    let context = BuildContext::new(&KeyHasher::default());
    for keys in [0, 1, 51, 52, 1_000] {
        let buffered = build(&context, keys);
        let streamed = build(&context.clone().with_expected_keys(keys.into()), keys);
        assert_eq!(buffered.block, streamed.block);
        assert_eq!(buffered.report.block_bytes, FixedPolicy::default().block_bytes(keys.into()).unwrap());
        assert!(streamed.report.peak_build_bytes <= buffered.report.peak_build_bytes);
    }
}

#[test]
fn slices_single_hashes_and_mixes_of_both_give_the_same_bytes_and_counts() {
    let hashes: Vec<KeyHash> = (0..2_000).map(|key| KeyHash::mix(key / 3 * 7 % 1_000)).collect();
    for size in [1, 2, 3, 100, 255, 256, 257, 1_999, 2_000] {
        for context in
            [BuildContext::new(&KeyHasher::default()).with_expected_keys(700), BuildContext::new(&KeyHasher::default())]
        {
            let [mut single, mut slices, mut mixed] = [(); 3].map(|()| FixedPolicy::default().builder(&context));
            hashes.iter().for_each(|&hash| single.add_hash(hash));
            hashes.chunks(size).for_each(|chunk| slices.add_hashes(chunk));
            for (number, chunk) in hashes.chunks(size).enumerate() {
                mixed.add_hashes(&[]);
                if number % 2 == 0 {
                    mixed.add_hashes(chunk);
                } else {
                    chunk.iter().for_each(|&hash| mixed.add_hash(hash));
                }
            }
            let single = single.finish();
            assert!(single.report.distinct_keys < 700 && finds_all(&single, &hashes));
            for built in [slices.finish(), mixed.finish()] {
                assert_eq!(built.block, single.block, "slices of {size}");
                assert_eq!(built.report.keys_added, 2_000);
                assert_eq!(built.report.distinct_keys, single.report.distinct_keys);
            }
        }
    }
}

/// The filter of `keys` keys, and how it was built, if `announced` keys are announced.
fn announced(policy: &FixedPolicy, announced: Option<u64>, keys: u64) -> BuiltFilter {
    let mut context = BuildContext::new(&KeyHasher::default());
    context.expected_keys = announced;
    let mut builder = policy.builder(&context);
    (0..keys).for_each(|key| builder.add_hash(KeyHash::mix(key)));
    builder.finish()
}

// misuse: more-keys
#[test]
fn ten_times_the_announced_keys_are_found_and_only_a_streamed_filter_is_overfull_and_says_so() {
    for entry in crate::kind::all() {
        let policy = some_policy(entry);
        let is_streamed = entry.id == KindId::BLOCKED_BLOOM || entry.id.name() == "standard-bloom";
        for expected in [100, 1_000, 2_000, 5_000] {
            let (built, exact) =
                (announced(&policy, Some(expected), expected * 10), announced(&policy, None, expected * 10));
            assert!(finds_all(&built, &(0..expected * 10).map(KeyHash::mix).collect::<Vec<_>>()), "{}", entry.name);
            let (report, block) = (&built.report, FilterBlock::open_unverified(built.block.as_ref().unwrap()).unwrap());
            assert_eq!(report.keys_added, expected * 10);
            assert_eq!((report.is_overfull, block.is_overfull()), (is_streamed, is_streamed), "{}", entry.name);
            assert_eq!(built.block == exact.block, !is_streamed, "{}: {expected} announced", entry.name);
            assert!(!is_streamed || report.expected_fpr > 0.5, "{}: {}", entry.name, report.expected_fpr);
            assert!(!exact.report.is_overfull, "{}", entry.name);
        }
    }
}

#[test]
fn a_filter_of_any_size_is_not_overfull_with_the_keys_it_was_planned_for() {
    for bits in [1.0, 1.5, 2.04, 2.05, 3.0, 5.0, 10.0, 33.0, 100.0] {
        for policy in [
            FixedPolicy::bloom(BitsPerKey::new(bits).unwrap()),
            #[cfg(feature = "growing")]
            FixedPolicy::standard_bloom(BitsPerKey::new(bits).unwrap()),
        ] {
            let policy = policy.unwrap();
            let is_overfull = |keys| announced(&policy, Some(20_000), keys).report.is_overfull;
            // At 100 bits per key, even three times as many keys have more bits than the maximum of probes needs.
            assert_eq!([20_000, 60_000].map(is_overfull), [false, bits < 100.0], "{} at {bits}", policy.kind());
        }
    }
}

#[test]
fn an_absurd_expectation_does_not_allocate_it() {
    for expected in [u64::MAX, 1 << 50] {
        let built = build(&BuildContext::new(&KeyHasher::default()).with_expected_keys(expected), 10);
        assert_eq!(built.report.distinct_keys, 10);
    }
}

#[test]
fn a_self_check_asks_the_finished_filter_for_every_key() {
    let policy = FixedPolicy::default().with_self_check();
    let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(3);
    let mut builder = policy.builder(&context);
    (0..3).for_each(|key| builder.add_hash(KeyHash::mix(key)));
    let built = builder.finish();
    assert!(finds_all(&built, &[KeyHash::mix(2)]));
    assert!(!finds_all(&built, &[KeyHash::mix(9), KeyHash::mix(10)]));
}

#[cfg(feature = "growing")]
#[test]
fn standard_bloom_is_streamed_with_the_same_bytes_and_nothing_is_buffered() {
    let context = BuildContext::new(&KeyHasher::default());
    let policy = FixedPolicy::standard_bloom(BitsPerKey::TEN).unwrap();
    for keys in [0, 1, 6, 7, 1_000] {
        let build = |context: &BuildContext| {
            let mut builder = policy.builder(context);
            (0..keys).for_each(|key| builder.add_hash(KeyHash::mix(key)));
            builder.finish()
        };
        let (buffered, streamed) = (build(&context), build(&context.clone().with_expected_keys(keys)));
        assert_eq!(buffered.block, streamed.block);
        assert_eq!(streamed.report.block_bytes, policy.block_bytes(keys).unwrap());
        assert_eq!(streamed.report.peak_build_bytes, streamed.report.block_bytes);
        assert_eq!(FilterBlock::open_unverified(buffered.block.unwrap()).unwrap().info().keys, keys);
    }
}

#[cfg(feature = "growing")]
#[test]
fn sizes_of_any_number_of_keys_are_computed_and_nothing_is_allocated() {
    let standard = FixedPolicy::standard_bloom(BitsPerKey::TEN).unwrap();
    assert_eq!(standard.block_bytes(1 << 32), Some((10 << 29) + 40));
    assert_eq!(standard.block_bytes(u64::MAX), None);
    for expected in [1 << 33, 1 << 50, u64::MAX] {
        let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(expected);
        if standard.block_bytes(expected).is_none() {
            assert!(standard.builder(&context).finish().block.is_some());
        }
    }
    for entry in crate::kind::all() {
        let policy = some_policy(entry);
        assert!(policy.block_bytes(1 << 30).is_some_and(|bytes| bytes > 1 << 30), "{}", entry.name);
        assert_eq!(policy.block_bytes(u64::MAX), None, "{}", entry.name);
        let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(1 << 40);
        assert!(policy.builder(&context).estimated_bytes() < 1_000, "{}", entry.name);
    }
}

#[cfg(feature = "growing")]
#[test]
fn a_rate_that_only_a_huge_register_blocked_filter_has_gets_bloom() {
    let policy = |rate| FixedPolicy::register_blocked_bloom(FalsePositiveRate::new(rate).unwrap()).unwrap();
    for keys in [1, 300, 5_000] {
        assert_eq!(policy(1.5e-6).plan(keys, None), Err(FallbackReason::NotSmaller), "{keys} keys");
        assert!(policy(1.5e-6).block_bytes(keys).unwrap() < keys * 13 + 110, "{keys} keys");
        assert!(policy(1e-4).plan(keys, None).is_ok(), "{keys} keys");
    }
}

#[test]
fn a_self_check_passes_and_says_nothing() {
    for entry in crate::kind::all() {
        let policy = some_policy(entry).with_min_keys(0);
        let policy = policy.with_self_check();
        let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default()).with_expected_keys(1_500));
        (0..1_500).for_each(|key| builder.add_hash(KeyHash::mix(key)));
        let report = builder.finish().report;
        assert_eq!((report.used, report.reason), (Some(entry.id), FallbackReason::None), "{}", entry.name);
    }
}

fn rate(rate: f64) -> Sizing {
    FalsePositiveRate::new(rate).unwrap().into()
}

/// The fingerprint bits of a fuse filter.
#[cfg(feature = "fuse")]
fn fuse_bits(sizing: impl Into<Sizing>) -> Result<u8, ConfigError> {
    BinaryFuseKind::new(3, sizing).map(|kind| kind.plan(1_000).unwrap().fingerprint_bits)
}

#[cfg(feature = "fuse")]
#[test]
fn rates_get_the_shortest_fingerprints_that_keep_them() {
    let all = [0.9, 0.0625, 0.06, 0.01, 0.003_906_25, 0.003_9, 1e-4, 1.6e-5, 1e-5, 2.4e-10];
    assert_eq!(all.map(|all| fuse_bits(rate(all)).unwrap()), [4, 4, 5, 7, 8, 9, 14, 16, 17, 32]);
}

#[cfg(feature = "xor")]
#[test]
fn rates_get_the_xor_filter_that_keeps_them() {
    let xor_fpr = |sizing| FixedPolicy::xor(sizing).map(|policy| policy.plan(10, None).unwrap().expected_fpr);
    assert_eq!([0.9, 0.01, 1.0 / 256.0].map(|all| xor_fpr(rate(all)).unwrap()), [1.0 / 256.0; 3]);
    assert_eq!([0.0039, 1e-4, 1.0 / 65_536.0].map(|all| xor_fpr(rate(all)).unwrap()), [1.0 / 65_536.0; 3]);
}

#[test]
fn rates_sizes_and_fingerprints_that_a_kind_does_not_have_are_refused() {
    let too_low = [
        ("bloom", 1e-10),
        #[cfg(feature = "ribbon")]
        ("ribbon", 2e-10),
        #[cfg(feature = "xor")]
        ("xor", 1.5e-5),
        #[cfg(feature = "growing")]
        ("standard-bloom", 1e-30),
        #[cfg(feature = "growing")]
        ("register-blocked-bloom", 1e-12),
    ];
    for (entry, too_low) in too_low {
        let refused = crate::kind::KindEntry::named(entry).unwrap().configure(rate(too_low)).unwrap_err();
        assert!(matches!(refused, ConfigError::RateOutOfRange { got, .. } if got == too_low), "{refused}");
    }
    assert!(FixedPolicy::bloom(Sizing::FingerprintBits(8)).is_err());
}

#[cfg(feature = "fuse")]
#[test]
fn rates_and_fingerprints_that_binary_fuse_does_not_have_are_refused() {
    assert!(matches!(fuse_bits(rate(2e-10)), Err(ConfigError::RateOutOfRange { got: 2e-10, .. })));
    for bits in (0..4).chain(33..=255) {
        let error = fuse_bits(Sizing::FingerprintBits(bits)).unwrap_err();
        assert!(matches!(error, ConfigError::OutOfRange { got, .. } if got == u64::from(bits)));
    }
}

#[cfg(feature = "xor")]
#[test]
fn sizes_get_the_longest_fingerprints_that_fit() {
    let size = |millibits| Sizing::from(BitsPerKey::from_millibits(millibits).unwrap());
    for (name, eight, sixteen) in [("xor", 9_841, 19_681), ("xor+", 9_123, 17_780)] {
        let of = |sizing: Sizing| crate::kind::KindEntry::named(name).unwrap().configure(sizing);
        let rate = |millibits| of(size(millibits)).unwrap().plan(1_000, None).unwrap().expected_fpr;
        assert!(matches!(of(size(eight - 10)), Err(ConfigError::SizeOutOfRange { .. })));
        assert_eq!([eight, sixteen - 20].map(rate), [1.0 / 256.0; 2]);
        assert_eq!(rate(sixteen), 1.0 / 65_536.0);
    }
}

/// The kind that is built from `keys` keys, and the reason.
fn outcome(policy: &FixedPolicy, keys: u64, memory_budget: u64) -> (Option<KindId>, FallbackReason) {
    let context = BuildContext::new(&KeyHasher::default()).with_memory_budget(memory_budget);
    let mut builder = policy.builder(&context);
    (0..keys).for_each(|key| builder.add_hash(KeyHash::mix(key)));
    let report = builder.finish().report;
    (report.used, report.reason)
}

#[test]
fn a_memory_budget_that_is_too_small_leads_to_bloom() {
    for entry in crate::kind::all() {
        let policy = some_policy(entry).with_self_check();
        let needed = policy.plan(10_000, None).unwrap().build_bytes;
        assert_eq!(outcome(&policy, 10_000, needed), (Some(entry.id), FallbackReason::None), "{}", entry.name);
        if let Some(too_little) = needed.checked_sub(1) {
            let fallen_back = (Some(KindId::BLOCKED_BLOOM), FallbackReason::MemoryBudget);
            assert_eq!(outcome(&policy, 10_000, too_little), fallen_back, "{}", entry.name);
        }
    }
}

#[test]
fn a_block_of_a_kind_that_is_left_out_is_unusable_for_that_reason() {
    macro_rules! golden {
        ($name:literal) => {
            &include_bytes!(concat!("../../fixtures/v1/", $name, ".block"))[..]
        };
    }
    let blocks = [
        (KindId::RIBBON, golden!("ribbon-1024-keys-1-percent")),
        (KindId::STANDARD_BLOOM, golden!("standard-bloom-1000-keys-10-bits")),
        (KindId::COUNTING_BLOOM, golden!("counting-bloom-300-keys")),
        (KindId::REGISTER_BLOCKED_BLOOM, golden!("register-blocked-200-keys")),
        (KindId::CUCKOO, golden!("cuckoo-1000-keys-13-bits")),
        (KindId::XOR, golden!("xor-500-keys")),
        (KindId::XOR_PLUS, golden!("xor-plus-1200-keys")),
        (KindId::BINARY_FUSE, golden!("fuse-1000-keys-3-cells-8-bits")),
        (KindId::LINE_RIBBON, golden!("line-ribbon-3000-keys-load-90")),
    ];
    for (kind, block) in blocks.into_iter().filter(|(kind, _)| KindEntry::named(kind.name()).is_none()) {
        let hasher = KeyHasher::default();
        let filter = crate::Filters::default().reader(crate::FilterBlock::load(block, &hasher));
        let reason = crate::BlockError::UnknownKind { got: kind.code() };
        assert_eq!(filter.probe_hash(hasher.hash(b"absent")), crate::Probe::Unusable);
        assert_eq!(filter.problem(), Some(&reason));
        assert!(reason.to_string().ends_with(&format!("got {} ({kind})", kind.code())), "{reason}");
        assert_eq!(filter.stats().unusable, 1);
    }
}
