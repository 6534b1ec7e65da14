//! Binary fuse filters through the public interface. The failures guarded against: a build needs a hundred attempts at
//! some number of keys, or never ends (equal hashes, repeated keys where distinct ones are expected); a fallback goes
//! unnoticed; fingerprints repeat the bits that select the cells, so that the rate exceeds 2^-bits.
//!
//! The measured figures: `cargo test --test filters fuse:: -- --nocapture`.

use crate::common::{self, effort};
use sstfilter::kind::BinaryFuseKind;
use sstfilter::{
    BuildContext, BuiltFilter, FallbackReason, FalsePositiveRate, FilterBlock, FilterPolicy, FixedPolicy, KeyHash,
    KeyHasher, KindId, Sizing,
};

const WIDTHS: core::ops::RangeInclusive<u8> = 4..=32;
const ARITIES: [u8; 2] = [3, 4];

fn fuse(arity: u8, bits: u8) -> FixedPolicy {
    FixedPolicy::from(BinaryFuseKind::new(arity, Sizing::FingerprintBits(bits)).unwrap())
}

fn is_fuse(built: &BuiltFilter) -> bool {
    built.report.used == Some(KindId::BINARY_FUSE)
}

fn denies_none(built: &BuiltFilter, hashes: &[KeyHash]) {
    let filter = FilterBlock::open_unverified(built.block.as_ref().unwrap()).unwrap();
    filter.verify().unwrap();
    assert_eq!(common::matches(&filter, hashes.iter().copied()), hashes.len() as u64, "a key is absent");
}

#[test]
fn the_size_function_is_what_the_encoder_writes_and_no_key_is_denied_at_any_width() {
    let all: Vec<KeyHash> = common::key_set(0, 100_000).collect();
    for arity in ARITIES {
        for bits in WIDTHS {
            let policy = fuse(arity, bits);
            for keys in (0..70).chain([100, 255, 256, 257, 1_000, 3_551, 11_500, 37_454, 100_000]) {
                let built = common::build(&policy, &all[..keys]);
                assert!(is_fuse(&built), "{keys} keys, {bits} bits: {:?}", built.report);
                let said = policy.block_bytes(keys as u64).unwrap();
                assert_eq!(built.block.as_ref().unwrap().len() as u64, said, "{keys} keys, {bits} bits");
                denies_none(&built, &all[..keys]);
            }
        }
    }
}

#[test]
fn whole_blocks_are_as_small_as_they_are_said_to_be() {
    let at_most = [
        (3, 10_000, 1.29),
        (3, 100_000, 1.19),
        (3, 1_000_000, 1.132),
        (4, 10_000, 1.21),
        (4, 100_000, 1.13),
        (4, 1_000_000, 1.072),
    ];
    for (arity, keys, at_most) in at_most {
        let per_key = fuse(arity, 8).block_bytes(keys).unwrap() as f64 / keys as f64;
        println!("{arity:?}, {keys} keys: {per_key:.4} bytes per key at 8 bits");
        assert!(per_key <= at_most, "{arity:?}, {keys} keys: {per_key}, at most {at_most}");
    }
}

/// Every width with both arities in the long form, otherwise with one of them in turn.
#[test]
fn the_rate_is_two_to_the_minus_bits_whatever_the_number_of_keys() {
    let with_each_arity = |widths: [u8; 7]| {
        let all = ARITIES.into_iter().flat_map(move |arity| widths.map(|bits| (arity, bits)));
        all.step_by(effort::sample(2))
    };
    for (arity, bits) in with_each_arity([4, 5, 7, 8, 9, 12, 16]) {
        for (keys, absent, sets) in
            [(1_u32, 4_000_u32, 100), (40, 20_000, 20), (1_000, 200_000, 5), (100_000, 2_000_000, 1)]
        {
            let matches = (0..sets).map(|set| {
                let hashes: Vec<KeyHash> = common::key_set(set, keys).collect();
                let built = common::build(&fuse(arity, bits), &hashes);
                let filter = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
                common::matches(&filter, common::key_set(1_000 + set, absent))
            });
            let (matches, asked) = (matches.sum::<u64>() as f64, f64::from(absent) * f64::from(sets));
            let rate = 0.5_f64.powi(i32::from(bits));
            let sigma = (asked * rate * (1.0 - rate)).sqrt();
            assert!((matches - asked * rate).abs() < 5.0 * sigma, "{arity:?}, {bits} bits, {keys} keys: {matches}");
        }
    }
    let hashes: Vec<KeyHash> = common::key_set(0, 100_000).collect();
    let absent = 3_000_000;
    for (arity, bits) in with_each_arity([17, 18, 20, 25, 26, 31, 32]) {
        let filter = FilterBlock::open_unverified(common::build(&fuse(arity, bits), &hashes).block.unwrap()).unwrap();
        let expected = f64::from(absent) * 0.5_f64.powi(i32::from(bits));
        let matches = common::matches(&filter, common::key_set(1_000, absent)) as f64;
        assert!((matches - expected).abs() < 5.0 * expected.sqrt() + 2.0, "{arity:?}, {bits} bits: {matches}");
    }
}

/// The reason for widths between 16 and 32: with only these two, a rate of 1e-5 would take 36.9 bits per key.
#[test]
fn a_rate_of_one_in_a_hundred_thousand_costs_seventeen_bits_and_not_thirty_two() {
    let policy = FixedPolicy::binary_fuse(FalsePositiveRate::new(1e-5).unwrap()).unwrap();
    let bits_per_key = policy.block_bytes(1_000_000).unwrap() as f64 * 8.0 / 1e6;
    assert!((19.1..19.3).contains(&bits_per_key), "{bits_per_key}");
}

/// Keys in ascending and in random order; once, twice, and many times.
// promise: same-bytes
#[test]
fn keys_that_come_again_in_any_order_give_the_same_block() {
    for arity in ARITIES {
        for keys in [0_u32, 1, 2, 100, 3_551, 40_000] {
            for bits in [7, 8, 16, 17, 25, 26, 31, 32] {
                let policy = fuse(arity, bits).with_self_check();
                let hashes: Vec<KeyHash> = common::key_set(7, keys).collect();
                let mut sorted = hashes.clone();
                sorted.sort_unstable();
                let expected = common::build(&policy, &hashes);
                let each_thrice: Vec<KeyHash> = sorted.iter().flat_map(|&hash| [hash; 3]).collect();
                let in_rounds = [&hashes[..], &sorted, &hashes].concat();
                for added in [&hashes, &sorted, &each_thrice, &in_rounds] {
                    let built = common::build(&policy, added);
                    assert_eq!(built.block, expected.block, "{keys} keys, {bits} bits");
                    assert_eq!(built.report.attempts, expected.report.attempts);
                    assert_eq!(built.report.keys_added, added.len() as u64);
                    assert_eq!(built.report.distinct_keys, u64::from(keys));
                }
                let one_often = [vec![KeyHash::from_well_mixed(5); 400], hashes].concat();
                let alternating: Vec<KeyHash> = one_often.iter().chain(&one_often).rev().copied().collect();
                assert_eq!(common::build(&policy, &alternating).block, common::build(&policy, &one_often).block);
            }
        }
    }
}

/// With the first salt, all of them share one cell.
#[test]
fn hashes_whose_high_bits_are_alike_take_another_salt_however_often_they_come() {
    for arity in ARITIES {
        let policy = fuse(arity, 8).with_self_check();
        let once = common::key_set(7, 10_000).map(|hash| KeyHash::from_well_mixed(hash.get() >> 24));
        let [expected, built] = [1, 2].map(|repeats| {
            let hashes: Vec<KeyHash> = (0..repeats).flat_map(|_| once.clone()).collect();
            common::build(&policy, &hashes)
        });
        assert!(is_fuse(&expected) && expected.report.attempts > 1);
        assert_eq!((built.block, built.report.attempts), (expected.block, expected.report.attempts));
    }
}

// promise: never-fails-a-write
#[test]
fn hashes_that_are_not_well_mixed_end_soon_and_lose_no_key() {
    type Make = fn(u64) -> u64;
    let makes: [(&str, Make); 9] = [
        ("0, 1, 2, ...", |number| number),
        ("the last ones", |number| u64::MAX - number),
        ("all equal", |_| 7),
        ("few different ones", |number| number % 5),
        ("high bits alone", |number| number << 40),
        ("one half alike", |number| if number % 2 == 0 { KeyHash::mix(number).get() } else { number }),
        ("high bits alike", |number| KeyHash::mix(number).get() >> 20),
        ("low bits alike", |number| KeyHash::mix(number).get() << 20),
        ("each twice", |number| KeyHash::mix(number / 2).get()),
    ];
    for (what, make) in makes {
        for count in [2, 1_000, 200_000] {
            let hashes: Vec<KeyHash> = (0..count).map(|number| KeyHash::from_well_mixed(make(number))).collect();
            for arity in ARITIES {
                let policy = fuse(arity, 8).with_self_check();
                let built = common::build(&policy, &hashes);
                println!("{arity:?}, {what}, {count}: {:?}, {} attempts", built.report.used, built.report.attempts);
                assert!(is_fuse(&built) || built.report.reason == FallbackReason::ConstructionFailed);
                denies_none(&built, &hashes);
            }
        }
        let hashes: Vec<KeyHash> = (0..96_000).map(|number| KeyHash::from_well_mixed(make(number))).collect();
        for arity in ARITIES {
            common::assert_not_quadratic(&fuse(arity, 8), &hashes, what);
        }
    }
}

// promise: bounded-memory
#[test]
fn a_memory_budget_below_what_building_takes_gives_a_bloom_filter_of_the_same_rate() {
    let hashes: Vec<KeyHash> = common::key_set(0, 10_000).collect();
    let policy = fuse(3, 8);
    let needed = policy.plan(10_000, None).unwrap().build_bytes;
    let built_within = |bytes| {
        let context = BuildContext::new(&KeyHasher::default()).with_memory_budget(bytes);
        common::build_in(&policy as &dyn FilterPolicy, &context, &hashes)
    };
    assert!(is_fuse(&built_within(needed)));
    let built = built_within(needed - 1);
    assert_eq!(built.report.reason, FallbackReason::MemoryBudget);
    assert!(built.report.expected_fpr <= 1.001 / 256.0 && built.report.expected_fpr > 0.9 / 256.0);
    denies_none(&built, &hashes);
}
