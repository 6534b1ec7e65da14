//! False positive rates and sizes of range filters. The failure guarded against: a filter loses no key, but has more
//! false positives than its formula says, because ranges that start next to a key are treated differently, or because a
//! map clusters its codes. Nobody notices, and scans read files in vain.
//!
//! To print the measured rates: `cargo test -p sstfilter-range --test format rates:: -- --nocapture`.

use std::ops::Range;
use std::sync::Arc;

use byteorder::{BigEndian, ByteOrder};
use sstfilter::{BuildContext, FalsePositiveRate, FixedPrefix, KeyHasher, KeyRange};
use sstfilter_range::{RangeContext, RangeFilter, RangePolicy, RangeUnits};

use crate::common::effort::{self, is_long};
use crate::common::random::Random;

const ONE_PERCENT: FalsePositiveRate = FalsePositiveRate::ONE_PERCENT;
const KEYS: usize = 200_000;

/// Number of ranges of each kind to probe.
fn ranges() -> usize {
    if is_long() { 200_000 } else { 50_000 }
}

/// Returns distinct sorted numbers.
fn numbers(seed: u64, count: usize) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut numbers: Vec<u64> = (0..count).map(|_| random.next()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn bytes(number: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    BigEndian::write_u64(&mut bytes, number);
    bytes
}

fn build<K: AsRef<[u8]>>(policy: &RangePolicy, keys: &[K]) -> RangeFilter<bytes::Bytes> {
    let hasher = KeyHasher::default();
    let mut builder = policy.builder(&BuildContext::new(&hasher));
    keys.iter().for_each(|key| builder.add_key(key.as_ref()));
    let context = RangeContext::new(&hasher, policy.extractor());
    RangeFilter::load(builder.finish().block.unwrap(), context).unwrap()
}

/// Returns the share of positive ranges.
fn rate<K: AsRef<[u8]>>(filter: &RangeFilter<bytes::Bytes>, ranges: &[Range<K>]) -> f64 {
    let positives =
        ranges.iter().filter(|range| filter.may_contain_range(range.start.as_ref()..range.end.as_ref())).count();
    positives as f64 / ranges.len() as f64
}

/// Whether the range contains none of the sorted keys.
fn is_empty<K: Ord>(keys: &[K], range: &Range<K>) -> bool {
    keys.get(keys.partition_point(|key| *key < range.start)).is_none_or(|key| *key >= range.end)
}

fn assert_close(measured: f64, expected: f64, what: &str) {
    // Seeds are fixed, so four standard deviations hold in every run or in none.
    let sigma = (expected * (1.0 - expected) / ranges() as f64).sqrt();
    println!("{what}: {:.4} %, by the formula {:.4} %", measured * 100.0, expected * 100.0);
    assert!((measured - expected).abs() <= 4.0 * sigma, "{what}: {measured}, expected {expected}, sigma {sigma}");
}

/// Returns empty ranges of `units` that start anywhere, or right after a key.
fn empty_ranges(keys: &[u64], units: u64, starts_beside_key: Option<u64>, count: usize) -> Vec<Range<u64>> {
    // Other ranges for each length, but the same in every run.
    let mut random = Random::new(units ^ 0x5eed);
    let starts = std::iter::repeat_with(|| match starts_beside_key {
        Some(gap) => random.pick(keys).checked_add(gap),
        None => Some(random.next()),
    });
    let ranges = starts.filter_map(|start| Some(start?..start?.checked_add(units)?));
    ranges.filter(|range| is_empty(keys, range)).take(count).collect()
}

// promise: range-filters
#[test]
fn hashed_codes_of_integers_have_the_rate_of_the_formula_wherever_ranges_start() {
    let keys = numbers(1, KEYS);
    let keys_bytes: Vec<_> = keys.iter().map(|&key| bytes(key)).collect();
    for length_log2 in [0, 5, 10, 20] {
        let units = 1 << length_log2;
        let policy = RangePolicy::hashed(RangeUnits::integer(8).unwrap(), units, ONE_PERCENT).unwrap();
        let filter = build(&policy, &keys_bytes);
        // Ranges eight times as long as declared have proportionally more false positives.
        for (units, place) in [(units, None), (units, Some(1)), (units, Some(1_000)), (units * 8, None)] {
            let ranges: Vec<_> = empty_ranges(&keys, units, place, ranges());
            let ranges: Vec<_> = ranges.into_iter().map(|range| bytes(range.start)..bytes(range.end)).collect();
            let what = format!("hashed, 2^{length_log2} declared, {units} units, next to a key: {place:?}");
            assert_close(rate(&filter, &ranges), filter.info().expected_fpr(units), &what);
        }
    }
}

// promise: range-filters
#[test]
fn hashed_codes_inside_prefixes_have_the_rate_of_the_formula() {
    // A sensor's number, then a time: about twenty rows each, read from right after one of the rows.
    let mut random = Random::new(2);
    let row = |sensor: u64, time: u64| [bytes(sensor), bytes(time)].concat();
    let mut keys: Vec<(u64, u64)> = (0..KEYS).map(|_| (random.next() % 10_000, random.next() >> 16)).collect();
    keys.sort_unstable();
    keys.dedup();
    let keys_bytes: Vec<_> = keys.iter().map(|&(sensor, time)| row(sensor, time)).collect();
    for length_log2 in [0, 5, 10, 20] {
        let units = 1 << length_log2;
        let within = RangeUnits::integer(8).unwrap().with_prefix(Arc::new(FixedPrefix::new(8)));
        let filter = build(&RangePolicy::hashed(within, units, ONE_PERCENT).unwrap(), &keys_bytes);
        for is_beside_key in [false, true] {
            let starts = std::iter::repeat_with(|| {
                let &(sensor, time) = random.pick(&keys);
                (sensor, if is_beside_key { time + 1 } else { random.next() >> 16 })
            });
            let ranges = starts.map(|(sensor, start)| (sensor, start)..(sensor, start + units));
            let ranges = ranges.filter(|range| is_empty(&keys, range)).take(self::ranges());
            let ranges: Vec<_> =
                ranges.map(|range| row(range.start.0, range.start.1)..row(range.end.0, range.end.1)).collect();
            let what = format!("hashed in prefixes, {units} units, next to a key: {is_beside_key}");
            assert_close(rate(&filter, &ranges), filter.info().expected_fpr(units), &what);
        }
    }
}

#[test]
fn hashed_codes_of_keys_that_lie_close_have_at_most_the_rate_of_the_formula() {
    type Spread = fn(u64) -> u64;
    // Dense keys overfill lines, and keys in small groups cluster in them.
    let spreads: [(&str, Spread); 3] = [
        ("dense", |number| 1 << 40 | number),
        ("in tens", |number| ((number / 10) << 30) | ((number % 10) << 3)),
        ("apart", |n| n << 12),
    ];
    for (name, spread) in spreads {
        let keys: Vec<u64> = (0..KEYS as u64).map(spread).collect();
        let keys_bytes: Vec<_> = keys.iter().map(|&key| bytes(key)).collect();
        let policy = RangePolicy::hashed(RangeUnits::integer(8).unwrap(), 1 << 10, ONE_PERCENT).unwrap();
        let filter = build(&policy, &keys_bytes);
        assert!(keys_bytes.iter().all(|key| filter.may_contain_range(key..=key)));
        let ranges: Vec<_> = empty_ranges(&keys, 1 << 10, None, ranges());
        let ranges: Vec<_> = ranges.into_iter().map(|range| bytes(range.start)..bytes(range.end)).collect();
        let (measured, expected) = (rate(&filter, &ranges), filter.info().expected_fpr(1 << 10));
        let size = filter.info().bits_per_key();
        println!("{name}: {:.4} %, bound {:.4} %, {size:.2} bits per key", measured * 100.0, expected * 100.0);
        assert!(
            measured <= expected + 4.0 * (expected / ranges.len() as f64).sqrt(),
            "{name}: {measured}, bound {expected}"
        );
        assert!(size < 20.2, "{name}: {size} bits per key, 19.1 where keys are far apart");
    }
}

// promise: range-filters
#[test]
fn ordered_codes_have_at_most_the_rate_of_the_bound_for_evenly_spread_ends() {
    let keys = numbers(3, KEYS);
    let keys_bytes: Vec<_> = keys.iter().map(|&key| bytes(key)).collect();
    for rate_wanted in [0.1, 0.01, 0.001] {
        let filter = build(&RangePolicy::ordered(FalsePositiveRate::new(rate_wanted).unwrap()).unwrap(), &keys_bytes);
        let bound = 1.75 / f64::from(1 << filter.info().low_bits);
        for length_log2 in [0, 5, 10, 20, 40].into_iter().step_by(effort::sample(2)) {
            let of_place = |place, count| {
                let ranges: Vec<_> = empty_ranges(&keys, 1 << length_log2, place, count);
                rate(&filter, &ranges.into_iter().map(|range| bytes(range.start)..bytes(range.end)).collect::<Vec<_>>())
            };
            // The bounds leave little room for chance. Rates next to a key have no bound, and are only printed.
            let (anywhere, beside) =
                (of_place(None, 200_000), of_place(Some(1), if is_long() { 200_000 } else { 5_000 }));
            println!(
                "ordered at {rate_wanted}, 2^{length_log2} units: {:.4} %, bound {:.4} %; next to a key {:.2} %",
                anywhere * 100.0,
                bound * 100.0,
                beside * 100.0
            );
            assert!(anywhere <= bound, "{anywhere}, bound {bound}");
            assert!(anywhere <= rate_wanted * 1.4, "{anywhere}, wanted {rate_wanted}");
        }
    }
}

// promise: range-filters
#[test]
fn a_million_keys_take_the_bits_that_the_policies_promise() {
    let keys: Vec<_> = numbers(5, 1_000_000).into_iter().map(bytes).collect();
    let bounded =
        |length_log2: u32| RangePolicy::hashed(RangeUnits::integer(8).unwrap(), 1 << length_log2, ONE_PERCENT);
    let settings = [
        ("hashed, 2^5", bounded(5), 14.3),
        ("hashed, 2^10", bounded(10), 19.3),
        ("hashed, 2^20", bounded(20), 29.3),
        ("ordered", RangePolicy::ordered(ONE_PERCENT), 10.1),
    ];
    for (name, policy, most) in settings {
        let filter = build(&policy.unwrap(), &keys);
        let size = filter.info().bits_per_key();
        println!("{name}: {size:.2} bits per key, at most {most}");
        assert!(size <= most, "{name}: {size} bits per key");
        let mut asked = keys.iter().step_by(effort::sample(7));
        assert!(asked.all(|key| filter.may_contain_range(KeyRange::from(key..=key))), "{name} lost a key");
    }
}
