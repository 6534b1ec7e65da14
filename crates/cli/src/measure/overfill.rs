//! What becomes of filters that are given more keys than they were planned for.

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

/// The rate that the filters are planned for.
pub(super) const RATE: f64 = 0.01;

/// Percent of the planned keys between two looks, and at the last one.
const STEP_PERCENT: u64 = 10;
const LAST_PERCENT: u64 = 300;

/// A filter at one moment of being filled.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OverfillPoint {
    pub(super) filter: &'static str,
    pub(super) target_fpr: f64,
    pub(super) planned_keys: u64,
    /// Keys offered so far.
    pub(super) offered_keys: u64,
    pub(super) offered_percent: u64,
    /// Of those, keys that found no slot.
    pub(super) refused_keys: u64,
    pub(super) fill_ratio: f64,
    pub(super) expected_fpr: f64,
    pub(super) observed_fpr: f64,
    /// Limits that are passed: `fill`, `rate`.
    pub(super) alarms: Vec<&'static str>,
}

/// How often each kind is looked at.
pub(super) const LOOKS: u64 = LAST_PERCENT / STEP_PERCENT;

/// The kinds that take keys while they are in use.
pub(super) fn growing() -> impl Iterator<Item = &'static KindEntry> {
    kind::all().iter().filter(|kind| kind.updates != Updates::None)
}

/// Fills every kind that takes keys while it is in use.
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
            refused += u64::from(filter.try_insert(hash).is_err());
        }
        offered = until;
        let health = filter.health();
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
            observed_fpr: filters::observed_fpr(&block, effort.max_probes / 10),
            alarms: alarms(&health),
        });
        stages.inc(1);
    }
    Ok(points)
}

/// An empty filter for `keys` keys, of a kind that takes keys while it is in use.
fn empty(kind: KindId, keys: u64, rate: FalsePositiveRate) -> anyhow::Result<Box<dyn DynamicFilter>> {
    let hash = HashIdentity::default();
    Ok(match kind {
        KindId::STANDARD_BLOOM => Box::new(StandardBloom::for_rate(hash, keys, rate)?),
        KindId::COUNTING_BLOOM => Box::new(CountingBloom::for_rate(hash, keys, rate)?),
        KindId::CUCKOO => Box::new(CuckooFilter::for_rate(hash, keys, rate)?),
        KindId::REGISTER_BLOCKED_BLOOM => Box::new(RegisterBlockedBloom::for_rate(hash, keys, rate)?),
        _ => bail!("{kind} filters take no keys while they are in use"),
    })
}

/// The first point of each filter at which `has_alarm` holds.
pub(super) fn first_of_each(
    points: &[OverfillPoint],
    has_alarm: impl Fn(&OverfillPoint) -> bool,
) -> Vec<&OverfillPoint> {
    let mut first: Vec<&OverfillPoint> = points.iter().filter(|point| has_alarm(point)).collect();
    // The points of a filter stand together.
    first.dedup_by_key(|point| point.filter);
    first
}

/// The limits that the filter exceeds.
fn alarms(health: &FilterHealth) -> Vec<&'static str> {
    let fill = (health.fill_ratio > health.max_fill_ratio).then_some("fill");
    fill.into_iter().chain((health.expected_fpr > FilterHealth::MAX_FPR).then_some("rate")).collect()
}
