//! Standard Bloom filters in memory. The failures guarded against: dependent probes, which give small filters a higher
//! rate than the formula; and a filter that loses keys when it is stored, restored or merged.

#![expect(clippy::float_cmp, reason = "both are the same division")]

use crate::common;
use sstfilter::{
    AtomicBloom, BitsPerKey, ConfigError, DynamicFilter, FalsePositiveRate, FilterBlock, FilterError, FilterHealth,
    FixedPolicy, HashIdentity, KeyHash, KeyHasher, MatchBitmap, StandardBloom,
};

fn filled(mut filter: StandardBloom, hashes: &[KeyHash]) -> StandardBloom {
    filter.insert_all(hashes);
    filter
}

fn keys(set: u32, count: u32) -> Vec<KeyHash> {
    common::key_set(set, count).collect()
}

/// Mean rate over many filters of one shape, and four standard errors of it: those of the probes, and those of the
/// filters, which differ in their fill.
fn measure(bits: u64, probes: u8, keys: u32, filters: u32, absent: u32) -> (f64, f64) {
    let rates = common::on_all_cores(filters as usize, |number| {
        let set = u32::try_from(number).unwrap();
        let filter = filled(
            StandardBloom::with_shape(HashIdentity::default(), bits, probes).unwrap(),
            &common::key_set(set, keys).collect::<Vec<_>>(),
        );
        let matches = common::key_set(set + 1_000_000, absent).filter(|&hash| filter.contains(hash)).count();
        matches as f64 / f64::from(absent)
    });
    let mean = rates.iter().sum::<f64>() / f64::from(filters);
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / f64::from(filters);
    (mean, 4.0 * (variance / f64::from(filters)).sqrt())
}

#[test]
fn small_filters_let_through_what_independent_probes_would() {
    for (bits, probes, keys, filters) in [
        (64, 7, 6, 20_000),
        (1_000, 7, 100, 4_000),
        (1_000, 13, 50, 8_000),
        (1_000, 3, 800, 500),
        (10_000, 7, 1_000, 500),
    ] {
        let filters = if common::is_long() { filters } else { filters / 4 };
        let (rate, tolerance) = measure(bits, probes, keys, filters, 5_000);
        let expected = expected(bits, probes, keys);
        println!("{bits} bits, {probes} probes, {keys} keys: {rate:.6}, expected {expected:.6}, +-{tolerance:.6}");
        assert!((rate - expected).abs() < tolerance + 0.002 * expected, "{bits}, {probes}, {keys}: {rate}, {expected}");
    }
}

/// The mean of fill^probes over the distribution of the fill, by a recurrence over the bits set one after the other.
fn expected(bits: u64, probes: u8, keys: u32) -> f64 {
    let size = usize::try_from(bits).unwrap();
    let mut chance = vec![0.0; size + 1];
    chance[0] = 1.0;
    for _ in 0..keys * u32::from(probes) {
        for set in (0..=size).rev() {
            let stays = chance[set] * set as f64 / size as f64;
            let comes = if set == 0 { 0.0 } else { chance[set - 1] * (size - set + 1) as f64 / size as f64 };
            chance[set] = stays + comes;
        }
    }
    chance.iter().enumerate().map(|(set, chance)| chance * (set as f64 / size as f64).powi(probes.into())).sum()
}

#[test]
fn the_saturated_filter_of_a_thousand_bits_has_a_fill_of_nine_tenths_and_says_so() {
    let filter = filled(StandardBloom::with_shape(HashIdentity::default(), 1_000, 3).unwrap(), &keys(0, 800));
    let health = filter.health();
    assert!((0.88..0.94).contains(&health.fill_ratio), "{health:?}");
    let matches = common::key_set(1, 100_000).filter(|&hash| filter.contains(hash)).count() as f64 / 1e5;
    assert!((matches - health.expected_fpr).abs() < 0.01, "{matches}, {health:?}");
    assert!(filter.estimated_keys().abs_diff(800) < 80, "{}", filter.estimated_keys());
    assert!(health.fill_ratio > health.max_fill_ratio && health.expected_fpr > FilterHealth::MAX_FPR);
}

#[test]
fn a_filter_for_a_rate_keeps_to_it_and_is_no_larger_than_it_must_be() {
    for (rate, bits_per_key, probes) in [(0.1, 4.81, 3), (0.01, 9.60, 7), (0.001, 14.38, 10)] {
        for count in [1_000, 100_000] {
            let asked = FalsePositiveRate::new(rate).unwrap();
            let filter =
                filled(StandardBloom::for_rate(HashIdentity::default(), count.into(), asked).unwrap(), &keys(2, count));
            assert_eq!(filter.probes(), probes);
            let bits = filter.bits() as f64 / f64::from(count);
            assert!(bits < bits_per_key + 0.08, "{rate}: {bits}");
            let matches = common::key_set(3, 2_000_000).filter(|&hash| filter.contains(hash)).count() as f64;
            let sigma = (2e6 * rate).sqrt();
            assert!(
                matches < 2e6 * rate * if count == 1_000 { 1.25 } else { 1.02 } + 4.0 * sigma,
                "{rate}, {count}: {matches}"
            );
            assert!(
                matches > 2e6 * rate * if count == 1_000 { 0.75 } else { 0.97 } - 4.0 * sigma,
                "{rate}, {count}: {matches}"
            );
        }
    }
}

#[test]
fn keys_counts_what_set_a_bit_and_the_estimate_counts_the_rest() {
    let mut filter = StandardBloom::for_size(HashIdentity::default(), 10_000, BitsPerKey::TEN).unwrap();
    let hashes = keys(4, 10_000);
    let new = hashes.iter().filter(|&&hash| filter.insert(hash)).count() as u64;
    assert_eq!(filter.keys(), new);
    assert!((9_970..10_000).contains(&new), "about a sixth of 0.82 % look present: {new}");
    assert!(filter.estimated_keys().abs_diff(10_000) < 200);
    assert!(hashes.iter().all(|&hash| !filter.insert(hash)));
    assert_eq!((filter.insert_all(&hashes), filter.keys()), (0, new));
}

#[test]
fn a_union_contains_the_keys_of_both_and_other_shapes_are_refused() {
    let [mut one, other] = [5, 6]
        .map(|set| filled(StandardBloom::with_shape(HashIdentity::default(), 20_001, 7).unwrap(), &keys(set, 1_000)));
    one.union(&other).unwrap();
    assert!(keys(5, 1_000).into_iter().chain(keys(6, 1_000)).all(|hash| one.contains(hash)));
    assert!(one.estimated_keys().abs_diff(2_000) < 60);
    let at_once = filled(
        StandardBloom::with_shape(HashIdentity::default(), 20_001, 7).unwrap(),
        &[keys(5, 1_000), keys(6, 1_000)].concat(),
    );
    let bytes = |filter: &StandardBloom| filter.to_block().unwrap().slice(..2_504);
    assert_eq!(bytes(&one), bytes(&at_once));
    for (bits, probes) in [(20_002, 7), (20_001, 6)] {
        let refused = one.union(&StandardBloom::with_shape(HashIdentity::default(), bits, probes).unwrap());
        assert!(matches!(refused, Err(FilterError::ShapeMismatch { .. })), "{refused:?}");
    }
    assert_eq!(bytes(&one), bytes(&at_once));
}

/// Two filters that are merged into each other again and again count more and more keys, beyond 64 bits and a block's
/// field.
#[test]
fn counts_of_many_unions_end_at_the_largest_number_and_not_at_none() {
    let [mut one, mut other] = [14, 15]
        .map(|set| filled(StandardBloom::with_shape(HashIdentity::default(), 20_001, 7).unwrap(), &keys(set, 10)));
    for _ in 0..60 {
        one.union(&other).unwrap();
        other.union(&one).unwrap();
    }
    assert_eq!(one.keys(), u64::MAX);
    assert!(one.insert(keys(16, 1)[0]));
    assert_eq!((one.insert_all(&keys(17, 5)), one.keys()), (5, u64::MAX));
    let block = one.to_block().unwrap();
    assert_eq!(FilterBlock::open_unverified(&block).unwrap().info().keys, (1 << 40) - 1);
}

#[test]
fn a_filter_that_was_stored_goes_on_where_it_was() {
    let identity = KeyHasher::default().identity();
    for (bits, probes) in [(1, 1), (63, 2), (64, 3), (65, 4), (1_000, 32), (100_000, 7)] {
        let first = filled(StandardBloom::with_shape(HashIdentity::default(), bits, probes).unwrap(), &keys(7, 500));
        let block = first.to_block().unwrap();
        let mut again = StandardBloom::from_block(&block, identity).unwrap();
        assert_eq!((again.bits(), again.probes(), again.keys()), (bits, probes, first.keys()));
        assert_eq!(again.to_block().unwrap(), block);
        assert_eq!(again.health().fill_ratio, FilterBlock::open_unverified(&block).unwrap().fill_ratio().unwrap());
        again.insert_all(&keys(8, 500));
        assert!(keys(7, 500).into_iter().chain(keys(8, 500)).all(|hash| again.contains(hash)));
    }
}

// promise: documented-use
// misuse: merged-hashes
#[test]
fn filters_of_two_hashes_do_not_mix_and_keep_their_own() {
    let hashers = [1, 2].map(KeyHasher::with_seed);
    let hashes =
        |hasher: &KeyHasher| -> Vec<KeyHash> { (0..1_000_u32).map(|key| hasher.hash(&key.to_le_bytes())).collect() };
    let [mut one, other] = hashers
        .each_ref()
        .map(|hasher| filled(StandardBloom::with_shape(hasher.identity(), 20_001, 7).unwrap(), &hashes(hasher)));
    let [expected, got] = hashers.each_ref().map(KeyHasher::identity);
    let before = one.to_block().unwrap();
    let mismatch = FilterError::HashMismatch { expected, got };
    assert_eq!(one.union(&other), Err(mismatch.clone()));
    assert_eq!(one.to_block().unwrap(), before, "nothing has changed");
    // Restored filters keep their hash as well.
    let [mut one, other] = [(one, &hashers[0]), (other, &hashers[1])]
        .map(|(filter, hasher)| StandardBloom::from_block(&filter.to_block().unwrap(), hasher).unwrap());
    assert_eq!(one.union(&other), Err(mismatch));
    assert_eq!(other.hash_identity(), got);
    // A block has the hash of its filter, whichever context loads it.
    assert!(StandardBloom::from_block(&one.to_block().unwrap(), &hashers[1]).is_err());
    assert!(hashes(&hashers[0]).iter().all(|&hash| one.contains(hash)));
}

#[test]
fn absurd_sizes_are_refused_and_nothing_is_allocated() {
    for keys in [1 << 36, 1 << 40, u64::MAX] {
        let refused = StandardBloom::for_size(HashIdentity::default(), keys, BitsPerKey::TEN);
        assert!(matches!(refused, Err(FilterError::TooLarge { .. })), "{keys}: {refused:?}");
        assert!(StandardBloom::for_rate(HashIdentity::default(), keys, FalsePositiveRate::ONE_PERCENT).is_err());
    }
    for (bits, probes) in [(0, 7), (1_000, 0), (1_000, 33)] {
        let refused = StandardBloom::with_shape(HashIdentity::default(), bits, probes);
        assert!(matches!(refused, Err(FilterError::Config(ConfigError::OutOfRange { .. }))), "{refused:?}");
    }
    assert!(matches!(
        StandardBloom::with_shape(HashIdentity::default(), u64::MAX, 7),
        Err(FilterError::TooLarge { .. })
    ));
    let rate = FalsePositiveRate::new(1e-300).unwrap();
    assert!(matches!(StandardBloom::for_rate(HashIdentity::default(), 10, rate), Err(FilterError::Config(_))));
    let refused = FixedPolicy::standard_bloom(rate).unwrap_err();
    assert!(matches!(refused, ConfigError::RateOutOfRange { got: 1e-300, .. }), "{refused}");
}

#[test]
fn a_filter_far_past_its_plan_lets_all_through_and_denies_none() {
    let mut filter = StandardBloom::for_size(HashIdentity::default(), 10, BitsPerKey::TEN).unwrap();
    assert_eq!((filter.contains(KeyHash::mix(1)), filter.health().fill_ratio), (false, 0.0));
    filter.insert_all(&keys(10, 100_000));
    assert!(keys(10, 100_000).into_iter().chain(keys(11, 1_000)).all(|hash| filter.contains(hash)));
    assert_eq!((filter.health().fill_ratio, filter.health().expected_fpr), (1.0, 1.0));
    assert_eq!(filter.estimated_keys(), u64::MAX);
}

#[test]
fn batches_answer_as_single_calls_do_in_filters_of_every_size() {
    for count in [0, 1, 100, 5_000, 400_000] {
        let filter = filled(
            StandardBloom::for_size(HashIdentity::default(), count.into(), BitsPerKey::TEN).unwrap(),
            &keys(12, count),
        );
        let mut matches = MatchBitmap::default();
        for asked in [0, 1, 15, 16, 17, 63, 64, 65, 1_000] {
            let hashes = [keys(12, count.min(asked)), keys(13, asked)].concat();
            filter.contains_batch(&hashes, &mut matches);
            let single: Vec<usize> = (0..hashes.len()).filter(|&at| filter.contains(hashes[at])).collect();
            assert_eq!((matches.len(), matches.iter().collect::<Vec<_>>()), (hashes.len(), single), "{count} keys");
        }
    }
}

/// What a block's trailer says apart, the number of keys.
fn payload(block: &[u8], bits: u64) -> &[u8] {
    &block[..usize::try_from(bits.div_ceil(64) * 8).unwrap()]
}

// promise: threads
#[test]
fn threads_that_fill_one_filter_write_the_bytes_of_one_thread() {
    // Small, so that threads meet in each word; and with prefetches.
    for (bits, probes, count) in [(1, 1, 2), (63, 3, 10), (640, 7, 500), (100_000, 7, 20_000), (9_000_001, 5, 200_000)]
    {
        let hashes = keys(1, count);
        let hash = HashIdentity::default();
        let alone = filled(StandardBloom::with_shape(hash, bits, probes).unwrap(), &hashes);
        let (one, other) = hashes.split_at(hashes.len() / 3);
        let shared = AtomicBloom::with_shape(hash, bits, probes).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| shared.insert_all(one));
            scope.spawn(|| other.iter().filter(|&&hash| shared.insert(hash)).count());
            scope.spawn(|| shared.insert_all(&hashes));
        });
        let (blocks, context) = ([alone.to_block().unwrap(), shared.to_block().unwrap()], KeyHasher::default());
        assert_eq!(payload(&blocks[0], bits), payload(&blocks[1], bits), "{bits} bits");
        assert_eq!(shared.keys(), alone.estimated_keys(), "{bits} bits");
        assert_eq!(shared.health().fill_ratio, alone.health().fill_ratio);
        let taken_up = [
            AtomicBloom::from_block(&blocks[0], &context).unwrap(),
            AtomicBloom::from_block(&blocks[1], &context).unwrap(),
        ];
        let absent = keys(2, 5_000);
        for filter in taken_up {
            let mut matches = MatchBitmap::default();
            filter.contains_batch(&absent, &mut matches);
            assert!(hashes.iter().all(|&hash| filter.contains(hash) && !filter.insert(hash)));
            assert!(absent.iter().enumerate().all(|(at, &hash)| alone.contains(hash) == matches.may_contain(at)
                && filter.contains(hash) == alone.contains(hash)));
        }
    }
}

#[test]
fn filters_for_threads_are_merged_and_refused_like_others() {
    let filter = |bits| AtomicBloom::with_shape(HashIdentity::default(), bits, 3).unwrap();
    let (one, other) = (filter(1_000), filter(1_000));
    one.insert(KeyHash::mix(1));
    other.insert(KeyHash::mix(2));
    one.union(&other).unwrap();
    assert!(one.contains(KeyHash::mix(1)) && one.contains(KeyHash::mix(2)) && one.keys() == 2);
    let mismatch = FilterError::ShapeMismatch { expected: (1_000, 3), got: (1_001, 3) };
    assert_eq!(one.union(&filter(1_001)), Err(mismatch));
    let foreign = AtomicBloom::with_shape(HashIdentity::custom(1), 1_000, 3).unwrap();
    assert!(matches!(one.union(&foreign), Err(FilterError::HashMismatch { .. })));
    assert!(matches!(AtomicBloom::with_shape(HashIdentity::default(), 1 << 50, 3), Err(FilterError::TooLarge { .. })));
    assert!(AtomicBloom::with_shape(HashIdentity::default(), 0, 3).is_err());
}
