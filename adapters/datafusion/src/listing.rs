//! A table over a folder of Parquet files, which lists them and opens its maps when it is first scanned.

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, ScalarValue, TableReference, exec_err, plan_err};
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::listing::helpers::parse_partitions_for_path;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{CreateExternalTable, Expr, TableProviderFilterPushDown};
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use futures::lock::Mutex;
use sstfilter::Filters;
use sstfilter_map::MapOptions;
use sstfilter_map_store::{MapReader, MapWriter, ReaderOptions};

use crate::file::{TableFile, stamp};
use crate::keys::encoding;
use crate::refresh::{RefreshOptions, Refreshed, refresh_map, remove_unusable};
use crate::table::{Counts, MappedTable};

/// The Parquet files of a folder, and folders of maps on the same object store. Lists the files and opens the maps when
/// it is first scanned, and keeps both until it is [reloaded](Self::reload).
///
/// Another process can make the same table of a few words: the scheduler of a cluster, for example, that plans a
/// client's query.
pub struct MappedListing {
    pub(crate) schema: TableSchema,
    pub(crate) files: Listed,
    /// Columns, and the folders of their maps.
    pub(crate) maps: Vec<(String, Path)>,
    state: std::sync::Mutex<State>,
}

/// The state of a table since it was made or reloaded.
struct State {
    /// A random number for that: a process that has a table of the same words lists again if this differs.
    #[cfg_attr(not(feature = "proto"), expect(dead_code, reason = "only other processes need it"))]
    made: u64,
    table: Arc<Mutex<Option<Arc<MappedTable>>>>,
}

/// The files of a table.
#[derive(Clone, Debug)]
pub(crate) enum Listed {
    /// All Parquet files of a folder.
    Folder(ListingTableUrl),
    /// Some files on an object store.
    #[cfg_attr(not(feature = "proto"), expect(dead_code, reason = "only other processes need it"))]
    Files(ObjectStoreUrl, Vec<TableFile>),
}

impl MappedListing {
    /// Makes a table of the files of a folder whose names end with `.parquet`. Files have the columns of `schema`, and
    /// columns that a file lacks are NULL. The names of its folders, such as `day=2026-11-30`, have the values of
    /// `partition_columns`, in their order. Files in other folders of it are left out, as DataFusion's own tables do by
    /// default.
    ///
    /// # Errors
    ///
    /// The location is a file, or a pattern of names.
    pub fn new(schema: SchemaRef, folder: ListingTableUrl, partition_columns: Vec<FieldRef>) -> Result<Self> {
        if !folder.is_collection() || folder.get_glob().is_some() {
            let glob = folder.get_glob().as_ref().map_or("", |glob| glob.as_str());
            return plan_err!("expected a folder, whose name ends with a slash, got {folder}{glob}");
        }
        let schema = TableSchema::builder(schema).with_table_partition_cols(partition_columns).build();
        Ok(Self::of(schema, Listed::Folder(folder), Vec::new(), stamp()))
    }

    pub(crate) fn of(schema: TableSchema, files: Listed, maps: Vec<(String, Path)>, made: u64) -> Self {
        Self { schema, files, maps, state: std::sync::Mutex::new(State { made, table: Arc::default() }) }
    }

    /// Uses the maps of a folder of the table's object store for queries that name values of `column`. The folder may
    /// be empty until maps are [built](refresh_listing).
    ///
    /// # Errors
    ///
    /// There is no such column in the files, it has a type that maps cannot have, or the folder is that of another
    /// column: each would throw the maps of the other out.
    pub fn with_maps(mut self, column: &str, folder: Path) -> Result<Self> {
        if let Some((other, _)) = self.maps.iter().find(|(_, of)| *of == folder) {
            return plan_err!("{folder}: expected a folder for the maps of one column, got {other} and {column}");
        }
        encoding(column, self.schema.file_schema().field_with_name(column)?.data_type())?;
        self.maps.push((column.to_owned(), folder));
        Ok(self)
    }

    /// Has the next query list the files and open the maps again. Queries under way go on with those that they have.
    pub fn reload(&self) {
        *self.state() = State { made: stamp(), table: Arc::default() };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "proto")]
    pub(crate) fn made(&self) -> u64 {
        self.state().made
    }

    /// Returns the number of files, or 0 if none have been listed, or a query lists them now.
    #[must_use]
    pub fn listed_files(&self) -> usize {
        self.state().table.try_lock().and_then(|table| table.as_ref().map(|table| table.files().len())).unwrap_or(0)
    }

    /// Returns what the table has, unless nothing has been scanned.
    async fn opened(&self) -> Option<Arc<MappedTable>> {
        let table = Arc::clone(&self.state().table);
        table.lock().await.clone()
    }

    /// Returns what the table has now: lists the files and opens the maps, if neither has been done.
    ///
    /// Maps that cannot be opened are not used, and [counted](Counts::unopened_maps).
    ///
    /// # Errors
    ///
    /// The object store is unknown, or the listing fails.
    pub async fn table(&self, runtime: &RuntimeEnv) -> Result<Arc<MappedTable>> {
        let table = Arc::clone(&self.state().table);
        // Queries that come meanwhile wait for the same listing.
        let mut table = table.lock().await;
        if let Some(table) = &*table {
            return Ok(Arc::clone(table));
        }
        let opened = Arc::new(self.open(runtime).await?);
        Ok(Arc::clone(table.insert(opened)))
    }

    async fn open(&self, runtime: &RuntimeEnv) -> Result<MappedTable> {
        let url = self.url();
        let store = runtime.object_store(&url)?;
        let files = match &self.files {
            Listed::Folder(folder) => list(&store, folder, self.schema.table_partition_cols()).await?,
            Listed::Files(_, files) => files.clone(),
        };
        let table = MappedTable::new(Arc::clone(self.schema.file_schema()), url, files);
        let mut table = table.with_partition_columns(self.schema.table_partition_cols().to_vec())?;
        for (column, folder) in &self.maps {
            let options = ReaderOptions::default();
            match MapReader::open(Arc::clone(&store), folder.clone(), &Filters::default(), options).await {
                Ok(reader) => table = table.with_maps(column, &reader).await?,
                Err(_) => table.count(|all| all.unopened_maps += 1),
            }
        }
        Ok(table)
    }

    /// Whether any column has a folder for maps.
    #[must_use]
    pub fn has_maps(&self) -> bool {
        !self.maps.is_empty()
    }

    pub(crate) fn url(&self) -> ObjectStoreUrl {
        match &self.files {
            Listed::Folder(folder) => folder.object_store(),
            Listed::Files(url, _) => url.clone(),
        }
    }

    /// Returns the counts of this process since the files were listed; zeros if nothing has been scanned.
    pub async fn counts(&self) -> Counts {
        self.opened().await.map(|table| table.counts()).unwrap_or_default()
    }
}

/// Lists the Parquet files of a folder, with the values that the names of their folders have. Not by the session's own
/// listing, which may be an older one that it keeps.
async fn list(store: &dyn ObjectStore, folder: &ListingTableUrl, partition: &[FieldRef]) -> Result<Vec<TableFile>> {
    let mut files = Vec::new();
    let mut listing = store.list(Some(folder.prefix()));
    while let Some(meta) = listing.try_next().await? {
        if meta.location.extension() == Some("parquet") && meta.size > 0 && folder.contains(&meta.location, true) {
            files.push(with_partition_values(meta, folder, partition)?);
        }
    }
    files.sort_by(|one, other| one.meta.location.cmp(&other.meta.location));
    Ok(files)
}

fn with_partition_values(meta: ObjectMeta, folder: &ListingTableUrl, columns: &[FieldRef]) -> Result<TableFile> {
    let names = columns.iter().map(|column| column.name().as_str());
    let values = parse_partitions_for_path(folder, &meta.location, names).filter(|all| all.len() == columns.len());
    let Some(values) = values else {
        let names: Vec<_> = columns.iter().map(|column| format!("{}=...", column.name())).collect();
        return exec_err!("{}: expected folders {} in its path", meta.location, names.join("/"));
    };
    let typed = values.into_iter().zip(columns).map(|(value, column)| match value.as_ref() {
        // What Hive writes for NULL.
        "__HIVE_DEFAULT_PARTITION__" => ScalarValue::try_from(column.data_type()),
        text => ScalarValue::try_from_string(text.to_owned(), column.data_type()),
    });
    let typed = typed.collect::<Result<Vec<_>>>()?;
    Ok(TableFile::from(meta).with_partition(typed))
}

/// Builds the maps of a column of a [`MappedListing`], or brings them up to date, as [`refresh_map`] does: lists the
/// table's files, covers those that no map covers, and [reloads](MappedListing::reload) the table. Later queries use the
/// new files and maps.
///
/// `map_options` are those of [`MapWriter::new`], the same for each refresh.
///
/// # Errors
///
/// The session has no such table, it is of another kind, or it has no folder for maps of the column; and as
/// [`refresh_map`].
pub async fn refresh_listing(
    session: &SessionContext,
    table: impl Into<TableReference>,
    column: &str,
    map_options: MapOptions,
    options: RefreshOptions,
) -> Result<Refreshed> {
    let name = table.into();
    let provider = session.table_provider(name.clone()).await?;
    let Some(listing) = provider.downcast_ref::<MappedListing>() else {
        return plan_err!("{name}: expected a table of the type MappedListing");
    };
    let Some((_, folder)) = listing.maps.iter().find(|(of, _)| of == column) else {
        return plan_err!("{name}: expected a folder for the maps of column {column}");
    };
    let runtime = session.runtime_env();
    let store = runtime.object_store(listing.url())?;
    let writer = MapWriter::new(store, folder.clone(), &Filters::default(), map_options);
    if let Some(before) = listing.opened().await {
        // A new table has met no damage.
        remove_unusable(&writer, before.lasting_failures(column)).await?;
    }
    listing.reload();
    let refreshed = refresh_map(session, &*listing.table(&runtime).await?, column, &writer, options).await;
    listing.reload();
    refreshed
}

impl fmt::Debug for MappedListing {
    /// Without a list of files: tables are printed in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("MappedListing");
        match &self.files {
            Listed::Folder(folder) => debug.field("folder", &folder.as_str()),
            Listed::Files(url, files) => debug.field("url", &url.as_str()).field("files", &files.len()),
        };
        debug.field("maps", &self.maps).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for MappedListing {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// As [`MappedTable`].
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table(state.runtime_env()).await?.scan(state, projection, filters, limit).await
    }
}

/// Makes tables of `CREATE EXTERNAL TABLE ... STORED AS MAPPED_PARQUET ... OPTIONS ('maps.COLUMN' 'FOLDER')`. Register it
/// under the name [`MAPPED_PARQUET`].
///
/// Without columns in the statement, the footers of all files are read for them, once.
#[derive(Clone, Copy, Debug, Default)]
pub struct MappedListingFactory;

/// The file type of [`MappedListingFactory`].
pub const MAPPED_PARQUET: &str = "MAPPED_PARQUET";

#[async_trait]
impl TableProviderFactory for MappedListingFactory {
    async fn create(&self, state: &dyn Session, command: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let [location] = &command.locations[..] else {
            return plan_err!("expected one location, got {:?}", command.locations);
        };
        let folder = ListingTableUrl::parse(location)?;
        let (schema, partition_columns) = columns(state, &folder, command).await?;
        let mut table = MappedListing::new(schema, folder, partition_columns)?;
        // In the order of columns, so that equal statements make equal tables.
        let mut options: Vec<_> = command.options.iter().collect();
        options.sort();
        for (option, maps) in options {
            let Some(column) = option.strip_prefix("maps.") else {
                return plan_err!("expected options 'maps.COLUMN', got '{option}'");
            };
            let maps = ListingTableUrl::parse(maps)?;
            if maps.object_store() != table.url() {
                return plan_err!("{option}: expected a folder on {}, got {maps}", table.url());
            }
            let column = named(table.schema.file_schema(), column)?;
            table = table.with_maps(&column, maps.prefix().clone())?;
        }
        Ok(Arc::new(table))
    }
}

/// Returns the columns of the files, and those of the partition.
async fn columns(
    state: &dyn Session,
    folder: &ListingTableUrl,
    command: &CreateExternalTable,
) -> Result<(SchemaRef, Vec<FieldRef>)> {
    let is_of_partition = |name: &String| command.table_partition_cols.contains(name);
    let all = command.schema.inner();
    if !all.fields().is_empty() {
        let of_files: Vec<_> = all.fields().iter().filter(|field| !is_of_partition(field.name())).cloned().collect();
        let partition =
            command.table_partition_cols.iter().map(|name| Ok(Arc::new(all.field_with_name(name)?.clone())));
        return Ok((Arc::new(Schema::new(of_files)), partition.collect::<Result<_>>()?));
    }
    let store = state.runtime_env().object_store(folder)?;
    let files: Vec<_> = list(&store, folder, &[]).await?.into_iter().map(|file| file.meta).collect();
    if files.is_empty() {
        return plan_err!("{folder}: expected Parquet files, or columns in the statement");
    }
    let format = ParquetFormat::default().with_options(state.default_table_options().parquet);
    let schema = format.infer_schema(state, &store, &files).await?;
    let partition = command.table_partition_cols.iter().map(|name| Arc::new(Field::new(name, DataType::Utf8, true)));
    Ok((schema, partition.collect()))
}

/// Returns the name of a column whose case SQL has lost: options have none.
fn named(schema: &Schema, column: &str) -> Result<String> {
    let mut found = schema.fields().iter().filter(|field| field.name().eq_ignore_ascii_case(column));
    let (Some(field), None) = (found.next(), found.next()) else {
        return plan_err!("maps.{column}: expected one column of this name");
    };
    Ok(field.name().clone())
}
