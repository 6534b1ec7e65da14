//! The files of a store, and the maps that cover some of them.

use std::sync::Arc;

use sstfilter::{FileId, KeyHash};

use crate::candidates::Candidates;
use crate::index::LocalId;
use crate::map::FileMap;

/// The files of a store at one moment, and the maps that cover some of them.
///
/// This is where the rule of maps is kept: a file is left out of an answer only if a map covers it and says that it
/// lacks the key. A file that no map covers, because it is new or its map could not be loaded, is in every answer:
/// probe its own filter. A map may cover files that the store no longer has. A file that several maps cover is judged
/// by the first of them, even if the page that a lookup needs is damaged there and sound in another one.
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
    maps: Vec<Covering<D>>,
    /// Positions of files that no map covers, ascending.
    uncovered: Vec<usize>,
}

/// A covered file that may have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMatch {
    /// The file at this position.
    File(usize),
    /// Every file that one of the maps covers: the entries of the key are damaged or unknown.
    AnyFile,
}

/// A map, and which of the files it judges.
#[derive(Debug)]
struct Covering<D> {
    map: Arc<FileMap<D>>,
    /// For each local id, the file's position; `None` if the store has no such file, or an earlier map judges it.
    positions: Box<[Option<u32>]>,
}

impl<D: AsRef<[u8]>> MapSet<D> {
    /// Creates the set of `files`, at most 2^32 - 1, in any order.
    #[must_use]
    pub fn new(maps: &[Arc<FileMap<D>>], files: &[FileId]) -> Self {
        let mut covering: Vec<_> = maps
            .iter()
            .map(|map| Covering { map: map.clone(), positions: vec![None; map.index().files().len()].into() })
            .collect();
        let mut cover = |position: usize, file: FileId| {
            let position = u32::try_from(position).ok()?;
            covering.iter_mut().find_map(|covering| {
                let id = covering.map.index().local_id(file)?;
                // A file id that comes twice is judged at its first position; the other one is uncovered.
                let own = covering.positions.get_mut(id.index()).filter(|own| own.is_none())?;
                *own = Some(position);
                Some(())
            })
        };
        let uncovered = files.iter().enumerate().filter(|&(position, &file)| cover(position, file).is_none());
        let uncovered = uncovered.map(|(position, _)| position).collect();
        Self { maps: covering, uncovered }
    }

    /// Replaces the contents of `matches` by the positions of the files that may have a key, ascending.
    pub fn matches(&self, hash: KeyHash, matches: &mut Vec<usize>) {
        matches.clear();
        matches.extend_from_slice(&self.uncovered);
        for covering in &self.maps {
            match covering.map.candidates(hash) {
                Candidates::Only(ids) => matches.extend(ids.filter_map(|id| covering.position(id))),
                Candidates::All => matches.extend(covering.positions.iter().flatten().copied().map(widen)),
            }
        }
        if matches.len() > self.uncovered.len() {
            matches.sort_unstable();
        }
    }

    /// Calls `visit` for each covered file that may have a key. Files that no map covers are not visited.
    #[inline]
    pub fn visit(&self, hash: KeyHash, mut visit: impl FnMut(SetMatch)) {
        for covering in &self.maps {
            covering.visit(covering.map.candidates(hash), &mut visit);
        }
    }

    /// Calls `visit` for each covered file that may have one of the keys, with the position of the key. Faster than
    /// single lookups if the maps do not fit into the cache.
    pub fn visit_each(&self, hashes: &[KeyHash], mut visit: impl FnMut(usize, SetMatch)) {
        for covering in &self.maps {
            covering.map.candidates_each(hashes, |key, found| covering.visit(found, |found| visit(key, found)));
        }
    }

    /// Returns the maps.
    #[must_use]
    pub fn maps(&self) -> impl ExactSizeIterator<Item = &Arc<FileMap<D>>> {
        self.maps.iter().map(|covering| &covering.map)
    }

    /// Returns the position of a covered file.
    #[must_use]
    pub fn position(&self, file: FileId) -> Option<usize> {
        self.maps.iter().find_map(|covering| covering.position(covering.map.index().local_id(file)?))
    }

    /// Returns the positions of files that no map covers, ascending.
    #[must_use]
    pub fn uncovered(&self) -> &[usize] {
        &self.uncovered
    }
}

impl<D: AsRef<[u8]>> Covering<D> {
    #[inline]
    fn position(&self, id: LocalId) -> Option<usize> {
        self.positions.get(id.index()).copied().flatten().map(widen)
    }

    #[inline]
    fn visit(&self, found: Candidates<'_>, mut visit: impl FnMut(SetMatch)) {
        match found {
            Candidates::Only(ids) => {
                ids.filter_map(|id| self.position(id)).for_each(|file| visit(SetMatch::File(file)));
            }
            Candidates::All => visit(SetMatch::AnyFile),
        }
    }
}

const fn widen(position: u32) -> usize {
    position as usize
}
