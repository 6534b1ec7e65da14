//! `FileFilters`: what an engine keeps for each open file.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{FilterBlock, KeyRange, LookupOutcome, Probe};

use super::budget::{self, File, FilterResidency, POINTS};
use super::config::Config;
use super::error::FilterProblem;
use super::metadata::FilterMetadata;
use super::partition::PartitionIndex;
use super::read::PendingRead;
use super::source::FilterSource;
use super::state::{Answer, FileState, Usable};
use super::stats::FileStats;
use super::writes::{self, FileWrites, Writes};

/// The filters of one open file, with its counts. Threads share it by reference; dropping it frees its memory.
///
/// An engine keeps one with each open file, and adds the file to a [`FilterView`](super::FilterView). The view probes
/// the filters of all files together, in a tenth of the time. An engine that goes through its files by itself can probe
/// them here; it then calls [`record_lookup`](Self::record_lookup) with the outcome of each answer, which rates and
/// budgets are based on. Lookups in a view record their outcomes themselves.
pub struct FileFilters {
    pub(super) state: Arc<FileState>,
    /// One more than its number in the budget's registry; `None` for a file without filters.
    slot: Option<NonZeroU64>,
    /// The writes of its entries. Behind a pointer, because few engines state them.
    pub(super) writes: Option<Box<FileWrites>>,
}

impl FileFilters {
    pub(super) fn open(
        config: &Arc<Config>,
        metadata: Arc<FilterMetadata>,
        source: Option<Arc<dyn FilterSource>>,
    ) -> Self {
        let state = Arc::new(FileState::new(config, metadata, source));
        let has_filters = state.points.is_ok() || state.ranges.is_ok();
        let slot = if has_filters { NonZeroU64::new(state.pool().add(&state.units) + 1) } else { None };
        // Built before the source is called, which may panic: dropping the file then removes it from the budget.
        let mut file = Self { state, slot, writes: None };
        let resident = file.state.read_at_open();
        // Only this function has the file so far.
        if let Some(state) = Arc::get_mut(&mut file.state) {
            state.resident = resident;
        }
        file
    }

    /// Returns the writes for which maps may exclude the file: none if it has range tombstones, which delete keys that
    /// no map has, or no description, which would tell.
    pub(super) fn writes_in_maps(&self) -> Option<Writes> {
        let writes = writes::in_maps(self.writes.as_deref()?)?;
        self.state.id_in_maps().map(|_| writes)
    }

    /// Returns the description that the file was opened with.
    #[must_use]
    pub fn metadata(&self) -> &Arc<FilterMetadata> {
        &self.state.metadata
    }

    /// Probes the point filter for a key, or the exact range filter in its place, and counts the answer. A key outside
    /// of the file's bounds is absent, which is counted separately. A filter that is not in memory is loaded first, if
    /// the file has a source and the budget allows it.
    #[must_use]
    pub fn probe(&self, key: &[u8]) -> Probe {
        let state = &self.state;
        if !state.covers(key) {
            // No filter was probed, so this is not one of its negatives.
            state.units.counters.add_view_counts(1, 0);
            return Probe::Absent;
        }
        state.probe_key(key, || state.reader().filters.hash(key)).probe
    }

    /// Probes the range filter, regardless of the file's bounds, and counts the answer.
    #[must_use]
    pub fn probe_range<'a>(&self, range: impl Into<KeyRange<'a>>) -> Probe {
        self.state.probe_range(range.into()).probe
    }

    /// Returns whether the file may contain a key that begins with `prefix`, by its bounds and its filters. Probes are
    /// counted.
    #[must_use]
    pub fn may_contain_prefix(&self, prefix: &[u8]) -> bool {
        let upper = KeyRange::prefix_upper_bound(prefix);
        let range = KeyRange { lower: Bound::Included(prefix), upper: upper.as_ref().map(Vec::as_slice) };
        let state = &self.state;
        // Range tombstones come before filters: no filter knows what the file deletes.
        state.overlaps(range)
            && (state.surely_meets(range)
                || state.probe_prefix(prefix).is_none_or(|answer| !answer.probe.is_absent())
                    && !state.probe_range(range).probe.is_absent())
    }

    /// Returns whether the file may contain a key in `range`, by its bounds and its range filter. A probe is counted.
    #[must_use]
    pub fn may_contain_range<'a>(&self, range: impl Into<KeyRange<'a>>) -> bool {
        let (state, range) = (&self.state, range.into());
        state.overlaps(range) && (state.surely_meets(range) || !state.probe_range(range).probe.is_absent())
    }

    /// Records whether the file contained the key after an answer of [`probe`](Self::probe). Call it once for each
    /// answer that is not "absent".
    pub fn record_lookup(&self, key: &[u8], probe: Probe, outcome: LookupOutcome) {
        self.state.units.counters.add_view_counts(0, 1);
        let unit = if probe == Probe::NotLoaded { self.state.units_of(key).next() } else { None };
        self.state.record(Answer { probe, unit: unit.unwrap_or(POINTS) }, outcome == LookupOutcome::Found);
    }

    /// Returns the next read for a lookup of `key`; `None` if there is none, or another lookup is already loading the
    /// filter.
    #[must_use]
    pub fn read_for(&self, key: &[u8]) -> Option<PendingRead> {
        self.state.read_for_key(key)?.pending()
    }

    /// Returns why the point filter is not used or could not be read at the last try, or else why the range filter is
    /// not; `None` if nothing is wrong.
    #[must_use]
    pub fn problem(&self) -> Option<FilterProblem> {
        self.point_problem().or_else(|| self.range_problem())
    }

    /// Returns why the point filter, or the range filter in its place, is not used.
    #[must_use]
    pub fn point_problem(&self) -> Option<FilterProblem> {
        let failure = if self.state.is_exact() { budget::range_failure } else { budget::point_failure };
        self.problem_of(&self.state.points, failure)
    }

    /// Returns why the range filter is not used.
    #[must_use]
    pub fn range_problem(&self) -> Option<FilterProblem> {
        self.problem_of(&self.state.ranges, budget::range_failure)
    }

    fn problem_of(
        &self,
        usable: &Usable,
        failure: impl FnOnce(&File) -> Option<Arc<FilterProblem>>,
    ) -> Option<FilterProblem> {
        if let Err(problem) = usable {
            return problem.as_deref().cloned();
        }
        let failed = failure(&self.state.units).map(|problem| (*problem).clone());
        failed.or_else(|| self.state.config.trust.get().cloned())
    }

    /// Returns the point filter's block, if all of it stays in memory as long as the file is open; `None` if a range
    /// filter takes its place.
    #[must_use]
    pub fn block(&self) -> Option<&FilterBlock<Bytes>> {
        self.state.resident()
    }

    /// Returns the range filter, if it is in memory.
    #[cfg(feature = "ranges")]
    #[must_use]
    pub fn range_filter(&self) -> Option<sstfilter_range::RangeFilter<Bytes>> {
        let held = self.state.units.unit(super::budget::RANGES)?.held();
        held.as_deref()?.ranges().cloned()
    }

    /// Returns the top index of a partitioned filter, once it has been read.
    #[must_use]
    pub fn partitions(&self) -> Option<&PartitionIndex> {
        self.state.partitions()
    }

    /// Returns how much of the filters is in memory, and why.
    #[must_use]
    pub fn residency(&self) -> FilterResidency {
        FilterResidency::of(&self.state.units)
    }

    /// Returns what was counted for the file, in all views that it is or was in.
    #[must_use]
    pub fn stats(&self) -> FileStats {
        self.state.stats()
    }
}

impl Drop for FileFilters {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.state.pool().remove(slot.get() - 1);
        }
    }
}

impl AsRef<Self> for FileFilters {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl fmt::Debug for FileFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileFilters")
            .field("metadata", &self.state.metadata)
            .field("residency", &self.residency())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
