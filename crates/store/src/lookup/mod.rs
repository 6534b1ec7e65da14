//! Lookups: which files of a view must be read for a key.
//!
//! A view is a list of sources in the order of their age: chunks of up to 64 files that may overlap, and levels whose
//! files lie in the order of keys. A lookup asks the maps of the view first, if it has any; they exclude files of all
//! sources. It then visits the sources, the newest first. Of each it learns which files have the key within their
//! bounds, and which of these have a filter that may contain it, and returns those files, the newest first. It counts
//! only up to the file where it ended, so that rates are those of files that were searched in vain.

use core::fmt;
use std::sync::Arc;

use sstfilter::internal::{Interruption, PreparedKey};

use crate::file::FileFilters;
use crate::read::FilterReads;
use crate::stats::Count;
use crate::view::FilterView;
use search::Search;
use source::Sources;

pub use batch::BatchCandidates;
pub use scan::{ScanCandidate, ScanCandidates};

mod batch;
mod maps;
mod scan;
mod search;
mod source;
mod wanted;

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Returns the files that may contain `key`, one after the other. The lookup reads nothing from them, except
    /// filters that are not in memory, if their files have a source.
    #[inline]
    pub fn candidates<'a>(&'a self, key: &'a [u8]) -> Candidates<'a, F> {
        let counts = self.counts.of_thread();
        counts.add(Count::Lookups as usize, 1);
        let (mapped, sources) = self.look_up_in_maps(key, counts);
        Candidates {
            view: self,
            sources,
            search: Search::new(mapped),
            prepared: None,
            interruption: Interruption::default(),
        }
    }
}

/// The files that may contain a key, from the newest to the oldest. Call [`next_file`](Self::next_file) and search the
/// file. Call it again if the key is not there; otherwise call [`found`](Self::found).
///
/// These calls tell the lookup whether its answers were right: a file that was searched in vain is a false positive. A
/// lookup that is dropped after it returned a file, as after an error, counts no outcome for that file.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter::FileId;
/// use sstfilter_store::{FilterStore, FilterView, ViewEdit};
///
/// let store = FilterStore::default();
/// let file = |keys: &[&str]| {
///     let mut builder = store.builder(FileId::random());
///     keys.iter().for_each(|key| builder.add_key(key.as_bytes()));
///     let (bytes, metadata) = builder.finish().seal();
///     Arc::new(store.open(metadata, bytes))
/// };
/// let (old, new) = (file(&["apple", "melon"]), file(&["banana", "plum"]));
/// let view = FilterView::new(&store).edited(ViewEdit::new().add_to_level_0(1, old.clone()).add_to_level_0(2, new))?;
///
/// let mut candidates = view.candidates(b"melon");
/// let first = candidates.next_file().expect("a file has it");
/// assert!(Arc::ptr_eq(first, &old));
/// candidates.found();
/// assert_eq!(view.level_stats(0).filter.true_positives, 1);
/// # Ok::<(), sstfilter_store::ViewError>(())
/// ```
#[must_use = "a lookup returns files from `next_file`"]
pub struct Candidates<'a, F> {
    view: &'a FilterView<F>,
    /// The sources that the search has not visited.
    sources: Sources<'a, F>,
    search: Search<'a, F>,
    /// The hash that filters of chunks are probed with, and its mask for their lines.
    prepared: Option<PreparedKey>,
    interruption: Interruption,
}

/// Enters a step of a lookup. After a panic of the engine's code in an earlier step, the lookup would pass over the
/// files of that step, so it goes no further.
#[inline]
fn enter(interruption: &mut Interruption) {
    assert!(!interruption.has_happened(), "a lookup cannot continue after a panic in the engine's code: begin another");
    interruption.enter();
}

impl<'a, F> Candidates<'a, F> {
    /// Returns the next file that may contain the key. The call means that the previous file did not contain it.
    ///
    /// # Panics
    ///
    /// If the engine's code (hash, extractor, source) panics, and in each call after that.
    #[inline]
    pub fn next_file(&mut self) -> Option<&'a Arc<F>> {
        enter(&mut self.interruption);
        let file = self.search_next();
        self.interruption.leave();
        file
    }

    #[inline]
    fn search_next(&mut self) -> Option<&'a Arc<F>> {
        let Self { view, sources, search, prepared, .. } = self;
        search.pass(view);
        loop {
            if let Some(file) = search.next(view, sources) {
                return Some(file);
            }
            search.leave();
            search.begin(&sources.next()?);
            search.probe(view, prepared);
        }
    }

    /// Ends the lookup: the file returned last decides the value of the key. A tombstone counts as an entry, and so
    /// does a range tombstone that covers the key.
    #[inline]
    pub fn found(mut self) {
        self.search.end(true);
    }

    /// Returns the reads that filters still need, for engines whose lookups must not block. They cover all files that
    /// have the key within their bounds and were not returned yet, also files that were opened with a source. A file
    /// that a map covers needs none. A map that is read by page (`FilterView::with_paged_maps`) needs pages before the
    /// first file is returned; they are for this lookup alone.
    ///
    /// Perform all pending reads, together if possible, and [complete](crate::PendingRead::complete) each. If there
    /// are none, await the ongoing ones, which other lookups perform, so that lookups of one moment read each filter
    /// once. Call this again until it is [empty](FilterReads::is_empty): after one round for filters in one block,
    /// after two or three for those in partitions, later if the budget is so full that filters are shrunk. The
    /// remaining candidates are files that filters in memory do not exclude. A lookup can also continue at once, and
    /// leave the reads to serve later lookups.
    pub fn reads(&self) -> FilterReads<'a, F> {
        let (pages, of_covered) = self.search.maps.reads(self.view, self.search.key.bytes);
        let of_sources = self.search.reads(&self.sources);
        FilterReads { pages, ..FilterReads::of(of_sources.into_iter().chain(of_covered)) }
    }
}

impl<F> Drop for Candidates<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.search.end(false);
    }
}

impl<F> fmt::Debug for Candidates<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidates").field("next", &self.sources.order()).finish_non_exhaustive()
    }
}
