//! The unit of loading: a file's whole point filter, one of its partitions, or its range filter.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use sstfilter::{FilterBlock, KeyHash};

use super::account::Charge;
use crate::error::FilterProblem;
use crate::ranges::{self, RangeFilter};

/// The number of a curve in [`Curves`](super::curve::Curves); 0 before the curve is known.
pub(super) type CurveNumber = u16;

/// The state of a unit. It has 40 bytes, because a store of large filters has millions of partitions.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    held: ArcSwapOption<Held>,
    /// Bytes of the whole block; 0 for a partition without a filter.
    pub(crate) whole_bytes: u64,
    /// Bytes that the last plan gives to it.
    planned_bytes: AtomicU64,
    /// Negatives since the last plan.
    negatives: AtomicU32,
    /// Probes without a block since the last plan, minus those whose key was found.
    unanswered: AtomicU32,
    /// An `f32`: lookups of absent keys before the last plan, with a decaying weight.
    absent: AtomicU32,
    pub(super) curve: AtomicU16,
    /// The number of the plan under which it was loaded.
    pub(super) loaded_under: AtomicU8,
    /// Whether a thread is changing `held`.
    is_busy: AtomicU8,
}

/// The content of a unit.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "failures are rare, and a probe of a block follows one pointer less")]
pub(crate) enum Held {
    Block(HeldBlock),
    Failed(Failure),
}

impl Held {
    /// Returns the point filter, if the unit holds one.
    #[inline]
    pub(crate) const fn points(&self) -> Option<&FilterBlock<Bytes>> {
        if let Self::Block(held) = self { held.filter.points() } else { None }
    }

    /// Whether the file may contain a key; `whole` is its hash.
    #[inline]
    pub(crate) fn may_contain(&self, key: &[u8], whole: impl FnOnce() -> KeyHash) -> bool {
        match self {
            Self::Block(HeldBlock { filter: HeldFilter::Points(block), .. }) => block.may_contain(whole()),
            Self::Block(HeldBlock { filter: HeldFilter::Ranges(filter), .. }) => filter.may_contain(key),
            Self::Failed(_) => true,
        }
    }

    /// Returns the range filter, if the unit holds one.
    pub(crate) fn ranges(&self) -> Option<&RangeFilter> {
        self.block()?.filter.ranges()
    }

    pub(super) const fn block(&self) -> Option<&HeldBlock> {
        if let Self::Block(held) = self { Some(held) } else { None }
    }

    /// Returns why there is no block.
    pub(crate) const fn failure(&self) -> Option<&Failure> {
        if let Self::Failed(failure) = self { Some(failure) } else { None }
    }
}

/// A filter in memory.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "range filters are rare, and a probe of a block follows one pointer less"
)]
pub(crate) enum HeldFilter {
    Points(FilterBlock<Bytes>),
    Ranges(Box<RangeFilter>),
}

impl HeldFilter {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Points(block) => block.as_bytes().len() as u64,
            Self::Ranges(filter) => filter.as_bytes().len() as u64,
        }
    }

    #[inline]
    pub(crate) const fn points(&self) -> Option<&FilterBlock<Bytes>> {
        if let Self::Points(block) = self { Some(block) } else { None }
    }

    pub(crate) const fn ranges(&self) -> Option<&RangeFilter> {
        if let Self::Ranges(filter) = self { Some(filter) } else { None }
    }

    /// Returns the claimed false positive rate; 1 if a user-defined kind claims an impossible one. For a range filter,
    /// the rate of the longest ranges that it was built for.
    pub(super) fn expected_fpr(&self) -> f64 {
        let fpr = match self {
            Self::Points(block) => block.expected_fpr(),
            Self::Ranges(filter) => ranges::expected_fpr(filter),
        };
        if (0.0..=1.0).contains(&fpr) { fpr } else { 1.0 }
    }

    /// Returns a filter of the same keys in at most `max_bytes`; `None` if that is not possible.
    fn shrunk(&self, max_bytes: u64) -> Option<Self> {
        match self {
            Self::Points(block) => block.shrink_to(max_bytes).ok().map(Self::Points),
            Self::Ranges(_) => None,
        }
    }
}

/// A block in memory.
#[derive(Debug)]
pub(crate) struct HeldBlock {
    pub(crate) filter: HeldFilter,
    pub(crate) bytes: u64,
    expected_fpr: f64,
    /// Dropped after the block, because it is the last field.
    charge: Charge,
}

impl HeldBlock {
    pub(super) fn new(filter: HeldFilter, charge: Charge) -> Self {
        Self { bytes: filter.bytes(), expected_fpr: filter.expected_fpr(), filter, charge }
    }
}

/// Why there is no block, and when to try again.
#[derive(Debug)]
pub(crate) struct Failure {
    reason: Arc<FilterProblem>,
    /// Failures in a row.
    failures: u32,
    /// Probes until the next try.
    left: AtomicU32,
}

/// Probes after the first failure before the next try. So rare that tries cost little compared with the reads that the
/// missing filter does not prevent.
const FIRST_RETRY: u32 = 64;

/// Each further failure doubles the number of probes, up to this limit.
const RARE_RETRY: u32 = 1 << 16;

impl Failure {
    /// Returns the failure that follows `before`.
    fn after(before: Option<&Self>, reason: FilterProblem) -> Self {
        let failures = before.map_or(0, |failure| failure.failures.saturating_add(1));
        let left = FIRST_RETRY.checked_shl(failures.min(16)).unwrap_or(RARE_RETRY).min(RARE_RETRY);
        Self { reason: Arc::new(reason), failures, left: left.into() }
    }

    /// Makes the next try due, if this is the first failure in a row.
    pub(super) fn retry_if_first(&self) {
        if self.failures == 0 {
            self.left.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a probe, and returns whether it should try again.
    pub(crate) fn is_due(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }
}

/// Counts of a unit since they were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) negatives: u64,
    pub(crate) unanswered: u64,
}

/// Each plan multiplies the weight of older uses by this. The last eight plans then have most of the weight.
const KEPT: f32 = 7.0 / 8.0;

/// How often a thread that grows a block checks whether readers have left the previous one: some microseconds, little
/// compared with the load.
const RECLAIM_TRIES: u32 = 64;

/// Below this use, a unit is forgotten: its filter would prevent not even half a useless read.
const FORGOTTEN: f32 = 1.0 / 16.0;

/// The minimum share of negatives among absent keys that a filter in memory is credited with: otherwise a filter that
/// claims a rate of 1 would seem to have infinite use.
const MIN_NEGATIVE_SHARE: f64 = 0.01;

impl Unit {
    pub(crate) fn new(whole_bytes: u64) -> Self {
        Self { whole_bytes, ..Self::default() }
    }

    #[inline]
    pub(crate) fn held(&self) -> Guard<Option<Arc<Held>>> {
        self.held.load()
    }

    /// Returns why there is no block, if it could not be loaded at the last try.
    pub(crate) fn failure(&self) -> Option<Arc<FilterProblem>> {
        self.held().as_deref().and_then(Held::failure).map(|failure| failure.reason.clone())
    }

    pub(crate) fn held_arc(&self) -> Option<Arc<Held>> {
        self.held.load_full()
    }

    /// Returns whether it is in memory and as large as planned.
    #[inline]
    pub(crate) fn is_as_planned(&self) -> bool {
        self.held().as_deref().and_then(Held::block).is_some_and(|held| held.bytes >= self.planned_bytes())
    }

    /// Returns the bytes in memory.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held().as_deref().and_then(Held::block).map_or(0, |held| held.bytes)
    }

    /// Returns a smaller copy of what is in memory; `None` if that is not possible.
    pub(super) fn shrunk(&self, max_bytes: u64) -> Option<HeldFilter> {
        let held = self.held();
        let held = held.as_deref().and_then(Held::block)?;
        held.filter.shrunk(max_bytes).filter(|shrunk| shrunk.bytes() < held.bytes)
    }

    /// Returns the bytes that the last plan gives to it; none while it cannot be loaded.
    #[inline]
    pub(crate) fn planned_bytes(&self) -> u64 {
        self.planned_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_planned_bytes(&self, bytes: u64) {
        self.planned_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Replaces planned bytes that are more than the block can use, so that they are not requested again; unless there
    /// is a new plan already.
    pub(super) fn replace_planned_bytes(&self, planned: u64, bytes: u64) {
        let _ = self.planned_bytes.compare_exchange(planned, bytes, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Negatives are counted towards the next plan in steps of this many: all threads share the counter of all files'
    /// probes, so it must be written rarely.
    pub(crate) const MANY_NEGATIVES: u64 = 64;

    /// Counts a negative, and returns whether a step of [`MANY_NEGATIVES`](Self::MANY_NEGATIVES) is full.
    #[inline]
    pub(crate) fn count_negative(&self) -> bool {
        let before = self.negatives.fetch_add(1, Ordering::Relaxed);
        u64::from(before) % Self::MANY_NEGATIVES == Self::MANY_NEGATIVES - 1
    }

    pub(crate) fn count_unanswered(&self) {
        // Stops there: a plan that takes the count is long overdue.
        if self.unanswered.load(Ordering::Relaxed) < u32::MAX / 2 {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Discounts a probe without a block whose key was found, because no filter would have prevented the read. Returns
    /// whether it was still counted here.
    pub(crate) fn discount_unanswered(&self) -> bool {
        self.unanswered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
    }

    /// Returns whether the negatives should be taken before their counter overflows.
    pub(crate) fn is_full(&self) -> bool {
        self.negatives.load(Ordering::Relaxed) > u32::MAX / 2
    }

    pub(crate) fn counted(&self) -> Counted {
        Counted {
            negatives: self.negatives.load(Ordering::Relaxed).into(),
            unanswered: self.unanswered.load(Ordering::Relaxed).into(),
        }
    }

    /// Takes the counts, and adds them to the unit's use.
    pub(crate) fn take_counts(&self) -> Counted {
        let negatives = self.negatives.swap(0, Ordering::Relaxed);
        let unanswered = self.unanswered.swap(0, Ordering::Relaxed);
        // A filter with a rate of 50 % has seen two absent keys for each negative.
        let fpr = self.held().as_deref().and_then(Held::block).map_or(0.0, |held| held.expected_fpr);
        let negative_share = (1.0 - fpr).clamp(MIN_NEGATIVE_SHARE, 1.0);
        let absent = f64::from(negatives) / negative_share + f64::from(unanswered);
        #[expect(clippy::cast_possible_truncation, reason = "a plan needs no more precision")]
        self.absent.store((self.absent() + absent as f32).to_bits(), Ordering::Relaxed);
        Counted { negatives: negatives.into(), unanswered: unanswered.into() }
    }

    /// Returns the lookups of absent keys, with a decaying weight.
    pub(super) fn absent(&self) -> f32 {
        f32::from_bits(self.absent.load(Ordering::Relaxed))
    }

    /// Returns the use including the counts since the last plan.
    pub(crate) fn recent_absent(&self) -> f64 {
        let Counted { negatives, unanswered } = self.counted();
        f64::from(self.absent()) + (negatives + unanswered) as f64
    }

    /// Reduces the weight of the use so far.
    pub(super) fn age(&self) {
        let aged = Some(self.absent() * KEPT).filter(|&absent| absent >= FORGOTTEN);
        self.absent.store(aged.unwrap_or(0.0).to_bits(), Ordering::Relaxed);
    }

    /// Takes the right to change what is held, which one thread has at a time until it drops the value.
    pub(super) fn begin(&self) -> Option<Turn<'_>> {
        // `then`, not `then_some`: an unused `Turn` would end another one when it is dropped.
        // Acquire pairs with the release in `Turn::drop`.
        (self.is_busy.swap(1, Ordering::Acquire) == 0).then(|| Turn { unit: self })
    }

    /// Returns the turn that was begun and not ended. Dropping the value ends it.
    pub(super) fn begun_turn(&self) -> Turn<'_> {
        Turn { unit: self }
    }
}

/// The right to change what a unit holds, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    unit: &'a Unit,
}

impl Turn<'_> {
    pub(super) fn hold(&self, filter: HeldFilter, mut charge: Charge) {
        if let Some(old) = self.unit.held().as_deref().and_then(Held::block) {
            charge.displace(&old.charge);
        }
        self.hold_meanwhile(filter, charge);
    }

    /// Holds a block while a smaller one is made of it. Returns the previous one.
    pub(super) fn hold_meanwhile(&self, filter: HeldFilter, working: Charge) -> Option<Arc<Held>> {
        self.unit.held.swap(Some(Arc::new(Held::Block(HeldBlock::new(filter, working)))))
    }

    /// Returns the charge of the previous block, once no reader has it; otherwise puts the block back. Readers that
    /// came before are done within a fraction of a microsecond, unless they were interrupted.
    pub(super) fn reclaim(&self, mut old: Arc<Held>) -> Option<Charge> {
        for _ in 0..RECLAIM_TRIES {
            match Arc::try_unwrap(old) {
                // The block is freed here, and its charge can be used for another one.
                Ok(Held::Block(held)) => return Some(held.charge),
                Ok(Held::Failed(_)) => return None,
                Err(held) => old = held,
            }
            core::hint::spin_loop();
        }
        self.unit.held.store(Some(old));
        None
    }

    pub(super) fn release(&self) {
        self.unit.held.store(None);
    }

    /// Notes why there is no block. A smaller block stays, and is not grown until the next plan.
    pub(super) fn fail(&self, reason: FilterProblem) {
        let bytes = self.unit.held_bytes();
        self.unit.planned_bytes.fetch_min(bytes, Ordering::Relaxed);
        if bytes == 0 {
            let held = self.unit.held.load_full();
            let failure = Failure::after(held.as_deref().and_then(Held::failure), reason);
            self.unit.held.store(Some(Arc::new(Held::Failed(failure))));
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.unit.is_busy.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::account::Account;
    use super::*;
    use sstfilter::KeyHasher;
    use sstfilter::{BuildContext, FixedPolicy};

    #[test]
    fn a_block_that_a_reader_still_probes_counts_until_the_reader_is_done() {
        let hasher = KeyHasher::default();
        let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher));
        (0..100_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
        let bytes = builder.finish().block.unwrap();
        let (account, unit) = (Account::new(1_000_000), Unit::new(bytes.len() as u64));
        let charge = account.try_charge(unit.whole_bytes).unwrap();
        let filter = HeldFilter::Points(FilterBlock::load(bytes, &hasher).unwrap());
        unit.begin().unwrap().hold(filter, charge);

        let reader = unit.held();
        unit.begin().unwrap().release();
        assert_eq!((unit.held_bytes(), account.used()), (0, unit.whole_bytes));
        let block = reader.as_deref().and_then(Held::points);
        assert!(block.is_some_and(|block| block.may_contain(hasher.hash(&7_u32.to_le_bytes()))));
        drop(reader);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn counters_are_emptied_or_stop_before_they_overflow() {
        let unit = Unit::new(1);
        unit.negatives.store(u32::MAX - 100, Ordering::Relaxed);
        unit.unanswered.store(u32::MAX / 2, Ordering::Relaxed);
        assert!(unit.is_full());
        (0..10).for_each(|_| unit.count_unanswered());
        assert_eq!(
            unit.take_counts(),
            Counted { negatives: u64::from(u32::MAX - 100), unanswered: u64::from(u32::MAX / 2) }
        );
        assert!(!unit.is_full() && unit.absent() > 6e9 && !unit.discount_unanswered());
        assert_eq!(unit.counted(), Counted::default());
    }

    #[test]
    fn one_thread_at_a_time_has_the_turn() {
        let unit = Unit::new(1);
        let turn = unit.begin().unwrap();
        assert!(unit.begin().is_none() && unit.begin().is_none(), "a refused one does not end the turn");
        drop(turn);
        assert!(unit.begin().is_some());
    }

    #[test]
    fn a_unit_takes_at_most_48_bytes() {
        assert!(size_of::<Unit>() <= 48, "{} bytes", size_of::<Unit>());
    }
}
