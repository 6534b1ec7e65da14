//! What a budget tells about its files and about itself.

use std::sync::Arc;

use super::file::{File, RANGES};
use super::unit::Unit;
use crate::error::FilterProblem;

/// How much of a file's filters is in memory, and why.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterResidency {
    /// Bytes in memory. Without any, each key may be present.
    pub bytes: u64,
    /// Bytes of the filters as they were written.
    pub whole_bytes: u64,
    /// Bytes that the last plan gives them.
    pub planned_bytes: u64,
    /// The point filter, or each of its partitions, and the range filter.
    pub partitions: u32,
    /// Those in memory, whole or shrunk.
    pub partitions_in_memory: u32,
    /// Lookups and scans that find nothing in the file, recent ones above all: what its memory is given for. Exact
    /// before the first plan; from then on each plan counts those before it an eighth less.
    pub recent_absent: f64,
    /// Why it is as much.
    pub reason: ResidencyReason,
}

/// How much of a file's filters is in memory, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResidencyReason {
    /// Nothing: they were not probed yet, or not for long.
    NotProbed,
    /// Nothing: they do not fit, and their bytes prevent more useless reads in other files.
    NoRoom,
    /// Some of them, or all shrunk to fewer bytes: those that prevent more useless reads here than elsewhere.
    Share,
    /// All of them: they fit.
    Fits,
    /// A filter, or a partition of one, could not be loaded. It is tried again, rarely.
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

/// Why the point filter, or a partition of it, could not be loaded when that was last tried.
pub(crate) fn point_failure(file: &File) -> Option<Arc<FilterProblem>> {
    file.failure().or_else(|| failure_of(file, |number| number != RANGES))
}

/// The same of the range filter.
pub(crate) fn range_failure(file: &File) -> Option<Arc<FilterProblem>> {
    failure_of(file, |number| number == RANGES)
}

fn failure_of(file: &File, is_wanted: impl Fn(u32) -> bool) -> Option<Arc<FilterProblem>> {
    let mut units = file.units().filter(|&(number, _)| is_wanted(number));
    units.find_map(|(_, unit)| Some(unit.held().as_deref()?.failure()?.reason.clone()))
}

/// What a budget has done so far.
///
/// The bytes are those of filter blocks. Beside them, a budget takes up to about 750 bytes for each file with its
/// description, and 40 for each partition; and for each block in memory some 500.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BudgetStats {
    /// The bytes that there are for filters.
    pub limit_bytes: u64,
    /// Bytes of filters in memory, those included that are being loaded.
    pub used_bytes: u64,
    /// Bytes of all filters as they were written.
    pub whole_bytes: u64,
    /// Filters and partitions.
    pub partitions: u64,
    /// Loads, failed ones included.
    pub loads: u64,
    /// Bytes that were loaded.
    pub loaded_bytes: u64,
    /// Loads that failed.
    pub failed_loads: u64,
    /// Blocks that were made smaller, after loading or later.
    pub shrinks: u64,
    /// Blocks that were dropped for others.
    pub evictions: u64,
    /// Plans, each of which divides the bytes among the files.
    pub plans: u64,
}

impl BudgetStats {
    /// Passes the name and the value of each figure to `visit`, to export them. Names that end in `_total` are of counts
    /// that never decrease; the others go up and down.
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
