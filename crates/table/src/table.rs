//! Opens tables and looks up keys.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use sstfilter::internal::prefetch;
use sstfilter::{KeyRange, LookupOutcome};
use sstfilter_store::{FileFilters, FilterStore};

use super::block::{Block, Lookup};
use super::cache::TableCache;
use super::error::shown;
use super::headed::HeadedBlock;
use super::index::{DataBlockHandle, TableIndex};
use super::io::{TableFile, io_error};
use super::parts::{FilterBytes, TableParts, find_sidecar};
use super::{FileSystem, TableError, TableOptions, TablePart, TableProperties, TableStats};
use sstfilter::RandomAccess;

/// An open table, which threads share by reference.
///
/// Opening reads the footer, the metaindex, the properties and the filter. The index is read when a lookup first needs
/// it, and stays in memory. A lookup checks the key bounds, the filter, the index and the data block, and stops at the
/// first that excludes the key: if the filter answers "absent", nothing is read.
///
/// A file that is damaged, mostly a hole, or malicious is safe to open. Until a block's checksum has matched, at most
/// 64 MiB of it are in memory. A longer block (the filter of a very large table) is read twice, the first time only for
/// its checksum. All keys of a walk together have at most 1,024 times the bytes of the file.
///
/// The filter of a [sidecar](Self::write_sidecar) replaces the table's own if it is sound and was made for this table;
/// see [`sidecar_problem`](Self::sidecar_problem).
///
/// A filter that is damaged, of an unknown kind, or built with another hash or from other key parts is not probed. The
/// table is read without it, and [`filter_problem`](Self::filter_problem) or
/// [`range_filter_problem`](Self::range_filter_problem) says why.
///
/// ```
/// use sstfilter_table::{Lookup, Table, TableBuilder, TableOptions};
///
/// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
/// for key in 0..1_000_u32 {
///     builder.add(&key.to_be_bytes(), b"value")?;
/// }
/// let bytes = bytes::Bytes::from(builder.finish()?.0);
///
/// let table = Table::open_source(bytes, &TableOptions::default())?;
/// assert!(matches!(table.get(&7_u32.to_be_bytes())?, Lookup::Found(_)));
/// assert_eq!(table.get(&7_000_u32.to_be_bytes())?, Lookup::Absent);
/// assert_eq!(table.properties().entries, 1_000);
/// # Ok::<(), sstfilter_table::TableError>(())
/// ```
pub struct Table {
    pub(super) file: Arc<TableFile>,
    pub(super) parts: TableParts,
    /// The filters in use: the sidecar's, or the table's own.
    filters: FileFilters,
    pub(super) store: FilterStore,
    /// The file system of the table and its sidecar.
    pub(super) files: Arc<dyn FileSystem>,
    /// The sidecar, or why it is not used. Boxed, because most tables have none.
    sidecar: Option<Box<Result<FilterBytes, TableError>>>,
    /// Boxed, because most tables of a large store have not been searched.
    index: OnceLock<Box<TableIndex>>,
    /// Boxed, so that a table without a cache pays one null pointer for both fields.
    cache: Option<Box<TableCache>>,
}

impl AsRef<FileFilters> for Table {
    fn as_ref(&self) -> &FileFilters {
        &self.filters
    }
}

impl Table {
    /// Opens the table at `path`.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`]; a file that is not a table, has an unknown version, or another length than its footer
    /// states; a damaged footer, metaindex or properties block. A bad filter is not an error. A filter of another hash
    /// or extractor is an error with [`TableOptions::reject_foreign_filters`].
    pub fn open(path: impl AsRef<Path>, options: &TableOptions) -> Result<Self, TableError> {
        let path = path.as_ref();
        let file = options.files.open(path).map_err(io_error("opening", Some(path)))?;
        Self::open_file(TableFile::new(file, Some(path.into()))?, options)
    }

    /// Opens the table that fills `source`.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn open_source(source: impl RandomAccess + 'static, options: &TableOptions) -> Result<Self, TableError> {
        Self::open_file(TableFile::new(Box::new(source), None)?, options)
    }

    fn open_file(file: TableFile, options: &TableOptions) -> Result<Self, TableError> {
        let parts = TableParts::read(&file)?;
        let file = Arc::new(file);
        let own = parts.filter_bytes(&file);
        let store = options.store_for(own.metadata.hash_identity());
        // A sidecar is found by the table's path, so a table from another source has none.
        let path = file.path.as_deref().filter(|_| !options.ignores_filters && !options.ignores_sidecars);
        let sidecar = path.and_then(|path| find_sidecar(path, &*options.files, &parts));
        let sidecar = sidecar.map(|found| found.and_then(|bytes| open_sidecar(&store, bytes))).transpose();
        let (sidecar, filters) = match sidecar {
            Ok(Some((bytes, filters))) => (Some(Ok(bytes)), Some(filters)),
            Ok(None) => (None, None),
            // Not an error of the table, whose own filter is used instead.
            Err(problem) => (Some(Err(problem)), None),
        };
        let filters = filters.unwrap_or_else(|| {
            let keys = own.metadata.key_bounds().map(|(smallest, largest)| KeyRange::from(smallest..=largest));
            // A table without keys has an empty range.
            let keys = keys.unwrap_or(KeyRange::from(..b"".as_slice()));
            if options.ignores_filters { store.open_without_description(keys) } else { own.open(&store) }
        });
        let sidecar = sidecar.map(Box::new);
        let cache = options.cache.clone().map(|blocks| Box::new(TableCache::new(blocks)));
        let (files, index) = (options.files.clone(), OnceLock::new());
        let table = Self { file, parts, filters, store, files, sidecar, index, cache };
        if options.rejects_foreign_filters { table.accepted() } else { Ok(table) }
    }

    /// Returns the table, unless one of its filters was built for another reader.
    fn accepted(mut self) -> Result<Self, TableError> {
        // Reads now what would be read at the first probe: only the keys in a filter show what it was built with.
        if let Some((smallest, _)) = self.parts.properties.filters.key_bounds() {
            while let Some(read) = self.filters.read_for(smallest) {
                let bytes = self.filter_bytes().read_range(read.range());
                read.complete(bytes);
            }
        }
        // If the table has no filter of its own, the foreign sidecar makes every lookup search the table.
        let is_unserved = self.parts.properties.filters.sections().is_empty();
        let is_foreign = self.sidecar_problem().is_some_and(TableError::is_foreign_filter);
        let sidecar = self.sidecar.take_if(|_| is_unserved && is_foreign).and_then(|sidecar| sidecar.err());
        let problems = [self.filter_problem(), self.range_filter_problem(), sidecar];
        problems.into_iter().flatten().find(TableError::is_foreign_filter).map_or(Ok(self), Err)
    }

    /// Returns the source of the filters in use.
    fn filter_bytes(&self) -> FilterBytes {
        match self.sidecar.as_deref() {
            Some(Ok(bytes)) => bytes.clone(),
            _ => self.parts.filter_bytes(&self.file),
        }
    }

    /// Looks up `key` in the key bounds, filter, index and data block, as far as needed.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`], or damage in the index or in the data block that would contain the key.
    pub fn get(&self, key: &[u8]) -> Result<Lookup, TableError> {
        let probe = self.filters.probe(key);
        if probe.is_absent() {
            return Ok(Lookup::Absent);
        }
        let lookup = self.search(key)?;
        let outcome = if lookup == Lookup::Absent { LookupOutcome::NotFound } else { LookupOutcome::Found };
        self.filters.record_lookup(key, probe, outcome);
        Ok(lookup)
    }

    /// Whether the table may contain `key`, from its key bounds and its filter; `false` is certain. Counted like the
    /// probe of a lookup with unknown outcome.
    ///
    /// For keys with a prefix or in a range, see [`FileFilters::may_contain_prefix`] and
    /// [`FileFilters::may_contain_range`].
    ///
    /// ```
    /// use sstfilter::FalsePositiveRate;
    /// use sstfilter_range::RangePolicy;
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    ///
    /// let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?;
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().with_range_filter(policy))?;
    /// for key in [&b"apple"[..], b"cherry", b"plum"] {
    ///     builder.add(key, b"value")?;
    /// }
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &TableOptions::default())?;
    ///
    /// assert!(table.filters().may_contain_prefix(b"che"), "a key begins with it");
    /// assert!(!table.may_contain_key(b"che"), "none is equal to it");
    /// assert!(table.filters().may_contain_range(&b"banana"[..]..&b"date"[..]));
    /// assert!(!table.filters().may_contain_range(&b"quince"[..]..), "above the largest key");
    /// assert!(!table.filters().may_contain_range(&b"fig"[..]..&b"grape"[..]), "by the filter");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn may_contain_key(&self, key: &[u8]) -> bool {
        !self.filters.probe(key).is_absent()
    }

    /// Searches index and data for a key inside the key bounds.
    pub(super) fn search(&self, key: &[u8]) -> Result<Lookup, TableError> {
        let position = self.index()?.position_of(key);
        self.search_block(position, self.cached_block(position), key)
    }

    /// Returns block `position` of the index, if the cache contains it. Counts nothing.
    pub(super) fn cached_block(&self, position: usize) -> Option<Arc<HeadedBlock>> {
        let (cache, index) = (self.cache.as_ref()?, self.index.get()?);
        cache.get(index.handle(position)?.offset)
    }

    /// Searches block `position` of the index. Reads it unless `cached`, and offers it to the cache.
    pub(super) fn search_block(
        &self,
        position: usize,
        cached: Option<Arc<HeadedBlock>>,
        key: &[u8],
    ) -> Result<Lookup, TableError> {
        if let Some(block) = cached {
            // Relaxed, because counters order no other memory.
            self.file.counters.block_cache_hits.fetch_add(1, Ordering::Relaxed);
            return block.get(key);
        }
        // Beyond the last block: the key is above the largest one.
        let Some(entry) = self.index()?.entry(position) else { return Ok(Lookup::Absent) };
        let block = self.read_data_block(&entry)?;
        // A block without heads is damaged, and stays out of the cache.
        if let Some(cache) = &self.cache
            && let Some(headed) = HeadedBlock::new(&block, entry.lower, entry.last_key)
        {
            cache.insert(entry.handle.offset, headed);
        }
        block.get(key)?.ok_or_else(|| block.ends_before(entry.last_key))
    }

    pub(super) const fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Prefetches the pointers to the index and the cache.
    pub(super) fn prefetch(&self) {
        prefetch(&raw const self.index);
        prefetch(&raw const self.cache);
    }

    /// Returns the number of the block for `key` in the index; `None` before the index is read.
    pub(super) fn block_position(&self, key: &[u8]) -> Option<usize> {
        Some(self.index.get()?.position_of(key))
    }

    /// Reads a data block, and checks its first key against the index and the properties.
    pub(crate) fn read_data_block(&self, entry: &DataBlockHandle<'_>) -> Result<Block, TableError> {
        self.file.counters.data_block_reads.fetch_add(1, Ordering::Relaxed);
        let block = self.file.read_block(TablePart::Data, entry.handle, self.table_id())?;
        let first = block.first_key()?;
        if !entry.admits_first(first) {
            return Err(block.corrupt("a first key that matches the index and the properties", shown(first)));
        }
        Ok(block)
    }

    /// Returns the index, which is read on first use.
    pub(crate) fn index(&self) -> Result<&TableIndex, TableError> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        // Outside `get_or_init`, because reading can fail. Threads that race may each read it.
        let index = self.read_index()?;
        Ok(self.index.get_or_init(|| Box::new(index)))
    }

    pub(crate) fn read_index(&self) -> Result<TableIndex, TableError> {
        self.file.counters.index_block_reads.fetch_add(1, Ordering::Relaxed);
        let block = self.file.read_block(TablePart::Index, self.parts.handles.index, self.table_id())?;
        TableIndex::decode(&block, &self.parts.properties)
    }

    /// Returns the table's properties.
    #[must_use]
    pub fn properties(&self) -> &TableProperties {
        &self.parts.properties
    }

    /// Returns the table's id.
    #[must_use]
    pub fn table_id(&self) -> &[u8; 16] {
        &self.parts.footer.table_id
    }

    /// Returns the filters in use: the sidecar's, or the table's own.
    #[must_use]
    pub fn filters(&self) -> &FileFilters {
        &self.filters
    }

    /// Returns the store that the table was opened with: its hash, key parts and budget.
    #[must_use]
    pub fn store(&self) -> &FilterStore {
        &self.store
    }

    /// Returns why the point filter is not used, if the table has one that is not.
    #[must_use]
    pub fn filter_problem(&self) -> Option<TableError> {
        self.filters.point_problem().map(|source| self.filter_bytes().refused(TablePart::Filter, source))
    }

    /// Returns why the range filter is not used, if the table has one that is not. Scans then read the table without
    /// it.
    #[must_use]
    pub fn range_filter_problem(&self) -> Option<TableError> {
        self.filters.range_problem().map(|source| self.filter_bytes().refused(TablePart::RangeFilter, source))
    }

    /// Whether the filters in use are those of a sidecar.
    #[must_use]
    pub fn uses_sidecar(&self) -> bool {
        matches!(self.sidecar.as_deref(), Some(Ok(_)))
    }

    /// Returns why the table's sidecar is not used, if there is one that is not. The table's own filter is then used.
    #[must_use]
    pub fn sidecar_problem(&self) -> Option<&TableError> {
        self.sidecar.as_deref()?.as_ref().err()
    }

    /// Returns the bytes of the whole table.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file.length
    }

    /// Returns the parts of the table with their byte ranges, in file order, end to end, without empty ones.
    #[must_use]
    pub fn layout(&self) -> Vec<(TablePart, Range<u64>)> {
        self.parts.layout()
    }

    /// Returns the byte range of `part`, if the table has it.
    #[must_use]
    pub fn region(&self, part: TablePart) -> Option<Range<u64>> {
        self.layout().into_iter().find_map(|(other, range)| (other == part).then_some(range))
    }

    /// Returns the counts of lookups and reads so far.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        let counters = &self.file.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of_sidecar = self.sidecar.as_deref().and_then(|sidecar| sidecar.as_ref().ok());
        TableStats {
            filters: self.filters.stats(),
            index_block_reads: count(&counters.index_block_reads),
            data_block_reads: count(&counters.data_block_reads),
            block_cache_hits: count(&counters.block_cache_hits),
            // The sidecar is another file, with its own counters.
            bytes_read: count(&counters.bytes_read)
                + of_sidecar.map_or(0, |bytes| count(&bytes.file.counters.bytes_read)),
            sidecar_problems: u64::from(self.sidecar_problem().is_some()),
        }
    }
}

/// Opens the filters in a sidecar. If one of them cannot be used, neither is used. A range filter that only lacks the
/// reader's extractor is an exception: the table's own would be of no more use.
fn open_sidecar(store: &FilterStore, bytes: FilterBytes) -> Result<(FilterBytes, FileFilters), TableError> {
    let filters = bytes.open(store);
    let of_ranges = filters.range_problem().filter(|problem| !problem.is_foreign());
    let problems = [(TablePart::Filter, filters.point_problem()), (TablePart::RangeFilter, of_ranges)];
    match problems.into_iter().find_map(|(part, problem)| Some(bytes.refused(part, problem?))) {
        Some(problem) => Err(problem),
        None => Ok((bytes, filters)),
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("parts", &self.parts)
            .field("filters", &self.filters)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
