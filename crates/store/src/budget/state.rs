//! Reports of a budget about its files and itself.

use std::sync::Arc;

use super::file::{File, RANGES};
use super::unit::Unit;
use crate::error::FilterProblem;

/// How much of a file's filters is in memory, and why.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterResidency {
    /// Bytes in memory. With 0 bytes, every key may be present.
    pub bytes: u64,
    /// Bytes of the whole filters, before any shrinking.
    pub whole_bytes: u64,
    /// Bytes that the last plan gives to them.
    pub planned_bytes: u64,
    /// The number of filters and partitions: the point filter or its partitions, and the range filter.
    pub partitions: u32,
    /// The filters and partitions in memory, whole or shrunk.
    pub partitions_in_memory: u32,
    /// Lookups and scans that found nothing in the file, the use that memory is given for. Exact before the first plan;
    /// after that, each plan reduces the weight of earlier ones by an eighth.
    pub recent_absent: f64,
    /// The reason.
    pub reason: ResidencyReason,
}

/// Why a file's filters are in memory, in part, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResidencyReason {
    /// None are in memory: they were not probed yet, or not for a long time.
    NotProbed,
    /// None are in memory: they do not fit, and their bytes prevent more useless reads in other files.
    NoRoom,
    /// Some are in memory, or all of them shrunk: these bytes prevent more useless reads here than in other files.
    Share,
    /// All are in memory: they fit.
    Fits,
    /// A filter or partition could not be loaded. Loading it is tried again, rarely.
    LoadFailed(Arc<FilterProblem>),
}

impl FilterResidency {
    pub(crate) fn of(file: &File) -> Self {
        let sum = |of: fn(&Unit) -> u64| file.units().fold(0, |sum: u64, (_, unit)| sum.saturating_add(of(unit)));
        let (bytes, whole_bytes) = (sum(Unit::held_bytes), file.whole_bytes());
        let count = |units: usize| u32::try_from(units).unwrap_or(u32::MAX);
        let recent_absent: f64 = file.units().map(|(_, unit)| unit.recent_absent()).sum();
        let reason = match bytes {
            0 if recent_absent > 0.0 => ResidencyReason::NoRoom,
            0 => ResidencyReason::NotProbed,
            _ if bytes == whole_bytes => ResidencyReason::Fits,
            _ => ResidencyReason::Share,
        };
        Self {
            bytes,
            whole_bytes,
            planned_bytes: sum(Unit::planned_bytes),
            partitions: count(file.units().count()),
            partitions_in_memory: count(file.units().filter(|(_, unit)| unit.held_bytes() > 0).count()),
            recent_absent,
            reason: point_failure(file).or_else(|| range_failure(file)).map_or(reason, ResidencyReason::LoadFailed),
        }
    }
}

/// Returns why the point filter, or one of its partitions, could not be loaded at the last try.
pub(crate) fn point_failure(file: &File) -> Option<Arc<FilterProblem>> {
    file.failure().or_else(|| failure_of(file, |number| number != RANGES))
}

/// Returns why the range filter could not be loaded at the last try.
pub(crate) fn range_failure(file: &File) -> Option<Arc<FilterProblem>> {
    failure_of(file, |number| number == RANGES)
}

fn failure_of(file: &File, is_wanted: impl Fn(u32) -> bool) -> Option<Arc<FilterProblem>> {
    let mut units = file.units().filter(|&(number, _)| is_wanted(number));
    units.find_map(|(_, unit)| unit.failure())
}

/// The counts and sizes of a budget.
///
/// All bytes are those of filter blocks. In addition, a budget takes up to about 750 bytes for each file with its
/// description, 40 for each partition, and some 500 for each block in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BudgetStats {
    /// The limit in bytes.
    pub limit_bytes: u64,
    /// Bytes of filters in memory, including those being loaded.
    pub used_bytes: u64,
    /// Bytes of all filters, before any shrinking.
    pub whole_bytes: u64,
    /// The number of filters and partitions.
    pub partitions: u64,
    /// Loads, including failed ones.
    pub loads: u64,
    /// Bytes loaded.
    pub loaded_bytes: u64,
    /// Loads that failed.
    pub failed_loads: u64,
    /// Blocks that were shrunk, after loading or later.
    pub shrinks: u64,
    /// Blocks that were evicted for others.
    pub evictions: u64,
    /// Plans made; each divides the bytes among the files.
    pub plans: u64,
}

impl BudgetStats {
    /// Passes the name and the value of each figure to `visit`, for export. Names that end in `_total` belong to counts
    /// that never decrease; the other values go up and down.
    pub fn visit(&self, mut visit: impl FnMut(&'static str, u64)) {
        visit("filter_budget_limit_bytes", self.limit_bytes);
        visit("filter_budget_used_bytes", self.used_bytes);
        visit("filter_budget_whole_bytes", self.whole_bytes);
        visit("filter_budget_partitions", self.partitions);
        visit("filter_budget_loads_total", self.loads);
        visit("filter_budget_loaded_bytes_total", self.loaded_bytes);
        visit("filter_budget_failed_loads_total", self.failed_loads);
        visit("filter_budget_shrinks_total", self.shrinks);
        visit("filter_budget_evictions_total", self.evictions);
        visit("filter_budget_plans_total", self.plans);
    }
}
