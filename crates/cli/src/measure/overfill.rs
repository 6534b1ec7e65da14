//! Fills filters with more keys than they were planned for.

use anyhow::bail;
use indicatif::ProgressBar;
use serde::Serialize;
use sstfilter::kind::{self, KindEntry, Updates};
use sstfilter::{
    CountingBloom, CuckooFilter, DynamicFilter, FalsePositiveRate, FilterBlock, FilterHealth, HashIdentity, KindId,
    RegisterBlockedBloom, StandardBloom,
};

use super::kinds::Effort;
use crate::filters;

/// The planned rate of the filters.
pub(super) const RATE: f64 = 0.01;

/// Percent of the planned keys between two measurements, and at the last one.
const STEP_PERCENT: u64 = 10;
const LAST_PERCENT: u64 = 300;

/// A filter at one point while it is filled.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OverfillPoint {
    pub(super) filter: &'static str,
    pub(super) target_fpr: f64,
    pub(super) planned_keys: u64,
    /// Keys offered so far.
    pub(super) offered_keys: u64,
    pub(super) offered_percent: u64,
    /// Offered keys that found no slot.
    pub(super) refused_keys: u64,
    pub(super) fill_ratio: f64,
    pub(super) expected_fpr: f64,
    pub(super) observed_fpr: f64,
    /// Exceeded limits: `fill`, `rate`.
    pub(super) alarms: Vec<&'static str>,
}

/// Number of measurements of each kind.
pub(super) const LOOKS: u64 = LAST_PERCENT / STEP_PERCENT;

/// Returns the kinds that accept keys while they are in use.
pub(super) fn growing() -> impl Iterator<Item = &'static KindEntry> {
    kind::all().iter().filter(|kind| kind.updates != Updates::None)
}

/// Fills every kind that accepts keys while it is in use.
pub(super) fn measure(effort: &Effort, stages: &ProgressBar) -> anyhow::Result<Vec<OverfillPoint>> {
    let mut points = Vec::new();
    for kind in growing() {
        stages.set_message(format!("filling beyond the plan: {}", kind.name));
        points.extend(fill(kind, effort, stages)?);
    }
    Ok(points)
}

fn fill(kind: &'static KindEntry, effort: &Effort, stages: &ProgressBar) -> anyhow::Result<Vec<OverfillPoint>> {
    let mut points = Vec::new();
    let planned = effort.overfill_keys;
    let mut filter = empty(kind.id, planned, FalsePositiveRate::new(RATE)?)?;
    let mut refused = 0;
    let mut offered = 0;
    for percent in (STEP_PERCENT..=LAST_PERCENT).step_by(10) {
        let until = planned * percent / 100;
        for hash in filters::present(offered, until - offered) {
            // A refused key counts as offered, so that all kinds are compared at the same load.
            refused += u64::from(filter.try_insert(hash).is_err());
        }
        offered = until;
        let health = filter.health();
        // As a block, whose rate is measured in the same way for all kinds.
        let block = FilterBlock::open_unverified(filter.to_block()?)?;
        points.push(OverfillPoint {
            filter: kind.name,
            target_fpr: RATE,
            planned_keys: planned,
            offered_keys: offered,
            offered_percent: percent,
            refused_keys: refused,
            fill_ratio: health.fill_ratio,
            expected_fpr: health.expected_fpr,
            // A tenth of the probes, because each filter is measured thirty times.
            observed_fpr: filters::observed_fpr(&block, effort.max_probes / 10),
            alarms: alarms(&health),
        });
        stages.inc(1);
    }
    Ok(points)
}

/// Returns an empty filter for `keys` keys, of a kind that accepts keys while it is in use.
fn empty(kind: KindId, keys: u64, rate: FalsePositiveRate) -> anyhow::Result<Box<dyn DynamicFilter>> {
    let hash = HashIdentity::default();
    Ok(match kind {
        KindId::STANDARD_BLOOM => Box::new(StandardBloom::for_rate(hash, keys, rate)?),
        KindId::COUNTING_BLOOM => Box::new(CountingBloom::for_rate(hash, keys, rate)?),
        KindId::CUCKOO => Box::new(CuckooFilter::for_rate(hash, keys, rate)?),
        KindId::REGISTER_BLOCKED_BLOOM => Box::new(RegisterBlockedBloom::for_rate(hash, keys, rate)?),
        _ => bail!("{kind} filters accept no keys while they are in use"),
    })
}

/// Returns the first point of each filter for which `has_alarm` is true.
pub(super) fn first_of_each(
    points: &[OverfillPoint],
    has_alarm: impl Fn(&OverfillPoint) -> bool,
) -> Vec<&OverfillPoint> {
    let mut first: Vec<&OverfillPoint> = points.iter().filter(|point| has_alarm(point)).collect();
    // `dedup` is enough: the points of a filter are next to each other.
    first.dedup_by_key(|point| point.filter);
    first
}

/// Returns the limits that the filter exceeds.
fn alarms(health: &FilterHealth) -> Vec<&'static str> {
    let fill = (health.fill_ratio > health.max_fill_ratio).then_some("fill");
    fill.into_iter().chain((health.expected_fpr > FilterHealth::MAX_FPR).then_some("rate")).collect()
}
