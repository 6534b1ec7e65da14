//! Filters that share a number of bytes, of which each gets what prevents most useless reads.
//!
//! The filters of a large store do not fit into its memory, and a cache that keeps or drops them whole spends its bytes
//! badly: the first bits of a filter prevent far more reads than the last ones. A [`FilterBudget`] gives each file a
//! share by its use. Filters come into memory when they are probed; those that the plan gives fewer bytes are *shrunk*
//! ([`FilterBlock::shrink_to`](sstfilter::FilterBlock::shrink_to)), and a cold file's go last to none. Everything is
//! reversible, because the whole filter stays in its file. Point filters, their partitions and range filters compete by
//! the same measure: useless reads prevented per byte.
//!
//! - A filter that is not in memory answers "may be present". No answer is ever "absent" for a key that is there.
//! - Readers do not wait. A thread that finds another one loading a filter goes on without it.
//! - One probe of a cold file displaces nothing: a plan, made after many probes, counts all that was used.

mod account;
mod curve;
mod file;
mod plan;
#[cfg(test)]
mod plan_tests;
mod pool;
mod state;
mod unit;

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

pub(super) use file::{File, POINTS, RANGES};
pub(super) use pool::{Matching, Place, Pool};
pub use state::{BudgetStats, FilterResidency, ResidencyReason};
pub(super) use state::{point_failure, range_failure};
pub(super) use unit::{Held, HeldFilter, Unit};

/// One number of bytes for all filters of a store. Clones share it.
///
/// Filters are loaded when they are first probed, as long as they fit. When they no longer do, a *plan* divides the
/// bytes so that lookups read as few useless data blocks as possible: files with many lookups of absent keys hold their
/// filters whole, others shrunk to fewer bytes, cold ones not at all. Plans are made again after a number of probes, by
/// a thread that probes, so the division follows the lookups.
///
/// Ribbon filters shrink best. Bloom filters should have numbers of lines that divide well
/// ([`BlockedBloomKind::with_fold`](sstfilter::kind::BlockedBloomKind::with_fold)), and rather four probes than six.
///
/// Nothing here depends on a clock or on chance: the same calls by one thread give the same state.
#[derive(Clone, Debug)]
pub struct FilterBudget {
    pub(super) pool: Arc<Pool>,
}

impl FilterBudget {
    /// `bytes` bytes for filters. Memory exceeds them by one filter at most, while it is loaded to be shrunk, or while
    /// a smaller or larger one takes its place; whatever the number of threads. A budget of 0 bytes loads nothing.
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
        self.pool.shrinks.store(false, Ordering::Relaxed);
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

    /// Makes a plan now. What it gives to a filter is loaded when the filter is next probed.
    pub fn rebalance(&self) {
        self.pool.plan();
    }

    /// What has happened so far.
    #[must_use]
    pub fn stats(&self) -> BudgetStats {
        let counts = &self.pool.counts;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (mut units, mut whole_bytes) = (0, 0_u64);
        for file in self.pool.files() {
            units += file.units().count() as u64;
            whole_bytes = whole_bytes.saturating_add(file.whole_bytes());
        }
        BudgetStats {
            limit_bytes: self.pool.account.limit(),
            used_bytes: self.pool.account.used(),
            whole_bytes,
            partitions: units,
            loads: count(&counts.loads),
            loaded_bytes: count(&counts.loaded_bytes),
            failed_loads: count(&counts.failed_loads),
            shrinks: count(&counts.shrinks),
            evictions: count(&counts.evictions),
            plans: count(&counts.plans),
        }
    }
}
