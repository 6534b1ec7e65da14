//! A damaged or unreachable map made a query fail, or lose rows.

use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStoreExt, PutPayload};
use datafusion::prelude::{col, lit};
use sstfilter::{Filters, KeyHasher};
use sstfilter_datafusion::{RefreshOptions, refresh_map};

use crate::fixture::{Fixture, texts};

async fn stored() -> (Fixture, Path, Vec<u8>) {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple"), Some("fig")])).await;
    fixture.put("two", texts([Some("beet")])).await;
    let map = fixture.write_map(&["one", "two"]).await;
    let bytes = fixture.store.get(&map).await.unwrap().bytes().await.unwrap().to_vec();
    (fixture, map, bytes)
}

#[tokio::test]
async fn every_covered_file_is_planned_if_the_page_is_damaged() {
    let (fixture, map, mut bytes) = stored().await;
    bytes[40] ^= 1;
    fixture.store.put(&map, bytes.into()).await.unwrap();
    // Its end is sound.
    let (rows, counts) = fixture.rows(fixture.mapped().await, col("id").eq(lit("apple"))).await;
    assert_eq!((rows.len(), counts.planned_files), (1, 2));
    assert_eq!((counts.map_reads, counts.failed_map_reads), (2, 1), "a second read may be sound");
    fixture.check(col("id").eq(lit("kiwi"))).await;
}

/// It was read again by each query, in vain.
#[tokio::test]
async fn a_damaged_page_is_read_again_only_after_a_pause_and_mended_by_a_refresh() {
    let (fixture, map, bytes) = stored().await;
    let mut damaged = bytes.clone();
    damaged[40] ^= 1;
    fixture.store.put(&map, damaged.into()).await.unwrap();
    let reader = fixture.reader().await;
    let table = fixture.plain().await.with_maps("id", &reader).await.unwrap();
    let (state, apple) = (fixture.session.state(), [col("id").eq(lit("apple"))]);
    let planned = async || table.files_for(&state, &apple).await.unwrap().len();
    let mut queries = 0;
    while queries < 100 || reader.statistics().damaged < 2 {
        assert_eq!(planned().await, 2);
        queries += 1;
    }
    // Each pause is twice the last one.
    assert!(reader.statistics().damaged < 10, "{:?}", reader.statistics());
    let writer = fixture.writer(&fixture.filters);
    let done = refresh_map(&fixture.session, &table, "id", &writer, RefreshOptions::default()).await.unwrap();
    assert_eq!((done.covered, done.added), (0, 2));
    assert_eq!(fixture.check(col("id").eq(lit("apple"))).await.1.planned_files, 1);
    // The reader still has the old map, which may be sound again.
    fixture.store.put(&map, bytes.into()).await.unwrap();
    while planned().await == 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn every_covered_file_is_planned_if_the_map_is_gone_or_shorter_or_another_one() {
    let (fixture, map, bytes) = stored().await;
    fixture.put("three", texts([Some("leek")])).await;
    let beet = col("id").eq(lit("beet"));
    let another = Fixture::new();
    another.put("four", texts([Some("kiwi")])).await;
    let other = another.write_map(&["four"]).await;
    let mut other = another.store.get(&other).await.unwrap().bytes().await.unwrap().to_vec();
    other.resize(bytes.len(), 0);
    for replacement in [None, Some(bytes[..100].to_vec()), Some(other)] {
        fixture.store.put(&map, bytes.clone().into()).await.unwrap();
        let table = fixture.mapped().await;
        match replacement {
            None => fixture.store.delete(&map).await.unwrap(),
            Some(replacement) => drop(fixture.store.put(&map, replacement.into()).await.unwrap()),
        }
        let (rows, counts) = fixture.rows(table, beet.clone()).await;
        assert_eq!((rows.len(), counts.planned_files, counts.failed_map_reads), (1, 3, 1));
    }
}

#[tokio::test]
async fn a_map_of_another_hash_or_with_a_damaged_end_covers_nothing() {
    let (fixture, map, bytes) = stored().await;
    let beet = || col("id").eq(lit("beet"));
    for at in bytes.len() - 92..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fixture.store.put(&map, damaged.into()).await.unwrap();
        assert_eq!(fixture.check(beet()).await.1.skipped_files, 0, "byte {at}");
    }
    for length in [0, 1, 59, 60, 100] {
        fixture.store.put(&map, PutPayload::from(bytes[..length].to_vec())).await.unwrap();
        assert_eq!(fixture.check(beet()).await.1.skipped_files, 0, "{length} bytes");
    }
    let seeded = Fixture { filters: Filters::default().with_hasher(KeyHasher::with_seed(7)), ..fixture };
    seeded.store.put(&map, bytes.into()).await.unwrap();
    assert_eq!(seeded.check(beet()).await.1.skipped_files, 0);
    assert_eq!(seeded.reader().await.statistics().foreign, 0, "ends are read for a list of files");
}

#[tokio::test]
async fn a_key_that_most_files_have_takes_a_second_read() {
    let fixture = Fixture::new();
    let names: Vec<_> = (0..40).map(|number| format!("file-{number}")).collect();
    for name in &names {
        fixture.put(name, texts([Some("everywhere"), Some(name)])).await;
    }
    fixture.put("without", texts([Some("rare")])).await;
    let mut covered: Vec<_> = names.iter().map(String::as_str).collect();
    covered.push("without");
    fixture.write_map(&covered).await;
    let (found, counts) = fixture.check(col("id").eq(lit("everywhere"))).await;
    assert_eq!((found, counts.planned_files, counts.map_reads), (40, 40, 2));
    let (found, counts) = fixture.check(col("id").eq(lit("file-7"))).await;
    assert_eq!((found, counts.planned_files, counts.map_reads), (1, 1, 1));
}
