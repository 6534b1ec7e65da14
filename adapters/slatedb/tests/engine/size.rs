//! The purpose of the filters: the false positive rate of the engine's filters in fewer bytes.

use std::sync::Arc;

use slatedb::DbCacheManagerOps;
use slatedb::db_cache::foyer::FoyerCache;
use slatedb::db_cache::{CacheTarget, SplitCache};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::{Db, DbBuilder};
use sstfilter::{BitsPerKey, FixedPolicy};
use sstfilter_slatedb::SlateFilters;

use crate::common::{Counted, flush, key, settings, uncached};

const KEYS: u64 = 100_000;
const ABSENT: u64 = 100_000;

/// Filter bytes of one SST of 100,000 keys, and false positives among as many absent keys.
async fn measure(configure: impl Fn(DbBuilder<Path>) -> DbBuilder<Path>) -> (u64, u64) {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let counted = Counted::new();
    let cache = SplitCache::new()
        .with_meta_cache(Some(Arc::new(FoyerCache::new())))
        .with_block_cache(Some(Arc::new(FoyerCache::new())))
        .build();
    let builder = uncached(&store, settings()).with_db_cache(Arc::new(cache), 0);
    let db: Db = configure(builder.with_metrics_recorder(counted.recorder())).build().await.unwrap();
    for number in 0..KEYS {
        db.put(key(2 * number), b"a value").await.unwrap();
    }
    flush(&db).await;
    let manifest = db.manifest();
    assert_eq!(manifest.l0().len(), 1);
    let sst = &manifest.l0()[0].sst;
    db.warm_sst(sst.id, &CacheTarget::all()).await.unwrap();
    for number in 0..ABSENT {
        assert_eq!(db.get(key(2 * number + 1)).await.unwrap(), None);
    }
    db.close().await.unwrap();
    (sst.info.filter_len, counted.point_answers().false_positive)
}

#[tokio::test]
async fn ribbon_has_the_rate_of_the_built_in_filter_in_72_percent_of_its_bytes_or_a_quarter_in_all_of_them() {
    let (bloom_bytes, bloom_positives) = measure(|builder| builder).await;

    let (bytes, positives) = measure(|builder| SlateFilters::default().configure(builder)).await;
    println!("built-in: {bloom_bytes} bytes, {bloom_positives} false positives of {ABSENT}");
    println!("ribbon, equal rate: {bytes} bytes, {positives} false positives");
    assert!(bytes * 100 <= bloom_bytes * 72, "{bytes} of {bloom_bytes} bytes");
    // Both counts have a standard deviation of 29, so their difference has one of 41.
    assert!(positives <= bloom_positives + 3 * 41, "{positives}, and {bloom_positives} of the built-in filter");

    let ten_bits = SlateFilters::default().with_kind(FixedPolicy::ribbon(BitsPerKey::TEN).unwrap());
    let (bytes, positives) = measure(|builder| ten_bits.configure(builder)).await;
    println!("ribbon, equal bytes: {bytes} bytes, {positives} false positives");
    assert!(bytes <= bloom_bytes + 200, "{bytes} of {bloom_bytes} bytes: framing and the key range aside, no more");
    assert!(positives * 4 <= bloom_positives, "{positives}, and {bloom_positives} of the built-in filter");
}
