//! One number of bytes for all filters of a store.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::file::File;
use super::filter::BudgetedFilter;
use super::pool::Pool;
use super::state::{BudgetStats, FileBudget};
use super::{FilterLayout, FilterSource};

/// One number of bytes for all filters of a store. Clones share it.
///
/// Files [register](Self::register) their filters, which are then loaded when they are first probed, as long as they
/// fit. When they no longer do, a *plan* divides the bytes so that lookups read as few useless data blocks as possible:
/// files with many lookups of absent keys hold their filters whole, others shrunk to fewer bytes, cold ones not at all.
/// Plans are made again after a number of probes, by a thread that probes, so the division follows the lookups.
///
/// Nothing here depends on a clock or on chance: the same calls by one thread give the same state.
#[derive(Clone, Debug)]
pub struct FilterBudget {
    pool: Arc<Pool>,
}

impl FilterBudget {
    /// `bytes` bytes for filter blocks. Memory exceeds them by one filter at most, while it is loaded to be shrunk, or
    /// while a smaller or larger one takes its place; whatever the number of threads. A budget of 0 bytes loads
    /// nothing.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self { pool: Arc::new(Pool::new(bytes)) }
    }

    /// No limit: filters are loaded when they are first probed, and stay.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// Keeps filters whole or not at all.
    #[must_use]
    pub fn without_shrinking(self) -> Self {
        self.pool.set_shrinks(false);
        self
    }

    /// Makes a plan after each `probes` probes instead of a number that follows from the number of filters: 16 for
    /// each. More often follows the lookups faster and reads more filters again. Negatives count 64 at a time.
    #[must_use]
    pub fn with_probes_per_plan(self, probes: u64) -> Self {
        self.pool.set_probes_per_plan(Some(probes));
        self
    }

    /// Makes plans only by [`rebalance`](Self::rebalance), for instance in a thread of its own: a plan takes some
    /// 100 nanoseconds for each filter and partition.
    #[must_use]
    pub fn without_automatic_plans(self) -> Self {
        self.pool.set_probes_per_plan(None);
        self
    }

    /// Changes the number of bytes, and frees those above it.
    pub fn set_bytes(&self, bytes: u64) {
        self.pool.account.set_limit(bytes);
        self.rebalance();
    }

    /// Adds a file's filter, in the same short time whatever the number of files. Nothing is loaded yet.
    #[must_use]
    pub fn register(&self, layout: FilterLayout, source: Arc<dyn FilterSource>) -> BudgetedFilter {
        BudgetedFilter::new(self.pool.clone(), Arc::new(File::new(layout, source)))
    }

    /// Makes a plan now. What it gives to a filter is loaded when the filter is next probed.
    pub fn rebalance(&self) {
        self.pool.plan();
    }

    /// What has happened so far.
    #[must_use]
    pub fn stats(&self) -> BudgetStats {
        let counts = &self.pool.counts;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BudgetStats {
            limit_bytes: self.pool.account.limit(),
            used_bytes: self.pool.account.used(),
            whole_bytes: count(&counts.whole_bytes),
            units: count(&counts.units),
            loads: count(&counts.loads),
            loaded_bytes: count(&counts.loaded_bytes),
            failed_loads: count(&counts.failed_loads),
            shrinks: count(&counts.shrinks),
            evictions: count(&counts.evictions),
            plans: count(&counts.plans),
        }
    }

    /// The state of each file, in the order of registration, but that places of dropped files are used again.
    #[must_use]
    pub fn files(&self) -> Vec<FileBudget> {
        self.pool.registry.files().map(|(_, file)| FileBudget::of(&file)).collect()
    }
}
