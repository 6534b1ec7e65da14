//! The units of one file's filters, and their use.

use std::sync::{Arc, OnceLock};

use sstfilter::internal::FilterCounters;

use super::unit::{Counted, Failure, Held, Unit};
use crate::error::FilterProblem;

/// The unit number of the range filter.
pub(crate) const RANGES: u32 = 0;

/// The unit number of the point filter, or of its first partition.
pub(crate) const POINTS: u32 = RANGES + 1;

/// Stands for the top index where units have numbers.
pub(crate) const INDEX: u32 = u32::MAX;

/// The units of a file, which are loaded and evicted one by one.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// The range filter; its length is 0 in a file without one.
    ranges: Unit,
    /// Known once the top index of a partitioned filter has been read.
    points: OnceLock<Box<[Unit]>>,
    /// Holds only why no unit of the point filter can be loaded: its top index was damaged or unreadable at the last
    /// try. Its turn is the right to read a top index.
    index: Unit,
    pub(crate) counters: FilterCounters,
    /// `None` without a range filter, or if that takes the place of the point filter.
    pub(crate) range_counters: Option<Box<FilterCounters>>,
}

impl File {
    /// Creates a file with a range filter of these bytes; 0 bytes for none.
    pub(crate) fn new(range_bytes: u64) -> Self {
        Self { ranges: Unit::new(range_bytes), ..Self::default() }
    }

    /// Sets the bytes of the units of the point filter. Only the first call has an effect.
    pub(crate) fn set_points(&self, bytes: impl Iterator<Item = u64>) {
        self.points.get_or_init(|| bytes.map(Unit::new).collect());
    }

    /// Returns the unit of this number; `None` if there is none, or a partition was written without a filter.
    #[inline]
    pub(crate) fn unit(&self, number: u32) -> Option<&Unit> {
        let unit = match number.checked_sub(POINTS) {
            None => &self.ranges,
            Some(part) => self.points.get()?.get(part as usize)?,
        };
        Some(unit).filter(|unit| unit.whole_bytes > 0)
    }

    /// Returns all units with their numbers.
    pub(crate) fn units(&self) -> impl Iterator<Item = (u32, &Unit)> {
        let points = (POINTS..).zip(self.points.get().into_iter().flatten());
        let ranges = Some((RANGES, &self.ranges)).filter(|(_, unit)| unit.whole_bytes > 0);
        ranges.into_iter().chain(points)
    }

    /// Returns the bytes of all whole filters.
    pub(crate) fn whole_bytes(&self) -> u64 {
        self.units().fold(0, |sum, (_, unit)| sum.saturating_add(unit.whole_bytes))
    }

    /// Takes the right to read the top index, which comes before all units of the point filter. Returns `false` if
    /// another thread has it, or if the last read failed and it is too early to try again; the latter counts a probe.
    pub(crate) fn begin_index(&self) -> bool {
        let is_due = self.index.held().as_deref().and_then(Held::failure).is_none_or(Failure::is_due);
        // In this order: a try that is not due must not take the right. `end_index` returns it.
        is_due && self.index.begin().map(core::mem::forget).is_some()
    }

    /// Returns the right, with the result of the read if there was one.
    pub(crate) fn end_index(&self, read: Option<Result<(), FilterProblem>>) {
        let turn = self.index.begun_turn();
        match read {
            Some(Ok(())) => turn.release(),
            Some(Err(reason)) => turn.fail(reason),
            None => {}
        }
    }

    /// Makes the first failed read of a unit, or of the top index, due again at once, for a lookup that waits for it.
    pub(crate) fn retry_first_failure(&self, number: u32) {
        let unit = if number == INDEX { Some(&self.index) } else { self.unit(number) };
        let held = unit.map(Unit::held);
        if let Some(failure) = held.as_ref().and_then(|held| held.as_deref()?.failure()) {
            failure.retry_if_first();
        }
    }

    /// Returns why no unit of the point filter can be loaded, if none can.
    pub(crate) fn failure(&self) -> Option<Arc<FilterProblem>> {
        self.index.failure()
    }

    /// Returns the counters of the filter that the unit belongs to.
    pub(crate) fn counters_of(&self, number: u32) -> &FilterCounters {
        self.range_counters.as_deref().filter(|_| number == RANGES).unwrap_or(&self.counters)
    }

    /// Moves a unit's counts to the file's counters.
    pub(crate) fn collect(&self, number: u32, unit: &Unit) {
        let Counted { negatives, unanswered } = unit.take_counts();
        let counters = self.counters_of(number);
        counters.add_answers(negatives, 0);
        counters.add_not_loaded(unanswered);
    }
}
