//! The table: Parquet files, and the maps that say which of them a query must read.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue, ToDFSchema, plan_err, project_schema};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use sstfilter::FileId;
use sstfilter_map_store::{Cuts, MapReader, Snapshot};

use crate::file::TableFile;
use crate::keys::{encoding, keys_of};

/// Parquet files of one schema on an object store, with any number of file maps.
///
/// The list of files is a snapshot: make a new table when files were added or removed. An object must never change
/// under its name.
pub struct MappedTable {
    schema: TableSchema,
    pub(crate) url: ObjectStoreUrl,
    files: Vec<TableFile>,
    maps: Vec<ColumnMaps>,
    /// Bytes of a file's end that are read first, if not as many as the session says.
    footer_bytes: Option<usize>,
    counts: Mutex<Counts>,
}

/// The maps of a column's values.
struct ColumnMaps {
    column: String,
    data_type: DataType,
    snapshot: Snapshot,
}

/// Bytes of a file's end that [`MappedTable::keys`] reads first: enough for the footer of a small file. By default, the
/// engine reads 512 KiB, which is all of many files.
const FOOTER_BYTES: usize = 4 << 10;

/// The column of [`MappedTable::keys`] that has the fingerprint of a file.
pub(crate) const FILE: &str = "sstfilter_file";

impl MappedTable {
    /// Makes a table of `files` on the object store of `url`. Columns that a file lacks are NULL.
    #[must_use]
    pub fn new(schema: SchemaRef, url: ObjectStoreUrl, files: impl IntoIterator<Item = impl Into<TableFile>>) -> Self {
        let files = files.into_iter().map(Into::into).collect();
        let schema = TableSchema::from(schema);
        Self { schema, url, files, maps: Vec::new(), footer_bytes: None, counts: Mutex::default() }
    }

    /// Adds columns that files do not store: each [file](TableFile::with_partition) has one value of each of them.
    ///
    /// # Errors
    ///
    /// A file has another number of values, or values of other types.
    pub fn with_partition_columns(self, columns: Vec<FieldRef>) -> Result<Self> {
        for file in &self.files {
            let types = file.partition.iter().map(ScalarValue::data_type);
            if !types.eq(columns.iter().map(|column| column.data_type().clone())) {
                let (path, values) = (&file.meta.location, &file.partition);
                return plan_err!("{path}: expected a value of each partition column, got {values:?}");
            }
        }
        let schema =
            TableSchema::builder(Arc::clone(self.schema.file_schema())).with_table_partition_cols(columns).build();
        Ok(Self { schema, ..self })
    }

    /// Consults the maps that `reader` has now for queries that want certain values of `column`. To have later ones,
    /// [refresh](MapReader::refresh) the reader, and make a new table.
    ///
    /// # Errors
    ///
    /// There is no such column, or it has a type that maps do not know.
    pub async fn with_maps(mut self, column: &str, reader: &MapReader) -> Result<Self> {
        let data_type = self.data_type(column)?;
        let ids = self.files.iter().map(|file| file.id(&self.url, column, &data_type)).collect::<Result<Vec<_>>>()?;
        let snapshot = reader.snapshot(&ids, Cuts::All).await;
        self.maps.push(ColumnMaps { column: column.to_owned(), data_type, snapshot });
        Ok(self)
    }

    /// Returns the type of a column that maps can have.
    pub(crate) fn data_type(&self, column: &str) -> Result<DataType> {
        let data_type = self.schema.file_schema().field_with_name(column)?.data_type().clone();
        encoding(column, &data_type)?;
        Ok(data_type)
    }

    /// Returns a table of some files whose rows are the values of a column, each with the fingerprint of its file.
    pub(crate) fn keys(&self, column: &str, files: &[(FileId, &TableFile)]) -> Result<Self> {
        let id = |id: FileId| vec![ScalarValue::UInt64(Some(id.fingerprint()))];
        let files = files.iter().map(|&(file, listed)| listed.clone().with_partition(id(file)));
        let own = self.schema.file_schema().field_with_name(column)?.clone();
        let table = Self::new(Arc::new(Schema::new(vec![own])), self.url.clone(), files);
        Self { footer_bytes: Some(FOOTER_BYTES), ..table }.with_partition_columns(vec![Arc::new(Field::new(
            FILE,
            DataType::UInt64,
            false,
        ))])
    }

    /// Returns the files.
    #[must_use]
    pub fn files(&self) -> &[TableFile] {
        &self.files
    }

    /// Returns what has been counted since the table was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the files that may have rows for which all `filters` are true: those that a scan plans. For a table that
    /// another provider reads, such as one of Delta Lake or Iceberg.
    ///
    /// # Errors
    ///
    /// None of maps, which only leave out files. The engine cannot plan with the table's columns.
    pub async fn files_for(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<&TableFile>> {
        let mut is_searched = vec![true; self.files.len()];
        let schema = self.schema().to_dfschema()?;
        for filter in filters.iter().filter(|_| !self.maps.is_empty()) {
            // The engine may still plan a filter above the scan that cannot be planned here.
            let Ok(predicate) = state.create_physical_expr(filter.clone(), &schema) else { continue };
            for guarantee in LiteralGuarantee::analyze(&predicate) {
                for map in self.maps.iter().filter(|map| map.column == guarantee.column.name) {
                    if map.exclude(&guarantee, &mut is_searched).await {
                        self.count(|all| all.map_answers += 1);
                    }
                }
            }
        }
        let files: Vec<_> =
            self.files.iter().zip(&is_searched).filter_map(|(file, is_searched)| is_searched.then_some(file)).collect();
        self.count(|all| {
            all.scans += 1;
            all.planned_files += files.len() as u64;
            all.skipped_files += (self.files.len() - files.len()) as u64;
        });
        Ok(files)
    }
}

impl ColumnMaps {
    /// Clears the marks of files that cannot have one of the values that the column must have. Returns whether maps were
    /// asked.
    async fn exclude(&self, guarantee: &LiteralGuarantee, is_searched: &mut [bool]) -> bool {
        let (Guarantee::In, Some(keys)) = (guarantee.guarantee, keys_of(&guarantee.literals, &self.data_type)) else {
            return false;
        };
        let hashes: Vec<_> = keys.iter().map(|key| self.snapshot.hash(key)).collect();
        // Each page is a request, and so is each file.
        let covered = is_searched.len() - self.snapshot.uncovered().len();
        let Some(is_candidate) = self.snapshot.candidates_of_any(&hashes, covered).await else { return false };
        is_searched.iter_mut().zip(is_candidate).for_each(|(is_searched, is_candidate)| *is_searched &= is_candidate);
        true
    }
}

impl fmt::Debug for MappedTable {
    /// Without the list of files: tables are printed in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let maps: Vec<_> = self.maps.iter().map(|map| (&map.column, map.snapshot.maps().len())).collect();
        let url = self.url.as_str();
        f.debug_struct("MappedTable")
            .field("url", &url)
            .field("files", &self.files.len())
            .field("maps", &maps)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for MappedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// All filters come to [`scan`](Self::scan). The engine applies them to the rows, too.
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
        let files = self.files_for(state, filters).await?;
        if files.is_empty() {
            // The engine cannot sort a scan that has no partition.
            return Ok(Arc::new(EmptyExec::new(project_schema(&self.schema(), projection)?)));
        }
        let planned = |file: &TableFile| {
            let planned = PartitionedFile::from(file.meta.clone());
            let metadata_size_hint = self.footer_bytes.or(planned.metadata_size_hint);
            PartitionedFile { partition_values: file.partition.clone(), metadata_size_hint, ..planned }
        };
        let groups = FileGroup::new(files.into_iter().map(planned).collect());
        let groups = groups.split_files(state.config().target_partitions());
        let source = Arc::new(ParquetSource::new(self.schema.clone()));
        let config = FileScanConfigBuilder::new(self.url.clone(), source)
            .with_file_groups(groups)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        let global = state.config_options().execution.parquet.clone();
        let options = TableParquetOptions { global, ..TableParquetOptions::default() };
        // The format's own plan, because it caches the metadata of files in the session.
        ParquetFormat::default().with_options(options).create_physical_plan(state, config).await
    }
}

/// The counts of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Scans that were planned, with or without a map.
    pub scans: u64,
    /// Files that these scans read, or prune by their own metadata.
    pub planned_files: u64,
    /// Files that maps excluded.
    pub skipped_files: u64,
    /// Questions to the maps of a column. None is counted if the filter names no values, or if they need more pages
    /// than there are covered files. [`MapReader::statistics`] counts requests and failures.
    pub map_answers: u64,
}
