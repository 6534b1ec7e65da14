//! Opening a table and looking keys up.

use core::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::entry_block::{EntryBlock, KeptBlock};
use super::file::{TableFile, io_error};
use super::handle::{BlockHandle, name};
use super::index::TableIndex;
use super::kept::KeptBlocks;
use super::options::{BlockUse, FilterMatch, FilterUse};
use super::parts::{TableParts, read_entry_block};
use super::table_filter::{FilterReader, TableFilter};
use super::{
    RandomAccess, ReadOptions, TableError, TableId, TableIter, TableLayout, TableProperties, TableStats, VerifyReport,
};
use crate::block::{GuardedFilter, LookupOutcome, Probe};
use crate::hash::{HashIdentity, KeyExtractor, KeyHash, KeyHasher};
use crate::stats::SkipShare;

/// What a table says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The value. It shares the memory of the data block it was read from.
    Found(Bytes),
    /// A tombstone: the key is deleted in this table and all older ones.
    Deleted,
    /// Absent from this table; older ones may have it.
    Absent,
}

/// An open table. Threads share it by reference.
///
/// Opening reads the footer, the metaindex, the properties and the filter. The index is read when a
/// lookup first needs it, and kept. A lookup goes by range, then filter, then index, then data block,
/// and stops at the first that denies the key: a key denied by the filter costs no read.
///
/// A file that is damaged, mostly a hole, or made by a stranger is safe to open. Of a block whose checksum does not hold,
/// at most 64 MiB are ever in memory; a longer block (the filter of a very large table) is read twice, the first time
/// for its checksum alone. All keys of a walk together have at most 1,024 times the bytes of the file.
///
/// A damaged filter, one of a kind that this release does not know, or one that was built with another
/// hash or extractor is not asked: the table is read without it, and
/// [`filter_problem`](Self::filter_problem) says why.
///
/// ```
/// use sstfilter::{Lookup, ReadOptions, Table, TableBuilder, TableOptions};
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
/// # Ok::<(), sstfilter::TableError>(())
/// ```
pub struct Table {
    pub(crate) file: TableFile,
    pub(crate) parts: TableParts,
    filter: Option<TableFilter>,
    hasher: KeyHasher,
    extractor: Option<Arc<dyn KeyExtractor>>,
    index: OnceLock<TableIndex>,
    /// `None` when blocks are not kept.
    kept: Option<KeptBlocks>,
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
        let file = options.files.open(path).map_err(|error| io_error("opening", Some(path), error))?;
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
        let extractor = options.extractor.clone();
        let reader = FilterReader { hasher: hasher.clone(), extractor: extractor.clone() };
        let handle = parts.handles.filter.filter(|_| options.filter_use == FilterUse::Ask);
        let filter = handle.map(|handle| TableFilter::read(&file, handle, &parts, &reader));
        let kept = (options.block_use == BlockUse::Keep).then(KeptBlocks::default);
        let table = Self { file, parts, filter, hasher, extractor, index: OnceLock::new(), kept };
        table.accept_filter(options)
    }

    /// The table, unless its filter was built for another reader and `options` refuse that.
    pub(crate) fn accept_filter(mut self, options: &ReadOptions) -> Result<Self, TableError> {
        let is_refused = options.filter_match == FilterMatch::Required
            && self.filter_problem().is_some_and(TableError::is_foreign_filter);
        match self.filter.as_mut().and_then(|filter| filter.problem.take_if(|_| is_refused)) {
            Some(problem) => Err(problem),
            None => Ok(self),
        }
    }

    pub(crate) fn filter_reader(&self) -> FilterReader {
        FilterReader { hasher: self.hasher.clone(), extractor: self.extractor.clone() }
    }

    /// Whether the filter denied a key of this table, though its hash has the reader's identity.
    pub(crate) fn filter_has_denied_its_own(&self) -> bool {
        self.filter.as_ref().is_some_and(TableFilter::has_denied_its_own)
    }

    /// Does without the filter, because the hasher is not the one that its identity says.
    pub(crate) fn distrust_filter(&mut self) {
        let hash = self.hash_identity();
        if let Some(filter) = &mut self.filter {
            filter.distrust(hash);
        }
    }

    /// Makes the table's filter answer to `hasher` and `extractor` from now on.
    pub(crate) fn rebind(&mut self, hasher: &KeyHasher, extractor: Option<&Arc<dyn KeyExtractor>>) {
        let before = self.filter_reader();
        self.hasher = hasher.clone();
        self.extractor = extractor.cloned();
        let reader = self.filter_reader();
        if let Some(filter) = self.filter.as_mut().filter(|_| !before.asks_like(&reader)) {
            filter.rebind(&reader, &self.parts.properties);
        }
    }

    /// Looks `key` up: in range, filter, index and data block, as far as needed.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`], or damage in the index or in the data block that would hold the key.
    pub fn get(&self, key: &[u8]) -> Result<Lookup, TableError> {
        if !self.holds_in_range(key) {
            return Ok(Lookup::Absent);
        }
        match self.filter().and_then(|filter| Some(filter.probe(self.hash_of(key)?))) {
            Some(Probe::Absent) => Ok(Lookup::Absent),
            Some(Probe::MaybePresent) => self.search_after_positive(key),
            Some(Probe::Unusable(_)) | None => self.search(key),
        }
    }

    /// Whether the table may hold `key`, by its range and its filter alone: `false` only if it does not.
    /// Nothing is read, and nothing counted.
    ///
    /// All keys that begin with some bytes are another question: [`may_contain_prefix`](Self::may_contain_prefix).
    #[must_use]
    pub fn may_contain_key(&self, key: &[u8]) -> bool {
        self.parts.properties.range_holds(key) && self.filter_may_contain(self.hash_of(key))
    }

    /// Whether the table may hold a key that begins with `prefix`, by its range and its filter alone: `false` only
    /// if it holds none. Nothing is read, and nothing counted. Every key begins with the empty prefix.
    ///
    /// The filter is probed only if it holds parts of keys, and [`KeyExtractor::extract_prefix`] has one part for all
    /// keys with the prefix. That part is not checked: an extractor that gives a wrong one loses keys. [`KeyExtractor`]
    /// has an example of a prefix scan.
    ///
    /// ```
    /// use sstfilter::{ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// builder.add(b"t042:user:7", b"value")?;
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    ///
    /// assert!(table.may_contain_prefix(b"t042:"), "a key begins with it");
    /// assert!(!table.may_contain_key(b"t042:"), "none is equal to it");
    /// assert!(!table.may_contain_prefix(b"t043:"), "out of range");
    /// # Ok::<(), sstfilter::TableError>(())
    /// ```
    #[must_use]
    pub fn may_contain_prefix(&self, prefix: &[u8]) -> bool {
        range_meets_prefix(&self.parts.properties, prefix)
            && self.filter_may_contain(prefix_hash(&self.hasher, self.extractor.as_deref(), prefix))
    }

    /// What the filter says of a hash, uncounted; `true` without a hash, or without a filter that can be used.
    fn filter_may_contain(&self, hash: Option<KeyHash>) -> bool {
        let block = self.filter().and_then(|filter| filter.block().ok());
        block.zip(hash).is_none_or(|(block, hash)| block.may_contain(hash))
    }

    /// The hash of `key` for this table's filter; `None` when the key is outside the extractor's domain.
    fn hash_of(&self, key: &[u8]) -> Option<KeyHash> {
        prepare(&self.hasher, self.extractor.as_deref(), key)
    }

    /// Searches for a key of `hash` that is in range and that the filter does not deny: the answer of a set
    /// of which this table is part. Without a hash, the filter was not asked.
    pub(crate) fn visit_candidate(&self, key: &[u8], hash: Option<KeyHash>) -> Result<Lookup, TableError> {
        match self.filter().filter(|_| hash.is_some()).map(GuardedFilter::count_undenied) {
            Some(Probe::MaybePresent) => self.search_after_positive(key),
            Some(Probe::Absent | Probe::Unusable(_)) | None => self.search(key),
        }
    }

    /// Counts what a set skips in this table, too.
    pub(crate) fn join(&mut self, share: SkipShare) {
        if let Some(filter) = &mut self.filter {
            filter.guarded.join(share.clone());
        }
        self.file.counters.share = Some(share);
    }

    /// Whether `key` is in the table's range; counts a skip if not.
    fn holds_in_range(&self, key: &[u8]) -> bool {
        let holds = self.parts.properties.range_holds(key);
        if !holds {
            self.file.counters.range_skips.add(1);
        }
        holds
    }

    /// Searches for a key that the filter let through, and tells the filter what became of it. Where the
    /// filter holds parts of keys, an absent key says nothing of its part: that outcome is not counted.
    fn search_after_positive(&self, key: &[u8]) -> Result<Lookup, TableError> {
        let lookup = self.search(key)?;
        let outcome = if lookup == Lookup::Absent { LookupOutcome::NotFound } else { LookupOutcome::Found };
        let is_known = outcome == LookupOutcome::Found || self.extractor().is_none();
        if let Some(filter) = self.filter().filter(|_| is_known) {
            filter.record_lookup(outcome);
        }
        Ok(lookup)
    }

    /// Searches index and data for a key in range.
    fn search(&self, key: &[u8]) -> Result<Lookup, TableError> {
        let index = self.index()?;
        let position = index.position_of(key);
        if position == index.len() {
            return Ok(Lookup::Absent);
        }
        match &self.kept {
            None => search_block(&self.data_block(index, position)?, key, index.last_key(position)),
            Some(kept) => self.search_kept(kept, index, position, key),
        }
    }

    /// Searches a data block that is kept, or is to be kept from now on.
    fn search_kept(
        &self,
        kept: &KeptBlocks,
        index: &TableIndex,
        position: usize,
        key: &[u8],
    ) -> Result<Lookup, TableError> {
        if let Some(block) = kept.get(position) {
            self.file.counters.kept_block_hits.add(1);
            return block.get(key);
        }
        let block = self.data_block(index, position)?;
        let lower = match position.checked_sub(1) {
            Some(before) => index.last_key(before),
            None => self.parts.properties.smallest_key.as_deref().unwrap_or_default(),
        };
        let last_key = index.last_key(position);
        if let Some(block) = KeptBlock::new(&block, lower, last_key) {
            kept.keep(position, block, index.len());
        }
        search_block(&block, key, last_key)
    }

    /// Reads a data block and compares where it begins with what the index and the properties say.
    pub(crate) fn data_block(&self, index: &TableIndex, position: usize) -> Result<EntryBlock, TableError> {
        let handle = index.handle(position).unwrap_or(BlockHandle { offset: u64::MAX, contents_bytes: 0, checksum: 0 });
        self.file.counters.data_block_reads.add(1);
        let block = read_entry_block(&self.file, name::DATA, handle, self.table_id())?;
        let Some(first) = block.first_key()? else {
            return Err(block.corrupt("entries", "none"));
        };
        let fits = match position.checked_sub(1) {
            Some(before) => index.last_key(before) < first,
            None => self.parts.properties.smallest_key.as_deref() == Some(first),
        };
        if !fits || index.last_key(position) < first {
            let got = super::error::shown(first);
            return Err(block.corrupt("a first key where index and properties have the block", got));
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
        self.file.counters.index_block_reads.add(1);
        let block = read_entry_block(&self.file, name::INDEX, self.parts.handles.index, self.table_id())?;
        TableIndex::decode(&block, &self.parts.properties)
    }

    /// All entries in key order.
    #[must_use]
    pub fn iter(&self) -> TableIter<'_> {
        TableIter::new(self, None)
    }

    /// The entries from `key` on, which need not be there.
    #[must_use]
    pub fn iter_from(&self, key: &[u8]) -> TableIter<'_> {
        TableIter::new(self, Some(key.to_vec()))
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

    /// The hash that the filter is asked with.
    #[must_use]
    pub fn hash_identity(&self) -> HashIdentity {
        self.hasher.identity()
    }

    /// The extractor that is applied to keys before the filter is asked.
    #[must_use]
    pub fn extractor(&self) -> Option<&Arc<dyn KeyExtractor>> {
        self.extractor.as_ref()
    }

    /// The filter; `None` when the table has none, or was opened without.
    #[must_use]
    pub fn filter(&self) -> Option<&GuardedFilter<Bytes>> {
        self.filter.as_ref().map(|filter| &filter.guarded)
    }

    /// Why the filter is not used, if it is not although there is one.
    #[must_use]
    pub fn filter_problem(&self) -> Option<&TableError> {
        self.filter.as_ref()?.problem.as_ref()
    }

    /// Bytes of the whole table.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file.length()
    }

    /// Where everything lies.
    #[must_use]
    pub fn layout(&self) -> TableLayout {
        TableLayout::new(&self.parts.handles, &self.parts.footer, self.parts.properties.data_bytes)
    }

    /// Reads all of the table once more and checks all that it says against all that it holds.
    ///
    /// Compared are: every checksum, the zeros of the padding, the order of all keys, the index and the
    /// properties with the data, and the filter with every key. Reads are counted like all others.
    ///
    /// # Errors
    ///
    /// The first thing that is not as it was written, a damaged filter included. A filter that is sound
    /// but cannot be asked (another hash or extractor, an unknown kind) is no error: the report says so.
    pub fn verify(&self) -> Result<VerifyReport, TableError> {
        super::verify::verify(self)
    }

    /// What was asked and read so far.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        self.file.counters.snapshot(self.filter().map(GuardedFilter::stats).unwrap_or_default())
    }

    pub(crate) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }
}

/// Searches a data block just read, which ends with `last_key` by the index.
fn search_block(block: &EntryBlock, key: &[u8], last_key: &[u8]) -> Result<Lookup, TableError> {
    let Some(cursor) = block.seek(key)? else { return Err(missing_last_key(block, last_key)) };
    if cursor.key() != key {
        return Ok(Lookup::Absent);
    }
    Ok(cursor.value_bytes().map_or(Lookup::Deleted, Lookup::Found))
}

/// A data block that ends before the key that the index says it ends with.
pub(crate) fn missing_last_key(block: &EntryBlock, last_key: &[u8]) -> TableError {
    let expected = format!("entries up to {}, as the index says", super::error::shown(last_key));
    block.corrupt(&expected, "an end before it")
}

/// The hash of the part of `key` that stands for it in filters.
pub(crate) fn prepare(hasher: &KeyHasher, extractor: Option<&dyn KeyExtractor>, key: &[u8]) -> Option<KeyHash> {
    match extractor {
        None => Some(hasher.hash(key)),
        Some(extractor) => extractor.extract(key).map(|part| hasher.hash(&part)),
    }
}

/// The hash of the part that all keys with this prefix have; `None` when no filter can be probed for it. A filter of
/// whole keys never can: it does not hold their prefixes.
pub(crate) fn prefix_hash(hasher: &KeyHasher, extractor: Option<&dyn KeyExtractor>, prefix: &[u8]) -> Option<KeyHash> {
    extractor?.extract_prefix(prefix).map(|part| hasher.hash(&part))
}

/// Whether a key that begins with `prefix` can lie from the smallest to the largest key.
///
/// Such keys follow each other in key order, from the prefix itself on. If the smallest key comes after the prefix,
/// it either is one of them, or is above them all.
pub(crate) fn range_meets_prefix(properties: &TableProperties, prefix: &[u8]) -> bool {
    let (Some(smallest), Some(largest)) = (&properties.smallest_key, &properties.largest_key) else { return false };
    let (smallest, largest) = (smallest.as_ref(), largest.as_ref());
    prefix <= largest && (smallest <= prefix || smallest.starts_with(prefix))
}

impl<'a> IntoIterator for &'a Table {
    type Item = <TableIter<'a> as Iterator>::Item;
    type IntoIter = TableIter<'a>;

    fn into_iter(self) -> TableIter<'a> {
        self.iter()
    }
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
