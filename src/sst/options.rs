//! How tables are written and read.

use std::sync::Arc;

use super::entry_block::MAX_RESTART_INTERVAL;
use super::{FileSystem, LocalFileSystem, TableId};
use crate::error::ConfigError;
use crate::hash::{KeyExtractor, KeyHasher};
use crate::policy::{BloomPolicy, BuildContext, BuildPurpose, FilterPolicy};

const MIN_BLOCK_BYTES: u32 = 64;
const MAX_BLOCK_BYTES: u32 = 16 << 20;
const DEFAULT_BLOCK_BYTES: u32 = 4096;
const DEFAULT_RESTART_INTERVAL: u32 = 16;

/// How a table is written. One value serves every table of a store.
///
/// By default: data blocks of 4096 bytes, a restart point every 16 entries, a Bloom filter of 10 bits
/// per key, the default [`KeyHasher`], no extractor, and a random [`TableId`] for each table.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter::{BitsPerKey, BloomPolicy, BuildPurpose, TableOptions};
///
/// let options = TableOptions::default()
///     .with_block_bytes(16 * 1024)?
///     .with_policy(Arc::new(BloomPolicy::new(BitsPerKey::new(14.0)?)))
///     .with_purpose(BuildPurpose::Compaction)
///     .with_expected_keys(1_000_000);
/// assert!(options.clone().with_block_bytes(0).is_err());
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TableOptions {
    pub(crate) block_bytes: u32,
    pub(crate) restart_interval: u32,
    pub(crate) policy: Option<Arc<dyn FilterPolicy>>,
    pub(crate) extractor: Option<Arc<dyn KeyExtractor>>,
    pub(crate) table_id: Option<TableId>,
    pub(crate) context: BuildContext,
    pub(crate) files: Arc<dyn FileSystem>,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            block_bytes: DEFAULT_BLOCK_BYTES,
            restart_interval: DEFAULT_RESTART_INTERVAL,
            policy: Some(Arc::new(BloomPolicy::default())),
            extractor: None,
            table_id: None,
            context: BuildContext::new(&KeyHasher::default()),
            files: Arc::new(LocalFileSystem),
        }
    }
}

impl TableOptions {
    /// Sets the bytes that a data block does not exceed, unless a single entry does.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] outside 64 bytes to 16 MiB.
    pub fn with_block_bytes(self, block_bytes: u32) -> Result<Self, ConfigError> {
        if !(MIN_BLOCK_BYTES..=MAX_BLOCK_BYTES).contains(&block_bytes) {
            let got = block_bytes.into();
            return Err(ConfigError::OutOfRange { option: "block bytes", expected: "64 to 16777216", got });
        }
        Ok(Self { block_bytes, ..self })
    }

    /// Sets after how many entries a key is stored whole: fewer make blocks larger and searches shorter.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] outside 1 to 1024.
    pub fn with_restart_interval(self, restart_interval: u32) -> Result<Self, ConfigError> {
        if !(1..=MAX_RESTART_INTERVAL).contains(&restart_interval) {
            let got = restart_interval.into();
            return Err(ConfigError::OutOfRange { option: "restart interval", expected: "1 to 1024 entries", got });
        }
        Ok(Self { restart_interval, ..self })
    }

    /// Sets which filter the table gets.
    #[must_use]
    pub fn with_policy(self, policy: Arc<dyn FilterPolicy>) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Writes no filter.
    #[must_use]
    pub fn without_filter(self) -> Self {
        Self { policy: None, ..self }
    }

    /// Sets the store's hasher.
    #[must_use]
    pub fn with_hasher(self, hasher: KeyHasher) -> Self {
        Self { context: BuildContext { hasher, ..self.context }, ..self }
    }

    /// Sets which part of a key goes into the filter.
    #[must_use]
    pub fn with_extractor(self, extractor: Arc<dyn KeyExtractor>) -> Self {
        Self { extractor: Some(extractor), ..self }
    }

    /// Sets the table's id. It must differ for each table of a store: set it anew for each.
    #[must_use]
    pub fn with_table_id(self, table_id: TableId) -> Self {
        Self { table_id: Some(table_id), ..self }
    }

    /// Tells the policy why the table is written.
    #[must_use]
    pub fn with_purpose(self, purpose: BuildPurpose) -> Self {
        Self { context: self.context.with_purpose(purpose), ..self }
    }

    /// Tells the policy the level that the table goes to.
    #[must_use]
    pub fn with_level(self, level: u32) -> Self {
        Self { context: self.context.with_level(level), ..self }
    }

    /// Tells the policy that no older table can hold the table's keys.
    #[must_use]
    pub fn at_bottommost_level(self) -> Self {
        Self { context: self.context.at_bottommost_level(), ..self }
    }

    /// Tells the policy how many keys will come: a Bloom filter is then built as they arrive.
    #[must_use]
    pub fn with_expected_keys(self, keys: u64) -> Self {
        Self { context: self.context.with_expected_keys(keys), ..self }
    }

    /// Sets where [`TableWriter`](super::TableWriter) puts tables; by default, among the system's files.
    #[must_use]
    pub fn with_file_system(self, files: Arc<dyn FileSystem>) -> Self {
        Self { files, ..self }
    }

    /// Limits the memory that building the filter may use beside the hashes and the finished block.
    #[must_use]
    pub fn with_memory_budget(self, bytes: u64) -> Self {
        Self { context: self.context.with_memory_budget(bytes), ..self }
    }
}

/// How a table is read.
///
/// By default the hasher is the one that the table's properties describe (a secret seed or an
/// engine's own function cannot be described: give the hasher then), there is no extractor, the
/// filter is used, no data block is kept, and tables are files of the system.
///
/// ```
/// use sstfilter::{KeyHasher, ReadOptions};
///
/// let options = ReadOptions::default().with_hasher(KeyHasher::with_secret_seed(0x5eed));
/// let unfiltered = options.clone().without_filter();
/// # let _ = unfiltered;
/// ```
#[derive(Clone, Debug)]
pub struct ReadOptions {
    pub(crate) hasher: Option<KeyHasher>,
    pub(crate) extractor: Option<Arc<dyn KeyExtractor>>,
    pub(crate) filter_use: FilterUse,
    pub(crate) filter_match: FilterMatch,
    pub(crate) block_use: BlockUse,
    pub(crate) files: Arc<dyn FileSystem>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            hasher: None,
            extractor: None,
            filter_use: FilterUse::default(),
            filter_match: FilterMatch::default(),
            block_use: BlockUse::default(),
            files: Arc::new(LocalFileSystem),
        }
    }
}

/// Whether reads ask the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FilterUse {
    #[default]
    Ask,
    Ignore,
}

/// Whether a filter that was built for another reader is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FilterMatch {
    #[default]
    Wanted,
    Required,
}

/// What becomes of a data block once a lookup has read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BlockUse {
    #[default]
    Drop,
    Keep,
}

impl ReadOptions {
    /// Sets the store's hasher. A filter built with another one is not used; see
    /// [`with_strict_hash`](Self::with_strict_hash).
    #[must_use]
    pub fn with_hasher(self, hasher: KeyHasher) -> Self {
        Self { hasher: Some(hasher), ..self }
    }

    /// Sets the store's extractor. A filter built with another one, or with none, is not used.
    #[must_use]
    pub fn with_extractor(self, extractor: Arc<dyn KeyExtractor>) -> Self {
        Self { extractor: Some(extractor), ..self }
    }

    /// Sets where tables that are opened by path lie; by default, among the system's files.
    #[must_use]
    pub fn with_file_system(self, files: Arc<dyn FileSystem>) -> Self {
        Self { files, ..self }
    }

    /// Refuses to open a table whose filter was built with another hash, secret seed or extractor than the reader's.
    ///
    /// Without this such a table is read without its filter, which only counters tell: every lookup in it then
    /// searches. That is right for a tool, and for moving from one seed to another. An engine that has one seed takes
    /// a wrong one for the mistake in its configuration that it is. Damaged filters and those of kinds or hashes
    /// that this release does not know are no such mistake: their tables open all the same.
    ///
    /// ```
    /// use sstfilter::{KeyHasher, ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let (hasher, _seed) = KeyHasher::random_secret()?;
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().with_hasher(hasher.clone()))?;
    /// builder.add(b"apple", b"1")?;
    /// let bytes = bytes::Bytes::from(builder.finish()?.0);
    ///
    /// let (other, _) = KeyHasher::random_secret()?;
    /// let options = ReadOptions::default().with_strict_hash();
    /// assert!(Table::open_source(bytes.clone(), &options.clone().with_hasher(other)).is_err());
    /// assert!(Table::open_source(bytes, &options.with_hasher(hasher)).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_strict_hash(self) -> Self {
        Self { filter_match: FilterMatch::Required, ..self }
    }

    /// Reads as if there were no filters: to compare.
    #[must_use]
    pub fn without_filter(self) -> Self {
        Self { filter_use: FilterUse::Ignore, ..self }
    }

    /// Keeps every data block that a lookup has read, from when its checksum and its entries have been
    /// checked until the table is dropped. Further lookups in it read nothing, copy nothing and check
    /// nothing: above all those of absent keys that the filter lets through.
    ///
    /// Nothing is ever evicted: memory grows up to all data of the table, and 12 bytes an entry beside.
    /// That suits tables that fit in memory; others are better read without, through a source that caches.
    /// A damaged block is not kept: each read of it is tried anew. Walks and
    /// [`verify`](super::Table::verify) read from the source all the same.
    ///
    /// ```
    /// use sstfilter::{ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// builder.add(b"apple", b"1")?;
    /// let bytes = bytes::Bytes::from(builder.finish()?.0);
    ///
    /// let table = Table::open_source(bytes, &ReadOptions::default().with_kept_blocks())?;
    /// assert_eq!(table.get(b"apple")?, table.get(b"apple")?);
    /// assert_eq!((table.stats().data_block_reads, table.stats().kept_block_hits), (1, 1));
    /// # Ok::<(), sstfilter::TableError>(())
    /// ```
    #[must_use]
    pub fn with_kept_blocks(self) -> Self {
        Self { block_use: BlockUse::Keep, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_outside_their_range_are_refused_and_their_limits_are_not() {
        let options = TableOptions::default();
        for bytes in [0, 63, (16 << 20) + 1, u32::MAX] {
            assert!(options.clone().with_block_bytes(bytes).is_err(), "{bytes}");
        }
        for interval in [0, 1025, u32::MAX] {
            assert!(options.clone().with_restart_interval(interval).is_err(), "{interval}");
        }
        for bytes in [64, 16 << 20] {
            assert_eq!(options.clone().with_block_bytes(bytes).unwrap().block_bytes, bytes);
        }
        for interval in [1, 1024] {
            assert_eq!(options.clone().with_restart_interval(interval).unwrap().restart_interval, interval);
        }
    }

    #[test]
    fn what_is_known_of_the_file_reaches_the_policy() {
        let options = TableOptions::default()
            .with_purpose(BuildPurpose::Ingest)
            .with_level(3)
            .at_bottommost_level()
            .with_expected_keys(7)
            .with_memory_budget(9)
            .with_hasher(KeyHasher::with_seed(5));
        let context = options.context;
        assert_eq!((context.purpose, context.level, context.bottommost), (BuildPurpose::Ingest, Some(3), true));
        assert_eq!((context.expected_keys, context.memory_budget), (Some(7), Some(9)));
        assert_eq!(context.hasher.identity(), KeyHasher::with_seed(5).identity());
    }
}
