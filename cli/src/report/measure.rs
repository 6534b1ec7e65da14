//! Filters of generated keys: their sizes and rates at several settings, and their sizes and times by the number of
//! keys, at one rate.

use core::hint::black_box;

use anyhow::ensure;
use bytes::Bytes;
use indicatif::ProgressBar;
use serde::Serialize;
use sstfilter::kind::{self, KindEntry};
use sstfilter::{BuildContext, FalsePositiveRate, FilterBlock, KeyHash, KindPolicy, MatchBitmap};

use crate::args::ReportArgs;
use crate::filters::{self, build, count_batch, count_one_by_one, timed};
use crate::units::{grouped, percent, whole};

/// Sizes and repetitions of one report: how much is measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Effort {
    /// Numbers of keys, ascending.
    pub(super) ladder: Vec<u64>,
    /// Keys of the filters whose rates are measured.
    pub(super) rate_keys: u64,
    /// The most absent keys that one filter is probed for.
    pub(super) most_probes: u64,
    /// Repetitions of each time; the best counts.
    pub(super) repetitions: u32,
    /// Keys that the filters are planned for that are then overfilled.
    pub(super) overfill_keys: u64,
}

/// Steps of the ladder within a power of ten.
const STEPS: [u64; 2] = [1, 3];

impl Effort {
    pub(super) fn from_args(args: &ReportArgs) -> Self {
        let (most_keys, most_probes, repetitions, overfill_keys) = match (args.most_keys, args.quick) {
            (Some(most), _) => (most.into(), u64::from(most) * 20, 1, 1_000),
            (None, true) => (100_000, 10_000_000, 7, 20_000),
            (None, false) => (1_000_000, 50_000_000, 15, 100_000),
        };
        let decades = (2..=9).map(|exponent| 10_u64.pow(exponent));
        let ladder = decades.flat_map(|decade| STEPS.map(|step| step * decade)).filter(|&keys| keys <= most_keys);
        Self { ladder: ladder.collect(), rate_keys: most_keys, most_probes, repetitions, overfill_keys }
    }
}

/// A figure that is missing, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Omission {
    /// The kind.
    pub(super) filter: &'static str,
    /// The setting at which it has no figure.
    pub(super) at: String,
    /// Why.
    pub(super) reason: String,
}

/// What could be measured of a filter; what could not is noted among the `omissions`.
fn noted<T>(measured: anyhow::Result<T>, filter: &'static str, at: &str, omissions: &mut Vec<Omission>) -> Option<T> {
    let note = |error| omissions.push(Omission { filter, at: at.to_owned(), reason: format!("{error:#}") });
    measured.map_err(note).ok()
}

/// The filter of one kind, and what it takes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FilterSize {
    pub(super) filter: &'static str,
    pub(super) keys: u64,
    pub(super) target_fpr: f64,
    pub(super) bytes: u64,
    pub(super) bits_per_key: f64,
    pub(super) expected_fpr: f64,
}

/// The filter of a kind with the distinct keys `hashes`, its size, and the policy that builds it.
fn build_kind(
    kind: &'static KindEntry,
    rate: FalsePositiveRate,
    hashes: &[KeyHash],
) -> anyhow::Result<(FilterBlock<Bytes>, FilterSize, KindPolicy)> {
    let policy = kind.configure(rate)?;
    let filter = build(&policy, &context(hashes), hashes)?;
    let (keys, bytes) = (hashes.len() as u64, filter.as_bytes().len() as u64);
    let (bits_per_key, expected_fpr) = (bytes as f64 * 8.0 / keys as f64, filter.info().expected_fpr);
    let size = FilterSize { filter: kind.name, keys, target_fpr: rate.get(), bytes, bits_per_key, expected_fpr };
    Ok((filter, size, policy))
}

fn context(hashes: &[KeyHash]) -> BuildContext {
    filters::context().with_expected_keys(hashes.len() as u64)
}

/// The target rates: those of the usual table, and those of fingerprints of 4, 8, 12 and 16 bits.
pub(super) const SETTINGS: [f64; 9] =
    [0.1, 1.0 / 16.0, 0.01, 1.0 / 256.0, 0.001, 1.0 / 4_096.0, 1e-4, 1.0 / 65_536.0, 1e-5];

/// False positives that make a rate certain to about 3 %.
const ENOUGH: f64 = 1_000.0;

/// One filter at one setting.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RatePoint {
    #[serde(flatten)]
    pub(super) size: FilterSize,
    pub(super) observed_fpr: f64,
    pub(super) probes: u64,
}

/// Bits per key and observed false positive rate of all kinds at all settings.
pub(super) fn rates(effort: &Effort, stages: &ProgressBar, omissions: &mut Vec<Omission>) -> Vec<RatePoint> {
    let mut points = Vec::new();
    let hashes = filters::present(0, effort.rate_keys);
    for kind in kind::all() {
        stages.set_message(format!("false positive rates: {}", kind.name));
        for target in SETTINGS {
            let point = rate(kind, target, &hashes, effort.most_probes);
            points.extend(noted(point, kind.name, &format!("a rate of {}", percent(target)), omissions));
            stages.inc(1);
        }
    }
    points
}

fn rate(kind: &'static KindEntry, target: f64, hashes: &[KeyHash], most_probes: u64) -> anyhow::Result<RatePoint> {
    let (filter, size, _) = build_kind(kind, FalsePositiveRate::new(target)?, hashes)?;
    // As many probes as give enough false positives, and at least a tenth of the most.
    let probes = whole(ENOUGH / size.expected_fpr).clamp(most_probes / 10, most_probes);
    Ok(RatePoint { size, observed_fpr: filters::observed_fpr(&filter, probes), probes })
}

/// The rate of the filters of different numbers of keys: that of a fingerprint of a byte, at which no kind rounds its
/// size.
pub(super) const RATE: f64 = 1.0 / 256.0;

/// The information bound at that rate, log2(256): no filter takes fewer bits per key.
pub(super) const BOUND: f64 = 8.0;

/// Absent keys that one sample probes for.
const PROBES: u64 = 32_768;

/// Keys that one sample of building takes at least: small filters are built several times.
const KEYS_PER_SAMPLE: usize = 30_000;

/// The filter of one kind.
#[derive(Clone, Debug, Serialize)]
pub(super) struct KeysPoint {
    #[serde(flatten)]
    pub(super) size: FilterSize,
    /// From hashes to the finished filter.
    pub(super) build_ns_per_key: f64,
    /// Absent keys, one by one, none waiting for the answer of the one before.
    pub(super) query_one_ns: f64,
    /// Absent keys, all at once.
    pub(super) query_batch_ns: f64,
}

/// One of a point's figures.
pub(super) type FigureOf = fn(&KeysPoint) -> f64;

/// Size, build time and probe times of all kinds at every number of keys.
pub(super) fn by_keys(
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
pub(super) fn compare(
    hashes: &[KeyHash],
    absent: &[KeyHash],
    rate: FalsePositiveRate,
    repetitions: u32,
    omissions: &mut Vec<Omission>,
) -> anyhow::Result<Vec<Timed>> {
    let mut all = Vec::new();
    let at = format!("{} keys", grouped(hashes.len() as u64));
    for kind in kind::all() {
        all.extend(noted(Timed::new(kind, rate, hashes), kind.name, &at, omissions));
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
pub(super) struct Timed {
    policy: KindPolicy,
    pub(super) filter: FilterBlock<Bytes>,
    pub(super) best: KeysPoint,
    matches: MatchBitmap,
}

impl Timed {
    fn new(kind: &'static KindEntry, rate: FalsePositiveRate, hashes: &[KeyHash]) -> anyhow::Result<Self> {
        let (filter, size, policy) = build_kind(kind, rate, hashes)?;
        let count = size.keys;
        let lost = count - count_one_by_one(&filter, hashes);
        ensure!(lost == 0, "{}: {lost} of {count} keys are not found, which must never be", kind.name);
        let [build_ns_per_key, query_one_ns, query_batch_ns] = [f64::INFINITY; 3];
        let best = KeysPoint { size, build_ns_per_key, query_one_ns, query_batch_ns };
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
