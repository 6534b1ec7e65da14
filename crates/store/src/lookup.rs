//! Lookups: which files of a view must be read for a key, or for each of many keys.
//!
//! A lookup takes the files in chunks of up to 64. For each chunk it computes which files have the key within their
//! bounds, and which of these have a filter that may contain it. It then returns those files, the newest first. It
//! counts only up to the file where it ended, so that rates are those of files that were searched in vain.

use core::cmp::Reverse;
use core::fmt;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::KeyHash;
use sstfilter::internal::PreparedKey;
use sstfilter_map::WriteSet;

use super::chunk::Chunk;
use super::counts::ChunkEnd;
use super::cursor::{Cursor, Searching, Step};
use super::file::FileFilters;
use super::read::FilterRead;
use super::stats::Count;
use super::view::{FilterView, Level, Mapped};

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Returns the files that may contain `key`, one after the other. The lookup reads nothing from them, except
    /// filters that are not in memory, if their files have a source.
    #[inline]
    pub fn candidates<'a>(&'a self, key: &'a [u8]) -> Candidates<'a, F> {
        let counts = self.counts.of_thread();
        counts.add(Count::Lookups as usize, 1);
        let mut cursor = Cursor::new(key);
        let levels = if let Some(mapped) = self.usable_maps() {
            cursor.consult(self, mapped, counts)
        } else {
            if let Some(set) = self.usable_writes() {
                cursor.consult_writes(self, set);
                self.count_writes(core::iter::once(cursor.is_unknown()));
            }
            &self.levels
        };
        Candidates { view: self, levels, step: Step::default(), cursor, prepared: None }
    }

    /// Returns the files that may contain each of `keys`, in steps that all keys take together.
    pub fn candidates_of_each<'a>(&'a self, keys: &[&'a [u8]]) -> BatchCandidates<'a, F> {
        self.counts.of_thread().add(Count::Lookups as usize, keys.len() as u64);
        let (levels, lookups) = match self.usable_maps() {
            Some(mapped) => self.consult_for_each(mapped, keys),
            None => (&*self.levels, self.lookups_of(keys)),
        };
        BatchCandidates { view: self, levels, step: Step::default(), lookups, given: Vec::new() }
    }
}

impl<F> FilterView<F> {
    /// Returns the maps, unless the hash does not match its name.
    #[inline]
    fn usable_maps(&self) -> Option<&Mapped<F>> {
        self.mapped.as_deref().filter(|_| self.config.trust.get().is_none())
    }

    /// Returns the maps of writes, unless the hash does not match its name.
    #[inline]
    fn usable_writes(&self) -> Option<&WriteSet<Bytes>> {
        self.writes.as_deref().filter(|_| self.config.trust.get().is_none())
    }

    /// Returns the lookups of all keys, with their writes if there are maps of these.
    fn lookups_of<'a>(&'a self, keys: &[&'a [u8]]) -> Vec<Searching<'a, F>> {
        let Some(set) = self.usable_writes() else {
            return keys.iter().map(|key| Cursor::new(key)).enumerate().collect();
        };
        let hashes: Vec<KeyHash> = keys.iter().map(|key| self.config.reader.filters.hash(key)).collect();
        let found = keys.iter().zip(&hashes).zip(set.of_each(&hashes));
        let lookups: Vec<_> = found.map(|((key, hash), writes)| Cursor::hashed(key, *hash).written(writes)).collect();
        self.count_writes(lookups.iter().map(Cursor::is_unknown));
        lookups.into_iter().enumerate().collect()
    }

    /// Counts lookups that consulted maps of writes, by whether these are unknown.
    fn count_writes(&self, unknown: impl Iterator<Item = bool>) {
        let counts = self.counts.of_thread();
        let (mut lookups, mut unknown_lookups) = (0, 0);
        unknown.for_each(|is_unknown| {
            lookups += 1;
            unknown_lookups += u64::from(is_unknown);
        });
        counts.add(Count::Mapped as usize, lookups);
        counts.add(Count::Unknown as usize, unknown_lookups);
    }

    /// Returns the levels to search, and the lookups that may find something, with the positions of their keys.
    fn consult_for_each<'a>(
        &'a self,
        mapped: &'a Mapped<F>,
        keys: &[&'a [u8]],
    ) -> (&'a [Arc<Level<F>>], Vec<Searching<'a, F>>) {
        let hashes: Vec<KeyHash> = keys.iter().map(|key| self.config.reader.filters.hash(key)).collect();
        let (mut found, mut is_known) = (Vec::new(), true);
        mapped.visit_each(&hashes, |position, covered| match covered {
            Some(covered) => found.push((position, covered)),
            None => is_known = false,
        });
        let counts = self.counts.of_thread();
        counts.add(Count::Mapped as usize, keys.len() as u64);
        let keys = keys.iter().zip(&hashes).enumerate();
        if !is_known {
            // For all keys, because they take their steps together.
            counts.add(Count::Unknown as usize, hashes.len() as u64);
            return (
                &self.levels,
                keys.map(|(position, (key, hash))| (position, Cursor::hashed(key, *hash))).collect(),
            );
        }
        counts.add(Count::Candidates as usize, found.len() as u64);
        found.sort_unstable_by_key(|&(position, covered)| (position, Reverse(covered.order)));
        let mut found = found.into_iter().peekable();
        let lookups = keys.filter_map(|(position, (key, hash))| {
            let own = || found.next_if(|(of_key, _)| *of_key == position).map(|(_, covered)| covered);
            let covered: Vec<_> = core::iter::from_fn(own).collect();
            let is_searched = !mapped.uncovered.is_empty() || !covered.is_empty();
            is_searched.then(|| (position, Cursor::hashed(key, *hash).mapped(covered)))
        });
        let lookups = lookups.collect();
        (&mapped.uncovered, lookups)
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
    /// The levels with files that no map covers.
    levels: &'a [Arc<Level<F>>],
    step: Step,
    cursor: Cursor<'a, F>,
    /// The hash that filters of groups are probed with, and its mask for their lines.
    prepared: Option<PreparedKey>,
}

impl<'a, F> Candidates<'a, F> {
    /// Returns the next file that may contain the key. The call means that the previous file did not contain it.
    #[inline]
    pub fn next_file(&mut self) -> Option<&'a Arc<F>> {
        let Self { view, levels, step, cursor, prepared } = self;
        cursor.pass(view);
        loop {
            if let Some(file) = cursor.give(view, || step.order(levels)) {
                return Some(file);
            }
            cursor.leave(ChunkEnd::Passed);
            let (level, chunk) = step.take(levels)?;
            cursor.enter(level, chunk);
            cursor.probe(view, level, prepared);
        }
    }

    /// Ends the lookup: the file returned last decides the value of the key. A tombstone counts as an entry, and so
    /// does a range tombstone that covers the key.
    #[inline]
    pub fn found(mut self) {
        self.cursor.end(true);
    }

    /// Returns the reads that filters still need, each with its file, for engines whose lookups must not wait. They
    /// cover all files that have the key within their bounds and were not returned yet, also files that were opened
    /// with a source. A file that a map covers needs none.
    ///
    /// Perform all reads, together if possible, [complete](FilterRead::complete) each, and call this again until it
    /// returns nothing: after one round for filters in one block, after two or three for those in partitions, later if
    /// the budget is so full that filters are shrunk. The remaining candidates are then files that filters in memory do
    /// not exclude, and files whose reads another lookup is doing: do not wait for those. A lookup can also continue at
    /// once, and leave the reads to serve later lookups.
    #[must_use]
    pub fn reads(&self) -> Vec<(&'a Arc<F>, FilterRead)> {
        self.cursor.reads(self.levels, self.step)
    }
}

impl<F> Drop for Candidates<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.cursor.end(false);
    }
}

impl<F> fmt::Debug for Candidates<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidates").field("step", &self.step).finish_non_exhaustive()
    }
}

/// Keys that a batch takes through a sorted level together: enough for their cache misses to overlap, and few enough
/// for prefetched lines to still be in the cache.
const TOGETHER: usize = 64;

/// The files that may contain each of many keys, in steps that all keys take together, so that cache misses of one key
/// overlap with those of the others. A key that is found does not go on to older files.
///
/// Call [`next_files`](Self::next_files), search each file for its key, report which keys were [`found`](Self::found),
/// and repeat until no files are returned.
#[must_use = "a lookup returns files from `next_files`"]
pub struct BatchCandidates<'a, F> {
    view: &'a FilterView<F>,
    /// The levels with files that no map covers.
    levels: &'a [Arc<Level<F>>],
    step: Step,
    /// The lookups that have not ended.
    lookups: Vec<Searching<'a, F>>,
    given: Vec<(usize, &'a Arc<F>)>,
}

impl<'a, F> BatchCandidates<'a, F> {
    /// Returns the next file of each key that has one, with the position of the key. The call means that the previous
    /// files did not contain their keys, except those reported as found. Empty if there are no more files.
    pub fn next_files(&mut self) -> &[(usize, &'a Arc<F>)] {
        self.given.clear();
        self.lookups.iter_mut().for_each(|(_, cursor)| cursor.pass(self.view));
        loop {
            for (position, cursor) in &mut self.lookups {
                let file = cursor.give(self.view, || self.step.order(self.levels));
                self.given.extend(file.map(|file| (*position, file)));
            }
            if !self.given.is_empty() || self.lookups.is_empty() {
                break;
            }
            self.lookups.iter_mut().for_each(|(_, cursor)| cursor.leave(ChunkEnd::Passed));
            match self.step.take(self.levels) {
                None => break,
                Some((level, Some(chunk))) => self.enter_overlapping(level, chunk),
                Some((level, None)) => self.enter_sorted(level),
            }
            if !self.given.is_empty() {
                break;
            }
        }
        &self.given
    }

    /// Ends the lookup of the key at `position`: its file contains the key.
    pub fn found(&mut self, position: usize) {
        self.end(position, true);
    }

    /// Ends the lookup of the key at `position` without an outcome: its file could not be searched.
    pub fn failed(&mut self, position: usize) {
        self.end(position, false);
    }

    fn end(&mut self, position: usize, is_found: bool) {
        let Ok(index) = self.lookups.binary_search_by_key(&position, |&(position, _)| position) else { return };
        if let Some((_, cursor)) = self.lookups.get_mut(index).filter(|(_, cursor)| cursor.last.is_some()) {
            cursor.end(is_found);
            // Not `swap_remove`: the search above needs the positions in order.
            self.lookups.remove(index);
        }
    }

    /// Finds the candidates of all keys in a chunk. Prefetches the lines of a later key, because searches between
    /// chunks evict filters from the near caches.
    fn enter_overlapping(&mut self, level: &'a Level<F>, chunk: &'a Chunk<F>) {
        let view = self.view;
        // All hashes before the first probe: a probe prefetches lines for the hash of a later key.
        let mut hashes = Vec::with_capacity(self.lookups.len());
        for (_, cursor) in &mut self.lookups {
            cursor.enter(level, Some(chunk));
            let group = cursor.group(view).filter(|_| cursor.left != 0);
            hashes.push(match group.map(|group| (group, group.one_part)) {
                Some((_, Some(part))) => cursor.hash_for(view, part),
                Some((group, None)) => {
                    cursor.probe_by_parts(view, group);
                    None
                }
                None => None,
            });
        }
        let ahead = level.residency.keys_ahead(chunk.files.len());
        for (index, hash) in hashes.iter().enumerate() {
            let later = ahead.and_then(|ahead| {
                let (_, later) = self.lookups.get(index + ahead)?;
                Some(((*hashes.get(index + ahead)?)?, later.left))
            });
            let (Some(hash), Some((_, cursor))) = (*hash, self.lookups.get_mut(index)) else { continue };
            if let Some(group) = &chunk.core.group {
                cursor.narrow(group.filters.probe_ahead(&mut PreparedKey::new(hash), cursor.left, later));
            }
        }
    }

    /// Finds the files of all keys in a sorted level, and returns the candidates.
    fn enter_sorted(&mut self, level: &'a Level<F>) {
        if level.sorted.is_empty() {
            return;
        }
        let (view, next) = (self.view, self.step.order(self.levels));
        // Three passes over each chunk of keys, so that cache misses of one key overlap with those of the others.
        for lookups in self.lookups.chunks_mut(TOGETHER) {
            for (_, cursor) in &mut *lookups {
                cursor.enter(level, None);
                cursor.next_state().inspect(|file| file.prefetch());
            }
            for (_, cursor) in &mut *lookups {
                cursor.next_state().inspect(|file| file.prefetch_probe(|| cursor.whole_for(view, file)));
            }
            for (position, cursor) in lookups {
                self.given.extend(cursor.give(view, || next).map(|file| (*position, file)));
            }
        }
    }

    /// Returns the reads for the files of all keys; see [`Candidates::reads`].
    #[must_use]
    pub fn reads(&self) -> Vec<(&'a Arc<F>, FilterRead)> {
        self.lookups.iter().flat_map(|(_, cursor)| cursor.reads(self.levels, self.step)).collect()
    }
}

impl<F> Drop for BatchCandidates<'_, F> {
    fn drop(&mut self) {
        self.lookups.iter_mut().for_each(|(_, cursor)| cursor.end(false));
    }
}

impl<F> fmt::Debug for BatchCandidates<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchCandidates").field("keys", &self.lookups.len()).finish_non_exhaustive()
    }
}
