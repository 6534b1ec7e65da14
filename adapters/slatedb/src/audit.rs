//! Which SSTs of a store have filters that its readers can use.

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use slatedb::db_cache::{CacheTarget, CachedEntry, CachedKey, DbCache};
use slatedb::manifest::{SsTableHandle, SsTableId};
use slatedb::object_store::path::Path;
use slatedb::{DbCacheManagerOps, DbReader, DbReaderBuilder, DbReaderMode, Filter, FilterBuilder, FilterPolicy};
use sstfilter::BlockInfo;

use crate::filter::SlateFilter;
use crate::filters::SlateFilters;
use crate::policy::SlatePolicy;
use crate::stats::Unusable;

/// The state of every SST's filter. [`Display`](fmt::Display) prints a summary, and a line for each SST that is not
/// [`Usable`](FilterState::Usable).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Audit {
    /// The SSTs of the manifest, in its order.
    pub ssts: Vec<SstAudit>,
}

/// One SST's filter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SstAudit {
    /// The SST.
    pub id: SsTableId,
    /// Bytes of all its filters as stored, framing included; 0 without filters.
    pub filter_bytes: u64,
    /// Whether this configuration can use one of them.
    pub state: FilterState,
}

/// Whether a configuration can use an SST's filter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterState {
    /// It can, and the filter contains the SST's first and last key.
    Usable(Box<BlockInfo>),
    /// The SST has no filters: it has fewer rows than `min_filter_keys`, or was written without policies.
    NotWritten,
    /// The SST has filters, but none under this configuration's name: SlateDB's own, from before a migration, or those of a
    /// process that was configured otherwise. A reader fetches them and then uses none, unless it has a policy for them
    /// ([`with_old_bloom`](SlateFilters::with_old_bloom)): it pays one request more than without filters.
    OtherPolicy,
    /// The filter under this configuration's name is unusable.
    Unusable(Unusable),
    /// The filter lacks the SST's first or last key: it is another SST's, or an extractor or hash changed while its name did
    /// not. **Lookups lose keys.** Rewrite the SST with another configuration of filters, or without any.
    OtherKeys,
    /// SlateDB could not read the filters.
    Unreadable(String),
}

impl Audit {
    /// The SSTs whose filters this configuration cannot use.
    pub fn without_usable_filter(&self) -> impl Iterator<Item = &SstAudit> {
        self.ssts.iter().filter(|sst| !matches!(sst.state, FilterState::Usable(_)))
    }

    /// Bytes of all filters as stored.
    #[must_use]
    pub fn filter_bytes(&self) -> u64 {
        self.ssts.iter().map(|sst| sst.filter_bytes).sum()
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.without_usable_filter().count();
        write!(
            f,
            "SSTs: {}, with a usable filter: {}, without: {faults}; bytes of filters: {}",
            self.ssts.len(),
            self.ssts.len() - faults,
            self.filter_bytes()
        )?;
        self.without_usable_filter().try_for_each(|sst| write!(f, "\n{:?}: {}", sst.id, sst.state))
    }
}

impl fmt::Display for FilterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usable(info) => write!(f, "usable, {} keys, {} bytes", info.keys, info.block_bytes),
            Self::NotWritten => f.write_str("no filters: fewer rows than min_filter_keys, or written without policies"),
            Self::OtherPolicy => f.write_str(
                "has filters of other names only: from before a migration, or of a process with other policies",
            ),
            Self::Unusable(reason) => write!(f, "unusable: {reason}"),
            Self::OtherKeys => f.write_str("LOSES KEYS: the filter lacks the SST's first or last key"),
            Self::Unreadable(reason) => write!(f, "unreadable: {reason}"),
        }
    }
}

impl SlateFilters {
    /// Reads every SST's filters through SlateDB, and says which of them this configuration can use.
    ///
    /// Pass a builder of a reader with the store's block transformer and segment extractor, if it has them. The audit
    /// opens it in [`DbReaderMode::FollowLatest`], which writes nothing. It takes one request per SST with filters, and
    /// keeps one filter in memory at a time.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use slatedb::object_store::memory::InMemory;
    /// use slatedb::{Db, DbReader};
    /// use sstfilter_slatedb::SlateFilters;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let store = Arc::new(InMemory::new());
    /// let filters = SlateFilters::default();
    /// # filters.configure(Db::builder("store", store.clone())).build().await?.close().await?;
    /// let audit = filters.audit(DbReader::builder("store", store)).await?;
    /// println!("{audit}");
    /// assert_eq!(audit.without_usable_filter().count(), 0);
    /// # Ok::<(), slatedb::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`slatedb::Error`] when the store cannot be opened.
    pub async fn audit<P: Into<Path>>(&self, reader: DbReaderBuilder<P>) -> Result<Audit, slatedb::Error> {
        let policy = Arc::new(RecordingPolicy { policy: self.uncounted_policy(), decoded: Mutex::default() });
        let reader = reader
            .with_filter_policies(vec![Arc::clone(&policy) as Arc<dyn FilterPolicy>])
            .with_db_cache(Arc::new(NoCache), 0)
            .with_reader_mode(DbReaderMode::FollowLatest)
            .build()
            .await?;
        let mut ssts = Vec::new();
        for view in reader.manifest().all_sst_views() {
            if let Some(state) = policy.state(&reader, &view.sst).await {
                ssts.push(SstAudit { id: view.sst.id, filter_bytes: view.sst.info.filter_len, state });
            }
        }
        reader.close().await?;
        Ok(Audit { ssts })
    }
}

/// Keeps the filter decoded last.
struct RecordingPolicy {
    policy: SlatePolicy,
    decoded: Mutex<Option<SlateFilter>>,
}

impl RecordingPolicy {
    /// `None` when a compaction removed the SST meanwhile.
    async fn state(&self, reader: &DbReader, sst: &SsTableHandle) -> Option<FilterState> {
        if sst.info.filter_len == 0 {
            return Some(FilterState::NotWritten);
        }
        self.take();
        if let Err(error) = reader.warm_sst(sst.id, &[CacheTarget::Filters]).await {
            return Some(FilterState::Unreadable(error.to_string()));
        }
        match self.take() {
            Some(filter) => Some(state_of(&filter, sst)),
            // Without an error, and without a filter: SlateDB reads nothing for an SST that is gone.
            None => {
                reader.manifest().all_sst_views().any(|view| view.sst.id == sst.id).then_some(FilterState::OtherPolicy)
            }
        }
    }

    fn take(&self) -> Option<SlateFilter> {
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn state_of(filter: &SlateFilter, sst: &SsTableHandle) -> FilterState {
    let mut bounds = sst.info.first_entry.iter().chain(&sst.info.last_entry);
    match filter.block() {
        Err(reason) => FilterState::Unusable(reason.clone()),
        Ok(block) if bounds.all(|key| filter.may_hold(key)) => FilterState::Usable(Box::new(block.info())),
        Ok(_) => FilterState::OtherKeys,
    }
}

impl FilterPolicy for RecordingPolicy {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        self.policy.builder()
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        let filter = self.policy.decode_filter(data);
        *self.decoded.lock().unwrap_or_else(PoisonError::into_inner) = Some(filter.clone());
        Arc::new(filter)
    }

    fn estimate_size(&self, num_keys: usize) -> usize {
        self.policy.estimate_size(num_keys)
    }
}

/// A cache that keeps nothing: SlateDB reads filters on request only where it has a cache.
struct NoCache;

#[async_trait]
impl DbCache for NoCache {
    async fn get_block(&self, _key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(None)
    }

    async fn get_index(&self, _key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(None)
    }

    async fn get_filter(&self, _key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(None)
    }

    async fn get_stats(&self, _key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(None)
    }

    async fn insert(&self, _key: CachedKey, _value: CachedEntry) {}

    async fn remove(&self, _key: &CachedKey) {}

    fn entry_count(&self) -> u64 {
        0
    }
}
