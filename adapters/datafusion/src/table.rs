//! The table: Parquet files, and the maps that say which of them a query must read.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue, Statistics, ToDFSchema, plan_err};
use datafusion::config::{ConfigOptions, TableParquetOptions};
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use sstfilter::FileId;
use sstfilter_map_store::{Cuts, Failure, MapReader};

use crate::file::{TableFile, stamp};
use crate::keys::encoding;
use crate::source::{MappedSource, Position, Scan};
use crate::wanted::{ColumnMaps, Wanted};

/// Parquet files of one schema on an object store, with any number of file maps.
///
/// The list of files is a snapshot: make a new table when files were added or removed. An object must never change
/// under its name.
pub struct MappedTable {
    pub(crate) schema: TableSchema,
    pub(crate) url: ObjectStoreUrl,
    files: Vec<TableFile>,
    pub(crate) maps: Vec<Arc<ColumnMaps>>,
    /// A random number that no other table has, see [`MappedListing`](crate::MappedListing).
    #[cfg_attr(not(feature = "proto"), expect(dead_code, reason = "only other processes need it"))]
    pub(crate) made: u64,
    counts: Mutex<Counts>,
}

/// The column of [`MappedTable::keys`] that has the fingerprint of a file.
pub(crate) const FILE: &str = "sstfilter_file";

impl MappedTable {
    /// Makes a table of `files` on the object store of `url`. Columns that a file lacks are NULL.
    #[must_use]
    pub fn new(schema: SchemaRef, url: ObjectStoreUrl, files: impl IntoIterator<Item = impl Into<TableFile>>) -> Self {
        let files = files.into_iter().map(Into::into).collect();
        let schema = TableSchema::from(schema);
        Self { schema, url, files, maps: Vec::new(), made: stamp(), counts: Mutex::default() }
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
        let (column, folder) = (column.to_owned(), reader.folder().clone());
        self.maps.push(Arc::new(ColumnMaps { column, folder, data_type, snapshot }));
        Ok(self)
    }

    /// Returns the type of a column that maps can have.
    pub(crate) fn data_type(&self, column: &str) -> Result<DataType> {
        let data_type = self.schema.file_schema().field_with_name(column)?.data_type().clone();
        encoding(column, &data_type)?;
        Ok(data_type)
    }

    /// Returns those of the last failures of a column's maps that came twice. Damage in the store stays the same one, and
    /// damage on the way does not.
    pub(crate) fn lasting_failures(&self, column: &str) -> Vec<Failure> {
        let maps = self.maps.iter().filter(|map| map.column == column);
        let failures: Vec<_> = maps.flat_map(|map| map.snapshot.recent_failures()).collect();
        let again = failures.iter().enumerate().filter(|(at, failure)| failures[..*at].contains(failure));
        again.map(|(_, failure)| failure.clone()).collect()
    }

    /// Returns a table of some files whose rows are the values of a column, each with the fingerprint of its file.
    pub(crate) fn keys(&self, column: &str, files: &[(FileId, &TableFile)]) -> Result<Self> {
        let id = |id: FileId| vec![ScalarValue::UInt64(Some(id.fingerprint()))];
        let files = files.iter().map(|&(file, listed)| listed.clone().with_partition(id(file)));
        let own = self.schema.file_schema().field_with_name(column)?.clone();
        let file = Field::new(FILE, DataType::UInt64, false);
        let table = Self::new(Arc::new(Schema::new(vec![own])), self.url.clone(), files);
        table.with_partition_columns(vec![Arc::new(file)])
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

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the files that may have rows for which all `filters` are true: those that a scan plans. For a table that
    /// another provider reads, such as one of Delta Lake or Iceberg.
    ///
    /// # Errors
    ///
    /// None of maps, which only leave out files. The engine cannot plan with the table's columns.
    pub async fn files_for(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<&TableFile>> {
        let (is_planned, _) = self.plan(state, filters).await?;
        Ok(self.files.iter().zip(is_planned).filter_map(|(file, is_planned)| is_planned.then_some(file)).collect())
    }

    /// Returns the maps that a query of the session can use. With `coerce_int96`, sessions read other values from a file:
    /// it could then lack those that a map has of it.
    fn maps_for(&self, state: &dyn Session) -> &[Arc<ColumnMaps>] {
        if coerces_int96(state.config_options()) { &[] } else { &self.maps }
    }

    /// Returns for each file whether a scan plans it, and the number of files that maps excluded.
    async fn plan(&self, state: &dyn Session, filters: &[Expr]) -> Result<(Vec<bool>, usize)> {
        let mut is_planned = vec![true; self.files.len()];
        let schema = self.schema().to_dfschema()?;
        // The engine may still plan a filter above the scan that cannot be planned here.
        let planned = filters.iter().filter_map(|filter| state.create_physical_expr(filter.clone(), &schema).ok());
        let (mut wanted, maps) = (Wanted::default(), self.maps_for(state));
        for filter in planned {
            self.retain_partitions(&filter, &mut is_planned);
            wanted = wanted.and(Wanted::of(&filter, maps));
        }
        let count = |is_planned: &[bool]| is_planned.iter().filter(|is_planned| **is_planned).count();
        let in_partitions = count(&is_planned);
        let map_answers = wanted.retain(maps, &mut is_planned, in_partitions).await;
        let files = count(&is_planned);
        self.count(|all| {
            all.scans += 1;
            all.map_answers += map_answers;
            all.planned_files += files as u64;
            all.skipped_files += (in_partitions - files) as u64;
        });
        Ok((is_planned, in_partitions - files))
    }

    /// Clears the marks of files whose values of partition columns make a filter false.
    fn retain_partitions(&self, filter: &Arc<dyn PhysicalExpr>, is_planned: &mut [bool]) {
        let columns = self.schema.table_partition_cols();
        let used = collect_columns(filter);
        let is_of_partition = |used: &Column| columns.iter().any(|column| column.name() == used.name());
        if used.is_empty() || !used.iter().all(is_of_partition) || is_volatile(filter) {
            return;
        }
        let values = (0..columns.len())
            .map(|at| ScalarValue::iter_to_array(self.files.iter().map(|file| file.partition[at].clone())));
        let evaluate = || {
            let schema = Arc::new(Schema::new(columns.clone()));
            let filter = reassign_expr_columns(Arc::clone(filter), &schema)?;
            let batch = RecordBatch::try_new(schema, values.collect::<Result<_>>()?)?;
            filter.evaluate(&batch)?.into_array(batch.num_rows())
        };
        // A filter that fails here fails above the scan, if it has rows.
        let Ok(is_true) = evaluate() else { return };
        let Some(is_true) = is_true.as_boolean_opt() else { return };
        is_planned.iter_mut().zip(is_true).for_each(|(is_planned, is_true)| *is_planned &= is_true == Some(true));
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
        let (is_planned, excluded) = self.plan(state, filters).await?;
        let planned = |(position, file): (usize, &TableFile)| {
            let planned = PartitionedFile::from(file.meta.clone()).with_extension(Position(position));
            PartitionedFile { partition_values: file.partition.clone(), ..planned }
        };
        let files = self.files.iter().enumerate().filter(|(position, _)| is_planned[*position]);
        let files = FileGroup::new(files.map(planned).collect());
        // A join builds from its smaller side, if it can tell, and then this table is the one that skips files.
        let bytes = usize::try_from(files.iter().map(|file| file.object_meta.size).sum::<u64>());
        let total_byte_size = bytes.map_or(Precision::Absent, Precision::Inexact);
        let statistics = Statistics { total_byte_size, ..Statistics::new_unknown(&self.schema()) };
        let scan =
            Scan { maps: self.maps_for(state).to_vec(), files: self.files.len(), planned: files.len(), excluded };
        // A scan without files has one partition: the engine cannot sort one that has none.
        let groups = if files.is_empty() { vec![files] } else { files.split_files(state.config().target_partitions()) };
        let source = Arc::new(ParquetSource::new(self.schema.clone()));
        let config = FileScanConfigBuilder::new(self.url.clone(), source)
            .with_file_groups(groups)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .with_statistics(statistics)
            .build();
        let global = state.config_options().execution.parquet.clone();
        let options = TableParquetOptions { global, ..TableParquetOptions::default() };
        // The format's own plan, because it caches the metadata of files in the session.
        let plan = ParquetFormat::default().with_options(options).create_physical_plan(state, config).await?;
        let source = plan.downcast_ref::<DataSourceExec>().and_then(|plan| plan.data_source().downcast_ref());
        let Some(config) = source.filter(|_| !scan.maps.is_empty()) else { return Ok(plan) };
        let config: &FileScanConfig = config;
        let source = MappedSource::new(Arc::clone(config.file_source()), Arc::new(scan));
        let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

/// Whether a session changes what it reads of timestamps in INT96, and of what it casts them to.
pub(crate) fn coerces_int96(options: &ConfigOptions) -> bool {
    options.execution.parquet.coerce_int96.is_some()
}

/// The counts of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Scans that were planned, with or without a map.
    pub scans: u64,
    /// Files that these scans read, or prune by their own metadata.
    pub planned_files: u64,
    /// Files that maps excluded when a scan was planned. Joins exclude more while they run, which `EXPLAIN ANALYZE`
    /// counts.
    pub skipped_files: u64,
    /// Questions to the maps of a column. None is counted if the filter names no values, or if they need more pages
    /// than there are covered files. [`MapReader::statistics`] counts requests and failures.
    pub map_answers: u64,
    /// Columns of a [`MappedListing`](crate::MappedListing) whose folder of maps could not be read.
    pub unopened_maps: u64,
}
