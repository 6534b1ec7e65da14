//! Figures from articles about filters, and the measured values. The failure guarded against: a page of this project
//! repeats a wrong figure, or corrects a right one.
//!
//! Each figure either holds, or is listed with the right one, and a comment gives the reason. The articles: *The Bloom
//! filter family, from Bloom to Ribbon*; *Bloom filters in storage engines*; *Two bits are better than one: Floe's
//! filter*; *Binary fuse filters, smaller and faster than Bloom filters*; *The Bloom filter as a pattern, with
//! questions*. `SSTFILTER_LONG=1` probes for ten times as many absent keys.

use sstfilter::{
    CountingBloom, CuckooFilter, DynamicFilter, FalsePositiveRate, FilterBlock, FixedPolicy, HashIdentity, KeyHash,
    KeyHasher, RegisterBlockedBloom, StandardBloom,
};

use crate::common;

/// The articles discuss filters of a million keys, or of so many that the number makes no difference.
const KEYS: u32 = 1_000_000;

/// Measured sizes are within this share of the stated ones.
const AS_MEASURED: f64 = 0.02;

/// The relative difference up to which a published size holds: rounding, trailers, and a tilde.
const AS_PUBLISHED: f64 = 0.025;

fn is_near(value: f64, other: f64, tolerance: f64) -> bool {
    (value / other - 1.0).abs() <= tolerance
}

/// Asserts that the published figure is within `tolerance` of the measured one.
fn holds(what: &str, published: f64, tolerance: f64, measured: f64) {
    assert!(is_near(measured, published, tolerance), "{what}: published {published}, measured {measured}");
}

/// Asserts that the published figure is wrong, and that `right` is measured.
fn differs(what: &str, published: f64, right: f64, measured: f64) {
    assert!(is_near(measured, right, AS_MEASURED), "{what}: {right} is stated here, measured {measured}");
    assert!(
        !is_near(measured, published, AS_PUBLISHED),
        "{what}: published {published}, which is measured: {measured}"
    );
}

fn fpr(rate: f64) -> FalsePositiveRate {
    FalsePositiveRate::new(rate).unwrap()
}

fn keys(count: u32) -> Vec<KeyHash> {
    common::key_set(0, count).collect()
}

/// The share of positives among `probes` absent keys, or ten times as many in the long form.
fn rate(probes: u32, contains: impl Fn(KeyHash) -> bool) -> f64 {
    let probes = if common::is_long() { probes * 10 } else { probes };
    let positives = common::key_set(1_000, probes).filter(|&hash| contains(hash)).count();
    positives as f64 / f64::from(probes)
}

fn standard_bloom(bits: u64, probes: u8, hashes: &[KeyHash]) -> StandardBloom {
    let mut filter = StandardBloom::with_shape(HashIdentity::default(), bits, probes).unwrap();
    filter.insert_all(hashes);
    filter
}

/// The block of a kind's filter of a rate. Kinds with fingerprints of 8 or 16 bits get the rate of one of these.
fn block(kind: &str, rate: f64, hashes: &[KeyHash]) -> Vec<u8> {
    let policy = common::policy(kind, fpr(rate)).with_min_keys(0);
    common::build(&policy, hashes).block.unwrap().to_vec()
}

fn bits_per_key(kind: &str, rate: f64, hashes: &[KeyHash]) -> f64 {
    block(kind, rate, hashes).len() as f64 * 8.0 / hashes.len() as f64
}

#[test]
fn the_best_size_and_number_of_probes_are_as_published() {
    let hashes = keys(KEYS);
    let published = [(0.1, 4.79, 3), (0.01, 9.58, 7), (1e-3, 14.36, 10), (1e-4, 19.15, 13), (1e-5, 23.94, 17)];
    for (asked, bits, probes) in published {
        let mut filter = StandardBloom::for_rate(HashIdentity::default(), KEYS.into(), fpr(asked)).unwrap();
        filter.insert_all(&hashes);
        holds("bits per key", bits, 0.01, filter.bits() as f64 / f64::from(KEYS));
        assert_eq!(filter.probes(), probes, "{asked}");
        // At the lowest rates, few of one or two million probes are positive.
        holds("rate", asked, 0.03 + 3.0 / (2e6 * asked).sqrt(), rate(2_000_000, |hash| filter.contains(hash)));
    }
    // The article multiplies the information bound, 6.64, by ln 2, and means the bits per key. Still, 7 is right.
    differs("6.64 ln 2", 6.9, 4.60, 6.64 * core::f64::consts::LN_2);
    holds("9.59 ln 2", 6.64, 0.01, 9.59 * core::f64::consts::LN_2);
}

#[test]
fn a_hundred_thousand_items_give_the_published_rate_and_not_the_published_estimate() {
    let hasher = KeyHasher::default();
    let hash = |name: &str, number: u32| hasher.hash(format!("{name}:{number}").as_bytes());
    let items: Vec<_> = (0..100_000).map(|number| hash("item", number)).collect();
    let filter = standard_bloom(958_506, 7, &items);
    assert!(items.iter().all(|&item| filter.contains(item)));
    let positives = (0..1_000_000).filter(|&number| filter.contains(hash("probe", number))).count();
    holds("rate of the program", 0.009_871, 0.03, positives as f64 / 1e6);
    // The article's formula yields 1.004 % for its bits, probes and keys; its figure is near that of ten bits per key.
    differs("estimated rate", 0.008_164_83, 0.010_04, filter.health().expected_fpr);
}

/// Whether a published figure is right.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Holds,
    Differs,
}

use Verdict::{Differs, Holds};

/// Kind, rate, bits per key as published and as measured.
const SIZES: &[(&str, f64, f64, f64, Verdict)] = &[
    // The article says 10 to 20 % above the standard filter, and takes all probes from one progression: independent
    // probes in lines of 512 bits do better down to 0.1 %.
    ("bloom", 1e-2, 10.5, 9.93, Differs),
    ("bloom", 1e-3, 16.0, 15.55, Differs),
    ("bloom", 1e-4, 21.0, 22.07, Differs),
    // Four times the standard filter.
    ("counting-bloom", 1e-2, 38.3, 38.37, Holds),
    ("counting-bloom", 1e-3, 57.4, 57.51, Holds),
    ("counting-bloom", 1e-4, 76.6, 76.69, Holds),
    // 1.05 times the tag, which is log2(1/rate) + 3 bits, rounded up.
    ("cuckoo", 1e-2, 10.5, 10.53, Holds),
    ("cuckoo", 1e-3, 13.6, 13.68, Holds),
    ("cuckoo", 1e-4, 17.8, 17.90, Holds),
    // With bumping; the article's Ribbon, without, takes 1 to 5 % more than the information bound.
    ("ribbon", 1e-2, 6.8, 6.74, Holds),
    ("ribbon", 1e-3, 10.2, 10.00, Holds),
    ("ribbon", 1e-4, 13.6, 13.40, Holds),
    // 1.125 or 1.075 times the fingerprint, and more for few keys: no filter that is peeled reaches the 1.01 published.
    ("binary-fuse", 1e-2, 6.7, 7.91, Differs),
    ("binary-fuse", 1e-3, 10.1, 11.31, Differs),
    ("binary-fuse", 1e-4, 13.4, 15.83, Differs),
    ("binary-fuse-4", 1e-2, 6.7, 7.48, Differs),
    ("binary-fuse-4", 1e-3, 10.1, 10.69, Differs),
    ("binary-fuse-4", 1e-4, 13.4, 14.97, Differs),
];

/// Except in the long form, kinds whose size per key does not depend on the number of keys get a tenth of the keys.
#[test]
fn sizes_of_the_family_are_as_published_or_corrected() {
    let hashes = keys(KEYS);
    for &(kind, rate, published, right, verdict) in SIZES {
        let is_whole = common::is_long() || kind.starts_with("binary-fuse");
        let hashes = if is_whole { &hashes } else { &hashes[..KEYS as usize / 10] };
        let (what, measured) = (format!("{kind} at {rate}"), bits_per_key(kind, rate, hashes));
        match verdict {
            Holds => holds(&what, published, AS_PUBLISHED, measured),
            Differs => differs(&what, published, right, measured),
        }
        holds(&what, right, AS_MEASURED, measured);
    }
}

#[test]
fn sizes_of_xor_filters_are_as_published_or_corrected_on_the_line_through_8_and_16_bits() {
    let hashes = keys(KEYS);
    let line = |kind| {
        let (short, long) = (bits_per_key(kind, 1.0 / 256.0, &hashes), bits_per_key(kind, 1.0 / 65_536.0, &hashes));
        move |fingerprint: f64| short + (long - short) / 8.0 * (fingerprint - 8.0)
    };
    let (xor, xor_plus) = (line("xor"), line("xor+"));
    holds("xor at 1 %", 8.61, AS_PUBLISHED, xor(7.0));
    holds("xor at 0.1 %", 12.30, AS_PUBLISHED, xor(10.0));
    // The fingerprint has 14 bits, by the article's own formula, and not 13.
    differs("xor at 0.01 %", 16.00, 17.22, xor(14.0));
    // Recording the empty cells takes bits as well. The three blocks are equal, and only the third saves its empty
    // cells.
    differs("xor+ at 1 %", 7.56, 8.03, xor_plus(7.0));
    differs("xor+ at 0.1 %", 10.80, 11.28, xor_plus(10.0));
    differs("xor+ at 0.01 %", 14.04, 15.61, xor_plus(14.0));
    // 1 / 1.23.
    differs("information bound over the size of xor", 0.77, 0.813, 8.0 / xor(8.0));
}

#[test]
fn deleting_after_counters_have_overflowed_loses_no_key() {
    // Published: present keys become absent. But a counter that has reached 15 is never decremented, so it can only
    // raise the false positive rate. The article says so itself when it explains saturation.
    let mut filter = CountingBloom::for_rate(HashIdentity::default(), 10_000, FalsePositiveRate::ONE_PERCENT).unwrap();
    let (kept, repeated) = (keys(10_000), common::key_set(1, 100).collect::<Vec<_>>());
    filter.insert_all(&kept);
    for _ in 0..40 {
        filter.insert_all(&repeated);
    }
    assert!(filter.saturated() > 500, "{}", filter.saturated());
    for _ in 0..40 {
        repeated.iter().for_each(|&hash| filter.remove(hash).unwrap());
    }
    assert!(kept.iter().all(|&hash| filter.contains(hash)));
}

#[test]
fn cuckoo_is_smaller_than_bloom_below_the_thousandth_and_not_below_three_percent() {
    // A tag has log2(1/rate) + 3 bits, rounded up: at 1 % cuckoo takes 10.5 bits and Bloom 9.6. 3 % is right for
    // buckets with sorted tags, which save a bit. Rounding makes cuckoo smaller at a rate, and not yet at a lower one.
    let rates = core::iter::successors(Some(0.05), |rate| Some(rate * 0.985)).take_while(|&rate| rate > 1e-4);
    let is_smaller = |rate: f64| {
        let (hash, count, rate) = (HashIdentity::default(), u64::from(KEYS), fpr(rate));
        let bloom = StandardBloom::for_rate(hash, count, rate).unwrap().to_block().unwrap().len();
        CuckooFilter::for_rate(hash, count, rate).unwrap().to_block().unwrap().len() < bloom
    };
    let smaller: Vec<_> = rates.map(|rate| (rate, is_smaller(rate))).collect();
    let earliest = smaller.iter().find(|(_, is_smaller)| *is_smaller).unwrap().0;
    let for_good = smaller.iter().rev().take_while(|(_, is_smaller)| *is_smaller).last().unwrap().0;
    differs("earliest", 0.03, 0.003_83, earliest);
    differs("for good", 0.03, 0.000_83, for_good);

    let mut filter = CuckooFilter::for_rate(HashIdentity::default(), KEYS.into(), fpr(0.01)).unwrap();
    assert!(common::key_set(0, 2 * KEYS).any(|hash| filter.insert(hash).is_err()));
    holds("fill when the first key finds no slot", 0.955, 0.03, filter.health().fill_ratio);
}

#[test]
fn ten_bits_in_one_line_let_through_what_rocksdb_does_and_not_what_is_published() {
    // The published 0.84 % is nearly the 0.82 % of a filter without lines. RocksDB's lines, of 512 bits and not bytes,
    // give 0.95 to 0.97 % like ours.
    let built = common::build(&FixedPolicy::default(), &keys(KEYS));
    let filter = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
    differs("RocksDB's default", 0.0084, 0.0097, rate(5_000_000, |hash| filter.may_contain(hash)));
}

#[test]
fn an_absent_key_in_seventy_files_is_read_from_0_7_of_them() {
    let policy = FixedPolicy::bloom(FalsePositiveRate::ONE_PERCENT).unwrap();
    let filters = common::on_all_cores(70, |file| {
        let hashes: Vec<_> = common::key_set(u32::try_from(file).unwrap(), 2_000).collect();
        FilterBlock::open_unverified(common::build(&policy, &hashes).block.unwrap()).unwrap()
    });
    let reads: f64 = filters.iter().map(|filter| rate(20_000, |hash| filter.may_contain(hash))).sum();
    holds("needless reads", 0.7, 0.05, reads);
}

#[test]
fn a_million_keys_in_so_many_megabytes_are_meant_in_megabits() {
    let hashes = keys(KEYS);
    let rate_of = |bits_per_key: u64, probes| {
        let filter = standard_bloom(bits_per_key * u64::from(KEYS), probes, &hashes);
        rate(1_000_000, |hash| filter.contains(hash))
    };
    // Megabytes, probes, the published rate, and the rate in megabits: at 8 and 5 bits per key not even that is as
    // published.
    for (size, probes, published, in_megabits) in [(10, 7, 0.01, 0.0083), (8, 6, 0.01, 0.0217), (5, 6, 0.05, 0.117)] {
        assert!(rate_of(size * 8, probes) < published / 1_000.0, "{size} megabytes");
        holds("rate in megabits", in_megabits, 0.05, rate_of(size, probes));
    }
}

/// Floe's filter: words of 32 bits, and a key's bits in one of them.
fn floe(bits_per_key: u32, hashes: &[KeyHash]) -> impl Fn(KeyHash) -> bool + use<> {
    let mask =
        move |hash: KeyHash| (0..bits_per_key).fold(0, |mask, bit| mask | 1_u32 << (hash.get() >> (5 * bit) & 31));
    let word = |hash: KeyHash| usize::try_from(hash.get() >> 48).unwrap();
    let mut words = vec![0; 1 << 16];
    hashes.iter().for_each(|&hash| words[word(hash)] |= mask(hash));
    move |hash| words[word(hash)] & mask(hash) == mask(hash)
}

#[test]
fn floes_rates_and_the_keys_that_it_holds_are_as_published() {
    const WORDS: [u8; 3] = [2, 3, 4];
    let empty = |probes| RegisterBlockedBloom::with_shape(HashIdentity::default(), 256 << 10, probes).unwrap();
    let rate_of = |probes, count| {
        let filter = empty(probes);
        filter.insert_all(&keys(count));
        rate(1_000_000, |hash| filter.contains(hash))
    };
    let quarter_million = keys(256 << 10);
    holds("one bit", 0.1168, 0.03, rate(1_000_000, floe(1, &quarter_million)));
    // The two are at most 31 apart, not at least 32, and one key in 32 sets only one.
    holds("two bits in a word of 32", 0.0569, 0.03, rate(1_000_000, floe(2, &quarter_million)));
    // Not published: the wider word has fewer false positives and costs nothing on a 64-bit machine. Contrary to the
    // article, four bits still fit one word and one atomic operation.
    holds("two bits in a word of 64", 0.0532, 0.02, rate_of(2, 256 << 10));
    holds("four bits in a word of 64", 0.0335, 0.02, rate_of(4, 256 << 10));

    // Keys that 256 KiB hold at 5 %: with one bit, -ln(0.95) for each of the 2^21 bits.
    holds("keys with one bit", 100_000.0, 0.1, -(0.95_f64.ln()) * f64::from(1_u32 << 21));
    for (probes, published) in WORDS.into_iter().zip([253_000.0, 306_000.0, 320_000.0]) {
        let most = (1_u32..1_000_000)
            .map(|thousand| thousand * 1_000)
            .find(|&keys| empty(probes).expected_fpr(keys.into()) > 0.05);
        holds("keys", published, 0.1, most.unwrap().into());
        holds("their rate", 0.05, 0.03, rate_of(probes, most.unwrap()));
    }
}

#[test]
fn fuse_filters_have_the_published_sizes_and_rates() {
    let hashes = keys(KEYS);
    // Sizes are 1.125 cells for each key; fewer than a million keys take more. The published 87 % is bound over size,
    // which the article reads as 87 % of the bound. It also claims that twice the bits do not square the rate, but they
    // do.
    for (bits, bits_published, rate_published, tolerance) in [(8, 9.01, 0.0039, 0.03), (16, 18.01, 1.5e-5, 0.35)] {
        let block = block("binary-fuse", 0.5_f64.powi(bits), &hashes);
        holds("bits per key", bits_published, 0.01, block.len() as f64 * 8.0 / f64::from(KEYS));
        holds("bound over size", 0.87, 0.03, f64::from(bits) * f64::from(KEYS) / (block.len() as f64 * 8.0));
        let filter = FilterBlock::open_unverified(block).unwrap();
        holds("rate", rate_published, tolerance, rate(8_000_000, |hash| filter.may_contain(hash)));
    }
}

#[test]
fn eight_hundred_keys_in_a_thousand_bits_fill_them_as_published() {
    // Filters of a thousand bits differ, so this takes the mean of 200.
    let mean = |bits, probes| {
        let one = |set| {
            let filter = standard_bloom(bits, probes, &common::key_set(set, 800).collect::<Vec<_>>());
            (filter.health().fill_ratio / 200.0, rate(20_000, |hash| filter.contains(hash)) / 200.0)
        };
        (0..200).map(one).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let (fill, saturated) = mean(1_000, 3);
    holds("fill", 0.91, 0.02, fill);
    holds("rate", 0.75, 0.02, saturated);
    // The mean over all filters is (1 - (1 - 1/m)^(kn))^k.
    let expected = |bits: u32| (1.0 - (1.0 - 1.0 / f64::from(bits)).powi(3 * 800)).powi(3);
    let least = (1_000..1_000_000).find(|&bits| expected(bits) <= 0.01).unwrap();
    differs("bits at 1 % with three probes", 11_500.0, 9_892.0, least.into());
    holds("rate of as many", 0.01, 0.03, mean(least.into(), 3).1);
    // A rule of thumb on the safe side.
    holds("rate of ten bits per key", 0.01, 0.25, mean(8_000, 7).1);
}
