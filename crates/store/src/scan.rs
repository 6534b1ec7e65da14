//! Scans: which files of a view must be read for a prefix or a range.
//!
//! A scan takes the files in the same order as a lookup, and tests each by its bounds, by the parts of its point filter
//! if one follows from the prefix, and by its range filter.

use core::fmt;
use core::ops::Bound;
use sstfilter::Probe;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter_range::KeyRange;

use super::budget::RANGES;
use super::chunk::Chunk;
use super::file::FileFilters;
use super::read::FilterRead;
use super::state::{Answer, FileState};
use super::view::FilterView;

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Returns the files that may contain a key in `range`, by their bounds and range filters: the newest level first,
    /// and at level 0 the newest file first. A range has no direction, so it serves backward scans, too;
    /// [`lower_bound`](ScanCandidate::lower_bound) helps forward scans only.
    pub fn candidates_in_range<'a>(&'a self, range: impl Into<KeyRange<'a>>) -> ScanCandidates<'a, F> {
        ScanCandidates::new(self, range.into(), None)
    }

    /// Returns the files that may contain a key that begins with `prefix`, the newest level first: by their bounds, by
    /// the parts in their point filters if one follows from the prefix, and by their range filters. It serves forward
    /// and backward scans.
    pub fn candidates_by_prefix<'a>(&'a self, prefix: &'a [u8]) -> ScanCandidates<'a, F> {
        let upper = KeyRange::prefix_upper_bound(prefix).map(Bytes::from);
        let range = KeyRange { lower: Bound::Included(prefix), upper: Bound::Unbounded };
        ScanCandidates { upper, ..ScanCandidates::new(self, range, Some(prefix)) }
    }
}

/// The files that a scan must read, as an iterator.
#[must_use = "iterators return nothing until they are consumed"]
pub struct ScanCandidates<'a, F> {
    view: &'a FilterView<F>,
    lower: Bound<&'a [u8]>,
    upper: Bound<Bytes>,
    /// The smallest byte string that the range may contain.
    start: Bytes,
    prefix: Option<&'a [u8]>,
    /// The next chunk: the position of its level, and its own among the chunks of this level that the scan visits.
    next: (usize, usize),
    /// The current chunk, and the slot of its next file.
    chunk: Option<&'a Chunk<F>>,
    place: usize,
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
    fn new(view: &'a FilterView<F>, range: KeyRange<'a>, prefix: Option<&'a [u8]>) -> Self {
        let start = match range.lower {
            Bound::Included(lower) => Bytes::copy_from_slice(lower),
            // The smallest byte string above `lower`.
            Bound::Excluded(lower) => Bytes::from([lower, b"\0"].concat()),
            Bound::Unbounded => Bytes::new(),
        };
        let (lower, upper) = (range.lower, range.upper.map(Bytes::copy_from_slice));
        Self { view, lower, upper, start, prefix, next: (0, 0), chunk: None, place: 0 }
    }

    fn range(&self) -> KeyRange<'_> {
        KeyRange { lower: self.lower, upper: self.upper.as_ref().map(AsRef::as_ref) }
    }

    fn is_beyond(&self, key: &[u8]) -> bool {
        !KeyRange { lower: Bound::Unbounded, ..self.range() }.contains(key)
    }

    /// Returns the next file whose bounds overlap the range.
    fn next_in_bounds(&mut self) -> Option<(&'a Arc<F>, &'a Arc<FileState>)> {
        loop {
            while let Some((file, state)) = self.chunk.and_then(|chunk| chunk.file(self.place)) {
                self.place += 1;
                if state.overlaps(self.range()) {
                    return Some((file, state));
                }
            }
            (self.chunk, self.place) = (Some(self.next_chunk()?), 0);
        }
    }

    /// Returns the next chunk: first the level's chunks of overlapping files, then its chunks in the order of keys that
    /// overlap the range.
    fn next_chunk(&mut self) -> Option<&'a Chunk<F>> {
        loop {
            let (number, position) = self.next;
            let level = self.view.levels.get(number)?;
            self.next = (number, position + 1);
            if let Some(chunk) = level.loose.get(position) {
                return Some(chunk);
            }
            let sorted = level.sorted.get(level.chunk_of(&self.start) + position - level.loose.len());
            let is_beyond = |chunk: &Chunk<F>| chunk.core.smallest_key().is_some_and(|key| self.is_beyond(key));
            if let Some(chunk) = sorted.filter(|chunk| !is_beyond(chunk)) {
                return Some(chunk);
            }
            self.next = (number + 1, 0);
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
            return candidate(self.start.clone(), None);
        }
        if let Some(smallest) = state.smallest_key().filter(|smallest| *smallest >= &*self.start) {
            // The smallest key is in the range, so the filter has nothing to add.
            return candidate(Bytes::copy_from_slice(smallest), None);
        }
        if state.ranges.is_err() {
            // Only counts: a filter that is there and not used must show in the statistics.
            let _ = state.probe_range(self.range());
            return candidate(self.start.clone(), None);
        }
        let mut probed = None;
        // A known key in the range answers without a probe.
        if !state.surely_meets(self.range()) {
            let answer = state.probe_range(self.range());
            match answer.probe {
                Probe::Absent => return None,
                Probe::MaybePresent | Probe::NotLoaded => probed = Some(answer),
                Probe::Unusable => {}
            }
        }
        match state.seek_hint(&self.start) {
            Some(key) if !self.is_beyond(&key) => candidate(key.into(), probed),
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
    #[must_use]
    pub fn reads(&self) -> Vec<(&'a Arc<F>, FilterRead)> {
        let upper = self.upper.clone();
        // A copy, so that the scan itself does not advance.
        let mut scan = Self { upper, start: self.start.clone(), ..*self };
        let mut reads = Vec::new();
        while let Some((file, state)) = scan.next_in_bounds() {
            let of_prefix = self.prefix.and_then(|prefix| state.read_for_prefix(prefix));
            reads.extend(state.read_for_unit(RANGES).into_iter().chain(of_prefix).map(|read| (file, read)));
        }
        reads
    }
}

impl<F> fmt::Debug for ScanCandidates<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanCandidates").field("range", &self.range()).finish_non_exhaustive()
    }
}

impl<'a, F> Iterator for ScanCandidates<'a, F> {
    type Item = ScanCandidate<'a, F>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (file, state) = self.next_in_bounds()?;
            if let Some(candidate) = self.judge(file, state) {
                return Some(candidate);
            }
        }
    }
}
