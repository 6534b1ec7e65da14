//! Lookups and scans against an open store, counted.

use core::time::Duration;
use std::sync::Arc;

use foyer::{Cache, CacheBuilder};
use slatedb::bytes::Bytes;
use slatedb::db_cache::foyer::FoyerCache;
use slatedb::db_cache::{CacheTarget, CachedEntry, CachedKey, SplitCache};
use slatedb::db_stats::{SST_FILTER_FALSE_POSITIVE_COUNT, SST_FILTER_NEGATIVE_COUNT, SST_FILTER_POSITIVE_COUNT};
use slatedb::instrumented_object_store_stats::REQUEST_COUNT;
use slatedb::{Db, DbCacheManagerOps};
use slatedb_common::metrics::{DefaultMetricsRecorder, MetricValue};

use crate::AnyError;
use crate::contenders::Contender;
use crate::counting::{CountingStore, Requests, ssts};
use crate::ranges::{ScannedBy, Window};
use crate::store::Store;

/// The size of the cache for filters and indexes. Data blocks are never cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaCache {
    None,
    /// In one shard.
    Bytes(u64),
    Sharded {
        bytes: u64,
        shards: usize,
        /// Part of each entry's key: another one deals the same filters to other shards.
        scope: u64,
    },
}

impl MetaCache {
    /// More than any store here has.
    pub(crate) const AMPLE: Self = Self::Bytes(1 << 40);
}

/// The cost and the results of lookups or scans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) lookups: u64,
    pub(crate) requests: Requests,
    pub(crate) probes: u64,
    /// Probes that did not skip the SST.
    pub(crate) positives: u64,
    pub(crate) false_positives: u64,
    pub(crate) rows: u64,
}

impl Outcome {
    /// A count, for a thousand lookups.
    pub(crate) fn per_thousand(&self, count: u64) -> f64 {
        count as f64 * 1e3 / self.lookups as f64
    }

    pub(crate) fn gets_per_thousand(&self) -> f64 {
        self.per_thousand(self.requests.all().gets)
    }

    pub(crate) fn false_positive_rate(&self) -> f64 {
        self.false_positives as f64 / self.probes.max(1) as f64
    }
}

/// An open store.
pub(crate) struct Session {
    db: Db,
    objects: Arc<CountingStore>,
    recorder: Arc<DefaultMetricsRecorder>,
    cache: Option<Cache<CachedKey, CachedEntry>>,
}

/// The engine's counters at one time.
struct Snapshot {
    gets: u64,
    /// The store's requests for files other than SSTs, which the engine also counts.
    elsewhere: u64,
    probes: u64,
    positives: u64,
    false_positives: u64,
}

impl Session {
    /// Opens a store with an empty cache.
    pub(crate) async fn open(store: &Store, contender: Contender, cache: MetaCache) -> Result<Self, AnyError> {
        let recorder = Arc::new(DefaultMetricsRecorder::new());
        let mut builder = store.builder(contender)?.with_metrics_recorder(recorder.clone());
        let (cache, scope) = match cache {
            MetaCache::None => (None, 0),
            MetaCache::Bytes(bytes) => (Some(meta_cache(bytes, 1)?), 0),
            MetaCache::Sharded { bytes, shards, scope } => (Some(meta_cache(bytes, shards)?), scope),
        };
        if let Some(cache) = &cache {
            let meta = Arc::new(FoyerCache::new_with_cache(cache.clone()));
            builder = builder.with_db_cache(Arc::new(SplitCache::new().with_meta_cache(Some(meta)).build()), scope);
        }
        let db = Box::pin(builder.build()).await?;
        let session = Self { db, objects: Arc::clone(&store.objects), recorder, cache };
        session.settle().await;
        session.objects.take();
        Ok(session)
    }

    pub(crate) async fn close(self) -> Result<(), AnyError> {
        Ok(self.db.close().await?)
    }

    /// Returns the bytes of one section of all SSTs in the cache.
    pub(crate) async fn cached_bytes(&self, section: CacheTarget) -> Result<u64, AnyError> {
        let Some(cache) = &self.cache else { return Ok(0) };
        let before = cache.usage();
        let manifest = self.db.manifest();
        for view in ssts(&manifest) {
            self.db.warm_sst(view.sst.id, core::slice::from_ref(&section)).await?;
        }
        self.settle().await;
        self.objects.take();
        Ok((cache.usage() - before) as u64)
    }

    /// Looks up absent keys. Asserts that the engine counted the same requests.
    pub(crate) async fn absent(&self, keys: &[Bytes]) -> Result<Outcome, AnyError> {
        let before = self.snapshot();
        let outcome = self.lookups(keys).await?;
        assert_eq!(outcome.rows, 0, "an absent key was found");
        let now = self.snapshot();
        let (engine, elsewhere) = (now.gets - before.gets, now.elsewhere - before.elsewhere);
        assert_eq!(engine, outcome.requests.all().gets + elsewhere, "requests that the engine counted");
        Ok(outcome)
    }

    /// Lookups of keys that the store has.
    pub(crate) async fn present(&self, keys: &[Bytes]) -> Result<Outcome, AnyError> {
        let outcome = self.lookups(keys).await?;
        assert_eq!(outcome.rows, outcome.lookups, "a key was lost");
        Ok(outcome)
    }

    /// One scan for each prefix.
    pub(crate) async fn scans(&self, prefixes: &[Bytes]) -> Result<Outcome, AnyError> {
        let before = self.snapshot();
        let mut found = 0;
        for prefix in prefixes {
            let mut rows = self.db.scan_prefix(prefix, ..).await?;
            while rows.next().await?.is_some() {
                found += 1;
            }
        }
        Ok(self.outcome(&before, prefixes.len(), found).await)
    }

    /// One scan for each window, by its prefix or as a plain range.
    pub(crate) async fn windows(&self, windows: &[Window], how: ScannedBy) -> Result<Outcome, AnyError> {
        let before = self.snapshot();
        let mut found = 0;
        for window in windows {
            let mut rows = match how {
                ScannedBy::Prefix => {
                    self.db.scan_prefix(&window.prefix, window.from.clone()..window.to.clone()).await?
                }
                ScannedBy::Range => self.db.scan(window.range()).await?,
            };
            while rows.next().await?.is_some() {
                found += 1;
            }
        }
        Ok(self.outcome(&before, windows.len(), found).await)
    }

    async fn lookups(&self, keys: &[Bytes]) -> Result<Outcome, AnyError> {
        let before = self.snapshot();
        let mut found = 0;
        for key in keys {
            found += u64::from(self.db.get(key).await?.is_some());
        }
        Ok(self.outcome(&before, keys.len(), found).await)
    }

    async fn outcome(&self, before: &Snapshot, lookups: usize, rows: u64) -> Outcome {
        self.settle().await;
        let now = self.snapshot();
        Outcome {
            lookups: lookups as u64,
            requests: self.objects.take(),
            probes: now.probes - before.probes,
            positives: now.positives - before.positives,
            false_positives: now.false_positives - before.false_positives,
            rows,
        }
    }

    /// Waits until no read is active: the engine drops reads that it no longer needs, and may finish others later.
    async fn settle(&self) {
        let mut gets = self.objects.gets();
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            match self.objects.gets() {
                same if same == gets => return,
                more => gets = more,
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let snapshot = self.recorder.snapshot();
        let sum = |name: &str, is_meant: &dyn Fn(&str, &str) -> bool| {
            let metrics = snapshot.by_name(name).into_iter();
            let meant = metrics.filter(|metric| metric.labels.iter().all(|(label, value)| is_meant(label, value)));
            let counts = meant.map(|metric| match metric.value {
                MetricValue::Counter(count) => count,
                _ => 0,
            });
            counts.sum::<u64>()
        };
        let reads = |label: &str, value: &str| match label {
            "component" => value == "db",
            "store_type" => value == "main",
            "op" => value == "get",
            _ => true,
        };
        let filters = |name| sum(name, &|_, _| true);
        Snapshot {
            gets: sum(REQUEST_COUNT, &reads),
            elsewhere: self.objects.gets_elsewhere(),
            probes: filters(SST_FILTER_POSITIVE_COUNT) + filters(SST_FILTER_NEGATIVE_COUNT),
            positives: filters(SST_FILTER_POSITIVE_COUNT),
            false_positives: filters(SST_FILTER_FALSE_POSITIVE_COUNT),
        }
    }
}

/// Returns the cache of a `FoyerCache`, as SlateDB makes it.
fn meta_cache(bytes: u64, shards: usize) -> Result<Cache<CachedKey, CachedEntry>, AnyError> {
    let weighed = CacheBuilder::new(usize::try_from(bytes)?).with_shards(shards);
    Ok(weighed.with_weighter(|_, entry: &CachedEntry| entry.size()).build())
}
