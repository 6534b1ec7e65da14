//! Size, build time and probe times by the number of keys, at one rate.

use core::hint::black_box;

use anyhow::ensure;
use bytes::Bytes;
use indicatif::ProgressBar;
use serde::Serialize;
use sstfilter::kind::{self, KindEntry};
use sstfilter::{BuildContext, FalsePositiveRate, FilterBlock, KeyHash, KindPolicy, MatchBitmap};

use super::Omission;
use crate::filters::{self, build, count_batch, count_one_by_one, timed};
use crate::report::effort::Effort;
use crate::units::grouped;

/// The rate of all these filters: that of a fingerprint of a byte, at which no kind rounds its size.
pub(in crate::report) const RATE: f64 = 1.0 / 256.0;

/// The information bound at that rate, log2(256): no filter takes fewer bits per key.
pub(in crate::report) const BOUND: f64 = 8.0;

/// Absent keys that one sample probes for.
const PROBES: u64 = 32_768;

/// Keys that one sample of building takes at least: small filters are built several times.
const KEYS_PER_SAMPLE: usize = 30_000;

/// The filter of one kind.
#[derive(Clone, Debug, Serialize)]
pub(in crate::report) struct KeysPoint {
    pub(in crate::report) filter: &'static str,
    pub(in crate::report) keys: u64,
    pub(in crate::report) target_fpr: f64,
    pub(in crate::report) bytes: u64,
    pub(in crate::report) bits_per_key: f64,
    pub(in crate::report) expected_fpr: f64,
    /// From hashes to the finished filter.
    pub(in crate::report) build_ns_per_key: f64,
    /// Absent keys, one by one, none waiting for the answer of the one before.
    pub(in crate::report) query_one_ns: f64,
    /// Absent keys, all at once.
    pub(in crate::report) query_batch_ns: f64,
}

/// One of a point's figures.
pub(in crate::report) type FigureOf = fn(&KeysPoint) -> f64;

/// Measures all kinds at every number of keys.
pub(in crate::report) fn measure(
    effort: &Effort,
    stages: &ProgressBar,
    omissions: &mut Vec<Omission>,
) -> anyhow::Result<Vec<KeysPoint>> {
    let mut points = Vec::new();
    let (absent, rate) = (filters::absent(PROBES), FalsePositiveRate::new(RATE)?);
    for &count in &effort.ladder {
        stages.set_message(format!("sizes and times: {} keys", grouped(count)));
        let of_count = compare(&filters::present(0, count), &absent, rate, effort.repetitions, omissions)?;
        points.extend(of_count.into_iter().map(|timed| timed.best));
        stages.inc(1);
    }
    Ok(points)
}

/// Filters of all kinds with the distinct keys `hashes`, timed with `absent` keys.
pub(in crate::report) fn compare(
    hashes: &[KeyHash],
    absent: &[KeyHash],
    rate: FalsePositiveRate,
    repetitions: u32,
    omissions: &mut Vec<Omission>,
) -> anyhow::Result<Vec<Timed>> {
    let mut all = Vec::new();
    let at = format!("{} keys", grouped(hashes.len() as u64));
    for kind in kind::all() {
        match Timed::new(kind, rate, hashes) {
            Ok(timed) => all.push(timed),
            Err(error) => omissions.push(Omission::new(kind.name, at.clone(), &error)),
        }
    }
    // Interleaved: a disturbance of the machine meets all kinds alike.
    for _ in 0..repetitions {
        for timed in &mut all {
            timed.sample(hashes, absent)?;
        }
    }
    Ok(all)
}

/// A filter, and its figures: the best times so far.
pub(in crate::report) struct Timed {
    policy: KindPolicy,
    pub(in crate::report) filter: FilterBlock<Bytes>,
    pub(in crate::report) best: KeysPoint,
    matches: MatchBitmap,
}

impl Timed {
    fn new(kind: &'static KindEntry, rate: FalsePositiveRate, hashes: &[KeyHash]) -> anyhow::Result<Self> {
        let policy = kind.configure(rate)?;
        let filter = build(&policy, &context(hashes), hashes)?;
        let count = hashes.len() as u64;
        let lost = count - count_one_by_one(&filter, hashes);
        ensure!(lost == 0, "{}: {lost} of {count} keys are not found, which must never be", kind.name);
        let bytes = filter.as_bytes().len() as u64;
        let best = KeysPoint {
            filter: kind.name,
            keys: count,
            target_fpr: rate.get(),
            bytes,
            bits_per_key: bytes as f64 * 8.0 / count as f64,
            expected_fpr: filter.info().expected_fpr,
            build_ns_per_key: f64::INFINITY,
            query_one_ns: f64::INFINITY,
            query_batch_ns: f64::INFINITY,
        };
        Ok(Self { policy, filter, best, matches: MatchBitmap::default() })
    }

    fn sample(&mut self, hashes: &[KeyHash], absent: &[KeyHash]) -> anyhow::Result<()> {
        let Self { policy, filter, best, matches } = self;
        let (builds, context) = (KEYS_PER_SAMPLE.div_ceil(hashes.len()), context(hashes));
        timed(&mut best.build_ns_per_key, builds * hashes.len(), || {
            (0..builds).try_for_each(|_| build(policy, &context, hashes).map(|filter| drop(black_box(filter))))
        })?;
        timed(&mut best.query_one_ns, absent.len(), || count_one_by_one(filter, absent));
        timed(&mut best.query_batch_ns, absent.len(), || count_batch(filter, absent, matches));
        Ok(())
    }
}

fn context(hashes: &[KeyHash]) -> BuildContext {
    filters::context().with_expected_keys(hashes.len() as u64)
}
