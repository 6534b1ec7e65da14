//! Maps of writes, for engines: publish them, and ask whether a new one is due. Lookups exclude files by them in
//! `lookup/maps.rs`.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::BlockError;
use sstfilter_map::{FileMap, FileWrites, MapError, WriteId, WriteSet, Writes};

use super::maps::{MapPolicy, MapReason, is_damaged};
use super::{FilterView, Maps, OVERLAPPING};
use crate::file::FileFilters;

impl FileFilters {
    /// States which flushes wrote the file's entries. A view with maps of writes skips the file if none of them wrote
    /// the key.
    ///
    /// The value comes from a constructor of [`FileWrites`] that is named for the file's origin, from
    /// [`OutputWrites`](sstfilter_map::OutputWrites) for the output of a compaction, or, when the store is opened, from
    /// the manifest. Files with range tombstones are never excluded, nor are those that were opened [without a
    /// description](crate::FilterStore::open_without_description).
    #[must_use]
    pub fn with_writes(mut self, writes: FileWrites) -> Self {
        self.writes = Some(Box::new(writes));
        self
    }

    /// Returns which flushes wrote the file's entries; [`FileWrites::UNKNOWN`] if that was not stated.
    #[must_use]
    pub fn writes(&self) -> FileWrites {
        self.writes.as_deref().copied().unwrap_or(FileWrites::UNKNOWN)
    }
}

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Returns the view, with the knowledge that all flushes up to the number `last` have joined: their files, or what
    /// compactions made of these, are in it, and no entry with a lower number is still to be flushed. Maps that are
    /// [rebuilt](Self::write_map_for) cover no write after it. Call it with each edit that adds the file of a
    /// flush, and after a restart; store the number in the manifest with the file.
    #[must_use]
    pub fn with_flushed(&self, last: WriteId) -> Self {
        Self { flushed: self.flushed.max(Some(last)), ..self.clone() }
    }

    /// Returns the last write of all flushes that have joined, as [`with_flushed`](Self::with_flushed) was told.
    #[must_use]
    pub const fn flushed(&self) -> Option<WriteId> {
        self.flushed
    }

    /// Returns what the map of a flush covers: the writes that its file states, and the numbers before them that no
    /// flush has, because a crash has lost them or an epoch began. Call it on the view that the file joins, after the
    /// files of all flushes before have [joined](Self::with_flushed). The map may be [published](Self::with_maps)
    /// before the file joins, with it, later, or never.
    #[must_use]
    pub fn flush_covers(&self, file: FileWrites) -> Writes {
        // Before the first flush, other files may have any lower number.
        let is_first = self.flushed.is_none() && self.levels().next().is_some();
        if is_first { file.writes() } else { file.writes().after(self.flushed) }
    }

    /// Returns the view with maps of writes.
    pub(super) fn with_maps_of_writes(&self, maps: &[Arc<FileMap<Bytes>>]) -> Result<Self, MapError> {
        let expected = self.config.reader.filters.hasher().identity();
        if let Some(got) = maps.iter().map(|map| map.index().hash_identity()).find(|got| *got != expected) {
            return Err(BlockError::HashMismatch { expected, got }.into());
        }
        let set = Arc::new(WriteSet::new(maps));
        // Files that were covered before have been compared, if their maps are still there: a flush must not look up
        // the keys of all files.
        let is_kept = |old: &Arc<FileMap<Bytes>>| maps.iter().any(|map| Arc::ptr_eq(map, old));
        let are_kept = self.writes().into_iter().flat_map(WriteSet::maps).all(is_kept);
        let is_new =
            |file: &&F| !are_kept || (*file).as_ref().writes_in_maps().is_some_and(|writes| !self.covers(writes));
        match self.find_lost_key(&set, self.all_files().map(|(_, file)| &**file).filter(is_new)) {
            Some(file) => Err(MapError::KnownKeyAbsent { fingerprint: file.fingerprint() }),
            None => Ok(Self { maps: Maps::Writes(set), ..self.clone() }),
        }
    }

    /// Returns whether maps of writes are used, or will be.
    pub(super) fn has_writes(&self) -> bool {
        self.writes().is_some() || self.flushed.is_some() && self.states_writes()
    }

    /// Returns whether a file states which flushes wrote its entries.
    pub(super) fn states_writes(&self) -> bool {
        self.all_filters().any(|(_, file)| file.writes() != FileWrites::UNKNOWN)
    }

    pub(super) fn needs_map_of_writes(&self, policy: &MapPolicy) -> Option<MapReason> {
        let maps = self.writes().map_or(&[][..], |set| set.maps());
        // A map that would cover nothing cannot be written: then the damaged ones stay, whose other pages are of use.
        let parts = self.parts_to_cover(self.damaged_writes()).unwrap_or_default();
        if !parts_without(parts, self.unknown_writes()).is_empty() {
            return Some(MapReason::Damaged);
        }
        let uncovered = self.uncovered_writes().count();
        if uncovered > policy.uncovered_files {
            return Some(MapReason::UncoveredFiles(uncovered));
        }
        let entries = self.maps_below_floor().map(|map| map.index().entries()).fold(0, u64::saturating_add);
        let keys = self.keys_below_floor();
        if self.flushed.is_some() && keys.is_some_and(|keys| entries as f64 > policy.garbage * keys as f64) {
            return Some(MapReason::Garbage(entries));
        }
        let tier = |map: &Arc<FileMap<Bytes>>| map.index().entries().max(1).ilog(policy.fan_in as u64);
        let tiers: Vec<u32> = maps.iter().rev().map(tier).collect();
        // The newest maps up to the first of a higher tier, if enough of them are of the tier.
        let merged = |highest: u32| {
            let newest = tiers.iter().take_while(|tier| **tier <= highest).count();
            let of_tier = tiers.iter().take(newest).filter(|tier| **tier == highest).count();
            (of_tier >= policy.fan_in).then_some(MapReason::Tier(newest))
        };
        (0..=u64::BITS).find_map(merged)
    }

    /// Returns the filters of all files with their levels.
    fn all_filters(&self) -> impl Iterator<Item = (u32, &FileFilters)> {
        self.all_files().map(|(level, file)| (level, (**file).as_ref()))
    }

    /// Returns the files with their levels.
    pub(super) fn all_files(&self) -> impl Iterator<Item = (u32, &Arc<F>)> {
        self.levels.iter().flat_map(|level| {
            let files = level.chunks().flat_map(|chunk| &chunk.files);
            files.map(|file| (level.number, file))
        })
    }

    /// Returns the writes of files that no map covers, and that a map could cover by now.
    pub(super) fn uncovered_writes(&self) -> impl Iterator<Item = Writes> {
        let unknown: Vec<_> = self.unknown_writes().collect();
        let files = self.all_filters().map(|(_, file)| file);
        files.filter_map(FileFilters::writes_in_maps).filter(move |writes| {
            let has_joined = self.flushed.is_some_and(|last| writes.last() <= last);
            has_joined && !self.covers(*writes) && !unknown.iter().any(|unknown| unknown.overlaps(*writes))
        })
    }

    /// Returns the writes of files whose keys are not known. No new map covers them.
    fn unknown_writes(&self) -> impl Iterator<Item = Writes> {
        let files = self.all_filters().map(|(_, file)| file);
        files.filter(|file| file.state.is_without_map.load(Ordering::Relaxed)).map(|file| file.writes().writes())
    }

    pub(super) fn damaged_maps(&self) -> impl Iterator<Item = &Arc<FileMap<Bytes>>> {
        self.writes().into_iter().flat_map(WriteSet::maps).filter(|map| is_damaged(map))
    }

    /// Returns the hull of what damaged maps cover.
    pub(super) fn damaged_writes(&self) -> Option<Writes> {
        self.damaged_maps().flat_map(|map| map.index().writes()).copied().reduce(Writes::including)
    }

    /// Returns the first write of the files above the last level. Only files of the last level have older entries.
    pub(super) fn floor(&self) -> WriteId {
        let last = self.levels().last().filter(|level| *level != OVERLAPPING);
        let above = self.all_filters().filter(|(level, _)| Some(*level) != last);
        let first = above.map(|(_, file)| file.writes().writes().first()).min();
        // Writes that are still to come are above all files.
        first.into_iter().chain(self.flushed.map(WriteId::next)).min().unwrap_or(WriteId::MIN)
    }

    pub(super) fn maps_below_floor(&self) -> impl Iterator<Item = &Arc<FileMap<Bytes>>> {
        let floor = self.floor();
        let maps = self.writes().into_iter().flat_map(WriteSet::maps);
        maps.filter(move |map| map.index().writes().last().is_some_and(|writes| writes.last() < floor))
    }

    /// Returns how many keys the files with writes below the floor have; `None` if that is not known.
    fn keys_below_floor(&self) -> Option<u64> {
        let floor = self.floor();
        let files = self.all_filters().map(|(_, file)| file).filter(|file| file.writes().writes().first() < floor);
        // A file without filters has no known number of keys. A file whose keys could not be read would divide the new
        // map, which then has keys of other files twice, or leave nothing of it: it would soon be due again.
        let is_known = |file: &FileFilters| !file.state.is_without_map.load(Ordering::Relaxed);
        let keys = |file: &FileFilters| Some(file.metadata().keys_added()).filter(|keys| *keys > 0 && is_known(file));
        files.map(keys).try_fold(0, |sum: u64, keys| Some(sum.saturating_add(keys?)))
    }

    /// Returns the writes of `hull` that have joined: one interval below the floor, one from it on.
    pub(super) fn parts_to_cover(&self, hull: Option<Writes>) -> Result<Vec<Writes>, MapError> {
        let Some(flushed) = self.flushed else {
            let (field, expected) = ("last flush that has joined the view", "a number, told by `with_flushed`");
            return Err(MapError::Field { field, expected, got: 0 });
        };
        let floor = self.floor();
        let below = floor.get().checked_sub(1).map(WriteId::from_stored);
        let below = below.and_then(|last| hull?.within(WriteId::MIN, last.min(flushed)));
        let above = hull.and_then(|hull| hull.within(floor, flushed));
        Ok(below.into_iter().chain(above).collect())
    }
}

/// Returns what is left of intervals without others.
pub(super) fn parts_without(parts: Vec<Writes>, others: impl Iterator<Item = Writes>) -> Vec<Writes> {
    others.fold(parts, |parts, other| parts.into_iter().flat_map(|part| without(part, other)).collect())
}

/// Returns what is left of an interval without another one.
fn without(part: Writes, other: Writes) -> impl Iterator<Item = Writes> {
    let last = other.first().get().checked_sub(1).map(WriteId::from_stored);
    let first = other.last().get().checked_add(1).map(WriteId::from_stored);
    let before = last.and_then(|last| part.within(WriteId::MIN, last));
    before.into_iter().chain(first.and_then(|first| part.within(first, WriteId::MAX)))
}
