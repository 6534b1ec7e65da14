//! Measures filters of generated keys: sizes and rates at several settings, and sizes and times by the number of keys
//! at one rate.

use core::slice;

use anyhow::{Context, ensure};
use bytes::Bytes;
use indicatif::ProgressBar;
use serde::Serialize;
use sstfilter::kind::{self, KindEntry};
use sstfilter::{FalsePositiveRate, FilterBlock, KeyHash};

use crate::args::MeasureArgs;
use crate::filters::{self, Omission, Timed, Times, noted};
use crate::units::{grouped, percent, whole};

/// The sizes and repetitions of one measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Effort {
    /// Numbers of keys, ascending.
    pub(super) ladder: Vec<u64>,
    /// Keys of the filters whose rates are measured.
    pub(super) rate_keys: u64,
    /// Maximum number of absent keys that one filter is probed for.
    pub(super) max_probes: u64,
    /// Repetitions of each time; the best counts.
    pub(super) repetitions: u32,
    /// Planned keys of the filters that are then overfilled.
    pub(super) overfill_keys: u64,
}

/// Steps of the ladder within a power of ten.
const STEPS: [u64; 2] = [1, 3];

impl Effort {
    pub(super) fn from_args(args: &MeasureArgs) -> Self {
        let (max_keys, max_probes, repetitions, overfill_keys) = match (args.max_keys, args.quick) {
            (Some(most), _) => (most.into(), u64::from(most) * 20, 1, 1_000),
            (None, true) => (100_000, 10_000_000, 7, 20_000),
            (None, false) => (1_000_000, 50_000_000, 15, 100_000),
        };
        // From 100 keys on: the trailer decides the size of smaller blocks.
        let decades = (2..=9).map(|exponent| 10_u64.pow(exponent));
        let ladder = decades.flat_map(|decade| STEPS.map(|step| step * decade)).filter(|&keys| keys <= max_keys);
        Self { ladder: ladder.collect(), rate_keys: max_keys, max_probes, repetitions, overfill_keys }
    }
}

/// The size of one kind's filter.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FilterSize {
    pub(super) filter: &'static str,
    pub(super) keys: u64,
    pub(super) target_fpr: f64,
    pub(super) bytes: u64,
    pub(super) bits_per_key: f64,
    pub(super) expected_fpr: f64,
}

impl FilterSize {
    fn new(kind: &KindEntry, rate: FalsePositiveRate, keys: usize, filter: &FilterBlock<Bytes>) -> Self {
        let (keys, bytes) = (keys as u64, filter.as_bytes().len() as u64);
        let (bits_per_key, expected_fpr) = (bytes as f64 * 8.0 / keys as f64, filter.info().expected_fpr);
        Self { filter: kind.name, keys, target_fpr: rate.get(), bytes, bits_per_key, expected_fpr }
    }
}

/// The target rates: powers of ten, and the rates of fingerprints of 4, 8, 12 and 16 bits.
pub(super) const SETTINGS: [f64; 9] =
    [0.1, 1.0 / 16.0, 0.01, 1.0 / 256.0, 0.001, 1.0 / 4_096.0, 1e-4, 1.0 / 65_536.0, 1e-5];

/// False positives that determine a rate to about 3 % (one standard error is 1 / sqrt(1,000)).
const ENOUGH: f64 = 1_000.0;

/// One filter at one setting.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RatePoint {
    #[serde(flatten)]
    pub(super) size: FilterSize,
    pub(super) observed_fpr: f64,
    pub(super) probes: u64,
}

/// Measures bits per key and the false positive rate of all kinds at all settings.
pub(super) fn rates(effort: &Effort, stages: &ProgressBar, omissions: &mut Vec<Omission>) -> Vec<RatePoint> {
    let mut points = Vec::new();
    // The same keys for all kinds and settings, so that only the filters differ.
    let hashes = filters::present(0, effort.rate_keys);
    for kind in kind::all() {
        stages.set_message(format!("false positive rates: {}", kind.name));
        for target in SETTINGS {
            let point = rate(kind, target, &hashes, effort.max_probes);
            points.extend(noted(point, kind.name, &format!("a rate of {}", percent(target)), omissions));
            stages.inc(1);
        }
    }
    points
}

fn rate(kind: &'static KindEntry, target: f64, hashes: &[KeyHash], max_probes: u64) -> anyhow::Result<RatePoint> {
    let rate = FalsePositiveRate::new(target)?;
    let filter = filters::build(&kind.configure(rate)?, &filters::context_of(hashes), hashes)?;
    filters::ensure_as_requested(&filter)?;
    let size = FilterSize::new(kind, rate, hashes.len(), &filter);
    // Enough probes for that many false positives, but at least a tenth of the maximum.
    let probes = whole(ENOUGH / size.expected_fpr).clamp(max_probes / 10, max_probes);
    Ok(RatePoint { size, observed_fpr: filters::observed_fpr(&filter, probes), probes })
}

/// The rate at which numbers of keys are compared: that of an 8-bit fingerprint, at which no kind rounds its size.
pub(super) const RATE: f64 = 1.0 / 256.0;

/// The information bound at that rate, log2(256): no filter needs fewer bits per key.
pub(super) const BOUND: f64 = 8.0;

/// Absent keys in one sample of probes.
const PROBES: u64 = 32_768;

/// Size and times of one kind's filter with one number of keys.
#[derive(Clone, Debug, Serialize)]
pub(super) struct KeysPoint {
    #[serde(flatten)]
    pub(super) size: FilterSize,
    #[serde(flatten)]
    pub(super) times: Times,
}

/// One of a point's figures.
pub(super) type FigureOf = fn(&KeysPoint) -> f64;

/// Measures size, build time and probe times of all kinds at every number of keys.
pub(super) fn by_keys(
    effort: &Effort,
    stages: &ProgressBar,
    omissions: &mut Vec<Omission>,
) -> anyhow::Result<Vec<KeysPoint>> {
    let mut points = Vec::new();
    let absent = filters::absent(PROBES);
    for &count in &effort.ladder {
        stages.set_message(format!("sizes and times: {} keys", grouped(count)));
        points.extend(of_keys(&filters::present(0, count), &absent, effort.repetitions, omissions)?);
        stages.inc(1);
    }
    Ok(points)
}

/// Measures all kinds with the keys `hashes`.
fn of_keys(
    hashes: &Vec<KeyHash>,
    absent: &[KeyHash],
    repetitions: u32,
    omissions: &mut Vec<Omission>,
) -> anyhow::Result<Vec<KeysPoint>> {
    let (rate, files) = (FalsePositiveRate::new(RATE)?, slice::from_ref(hashes));
    let at = format!("{} keys", grouped(hashes.len() as u64));
    let (mut sizes, mut all) = (Vec::new(), Vec::new());
    for kind in kind::all() {
        let built =
            kind.configure(rate).map_err(Into::into).and_then(|policy| Timed::new(policy, files)?.without_fallback());
        if let Some(timed) = noted(built, kind.name, &at, omissions) {
            // Checked here, too: the figures of a filter that loses keys are worthless.
            let lost = timed.lost_keys(files);
            ensure!(lost == 0, "{}: {lost} of {at} are not found, which must never happen", kind.name);
            let filter = timed.filters.first().context("no filter was built")?;
            sizes.push(FilterSize::new(kind, rate, hashes.len(), filter));
            all.push(timed);
        }
    }
    // After all filters are built, because they take turns.
    filters::take_times(&mut all, files, absent, repetitions)?;
    Ok(sizes.into_iter().zip(all).map(|(size, timed)| KeysPoint { size, times: timed.times }).collect())
}
