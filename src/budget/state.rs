//! What a budget tells about its files and about itself.

use std::sync::Arc;

use super::FilterSource;
use super::file::File;
use super::unit::{Held, Unit};
use crate::error::BlockError;

/// How much of a file's filter is in memory, and why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileBudget {
    /// Where the filter comes from, as it was registered.
    pub source: Arc<dyn FilterSource>,
    /// How much of it is in memory.
    pub state: FilterState,
    /// Bytes in memory.
    pub bytes: u64,
    /// Bytes of the filter as it was written.
    pub whole_bytes: u64,
    /// Bytes that the last plan gives it.
    pub planned_bytes: u64,
    /// Its partitions; 1 for a filter without.
    pub units: u32,
    /// Those in memory, whole or shrunk.
    pub units_in_memory: u32,
    /// Lookups of keys that the file does not hold, recent ones above all: what its memory is given for. Exact before
    /// the first plan; from then on each plan counts those before it an eighth less.
    pub recent_absent: f64,
    /// Why it is in this state.
    pub why: BudgetReason,
}

/// How much of a filter is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterState {
    /// Nothing: each key may be present.
    NotLoaded,
    /// Some partitions, or all bytes shrunk to fewer.
    Partial,
    /// All of it.
    Whole,
}

/// Why a filter is in its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetReason {
    /// It was not probed yet, or not for long.
    NotProbed,
    /// It does not fit: its bytes prevent more useless reads in other files.
    NoRoom,
    /// It has the bytes that prevent more useless reads here than elsewhere.
    Share,
    /// All of it fits.
    Fits,
    /// It, or a partition of it, could not be loaded. It is tried again, rarely.
    LoadFailed(Arc<BlockError>),
}

impl FileBudget {
    pub(super) fn of(file: &File) -> Self {
        let units = &file.units;
        let sum = |of: fn(&Unit) -> u64| units.iter().fold(0, |sum: u64, unit| sum.saturating_add(of(unit)));
        let (bytes, whole_bytes) = (sum(Unit::held_bytes), sum(|unit| unit.whole_bytes));
        let state = match bytes {
            0 => FilterState::NotLoaded,
            _ if bytes == whole_bytes => FilterState::Whole,
            _ => FilterState::Partial,
        };
        let recent_absent: f64 = units.iter().map(Unit::recent_absent).sum();
        Self {
            source: file.source.clone(),
            state,
            bytes,
            whole_bytes,
            planned_bytes: sum(Unit::planned_bytes),
            units: u32::try_from(units.len()).unwrap_or(u32::MAX),
            units_in_memory: u32::try_from(units.iter().filter(|unit| unit.held_bytes() > 0).count())
                .unwrap_or(u32::MAX),
            recent_absent,
            why: failure(file).map_or_else(|| reason(state, recent_absent), BudgetReason::LoadFailed),
        }
    }
}

fn failure(file: &File) -> Option<Arc<BlockError>> {
    file.failure().or_else(|| file.units.iter().find_map(|unit| unit.held().as_deref().and_then(Held::failure)))
}

fn reason(state: FilterState, recent_absent: f64) -> BudgetReason {
    match state {
        FilterState::Whole => BudgetReason::Fits,
        FilterState::Partial => BudgetReason::Share,
        FilterState::NotLoaded if recent_absent > 0.0 => BudgetReason::NoRoom,
        FilterState::NotLoaded => BudgetReason::NotProbed,
    }
}

/// What a budget has done so far.
///
/// The bytes are those of filter blocks. Beside them, a budget takes up to about 250 bytes for each file, and 40 for
/// each partition; and for each block in memory some 500.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetStats {
    /// The bytes that there are for filters.
    pub limit_bytes: u64,
    /// Bytes of filters in memory, those included that are being loaded.
    pub used_bytes: u64,
    /// Bytes of all filters as they were written.
    pub whole_bytes: u64,
    /// Filters and partitions.
    pub units: u64,
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
