//! Bits per key and observed false positive rate at several settings.

use indicatif::ProgressBar;
use serde::Serialize;
use sstfilter::kind::{self, KindEntry};
use sstfilter::{FalsePositiveRate, KeyHash};

use super::Omission;
use crate::filters;
use crate::report::effort::Effort;
use crate::units::percent;

/// The target rates: those of the usual table, and those of fingerprints of 4, 8, 12 and 16 bits.
pub(in crate::report) const SETTINGS: [f64; 9] =
    [0.1, 1.0 / 16.0, 0.01, 1.0 / 256.0, 0.001, 1.0 / 4_096.0, 1e-4, 1.0 / 65_536.0, 1e-5];

/// False positives that make a rate certain to about 3 %.
const ENOUGH: f64 = 1_000.0;

/// One filter at one setting.
#[derive(Clone, Debug, Serialize)]
pub(in crate::report) struct RatePoint {
    pub(in crate::report) filter: &'static str,
    pub(in crate::report) keys: u64,
    pub(in crate::report) target_fpr: f64,
    pub(in crate::report) bytes: u64,
    pub(in crate::report) bits_per_key: f64,
    pub(in crate::report) expected_fpr: f64,
    pub(in crate::report) observed_fpr: f64,
    pub(in crate::report) probes: u64,
}

/// Measures all kinds at all settings.
pub(in crate::report) fn measure(
    effort: &Effort,
    stages: &ProgressBar,
    omissions: &mut Vec<Omission>,
) -> Vec<RatePoint> {
    let mut points = Vec::new();
    let hashes = filters::present(0, effort.rate_keys);
    for kind in kind::all() {
        stages.set_message(format!("false positive rates: {}", kind.name));
        for target in SETTINGS {
            match point(kind, target, &hashes, effort.most_probes) {
                Ok(point) => points.push(point),
                Err(error) => {
                    omissions.push(Omission::new(kind.name, format!("a rate of {}", percent(target)), &error));
                }
            }
            stages.inc(1);
        }
    }
    points
}

fn point(kind: &'static KindEntry, target: f64, hashes: &[KeyHash], most_probes: u64) -> anyhow::Result<RatePoint> {
    let context = filters::context().with_expected_keys(hashes.len() as u64);
    let filter = filters::build(&kind.configure(FalsePositiveRate::new(target)?)?, &context, hashes)?;
    let (bytes, expected_fpr) = (filter.as_bytes().len() as u64, filter.info().expected_fpr);
    let probes = probes(expected_fpr, most_probes);
    Ok(RatePoint {
        filter: kind.name,
        keys: hashes.len() as u64,
        target_fpr: target,
        bytes,
        bits_per_key: bytes as f64 * 8.0 / hashes.len() as f64,
        expected_fpr,
        observed_fpr: filters::observed_fpr(&filter, probes),
        probes,
    })
}

/// As many probes as give [`ENOUGH`] false positives, and at least a tenth of the most.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast to an integer saturates")]
fn probes(expected_fpr: f64, most: u64) -> u64 {
    ((ENOUGH / expected_fpr) as u64).clamp(most / 10, most)
}
