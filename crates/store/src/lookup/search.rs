//! Takes one key through a view, newest files first, and notes the outcome of each file that was returned.

use std::sync::Arc;

use sstfilter::internal::PreparedKey;

use super::maps::ByMaps;
use super::source::{Source, Sources, Visit};
use super::wanted::SearchKey;
use crate::read::FilterRead;
use crate::state::{Answer, FileState};
use crate::stats::Count;
use crate::view::{FilterView, Order};

/// The search of one key in the files of a view.
pub(super) struct Search<'a, F> {
    pub(super) key: SearchKey<'a>,
    pub(super) maps: ByMaps<'a, F>,
    /// The visit of the current source.
    pub(super) visit: Option<Visit<'a, F>>,
    /// The file returned last, until its outcome is known.
    given: Option<Given<'a>>,
}

/// A file that a search returned.
struct Given<'a> {
    state: &'a Arc<FileState>,
    /// The answer of its filter.
    answer: Answer,
    by: By,
}

/// What a file was returned by.
#[derive(Clone, Copy)]
enum By {
    /// The visit, for the file at this slot of its chunk.
    Visit(usize),
    /// A map, for a file of this order.
    Map(Order),
}

impl<'a, F> Search<'a, F> {
    #[inline]
    pub(super) fn new((key, maps): (SearchKey<'a>, ByMaps<'a, F>)) -> Self {
        Self { key, maps, visit: None, given: None }
    }

    /// Begins the visit of a source: which of its files have the key within their bounds.
    #[inline]
    pub(super) fn begin(&mut self, source: &Source<'a, F>) {
        self.visit = Visit::begin(source, &mut self.key);
        if let (ByMaps::Writes(writes), Some(visit)) = (&self.maps, &mut self.visit) {
            visit.exclude_all_but(visit.chunk.core.written(visit.left, writes));
        }
    }

    /// Keeps the files whose filters may contain the key, as far as these are probed together.
    #[inline]
    pub(super) fn probe(&mut self, view: &FilterView<F>, prepared: &mut Option<PreparedKey>) {
        if let Some(visit) = &mut self.visit {
            visit.probe(&view.config, &mut self.key, prepared);
        }
    }

    /// Returns the file whose filter is probed next.
    pub(super) fn next_state(&self) -> Option<&'a Arc<FileState>> {
        self.visit.as_ref()?.next_state()
    }

    /// Returns the next file that may have the key: of the visit, or a covered file that is newer. `sources` follow the
    /// visit.
    #[inline]
    pub(super) fn next(&mut self, view: &FilterView<F>, sources: &Sources<'a, F>) -> Option<&'a Arc<F>> {
        let Self { key, maps, visit, given } = self;
        loop {
            // Before each file, because the one before may have been excluded by its own filter.
            let limit = || visit.as_ref().and_then(Visit::order).or_else(|| sources.order());
            if let Some((covered, answer)) = maps.next_covered(view, key, limit) {
                *given = Some(Given { state: &covered.state, answer, by: By::Map(covered.order) });
                return Some(&covered.file);
            }
            let visit = visit.as_mut()?;
            let (place, answer) = visit.next(&view.config, key)?;
            if answer.probe.is_absent() {
                continue;
            }
            let (file, state) = visit.chunk.file(place)?;
            if matches!(maps, ByMaps::Writes(_)) && is_covered(view, visit, place) {
                view.count(Count::Candidates, 1);
            }
            *given = Some(Given { state, answer, by: By::Visit(place) });
            return Some(file);
        }
    }

    /// Notes that the file returned last did not have the key.
    #[inline]
    pub(super) fn pass(&mut self, view: &FilterView<F>) {
        let Some(Given { state, answer, by }) = self.given.take() else { return };
        let is_covered = match (by, &self.visit, &self.maps) {
            (By::Map(_), ..) => true,
            (By::Visit(place), Some(visit), ByMaps::Writes(_)) => is_covered(view, visit, place),
            _ => false,
        };
        if let Some(count) = self.maps.blame(is_covered, state) {
            view.count(count, 1);
        }
        match (by, &mut self.visit) {
            (By::Visit(place), Some(visit)) => visit.pass(place, state, answer),
            _ => state.record(answer, false),
        }
    }

    /// Ends the visit of a source all of whose files were reached.
    #[inline]
    pub(super) fn leave(&mut self) {
        if let Some(visit) = self.visit.take() {
            visit.end();
        }
    }

    /// Returns whether a file was returned whose outcome is not known.
    pub(super) const fn awaits_outcome(&self) -> bool {
        self.given.is_some()
    }

    /// Ends the search at the file returned last: that file has the key, or the outcome is unknown, because the caller
    /// dropped the lookup or the engine's code panicked.
    #[inline]
    pub(super) fn end(&mut self, is_found: bool) {
        let given = self.given.take();
        if let Some(visit) = self.visit.take() {
            visit.end_here(
                given.as_ref().and_then(|given| if let By::Map(order) = given.by { Some(order) } else { None }),
            );
        }
        if let Some(given) = given.filter(|_| is_found) {
            given.state.record(given.answer, true);
        }
    }

    /// Returns the reads for the files that the visit has not reached, and for those of `sources`.
    pub(super) fn reads(&self, sources: &Sources<'a, F>) -> Vec<(&'a Arc<F>, FilterRead)> {
        // A second search: this one stays where it is.
        let mut ahead = Self::new((SearchKey::new(self.key.bytes), self.maps.of_sources()));
        let mut reads: Vec<_> = self.visit.iter().flat_map(|visit| visit.reads(self.key.bytes)).collect();
        for source in sources.ahead() {
            ahead.begin(&source);
            reads.extend(ahead.visit.iter().flat_map(|visit| visit.reads(self.key.bytes)));
        }
        reads
    }
}

/// Returns whether maps of writes could have excluded the file at a slot.
fn is_covered<F>(view: &FilterView<F>, visit: &Visit<'_, F>, place: usize) -> bool {
    visit.chunk.core.writes(place).is_some_and(|writes| view.covers(writes))
}
