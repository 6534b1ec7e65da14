//! Helpers that several test files share: building a filter, keys by number, work on all cores.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod cases;
pub(crate) mod effort;
pub(crate) mod golden;
pub(crate) mod parts;
pub(crate) mod policies;
pub(crate) mod random;
mod recipes;
pub(crate) mod vectors;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sstfilter::kind::KindEntry;
use sstfilter::simd::{self, InstructionSet};
use sstfilter::{
    BlockInfo, BuildContext, BuiltFilter, FalsePositiveRate, FilterBlock, FilterPolicy, FixedPolicy, KeyHash,
    KeyHasher, Sizing,
};

/// Calls `check` with each bit of `bytes` flipped, on all cores.
pub(crate) fn for_each_flip(bytes: &[u8], check: impl Fn(&[u8], usize) + Sync) {
    const RUN: usize = 256;
    on_all_cores(bytes.len().div_ceil(RUN), |run| {
        let mut damaged = bytes.to_vec();
        for bit in run * RUN * 8..(run * RUN * 8 + RUN * 8).min(bytes.len() * 8) {
            damaged[bit / 8] ^= 1 << (bit % 8);
            check(&damaged, bit);
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
    });
}

/// Builds the filter of `hashes`, in the order given.
pub(crate) fn build(policy: &dyn FilterPolicy, hashes: &[KeyHash]) -> BuiltFilter {
    build_in(policy, &BuildContext::new(&KeyHasher::default()), hashes)
}

pub(crate) fn build_in(policy: &dyn FilterPolicy, context: &BuildContext, hashes: &[KeyHash]) -> BuiltFilter {
    let mut builder = policy.builder(context).unwrap();
    builder.add_hashes(hashes);
    builder.finish()
}

/// Returns `count` distinct hashes. Sets with different numbers are disjoint.
pub(crate) fn key_set(set: u32, count: u32) -> impl Iterator<Item = KeyHash> + Clone {
    (0..count).map(move |number| KeyHash::mix(u64::from(set) << 32 | u64::from(number)))
}

/// Returns the value of a shape's field.
pub(crate) fn shape_field<'a>(info: &'a BlockInfo, name: &str) -> Option<&'a str> {
    info.shape.iter().find_map(|(found, value)| (*found == name).then_some(value.as_str()))
}

/// Ribbon filters of a rate, however few the keys.
pub(crate) fn ribbon(rate: f64) -> FixedPolicy {
    FixedPolicy::ribbon(FalsePositiveRate::new(rate).unwrap()).unwrap().with_min_keys(0)
}

/// The policy of a kind by its name.
pub(crate) fn policy(name: &str, sizing: impl Into<Sizing>) -> FixedPolicy {
    KindEntry::named(name).unwrap().configure(sizing).unwrap()
}

/// The number of positives of a filter.
pub(crate) fn matches<D: AsRef<[u8]>>(filter: &FilterBlock<D>, hashes: impl Iterator<Item = KeyHash>) -> u64 {
    hashes.map(|hash| u64::from(filter.may_contain(hash))).sum()
}

/// Runs `test` with each instruction set of the CPU. The selection holds for the whole process, so only one test at a
/// time makes it; other tests have the same results with any set.
pub(crate) fn for_each_set(mut test: impl FnMut(InstructionSet)) {
    static SELECTING: Mutex<()> = Mutex::new(());
    let _guard = SELECTING.lock().unwrap_or_else(PoisonError::into_inner);
    for set in InstructionSet::available() {
        simd::select(set).unwrap();
        test(set);
        assert_eq!(simd::selected(), set);
    }
}

/// Calls `work` for every number below `count`, on all cores, and returns the results in order of the numbers.
pub(crate) fn on_all_cores<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    // WASI has no threads.
    if threads == 1 {
        return (0..count).map(work).collect();
    }
    let mut results: Vec<(usize, T)> = thread::scope(|scope| {
        let deal = |first: usize| (first..count).step_by(threads);
        let work = &work;
        let running: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || deal(first).map(|number| (number, work(number))).collect::<Vec<_>>()))
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    results.sort_by_key(|&(number, _)| number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Asserts that building from all of `hashes` does not take 128 times as long as from a sixteenth of them. Quadratic
/// work takes 256 times as long. Linear work takes 16 times as long, and up to 35 times if the larger set exceeds the
/// caches or needs another salt. Only the best runs count, and runs are repeated until they decide: other work on the
/// machine can only slow a run down.
///
/// A build with up to ten microseconds per key is not quadratic, whatever the ratio: with 96,000 keys, that would be a
/// tenth of a nanosecond per pair. If few keys succeed at once and many fail with all salts, the ratio alone comes near
/// 128.
pub(crate) fn assert_not_quadratic(policy: &dyn FilterPolicy, hashes: &[KeyHash], what: &str) {
    let time = |hashes: &[KeyHash]| {
        let started = Instant::now();
        drop(build(policy, hashes));
        started.elapsed()
    };
    let (mut few, mut many) = (Duration::MAX, Duration::MAX);
    for round in 0..8 {
        few = few.min(time(&hashes[..hashes.len() / 16]));
        many = many.min(time(hashes));
        let is_linear = many <= few * 128 || many <= Duration::from_micros(10 * hashes.len() as u64);
        if round >= 1 && is_linear {
            println!("{}, {what}: {few:?}, for 16 times as much {many:?}", policy.name());
            return;
        }
    }
    panic!("{}, {what}: {few:?}, for 16 times as much {many:?}", policy.name());
}

/// Whether to run the long forms of the tests: `SSTFILTER_LONG=1`.
pub(crate) fn is_long() -> bool {
    effort::is_long()
}

/// The number of cases per property: `PROPTEST_CASES` if set, a tenth of the usual number in the short form, and a
/// quarter of the exhaustive one with `SSTFILTER_LONG=ci`.
pub(crate) fn cases(usual: u32, exhaustive: u32) -> u32 {
    if let Some(asked) = std::env::var_os("PROPTEST_CASES") {
        let number = asked.to_str().and_then(|asked| asked.parse().ok());
        number.unwrap_or_else(|| panic!("PROPTEST_CASES is '{}', and should be a number", asked.display()))
    } else if effort::is_short() {
        usual.div_ceil(10)
    } else {
        effort::of_minutes(exhaustive, exhaustive.div_ceil(4).max(usual), usual)
    }
}
