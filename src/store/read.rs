//! Bytes that a lookup wants, and what becomes of them: the seam between this layer, which reads nothing by itself, and
//! the engine.

use core::fmt;
use core::ops::Range;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::budget::{HeldFilter, Loading, Matching, RANGES};
use super::error::FilterProblem;
use super::file::FileState;

/// Reads the filter bytes of one file, for engines whose lookups may wait for a read.
pub trait FilterSource: Send + Sync {
    /// The bytes in `range`, counted from the first of the filter bytes. They should be an allocation of their own: a
    /// slice of a larger one keeps all of it in memory, and counts only itself.
    ///
    /// Called by threads that probe, one at a time for each filter or partition. A panic is passed on to the caller of
    /// the lookup.
    ///
    /// # Errors
    ///
    /// The filter then answers "may be present", and is tried again after 64 probes, and ever more rarely.
    fn read(&self, range: Range<u64>) -> io::Result<Bytes>;
}

impl FilterSource for Bytes {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let bytes = range.and_then(|(start, end)| self.get(start..end)).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(self.slice_ref(bytes))
    }
}

/// Bytes of one file's filters that a lookup wants. Read them, and [complete](Self::complete) it; or drop it: then the
/// filter is not loaded, and another lookup can want it.
///
/// It owns all that it needs, and may outlive the lookup, the view and the file. While it is there, its filter's memory
/// is set aside, and no other lookup wants the same bytes.
#[must_use = "the file's filter cannot be loaded by others while this is there"]
pub struct FilterRead {
    file: Arc<FileState>,
    range: Range<u64>,
    step: Option<Step>,
}

enum Step {
    /// The top index of a partitioned filter.
    Index,
    /// A partition that must hold a known key, before any other is used.
    KnownKeys(u32),
    Unit(Loading),
}

impl FilterRead {
    pub(super) fn of_index(file: &Arc<FileState>, range: Range<u64>) -> Self {
        Self { file: file.clone(), range, step: Some(Step::Index) }
    }

    pub(super) fn of_known_keys(file: &Arc<FileState>, partition: u32, range: Range<u64>) -> Self {
        Self { file: file.clone(), range, step: Some(Step::KnownKeys(partition)) }
    }

    pub(super) fn of_unit(file: &Arc<FileState>, loading: Loading, range: Range<u64>) -> Self {
        Self { file: file.clone(), range, step: Some(Step::Unit(loading)) }
    }

    /// Where the bytes are, counted from the first of the file's filter bytes.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Whether this is what was asked for, and not what has to be known before.
    pub(super) const fn is_last(&self) -> bool {
        matches!(self.step, Some(Step::Unit(_)))
    }

    /// Takes the bytes, or the reason why there are none. They are verified; if they are not those that were written,
    /// the filter answers "may be present", and is tried again rarely.
    pub fn complete(self, bytes: Result<Bytes, impl fmt::Display>) {
        self.complete_with(bytes, &|_| true);
    }

    /// The same, and gives what `may_match` says of the filter, whether or not it stays in memory; `None` if it cannot
    /// be used, or this was not the last step.
    pub(super) fn complete_with(
        mut self,
        bytes: Result<Bytes, impl fmt::Display>,
        may_match: Matching<'_>,
    ) -> Option<bool> {
        let bytes = bytes.map_err(|error| FilterProblem::Unreadable { reason: error.to_string() });
        let bytes = bytes.and_then(|bytes| match (self.range.end - self.range.start, bytes.len() as u64) {
            (expected, got) if expected == got => Ok(bytes),
            (expected, got) => Err(FilterProblem::Length { what: "part of a filter", expected, got }),
        });
        let read = match self.step.as_ref()? {
            Step::Unit(loading) => {
                let loaded = bytes.and_then(|bytes| self.file.load_unit(loading.number(), bytes));
                let Some(Step::Unit(loading)) = self.step.take() else { return None };
                return loading.complete(loaded, may_match);
            }
            step => {
                let got = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
                let read = bytes.and_then(|bytes| match step {
                    Step::KnownKeys(partition) => self.file.check_known_keys(*partition, bytes),
                    _ => self.file.load_index(&bytes),
                });
                self.file.pool().count_read(got, read.is_ok());
                read
            }
        };
        // Only now: a hasher or extractor that panics leaves the step to `drop`.
        self.step = None;
        self.file.units().end_preparing(Some(read));
        None
    }
}

impl Drop for FilterRead {
    fn drop(&mut self) {
        if let Some(Step::Index | Step::KnownKeys(_)) = self.step {
            let problem = FilterProblem::Unreadable { reason: "code of the engine's panicked".into() };
            self.file.units().end_preparing(std::thread::panicking().then_some(Err(problem)));
        }
    }
}

impl fmt::Debug for FilterRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.step {
            Some(Step::Index) => "top index",
            Some(Step::Unit(loading)) if loading.number() == RANGES => "range filter",
            Some(Step::KnownKeys(_) | Step::Unit(_)) => "point filter",
            None => "completed",
        };
        f.debug_struct("FilterRead").field("what", &what).field("range", &self.range).finish_non_exhaustive()
    }
}

/// Reads for one lookup until the unit was read, or there is nothing to read for it.
pub(super) fn read_all(
    source: &dyn FilterSource,
    mut next: impl FnMut() -> Option<FilterRead>,
    may_match: Matching<'_>,
) -> Option<bool> {
    loop {
        let read = next()?;
        let is_last = read.is_last();
        let bytes = source.read(read.range());
        let answer = read.complete_with(bytes, may_match);
        if is_last {
            return answer;
        }
    }
}

/// A unit's filter, as it comes from storage.
pub(super) type Loaded = Result<HeldFilter, FilterProblem>;
