//! Filters of hashes, how many keys they are positive for, and how long that takes.

use core::hint::black_box;
use std::time::Instant;

use anyhow::{Context, ensure};
use bytes::Bytes;
use sstfilter::{BuildContext, BuildPurpose, FilterBlock, KeyHash, KeyHasher, KindPolicy, MatchBitmap};

/// Numbers from here on are absent keys: mixing is a bijection, so that none has the hash of a present one.
const FIRST_ABSENT: u64 = 1 << 48;

/// Keys in one batch when rates are measured: with their answers they stay in the nearest caches.
const BATCH: usize = 4_096;

/// Hashes of the keys `from` to `from + count`.
pub(crate) fn present(from: u64, count: u64) -> Vec<KeyHash> {
    (from..from + count).map(KeyHash::mix).collect()
}

/// Hashes of `count` keys that are in no filter.
pub(crate) fn absent(count: u64) -> Vec<KeyHash> {
    present(FIRST_ABSENT, count)
}

/// What the filters that are measured are built for.
pub(crate) fn context() -> BuildContext {
    BuildContext::new(&KeyHasher::default()).with_purpose(BuildPurpose::Compaction)
}

/// The policy's filter of these distinct `hashes`; an error when it is of another kind than the policy's.
pub(crate) fn build(
    policy: &KindPolicy,
    context: &BuildContext,
    hashes: &[KeyHash],
) -> anyhow::Result<FilterBlock<Bytes>> {
    let mut builder = policy.builder(context);
    builder.add_hashes(hashes);
    let built = builder.finish();
    let reason = built.report.reason;
    let used = built.report.used.with_context(|| format!("no filter: {reason}"))?;
    ensure!(used == policy.kind(), "its policy makes a {used} filter instead: {reason}");
    Ok(FilterBlock::open_unverified(built.block.context("no filter")?)?)
}

/// For how many of `hashes` the filter is positive, probed one by one.
pub(crate) fn count_one_by_one(filter: &FilterBlock<Bytes>, hashes: &[KeyHash]) -> u64 {
    hashes.iter().map(|&hash| u64::from(filter.may_contain(hash))).sum()
}

/// For how many of `hashes` the filter is positive, probed in one batch.
pub(crate) fn count_batch(filter: &FilterBlock<Bytes>, hashes: &[KeyHash], matches: &mut MatchBitmap) -> u64 {
    filter.may_contain_batch(hashes, matches);
    matches.count()
}

/// The share of `probes` absent keys for which the filter is positive.
pub(crate) fn observed_fpr(filter: &FilterBlock<Bytes>, probes: u64) -> f64 {
    let (mut matches, mut positives) = (MatchBitmap::default(), 0);
    for from in (0..probes).step_by(BATCH) {
        let hashes = present(FIRST_ABSENT + from, (probes - from).min(BATCH as u64));
        positives += count_batch(filter, &hashes, &mut matches);
    }
    positives as f64 / probes as f64
}

/// Does work on `keys` keys, and lowers `best_ns` to its nanoseconds per key.
pub(crate) fn timed<T>(best_ns: &mut f64, keys: usize, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = black_box(work());
    *best_ns = best_ns.min(begun.elapsed().as_nanos() as f64 / keys as f64);
    result
}
