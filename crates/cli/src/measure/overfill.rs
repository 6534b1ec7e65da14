//! Fills filters with more keys than they were planned for.

use anyhow::bail;
use indicatif::ProgressBar;
use serde::Serialize;
use sstfilter::kind::{self, KindEntry, Updates};
use sstfilter::layers::{LayersHealth, ScalableBloom};
use sstfilter::{
    CountingBloom, CuckooFilter, DynamicFilter, FalsePositiveRate, FilterBlock, FilterHealth, HashIdentity, KeyHash,
    KindId, RegisterBlockedBloom, StandardBloom,
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

/// Returns the number of measurements.
pub(super) fn looks() -> u64 {
    (growing().count() as u64 + 1) * LAST_PERCENT / STEP_PERCENT
}

/// Returns the kinds that accept keys while they are in use.
fn growing() -> impl Iterator<Item = &'static KindEntry> {
    kind::all().iter().filter(|kind| kind.updates != Updates::None)
}

/// The name of the filter that grows with its keys, among those that are overfilled.
const SCALABLE: &str = "scalable";

/// Fills every kind that accepts keys while it is in use, and a filter that grows.
pub(super) fn measure(effort: &Effort, stages: &ProgressBar) -> anyhow::Result<Vec<OverfillPoint>> {
    let (keys, rate) = (effort.overfill_keys, FalsePositiveRate::new(RATE)?);
    let mut points = Vec::new();
    for kind in growing() {
        points.extend(fill(kind.name, empty(kind.id, keys, rate)?, effort, stages)?);
    }
    let scalable = <ScalableBloom>::new(HashIdentity::default(), keys, rate)?;
    points.extend(fill(SCALABLE, scalable, effort, stages)?);
    Ok(points)
}

/// A filter that is filled.
trait Filled {
    /// Inserts a key, unless it finds no slot.
    fn offer(&mut self, hash: KeyHash) -> bool;
    fn look(&self, probes: u64) -> anyhow::Result<Look>;
}

/// How full a filter is.
struct Look {
    fill_ratio: f64,
    max_fill_ratio: f64,
    expected_fpr: f64,
    observed_fpr: f64,
}

impl Filled for Box<dyn DynamicFilter> {
    fn offer(&mut self, hash: KeyHash) -> bool {
        self.try_insert(hash).is_ok()
    }

    fn look(&self, probes: u64) -> anyhow::Result<Look> {
        let FilterHealth { fill_ratio, max_fill_ratio, expected_fpr, .. } = self.health();
        // As a block, whose rate is measured in the same way for all kinds.
        let block = FilterBlock::open_unverified(self.to_block()?)?;
        Ok(Look { fill_ratio, max_fill_ratio, expected_fpr, observed_fpr: filters::observed_fpr(&block, probes) })
    }
}

impl Filled for ScalableBloom {
    fn offer(&mut self, hash: KeyHash) -> bool {
        self.insert(hash).is_ok()
    }

    fn look(&self, probes: u64) -> anyhow::Result<Look> {
        let LayersHealth { fill_ratio, expected_fpr, .. } = self.health();
        let observed_fpr = filters::observed_rate(probes, |hashes, matches| self.contains_batch(hashes, matches));
        Ok(Look { fill_ratio, max_fill_ratio: 1.0, expected_fpr, observed_fpr })
    }
}

fn fill(
    name: &'static str,
    mut filter: impl Filled,
    effort: &Effort,
    stages: &ProgressBar,
) -> anyhow::Result<Vec<OverfillPoint>> {
    stages.set_message(format!("filling beyond the plan: {name}"));
    let mut points = Vec::new();
    let planned = effort.overfill_keys;
    let mut refused = 0;
    let mut offered = 0;
    for percent in (1..=LAST_PERCENT / STEP_PERCENT).map(|step| step * STEP_PERCENT) {
        let until = planned * percent / 100;
        for hash in filters::present(offered, until - offered) {
            // A refused key counts as offered, so that all kinds are compared at the same load.
            refused += u64::from(!filter.offer(hash));
        }
        offered = until;
        // A tenth of the probes, because each filter is measured thirty times.
        let look = filter.look(effort.max_probes / 10)?;
        points.push(OverfillPoint {
            filter: name,
            target_fpr: RATE,
            planned_keys: planned,
            offered_keys: offered,
            offered_percent: percent,
            refused_keys: refused,
            fill_ratio: look.fill_ratio,
            expected_fpr: look.expected_fpr,
            observed_fpr: look.observed_fpr,
            alarms: alarms(&look),
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
fn alarms(look: &Look) -> Vec<&'static str> {
    let fill = (look.fill_ratio > look.max_fill_ratio).then_some("fill");
    fill.into_iter().chain((look.expected_fpr > FilterHealth::MAX_FPR).then_some("rate")).collect()
}
