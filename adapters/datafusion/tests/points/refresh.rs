//! A map that misses keys of its files hides rows.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectMeta, ObjectStoreExt};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{col, lit};
use sstfilter_datafusion::{MappedTable, RefreshOptions, Refreshed, TableFile, refresh_map};

use crate::fixture::{Fixture, MAPS, path, texts, url};

async fn refreshed(fixture: &Fixture, options: RefreshOptions) -> Refreshed {
    let (table, writer) = (fixture.plain().await, fixture.writer(&fixture.filters));
    refresh_map(&fixture.session, &table, "id", &writer, options).await.unwrap()
}

fn memory(memory_bytes: u64) -> RefreshOptions {
    RefreshOptions { memory_bytes }
}

#[tokio::test]
async fn a_refresh_covers_each_file_and_reads_only_those_that_no_map_covers() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple"), None, Some("fig"), Some("fig"), Some("date"), Some("lime")])).await;
    fixture.put("two", texts([Some("beet"), Some("fig")])).await;
    fixture.put("nulls", texts([None, None])).await;
    let columns: [(_, ArrayRef); 1] = [("amount", Arc::new(Int64Array::from(vec![1, 2])))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for (name, rows) in [("without-column", 2), ("without-rows", 0)] {
        let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        parquet.write(&batch.slice(0, rows)).unwrap();
        fixture.store.put(&path(name), parquet.into_inner().unwrap().into()).await.unwrap();
    }
    let first = refreshed(&fixture, RefreshOptions::default()).await;
    assert_eq!((first.covered, first.added, first.replaced, first.maps), (0, 5, 0, 1));
    for (id, rows, files) in [("apple", 1, 1), ("fig", 3, 2), ("beet", 1, 1), ("kiwi", 0, 0)] {
        let (found, counts) = fixture.check(col("id").eq(lit(id))).await;
        assert_eq!((found, counts.planned_files), (rows, files), "{id}");
    }
    fixture.put("three", texts([Some("leek")])).await;
    fixture.store.delete(&path("two")).await.unwrap();
    let second = refreshed(&fixture, RefreshOptions::default()).await;
    assert_eq!((second.covered, second.added, second.jobs), (4, 1, 1));
    assert_eq!(fixture.check(col("id").eq(lit("leek"))).await.1.planned_files, 1);
    let third = refreshed(&fixture, RefreshOptions::default()).await;
    assert_eq!((third.covered, third.added, third.jobs), (5, 0, 0));
    // A map that is gone leaves the manifest, and its files are read again.
    let lost = fixture.writer(&fixture.filters).manifest().await.unwrap().maps.swap_remove(0).object;
    fixture.store.delete(&Path::from(MAPS).join(lost)).await.unwrap();
    let fourth = refreshed(&fixture, RefreshOptions::default()).await;
    assert_eq!((fourth.covered + fourth.added, fourth.added > 0), (5, true));
    let fifth = refreshed(&fixture, RefreshOptions::default()).await;
    assert_eq!((fifth.covered, fifth.jobs, fifth.maps), (5, 0, fourth.maps));
    assert_eq!(fixture.reader().await.statistics().missing, 0);
}

/// The same map, whatever the number of jobs, and files that are gone leave it by themselves.
#[tokio::test]
async fn a_build_within_little_memory_takes_more_jobs_and_has_each_key() {
    let fixture = Fixture::new();
    for file in 0..20 {
        let ids: Vec<_> = (0..200).map(|id| format!("{file}-{id}")).collect();
        fixture.put(&file.to_string(), texts(ids.iter().map(|id| Some(id.as_str())))).await;
    }
    let few = refreshed(&fixture, memory(32 * 500)).await;
    assert!(few.jobs > 8 && few.added == 20, "{few:?}");
    for (id, files) in [("0-0", 1), ("19-199", 1), ("7-100", 1), ("20-0", 0)] {
        assert_eq!(fixture.check(col("id").eq(lit(id))).await.1.planned_files, files, "{id}");
    }
    let writer = fixture.writer(&fixture.filters);
    for file in 0..15 {
        fixture.store.delete(&path(&file.to_string())).await.unwrap();
    }
    fixture.put("new", texts([Some("kiwi")])).await;
    let gone = refreshed(&fixture, RefreshOptions::default()).await;
    let listed: u32 = writer.manifest().await.unwrap().maps.iter().map(|map| map.files).sum();
    assert_eq!((gone.covered, gone.added, gone.maps, listed), (5, 1, 1, 6));
    fixture.put("large", texts((0..500).map(|_| Some("x")))).await;
    let table = fixture.plain().await;
    let error = refresh_map(&fixture.session, &table, "id", &writer, memory(32 * 100)).await.unwrap_err().to_string();
    for part in ["data/large.parquet", "more keys than a task may hold", "memory_bytes", "got 3200"] {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn files_that_have_vanished_are_counted_and_the_others_are_covered() {
    let fixture = Fixture::new();
    for name in ["one", "two", "three"] {
        fixture.put(name, texts([Some(name)])).await;
    }
    let listed = fixture.files().await;
    fixture.store.delete(&path("two")).await.unwrap();
    let immutable = |meta: &ObjectMeta| TableFile::immutable(meta.location.clone(), meta.size);
    for files in [listed.iter().map(immutable).collect::<Vec<_>>(), listed.iter().cloned().map(Into::into).collect()] {
        let (table, writer) =
            (MappedTable::new(fixture.schema.clone(), url(), files), fixture.writer(&fixture.filters));
        let done = refresh_map(&fixture.session, &table, "id", &writer, RefreshOptions::default()).await.unwrap();
        assert_eq!((done.added, done.gone, done.replaced), (2, 1, 0));
    }
    assert_eq!(fixture.check(col("id").eq(lit("one"))).await.1.planned_files, 1);
}

#[tokio::test]
async fn refreshes_at_once_lose_nothing() {
    let fixture = Fixture::new();
    for file in 0..6 {
        fixture.put(&file.to_string(), texts([Some(["a", "b", "c", "d", "e", "f"][file])])).await;
    }
    let all = (0..4).map(|_| refreshed(&fixture, RefreshOptions::default()));
    futures::future::join_all(all).await;
    for id in ["a", "c", "f"] {
        assert_eq!(fixture.check(col("id").eq(lit(id))).await.1.planned_files, 1, "{id}");
    }
    assert_eq!(refreshed(&fixture, RefreshOptions::default()).await.covered, 6);
}

#[tokio::test]
async fn files_that_cannot_be_read_or_were_replaced_are_not_covered() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple")])).await;
    let (table, writer) = (fixture.plain().await, fixture.writer(&fixture.filters));
    // The new contents have the same size.
    fixture.put("one", texts([Some("lemon")])).await;
    let options = RefreshOptions::default();
    let done = refresh_map(&fixture.session, &table, "id", &writer, options).await.unwrap();
    assert_eq!((done.added, done.replaced, done.maps), (0, 1, 0));
    let mut bytes = fixture.store.get(&path("one")).await.unwrap().bytes().await.unwrap().to_vec();
    bytes[4..30].fill(0xff);
    fixture.store.put(&path("one"), bytes.into()).await.unwrap();
    let table = fixture.plain().await;
    refresh_map(&fixture.session, &table, "id", &writer, options).await.unwrap_err();
    assert!(writer.manifest().await.unwrap().maps.is_empty());
    let error = refresh_map(&fixture.session, &table, "ids", &writer, options).await.unwrap_err();
    assert!(error.to_string().contains("ids"), "{error}");
    let seeded = fixture.filters.clone().with_hasher(sstfilter::KeyHasher::with_seed(7));
    refresh_map(&fixture.session, &table, "id", &fixture.writer(&seeded), options).await.unwrap_err();
}

/// Files of a table format, whose rows have values that no file stores.
#[tokio::test]
async fn partition_columns_are_columns_and_immutable_files_need_no_listing() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple"), Some("fig")])).await;
    fixture.put("two", texts([Some("fig")])).await;
    let day = |day: i64| vec![ScalarValue::Int64(Some(day))];
    let files = || fixture.files();
    let file = |meta: ObjectMeta| TableFile::immutable(meta.location, meta.size);
    let listed: Vec<_> = (1..).zip(files().await).map(|(at, meta)| file(meta).with_partition(day(at))).collect();
    let columns = vec![Arc::new(Field::new("day", DataType::Int64, false))];
    let table =
        |files| MappedTable::new(fixture.schema.clone(), url(), files).with_partition_columns(columns.clone()).unwrap();
    let writer = fixture.writer(&fixture.filters);
    refresh_map(&fixture.session, &table(listed.clone()), "id", &writer, RefreshOptions::default()).await.unwrap();
    let mapped = Arc::new(table(listed.clone()).with_maps("id", &fixture.reader().await).await.unwrap());
    let rows = |filter| fixture.session.read_table(mapped.clone()).unwrap().filter(filter).unwrap();
    let fig = rows(col("id").eq(lit("fig"))).select_columns(&["day"]).unwrap().collect().await.unwrap();
    assert_eq!(fig.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    assert_eq!(rows(col("id").eq(lit("fig")).and(col("day").eq(lit(2_i64)))).count().await.unwrap(), 1);
    let state = fixture.session.state();
    let asked = mapped.files_for(&state, &[col("id").eq(lit("apple"))]).await.unwrap();
    assert_eq!(asked.iter().map(|file| file.meta().location.clone()).collect::<Vec<_>>(), [path("one")]);
    // Files of other days are never looked at.
    fixture.store.delete(&path("one")).await.unwrap();
    let mine = || col("day").eq(lit(2_i64));
    let filters = [
        mine(),
        col("day").gt(lit(1_i64)),
        mine().or(col("day").is_null()),
        !col("day").in_list(vec![lit(1_i64)], false),
    ];
    for filter in filters {
        assert_eq!(rows(filter.and(col("id").not_eq(lit("")))).count().await.unwrap(), 1);
        assert_eq!(mapped.files_for(&state, &[mine()]).await.unwrap().len(), 1);
    }
    let without_maps = fixture.session.read_table(Arc::new(table(listed.clone()))).unwrap();
    assert_eq!(without_maps.filter(mine()).unwrap().count().await.unwrap(), 1);
    let wrong = MappedTable::new(fixture.schema.clone(), url(), listed).with_partition_columns(Vec::new());
    assert!(wrong.unwrap_err().to_string().contains("a value of each partition column"));
}
