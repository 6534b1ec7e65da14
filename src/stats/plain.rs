//! The counters of a build without `std`, which has no thread locals: all threads add atomically to shared counters.
//! `striped.rs` explains their use.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::kernel::prefetch::prefetch;

/// Release here and Acquire in `count`, for the same reason as in `striped.rs`. Counters are as wide as pointers,
/// because not every target has 64-bit atomics, and saturate.
fn add(counters: &[AtomicUsize], index: usize, more: u64) {
    let Some(counter) = counters.get(index) else { return };
    let more = usize::try_from(more).unwrap_or(usize::MAX);
    let _ = counter.fetch_update(Ordering::Release, Ordering::Relaxed, |count| Some(count.saturating_add(more)));
}

fn count(counters: &[AtomicUsize], index: usize) -> u64 {
    counters.get(index).map_or(0, |counter| counter.load(Ordering::Acquire)) as u64
}

/// A fixed number of counters.
#[derive(Debug)]
pub(crate) struct StripedCounters(Vec<AtomicUsize>);

impl StripedCounters {
    pub(crate) fn new(counters: usize) -> Self {
        Self((0..counters).map(|_| AtomicUsize::new(0)).collect())
    }

    pub(crate) fn of_thread(&self) -> ThreadCounters<'_> {
        ThreadCounters(&self.0)
    }

    pub(crate) fn sum(&self, index: usize) -> u64 {
        count(&self.0, index)
    }
}

/// The counters, for a thread to add to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadCounters<'a>(&'a [AtomicUsize]);

impl ThreadCounters<'_> {
    pub(crate) fn add(self, index: usize, more: u64) {
        add(self.0, index, more);
    }
}

/// A few counters for one reader.
#[derive(Debug, Default)]
pub(crate) struct CounterSlot([AtomicUsize; 8]);

impl CounterSlot {
    pub(crate) fn add(&self, index: usize, more: u64) {
        add(&self.0, index, more);
    }

    pub(crate) fn prefetch(&self) {
        prefetch(&raw const self.0);
    }

    pub(crate) fn sums<const COUNT: usize>(&self, indices: [usize; COUNT]) -> [u64; COUNT] {
        indices.map(|index| count(&self.0, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_counted_and_the_most_stays_the_most() {
        let counters = StripedCounters::new(2);
        for more in [3, 4, u64::MAX] {
            counters.of_thread().add(1, more);
            counters.of_thread().add(2, more);
        }
        assert_eq!((counters.sum(0), counters.sum(1), counters.sum(2)), (0, usize::MAX as u64, 0));
        let slot = CounterSlot::default();
        slot.add(7, 5);
        assert_eq!(slot.sums([7, 0]), [5, 0]);
    }
}
