//! Standard Bloom filters in memory. The failures guarded against: dependent probes, which give small filters a higher
//! rate than the formula; and a filter that loses keys when it is stored, restored or merged.

#![expect(clippy::float_cmp, reason = "both are the same division")]

use sstfilter::{
    AtomicBloom, DynamicFilter, FilterBlock, FilterError, HashIdentity, KeyHash, KeyHasher, StandardBloom,
};

use crate::{common, keys};

fn filled(mut filter: StandardBloom, hashes: &[KeyHash]) -> StandardBloom {
    filter.insert_all(hashes);
    filter
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
        let absent = keys(2, 5_000);
        for block in blocks {
            let filter = AtomicBloom::from_block(&block, &context).unwrap();
            assert!(hashes.iter().all(|&hash| filter.contains(hash) && !filter.insert(hash)));
            assert!(absent.iter().all(|&hash| filter.contains(hash) == alone.contains(hash)));
        }
    }
}
