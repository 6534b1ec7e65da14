//! Kinds that are built from all hashes at once, with hashes that repeat or are not well mixed. The failures guarded
//! against: a build needs a hundred attempts at some number of keys, or never ends; a fallback goes unnoticed; a key is
//! lost; the block depends on the order of its keys.

use sstfilter::{FallbackReason, FixedPolicy, KeyHash, KindId, Sizing};

use crate::common::{self, effort};
use crate::{keys, opened};

fn of_bits(kind: &str, bits: u8) -> FixedPolicy {
    common::policy(kind, Sizing::FingerprintBits(bits)).with_min_keys(0)
}

/// A policy of each construction that fails if hashes do not suit it.
fn policies() -> Vec<FixedPolicy> {
    let of_8_bits = ["binary-fuse", "binary-fuse-4", "xor", "xor+", "line-ribbon"].map(|kind| of_bits(kind, 8));
    of_8_bits.into_iter().chain([common::ribbon(0.01), of_bits("xor", 16), of_bits("xor+", 16)]).collect()
}

/// Keys in ascending, descending and random order; once, twice, and many times.
// promise: same-bytes
#[test]
fn keys_that_come_again_in_any_order_give_the_same_block() {
    let fuse = [7, 8, 16, 17, 25, 26, 31, 32].into_iter();
    let fuse = fuse.flat_map(|bits| ["binary-fuse", "binary-fuse-4"].map(|kind| of_bits(kind, bits)));
    let ribbon = [0.4, 0.003, 1e-9].map(common::ribbon);
    for policy in policies().into_iter().chain(fuse).chain(ribbon) {
        for count in [0_u32, 1, 2, 100, 3_551, 5_000, 5_001, 40_000] {
            let hashes = keys(7, count);
            let mut sorted = hashes.clone();
            sorted.sort_unstable();
            let expected = common::build(&policy, &hashes);
            let descending: Vec<KeyHash> = sorted.iter().rev().copied().collect();
            let each_thrice: Vec<KeyHash> = sorted.iter().flat_map(|&hash| [hash; 3]).collect();
            let in_rounds = [&hashes[..], &descending, &hashes].concat();
            for added in [&sorted, &descending, &each_thrice, &in_rounds] {
                let built = common::build(&policy, added);
                assert_eq!(built.block, expected.block, "{count} keys, {policy:?}");
                assert_eq!(built.report.attempts, expected.report.attempts);
                assert_eq!(built.report.keys_added, added.len() as u64);
                assert_eq!(built.report.distinct_keys, u64::from(count));
            }
            let one_often = [vec![KeyHash::from_well_mixed(5); 400], hashes].concat();
            let alternating: Vec<KeyHash> = one_often.iter().chain(&one_often).rev().copied().collect();
            assert_eq!(common::build(&policy, &alternating).block, common::build(&policy, &one_often).block);
        }
    }
}

type Make = fn(u64) -> u64;

const MAKES: [(&str, Make); 14] = [
    ("0, 1, 2, ...", |number| number),
    ("the last ones", |number| u64::MAX - number),
    ("all equal to 0", |_| 0),
    ("all equal to 7", |_| 7),
    ("all equal to the largest", |_| u64::MAX),
    ("few different ones", |number| number % 5),
    ("two values", |number| (number & 1) << 63),
    ("equal low 32 bits", |number| number << 32 | 0x1234_5678),
    ("equal high 32 bits, mixed low ones", |number| KeyHash::mix(number).get() >> 32),
    ("multiples of 2^40", |number| number << 40),
    ("one half alike", |number| if number % 2 == 0 { KeyHash::mix(number).get() } else { number }),
    ("high bits alike", |number| KeyHash::mix(number).get() >> 20),
    ("low bits alike", |number| KeyHash::mix(number).get() << 20),
    ("a shard: the high byte is one", |number| KeyHash::mix(number).get() >> 8 | 1 << 56),
];

fn made(make: Make, count: u64) -> Vec<KeyHash> {
    (0..count).map(make).map(KeyHash::from_well_mixed).collect()
}

// promise: no-false-negatives
// promise: never-fails-a-write
// misuse: weak-hash
#[test]
fn hashes_that_are_not_well_mixed_cost_no_key_no_panic_and_little_time() {
    for (what, make) in MAKES {
        for count in [1, 2, 100, 5_000, 5_001, 60_000, 200_000].into_iter().step_by(effort::stride(2)) {
            let hashes = made(make, count);
            for policy in policies().into_iter().chain([FixedPolicy::default()]) {
                let built = common::build(&policy.with_self_check(), &hashes);
                let report = built.report.clone();
                println!("{what}, {count}: {:?} after {} attempts", report.used, report.attempts);
                let is_own = report.used == Some(report.requested);
                assert_eq!(is_own, report.reason == FallbackReason::None, "{what}, {count}: {report:?}");
                assert_ne!(report.reason, FallbackReason::SelfCheckFailed, "{what}, {count}: {report:?}");
                opened(built, &hashes);
            }
        }
        let hashes = made(make, 96_000);
        policies().iter().for_each(|policy| common::assert_not_quadratic(policy, &hashes, what));
    }
}

/// With the first salt, all of them share one cell.
#[test]
fn hashes_whose_high_bits_are_alike_take_another_salt_however_often_they_come() {
    for policy in ["binary-fuse", "binary-fuse-4"].map(|kind| of_bits(kind, 8).with_self_check()) {
        let once: Vec<KeyHash> =
            keys(7, 10_000).iter().map(|hash| KeyHash::from_well_mixed(hash.get() >> 24)).collect();
        let [expected, built] = [1, 2].map(|times| common::build(&policy, &once.repeat(times)));
        assert!(expected.report.used == Some(KindId::BINARY_FUSE) && expected.report.attempts > 1);
        assert_eq!((built.block, built.report.attempts), (expected.block, expected.report.attempts));
    }
}
