//! Lookups of many keys together.

use core::fmt;
use std::sync::Arc;

use sstfilter::internal::Interruption;

use super::enter;
use super::search::Search;
use super::source::{Source, Sources};
use crate::chunk::Chunk;
use crate::file::FileFilters;
use crate::read::FilterReads;
use crate::stats::Count;
use crate::view::{FilterView, Level};

/// Keys that a batch takes through a sorted level together: enough for their cache misses to overlap, and few enough
/// for prefetched lines to still be in the cache.
const TOGETHER: usize = 64;

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Returns the files that may contain each of `keys`, in steps that all keys take together.
    pub fn candidates_of_each<'a>(&'a self, keys: &[&'a [u8]]) -> BatchCandidates<'a, F> {
        let counts = self.counts.of_thread();
        counts.add(Count::Lookups as usize, keys.len() as u64);
        let (mapped, sources) = self.look_up_each_in_maps(keys, counts);
        let searches = mapped.into_iter().map(|(position, mapped)| (position, Search::new(mapped))).collect();
        BatchCandidates { view: self, sources, searches, given: Vec::new(), interruption: Interruption::default() }
    }
}

/// The files that may contain each of many keys, in steps that all keys take together, so that cache misses of one key
/// overlap with those of the others. A key that is found does not go on to older files.
///
/// Call [`next_files`](Self::next_files), search each file for its key, report which keys were [`found`](Self::found),
/// and repeat until no files are returned.
#[must_use = "a lookup returns files from `next_files`"]
pub struct BatchCandidates<'a, F> {
    view: &'a FilterView<F>,
    /// The sources that the searches have not visited.
    sources: Sources<'a, F>,
    /// The searches that have not ended, with the positions of their keys.
    searches: Vec<(usize, Search<'a, F>)>,
    given: Vec<(usize, &'a Arc<F>)>,
    interruption: Interruption,
}

impl<'a, F> BatchCandidates<'a, F> {
    /// Returns the next file of each key that has one, with the position of the key. The call means that the previous
    /// files did not contain their keys, except those reported as found. Empty if there are no more files.
    ///
    /// # Panics
    ///
    /// If the engine's code (hash, extractor, source) panics, and in each call after that.
    pub fn next_files(&mut self) -> &[(usize, &'a Arc<F>)] {
        enter(&mut self.interruption);
        self.given.clear();
        self.searches.iter_mut().for_each(|(_, search)| search.pass(self.view));
        self.give_next();
        while self.given.is_empty() && !self.searches.is_empty() {
            self.searches.iter_mut().for_each(|(_, search)| search.leave());
            match self.sources.next() {
                None => break,
                Some(source @ Source::Overlapping(level, chunk)) => self.begin_overlapping(&source, level, chunk),
                Some(source @ Source::Sorted(level)) if !level.sorted.is_empty() => self.begin_sorted(&source),
                Some(Source::Sorted(_)) => self.give_next(),
            }
        }
        self.interruption.leave();
        &self.given
    }

    fn give_next(&mut self) {
        for (position, search) in &mut self.searches {
            let file = search.next(self.view, &self.sources);
            self.given.extend(file.map(|file| (*position, file)));
        }
    }

    /// Ends the lookup of the key at `position`: its file contains the key. Without it, the next call goes on to older
    /// files.
    pub fn found(&mut self, position: usize) {
        self.end(position, true);
    }

    /// Ends the lookup of the key at `position` without an outcome: its file could not be searched.
    pub fn failed(&mut self, position: usize) {
        self.end(position, false);
    }

    fn end(&mut self, position: usize, is_found: bool) {
        let Ok(index) = self.searches.binary_search_by_key(&position, |&(position, _)| position) else { return };
        if let Some((_, search)) = self.searches.get_mut(index).filter(|(_, search)| search.awaits_outcome()) {
            search.end(is_found);
            // Not `swap_remove`: the search above needs the positions in order.
            self.searches.remove(index);
        }
    }

    /// Finds the candidates of all keys in a chunk, and gives the first of each. Prefetches the lines of a later key,
    /// because searches between chunks evict filters from the near caches.
    fn begin_overlapping(&mut self, source: &Source<'a, F>, level: &Level<F>, chunk: &Chunk<F>) {
        let config = &self.view.config;
        // All hashes before the first probe: a probe prefetches lines for the hash of a later key.
        let mut hashes = Vec::with_capacity(self.searches.len());
        for (_, search) in &mut self.searches {
            search.begin(source);
            let (visit, key) = (search.visit.as_mut(), &mut search.key);
            hashes.push(visit.and_then(|visit| {
                let group = visit.probe_exact(config, key.bytes)?;
                if group.one_part.is_none() {
                    visit.probe_by_parts(config, group, key);
                }
                key.hash_for(config, group.one_part?)
            }));
        }
        let ahead = level.residency.keys_ahead(chunk.files.len());
        for (index, hash) in hashes.iter().enumerate() {
            let later = ahead.and_then(|ahead| {
                let (_, later) = self.searches.get(index + ahead)?;
                Some(((*hashes.get(index + ahead)?)?, later.visit.as_ref()?.left))
            });
            let visit = self.searches.get_mut(index).and_then(|(_, search)| search.visit.as_mut());
            if let (Some(hash), Some(visit), Some(group)) = (*hash, visit, &chunk.core.group) {
                visit.probe_ahead(group, hash, later);
            }
        }
        self.give_next();
    }

    /// Finds the files of all keys in a sorted level, and gives those that may have their keys.
    fn begin_sorted(&mut self, source: &Source<'a, F>) {
        let view = self.view;
        // Three passes over each chunk of keys, so that cache misses of one key overlap with those of the others.
        for searches in self.searches.chunks_mut(TOGETHER) {
            for (_, search) in &mut *searches {
                search.begin(source);
                search.next_state().inspect(|file| file.prefetch());
            }
            for (_, search) in &mut *searches {
                search.next_state().inspect(|file| file.prefetch_probe(|| search.key.whole_for(&view.config, file)));
            }
            for (position, search) in searches {
                self.given.extend(search.next(view, &self.sources).map(|file| (*position, file)));
            }
        }
    }

    /// Returns the reads for the files of all keys; see [`Candidates::reads`](super::Candidates::reads).
    pub fn reads(&self) -> FilterReads<'a, F> {
        FilterReads::of(self.searches.iter().flat_map(|(_, search)| search.reads(&self.sources)))
    }
}

impl<F> Drop for BatchCandidates<'_, F> {
    fn drop(&mut self) {
        self.searches.iter_mut().for_each(|(_, search)| search.end(false));
    }
}

impl<F> fmt::Debug for BatchCandidates<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchCandidates").field("keys", &self.searches.len()).finish_non_exhaustive()
    }
}
