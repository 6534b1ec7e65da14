//! Lookups: which files of a view must be read for a key, or for each of many keys.
//!
//! A lookup takes the files in chunks of up to 64. For a chunk it computes which files have the key within their
//! bounds, and which of those have a filter that may contain it. It then gives the remaining files, the newest first.
//! What it counts is up to the file where it ended, so that rates are those of files that were searched for nothing.

use core::fmt;
use std::sync::Arc;

use sstfilter::internal::{CacheResidency, PreparedKey, bits_of};
use sstfilter::{KeyHash, Probe};

use super::chunk::{Chunk, Group, PrefixedHead};
use super::counts::Found;
use super::file::FileFilters;
use super::read::FilterRead;
use super::reader::SharedParts;
use super::state::{Answer, FileState};
use super::view::{FilterView, Level};

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
        let lookups = keys.iter().map(|key| Cursor::new(key)).enumerate().collect();
        BatchCandidates { view: self, step: Step::default(), lookups, given: Vec::new() }
    }
}

/// A place in a view: a chunk of overlapping files, or behind those of a level, its files in the order of keys.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    level: usize,
    chunk: usize,
}

impl Step {
    /// The level that is here, with its chunk of overlapping files; without one, its files in the order of keys. Then
    /// goes on. `None` behind the last level.
    #[inline]
    fn take<'a, F>(&mut self, levels: &'a [Arc<Level<F>>]) -> Option<(&'a Level<F>, Option<&'a Chunk<F>>)> {
        let level = levels.get(self.level)?;
        let chunk = level.loose.get(self.chunk);
        let (next_level, next_chunk) = (self.level + 1, self.chunk + 1);
        *self = match chunk {
            Some(_) => Self { chunk: next_chunk, ..*self },
            None => Self { level: next_level, chunk: 0 },
        };
        Some((level, chunk.map(AsRef::as_ref)))
    }
}

/// One key on its way through the files of a view.
struct Cursor<'a, F> {
    key: &'a [u8],
    /// The head of the key behind the prefix of most chunks of a level.
    head: PrefixedHead<'a>,
    /// The hash of the whole key, computed when the first filter needs it.
    whole: Option<KeyHash>,
    /// The chunk that it is at.
    chunk: Option<&'a Chunk<F>>,
    found: Found,
    /// The candidates of the chunk to which it has not come.
    left: u64,
    /// The place in the chunk of the last file that was given.
    given: Option<usize>,
    /// The files of the group that were given and did not have the key.
    passed: u64,
    /// The last file that was given, and what its filter had said.
    last: Option<(&'a Arc<FileState>, Answer)>,
}

impl<'a, F> Cursor<'a, F> {
    #[inline]
    const fn new(key: &'a [u8]) -> Self {
        let found = Found { in_bounds: 0, candidates: 0 };
        Self { key, head: None, whole: None, chunk: None, found, left: 0, given: None, passed: 0, last: None }
    }

    /// Comes to a chunk of overlapping files, or without one, to that in a level's order of keys where the key belongs.
    /// The files that have the key within their bounds are its candidates.
    #[inline]
    fn enter(&mut self, level: &'a Level<F>, overlapping: Option<&'a Chunk<F>>) {
        self.chunk = overlapping.or_else(|| level.sorted.get(level.chunk_of(self.key)).map(AsRef::as_ref));
        if let Some(Chunk { core, .. }) = self.chunk {
            let key = self.key;
            if overlapping.is_none() {
                core.prefetch_files();
            }
            let mut in_bounds = core.bounds.holding(key, &mut self.head, |files| core.covering(files, key));
            if core.special != 0 {
                in_bounds |= core.covering(core.special, key);
            }
            (self.found, self.left) = (Found { in_bounds, candidates: in_bounds }, in_bounds);
        }
    }

    /// The filters of the chunk that are probed together, unless no filter is used.
    #[inline]
    fn group(&self, view: &FilterView<F>) -> Option<&'a Group> {
        self.chunk?.core.group.as_ref().filter(|_| view.config.trust.get().is_none())
    }

    /// The hash for filters of one part; `None` for a key without it, which no such filter can be probed for.
    #[inline]
    fn hash_for(&mut self, view: &FilterView<F>, part: SharedParts) -> Option<KeyHash> {
        let reader = &view.config.reader;
        if part.has_whole_keys() {
            return Some(*self.whole.get_or_insert_with(|| reader.filters.hash(self.key)));
        }
        reader.point_hashes(part, self.key).next()
    }

    /// The hash of the whole key by the file's own hasher: another store may have opened the file.
    #[inline]
    fn whole_for(&mut self, view: &FilterView<F>, file: &FileState) -> KeyHash {
        if !Arc::ptr_eq(&file.config, &view.config) {
            return file.reader().filters.hash(self.key);
        }
        *self.whole.get_or_insert_with(|| view.config.reader.filters.hash(self.key))
    }

    /// Leaves those of the candidates whose filters may contain the key, as far as these are in the group. `prepared`
    /// is what was prepared for the chunk before.
    #[inline]
    fn probe(&mut self, view: &FilterView<F>, level: &Level<F>, prepared: &mut Option<PreparedKey>) {
        let Some(group) = self.group(view).filter(|_| self.left != 0) else { return };
        let Some(part) = group.one_part else { return self.probe_by_parts(view, group) };
        let Some(hash) = self.hash_for(view, part) else { return };
        if level.residency == CacheResidency::Memory {
            group.filters.prefetch(hash, self.left);
        }
        if prepared.as_ref().is_none_or(|prepared| prepared.hash() != hash) {
            *prepared = None;
        }
        self.narrow(group.filters.probe(prepared.get_or_insert_with(|| PreparedKey::new(hash)), self.left));
    }

    #[inline(never)]
    fn probe_by_parts(&mut self, view: &FilterView<F>, group: &Group) {
        self.narrow(group.by_parts(self.left, |parts| view.config.reader.point_hashes(parts, self.key)));
    }

    #[inline]
    const fn narrow(&mut self, candidates: u64) {
        (self.found.candidates, self.left) = (candidates, candidates);
    }

    /// What is to be read for the files that are left of the chunk, and those from the next step on.
    fn reads(&self, view: &'a FilterView<F>, mut step: Step) -> Vec<(&'a Arc<F>, FilterRead)> {
        let mut ahead = Self { chunk: self.chunk, left: self.left, ..Self::new(self.key) };
        let mut reads = Vec::new();
        loop {
            if let Some(chunk) = ahead.chunk {
                let alone = chunk.core.group.as_ref().map_or(u64::MAX, |group| group.alone);
                let files = bits_of(ahead.left & alone).filter_map(|place| chunk.file(place));
                reads.extend(files.filter_map(|(file, state)| Some((file, state.read_for_key(self.key)?))));
            }
            let Some((level, chunk)) = step.take(&view.levels) else { return reads };
            ahead.enter(level, chunk);
        }
    }

    /// The file given last did not have the key. Outcomes in a group are recorded when its probes are.
    #[inline]
    fn pass(&mut self) {
        let Some((state, answer)) = self.last.take() else { return };
        let group = self.chunk.and_then(|chunk| chunk.core.group.as_ref());
        match self.given.filter(|place| group.is_some_and(|group| group.alone >> place & 1 == 0)) {
            Some(place) if answer.probe == Probe::MaybePresent => self.passed |= 1 << place,
            _ => state.record(answer, false),
        }
    }

    /// The file whose filter is probed next.
    #[inline]
    fn next_state(&self) -> Option<&'a Arc<FileState>> {
        self.chunk?.core.files.get(self.left.trailing_zeros() as usize)
    }

    /// The next candidate of the chunk whose own filter may contain the key, too.
    #[inline]
    fn give(&mut self, view: &FilterView<F>) -> Option<&'a Arc<F>> {
        let chunk = self.chunk.filter(|_| self.left != 0)?;
        let alone = self.group(view).map_or(u64::MAX, |group| group.alone);
        for place in bits_of(self.left) {
            self.left &= !(1 << place);
            let (file, state) = chunk.file(place)?;
            let group = chunk.core.group.as_ref();
            let answer = if alone >> place & 1 == 1 {
                state.probe_key(self.key, || self.whole_for(view, state))
            } else {
                let answer = Answer::of_group(state, self.key);
                if answer.probe == Probe::Unusable && state.resident().is_some() {
                    group.inspect(|group| group.counts.count_unprobed(place));
                }
                answer
            };
            if answer.probe.is_absent() {
                self.found.candidates &= !(1 << place);
                continue;
            }
            if group.is_none() {
                state.units.counters.add_view_counts(0, 1);
            }
            (self.last, self.given) = (Some((state, answer)), Some(place));
            return Some(file);
        }
        None
    }

    /// Leaves the chunk: for the next one, or because the lookup ended at a file of this one.
    #[inline]
    fn leave(&mut self, ended: Option<usize>) {
        if let Some((core, group)) = self.chunk.take().and_then(|Chunk { core, .. }| Some((core, core.group.as_ref()?)))
        {
            group.counts.count(self.found, ended);
            // After the probes, so that there are never more outcomes than answers.
            for state in bits_of(self.passed).filter_map(|place| core.files.get(place)) {
                state.record(Answer::of(Probe::MaybePresent), false);
            }
        }
        (self.left, self.given, self.passed) = (0, None, 0);
    }

    /// The lookup ends at the file given last: that has the key, or it is not known whether it has, or the engine's
    /// code panicked behind it.
    fn end(&mut self, is_found: bool) {
        let found = self.last.take().filter(|_| is_found);
        if self.given.is_some() {
            self.leave(self.given);
        }
        if let Some((state, answer)) = found {
            state.record(answer, true);
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
/// use sstfilter::FileId;
/// use sstfilter_store::{FilterStore, FilterView, ViewEdit};
///
/// let store = FilterStore::default();
/// let file = |keys: &[&str]| {
///     let mut builder = store.builder(FileId::random());
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
/// # Ok::<(), sstfilter_store::ViewError>(())
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
            if let Some(file) = cursor.give(view) {
                return Some(file);
            }
            cursor.leave(None);
            let (level, chunk) = step.take(&view.levels)?;
            cursor.enter(level, chunk);
            cursor.probe(view, level, prepared);
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
    /// one block, after two or three for those in partitions, later where a budget is so full that they are shrunk.
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
    /// The next file of each key that has one, with the key's position. The files given before did not have their keys,
    /// but for those that were found. Empty when there are no more.
    pub fn next_files(&mut self) -> &[(usize, &'a Arc<F>)] {
        self.given.clear();
        self.lookups.iter_mut().for_each(|(_, cursor)| cursor.pass());
        loop {
            for (position, cursor) in &mut self.lookups {
                self.given.extend(cursor.give(self.view).map(|file| (*position, file)));
            }
            if !self.given.is_empty() || self.lookups.is_empty() {
                break;
            }
            self.lookups.iter_mut().for_each(|(_, cursor)| cursor.leave(None));
            match self.step.take(&self.view.levels) {
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
    fn enter_overlapping(&mut self, level: &'a Level<F>, chunk: &'a Chunk<F>) {
        let view = self.view;
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

    /// Finds the files of all keys in a sorted level, and gives those that are candidates.
    fn enter_sorted(&mut self, level: &'a Level<F>) {
        if level.sorted.is_empty() {
            return;
        }
        let view = self.view;
        for lookups in self.lookups.chunks_mut(TOGETHER) {
            for (_, cursor) in &mut *lookups {
                cursor.enter(level, None);
                cursor.next_state().inspect(|file| file.prefetch());
            }
            for (_, cursor) in &mut *lookups {
                cursor.next_state().inspect(|file| file.prefetch_probe(|| cursor.whole_for(view, file)));
            }
            for (position, cursor) in lookups {
                self.given.extend(cursor.give(view).map(|file| (*position, file)));
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
