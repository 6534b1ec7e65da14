//! The way of one key through the files of a view: chunk by chunk, with the candidates of maps in between.

use core::cmp::Reverse;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::internal::{CacheResidency, PreparedKey, ThreadCounters, bits_of};
use sstfilter::{KeyHash, Probe};
use sstfilter_map::{KeyWrites, WriteSet, Writes};

use super::chunk::{Chunk, Group, PrefixedHead};
use super::counts::{ChunkEnd, Found};
use super::read::FilterRead;
use super::reader::SharedParts;
use super::state::{Answer, FileState};
use super::stats::Count;
use super::view::{Covered, FilterView, Level, Mapped, Order};

/// A position in a view: a chunk of overlapping files, or after these, the level's files in the order of keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    level: usize,
    chunk: usize,
}

impl Step {
    /// Returns the order of the files at this position; `None` after the last level.
    pub(super) fn order<F>(self, levels: &[Arc<Level<F>>]) -> Option<Order> {
        let level = levels.get(self.level)?;
        let age = level.loose.get(self.chunk).map(|chunk| chunk.age(0)).unwrap_or_default();
        Some(Order { level: level.number, age: Reverse(age) })
    }

    /// Returns the level at this position, with its chunk of overlapping files, or without one for its files in the
    /// order of keys; then advances. `None` after the last level.
    #[inline]
    pub(super) fn take<'a, F>(&mut self, levels: &'a [Arc<Level<F>>]) -> Option<(&'a Level<F>, Option<&'a Chunk<F>>)> {
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
pub(super) struct Cursor<'a, F> {
    key: &'a [u8],
    /// The head of the key after the prefix of most chunks of a level.
    head: PrefixedHead<'a>,
    /// The hash of the whole key, computed when the first filter needs it.
    whole: Option<KeyHash>,
    /// The covered files that maps do not exclude and the lookup has not reached, the newest last.
    covered: Vec<&'a Covered<F>>,
    /// Whether maps have excluded all other covered files.
    is_mapped: bool,
    /// The answer of maps of writes for the key.
    writes: Option<KeyWrites<'a>>,
    /// The order of the covered file returned last.
    order: Order,
    /// The current chunk, and its level.
    chunk: Option<&'a Chunk<F>>,
    level: u32,
    found: Found,
    /// The candidates of the chunk that the lookup has not reached.
    pub(super) left: u64,
    /// The slot in the chunk of the file returned last.
    given: Option<usize>,
    /// The files of the group that were returned and did not contain the key.
    passed: u64,
    /// The file returned last, and the answer of its filter.
    pub(super) last: Option<(&'a Arc<FileState>, Answer)>,
}

/// A lookup of a batch, with the position of its key.
pub(super) type Searching<'a, F> = (usize, Cursor<'a, F>);

impl<'a, F> Cursor<'a, F> {
    #[inline]
    pub(super) const fn new(key: &'a [u8]) -> Self {
        let found = Found { in_bounds: 0, candidates: 0 };
        Self {
            key,
            head: None,
            whole: None,
            covered: Vec::new(),
            is_mapped: false,
            writes: None,
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

    pub(super) fn hashed(key: &'a [u8], whole: KeyHash) -> Self {
        Self { whole: Some(whole), ..Self::new(key) }
    }

    /// Returns the lookup after maps were consulted: `covered` are the files that they do not exclude, the newest last.
    pub(super) fn mapped(self, covered: Vec<&'a Covered<F>>) -> Self {
        Self { covered, is_mapped: true, ..self }
    }

    /// Finds the covered files that may contain the key, and returns the levels with the other files to search.
    #[inline]
    pub(super) fn consult(
        &mut self,
        view: &'a FilterView<F>,
        mapped: &'a Mapped<F>,
        counts: ThreadCounters<'_>,
    ) -> &'a [Arc<Level<F>>] {
        let hash = view.config.reader.filters.hash(self.key);
        self.whole = Some(hash);
        let mut is_known = true;
        mapped.visit(hash, |found| match found {
            Some(covered) => self.covered.push(covered),
            None => is_known = false,
        });
        counts.add(Count::Mapped as usize, 1);
        if !is_known {
            self.covered.clear();
            counts.add(Count::Unknown as usize, 1);
            return &view.levels;
        }
        self.is_mapped = true;
        if !self.covered.is_empty() {
            counts.add(Count::Candidates as usize, self.covered.len() as u64);
            self.covered.sort_unstable_by_key(|covered| Reverse(covered.order));
        }
        &mapped.uncovered
    }

    /// Finds the writes of the key, by which files are excluded later.
    pub(super) fn consult_writes(&mut self, view: &'a FilterView<F>, set: &'a WriteSet<Bytes>) {
        let hash = view.config.reader.filters.hash(self.key);
        (self.whole, self.writes) = (Some(hash), Some(set.of(hash)));
    }

    /// Returns whether maps of writes have damaged entries of the key.
    pub(super) fn is_unknown(&self) -> bool {
        self.writes.as_ref().is_some_and(KeyWrites::is_unknown)
    }

    /// Returns the lookup with the writes of its key.
    pub(super) fn written(self, writes: KeyWrites<'a>) -> Self {
        Self { writes: Some(writes), ..self }
    }

    /// Enters a chunk of overlapping files, or without one, the chunk in the level's order of keys where the key
    /// belongs. The files that have the key within their bounds become its candidates.
    #[inline]
    pub(super) fn enter(&mut self, level: &'a Level<F>, overlapping: Option<&'a Chunk<F>>) {
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
            if let Some(writes) = &self.writes {
                in_bounds = core.written(in_bounds, writes);
            }
            (self.found, self.left) = (Found { in_bounds, candidates: in_bounds }, in_bounds);
        }
    }

    /// Returns the filters of the chunk that are probed together, unless no filter is used.
    #[inline]
    pub(super) fn group(&self, view: &FilterView<F>) -> Option<&'a Group> {
        self.chunk?.core.group.as_ref().filter(|_| view.config.trust.get().is_none())
    }

    /// Returns the hash for filters of one part; `None` for a key without it, for which no such filter can be probed.
    #[inline]
    pub(super) fn hash_for(&mut self, view: &FilterView<F>, part: SharedParts) -> Option<KeyHash> {
        let reader = &view.config.reader;
        if part.has_whole_keys() {
            return Some(*self.whole.get_or_insert_with(|| reader.filters.hash(self.key)));
        }
        reader.point_hashes(part, self.key).next()
    }

    /// Returns the hash of the whole key by the file's own hasher: another store may have opened the file.
    #[inline]
    pub(super) fn whole_for(&mut self, view: &FilterView<F>, file: &FileState) -> KeyHash {
        if !Arc::ptr_eq(&file.config, &view.config) {
            return file.reader().filters.hash(self.key);
        }
        *self.whole.get_or_insert_with(|| view.config.reader.filters.hash(self.key))
    }

    /// Keeps the candidates whose filters may contain the key, as far as these are in the group. `prepared` is the
    /// prepared key of the previous chunk.
    #[inline]
    pub(super) fn probe(&mut self, view: &FilterView<F>, level: &Level<F>, prepared: &mut Option<PreparedKey>) {
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
    pub(super) fn probe_by_parts(&mut self, view: &FilterView<F>, group: &Group) {
        self.narrow(group.by_parts(self.left, |parts| view.config.reader.point_hashes(parts, self.key)));
    }

    #[inline]
    pub(super) const fn narrow(&mut self, candidates: u64) {
        (self.found.candidates, self.left) = (candidates, candidates);
    }

    /// Returns the reads for the remaining files of the chunk, and for those from the next step on.
    pub(super) fn reads(&self, levels: &'a [Arc<Level<F>>], mut step: Step) -> Vec<(&'a Arc<F>, FilterRead)> {
        // A second cursor: the lookup itself stays where it is.
        let (writes, chunk, left) = (self.writes.clone(), self.chunk, self.left);
        let mut ahead = Self { writes, chunk, left, ..Self::new(self.key) };
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
    pub(super) fn pass(&mut self, view: &FilterView<F>) {
        let Some((state, answer)) = self.last.take() else { return };
        // No map saves searches of files that it cannot cover, or searches after damage.
        if self.is_mapped && (self.given.is_none() || state.is_for_maps()) {
            let count = if self.given.is_none() { Count::FalseCandidates } else { Count::FalseReads };
            view.counts.of_thread().add(count as usize, 1);
        }
        if self.writes.is_some() {
            let is_covered = self.given_writes().is_some_and(|writes| view.covers(writes));
            let count = if is_covered { Count::FalseCandidates } else { Count::FalseReads };
            view.counts.of_thread().add(count as usize, 1);
        }
        let group = self.chunk.and_then(|chunk| chunk.core.group.as_ref());
        match self.given.filter(|place| group.is_some_and(|group| group.alone >> place & 1 == 0)) {
            Some(place) if answer.probe == Probe::MaybePresent => self.passed |= 1 << place,
            _ => state.record(answer, false),
        }
    }

    /// Returns the writes for which maps could have excluded the file returned last.
    fn given_writes(&self) -> Option<Writes> {
        self.chunk?.core.writes(self.given?)
    }

    /// Returns the file whose filter is probed next.
    #[inline]
    pub(super) fn next_state(&self) -> Option<&'a Arc<FileState>> {
        self.chunk?.core.files.get(self.left.trailing_zeros() as usize)
    }

    /// Returns the next candidate of the chunk, after probing the filter of a file outside of the group. Covered files
    /// come in their order; `next` is the order of what follows the chunk, if anything does.
    #[inline]
    pub(super) fn give(&mut self, view: &FilterView<F>, next: impl Fn() -> Option<Order>) -> Option<&'a Arc<F>> {
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
            if self.writes.is_some() && self.given_writes().is_some_and(|writes| view.covers(writes)) {
                view.counts.of_thread().add(Count::Candidates as usize, 1);
            }
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
    pub(super) fn leave(&mut self, end: ChunkEnd) {
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
    pub(super) fn end(&mut self, is_found: bool) {
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
