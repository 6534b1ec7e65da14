//! A compaction runs in parallel to all other work of the engine. If building a filter takes far more memory than
//! keeping it, it can bring the process down. Here the allocator itself counts.

use crate::allocator::alone;

use sstfilter::kind::{BinaryFuseKind, KindEntry};
use sstfilter::{
    AutoPolicy, BitsPerKey, BuildContext, BuildPurpose, BuildReport, FalsePositiveRate, FilterPolicy, FixedPolicy,
    KeyHash, KeyHasher, KindId, Sizing,
};

/// Returns the maximum number of bytes held in `finish`, in addition to the buffered hashes, and the report.
fn measure(policy: &dyn FilterPolicy, keys: u64) -> (u64, BuildReport) {
    measure_hashes(policy, &(0..keys).map(KeyHash::mix).collect::<Vec<_>>())
}

fn measure_hashes(policy: &dyn FilterPolicy, hashes: &[KeyHash]) -> (u64, BuildReport) {
    let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default())).unwrap();
    builder.add_hashes(hashes);
    let (report, peak) = crate::allocator::measure(|| builder.finish().report);
    (peak as u64, report)
}

// promise: bounded-memory
#[test]
fn building_takes_ten_bytes_a_key_and_three_megabytes_beyond_the_hashes_and_says_so() {
    let _alone = alone();
    for (exponent, keys) in [(7, 5_000), (7, 20_000), (7, 250_000), (7, 1_000_000), (7, 3_000_000), (16, 1_000_000)] {
        let rate = FalsePositiveRate::new(0.5_f64.powi(exponent)).unwrap();
        // Each policy starts without memory from earlier builds.
        let policy = FixedPolicy::ribbon(rate).unwrap();
        let (peak, report) = measure(&policy, keys);
        assert_eq!(report.used, Some(KindId::RIBBON));
        let estimate = policy.plan(keys, None).unwrap().build_bytes;
        let reported = report.peak_build_bytes - keys * 8;
        println!("2^-{exponent}, {keys} keys: {peak} bytes, reported {reported}, estimated {estimate}");
        assert!(peak <= keys * 10 + 3_000_000, "2^-{exponent}, {keys} keys: {peak}");
        let most = estimate + report.block_bytes;
        assert!(peak <= most && estimate <= keys * 10 + 3_600_000, "{keys} keys: {peak}, estimated {estimate}");
        assert!(reported + 16_384 >= peak - peak / 50, "{keys} keys: {peak}, reported {reported}");
    }
}

#[test]
fn each_thread_takes_no_more_than_the_plan_says() {
    let _alone = alone();
    let (keys, threads) = (1_000_000_u64, 4);
    let hashes: Vec<KeyHash> = (0..keys).map(KeyHash::mix).collect();
    let kinds = [FixedPolicy::ribbon, FixedPolicy::xor, FixedPolicy::xor_plus, FixedPolicy::binary_fuse];
    for kind in kinds.into_iter().chain([FixedPolicy::line_ribbon as fn(_) -> _]) {
        let policy = kind(Sizing::FingerprintBits(8)).unwrap();
        let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default()).with_threads(threads));
        builder.add_hashes(&hashes);
        let (report, peak) = crate::allocator::measure(|| builder.finish().report);
        let plan = policy.plan(keys, None).unwrap();
        let most = plan.build_bytes + (threads as u64 - 1) * plan.thread_bytes + report.block_bytes * 11 / 10;
        let reported = report.peak_build_bytes - keys * 8;
        let kind = policy.kind();
        println!("{kind:?}, {threads} threads: {peak} bytes, reported {reported}, at most {most}");
        assert!(peak as u64 <= most + 65_536 && reported <= most + keys * 2, "{kind:?}: {peak}, {reported} of {most}");
    }
}

/// Hashes that are badly mixed, or chosen by an attacker who knows the seed.
// promise: bounded-memory
#[test]
fn hashes_that_crowd_in_one_place_take_at_most_16_bytes_more_for_each_of_them() {
    let _alone = alone();
    let (keys, crowd) = (1_000_000, 500_000);
    let policy = FixedPolicy::ribbon(FalsePositiveRate::new(0.01).unwrap()).unwrap();
    let mixed = (0..keys).map(KeyHash::mix);
    let hashes = mixed.map(|hash| if hash.get() % 2 == 0 { KeyHash::from_well_mixed(hash.get() >> 24) } else { hash });
    let (peak, report) = measure_hashes(&policy, &hashes.collect::<Vec<_>>());
    let estimate = policy.plan(keys, None).unwrap().build_bytes + report.block_bytes;
    println!("{crowd} of {keys} keys in one bucket: {peak} bytes, estimated {estimate}");
    assert!(peak <= estimate + 16 * crowd, "{peak}, estimated {estimate}");
}

// promise: bounded-memory
#[test]
fn building_binary_fuse_takes_at_most_25_bytes_a_key_with_the_hashes_and_says_so() {
    let _alone = alone();
    for (arity, keys) in [(3, 100_000_u32), (3, 1_000_000), (4, 1_000_000)] {
        let policy = FixedPolicy::from(BinaryFuseKind::new(arity, Sizing::FingerprintBits(8)).unwrap());
        let (peak, report) = measure(&policy, keys.into());
        let per_key = |bytes: u64| bytes as f64 / f64::from(keys);
        println!("{arity:?}, {keys} keys: {:.2} bytes per key and 8 of hashes", per_key(peak));
        assert_eq!(report.used, Some(KindId::BINARY_FUSE));
        // The buffer of hashes grows by doubling, and is counted by its hashes.
        assert!(per_key(peak) + 8.0 <= 25.0, "{arity:?}, {keys} keys: {peak}");
        assert!(peak <= policy.plan(keys.into(), None).unwrap().build_bytes + report.block_bytes + 16_384);
    }
}

/// Every policy, and whether it fills a filter of the announced size as keys arrive.
fn every_policy() -> Vec<(Box<dyn FilterPolicy>, BuildPurpose, bool)> {
    use BuildPurpose::{Compaction, Flush};

    let xor = |layout| Box::new(KindEntry::named(layout).unwrap().configure(Sizing::FingerprintBits(8)).unwrap());
    let rate = FalsePositiveRate::ONE_PERCENT;
    let bloom = FixedPolicy::bloom(BitsPerKey::TEN).unwrap();
    vec![
        (Box::new(bloom.clone()), Flush, true),
        (Box::new(bloom.with_self_check()), Flush, false),
        (Box::new(FixedPolicy::standard_bloom(BitsPerKey::TEN).unwrap()), Flush, true),
        (Box::new(AutoPolicy::new(BitsPerKey::TEN).unwrap()), Flush, true),
        (Box::new(AutoPolicy::new(BitsPerKey::TEN).unwrap()), Compaction, false),
        (Box::new(FixedPolicy::ribbon(rate).unwrap()), Flush, false),
        (Box::new(FixedPolicy::binary_fuse(Sizing::FingerprintBits(8)).unwrap()), Flush, false),
        (Box::new(FixedPolicy::line_ribbon(Sizing::FingerprintBits(8)).unwrap()), Flush, false),
        (xor("xor"), Flush, false),
        (xor("xor+"), Flush, false),
    ]
}

/// A plan that fails: compaction drops most keys.
// promise: bounded-memory
#[test]
fn a_builder_told_of_billions_of_keys_allocates_nothing_for_them() {
    let _alone = alone();
    let hashes: Vec<KeyHash> = (0..100).map(KeyHash::mix).collect();
    for (policy, purpose, is_filled_at_once) in every_policy() {
        // 2^31 keys are within the limits of every kind, 2^50 beyond all of them. A filter that is filled as keys
        // arrive has the announced size, and takes no further memory.
        let max_of_filter = |keys: u64| if is_filled_at_once && keys < 1 << 31 { keys * 10 / 8 + 128 } else { 0 };
        let within = if is_filled_at_once { 1 << 22 } else { 1 << 31 };
        for announced in [1 << 16, within, 1 << 50, u64::MAX] {
            let hasher = KeyHasher::default();
            let context = BuildContext::new(&hasher).with_purpose(purpose).with_expected_keys(announced);
            let (built, peak) = crate::allocator::measure(|| {
                let mut builder = policy.builder(&context).unwrap();
                builder.add_hashes(&hashes[..50]);
                hashes[50..].iter().for_each(|&hash| builder.add_hash(hash));
                builder.finish()
            });
            let peak = peak as u64;
            let most = max_of_filter(announced) + 65_536;
            assert!(peak <= most, "{}, {announced} keys announced: {peak} bytes, at most {most}", policy.name());
            assert_eq!(built.report.distinct_keys, 100);
        }
    }
}
