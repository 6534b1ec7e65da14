//! Tables in plans that are sent to other processes, as a codec of logical plans needs them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectMeta;
use datafusion::object_store::path::Path;
use datafusion_proto_common::protobuf_common::ScalarValue as ValueMessage;
use prost::Message;

use crate::file::TableFile;
use crate::listing::{Listed, MappedListing};
use crate::table::MappedTable;

/// The first bytes of a table. Other tables of a codec begin otherwise.
const MARK: &[u8] = b"sstfilter table 1\n";

#[derive(Clone, PartialEq, Message)]
struct TableMessage {
    /// Of the folder whose files the table has; else of the object store of `files`.
    #[prost(string, tag = "1")]
    url: String,
    #[prost(bool, tag = "2")]
    is_folder: bool,
    #[prost(message, repeated, tag = "3")]
    files: Vec<FileMessage>,
    #[prost(message, repeated, tag = "4")]
    maps: Vec<MapsMessage>,
    /// How many of the last columns are in no file.
    #[prost(uint32, tag = "5")]
    partition_columns: u32,
    #[prost(uint64, tag = "6")]
    made: u64,
}

#[derive(Clone, PartialEq, Message)]
struct FileMessage {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(uint64, tag = "2")]
    bytes: u64,
    /// Nanoseconds since 1970, of a file that other contents may replace.
    #[prost(uint64, optional, tag = "3")]
    modified: Option<u64>,
    #[prost(string, optional, tag = "4")]
    tag: Option<String>,
    #[prost(message, repeated, tag = "5")]
    values: Vec<ValueMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct MapsMessage {
    #[prost(string, tag = "1")]
    column: String,
    #[prost(string, tag = "2")]
    folder: String,
}

/// Returns the bytes of a [`MappedTable`] or [`MappedListing`], of which [`decode_table`] makes a table; `None` of any
/// other table. A listing has some hundred bytes; a table has about 100 bytes more for each file.
///
/// # Errors
///
/// A value of a partition column has no form for messages.
pub fn encode_table(table: &dyn TableProvider) -> Result<Option<Vec<u8>>> {
    let message = if let Some(table) = table.downcast_ref::<MappedTable>() {
        let maps = table.maps.iter().map(|map| (&map.column, &map.folder));
        let files = Listed::Files(table.url.clone(), table.files().to_vec());
        message(&files, &table.schema, maps, table.made)?
    } else if let Some(table) = table.downcast_ref::<MappedListing>() {
        message(&table.files, &table.schema, table.maps.iter().map(|(column, folder)| (column, folder)), table.made())?
    } else {
        return Ok(None);
    };
    let message = message.encode_to_vec();
    // Without its length, a message that is cut short would be a table of fewer files.
    Ok(Some([MARK, &(message.len() as u64).to_le_bytes(), &message].concat()))
}

/// Makes the table that [`encode_table`] made bytes of. It lists its files, unless it came with them, and opens its maps
/// when it is first scanned: keep it for later plans with the same bytes. `None` if the bytes are of another kind.
///
/// # Errors
///
/// The bytes are damaged, or do not fit the schema.
pub fn decode_table(bytes: &[u8], schema: &SchemaRef) -> Result<Option<MappedListing>> {
    let Some(message) = bytes.strip_prefix(MARK) else { return Ok(None) };
    let message = match message.split_first_chunk() {
        Some((length, message)) if u64::from_le_bytes(*length) == message.len() as u64 => message,
        _ => return exec_err!("expected a table of sstfilter, got one that is cut short"),
    };
    let message = TableMessage::decode(message)
        .map_err(|error| exec_datafusion_err!("expected a table of sstfilter: {error}"))?;
    let Some(of_files) = schema.fields().len().checked_sub(message.partition_columns as usize) else {
        return exec_err!("expected {} or more columns, got {}", message.partition_columns, schema.fields().len());
    };
    let (of_files, of_partition) = schema.fields().split_at(of_files);
    let schema = TableSchema::builder(Arc::new(Schema::new(of_files.to_vec())))
        .with_table_partition_cols(of_partition.to_vec())
        .build();
    let files = if message.is_folder {
        Listed::Folder(ListingTableUrl::parse(&message.url)?)
    } else {
        let files = message.files.into_iter().map(file).collect::<Result<_>>()?;
        Listed::Files(ObjectStoreUrl::parse(&message.url)?, files)
    };
    let table = MappedListing::of(schema, files, Vec::new(), message.made);
    let mut maps = message.maps.into_iter();
    maps.try_fold(table, |table, map| table.with_maps(&map.column, path(&map.folder)?)).map(Some)
}

fn message<'a>(
    files: &Listed,
    schema: &TableSchema,
    maps: impl Iterator<Item = (&'a String, &'a Path)>,
    made: u64,
) -> Result<TableMessage> {
    let (url, files) = match files {
        Listed::Folder(folder) => (folder.to_string(), None),
        Listed::Files(url, files) => (url.as_str().to_owned(), Some(files)),
    };
    let maps = maps.map(|(column, folder)| MapsMessage { column: column.clone(), folder: folder.to_string() });
    Ok(TableMessage {
        url,
        is_folder: files.is_none(),
        files: files.into_iter().flatten().map(file_message).collect::<Result<_>>()?,
        maps: maps.collect(),
        partition_columns: u32::try_from(schema.table_partition_cols().len()).unwrap_or(u32::MAX),
        made,
    })
}

fn file_message(file: &TableFile) -> Result<FileMessage> {
    let meta = &file.meta;
    let since = SystemTime::from(meta.last_modified).duration_since(UNIX_EPOCH).unwrap_or_default();
    let values = file.partition.iter().map(ValueMessage::try_from).collect::<Result<_, _>>();
    Ok(FileMessage {
        path: meta.location.to_string(),
        bytes: meta.size,
        modified: file.may_change().then(|| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)),
        tag: meta.e_tag.clone(),
        values: values.map_err(|error| DataFusionError::External(Box::new(error)))?,
    })
}

fn file(message: FileMessage) -> Result<TableFile> {
    let location = path(&message.path)?;
    let file = match message.modified {
        None => TableFile::immutable(location, message.bytes),
        Some(nanoseconds) => {
            let last_modified = (UNIX_EPOCH + Duration::from_nanos(nanoseconds)).into();
            let (size, e_tag) = (message.bytes, message.tag);
            TableFile::from(ObjectMeta { location, last_modified, size, e_tag, version: None })
        }
    };
    let values = message.values.iter().map(ScalarValue::try_from).collect::<Result<_, _>>();
    Ok(file.with_partition(values.map_err(|error| DataFusionError::External(Box::new(error)))?))
}

fn path(text: &str) -> Result<Path> {
    Path::parse(text).map_err(|error| DataFusionError::External(Box::new(error)))
}
