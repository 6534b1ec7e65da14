//! A query lost rows because a file was skipped that had them: it was new, replaced, or the map was of other files.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::object_store::{ObjectMeta, ObjectStoreExt};
use datafusion::prelude::{SessionConfig, SessionContext, col, lit};
use fastrand::Rng;
use sstfilter_datafusion::{MappedTable, RefreshOptions, TableFile, refresh_map};

use crate::fixture::{Fixture, MAPS, path, texts, url};

/// Queries of the random test; ten thousand with `SSTFILTER_LONG`.
fn queries() -> usize {
    if std::env::var_os("SSTFILTER_LONG").is_some() { 10_000 } else { 500 }
}

#[tokio::test]
async fn only_the_files_with_the_key_are_planned() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple"), Some("fig"), None, Some("date"), Some("lime")])).await;
    fixture.put("two", texts([Some("beet"), Some("fig")])).await;
    fixture.put("three", texts([Some("leek")])).await;
    fixture.write_map(&["one", "two", "three"]).await;
    for (id, rows, files) in [("apple", 1, 1), ("fig", 2, 2), ("leek", 1, 1), ("kiwi", 0, 0), ("", 0, 0)] {
        let (found, counts) = fixture.check(col("id").eq(lit(id))).await;
        assert_eq!((found, counts.planned_files, counts.skipped_files), (rows, files, 3 - files), "{id}");
        assert_eq!((counts.scans, counts.map_answers, counts.map_reads, counts.failed_map_reads), (1, 1, 1, 0), "{id}");
    }
    let (found, counts) = fixture.check(col("id").in_list(vec![lit("apple"), lit("leek"), lit("kiwi")], false)).await;
    assert_eq!((found, counts.planned_files, counts.map_reads), (2, 2, 1), "the keys have one page");
}

#[tokio::test]
async fn a_sorted_query_whose_files_are_all_skipped_has_no_rows() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple")])).await;
    fixture.write_map(&["one"]).await;
    let mut config = SessionConfig::new();
    config.options_mut().execution.parquet.pushdown_filters = true;
    let session = SessionContext::new_with_config(config);
    session.register_object_store(url().as_ref(), fixture.store.clone());
    for (key, found) in [("apple", 1), ("kiwi", 0)] {
        let rows = session.read_table(Arc::new(fixture.mapped().await.table)).unwrap();
        let rows = rows.filter(col("id").eq(lit(key))).unwrap().sort_by(vec![col("amount"), col("id")]).unwrap();
        let rows = rows.select_columns(&["amount"]).unwrap().collect().await.unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), found, "{key}");
    }
}

#[tokio::test]
async fn maps_are_not_for_sessions_that_read_other_timestamps() {
    let mut fixture = Fixture::of_type(DataType::Timestamp(TimeUnit::Nanosecond, None));
    for (name, time) in [("one", 1), ("two", 2)] {
        fixture.put(name, Arc::new(TimestampNanosecondArray::from(vec![time]))).await;
    }
    let table = fixture.plain().await;
    let writer = fixture.writer_of(MAPS);
    let refresh = async |session: &SessionContext| {
        refresh_map(session, &table, "id", &writer, RefreshOptions::default()).await.map(|refreshed| refreshed.added)
    };
    assert_eq!(refresh(&fixture.session).await.unwrap(), 2);
    let filter = col("id").eq(lit(ScalarValue::TimestampNanosecond(Some(2), None)));
    assert_eq!(fixture.check(filter.clone()).await.1.planned_files, 1);

    let mut config = SessionConfig::new();
    config.options_mut().execution.parquet.coerce_int96 = Some("us".into());
    fixture.session = SessionContext::new_with_config(config);
    fixture.session.register_object_store(url().as_ref(), fixture.store.clone());
    assert_eq!(fixture.check(filter).await.1.planned_files, 2);
    assert!(refresh(&fixture.session).await.unwrap_err().to_string().contains("coerce_int96"));
}

#[tokio::test]
async fn a_plan_names_the_maps_and_what_they_excluded() {
    let fixture = Fixture::new();
    for name in ["one", "two", "three"] {
        fixture.put(name, texts([Some(name)])).await;
    }
    fixture.write_map(&["one", "two"]).await;
    let table = Arc::new(fixture.mapped().await.table);
    let plan = async |filter, table: &Arc<MappedTable>| {
        let rows = fixture.session.read_table(table.clone()).unwrap().filter(filter).unwrap();
        rows.explain(false, false).unwrap().to_string().await.unwrap()
    };
    let named = plan(col("id").eq(lit("one")), &table).await;
    assert!(named.contains("maps=[id], files_excluded_by_maps=1 of 3"), "{named}");
    let range = plan(col("id").gt(lit("one")), &table).await;
    assert!(range.contains("maps=[id], files_excluded_by_maps=0 of 3"), "{range}");
    fixture.store.delete(&path("three")).await.unwrap();
    let none = plan(col("id").eq(lit("kiwi")), &Arc::new(fixture.mapped().await.table)).await;
    assert!(none.contains("maps=[id], files_excluded_by_maps=2 of 2"), "{none}");
}

#[tokio::test]
async fn random_queries_have_the_rows_of_a_table_without_a_map() {
    let fixture = Fixture::new();
    let mut random = Rng::with_seed(7);
    let names: Vec<_> = (0..8).map(|number| format!("file-{number}")).collect();
    for name in &names {
        // Few enough ids that files share some.
        let ids: Vec<_> =
            (0..20).map(|_| (!random.bool() || random.bool()).then(|| random.u16(..150).to_string())).collect();
        fixture.put(name, texts(ids.iter().map(Option::as_deref))).await;
    }
    // Two files are not covered, and one that is covered is deleted.
    let covered: Vec<_> = names.iter().skip(2).map(String::as_str).collect();
    fixture.write_map(&covered).await;
    fixture.store.delete(&path("file-5")).await.unwrap();
    let (plain, mapped) = (Arc::new(fixture.plain().await), Arc::new(fixture.mapped().await.table));
    for _ in 0..queries() {
        // Most of the ids are in no file.
        let mut id = || lit(random.u16(..400).to_string());
        let (one, two) = (col("id").eq(id()), col("id").in_list(vec![id(), id()], false));
        let filter = match random.u8(..4) {
            0 => one,
            1 => two,
            2 => one.or(two).and(col("amount").lt(lit(random.i64(..20)))),
            _ => one.or(col("amount").eq(lit(random.i64(..300)))),
        };
        let rows = async |table: &Arc<MappedTable>| {
            let rows = fixture.session.read_table(table.clone()).unwrap().filter(filter.clone()).unwrap();
            rows.sort_by(vec![col("id"), col("amount")]).unwrap().to_string().await.unwrap()
        };
        assert_eq!(rows(&mapped).await, rows(&plain).await, "{filter}");
    }
    let skipped = mapped.counts().skipped_files;
    assert!(skipped > 3 * queries() as u64, "{skipped}: the map was not used");
}

#[tokio::test]
async fn a_file_that_the_map_does_not_cover_is_planned() {
    let fixture = Fixture::new();
    fixture.put("old", texts([Some("apple")])).await;
    fixture.write_map(&["old"]).await;
    fixture.put("new", texts([Some("beet"), Some("apple")])).await;
    let (found, counts) = fixture.check(col("id").eq(lit("beet"))).await;
    assert_eq!((found, counts.planned_files, counts.skipped_files), (1, 1, 1));
    assert_eq!(fixture.check(col("id").eq(lit("apple"))).await.0, 2);
    assert_eq!(fixture.check(col("id").eq(lit("kiwi"))).await.1.planned_files, 1, "the new one");
}

#[tokio::test]
async fn a_file_that_was_replaced_is_not_covered_and_a_deleted_one_is_not_missed() {
    let fixture = Fixture::new();
    fixture.put("kept", texts([Some("apple")])).await;
    fixture.put("replaced", texts([Some("beet")])).await;
    fixture.put("deleted", texts([Some("leek")])).await;
    fixture.write_map(&["kept", "replaced", "deleted"]).await;
    // The new contents have the same size.
    fixture.put("replaced", texts([Some("kiwi")])).await;
    fixture.store.delete(&path("deleted")).await.unwrap();
    let (found, counts) = fixture.check(col("id").eq(lit("kiwi"))).await;
    assert_eq!((found, counts.planned_files), (1, 1));
    for gone in ["beet", "leek"] {
        assert_eq!(fixture.check(col("id").eq(lit(gone))).await.0, 0, "{gone}");
    }
}

#[tokio::test]
async fn two_maps_may_cover_different_files() {
    let fixture = Fixture::new();
    for name in ["one", "two"] {
        fixture.put(name, texts([Some(name)])).await;
        fixture.write_map(&[name]).await;
    }
    let (rows, counts) = fixture.check(col("id").eq(lit("two"))).await;
    assert_eq!((rows, counts.planned_files, counts.map_reads), (1, 1, 2));
}

#[tokio::test]
async fn the_time_of_the_last_write_is_part_of_a_file_id() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple")])).await;
    let file = fixture.files().await.remove(0);
    let mut later = file.clone();
    later.last_modified += std::time::Duration::from_millis(1);
    let id = |file: &ObjectMeta| TableFile::from(file.clone()).id(&url(), "id", &DataType::Utf8).unwrap();
    assert_ne!(id(&file), id(&later), "equal content may have an equal tag");
}
