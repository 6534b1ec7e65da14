//! Counting what a lookup skips in many tables at once, at the cost of one lock and not of one addition
//! for each table.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tables of a group: a bit of one word for each.
const GROUP: usize = u64::BITS as usize;

/// Binary digits that are kept apart before they are added to the totals.
const PLANES: usize = 8;

/// Parts of a tally; threads are dealt out to them, so that few meet at the same lock.
const STRIPES: usize = 8;

/// 64 counters, to which the bits of one word are added, one to each.
///
/// They are kept as an adder keeps them: plane `p` holds digit `p` of every counter. So one addition takes
/// two steps on average when the counters go together, and eight at the most, whatever the bits.
#[derive(Debug)]
struct BitCounts {
    planes: [u64; PLANES],
    /// Additions since the planes were last emptied.
    added: u8,
    totals: [u64; GROUP],
}

impl BitCounts {
    const ZERO: Self = Self { planes: [0; PLANES], added: 0, totals: [0; GROUP] };

    #[inline]
    fn add(&mut self, bits: u64) {
        let mut carry = bits;
        for plane in &mut self.planes {
            if carry == 0 {
                break;
            }
            let sum = *plane ^ carry;
            carry &= *plane;
            *plane = sum;
        }
        self.added += 1;
        if self.added == u8::MAX {
            self.empty_planes();
        }
    }

    fn empty_planes(&mut self) {
        for place in 0..GROUP {
            self.totals[place] = self.get(place);
        }
        self.planes = [0; PLANES];
        self.added = 0;
    }

    fn get(&self, place: usize) -> u64 {
        let place = place % GROUP;
        let digits = self.planes.iter().rev();
        self.totals[place] + digits.fold(0, |number, plane| number << 1 | plane >> place & 1)
    }

    fn sum(&self) -> u64 {
        (0..GROUP).map(|place| self.get(place)).sum()
    }
}

/// Tables of one group that one lookup skipped, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skips {
    /// Because the key is outside their range.
    pub(crate) by_range: u64,
    /// Because their filter denied it.
    pub(crate) by_filter: u64,
}

#[derive(Debug)]
struct GroupCounts {
    by_range: BitCounts,
    by_filter: BitCounts,
}

/// What the threads of one stripe have counted.
#[derive(Debug)]
struct Counts {
    lookups: u64,
    groups: Vec<GroupCounts>,
}

/// A stripe has its cache lines to itself, and those that are fetched with them.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe(Mutex<Counts>);

impl Stripe {
    /// What a thread that panicked has counted stays.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often each table of a set was skipped. Every count is exact once the lookups counted have returned.
#[derive(Debug)]
pub(crate) struct SkipTally {
    stripes: [Stripe; STRIPES],
}

impl SkipTally {
    /// Counters for so many groups of 64 tables.
    pub(crate) fn new(groups: usize) -> Self {
        let group = || GroupCounts { by_range: BitCounts::ZERO, by_filter: BitCounts::ZERO };
        let counts = |_| Counts { lookups: 0, groups: (0..groups).map(|_| group()).collect() };
        Self { stripes: [0; STRIPES].map(|zero| Stripe(Mutex::new(counts(zero)))) }
    }

    /// Where a lookup, or a batch of them, writes down what it skips.
    #[inline]
    pub(crate) fn ledger(&self, lookups: u64) -> Ledger<'_> {
        Ledger { tally: self, lookups, entries: [(0, Skips::default()); LEDGER_ENTRIES], used: 0 }
    }

    /// Lookups counted.
    pub(crate) fn lookups(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.lock().lookups).sum()
    }

    /// Skips by range and by filter, over all tables.
    pub(crate) fn sums(&self) -> (u64, u64) {
        let mut sums = (0, 0);
        for stripe in &self.stripes {
            for group in &stripe.lock().groups {
                sums = (sums.0 + group.by_range.sum(), sums.1 + group.by_filter.sum());
            }
        }
        sums
    }

    fn sum_of(&self, group: usize, count: impl Fn(&GroupCounts) -> u64) -> u64 {
        self.stripes.iter().map(|stripe| stripe.lock().groups.get(group).map_or(0, &count)).sum()
    }
}

/// Entries that a ledger holds before it takes the lock.
const LEDGER_ENTRIES: usize = 4;

/// What a lookup has skipped and the tally does not know yet; dropping it tells the tally.
#[derive(Debug)]
pub(crate) struct Ledger<'a> {
    tally: &'a SkipTally,
    lookups: u64,
    entries: [(usize, Skips); LEDGER_ENTRIES],
    used: usize,
}

impl Ledger<'_> {
    #[inline]
    pub(crate) fn add(&mut self, group: usize, skips: Skips) {
        if self.used == LEDGER_ENTRIES {
            self.flush();
        }
        self.entries[self.used % LEDGER_ENTRIES] = (group, skips);
        self.used += 1;
    }

    fn flush(&mut self) {
        let mut counts = self.tally.stripes[stripe_of_thread() % STRIPES].lock();
        counts.lookups += self.lookups;
        for (group, skips) in self.entries.iter().take(self.used) {
            if let Some(group) = counts.groups.get_mut(*group) {
                group.by_range.add(skips.by_range);
                group.by_filter.add(skips.by_filter);
            }
        }
        (self.lookups, self.used) = (0, 0);
    }
}

impl Drop for Ledger<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The stripe of this thread; threads take turns.
#[inline]
fn stripe_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    STRIPE.try_with(|stripe| *stripe).unwrap_or_default()
}

/// One table's counters in the tally of its set.
#[derive(Clone, Debug)]
pub(crate) struct SkipShare {
    tally: Arc<SkipTally>,
    position: usize,
}

impl SkipShare {
    /// The share of the table at `position` in its set.
    pub(crate) fn new(tally: &Arc<SkipTally>, position: usize) -> Self {
        Self { tally: tally.clone(), position }
    }

    pub(crate) fn by_range(&self) -> u64 {
        self.tally.sum_of(self.position / GROUP, |group| group.by_range.get(self.position))
    }

    pub(crate) fn by_filter(&self) -> u64 {
        self.tally.sum_of(self.position / GROUP, |group| group.by_filter.get(self.position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHash;

    #[test]
    fn bits_add_up_over_many_times_what_the_planes_hold() {
        let mut counts = BitCounts::ZERO;
        let mut expected = [0; GROUP];
        for round in 0..1_500 {
            let bits = if round % 3 == 0 { u64::MAX } else { KeyHash::from_remixed(round).get() };
            counts.add(bits);
            for (place, expected) in expected.iter_mut().enumerate() {
                *expected += bits >> place & 1;
                assert_eq!(counts.get(place), *expected);
            }
        }
        assert_eq!(counts.sum(), expected.iter().sum::<u64>());
    }

    #[test]
    fn threads_that_share_a_tally_lose_nothing() {
        let tally = Arc::new(SkipTally::new(6));
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let mut ledger = tally.ledger(2);
                        (0..7).for_each(|group| ledger.add(group, Skips { by_range: 1 << 63, by_filter: 3 }));
                    }
                });
            }
        });
        let lookups = 2 * STRIPES as u64 * 300;
        assert_eq!(tally.lookups(), lookups * 2);
        assert_eq!(tally.sums(), (lookups * 6, lookups * 12));
        let share = |position| SkipShare::new(&tally, position);
        assert_eq!((share(63).by_range(), share(62).by_range(), share(127).by_range()), (lookups, 0, lookups));
        assert_eq!((share(64).by_filter(), share(66).by_filter(), share(600).by_filter()), (lookups, 0, 0));
    }
}
