//! Replicas compare their files, and other machines read a store's files, so a filter's bytes must not depend on the
//! number of threads that built it.

use sstfilter::kind::{self, KindEntry};
use sstfilter::{BuildContext, FalsePositiveRate, FixedPolicy, KeyHash, KeyHasher, KindId, Sizing};

use crate::common::{self, effort};
use crate::opened;

/// A policy of each kind and variant.
fn policies() -> impl Iterator<Item = (&'static str, FixedPolicy)> {
    let rate = Sizing::Rate(FalsePositiveRate::new(1.0 / 256.0).unwrap());
    let policy = move |entry: &'static KindEntry| (entry.name, entry.configure(rate).unwrap());
    kind::all().iter().map(policy)
}

fn context(threads: usize) -> BuildContext {
    BuildContext::new(&KeyHasher::default()).with_threads(threads)
}

/// With 0, 2, 3 and 8 threads in the long form, otherwise with 8, if there are enough keys for them.
fn check(hashes: &[KeyHash], what: &str) {
    for (name, policy) in policies() {
        let one = common::build_in(&policy, &context(1), hashes);
        for threads in [8, 0, 2, 3].into_iter().step_by(effort::sample(4)) {
            let built = common::build_in(&policy, &context(threads), hashes);
            assert!(built.block == one.block, "{name}, {what}, {threads} threads");
            assert_eq!((built.report.used, built.report.reason), (one.report.used, one.report.reason));
            assert_eq!((built.report.attempts, built.report.keys_added), (one.report.attempts, one.report.keys_added));
        }
        opened(one, hashes);
    }
}

// promise: same-bytes
#[test]
fn the_bytes_are_the_same_for_any_number_of_threads() {
    // One thread for every 65,536 keys. Ribbon has a second section, which another thread can build, from 273,000 on.
    let counts: &[u64] = if common::is_long() {
        &[0, 1_000, 131_071, 131_072, 140_000, 400_000]
    } else {
        &[0, 1_000, 131_071, 131_072, 300_000]
    };
    for &keys in counts {
        check(&(0..keys).map(KeyHash::mix).collect::<Vec<_>>(), &format!("{keys} keys"));
    }
}

// promise: same-bytes
#[test]
fn repeated_and_badly_mixed_hashes_give_the_same_bytes_too() {
    let keys: u64 = if common::is_long() { 200_000 } else { 140_000 };
    let of = |hash: &dyn Fn(u64) -> u64| (0..keys).map(|key| KeyHash::from_well_mixed(hash(key))).collect::<Vec<_>>();
    check(&of(&|key| KeyHash::mix(key % (keys / 3)).get()), "each key three times");
    check(&of(&|key| KeyHash::mix(key / 2).get()), "each key twice in a row");
    check(
        &of(&|key| if key % 2 == 0 { KeyHash::mix(key).get() >> 24 } else { KeyHash::mix(key).get() }),
        "half in one place",
    );
    check(&of(&|key| KeyHash::mix(key).get() >> 1), "all in the lower half");
    check(&of(&|key| key), "0, 1, 2, ...");
}

// promise: same-bytes
#[test]
fn a_memory_budget_limits_the_threads_before_it_changes_the_kind() {
    let hashes: Vec<KeyHash> = (0..300_000).map(KeyHash::mix).collect();
    for kind in [FixedPolicy::ribbon, FixedPolicy::xor, FixedPolicy::xor_plus, FixedPolicy::binary_fuse] {
        let policy = kind(Sizing::FingerprintBits(8)).unwrap();
        let plan = policy.plan(hashes.len() as u64, None).unwrap();
        let one = common::build_in(&policy, &context(1), &hashes);
        assert!(plan.thread_bytes > 0 && one.report.used != Some(KindId::BLOCKED_BLOOM));
        for budget in [plan.build_bytes, plan.build_bytes + plan.thread_bytes, plan.build_bytes + 2 * plan.thread_bytes]
        {
            let built = common::build_in(&policy, &context(4).with_memory_budget(budget), &hashes);
            let most = budget + hashes.len() as u64 * 10 + built.report.block_bytes * 11 / 10;
            assert!(
                built.block == one.block && built.report.peak_build_bytes <= most,
                "{:?}, {budget} bytes",
                policy.kind()
            );
        }
    }
}
