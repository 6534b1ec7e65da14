//! Striped counters of probes, without contention between threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The first 63 threads of the process have a stripe each; all others share the last one.
const STRIPES: usize = 64;

const SHARED: usize = STRIPES - 1;

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed).min(SHARED);
}

/// The policy that read a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// This package.
    Block,
    /// The old policy of a migration.
    Old,
}

/// Four counts. Two cache lines, because CPUs prefetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    /// Indexed by reader, then by answer: negatives, positives.
    answers: [[AtomicU64; 2]; 2],
}

#[derive(Debug)]
pub(crate) struct Stripes([Stripe; STRIPES]);

impl Default for Stripes {
    fn default() -> Self {
        Self(core::array::from_fn(|_| Stripe::default()))
    }
}

impl Stripes {
    #[inline]
    pub(crate) fn count(&self, reader: Reader, may_contain: bool) {
        // A thread that is ending may have dropped its stripe.
        let stripe = STRIPE.try_with(|&stripe| stripe).unwrap_or(SHARED);
        let count = &self.0[stripe].answers[reader as usize][usize::from(may_contain)];
        // Several threads write the shared stripe, so it needs an atomic addition.
        if stripe == SHARED {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            // A load and a store, because no other thread writes here. A locked instruction would make the probe wait
            // for all earlier stores.
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn sum(&self, reader: Reader, may_contain: bool) -> u64 {
        let count = |stripe: &Stripe| stripe.answers[reader as usize][usize::from(may_contain)].load(Ordering::Relaxed);
        self.0.iter().map(count).sum()
    }
}
