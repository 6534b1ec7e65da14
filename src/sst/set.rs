//! Many tables, one key.
//!
//! A lookup takes the tables in groups of 64. For a group it computes which tables have the key in their range, and
//! which of those have a filter that may contain it, each as the bits of one word and without touching a table. It then
//! searches the remaining tables from the newest to the oldest. A batch of keys is searched step by step, so that the
//! cache misses of one key overlap with those of the others.

use core::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::batch::{BlockSearch, BlocksRead};
use super::grouped_filters::{GroupedFilters, LazyProbe, Tables};
use super::heads::{InRange, KeyRanges};
use super::key_bounds::KeyBounds;
use super::range_filter::RangeFilters;
use super::table::FoundBlock;
use super::{Lookup, RangeScan, ReadOptions, Table, TableError, TableSetStats, TableStats};
use crate::block::{GROUP, MatchBitmap, MatchMatrix, bits_of, first_bits};
use crate::hash::KeyHash;
use crate::range::KeyRange;
use crate::stats::{CountedBySet, SharedCounter, StripedCounters, ThreadCounters};
use crate::store::reader::Reader;

/// Tables from the newest to the oldest, read as one store.
///
/// A lookup hashes its key once and goes from table to table, by range and filter, until the newest one that has an
/// entry for the key; a tombstone is an entry. A table whose filter was built with another hash than the set's is
/// searched without it.
///
/// ```
/// use bytes::Bytes;
/// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableError, TableOptions, TableSet};
///
/// let table = |entries: &[(&[u8], Option<&[u8]>)]| -> Result<Table, TableError> {
///     let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
///     for (key, value) in entries {
///         match value {
///             Some(value) => builder.add(key, value)?,
///             None => builder.delete(key)?,
///         }
///     }
///     Table::open_source(Bytes::from(builder.finish()?.0), &ReadOptions::default())
/// };
/// let old = table(&[(b"a", Some(b"1")), (b"b", Some(b"2")), (b"c", Some(b"3"))])?;
/// let new = table(&[(b"a", Some(b"4")), (b"b", None)])?;
///
/// let set = TableSet::new(vec![new, old])?;
/// assert_eq!(set.get(b"a")?, Some(Bytes::from_static(b"4")));
/// assert_eq!(set.get(b"b")?, None);
/// assert_eq!(set.get(b"c")?, Some(Bytes::from_static(b"3")));
/// # Ok::<(), TableError>(())
/// ```
pub struct TableSet {
    tables: Vec<Table>,
    /// The hasher and extractors that all filters are probed with.
    reader: Arc<Reader>,
    ranges: KeyRanges,
    filters: GroupedFilters,
    /// See [`counter`].
    counters: Arc<StripedCounters>,
}

/// Where a set's counters are.
///
/// Negatives have none: a lookup of an absent key has one for nearly every table, and counting each took a sixth of the
/// lookup. They are what remains of the lookups that came to a table.
mod counter {
    pub(super) const LOOKUPS: usize = 0;

    /// Lookups for which the table at `position` was skipped by its range.
    pub(super) const fn range_skips(position: usize) -> usize {
        1 + position
    }

    /// Lookups that searched the table at `position`, in a set of `tables`.
    pub(super) const fn touched(tables: usize, position: usize) -> usize {
        1 + tables + position
    }

    /// Lookups that ended at the table at `position`, by a hit or an error.
    pub(super) const fn ended(tables: usize, position: usize) -> usize {
        1 + 2 * tables + position
    }
}

impl TableSet {
    /// The set of `tables`, the newest first. All of them must have been opened for a hash of one identity, and
    /// extractors of the same names. The set probes their filters with the hasher and the extractors of the newest.
    ///
    /// If some filter then lacks a key of its own table, the hasher or an extractor is not what its identity or name
    /// says. No filter of the set is used in that case: see [`Table::filter_problem`]. [`open`](Self::open) makes that
    /// an error with [`ReadOptions::with_strict_hash`].
    ///
    /// # Errors
    ///
    /// [`TableError::MixedReaders`] for a table that was opened with another hasher or other extractors: open it with
    /// the same [`ReadOptions`] as the newest.
    pub fn new(mut tables: Vec<Table>) -> Result<Self, TableError> {
        let reader = tables.first().map(|table| table.reader.clone()).unwrap_or_default();
        if let Some(position) = tables.iter().position(|table| !table.reader.has_identity_of(&reader)) {
            return Err(TableError::MixedReaders { position });
        }
        if tables.iter().any(|table| table.contradicts(&reader)) {
            tables.iter_mut().for_each(Table::disable_filter);
        }
        let count = tables.len();
        let counters = Arc::new(StripedCounters::new(counter::ended(count, count)));
        for (position, table) in tables.iter_mut().enumerate() {
            table.enter_set(
                SharedCounter::new(&counters, counter::range_skips(position)),
                CountedBySet::NegativesAsRemainder {
                    lookups: SharedCounter::new(&counters, counter::LOOKUPS),
                    others: [
                        SharedCounter::sum_of(&counters, counter::ended(count, 0)..counter::ended(count, position)),
                        SharedCounter::new(&counters, counter::range_skips(position)),
                        SharedCounter::new(&counters, counter::touched(count, position)),
                    ],
                },
            );
        }
        let ranges = KeyRanges::new(tables.iter().map(Table::properties));
        // All of them were checked with the set's reader.
        let filters = GroupedFilters::new(tables.iter(), |_| true);
        Ok(Self { tables, reader, ranges, filters, counters })
    }

    /// Opens the tables at `paths`, the newest first. Without a hasher in `options`, all of them are read with the one
    /// that the newest table describes.
    ///
    /// # Errors
    ///
    /// Those of [`Table::open`], for the first table that fails. With [`ReadOptions::with_strict_hash`] also a filter
    /// that the set does not use.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>, options: &ReadOptions) -> Result<Self, TableError> {
        let mut options = options.clone();
        let mut tables: Vec<Table> = Vec::new();
        for path in paths {
            let table = Table::open(path, &options)?;
            options.hasher.get_or_insert_with(|| table.reader.hasher.clone());
            tables.push(table);
        }
        let mut set = Self::new(tables)?;
        set.tables = set.tables.into_iter().map(|table| table.accepted_by(&options)).collect::<Result<_, _>>()?;
        Ok(set)
    }

    /// The newest value of `key`; `None` when no table has it, or the newest entry is a tombstone.
    ///
    /// # Errors
    ///
    /// Damage or a failed read in a table that might hold the key: older tables are then not searched, for
    /// their answer might be outdated.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, TableError> {
        let counters = self.counters.of_thread();
        let result = self.get_counted(key, counters);
        // Last, so that negatives, the remainder of the lookups, never count a lookup on its way.
        counters.add(counter::LOOKUPS, 1);
        result
    }

    fn get_counted(&self, key: &[u8], counters: ThreadCounters<'_>) -> Result<Option<Bytes>, TableError> {
        let head = self.ranges.head(key);
        let mut probe = LazyProbe::Unhashed;
        for group in 0..self.filters.groups() {
            let in_range = self.in_range(group, key, head);
            let candidates = self.filters.candidates(group, in_range, &self.reader, key, &mut probe);
            let mut tables = Tables { in_range, candidates };
            let (lookup, ended) = self.search(group, key, &mut tables);
            self.count(group, tables, ended, counters);
            match lookup? {
                Lookup::Found(value) => return Ok(Some(value)),
                Lookup::Deleted => return Ok(None),
                Lookup::Absent => {}
            }
        }
        Ok(None)
    }

    /// The newest value of each of `keys`, in their order; see [`get`](Self::get).
    ///
    /// ```
    /// use sstfilter::sst::TableSet;
    ///
    /// let empty = TableSet::new(Vec::new())?;
    /// let values = empty.multi_get(&[b"a", b"b"]);
    /// assert!(values.iter().all(|value| matches!(value, Ok(None))));
    /// # Ok::<(), sstfilter::sst::TableError>(())
    /// ```
    #[must_use]
    pub fn multi_get(&self, keys: &[&[u8]]) -> Vec<Result<Option<Bytes>, TableError>> {
        let counters = self.counters.of_thread();
        let mut results: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
        for (keys, results) in keys.chunks(BATCH).zip(results.chunks_mut(BATCH)) {
            let mut batch = self.with_candidates(keys, results, counters);
            self.search_batch(&mut batch);
            batch.iter().for_each(|lookup| self.count_all(&lookup.tables, lookup.ended, counters));
        }
        results
    }

    /// The lookups of those of `keys` that some table has to be searched for. The others are counted.
    fn with_candidates<'a>(
        &self,
        keys: &[&'a [u8]],
        results: &'a mut [Result<Option<Bytes>, TableError>],
        counters: ThreadCounters<'_>,
    ) -> Vec<BatchLookup<'a>> {
        let groups = self.filters.groups();
        let mut tables = Vec::with_capacity(keys.len() * groups);
        let hashes: Vec<_> = keys.iter().map(|key| self.push_in_range(key, &mut tables)).collect();
        self.filters.probe_batch(&hashes, &mut tables);
        let mut batch = Vec::new();
        for (position, (key, result)) in keys.iter().zip(results).enumerate() {
            let tables = tables.get(position * groups..(position + 1) * groups).unwrap_or_default();
            if tables.iter().all(|tables| tables.candidates == 0) {
                self.count_all(tables, None, counters);
            } else {
                batch.push(BatchLookup::new(key, tables, result));
            }
        }
        batch
    }

    /// Appends the tables that have `key` in their range, for each group. Returns the hash that all filters are still
    /// to be probed with, if it is one for all; a key outside all ranges is not hashed.
    fn push_in_range(&self, key: &[u8], tables: &mut Vec<Tables>) -> Option<KeyHash> {
        let (head, mut any) = (self.ranges.head(key), 0);
        for group in 0..self.filters.groups() {
            let in_range = self.in_range(group, key, head);
            let candidates = match self.filters.one_part() {
                Some(_) => in_range,
                None => self.filters.by_parts(group, in_range, &self.reader, key),
            };
            tables.push(Tables { in_range, candidates });
            any |= in_range;
        }
        self.filters.one_part().filter(|_| any != 0).and_then(|parts| self.reader.point_hashes(parts, key).next())
    }

    /// Which tables may hold `key`, by their ranges and filters alone: bit `i` of `matches` becomes whether a lookup
    /// may have to search table `i`. Nothing is read, and nothing counted, as far as that is so for
    /// [`Table::may_contain_key`].
    ///
    /// This is for a whole key. Tables that hold only longer keys, of which it is a prefix, may be left out:
    /// [`matches_prefix`](Self::matches_prefix) finds those.
    pub fn matches(&self, key: &[u8], matches: &mut MatchBitmap) {
        matches.reset(self.tables.len());
        self.match_key(key, matches.words_mut());
    }

    /// Which tables may hold a key that begins with `prefix`, by their ranges and filters alone: bit `i` of `matches`
    /// becomes whether a scan of the prefix has to walk table `i`. Nothing is read, and nothing counted, as far as that
    /// is so for [`Table::may_contain_key`]. Every table that has entries matches the empty prefix.
    ///
    /// Filters are probed only where they hold parts of keys, and an extractor has one part for all keys with the
    /// prefix: see [`Table::may_contain_prefix`]. [`KeyExtractor`](crate::KeyExtractor) has an example of a
    /// prefix scan. Range filters are probed for the range of these keys.
    pub fn matches_prefix(&self, prefix: &[u8], matches: &mut MatchBitmap) {
        self.match_prefix_by_parts(prefix, matches);
        let bounds = KeyBounds::of_prefix(prefix);
        for (group, word) in matches.words_mut().enumerate() {
            *word = self.tables_where(group, *word, |table| table.filter_may_hold(bounds.range()));
        }
    }

    /// The same, without range filters.
    fn match_prefix_by_parts(&self, prefix: &[u8], matches: &mut MatchBitmap) {
        matches.reset(self.tables.len());
        for (group, word) in matches.words_mut().enumerate() {
            let in_range = self.tables_where(group, first_bits(GROUP), |table| table.properties().range_meets(prefix));
            let candidates = self.filters.containing(group, in_range, |parts| self.reader.prefix_hashes(parts, prefix));
            *word = self.without_absent(group, candidates, |table| table.may_contain_parts_of(prefix));
        }
    }

    /// Which tables may hold a key in `range`, by their smallest and largest keys and their range filters alone: bit
    /// `i` of `matches` becomes whether a scan of the range has to walk table `i`. Nothing is read, and nothing
    /// counted. See [`Table::may_hold`].
    ///
    /// ```
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions, TableSet};
    /// use sstfilter::MatchBitmap;
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// builder.add(b"apple", b"1")?;
    /// builder.add(b"plum", b"2")?;
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    /// let set = TableSet::new(vec![table])?;
    ///
    /// let mut matches = MatchBitmap::default();
    /// set.matches_range(b"banana".as_slice()..=b"plum", &mut matches);
    /// assert!(matches.may_contain(0));
    /// set.matches_range(b"quince".as_slice().., &mut matches);
    /// assert!(!matches.may_contain(0));
    /// # Ok::<(), sstfilter::sst::TableError>(())
    /// ```
    pub fn matches_range<'a>(&self, range: impl Into<KeyRange<'a>>, matches: &mut MatchBitmap) {
        let range = range.into();
        matches.reset(self.tables.len());
        for (group, word) in matches.words_mut().enumerate() {
            *word = self.tables_where(group, first_bits(GROUP), |table| table.may_hold(range));
        }
    }

    /// The keys in `range`, in order, each with its newest value. Deleted keys are left out.
    ///
    /// Tables are skipped by their smallest and largest key, and then by their range filter, as by
    /// [`matches_range`](Self::matches_range). Of all others, a table is read only when the scan comes to a lower bound
    /// of its first key in the range: its smallest key, or what an [ordered](crate::range::RangePolicy::ordered) range
    /// filter knows. A scan that stops after a few keys does not read the tables whose keys come later.
    ///
    /// A scan counts the blocks that it reads, and no lookups. Range filters count its probes, as by
    /// [`Table::range`].
    ///
    /// ```
    /// use bytes::Bytes;
    /// use sstfilter::FalsePositiveRate;
    /// use sstfilter::range::RangePolicy;
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableError, TableOptions, TableSet};
    ///
    /// let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?;
    /// let options = TableOptions::default().with_range_filter(policy);
    /// let mut tables = Vec::new();
    /// for number in 0..10_u32 {
    ///     let mut builder = TableBuilder::new(Vec::new(), &options)?;
    ///     for key in 0..1_000_u32 {
    ///         builder.add(&(key * 10_000 + number * 1_000).to_be_bytes(), b"value")?;
    ///     }
    ///     let bytes = Bytes::from(builder.finish()?.0);
    ///     tables.push(Table::open_source(bytes, &ReadOptions::default())?);
    /// }
    /// let set = TableSet::new(tables)?;
    ///
    /// let found = set.range(&5_003_500_u32.to_be_bytes()..&5_005_500_u32.to_be_bytes());
    /// let keys: Result<Vec<_>, TableError> = found.map(|entry| Ok(entry?.0)).collect();
    /// assert_eq!(keys?, [5_004_000_u32, 5_005_000].map(|key| Bytes::copy_from_slice(&key.to_be_bytes())));
    /// assert!(set.stats().tables.data_block_reads < 10, "most tables were not read");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<'a>(&self, range: impl Into<KeyRange<'a>>) -> RangeScan<'_> {
        RangeScan::new(&self.tables, KeyBounds::new(range.into()), RangeFilters::Probed)
    }

    /// The keys that begin with `prefix`, in order, each with its newest value. Deleted keys are left out, and tables
    /// are skipped as by [`matches_prefix`](Self::matches_prefix).
    ///
    /// Every key begins with the empty prefix. A scan counts the blocks that it reads, and no lookups;
    /// probes of range filters, and of filters in partitions or under a budget, are counted.
    ///
    /// ```
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions, TableSet};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// builder.add(b"t041:a", b"1")?;
    /// builder.add(b"t042:a", b"2")?;
    /// builder.add(b"t042:b", b"3")?;
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    /// let set = TableSet::new(vec![table])?;
    ///
    /// let found: Result<Vec<_>, _> = set.scan_prefix(b"t042:").collect();
    /// assert_eq!(found?, [("t042:a".into(), "2".into()), ("t042:b".into(), "3".into())]);
    /// # Ok::<(), sstfilter::sst::TableError>(())
    /// ```
    #[must_use]
    pub fn scan_prefix(&self, prefix: &[u8]) -> RangeScan<'_> {
        let mut matches = MatchBitmap::default();
        self.match_prefix_by_parts(prefix, &mut matches);
        let tables = matches.iter().filter_map(|position| self.tables.get(position));
        RangeScan::new(tables, KeyBounds::of_prefix(prefix), RangeFilters::Probed)
    }

    /// The [`matches`](Self::matches) of many keys: row `i` of `matches` has a bit for each table that may hold key
    /// `i`. Nothing is read from tables, and nothing counted.
    ///
    /// ```
    /// use sstfilter::MatchMatrix;
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions, TableSet};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// builder.add(b"apple", b"1")?;
    /// builder.add(b"plum", b"2")?;
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    /// let set = TableSet::new(vec![table])?;
    ///
    /// let mut matches = MatchMatrix::default();
    /// set.matches_batch(&[b"apple", b"banana", b"zucchini"], &mut matches);
    /// assert!(matches.may_contain(0, 0), "it is there");
    /// assert!(!matches.may_contain(1, 0), "not in the filter");
    /// assert!(!matches.may_contain(2, 0), "out of range");
    /// # Ok::<(), sstfilter::sst::TableError>(())
    /// ```
    pub fn matches_batch(&self, keys: &[&[u8]], matches: &mut MatchMatrix) {
        matches.reset(keys.len(), self.tables.len());
        for (row, key) in matches.rows_mut().zip(keys) {
            self.match_key(key, row.iter_mut());
        }
    }

    fn match_key<'a>(&self, key: &[u8], words: impl Iterator<Item = &'a mut u64>) {
        let head = self.ranges.head(key);
        let mut probe = LazyProbe::Unhashed;
        for (group, word) in words.enumerate() {
            let in_range = self.in_range(group, key, head);
            let candidates = self.filters.candidates(group, in_range, &self.reader, key, &mut probe);
            *word = self.without_absent(group, candidates, |table| table.may_contain_key(key));
        }
    }

    /// Those of a group's tables at `which` whose filters, if they are under a budget, may contain what is sought.
    #[inline]
    fn without_absent(&self, group: usize, which: u64, may_contain: impl Fn(&Table) -> bool) -> u64 {
        match which & self.filters.alone(group) {
            0 => which,
            budgeted => which & !budgeted | self.tables_where(group, budgeted, may_contain),
        }
    }

    /// The tables, the newest first.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// What was looked up so far, and what was skipped.
    #[must_use]
    pub fn stats(&self) -> TableSetStats {
        let count = self.tables.len();
        let sum_of = |index| self.counters.sum(index);
        let lookups = sum_of(counter::LOOKUPS);
        let (mut reached, mut by_range, mut by_filter, mut touched) = (lookups, 0, 0, 0);
        for position in 0..count {
            let skips = sum_of(counter::range_skips(position));
            let searches = sum_of(counter::touched(count, position));
            by_range += skips;
            touched += searches;
            by_filter += reached.saturating_sub(skips + searches);
            reached = reached.saturating_sub(sum_of(counter::ended(count, position)));
        }
        TableSetStats {
            lookups,
            tables_considered: by_range + by_filter + touched,
            skipped_by_range: by_range,
            skipped_by_filter: by_filter,
            touched,
            tables: self.tables.iter().fold(TableStats::default(), |sum, table| sum.merged(&table.stats())),
        }
    }

    /// The tables of a group that have `key` in their range.
    #[inline]
    fn in_range(&self, group: usize, key: &[u8], head: Option<u64>) -> u64 {
        match head.map(|head| self.ranges.holding(group, head)) {
            None => 0,
            Some(InRange::These(tables)) => tables,
            Some(InRange::AtMost(tables)) => {
                self.tables_where(group, tables, |table| table.properties().range_holds(key))
            }
        }
    }

    /// Those of a group's tables at `which` for which `holds` is true.
    #[cold]
    fn tables_where(&self, group: usize, which: u64, holds: impl Fn(&Table) -> bool) -> u64 {
        let holding = bits_of(which).filter(|bit| self.tables.get(group * GROUP + bit).is_some_and(&holds));
        holding.fold(0, |bits, bit| bits | 1 << bit)
    }

    /// Searches the candidates of all lookups.
    ///
    /// Every lookup's newest candidate is searched before the next one of any: a key that is found does not come to its
    /// older tables.
    fn search_batch(&self, batch: &mut [BatchLookup<'_>]) {
        let table = |lookup: &BatchLookup<'_>| self.tables.get(lookup.candidate()?);
        while batch.iter().any(|lookup| lookup.candidate().is_some()) {
            for lookup in batch.iter_mut() {
                if let Some(table) = table(lookup) {
                    lookup.block.locate(table, lookup.key);
                }
            }
            for lookup in batch.iter_mut() {
                if let Some(table) = table(lookup) {
                    lookup.block.prefetch(table);
                }
            }
            let mut read = BlocksRead::default();
            for lookup in batch.iter_mut() {
                if let Some(table) = table(lookup) {
                    lookup.search(table, &mut read);
                }
            }
        }
    }

    /// Searches the candidates of a group from the newest to the oldest, until one has an entry or fails: the bit of
    /// that one is returned, too. A candidate whose own filter lacks the key ceases to be one.
    fn search(&self, group: usize, key: &[u8], found: &mut Tables) -> (Result<Lookup, TableError>, Option<usize>) {
        let tables = self.tables.get(group * GROUP..).unwrap_or_default();
        for bit in bits_of(found.candidates) {
            let Some(table) = tables.get(bit) else { break };
            let probe = table.probe_candidate(key);
            if probe.is_absent() {
                found.candidates &= !(1 << bit);
                continue;
            }
            let result = table.get_after(&probe, key, FoundBlock::NotSought);
            if !matches!(result, Ok(Lookup::Absent)) {
                return (result, Some(bit));
            }
        }
        (Ok(Lookup::Absent), None)
    }

    /// Counts a lookup of a batch, which ended at the table at a position, or at none.
    fn count_all(&self, tables: &[Tables], ended: Option<usize>, counters: ThreadCounters<'_>) {
        let groups = ended.map_or(tables.len(), |position| position / GROUP + 1);
        for (group, tables) in tables.iter().take(groups).enumerate() {
            let ended = ended.filter(|position| position / GROUP == group).map(|position| position % GROUP);
            self.count(group, *tables, ended, counters);
        }
        // Last, as in `get`.
        counters.add(counter::LOOKUPS, 1);
    }

    /// Counts what a lookup has searched and skipped of a group, up to the table at the bit where it ended.
    #[inline]
    fn count(&self, group: usize, tables: Tables, ended: Option<usize>, counters: ThreadCounters<'_>) {
        let (count, first) = (self.tables.len(), group * GROUP);
        let considered = first_bits(ended.map_or(count.saturating_sub(first), |bit| bit + 1));
        for bit in bits_of(tables.candidates & considered) {
            counters.add(counter::touched(count, first + bit), 1);
        }
        counters.add_bits(counter::range_skips(first), !tables.in_range & considered);
        if let Some(bit) = ended {
            counters.add(counter::ended(count, first + bit), 1);
        }
    }
}

/// Keys that are searched together: about twenty of them have a false positive, enough for misses to overlap.
const BATCH: usize = 32;

/// A lookup of a batch that has candidates.
struct BatchLookup<'a> {
    key: &'a [u8],
    /// In each group.
    tables: Vec<Tables>,
    /// The positions of the candidates that are to be searched, the newest last.
    candidates: Vec<usize>,
    /// The search of the newest of them.
    block: BlockSearch,
    /// The table at which the lookup ended.
    ended: Option<usize>,
    result: &'a mut Result<Option<Bytes>, TableError>,
}

impl<'a> BatchLookup<'a> {
    fn new(key: &'a [u8], tables: &[Tables], result: &'a mut Result<Option<Bytes>, TableError>) -> Self {
        let of_group =
            |(group, tables): (usize, &Tables)| bits_of(tables.candidates).map(move |bit| group * GROUP + bit);
        let mut candidates: Vec<usize> = tables.iter().enumerate().flat_map(of_group).collect();
        candidates.reverse();
        Self { key, tables: tables.to_vec(), candidates, block: BlockSearch::default(), ended: None, result }
    }

    /// The table that is searched next.
    fn candidate(&self) -> Option<usize> {
        self.candidates.last().copied()
    }

    /// The table's own filter has shown that it is no candidate.
    fn forget(&mut self, position: Option<usize>) {
        let Some(position) = position else { return };
        if let Some(tables) = self.tables.get_mut(position / GROUP) {
            tables.candidates &= !(1 << (position % GROUP));
        }
    }

    /// Searches `table`, the next candidate, unless its filter says that it does not have the key.
    fn search(&mut self, table: &Table, read: &mut BlocksRead) {
        let position = self.candidates.pop();
        let probe = table.probe_candidate(self.key);
        if probe.is_absent() {
            self.forget(position);
            return;
        }
        let lookup = self.block.finish(table, self.key, &probe, read);
        if matches!(lookup, Ok(Lookup::Absent)) {
            return;
        }
        self.candidates.clear();
        self.ended = position;
        *self.result = lookup.map(|lookup| match lookup {
            Lookup::Found(value) => Some(value),
            Lookup::Deleted | Lookup::Absent => None,
        });
    }
}

impl fmt::Debug for TableSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableSet")
            .field("tables", &self.tables)
            .field("reader", &self.reader)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
