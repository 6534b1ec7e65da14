//! Decides how much memory each filter gets.
//!
//! A lookup of an absent key reads a data block in vain if a filter is not in memory or returns a false positive. A
//! filter with `n` such lookups and the rate `fpr(bytes)` causes `n * fpr(bytes)` of these reads. For a given number of
//! bytes, their sum over all filters is smallest if the last byte of each filter prevents equally many reads. Monkey
//! (Dayan, Athanassoulis, Idreos 2017) solves this condition for levels when filters are built, and `ElasticBF` (Li et
//! al. 2019) approaches it with several small filters per file. Rates fall along a convex curve, so a greedy choice is
//! right: give bytes where they prevent most reads until none are left.
//!
//! The plan is optimal except for the last step, which may not fit. Filters that can have any size take the remaining
//! bytes; for the others the next smaller steps are tried.

use super::curve::{Curve, Curves, is_held};
use super::unit::CurveNumber;
use crate::allocation::{self, Step, gain_per_byte};

/// The input of a plan for one filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Lookups of absent keys, with a decaying weight.
    pub(super) absent: f64,
    pub(super) whole_bytes: u64,
    /// Bytes in memory now.
    pub(super) held_bytes: u64,
    pub(super) curve: CurveNumber,
}

/// Chance must not displace a filter from memory. A count has a standard error of its square root; a filter keeps its
/// memory unless the use of another is higher by this many standard errors. Two are too few: both counts vary, and the
/// highest of many is compared with the lowest.
const HELD_SIGMAS: f64 = 4.0;

/// Loading a filter costs as much as a useless read of a data block, and one more for each multiple of these bytes. A
/// device streams about 256 KiB in the time of a random read. The factor of 8 stands for the several plans for which a
/// filter usually stays.
const BYTES_PER_READ: u64 = 2 << 20;

impl Demand {
    /// Returns the lookups that count for the step to `bytes`.
    fn weight_of_step_to(&self, bytes: u64) -> f64 {
        let is_held = is_held(bytes, self.held_bytes, self.whole_bytes);
        if is_held { self.absent + HELD_SIGMAS * self.absent.sqrt() } else { self.absent }
    }

    /// Returns whether `bytes` prevent more useless reads than loading them costs.
    fn is_worth_loading(&self, curve: &Curve, bytes: u64) -> bool {
        let rate = |bytes| curve.fpr(bytes, self.whole_bytes);
        let cost = 1.0 + (self.whole_bytes / BYTES_PER_READ) as f64;
        self.absent * (rate(self.held_bytes) - rate(bytes)) >= cost
    }
}

/// Returns the bytes that each filter gets, at most `limit` in total.
pub(super) fn targets(demands: &[Demand], curves: &Curves, shrinks: bool, limit: u64) -> Vec<u64> {
    let plan = Plan { demands, curves, shrinks };
    let (mut targets, mut left) = (vec![0; demands.len()], limit);
    let firsts: Vec<Step> = (0..demands.len()).filter_map(|number| plan.first_step(number)).collect();
    allocation::allocate_greedily(firsts, |step| {
        let (demand, curve) = plan.demand(step.item)?;
        let (bytes, _) = curve.point(step.to, demand.whole_bytes)?;
        let target: &mut u64 = targets.get_mut(step.item)?;
        let more = bytes.saturating_sub(*target);
        // Not below the first point: a divisible filter has no rate there.
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
        // Filters keep their present size if the next size saves less than it costs to read them again.
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
    /// Returns the first step; `None` for a filter that is not worth loading at all.
    fn first_step(self, number: usize) -> Option<Step> {
        let (demand, curve) = self.demand(number)?;
        let is_worth_it = demand.held_bytes > 0 || demand.is_worth_loading(curve, demand.whole_bytes);
        if is_worth_it { self.step(number, if self.shrinks { 0 } else { curve.len() - 1 }) } else { None }
    }

    fn demand(self, number: usize) -> Option<(&'a Demand, &'a Curve)> {
        let demand = self.demands.get(number)?;
        Some((demand, self.curves.get(demand.curve)))
    }

    /// Returns the step of a filter to this point of its curve.
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
