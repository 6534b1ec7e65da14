//! The value of a filter is the requests that it saves. An SST that is read although its filter is negative, or a
//! filter that is read and not used, would pass every other test, because the answers stay right.

use std::sync::Arc;

use futures::TryStreamExt;
use slatedb::db_cache::foyer::FoyerCache;
use slatedb::db_cache::{CacheTarget, SplitCache};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::{
    BloomFilterPolicy, Db, DbBuilder, DbCacheManagerOps, DbReader, FilterPolicy, PrefixExtractor, PrefixTarget,
};
use sstfilter::{BitsPerKey, FixedPolicy};
use sstfilter_slatedb::{FilteredKeys, SlateFilters};

use crate::common::{Answers, Counted, PATH, flush, key, settings, uncached};

const SSTS: u64 = 64;
const KEYS_PER_SST: u64 = 2_000;
const LOOKUPS: u64 = 200;

/// Keys of even numbers, dealt to the SSTs in turns: all SSTs cover all keys.
async fn fill(db: &Db) {
    for sst in 0..SSTS {
        for row in 0..KEYS_PER_SST {
            db.put(key(2 * (row * SSTS + sst)), b"a value").await.unwrap();
        }
        flush(db).await;
    }
}

/// Absent keys that every SST covers: odd numbers.
fn absent_keys() -> impl Iterator<Item = u64> {
    (0..LOOKUPS).map(|lookup| lookup * (SSTS * KEYS_PER_SST / LOOKUPS) * 2 + 2 * SSTS + 1)
}

async fn look_up_absent_keys(db: &Db) {
    for number in absent_keys() {
        assert_eq!(db.get(key(number)).await.unwrap(), None);
    }
}

/// A store written with these filters.
async fn store_with(filters: &SlateFilters) -> Arc<dyn ObjectStore> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
    fill(&db).await;
    db.close().await.unwrap();
    store
}

fn bloom() -> SlateFilters {
    SlateFilters::default().with_kind(FixedPolicy::bloom(BitsPerKey::TEN).unwrap())
}

/// Requests and answers of the absent lookups, nothing cached.
async fn cold_lookups(store: &Arc<dyn ObjectStore>, policies: Vec<Arc<dyn FilterPolicy>>) -> (u64, Answers) {
    let counted = Counted::new();
    let builder = uncached(store, settings()).with_metrics_recorder(counted.recorder());
    let db = builder.with_filter_policies(policies).build().await.unwrap();
    let before = counted.settled_gets().await;
    look_up_absent_keys(&db).await;
    let gets = counted.settled_gets().await - before;
    db.close().await.unwrap();
    (gets, counted.point_answers())
}

fn with_cached_metadata(store: &Arc<dyn ObjectStore>) -> DbBuilder<Path> {
    let cache = SplitCache::new().with_meta_cache(Some(Arc::new(FoyerCache::new()))).build();
    uncached(store, settings()).with_db_cache(Arc::new(cache), 0)
}

/// Requests of the absent lookups once filters and indexes are cached.
async fn warm_lookups(db: &Db, counted: &Counted) -> u64 {
    for view in db.manifest().l0() {
        db.warm_sst(view.sst.id, &[CacheTarget::Filters, CacheTarget::Index]).await.unwrap();
    }
    let before = counted.settled_gets().await;
    look_up_absent_keys(db).await;
    counted.settled_gets().await - before
}

#[tokio::test]
async fn a_cold_absent_lookup_costs_one_request_per_sst_and_two_per_false_positive() {
    for filters in [bloom(), SlateFilters::default()] {
        let store = store_with(&filters).await;
        let counted = Counted::new();
        let builder = uncached(&store, settings()).with_metrics_recorder(counted.recorder());
        let db = filters.configure(builder).build().await.unwrap();
        let before = counted.settled_gets().await;
        look_up_absent_keys(&db).await;

        let answers = counted.point_answers();
        assert_eq!(answers.positive + answers.negative, LOOKUPS * SSTS, "each filter of each SST was probed once");
        assert_eq!(answers.false_positive, answers.positive);
        assert_eq!(counted.settled_gets().await - before, LOOKUPS * SSTS + 2 * answers.false_positive);
        // 12,800 probes at 0.92 % (Bloom) or 0.84 % (Ribbon): six standard deviations above and below.
        assert!((40..190).contains(&answers.false_positive), "{answers:?} {filters:?}");
    }
}

#[tokio::test]
async fn an_absent_lookup_costs_nothing_but_its_false_positives_once_metadata_is_cached() {
    for filters in [bloom(), SlateFilters::default()] {
        let store = store_with(&filters).await;
        let counted = Counted::new();
        let builder = with_cached_metadata(&store).with_metrics_recorder(counted.recorder());
        let db = filters.configure(builder).build().await.unwrap();
        assert_eq!(warm_lookups(&db, &counted).await, counted.point_answers().false_positive);
        assert!(counted.point_answers().false_positive > 0, "the lookups reached the filters");
    }
}

#[tokio::test]
async fn a_process_with_another_policy_list_pays_three_requests_per_sst_and_one_without_policies_two() {
    let filters = SlateFilters::default();
    let store = store_with(&filters).await;
    let (stale, answers) = cold_lookups(&store, vec![Arc::new(BloomFilterPolicy::new(10))]).await;
    assert_eq!((stale, answers), (3 * SSTS * LOOKUPS, Answers::default()));
    let (none, answers) = cold_lookups(&store, vec![]).await;
    assert_eq!((none, answers), (2 * SSTS * LOOKUPS, Answers::default()));
    // With metadata cached, both read one block of each SST.
    for policies in [vec![Arc::new(BloomFilterPolicy::new(10)) as Arc<dyn FilterPolicy>], vec![]] {
        let counted = Counted::new();
        let builder = with_cached_metadata(&store).with_metrics_recorder(counted.recorder());
        let db = builder.with_filter_policies(policies).build().await.unwrap();
        assert_eq!(warm_lookups(&db, &counted).await, SSTS * LOOKUPS);
    }
}

#[tokio::test]
async fn an_sst_gets_a_filter_from_min_filter_keys_on() {
    for (rows, has_filter) in [(999, false), (1_000, true)] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let filters = SlateFilters::default();
        let settings = slatedb::config::Settings { min_filter_keys: 1_000, ..settings() };
        let db = filters.configure(uncached(&store, settings)).build().await.unwrap();
        for row in 0..rows {
            db.put(key(row), b"a value").await.unwrap();
        }
        flush(&db).await;
        assert_eq!(db.manifest().l0()[0].sst.info.filter_len > 0, has_filter, "{rows} rows");
        assert_eq!(filters.stats().built_bloom, u64::from(has_filter), "1,000 keys are too few for Ribbon");
        for row in 0..rows {
            assert!(db.get(key(row)).await.unwrap().is_some(), "row {row} of {rows}");
        }
        db.close().await.unwrap();
    }
}

/// Operators run it with credentials that cannot write.
#[tokio::test]
async fn an_audit_writes_nothing() {
    let filters = SlateFilters::default();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
    for sst in 0..8 {
        db.put(key(sst), b"a value").await.unwrap();
        flush(&db).await;
    }
    db.close().await.unwrap();

    let before: Vec<_> = store.list(None).try_collect().await.unwrap();
    let audit = filters.audit(DbReader::builder(PATH, Arc::clone(&store))).await.unwrap();
    assert_eq!((audit.ssts.len(), audit.without_usable_filter().count()), (8, 0), "{audit}");
    let after: Vec<_> = store.list(None).try_collect().await.unwrap();
    assert_eq!(before, after);
}

/// The first twelve bytes: `key-` and eight of twelve digits, so 10,000 numbers share one.
struct TwelveBytes;

impl PrefixExtractor for TwelveBytes {
    fn name(&self) -> &'static str {
        "twelve-bytes"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        (bytes.len() >= 12).then_some(12)
    }
}

/// Requests and answers of one scan of a prefix, nothing cached, and the keys found.
async fn scan(filters: &SlateFilters, store: &Arc<dyn ObjectStore>, prefix: &[u8]) -> (u64, Answers, usize) {
    let counted = Counted::new();
    let builder = uncached(store, settings()).with_metrics_recorder(counted.recorder());
    let db = filters.configure(builder).build().await.unwrap();
    let before = counted.settled_gets().await;
    let mut rows = db.scan_prefix(prefix, ..).await.unwrap();
    let mut found = 0;
    while rows.next().await.unwrap().is_some() {
        found += 1;
    }
    let gets = counted.settled_gets().await - before;
    db.close().await.unwrap();
    (gets, counted.prefix_answers(), found)
}

#[tokio::test]
async fn a_prefix_scan_skips_ssts_by_filters_of_prefixes_and_reads_no_filter_of_whole_keys() {
    // SST n has the numbers 10,000 n to 10,000 n + 999 in one prefix, and one far key, so that ranges do not tell.
    let whole = SlateFilters::default();
    let prefixes = whole.clone().with_keys(FilteredKeys::prefixes(Arc::new(TwelveBytes)));
    let both = whole.clone().with_keys(FilteredKeys::whole_and_prefixes(Arc::new(TwelveBytes)));
    for filters in [whole, prefixes, both] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
        for sst in 1..=10 {
            for row in 0..1_000 {
                db.put(key(10_000 * sst + row), b"a value").await.unwrap();
            }
            db.put(key(0), b"a value").await.unwrap();
            db.put(key(999_999_999_999), b"a value").await.unwrap();
            flush(&db).await;
        }
        db.close().await.unwrap();

        let (present, absent) = (key(50_000).slice(..12), key(500_000).slice(..12));
        let (gets, answers, found) = scan(&filters, &store, &present).await;
        assert_eq!(found, 1_000);
        let (absent_gets, absent_answers, absent_found) = scan(&filters, &store, &absent).await;
        assert_eq!(absent_found, 0);
        // A prefix shorter than the extractor's covers many prefixes: every filter may match, and all keys are found.
        let (_, _, all) = scan(&filters, &store, b"key-0").await;
        assert_eq!(all, 10_001);

        if filters.name().contains("twelve-bytes") {
            let false_positives = answers.positive - 1;
            assert_eq!(answers.positive + answers.negative, 10);
            assert_eq!(absent_answers.positive + absent_answers.negative, 10);
            assert!(false_positives + absent_answers.positive <= 2, "{answers:?} {absent_answers:?}");
            assert_eq!(absent_gets, 10 + 2 * absent_answers.positive);
            assert!(gets < 10 + 2 * 10, "{gets}");
        } else {
            assert_eq!((answers, absent_answers), (Answers::default(), Answers::default()));
            assert_eq!(absent_gets, 20, "an index and a block of each SST, and no filter");
        }
    }
}
