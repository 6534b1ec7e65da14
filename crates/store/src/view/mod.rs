//! The files of a store at one time, and the edits that make the next view of one.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use sstfilter::internal::StripedCounters;
use sstfilter::{FileId, Filters};

use core::cmp::Reverse;

use super::chunk::{Age, Member};
use super::config::Config;
use super::file::FileFilters;
use super::filter_store::FilterStore;
use super::state::FileState;
use super::stats::{Count, FileStats};
use super::writes::{WriteId, WriteSet, Writes};
use ids::Ids;
use level::{Leaving, LevelChange, OVERLAPPING};

pub(super) use level::Level;
pub use level::ViewError;
#[cfg(feature = "maps")]
pub use map_write::MapWrite;
pub(super) use mapped::Mapped;
#[cfg(feature = "maps")]
pub use maps::{MapPolicy, MapReason};

mod ids;
mod level;
#[cfg(feature = "maps")]
mod map_write;
#[cfg_attr(not(feature = "maps"), path = "no_maps.rs")]
mod mapped;
#[cfg(feature = "maps")]
mod maps;
#[cfg(feature = "maps")]
mod writes;

/// The files of a store at one time, which says which of them must be read for a key, a prefix or a range.
///
/// `F` is the engine's type for an open file; [`AsRef`] returns the file's [`FileFilters`]. A view never changes:
/// [`edited`](Self::edited) returns the next one, which shares everything that the edit does not touch. An engine keeps
/// the view in its own version, so that a reader sees files and filters of the same time. Clones are cheap, and a file
/// stays open until the last view that contains it is dropped.
///
/// Files of level 0 may overlap; the newest comes first. Files of any other level do not, and are found by their
/// smallest and largest keys. Lower level numbers are newer. An engine with a single list of files in the order of
/// their age uses only level 0. So does a tiered engine that merges runs which are neighbours: the age of a file is
/// the number of its run, below 2^32, times 2^32, plus its position; a merged run has the number of its newest part. A
/// level for each run would make lookups ever slower, because a level that has lost its files stays, with its counts.
pub struct FilterView<F> {
    pub(super) config: Arc<Config>,
    /// The levels that have files, or had files that counted something, in the order of their numbers.
    pub(super) levels: Arc<[Arc<Level<F>>]>,
    ids: Arc<Ids>,
    /// Shared by all views that descend from one.
    pub(super) counts: Arc<StripedCounters>,
    pub(super) maps: Maps<F>,
    /// The last write of all flushes that have joined the view.
    pub(super) flushed: Option<WriteId>,
    /// Above the ages of all files that level 0 has had: one that came again would make an older file the newer one.
    next_age: u64,
}

/// The maps of a view, of one kind.
pub(super) enum Maps<F> {
    None,
    /// Maps that cover some of the files.
    Files(Arc<Mapped<F>>),
    /// Maps of writes.
    Writes(Arc<WriteSet>),
}

/// A place in the order of a lookup: newer files come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    pub(super) level: u32,
    pub(super) age: Reverse<Age>,
}

/// A file that a map covers.
pub(super) struct Covered<F> {
    pub(super) order: Order,
    pub(super) file: Arc<F>,
    pub(super) state: Arc<FileState>,
}

/// Which filters of covered files are probed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Own {
    /// Those in memory. Loading a filter pays off only where most keys are absent, and maps have excluded these.
    InMemory,
    /// Those of all files: a page is missing or damaged, and its map has excluded nothing.
    Any,
}

impl<F> Clone for Maps<F> {
    fn clone(&self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Files(mapped) => Self::Files(mapped.clone()),
            Self::Writes(set) => Self::Writes(set.clone()),
        }
    }
}

impl<F> From<Option<Mapped<F>>> for Maps<F> {
    fn from(mapped: Option<Mapped<F>>) -> Self {
        mapped.map_or(Self::None, |mapped| Self::Files(Arc::new(mapped)))
    }
}

/// The files that a flush or a compaction adds and removes at once.
///
/// All removals of an edit come before its additions, in whatever order they were called. Files are compared by their
/// [`Arc`].
#[derive(Debug)]
pub struct ViewEdit<F> {
    /// In the order of calls.
    changes: Vec<Change<F>>,
}

/// One removal, addition or replacement.
#[derive(Debug)]
struct Change<F> {
    level: u32,
    leaves: Option<Arc<F>>,
    comes: Option<Arc<F>>,
    /// The age of an addition to level 0.
    age: Option<u64>,
}

impl<F> Default for ViewEdit<F> {
    fn default() -> Self {
        Self { changes: Vec::new() }
    }
}

impl<F> ViewEdit<F> {
    /// Creates an edit that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file to a level other than 0, whose files do not overlap.
    #[must_use]
    pub fn add(self, level: u32, file: Arc<F>) -> Self {
        self.with(Change { level, leaves: None, comes: Some(file), age: None })
    }

    /// Adds a file to level 0, whose files may overlap: a file of greater age is newer, in whatever order files are
    /// added. Pass the number of the flush that wrote the entries, taken when its memtable was sealed, and store it in
    /// the manifest. A file that comes back keeps its age. A file that is merged from neighbours takes the age of the
    /// newest: see [`replace`](Self::replace).
    #[must_use]
    pub fn add_to_level_0(self, age: u64, file: Arc<F>) -> Self {
        self.with(Change { level: OVERLAPPING, leaves: None, comes: Some(file), age: Some(age) })
    }

    /// Removes a file from its level.
    #[must_use]
    pub fn remove(self, level: u32, file: &Arc<F>) -> Self {
        self.with(Change { level, leaves: Some(file.clone()), comes: None, age: None })
    }

    /// Removes a file, and adds another in its place. At level 0 it keeps the age: if neighbours are merged into one
    /// file, replace one of them with it and remove the others.
    #[must_use]
    pub fn replace(self, level: u32, file: &Arc<F>, by: Arc<F>) -> Self {
        self.with(Change { level, leaves: Some(file.clone()), comes: Some(by), age: None })
    }

    fn with(mut self, change: Change<F>) -> Self {
        self.changes.push(change);
        self
    }

    /// Returns whether the edit changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl<F> FilterView<F> {
    /// Creates a view without files. Lookups compute their probes as `store` specifies; files that were opened by a
    /// store of another configuration are probed as that store specifies, one at a time.
    #[must_use]
    pub fn new(store: &FilterStore) -> Self {
        let counts = Arc::new(StripedCounters::new(Count::ALL));
        let (config, levels) = (store.config.clone(), Arc::new([]));
        Self { config, levels, ids: Arc::default(), counts, maps: Maps::None, flushed: None, next_age: 0 }
    }

    /// Returns the hash and the parts of keys that lookups probe for.
    pub fn filters(&self) -> &Filters {
        &self.config.reader.filters
    }

    /// Returns the number of keys that were looked up in this view and those that it was made from.
    #[must_use]
    pub fn lookups(&self) -> u64 {
        self.counts.sum(Count::Lookups as usize)
    }

    /// Returns the numbers of the levels that have files, ascending.
    pub fn levels(&self) -> impl Iterator<Item = u32> {
        self.levels.iter().filter(|level| level.has_files()).map(|level| level.number)
    }

    /// Returns the files of a level: at level 0 from the newest to the oldest, at any other level in the order of their
    /// keys, after the files without keys or of unknown bounds.
    pub fn files(&self, level: u32) -> impl Iterator<Item = &Arc<F>> {
        self.level(level).into_iter().flat_map(|level| level.chunks()).flat_map(|chunk| &chunk.files)
    }

    /// Returns the files of level 0 with their ages, from the newest to the oldest. Ages belong into the manifest.
    pub fn level_0(&self) -> impl Iterator<Item = (u64, &Arc<F>)> {
        let chunks = self.level(OVERLAPPING).into_iter().flat_map(|level| level.chunks());
        chunks.flat_map(|chunk| chunk.files.iter().enumerate().map(|(place, file)| (chunk.age(place), file)))
    }

    /// Returns an age above those of all files that level 0 has had in this view and those that it was made from, for
    /// an engine whose flushes have no numbers, and join in the order of their memtables. Call it on the view that the
    /// file joins. A new view after a restart knows the ages of its own files only, so files that come back later need
    /// numbers of flushes.
    #[must_use]
    pub const fn next_age(&self) -> u64 {
        self.next_age
    }

    /// Returns what was counted for the files of a level while they were in it, including files that have left. Counts
    /// of older views for a file that has left are missing; for a file that moved to another level, they count there.
    #[must_use]
    pub fn level_stats(&self, level: u32) -> FileStats {
        self.level(level).map_or_else(FileStats::default, |level| level.stats())
    }

    /// Returns what was counted for the files of all levels.
    #[must_use]
    pub fn stats(&self) -> FileStats {
        self.levels.iter().fold(FileStats::default(), |sum, level| sum.merged(&level.stats()))
    }

    #[inline]
    pub(super) fn count(&self, count: Count, times: u64) {
        self.counts.of_thread().add(count as usize, times);
    }

    /// Returns the maps of writes, if the view has any.
    fn writes(&self) -> Option<&WriteSet> {
        if let Maps::Writes(set) = &self.maps { Some(set) } else { None }
    }

    /// Returns whether maps cover all of these writes.
    pub(super) fn covers(&self, writes: Writes) -> bool {
        self.writes().is_some_and(|set| set.covers(writes))
    }

    fn level(&self, number: u32) -> Option<&Arc<Level<F>>> {
        let position = self.levels.binary_search_by_key(&number, |level| level.number).ok()?;
        self.levels.get(position)
    }
}

impl<F: AsRef<FileFilters>> FilterView<F> {
    /// Returns the view after an edit; this view does not change. The time grows with the files that the edit touches
    /// and their neighbours, and one pointer is copied for every 32 files of their levels.
    ///
    /// # Errors
    ///
    /// [`ViewError`] if the edit does not fit the view.
    pub fn edited(&self, edit: ViewEdit<F>) -> Result<Self, ViewError> {
        let member = |file: Arc<F>, age: Option<u64>| {
            let state = file.as_ref().as_ref().state.clone();
            Member { file, state, age: age.unwrap_or_default() }
        };
        let coming = edit.changes.iter().filter_map(|change| change.comes.as_deref());
        let has_lost_key = self.writes().is_some_and(|set| self.find_lost_key(set, coming).is_some());
        let mut changes = BTreeMap::<u32, LevelChange<F>>::new();
        // All removals first, because an addition may name a file that the edit also removes.
        for (position, Change { level, leaves, comes, age }) in edit.changes.iter().enumerate() {
            let Some(file) = leaves else { continue };
            let by = comes.as_ref().filter(|_| *level == OVERLAPPING).map(|by| (position, member(by.clone(), *age)));
            let (leaving, _) = changes.entry(*level).or_default();
            let twice = leaving.insert(Arc::as_ptr(file), Leaving { position, file: file.clone(), by });
            if twice.is_some() {
                return Err(ViewError::NotAtLevel { level: *level, position });
            }
        }
        for (position, Change { level, leaves, comes, age }) in edit.changes.into_iter().enumerate() {
            let Some(file) = comes.filter(|_| leaves.is_none() || level != OVERLAPPING) else { continue };
            if level == OVERLAPPING && age.is_none() {
                return Err(ViewError::NoAge { position });
            }
            changes.entry(level).or_default().1.push((position, member(file, age)));
        }
        let mut levels: BTreeMap<u32, Arc<Level<F>>> =
            self.levels.iter().map(|level| (level.number, level.clone())).collect();
        for (&number, change) in &changes {
            let level = levels.entry(number).or_insert_with(|| Arc::new(Level::empty(number)));
            *level = Arc::new(level.edited(change, &self.config)?);
        }
        let ids = self.ids_after(&changes)?;
        let newest = levels.get(&OVERLAPPING).and_then(|level| level.chunks().next()).map(|chunk| chunk.age(0));
        let next_age = self.next_age.max(newest.map_or(0, |newest| newest.saturating_add(1)));
        // Counts stay when the last file has left: totals never decrease.
        let is_kept = |level: &Arc<Level<F>>| level.has_files() || level.stats() != FileStats::default();
        let levels: Arc<[_]> = levels.into_values().filter(is_kept).collect();
        let maps = match &self.maps {
            Maps::Files(mapped) => mapped.edited(changes, (&self.levels, &levels), &self.config).into(),
            Maps::Writes(_) if has_lost_key => {
                self.count(Count::Dropped, 1);
                Maps::None
            }
            maps => maps.clone(),
        };
        Ok(Self { levels, ids: Arc::new(ids), maps, next_age, ..self.clone() })
    }

    /// Looks up the keys that descriptions name, and returns a file that lacks one: none of its writes wrote that key.
    /// Then the hash function has changed under its name, or a number was given to two flushes.
    fn find_lost_key<'a>(&self, set: &WriteSet, files: impl IntoIterator<Item = &'a F>) -> Option<FileId>
    where
        F: 'a,
    {
        let lacks_key = |file: &FileFilters| {
            let Some(writes) = file.writes_in_maps().filter(|writes| set.covers(*writes)) else { return false };
            let may_be_in = |key: &&[u8]| set.of(self.filters().hash(key)).may_be_in(writes);
            !file.metadata().known_keys().iter().all(may_be_in)
        };
        let lost = files.into_iter().map(AsRef::as_ref).find(|file| lacks_key(file))?;
        Some(lost.metadata().file_id())
    }

    /// Returns the ids of the files after changes that fit their levels.
    fn ids_after(&self, changes: &BTreeMap<u32, LevelChange<F>>) -> Result<Ids, ViewError> {
        let mut ids = Ids::clone(&self.ids);
        let leaving = changes.values().flat_map(|(leaving, _)| leaving.values());
        leaving.for_each(|leaving| ids.remove((*leaving.file).as_ref().metadata().file_id()));
        for (&level, (leaving, added)) in changes {
            for (position, member) in leaving.values().filter_map(|leaving| leaving.by.as_ref()).chain(added) {
                let (position, file) = (*position, member.state.metadata.file_id());
                if !ids.insert(file) {
                    return Err(ViewError::DuplicateId { level, position, fingerprint: file.fingerprint() });
                }
            }
        }
        Ok(ids)
    }
}

impl<F> Clone for FilterView<F> {
    fn clone(&self) -> Self {
        Self {
            config: self.config.clone(),
            levels: self.levels.clone(),
            ids: self.ids.clone(),
            counts: self.counts.clone(),
            maps: self.maps.clone(),
            flushed: self.flushed,
            next_age: self.next_age,
        }
    }
}

impl<F> fmt::Debug for FilterView<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files =
            |level: &Arc<Level<F>>| (level.number, level.chunks().map(|chunk| chunk.files.len()).sum::<usize>());
        let files: BTreeMap<_, _> = self.levels.iter().map(files).collect();
        f.debug_struct("FilterView").field("files", &files).finish_non_exhaustive()
    }
}
