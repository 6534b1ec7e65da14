//! Finds the rows of a local folder of Parquet files that have a value in a column, by file maps that it keeps there.
//!
//! `cargo run --release --example find -- data/events id 5a3e`

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::prelude::{SessionContext, cast, ident, lit};
use futures::TryStreamExt;
use sstfilter::{FalsePositiveRate, Filters};
use sstfilter_datafusion::{MappedTable, RefreshOptions, refresh_map};
use sstfilter_map::MapOptions;
use sstfilter_map_store::MapWriter;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, column, value] = arguments.as_slice() else { return Err("usage: find FOLDER COLUMN VALUE".into()) };
    let (session, store) = (SessionContext::new(), Arc::new(LocalFileSystem::new()) as Arc<dyn ObjectStore>);
    let folder = ObjectPath::from_absolute_path(Path::new(folder).canonicalize()?)?;
    let mut files: Vec<_> = store.list(Some(&folder)).try_collect().await?;
    files.retain(|file| file.location.as_ref().ends_with(".parquet"));
    let Some(first) = files.get(..1) else { return Err(format!("{folder}: no file ends with .parquet").into()) };
    let schema = ParquetFormat::default().infer_schema(&session.state(), &store, first).await?;
    let wanted = cast(lit(value.as_str()), schema.field_with_name(column)?.data_type().clone());
    let table = MappedTable::new(schema, ObjectStoreUrl::local_filesystem(), files);
    let options = MapOptions::for_entries(1_000_000_000, FalsePositiveRate::ONE_PERCENT)?;
    let maps = folder.join(format!("maps-{column}"));
    let writer = MapWriter::new(store, maps, &Filters::default(), options);
    println!("{:?}", refresh_map(&session, &table, column, &writer, RefreshOptions::default()).await?);
    let table = Arc::new(table.with_maps(column, &writer.reader().await?).await?);
    session.read_table(table.clone())?.filter(ident(column).eq(wanted))?.show().await?;
    println!("{:?}", table.counts());
    Ok(())
}
