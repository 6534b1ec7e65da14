//! The chunks and levels that a lookup goes through, the newest first, and its visit of one of them.

use core::cmp::Reverse;
use std::sync::Arc;

use sstfilter::internal::{CacheResidency, PreparedKey, bits_of};
use sstfilter::{KeyHash, Probe};

use super::wanted::{SearchKey, Wanted};
use crate::chunk::{Chunk, Group};
use crate::config::Config;
use crate::counts::Found;
use crate::ranges::ExactFilters;
use crate::read::FilterRead;
use crate::state::{Answer, FileState};
use crate::view::{Level, Order};

/// Files that a lookup comes to at the same time.
pub(super) enum Source<'a, F> {
    /// A chunk of files that may overlap: several may have the key.
    Overlapping(&'a Level<F>, &'a Arc<Chunk<F>>),
    /// The level's files in the order of keys: at most one has the key.
    Sorted(&'a Level<F>),
}

impl<'a, F> Source<'a, F> {
    /// Returns the chunks to visit.
    #[inline]
    pub(super) fn chunks(&self, wanted: &impl Wanted<'a>) -> &'a [Arc<Chunk<F>>] {
        match self {
            Self::Overlapping(_, chunk) => core::slice::from_ref(*chunk),
            Self::Sorted(level) => wanted.sorted_chunks(level),
        }
    }
}

/// The sources that a lookup has not reached, the newest first.
pub(super) struct Sources<'a, F> {
    levels: &'a [Arc<Level<F>>],
    /// The next chunk of overlapping files of the first level.
    chunk: usize,
}

impl<'a, F> Sources<'a, F> {
    #[inline]
    pub(super) const fn of(levels: &'a [Arc<Level<F>>]) -> Self {
        Self { levels, chunk: 0 }
    }

    /// Returns the same sources: these stay.
    pub(super) const fn ahead(&self) -> Self {
        Self { ..*self }
    }

    /// Returns the order of the next source's newest file; `None` after the last source.
    pub(super) fn order(&self) -> Option<Order> {
        let level = self.levels.first()?;
        let age = level.loose.get(self.chunk).map(|chunk| chunk.age(0)).unwrap_or_default();
        Some(Order { level: level.number, age: Reverse(age) })
    }
}

impl<'a, F> Iterator for Sources<'a, F> {
    type Item = Source<'a, F>;

    #[inline]
    fn next(&mut self) -> Option<Source<'a, F>> {
        let (level, older) = self.levels.split_first()?;
        if let Some(chunk) = level.loose.get(self.chunk) {
            self.chunk += 1;
            return Some(Source::Overlapping(level, chunk));
        }
        *self = Self::of(older);
        Some(Source::Sorted(level))
    }
}

/// A lookup's visit of a chunk: which of its files may have the key.
pub(super) struct Visit<'a, F> {
    level: &'a Level<F>,
    pub(super) chunk: &'a Chunk<F>,
    found: Found,
    /// The candidates that the lookup has not reached.
    pub(super) left: u64,
    /// How many files the lookup has reached, by the file returned last.
    reached: usize,
    /// The files of the group that were returned and did not contain the key.
    passed: u64,
}

impl<'a, F> Visit<'a, F> {
    /// Begins a visit of the source's files that have the key within their bounds. `None` for a source without files.
    #[inline]
    pub(super) fn begin(source: &Source<'a, F>, key: &mut SearchKey<'a>) -> Option<Self> {
        let chunk = source.chunks(key).first()?;
        let (Source::Overlapping(level, _) | Source::Sorted(level)) = *source;
        // Only in the order of keys: overlapping files have a group, which is probed without touching them.
        if matches!(source, Source::Sorted(_)) {
            chunk.core.prefetch_files();
        }
        let in_bounds = key.within_bounds(chunk);
        Some(Self {
            level,
            chunk,
            found: Found { in_bounds, candidates: in_bounds },
            left: in_bounds,
            reached: 0,
            passed: 0,
        })
    }

    /// Leaves out the files that maps of writes exclude, as if their bounds did.
    pub(super) const fn exclude_all_but(&mut self, files: u64) {
        let in_bounds = self.left & files;
        (self.found, self.left) = (Found { in_bounds, candidates: in_bounds }, in_bounds);
    }

    /// Returns the filters that are probed together, unless no filter is used or no file is left.
    #[inline]
    pub(super) fn group(&self, config: &Config) -> Option<&'a Group> {
        self.chunk.core.group.as_ref().filter(|_| self.left != 0 && config.trust.get().is_none())
    }

    /// Keeps the files that exact filters do not exclude. Returns the group if any of them has another filter.
    #[inline]
    pub(super) fn probe_exact(&mut self, config: &Config, key: &[u8]) -> Option<&'a Group> {
        let group = self.group(config)?;
        match &group.exact {
            None => Some(group),
            Some(exact) => self.narrow_by_exact(exact, key).then_some(group),
        }
    }

    /// Does that, and returns whether any file left has another filter. Apart, so that lookups without exact filters
    /// stay as fast as they were.
    #[inline(never)]
    fn narrow_by_exact(&mut self, exact: &ExactFilters, key: &[u8]) -> bool {
        self.narrow(exact.probe(key, self.left));
        self.left & !exact.slots() != 0
    }

    /// Keeps the files whose filters may contain the key, as far as these are in the group. `prepared` is the prepared
    /// key of the previous chunk.
    #[inline]
    pub(super) fn probe(&mut self, config: &Config, key: &mut SearchKey<'a>, prepared: &mut Option<PreparedKey>) {
        let Some(group) = self.probe_exact(config, key.bytes) else { return };
        let Some(part) = group.one_part else { return self.probe_by_parts(config, group, key) };
        let Some(hash) = key.hash_for(config, part) else { return };
        // A pass that prefetches costs about as much as one that tests lines already in the cache.
        if self.level.residency == CacheResidency::Memory {
            group.filters.prefetch(hash, self.left);
        }
        // Kept from chunk to chunk; only filters of other parts need another hash.
        if prepared.as_ref().is_none_or(|prepared| prepared.hash() != hash) {
            *prepared = None;
        }
        self.narrow(group.filters.probe(prepared.get_or_insert_with(|| PreparedKey::new(hash)), self.left));
    }

    #[inline(never)]
    pub(super) fn probe_by_parts(&mut self, config: &Config, group: &Group, key: &SearchKey<'_>) {
        self.narrow(group.by_parts(self.left, |parts| config.reader.point_hashes(parts, key.bytes)));
    }

    /// Keeps the files whose filters may contain the key, and prefetches the lines of a later key.
    #[inline]
    pub(super) fn probe_ahead(&mut self, group: &Group, hash: KeyHash, later: Option<(KeyHash, u64)>) {
        self.narrow(group.filters.probe_ahead(&mut PreparedKey::new(hash), self.left, later));
    }

    #[inline]
    const fn narrow(&mut self, candidates: u64) {
        (self.found.candidates, self.left) = (candidates, candidates);
    }

    /// Returns the order of the next file; `None` if no file is left.
    pub(super) fn order(&self) -> Option<Order> {
        (self.left != 0).then(|| self.order_of(self.left.trailing_zeros() as usize))
    }

    /// Returns the file whose filter is probed next.
    #[inline]
    pub(super) fn next_state(&self) -> Option<&'a Arc<FileState>> {
        self.chunk.core.files.get(self.left.trailing_zeros() as usize)
    }

    /// Takes the next file, and probes its filter if it is outside of the group. Returns its slot and the answer.
    #[inline]
    pub(super) fn next(&mut self, config: &Arc<Config>, key: &mut SearchKey<'a>) -> Option<(usize, Answer)> {
        let place = bits_of(self.left).next()?;
        let group = self.chunk.core.group.as_ref();
        let ungrouped = self.group(config).map_or(u64::MAX, |group| group.ungrouped);
        let state = self.chunk.core.files.get(place)?;
        self.left &= self.left - 1;
        let answer = if ungrouped >> place & 1 == 1 {
            state.probe_key(key.bytes, || key.whole_for(config, state))
        } else {
            let answer = Answer::of_group(state, key.bytes);
            // The filter is in the group, but the key has none of its parts: no probe has excluded the file.
            if answer.probe == Probe::Unusable && state.resident().is_some() {
                group.inspect(|group| group.counts.count_unprobed(place));
            }
            answer
        };
        if answer.probe.is_absent() {
            self.found.candidates &= !(1 << place);
            return Some((place, answer));
        }
        // A group counts its searches when the lookup leaves the chunk.
        if group.is_none() {
            state.units.counters.add_view_counts(0, 1);
        }
        self.reached = place + 1;
        Some((place, answer))
    }

    /// Notes that the file at this slot did not contain the key. Outcomes in a group are recorded together with its
    /// probes.
    #[inline]
    pub(super) fn pass(&mut self, place: usize, state: &FileState, answer: Answer) {
        let is_grouped = self.chunk.core.group.as_ref().is_some_and(|group| group.ungrouped >> place & 1 == 0);
        if is_grouped && answer.probe == Probe::MaybePresent {
            self.passed |= 1 << place;
        } else {
            state.record(answer, false);
        }
    }

    /// Ends the visit after all files.
    #[inline]
    pub(super) fn end(self) {
        self.count(None);
    }

    /// Ends the visit, and the lookup, at the file returned last; or at one of a map, whose order it is.
    pub(super) fn end_here(self, map: Option<Order>) {
        let newer = |order| (0..self.chunk.files.len()).take_while(|place| self.order_of(*place) <= order).count();
        self.count(Some(map.map_or(self.reached, newer)));
    }

    #[inline]
    fn count(&self, reached: Option<usize>) {
        let core = &self.chunk.core;
        if let Some(group) = &core.group {
            group.counts.count(self.found, reached);
            // After the probes, so that outcomes never exceed answers.
            for state in bits_of(self.passed).filter_map(|place| core.files.get(place)) {
                state.record(Answer::of(Probe::MaybePresent), false);
            }
        }
    }

    fn order_of(&self, place: usize) -> Order {
        Order { level: self.level.number, age: Reverse(self.chunk.age(place)) }
    }

    /// Returns the reads that the filters of the files left still need.
    pub(super) fn reads(&self, key: &'a [u8]) -> impl Iterator<Item = (&'a Arc<F>, FilterRead)> {
        let (chunk, ungrouped) = (self.chunk, self.chunk.core.group.as_ref().map_or(u64::MAX, |group| group.ungrouped));
        let files = bits_of(self.left & ungrouped).filter_map(move |place| chunk.file(place));
        files.filter_map(move |(file, state)| Some((file, state.read_for_key(key)?)))
    }
}
