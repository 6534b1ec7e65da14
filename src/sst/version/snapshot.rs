//! The tables of a store at one time.

use core::cell::OnceCell;
use core::{fmt, slice};
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::VersionError;
use super::chunk::{Chunk, FiltersTogether};
use super::level::{Level, LevelChange};
use crate::block::{GROUP, bits_of, first_bits};
use crate::error::BlockError;
use crate::hash::KeyHash;
use crate::range::KeyRange;
use crate::sst::grouped_filters::Tables;
use crate::sst::key_bounds::KeyBounds;
use crate::sst::range_filter::RangeFilters;
use crate::sst::table::FoundBlock;
use crate::sst::table_filter::Answer;
use crate::sst::{Lookup, RangeScan, Table, TableError, TableStats};
use crate::store::reader::Reader;

/// The tables of a store at one time, in levels. It never changes; see [`VersionSet`](super::VersionSet).
///
/// A lookup hashes its key once and goes through the tables that have the key in their range, from the newest to the
/// oldest: those of level 0, then at most one of each further level. It ends at the first that has an entry for the
/// key; a tombstone is an entry. Tables out of range are neither touched nor counted. Everything else is counted by the
/// tables, each for all versions that have it.
#[derive(Default)]
pub struct Version {
    /// Those that have tables, by their numbers.
    levels: Vec<Arc<Level>>,
    /// What makes probes for all tables.
    reader: Reader,
    /// Why no filter is used, if none is.
    problem: Option<BlockError>,
}

impl Version {
    /// The newest value of `key`; `None` when no table has it, or the newest entry is a tombstone.
    ///
    /// # Errors
    ///
    /// Damage or a failed read in a table that might hold the key: older tables are then not searched, for
    /// their answer might be outdated.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, TableError> {
        let probe = KeyProbe::new(self, key);
        for level in &self.levels {
            let lookup = if level.is_overlapping() {
                level
                    .chunks()
                    .iter()
                    .map(|chunk| probe.search(chunk))
                    .find(|lookup| !matches!(lookup, Ok(Lookup::Absent)))
            } else {
                level.find(key).map(|table| table.get_after(&probe.probe(table), key, FoundBlock::NotSought))
            };
            match lookup.transpose()? {
                Some(Lookup::Found(value)) => return Ok(Some(value)),
                Some(Lookup::Deleted) => return Ok(None),
                Some(Lookup::Absent) | None => {}
            }
        }
        Ok(None)
    }

    /// The tables that may hold `key`, with their levels, the newest first, by their ranges and filters alone: those
    /// that a lookup may have to search. Nothing is read, and nothing counted, as far as that is so for
    /// [`Table::may_contain_key`].
    ///
    /// This is for a whole key. Tables that hold only longer keys, of which it is a prefix, may be left out:
    /// [`matches_prefix`](Self::matches_prefix) finds those.
    pub fn matches<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = (u32, &'a Arc<Table>)> {
        let holding = |level: &'a Arc<Level>| level.holding(key).map(move |table| (level.number(), table));
        let holding = self.levels.iter().flat_map(holding);
        holding.filter(move |(_, table)| self.problem.is_some() || table.may_contain_key(key))
    }

    /// The tables that may hold a key with this prefix, with their levels, the newest level first, by their ranges and
    /// filters alone: those that a scan of the prefix has to walk. Nothing is read, and nothing counted, as far as that
    /// is so for [`Table::may_contain_prefix`].
    ///
    /// Filters are probed only where they hold parts of keys, and range filters for the range of these keys.
    pub fn matches_prefix<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (u32, &'a Arc<Table>)> {
        let meeting = self.meeting(KeyBounds::of_prefix(prefix));
        meeting.filter(move |(_, table)| self.problem.is_some() || table.may_contain_prefix(prefix))
    }

    /// The keys that begin with `prefix`, in order, each with its newest value. Deleted keys are left out, and tables
    /// are skipped as by [`matches_prefix`](Self::matches_prefix). A scan counts the blocks that it reads, and no
    /// lookups; probes of range filters, and of filters in partitions or under a budget, are counted.
    #[must_use]
    pub fn scan_prefix(&self, prefix: &[u8]) -> RangeScan<'_> {
        let bounds = KeyBounds::of_prefix(prefix);
        let meeting = self.meeting(bounds.clone());
        let holding = meeting.filter(|(_, table)| self.problem.is_some() || table.may_contain_parts_of(prefix));
        RangeScan::new(holding.map(|(_, table)| table.as_ref()), bounds, self.range_filters())
    }

    /// The tables that may hold a key in `range`, with their levels, the newest level first, by their smallest and
    /// largest keys and their range filters alone: those that a scan of the range has to walk. Nothing is read, and
    /// nothing counted.
    ///
    /// ```
    /// use sstfilter::sst::Version;
    ///
    /// assert_eq!(Version::default().matches_range(b"a"..b"b").count(), 0);
    /// ```
    pub fn matches_range<'a>(&'a self, range: impl Into<KeyRange<'a>>) -> impl Iterator<Item = (u32, &'a Arc<Table>)> {
        let range = range.into();
        let meeting = self.meeting(KeyBounds::new(range));
        meeting.filter(move |(_, table)| self.problem.is_some() || table.may_hold(range))
    }

    /// The keys in `range`, in order, each with its newest value. Deleted keys are left out, and tables are skipped and
    /// read as by [`TableSet::range`](crate::sst::TableSet::range).
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions, VersionEdit, VersionSet};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// (0..100_u8).try_for_each(|key| builder.add(&[key], b"value"))?;
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    ///
    /// let set = VersionSet::new();
    /// let version = set.apply(VersionEdit::default().add(1, Arc::new(table)))?;
    /// assert_eq!(version.range(&[20]..&[30]).count(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<'a>(&self, range: impl Into<KeyRange<'a>>) -> RangeScan<'_> {
        let bounds = KeyBounds::new(range.into());
        let meeting = self.meeting(bounds.clone());
        RangeScan::new(meeting.map(|(_, table)| table.as_ref()), bounds, self.range_filters())
    }

    /// The tables whose smallest and largest keys do not rule out one within `bounds`, with their levels. At most one
    /// table of a sorted level has a certain key, so the order of its tables does not matter.
    fn meeting(&self, bounds: KeyBounds) -> impl Iterator<Item = (u32, &Arc<Table>)> {
        self.levels
            .iter()
            .flat_map(move |level| level.meeting(bounds.clone()).map(move |table| (level.number(), table)))
    }

    fn range_filters(&self) -> RangeFilters {
        if self.problem.is_some() { RangeFilters::NotProbed } else { RangeFilters::Probed }
    }

    /// The numbers of the levels that have tables, ascending.
    pub fn levels(&self) -> impl Iterator<Item = u32> {
        self.levels.iter().map(|level| level.number())
    }

    /// The tables of a level: at level 0 from the newest to the oldest, at every other in the order of their keys,
    /// after those without entries.
    pub fn tables(&self, level: u32) -> impl Iterator<Item = &Arc<Table>> {
        self.level(level).into_iter().flat_map(|level| level.tables())
    }

    /// What the tables have counted, in all versions that have them, since each was opened.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        self.all_tables().fold(TableStats::default(), |sum, table| sum.merged(&table.stats()))
    }

    /// Why no filter of the version is used, if none is: see [`VersionSet::apply`](super::VersionSet::apply).
    #[must_use]
    pub fn filter_problem(&self) -> Option<&BlockError> {
        self.problem.as_ref()
    }

    pub(super) fn all_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.levels.iter().flat_map(|level| level.tables())
    }

    pub(super) fn each_level(&self) -> &[Arc<Level>] {
        &self.levels
    }

    fn level(&self, number: u32) -> Option<&Arc<Level>> {
        let position = self.levels.binary_search_by_key(&number, |level| level.number()).ok()?;
        self.levels.get(position)
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The version after changes of the levels, read with `reader`; without filters if there is a problem.
    pub(super) fn edited(
        &self,
        changes: BTreeMap<u32, LevelChange>,
        reader: Reader,
        problem: Option<BlockError>,
    ) -> Result<Self, VersionError> {
        let mut levels: BTreeMap<u32, Arc<Level>> =
            self.levels.iter().map(|level| (level.number(), level.clone())).collect();
        for (number, change) in changes {
            let level = levels.entry(number).or_insert_with(|| Arc::new(Level::empty(number)));
            *level = Arc::new(level.edited(change)?);
        }
        let levels = levels.into_values().filter(|level| !level.is_empty()).collect();
        Ok(Self { levels, reader, problem })
    }
}

/// Probes for one key in tables of a version. The whole key is hashed when the first filter is probed for it.
pub(super) struct KeyProbe<'a> {
    version: &'a Version,
    pub(super) key: &'a [u8],
    hash: OnceCell<KeyHash>,
}

impl<'a> KeyProbe<'a> {
    pub(super) fn new(version: &'a Version, key: &'a [u8]) -> Self {
        Self { version, key, hash: OnceCell::new() }
    }

    /// Probes the filter of a table that has the key in its range, and counts the answer.
    #[inline]
    pub(super) fn probe(&self, table: &Table) -> Answer {
        if self.version.problem.is_some() {
            return Answer::NotProbed;
        }
        table.probe(self.key, || self.hash_for(table))
    }

    /// Prefetches what [`probe`](Self::probe) reads.
    #[inline]
    pub(super) fn prefetch(&self, table: &Table) {
        if self.version.problem.is_none() {
            table.prefetch_filter(|| self.hash_for(table));
        }
    }

    /// Searches the tables of an overlapping chunk, the newest first, until one has an entry.
    fn search(&self, chunk: &Chunk) -> Result<Lookup, TableError> {
        let (mut tables, hash) = self.in_range(chunk);
        if let Some((hash, together)) = hash.zip(chunk.together()) {
            together.filters.probe_batch(&[Some(hash)], slice::from_mut(&mut tables));
        }
        for bit in bits_of(tables.candidates) {
            let Some(table) = chunk.tables().get(bit) else { break };
            let lookup = table.get_after(&self.probe_candidate(chunk, bit, table), self.key, FoundBlock::NotSought);
            if !matches!(lookup, Ok(Lookup::Absent)) {
                count_negatives(chunk, tables, Some(bit));
                return lookup;
            }
        }
        count_negatives(chunk, tables, None);
        Ok(Lookup::Absent)
    }

    /// The tables of an overlapping chunk that have the key in their range, and which of them remain candidates without
    /// a probe for the hash that is returned.
    pub(super) fn in_range(&self, chunk: &Chunk) -> (Tables, Option<KeyHash>) {
        let in_range = chunk.in_range(self.key);
        let all = Tables { in_range, candidates: in_range };
        let Some(FiltersTogether { reader, filters }) = chunk.together() else { return (all, None) };
        if in_range == 0 || self.version.problem.is_some() {
            return (all, None);
        }
        match filters.one_part() {
            Some(parts) if parts.has_whole_keys() => (all, Some(self.hash_by(reader))),
            Some(parts) => (all, reader.point_hashes(parts, self.key).next()),
            None => (Tables { in_range, candidates: filters.by_parts(0, in_range, reader, self.key) }, None),
        }
    }

    /// Probes the filter of a candidate in an overlapping chunk, unless that has been done, and counts the answer.
    pub(super) fn probe_candidate(&self, chunk: &Chunk, bit: usize, table: &Table) -> Answer {
        let is_alone = chunk.together().is_some_and(|together| together.filters.alone(0) >> bit & 1 == 1);
        match self.version.problem {
            Some(_) => Answer::NotProbed,
            None if is_alone => self.probe(table),
            None => table.probe_candidate(self.key),
        }
    }

    #[inline]
    fn hash_for(&self, table: &Table) -> KeyHash {
        self.hash_by(&table.reader)
    }

    /// A filter's own hasher is the one that it was checked with. Hashers of one identity may differ.
    #[inline]
    fn hash_by(&self, reader: &Reader) -> KeyHash {
        let hasher = &self.version.reader.hasher;
        if !reader.hasher.has_same_identity(hasher) {
            return reader.hasher.hash(self.key);
        }
        *self.hash.get_or_init(|| hasher.hash(self.key))
    }
}

/// Counts the filters of an overlapping chunk that were probed together and lacked the key of a lookup, which ended at
/// the table at a bit, or at none: of older tables nothing is counted.
pub(super) fn count_negatives(chunk: &Chunk, tables: Tables, ended: Option<usize>) {
    let considered = first_bits(ended.unwrap_or(GROUP));
    for bit in bits_of(tables.in_range & !tables.candidates & considered) {
        if let Some(table) = chunk.tables().get(bit) {
            table.count_negative();
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids =
            |level: &Arc<Level>| (level.number(), level.tables().map(|table| *table.table_id()).collect::<Vec<_>>());
        f.debug_struct("Version")
            .field("tables", &self.levels.iter().map(ids).collect::<BTreeMap<_, _>>())
            .field("reader", &self.reader)
            .field("problem", &self.problem)
            .finish()
    }
}
