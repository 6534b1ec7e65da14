//! Checks expected rates, and that no key is lost, on filters built by these tests.

use sstfilter_interop::{Filter, HashFunction, build_leveldb_bloom};

use crate::{build, key};

/// Absent keys per rate, over all filters of a recipe.
const ABSENT: u64 = 400_000;
/// The tolerance, in standard deviations of the number of false positives. One run in a million exceeds it by chance,
/// and keys are fixed.
const DEVIATIONS: f64 = 5.0;

/// Builds `filters` filters of `keys` keys each, and probes them with [`ABSENT`] absent keys together. `model` is the
/// maximum error of the formula itself, as a fraction of the rate.
fn check(name: &str, filters: u64, keys: u64, model: f64, build: impl Fn(&[[u8; 16]]) -> Filter<Vec<u8>>) {
    let (mut rate, mut observed) = (0.0, 0_u32);
    for number in 0..filters {
        let stored: Vec<_> = (0..keys).map(|i| key(number << 32 | i)).collect();
        let filter = build(&stored);
        assert!(stored.iter().all(|key| filter.may_contain(key)), "{name}: a stored key is absent");
        let absent = (0..ABSENT / filters).filter(|i| filter.may_contain(&key(1 << 62 | number << 32 | i)));
        observed += u32::try_from(absent.count()).expect("few");
        if number == 0 {
            rate = filter.expected_fpr(keys).expect("a rate");
        }
    }
    let expected = rate * ABSENT as f64;
    let allowed = DEVIATIONS * expected.sqrt() + model * expected;
    let difference = (f64::from(observed) - expected).abs();
    assert!(difference <= allowed, "{name}: expected {expected:.0} of {ABSENT}, got {observed}");
}

fn hashes(keys: &[[u8; 16]], function: HashFunction) -> Vec<u64> {
    keys.iter().map(|key| function.hash(key)).collect()
}

fn rocksdb(bytes: Vec<u8>) -> Filter<Vec<u8>> {
    Filter::rocksdb(bytes).expect("a filter")
}

#[test]
fn fast_local_bloom_has_its_expected_rate() {
    for (bits_per_key, probes) in [(2.0, 1), (5.0, 3), (7.0, 5), (10.0, 6), (12.0, 8), (10.0, 12), (16.0, 9)] {
        check(&format!("FastLocalBloom, {bits_per_key} bits, {probes} probes"), 20, 10_000, 0.01, |keys| {
            rocksdb(build::fast_local_bloom(&hashes(keys, HashFunction::Xxph3), bits_per_key, probes))
        });
    }
}

#[test]
fn legacy_bloom_has_its_expected_rate_with_lines_of_any_machine() {
    for (bits_per_key, probes, line_bytes) in
        [(1.5, 1, 64), (5.0, 3, 64), (10.0, 6, 64), (16.0, 11, 64), (10.0, 6, 128), (10.0, 6, 256), (10.0, 6, 32)]
    {
        check(&format!("legacy Bloom, {bits_per_key} bits, lines of {line_bytes}"), 20, 10_000, 0.07, |keys| {
            let hashes = hashes(keys, HashFunction::RocksDbBloomHash);
            rocksdb(build::legacy_bloom(&hashes, bits_per_key, probes, line_bytes))
        });
    }
}

#[test]
fn ribbon_has_its_expected_rate_with_whole_and_broken_columns() {
    for (columns, lower_blocks) in [(1, 0), (1, 40), (3, 0), (7, 0), (7, 50), (8, 75), (10, 0)] {
        check(&format!("Ribbon, {columns} columns, {lower_blocks} blocks with less"), 20, 10_000, 0.01, |keys| {
            rocksdb(build::ribbon128(&hashes(keys, HashFunction::Xxph3), columns, lower_blocks))
        });
    }
}

#[test]
fn leveldb_bloom_has_its_expected_rate_from_few_keys_on() {
    for (filters, keys, bits_per_key) in [
        (40, 1_000, 5),
        (40, 1_000, 10),
        (40, 1_000, 16),
        (400, 100, 10),
        (2_000, 20, 5),
        (2_000, 20, 10),
        (2_000, 20, 20),
    ] {
        check(&format!("LevelDB Bloom, {keys} keys, {bits_per_key} bits"), filters, keys, 0.1, |keys| {
            Filter::leveldb(build_leveldb_bloom(keys, bits_per_key)).expect("a filter")
        });
    }
}
