//! A new map of a view, written from maps and from the keys of the files that none of these covers.

use core::sync::atomic::Ordering;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{FileId, KeyHash};
use sstfilter_map::{FileMap, MapBuilder, MapError, MapMerge, MapOptions, MapReport, WriteId, WriteSet, Writes};

use super::FilterView;
use super::mapped::Mapped;
use super::maps::{MapReason, is_damaged};
use super::writes::parts_without;
use crate::file::FileFilters;
use crate::pages::ViewMap;

/// A new map of a view, which says which files it needs keys of: `(add)* finish`.
///
/// It owns what it needs: an engine can read files in any order, at the same time, or asynchronously, while lookups and
/// edits go on. To cancel it, drop it. The hashes take 8 bytes for each key until the map is finished, for a map of
/// writes up to 16.
pub struct MapWrite<F> {
    view: FilterView<F>,
    options: MapOptions,
    /// The maps that become part of the new one.
    merged: Vec<Arc<FileMap<Bytes>>>,
    replaced: Vec<FileId>,
    /// The files whose keys are needed, with the hashes of those that were added.
    files: Vec<(Arc<F>, Option<Vec<KeyHash>>)>,
    /// Their positions by their addresses.
    positions: HashMap<usize, usize>,
    /// What a map of writes covers by their keys; `None` for a map of files.
    writes: Option<Vec<Writes>>,
}

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Begins a map that covers what the view's maps cover of its files, and all other files whose keys are
    /// [added](MapWrite::add). Publish it with [`with_maps`](Self::with_maps), on the view that is then current.
    ///
    /// It needs the keys of files that no map covers, or a damaged one. Sound maps that are [read by
    /// page](Self::with_paged_maps) stay beside it. To change the options, write a map in a view
    /// without maps: that of `with_maps(&[])`.
    ///
    /// # Errors
    ///
    /// [`MapError`] if a map keeps another number of bits than `options`, or if the view has maps of writes.
    pub fn write_map(&self, options: MapOptions) -> Result<MapWrite<F>, MapError> {
        if self.writes().is_some() {
            return Err(MapError::MixedCoverage);
        }
        let (damaged, sound): (Vec<_>, Vec<_>) = self.maps().cloned().partition(|map| is_damaged(map));
        let uncovered = self.uncovered_levels().iter().flat_map(|level| level.members());
        let mut files: Vec<_> =
            uncovered.filter(|member| member.state.id_in_maps().is_some()).map(|member| member.file).collect();
        let is_in_sound = |id| sound.iter().any(|map| map.index().local_id(id).is_some());
        let mut met = HashSet::new();
        for covered in damaged.iter().flat_map(|map| map.index().files()).filter(|covered| !is_in_sound(covered.file)) {
            // Several damaged maps may cover a file.
            let own = self.mapped().and_then(|mapped| mapped.covered(covered.file));
            files.extend(own.filter(|_| met.insert(covered.file)).map(|own| own.file.clone()));
        }
        files.extend(self.files_of_maps(ViewMap::has_damaged_page).map(|covered| covered.file.clone()));
        let replaced = self.view_maps().filter(|map| map.in_memory().is_some() || map.has_damaged_page());
        let replaced = replaced.map(|map| map.map_id()).collect();
        let write = MapWrite::new(self, options, sound, replaced, files, None);
        // Maps of other options are refused before files are read.
        write.merge().map(drop)?;
        Ok(write)
    }

    /// Begins the map of writes that [`needs_map`](Self::needs_map) says is due. Publish it with
    /// [`with_maps`](Self::with_maps), beside the others but those that it [replaces](MapWrite::replaced), on the view
    /// that is then current.
    ///
    /// A merge ([`MapReason::Tier`]) needs no keys. Otherwise a map is rebuilt from the keys of all files with these
    /// writes: of damaged maps, of files that no map covers, or below the first write of the files above the last
    /// level. It does not cover the writes of files whose keys are not [added](MapWrite::add).
    ///
    /// # Errors
    ///
    /// [`MapError`] if the view does not know which flushes [have joined](Self::with_flushed).
    pub fn write_map_for(&self, reason: MapReason, options: MapOptions) -> Result<MapWrite<F>, MapError> {
        let maps = self.writes().map_or(&[][..], WriteSet::maps);
        let (hull, replaced): (_, Vec<_>) = match reason {
            MapReason::Tier(newest) => {
                let merged = maps.get(maps.len().saturating_sub(newest)..).unwrap_or_default();
                let replaced = merged.iter().map(|map| map.index().map_id()).collect();
                let write = MapWrite::new(self, options, merged.to_vec(), replaced, Vec::new(), Some(Vec::new()));
                write.merge().map(drop)?;
                return Ok(write);
            }
            MapReason::Garbage(_) => {
                let below = self.floor().get().checked_sub(1).map(WriteId::from_stored);
                (below.and_then(|last| Writes::new(WriteId::MIN, last)), self.maps_below_floor().collect())
            }
            MapReason::Damaged => (self.damaged_writes(), self.damaged_maps().collect()),
            _ => (self.uncovered_writes().reduce(Writes::including), Vec::new()),
        };
        let replaced = replaced.iter().map(|old| old.index().map_id()).collect();
        let parts = self.parts_to_cover(hull)?;
        let has_any = |file: &&Arc<F>| parts.iter().any(|part| part.overlaps((***file).as_ref().writes().writes()));
        let files = self.all_files().map(|(_, file)| file).filter(has_any).cloned().collect();
        Ok(MapWrite::new(self, options, Vec::new(), replaced, files, Some(parts)))
    }
}

impl<F: AsRef<FileFilters>> MapWrite<F> {
    fn new(
        view: &FilterView<F>,
        options: MapOptions,
        merged: Vec<Arc<FileMap<Bytes>>>,
        replaced: Vec<FileId>,
        files: Vec<Arc<F>>,
        writes: Option<Vec<Writes>>,
    ) -> Self {
        let positions = (0..).zip(&files).map(|(position, file)| (address(file), position)).collect();
        let files = files.into_iter().map(|file| (file, None)).collect();
        Self { view: view.clone(), options, merged, replaced, files, positions, writes }
    }

    /// Returns the files whose keys are needed and were not [added](Self::add) yet.
    #[must_use]
    pub fn files(&self) -> Vec<Arc<F>> {
        self.files.iter().filter(|(_, hashes)| hashes.is_none()).map(|(file, _)| file.clone()).collect()
    }

    /// Returns the ids of the maps that the new one replaces.
    pub fn replaced(&self) -> &[FileId] {
        &self.replaced
    }

    /// Adds the hashes of all keys of one of the [files](Self::files), deleted keys too, by
    /// [`Filters::hash`](sstfilter::Filters::hash). A file that cannot be read need not be added: the new map does not
    /// cover it, nor its writes, and [`needs_map`](FilterView::needs_map) no longer counts it. While the view has such
    /// files, damaged maps of their writes alone stay in use, and [garbage](MapReason::Garbage) is left where they have
    /// writes. Other files are ignored.
    ///
    /// # Errors
    ///
    /// [`MapError::KnownKeyAbsent`] if the file's smallest or largest key is missing. The file is not added then.
    pub fn add(&mut self, file: &Arc<F>, hashes: Vec<KeyHash>) -> Result<(), MapError> {
        let needed = self.positions.get(&address(file)).and_then(|position| self.files.get_mut(*position));
        let Some((_, added)) = needed else { return Ok(()) };
        let metadata = (**file).as_ref().metadata();
        let has = |key: &&[u8]| hashes.contains(&self.view.filters().hash(key));
        if !metadata.known_keys().iter().all(has) {
            return Err(MapError::KnownKeyAbsent { fingerprint: metadata.file_id().fingerprint() });
        }
        *added = Some(hashes);
        Ok(())
    }

    /// Writes the map to `sink`. `map` is its id. This reads no file, and takes some 20 ns for each key of the map: an
    /// asynchronous engine calls it where it may block.
    ///
    /// # Errors
    ///
    /// Those of `sink`, and [`MapError`] if nothing is covered, because files were not added. That is not due again.
    pub fn finish(mut self, map: FileId, sink: &mut impl Write) -> io::Result<MapReport> {
        for (file, hashes) in &self.files {
            (**file).as_ref().state.is_without_map.store(hashes.is_none(), Ordering::Relaxed);
        }
        let mut added = MapBuilder::new(self.view.filters(), self.options);
        let files = core::mem::take(&mut self.files);
        match self.writes.take() {
            None => {
                for (file, hashes) in files {
                    let id = (*file).as_ref().metadata().file_id();
                    hashes.into_iter().for_each(|hashes| added.add_file(id, hashes));
                }
            }
            Some(parts) => add_writes(&mut added, parts, files),
        }
        if self.merged.is_empty() {
            return added.finish(map, sink);
        }
        let (mut of_added, mut merge) = (None, self.merge()?);
        if added.covers_files() {
            let mut bytes = Vec::new();
            added.finish(map, &mut bytes)?;
            merge.add_loaded(of_added.insert(FileMap::load_any(bytes)?), |_| true)?;
        }
        merge.finish(map, sink)
    }

    /// Begins the merge of the maps that become part of the new one.
    fn merge(&self) -> Result<MapMerge<'_>, MapError> {
        let mapped = self.view.mapped();
        let is_covered = |id| mapped.is_some_and(|mapped: &Mapped<F>| mapped.covered(id).is_some());
        let mut merge = MapMerge::new(self.options).with_floor(self.view.floor());
        self.merged.iter().try_for_each(|old| merge.add_loaded(old, is_covered))?;
        Ok(merge)
    }
}

/// Adds the hashes of files to each part that they may have writes of: which of its writes wrote a key is not known.
/// The writes of files without hashes are in no part.
fn add_writes<F: AsRef<FileFilters>>(
    added: &mut MapBuilder,
    parts: Vec<Writes>,
    files: Vec<(Arc<F>, Option<Vec<KeyHash>>)>,
) {
    let writes = |file: &Arc<F>| (**file).as_ref().writes().writes();
    let unknown = files.iter().filter(|(_, hashes)| hashes.is_none()).map(|(file, _)| writes(file));
    let mut of_parts: Vec<_> = parts_without(parts, unknown).into_iter().map(|part| (part, Vec::new())).collect();
    for (file, hashes) in files {
        for (_, of_part) in of_parts.iter_mut().filter(|(part, _)| part.overlaps(writes(&file))) {
            of_part.extend_from_slice(hashes.as_deref().unwrap_or_default());
        }
    }
    of_parts.into_iter().for_each(|(part, hashes)| added.add_writes(part, hashes));
}

fn address<F>(file: &Arc<F>) -> usize {
    Arc::as_ptr(file).addr()
}

impl<F> core::fmt::Debug for MapWrite<F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MapWrite").field("files", &self.files.len()).finish_non_exhaustive()
    }
}
