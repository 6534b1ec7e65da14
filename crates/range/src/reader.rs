//! The range filter of an open file: never fails a scan, and counts its answers.

use sstfilter::internal::FilterCounters;
use sstfilter::{BlockError, FilterStats, LookupOutcome, Probe};

use super::block::RangeFilter;
use super::context::RangeContext;
use super::key_range::KeyRange;

/// A verified range filter, or the reason why it is unusable, with counters. It is for scans what
/// [`FilterReader`](sstfilter::FilterReader) is for lookups.
///
/// ```
/// use sstfilter_range::RangeReader;
/// use sstfilter::{KeyHasher, Probe};
///
/// let damaged = RangeReader::load(&b"not a filter block"[..], &KeyHasher::default());
/// assert_eq!(damaged.probe(..), Probe::Unusable);
/// assert!(damaged.filter().is_err());
/// assert_eq!(damaged.stats().unusable, 1);
/// ```
#[derive(Debug)]
pub struct RangeReader<D: AsRef<[u8]>> {
    filter: Result<RangeFilter<D>, BlockError>,
    counters: FilterCounters,
}

impl<D: AsRef<[u8]>> RangeReader<D> {
    /// Loads the filter in `data`; unusable unless [`RangeFilter::load`] accepts it for `context`.
    pub fn load<'a>(data: D, context: impl Into<RangeContext<'a>>) -> Self {
        Self::new(RangeFilter::load(data, context))
    }

    /// Returns a reader for a filter that could not be read at all.
    #[must_use]
    pub fn unusable(reason: BlockError) -> Self {
        Self::new(Err(reason))
    }

    fn new(filter: Result<RangeFilter<D>, BlockError>) -> Self {
        Self { filter, counters: FilterCounters::default() }
    }

    /// Probes the filter for a range, and counts the answer.
    pub fn probe<'a>(&self, range: impl Into<KeyRange<'a>>) -> Probe {
        let Ok(filter) = &self.filter else {
            self.counters.add_unusable(1);
            return Probe::Unusable;
        };
        let maybe = filter.may_contain_range(range);
        self.counters.add_answer(maybe);
        if maybe { Probe::MaybePresent } else { Probe::Absent }
    }

    /// Returns a lower bound of the file's first key at or above `lower`: `lower` itself if the filter is unusable,
    /// `None` if the file has no such key. Only `None` is counted as a probe.
    #[must_use]
    pub fn seek_hint(&self, lower: &[u8]) -> Option<Vec<u8>> {
        let Ok(filter) = &self.filter else { return Some(lower.to_vec()) };
        let next = filter.seek_hint(lower);
        // Only this answer skips the file, as "absent" does.
        if next.is_none() {
            self.counters.add_answer(false);
        }
        next
    }

    /// Records whether the file contained a key in a range for which this filter answered [`Probe::MaybePresent`]. Call
    /// it at most once for each such probe. A scan that ends early may never know, and then does not call it.
    pub fn record_scan(&self, outcome: LookupOutcome) {
        if self.filter.is_ok() {
            self.counters.add_outcome(outcome == LookupOutcome::Found);
        }
    }

    /// Returns the filter, or the reason why it is not used.
    ///
    /// # Errors
    ///
    /// The reason why every probe answers [`Probe::Unusable`].
    pub fn filter(&self) -> Result<&RangeFilter<D>, &BlockError> {
        self.filter.as_ref()
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> FilterStats {
        self.counters.snapshot(self.filter.is_ok())
    }
}
