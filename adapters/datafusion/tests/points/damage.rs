//! A damaged or unreachable map made a query fail, or lose rows.

use datafusion::object_store::{ObjectStoreExt, PutPayload};
use datafusion::prelude::{col, lit};
use sstfilter::{FileId, Filters, KeyHasher};
use sstfilter_datafusion::StoredMap;

use crate::fixture::{Fixture, MAP, map_id, texts};

async fn stored() -> (Fixture, Vec<u8>) {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple"), Some("fig")])).await;
    fixture.put("two", texts([Some("beet")])).await;
    fixture.write_map(&["one", "two"]).await;
    let map = fixture.store.get(&MAP.into()).await.unwrap().bytes().await.unwrap().to_vec();
    (fixture, map)
}

#[tokio::test]
async fn every_covered_file_is_planned_if_the_page_is_damaged() {
    let (fixture, mut map) = stored().await;
    map[40] ^= 1;
    fixture.store.put(&MAP.into(), map.into()).await.unwrap();
    // Its end is sound.
    let table = fixture.mapped().await;
    let (rows, counts) = fixture.rows(table, col("id").eq(lit("apple"))).await;
    assert_eq!((rows.len(), counts.planned_files), (1, 2));
    assert_eq!((counts.map_reads, counts.failed_map_reads, counts.map_answers), (1, 1, 0));
    fixture.check(col("id").eq(lit("kiwi"))).await;
}

#[tokio::test]
async fn every_covered_file_is_planned_if_the_map_is_gone_or_shorter_or_another_one() {
    let (fixture, map) = stored().await;
    fixture.put("three", texts([Some("leek")])).await;
    let (gone, shorter, other) = (fixture.mapped().await, fixture.mapped().await, fixture.mapped().await);
    fixture.store.delete(&MAP.into()).await.unwrap();
    let beet = col("id").eq(lit("beet"));
    let (rows, counts) = fixture.rows(gone, beet.clone()).await;
    assert_eq!((rows.len(), counts.planned_files, counts.failed_map_reads), (1, 3, 1));
    fixture.store.put(&MAP.into(), PutPayload::from(map[..100].to_vec())).await.unwrap();
    let (rows, counts) = fixture.rows(shorter, beet.clone()).await;
    assert_eq!((rows.len(), counts.planned_files, counts.failed_map_reads), (1, 3, 1));
    // The name of the map now stands for the map of another file, which has no "beet".
    let another = Fixture::new();
    another.put("four", texts([Some("kiwi")])).await;
    let id = FileId::new(b"another map").unwrap();
    another.write_map_with(&["four"], &another.filters, id).await;
    let mut bytes = another.store.get(&MAP.into()).await.unwrap().bytes().await.unwrap().to_vec();
    bytes.resize(map.len(), 0);
    fixture.store.put(&MAP.into(), bytes.into()).await.unwrap();
    let (rows, counts) = fixture.rows(other, beet).await;
    assert_eq!((rows.len(), counts.planned_files, counts.failed_map_reads), (1, 3, 1));
}

#[tokio::test]
async fn every_covered_file_is_planned_if_another_map_has_the_same_id_and_size() {
    let (fixture, map) = stored().await;
    let table = fixture.mapped().await;
    let other = Fixture::new();
    other.put("three", texts([Some("apple"), Some("fig")])).await;
    other.put("four", texts([Some("leek")])).await;
    other.write_map(&["three", "four"]).await;
    let bytes = other.store.get(&MAP.into()).await.unwrap().bytes().await.unwrap();
    assert_eq!(bytes.len(), map.len());
    fixture.store.put(&MAP.into(), bytes.into()).await.unwrap();
    let (rows, counts) = fixture.rows(table, col("id").eq(lit("beet"))).await;
    assert_eq!((rows.len(), counts.planned_files, counts.failed_map_reads), (1, 2, 1));
}

#[tokio::test]
async fn a_map_of_another_hash_or_id_or_with_a_damaged_end_is_refused() {
    let (fixture, map) = stored().await;
    let seeded = Filters::default().with_hasher(KeyHasher::with_seed(7));
    fixture.write_map_with(&["one", "two"], &seeded, map_id()).await;
    let error = fixture.open_map().await.unwrap_err().to_string();
    assert!(error.contains("ids.map") && error.contains("hash"), "{error}");
    let other = FileId::new(b"another map").unwrap();
    let error = StoredMap::open(fixture.store.clone(), MAP.into(), &seeded, other).await.unwrap_err().to_string();
    assert!(error.contains("ids.map"), "{error}");
    // Each byte of the end.
    let end = map.len() - 92..map.len();
    for at in end {
        let mut damaged = map.clone();
        damaged[at] ^= 1;
        fixture.store.put(&MAP.into(), damaged.into()).await.unwrap();
        assert!(fixture.open_map().await.is_err(), "byte {at}");
    }
    for length in [0, 1, 59, 60, 100] {
        fixture.store.put(&MAP.into(), PutPayload::from(map[..length].to_vec())).await.unwrap();
        assert!(fixture.open_map().await.is_err(), "{length} bytes");
    }
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
