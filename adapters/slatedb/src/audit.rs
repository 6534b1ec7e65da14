//! An audit of a store: which SSTs have filters that its readers can use.

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use slatedb::db_cache::{CacheTarget, CachedEntry, CachedKey, DbCache};
use slatedb::manifest::{SsTableHandle, SsTableId};
use slatedb::object_store::path::Path;
use slatedb::{DbCacheManagerOps, DbReader, DbReaderBuilder, DbReaderMode, Filter, FilterBuilder, FilterPolicy};
use sstfilter::{BlockInfo, FilterBlock};
use sstfilter_range::{RangeFilter, RangeInfo};

use crate::filter::{Scheme, SlateFilter};
use crate::filters::SlateFilters;
use crate::policy::DecodingPolicy;
use crate::stats::Unusable;

/// The state of every SST's filters. [`Display`](fmt::Display) prints a summary, and a line for each filter that is not
/// [`Usable`](FilterState::Usable).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Audit {
    /// The SSTs of the manifest, in its order.
    pub ssts: Vec<SstAudit>,
}

/// One SST's filters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SstAudit {
    /// The SST.
    pub id: SsTableId,
    /// Stored bytes of all its filters, including framing; 0 without filters.
    pub filter_bytes: u64,
    /// Whether this configuration can use the filter of points and prefixes.
    pub state: FilterState,
    /// Whether it can use the range filter; `None` when the configuration has none
    /// ([`with_range_filter`](SlateFilters::with_range_filter)).
    pub range_state: Option<FilterState<RangeInfo>>,
}

/// Whether a configuration can use an SST's filter, which is a range filter if `I` is [`RangeInfo`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterState<I = BlockInfo> {
    /// The filter is usable and contains the SST's first and last key.
    Usable(Box<I>),
    /// The SST has no filters: it has fewer rows than `min_filter_keys`, or was written without policies.
    NotWritten,
    /// The SST has filters, but none under this configuration's name: SlateDB's own, from before a migration, or those
    /// of a process with another configuration, for instance without range filters. Unless a reader has a policy for
    /// them ([`with_old_bloom`](SlateFilters::with_old_bloom)), it reads them and uses none: one request more than
    /// without filters.
    OtherPolicy,
    /// The filter under this configuration's name is unusable.
    Unusable(Unusable),
    /// The filter lacks the SST's first or last key: it is another SST's, or an extractor or hash changed while its
    /// name did not, in an SST whose first and last key have 64 bytes or more. (With shorter keys, reading the filter
    /// finds such a change: it is then [`Unusable`](Self::Unusable).) **Lookups lose keys.** Rewrite the SST with
    /// another configuration of filters, or without any.
    OtherKeys,
    /// SlateDB could not read the filters.
    Unreadable(String),
}

impl Audit {
    /// Returns the SSTs with a filter that this configuration cannot use: the filter of points and prefixes, or the
    /// range filter if it has them.
    pub fn without_usable_filter(&self) -> impl Iterator<Item = &SstAudit> {
        self.ssts.iter().filter(|sst| !sst.state.is_usable() || !sst.has_usable_range_filter())
    }

    /// Returns the stored bytes of all filters.
    #[must_use]
    pub fn filter_bytes(&self) -> u64 {
        self.ssts.iter().map(|sst| sst.filter_bytes).sum()
    }
}

impl SstAudit {
    /// Also `true` when the configuration has no range filters.
    fn has_usable_range_filter(&self) -> bool {
        self.range_state.as_ref().is_none_or(FilterState::is_usable)
    }
}

impl<I> FilterState<I> {
    /// Returns whether the filter is [`Usable`](Self::Usable).
    #[must_use]
    pub fn is_usable(&self) -> bool {
        matches!(self, Self::Usable(_))
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
        self.without_usable_filter().try_for_each(|sst| {
            if !sst.state.is_usable() {
                write!(f, "\n{:?}: {}", sst.id, sst.state)?;
            }
            match &sst.range_state {
                Some(state) if !state.is_usable() => write!(f, "\n{:?}: range filter: {state}", sst.id),
                _ => Ok(()),
            }
        })
    }
}

/// A macro, because the two info types share these fields but no trait.
macro_rules! display {
    ($($info:ident)+) => {
        $(impl fmt::Display for FilterState<$info> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Usable(info) => write!(f, "usable, {} keys, {} bytes", info.keys, info.block_bytes),
                    fault => fault.write_fault(f),
                }
            }
        })+
    };
}

display! { BlockInfo RangeInfo }

impl<I> FilterState<I> {
    fn write_fault(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usable(_) => f.write_str("usable"),
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
    /// Reads every SST's filters through SlateDB, and reports which of them this configuration can use.
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
        let points = Arc::new(Recording::new(self.uncounted_policy()));
        let ranges = self.uncounted_range_policy().map(|policy| Arc::new(Recording::new(policy)));
        let mut policies = vec![Arc::clone(&points) as Arc<dyn FilterPolicy>];
        policies.extend(ranges.clone().map(|policy| policy as Arc<dyn FilterPolicy>));
        let reader = reader
            .with_filter_policies(policies)
            .with_db_cache(Arc::new(NoCache), 0)
            .with_reader_mode(DbReaderMode::FollowLatest)
            .build()
            .await?;
        let mut ssts = Vec::new();
        for view in reader.manifest().all_sst_views() {
            let sst = &view.sst;
            // SlateDB reads nothing for an SST that a compaction removed meanwhile, and reports no error.
            let read = read_filters(&reader, sst).await;
            let state = points.state(&read, sst, FilterBlock::info);
            let range_state = ranges.as_ref().map(|policy| policy.state(&read, sst, RangeFilter::info));
            let has_filter =
                state != FilterState::OtherPolicy || !matches!(range_state, None | Some(FilterState::OtherPolicy));
            if has_filter || reader.manifest().all_sst_views().any(|view| view.sst.id == sst.id) {
                ssts.push(SstAudit { id: sst.id, filter_bytes: sst.info.filter_len, state, range_state });
            }
        }
        reader.close().await?;
        Ok(Audit { ssts })
    }
}

/// The result of reading an SST's filters.
enum Read {
    NoFilters,
    Failed(String),
    Done,
}

async fn read_filters(reader: &DbReader, sst: &SsTableHandle) -> Read {
    // The manifest already knows; a read would cost a request.
    if sst.info.filter_len == 0 {
        return Read::NoFilters;
    }
    match reader.warm_sst(sst.id, &[CacheTarget::Filters]).await {
        Ok(()) => Read::Done,
        Err(error) => Read::Failed(error.to_string()),
    }
}

/// A policy that keeps the filter decoded last.
struct Recording<P: DecodingPolicy> {
    policy: P,
    decoded: Mutex<Option<SlateFilter<P::Scheme>>>,
}

type Block<P> = <<P as DecodingPolicy>::Scheme as Scheme>::Block;

impl<P: DecodingPolicy> Recording<P> {
    fn new(policy: P) -> Self {
        Self { policy, decoded: Mutex::default() }
    }

    /// Returns the state of the filter decoded since the last call, if any.
    fn state<I>(&self, read: &Read, sst: &SsTableHandle, info: impl Fn(&Block<P>) -> I) -> FilterState<I> {
        // Taken, so that the next SST cannot inherit this state.
        let filter = self.decoded.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (read, filter) {
            (Read::NoFilters, _) => FilterState::NotWritten,
            (Read::Failed(error), _) => FilterState::Unreadable(error.clone()),
            (Read::Done, None) => FilterState::OtherPolicy,
            (Read::Done, Some(filter)) => state_of(&filter, sst, info),
        }
    }
}

fn state_of<S: Scheme, I>(
    filter: &SlateFilter<S>,
    sst: &SsTableHandle,
    info: impl Fn(&S::Block) -> I,
) -> FilterState<I> {
    let mut bounds = sst.info.first_entry.iter().chain(&sst.info.last_entry);
    match filter.block() {
        Err(reason) => FilterState::Unusable(reason.clone()),
        Ok(block) if bounds.all(|key| filter.may_contain_range(key)) => FilterState::Usable(Box::new(info(block))),
        Ok(_) => FilterState::OtherKeys,
    }
}

impl<P: DecodingPolicy> FilterPolicy for Recording<P> {
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

/// A cache that keeps nothing. SlateDB offers to read filters only if it has a cache.
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
