//! Stores whose every request is counted.

use std::sync::Arc;
use std::time::Duration;

use slatedb::bytes::Bytes;
use slatedb::config::{FlushOptions, FlushType, Settings};
use slatedb::db_stats::{
    FILTER_KIND_LABEL, FILTER_KIND_POINT, FILTER_KIND_PREFIX, FILTER_KIND_RANGE, SST_FILTER_FALSE_POSITIVE_COUNT,
    SST_FILTER_NEGATIVE_COUNT, SST_FILTER_POSITIVE_COUNT,
};
use slatedb::instrumented_object_store_stats::REQUEST_COUNT;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::{Db, DbBuilder};
use slatedb_common::metrics::{DefaultMetricsRecorder, MetricValue};

/// The path of each test's store, in a separate object store.
pub(crate) const PATH: &str = "store";

/// Nothing runs in the background, and every SST gets a filter.
pub(crate) fn settings() -> Settings {
    Settings {
        min_filter_keys: 0,
        compactor_options: None,
        garbage_collector_options: None,
        manifest_poll_interval: Duration::from_hours(1),
        l0_max_ssts: 1_000,
        l0_max_ssts_per_key: 1_000,
        ..Settings::default()
    }
}

/// A builder that keeps nothing in a cache.
pub(crate) fn uncached(store: &Arc<dyn ObjectStore>, settings: Settings) -> DbBuilder<Path> {
    Db::builder(Path::from(PATH), Arc::clone(store)).with_settings(settings).with_db_cache_disabled()
}

/// The engine's counters.
#[derive(Clone)]
pub(crate) struct Counted(Arc<DefaultMetricsRecorder>);

/// The engine's counts for queries of one kind, with sound and with unusable filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) positive: u64,
    pub(crate) negative: u64,
    pub(crate) false_positive: u64,
}

impl Counted {
    pub(crate) fn new() -> Self {
        Self(Arc::new(DefaultMetricsRecorder::new()))
    }

    pub(crate) fn recorder(&self) -> Arc<DefaultMetricsRecorder> {
        Arc::clone(&self.0)
    }

    pub(crate) fn metric(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        match self.0.snapshot().by_name_and_labels(name, labels).map(|metric| metric.value.clone()) {
            Some(MetricValue::Counter(count)) => count,
            None => 0,
            Some(other) => panic!("{name} is no counter: {other:?}"),
        }
    }

    /// GET and HEAD requests of the store's reads so far.
    fn gets(&self) -> u64 {
        let labels = |api| [("component", "db"), ("store_type", "main"), ("op", "get"), ("api", api)];
        ["get", "get_range", "get_ranges", "head"].map(|api| self.metric(REQUEST_COUNT, &labels(api))).iter().sum()
    }

    /// Returns the GET and HEAD requests when no background read is active: a store polls its manifest when it is
    /// opened.
    pub(crate) async fn settled_gets(&self) -> u64 {
        let mut gets = self.gets();
        loop {
            tokio::time::sleep(Duration::from_millis(30)).await;
            match self.gets() {
                same if same == gets => return gets,
                more => gets = more,
            }
        }
    }

    pub(crate) fn point_answers(&self) -> Answers {
        self.answers(FILTER_KIND_POINT)
    }

    pub(crate) fn prefix_answers(&self) -> Answers {
        self.answers(FILTER_KIND_PREFIX)
    }

    pub(crate) fn range_answers(&self) -> Answers {
        self.answers(FILTER_KIND_RANGE)
    }

    fn answers(&self, kind: &str) -> Answers {
        let count = |name| self.metric(name, &[(FILTER_KIND_LABEL, kind)]);
        Answers {
            positive: count(SST_FILTER_POSITIVE_COUNT),
            negative: count(SST_FILTER_NEGATIVE_COUNT),
            false_positive: count(SST_FILTER_FALSE_POSITIVE_COUNT),
        }
    }
}

/// Writes the memtable as one SST.
pub(crate) async fn flush(db: &Db) {
    db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await.expect("a flush");
}

/// The key of one number: numbers dealt to SSTs in turns give each SST the whole range.
pub(crate) fn key(number: u64) -> Bytes {
    format!("key-{number:012}").into_bytes().into()
}
