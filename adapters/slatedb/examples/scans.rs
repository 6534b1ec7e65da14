//! The value of a range filter on an object store: requests of scans for a quarter of an hour of one sensor, where each
//! SST has an hour of all sensors. SlateDB itself counts them.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use slatedb::config::{FlushOptions, FlushType, Settings};
use slatedb::db_cache::foyer::FoyerCache;
use slatedb::db_cache::{CacheTarget, SplitCache};
use slatedb::instrumented_object_store_stats::REQUEST_COUNT;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::{Db, DbBuilder, DbCacheManagerOps};
use slatedb_common::metrics::{DefaultMetricsRecorder, MetricValue};
use sstfilter::{FalsePositiveRate, FixedPrefix};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_slatedb::SlateFilters;

const HOURS: u64 = 32;
const SENSORS: u64 = 250;
const ROWS_PER_HOUR: u64 = 20;
const HOUR_MS: u64 = 3_600_000;
const SCANS: u64 = 500;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let rate = FalsePositiveRate::ONE_PERCENT;
    let points = SlateFilters::default();
    let ordered = points.clone().with_range_filter(RangePolicy::ordered(rate)?);
    // Ranges of up to 1,024 units of 1,024 milliseconds, about 17 minutes, inside a sensor's eight bytes.
    let units = RangeUnits::integer(8)?.with_prefix(Arc::new(FixedPrefix::new(8))).with_granularity_bits(10)?;
    let hashed = points.clone().with_range_filter(RangePolicy::hashed(units, 1_024, rate)?);

    println!("{HOURS} SSTs, each an hour of {SENSORS} sensors; {SCANS} scans of 15 minutes of one sensor");
    println!("{:<28} {:>12} {:>12} {:>12} {:>8}", "", "filter bytes", "GETs, cold", "GETs, cached", "rows");
    row("filters of points alone", &points).await?;
    row("and ordered ranges", &ordered).await?;
    row("and hashed ranges", &hashed).await?;
    println!("cold: nothing cached. cached: filters and indexes in memory, data not.");
    Ok(())
}

async fn row(name: &str, filters: &SlateFilters) -> Result<(), Box<dyn Error>> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let db = filters.configure(builder(&store)).with_db_cache_disabled().build().await?;
    fill(&db).await?;
    let filter_bytes: u64 = db.manifest().l0().iter().map(|view| view.sst.info.filter_len).sum();
    db.close().await?;

    let (cold, rows) = scan(filters.configure(builder(&store)).with_db_cache_disabled()).await?;
    let metadata = SplitCache::new().with_meta_cache(Some(Arc::new(FoyerCache::new()))).build();
    let (cached, _) = scan(filters.configure(builder(&store)).with_db_cache(Arc::new(metadata), 0)).await?;
    println!("{name:<28} {filter_bytes:>12} {cold:>12} {cached:>12} {rows:>8}");
    Ok(())
}

/// Nothing runs in the background, so that only scans are counted.
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

async fn fill(db: &Db) -> Result<(), slatedb::Error> {
    for hour in 0..HOURS {
        for sensor in 0..SENSORS {
            for row in 0..ROWS_PER_HOUR {
                let offset = scattered(hour << 32 | sensor << 16 | row) % HOUR_MS;
                db.put(key(sensor, hour * HOUR_MS + offset), b"a reading").await?;
            }
        }
        db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await?;
    }
    Ok(())
}

/// Sensors have random names.
fn key(sensor: u64, time: u64) -> Vec<u8> {
    [scattered(sensor).to_be_bytes(), time.to_be_bytes()].concat()
}

/// A number without any order: the output function of `SplitMix64` (Steele, Lea and Flood, 2014).
fn scattered(number: u64) -> u64 {
    let x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the GETs of the scans, with warm metadata if there is a cache, and the rows that they found.
async fn scan(builder: DbBuilder<Path>) -> Result<(u64, u64), Box<dyn Error>> {
    let recorder = Arc::new(DefaultMetricsRecorder::new());
    let db = builder.with_metrics_recorder(recorder.clone()).build().await?;
    for view in db.manifest().l0() {
        db.warm_sst(view.sst.id, &[CacheTarget::Filters, CacheTarget::Index]).await?;
    }
    // Opening a store polls its manifest.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (before, mut found) = (gets(&recorder), 0);
    for scan in 0..SCANS {
        let (sensor, from) = (scan % SENSORS, scan % HOURS * HOUR_MS + HOUR_MS / 2);
        let mut rows = db.scan(key(sensor, from)..key(sensor, from + HOUR_MS / 4)).await?;
        while rows.next().await?.is_some() {
            found += 1;
        }
    }
    let requests = gets(&recorder) - before;
    db.close().await?;
    Ok((requests, found))
}

fn gets(recorder: &DefaultMetricsRecorder) -> u64 {
    let metrics = recorder.snapshot();
    let gets = metrics.by_name(REQUEST_COUNT).into_iter().filter(|metric| {
        let has = |label: (&str, &str)| metric.labels.iter().any(|(name, value)| (&**name, &**value) == label);
        has(("component", "db")) && has(("store_type", "main")) && has(("op", "get"))
    });
    gets.map(|metric| if let MetricValue::Counter(count) = metric.value { count } else { 0 }).sum()
}
