//! What engines call for a view's maps: use them, and ask whether a new one is due.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter_map::{FileMap, MapError, MapIndex, WriteSet};

use super::level::Level;
use super::mapped::Mapped;
use super::{Covered, FilterView, Maps};
use crate::file::FileFilters;
use crate::pages::ViewMap;
use crate::stats::{Count, MapStats};

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Returns the view with these maps in memory instead of its own, or without. Lookups of keys consult them first,
    /// and search a covered file only if a map does not exclude it. Then come its key bounds, and its own filter if
    /// that is in memory. Scans and lookups of prefixes do not use maps. A view has no maps once the last file that
    /// they cover has left.
    ///
    /// If files [state their writes](FileFilters::with_writes), maps of files are not used beside maps of writes;
    /// otherwise, maps of writes are not used beside maps of files. [`maps`](Self::maps) then lacks them, and the
    /// manifest can drop them. Maps of writes exclude files that
    /// state their writes, at all levels. The view drops them if a file is added whose
    /// smallest or largest key is not among its writes, and [counts](Self::map_stats) that. A map of writes is for the
    /// view in which it was written, and later ones: an older view may have entries that are in no map by then.
    ///
    /// Maps of files may be older or newer than the view: what they cover besides its files does not matter. Files that
    /// they do not cover or [contradict each other about](Self::map_contradictions), that are added later, or that have
    /// range tombstones, are searched as in a view without maps.
    ///
    /// # Errors
    ///
    /// A map was built with another hash than the store's, lacks a key that the description of a covered file names, or
    /// has more entries of a file than the description counts keys.
    pub fn with_maps(&self, maps: &[Arc<FileMap<Bytes>>]) -> Result<Self, MapError> {
        let (of_files, of_writes): (Vec<_>, Vec<_>) =
            maps.iter().cloned().partition(|map| map.index().writes().is_empty());
        if !of_writes.is_empty() && (of_files.is_empty() || self.states_writes()) {
            return self.with_maps_of_writes(&of_writes);
        }
        let paged = self.view_maps().filter(|map| map.in_memory().is_none()).cloned();
        self.with_view_maps(of_files.into_iter().map(ViewMap::InMemory).chain(paged))
    }

    /// Returns the view with these maps of files, which are read by page, instead of its own such maps, or without.
    /// A [`MapIndex`] is the end of a map, whose pages stay on the store. These maps judge the files that no map in
    /// memory covers, and [`with_maps`](Self::with_maps) leaves them, unless it is passed maps of writes.
    ///
    /// A lookup of a key [needs](crate::Candidates::reads) a page of each map that covers a file of the view. If the
    /// page is damaged, cannot be read, or is not there when the lookup returns its first file, the lookup uses the
    /// filters of that map's files instead, and is [counted](Self::map_stats). Batches use the filters of all files.
    ///
    /// # Errors
    ///
    /// A map was built with another hash than the store's, has more entries of a file than the description counts keys,
    /// or is of writes; two have one id; or the view has maps of writes. The keys that descriptions name are not looked
    /// up.
    pub fn with_paged_maps(&self, maps: &[Arc<MapIndex>]) -> Result<Self, MapError> {
        if self.has_writes() || maps.iter().any(|map| !map.writes().is_empty()) {
            return Err(MapError::MixedCoverage);
        }
        let ids: HashSet<_> = maps.iter().map(|map| map.map_id()).collect();
        if ids.len() < maps.len() {
            // A page of one would answer for the other: reads name maps by their ids.
            let (expected, got) = (format!("{} ids", maps.len()), ids.len().to_string());
            return Err(MapError::Mismatch { what: "maps that are read by page".into(), expected, got });
        }
        let paged = maps.iter().map(|map| ViewMap::Paged(map.clone(), Arc::default()));
        self.with_view_maps(self.maps().cloned().map(ViewMap::InMemory).chain(paged))
    }

    fn with_view_maps(&self, maps: impl Iterator<Item = ViewMap>) -> Result<Self, MapError> {
        let mapped = Mapped::new(maps.collect(), &self.levels, &self.config, self.false_reads())?;
        Ok(Self { maps: mapped.into(), ..self.clone() })
    }

    /// Returns why a new map should be written by now; `None` if the maps are good enough, or there are too few files.
    /// Takes time for each file of the view: call it once per edit. A loop that writes what is due and uses it ends,
    /// whatever the keys are: if a map has [too many entries](sstfilter_map::MapReport::overflowed_lines) in one place,
    /// a new one would have, too.
    ///
    /// It is about maps of writes if the view has such maps, or if it has none, files [state their
    /// writes](FileFilters::with_writes), and [flushes have joined](Self::with_flushed). Then
    /// [`write_map_for`](Self::write_map_for) does what is due.
    #[must_use]
    pub fn needs_map(&self, policy: &MapPolicy) -> Option<MapReason> {
        if self.has_writes() {
            return self.needs_map_of_writes(policy);
        }
        let is_for_maps = |covered: &Covered<F>| covered.state.is_for_maps();
        if self.files_of_maps(ViewMap::has_damaged_page).any(is_for_maps) {
            return Some(MapReason::Damaged);
        }
        let in_memory = || self.files_of_maps(|map| map.in_memory().is_some());
        let uncovered = self.uncovered_levels().iter().flat_map(|level| level.states());
        let files = uncovered.filter(|state| state.is_for_maps()).count();
        if files > policy.uncovered_files {
            return Some(MapReason::UncoveredFiles(files));
        }
        // A map that would cover nothing cannot be written.
        let mapped = self.mapped().filter(|_| files > 0 || in_memory().any(is_for_maps))?;
        if self.maps().any(|map| is_damaged(map)) {
            return Some(MapReason::Damaged);
        }
        let of_maps: usize = self.maps().map(|map| map.index().files().len()).sum();
        let (gone, [lookups, reads]) = (of_maps.saturating_sub(in_memory().count()), self.false_reads());
        if gone as f64 > policy.files_gone * of_maps as f64 {
            return Some(MapReason::FilesGone(gone));
        }
        let [lookups_before, reads_before] = mapped.false_reads_before;
        let (lookups, reads) = (lookups.saturating_sub(lookups_before), reads.saturating_sub(reads_before));
        // A rate of fewer says nothing.
        let is_measured = files > 0 && lookups >= MIN_LOOKUPS;
        let is_too_many = reads as f64 > policy.false_reads * lookups as f64;
        (is_measured && is_too_many).then_some(MapReason::FalseReads(reads))
    }
}

/// Lookups before the rate of false reads is judged.
const MIN_LOOKUPS: u64 = 10_000;

pub(super) fn is_damaged(map: &FileMap<Bytes>) -> bool {
    map.has_unknown_pages() || map.problems().next().is_some()
}

impl<F> FilterView<F> {
    /// Returns the maps; maps of writes in the order of their first writes.
    pub fn maps(&self) -> impl Iterator<Item = &Arc<FileMap<Bytes>>> {
        let of_writes = self.writes().into_iter().flat_map(WriteSet::maps);
        self.view_maps().filter_map(ViewMap::in_memory).chain(of_writes)
    }

    /// Returns the maps that are read by page.
    pub fn paged_maps(&self) -> impl Iterator<Item = &Arc<MapIndex>> {
        self.view_maps().filter_map(|map| if let ViewMap::Paged(map, _) = map { Some(map) } else { None })
    }

    /// Returns the maps of files.
    pub(super) fn view_maps(&self) -> impl Iterator<Item = &ViewMap> {
        self.mapped().into_iter().flat_map(Mapped::maps)
    }

    pub(super) fn files_of_maps(&self, is_it: fn(&ViewMap) -> bool) -> impl Iterator<Item = &Covered<F>> {
        self.mapped().into_iter().flat_map(move |mapped| mapped.files_of_maps(is_it))
    }

    /// Returns the files that no map covers, with their levels.
    pub fn uncovered_files(&self) -> impl Iterator<Item = (u32, &Arc<F>)> {
        let levels = self.uncovered_levels().iter();
        let chunks = levels.flat_map(|level| level.chunks().map(|chunk| (level.number, chunk)));
        chunks.flat_map(|(level, chunk)| {
            let is_covered = |place| chunk.core.writes(place).is_some_and(|writes| self.covers(writes));
            let files = chunk.files.iter().enumerate().filter(move |(place, _)| !is_covered(*place));
            files.map(move |(_, file)| (level, file))
        })
    }

    /// Returns an error for each file that two maps record numbers of entries of that one file cannot have. Neither
    /// covers it: another file has, or had, its id.
    #[must_use]
    pub fn map_contradictions(&self) -> &[MapError] {
        self.mapped().map_or(&[], |mapped| mapped.contradictions())
    }

    /// Returns what was counted for maps in this view and those that it was made from.
    #[must_use]
    pub fn map_stats(&self) -> MapStats {
        MapStats::of(&self.counts)
    }

    /// Returns the levels with the files that no map covers.
    pub(super) fn uncovered_levels(&self) -> &[Arc<Level<F>>] {
        self.mapped().map_or(&self.levels, |mapped| &mapped.uncovered)
    }

    /// Returns the maps of files, if the view has any.
    pub(super) fn mapped(&self) -> Option<&Mapped<F>> {
        if let Maps::Files(mapped) = &self.maps { Some(mapped) } else { None }
    }

    fn false_reads(&self) -> [u64; 2] {
        [Count::Mapped, Count::FalseReads].map(|count| self.counts.sum(count as usize))
    }
}

/// When a new map is worth its merge.
///
/// A file that no map covers costs each lookup a probe, and now and then a read. A merge costs about 20 ns for each key
/// of all files. [`FilterView::needs_map`] compares what was measured with these limits. Files that no map can cover,
/// or for which the engine had no hashes, do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapPolicy {
    pub(super) uncovered_files: usize,
    files_gone: f64,
    false_reads: f64,
    pub(super) fan_in: usize,
    pub(super) garbage: f64,
}

impl Default for MapPolicy {
    /// More than 8 files that no map covers, a quarter of the covered files gone, or more than one file searched in
    /// vain in ten lookups because no map covers it. Of maps of writes, 8 of a tier, or 1.5 entries for each key.
    fn default() -> Self {
        Self { uncovered_files: 8, files_gone: 0.25, false_reads: 0.1, fan_in: 8, garbage: 1.5 }
    }
}

impl MapPolicy {
    /// Sets the number of files that no map has to cover.
    #[must_use]
    pub const fn with_max_uncovered_files(self, files: usize) -> Self {
        Self { uncovered_files: files, ..self }
    }

    /// Sets the share of covered files that may be gone, 0 to 1.
    #[must_use]
    pub const fn with_max_files_gone(self, share: f64) -> Self {
        Self { files_gone: share, ..self }
    }

    /// Sets how many files a lookup may search in vain because no map covers them. It is measured over at least 10,000
    /// lookups.
    #[must_use]
    pub const fn with_max_false_reads(self, per_lookup: f64) -> Self {
        Self { false_reads: per_lookup, ..self }
    }

    /// Sets how many maps of writes of one tier are merged, at least 2. With fewer, entries are merged more often; with
    /// more, a lookup probes more maps.
    #[must_use]
    pub const fn with_fan_in(self, maps: usize) -> Self {
        Self { fan_in: if maps < 2 { 2 } else { maps }, ..self }
    }

    /// Sets the number of entries per key of the last level above which maps of writes are rebuilt from its keys, at
    /// least 1.
    #[must_use]
    pub const fn with_max_entries_per_key(self, entries: f64) -> Self {
        // A rebuilt map may have one for each, and would be rebuilt again.
        Self { garbage: entries.max(1.0), ..self }
    }
}

/// Why a new map is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapReason {
    /// A map has damaged or unknown pages, or a read of one by page found damage. [`FilterView::write_map`] needs the
    /// keys of its files.
    Damaged,
    /// No map covers this many files; of maps of writes, this many files state writes that are not all covered.
    UncoveredFiles(usize),
    /// This many files of the maps have left the view.
    FilesGone(usize),
    /// This many files were searched in vain, since the view got its maps, because no map covers them.
    FalseReads(u64),
    /// This number of the newest maps of writes should be merged into one.
    Tier(usize),
    /// Below the first write of the files above the last level, maps of writes have this many entries, more than the
    /// policy allows for the keys there: the others are of keys that are gone.
    Garbage(u64),
}
