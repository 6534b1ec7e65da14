//! Lookups: which files of a view must be read for a key, or for each of many keys.
//!
//! A lookup takes the files in chunks of up to 64. For each chunk it computes which files have the key within their
//! bounds, and which of these have a filter that may contain it. It then returns those files, the newest first. It
//! counts only up to the file where it ended, so that rates are those of files that were searched in vain.

use core::cmp::Reverse;
use core::fmt;
use std::sync::Arc;

use sstfilter::internal::{CacheResidency, PreparedKey, bits_of};
use sstfilter::{KeyHash, Probe};

use super::chunk::{Chunk, Group, PrefixedHead};
use super::counts::{ChunkEnd, Found};
use super::file::FileFilters;
use super::read::FilterRead;
use super::reader::SharedParts;
use super::state::{Answer, FileState};
use super::view::{Count, Covered, FilterView, Level, Mapped, Order};

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Returns the files that may contain `key`, one after the other. The lookup reads nothing from them, except
    /// filters that are not in memory, if their files have a source.
    #[inline]
    pub fn candidates<'a>(&'a self, key: &'a [u8]) -> Candidates<'a, F> {
        self.counts.of_thread().add(Count::Lookups as usize, 1);
        let mut cursor = Cursor::new(key);
        let levels = match self.usable_maps() {
            Some(mapped) => cursor.consult(self, mapped),
            None => &self.levels,
        };
        Candidates { view: self, levels, step: Step::default(), cursor, prepared: None }
    }

    /// Returns the files that may contain each of `keys`, in steps that all keys take together.
    pub fn candidates_of_each<'a>(&'a self, keys: &[&'a [u8]]) -> BatchCandidates<'a, F> {
        self.counts.of_thread().add(Count::Lookups as usize, keys.len() as u64);
        let (levels, lookups) = match self.usable_maps() {
            Some(mapped) => self.consult_for_each(mapped, keys),
            None => (&*self.levels, keys.iter().map(|key| Cursor::new(key)).enumerate().collect()),
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

    /// Returns the levels to search, and the lookups that may find something, with the positions of their keys.
    fn consult_for_each<'a>(
        &'a self,
        mapped: &'a Mapped<F>,
        keys: &[&'a [u8]],
    ) -> (&'a [Arc<Level<F>>], Vec<Searching<'a, F>>) {
        let hashes: Vec<KeyHash> = keys.iter().map(|key| self.config.reader.filters.hash(key)).collect();
        let cursor = |position| {
            let mut cursor = Cursor::new(keys.get(position).copied().unwrap_or_default());
            (cursor.whole, cursor.is_mapped) = (hashes.get(position).copied(), true);
            cursor
        };
        let (mut lookups, mut candidates, mut unknown) = (Vec::new(), 0, false);
        if !mapped.uncovered.is_empty() {
            lookups.extend((0..keys.len()).map(|position| (position, cursor(position))));
        }
        mapped.visit_each(&hashes, |position, found| {
            let Some(covered) = found else {
                unknown = true;
                return;
            };
            let at = lookups.binary_search_by_key(&position, |&(position, _)| position).unwrap_or_else(|at| {
                lookups.insert(at, (position, cursor(position)));
                at
            });
            if let Some((_, cursor)) = lookups.get_mut(at) {
                cursor.covered.push(covered);
                candidates += 1;
            }
        });
        let counts = self.counts.of_thread();
        counts.add(Count::Mapped as usize, keys.len() as u64);
        if unknown {
            // In one step for all keys: rare, and only slower.
            counts.add(Count::Unknown as usize, keys.len() as u64);
            let unmapped = |position| (position, Cursor { is_mapped: false, ..cursor(position) });
            return (&self.levels, (0..keys.len()).map(unmapped).collect());
        }
        if candidates > 0 {
            counts.add(Count::Candidates as usize, candidates);
            lookups.iter_mut().for_each(|(_, cursor)| cursor.sort_covered());
        }
        (&mapped.uncovered, lookups)
    }
}

/// A position in a view: a chunk of overlapping files, or after these, the level's files in the order of keys.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    level: usize,
    chunk: usize,
}

impl Step {
    /// Returns the order of the files at this position; `None` after the last level.
    fn order<F>(self, levels: &[Arc<Level<F>>]) -> Option<Order> {
        let level = levels.get(self.level)?;
        let age = level.loose.get(self.chunk).map(|chunk| chunk.age(0)).unwrap_or_default();
        Some(Order { level: level.number, age: Reverse(age) })
    }

    /// Returns the level at this position, with its chunk of overlapping files, or without one for its files in the
    /// order of keys; then advances. `None` after the last level.
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
    /// The head of the key after the prefix of most chunks of a level.
    head: PrefixedHead<'a>,
    /// The hash of the whole key, computed when the first filter needs it.
    whole: Option<KeyHash>,
    /// The covered files that maps do not exclude and the lookup has not reached, the newest last.
    covered: Vec<&'a Covered<F>>,
    /// Whether maps have excluded all other covered files.
    is_mapped: bool,
    /// The order of the covered file returned last.
    order: Order,
    /// The current chunk, and its level.
    chunk: Option<&'a Chunk<F>>,
    level: u32,
    found: Found,
    /// The candidates of the chunk that the lookup has not reached.
    left: u64,
    /// The slot in the chunk of the file returned last.
    given: Option<usize>,
    /// The files of the group that were returned and did not contain the key.
    passed: u64,
    /// The file returned last, and the answer of its filter.
    last: Option<(&'a Arc<FileState>, Answer)>,
}

/// A lookup of a batch, with the position of its key.
type Searching<'a, F> = (usize, Cursor<'a, F>);

impl<'a, F> Cursor<'a, F> {
    #[inline]
    const fn new(key: &'a [u8]) -> Self {
        let found = Found { in_bounds: 0, candidates: 0 };
        Self {
            key,
            head: None,
            whole: None,
            covered: Vec::new(),
            is_mapped: false,
            order: Order::FIRST,
            chunk: None,
            level: 0,
            found,
            left: 0,
            given: None,
            passed: 0,
            last: None,
        }
    }

    /// Finds the covered files that may contain the key, and returns the levels with the other files to search.
    #[inline]
    fn consult(&mut self, view: &'a FilterView<F>, mapped: &'a Mapped<F>) -> &'a [Arc<Level<F>>] {
        let hash = view.config.reader.filters.hash(self.key);
        self.whole = Some(hash);
        let mut is_known = true;
        mapped.visit(hash, |found| match found {
            Some(covered) => self.covered.push(covered),
            None => is_known = false,
        });
        let counts = view.counts.of_thread();
        counts.add(Count::Mapped as usize, 1);
        if !is_known {
            self.covered.clear();
            counts.add(Count::Unknown as usize, 1);
            return &view.levels;
        }
        self.is_mapped = true;
        if !self.covered.is_empty() {
            counts.add(Count::Candidates as usize, self.covered.len() as u64);
            self.sort_covered();
        }
        &mapped.uncovered
    }

    fn sort_covered(&mut self) {
        if self.covered.len() > 1 {
            self.covered.sort_unstable_by_key(|covered| Reverse(covered.order));
        }
    }

    /// Enters a chunk of overlapping files, or without one, the chunk in the level's order of keys where the key
    /// belongs. The files that have the key within their bounds become its candidates.
    #[inline]
    fn enter(&mut self, level: &'a Level<F>, overlapping: Option<&'a Chunk<F>>) {
        self.chunk = overlapping.or_else(|| level.sorted.get(level.chunk_of(self.key)).map(AsRef::as_ref));
        self.level = level.number;
        if let Some(Chunk { core, .. }) = self.chunk {
            let key = self.key;
            // Only in the order of keys: overlapping files have a group, which is probed without touching them.
            if overlapping.is_none() {
                core.prefetch_files();
            }
            let mut in_bounds = core.bounds.holding(key, &mut self.head, |files| core.covering(files, key));
            // Heads know nothing of these files: they have range tombstones or unknown bounds.
            if core.special != 0 {
                in_bounds |= core.covering(core.special, key);
            }
            (self.found, self.left) = (Found { in_bounds, candidates: in_bounds }, in_bounds);
        }
    }

    /// Returns the filters of the chunk that are probed together, unless no filter is used.
    #[inline]
    fn group(&self, view: &FilterView<F>) -> Option<&'a Group> {
        self.chunk?.core.group.as_ref().filter(|_| view.config.trust.get().is_none())
    }

    /// Returns the hash for filters of one part; `None` for a key without it, for which no such filter can be probed.
    #[inline]
    fn hash_for(&mut self, view: &FilterView<F>, part: SharedParts) -> Option<KeyHash> {
        let reader = &view.config.reader;
        if part.has_whole_keys() {
            return Some(*self.whole.get_or_insert_with(|| reader.filters.hash(self.key)));
        }
        reader.point_hashes(part, self.key).next()
    }

    /// Returns the hash of the whole key by the file's own hasher: another store may have opened the file.
    #[inline]
    fn whole_for(&mut self, view: &FilterView<F>, file: &FileState) -> KeyHash {
        if !Arc::ptr_eq(&file.config, &view.config) {
            return file.reader().filters.hash(self.key);
        }
        *self.whole.get_or_insert_with(|| view.config.reader.filters.hash(self.key))
    }

    /// Keeps the candidates whose filters may contain the key, as far as these are in the group. `prepared` is the
    /// prepared key of the previous chunk.
    #[inline]
    fn probe(&mut self, view: &FilterView<F>, level: &Level<F>, prepared: &mut Option<PreparedKey>) {
        let Some(group) = self.group(view).filter(|_| self.left != 0) else { return };
        let Some(part) = group.one_part else { return self.probe_by_parts(view, group) };
        let Some(hash) = self.hash_for(view, part) else { return };
        // A pass that prefetches costs about as much as one that tests lines already in the cache.
        if level.residency == CacheResidency::Memory {
            group.filters.prefetch(hash, self.left);
        }
        // Kept from chunk to chunk; only filters of other parts need another hash.
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

    /// Returns the reads for the remaining files of the chunk, and for those from the next step on.
    fn reads(&self, levels: &'a [Arc<Level<F>>], mut step: Step) -> Vec<(&'a Arc<F>, FilterRead)> {
        // A second cursor: the lookup itself stays where it is.
        let mut ahead = Self { chunk: self.chunk, left: self.left, ..Self::new(self.key) };
        let mut reads = Vec::new();
        loop {
            if let Some(chunk) = ahead.chunk {
                let alone = chunk.core.group.as_ref().map_or(u64::MAX, |group| group.alone);
                let files = bits_of(ahead.left & alone).filter_map(|place| chunk.file(place));
                reads.extend(files.filter_map(|(file, state)| Some((file, state.read_for_key(self.key)?))));
            }
            let Some((level, chunk)) = step.take(levels) else { return reads };
            ahead.enter(level, chunk);
        }
    }

    /// Notes that the file returned last did not contain the key. Outcomes in a group are recorded together with its
    /// probes.
    #[inline]
    fn pass(&mut self, view: &FilterView<F>) {
        let Some((state, answer)) = self.last.take() else { return };
        // No map saves searches of files that it cannot cover, or searches after damage.
        if self.is_mapped && (self.given.is_none() || state.is_for_maps()) {
            let count = if self.given.is_none() { Count::FalseCandidates } else { Count::FalseReads };
            view.counts.of_thread().add(count as usize, 1);
        }
        let group = self.chunk.and_then(|chunk| chunk.core.group.as_ref());
        match self.given.filter(|place| group.is_some_and(|group| group.alone >> place & 1 == 0)) {
            Some(place) if answer.probe == Probe::MaybePresent => self.passed |= 1 << place,
            _ => state.record(answer, false),
        }
    }

    /// Returns the file whose filter is probed next.
    #[inline]
    fn next_state(&self) -> Option<&'a Arc<FileState>> {
        self.chunk?.core.files.get(self.left.trailing_zeros() as usize)
    }

    /// Returns the next candidate of the chunk, after probing the filter of a file outside of the group. Covered files
    /// come in their order; `next` is the order of what follows the chunk, if anything does.
    #[inline]
    fn give(&mut self, view: &FilterView<F>, next: impl Fn() -> Option<Order>) -> Option<&'a Arc<F>> {
        loop {
            if !self.covered.is_empty()
                && let Some(file) = self.give_covered(view, &next)
            {
                return Some(file);
            }
            let chunk = self.chunk.filter(|_| self.left != 0)?;
            let alone = self.group(view).map_or(u64::MAX, |group| group.alone);
            let place = self.left.trailing_zeros() as usize;
            self.left &= self.left - 1;
            let (file, state) = chunk.file(place)?;
            let group = chunk.core.group.as_ref();
            let answer = if alone >> place & 1 == 1 {
                state.probe_key(self.key, || self.whole_for(view, state))
            } else {
                let answer = Answer::of_group(state, self.key);
                // The filter is in the group, but the key has none of its parts: no probe has excluded the file.
                if answer.probe == Probe::Unusable && state.resident().is_some() {
                    group.inspect(|group| group.counts.count_unprobed(place));
                }
                answer
            };
            if answer.probe.is_absent() {
                self.found.candidates &= !(1 << place);
                continue;
            }
            // A group counts its searches when the lookup leaves the chunk.
            if group.is_none() {
                state.units.counters.add_view_counts(0, 1);
            }
            (self.last, self.given) = (Some((state, answer)), Some(place));
            return Some(file);
        }
    }

    /// Returns the next covered file that may contain the key, if it is newer than what is left of the chunk.
    #[inline(never)]
    fn give_covered(&mut self, view: &FilterView<F>, next: impl Fn() -> Option<Order>) -> Option<&'a Arc<F>> {
        let limit = match self.chunk.filter(|_| self.left != 0) {
            Some(chunk) => {
                let age = chunk.age(self.left.trailing_zeros() as usize);
                Some(Order { level: self.level, age: Reverse(age) })
            }
            None => next(),
        };
        let is_next = |covered: &&&Covered<F>| limit.is_none_or(|limit| covered.order < limit);
        while let Some(&covered) = self.covered.last().filter(is_next) {
            self.covered.pop();
            let state = &covered.state;
            let answer = if !state.covers(self.key) {
                state.units.counters.add_view_counts(1, 0);
                Answer::of(Probe::Absent)
            } else if state.resident().is_some() {
                state.probe_key(self.key, || self.whole_for(view, state))
            } else {
                // Loading a filter pays off only where most keys are absent, which here they are not.
                Answer::of(Probe::Unusable)
            };
            if answer.probe.is_absent() {
                view.counts.of_thread().add(Count::FalseCandidates as usize, 1);
                continue;
            }
            state.units.counters.add_view_counts(0, 1);
            (self.last, self.given, self.order) = (Some((state, answer)), None, covered.order);
            return Some(&covered.file);
        }
        None
    }

    /// Leaves the chunk for the next one, or because the lookup ended at one of its files, or before the rest of them.
    #[inline]
    fn leave(&mut self, end: ChunkEnd) {
        if let Some((core, group)) = self.chunk.take().and_then(|Chunk { core, .. }| Some((core, core.group.as_ref()?)))
        {
            group.counts.count(self.found, end);
            // After the probes, so that outcomes never exceed answers.
            for state in bits_of(self.passed).filter_map(|place| core.files.get(place)) {
                state.record(Answer::of(Probe::MaybePresent), false);
            }
        }
        (self.left, self.given, self.passed) = (0, None, 0);
    }

    /// Ends the lookup at the file returned last: that file has the key, or the outcome is unknown, because the caller
    /// dropped the lookup or the engine's code panicked.
    fn end(&mut self, is_found: bool) {
        let last = self.last.take();
        match (self.given, &last) {
            (Some(place), _) => self.leave(ChunkEnd::At(place)),
            // At a covered file, after the newer files of the chunk.
            (None, Some(_)) => self.leave(ChunkEnd::Before(self.chunk.map_or(0, |chunk| {
                let is_newer =
                    |place: &usize| Order { level: self.level, age: Reverse(chunk.age(*place)) } <= self.order;
                (0..chunk.files.len()).take_while(is_newer).count()
            }))),
            (None, None) => {}
        }
        if let Some((state, answer)) = last.filter(|_| is_found) {
            state.record(answer, true);
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
/// let view = FilterView::new(&store).edited(ViewEdit::new().add(0, old.clone()).add(0, new))?;
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
