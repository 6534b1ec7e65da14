//! Xor and xor+ filters through the public interface. The failures guarded against: a filter contains all of its keys,
//! but has a higher rate than its fingerprints allow, is larger than documented, or takes forever to build from unmixed
//! hashes.
//!
//! The measured sizes and rates: `cargo test --test filters xor:: -- --nocapture`.

use crate::common::{self, effort};
use sstfilter::kind::KindEntry;
use sstfilter::{
    BlockError, FallbackReason, FilterBlock, FilterPolicy, FixedPolicy, KeyHash, KindId, MatchBitmap, Sizing,
};

fn policy(layout: &'static str, width: u8) -> FixedPolicy {
    KindEntry::named(layout).unwrap().configure(Sizing::FingerprintBits(width)).unwrap()
}

/// Within five standard errors of the binomial distribution around 2^-w. Every policy with every number of keys in the
/// long form, otherwise one in three of these pairs.
#[test]
fn absent_keys_get_through_as_often_as_fingerprints_agree_by_chance() {
    let absent: Vec<KeyHash> = common::key_set(1_001, 4_000_000).collect();
    let policies = common::xor_policies().into_iter().zip([8, 16, 8, 16]);
    let settings = policies
        .flat_map(|(policy, width)| [1, 100, 3_000, 100_000, 1_000_000].map(|keys| (policy.clone(), width, keys)));
    for (policy, width, keys) in settings.step_by(effort::sample(3)) {
        let hashes: Vec<KeyHash> = common::key_set(1, keys).collect();
        let built = common::build(&policy, &hashes);
        let filter = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
        let (asked, rate) = (absent.len(), 2.0_f64.powi(-width));
        let mut matches = MatchBitmap::default();
        filter.may_contain_batch(&absent, &mut matches);
        let (matches, expected) = (matches.count() as f64, asked as f64 * rate);
        // A filter of few keys is mostly zeros, and an absent key's fingerprint is 0 with the same probability.
        let deviation = (matches - expected) / (expected * (1.0 - rate)).sqrt();
        println!("{}, {width} bits, {keys} keys: {matches} of {asked}, {deviation:+.2} sigma", policy.name());
        assert!(deviation.abs() < 5.0, "{} of {keys} keys: {matches}, expected {expected}", policy.name());
        assert!((built.report.expected_fpr / rate - 1.0).abs() < 1e-9);
        assert_eq!(common::matches(&filter, hashes.iter().copied()), u64::from(keys), "a key is absent");
    }
}

/// Graf and Lemire 2020: 1.23 w bits per key, and for xor+ 1.0824 w + 0.5125.
#[test]
fn large_filters_are_not_larger_than_published() {
    for keys in [100_000, 1_000_000] {
        let hashes: Vec<KeyHash> = common::key_set(2, keys).collect();
        let published = [1.23 * 8.0, 1.23 * 16.0, 1.0824 * 8.0 + 0.5125, 1.0824 * 16.0 + 0.5125];
        for (policy, published) in common::xor_policies().into_iter().zip(published) {
            let bits = common::build(&policy, &hashes).report.bits_per_key();
            println!("{}, {keys} keys: {bits:.4} bits per key, published {published:.4}", policy.name());
            assert!(bits < published + 1_000.0 / f64::from(keys), "{} of {keys} keys: {bits}", policy.name());
        }
    }
}

#[test]
fn the_size_of_xor_is_a_function_of_the_number_of_keys_and_that_of_xor_plus_nearly_so() {
    let all: Vec<KeyHash> = common::key_set(3, 200_000).collect();
    for policy in common::xor_policies() {
        for keys in (0..100).chain([300, 1_000, 1_023, 3_000, 10_000, 30_000, 100_000, 200_000]) {
            let built = common::build(&policy, &all[..keys]);
            let said = policy.block_bytes(keys as u64).unwrap();
            let off = built.report.block_bytes as f64 / said as f64 - 1.0;
            assert_eq!(built.report.block_bytes, built.block.unwrap().len() as u64);
            let allowed = match (policy.name(), keys) {
                ("xor", _) => 0.0,
                (_, 100_000..) => 0.003,
                (_, 1_000..) => 0.02,
                _ => 0.2,
            };
            if policy.name() == "xor+" && keys >= 100 {
                println!("xor+, {keys} keys: {said} said, {:+.3} %", off * 100.0);
            }
            assert!(off.abs() <= allowed, "{} of {keys} keys: {said} said, {off:+}", policy.name());
        }
    }
}

// promise: same-bytes
#[test]
fn keys_that_come_again_in_any_order_give_the_same_block() {
    for policy in common::xor_policies() {
        let once: Vec<KeyHash> = common::key_set(4, 5_000).collect();
        let again: Vec<KeyHash> = once.iter().rev().chain(&once).copied().collect();
        let (one, other) = (common::build(&policy, &once), common::build(&policy, &again));
        assert_eq!(one.block.unwrap(), other.block.unwrap());
        assert_eq!((other.report.distinct_keys, other.report.keys_added), (5_000, 10_000));
    }
}

#[test]
fn hashes_that_are_not_well_mixed_cost_no_key_and_little_time() {
    type Make = fn(u64) -> u64;
    let makes: [(&str, Make); 6] = [
        ("0, 1, 2, ...", |number| number),
        ("all equal", |_| 7),
        ("equal low 32 bits", |number| number << 32 | 0x1234_5678),
        ("multiples of 2^40", |number| number << 40),
        ("two values", |number| (number & 1) << 63),
        ("a shard: the high byte is one", |number| KeyHash::mix(number).get() >> 8 | 1 << 56),
    ];
    for (what, make) in makes {
        for count in [1, 100, 5_000, 100_000] {
            let hashes: Vec<KeyHash> = (0..count).map(make).map(KeyHash::from_well_mixed).collect();
            for policy in common::xor_policies() {
                let built = common::build(&policy, &hashes);
                let filter = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
                assert_eq!(common::matches(&filter, hashes.iter().copied()), count, "{what}, {count}: a key is absent");
            }
        }
        let hashes: Vec<KeyHash> = (0..96_000).map(make).map(KeyHash::from_well_mixed).collect();
        for policy in common::xor_policies() {
            common::assert_not_quadratic(&policy, &hashes, what);
        }
    }
}

/// A salted hash is small if the hash is a small multiple of the inverse of the salt's multiplier.
// promise: never-fails-a-write
#[test]
fn hashes_made_to_meet_in_few_cells_lead_to_bloom_after_16_attempts() {
    const PI: u64 = 0x243f_6a88_85a3_08d3;
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let inverse = (0..6).fold(PI, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(PI.wrapping_mul(inverse))));
    assert_eq!(PI.wrapping_mul(inverse), 1);
    for policy in common::xor_policies() {
        // For each salt some hundred hashes whose second and third cells are the first of their blocks. The first cell
        // is near the start of its block anyway, except with salt 0, for which the hash must be small.
        let of_salt = |salt: u64| {
            let hashes = (0..).map(move |low: u64| low.wrapping_mul(inverse) ^ STEP.wrapping_mul(salt + 1));
            hashes.filter(move |hash| salt > 0 || hash >> 52 == 0).take(700)
        };
        let hashes: Vec<KeyHash> = (0..16).flat_map(of_salt).map(KeyHash::from_well_mixed).collect();
        let built = common::build(&policy, &hashes);
        assert_eq!(built.report.used, Some(KindId::BLOCKED_BLOOM), "{:?}", built.report);
        assert_eq!(built.report.reason, FallbackReason::ConstructionFailed);
        let filter = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
        assert_eq!(common::matches(&filter, hashes.iter().copied()), hashes.len() as u64);
    }
}

#[test]
fn no_key_and_one_key_make_filters_as_any_number_does() {
    for policy in common::xor_policies() {
        for keys in 0..3 {
            let hashes: Vec<KeyHash> = common::key_set(5, keys).collect();
            let built = common::build(&policy, &hashes);
            assert_eq!((built.report.reason, built.report.attempts), (FallbackReason::None, 1));
            let filter = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
            assert_eq!(common::matches(&filter, hashes.into_iter()), u64::from(keys));
        }
    }
}

#[test]
fn parameters_that_do_not_agree_with_the_payload_are_refused() {
    for layout in ["xor", "xor+"] {
        let hashes: Vec<KeyHash> = common::key_set(6, 1_000).collect();
        let block = common::build(&policy(layout, 8), &hashes).block.unwrap();
        let words = if layout == "xor" { 2 } else { 3 };
        let first = block.len() - 32 - 4 * words;
        for (word, value) in [(0, 7_u32), (0, 16), (0, 0), (0, 8 | 1 << 8), (1, 0), (1, 430), (1, u32::MAX), (2, 422)] {
            if word >= words {
                continue;
            }
            let mut lie = block.to_vec();
            lie[first + 4 * word..][..4].copy_from_slice(&value.to_le_bytes());
            let sum = crc32c::crc32c(&lie[first..lie.len() - 4]);
            let end = lie.len() - 4;
            lie[end..].copy_from_slice(&sum.to_le_bytes());
            let refused = FilterBlock::open_unverified(&lie).err();
            assert!(matches!(refused, Some(BlockError::Field { .. })), "word {word} as {value}: {refused:?}");
        }
    }
}
