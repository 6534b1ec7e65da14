//! The files of a store at one time.

use core::fmt;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use sstfilter::internal::{CacheResidency, StripedCounters};
use sstfilter_range::internal::{KeyHeads, SharedPrefix};

use super::chunk::{Chunk, Member, max_files, prefix_of};
use super::config::Config;
use super::file::FileFilters;
use super::filter_store::FilterStore;
use super::state::FileState;
use super::stats::FileStats;

/// The only level whose files may overlap.
const OVERLAPPING: u32 = 0;

/// The files of a store at one time, which says which of them must be read for a key, a prefix or a range.
///
/// `F` is the engine's type for an open file; [`AsRef`] returns the file's [`FileFilters`]. A view never changes:
/// [`edited`](Self::edited) returns the next one, which shares everything that the edit does not touch. An engine keeps
/// the view in its own version, so that a reader sees files and filters of the same time. Clones are cheap, and a file
/// stays open until the last view that contains it is dropped.
///
/// Files of level 0 may overlap; the newest comes first. Files of any other level do not, and are found by their
/// smallest and largest keys. Lower level numbers are newer. In a tiered engine, each sorted run is a level. An engine
/// with a single list of files in the order of their age uses only level 0.
pub struct FilterView<F> {
    pub(super) config: Arc<Config>,
    /// The levels that have files, or had files that counted something, in the order of their numbers.
    pub(super) levels: Arc<[Arc<Level<F>>]>,
    /// Shared by all views that descend from one.
    pub(super) lookups: Arc<StripedCounters>,
}

/// The files of a level.
///
/// They lie in chunks of up to 64 that views share: an edit rebuilds only the chunks that it touches, and the level's
/// list of chunks. Rejected: one list of files per level, because an edit copies all of it; and a tree of more than two
/// steps, which pays off only beyond the number of files that stores have.
pub(super) struct Level<F> {
    number: u32,
    /// Files in the order of their age; in a level other than 0, those without a place in the order of keys.
    pub(super) loose: Vec<Arc<Chunk<F>>>,
    /// Files in the order of their keys, without overlap.
    pub(super) sorted: Vec<Arc<Chunk<F>>>,
    /// The smallest key of each sorted chunk.
    fences: KeyHeads,
    /// The prefix that the bounds of all files share.
    prefix: Arc<SharedPrefix>,
    /// Where in the memory hierarchy the filters of the loose chunks probably are.
    pub(super) residency: CacheResidency,
    /// The counts of files when they left.
    left: FileStats,
    /// The counts of files when they joined.
    joined: FileStats,
}

/// The files that a flush or a compaction adds and removes at once.
///
/// All removals of an edit come before its additions, in whatever order they were called. At level 0 the order of files
/// is their age: added files are newer than the existing ones, and the later of two additions is the newer.
/// [`replace`](Self::replace) gives a file's place to another file. An edit that removes a file and adds it again, and
/// adds no other, keeps its place as well. Files are compared by their [`Arc`].
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
}

/// Why an edit was refused. A refused edit changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewError {
    /// The edit removes or replaces a file that is not at this level, or does so twice.
    NotAtLevel {
        /// The level.
        level: u32,
        /// The position of the removal or replacement in the edit.
        position: usize,
    },
    /// The edit adds a file that is already at the level, or adds it twice; or it removes a file of level 0, adds it
    /// again, and adds others, so that it is not clear which is newer.
    Duplicate {
        /// The level.
        level: u32,
        /// The position of the addition or replacement in the edit.
        position: usize,
    },
    /// Two files of a level other than 0 would have a key in common, or one would lie within the bounds of the other.
    /// Files with range tombstones or unknown bounds are not compared: every lookup tests each of them, in no order of
    /// age. An engine with range tombstones should cut them where its files end.
    Overlap {
        /// The level.
        level: u32,
        /// The largest key of the first file.
        largest: Vec<u8>,
        /// The smallest key of the second file, which is not above it.
        smallest: Vec<u8>,
    },
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAtLevel { level, position } => write!(
                f,
                "edit: expected change {position} to remove a file of level {level}, got one absent or already removed"
            ),
            Self::Duplicate { level, position } => write!(
                f,
                "edit: expected change {position} to add a file that is new at level {level}, got one already there"
            ),
            Self::Overlap { level, largest, smallest } => write!(
                f,
                "edit: expected files of level {level} not to overlap, got one up to \"{}\" and one from \"{}\"",
                largest.escape_ascii(),
                smallest.escape_ascii()
            ),
        }
    }
}

impl core::error::Error for ViewError {}

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

    /// Adds a file to a level; at level 0 it becomes the newest. So a store that is reopened adds the files of level 0
    /// from the oldest to the newest, the reverse of [`FilterView::files`].
    #[must_use]
    pub fn add(self, level: u32, file: Arc<F>) -> Self {
        self.with(Change { level, leaves: None, comes: Some(file) })
    }

    /// Removes a file from its level.
    #[must_use]
    pub fn remove(self, level: u32, file: &Arc<F>) -> Self {
        self.with(Change { level, leaves: Some(file.clone()), comes: None })
    }

    /// Removes a file, and adds another in its place. At level 0 the place is its age: if neighbours are merged into
    /// one file, replace one of them with it and remove the others.
    #[must_use]
    pub fn replace(self, level: u32, file: &Arc<F>, by: Arc<F>) -> Self {
        self.with(Change { level, leaves: Some(file.clone()), comes: Some(by) })
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

/// The changes of one level: the files that leave, by their addresses, and the added files with their positions in the
/// edit. Later ones are newer.
type LevelChange<F> = (HashMap<*const F, Leaving<F>>, Vec<(usize, Member<F>)>);

/// A file that leaves a level.
struct Leaving<F> {
    position: usize,
    file: Arc<F>,
    /// The file that takes its place in the order of age, with its position in the edit.
    by: Option<(usize, Member<F>)>,
}

impl<F> FilterView<F> {
    /// Creates a view without files. Lookups compute their probes as `store` specifies; files that were opened by a
    /// store of another configuration are probed as that store specifies, one at a time.
    #[must_use]
    pub fn new(store: &FilterStore) -> Self {
        Self { config: store.config.clone(), levels: Arc::new([]), lookups: Arc::new(StripedCounters::new(1)) }
    }

    /// Returns the number of keys that were looked up in this view and those that it was made from.
    #[must_use]
    pub fn lookups(&self) -> u64 {
        self.lookups.sum(0)
    }

    /// Returns the numbers of the levels that have files, ascending.
    pub fn levels(&self) -> impl Iterator<Item = u32> {
        self.levels.iter().filter(|level| level.has_files()).map(|level| level.number)
    }

    /// Returns the files of a level: at level 0 from the newest to the oldest, at any other level in the order of their
    /// keys, after the files with range tombstones, without keys, or of unknown bounds.
    pub fn files(&self, level: u32) -> impl Iterator<Item = &Arc<F>> {
        self.level(level).into_iter().flat_map(|level| level.chunks()).flat_map(|chunk| &chunk.files)
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
        let member = |file: Arc<F>| {
            let state = file.as_ref().as_ref().state.clone();
            (file, state)
        };
        let mut changes = BTreeMap::<u32, LevelChange<F>>::new();
        // All removals first, because an addition may name a file that the edit also removes.
        for (position, Change { level, leaves, comes }) in edit.changes.iter().enumerate() {
            let Some(file) = leaves else { continue };
            let by = comes.as_ref().filter(|_| *level == OVERLAPPING).map(|by| (position, member(by.clone())));
            let (leaving, _) = changes.entry(*level).or_default();
            let twice = leaving.insert(Arc::as_ptr(file), Leaving { position, file: file.clone(), by });
            if twice.is_some() {
                return Err(ViewError::NotAtLevel { level: *level, position });
            }
        }
        for (position, Change { level, leaves, comes }) in edit.changes.into_iter().enumerate() {
            let Some(file) = comes else { continue };
            let (leaving, added) = changes.entry(level).or_default();
            match leaving.get_mut(&Arc::as_ptr(&file)) {
                _ if leaves.is_some() && level == OVERLAPPING => {}
                // Removed and added again: at level 0 the file keeps its place.
                Some(left) if level == OVERLAPPING && left.by.is_none() => left.by = Some((position, member(file))),
                _ => added.push((position, member(file))),
            }
        }
        let mut levels: BTreeMap<u32, Arc<Level<F>>> =
            self.levels.iter().map(|level| (level.number, level.clone())).collect();
        for (number, change) in changes {
            let level = levels.entry(number).or_insert_with(|| Arc::new(Level::empty(number)));
            *level = Arc::new(level.edited(change, &self.config)?);
        }
        // Counts stay when the last file has left: totals never decrease.
        let is_kept = |level: &Arc<Level<F>>| level.has_files() || level.stats() != FileStats::default();
        let levels = levels.into_values().filter(is_kept).collect();
        Ok(Self { config: self.config.clone(), levels, lookups: self.lookups.clone() })
    }
}

/// The new members of chunks, by the places of these chunks.
type Touched<F> = BTreeMap<Place, Vec<Member<F>>>;

/// Whether a chunk is in the order of keys, and its position among these or the loose ones.
type Place = (bool, usize);

impl<F> Level<F> {
    fn empty(number: u32) -> Self {
        Self {
            number,
            loose: Vec::new(),
            sorted: Vec::new(),
            fences: KeyHeads::default(),
            prefix: Arc::default(),
            residency: CacheResidency::NearCache,
            left: FileStats::default(),
            joined: FileStats::default(),
        }
    }

    fn has_files(&self) -> bool {
        self.chunks().next().is_some()
    }

    fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk<F>>> {
        self.loose.iter().chain(&self.sorted)
    }

    fn stats(&self) -> FileStats {
        let files = self.chunks().flat_map(|chunk| &chunk.core.files);
        files.fold(self.left, |sum, file| sum.merged(&file.stats())).since(&self.joined)
    }

    /// Returns the position of the sorted chunk that a file with this smallest key belongs to: the last that does not
    /// begin above it.
    #[inline]
    pub(super) fn chunk_of(&self, key: &[u8]) -> usize {
        let begins_before = |position: usize| {
            let smallest = self.sorted.get(position).and_then(|chunk| chunk.core.smallest_key());
            smallest.is_some_and(|smallest| smallest <= key)
        };
        self.fences.partition_point(key, begins_before).saturating_sub(1)
    }

    fn find_chunk(&self, file: &Arc<F>) -> Option<Place>
    where
        F: AsRef<FileFilters>,
    {
        let has_it = |chunk: &Arc<Chunk<F>>| chunk.files.iter().any(|other| Arc::ptr_eq(other, file));
        // A sorted file is found by its key; only loose files need a search of all chunks.
        if let Some(smallest) = file.as_ref().as_ref().state.smallest_key() {
            let likely = self.chunk_of(smallest);
            if self.sorted.get(likely).is_some_and(has_it) {
                return Some((true, likely));
            }
        }
        Some((false, self.loose.iter().position(has_it)?))
    }

    /// Returns the level after a change.
    fn edited(&self, (leaving, added): LevelChange<F>, config: &Config) -> Result<Self, ViewError>
    where
        F: AsRef<FileFilters>,
    {
        let level = self.number;
        let mut coming: Vec<_> = leaving.values().filter_map(|leaving| leaving.by.as_ref()).chain(&added).collect();
        // The map of leaving files does not keep the order of calls, by which errors name positions.
        coming.sort_by_key(|(position, _)| *position);
        let mut touched = Touched::new();
        for &Leaving { position, ref file, .. } in leaving.values() {
            let place = self.find_chunk(file).ok_or(ViewError::NotAtLevel { level, position })?;
            self.touch(place, &mut touched);
        }
        if level == OVERLAPPING && !added.is_empty() {
            let stays =
                |leaving: &&Leaving<F>| leaving.by.as_ref().is_some_and(|(_, by)| Arc::ptr_eq(&by.0, &leaving.file));
            if let Some((position, _)) = leaving.values().find(stays).and_then(|leaving| leaving.by.as_ref()) {
                return Err(ViewError::Duplicate { level, position: *position });
            }
        }
        let (mut left, mut joined, mut seen) = (self.left, self.joined, HashSet::new());
        for &(position, (ref file, ref state)) in coming.iter().copied() {
            let is_there = !leaving.contains_key(&Arc::as_ptr(file)) && self.find_chunk(file).is_some();
            if is_there || !seen.insert(Arc::as_ptr(file)) {
                return Err(ViewError::Duplicate { level, position });
            }
            // A file that stays keeps its counts.
            if !leaving.contains_key(&Arc::as_ptr(file)) {
                joined = joined.merged(&state.stats());
            }
        }
        let keys = coming.iter().filter_map(|(_, (_, state))| state.metadata.bounds.keys()).flatten();
        // An empty level forgets its prefix, because a prefix can only get shorter.
        let prefix = prefix_of(Some(&self.prefix).filter(|_| self.has_files()), keys);
        for members in touched.values_mut() {
            let stay = |member: Member<F>| match leaving.get(&Arc::as_ptr(&member.0)) {
                None => Some(member),
                Some(leaving) => {
                    if !seen.contains(&Arc::as_ptr(&member.0)) {
                        left = left.merged(&member.1.stats());
                    }
                    leaving.by.as_ref().map(|(_, by)| by.clone())
                }
            };
            *members = core::mem::take(members).into_iter().filter_map(stay).collect();
        }
        for (_, member) in added {
            // A tombstone may reach beyond the keys, so the file has no place in the order of keys.
            let in_order = level != OVERLAPPING && !member.1.has_range_tombstones;
            let place = match member.1.smallest_key().filter(|_| in_order) {
                Some(smallest) => (true, self.chunk_of(smallest)),
                None => (false, 0),
            };
            let members = self.touch(place, &mut touched);
            // Loose files have the newest first; sorted members are put in order below.
            members.insert(if place.0 { members.len() } else { 0 }, member);
        }
        for (_, members) in touched.iter_mut().filter(|((is_sorted, _), _)| *is_sorted) {
            members.sort_by(|(_, one), (_, other)| one.smallest_key().cmp(&other.smallest_key()));
        }
        let loose = self.recut(false, &mut touched, &prefix, Some(config))?;
        let sorted = self.recut(true, &mut touched, &prefix, None)?;
        let fences = KeyHeads::new(sorted.iter().map(|chunk| chunk.core.smallest_key()));
        let groups = loose.iter().filter_map(|chunk| chunk.core.group.as_ref());
        let residency = CacheResidency::of_bytes(groups.map(|group| group.filters.bytes()).sum());
        Ok(Self { number: level, loose, sorted, fences, prefix, residency, left, joined })
    }

    fn chunks_of(&self, is_sorted: bool) -> &[Arc<Chunk<F>>] {
        if is_sorted { &self.sorted } else { &self.loose }
    }

    /// Returns the members of the chunk at `place`, to be changed.
    fn touch<'a>(&self, place: Place, touched: &'a mut Touched<F>) -> &'a mut Vec<Member<F>> {
        let chunk = self.chunks_of(place.0).get(place.1);
        touched.entry(place).or_insert_with(|| chunk.map(|chunk| chunk.members().collect()).unwrap_or_default())
    }

    /// Returns all chunks after cutting the touched ones again. Touched neighbours are cut together, and with one more
    /// neighbour if they are few.
    fn recut(
        &self,
        is_sorted: bool,
        touched: &mut Touched<F>,
        prefix: &Arc<SharedPrefix>,
        config: Option<&Config>,
    ) -> Result<Vec<Arc<Chunk<F>>>, ViewError> {
        let old = self.chunks_of(is_sorted);
        let (mut chunks, mut run) = (Vec::with_capacity(old.len() + 1), Vec::new());
        for (position, chunk) in old.iter().enumerate() {
            match touched.remove(&(is_sorted, position)) {
                Some(members) => run.extend(members),
                None if (1..max_files(!is_sorted) / 2).contains(&run.len()) => run.extend(chunk.members()),
                None => {
                    self.cut_into(&mut chunks, &mut run, chunk.core.files.first(), (prefix, config))?;
                    chunks.push(chunk.clone());
                }
            }
        }
        // The first chunk of a level has no old position.
        run.extend(touched.remove(&(is_sorted, old.len())).into_iter().flatten());
        self.cut_into(&mut chunks, &mut run, None, (prefix, config))?;
        Ok(chunks)
    }

    /// Appends the members of `run` to `chunks`; `next` follows them. Fails if neighbours in the order of keys overlap.
    /// A file may not begin with the key at which its predecessor ends: both could contain that key.
    fn cut_into(
        &self,
        chunks: &mut Vec<Arc<Chunk<F>>>,
        run: &mut Vec<Member<F>>,
        next: Option<&Arc<FileState>>,
        (prefix, config): (&Arc<SharedPrefix>, Option<&Config>),
    ) -> Result<(), ViewError> {
        if run.is_empty() {
            return Ok(());
        }
        // Merged with the chunk before, so that many small edits do not leave many small chunks.
        if run.len() < max_files(config.is_some()) / 2
            && let Some(before) = chunks.pop()
        {
            run.splice(0..0, before.members());
        }
        // Without a configuration these are sorted chunks; only their files must not overlap.
        if config.is_none() {
            let before = chunks.last().and_then(|chunk| chunk.core.files.last());
            let around = before.into_iter().chain(run.iter().map(|(_, state)| state)).chain(next);
            let bounds: Vec<_> = around.filter_map(|state| state.metadata.bounds.keys()).collect();
            for pair in bounds.windows(2) {
                if let [[_, largest], [smallest, _]] = *pair
                    && largest >= smallest
                {
                    let (largest, smallest) = (largest.to_vec(), smallest.to_vec());
                    return Err(ViewError::Overlap { level: self.number, largest, smallest });
                }
            }
        }
        chunks.extend(Chunk::cut(run, prefix, config));
        run.clear();
        Ok(())
    }
}

impl<F> Clone for FilterView<F> {
    fn clone(&self) -> Self {
        Self { config: self.config.clone(), levels: self.levels.clone(), lookups: self.lookups.clone() }
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
