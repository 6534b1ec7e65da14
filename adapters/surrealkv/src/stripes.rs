//! Counters of probes that threads do not contend for.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// As many threads count in cache lines of their own; more share some.
const STRIPES: usize = 32;

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

/// The answers of filters, by which policy read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// This package.
    Block,
    /// The policy that is migrated from.
    Old,
}

/// Four counts. Two cache lines, because CPUs prefetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    /// Indexed by reader, then by answer: negatives, positives.
    answers: [[AtomicU64; 2]; 2],
}

#[derive(Debug, Default)]
pub(crate) struct Stripes([Stripe; STRIPES]);

impl Stripes {
    #[inline]
    pub(crate) fn count(&self, reader: Reader, may_contain: bool) {
        // A thread that is ending has no stripe any more, and counts in the first.
        let stripe = STRIPE.try_with(|&stripe| stripe).unwrap_or(0);
        self.0[stripe].answers[reader as usize][usize::from(may_contain)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sum(&self, reader: Reader, may_contain: bool) -> u64 {
        let count = |stripe: &Stripe| stripe.answers[reader as usize][usize::from(may_contain)].load(Ordering::Relaxed);
        self.0.iter().map(count).sum()
    }
}
