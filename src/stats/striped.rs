//! Counters of sets of filters or tables, and of single readers. Counting costs one plain addition.
//!
//! An atomic addition costs as much as testing two or three filters, and a lookup over 70 tables counts 70 answers. So
//! each thread adds to its own stripe of counters with a load and a store; no other thread writes there. Sums over the
//! stripes are exact while no thread is counting. Rejected: counters shared by all threads, which slowed lookups in
//! many filters even without contention, and one lock over bit-plane counters of 64 tables, a second mechanism without
//! a gain for whole lookups.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::kernel::prefetch::prefetch;
use crate::panics::locks::lock;

/// The number of stripes with one owner each. Further threads share one more stripe and pay for atomic additions, so
/// this number bounds the memory of a set's counters.
const OWNED: usize = 128;

/// One `T` for each thread that counts, allocated at its first count.
#[derive(Debug)]
struct Stripes<T: ?Sized> {
    owned: [OnceLock<Box<T>>; OWNED],
    shared: OnceLock<Box<T>>,
}

impl<T: ?Sized> Stripes<T> {
    fn new() -> Self {
        Self { owned: [const { OnceLock::new() }; OWNED], shared: OnceLock::new() }
    }

    /// The stripe that this thread owns, if it has counted here before.
    #[inline]
    fn own(&self) -> Option<&T> {
        // `SHARED` and `UNCLAIMED` are beyond the end, so such threads own no stripe.
        Some(self.owned.get(STRIPE.get())?.get()?)
    }

    /// The stripe of this thread, and whether no other thread writes there.
    #[cold]
    fn of_thread(&self, empty: impl FnOnce() -> Box<T>) -> (&T, bool) {
        match self.owned.get(stripe_of_thread()) {
            Some(stripe) => (stripe.get_or_init(empty), true),
            None => (self.shared.get_or_init(empty), false),
        }
    }

    fn all(&self) -> impl Iterator<Item = &T> {
        self.owned.iter().chain([&self.shared]).filter_map(OnceLock::get).map(Box::as_ref)
    }
}

/// Unused counters before and after those of a stripe: 128 bytes, because CPUs prefetch cache lines in pairs. Two
/// stripes that share a pair would slow each other down.
const PADDING: usize = 16;

/// A fixed number of counters, each summed over all threads.
#[derive(Debug)]
pub struct StripedCounters {
    stripes: Stripes<[AtomicU64]>,
    counters: usize,
}

impl StripedCounters {
    /// Creates `counters` counters, all 0.
    #[must_use]
    pub fn new(counters: usize) -> Self {
        Self { stripes: Stripes::new(), counters }
    }

    /// The counters of this thread.
    #[inline]
    pub fn of_thread(&self) -> ThreadCounters<'_> {
        let (stripe, is_owned) = match self.stripes.own() {
            Some(stripe) => (stripe, true),
            None => self.stripes.of_thread(|| (0..self.counters + 2 * PADDING).map(|_| AtomicU64::new(0)).collect()),
        };
        ThreadCounters { counters: stripe.get(PADDING..).unwrap_or_default(), is_owned }
    }

    /// Returns the totals of all counters; within each stripe, the first is read first. See [`sum`](Self::sum).
    pub fn sums(&self) -> Vec<u64> {
        let mut sums = vec![0; self.counters];
        for stripe in self.stripes.all() {
            let counts = stripe.get(PADDING..).unwrap_or_default();
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count.load(Ordering::Acquire));
        }
        sums
    }

    /// Returns the total of counter `index`. If threads add to a whole before its part, a reader that sums the part
    /// first never sees it exceed the whole.
    pub fn sum(&self, index: usize) -> u64 {
        let counts = self.stripes.all().filter_map(|stripe| stripe.get(PADDING + index));
        counts.map(|count| count.load(Ordering::Acquire)).sum()
    }
}

/// The stripe of one thread.
#[derive(Clone, Copy)]
pub struct ThreadCounters<'a> {
    counters: &'a [AtomicU64],
    is_owned: bool,
}

impl ThreadCounters<'_> {
    /// Adds `more` to counter `index`.
    #[inline]
    pub fn add(self, index: usize, more: u64) {
        // An index beyond the end is ignored, because counting must not panic.
        if let Some(counter) = self.counters.get(index) {
            self.add_to(counter, more);
        }
    }

    /// Returns counter `index` of this stripe alone.
    #[must_use]
    #[inline]
    pub fn get(self, index: usize) -> u64 {
        self.counters.get(index).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// Adds each bit of `bits` to the counter of its position, from counter `first` on.
    #[inline]
    pub fn add_bits(self, first: usize, bits: u64) {
        if bits != 0 {
            let counters = self.counters.get(first..).unwrap_or_default();
            counters.iter().take(64).enumerate().for_each(|(bit, counter)| self.add_to(counter, bits >> bit & 1));
        }
    }

    #[inline]
    fn add_to(self, counter: &AtomicU64, more: u64) {
        add(counter, more, self.is_owned);
    }
}

/// Release, so that a reader that sees a part also sees the whole, which was added before it. An owned stripe has one
/// writer, so a plain load and store cannot lose an addition.
#[inline]
fn add(counter: &AtomicU64, more: u64, is_owned: bool) {
    if is_owned {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
    } else {
        counter.fetch_add(more, Ordering::Release);
    }
}

/// A few counters for objects that are numerous, such as readers of filters. A slot shares its stripes with up to 63
/// others, because a stripe has a fixed cost.
///
/// Dropped slots are reused, the first ones first, so memory grows with the slots in use at once, not with all slots
/// ever created. A group of slots takes 2 KiB, and 4 KiB for each thread that counts in it.
#[derive(Debug)]
pub(crate) struct CounterSlot {
    stripes: Arc<Stripes<SlotStripe>>,
    slot: u32,
}

/// Counters per slot: one cache line of each thread's stripe.
const SLOT: usize = 8;

/// Slots that share stripes: one for each bit of a word, which records the free ones.
const SLOTS: usize = u64::BITS as usize;

/// Aligned to pairs of cache lines, for the reason of `PADDING`. The length is constant, so that an addition checks no
/// bound.
#[derive(Debug)]
#[repr(align(128))]
struct SlotStripe([[AtomicU64; SLOT]; SLOTS]);

/// All groups of slots in use, each with its free slots as bits.
// Locked only when a reader is opened or dropped, never to count.
static GROUPS: Mutex<Vec<(Arc<Stripes<SlotStripe>>, u64)>> = Mutex::new(Vec::new());

impl Default for CounterSlot {
    /// Takes a free slot, whose counters are 0.
    fn default() -> Self {
        let mut groups = lock(&GROUPS);
        for (stripes, free) in groups.iter_mut() {
            if *free != 0 {
                let slot = free.trailing_zeros();
                *free &= *free - 1;
                return Self { stripes: stripes.clone(), slot };
            }
        }
        let stripes = Arc::new(Stripes::new());
        // All slots are free except the first, which is returned.
        groups.push((stripes.clone(), u64::MAX - 1));
        Self { stripes, slot: 0 }
    }
}

impl CounterSlot {
    /// Adds `more` to counter `index`, which must be below [`SLOT`]. With an owned stripe, this takes 14 instructions,
    /// about a nanosecond.
    #[inline]
    pub(crate) fn add(&self, index: usize, more: u64) {
        match self.stripes.own() {
            // The remainder replaces the check of a bound.
            Some(stripe) => add(&self.counters(stripe)[index % SLOT], more, true),
            None => self.add_without_own(index, more),
        }
    }

    /// Prefetches the counters of this thread, if it has counted here before.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if let Some(stripe) = self.stripes.own() {
            prefetch(self.counters(stripe));
        }
    }

    #[cold]
    #[inline(never)]
    fn add_without_own(&self, index: usize, more: u64) {
        let empty = || Box::new(SlotStripe([const { [const { AtomicU64::new(0) }; SLOT] }; SLOTS]));
        let (stripe, is_owned) = self.stripes.of_thread(empty);
        add(&self.counters(stripe)[index % SLOT], more, is_owned);
    }

    /// Returns the totals of the counters at `indices`, read in no particular order; see [`StripedCounters::sum`].
    pub(crate) fn sums<const COUNT: usize>(&self, indices: [usize; COUNT]) -> [u64; COUNT] {
        let mut sums = [0; COUNT];
        for stripe in self.stripes.all() {
            let counters = self.counters(stripe);
            for (sum, index) in sums.iter_mut().zip(indices) {
                *sum += counters[index % SLOT].load(Ordering::Acquire);
            }
        }
        sums
    }

    #[inline]
    fn counters<'a>(&self, stripe: &'a SlotStripe) -> &'a [AtomicU64; SLOT] {
        &stripe.0[self.slot as usize % SLOTS]
    }
}

impl Drop for CounterSlot {
    /// Frees the slot and clears its counters, in which no thread counts any more. The lock orders this before the next
    /// use.
    fn drop(&mut self) {
        for stripe in self.stripes.all() {
            self.counters(stripe).iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
        let mut groups = lock(&GROUPS);
        let group = groups.iter().position(|(stripes, _)| Arc::ptr_eq(stripes, &self.stripes));
        if let Some(group) = group.and_then(|index| groups.get_mut(index)) {
            group.1 |= 1 << self.slot;
        }
        // A group whose slots are all free is dropped, so that memory follows the readers in use.
        groups.retain(|(_, free)| *free != u64::MAX);
    }
}

/// The owned stripes, as bits. Threads reuse stripes, so a pool that recreates its threads does not run out of stripes.
static CLAIMED: [AtomicU64; OWNED / 64] = [const { AtomicU64::new(0) }; OWNED / 64];

/// A thread's claim to a stripe, returned when the thread ends. Release and Acquire order the next owner's additions
/// after this owner's.
struct Claim(usize);

impl Claim {
    /// Claims the first free stripe, or the shared one if none is free.
    fn new() -> Self {
        // Sets the lowest clear bit. If all bits are set, the sum wraps to 0 and nothing changes.
        let with_first_free = |claimed: u64| Some(claimed | claimed.wrapping_add(1)).filter(|with| *with != claimed);
        let free = CLAIMED.iter().zip((0..).step_by(64)).find_map(|(claimed, first)| {
            let before = claimed.fetch_update(Ordering::Acquire, Ordering::Relaxed, with_first_free).ok()?;
            Some(first + before.trailing_ones() as usize)
        });
        Self(free.unwrap_or(SHARED))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Further counts of this ending thread go to the shared stripe. Where the standard library stores thread locals
        // by keys (Windows with GNU's tools), they can be created once more, and the thread then claims a stripe again.
        STRIPE.set(SHARED);
        if let Some(claimed) = CLAIMED.get(self.0 / 64) {
            claimed.fetch_and(!(1 << (self.0 % 64)), Ordering::Release);
        }
    }
}

/// Values in place of an owned stripe's number: the shared stripe, and a thread that has not counted yet.
const SHARED: usize = OWNED;
const UNCLAIMED: usize = usize::MAX;

thread_local! {
    /// The stripe of this thread. Separate from the claim, because one instruction reads a value without a destructor.
    static STRIPE: Cell<usize> = const { Cell::new(UNCLAIMED) };
    static CLAIM: Claim = Claim::new();
}

/// The stripe of this thread: its own or the shared one.
fn stripe_of_thread() -> usize {
    if STRIPE.get() == UNCLAIMED {
        // No claim can be made while the thread ends.
        STRIPE.set(CLAIM.try_with(|claim| claim.0).unwrap_or(SHARED));
    }
    STRIPE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(target_os = "wasi", ignore = "starts threads")]
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

    /// The totals of all counters of a slot.
    fn totals(slot: &CounterSlot) -> [u64; SLOT] {
        slot.sums(core::array::from_fn(|index| index))
    }

    #[test]
    #[cfg_attr(target_os = "wasi", ignore = "starts threads")]
    fn slots_are_apart_and_count_exactly_with_more_threads_than_have_stripes() {
        let slots: Vec<CounterSlot> = (0..=2 * SLOTS).map(|_| CounterSlot::default()).collect();
        std::thread::scope(|scope| {
            for _ in 0..OWNED + 8 {
                scope.spawn(|| {
                    for (number, slot) in (0..).zip(&slots) {
                        (0..SLOT).for_each(|index| slot.add(index, number + index as u64));
                    }
                });
            }
        });
        for (number, slot) in (0..).zip(&slots) {
            let expected = core::array::from_fn(|index| (number + index as u64) * (OWNED as u64 + 8));
            assert_eq!(totals(slot), expected, "slot {number}");
        }
    }

    #[test]
    fn dropped_slots_are_reused_from_0_on_and_few_that_stay_keep_few_stripes() {
        let mut kept = Vec::new();
        for number in 0..40 * SLOTS {
            let slot = CounterSlot::default();
            assert_eq!(totals(&slot), [0; SLOT]);
            slot.add(number % SLOT, 7);
            if number % SLOTS == 0 {
                kept.push(slot);
            }
        }
        let mut groups: Vec<_> = kept.iter().map(|slot| Arc::as_ptr(&slot.stripes)).collect();
        groups.sort_unstable();
        groups.dedup();
        // Other tests use slots at the same time.
        assert!(groups.len() <= 8, "{} groups for {} slots", groups.len(), kept.len());
    }

    #[test]
    #[cfg_attr(target_os = "wasi", ignore = "starts threads")]
    fn threads_write_no_line_in_common() {
        let slot = CounterSlot::default();
        let written = |slot: &CounterSlot| {
            slot.add(0, 1);
            slot.stripes.own().map(|stripe| core::ptr::from_ref(stripe).addr())
        };
        let here = written(&slot).expect("fewer threads than stripes");
        let there = std::thread::scope(|scope| scope.spawn(|| written(&slot)).join()).expect("it counts");
        assert!(there.is_some_and(|there| there != here && there.is_multiple_of(128)) && here.is_multiple_of(128));
    }

    /// Counts once more when its thread ends.
    struct Late(Arc<StripedCounters>);

    impl Drop for Late {
        fn drop(&mut self) {
            self.0.of_thread().add(0, 1);
            let is_claimed = CLAIM.try_with(|claim| claim.0 == STRIPE.get()).unwrap_or(false);
            assert!(is_claimed || self.0.stripes.own().is_none(), "another thread may own the stripe by now");
        }
    }

    #[test]
    #[cfg_attr(target_os = "wasi", ignore = "starts threads")]
    fn a_thread_that_counts_while_it_ends_uses_the_shared_stripe() {
        thread_local! {
            static LATE: Cell<Option<Late>> = const { Cell::new(None) };
        }
        let counters = Arc::new(StripedCounters::new(1));
        for _ in 0..4 {
            let counters = counters.clone();
            // Registered before the claim, so it is dropped after it, unless the platform drops thread locals in no
            // particular order.
            let counting = move || {
                LATE.set(Some(Late(counters.clone())));
                counters.of_thread().add(0, 1);
            };
            std::thread::spawn(counting).join().expect("it counts");
        }
        assert_eq!(counters.sum(0), 8);
    }
}
