//! Builds filters of hashes, counts their positives, and times them.

use core::hint::black_box;
use std::time::Instant;

use anyhow::{Context, ensure};
use bytes::Bytes;
use serde::Serialize;
use sstfilter::{BuildContext, BuildPurpose, FilterBlock, FilterPolicy, KeyHash, KeyHasher, MatchBitmap};

/// Numbers from here on are absent keys. Mixing is a bijection, so none has the hash of a present key.
const FIRST_ABSENT: u64 = 1 << 48;

/// Keys in one batch when rates are measured: the keys and their answers stay in the nearest caches.
const BATCH: usize = 4_096;

/// Returns the hashes of the keys `from..from + count`.
pub(crate) fn present(from: u64, count: u64) -> Vec<KeyHash> {
    (from..from + count).map(KeyHash::mix).collect()
}

/// Returns the hashes of `count` keys that are in no filter.
pub(crate) fn absent(count: u64) -> Vec<KeyHash> {
    present(FIRST_ABSENT, count)
}

/// Returns the context in which measured filters are built.
pub(crate) fn context() -> BuildContext {
    BuildContext::new(&KeyHasher::default()).with_purpose(BuildPurpose::Compaction)
}

/// Returns the context for a filter of these hashes.
pub(crate) fn context_of(hashes: &[KeyHash]) -> BuildContext {
    context().with_expected_keys(hashes.len() as u64)
}

/// Builds the policy's filter of these distinct `hashes`; it may have fallen back to another kind.
pub(crate) fn build(
    policy: &dyn FilterPolicy,
    context: &BuildContext,
    hashes: &[KeyHash],
) -> anyhow::Result<FilterBlock<Bytes>> {
    let mut builder = policy.builder(context).context("its policy builds no filter")?;
    builder.add_hashes(hashes);
    let built = builder.finish();
    let reason = built.report.reason;
    // Verification would find nothing in a block that was built in memory just now.
    Ok(FilterBlock::open_unverified(built.block.with_context(|| format!("no filter: {reason}"))?)?)
}

/// Fails if the filter is of another kind than requested.
pub(crate) fn ensure_as_requested(filter: &FilterBlock<Bytes>) -> anyhow::Result<()> {
    let info = filter.info();
    ensure!(info.kind == info.requested, "its policy builds a {} filter instead ({})", info.kind, info.reason);
    Ok(())
}

/// Returns for how many of `hashes` the filter is positive, probed one by one.
pub(crate) fn count_one_by_one(filter: &FilterBlock<Bytes>, hashes: &[KeyHash]) -> u64 {
    hashes.iter().map(|&hash| u64::from(filter.may_contain(hash))).sum()
}

/// Returns for how many of `hashes` the filter is positive, probed in one batch.
pub(crate) fn count_batch(filter: &FilterBlock<Bytes>, hashes: &[KeyHash], matches: &mut MatchBitmap) -> u64 {
    filter.may_contain_batch(hashes, matches);
    matches.count()
}

/// Returns the share of `probes` made-up absent keys for which the filter is positive.
pub(crate) fn observed_fpr(filter: &FilterBlock<Bytes>, probes: u64) -> f64 {
    let (mut matches, mut positives) = (MatchBitmap::default(), 0);
    for from in (0..probes).step_by(BATCH) {
        // Made batch by batch: all hashes of a measurement would take hundreds of megabytes.
        let hashes = present(FIRST_ABSENT + from, (probes - from).min(BATCH as u64));
        positives += count_batch(filter, &hashes, &mut matches);
    }
    positives as f64 / probes as f64
}

/// Runs `work` on `keys` keys, and lowers `best_ns` to its nanoseconds per key.
pub(crate) fn timed<T>(best_ns: &mut f64, keys: usize, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    // Otherwise, the compiler could remove work without a used result.
    let result = black_box(work());
    *best_ns = best_ns.min(begun.elapsed().as_nanos() as f64 / keys as f64);
    result
}

/// A kind without a figure, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Omission {
    /// The kind.
    pub(crate) filter: &'static str,
    /// The setting at which it has no figure.
    pub(crate) at: String,
    /// Why it has no figure.
    pub(crate) reason: String,
}

/// Returns a measurement, or adds its error to the `omissions`.
pub(crate) fn noted<T>(
    measured: anyhow::Result<T>,
    filter: &'static str,
    at: &str,
    omissions: &mut Vec<Omission>,
) -> Option<T> {
    let note = |error| omissions.push(Omission { filter, at: at.to_owned(), reason: format!("{error:#}") });
    measured.map_err(note).ok()
}

/// Times of one policy's filters; each is the best of several.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Times {
    /// From hashes to the finished filters.
    pub(crate) build_ns_per_key: f64,
    /// One probe of an absent key. No probe depends on the answer of the previous one.
    pub(crate) query_one_ns: f64,
    /// One probe of an absent key, in a batch.
    pub(crate) query_batch_ns: f64,
}

/// Minimum keys in one build sample: small filters are built several times.
const KEYS_PER_SAMPLE: usize = 30_000;

/// The filters of one policy, one for each file, and the best times so far.
pub(crate) struct Timed {
    policy: Box<dyn FilterPolicy>,
    pub(crate) filters: Vec<FilterBlock<Bytes>>,
    pub(crate) times: Times,
    matches: MatchBitmap,
}

impl Timed {
    /// Builds the filters of `files`, given as the hashes of their distinct keys. The filters are not timed yet.
    pub(crate) fn new(policy: impl FilterPolicy + 'static, files: &[Vec<KeyHash>]) -> anyhow::Result<Self> {
        let filters: anyhow::Result<_> =
            files.iter().map(|hashes| build(&policy, &context_of(hashes), hashes)).collect();
        // Above any time, so that the first sample becomes the best.
        let [build_ns_per_key, query_one_ns, query_batch_ns] = [f64::INFINITY; 3];
        let times = Times { build_ns_per_key, query_one_ns, query_batch_ns };
        Ok(Self { policy: Box::new(policy), filters: filters?, times, matches: MatchBitmap::default() })
    }

    /// Fails if a filter is of another kind than requested.
    pub(crate) fn without_fallback(self) -> anyhow::Result<Self> {
        self.filters.iter().try_for_each(ensure_as_requested)?;
        Ok(self)
    }

    /// Returns the number of keys of `files` that their filters are negative for. It must always be 0.
    pub(crate) fn lost_keys(&self, files: &[Vec<KeyHash>]) -> u64 {
        let lost = |(filter, hashes): (_, &Vec<_>)| hashes.len() as u64 - count_one_by_one(filter, hashes);
        self.filters.iter().zip(files).map(lost).sum()
    }

    /// Returns the bytes of all filters.
    pub(crate) fn bytes(&self) -> u64 {
        self.filters.iter().map(|filter| filter.as_bytes().len() as u64).sum()
    }

    /// Builds all filters again, and probes each for all `absent` keys.
    pub(crate) fn sample(&mut self, files: &[Vec<KeyHash>], absent: &[KeyHash]) -> anyhow::Result<()> {
        let Self { policy, filters, times, matches } = self;
        let keys: usize = files.iter().map(Vec::len).sum();
        // One build of few keys is too short for the clock.
        let builds = KEYS_PER_SAMPLE.div_ceil(keys);
        timed(&mut times.build_ns_per_key, builds * keys, || {
            let mut rounds = (0..builds).flat_map(|_| files);
            rounds.try_for_each(|hashes| {
                build(&**policy, &context_of(hashes), hashes).map(|filter| drop(black_box(filter)))
            })
        })?;
        let probes = absent.len() * filters.len();
        timed(&mut times.query_one_ns, probes, || {
            filters.iter().map(|filter| count_one_by_one(filter, absent)).sum::<u64>()
        });
        timed(&mut times.query_batch_ns, probes, || {
            filters.iter().map(|filter| count_batch(filter, absent, matches)).sum::<u64>()
        });
        Ok(())
    }
}

/// Times all filters `repetitions` times. They take turns, so that a disturbance of the machine affects all of them.
pub(crate) fn take_times(
    all: &mut [Timed],
    files: &[Vec<KeyHash>],
    absent: &[KeyHash],
    repetitions: u32,
) -> anyhow::Result<()> {
    for _ in 0..repetitions {
        for timed in &mut *all {
            timed.sample(files, absent)?;
        }
    }
    Ok(())
}
