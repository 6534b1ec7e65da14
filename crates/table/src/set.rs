//! Sets of tables that change while they are read.

use core::cmp::Reverse;
use core::iter::FusedIterator;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use sstfilter::{FileId, KeyRange};
use sstfilter_map::{FileMap, MapError, MapOptions, MapReport};
use sstfilter_store::{BatchCandidates, FilterProblem, FilterStore, FilterView, ViewEdit, ViewError};

use super::headed::HeadedBlock;
use super::scan::RangeScan;
use super::walk::Entry;
use super::{Lookup, Table, TableError, TableOptions, TableStats};

/// The tables of a store. Edits change the set, while readers continue on their snapshots.
///
/// A lookup hashes its key once, and checks key bounds and filters from table to table, until the newest one that has
/// an entry for the key. A tombstone is an entry. Tables of level 0 may overlap, and have ages; those of other levels
/// do not overlap ([`FilterView`]).
///
/// ```
/// use bytes::Bytes;
/// use sstfilter_table::{Table, TableBuilder, TableError, TableOptions, TableSet};
///
/// let table = |entries: &[(&[u8], Option<&[u8]>)]| -> Result<Table, TableError> {
///     let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
///     for (key, value) in entries {
///         match value {
///             Some(value) => builder.add(key, value)?,
///             None => builder.delete(key)?,
///         }
///     }
///     Table::open_source(Bytes::from(builder.finish()?.0), &TableOptions::default())
/// };
/// let old = table(&[(b"a", Some(b"1")), (b"b", Some(b"2")), (b"c", Some(b"3"))])?;
/// let new = table(&[(b"a", Some(b"4")), (b"b", None)])?;
///
/// let set = TableSet::new([(1, old), (2, new)]).unwrap(); // by age
/// assert_eq!(set.get(b"a")?, Some(Bytes::from_static(b"4")));
/// assert_eq!(set.get(b"b")?, None);
/// assert_eq!(set.get(b"c")?, Some(Bytes::from_static(b"3")));
/// # Ok::<(), TableError>(())
/// ```
#[derive(Debug)]
pub struct TableSet {
    current: ArcSwap<TableSnapshot>,
    /// Serializes edits.
    writer: Mutex<()>,
    /// Serializes updates of the map, so that an older one does not replace a newer one.
    map_writer: Mutex<()>,
}

/// The tables of a store at one time. It never changes, and its tables stay open as long as it exists.
#[derive(Clone, Debug)]
pub struct TableSnapshot {
    view: FilterView<Table>,
}

impl TableSet {
    /// Returns a set of tables at level 0, each with its age: a table of greater age is newer. Probes filters together
    /// for all tables that were opened with the same options as the newest.
    ///
    /// # Errors
    ///
    /// [`ViewError`] if two tables have the same age, or one id because one is a copy of the other.
    pub fn new(tables: impl IntoIterator<Item = (u64, Table)>) -> Result<Self, ViewError> {
        let tables: Vec<_> = tables.into_iter().collect();
        let newest = tables.iter().max_by_key(|(age, _)| *age);
        let store = newest.map_or_else(FilterStore::default, |(_, table)| table.store.clone());
        let add = |edit: ViewEdit<Table>, (age, table)| edit.add_to_level_0(age, Arc::new(table));
        let view = FilterView::new(&store).edited(tables.into_iter().fold(ViewEdit::new(), add))?;
        Ok(Self {
            current: ArcSwap::from_pointee(TableSnapshot { view }),
            writer: Mutex::default(),
            map_writer: Mutex::default(),
        })
    }

    /// Opens tables by their paths, each with its [age](Self::new). Without a hasher in `options`, reads all of them
    /// with the hasher that the newest table describes.
    ///
    /// # Errors
    ///
    /// The errors of [`Table::open`], for the newest table that fails; [`TableError::Io`] if two have the same age, or
    /// one id because one is a copy of the other. With [`TableOptions::reject_foreign_filters`], also an error for a
    /// filter that the set does not use.
    pub fn open<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = (u64, P)>,
        options: &TableOptions,
    ) -> Result<Self, TableError> {
        let mut options = options.clone();
        let (mut paths, mut tables) = (paths.into_iter().collect::<Vec<_>>(), Vec::new());
        paths.sort_by_key(|(age, _)| Reverse(*age));
        for (age, path) in &paths {
            let table = Table::open(path, &options)?;
            if options.hasher.is_none() {
                (options.store, options.hasher) = (table.store.clone(), Some(table.store.filters().hasher().clone()));
            }
            tables.push((*age, table));
        }
        let failed = |error| {
            let copy = if let ViewError::DuplicateId { position, .. } = error { paths.get(position) } else { None };
            let path = copy.map(|(_, path)| path.as_ref().to_owned());
            TableError::Io { context: "open tables", path, source: io::Error::other(error) }
        };
        let set = Self::new(tables).map_err(failed)?;
        // Checked at the end: a later table may have shown that the common hasher does not match its description.
        let snapshot = set.snapshot();
        let problem = snapshot.tables(0).filter_map(|table| table.filter_problem()).find(TableError::is_foreign_filter);
        match problem.filter(|_| options.rejects_foreign_filters) {
            Some(problem) => Err(problem),
            None => Ok(set),
        }
    }

    /// Returns the current tables, in a snapshot that never changes.
    ///
    /// Threads that take a snapshot share one reference counter: take one snapshot for many lookups.
    #[must_use]
    pub fn snapshot(&self) -> Arc<TableSnapshot> {
        self.current.load_full()
    }

    /// Applies `edit` and returns the new snapshot. Removed tables are closed when the last snapshot that contains them
    /// is dropped, by the thread that drops it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use bytes::Bytes;
    /// use sstfilter_table::{Table, TableBuilder, TableOptions, TableSet};
    /// use sstfilter_store::ViewEdit;
    ///
    /// let table = |key: &[u8], value: &[u8]| -> Result<Arc<Table>, sstfilter_table::TableError> {
    ///     let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    ///     builder.add(key, value)?;
    ///     Ok(Arc::new(Table::open_source(Bytes::from(builder.finish()?.0), &TableOptions::default())?))
    /// };
    /// let (old, new) = (table(b"apple", b"1")?, table(b"apple", b"2")?);
    /// let set = TableSet::new([])?;
    /// set.apply(ViewEdit::new().add_to_level_0(1, old.clone()).add_to_level_0(2, new.clone()))?;
    /// assert_eq!(set.get(b"apple")?, Some(Bytes::from_static(b"2")));
    ///
    /// // A compaction: both tables become one at level 1.
    /// let merged = table(b"apple", b"2")?;
    /// let tables = set.apply(ViewEdit::new().remove(0, &old).remove(0, &new).add(1, merged))?;
    /// assert_eq!((tables.tables(0).count(), tables.tables(1).count()), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ViewError`]; the set is then unchanged.
    pub fn apply(&self, edit: ViewEdit<Table>) -> Result<Arc<TableSnapshot>, ViewError> {
        self.change(|view| view.edited(edit))
    }

    fn change<E>(
        &self,
        next: impl FnOnce(&FilterView<Table>) -> Result<FilterView<Table>, E>,
    ) -> Result<Arc<TableSnapshot>, E> {
        // A panic while it is held can only happen before the swap, so the set stays consistent.
        let turn = self.writer.lock();
        let current = self.snapshot();
        let next = Arc::new(TableSnapshot { view: next(&current.view)? });
        let before = self.current.swap(next.clone());
        drop(turn);
        // After the lock is released: closing files takes time, and the caller's source may run any code when dropped.
        drop((before, current));
        Ok(next)
    }

    /// Writes a file map of all tables and uses it from now on: a lookup probes the map instead of the filter of each
    /// table. Call it again when [`FilterView::needs_map`] says that it pays off. It then reads only the keys of tables
    /// that joined the set since, and merges them into the map.
    ///
    /// Lookups and edits go on meanwhile. Tables that are added later, or whose data is damaged, are judged by their
    /// own filters. To keep the map over a restart, store the [bytes](FileMap::as_bytes) and the
    /// [id](sstfilter_map::MapIndex::map_id) of the map in [`FilterView::maps`]. Load it with that id and with
    /// [`FilterView::filters`], and pass it to [`set_maps`](Self::set_maps).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sstfilter::FalsePositiveRate;
    /// use sstfilter_map::MapOptions;
    /// use sstfilter_store::ViewEdit;
    /// use sstfilter_table::{Table, TableBuilder, TableError, TableOptions, TableSet};
    ///
    /// let table = |numbers: core::ops::Range<u32>| -> Result<Table, TableError> {
    ///     let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    ///     numbers.into_iter().try_for_each(|number| builder.add(&number.to_be_bytes(), b"value"))?;
    ///     Table::open_source(bytes::Bytes::from(builder.finish()?.0), &TableOptions::default())
    /// };
    /// let set = TableSet::new([])?;
    /// let tables = (0..70).map(|n| table(n * 1_000..n * 1_000 + 1_000)).collect::<Result<Vec<_>, _>>()?;
    /// set.apply(tables.into_iter().fold(ViewEdit::new(), |edit, table| edit.add(1, Arc::new(table))))?;
    ///
    /// // At most 10 million keys in all tables together.
    /// set.update_map(MapOptions::for_entries(10_000_000, FalsePositiveRate::ONE_PERCENT)?)?;
    /// assert!(set.get(&69_999_u32.to_be_bytes())?.is_some());
    /// assert_eq!(set.get(&70_000_u32.to_be_bytes())?, None);
    /// assert_eq!(set.snapshot().view().map_stats().lookups, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`TableError::Io`] if there are no tables, or if the map of the set was written with other options.
    pub fn update_map(&self, options: MapOptions) -> Result<MapReport, TableError> {
        let _turn = self.map_writer.lock();
        let (view, map, mut bytes) = (self.snapshot().view.clone(), FileId::random(), Vec::new());
        let filters = view.filters();
        let hash = |entry: Result<Entry, TableError>| entry.ok().map(|entry| filters.hash(&entry.key));
        let failed = |source| TableError::Io { context: "write a file map", path: None, source };
        let mut write = view.write_map(options).map_err(|error| failed(error.into()))?;
        for table in write.files() {
            // A table whose data is damaged is not covered.
            if let Some(hashes) = table.iter().map(hash).collect() {
                write.add(&table, hashes).map_err(|error| failed(error.into()))?;
            }
        }
        let report = write.finish(map, &mut bytes).map_err(failed)?;
        let loaded = FileMap::load(bytes.into(), filters, map).map_err(|error| failed(error.into()))?;
        self.set_maps(&[Arc::new(loaded)])?;
        Ok(report)
    }

    /// Uses these maps from now on, instead of others: see [`FilterView::with_maps`].
    ///
    /// # Errors
    ///
    /// [`TableError::Io`] for a map with another hash, or one that lacks keys of a table that it covers.
    pub fn set_maps(&self, maps: &[Arc<FileMap<Bytes>>]) -> Result<Arc<TableSnapshot>, TableError> {
        let failed = |error: MapError| TableError::Io { context: "use a file map", path: None, source: error.into() };
        self.change(|view| view.with_maps(maps)).map_err(failed)
    }

    /// Returns the newest value of `key`; see [`TableSnapshot::get`].
    ///
    /// # Errors
    ///
    /// The errors of [`TableSnapshot::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, TableError> {
        self.current.load().get(key)
    }

    /// The newest value of each of `keys`, in their order.
    #[must_use]
    pub fn multi_get(&self, keys: &[&[u8]]) -> Vec<Result<Option<Bytes>, TableError>> {
        self.current.load().multi_get(keys)
    }

    /// Returns the counts of lookups and skipped reads so far, without those of removed tables in older snapshots.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        self.current.load().stats()
    }
}

impl TableSnapshot {
    /// Returns the newest value of `key`; `None` if no table has an entry, or the newest one is a tombstone.
    ///
    /// # Errors
    ///
    /// Damage or a failed read in a table that may contain the key. Older tables are then not searched, because their
    /// answer might be outdated.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, TableError> {
        let mut candidates = self.view.candidates(key);
        while let Some(table) = candidates.next_file() {
            let value = match table.search(key)? {
                Lookup::Absent => continue,
                Lookup::Found(value) => Some(value),
                Lookup::Deleted => None,
            };
            candidates.found();
            // A tombstone ends the search too: older values are deleted.
            return Ok(value);
        }
        Ok(None)
    }

    /// Returns the newest value of each of `keys`, in their order; see [`get`](Self::get). The cache misses of
    /// different keys overlap.
    ///
    /// ```
    /// use sstfilter_table::TableSet;
    ///
    /// let values = TableSet::new([]).unwrap().multi_get(&[b"a", b"b"]);
    /// assert!(values.iter().all(|value| matches!(value, Ok(None))));
    /// ```
    #[must_use]
    pub fn multi_get(&self, keys: &[&[u8]]) -> Vec<Result<Option<Bytes>, TableError>> {
        let mut results: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
        for (keys, results) in keys.chunks(BATCH).zip(results.chunks_mut(BATCH)) {
            search_batch(self.view.candidates_of_each(keys), keys, results);
        }
        results
    }

    /// Returns the view, which answers which tables may contain a key, a prefix or a range.
    #[must_use]
    pub fn view(&self) -> &FilterView<Table> {
        &self.view
    }

    /// Returns the tables of a level: at level 0 newest first, at every other level in key order.
    pub fn tables(&self, level: u32) -> impl Iterator<Item = &Arc<Table>> {
        self.view.files(level)
    }

    /// Returns the tables of all levels.
    pub fn all_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.view.levels().collect::<Vec<_>>().into_iter().flat_map(|level| self.view.files(level))
    }

    /// Returns why no filter is used, if so: the hasher or an extractor does not match its description.
    #[must_use]
    pub fn filter_problem(&self) -> Option<FilterProblem> {
        self.all_tables().find_map(|table| table.store.problem().cloned())
    }

    /// Iterates over the keys in `range`, in order, each with its newest value. Omits deleted keys.
    ///
    /// Skips tables by their smallest and largest key, and then by their range filter. Other tables are read only once
    /// the scan reaches a lower bound of their first key in the range: the smallest key, or the seek hint of an
    /// [ordered](sstfilter_range::RangePolicy::ordered) range filter. A scan that stops after a few keys does not read
    /// tables whose keys come later.
    ///
    /// A scan counts the blocks that it reads, but no lookups. Range filters count its probes. Blocks are read one at a
    /// time, bypassing the block cache. The first error ends the scan, because later entries might be outdated: after
    /// an [`Err`] comes [`None`].
    ///
    /// ```
    /// use bytes::Bytes;
    /// use sstfilter::FalsePositiveRate;
    /// use sstfilter_range::RangePolicy;
    /// use sstfilter_table::{Table, TableBuilder, TableError, TableOptions, TableSet};
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
    ///     tables.push(Table::open_source(bytes, &TableOptions::default())?);
    /// }
    /// let tables = TableSet::new((0..).zip(tables)).unwrap().snapshot();
    ///
    /// let (from, to) = (5_003_500_u32.to_be_bytes(), 5_005_500_u32.to_be_bytes());
    /// let found = tables.range(&from..&to);
    /// let keys: Result<Vec<_>, TableError> = found.map(|entry| Ok(entry?.0)).collect();
    /// assert_eq!(keys?, [5_004_000_u32, 5_005_000].map(|key| Bytes::copy_from_slice(&key.to_be_bytes())));
    /// assert!(tables.stats().data_block_reads < 10, "most tables were not read");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<'a>(
        &'a self,
        range: impl Into<KeyRange<'a>>,
    ) -> impl FusedIterator<Item = Result<(Bytes, Bytes), TableError>> {
        let range = range.into();
        RangeScan::new(self.view.candidates_in_range(range), &range.upper.map(Bytes::copy_from_slice))
    }

    /// Iterates over the keys that begin with `prefix`, in order, each with its newest value. Omits deleted keys. Also
    /// skips tables by the key parts in their filters.
    ///
    /// ```
    /// use sstfilter_table::{Table, TableBuilder, TableOptions, TableSet};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// builder.add(b"t041:a", b"1")?;
    /// builder.add(b"t042:a", b"2")?;
    /// builder.add(b"t042:b", b"3")?;
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &TableOptions::default())?;
    /// let tables = TableSet::new([(0, table)]).unwrap().snapshot();
    ///
    /// let found: Result<Vec<_>, _> = tables.scan_prefix(b"t042:").collect();
    /// assert_eq!(found?, [("t042:a".into(), "2".into()), ("t042:b".into(), "3".into())]);
    /// # Ok::<(), sstfilter_table::TableError>(())
    /// ```
    #[must_use]
    pub fn scan_prefix<'a>(
        &'a self,
        prefix: &'a [u8],
    ) -> impl FusedIterator<Item = Result<(Bytes, Bytes), TableError>> {
        let upper = KeyRange::prefix_upper_bound(prefix);
        RangeScan::new(self.view.candidates_by_prefix(prefix), &upper.map(Bytes::from))
    }

    /// Returns the counts of lookups and skipped reads so far.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        let tables = self.all_tables().fold(TableStats::default(), |sum, table| sum.merged(&table.stats()));
        TableStats { filters: self.view.stats(), ..tables }
    }
}

/// Keys per batch of searches: about twenty of them have a false positive, enough for cache misses to overlap.
const BATCH: usize = 32;

/// Searches the candidates of all keys. Each step begins with loads that miss the CPU's caches (index, block cache,
/// block), so each step is taken for all keys before the next step.
fn search_batch(
    mut batch: BatchCandidates<'_, Table>,
    keys: &[&[u8]],
    results: &mut [Result<Option<Bytes>, TableError>],
) {
    let mut searches: Vec<BlockSearch<'_>> = Vec::new();
    loop {
        let files = batch.next_files();
        files.iter().for_each(|(_, table)| table.prefetch());
        searches.extend(files.iter().filter_map(|&(position, table)| {
            let key = *keys.get(position)?;
            Some(BlockSearch { position, key, table, block: table.block_position(key), cached: None })
        }));
        if searches.is_empty() {
            return;
        }
        for search in &mut searches {
            search.cached = search.block.and_then(|block| search.table.cached_block(block));
            if let Some(block) = &search.cached {
                block.prefetch();
            }
        }
        let mut read: Vec<(&Table, usize)> = Vec::new();
        for BlockSearch { position, key, table, block, cached } in searches.drain(..) {
            let lookup = match block {
                // The table's index is not in memory yet, and the search reads it.
                None => table.search(key),
                Some(block) => {
                    // After a miss, looks in the cache again only if another search of this step has read the block.
                    let is_read = || read.iter().any(|&(other, read)| core::ptr::eq(other, table) && read == block);
                    let cached = cached.or_else(|| if is_read() { table.cached_block(block) } else { None });
                    if cached.is_none() && table.has_cache() {
                        read.push((table, block));
                    }
                    table.search_block(block, cached, key)
                }
            };
            let found = match lookup {
                Ok(Lookup::Absent) => continue,
                Ok(Lookup::Found(value)) => Ok(Some(value)),
                Ok(Lookup::Deleted) => Ok(None),
                Err(error) => Err(error),
            };
            if found.is_ok() {
                batch.found(position);
            } else {
                batch.failed(position);
            }
            if let Some(result) = results.get_mut(position) {
                *result = found;
            }
        }
    }
}

/// The search for one key in its current table.
struct BlockSearch<'a> {
    position: usize,
    key: &'a [u8],
    table: &'a Table,
    /// The number of the block in the index; `None` before the index is read.
    block: Option<usize>,
    cached: Option<Arc<HeadedBlock>>,
}
