//! How much memory each filter gets.
//!
//! A lookup of an absent key reads a data block for nothing where a filter is not in memory or answers "may be
//! present". Of a filter with `n` such lookups and the rate `fpr(bytes)` these are `n * fpr(bytes)` reads. Their sum
//! over all filters is least, for a given number of bytes, where the last byte of each filter prevents equally many
//! reads: the condition that Monkey (Dayan, Athanassoulis, Idreos 2017) solves for levels when filters are built, and
//! that `ElasticBF` (Li et al. 2019) approaches with several small filters for each file. Rates fall along a convex
//! curve, so a greedy choice is right: give bytes where they prevent most reads until there are none left.
//!
//! The only loss against the optimum is at the last step, which may not fit. Filters that can have any size take what
//! is left; for the others the next smaller steps are tried.

use super::curve::{Curve, Curves, is_held};
use super::unit::CurveNumber;
use crate::allocation::{self, Step, gain_per_byte};

/// What the plan knows of a filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Lookups of absent keys, recent ones above all.
    pub(super) absent: f64,
    pub(super) whole_bytes: u64,
    /// Bytes in memory now.
    pub(super) held_bytes: u64,
    pub(super) curve: CurveNumber,
}

/// A filter in memory is not displaced because of chance. A count has a standard error of its square root; what is
/// there keeps its place unless another filter's use is higher by this many of them. Two are too few: both counts vary,
/// and the highest of many is compared with the lowest.
const HELD_SIGMAS: f64 = 4.0;

/// To load a filter costs as much as a useless read of a data block, and one more for each multiple of these bytes. A
/// device streams about 256 KiB in the time of a random read, and what a plan gives usually stays for several plans,
/// for which a factor of 8 stands.
const BYTES_PER_READ: u64 = 2 << 20;

impl Demand {
    /// The lookups that the step to `bytes` is given for.
    fn weight_of_step_to(&self, bytes: u64) -> f64 {
        let is_held = is_held(bytes, self.held_bytes, self.whole_bytes);
        if is_held { self.absent + HELD_SIGMAS * self.absent.sqrt() } else { self.absent }
    }

    /// Whether `bytes` prevent more useless reads than it costs to load them.
    fn is_worth_loading(&self, curve: &Curve, bytes: u64) -> bool {
        let rate = |bytes| curve.fpr(bytes, self.whole_bytes);
        let cost = 1.0 + (self.whole_bytes / BYTES_PER_READ) as f64;
        self.absent * (rate(self.held_bytes) - rate(bytes)) >= cost
    }
}

/// The bytes that each filter gets: at most `limit` in all.
pub(super) fn targets(demands: &[Demand], curves: &Curves, shrinks: bool, limit: u64) -> Vec<u64> {
    let plan = Plan { demands, curves, shrinks };
    let (mut targets, mut left) = (vec![0; demands.len()], limit);
    let firsts: Vec<Step> = (0..demands.len()).filter_map(|number| plan.first_step(number)).collect();
    allocation::allocate_greedily(firsts, |step| {
        let (demand, curve) = plan.demand(step.item)?;
        let (bytes, _) = curve.point(step.to, demand.whole_bytes)?;
        let target: &mut u64 = targets.get_mut(step.item)?;
        let more = bytes.saturating_sub(*target);
        let is_divisible = curve.is_divisible() && shrinks && step.to > 0;
        if more > left && !is_divisible {
            return None;
        }
        let given = more.min(left);
        *target += given;
        left -= given;
        if given == more { plan.step(step.item, step.to + 1) } else { None }
    });
    for (demand, target) in demands.iter().zip(&mut targets) {
        // Leaves filters at their present size where the next one saves less than it costs to read them again.
        if *target > demand.held_bytes && !demand.is_worth_loading(curves.get(demand.curve), *target) {
            *target = demand.held_bytes;
        }
    }
    targets
}

#[derive(Clone, Copy)]
struct Plan<'a> {
    demands: &'a [Demand],
    curves: &'a Curves,
    shrinks: bool,
}

impl<'a> Plan<'a> {
    /// `None` for a filter that is not worth loading at all.
    fn first_step(self, number: usize) -> Option<Step> {
        let (demand, curve) = self.demand(number)?;
        let is_worth_it = demand.held_bytes > 0 || demand.is_worth_loading(curve, demand.whole_bytes);
        if is_worth_it { self.step(number, if self.shrinks { 0 } else { curve.len() - 1 }) } else { None }
    }

    fn demand(self, number: usize) -> Option<(&'a Demand, &'a Curve)> {
        let demand = self.demands.get(number)?;
        Some((demand, self.curves.get(demand.curve)))
    }

    /// The step of a filter to this point of its curve.
    fn step(self, number: usize, point: usize) -> Option<Step> {
        let (demand, curve) = self.demand(number)?;
        let to = curve.point(point, demand.whole_bytes)?;
        let from = match point.checked_sub(1).filter(|_| self.shrinks) {
            Some(before) => curve.point(before, demand.whole_bytes)?,
            None => (0, 1.0),
        };
        let gain = demand.weight_of_step_to(to.0) * gain_per_byte(from, to);
        (gain > 0.0).then_some(Step { gain, item: number, to: point })
    }
}
