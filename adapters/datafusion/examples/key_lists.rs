//! Writes a list of the values of a column for each Parquet file of a local folder, for `sstfilter map build`.
//!
//! `cargo run --release --example key_lists -- data/events id lists`, then
//! `sstfilter map build --keys-format hex --key-lists lists --out ids.map`

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use sstfilter_datafusion::{MappedTable, write_key_lists};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, column, lists] = arguments.as_slice() else {
        return Err("usage: key_lists FOLDER COLUMN LISTS".into());
    };
    let (session, store) = (SessionContext::new(), Arc::new(LocalFileSystem::new()) as Arc<dyn ObjectStore>);
    let mut files: Vec<_> =
        store.list(Some(&ObjectPath::from_absolute_path(Path::new(folder).canonicalize()?)?)).try_collect().await?;
    files.retain(|file| file.location.as_ref().ends_with(".parquet"));
    let Some(first) = files.get(..1) else { return Err(format!("{folder}: no file ends with .parquet").into()) };
    let schema = ParquetFormat::default().infer_schema(&session.state(), &store, first).await?;
    let table = MappedTable::new(schema, ObjectStoreUrl::local_filesystem(), files);
    std::fs::create_dir_all(lists)?;
    let written = write_key_lists(&session.state(), &table, column, Path::new(lists)).await?;
    println!("{written} new lists in {lists}");
    Ok(())
}
