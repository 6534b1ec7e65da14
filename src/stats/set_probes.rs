//! Counting the probes of a set of filters: one addition for all of them.

use core::sync::atomic::{AtomicU64, Ordering};

use super::tally::{STRIPES, stripe_of_thread};

/// How often a set has probed its filters, all of them each time. A filter's negatives are these less its positives,
/// which are few.
#[derive(Debug, Default)]
pub(crate) struct SetProbes {
    stripes: [Stripe; STRIPES],
}

/// The part of some of the threads, with cache lines to itself.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

impl SetProbes {
    /// Counts probes; before any of their positives is counted.
    #[inline]
    pub(crate) fn add(&self, probes: u64) {
        self.stripes[stripe_of_thread() % STRIPES].0.fetch_add(probes, Ordering::Relaxed);
    }

    /// All probes so far.
    pub(crate) fn sum(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}
