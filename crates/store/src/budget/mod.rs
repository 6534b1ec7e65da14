//! Splits a memory budget among filters so that it prevents the most useless reads.
//!
//! The filters of a large store do not fit into its memory, and a cache that keeps or drops them whole spends its bytes
//! badly: the first bits of a filter prevent far more reads than the last ones. A [`FilterBudget`] gives each file a
//! share by its use. Filters are loaded when they are probed. Those with a smaller share are *shrunk*
//! ([`FilterBlock::shrink_to`](sstfilter::FilterBlock::shrink_to)), and cold files end up without any. Everything is
//! reversible, because the whole filter stays in its file. Point filters, their partitions and range filters compete by
//! the same measure: useless reads prevented per byte.
//!
//! - A filter that is not in memory answers "may be present". The answer for a key in the file is never "absent".
//! - Readers do not wait. A thread that finds another thread loading a filter continues without it.
//! - One probe of a cold file displaces nothing: a plan is made after many probes, and counts everything that was used.

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

pub(super) use file::{File, INDEX, POINTS, RANGES};
pub(super) use pool::{Matching, Pool, Reservation};
pub use state::{BudgetStats, FilterResidency, ResidencyReason};
pub(super) use state::{point_failure, range_failure};
pub(super) use unit::{Held, HeldFilter, Unit};

/// A memory budget for all filters of a store. Clones share it.
///
/// Filters are loaded when they are first probed, as long as they fit. When they no longer fit, a *plan* divides the
/// bytes so that lookups read as few useless data blocks as possible: files with many lookups of absent keys keep their
/// filters whole, others get shrunk filters, cold ones none. A probing thread makes a new plan after a number of
/// probes, so the division follows the lookups.
///
/// A store with a budget builds its filters to [shrink](sstfilter::BuildContext::shrinkable). Set the budget on the
/// store that writes, too, even if another one reads. Ribbon filters shrink best; binary fuse, xor, cuckoo and line
/// ribbon filters do not shrink.
///
/// The budget depends on no clock and no random numbers: the same calls by one thread lead to the same state.
#[derive(Clone, Debug)]
pub struct FilterBudget {
    pub(super) pool: Arc<Pool>,
}

impl FilterBudget {
    /// Creates a budget of `bytes` bytes. Memory exceeds them by at most one filter, while it is loaded to be shrunk,
    /// or while a smaller or larger one replaces it, however many threads there are. A budget of 0 bytes loads nothing.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self { pool: Arc::new(Pool::new(bytes)) }
    }

    /// Creates a budget without a limit: filters are loaded when they are first probed, and stay.
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

    pub(super) fn shrinks(&self) -> bool {
        self.pool.shrinks.load(Ordering::Relaxed)
    }

    /// Makes a plan after each `probes` probes. By default the number is 16 for each filter and partition. More
    /// frequent plans follow the lookups faster, and read more filters again. Negatives count in steps of 64.
    #[must_use]
    pub fn with_probes_per_plan(self, probes: u64) -> Self {
        self.pool.set_probes_per_plan(Some(probes));
        self
    }

    /// Makes plans only in [`rebalance`](Self::rebalance), for instance in a separate thread: a plan takes some 100
    /// nanoseconds for each filter and partition.
    #[must_use]
    pub fn without_automatic_plans(self) -> Self {
        self.pool.set_probes_per_plan(None);
        self
    }

    /// Changes the limit, and frees the bytes above it.
    pub fn set_bytes(&self, bytes: u64) {
        // The limit first: the plan that follows frees the bytes above it.
        self.pool.account.set_limit(bytes);
        self.rebalance();
    }

    /// Makes a plan now. What it gives a filter is loaded when the filter is next probed.
    pub fn rebalance(&self) {
        self.pool.plan();
    }

    /// Returns the counts and sizes of the budget so far.
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
