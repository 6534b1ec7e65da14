//! The files of one level, its edits, and its counts, from which files that joined or left are kept apart.

use core::cmp::Reverse;
use core::fmt;
use core::ops::Bound;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use sstfilter::KeyRange;
use sstfilter::internal::CacheResidency;
use sstfilter::internal::key_head::{KeyHeads, SharedPrefix};

use crate::chunk::{Chunk, Member, max_files, prefix_of};
use crate::config::Config;
use crate::file::FileFilters;
use crate::state::FileState;
use crate::stats::FileStats;

/// The only level whose files may overlap.
pub(crate) const OVERLAPPING: u32 = 0;

/// The files of a level.
///
/// They lie in chunks of up to 64 that views share: an edit rebuilds only the chunks that it touches, and the level's
/// list of chunks. Rejected: one list of files per level, because an edit copies all of it; and a tree of more than two
/// steps, which pays off only beyond the number of files that stores have.
pub(crate) struct Level<F> {
    pub(crate) number: u32,
    /// Files in the order of their age; in a level other than 0, those without keys or of unknown bounds.
    pub(crate) loose: Vec<Arc<Chunk<F>>>,
    /// Files in the order of their keys, without overlap.
    pub(crate) sorted: Vec<Arc<Chunk<F>>>,
    /// The smallest key of each sorted chunk.
    fences: KeyHeads,
    /// The prefix that the bounds of all files share.
    prefix: Arc<SharedPrefix>,
    /// Where in the memory hierarchy the filters of the loose chunks probably are.
    pub(crate) residency: CacheResidency,
    /// The counts of files when they left.
    left: FileStats,
    /// The counts of files when they joined.
    joined: FileStats,
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
    /// The edit adds a file that is already at the level, or adds it twice.
    Duplicate {
        /// The level.
        level: u32,
        /// The position of the addition or replacement in the edit.
        position: usize,
    },
    /// The edit adds a file whose id another file of the view has, at any level: two files of the same contents, or two
    /// that were given one id. Maps tell files apart by their ids. Add only one of two copies.
    DuplicateId {
        /// The level.
        level: u32,
        /// The position of the addition or replacement in the edit.
        position: usize,
        /// The fingerprint of the id.
        fingerprint: u64,
    },
    /// The edit adds a file to level 0 without an age: call
    /// [`add_to_level_0`](super::ViewEdit::add_to_level_0) instead.
    NoAge {
        /// The position of the addition in the edit.
        position: usize,
    },
    /// Two files of level 0 would have the same age, so that it is not clear which is newer.
    DuplicateAge {
        /// The age.
        age: u64,
    },
    /// Two files of a level other than 0 would have or delete a key in common, or one would lie within the bounds of
    /// the other. Cut range tombstones where files end: each file gets the part from its smallest key up to but
    /// excluding the smallest key of the next file. Files of
    /// [unknown bounds](super::FilterStore::open_without_description) are compared by the range tombstones in their
    /// descriptions alone.
    Overlap {
        /// The level.
        level: u32,
        /// The largest key of the first file, or the end of its range tombstones if that is above.
        largest: Vec<u8>,
        /// The smallest key that the second file has or deletes.
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
            Self::DuplicateId { level, position, fingerprint } => write!(
                f,
                "edit: expected change {position} to add a file of a new id to level {level}, got {fingerprint:#018x}, \
                 which another file of the view has"
            ),
            Self::NoAge { position } => {
                write!(f, "edit: expected change {position} to add a file to level 0 with an age, got none")
            }
            Self::DuplicateAge { age } => {
                write!(f, "edit: expected files of level 0 to have different ages, got two of age {age}")
            }
            Self::Overlap { level, largest, smallest } => write!(
                f,
                "edit: expected files of level {level} not to overlap, got one up to \"{}\" and one from \"{}\"; cut \
                 range tombstones where files end",
                largest.escape_ascii(),
                smallest.escape_ascii()
            ),
        }
    }
}

impl core::error::Error for ViewError {}

/// The changes of one level: the files that leave, by their addresses, and the added files with their positions in the
/// edit.
pub(crate) type LevelChange<F> = (HashMap<*const F, Leaving<F>>, Vec<(usize, Member<F>)>);

/// The levels of a view before and after an edit.
pub(crate) type Edited<'a, F> = (&'a [Arc<Level<F>>], &'a [Arc<Level<F>>]);

/// A file that leaves a level.
pub(crate) struct Leaving<F> {
    pub(crate) position: usize,
    pub(crate) file: Arc<F>,
    /// The file that takes its place in the order of age, with its position in the edit.
    pub(crate) by: Option<(usize, Member<F>)>,
}

/// The new members of chunks, by the places of these chunks.
type Touched<F> = BTreeMap<ChunkPosition, Vec<Member<F>>>;

/// Whether a chunk is in the order of keys, and its position among these or the loose ones.
type ChunkPosition = (bool, usize);

impl<F> Level<F> {
    pub(crate) fn empty(number: u32) -> Self {
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

    pub(crate) fn has_files(&self) -> bool {
        self.chunks().next().is_some()
    }

    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk<F>>> {
        self.loose.iter().chain(&self.sorted)
    }

    /// Returns the states of the files.
    pub(crate) fn states(&self) -> impl Iterator<Item = &Arc<FileState>> {
        self.chunks().flat_map(|chunk| &chunk.core.files)
    }

    pub(crate) fn stats(&self) -> FileStats {
        self.states().fold(self.left, |sum, file| sum.merged(&file.stats())).since(&self.joined)
    }

    /// Returns the position of the sorted chunk that a file with this smallest key belongs to: the last that does not
    /// begin above it.
    #[inline]
    pub(crate) fn chunk_of(&self, key: &[u8]) -> usize {
        let begins_before = |position: usize| {
            let smallest = self.sorted.get(position).and_then(|chunk| chunk.core.smallest_key());
            smallest.is_some_and(|smallest| smallest <= key)
        };
        self.fences.partition_point(key, begins_before).saturating_sub(1)
    }

    fn find_chunk(&self, file: &Arc<F>) -> Option<ChunkPosition>
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
    pub(crate) fn edited(&self, (leaving, added): &LevelChange<F>, config: &Config) -> Result<Self, ViewError>
    where
        F: AsRef<FileFilters>,
    {
        let level = self.number;
        let mut coming: Vec<_> = leaving.values().filter_map(|leaving| leaving.by.as_ref()).chain(added).collect();
        // The map of leaving files does not keep the order of calls, by which errors name positions.
        coming.sort_by_key(|(position, _)| *position);
        let mut touched = Touched::new();
        for &Leaving { position, ref file, .. } in leaving.values() {
            let place = self.find_chunk(file).ok_or(ViewError::NotAtLevel { level, position })?;
            self.touch(place, &mut touched);
        }
        let (mut left, mut joined, mut seen) = (self.left, self.joined, HashSet::new());
        for &(position, Member { ref file, ref state, .. }) in coming.iter().copied() {
            let is_there = !leaving.contains_key(&Arc::as_ptr(file)) && self.find_chunk(file).is_some();
            if is_there || !seen.insert(Arc::as_ptr(file)) {
                return Err(ViewError::Duplicate { level, position });
            }
            // A file that stays keeps its counts.
            if !leaving.contains_key(&Arc::as_ptr(file)) {
                joined = joined.merged(&state.stats());
            }
        }
        let keys = coming.iter().filter_map(|(_, member)| member.state.metadata.bounds.keys()).flatten();
        // An empty level forgets its prefix, because a prefix can only get shorter.
        let prefix = prefix_of(Some(&self.prefix).filter(|_| self.has_files()), keys);
        for members in touched.values_mut() {
            let stay = |member: Member<F>| match leaving.get(&Arc::as_ptr(&member.file)) {
                None => Some(member),
                Some(leaving) => {
                    if !seen.contains(&Arc::as_ptr(&member.file)) {
                        left = left.merged(&FileStats { overfull: 0, ..member.state.stats() });
                    }
                    // A file that replaces another has its age.
                    leaving.by.as_ref().map(|(_, by)| Member { age: member.age, ..by.clone() })
                }
            };
            *members = core::mem::take(members).into_iter().filter_map(stay).collect();
        }
        for (_, member) in added {
            let place = match member.state.smallest_key().filter(|_| level != OVERLAPPING) {
                Some(smallest) => (true, self.chunk_of(smallest)),
                None => (false, self.loose.partition_point(|chunk| chunk.age(0) > member.age).saturating_sub(1)),
            };
            self.touch(place, &mut touched).push(member.clone());
        }
        for ((is_sorted, _), members) in &mut touched {
            if *is_sorted {
                members.sort_by(|one, other| one.state.smallest_key().cmp(&other.state.smallest_key()));
            } else {
                members.sort_by_key(|member| Reverse(member.age));
            }
        }
        let loose = self.recut(false, &mut touched, &prefix, Some(config))?;
        let sorted = self.recut(true, &mut touched, &prefix, None)?;
        self.check_deleted(&loose, &sorted)?;
        let fences = KeyHeads::new(sorted.iter().map(|chunk| chunk.core.smallest_key()));
        let groups = loose.iter().filter_map(|chunk| chunk.core.group.as_ref());
        let residency = CacheResidency::of_bytes(groups.map(|group| group.filters.bytes()).sum());
        Ok(Self { number: level, loose, sorted, fences, prefix, residency, left, joined })
    }

    fn chunks_of(&self, is_sorted: bool) -> &[Arc<Chunk<F>>] {
        if is_sorted { &self.sorted } else { &self.loose }
    }

    /// Returns the members of the chunk at `place`, to be changed.
    fn touch<'a>(&self, place: ChunkPosition, touched: &'a mut Touched<F>) -> &'a mut Vec<Member<F>> {
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
    ) -> Result<Vec<Arc<Chunk<F>>>, ViewError>
    where
        F: AsRef<FileFilters>,
    {
        let old = self.chunks_of(is_sorted);
        let (mut chunks, mut run) = (Vec::with_capacity(old.len() + 1), Vec::new());
        for (position, chunk) in old.iter().enumerate() {
            match touched.remove(&(is_sorted, position)) {
                Some(members) => run.extend(members),
                None if (1..max_files(!is_sorted) / 2).contains(&run.len()) => run.extend(chunk.members()),
                None => {
                    self.cut_into(&mut chunks, &mut run, Some(chunk), (prefix, config))?;
                    chunks.push(chunk.clone());
                }
            }
        }
        // The first chunk of a level has no old position.
        run.extend(touched.remove(&(is_sorted, old.len())).into_iter().flatten());
        self.cut_into(&mut chunks, &mut run, None, (prefix, config))?;
        Ok(chunks)
    }

    /// Fails if a file whose keys are not known, and which lookups come to first, deletes keys of another one.
    fn check_deleted(&self, loose: &[Arc<Chunk<F>>], sorted: &[Arc<Chunk<F>>]) -> Result<(), ViewError> {
        let all = || loose.iter().chain(sorted).flat_map(|chunk| &chunk.core.files);
        let first = loose.iter().filter(|_| self.number != OVERLAPPING);
        for own in first.flat_map(|chunk| &chunk.core.files) {
            let Some([start, end]) = own.metadata.deleted() else { continue };
            let deleted = KeyRange { lower: Bound::Included(start), upper: Bound::Excluded(end) };
            let overlaps = |file: &&Arc<FileState>| match file.metadata.span() {
                Some(_) => file.overlaps(deleted),
                None => !Arc::ptr_eq(file, own) && file.metadata.deletes_in(deleted),
            };
            if let Some(file) = all().find(overlaps) {
                let smallest = file.metadata.span().map_or(start, |(smallest, _)| smallest).to_vec();
                return Err(ViewError::Overlap { level: self.number, largest: end.to_vec(), smallest });
            }
        }
        Ok(())
    }

    fn check_neighbours(&self, pair: &[&Member<F>], is_sorted: bool) -> Result<(), ViewError> {
        let [one, other] = *pair else { return Ok(()) };
        if !is_sorted {
            let is_same = self.number == OVERLAPPING && one.age == other.age;
            return if is_same { Err(ViewError::DuplicateAge { age: one.age }) } else { Ok(()) };
        }
        let [Some((_, end)), Some((smallest, _))] = [one, other].map(|member| member.state.metadata.span()) else {
            return Ok(());
        };
        match end {
            Bound::Included(largest) | Bound::Excluded(largest)
                if (KeyRange { lower: Bound::Unbounded, upper: end }).contains(smallest) =>
            {
                let (largest, smallest) = (largest.to_vec(), smallest.to_vec());
                Err(ViewError::Overlap { level: self.number, largest, smallest })
            }
            _ => Ok(()),
        }
    }

    /// Appends the members of `run` to `chunks`; `next` follows them. Fails if neighbours at level 0 have the same age,
    /// or neighbours in the order of keys overlap. A file may not begin with the key at which its predecessor ends:
    /// both could contain that key.
    fn cut_into(
        &self,
        chunks: &mut Vec<Arc<Chunk<F>>>,
        run: &mut Vec<Member<F>>,
        next: Option<&Arc<Chunk<F>>>,
        (prefix, config): (&Arc<SharedPrefix>, Option<&Config>),
    ) -> Result<(), ViewError>
    where
        F: AsRef<FileFilters>,
    {
        if run.is_empty() {
            return Ok(());
        }
        // Merged with the chunk before, so that many small edits do not leave many small chunks.
        if run.len() < max_files(config.is_some()) / 2
            && let Some(before) = chunks.pop()
        {
            run.splice(0..0, before.members());
        }
        let before = chunks.last().and_then(|chunk| chunk.members().last());
        let next = next.and_then(|chunk| chunk.members().next());
        let around: Vec<_> = before.iter().chain(&*run).chain(&next).collect();
        around.windows(2).try_for_each(|pair| self.check_neighbours(pair, config.is_none()))?;
        chunks.extend(Chunk::cut(run, prefix, config));
        run.clear();
        Ok(())
    }
}
