//! Faults that users of other filter libraries and engines reported, tried on filters of every kind. `docs/reports.md`
//! lists all reports that were tried, and the tests of those that concern files, ranges and tables.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../common/mod.rs"]
mod common;

use sstfilter::{
    BitsPerKey, BuiltFilter, CountingBloom, CuckooFilter, DynamicFilter, FalsePositiveRate, FilterBlock, FixedPolicy,
    HashIdentity, KeyHash, KeyHasher, MatchBitmap, RegisterBlockedBloom, StandardBloom, kind,
};

use crate::common::{build, effort, key_set};

fn fpr(rate: f64) -> FalsePositiveRate {
    FalsePositiveRate::new(rate).unwrap()
}

/// A policy of each kind that has filters of this rate, however few the keys, and the kind's name.
fn policies(rate: f64) -> Vec<(&'static str, FixedPolicy)> {
    let policy = |entry: &kind::KindEntry| Some((entry.name, entry.configure(fpr(rate)).ok()?.with_min_keys(0)));
    let policies: Vec<_> = kind::all().iter().filter_map(policy).collect();
    assert!(policies.len() >= 7, "{policies:?}");
    policies
}

fn open(built: &BuiltFilter) -> FilterBlock<&[u8]> {
    let filter = FilterBlock::open_unverified(&built.block.as_ref().unwrap()[..]).unwrap();
    filter.verify().unwrap();
    filter
}

/// The number of positives, by batches and, for every eighth hash, one by one.
fn positives<'a>(filter: &FilterBlock<&[u8]>, hashes: impl IntoIterator<Item = &'a [KeyHash]>) -> u64 {
    let mut matches = MatchBitmap::default();
    let count = |hashes: &[KeyHash]| {
        filter.may_contain_batch(hashes, &mut matches);
        for (index, &hash) in hashes.iter().enumerate().step_by(8) {
            assert_eq!(filter.may_contain(hash), matches.may_contain(index), "{hash:?}");
        }
        matches.count()
    };
    hashes.into_iter().map(count).sum()
}

fn assert_has_all(filter: &FilterBlock<&[u8]>, hashes: &[KeyHash], what: &str) {
    assert_eq!(positives(filter, [hashes]), hashes.len() as u64, "{what}: a key is lost");
}

/// Five standard errors above `factor` times a rate, for the mean of `probes` probes.
fn most(rate: f64, probes: f64, factor: f64) -> f64 {
    factor * rate + 5.0 * (rate / probes).sqrt()
}

/// Filters by peeling did not end, or lost keys, when keys came more than once.
#[test]
fn keys_that_come_many_times_are_found() {
    for (distinct, times) in [(1, 2), (1, 100_000), (2, 10_000), (3, 3), (50, 400), (1_000, 40), (20_000, 2)] {
        let once: Vec<KeyHash> = key_set(1, distinct).collect();
        let grouped: Vec<KeyHash> = once.iter().flat_map(|&hash| vec![hash; times]).collect();
        let in_rounds = once.repeat(times);
        for (name, policy) in policies(0.01) {
            for added in [&grouped, &in_rounds] {
                let built = build(&policy, added);
                assert_has_all(&open(&built), &once, &format!("{name}, {distinct} keys x {times}"));
                assert_eq!(
                    built.report.used,
                    Some(policy.kind()),
                    "{name}, {distinct} keys x {times}: {:?}",
                    built.report
                );
            }
        }
    }
}

/// Builds looped endlessly, panicked or lost keys at 0, 2, 3 or 15 keys. A file of 18 terms got a filter of 64 KiB.
#[test]
fn few_keys_are_found_whatever_their_number_and_take_few_bytes() {
    for (name, policy) in policies(0.01) {
        for keys in 0..=128 {
            for set in (0..8).step_by(effort::strides(2, 4)) {
                let hashes: Vec<KeyHash> = key_set(set, keys).collect();
                let built = build(&policy, &hashes);
                assert_eq!(built.report.used, Some(policy.kind()), "{name}, {keys} keys: {:?}", built.report);
                assert_has_all(&open(&built), &hashes, &format!("{name}, {keys} keys"));
                let (bytes, at_most) = (built.report.block_bytes, 250 + 4 * u64::from(keys));
                assert!(bytes <= at_most, "{name}, {keys} keys: {bytes} bytes, at most {at_most}");
            }
        }
    }
    assert!((1..=32).all(|keys| FixedPolicy::default().block_bytes(keys) <= Some(108)));
}

/// A filter of 20 keys at 51 bits each had a million times the rate of the usual formula.
#[test]
fn filters_of_few_keys_have_the_rate_that_they_state() {
    let sets = 80 / u32::try_from(effort::strides(2, 8)).unwrap();
    let (absent, bits): (Vec<KeyHash>, _) = (key_set(1_000, 4_000).collect(), BitsPerKey::new(51.0).unwrap());
    let probes = f64::from(sets) * absent.len() as f64;
    let of_51_bits = kind::all().iter().filter_map(|entry| Some((entry.name, entry.configure(bits).ok()?)));
    for (name, policy) in policies(0.01).into_iter().chain(of_51_bits) {
        for keys in [1, 2, 3, 8, 20, 64] {
            let (mut found, mut stated) = (0, 0.0);
            for set in 0..sets {
                let built = build(&policy.clone().with_min_keys(0), &key_set(set, keys).collect::<Vec<_>>());
                found += positives(&open(&built), [&absent[..]]);
                stated += built.report.expected_fpr / f64::from(sets);
            }
            let rate = found as f64 / probes;
            assert!(rate <= most(stated, probes, 1.5), "{name}, {keys} keys: {rate}, stated {stated}");
        }
    }
}

/// A filter for no key had 2^32 - 1 probes, and its first insertion did not end.
#[test]
fn growing_filters_of_any_expected_number_of_keys_take_keys() {
    type ForRate = fn(HashIdentity, u64, FalsePositiveRate) -> Option<Box<dyn DynamicFilter>>;
    let kinds: [ForRate; 4] = [
        |hash, keys, rate| Some(Box::new(StandardBloom::for_rate(hash, keys, rate).ok()?)),
        |hash, keys, rate| Some(Box::new(CountingBloom::for_rate(hash, keys, rate).ok()?)),
        |hash, keys, rate| Some(Box::new(CuckooFilter::for_rate(hash, keys, rate).ok()?)),
        |hash, keys, rate| Some(Box::new(RegisterBlockedBloom::for_rate(hash, keys, rate).ok()?)),
    ];
    for for_rate in kinds {
        for keys in [0, 1, 2, 4, 8, 16, 64, 1 << 16] {
            for rate in [0.5, 0.01, 1e-3] {
                let mut filter = for_rate(HashIdentity::default(), keys, fpr(rate)).unwrap();
                for hash in key_set(3, 8) {
                    filter.try_insert(hash).unwrap();
                    assert!(filter.contains(hash), "{:?}, {keys} keys at {rate}", filter.kind());
                }
            }
        }
    }
}

/// Thousands of positives among 10^8 probes of a filter for 10^-12.
#[test]
fn low_rates_are_kept() {
    const KEYS: u32 = 20_000;
    let probes = u32::try_from(1 << 20 >> (effort::strides(4, 16) - 1).count_ones()).unwrap();
    let (hashes, absent): (Vec<KeyHash>, Vec<KeyHash>) = (key_set(4, KEYS).collect(), key_set(5, probes).collect());
    for rate in [1e-4, 1e-6, 1e-7] {
        for (name, policy) in policies(rate) {
            let built = build(&policy, &hashes);
            let filter = open(&built);
            assert_has_all(&filter, &hashes, name);
            let (found, stated) = (positives(&filter, absent.chunks(1 << 12)), built.report.expected_fpr);
            let at_most = most(stated, f64::from(probes), 1.05) * f64::from(probes) + 5.0;
            assert!(stated <= rate * 1.000_001, "{name}: {stated}, asked for {rate}");
            assert!(found as f64 <= at_most, "{name} at {rate}: {found} positives, at most {at_most}");
        }
    }
}

/// With 10^9 keys, a rate of one percent became 50 to 90 percent, because only 32 bits of the hashes counted. Here
/// every probe agrees with a key in 32 bits, as most do there; `huge` has filters of so many bits and keys.
#[test]
fn hashes_that_agree_in_32_bits_are_told_apart() {
    const KEYS: u32 = 50_000;
    let hashes: Vec<KeyHash> = key_set(6, KEYS).collect();
    let others: Vec<KeyHash> = key_set(7, KEYS).collect();
    for (what, mask) in [("upper", u64::MAX << 32), ("lower", u64::MAX >> 32), ("middle", u64::MAX >> 32 << 16)] {
        let mixed =
            |(hash, other): (&KeyHash, &KeyHash)| KeyHash::from_well_mixed(hash.get() & mask | other.get() & !mask);
        let probed: Vec<KeyHash> = hashes.iter().zip(&others).map(mixed).collect();
        // In a line of blocked Bloom, 32 bits of the hash count. At low rates, that shows wherever lines agree, too.
        let low = policies(1e-5).into_iter().filter(|(name, _)| *name != "bloom");
        for (name, policy) in policies(0.005).into_iter().chain(low) {
            let built = build(&policy, &hashes);
            let rate = positives(&open(&built), [&probed[..]]) as f64 / f64::from(KEYS);
            let stated = built.report.expected_fpr;
            assert!(rate <= most(stated, f64::from(KEYS), 3.0), "{name}, the {what} bits agree: {rate}, {stated}");
        }
    }
}

/// The same at rates below 10^-8: of keys that agree in the bits that blocked Bloom uses within a line, each is found for
/// the other, so the rate of a line is at least one in 2^32 for each of its keys.
#[test]
fn no_lower_rate_is_stated_than_the_bits_of_hashes_allow() {
    let keys: Vec<KeyHash> = key_set(9, 5).collect();
    let bits = BitsPerKey::new(100.0).unwrap();
    let built = build(&FixedPolicy::bloom(bits).unwrap(), &keys);
    let others = (0..1_000).map(|other| KeyHash::mix(other).get() >> 32 << 32 | keys[0].get() << 32 >> 32);
    let others: Vec<KeyHash> = others.map(KeyHash::from_well_mixed).collect();
    assert_eq!(positives(&open(&built), [&others[..]]), 1_000, "one line, in which 32 bits count");
    let (stated, least) = (built.report.expected_fpr, keys.len() as f64 / 2.0_f64.powi(32));
    assert!(stated >= least * 0.99, "stated {stated}, and it has at least {least}");
}

/// Names of shapes of keys, and the keys by number.
type Shape = (&'static str, fn(u32) -> Vec<u8>);

const SHAPES: [Shape; 10] = [
    ("little-endian numbers of 4 bytes", |number| number.to_le_bytes().to_vec()),
    ("big-endian numbers of 8 bytes", |number| u64::from(number).swap_bytes().to_le_bytes().to_vec()),
    ("multiples of 4,096", |number| (u64::from(number) << 12).to_le_bytes().to_vec()),
    ("decimal digits", |number| number.to_string().into_bytes()),
    ("a name and digits", |number| format!("user:{number:010}").into_bytes()),
    ("digits before a long end", |number| [format!("{number:x}").as_bytes(), &[b'.'; 200]].concat()),
    ("digits behind a long start", |number| [&[0; 300][..], format!("{number:x}").as_bytes()].concat()),
    ("two letters", |number| (0..32).map(|bit| if number >> bit & 1 == 0 { b'a' } else { b'b' }).collect()),
    ("one bit in 1,024", |number| {
        let mut bytes = [0; 128];
        bytes[number as usize / 8 % 128] = 1 << (number % 8);
        [&bytes[..], &(number / 1_024).to_le_bytes()].concat()
    }),
    ("addresses", |number| {
        format!("https://host{}.example/a/{}?q={}", number % 7, number / 7, number % 3).into_bytes()
    }),
];

/// The rate depended on the shape of keys: consecutive numbers, few letters, equal ends.
#[test]
fn the_rate_does_not_depend_on_the_shape_of_keys() {
    const KEYS: u32 = 10_000;
    let probes = 60_000 / u32::try_from(effort::stride(3)).unwrap();
    let hasher = KeyHasher::default();
    for (shape, key) in SHAPES {
        let hashes: Vec<KeyHash> = (0..KEYS + probes).map(|number| hasher.hash(&key(number))).collect();
        let (present, absent) = hashes.split_at(KEYS as usize);
        for (name, policy) in policies(0.01) {
            let built = build(&policy, present);
            let filter = open(&built);
            assert_has_all(&filter, present, shape);
            let rate = positives(&filter, absent.chunks(1 << 12)) as f64 / f64::from(probes);
            let stated = built.report.expected_fpr;
            assert!(rate <= most(stated, f64::from(probes), 1.03), "{name}, {shape}: {rate}, stated {stated}");
        }
    }
}

/// A hash or checksum was wrong at some lengths, or where bytes were not aligned.
#[test]
fn hashes_and_checksums_are_right_at_every_length_and_alignment() {
    let byte = |index: u64| ((index * index * 2_654_435_761 + index * 40_503) >> 7).to_le_bytes()[0];
    let bytes: Vec<u8> = (0..1_200).map(byte).collect();
    let hashers = [0, 0x9e37_79b9_7f4a_7c15].map(KeyHasher::with_seed);
    let mut hashes = 0_u64;
    for length in 0..1_100 {
        let mut checksum = !0_u32;
        for &byte in &bytes[..length] {
            checksum =
                (0..8).fold(checksum ^ u32::from(byte), |sum, _| (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg()));
        }
        for offset in 0..6 {
            hashes = hashers
                .iter()
                .fold(hashes, |all, hasher| all.rotate_left(7) ^ hasher.hash(&bytes[offset..offset + length]).get());
            let shifted = [&vec![0; offset][..], &bytes[..length]].concat();
            assert_eq!(crc32c::crc32c(&shifted[offset..]), !checksum, "{length} bytes at {offset}");
        }
    }
    // By the reference implementation of XXH3-64, version 0.8.4.
    assert_eq!(hashes, 0x695f_9541_9eaf_1669);
}
