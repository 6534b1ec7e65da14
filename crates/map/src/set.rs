//! The files of a store, and the maps that cover some of them.

use core::ops::Deref;
use std::sync::Arc;

use sstfilter::{FileId, KeyHash};

use crate::answer::MapAnswer;
use crate::error::MapError;
use crate::index::{LocalId, MapIndex};
use crate::map::FileMap;

/// The files of a store at one moment, and the maps that cover some of them.
///
/// A file is left out of an answer only if a map covers it and says that it lacks the key: the rule of [`Coverage`]. A
/// file that no map covers, because it is new or its map could not be loaded, is in every answer: probe its own filter.
///
/// ```
/// use std::sync::Arc;
///
/// use sstfilter::{FalsePositiveRate, FileId, Filters};
/// use sstfilter_map::{FileMap, MapBuilder, MapOptions, MapSet};
///
/// let (filters, options) = (Filters::default(), MapOptions::for_entries(1_000_000, FalsePositiveRate::ONE_PERCENT)?);
/// let (old, new, map) = (FileId::random(), FileId::random(), FileId::random());
/// let mut builder = MapBuilder::new(&filters, options);
/// builder.add_file(old, vec![filters.hash(b"apple"), filters.hash(b"plum")]);
/// let mut bytes = Vec::new();
/// builder.finish(map, &mut bytes)?;
///
/// // The new file was written after the map.
/// let maps = [Arc::new(FileMap::load(bytes, &filters, map)?)];
/// let set = MapSet::new(&maps, &[new, old]);
/// let mut matches = Vec::new();
/// set.matches(filters.hash(b"apple"), &mut matches);
/// assert_eq!(matches, [0, 1]);
/// set.matches(filters.hash(b"quince"), &mut matches);
/// assert_eq!(matches, [0]); // the map says nothing of the new file
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MapSet<D> {
    coverage: Coverage<Loaded<D>>,
}

/// A covered file that may have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMatch {
    /// The file at this position.
    File(usize),
    /// Every file that one of the maps covers: the entries of the key are damaged or unknown.
    AnyFile,
}

/// A map in memory.
#[derive(Debug)]
struct Loaded<D>(Arc<FileMap<D>>);

impl<D: AsRef<[u8]>> Deref for Loaded<D> {
    type Target = MapIndex;

    fn deref(&self) -> &MapIndex {
        self.0.index()
    }
}

impl<D: AsRef<[u8]>> MapSet<D> {
    /// Creates the set of `files`, at most 2^32 - 1, in any order.
    #[must_use]
    pub fn new(maps: &[Arc<FileMap<D>>], files: &[FileId]) -> Self {
        Self { coverage: Coverage::new(maps.iter().cloned().map(Loaded), files) }
    }

    /// Replaces the contents of `matches` by the positions of the files that may have a key, ascending.
    pub fn matches(&self, hash: KeyHash, matches: &mut Vec<usize>) {
        matches.clear();
        matches.extend_from_slice(self.uncovered());
        for judge in &self.coverage.judges {
            judge.visit(judge.map.0.candidates(hash), |found| match found {
                SetMatch::File(position) => matches.push(position),
                SetMatch::AnyFile => matches.extend(judge.positions()),
            });
        }
        if matches.len() > self.uncovered().len() {
            matches.sort_unstable();
        }
    }

    /// Returns the positions of files that no map covers, ascending.
    #[must_use]
    pub fn uncovered(&self) -> &[usize] {
        self.coverage.uncovered()
    }

    /// Returns an error for each file that maps contradict each other about. No map covers it.
    #[must_use]
    pub fn contradictions(&self) -> &[MapError] {
        self.coverage.contradictions()
    }
}

/// Maps, and which of the files of a store each of them judges. [`MapSet`] is one for maps in memory. Use this for maps
/// on disk or in an object store, with `&MapIndex` or `Arc<MapIndex>` for `M`.
///
/// This is where the rule of maps is kept: **a file may be skipped only if one of the maps covers it, and says that it
/// lacks the key.** A map may cover files that the store no longer has. A file that several maps cover is judged by the
/// first, even if the page that a lookup needs is damaged there and sound in another one. But if two maps record
/// numbers of entries of it that one file cannot have, one of them is of another file with this id, and neither [covers
/// it](Self::contradictions). For each key, search
///
/// - the files that no map covers: [`uncovered`](Self::uncovered);
/// - of each map, the files that [`MapJudge::visit`] visits for its answer, which [`Lookups`](crate::Lookups) find.
#[derive(Debug)]
pub struct Coverage<M> {
    judges: Vec<MapJudge<M>>,
    /// Positions of files that no map covers, ascending.
    uncovered: Vec<usize>,
    contradictions: Vec<MapError>,
}

/// A map, and the files that it judges.
#[derive(Debug)]
pub struct MapJudge<M> {
    map: M,
    /// For each local id, the file's position; `None` if the store has no such file, or an earlier map judges it.
    positions: Box<[Option<u32>]>,
}

impl<M: Deref<Target = MapIndex>> Coverage<M> {
    /// Divides `files`, at most 2^32 - 1, in any order, among the maps that cover them.
    #[must_use]
    pub fn new(maps: impl IntoIterator<Item = M>, files: &[FileId]) -> Self {
        let new = |map: M| MapJudge { positions: vec![None; map.files().len()].into(), map };
        let mut judges: Vec<_> = maps.into_iter().map(new).collect();
        let mut contradictions = Vec::new();
        let mut cover = |position: usize, file: FileId| {
            let position = u32::try_from(position).ok()?;
            if let Some(contradiction) = contradiction(&judges, file) {
                contradictions.push(contradiction);
                return None;
            }
            judges.iter_mut().find_map(|judge| {
                let id = judge.map.local_id(file)?;
                // A file id that comes twice is judged at its first position; the other one is uncovered.
                let own = judge.positions.get_mut(id.index()).filter(|own| own.is_none())?;
                *own = Some(position);
                Some(())
            })
        };
        let uncovered = files.iter().enumerate().filter(|&(position, &file)| cover(position, file).is_none());
        let uncovered = uncovered.map(|(position, _)| position).collect();
        Self { judges, uncovered, contradictions }
    }

    /// Returns the maps, in the order in which they were passed.
    #[must_use]
    pub fn judges(&self) -> &[MapJudge<M>] {
        &self.judges
    }

    /// Returns the position of a covered file.
    #[must_use]
    pub fn position(&self, file: FileId) -> Option<usize> {
        self.judges.iter().find_map(|judge| judge.position(judge.map.local_id(file)?))
    }

    /// Returns the positions of files that no map covers, ascending. Every answer must have them.
    #[must_use]
    pub fn uncovered(&self) -> &[usize] {
        &self.uncovered
    }

    /// Returns an error for each file that maps contradict each other about. It is [uncovered](Self::uncovered).
    #[must_use]
    pub fn contradictions(&self) -> &[MapError] {
        &self.contradictions
    }
}

impl<M: Deref<Target = MapIndex>> MapJudge<M> {
    /// Returns the map.
    #[must_use]
    pub const fn map(&self) -> &M {
        &self.map
    }

    /// Returns the positions of all files that the map judges, in no order. A lookup that cannot read the map must
    /// search all of them.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.positions.iter().flatten().copied().map(widen)
    }

    #[inline]
    fn position(&self, id: LocalId) -> Option<usize> {
        self.positions.get(id.index()).copied().flatten().map(widen)
    }

    /// Calls `visit` for each file that may have a key, of those that the map judges. `found` is the map's answer.
    #[inline]
    pub fn visit(&self, found: MapAnswer<'_>, mut visit: impl FnMut(SetMatch)) {
        match found {
            MapAnswer::Only(ids) => {
                ids.filter_map(|id| self.position(id)).for_each(|file| visit(SetMatch::File(file)));
            }
            MapAnswer::All => visit(SetMatch::AnyFile),
        }
    }
}

/// Returns how two of the maps contradict each other about a file.
fn contradiction<M: Deref<Target = MapIndex>>(judges: &[MapJudge<M>], file: FileId) -> Option<MapError> {
    let mut covering = judges.iter().filter(|judge| judge.map.local_id(file).is_some());
    core::iter::from_fn(|| covering.next().map(|first| (first, covering.clone())))
        .find_map(|(first, mut later)| later.find_map(|judge| judge.map.contradiction(&first.map, file)))
}

const fn widen(position: u32) -> usize {
    position as usize
}
