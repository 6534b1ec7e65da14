//! Opening a table and looking keys up.

use core::fmt;
use core::sync::atomic::Ordering;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::block::{Block, Lookup};
use super::cache::{CachedBlock, next_table_number};
use super::error::shown;
use super::format::{BlockHandle, BlockHandles, FILTER_ALIGNMENT, FOOTER_BYTES, Footer};
use super::heads::HeadedBlock;
use super::index::{DataBlockPlace, TableIndex};
use super::io::{TableFile, io_error};
use super::{
    BlockCache, BlockKey, RandomAccess, ReadOptions, TableError, TableId, TableLayout, TableLocation, TablePart,
    TableProperties, TableStats,
};
use crate::block::{FilterReader, KindRegistry, LoadContext, LookupOutcome, Probe};
use crate::error::BlockError;
use crate::hash::{HashId, HashIdentity, KeyExtractor, KeyHash, KeyHasher};
use crate::stats::{CountedBySet, SharedCounter};

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
/// A filter that is damaged, of an unknown kind, or built with another hash or extractor is not probed: the table is
/// read without it, and [`filter_problem`](Self::filter_problem) says why.
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
    pub(crate) file: TableFile,
    pub(crate) parts: TableParts,
    filter: Option<TableFilter>,
    pub(crate) reader: Reader,
    index: OnceLock<TableIndex>,
    cache: Option<Arc<dyn BlockCache>>,
    number: u64,
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
        let parts = TableParts::read(&file)?;
        let described = || KeyHasher::from_identity(parts.properties.hash);
        let hasher = options.hasher.clone().or_else(described).unwrap_or_default();
        let reader = Reader { hasher, extractor: options.extractor.clone(), kinds: options.kinds.clone() };
        let handle = parts.handles.filter.filter(|_| !options.ignores_filters);
        let filter = handle.map(|handle| TableFilter::read(&file, handle, &parts, &reader));
        let (index, cache, number) = (OnceLock::new(), options.cache.clone(), next_table_number());
        Self { file, parts, filter, reader, index, cache, number }.accepted_by(options)
    }

    /// The table, unless its filter was built for another reader and `options` refuse that.
    pub(crate) fn accepted_by(mut self, options: &ReadOptions) -> Result<Self, TableError> {
        let is_refused = options.is_hash_strict && self.filter_problem().is_some_and(TableError::is_foreign_filter);
        if is_refused && let Some(problem) = self.filter.take().and_then(|filter| filter.problem) {
            return Err(problem);
        }
        Ok(self)
    }

    /// Whether the filter lacks a key of this table for a reader of the identity of the table's own, and that reader is
    /// to blame. With a public seed and whole keys, equal identities are equal hashes: then the filter is wrong.
    pub(crate) fn contradicts(&self, reader: &Reader) -> bool {
        if self.hash_identity().id == HashId::Xxh3 && self.reader.extractor.is_none() {
            return false;
        }
        match self.filter().map(FilterReader::block) {
            Some(Ok(_)) if self.reader.is_same(reader) => false,
            Some(Ok(block)) => reader.known_keys(&self.parts.properties).iter().any(|&hash| !block.may_contain(hash)),
            Some(Err(problem)) => matches!(problem, BlockError::KnownKeyAbsent { .. }),
            None => false,
        }
    }

    /// Stops using the filter, because another table has shown that the reader is not what its identity says.
    pub(crate) fn disable_filter(&mut self) {
        let reason = BlockError::KnownKeyAbsent { hash: self.hash_identity() };
        if let Some(filter) = self.filter.as_mut().filter(|filter| filter.reader.block().is_ok()) {
            *filter = TableFilter::new(filter.at.clone(), FilterReader::unusable(reason));
        }
    }

    /// Includes what a set of tables counts for this one from now on.
    pub(crate) fn enter_set(&mut self, range_skips: SharedCounter, negatives: CountedBySet) {
        if let Some(filter) = &mut self.filter {
            filter.reader.enter_set(negatives);
        }
        self.file.counters.range_skips_in_set = Some(range_skips);
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
        let probe = self.filter().and_then(|filter| Some(filter.probe(self.reader.hash_of(key)?)));
        self.get_after(probe, key, None)
    }

    /// The lookup of a set of which this table is part. The set has seen that `key` is in range, and that the filter
    /// may contain it if it was probed: a key outside the extractor's domain has no hash.
    /// `cached` is the key's block, if the set has taken it from the cache already.
    pub(crate) fn get_candidate(
        &self,
        key: &[u8],
        is_hashed: bool,
        cached: Option<CachedBlock>,
    ) -> Result<Lookup, TableError> {
        let probe = self.filter().filter(|_| is_hashed).map(FilterReader::count_positive);
        self.get_after(probe, key, cached)
    }

    /// Searches for a key in range unless `probe` says that it is absent, and tells the filter what came of a positive.
    /// Where the filter holds parts of keys, a missing key says nothing about its part: that outcome is not counted.
    fn get_after(
        &self,
        probe: Option<Probe<'_>>,
        key: &[u8],
        cached: Option<CachedBlock>,
    ) -> Result<Lookup, TableError> {
        if probe.is_some_and(Probe::is_absent) {
            return Ok(Lookup::Absent);
        }
        let lookup = match cached {
            Some(block) => self.search_cached(&block, key)?,
            None => self.search(key)?,
        };
        let outcome = if lookup == Lookup::Absent { LookupOutcome::NotFound } else { LookupOutcome::Found };
        let is_known = outcome == LookupOutcome::Found || self.extractor().is_none();
        if let Some(filter) = self.filter().filter(|_| probe.is_some() && is_known) {
            filter.record_lookup(outcome);
        }
        Ok(lookup)
    }

    /// Whether the table may hold `key`, by its range and its filter alone: `false` only if it does not.
    /// Nothing is read, and nothing counted.
    ///
    /// For all keys that begin with some bytes, see [`may_contain_prefix`](Self::may_contain_prefix).
    #[must_use]
    pub fn may_contain_key(&self, key: &[u8]) -> bool {
        self.parts.properties.range_holds(key) && self.filter_may_contain(self.reader.hash_of(key))
    }

    /// Whether the table may hold a key that begins with `prefix`, by its range and its filter alone: `false` only
    /// if it holds none. Nothing is read, and nothing counted. Every key begins with the empty prefix.
    ///
    /// The filter is probed only if it holds parts of keys, and [`KeyExtractor::extract_prefix`] has one part for all
    /// keys with the prefix. That part is not checked: an extractor that gives a wrong one loses keys. [`KeyExtractor`]
    /// has an example of a prefix scan.
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
        self.parts.properties.range_meets(prefix) && self.filter_may_contain(self.reader.hash_of_prefix(prefix))
    }

    /// What the filter says of a hash, uncounted; `true` without a hash, or without a filter that can be used.
    fn filter_may_contain(&self, hash: Option<KeyHash>) -> bool {
        let block = self.filter().and_then(|filter| filter.block().ok());
        block.zip(hash).is_none_or(|(block, hash)| block.may_contain(hash))
    }

    /// Searches index and data for a key in range.
    fn search(&self, key: &[u8]) -> Result<Lookup, TableError> {
        let index = self.index()?;
        let position = index.position_of(key);
        let Some(handle) = index.handle(position) else { return Ok(Lookup::Absent) };
        let cache_key = BlockKey { table: self.number, offset: handle.offset };
        if let Some(block) = self.cache.as_ref().and_then(|cache| cache.get(&cache_key)) {
            return self.search_cached(&block, key);
        }
        let Some(place) = index.place(position) else { return Ok(Lookup::Absent) };
        let block = self.read_data_block(&place)?;
        // A block that cannot be walked to the end is damaged: it stays out of the cache.
        if let Some(cache) = &self.cache
            && let Some(headed) = HeadedBlock::new(&block, place.lower, place.last_key)
        {
            cache.insert(cache_key, CachedBlock(Arc::new(headed)));
        }
        block.get(key)?.ok_or_else(|| block.ends_before(place.last_key))
    }

    fn search_cached(&self, CachedBlock(block): &CachedBlock, key: &[u8]) -> Result<Lookup, TableError> {
        self.file.counters.block_cache_hits.fetch_add(1, Ordering::Relaxed);
        block.get(key)
    }

    /// What the cache would have the key's block by; `None` without a cache, or before the index is read.
    pub(crate) fn block_key(&self, key: &[u8]) -> Option<BlockKey> {
        let index = self.index.get().filter(|_| self.cache.is_some())?;
        let handle = index.handle(index.position_of(key))?;
        Some(BlockKey { table: self.number, offset: handle.offset })
    }

    /// The block of `key`, if the cache has it, with what a search of it reads first on the way. Counts nothing.
    pub(crate) fn prefetch_cached(&self, key: &BlockKey) -> Option<CachedBlock> {
        let block = self.cache.as_ref()?.get(key)?;
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
        Ok(self.index.get_or_init(|| index))
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

    /// The extractor that is applied to keys before the filter is probed.
    #[must_use]
    pub fn extractor(&self) -> Option<&Arc<dyn KeyExtractor>> {
        self.reader.extractor.as_ref()
    }

    /// The filter; `None` when the table has none, or was opened without.
    #[must_use]
    pub fn filter(&self) -> Option<&FilterReader<Bytes>> {
        self.filter.as_ref().map(|filter| &filter.reader)
    }

    /// Why the filter is not used, if it is not although there is one.
    #[must_use]
    pub fn filter_problem(&self) -> Option<&TableError> {
        self.filter.as_ref()?.problem.as_ref()
    }

    /// Bytes of the whole table.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file.length
    }

    /// Where everything lies.
    #[must_use]
    pub fn layout(&self) -> TableLayout {
        TableLayout::new(&self.parts.handles, &self.parts.footer, self.parts.properties.data_bytes)
    }

    /// What was looked up and read so far.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        self.file.counters.snapshot(self.filter().map(FilterReader::stats).unwrap_or_default())
    }
}

/// What makes a probe out of a key, and the user-defined kinds of the filters probed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    pub(crate) hasher: KeyHasher,
    pub(crate) extractor: Option<Arc<dyn KeyExtractor>>,
    pub(crate) kinds: KindRegistry,
}

impl Reader {
    /// The hash that stands for `key` in filters: its own, or that of its part; `None` when the key is outside the
    /// extractor's domain.
    #[inline]
    pub(crate) fn hash_of(&self, key: &[u8]) -> Option<KeyHash> {
        match &self.extractor {
            None => Some(self.hasher.hash(key)),
            Some(extractor) => extractor.extract(key).map(|part| self.hasher.hash(&part)),
        }
    }

    /// The hash of the part that all keys with this prefix have; `None` when no filter can be probed for it. A filter
    /// of whole keys never can: it does not hold their prefixes.
    pub(crate) fn hash_of_prefix(&self, prefix: &[u8]) -> Option<KeyHash> {
        self.extractor.as_ref()?.extract_prefix(prefix).map(|part| self.hasher.hash(&part))
    }

    fn extractor_name(&self) -> Option<&str> {
        self.extractor.as_ref().map(|extractor| extractor.name())
    }

    /// Whether the other claims to make the same probes.
    pub(crate) fn has_identity_of(&self, other: &Self) -> bool {
        self.hasher.identity() == other.hasher.identity() && self.extractor_name() == other.extractor_name()
    }

    /// Whether the other is known to make the same probes; equal names do not prove it.
    fn is_same(&self, other: &Self) -> bool {
        let extractor = |reader: &Self| reader.extractor.as_ref().map(|extractor| Arc::as_ptr(extractor).cast::<()>());
        extractor(self) == extractor(other) && self.hasher.has_same_identity(&other.hasher)
    }

    /// An error if a table's filter holds other parts of keys than this reader would probe for.
    pub(crate) fn check_extractor(&self, properties: &TableProperties) -> Result<(), BlockError> {
        let (expected, got) = (self.extractor_name(), properties.key_extractor.as_deref());
        if expected == got {
            return Ok(());
        }
        let name = |extractor: Option<&str>| extractor.unwrap_or_default().to_owned();
        Err(BlockError::ExtractorMismatch { expected: name(expected), got: name(got) })
    }

    /// The hashes of the first and the last key of a table, which its filter must contain. Equal identities do not
    /// prove that hashes are equal: secret seeds may share a fingerprint, and an engine may have changed its function
    /// but not the tag.
    pub(crate) fn known_keys(&self, properties: &TableProperties) -> Vec<KeyHash> {
        let bounds = [&properties.smallest_key, &properties.largest_key];
        bounds.into_iter().flatten().filter_map(|key| self.hash_of(key)).collect()
    }
}

/// A table's filter: usable, or never in the way of a read.
#[derive(Debug)]
struct TableFilter {
    at: TableLocation,
    reader: FilterReader<Bytes>,
    problem: Option<TableError>,
}

impl TableFilter {
    fn new(at: TableLocation, reader: FilterReader<Bytes>) -> Self {
        let problem = reader.block().err().map(|source| TableError::Filter { at: at.clone(), source: source.clone() });
        Self { at, reader, problem }
    }

    /// Reads the filter block. Whatever is wrong with it makes an unusable filter.
    fn read(file: &TableFile, handle: BlockHandle, parts: &TableParts, reader: &Reader) -> Self {
        let at = file.location(TablePart::Filter, handle.offset);
        let contents = match parts.read_filter(file, handle) {
            Ok(contents) => contents,
            Err(error) => {
                let reader = FilterReader::unusable(BlockError::Unreadable { reason: error.to_string() });
                return Self { at, reader, problem: Some(error) };
            }
        };
        if let Err(mismatch) = reader.check_extractor(&parts.properties) {
            return Self::new(at, FilterReader::unusable(mismatch));
        }
        let known = reader.known_keys(&parts.properties);
        let context = LoadContext::new(&reader.hasher).with_known_keys(&known).with_kinds(&reader.kinds);
        Self::new(at, FilterReader::load(contents, context))
    }
}

/// What opening a table reads besides the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableParts {
    pub(crate) footer: Footer,
    pub(crate) handles: BlockHandles,
    pub(crate) properties: TableProperties,
}

impl TableParts {
    pub(crate) fn read(file: &TableFile) -> Result<Self, TableError> {
        let footer = read_footer(file)?;
        let block = |part, handle| file.read_block(part, handle, &footer.table_id);
        let handles = BlockHandles::decode(&block(TablePart::Metaindex, footer.metaindex)?, footer.metaindex)?;
        let block = block(TablePart::Properties, handles.properties)?;
        let properties = TableProperties::decode(&block)?;
        let is_placed = match handles.filter {
            None => properties.data_bytes == handles.properties.offset,
            Some(_) => properties.data_bytes <= handles.properties.offset,
        };
        if !is_placed {
            let got = format_args!("{} data bytes", properties.data_bytes);
            return Err(block.corrupt("data right up to the properties", got));
        }
        Ok(Self { footer, handles, properties })
    }

    /// Reads the filter block, which must lie where writers put it: behind the data, aligned, right before the
    /// properties.
    pub(crate) fn read_filter(&self, file: &TableFile, handle: BlockHandle) -> Result<Bytes, TableError> {
        let (data_bytes, end) = (self.properties.data_bytes, self.handles.properties.offset);
        let expected_offset = data_bytes.checked_next_multiple_of(FILTER_ALIGNMENT as u64);
        if expected_offset != Some(handle.offset) || handle.end() != Some(end) {
            let at = file.location(TablePart::Filter, handle.offset);
            let expected = format!("a block between the data ({data_bytes} bytes) and offset {end}");
            return Err(TableError::corrupt(at, expected, format_args!("{} bytes", handle.bytes())));
        }
        file.read_contents(TablePart::Filter, handle, &self.footer.table_id)
    }
}

fn read_footer(file: &TableFile) -> Result<Footer, TableError> {
    let Some(offset) = file.length.checked_sub(FOOTER_BYTES as u64) else {
        let at = file.location(TablePart::Footer, 0);
        return Err(TableError::Truncated { at, expected: FOOTER_BYTES as u64, got: file.length });
    };
    let mut bytes = [0; FOOTER_BYTES];
    file.read_into(&mut bytes, offset)?;
    Footer::decode(&bytes, file.length, &file.location(TablePart::Footer, offset))
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("parts", &self.parts)
            .field("filter", &self.filter)
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
