//! Opening a table and looking keys up.

use core::fmt;
use core::sync::atomic::Ordering;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::block::{Block, Lookup};
use super::cache::{CachedBlock, next_table_number};
use super::error::shown;
use super::heads::HeadedBlock;
use super::index::{DataBlockPlace, TableIndex};
use super::io::{TableFile, io_error};
use super::key_bounds::KeyBounds;
use super::range_filter::TableRangeFilter;
use super::table_filter::{Answer, TableFilter};
use super::table_parts::TableParts;
use super::table_sidecar::TableSidecar;
use super::{
    BlockCache, BlockKey, RandomAccess, ReadOptions, TableError, TableId, TableLayout, TableLocation, TablePart,
    TableProperties, TableStats,
};
use crate::block::{FilterBlock, FilterReader, LookupOutcome};
use crate::budget::FileBudget;
use crate::error::BlockError;
use crate::hash::{HashId, HashIdentity, KeyHash, KeyHasher, KeyParts};
use crate::kernel::prefetch::prefetch;
use crate::partition::PartitionIndex;
use crate::stats::{CountedBySet, SharedCounter};
use crate::store::reader::{Reader, SharedParts};

/// An open table. Threads share it by reference.
///
/// Opening reads the footer, the metaindex, the properties and the filter. The index is read when a lookup first needs
/// it, and stays in memory. A lookup goes by range, then filter, then index, then data block, and stops at the first
/// that does not hold the key: a key that the filter does not contain costs no read.
///
/// A file that is damaged, mostly a hole, or made by a stranger is safe to open. While a block's checksum is not known
/// to hold, at most 64 MiB of it are in memory; a longer block (the filter of a very large table) is read twice, the
/// first time for its checksum alone. All keys of a walk together have at most 1,024 times the bytes of the file.
///
/// A [sidecar](crate::sidecar) beside the table is used instead of the table's own filter, if it is sound and was made
/// for this table; see [`sidecar_problem`](Self::sidecar_problem) and [`write_sidecar`](Self::write_sidecar).
///
/// A filter that is damaged, of an unknown kind, or built with another hash, or of other parts of keys, is not probed:
/// the table is read without it, and [`filter_problem`](Self::filter_problem) says why. The same holds for a range
/// filter, with [`range_filter_problem`](Self::range_filter_problem).
///
/// ```
/// use sstfilter::sst::{Lookup, ReadOptions, Table, TableBuilder, TableOptions};
///
/// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
/// for key in 0..1_000_u32 {
///     builder.add(&key.to_be_bytes(), b"value")?;
/// }
/// let bytes = bytes::Bytes::from(builder.finish()?.0);
///
/// let table = Table::open_source(bytes, &ReadOptions::default())?;
/// assert!(matches!(table.get(&7_u32.to_be_bytes())?, Lookup::Found(_)));
/// assert_eq!(table.get(&7_000_u32.to_be_bytes())?, Lookup::Absent);
/// assert_eq!(table.properties().entries, 1_000);
/// # Ok::<(), sstfilter::sst::TableError>(())
/// ```
pub struct Table {
    pub(crate) file: Arc<TableFile>,
    pub(crate) parts: TableParts,
    filter: Option<TableFilter>,
    /// Boxed, because most tables have neither.
    beside: Option<Box<Beside>>,
    pub(crate) reader: Arc<Reader>,
    /// What the filter is probed for.
    pub(crate) shared: SharedParts,
    /// Boxed, because most tables of a large store have not been searched.
    index: OnceLock<Box<TableIndex>>,
    /// Boxed, because with it a table's name in the cache is needed, and without it neither.
    cache: Option<Box<TableCache>>,
    /// Further range skips, counted by the set that the table is in.
    range_skips_in_set: Option<Box<SharedCounter>>,
}

/// What a table may have beside the filter that it was written with.
struct Beside {
    sidecar: Option<TableSidecar>,
    range_filter: Option<TableRangeFilter>,
}

/// A block cache, and the table's number in the keys of its blocks.
struct TableCache {
    blocks: Arc<dyn BlockCache>,
    number: u64,
}

impl TableCache {
    fn key_at(&self, offset: u64) -> BlockKey {
        BlockKey { table: self.number, offset }
    }
}

impl Table {
    /// Opens the table at `path`.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`]; a file that is no table, of an unknown version, or of another length than its
    /// footer says; a damaged footer, metaindex or properties block. A bad filter is no error; one of another hash
    /// or extractor is, if [`ReadOptions::with_strict_hash`] says so.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, TableError> {
        let path = path.as_ref();
        let file = options.files.open(path).map_err(io_error("opening", Some(path)))?;
        Self::open_file(TableFile::new(file, Some(path.into()))?, options)
    }

    /// Opens the table that `source` holds, from its first to its last byte.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn open_source(source: impl RandomAccess + 'static, options: &ReadOptions) -> Result<Self, TableError> {
        Self::open_file(TableFile::new(Box::new(source), None)?, options)
    }

    fn open_file(file: TableFile, options: &ReadOptions) -> Result<Self, TableError> {
        let mut parts = TableParts::read(&file)?;
        let writer = &mut parts.properties.writer;
        *writer = options.writers.share(|known| known == writer.as_ref(), || Arc::clone(writer));
        let described = || KeyHasher::from_identity(parts.properties.writer.hash);
        let hasher = options.hasher.clone().or_else(described).unwrap_or_default();
        let (reader, file) = (options.reader(&hasher), Arc::new(file));
        let (sidecar, used) = TableSidecar::find(&file, options, &parts, &reader);
        let (filter, shared) = used.unzip();
        // A filter without shared parts is unusable, and says so to each lookup that would probe it.
        let own =
            || reader.parts_shared_with(&parts.properties.writer.key_parts).unwrap_or_else(|_| reader.all_parts());
        let shared = shared.unwrap_or_else(own);
        let handle = parts.handles.filter.filter(|_| !options.ignores_filters);
        let filter = filter.or_else(|| Some(TableFilter::open(&file, handle?, &parts, &reader, options)));
        let range_filter = TableRangeFilter::open(&file, &parts, &reader, options);
        let is_any = sidecar.is_some() || range_filter.is_some();
        let index = OnceLock::new();
        let cache = options.cache.clone().map(|blocks| Box::new(TableCache { blocks, number: next_table_number() }));
        let table = Self {
            beside: is_any.then(|| Box::new(Beside { sidecar, range_filter })),
            range_skips_in_set: None,
            file,
            parts,
            filter,
            reader,
            shared,
            index,
            cache,
        };
        table.accepted_by(options)
    }

    /// The sidecar, usable or not.
    pub(super) fn own_sidecar(&self) -> Option<&TableSidecar> {
        self.beside.as_ref()?.sidecar.as_ref()
    }

    /// The range filter, usable or not.
    pub(super) fn own_range_filter(&self) -> Option<&TableRangeFilter> {
        self.beside.as_ref()?.range_filter.as_ref()
    }

    /// The table, unless its filter was built for another reader and `options` refuse that.
    pub(crate) fn accepted_by(mut self, options: &ReadOptions) -> Result<Self, TableError> {
        let is_refused = options.is_hash_strict && self.filter_problem().is_some_and(TableError::is_foreign_filter);
        if is_refused && let Some(problem) = self.filter.take().and_then(TableFilter::into_problem) {
            return Err(problem);
        }
        // Without a filter of its own, the table is searched for every key because of the sidecar.
        let is_unserved = self.filter.is_none() && self.sidecar_problem().is_some_and(TableError::is_foreign_filter);
        if options.is_hash_strict
            && is_unserved
            && let Some(problem) = self.beside.take().and_then(|beside| beside.sidecar?.into_problem())
        {
            return Err(problem);
        }
        let is_range_refused = |filter: &TableRangeFilter| filter.foreign_problem().is_some();
        if options.is_hash_strict
            && self.own_range_filter().is_some_and(is_range_refused)
            && let Some(problem) = self.beside.take().and_then(|beside| beside.range_filter?.into_problem())
        {
            return Err(problem);
        }
        Ok(self)
    }

    /// Whether the filter lacks a key of this table for a reader of the identity of the table's own, and that reader is
    /// to blame. With a public seed and whole keys, equal identities are equal hashes: then the filter is wrong.
    pub(crate) fn contradicts(&self, reader: &Reader) -> bool {
        if self.own_range_filter().is_some_and(|filter| filter.contradicts_reader) {
            return true;
        }
        if self.hash_identity().id == HashId::Xxh3 && self.key_parts().extractors().len() == 0 {
            return false;
        }
        // Its keys are not in the sidecar by this reader's hashes: those of other tables may seem to be by chance.
        let of_sidecar = self.sidecar_problem().and_then(TableError::filter_reason);
        if matches!(of_sidecar, Some(BlockError::KnownKeyAbsent { .. })) {
            return true;
        }
        match self.filter().map(FilterReader::block) {
            Some(Ok(_)) if self.reader.is_same(reader) => false,
            Some(Ok(block)) => {
                let mut known = reader.known_hashes(self.shared, self.parts.properties.bounds());
                known.any(|(_, hash)| !block.may_contain_added(hash))
            }
            Some(Err(problem)) => matches!(problem, BlockError::KnownKeyAbsent { .. }),
            None => false,
        }
    }

    /// Stops using the filters, because another table has shown that the reader is not what its identity says.
    pub(crate) fn disable_filter(&mut self) {
        let reason = BlockError::KnownKeyAbsent { hash: self.hash_identity() };
        let at = self.filter_location();
        if let Some(filter) = &mut self.filter {
            filter.disable(at, reason.clone());
        }
        let range_filter = self.beside.as_mut().and_then(|beside| beside.range_filter.as_mut());
        if let (Some(filter), Some(handle)) = (range_filter, self.parts.properties.range_handle()) {
            filter.disable(&self.file, handle, reason);
        }
    }

    /// Where the filter is that is used, or would be.
    fn filter_location(&self) -> TableLocation {
        let own = || match self.parts.handles.filter {
            Some(filter) => self.file.location(filter.part(), filter.block().offset),
            None => self.file.location(TablePart::Filter, 0),
        };
        self.own_sidecar().and_then(TableSidecar::filter_in_use).unwrap_or_else(own)
    }

    /// Includes what a set of tables counts for this one from now on.
    pub(crate) fn enter_set(&mut self, range_skips: SharedCounter, negatives: CountedBySet) {
        if let Some(filter) = &mut self.filter {
            filter.enter_set(negatives);
        }
        self.range_skips_in_set = Some(Box::new(range_skips));
    }

    /// Looks `key` up: in range, filter, index and data block, as far as needed.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`], or damage in the index or in the data block that would hold the key.
    pub fn get(&self, key: &[u8]) -> Result<Lookup, TableError> {
        if !self.parts.properties.range_holds(key) {
            self.file.counters.range_skips.fetch_add(1, Ordering::Relaxed);
            return Ok(Lookup::Absent);
        }
        let probe = self.probe(key, || self.reader.hasher.hash(key));
        self.get_after(&probe, key, FoundBlock::NotSought)
    }

    /// Probes for the parts of a key in range until one is absent, and counts one answer. `whole` is the hash of the
    /// whole key. A key outside the domains of all extractors is not probed for.
    #[inline]
    pub(crate) fn probe(&self, key: &[u8], whole: impl FnOnce() -> KeyHash) -> Answer {
        let Some(filter) = &self.filter else { return Answer::NotProbed };
        if self.shared.has_whole_keys() {
            return filter.probe(key, whole());
        }
        let mut hashes = self.reader.point_hashes(self.shared, key);
        let Some(mut decisive) = hashes.next() else { return Answer::NotProbed };
        for next in hashes {
            if !filter.may_contain(key, decisive) {
                break;
            }
            decisive = next;
        }
        filter.probe(key, decisive)
    }

    /// Prefetches what a probe for the whole key of a hash reads, if the filter has whole keys.
    #[inline]
    pub(crate) fn prefetch_filter(&self, whole: impl FnOnce() -> KeyHash) {
        if let Some(filter) = self.filter().filter(|_| self.shared.has_whole_keys()) {
            filter.prefetch_probe(whole);
        }
    }

    /// Prefetches what finds the filter.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&raw const self.filter);
        prefetch(&raw const self.shared);
    }

    /// Prefetches what finds the filter's bits, if all of the filter is in memory.
    #[inline]
    pub(crate) fn prefetch_reader(&self) {
        if let Some(filter) = self.filter() {
            filter.prefetch();
        }
    }

    /// Counts that the filter, probed together with others, lacks a key.
    pub(crate) fn count_negative(&self) {
        if let Some(filter) = self.filter() {
            filter.count_negative();
        }
    }

    /// What the filter says of a key for which a set of tables, of which this is one, has probed the filters that it
    /// has in memory: a filter under a budget is probed only now, where no newer table has the key.
    pub(crate) fn probe_candidate(&self, key: &[u8]) -> Answer {
        match &self.filter {
            Some(filter) if filter.is_budgeted() => self.probe(key, || self.reader.hasher.hash(key)),
            Some(filter) if self.reader.has_point_hash(self.shared, key) => filter.count_positive(),
            _ => Answer::NotProbed,
        }
    }

    /// Searches for a key in range unless `probe` says that it is absent, and tells the filter what came of a positive.
    /// Where the filter holds parts of keys alone, a missing key says nothing about its parts: that outcome is not
    /// counted.
    pub(crate) fn get_after(&self, probe: &Answer, key: &[u8], found: FoundBlock) -> Result<Lookup, TableError> {
        if probe.is_absent() {
            return Ok(Lookup::Absent);
        }
        let lookup = match found {
            FoundBlock::NotSought => self.search(key)?,
            FoundBlock::At(place) => self.search_read(place.position, key)?,
            FoundBlock::Cached(block) => self.search_cached(&block, key)?,
        };
        let outcome = if lookup == Lookup::Absent { LookupOutcome::NotFound } else { LookupOutcome::Found };
        let is_known = outcome == LookupOutcome::Found || self.shared.has_whole_keys();
        if let Some(filter) = self.filter.as_ref().filter(|_| is_known) {
            filter.record_lookup(probe, outcome);
        }
        Ok(lookup)
    }

    /// Whether the table may hold `key`, by its range and its filter alone: `false` only if it does not.
    /// Nothing is read, and nothing counted, unless the filter has partitions or is under a budget: it is then probed
    /// as by a lookup, which may read a part of it.
    ///
    /// For all keys that begin with some bytes, see [`may_contain_prefix`](Self::may_contain_prefix).
    #[must_use]
    pub fn may_contain_key(&self, key: &[u8]) -> bool {
        let may_contain =
            |filter: &TableFilter| self.reader.point_hashes(self.shared, key).all(|hash| filter.may_contain(key, hash));
        self.parts.properties.range_holds(key) && self.filter.as_ref().is_none_or(may_contain)
    }

    /// Whether the table may hold a key that begins with `prefix`, by its range and its filter alone: `false` only
    /// if it holds none. Nothing is read, and nothing counted, as far as that is so for
    /// [`may_contain_key`](Self::may_contain_key). Every key begins with the empty prefix.
    ///
    /// The filter is probed only if it holds parts of keys, and
    /// [`KeyExtractor::extract_prefix`](crate::KeyExtractor::extract_prefix) has one part for all keys with the prefix.
    /// An extractor that gives a wrong one loses keys. The range filter, if there is one, is probed for the range of
    /// these keys.
    ///
    /// ```
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// builder.add(b"t042:user:7", b"value")?;
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    ///
    /// assert!(table.may_contain_prefix(b"t042:"), "a key begins with it");
    /// assert!(!table.may_contain_key(b"t042:"), "none is equal to it");
    /// assert!(!table.may_contain_prefix(b"t043:"), "out of range");
    /// # Ok::<(), sstfilter::sst::TableError>(())
    /// ```
    #[must_use]
    pub fn may_contain_prefix(&self, prefix: &[u8]) -> bool {
        self.parts.properties.range_meets(prefix)
            && self.may_contain_parts_of(prefix)
            && (self.own_range_filter().is_none() || self.filter_may_hold(KeyBounds::of_prefix(prefix).range()))
    }

    /// Whether the filter may contain the parts that all keys with the prefix have in common.
    pub(crate) fn may_contain_parts_of(&self, prefix: &[u8]) -> bool {
        let mut hashes = self.reader.prefix_hashes(self.shared, prefix);
        self.filter.as_ref().is_none_or(|filter| hashes.all(|hash| filter.may_contain_prefix(prefix, hash)))
    }

    /// Searches index and data for a key in range.
    fn search(&self, key: &[u8]) -> Result<Lookup, TableError> {
        let index = self.index()?;
        let position = index.position_of(key);
        let Some(handle) = index.handle(position) else { return Ok(Lookup::Absent) };
        let cached = self.cache.as_ref().and_then(|cache| cache.blocks.get(&cache.key_at(handle.offset)));
        match cached {
            Some(block) => self.search_cached(&block, key),
            None => self.search_read(position, key),
        }
    }

    /// Reads the block at `position` of the index, offers it to the cache, and searches it.
    fn search_read(&self, position: usize, key: &[u8]) -> Result<Lookup, TableError> {
        let Some(place) = self.index()?.place(position) else { return Ok(Lookup::Absent) };
        let block = self.read_data_block(&place)?;
        // A block that cannot be walked to the end is damaged: it stays out of the cache.
        if let Some(cache) = &self.cache
            && let Some(headed) = HeadedBlock::new(&block, place.lower, place.last_key)
        {
            cache.blocks.insert(cache.key_at(place.handle.offset), CachedBlock(Arc::new(headed)));
        }
        block.get(key)?.ok_or_else(|| block.ends_before(place.last_key))
    }

    fn search_cached(&self, CachedBlock(block): &CachedBlock, key: &[u8]) -> Result<Lookup, TableError> {
        self.file.counters.block_cache_hits.fetch_add(1, Ordering::Relaxed);
        block.get(key)
    }

    /// Which block may hold the key; `None` without a cache, or before the index is read.
    pub(crate) fn place_of(&self, key: &[u8]) -> Option<BlockPlace> {
        let (cache, index) = (self.cache.as_ref()?, self.index.get()?);
        let position = index.position_of(key);
        let handle = index.handle(position)?;
        Some(BlockPlace { position, key: cache.key_at(handle.offset) })
    }

    /// The block at `place`, if the cache has it, with what a search of it reads first on the way. Counts nothing.
    pub(crate) fn prefetch_cached(&self, place: &BlockPlace) -> Option<CachedBlock> {
        let block = self.cache.as_ref()?.blocks.get(&place.key)?;
        block.0.prefetch();
        Some(block)
    }

    /// Reads a data block, and checks that its first key is where the index and the properties place the block.
    pub(crate) fn read_data_block(&self, place: &DataBlockPlace<'_>) -> Result<Block, TableError> {
        self.file.counters.data_block_reads.fetch_add(1, Ordering::Relaxed);
        let block = self.file.read_block(TablePart::Data, place.handle, self.table_id())?;
        let first = block.first_key()?;
        if !place.admits_first(first) {
            return Err(block.corrupt("a first key where index and properties have the block", shown(first)));
        }
        Ok(block)
    }

    /// The index, read on first use.
    pub(crate) fn index(&self) -> Result<&TableIndex, TableError> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let index = self.read_index()?;
        Ok(self.index.get_or_init(|| Box::new(index)))
    }

    pub(crate) fn read_index(&self) -> Result<TableIndex, TableError> {
        self.file.counters.index_block_reads.fetch_add(1, Ordering::Relaxed);
        let block = self.file.read_block(TablePart::Index, self.parts.handles.index, self.table_id())?;
        TableIndex::decode(&block, &self.parts.properties)
    }

    /// What the table says of itself.
    #[must_use]
    pub fn properties(&self) -> &TableProperties {
        &self.parts.properties
    }

    /// The table's id.
    #[must_use]
    pub fn table_id(&self) -> &TableId {
        &self.parts.footer.table_id
    }

    /// The hash that the filter is probed with.
    #[must_use]
    pub fn hash_identity(&self) -> HashIdentity {
        self.reader.hasher.identity()
    }

    /// What of a key the filter is probed for, if it has it.
    #[must_use]
    pub fn key_parts(&self) -> &KeyParts {
        &self.reader.parts
    }

    /// The whole filter: that of the [sidecar](Self::sidecar) if there is one, or the table's own; `None` when the
    /// table has neither, or was opened without. A filter that has partitions or is under a budget is not in memory as
    /// a whole: [`filter_budget`](Self::filter_budget) tells of those, and [`stats`](Self::stats) has the counts of
    /// all.
    #[must_use]
    pub fn filter(&self) -> Option<&FilterReader<Bytes>> {
        self.filter.as_ref()?.resident()
    }

    /// How much of the filter is in memory, and why, if it has partitions or is under a
    /// [budget](ReadOptions::with_filter_budget).
    #[must_use]
    pub fn filter_budget(&self) -> Option<FileBudget> {
        self.filter.as_ref()?.budget()
    }

    /// The top index of the filter that [`filter`](Self::filter) describes, if it has partitions.
    ///
    /// ```
    /// use sstfilter::partition::PartitionOptions;
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let options = TableOptions::default().with_partitioned_filter(PartitionOptions::default());
    /// let mut builder = TableBuilder::new(Vec::new(), &options)?;
    /// (0..50_000_u32).try_for_each(|key| builder.add(&key.to_be_bytes(), b""))?;
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    ///
    /// let index = table.partition_index().expect("a partitioned filter");
    /// let mut keys = 0;
    /// for number in 0..index.partitions() {
    ///     let partition = table.read_partition(number).expect("a partitioned filter");
    ///     keys += partition.expect("a sound partition").info().keys;
    /// }
    /// assert_eq!((index.partitions(), keys), (4, 50_000));
    /// # Ok::<(), sstfilter::sst::TableError>(())
    /// ```
    #[must_use]
    pub fn partition_index(&self) -> Option<&PartitionIndex> {
        self.filter.as_ref()?.partitioned()?.partitions()
    }

    /// Reads a partition of the filter, for tools: lookups and their counts are not changed by it. `None` when the
    /// filter has no partitions; [`partition_index`](Self::partition_index) has an example.
    ///
    /// # Errors
    ///
    /// [`BlockError`] when the partition has no filter, is damaged or cannot be read, or when there is none of this
    /// number. When one that must hold the table's first or last key is damaged or does not, no partition is read, unless
    /// their presence follows from the filter's identity.
    #[must_use]
    pub fn read_partition(&self, number: u32) -> Option<Result<FilterBlock<Bytes>, BlockError>> {
        Some(self.filter.as_ref()?.partitioned()?.read(number))
    }

    /// Whether lookups of a set probe the filter table by table.
    pub(crate) fn has_budgeted_filter(&self) -> bool {
        self.filter.as_ref().is_some_and(TableFilter::is_budgeted)
    }

    /// Why the filter is not used, if it is not although there is one.
    #[must_use]
    pub fn filter_problem(&self) -> Option<&TableError> {
        self.filter.as_ref()?.problem()
    }

    /// Bytes of the whole table.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file.length
    }

    /// Where everything lies.
    #[must_use]
    pub fn layout(&self) -> TableLayout {
        let TableParts { footer, handles, properties } = &self.parts;
        TableLayout::new(handles, properties.range_handle(), footer, properties.data_bytes)
    }

    /// What was looked up and read so far.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        let filter = self.filter.as_ref().map(TableFilter::stats).unwrap_or_default();
        let range_filter = self.own_range_filter().map(TableRangeFilter::stats).unwrap_or_default();
        let mut stats = self.file.counters.snapshot(filter, range_filter);
        stats.range_skips += self.range_skips_in_set.as_ref().map_or(0, |skips| skips.get());
        stats.bytes_read += self.own_sidecar().map_or(0, TableSidecar::bytes_read);
        stats.sidecar_problems = u64::from(self.sidecar_problem().is_some());
        stats
    }
}

/// Where the block is that may hold a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPlace {
    /// In the table's index.
    position: usize,
    /// In the cache.
    pub(crate) key: BlockKey,
}

/// What is known of the block that may hold a key before its table is searched.
#[derive(Debug)]
pub(crate) enum FoundBlock {
    NotSought,
    /// It is here, and not in the cache.
    At(BlockPlace),
    Cached(CachedBlock),
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("parts", &self.parts)
            .field("filter", &self.filter)
            .field("sidecar", &self.own_sidecar())
            .field("range_filter", &self.own_range_filter())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sst::{TableBuilder, TableOptions};

    #[test]
    fn threads_share_a_table_and_read_its_index_once() {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap();
        (0..500).for_each(|key| builder.add(format!("{key:04}").as_bytes(), b"value").unwrap());
        let table = Table::open_source(Bytes::from(builder.finish().unwrap().0), &ReadOptions::default()).unwrap();
        table.get(b"0000").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for key in (thread..500).step_by(4) {
                        assert!(matches!(table.get(format!("{key:04}").as_bytes()).unwrap(), Lookup::Found(_)));
                    }
                });
            }
        });
        assert_eq!((table.stats().index_block_reads, table.stats().filter.true_positives), (1, 501));
    }
}
