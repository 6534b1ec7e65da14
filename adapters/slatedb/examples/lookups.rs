//! The value of a filter on an object store: requests for absent keys, counted by SlateDB itself.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use slatedb::config::{FlushOptions, FlushType, Settings};
use slatedb::db_cache::foyer::FoyerCache;
use slatedb::db_cache::{CacheTarget, SplitCache};
use slatedb::instrumented_object_store_stats::REQUEST_COUNT;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use slatedb::{Db, DbBuilder, DbCacheManagerOps, DbReader, object_store::path::Path};
use slatedb_common::metrics::{DefaultMetricsRecorder, MetricValue};
use sstfilter::{BitsPerKey, FixedPolicy};
use sstfilter_slatedb::SlateFilters;

const SSTS: u64 = 32;
const KEYS_PER_SST: u64 = 5_000;
const LOOKUPS: u64 = 1_000;

type Configure<'a> = &'a dyn Fn(DbBuilder<Path>) -> DbBuilder<Path>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let ribbon = SlateFilters::default();
    let bloom = ribbon.clone().with_kind(FixedPolicy::bloom(BitsPerKey::TEN)?);
    println!("{SSTS} SSTs of {KEYS_PER_SST} keys, all of the same range; {LOOKUPS} lookups of absent keys");
    println!("{:<38} {:>12} {:>12} {:>12}", "", "filter bytes", "GETs, cold", "GETs, cached");
    row("no filters", &|builder| builder.with_filter_policies(vec![])).await?;
    row("SlateDB's Bloom, 10 bits per key", &|builder| builder).await?;
    row("sstfilter: blocked Bloom, 10 bits", &|builder| bloom.configure(builder)).await?;
    row("sstfilter: Ribbon, the default", &|builder| ribbon.configure(builder)).await?;
    println!("cold: nothing cached. cached: filters and indexes in memory, data not.");

    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let forgotten = Db::builder("store", Arc::clone(&store)).build().await?;
    fill(&forgotten, 1).await?;
    forgotten.close().await?;
    println!("\nThe audit of a store whose writer was not configured:");
    println!("{}", ribbon.audit(DbReader::builder("store", store)).await?);
    Ok(())
}

async fn row(name: &str, configure: Configure<'_>) -> Result<(), Box<dyn Error>> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let db = configure(builder(&store)).with_db_cache_disabled().build().await?;
    fill(&db, SSTS).await?;
    let filter_bytes: u64 = db.manifest().l0().iter().map(|view| view.sst.info.filter_len).sum();
    db.close().await?;

    let cold = requests(configure(builder(&store)).with_db_cache_disabled()).await?;
    let metadata = SplitCache::new().with_meta_cache(Some(Arc::new(FoyerCache::new()))).build();
    let cached = requests(configure(builder(&store)).with_db_cache(Arc::new(metadata), 0)).await?;
    println!("{name:<38} {filter_bytes:>12} {cold:>12} {cached:>12}");
    Ok(())
}

/// Nothing runs in the background, so that only lookups are counted.
fn builder(store: &Arc<dyn ObjectStore>) -> DbBuilder<Path> {
    Db::builder(Path::from("store"), Arc::clone(store)).with_settings(Settings {
        compactor_options: None,
        garbage_collector_options: None,
        manifest_poll_interval: Duration::from_hours(1),
        l0_max_ssts: 1_000,
        l0_max_ssts_per_key: 1_000,
        ..Settings::default()
    })
}

/// Even numbers, dealt to the SSTs in turns.
async fn fill(db: &Db, ssts: u64) -> Result<(), slatedb::Error> {
    for sst in 0..ssts {
        for row in 0..KEYS_PER_SST {
            db.put(key(2 * (row * ssts + sst)), b"a value").await?;
        }
        db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await?;
    }
    Ok(())
}

fn key(number: u64) -> String {
    format!("key-{number:012}")
}

/// Returns the GETs of the lookups, with warm metadata if there is a cache.
async fn requests(builder: DbBuilder<Path>) -> Result<u64, Box<dyn Error>> {
    let recorder = Arc::new(DefaultMetricsRecorder::new());
    let db = builder.with_metrics_recorder(recorder.clone()).build().await?;
    for view in db.manifest().l0() {
        db.warm_sst(view.sst.id, &[CacheTarget::Filters, CacheTarget::Index]).await?;
    }
    // Opening a store polls its manifest.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = gets(&recorder);
    for lookup in 0..LOOKUPS {
        let absent = 2 * SSTS + 1 + 2 * lookup * (SSTS * (KEYS_PER_SST - 2) / LOOKUPS);
        assert_eq!(db.get(key(absent)).await?, None);
    }
    let requests = gets(&recorder) - before;
    db.close().await?;
    Ok(requests)
}

fn gets(recorder: &DefaultMetricsRecorder) -> u64 {
    let metrics = recorder.snapshot();
    let gets = metrics.by_name(REQUEST_COUNT).into_iter().filter(|metric| {
        let has = |label: (&str, &str)| metric.labels.iter().any(|(name, value)| (&**name, &**value) == label);
        has(("component", "db")) && has(("store_type", "main")) && has(("op", "get"))
    });
    gets.map(|metric| if let MetricValue::Counter(count) = metric.value { count } else { 0 }).sum()
}
