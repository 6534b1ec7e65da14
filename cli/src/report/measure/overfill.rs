//! What becomes of filters that are given more keys than they were planned for.

use serde::Serialize;
use sstfilter::{FalsePositiveRate, HealthAlarm};

use crate::progress::Stages;
use crate::report::contender::{ALL, Contender};
use crate::report::effort::Effort;
use crate::report::keys;

/// The rate that the filters are planned for.
pub(in crate::report) const RATE: f64 = 0.01;

/// Percent of the planned keys between two looks, and at the last one.
const STEP_PERCENT: u64 = 10;
const LAST_PERCENT: u64 = 300;

/// A filter at one moment of being filled.
#[derive(Clone, Debug, Serialize)]
pub(in crate::report) struct OverfillPoint {
    pub(in crate::report) filter: &'static str,
    pub(in crate::report) planned_keys: u64,
    /// Keys offered so far.
    pub(in crate::report) offered_keys: u64,
    pub(in crate::report) offered_percent: u64,
    /// Of those, keys that found no place.
    pub(in crate::report) refused_keys: u64,
    pub(in crate::report) fill_ratio: f64,
    pub(in crate::report) expected_fpr: f64,
    pub(in crate::report) observed_fpr: f64,
    /// Limits that are passed: `fill`, `rate`.
    pub(in crate::report) alarms: Vec<&'static str>,
}

/// How often each contender is looked at.
pub(in crate::report) fn looks() -> u64 {
    LAST_PERCENT / STEP_PERCENT
}

/// Fills every contender that grows.
pub(in crate::report) fn measure(effort: &Effort, stages: &Stages) -> anyhow::Result<Vec<OverfillPoint>> {
    let mut points = Vec::new();
    for contender in ALL.iter().filter(|contender| contender.grows()) {
        stages.at(format!("filling beyond the plan: {}", contender.name));
        fill(contender, effort, stages, &mut points)?;
    }
    Ok(points)
}

fn fill(
    contender: &Contender,
    effort: &Effort,
    stages: &Stages,
    points: &mut Vec<OverfillPoint>,
) -> anyhow::Result<()> {
    let planned = effort.overfill_keys;
    let mut filter = contender.at(FalsePositiveRate::new(RATE)?)?.empty(planned)?;
    let mut refused = 0;
    let mut offered = 0;
    for percent in (STEP_PERCENT..=LAST_PERCENT).step_by(10) {
        let until = planned * percent / 100;
        refused += filter.insert_all(&keys::present(offered, until - offered));
        offered = until;
        let health = filter.health();
        points.push(OverfillPoint {
            filter: contender.name,
            planned_keys: planned,
            offered_keys: offered,
            offered_percent: percent,
            refused_keys: refused,
            fill_ratio: health.fill_ratio,
            expected_fpr: health.expected_fpr,
            observed_fpr: keys::observed_fpr(&*filter, effort.most_probes / 10),
            alarms: filter.limits().alarms(&health).iter().map(name).collect(),
        });
        stages.step();
    }
    Ok(())
}

fn name(alarm: &HealthAlarm) -> &'static str {
    match alarm {
        HealthAlarm::Fill { .. } => "fill",
        HealthAlarm::FalsePositiveRate { .. } => "rate",
        _ => "other",
    }
}
