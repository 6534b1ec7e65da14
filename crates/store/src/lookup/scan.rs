//! Scans: which files of a view must be read for a prefix or a range.
//!
//! A scan takes the files in the same order as a lookup, and tests each by its bounds, by the parts of its point filter
//! if one follows from the prefix, and by its range filter.

use core::fmt;
use core::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::KeyRange;
use sstfilter::Probe;
use sstfilter::internal::{Interruption, bits_of};

use super::enter;
use super::source::Sources;
use super::wanted::{ScanRange, Wanted};
use crate::budget::RANGES;
use crate::chunk::Chunk;
use crate::file::FileFilters;
use crate::read::FilterReads;
use crate::state::{Answer, FileState};
use crate::view::FilterView;

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Returns the files that may contain a key in `range`, by their bounds and, with the feature `ranges`, their range
    /// filters: the newest level first, and at level 0 the newest file first. A range has no direction, so it serves
    /// backward scans, too; [`lower_bound`](ScanCandidate::lower_bound) helps forward scans only.
    pub fn candidates_in_range<'a>(&'a self, range: impl Into<KeyRange<'a>>) -> ScanCandidates<'a, F> {
        ScanCandidates::new(self, ScanRange::new(range.into()), None)
    }

    /// Returns the files that may contain a key that begins with `prefix`, the newest level first: by their bounds, by
    /// the parts in their point filters if one follows from the prefix, and by their range filters. It serves forward
    /// and backward scans.
    pub fn candidates_by_prefix<'a>(&'a self, prefix: &'a [u8]) -> ScanCandidates<'a, F> {
        let upper = KeyRange::prefix_upper_bound(prefix).map(Bytes::from);
        let range = KeyRange { lower: Bound::Included(prefix), upper: Bound::Unbounded };
        ScanCandidates::new(self, ScanRange { upper, ..ScanRange::new(range) }, Some(prefix))
    }
}

/// The files that a scan must read, as an iterator.
#[must_use = "iterators return nothing until they are consumed"]
pub struct ScanCandidates<'a, F> {
    range: ScanRange<'a>,
    prefix: Option<&'a [u8]>,
    /// The sources that the scan has not reached.
    sources: Sources<'a, F>,
    /// The chunks of the current source that it has not reached.
    chunks: &'a [Arc<Chunk<F>>],
    /// The current chunk, and its files within bounds that the scan has not reached.
    visit: Option<(&'a Arc<Chunk<F>>, u64)>,
    interruption: Interruption,
}

/// A file that a scan must read.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScanCandidate<'a, F> {
    /// The file.
    pub file: &'a Arc<F>,
    /// A lower bound of the file's keys in the range: a scan over many files need not seek in this one before it gets
    /// there. It may itself be a key. For a file with range tombstones, it is the start of the range.
    pub lower_bound: Bytes,
    state: &'a Arc<FileState>,
    of_prefix: Option<Answer>,
    of_range: Option<Answer>,
}

impl<F> ScanCandidate<'_, F> {
    /// Records whether the file contained a key in the range, or with the prefix. The rates of the filters that were
    /// probed are based on it. Call it at most once: a scan that ends early may never know.
    pub fn record(&self, is_found: bool) {
        if let Some(answer) = self.of_prefix {
            self.state.record_prefix(answer, is_found);
        }
        if let Some(answer) = self.of_range {
            self.state.record(answer, is_found);
        }
    }

    /// Returns whether [`record`](Self::record) counts anything, because a filter was probed.
    #[must_use]
    pub const fn was_probed(&self) -> bool {
        self.of_prefix.is_some() || self.of_range.is_some()
    }
}

impl<'a, F> ScanCandidates<'a, F> {
    fn new(view: &'a FilterView<F>, range: ScanRange<'a>, prefix: Option<&'a [u8]>) -> Self {
        Self {
            range,
            prefix,
            sources: Sources::of(&view.levels),
            chunks: &[],
            visit: None,
            interruption: Interruption::default(),
        }
    }

    /// Returns the next file whose bounds overlap the range.
    fn next_in_bounds(&mut self) -> Option<(&'a Arc<F>, &'a Arc<FileState>)> {
        loop {
            if let Some((chunk, left)) = &mut self.visit
                && let Some(place) = bits_of(*left).next()
            {
                *left &= *left - 1;
                return chunk.file(place);
            }
            while self.chunks.is_empty() {
                self.chunks = self.sources.next()?.chunks(&self.range);
            }
            let (chunk, later) = self.chunks.split_first()?;
            (self.visit, self.chunks) = (Some((chunk, self.range.within_bounds(chunk))), later);
        }
    }

    /// Returns a file in bounds as a candidate, unless its filters exclude it.
    fn judge(&self, file: &'a Arc<F>, state: &'a Arc<FileState>) -> Option<ScanCandidate<'a, F>> {
        // Range tombstones come before filters: no filter knows what the file deletes.
        let prefix = self.prefix.filter(|_| !state.has_range_tombstones);
        let of_prefix = prefix.and_then(|prefix| state.probe_prefix(prefix));
        if of_prefix.is_some_and(|answer| answer.probe.is_absent()) {
            return None;
        }
        let candidate =
            |lower_bound: Bytes, of_range| Some(ScanCandidate { file, lower_bound, state, of_prefix, of_range });
        if state.has_range_tombstones {
            return candidate(self.range.start.clone(), None);
        }
        if let Some(smallest) = state.smallest_key().filter(|smallest| *smallest >= &*self.range.start) {
            // The smallest key is in the range, so the filter has nothing to add.
            return candidate(Bytes::copy_from_slice(smallest), None);
        }
        if state.ranges.is_err() {
            // Only counts: a filter that is there and not used must show in the statistics.
            let _ = state.probe_range(self.range.keys());
            return candidate(self.range.start.clone(), None);
        }
        let mut probed = None;
        // A known key in the range answers without a probe.
        if !state.surely_meets(self.range.keys()) {
            let answer = state.probe_range(self.range.keys());
            match answer.probe {
                Probe::Absent => return None,
                Probe::MaybePresent | Probe::NotLoaded => probed = Some(answer),
                Probe::Unusable => {}
            }
        }
        match state.seek_hint(&self.range.start) {
            Some(key) if !self.range.is_beyond(&key) => candidate(key.into(), probed),
            Some(_) => None,
            None => {
                state.units.counters_of(RANGES).add_answer(false);
                None
            }
        }
    }

    /// Returns the reads that filters still need, for the files whose bounds overlap the range and that were not
    /// returned yet; see [`Candidates::reads`](super::Candidates::reads). For a partitioned filter, a scan of a prefix
    /// needs the first partition that may contain it.
    pub fn reads(&self) -> FilterReads<'a, F> {
        // A copy, so that the scan itself does not advance.
        let (range, sources, interruption) = (self.range.clone(), self.sources.ahead(), Interruption::default());
        let mut scan = Self { range, sources, interruption, ..*self };
        let mut reads = Vec::new();
        while let Some((file, state)) = scan.next_in_bounds() {
            let of_prefix = self.prefix.and_then(|prefix| state.read_for_prefix(prefix));
            reads.extend(state.read_for_unit(RANGES).into_iter().chain(of_prefix).map(|read| (file, read)));
        }
        FilterReads::of(reads.into_iter())
    }
}

impl<F> fmt::Debug for ScanCandidates<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanCandidates").field("range", &self.range.keys()).finish_non_exhaustive()
    }
}

impl<'a, F> Iterator for ScanCandidates<'a, F> {
    type Item = ScanCandidate<'a, F>;

    fn next(&mut self) -> Option<Self::Item> {
        enter(&mut self.interruption);
        let mut candidate = None;
        while candidate.is_none()
            && let Some((file, state)) = self.next_in_bounds()
        {
            candidate = self.judge(file, state);
        }
        self.interruption.leave();
        candidate
    }
}
