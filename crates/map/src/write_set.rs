//! Maps of writes, and the rule by which a file is skipped.

use std::sync::Arc;

use sstfilter::KeyHash;

use crate::answer::MapAnswer;
use crate::map::FileMap;
use crate::writes::{WriteId, Writes, position_of, unite};

/// Maps of writes, and what they say together.
///
/// This is where the rule of write ids is kept: a file may be skipped only if maps cover its whole interval, and none
/// of the flushes in it wrote the key. Maps may overlap, be older or newer than the files, or be the same one twice.
/// Maps of files among them cover no write.
///
/// ```
/// use std::sync::Arc;
///
/// use sstfilter::{FalsePositiveRate, FileId, Filters};
/// use sstfilter_map::{FileMap, MapBuilder, MapOptions, WriteId, WriteSet, Writes};
///
/// let (filters, options) = (Filters::default(), MapOptions::for_entries(1_000_000, FalsePositiveRate::ONE_PERCENT)?);
/// let write = |number| Writes::of(WriteId::new(1, number).expect("a small number"));
/// // Two flushes have written their maps, and a third one has not.
/// let (map, mut bytes) = (FileId::random(), Vec::new());
/// let mut builder = MapBuilder::new(&filters, options);
/// builder.add_writes(write(1), vec![filters.hash(b"apple")]);
/// builder.add_writes(write(2), vec![filters.hash(b"plum")]);
/// builder.finish(map, &mut bytes)?;
///
/// let set = WriteSet::new(&[Arc::new(FileMap::load(bytes, &filters, map)?)]);
/// let apple = set.of(filters.hash(b"apple"));
/// assert!(apple.may_be_in(write(1)));
/// assert!(!apple.may_be_in(write(2)));
/// assert!(apple.may_be_in(write(3))); // not covered
/// assert!(apple.may_be_in(write(2).including(write(3))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WriteSet<D> {
    /// The oldest first.
    maps: Vec<Arc<FileMap<D>>>,
    /// What they cover together, ascending, with a gap between any two.
    covered: Box<[Writes]>,
}

/// Which writes may have a key.
#[derive(Clone, Debug)]
#[must_use = "a file may be skipped only if the key was written by none of the flushes of its entries"]
pub struct KeyWrites<'a> {
    covered: &'a [Writes],
    candidates: Vec<Writes>,
    is_unknown: bool,
}

impl KeyWrites<'_> {
    /// Returns whether a file with entries of these writes may have the key: one of them may have written it, one of
    /// them is not covered, or the key's entries in a map are damaged.
    #[must_use]
    pub fn may_be_in(&self, writes: Writes) -> bool {
        self.is_unknown
            || self.candidates.iter().any(|candidate| candidate.overlaps(writes))
            || position_of(writes, self.covered).is_none()
    }

    /// Returns whether entries of the key are damaged, so that every write may have it.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    fn add(&mut self, found: MapAnswer<'_>, writes: &[Writes]) {
        match found {
            MapAnswer::Only(ids) => self.candidates.extend(ids.filter_map(|id| writes.get(id.index()))),
            MapAnswer::All => self.is_unknown = true,
        }
    }
}

impl<D: AsRef<[u8]>> WriteSet<D> {
    /// Creates the set of these maps, in any order.
    #[must_use]
    pub fn new(maps: &[Arc<FileMap<D>>]) -> Self {
        let mut maps: Vec<_> = maps.iter().filter(|map| !map.index().writes().is_empty()).cloned().collect();
        maps.sort_by_key(|map| map.index().writes().first().map(|writes| (writes.first, writes.last)));
        let covered = maps.iter().flat_map(|map| map.index().writes()).copied().collect();
        Self { maps, covered: unite(covered, WriteId::MAX).into() }
    }

    /// Returns which writes may have a key.
    pub fn of(&self, hash: KeyHash) -> KeyWrites<'_> {
        let mut found = self.of_none();
        for map in &self.maps {
            found.add(map.candidates(hash), map.index().writes());
        }
        found
    }

    /// Returns which writes may have each of the keys. Faster than single lookups if the maps do not fit into the
    /// cache.
    #[must_use]
    pub fn of_each(&self, hashes: &[KeyHash]) -> Vec<KeyWrites<'_>> {
        let mut all = vec![self.of_none(); hashes.len()];
        for map in &self.maps {
            map.candidates_each(hashes, |position, found| {
                if let Some(own) = all.get_mut(position) {
                    own.add(found, map.index().writes());
                }
            });
        }
        all
    }

    const fn of_none(&self) -> KeyWrites<'_> {
        KeyWrites { covered: &self.covered, candidates: Vec::new(), is_unknown: false }
    }

    /// Returns the maps, in the order of their first writes.
    #[must_use]
    pub fn maps(&self) -> &[Arc<FileMap<D>>] {
        &self.maps
    }

    /// Returns what the maps cover together, ascending, with a gap between any two.
    #[must_use]
    pub fn covered(&self) -> &[Writes] {
        &self.covered
    }

    /// Returns whether maps cover all of these writes.
    #[must_use]
    pub fn covers(&self, writes: Writes) -> bool {
        position_of(writes, &self.covered).is_some()
    }
}
