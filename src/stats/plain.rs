//! The counters of a build without `std`, in which nothing tells threads apart: atomic additions to counters that all
//! share. See `striped.rs` for what they are for.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::kernel::prefetch::prefetch;

/// Release, and Acquire where they are read, for the same reason as in `striped.rs`.
fn add(counters: &[AtomicUsize], index: usize, more: u64) {
    if let Some(counter) = counters.get(index) {
        #[expect(clippy::cast_possible_truncation, reason = "they are as wide as the target's atomics, and wrap")]
        counter.fetch_add(more as usize, Ordering::Release);
    }
}

fn count(counters: &[AtomicUsize], index: usize) -> u64 {
    counters.get(index).map_or(0, |counter| counter.load(Ordering::Acquire)) as u64
}

/// A fixed number of counters.
#[derive(Debug)]
pub struct StripedCounters(Vec<AtomicUsize>);

impl StripedCounters {
    /// All zero.
    #[must_use]
    pub fn new(counters: usize) -> Self {
        Self((0..counters).map(|_| AtomicUsize::new(0)).collect())
    }

    /// To add to them.
    #[must_use]
    pub fn of_thread(&self) -> ThreadCounters<'_> {
        ThreadCounters(&self.0)
    }

    /// A counter.
    #[must_use]
    pub fn sum(&self, index: usize) -> u64 {
        count(&self.0, index)
    }
}

/// The counters, as one thread adds to them.
#[derive(Clone, Copy, Debug)]
pub struct ThreadCounters<'a>(&'a [AtomicUsize]);

impl ThreadCounters<'_> {
    /// Adds to a counter.
    pub fn add(self, index: usize, more: u64) {
        add(self.0, index, more);
    }

    /// Adds each bit of `bits` to the counter of its position, from counter `first` on.
    pub fn add_bits(self, first: usize, bits: u64) {
        (0..64).filter(|bit| bits >> bit & 1 == 1).for_each(|bit| self.add(first + bit, 1));
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
