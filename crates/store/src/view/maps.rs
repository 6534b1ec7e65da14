//! File maps of a view, for engines: use them, write new ones, and know when.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{FileId, KeyHash};
use sstfilter_map::{FileMap, MapBuilder, MapError, MapMerge, MapOptions, MapReport};

use super::FilterView;
use super::mapped::{Count, Mapped, id_of};
use crate::file::FileFilters;
use crate::stats::MapStats;

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Returns the view with these maps instead of its own, or without maps. Lookups of keys consult them first, and
    /// search a covered file only if a map does not exclude it. Then come its key bounds, and its own filter if that is
    /// in memory. Scans and lookups of prefixes do not use maps.
    ///
    /// Maps may be older or newer than the view: what they cover besides its files does not matter. Files that they do
    /// not cover, that are added later, or that have range tombstones, are searched as in a view without maps.
    ///
    /// # Errors
    ///
    /// A map was built with another hash than the store's, or lacks a key that the description of a covered file names.
    pub fn with_maps(&self, maps: &[Arc<FileMap<Bytes>>]) -> Result<Self, MapError> {
        let mapped = if maps.is_empty() {
            None
        } else {
            Some(Arc::new(Mapped::new(maps, &self.levels, &self.config, self.false_reads())?))
        };
        Ok(Self { mapped, ..self.clone() })
    }

    /// Writes a map that covers what the view's maps cover of its files, and all other files for which `hashes` returns
    /// the hashes of their keys ([`Filters::hash`](sstfilter::Filters::hash)), deleted keys too. Publish it with
    /// [`with_maps`](Self::with_maps), on the view that is then current.
    ///
    /// Lookups in this view and others go on meanwhile. It reads no key of files that are covered, and holds 8 bytes
    /// for each key of the others. To cancel it, let `sink` or `hashes` return an error. If pages of the maps are
    /// damaged, pages of the new one are unknown ([`MapReport::unknown_pages`]); a view without maps writes a sound
    /// one.
    ///
    /// # Errors
    ///
    /// Those of `sink` and `hashes`, and [`MapError`] if no file is covered, or if a map keeps another number of bits
    /// than `options`.
    pub fn write_map(
        &self,
        options: MapOptions,
        map: FileId,
        sink: &mut impl Write,
        mut hashes: impl FnMut(&Arc<F>) -> io::Result<Option<Vec<KeyHash>>>,
    ) -> io::Result<MapReport> {
        let mut added = MapBuilder::new(&self.config.reader.filters, options);
        let mut is_empty = true;
        for member in self.uncovered_levels().iter().flat_map(|level| level.members()) {
            let Some(id) = id_of(&member.state) else { continue };
            if let Some(hashes) = hashes(&member.file)? {
                added.add_file(id, hashes);
                is_empty = false;
            }
        }
        let Some(mapped) = &self.mapped else { return added.finish(map, sink) };
        let of_added = if is_empty {
            None
        } else {
            let mut bytes = Vec::new();
            added.finish(map, &mut bytes)?;
            Some(FileMap::load_any(bytes)?)
        };
        let mut merge = MapMerge::new(options);
        for old in mapped.maps() {
            merge.add_loaded(old, |file| mapped.covers(file))?;
        }
        if let Some(of_added) = &of_added {
            merge.add_loaded(of_added, |_| true)?;
        }
        merge.finish(map, sink)
    }

    /// Returns why a new map should be written by now; `None` if the maps are good enough, or there are too few files.
    #[must_use]
    pub fn needs_map(&self, policy: &MapPolicy) -> Option<MapReason> {
        let files = self.uncovered_files().count();
        if files > policy.uncovered_files {
            return Some(MapReason::UncoveredFiles(files));
        }
        let mapped = self.mapped.as_ref()?;
        let ([covered, of_maps], [lookups, reads]) = (mapped.covered_files(), self.false_reads());
        let gone = of_maps.saturating_sub(covered);
        if gone as f64 > policy.files_gone * of_maps as f64 {
            return Some(MapReason::FilesGone(gone));
        }
        let [lookups_before, reads_before] = mapped.false_reads_before;
        let (lookups, reads) = (lookups.saturating_sub(lookups_before), reads.saturating_sub(reads_before));
        // A rate of fewer says nothing.
        let is_measured = files > 0 && lookups >= 10_000;
        let is_too_many = reads as f64 > policy.false_reads * lookups as f64;
        (is_measured && is_too_many).then_some(MapReason::FalseReads(reads))
    }
}

impl<F> FilterView<F> {
    /// Returns the maps.
    pub fn maps(&self) -> impl Iterator<Item = &Arc<FileMap<Bytes>>> {
        self.mapped.iter().flat_map(|mapped| mapped.maps())
    }

    /// Returns the files that no map covers, with their levels.
    pub fn uncovered_files(&self) -> impl Iterator<Item = (u32, &Arc<F>)> {
        let levels = self.uncovered_levels().iter();
        levels.flat_map(|level| level.chunks().flat_map(|chunk| &chunk.files).map(|file| (level.number, file)))
    }

    /// Returns what was counted for maps in this view and those that it was made from.
    #[must_use]
    pub fn map_stats(&self) -> MapStats {
        let sum = |count| self.counts.sum(count as usize);
        MapStats {
            lookups: sum(Count::Mapped),
            unknown: sum(Count::Unknown),
            candidates: sum(Count::Candidates),
            false_candidates: sum(Count::FalseCandidates),
            false_reads: sum(Count::FalseReads),
        }
    }

    fn false_reads(&self) -> [u64; 2] {
        [Count::Mapped, Count::FalseReads].map(|count| self.counts.sum(count as usize))
    }
}

/// When a new map is worth its merge.
///
/// A file that no map covers costs each lookup a probe, and now and then a read. A merge costs about 30 ns for each key
/// of all files. [`FilterView::needs_map`] compares what was measured with these limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapPolicy {
    uncovered_files: usize,
    files_gone: f64,
    false_reads: f64,
}

impl Default for MapPolicy {
    /// More than 8 files that no map covers, a quarter of the covered files gone, or more than one file searched in
    /// vain in a hundred lookups because no map covers it.
    fn default() -> Self {
        Self { uncovered_files: 8, files_gone: 0.25, false_reads: 0.01 }
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

    /// Sets how many files a lookup may search in vain because no map covers them.
    #[must_use]
    pub const fn with_max_false_reads(self, per_lookup: f64) -> Self {
        Self { false_reads: per_lookup, ..self }
    }
}

/// Why a new map is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapReason {
    /// No map covers so many files.
    UncoveredFiles(usize),
    /// So many files of the maps have left the view.
    FilesGone(usize),
    /// So many files were searched in vain, since the view got its maps, because no map covers them.
    FalseReads(u64),
}
