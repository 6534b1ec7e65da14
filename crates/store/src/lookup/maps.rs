//! Looks keys up in the view's maps, of files or of writes, before any file is visited.

use std::sync::Arc;

use sstfilter::internal::ThreadCounters;
use sstfilter::{KeyHash, Probe};

use super::source::Sources;
use super::wanted::SearchKey;
use crate::config::Config;
use crate::pages::{PageRead, Pages};
use crate::read::FilterRead;
use crate::state::{Answer, FileState};
use crate::stats::Count;
use crate::view::{Covered, FilterView, Mapped as MappedFiles, Maps, Order, Own};
use crate::writes::KeyWrites;

/// What the maps of a view say of a key.
pub(super) enum ByMaps<'a, F> {
    /// Nothing: there are no maps, or none that can be used.
    Nothing,
    /// The covered files that may have the key and that the lookup has not reached, the newest last. The others have
    /// not.
    Files(Vec<&'a Covered<F>>, Own),
    /// Nothing yet: some maps are read by page.
    Paged(&'a MappedFiles<F>, Pages),
    /// The writes of the key. Files that state only others have not.
    Writes(KeyWrites<'a>),
}

/// A key, and what maps say of it.
pub(super) type Mapped<'a, F> = (SearchKey<'a>, ByMaps<'a, F>);

impl<F> FilterView<F> {
    /// Looks the key up in the maps. Returns with it the sources of the files that may have it all the same.
    #[inline]
    pub(super) fn look_up_in_maps<'a>(
        &'a self,
        bytes: &'a [u8],
        counts: ThreadCounters<'_>,
    ) -> (Mapped<'a, F>, Sources<'a, F>) {
        let mut key = SearchKey::new(bytes);
        let maps = match self.usable_maps() {
            Maps::None => ByMaps::Nothing,
            Maps::Files(mapped) => {
                let hash = key.whole(self.filters());
                if let Some(pages) = mapped.pages_of(hash) {
                    count(counts, 1, 0);
                    return ((key, ByMaps::Paged(mapped, pages)), Sources::of(&mapped.uncovered));
                }
                let files = mapped.files_of(hash);
                count(counts, 1, files.is_none().into());
                if let Some(files) = files {
                    if !files.is_empty() {
                        counts.add(Count::Candidates as usize, files.len() as u64);
                    }
                    return ((key, ByMaps::Files(files, Own::InMemory)), Sources::of(&mapped.uncovered));
                }
                ByMaps::Nothing
            }
            Maps::Writes(set) => {
                let writes = set.of(key.whole(self.filters()));
                count(counts, 1, writes.is_unknown().into());
                ByMaps::Writes(writes)
            }
        };
        ((key, maps), Sources::of(&self.levels))
    }

    /// Looks up each of the keys, together. Returns them with their positions, without those that no file has.
    pub(super) fn look_up_each_in_maps<'a>(
        &'a self,
        keys: &[&'a [u8]],
        counts: ThreadCounters<'_>,
    ) -> (Vec<(usize, Mapped<'a, F>)>, Sources<'a, F>) {
        let hashes: Vec<KeyHash> = match self.usable_maps() {
            Maps::None => Vec::new(),
            Maps::Files(_) | Maps::Writes(_) => keys.iter().map(|key| self.filters().hash(key)).collect(),
        };
        let hashed = keys.iter().zip(&hashes).map(|(key, hash)| SearchKey::hashed(key, *hash));
        let looked_up = keys.len() as u64;
        let found: Vec<_> = match self.usable_maps() {
            Maps::None => keys.iter().map(|key| (SearchKey::new(key), ByMaps::Nothing)).enumerate().collect(),
            Maps::Files(mapped) => {
                let files = mapped.files_of_each(&hashes);
                // Of all keys, because they visit sources together.
                count(counts, looked_up, if files.is_some() { 0 } else { looked_up });
                if let Some(files) = files {
                    counts.add(Count::Candidates as usize, files.len() as u64);
                    let mut files = files.into_iter().peekable();
                    let found = hashed.enumerate().filter_map(|(position, key)| {
                        let own = || files.next_if(|(of_key, _)| *of_key == position).map(|(_, covered)| covered);
                        let own: Vec<_> = core::iter::from_fn(own).collect();
                        let is_searched = !mapped.uncovered.is_empty() || !own.is_empty();
                        is_searched.then_some((position, (key, ByMaps::Files(own, Own::InMemory))))
                    });
                    return (found.collect(), Sources::of(&mapped.uncovered));
                }
                hashed.map(|key| (key, ByMaps::Nothing)).enumerate().collect()
            }
            Maps::Writes(set) => {
                let writes = set.of_each(&hashes);
                count(counts, looked_up, writes.iter().filter(|writes| writes.is_unknown()).count() as u64);
                hashed.zip(writes.into_iter().map(ByMaps::Writes)).enumerate().collect()
            }
        };
        (found, Sources::of(&self.levels))
    }

    /// Returns the pages, unless the hash does not match its name.
    fn trusted<'a>(&self, pages: &'a Pages) -> Option<&'a Pages> {
        self.config.trust.get().is_none().then_some(pages)
    }

    /// Returns the maps, unless the hash does not match its name.
    #[inline]
    fn usable_maps(&self) -> &Maps<F> {
        if self.config.trust.get().is_none() { &self.maps } else { &Maps::None }
    }
}

/// Counts keys that were looked up in maps, and those of which the maps know nothing.
#[inline]
fn count(counts: ThreadCounters<'_>, keys: u64, unknown: u64) {
    counts.add(Count::Mapped as usize, keys);
    if unknown != 0 {
        counts.add(Count::Unknown as usize, unknown);
    }
}

impl<'a, F> ByMaps<'a, F> {
    /// Returns what the maps say of files in the sources: covered ones are not there.
    pub(super) fn of_sources(&self) -> Self {
        match self {
            Self::Writes(writes) => Self::Writes(writes.clone()),
            Self::Nothing | Self::Files(..) | Self::Paged(..) => Self::Nothing,
        }
    }

    /// Returns the reads of pages that the lookup of `key` needs; once all have ended, those of filters.
    pub(super) fn reads(
        &self,
        view: &FilterView<F>,
        key: &[u8],
    ) -> (Vec<PageRead>, impl Iterator<Item = (&'a Arc<F>, FilterRead)>) {
        let (mut needed, mut files) = (Vec::new(), Vec::new());
        match self {
            Self::Paged(mapped, pages) => {
                needed = mapped.needed_pages(view.trusted(pages));
                if needed.is_empty()
                    && let (all, Own::Any) = mapped.files_by_page(view.trusted(pages))
                {
                    files = all;
                }
            }
            Self::Files(left, Own::Any) => files.clone_from(left),
            _ => {}
        }
        let files = files.into_iter().filter(move |covered| covered.state.covers(key));
        (needed, files.filter_map(|covered| Some((&covered.file, covered.state.read_for_key(key)?))))
    }

    /// Uses the pages that are there, and waits for no other.
    #[inline(never)]
    fn use_pages(&mut self, view: &FilterView<F>) {
        let Self::Paged(mapped, pages) = self else { return };
        let (files, own) = mapped.files_by_page(view.trusted(pages));
        view.count(Count::Candidates, files.len() as u64);
        view.count(Count::Unknown, u64::from(own == Own::Any));
        *self = Self::Files(files, own);
    }

    /// Returns the next covered file that may have the key, if it is newer than those at `limit`, with the answer of
    /// its own filter.
    #[inline]
    pub(super) fn next_covered(
        &mut self,
        view: &FilterView<F>,
        key: &mut SearchKey<'a>,
        limit: impl FnOnce() -> Option<Order>,
    ) -> Option<(&'a Covered<F>, Answer)> {
        if let Self::Paged(..) = self {
            self.use_pages(view);
        }
        match self {
            Self::Files(files, own) if !files.is_empty() => next_of(files, *own, view, key, limit()),
            _ => None,
        }
    }

    /// Returns what is counted for a file that was searched in vain. `is_covered` says whether the maps could have
    /// excluded it.
    #[inline]
    pub(super) fn blame(&self, is_covered: bool, state: &FileState) -> Option<Count> {
        match self {
            Self::Nothing => None,
            _ if is_covered => Some(Count::FalseCandidates),
            // No map saves searches of files that it cannot cover.
            Self::Files(..) if !state.is_for_maps() => None,
            _ => Some(Count::FalseReads),
        }
    }
}

#[inline(never)]
fn next_of<'a, F>(
    files: &mut Vec<&'a Covered<F>>,
    own: Own,
    view: &FilterView<F>,
    key: &mut SearchKey<'a>,
    limit: Option<Order>,
) -> Option<(&'a Covered<F>, Answer)> {
    while let Some(covered) = files.pop_if(|covered| limit.is_none_or(|limit| covered.order < limit)) {
        let answer = probe(&covered.state, own, &view.config, key);
        if !answer.probe.is_absent() {
            covered.state.units.counters.add_view_counts(0, 1);
            return Some((covered, answer));
        }
        view.count(Count::FalseCandidates, 1);
    }
    None
}

/// Probes the filter of a covered file.
fn probe(state: &Arc<FileState>, own: Own, config: &Arc<Config>, key: &mut SearchKey<'_>) -> Answer {
    if !state.covers(key.bytes) {
        state.units.counters.add_view_counts(1, 0);
        return Answer::of(Probe::Absent);
    }
    if own == Own::Any || state.resident.is_some() {
        return state.probe_key(key.bytes, || key.whole_for(config, state));
    }
    Answer::of(Probe::Unusable)
}
