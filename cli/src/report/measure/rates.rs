//! Bits per key and observed false positive rate at several settings.

use serde::Serialize;
use sstfilter::FalsePositiveRate;

use super::Omission;
use crate::progress::Stages;
use crate::report::contender::{ALL, Contender};
use crate::report::effort::Effort;
use crate::report::keys;
use crate::units::percent;

/// The rates asked for: those of the usual table, and those of fingerprints of 4, 8, 12 and 16 bits.
pub(in crate::report) const SETTINGS: [f64; 9] =
    [0.1, 1.0 / 16.0, 0.01, 1.0 / 256.0, 0.001, 1.0 / 4_096.0, 1e-4, 1.0 / 65_536.0, 1e-5];

/// False positives that make a rate certain to about 3 %.
const ENOUGH: f64 = 1_000.0;

/// One filter at one setting.
#[derive(Clone, Debug, Serialize)]
pub(in crate::report) struct RatePoint {
    pub(in crate::report) filter: &'static str,
    pub(in crate::report) keys: u64,
    pub(in crate::report) asked_fpr: f64,
    pub(in crate::report) bytes: u64,
    pub(in crate::report) bits_per_key: f64,
    pub(in crate::report) expected_fpr: f64,
    pub(in crate::report) observed_fpr: f64,
    pub(in crate::report) probes: u64,
}

/// Measures all contenders at all settings.
pub(in crate::report) fn measure(effort: &Effort, stages: &Stages) -> (Vec<RatePoint>, Vec<Omission>) {
    let (mut points, mut omissions) = (Vec::new(), Vec::new());
    let hashes = keys::present(0, effort.rate_keys);
    for contender in ALL {
        stages.at(format!("false positive rates: {}", contender.name));
        for asked in SETTINGS {
            match point(contender, asked, &hashes, effort.most_probes) {
                Ok(point) => points.push(point),
                Err(error) => {
                    let at = format!("a rate of {}", percent(asked));
                    omissions.push(Omission { filter: contender.name, at, reason: format!("{error:#}") });
                }
            }
            stages.step();
        }
    }
    (points, omissions)
}

fn point(
    contender: &Contender,
    asked: f64,
    hashes: &[sstfilter::KeyHash],
    most_probes: u64,
) -> anyhow::Result<RatePoint> {
    let filter = contender.at(FalsePositiveRate::new(asked)?)?.build(hashes)?;
    let (bytes, expected_fpr) = (filter.block_bytes()?, filter.expected_fpr());
    let probes = probes(expected_fpr, most_probes);
    Ok(RatePoint {
        filter: contender.name,
        keys: hashes.len() as u64,
        asked_fpr: asked,
        bytes,
        bits_per_key: bytes as f64 * 8.0 / hashes.len() as f64,
        expected_fpr,
        observed_fpr: keys::observed_fpr(&*filter, probes),
        probes,
    })
}

/// As many probes as give [`ENOUGH`] false positives, and at least a tenth of the most.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast to an integer saturates")]
fn probes(expected_fpr: f64, most: u64) -> u64 {
    ((ENOUGH / expected_fpr) as u64).clamp(most / 10, most)
}
