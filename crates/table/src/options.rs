//! How tables are written and read.

use std::sync::Arc;

use sstfilter::{
    BuildContext, ConfigError, FilterPolicy, Filters, FixedPolicy, HashIdentity, KeyExtractor, KeyHasher, KeyParts,
    KindRegistry,
};
use sstfilter_range::RangePolicy;
use sstfilter_store::{FilterBudget, FilterStore, PartitionOptions};

use super::block::MAX_RESTART_INTERVAL;
use super::cache::BlockCache;
use super::{FileSystem, LocalFileSystem};

/// Options for writing and reading tables. A store keeps one value with the options that its tables share. For each
/// table that it writes, it sets the [context](Self::with_context) and, if the engine assigns ids, the [table
/// id](Self::with_table_id).
///
/// By default, tables are written with data blocks of 4096 bytes, a restart point every 16 entries, a Bloom filter of
/// 10 bits per key, the default [`KeyHasher`], whole keys in the filter, and a random id for each. They are read with
/// the hasher that their properties describe. A secret seed or a user-defined hash function cannot be described: pass
/// the hasher then. The filter of a [sidecar](super::Table::write_sidecar) replaces the table's own, filters are probed
/// for whole keys, and data blocks are not cached. Tables are files of the local file system.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter_table::TableOptions;
/// use sstfilter::{BitsPerKey, BuildContext, BuildPurpose, KeyHasher, FixedPolicy};
///
/// let options = TableOptions::default()
///     .with_block_bytes(16 * 1024)?
///     .with_policy(Arc::new(FixedPolicy::bloom(BitsPerKey::new(14.0)?)?))
///     .with_context(
///         BuildContext::new(&KeyHasher::default())
///             .with_purpose(BuildPurpose::Compaction)
///             .with_expected_keys(1_000_000),
///     );
/// assert!(options.clone().with_block_bytes(0).is_err());
/// let unfiltered = options.without_filter();
/// # let _ = unfiltered;
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TableOptions {
    pub(super) block_bytes: u32,
    pub(super) restart_interval: u32,
    /// Builds and reads filters.
    pub(super) store: FilterStore,
    pub(super) policy_name: Option<String>,
    pub(super) table_id: Option<[u8; 16]>,
    /// The context for the policy. Its hasher and key parts are ignored in favour of the store's.
    pub(super) context: BuildContext,
    /// The hasher to read all tables with; `None` to use the hasher that each table describes.
    pub(super) hasher: Option<KeyHasher>,
    /// Refuses tables whose filter was built for another reader.
    pub(super) rejects_foreign_filters: bool,
    /// Reads as if there were no filters.
    pub(super) ignores_filters: bool,
    /// Reads as if no table had a sidecar.
    pub(super) ignores_sidecars: bool,
    pub(super) cache: Option<Arc<BlockCache>>,
    pub(super) files: Arc<dyn FileSystem>,
}

impl Default for TableOptions {
    fn default() -> Self {
        let (store, policy) = (FilterStore::default(), Arc::new(FixedPolicy::default()));
        Self {
            // One page of the usual file systems, as in LevelDB and RocksDB: a disk reads no less.
            block_bytes: 4096,
            // As in LevelDB and RocksDB: whole keys at restart points then cost a sixteenth of what prefix compression
            // saves.
            restart_interval: 16,
            context: BuildContext::new(store.filters().hasher()),
            policy_name: Some(policy.name().to_owned()),
            store: store.with_policy(policy),
            table_id: None,
            hasher: None,
            rejects_foreign_filters: false,
            ignores_filters: false,
            ignores_sidecars: false,
            cache: None,
            files: Arc::new(LocalFileSystem),
        }
    }
}

impl TableOptions {
    /// Sets the maximum bytes of a data block; a longer entry gets its own block.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] outside 64 bytes to 16 MiB.
    pub fn with_block_bytes(self, block_bytes: u32) -> Result<Self, ConfigError> {
        if !(64..=16 << 20).contains(&block_bytes) {
            let got = block_bytes.into();
            return Err(ConfigError::OutOfRange { option: "block bytes", expected: "64 to 16777216", got });
        }
        Ok(Self { block_bytes, ..self })
    }

    /// Sets the number of entries from one whole key to the next. A smaller interval makes blocks larger and searches
    /// shorter.
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

    /// Sets the policy that chooses the table's filter.
    #[must_use]
    pub fn with_policy(self, policy: Arc<dyn FilterPolicy>) -> Self {
        Self { policy_name: Some(policy.name().to_owned()), store: self.store.with_policy(policy), ..self }
    }

    /// Writes the filter in partitions, for tables whose filters outgrow memory. Opening reads only the top index, and
    /// a lookup reads one partition, which then stays in memory or under the reader's [filter
    /// budget](Self::with_filter_budget).
    ///
    /// ```
    /// use sstfilter_store::PartitionOptions;
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    ///
    /// let options = TableOptions::default().with_partitioned_filter(PartitionOptions::default());
    /// let mut builder = TableBuilder::new(Vec::new(), &options)?;
    /// for key in (0..100_000_u32).step_by(2) {
    ///     builder.add(&key.to_be_bytes(), b"")?;
    /// }
    /// let (bytes, summary) = builder.finish()?;
    /// assert!(summary.filter_bytes > 60_000);
    ///
    /// let table = Table::open_source(bytes::Bytes::from(bytes), &TableOptions::default())?;
    /// let opened = table.stats().bytes_read;
    /// table.get(&4_711_u32.to_be_bytes())?;
    /// assert!(table.stats().bytes_read - opened < 17 << 10, "one partition");
    /// # Ok::<(), sstfilter_table::TableError>(())
    /// ```
    #[must_use]
    pub fn with_partitioned_filter(self, partitions: PartitionOptions) -> Self {
        Self { store: self.store.with_partitions(partitions), ..self }
    }

    /// Writes no point filter; a [range filter](Self::with_range_filter) is still written. Reads as if there were no
    /// filters of either kind, for comparison.
    #[must_use]
    pub fn without_filter(self) -> Self {
        Self { policy_name: None, store: self.store.without_point_filters(), ignores_filters: true, ..self }
    }

    /// Also writes a range filter, which lets scans skip the table. It has its own block and checksum, and covers the
    /// keys of all entries, including tombstones. If no range filter can be correct, the table has none, and
    /// [`TableSummary::range_filter`](super::TableSummary::range_filter) says why.
    ///
    /// If the policy has an extractor, readers need this option too, or
    /// [`with_range_extractor`](Self::with_range_extractor). Sidecars have no range filters.
    ///
    /// ```
    /// use sstfilter::FalsePositiveRate;
    /// use sstfilter_range::RangePolicy;
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    ///
    /// let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?;
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().with_range_filter(policy))?;
    /// for key in (0..100_000_u32).step_by(1_000) {
    ///     builder.add(&key.to_be_bytes(), b"value")?;
    /// }
    /// let (bytes, summary) = builder.finish()?;
    /// assert!(summary.range_filter.is_some() && summary.range_filter_bytes > 0);
    ///
    /// let table = Table::open_source(bytes::Bytes::from(bytes), &TableOptions::default())?;
    /// let filters = table.filters();
    /// assert!(filters.may_contain_range(&5_500_u32.to_be_bytes()..&6_500_u32.to_be_bytes()));
    /// assert!(!filters.may_contain_range(&5_100_u32.to_be_bytes()..&5_900_u32.to_be_bytes()), "no multiple of 1,000");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_range_filter(self, policy: RangePolicy) -> Self {
        Self { store: self.store.with_range_filters(policy), ..self }
    }

    /// Sets the store's hasher, for writing and reading. A filter built with another hasher is not used; see
    /// [`reject_foreign_filters`](Self::reject_foreign_filters).
    #[must_use]
    pub fn with_hasher(self, hasher: KeyHasher) -> Self {
        let options = self.with_filters(|filters| filters.with_hasher(hasher.clone()));
        Self { hasher: Some(hasher), ..options }
    }

    /// Sets the hasher and the context for the filter's policy: purpose, level, expected keys (a Bloom filter is then
    /// built as they arrive), and the memory that building may use. The context's file id has no effect, because
    /// checksums bind a table's filter to the table's id. If the context has only whole keys, key parts that were set
    /// before stay.
    #[must_use]
    pub fn with_context(self, mut context: BuildContext) -> Self {
        let options = self.with_hasher(context.hasher.clone());
        let parts = &context.key_parts;
        // The default of a context that names no parts.
        let is_plain = parts.has_whole_keys() && parts.extractors().len() == 0;
        let options = if is_plain { options } else { options.with_key_parts(parts.clone()) };
        // The file id of a filter is always the table's id.
        context.file_id = None;
        Self { context, ..options }
    }

    /// Returns the context for the policy, with the hasher and the key parts.
    pub fn context(&self) -> BuildContext {
        let filters = self.store.filters();
        let (hasher, key_parts) = (filters.hasher().clone(), filters.key_parts().clone());
        let mut context = self.context.clone();
        (context.hasher, context.key_parts) = (hasher, key_parts);
        context
    }

    /// Sets the part of a key that is added to the filter and probed, instead of the whole key.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sstfilter::DelimitedPrefix;
    /// use sstfilter_table::{Table, TableBuilder, TableError, TableOptions, TableSet};
    ///
    /// let options = TableOptions::default().with_extractor(Arc::new(DelimitedPrefix::new(b':')));
    /// let table = |tenants: [&str; 2]| -> Result<Table, TableError> {
    ///     let mut builder = TableBuilder::new(Vec::new(), &options)?;
    ///     for tenant in tenants {
    ///         builder.add(format!("{tenant}:user:1").as_bytes(), b"value")?;
    ///     }
    ///     Table::open_source(bytes::Bytes::from(builder.finish()?.0), &options)
    /// };
    /// let tables = TableSet::new([(2, table(["t041", "t043"])?), (1, table(["t041", "t042"])?)]).unwrap().snapshot();
    ///
    /// let candidates = |prefix: &'static [u8]| tables.view().candidates_by_prefix(prefix).count();
    /// assert_eq!(candidates(b"t04"), 2, "no part follows from the prefix: only key bounds decide");
    /// assert_eq!(candidates(b"t042:"), 1, "both have it in their range, one in its filter");
    /// assert_eq!(tables.scan_prefix(b"t042:").count(), 1);
    /// # Ok::<(), TableError>(())
    /// ```
    #[must_use]
    pub fn with_extractor(self, extractor: Arc<dyn KeyExtractor>) -> Self {
        self.with_key_parts(KeyParts::extracted(extractor))
    }

    /// Sets what is added to the filter and probed for each key: the whole key, any number of parts, or both.
    ///
    /// A filter is probed for those of these parts that it contains; a filter without any of them is not used. When a
    /// store changes its parts, its earlier filters stay useful as long as they share a part.
    ///
    /// A filter of several parts is sized by the entries that arrive, not by the context's expected keys, because a key
    /// then adds more than one entry.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    /// use sstfilter::{DelimitedPrefix, KeyParts};
    ///
    /// let parts = KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b':')));
    /// let options = TableOptions::default().with_key_parts(parts);
    /// let mut builder = TableBuilder::new(Vec::new(), &options)?;
    /// builder.add(b"t041:user:7", b"value")?;
    /// builder.add(b"t043:user:7", b"value")?;
    /// let bytes = bytes::Bytes::from(builder.finish()?.0);
    ///
    /// let table = Table::open_source(bytes, &options)?;
    /// assert!(!table.may_contain_key(b"t041:user:8"), "no such key");
    /// assert!(!table.filters().may_contain_prefix(b"t042:"), "no key with this prefix");
    /// # Ok::<(), sstfilter_table::TableError>(())
    /// ```
    #[must_use]
    pub fn with_key_parts(self, parts: KeyParts) -> Self {
        self.with_filters(|filters| filters.with_key_parts(parts))
    }

    /// Sets the id of the next table. By default, each table gets a random id. Set ids, for instance, to get the same
    /// bytes for the same input, and use each id for only one table of a store.
    ///
    /// The id is part of the checksum of every block, so a block of another table counts as damage. An engine that
    /// derives ids from file numbers may reuse a number, for example after a crash, for a file that its manifest does
    /// not list. Such an engine must add something to the id that never repeats, such as how often the store has been
    /// opened. Without that, single blocks and pages left over from the earlier file are still damage. But if
    /// everything from the filter to the footer is the earlier file's, the table is the earlier file: its filter and
    /// its key bounds answer "absent" for keys of the later one.
    #[must_use]
    pub fn with_table_id(self, table_id: [u8; 16]) -> Self {
        Self { table_id: Some(table_id), ..self }
    }

    /// Sets the file system in which [`TableWriter`](super::TableWriter) creates tables and tables are opened by path.
    /// The default is the local one.
    #[must_use]
    pub fn with_file_system(self, files: Arc<dyn FileSystem>) -> Self {
        Self { files, ..self }
    }

    /// Sets the extractor of the prefixes that [range filters](Self::with_range_filter) were built with. A range filter
    /// built with another extractor is not used, and [`Table::range_filter_problem`] says so. Range filters without an
    /// extractor do not need this, nor do options that write such range filters.
    ///
    /// [`Table::range_filter_problem`]: super::Table::range_filter_problem
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use sstfilter_range::{RangePolicy, RangeUnits};
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    /// use sstfilter::{FalsePositiveRate, FixedPrefix};
    ///
    /// // A sensor's number, and a time in seconds.
    /// let key = |sensor: u32, time: u32| [sensor.to_be_bytes(), time.to_be_bytes()].concat();
    /// let sensor = Arc::new(FixedPrefix::new(4));
    /// let units = RangeUnits::integer(4)?.with_prefix(sensor.clone());
    /// let policy = RangePolicy::hashed(units, 60, FalsePositiveRate::new(0.001)?)?;
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().with_range_filter(policy))?;
    /// for minutes in 0..1_000 {
    ///     builder.add(&key(7, minutes * 3_600), b"value")?;
    /// }
    /// let bytes = bytes::Bytes::from(builder.finish()?.0);
    ///
    /// let options = TableOptions::default().with_range_extractor(sensor);
    /// let table = Table::open_source(bytes.clone(), &options)?;
    /// assert!(!table.filters().may_contain_range(&key(7, 3_660)..&key(7, 3_720)), "no value in this minute");
    ///
    /// let table = Table::open_source(bytes, &TableOptions::default())?;
    /// assert!(table.filters().may_contain_range(&key(7, 3_660)..&key(7, 3_720)), "the filter is not used");
    /// assert!(table.range_filter_problem().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_range_extractor(self, extractor: Arc<dyn KeyExtractor>) -> Self {
        Self { store: self.store.with_range_extractor(extractor), ..self }
    }

    /// Sets the user-defined filter kinds. A filter of any other unknown kind is not used.
    #[must_use]
    pub fn with_kinds(self, kinds: KindRegistry) -> Self {
        self.with_filters(|filters| filters.with_kinds(kinds))
    }

    /// Refuses to open a table if its filter was built with another hash or secret seed than the reader's or holds none
    /// of the reader's key parts, or if its range filter was built with another hash, seed or extractor.
    ///
    /// By default, such a table is read without its filter: every lookup in it searches, and only counters show it.
    /// That is right for a tool, and while a store moves from one seed to another. For an engine with one seed, a wrong
    /// one is a configuration mistake that should be an error. Damaged filters, and kinds or hashes that this release
    /// does not know, are not such mistakes: their tables still open.
    ///
    /// ```
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    /// use sstfilter::{BuildContext, KeyHasher};
    ///
    /// let (hasher, _seed) = KeyHasher::random_secret()?;
    /// let options = TableOptions::default().with_context(BuildContext::new(&hasher));
    /// let mut builder = TableBuilder::new(Vec::new(), &options)?;
    /// builder.add(b"apple", b"1")?;
    /// let bytes = bytes::Bytes::from(builder.finish()?.0);
    ///
    /// let (other, _) = KeyHasher::random_secret()?;
    /// let options = TableOptions::default().reject_foreign_filters();
    /// assert!(Table::open_source(bytes.clone(), &options.clone().with_hasher(other)).is_err());
    /// assert!(Table::open_source(bytes, &options.with_hasher(hasher)).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reject_foreign_filters(self) -> Self {
        Self { rejects_foreign_filters: true, ..self }
    }

    /// Reads as if no table had a sidecar: does not try to open one, and uses the tables' own filters.
    #[must_use]
    pub fn without_sidecars(self) -> Self {
        Self { ignores_sidecars: true, ..self }
    }

    /// Puts the filters of all tables that are opened with these options under `budget`, which other filters may share.
    /// Opening then reads no filter, only the top index of a partitioned one. A lookup loads the filter or the
    /// partition that it needs if it fits the budget, and a scan loads the range filter.
    ///
    /// Damage to a filter is then found when the filter is read, not when the table is opened: every key may be
    /// present, and the load is retried, rarely ([`FilterStats::unusable`](sstfilter::FilterStats::unusable) counts
    /// it). This also holds for a sidecar's filter; without a budget, the table's own would replace it.
    /// [`Table::verify`](super::Table::verify) finds the damage beforehand.
    ///
    /// Without a budget, filters are read when their tables are opened, partitions when lookups need them, and all stay
    /// in memory.
    ///
    /// ```
    /// use sstfilter_store::FilterBudget;
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// (0..10_000_u32).try_for_each(|key| builder.add(&key.to_be_bytes(), b"value"))?;
    /// let bytes = bytes::Bytes::from(builder.finish()?.0);
    ///
    /// let budget = FilterBudget::new(8 << 10);
    /// let table = Table::open_source(bytes, &TableOptions::default().with_filter_budget(budget.clone()))?;
    /// assert_eq!(budget.stats().used_bytes, 0);
    /// (0..10_000_u32).try_for_each(|key| table.get(&[&key.to_be_bytes()[..], b"absent"].concat()).map(drop))?;
    /// assert!((1..=8 << 10).contains(&budget.stats().used_bytes), "13 KB, shrunk");
    /// assert!(table.stats().filters.filter.negatives > 5_000);
    /// # Ok::<(), sstfilter_table::TableError>(())
    /// ```
    #[must_use]
    pub fn with_filter_budget(self, budget: FilterBudget) -> Self {
        Self { store: self.store.with_budget(budget), ..self }
    }

    /// Keeps at most `max_bytes` of data blocks that lookups have read, in a new cache which all tables share that are
    /// opened with these options or clones of them. A lookup in a cached block reads and checks nothing. Without a
    /// cache, every lookup reads and checks its block.
    ///
    /// Damaged blocks are not cached, so each lookup reads them again. Iterators and [`verify`](super::Table::verify)
    /// always read from the source.
    ///
    /// ```
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// builder.add(b"apple", b"1")?;
    /// let bytes = bytes::Bytes::from(builder.finish()?.0);
    ///
    /// let table = Table::open_source(bytes, &TableOptions::default().with_block_cache(64 << 20))?;
    /// assert_eq!(table.get(b"apple")?, table.get(b"apple")?);
    /// assert_eq!((table.stats().data_block_reads, table.stats().block_cache_hits), (1, 1));
    /// # Ok::<(), sstfilter_table::TableError>(())
    /// ```
    #[must_use]
    pub fn with_block_cache(self, max_bytes: u64) -> Self {
        Self { cache: Some(Arc::new(BlockCache::new(max_bytes))), ..self }
    }

    fn with_filters(self, change: impl FnOnce(Filters) -> Filters) -> Self {
        let filters = change(self.store.filters().clone());
        Self { store: self.store.with_filters(filters), ..self }
    }

    /// Returns the store that reads the filters of a table written with this hash.
    pub(super) fn store_for(&self, written: HashIdentity) -> FilterStore {
        match KeyHasher::from_identity(written) {
            // Only without an explicit hasher, and only if needed: one store for all tables lets a set probe them
            // together.
            Some(described) if self.hasher.is_none() && written != self.store.filters().hasher().identity() => {
                self.clone().with_filters(|filters| filters.with_hasher(described)).store
            }
            _ => self.store.clone(),
        }
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
    fn what_is_known_of_the_file_reaches_the_policy_and_a_file_id_does_not() {
        let hasher = KeyHasher::with_seed(5);
        let context = BuildContext::new(&hasher).with_level(3).with_expected_keys(7).with_file_id([7; 16].into());
        let context = TableOptions::default().with_context(context).context();
        assert_eq!((context.level, context.expected_keys, context.file_id), (Some(3), Some(7), None));
        assert_eq!(context.hasher.identity(), hasher.identity());
    }
}
