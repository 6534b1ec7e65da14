//! A table that keeps an old listing, or old maps, hides rows; one that takes a file's folder for another's shows wrong
//! ones.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::catalog::TableProviderFactory;
use datafusion::common::{Result, ToDFSchema};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::logical_expr::{CreateExternalTable, Expr};
use datafusion::object_store::ObjectStoreExt;
use datafusion::prelude::{col, lit};
use sstfilter::FalsePositiveRate;
use sstfilter_datafusion::{
    Counts, MAPPED_PARQUET, MappedListing, MappedListingFactory, RefreshOptions, Refreshed, refresh_listing,
};
use sstfilter_map::MapOptions;

use crate::fixture::{Fixture, texts};

/// Registers the table that a statement makes.
async fn create(fixture: &Fixture, columns: &Schema, partition: &[&str], options: &[(&str, &str)]) -> Result<()> {
    let schema = columns.clone().to_dfschema_ref()?;
    let command = CreateExternalTable::builder("events", "memory://files/data/", MAPPED_PARQUET, schema)
        .with_partition_cols(partition.iter().map(|&column| column.to_owned()).collect())
        .with_options(options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect())
        .build();
    let table = MappedListingFactory.create(&fixture.session.state(), &command).await?;
    fixture.session.register_table("events", table)?;
    Ok(())
}

async fn refresh(fixture: &Fixture) -> Result<Refreshed> {
    let options = MapOptions::for_entries(1 << 20, FalsePositiveRate::ONE_PERCENT).unwrap();
    refresh_listing(&fixture.session, "events", "id", options, RefreshOptions::default()).await
}

/// Returns the number of rows of a query, and what the table has counted.
async fn query(fixture: &Fixture, filter: Expr) -> (usize, Counts) {
    let rows = fixture.session.table("events").await.unwrap().filter(filter).unwrap().collect().await.unwrap();
    let table = fixture.session.table_provider("events").await.unwrap();
    let counts = table.downcast_ref::<MappedListing>().unwrap().counts().await;
    (rows.iter().map(RecordBatch::num_rows).sum(), counts)
}

const MAPS_OF_ID: (&str, &str) = ("maps.id", "memory://files/maps/id/");

#[tokio::test]
async fn a_refresh_shows_new_files_and_uses_the_maps_of_old_ones() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple"), Some("fig")])).await;
    // The columns are those of the files.
    create(&fixture, &Schema::empty(), &[], &[MAPS_OF_ID]).await.unwrap();
    let (rows, counts) = query(&fixture, col("id").eq(lit("fig"))).await;
    assert_eq!((rows, counts.planned_files, counts.skipped_files), (1, 1, 0));
    fixture.session.register_table("other", Arc::new(fixture.plain().await)).unwrap();
    fixture.put("two", texts([Some("beet"), Some("fig")])).await;
    // Until then, the table is what it was when it was scanned first.
    assert_eq!(query(&fixture, col("id").eq(lit("fig"))).await.0, 1);
    assert_eq!(refresh(&fixture).await.unwrap().added, 2);
    let (rows, counts) = query(&fixture, col("id").eq(lit("fig"))).await;
    assert_eq!((rows, counts.planned_files), (2, 2));
    let (rows, counts) = query(&fixture, col("id").eq(lit("beet"))).await;
    assert_eq!((rows, counts.planned_files, counts.skipped_files), (1, 3, 1));
    assert_eq!(refresh(&fixture).await.unwrap().covered, 2);
    // No other table of the session is touched.
    assert!(fixture.session.table("other").await.is_ok());
}

#[tokio::test]
async fn maps_that_cannot_be_opened_are_counted_and_not_used() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple")])).await;
    fixture.store.put(&"maps/id/manifest".into(), "damaged".into()).await.unwrap();
    create(&fixture, &fixture.schema, &[], &[MAPS_OF_ID]).await.unwrap();
    let (rows, counts) = query(&fixture, col("id").eq(lit("apple"))).await;
    assert_eq!((rows, counts.planned_files, counts.unopened_maps), (1, 1, 1));
}

#[tokio::test]
async fn folders_have_the_values_of_partition_columns() {
    let fixture = Fixture::new();
    for day in ["day=2026-11-29/a", "day=2026-11-30/a", "day=__HIVE_DEFAULT_PARTITION__/a"] {
        fixture.put(day, texts([Some("fig")])).await;
    }
    let mut columns = fixture.schema.fields().to_vec();
    columns.push(Arc::new(Field::new("day", DataType::Date32, true)));
    create(&fixture, &Schema::new(columns), &["day"], &[MAPS_OF_ID]).await.unwrap();
    assert_eq!(refresh(&fixture).await.unwrap().added, 3);
    let days = fixture.session.table("events").await.unwrap().filter(col("id").eq(lit("fig"))).unwrap();
    let days = days.select_columns(&["day"]).unwrap().collect().await.unwrap();
    assert_eq!(days.iter().map(|batch| batch.column(0).null_count()).sum::<usize>(), 1);
    assert_eq!(days.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
    assert!(
        days.iter()
            .all(|batch| batch.column(0).as_primitive_opt::<datafusion::arrow::datatypes::Date32Type>().is_some())
    );
    // Neither in the folder nor in one of a day.
    fixture.put("_temporary/a", texts([Some("fig")])).await;
    assert_eq!(refresh(&fixture).await.unwrap().covered, 3);
    // A file that lies elsewhere has no day.
    fixture.put("elsewhere", texts([Some("fig")])).await;
    let error = refresh(&fixture).await.unwrap_err().to_string();
    assert!(error.contains("data/elsewhere.parquet: expected folders day=... in its path"), "{error}");
}

#[tokio::test]
async fn options_that_mean_nothing_are_errors() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("apple")])).await;
    let expected = [
        (("format.x", "y"), "expected options 'maps.COLUMN', got 'format.x'"),
        (("maps.other", "memory://files/maps/"), "maps.other: expected one column of this name"),
        (("maps.id", "memory://elsewhere/maps/"), "maps.id: expected a folder on memory://files/"),
    ];
    for (option, expected) in expected {
        let error = create(&fixture, &fixture.schema, &[], &[option]).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let nowhere = ListingTableUrl::parse("memory://files/data/").unwrap();
    let table = MappedListing::new(Arc::clone(&fixture.schema), nowhere, Vec::<FieldRef>::new()).unwrap();
    assert!(table.with_maps("amount", "maps/amount".into()).unwrap().with_maps("none", "maps".into()).is_err());
    let table = MappedListing::new(
        Arc::clone(&fixture.schema),
        ListingTableUrl::parse("memory://files/data/").unwrap(),
        Vec::new(),
    );
    let error = table.unwrap().with_maps("id", "maps".into()).unwrap().with_maps("amount", "maps".into()).unwrap_err();
    assert!(
        error.to_string().contains("maps: expected a folder for the maps of one column, got id and amount"),
        "{error}"
    );
    for location in ["memory://files/data/one.parquet", "memory://files/data/o*.parquet"] {
        let location = ListingTableUrl::parse(location).unwrap();
        let error = MappedListing::new(Arc::clone(&fixture.schema), location, Vec::new()).unwrap_err().to_string();
        assert!(error.contains("expected a folder, whose name ends with a slash"), "{error}");
    }
    create(&fixture, &fixture.schema, &[], &[]).await.unwrap();
    let error = refresh(&fixture).await.unwrap_err().to_string();
    assert!(error.contains("events: expected a folder for the maps of column id"), "{error}");
}
