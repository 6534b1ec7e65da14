//! Figures for the charts of a comparison: all kinds at other rates, and with fewer keys.

use bytes::Bytes;
use indicatif::ProgressBar;
use serde::Serialize;
use sstfilter::kind::{self, KindEntry};
use sstfilter::{FalsePositiveRate, FilterBlock, KeyHash, Sizing};

use super::keys::Workload;
use super::rows::{self, Row};
use crate::filters::{self, Omission, noted};
use crate::units::{counted, percent, whole};

/// Figures of all kinds. Each filter has keys of one file.
#[derive(Debug, Serialize)]
pub(super) struct Curves {
    /// Each kind at each of the [`SETTINGS`].
    pub(super) rates: Vec<RatePoint>,
    /// Each kind with numbers of keys up to those of the largest file, at the size or rate of the comparison.
    pub(super) by_keys: Vec<Row>,
    /// Figures that are missing, and why.
    pub(super) omissions: Vec<Omission>,
}

/// The target rates: powers of ten, and the rates of fingerprints of 4, 8, 12 and 16 bits.
const SETTINGS: [f64; 9] = [0.1, 1.0 / 16.0, 0.01, 1.0 / 256.0, 0.001, 1.0 / 4_096.0, 1e-4, 1.0 / 65_536.0, 1e-5];

/// One filter at one rate.
#[derive(Debug, Serialize)]
pub(super) struct RatePoint {
    pub(super) filter: &'static str,
    pub(super) target_fpr: f64,
    pub(super) keys: u64,
    pub(super) bytes: u64,
    pub(super) bits_per_key: f64,
    pub(super) expected_fpr: f64,
    pub(super) observed_fpr: f64,
    /// Made-up absent keys that it was probed for.
    pub(super) probes: u64,
}

/// Steps of the numbers of keys within a power of ten.
const STEPS: [u64; 2] = [1, 3];

/// Returns numbers of keys up to `most`, ascending.
fn ladder(most: u64) -> Vec<u64> {
    // From 100 keys on: the trailer decides the size of smaller blocks.
    let decades = (2..=9).map(|exponent| 10_u64.pow(exponent));
    let mut ladder: Vec<_> = decades.flat_map(|decade| STEPS.map(|step| step * decade)).collect();
    ladder.retain(|&keys| keys < most);
    ladder.push(most);
    ladder
}

/// Returns the hashes of the largest file's keys. Keys are dealt round-robin, so that is the first one.
fn largest(workload: &Workload) -> &[KeyHash] {
    workload.files.first().map(Vec::as_slice).unwrap_or_default()
}

impl Curves {
    /// Returns the steps of a measurement.
    pub(super) fn steps(workload: &Workload) -> u64 {
        let (kinds, ladder) = (kind::all().len(), ladder(largest(workload).len() as u64));
        (kinds * SETTINGS.len()) as u64 + ladder.len() as u64 * rows::steps(kinds)
    }

    pub(super) fn measure(workload: &Workload, sizing: Sizing, stages: &ProgressBar) -> anyhow::Result<Self> {
        let mut omissions = Vec::new();
        let rates = rates(largest(workload), stages, &mut omissions);
        let names: Vec<_> = kind::all().iter().map(|entry| entry.name).collect();
        let mut by_keys = Vec::new();
        for keys in ladder(largest(workload).len() as u64) {
            let at = counted(keys, "key");
            by_keys.extend(rows::rows(&names, &workload.first(keys), sizing, &at, stages, &mut omissions)?);
        }
        Ok(Self { rates, by_keys, omissions })
    }

    /// Returns all rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.by_keys.iter()
    }
}

/// Measures bits per key and the false positive rate of all kinds at all settings.
fn rates(hashes: &[KeyHash], stages: &ProgressBar, omissions: &mut Vec<Omission>) -> Vec<RatePoint> {
    let mut points = Vec::new();
    for kind in kind::all() {
        stages.set_message(format!("false positive rates: {}", kind.name));
        for target in SETTINGS {
            let point = RatePoint::measure(kind, target, hashes);
            points.extend(noted(point, kind.name, &format!("a rate of {}", percent(target)), omissions));
            stages.inc(1);
        }
    }
    points
}

/// False positives that determine a rate to about 3 % (one standard error is 1 / sqrt(1,000)).
const ENOUGH: f64 = 1_000.0;

/// Maximum number of absent keys that one filter is probed for: for each of its keys, and in all.
const MAX_PROBES: (u64, u64) = (50, 50_000_000);

impl RatePoint {
    fn measure(kind: &'static KindEntry, target: f64, hashes: &[KeyHash]) -> anyhow::Result<Self> {
        let policy = kind.configure(FalsePositiveRate::new(target)?)?;
        let filter = filters::build(&policy, &filters::context_of(hashes), hashes)?;
        filters::ensure_as_requested(&filter)?;
        Ok(Self::new(kind.name, target, hashes.len() as u64, &filter))
    }

    fn new(filter_name: &'static str, target_fpr: f64, keys: u64, filter: &FilterBlock<Bytes>) -> Self {
        let (bytes, expected_fpr) = (filter.as_bytes().len() as u64, filter.info().expected_fpr);
        let max_probes = keys.saturating_mul(MAX_PROBES.0).min(MAX_PROBES.1);
        // Enough probes for that many false positives, but at least a tenth of the maximum.
        let probes = whole(ENOUGH / expected_fpr).clamp(max_probes / 10, max_probes);
        Self {
            filter: filter_name,
            target_fpr,
            keys,
            bytes,
            bits_per_key: bytes as f64 * 8.0 / keys as f64,
            expected_fpr,
            // Made-up keys: hashes of any keys are alike, and the user's absent keys may be few.
            observed_fpr: filters::observed_fpr(filter, probes),
            probes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_keys_are_round_up_to_the_last() {
        assert_eq!(ladder(7), [7]);
        assert_eq!(ladder(1_000), [100, 300, 1_000]);
        assert_eq!(ladder(5_500), [100, 300, 1_000, 3_000, 5_500]);
    }
}
