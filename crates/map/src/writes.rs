//! Write ids: which flushes wrote an entry of a key, for stores whose compactions rewrite files many times.
//!
//! A map of files must add an entry again whenever a compaction moves it to another file. A map of writes names the
//! flush that wrote the entry, which no compaction changes. Each file states the flushes that wrote its own entries, as
//! an interval, and is skipped if the key was written by none of them.

use std::sync::Arc;

use sstfilter::KeyHash;

use crate::candidates::Candidates;
use crate::map::FileMap;

/// Bits of a counter.
const COUNTER_BITS: u32 = 40;

/// The number of a flush: the writer's epoch, and a counter within it.
///
/// A number must never be given to two flushes. The writer that repeats a flush after a crash would give the lost one's
/// number to other keys, and a map of the lost one would lose them. So the epoch is part of the number: take a new one,
/// and make it durable, each time the store is opened for writing, and for each clone of the store.
///
/// The counter may count flushes, or be the sequence number of an entry: a flush then writes an interval of numbers.
///
/// ```
/// use sstfilter_map::WriteId;
///
/// let lost = WriteId::new(1, 17).expect("a small number");
/// let repeated = WriteId::new(2, 17).expect("a small number");
/// assert!(lost < repeated);
/// assert_eq!(WriteId::from_stored(lost.get()), lost);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(u64);

impl WriteId {
    /// The least number.
    pub const MIN: Self = Self(0);

    /// The greatest number.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns a number of an epoch below 2^24 and a counter below 2^40, or `None`.
    #[must_use]
    pub const fn new(epoch: u32, counter: u64) -> Option<Self> {
        let fits = epoch >> (64 - COUNTER_BITS) == 0 && counter >> COUNTER_BITS == 0;
        if fits { Some(Self((epoch as u64) << COUNTER_BITS | counter)) } else { None }
    }

    /// Returns a number that was stored as [`get`](Self::get) returned it.
    #[must_use]
    pub const fn from_stored(stored: u64) -> Self {
        Self(stored)
    }

    /// Returns the number as it is stored.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the epoch of the writer.
    #[must_use]
    pub const fn epoch(self) -> u32 {
        (self.0 >> COUNTER_BITS) as u32
    }

    /// Returns the least number above this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// An interval of write ids, with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writes {
    first: WriteId,
    last: WriteId,
}

impl Writes {
    /// All write ids.
    pub const ALL: Self = Self { first: WriteId::MIN, last: WriteId::MAX };

    /// Returns the interval of one number.
    #[must_use]
    pub const fn of(id: WriteId) -> Self {
        Self { first: id, last: id }
    }

    /// Returns the interval from `first` to `last`; `None` if `last` is below `first`.
    #[must_use]
    pub fn new(first: WriteId, last: WriteId) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// Returns the least number.
    #[must_use]
    pub const fn first(self) -> WriteId {
        self.first
    }

    /// Returns the greatest number.
    #[must_use]
    pub const fn last(self) -> WriteId {
        self.last
    }

    /// Returns the least interval that includes both.
    #[must_use]
    pub fn including(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// Returns whether the intervals have a number in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Sorts intervals, and unites those that overlap. Then unites neighbours without a gap, if both are below `floor`.
pub(crate) fn unite(mut all: Vec<Writes>, floor: WriteId) -> Vec<Writes> {
    all.sort_unstable_by_key(|writes| writes.first);
    let unite_if = |all: Vec<Writes>, is_one: &dyn Fn(Writes, Writes) -> bool| {
        let mut united = Vec::<Writes>::new();
        for writes in all {
            match united.last_mut() {
                Some(before) if is_one(*before, writes) => *before = before.including(writes),
                _ => united.push(writes),
            }
        }
        united
    };
    let apart = unite_if(all, &Writes::overlaps);
    // The gap between two intervals may be a flush that no map covers.
    unite_if(apart, &|before, writes| before.last.next() == writes.first && writes.last < floor)
}

/// Returns the position of the interval that includes `writes`, of intervals that ascend and do not overlap.
pub(crate) fn position_of(writes: Writes, all: &[Writes]) -> Option<usize> {
    let position = all.partition_point(|other| other.first <= writes.first).checked_sub(1)?;
    all.get(position).filter(|other| writes.last <= other.last).map(|_| position)
}

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

    fn add(&mut self, found: Candidates<'_>, writes: &[Writes]) {
        match found {
            Candidates::Only(ids) => self.candidates.extend(ids.filter_map(|id| writes.get(id.index()))),
            Candidates::All => self.is_unknown = true,
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

    /// Returns which writes may have each of the keys. Faster than single lookups if the maps do not fit into the cache.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(first: u64, last: u64) -> Writes {
        Writes::new(WriteId(first), WriteId(last)).unwrap()
    }

    #[test]
    fn a_number_keeps_its_epoch_above_its_counter() {
        let id = |epoch, counter| WriteId::new(epoch, counter).map(WriteId::get);
        assert_eq!([id(0, 0), id(1, 2)], [Some(0), Some((1 << 40) + 2)]);
        assert_eq!([id(1 << 24, 0), id(0, 1 << 40)], [None; 2]);
        assert_eq!(WriteId::new((1 << 24) - 1, (1 << 40) - 1), Some(WriteId::MAX));
        assert_eq!((WriteId::MAX.next(), WriteId::MAX.epoch()), (WriteId::MAX, (1 << 24) - 1));
    }

    #[test]
    fn intervals_are_united_if_they_overlap_or_are_neighbours_below_the_floor() {
        let unite = |all: &[(u64, u64)], floor| {
            let united = unite(all.iter().map(|&(first, last)| writes(first, last)).collect(), WriteId(floor));
            united.iter().map(|writes| (writes.first.0, writes.last.0)).collect::<Vec<_>>()
        };
        assert_eq!(unite(&[], 9), []);
        assert_eq!(unite(&[(4, 6), (1, 3)], 0), [(1, 3), (4, 6)]);
        assert_eq!(unite(&[(4, 6), (1, 3), (7, 9)], 7), [(1, 6), (7, 9)]);
        assert_eq!(unite(&[(4, 6), (1, 3), (7, 9)], 9), [(1, 6), (7, 9)]);
        assert_eq!(unite(&[(4, 6), (1, 3), (7, 9)], 10), [(1, 9)]);
        // A write that no map covers.
        assert_eq!(unite(&[(1, 3), (5, 6)], 10), [(1, 3), (5, 6)]);
        assert_eq!(unite(&[(1, 8), (2, 3), (8, 12), (13, 13)], 13), [(1, 12), (13, 13)]);
        assert_eq!(unite(&[(0, u64::MAX), (3, 3)], 0), [(0, u64::MAX)]);
    }

    #[test]
    fn an_interval_is_covered_only_as_a_whole() {
        let all = [writes(2, 4), writes(6, 6)];
        let position = |first, last| position_of(writes(first, last), &all);
        assert_eq!([position(2, 4), position(3, 3), position(6, 6)], [Some(0), Some(0), Some(1)]);
        assert_eq!([position(1, 2), position(4, 5), position(4, 6), position(5, 5), position(7, 9)], [None; 5]);
        assert_eq!(position_of(Writes::ALL, &all), None);
    }
}
