//! A compaction runs next to everything else that the engine does, so a filter that takes far more memory to
//! build than to keep brings the process down at the worst of times. Here the allocator itself counts.

#![cfg(not(feature = "parallel"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/allocator.rs"]
mod allocator;

use allocator::alone;

use sstfilter::{
    AutoPolicy, BitsPerKey, BloomPolicy, BuildContext, BuildPurpose, BuildReport, FalsePositiveRate, FilterBlock,
    FilterError, FilterKind, FilterPolicy, FuseArity, FusePolicy, FuseSizing, KeyHash, KeyHasher, RibbonPolicy,
    RibbonSizing, SelfCheck, StandardBloomPolicy, XorLayout, XorPolicy, XorSizing, XorWidth,
};

/// The most bytes held at once in `finish`, beyond the buffered hashes, and the report.
fn measure(policy: &dyn FilterPolicy, keys: u64) -> (u64, BuildReport) {
    measure_hashes(policy, &(0..keys).map(KeyHash::from_remixed).collect::<Vec<_>>())
}

fn measure_hashes(policy: &dyn FilterPolicy, hashes: &[KeyHash]) -> (u64, BuildReport) {
    let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default())).unwrap();
    builder.add_hashes(hashes);
    let (report, peak) = allocator::measure(|| builder.finish().report);
    (peak as u64, report)
}

#[test]
fn building_takes_ten_bytes_a_key_and_three_megabytes_beyond_the_hashes_and_says_so() {
    let _alone = alone();
    for (exponent, keys) in [(7, 5_000), (7, 20_000), (7, 250_000), (7, 1_000_000), (7, 3_000_000), (16, 1_000_000)] {
        let rate = FalsePositiveRate::new(0.5_f64.powi(exponent)).unwrap();
        // Each policy begins without memory from earlier builds.
        let policy = RibbonPolicy::new(RibbonSizing::Rate(rate)).unwrap();
        let (peak, report) = measure(&policy, keys);
        assert_eq!(report.used, Some(FilterKind::RIBBON));
        let estimate = policy.estimated_build_bytes(keys).unwrap();
        let reported = report.peak_build_bytes - keys * 8;
        println!("2^-{exponent}, {keys} keys: {peak} bytes, reported {reported}, estimated {estimate}");
        assert!(peak <= keys * 10 + 3_000_000, "2^-{exponent}, {keys} keys: {peak}");
        let most = estimate + report.block_bytes;
        assert!(peak <= most && estimate <= keys * 10 + 3_600_000, "{keys} keys: {peak}, estimated {estimate}");
        assert!(reported + 16_384 >= peak - peak / 50, "{keys} keys: {peak}, reported {reported}");
    }
}

/// Hashes that are badly mixed, or were chosen by someone who knows the seed.
#[test]
fn hashes_that_crowd_in_one_place_take_at_most_16_bytes_more_for_each_of_them() {
    let _alone = alone();
    let (keys, crowd) = (1_000_000, 500_000);
    let policy = RibbonPolicy::new(RibbonSizing::Rate(FalsePositiveRate::new(0.01).unwrap())).unwrap();
    let mixed = (0..keys).map(KeyHash::from_remixed);
    let hashes = mixed.map(|hash| if hash.get() % 2 == 0 { KeyHash::from_well_mixed(hash.get() >> 24) } else { hash });
    let (peak, report) = measure_hashes(&policy, &hashes.collect::<Vec<_>>());
    let estimate = policy.estimated_build_bytes(keys).unwrap() + report.block_bytes;
    println!("{crowd} of {keys} keys in one bucket: {peak} bytes, estimated {estimate}");
    assert!(peak <= estimate + 16 * crowd, "{peak}, estimated {estimate}");
}

#[test]
fn building_binary_fuse_takes_at_most_25_bytes_a_key_with_the_hashes_and_says_so() {
    let _alone = alone();
    for (arity, keys) in [(FuseArity::Three, 100_000_u32), (FuseArity::Three, 1_000_000), (FuseArity::Four, 1_000_000)]
    {
        let policy = FusePolicy::new(FuseSizing::FingerprintBits(8)).unwrap().with_arity(arity);
        let (peak, report) = measure(&policy, keys.into());
        let per_key = |bytes: u64| bytes as f64 / f64::from(keys);
        println!("{arity:?}, {keys} keys: {:.2} bytes per key and 8 of hashes", per_key(peak));
        assert_eq!(report.used, Some(FilterKind::BINARY_FUSE));
        // The buffer of hashes grows by doubling, and is counted by its hashes.
        assert!(per_key(peak) + 8.0 <= 25.0, "{arity:?}, {keys} keys: {peak}");
        assert!(peak <= policy.estimated_build_bytes(keys.into()).unwrap() + report.block_bytes + 16_384);

        let identity = KeyHasher::default().identity();
        let read = || (0..2 * u64::from(keys)).map(|number| KeyHash::from_remixed(number % u64::from(keys)));
        let (built, peak) = allocator::measure(|| policy.build_repeatable(read, keys.into(), identity).unwrap());
        let peak = peak as u64;
        println!("{arity:?}, {keys} keys, each read twice: {:.2} bytes per key", per_key(peak));
        assert_eq!(built.report.distinct_keys, u64::from(keys));
        assert!(per_key(peak) <= 25.0 && per_key(peak) <= per_key(built.report.peak_build_bytes) + 1.0, "{peak}");
    }
}

#[test]
fn a_build_that_gets_no_memory_says_how_much_it_takes_with_the_payload() {
    let _alone = alone();
    let keys = 100_000;
    let policy = FusePolicy::new(FuseSizing::FingerprintBits(8)).unwrap();
    let build = || {
        let read = || (0..keys).map(KeyHash::from_remixed);
        policy.build_repeatable(read, keys, KeyHasher::default().identity())
    };
    let payload_bytes = FilterBlock::open_unverified(build().unwrap().block.unwrap()).unwrap().info().payload_bytes;
    // Enough for all other work in this process, and too little for the cells.
    let (refused, _) = allocator::measure_within(1 << 19, build);
    let bytes = policy.estimated_build_bytes(keys).unwrap() + payload_bytes;
    assert_eq!(refused.unwrap_err(), FilterError::NoMemory { bytes });
}

/// Every policy, and whether it fills a filter of the announced size while keys come.
fn every_policy() -> Vec<(Box<dyn FilterPolicy>, BuildPurpose, bool)> {
    use BuildPurpose::{Compaction, Flush};

    let xor = |layout| Box::new(XorPolicy::new(layout, XorSizing::Width(XorWidth::Eight)).unwrap());
    let rate = RibbonSizing::Rate(FalsePositiveRate::ONE_PERCENT);
    let bloom = BloomPolicy::new(BitsPerKey::TEN);
    vec![
        (Box::new(bloom.clone()), Flush, true),
        (Box::new(bloom.with_self_check(SelfCheck::On)), Flush, false),
        (Box::new(StandardBloomPolicy::new(BitsPerKey::TEN)), Flush, true),
        (Box::new(AutoPolicy::new(BitsPerKey::TEN).unwrap()), Flush, true),
        (Box::new(AutoPolicy::new(BitsPerKey::TEN).unwrap()), Compaction, false),
        (Box::new(RibbonPolicy::new(rate).unwrap()), Flush, false),
        (Box::new(FusePolicy::new(FuseSizing::FingerprintBits(8)).unwrap()), Flush, false),
        (xor(XorLayout::Plain), Flush, false),
        (xor(XorLayout::Plus), Flush, false),
    ]
}

/// A plan that does not come true: compaction drops most keys.
#[test]
fn a_builder_told_of_billions_of_keys_allocates_nothing_for_them() {
    let _alone = alone();
    let hashes: Vec<KeyHash> = (0..100).map(KeyHash::from_remixed).collect();
    for (policy, purpose, is_filled_at_once) in every_policy() {
        // 2^33 keys are within every format's limits, 2^50 beyond all of them. A filter that is filled at once is as
        // large as announced, and has nothing beside that.
        let most_of_filter = |keys: u64| if is_filled_at_once && keys < 1 << 33 { keys * 10 / 8 + 128 } else { 0 };
        let within = if is_filled_at_once { 1 << 22 } else { 1 << 33 };
        for announced in [1 << 16, within, 1 << 50, u64::MAX] {
            let hasher = KeyHasher::default();
            let context = BuildContext::new(&hasher).with_purpose(purpose).with_expected_keys(announced);
            let (built, peak) = allocator::measure(|| {
                let mut builder = policy.builder(&context).unwrap();
                builder.add_hashes(&hashes[..50]);
                hashes[50..].iter().for_each(|&hash| builder.add_hash(hash));
                builder.finish()
            });
            let peak = peak as u64;
            let most = most_of_filter(announced) + 65_536;
            assert!(peak <= most, "{}, {announced} keys announced: {peak} bytes, at most {most}", policy.name());
            assert_eq!(built.report.distinct_keys, 100);
        }
    }
}
