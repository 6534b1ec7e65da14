//! Counters of a whole set of filters or tables, at the price of a plain addition each.
//!
//! An atomic addition costs as much as testing two or three filters, and a lookup over 70 tables counts 70 answers. So
//! each thread has its own stripe of counters, which no other thread writes: it adds by a load and a store. Sums over
//! the stripes are exact while no thread is counting. Rejected: counters shared by all threads, which slowed lookups in
//! many filters even without contention; and one lock over bit-plane counters of 64 tables, a second mechanism without
//! a gain that a whole lookup shows.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Stripes owned by one thread each. Further threads share one more stripe and pay for atomic additions, so this bounds
/// the memory of a set's counters.
const OWNED: usize = 32;

/// Unused counters before and after those of a stripe: 128 bytes, because CPUs prefetch cache lines in pairs, and two
/// stripes that share a pair would slow each other down.
const PADDING: usize = 16;

/// A fixed number of counters, each the sum over all threads.
#[derive(Debug)]
pub(crate) struct StripedCounters {
    stripes: [OnceLock<Box<[AtomicU64]>>; OWNED + 1],
    counters: usize,
}

impl StripedCounters {
    /// `counters` counters of 0. A stripe is allocated when its thread first counts.
    pub(crate) fn new(counters: usize) -> Self {
        Self { stripes: [const { OnceLock::new() }; OWNED + 1], counters }
    }

    /// The counters of this thread.
    #[inline]
    pub(crate) fn of_thread(&self) -> ThreadCounters<'_> {
        let number = stripe_of_thread();
        let stripe = self.stripes[number].get_or_init(|| self.new_stripe());
        ThreadCounters { counters: stripe.get(PADDING..).unwrap_or_default(), is_owned: number < OWNED }
    }

    #[cold]
    fn new_stripe(&self) -> Box<[AtomicU64]> {
        (0..self.counters + 2 * PADDING).map(|_| AtomicU64::new(0)).collect()
    }

    /// The total of counter `index`. If threads add to a whole before its part, a reader that sums the part first never
    /// sees it exceed the whole.
    pub(crate) fn sum(&self, index: usize) -> u64 {
        let stripes = self.stripes.iter().filter_map(OnceLock::get);
        stripes.filter_map(|stripe| stripe.get(PADDING + index)).map(|count| count.load(Ordering::Acquire)).sum()
    }
}

/// The stripe of one thread.
#[derive(Clone, Copy)]
pub(crate) struct ThreadCounters<'a> {
    counters: &'a [AtomicU64],
    is_owned: bool,
}

impl ThreadCounters<'_> {
    /// Adds `more` to counter `index`.
    #[inline]
    pub(crate) fn add(self, index: usize, more: u64) {
        if let Some(counter) = self.counters.get(index) {
            self.add_to(counter, more);
        }
    }

    /// Adds each bit of `bits` to the counter of its position, from counter `first` on.
    #[inline]
    pub(crate) fn add_bits(self, first: usize, bits: u64) {
        if bits != 0 {
            let counters = self.counters.get(first..).unwrap_or_default();
            counters.iter().take(64).enumerate().for_each(|(bit, counter)| self.add_to(counter, bits >> bit & 1));
        }
    }

    /// Release, so that a reader that sees a part of a count also sees the whole, which was added before it. An owned
    /// stripe has one writer, so a plain load and store cannot lose an addition.
    #[inline]
    fn add_to(self, counter: &AtomicU64, more: u64) {
        if self.is_owned {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
        } else {
            counter.fetch_add(more, Ordering::Release);
        }
    }
}

/// One counter of a set, or the sum of several.
#[derive(Clone, Debug)]
pub(crate) struct SharedCounter {
    counters: Arc<StripedCounters>,
    indices: Range<usize>,
}

impl SharedCounter {
    pub(crate) fn new(counters: &Arc<StripedCounters>, index: usize) -> Self {
        Self::sum_of(counters, index..index + 1)
    }

    /// The sum of the counters at `indices`.
    pub(crate) fn sum_of(counters: &Arc<StripedCounters>, indices: Range<usize>) -> Self {
        Self { counters: counters.clone(), indices }
    }

    pub(crate) fn get(&self) -> u64 {
        self.indices.clone().map(|index| self.counters.sum(index)).sum()
    }
}

/// The stripes that threads own, as bits. Threads reuse stripes, so a pool that recreates its threads does not run out of
/// them.
static CLAIMED: AtomicU32 = AtomicU32::new(0);

const _: () = assert!(OWNED == u32::BITS as usize, "a bit for each stripe");

/// A thread's stripe, returned when the thread ends. Release and Acquire order the next owner's additions after this
/// one's.
struct Owned(usize);

impl Owned {
    /// Claims the first free stripe; the shared one if none is free.
    fn claim() -> Self {
        let with_first_free = |claimed: u32| Some(claimed | claimed.wrapping_add(1));
        let claimed = CLAIMED.fetch_update(Ordering::Acquire, Ordering::Relaxed, with_first_free);
        Self(claimed.unwrap_or(u32::MAX).trailing_ones() as usize)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.0 < OWNED {
            CLAIMED.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

/// The stripe of this thread: its own, or the shared one.
#[inline]
fn stripe_of_thread() -> usize {
    thread_local! {
        static STRIPE: Owned = Owned::claim();
    }
    // A thread that is ending has already returned its stripe.
    STRIPE.try_with(|stripe| stripe.0).unwrap_or(OWNED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_come_and_go_and_more_than_have_stripes_lose_nothing() {
        let counters = StripedCounters::new(70);
        for round in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..OWNED + 8 {
                    scope.spawn(|| {
                        for _ in 0..500 {
                            let counting = counters.of_thread();
                            counting.add(0, 2);
                            counting.add(200, 1);
                            counting.add_bits(6, 1 << 63 | 0b101);
                        }
                    });
                }
            });
            let times = (round + 1) * (OWNED as u64 + 8) * 500;
            assert_eq!((counters.sum(0), counters.sum(200)), (times * 2, 0));
            assert_eq!([5, 6, 7, 8, 9, 69].map(|index| counters.sum(index)), [0, times, 0, times, 0, times]);
        }
    }
}
