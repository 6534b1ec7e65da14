//! Lookups: which files of a view must be read for a key, or for each of many keys.
//!
//! A lookup takes the files in chunks of up to 64. For a chunk it computes which files have the key within their
//! bounds, and which of those have a filter that may contain it. It then gives the remaining files, the newest first.
//! What it counts is up to the file where it ended, so that rates are those of files that were searched for nothing.

use core::fmt;
use std::sync::Arc;

use super::chunk::{Chunk, Group};
use super::counts::Found;
use super::file::FileFilters;
use super::read::FilterRead;
use super::state::{Answer, FileProbe, FileState};
use super::view::{FilterView, Level};
use crate::block::{CacheResidency, PreparedKey, bits_of};
use crate::hash::KeyHash;
use crate::key_head::SharedPrefix;

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// The files that may have `key`, one after the other. Nothing is read from them; filters that are not in memory
    /// are read if their files have a source.
    #[inline]
    pub fn candidates<'a>(&'a self, key: &'a [u8]) -> Candidates<'a, F> {
        self.lookups.of_thread().add(0, 1);
        Candidates { view: self, step: Step::default(), cursor: Cursor::new(key), prepared: None }
    }

    /// The files that may have each of `keys`, in steps for all keys together.
    pub fn candidates_of_each<'a>(&'a self, keys: &[&'a [u8]]) -> BatchCandidates<'a, F> {
        self.lookups.of_thread().add(0, keys.len() as u64);
        BatchCandidates::new(self, keys)
    }
}

/// A place in a view: a chunk of overlapping files, or behind those of a level, its files in the order of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    level: usize,
    chunk: usize,
}

/// What a step leads to.
pub(super) enum Stop<'a, F> {
    Overlapping(&'a Level<F>, &'a Chunk<F>),
    Sorted(&'a Level<F>),
}

impl Step {
    /// What is here, and the next step. `None` behind the last level.
    #[inline]
    pub(super) fn take<'a, F>(&mut self, levels: &'a [Arc<Level<F>>]) -> Option<Stop<'a, F>> {
        let level = levels.get(self.level)?;
        if let Some(chunk) = level.loose.get(self.chunk) {
            self.chunk += 1;
            return Some(Stop::Overlapping(level, chunk));
        }
        *self = Self { level: self.level + 1, chunk: 0 };
        Some(Stop::Sorted(level))
    }
}

/// What of a key is computed once for all files.
struct KeyProbe<'a> {
    key: &'a [u8],
    /// The head of the key behind the prefix of most chunks of a level.
    head: Option<(&'a Arc<SharedPrefix>, Option<u64>)>,
    whole: Option<KeyHash>,
}

impl<'a> KeyProbe<'a> {
    #[inline]
    const fn new(key: &'a [u8]) -> Self {
        Self { key, head: None, whole: None }
    }

    /// The files of a chunk that have the key within their bounds.
    #[inline]
    fn in_bounds<F>(&mut self, chunk: &'a Chunk<F>) -> u64 {
        let prefix = &chunk.core.prefix;
        let head = match self.head {
            Some((known, head)) if Arc::ptr_eq(known, prefix) => head,
            _ => {
                let head = prefix.head(self.key);
                self.head = Some((prefix, head));
                head
            }
        };
        chunk.core.in_bounds(self.key, head)
    }

    /// The hash of the whole key, computed when the first filter needs it.
    #[inline]
    fn whole<F>(&mut self, view: &FilterView<F>) -> KeyHash {
        *self.whole.get_or_insert_with(|| view.config.reader.hasher.hash(self.key))
    }

    /// The hash of the whole key by the file's own hasher: another store may have opened the file.
    #[inline]
    fn whole_for<F>(&mut self, view: &FilterView<F>, file: &FileState) -> KeyHash {
        if file.is_from(&view.config) { self.whole(view) } else { file.hash(self.key) }
    }

    /// The hash for filters of one part; `None` for a key without it, which no such filter can be probed for.
    #[inline]
    fn hash_for<F>(&mut self, view: &FilterView<F>, group: &Group) -> Option<KeyHash> {
        let parts = group.one_part()?;
        if parts.has_whole_keys() {
            return Some(self.whole(view));
        }
        view.config.reader.point_hashes(parts, self.key).next()
    }

    /// Those of the files in bounds whose filters may contain the key, as far as these are in the group. `prepared` is
    /// what was prepared for the chunk before.
    #[inline]
    fn matches<F>(
        &mut self,
        view: &FilterView<F>,
        level: &Level<F>,
        group: &Group,
        in_bounds: u64,
        prepared: &mut Option<PreparedKey>,
    ) -> u64 {
        if in_bounds == 0 {
            return 0;
        }
        if group.one_part().is_none() {
            return group.by_parts(in_bounds, |parts| view.config.reader.point_hashes(parts, self.key));
        }
        let Some(hash) = self.hash_for(view, group) else { return in_bounds };
        if level.residency == CacheResidency::Memory {
            group.filters().prefetch(hash, in_bounds);
        }
        if prepared.as_ref().is_none_or(|prepared| prepared.hash() != hash) {
            *prepared = None;
        }
        group.filters().probe(prepared.get_or_insert_with(|| PreparedKey::new(hash)), in_bounds)
    }

    /// The file of a sorted level that has the key within its bounds.
    #[inline]
    fn find<F>(&mut self, level: &'a Level<F>) -> Option<(&'a Chunk<F>, usize)> {
        let chunk = level.sorted.get(level.chunk_of(self.key))?;
        let place = self.in_bounds(chunk).trailing_zeros() as usize;
        (place < chunk.files.len()).then_some((&**chunk, place))
    }
}

/// The file that a lookup has given last, and what its filter had said.
struct Last<'a> {
    state: &'a Arc<FileState>,
    answer: Answer,
}

/// One key on its way through the files of a view.
struct Cursor<'a, F> {
    probe: KeyProbe<'a>,
    /// The chunk of overlapping files that it is at.
    chunk: Option<&'a Chunk<F>>,
    found: Found,
    /// The candidates of the chunk to which it has not come.
    left: u64,
    /// The place in the chunk of the last file that was given.
    given: Option<usize>,
    last: Option<Last<'a>>,
}

impl<'a, F> Cursor<'a, F> {
    #[inline]
    const fn new(key: &'a [u8]) -> Self {
        let found = Found { in_bounds: 0, candidates: 0 };
        Self { probe: KeyProbe::new(key), chunk: None, found, left: 0, given: None, last: None }
    }

    /// What is to be read for the files that are left of the chunk, and those from the next step on.
    fn reads(&self, view: &'a FilterView<F>, mut step: Step) -> Vec<(&'a Arc<F>, FilterRead)> {
        let (mut probe, mut reads) = (KeyProbe::new(self.probe.key), Vec::new());
        let alone = |chunk: &Chunk<F>| chunk.core.group.as_ref().map_or(0, |group| group.alone);
        let mut next = self.chunk.map(|chunk| (chunk, self.left & alone(chunk)));
        loop {
            if let Some((chunk, places)) = next {
                let files = bits_of(places).filter_map(|place| chunk.files.get(place).zip(chunk.core.files.get(place)));
                reads.extend(files.filter_map(|(file, state)| Some((file, state.read_for(probe.key)?))));
            }
            next = match step.take(&view.levels) {
                Some(Stop::Overlapping(_, chunk)) => Some((chunk, probe.in_bounds(chunk) & alone(chunk))),
                Some(Stop::Sorted(level)) => probe.find(level).map(|(chunk, place)| (chunk, 1 << place)),
                None => return reads,
            };
        }
    }

    /// The file given last did not have the key.
    #[inline]
    fn pass(&mut self) {
        if let Some(last) = self.last.take() {
            last.state.record(last.answer, false);
        }
    }

    /// The file of a sorted level that may have the key.
    #[inline]
    fn give_of_sorted(&mut self, view: &FilterView<F>, found: Option<(&'a Chunk<F>, usize)>) -> Option<&'a Arc<F>> {
        let (chunk, place) = found?;
        let (file, state) = (chunk.files.get(place)?, chunk.core.files.get(place)?);
        let answer = state.probe_key(self.probe.key, || self.probe.whole_for(view, state));
        if answer.probe.is_absent() {
            return None;
        }
        state.counters().add_beside_answers(0, 1);
        self.last = Some(Last { state, answer });
        Some(file)
    }

    /// Comes to a chunk, of whose files these are candidates.
    #[inline]
    fn enter(&mut self, chunk: &'a Chunk<F>, found: Found) {
        (self.chunk, self.found, self.left) = (Some(chunk), found, found.candidates);
    }

    /// The next candidate of the chunk whose own filter may contain the key, too.
    #[inline]
    fn give_of_chunk(&mut self, view: &FilterView<F>) -> Option<&'a Arc<F>> {
        if self.left == 0 {
            return None;
        }
        let chunk = self.chunk?;
        let alone = match &chunk.core.group {
            Some(group) if view.config.trust.problem().is_none() => group.alone,
            _ => u64::MAX,
        };
        for place in bits_of(self.left) {
            self.left &= !(1 << place);
            let (file, state) = (chunk.files.get(place)?, chunk.core.files.get(place)?);
            let answer = if alone >> place & 1 == 1 {
                state.probe_key(self.probe.key, || self.probe.whole_for(view, state))
            } else {
                let answer = Answer::of_group(state, self.probe.key);
                if answer.probe == FileProbe::Unusable && state.resident().is_some() {
                    chunk.core.group.as_ref().inspect(|group| group.counts.count_unprobed(place));
                }
                answer
            };
            if answer.probe.is_absent() {
                self.found.candidates &= !(1 << place);
                continue;
            }
            (self.last, self.given) = (Some(Last { state, answer }), Some(place));
            return Some(file);
        }
        None
    }

    /// Leaves the chunk: for the next one, or because the lookup ended at a file of this one.
    #[inline]
    fn leave(&mut self, ended: Option<usize>) {
        if let Some(group) = self.chunk.take().and_then(|chunk| chunk.core.group.as_ref()) {
            group.counts.count(self.found, ended);
        }
        (self.left, self.given) = (0, None);
    }

    /// The lookup ends at the file given last: that has the key, or it is not known whether it has, or the engine's
    /// code panicked behind it.
    fn end(&mut self, is_found: bool) {
        if let Some(last) = self.last.take().filter(|_| is_found) {
            last.state.record(last.answer, true);
        }
        if self.given.is_some() {
            self.leave(self.given);
        }
    }
}

/// The files that may have a key, from the newest to the oldest. Call [`next_file`](Self::next_file), search the file,
/// and call it again if the key is not there, or else [`found`](Self::found).
///
/// So the lookup knows what became of its answers, and counts it: a file that was searched for nothing is a false
/// positive. One that is dropped after a file was given and nothing was said about it, as after an error, counts no
/// outcome.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter::store::{FilterStore, FilterView, ViewEdit};
///
/// let store = FilterStore::default();
/// let file = |keys: &[&str]| {
///     let mut builder = store.builder(&store.build_context());
///     keys.iter().for_each(|key| builder.add_key(key.as_bytes()));
///     let (bytes, metadata) = builder.finish().seal();
///     Arc::new(store.open(metadata, Arc::new(bytes)))
/// };
/// let (old, new) = (file(&["apple", "melon"]), file(&["banana", "plum"]));
/// let view = FilterView::new(&store).edited(ViewEdit::new().add(0, old.clone()).add(0, new))?;
///
/// let mut candidates = view.candidates(b"melon");
/// let first = candidates.next_file().expect("a file has it");
/// assert!(Arc::ptr_eq(first, &old));
/// candidates.found();
/// assert_eq!(view.level_stats(0).filter.true_positives, 1);
/// # Ok::<(), sstfilter::store::ViewError>(())
/// ```
#[must_use = "a lookup gives files by `next_file`"]
pub struct Candidates<'a, F> {
    view: &'a FilterView<F>,
    step: Step,
    cursor: Cursor<'a, F>,
    /// The hash that filters of groups are probed with, and the mask that it makes in their lines.
    prepared: Option<PreparedKey>,
}

impl<'a, F> Candidates<'a, F> {
    /// The next file that may have the key. The one before did not have it.
    #[inline]
    pub fn next_file(&mut self) -> Option<&'a Arc<F>> {
        let Self { view, step, cursor, prepared } = self;
        cursor.pass();
        loop {
            if cursor.chunk.is_some() {
                if let Some(file) = cursor.give_of_chunk(view) {
                    return Some(file);
                }
                cursor.leave(None);
            }
            match step.take(&view.levels)? {
                Stop::Overlapping(level, chunk) => {
                    let in_bounds = cursor.probe.in_bounds(chunk);
                    let candidates = match &chunk.core.group {
                        Some(group) if view.config.trust.problem().is_none() => {
                            cursor.probe.matches(view, level, group, in_bounds, prepared)
                        }
                        _ => in_bounds,
                    };
                    cursor.enter(chunk, Found { in_bounds, candidates });
                }
                Stop::Sorted(level) => {
                    let found = cursor.probe.find(level);
                    if let Some(file) = cursor.give_of_sorted(view, found) {
                        return Some(file);
                    }
                }
            }
        }
    }

    /// The file given last decides what becomes of the key: the lookup ends there. A tombstone is an entry, too, and so
    /// is a range tombstone around the key.
    #[inline]
    pub fn found(mut self) {
        self.cursor.end(true);
    }

    /// What is still to be read for the filters of the files that have the key within their bounds and were not given
    /// yet, for engines whose lookups do not wait: each read with its file. Read all of it, together if possible,
    /// [complete](FilterRead::complete) each, and call this again, until it is empty: after one round for filters in
    /// one block, after three for most in partitions, later where a budget is so full that filters have to be shrunk.
    /// Then the files are those that filters in memory leave, and those whose reads another lookup has in hand: there
    /// is nothing to wait for. These reads include those of files that were opened with a source. A lookup can also go
    /// on at once, and let the reads serve later ones.
    #[must_use]
    pub fn reads(&self) -> Vec<(&'a Arc<F>, FilterRead)> {
        self.cursor.reads(self.view, self.step)
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

/// Keys that a batch takes through a sorted level together: so many that their cache misses overlap, and so few that
/// what was prefetched is still there.
const TOGETHER: usize = 64;

/// The files that may have each of many keys, in steps that are taken for all keys together: so cache misses of one key
/// overlap with those of the others. A key that is found does not come to its older files.
///
/// Call [`next_files`](Self::next_files), search each file for its key, say which were [`found`](Self::found), and call
/// it again, until there are no files.
#[must_use = "a lookup gives files by `next_files`"]
pub struct BatchCandidates<'a, F> {
    view: &'a FilterView<F>,
    step: Step,
    /// Those that have not ended, with the positions of their keys.
    lookups: Vec<(usize, Cursor<'a, F>)>,
    given: Vec<(usize, &'a Arc<F>)>,
}

impl<'a, F> BatchCandidates<'a, F> {
    fn new(view: &'a FilterView<F>, keys: &[&'a [u8]]) -> Self {
        let lookups = keys.iter().map(|key| Cursor::new(key)).enumerate().collect();
        Self { view, step: Step::default(), lookups, given: Vec::new() }
    }

    /// The next file of each key that has one, with the key's position. The files given before did not have their keys,
    /// but for those that were found. Empty when there are no more.
    pub fn next_files(&mut self) -> &[(usize, &'a Arc<F>)] {
        self.given.clear();
        self.lookups.iter_mut().for_each(|(_, cursor)| cursor.pass());
        loop {
            for (position, cursor) in &mut self.lookups {
                self.given.extend(cursor.give_of_chunk(self.view).map(|file| (*position, file)));
            }
            if !self.given.is_empty() || self.lookups.is_empty() {
                break;
            }
            self.lookups.iter_mut().for_each(|(_, cursor)| cursor.leave(None));
            match self.step.take(&self.view.levels) {
                None => break,
                Some(Stop::Overlapping(level, chunk)) => self.enter(level, chunk),
                Some(Stop::Sorted(level)) => {
                    self.give_of_sorted(level);
                    if !self.given.is_empty() {
                        break;
                    }
                }
            }
        }
        &self.given
    }

    /// The file given for the key at `position` has it: that key's lookup ends there.
    pub fn found(&mut self, position: usize) {
        self.end(position, true);
    }

    /// The file given for the key at `position` could not be searched: that key's lookup ends there, without an
    /// outcome.
    pub fn failed(&mut self, position: usize) {
        self.end(position, false);
    }

    fn end(&mut self, position: usize, is_found: bool) {
        let Ok(index) = self.lookups.binary_search_by_key(&position, |&(position, _)| position) else { return };
        if let Some((_, cursor)) = self.lookups.get_mut(index).filter(|(_, cursor)| cursor.last.is_some()) {
            cursor.end(is_found);
            self.lookups.remove(index);
        }
    }

    /// Finds the candidates of all keys in a chunk. The lines of a later key are prefetched: searches between chunks
    /// drive filters out of the near caches.
    fn enter(&mut self, level: &'a Level<F>, chunk: &'a Chunk<F>) {
        let view = self.view;
        let group = chunk.core.group.as_ref().filter(|_| view.config.trust.problem().is_none());
        let one_part = group.filter(|group| group.one_part().is_some());
        let mut hashes = Vec::with_capacity(self.lookups.len());
        for (_, cursor) in &mut self.lookups {
            let in_bounds = cursor.probe.in_bounds(chunk);
            hashes.push(one_part.filter(|_| in_bounds != 0).and_then(|group| cursor.probe.hash_for(view, group)));
            let candidates = match group {
                Some(group) if one_part.is_none() => cursor.probe.matches(view, level, group, in_bounds, &mut None),
                _ => in_bounds,
            };
            cursor.enter(chunk, Found { in_bounds, candidates });
        }
        let Some(group) = one_part else { return };
        let ahead = level.residency.keys_ahead(chunk.files.len());
        for (index, hash) in hashes.iter().enumerate() {
            let later = ahead.and_then(|ahead| {
                let (_, later) = self.lookups.get(index + ahead)?;
                Some(((*hashes.get(index + ahead)?)?, later.found.in_bounds))
            });
            let (Some(hash), Some((_, cursor))) = (*hash, self.lookups.get_mut(index)) else { continue };
            let prepared = &mut PreparedKey::new(hash);
            cursor.found.candidates = group.filters().probe_ahead(prepared, cursor.found.in_bounds, later);
            cursor.left = cursor.found.candidates;
        }
    }

    fn give_of_sorted(&mut self, level: &'a Level<F>) {
        if level.sorted.is_empty() {
            return;
        }
        let view = self.view;
        let state = |found: Option<(&'a Chunk<F>, usize)>| found.and_then(|(chunk, place)| chunk.core.files.get(place));
        for lookups in self.lookups.chunks_mut(TOGETHER) {
            let mut found = [None; TOGETHER];
            for ((_, cursor), found) in lookups.iter_mut().zip(&mut found) {
                *found = cursor.probe.find(level);
                state(*found).inspect(|file| file.prefetch());
            }
            for ((_, cursor), &found) in lookups.iter_mut().zip(&found) {
                state(found).inspect(|file| file.prefetch_probe(|| cursor.probe.whole_for(view, file)));
            }
            for ((position, cursor), found) in lookups.iter_mut().zip(found) {
                self.given.extend(cursor.give_of_sorted(view, found).map(|file| (*position, file)));
            }
        }
    }

    /// What is still to be read for the files of all keys; see [`Candidates::reads`].
    #[must_use]
    pub fn reads(&self) -> Vec<(&'a Arc<F>, FilterRead)> {
        self.lookups.iter().flat_map(|(_, cursor)| cursor.reads(self.view, self.step)).collect()
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
