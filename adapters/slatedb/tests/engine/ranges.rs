//! A scan meets every SST whose range it overlaps, and most of them contain none of its keys. A range filter that is
//! read and not used would pass every other test; one that skips an SST with a key would lose it without an error.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use slatedb::admin::Admin;
use slatedb::bytes::Bytes;
use slatedb::config::ScanOptions;
use slatedb::db_cache::foyer::FoyerCache;
use slatedb::db_cache::{CacheTarget, SplitCache};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::{CloneSourceSpec, Db, DbCacheManagerOps, DbIterator, DbReader, IterationOrder};
use sstfilter_range::RangePolicy;
use sstfilter_slatedb::{FilterState, FilteredKeys, SlateFilters};

use crate::common::{Answers, Counted, PATH, flush, settings, uncached};
use crate::compaction;
use crate::configurations::{FirstBytes, hashed, ordered};
use crate::counting::{CountingStore, Reads};

const SSTS: u64 = 64;
const CLUSTERS: u64 = 20;
const CLUSTER_KEYS: u64 = 50;
/// Between two keys of a cluster.
const STEP: u64 = 1_000;

type Model = BTreeMap<Bytes, Bytes>;

#[derive(Clone, Debug)]
struct Scan {
    lower: Bound<Bytes>,
    upper: Bound<Bytes>,
    order: IterationOrder,
}

/// The output function of `SplitMix64` (Steele, Lea, Flood 2014).
fn mix(number: u64) -> u64 {
    let x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn key(number: u64) -> Bytes {
    number.to_be_bytes().to_vec().into()
}

/// Where a cluster of an SST begins: anywhere, so that each SST covers nearly all keys.
fn cluster(sst: u64, cluster: u64) -> u64 {
    mix(sst * CLUSTERS + cluster) & !(1 << 63)
}

fn rows(sst: u64) -> impl Iterator<Item = (Bytes, Bytes)> {
    let clusters = (0..CLUSTERS).map(move |number| cluster(sst, number));
    let numbers = clusters.flat_map(|first| (0..CLUSTER_KEYS).map(move |row| first + row * STEP));
    numbers.map(move |number| (key(number), Bytes::from(format!("{number:096}{sst:04}"))))
}

async fn write_sst(db: &Db, rows: impl Iterator<Item = (Bytes, Bytes)>, model: &mut Model) {
    for (key, value) in rows {
        db.put(&key, &value).await.unwrap();
        model.insert(key, value);
    }
    // The log first: a store with rows in it cannot be cloned in part.
    db.flush().await.unwrap();
    flush(db).await;
}

/// 64 SSTs that all cover nearly all keys.
async fn store_with(filters: &SlateFilters) -> (Arc<CountingStore>, Model) {
    let (store, mut model) = (Arc::<CountingStore>::default(), Model::new());
    let db = filters.configure(uncached(&dyn_store(&store), settings())).build().await.unwrap();
    for sst in 0..SSTS {
        write_sst(&db, rows(sst), &mut model).await;
    }
    db.close().await.unwrap();
    (store, model)
}

fn dyn_store(store: &Arc<CountingStore>) -> Arc<dyn ObjectStore> {
    Arc::clone(store) as Arc<dyn ObjectStore>
}

/// 100 short ranges without keys, and 100 inside clusters; forwards and backwards, with ends of both kinds.
fn short_scans() -> Vec<Scan> {
    let scan = |number: u64, first: u64| {
        let order = [IterationOrder::Ascending, IterationOrder::Descending][usize::from(number % 4 == 3)];
        let (lower, upper) = (key(first), key(first + 12 * STEP));
        let (lower, upper) = match number % 3 {
            0 => (Bound::Included(lower), Bound::Excluded(upper)),
            1 => (Bound::Excluded(lower), Bound::Included(upper)),
            _ => (Bound::Excluded(lower), Bound::Excluded(upper)),
        };
        Scan { lower, upper, order }
    };
    let absent = (0..100).map(|number| scan(number, mix(1 << 40 | number) >> 1));
    let present = (0..100).map(|number| scan(number, cluster(number * 7 % SSTS, number % CLUSTERS) + 20 * STEP));
    absent.chain(present).collect()
}

/// Long ranges, with and without ends.
fn long_scans() -> Vec<Scan> {
    let ends = |number: u64| match number {
        0 => (Bound::Unbounded, Bound::Unbounded),
        1..4 => (Bound::Unbounded, Bound::Excluded(key(mix(number) >> 8))),
        4..7 => (Bound::Excluded(key(u64::MAX >> 1 ^ mix(number) >> 8)), Bound::Unbounded),
        _ => (Bound::Included(key(mix(number) >> 1)), Bound::Included(key((mix(number) >> 1) + (1 << 55)))),
    };
    let order = |number: u64| [IterationOrder::Ascending, IterationOrder::Descending][usize::from(number % 2 == 1)];
    (0..20)
        .map(|number| (ends(number), order(number)))
        .map(|((lower, upper), order)| Scan { lower, upper, order })
        .collect()
}

async fn collect(mut rows: DbIterator) -> Vec<(Bytes, Bytes)> {
    let mut found = Vec::new();
    while let Some(row) = rows.next().await.unwrap() {
        found.push((row.key, row.value));
    }
    found
}

async fn check(db: &Db, model: &Model, scan: &Scan) {
    let range = (scan.lower.clone(), scan.upper.clone());
    let mut expected: Vec<_> = model.range(range.clone()).map(|(key, value)| (key.clone(), value.clone())).collect();
    if matches!(scan.order, IterationOrder::Descending) {
        expected.reverse();
    }
    let options = ScanOptions::default().with_order(scan.order);
    assert_eq!(collect(db.scan_with_options(range, &options).await.unwrap()).await, expected, "{scan:?}");
}

/// Returns the reads of scans of a reopened store, with nothing or with filters and indexes in memory, and the filters'
/// answers. Checks all results against the map.
async fn scans(
    store: &Arc<CountingStore>,
    filters: Option<&SlateFilters>,
    caches_metadata: CachesMetadata,
    model: &Model,
    scans: &[Scan],
) -> (Reads, Answers) {
    let counted = Counted::new();
    let builder = uncached(&dyn_store(store), settings()).with_metrics_recorder(counted.recorder());
    let builder = match caches_metadata {
        CachesMetadata::Yes => {
            let cache = SplitCache::new().with_meta_cache(Some(Arc::new(FoyerCache::new()))).build();
            builder.with_db_cache(Arc::new(cache), 0)
        }
        CachesMetadata::No => builder,
    };
    let builder = match filters {
        Some(filters) => filters.configure(builder),
        None => builder.with_filter_policies(vec![]),
    };
    let db = builder.build().await.unwrap();
    if caches_metadata == CachesMetadata::Yes {
        for view in db.manifest().all_sst_views() {
            db.warm_sst(view.sst.id, &[CacheTarget::Filters, CacheTarget::Index]).await.unwrap();
        }
    }
    counted.settled_gets().await;
    store.take();
    for scan in scans {
        check(&db, model, scan).await;
    }
    counted.settled_gets().await;
    let reads = store.take();
    db.close().await.unwrap();
    (reads, counted.range_answers())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CachesMetadata {
    Yes,
    No,
}

fn with_ranges(policy: RangePolicy) -> SlateFilters {
    SlateFilters::default().with_range_filter(policy)
}

#[tokio::test]
async fn short_scans_of_64_ssts_fetch_a_fifth_of_the_bytes_and_lose_no_key() {
    let scanned = short_scans();
    for (name, policy) in [("ordered", ordered()), ("hashed", hashed(14))] {
        let filters = with_ranges(policy);
        let (store, model) = store_with(&filters).await;
        let (plain, answers) = scans(&store, None, CachesMetadata::Yes, &model, &scanned).await;
        assert_eq!(answers, Answers::default());
        let (cached, answers) = scans(&store, Some(&filters), CachesMetadata::Yes, &model, &scanned).await;
        println!("{name}, metadata cached: {plain:?} without filters, {cached:?} with them, {answers:?}");
        assert!(cached.bytes * 5 <= plain.bytes, "{name}: {cached:?}, {plain:?} without filters");
        // There are 12,800 pairs of a scan and an SST. 1 % of the SSTs without a key of the scan may be read.
        assert!(answers.negative > 11_000, "{name}: {answers:?}");
        assert!(answers.false_positive < 200 * SSTS / 40, "{name}: {answers:?}");

        let (plain, _) = scans(&store, None, CachesMetadata::No, &model, &scanned).await;
        let (cold, answers) = scans(&store, Some(&filters), CachesMetadata::No, &model, &scanned).await;
        println!("{name}, nothing cached: {plain:?} without filters, {cold:?} with them");
        let probes = answers.negative + answers.positive;
        assert!(cold.gets >= probes + 2 * answers.positive, "{cold:?}, {answers:?}");
        assert!(cold.gets * 9 <= plain.gets * 5 && cold.bytes < plain.bytes, "{name}: {cold:?}, {plain:?}");
        assert_eq!((filters.stats().foreign_probes, filters.stats().unusable_probes), (0, 0));
    }
}

#[tokio::test]
async fn long_and_half_open_scans_lose_no_key() {
    for policy in [ordered(), hashed(14)] {
        let filters = with_ranges(policy);
        let (store, model) = store_with(&filters).await;
        scans(&store, Some(&filters), CachesMetadata::Yes, &model, &long_scans()).await;
        // And in sorted runs, whose SSTs a scan meets one after the other.
        let dyn_store = dyn_store(&store);
        compaction::run(&dyn_store, filters.configure(compaction::builder(&dyn_store))).await;
        scans(&store, Some(&filters), CachesMetadata::Yes, &model, &long_scans()).await;
        scans(&store, Some(&filters), CachesMetadata::Yes, &model, &short_scans()).await;
        assert_eq!((filters.stats().foreign_probes, filters.stats().unusable_probes), (0, 0));
    }
}

#[tokio::test]
async fn without_range_filters_a_scan_reads_no_filter_and_with_them_one_of_each_sst_from_before() {
    let filters = SlateFilters::default();
    let (store, model) = store_with(&filters).await;
    let plain = scans(&store, None, CachesMetadata::No, &model, &short_scans()).await;
    assert_eq!(scans(&store, Some(&filters), CachesMetadata::No, &model, &short_scans()).await, plain);
    let later = with_ranges(ordered());
    let (reads, answers) = scans(&store, Some(&later), CachesMetadata::No, &model, &short_scans()).await;
    assert_eq!((answers.negative, reads.gets), (0, plain.0.gets + answers.positive));
}

/// Some SSTs from before range filters, some with them, and some of a process with another policy.
#[tokio::test]
async fn a_store_that_gets_range_filters_later_is_read_and_audited_throughout() {
    let (store, mut model) = (Arc::<CountingStore>::default(), Model::new());
    let plain = SlateFilters::default();
    let (long, short) = (with_ranges(ordered()), with_ranges(hashed(14)));
    for (number, filters) in [&plain, &long, &short].into_iter().enumerate() {
        let db = filters.configure(uncached(&dyn_store(&store), settings())).build().await.unwrap();
        for sst in 0..8 {
            write_sst(&db, rows(8 * number as u64 + sst), &mut model).await;
        }
        db.close().await.unwrap();
    }
    for filters in [&plain, &long, &short] {
        for scanned in [short_scans(), long_scans()] {
            scans(&store, Some(filters), CachesMetadata::No, &model, &scanned).await;
        }
        assert_eq!((filters.stats().foreign_probes, filters.stats().unusable_probes), (0, 0));
    }
    // All three have the point filters, two have the range filters.
    let audit = async |filters: &SlateFilters| filters.audit(DbReader::builder(PATH, dyn_store(&store))).await.unwrap();
    assert_eq!(audit(&plain).await.without_usable_filter().count(), 0);
    let mixed = audit(&long).await;
    assert!(mixed.ssts.iter().all(|sst| sst.state.is_usable()), "{mixed}");
    let lacking: Vec<_> = mixed.without_usable_filter().map(|sst| sst.range_state.clone()).collect();
    assert_eq!(lacking, vec![Some(FilterState::OtherPolicy); 8]);
    assert_eq!(mixed.to_string().matches("range filter: has filters of other names only").count(), 8, "{mixed}");

    compaction::run(&dyn_store(&store), long.configure(compaction::builder(&dyn_store(&store)))).await;
    let compacted = audit(&long).await;
    assert_eq!(compacted.without_usable_filter().count(), 0, "{compacted}");
    let keys: u64 = compacted.ssts.iter().filter_map(|sst| sst.range_state.as_ref()).map(keys_of).sum();
    assert_eq!(keys, model.len() as u64);
}

fn keys_of(state: &FilterState<sstfilter_range::RangeInfo>) -> u64 {
    if let FilterState::Usable(info) = state { info.keys } else { 0 }
}

/// SST n has the numbers 100 n to 100 n + 9 under one prefix of 8 bytes, and keys at both ends, so that ranges do not
/// tell.
async fn prefixes(filters: &SlateFilters) -> Arc<dyn ObjectStore> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
    for sst in 1..=20_u64 {
        for row in 0..10 {
            db.put(prefixed(sst, row), b"a value").await.unwrap();
        }
        db.put(prefixed(0, sst), b"a value").await.unwrap();
        db.put(prefixed(1_000, sst), b"a value").await.unwrap();
        flush(&db).await;
    }
    db.close().await.unwrap();
    store
}

fn prefixed(prefix: u64, row: u64) -> Vec<u8> {
    [mix(prefix).to_be_bytes(), row.to_be_bytes()].concat()
}

#[tokio::test]
async fn prefix_scans_skip_ssts_by_their_ranges_also_where_point_filters_know_no_prefixes() {
    let whole = with_ranges(ordered());
    let extractor = Arc::new(FirstBytes { name: "first-8", length: 8 });
    let both = whole.clone().with_keys(FilteredKeys::whole_and_prefixes(extractor));
    for (filters, with_extractor) in [(whole, false), (both, true)] {
        let store = prefixes(&filters).await;
        let counted = Counted::new();
        let builder = uncached(&store, settings()).with_metrics_recorder(counted.recorder());
        let db = filters.configure(builder).build().await.unwrap();
        for sst in 1..=20 {
            let prefix = mix(sst).to_be_bytes();
            assert_eq!(collect(db.scan_prefix(prefix, ..).await.unwrap()).await.len(), 10);
            let part = db.scan_prefix(prefix, 3_u64.to_be_bytes()..7_u64.to_be_bytes()).await.unwrap();
            assert_eq!(collect(part).await.len(), 4);
            let mut recent = db.scan_prefix_by_recency(prefix).await.unwrap();
            let mut found = 0;
            while recent.next_entry().await.unwrap().is_some() {
                found += 1;
            }
            assert_eq!(found, 10);
            // A prefix shorter than the extractor's covers many prefixes, so only the range filter answers.
            assert!(collect(db.scan_prefix(&prefix[..6], ..).await.unwrap()).await.len() >= 10);
        }
        // 0xff has no successor, and an empty prefix is everything.
        assert!(collect(db.scan_prefix([0xff; 9], ..).await.unwrap()).await.is_empty());
        assert_eq!(collect(db.scan_prefix(b"", ..).await.unwrap()).await.len(), 20 * 12);
        let (prefixes, ranges) = (counted.prefix_answers(), counted.range_answers());
        if with_extractor {
            assert_eq!(ranges, Answers::default());
            assert!(prefixes.negative > 1_000, "{prefixes:?}");
        } else {
            assert_eq!(prefixes, Answers::default());
            assert!(ranges.negative > 1_000, "{ranges:?}");
        }
        db.close().await.unwrap();
    }
}

#[tokio::test]
async fn segments_lose_no_key() {
    let filters = with_ranges(ordered());
    let (store, mut model) = (Arc::<CountingStore>::default(), Model::new());
    let builder = || {
        let extractor = Arc::new(FirstBytes { name: "first-1", length: 1 });
        let builder = uncached(&dyn_store(&store), settings()).with_segment_extractor(extractor);
        filters.configure(builder)
    };
    let db = builder().build().await.unwrap();
    for sst in 0..4 {
        write_sst(&db, rows(sst), &mut model).await;
    }
    db.close().await.unwrap();
    let db = builder().build().await.unwrap();
    assert!(db.manifest().all_sst_views().count() > 40, "segments have SSTs of their own");
    for scan in short_scans().iter().chain(&long_scans()) {
        check(&db, &model, scan).await;
    }
    db.close().await.unwrap();
    assert_eq!((filters.stats().foreign_probes, filters.stats().unusable_probes), (0, 0));
}

#[tokio::test]
async fn a_clone_with_a_projection_loses_no_key() {
    let filters = with_ranges(ordered());
    let (store, mut model) = (Arc::<CountingStore>::default(), Model::new());
    let dyn_store = dyn_store(&store);
    let db = filters.configure(uncached(&dyn_store, settings())).build().await.unwrap();
    for sst in 0..12 {
        write_sst(&db, rows(sst), &mut model).await;
    }
    db.close().await.unwrap();
    // Sorted runs of several SSTs, between which a projection leaves gaps.
    let mut options = compaction::options();
    if let Some(worker) = &mut options.worker {
        worker.max_sst_size = 1 << 17;
    }
    compaction::run(&dyn_store, filters.configure(compaction::builder(&dyn_store).with_options(options))).await;

    let range = (Bound::Included(key(mix(3) >> 4)), Bound::Excluded(key(u64::MAX / 8 * 3)));
    model.retain(|key, _| std::ops::RangeBounds::contains(&range, key));
    assert!(model.len() > 2_000, "{} keys", model.len());
    let admin = Admin::builder("clone", Arc::clone(&dyn_store)).build();
    let source = CloneSourceSpec::new(PATH).with_projection_range(range);
    admin.create_clone_builder_from_source(source).build().await.unwrap();
    let builder = Db::builder(Path::from("clone"), Arc::clone(&dyn_store)).with_settings(settings());
    let db = filters.configure(builder.with_db_cache_disabled()).build().await.unwrap();
    assert!(db.manifest().all_sst_views().count() > 3);
    for scan in short_scans().iter().chain(&long_scans()) {
        check(&db, &model, scan).await;
    }
    // The ranges between two rows, which include those between two SSTs.
    let keys: Vec<_> = model.keys().cloned().collect();
    for pair in keys.windows(2).step_by(5) {
        let (lower, upper) = (Bound::Excluded(pair[0].clone()), Bound::Included(pair[1].clone()));
        check(&db, &model, &Scan { lower, upper, order: IterationOrder::Ascending }).await;
    }
    db.close().await.unwrap();
    assert_eq!(filters.stats().unusable_probes, 0);
}
