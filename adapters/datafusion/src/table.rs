//! The table: Parquet files, and the maps that say which of them a query must read.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ToDFSchema, project_schema};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::object_store::ObjectMeta;
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use sstfilter_map::LocalId;

use crate::keys::{encoding, file_id, key_of};
use crate::map::StoredMap;

/// Parquet files of one schema on an object store, with any number of file maps.
///
/// The list of files is a snapshot: make a new table when files were added or removed. An object must never change
/// under its name.
pub struct MappedTable {
    pub(crate) schema: SchemaRef,
    pub(crate) url: ObjectStoreUrl,
    pub(crate) files: Vec<ObjectMeta>,
    maps: Vec<ColumnMap>,
    counters: Counters,
}

/// The map of a column's values.
struct ColumnMap {
    column: String,
    data_type: DataType,
    map: StoredMap,
    /// The number that each of the table's files has in the map; `None` if the map does not cover it.
    local_ids: Vec<Option<LocalId>>,
}

impl MappedTable {
    /// Makes a table of `files`, as the object store of `url` lists them. Columns that a file lacks are NULL.
    #[must_use]
    pub fn new(schema: SchemaRef, url: ObjectStoreUrl, files: Vec<ObjectMeta>) -> Self {
        Self { schema, url, files, maps: Vec::new(), counters: Counters::default() }
    }

    /// Consults `map` for queries that want certain values of `column`. Several maps may cover a file; each of them may
    /// exclude it.
    ///
    /// # Errors
    ///
    /// There is no such column, or it has a type that maps do not know: neither text nor bytes nor `Int64`.
    pub fn with_map(mut self, column: &str, map: StoredMap) -> Result<Self> {
        let data_type = self.schema.field_with_name(column)?.data_type().clone();
        encoding(column, &data_type)?;
        let local_id = |file| Ok(map.index().local_id(file_id(file, column, &data_type)?));
        let local_ids = self.files.iter().map(local_id).collect::<Result<_>>()?;
        self.maps.push(ColumnMap { column: column.to_owned(), data_type, map, local_ids });
        Ok(self)
    }

    /// Returns a table of other files, without maps.
    pub(crate) fn without_maps(&self, files: Vec<ObjectMeta>) -> Self {
        Self::new(Arc::clone(&self.schema), self.url.clone(), files)
    }

    /// Returns what has been counted since the table was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Returns the files that may have rows for which all `filters` are true.
    async fn files_for(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<&ObjectMeta>> {
        let mut is_searched = vec![true; self.files.len()];
        let schema = Arc::clone(&self.schema).to_dfschema()?;
        for filter in filters.iter().filter(|_| !self.maps.is_empty()) {
            // The engine may still plan a filter above the scan that cannot be planned here.
            let Ok(predicate) = state.create_physical_expr(filter.clone(), &schema) else { continue };
            for guarantee in LiteralGuarantee::analyze(&predicate) {
                for map in self.maps.iter().filter(|map| map.column == guarantee.column.name) {
                    map.exclude(&guarantee, &mut is_searched, &self.counters).await;
                }
            }
        }
        let files: Vec<_> =
            self.files.iter().zip(&is_searched).filter_map(|(file, is_searched)| is_searched.then_some(file)).collect();
        self.counters.scans.add(1);
        self.counters.planned_files.add(files.len());
        self.counters.skipped_files.add(self.files.len() - files.len());
        Ok(files)
    }
}

impl ColumnMap {
    /// Clears the marks of files that cannot have one of the values that the column must have.
    async fn exclude(&self, guarantee: &LiteralGuarantee, is_searched: &mut [bool], counters: &Counters) {
        let keys = guarantee.literals.iter().map(|literal| key_of(literal, &self.data_type)).collect();
        let (Guarantee::In, Some::<Vec<_>>(keys)) = (guarantee.guarantee, keys) else { return };
        // Each page is a request, and so is each file.
        let covered = self.local_ids.iter().flatten().count();
        let answer = self.map.look_up(keys.into_iter(), covered).await;
        counters.map_reads.add(answer.reads);
        counters.failed_map_reads.add(answer.failed_reads);
        let Some(candidates) = answer.candidates else { return };
        counters.map_answers.add(1);
        for (is_searched, local_id) in is_searched.iter_mut().zip(&self.local_ids) {
            // A file that the map does not cover is searched.
            *is_searched &= local_id.is_none_or(|local_id| candidates.contains(&local_id));
        }
    }
}

impl fmt::Debug for MappedTable {
    /// Without the list of files: tables are printed in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let maps: Vec<_> = self.maps.iter().map(|map| (&map.column, &map.map)).collect();
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
        Arc::clone(&self.schema)
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
            return Ok(Arc::new(EmptyExec::new(project_schema(&self.schema, projection)?)));
        }
        let files = files.into_iter().cloned().map(PartitionedFile::from).collect();
        let groups = FileGroup::new(files).split_files(state.config().target_partitions());
        let source = Arc::new(ParquetSource::new(Arc::clone(&self.schema)));
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
    /// Answers of maps. None is counted if the filter names no values, if they need more pages than there are covered
    /// files, or if a page is damaged or unknown.
    pub map_answers: u64,
    /// Reads of maps, each of a page or a list.
    pub map_reads: u64,
    /// Reads of maps that failed, or found damage: all covered files were candidates.
    pub failed_map_reads: u64,
}

#[derive(Debug, Default)]
struct Counters {
    scans: Counter,
    planned_files: Counter,
    skipped_files: Counter,
    map_answers: Counter,
    map_reads: Counter,
    failed_map_reads: Counter,
}

impl Counters {
    fn counts(&self) -> Counts {
        Counts {
            scans: self.scans.get(),
            planned_files: self.planned_files.get(),
            skipped_files: self.skipped_files.get(),
            map_answers: self.map_answers.get(),
            map_reads: self.map_reads.get(),
            failed_map_reads: self.failed_map_reads.get(),
        }
    }
}

#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    fn add(&self, count: impl TryInto<u64>) {
        self.0.fetch_add(count.try_into().unwrap_or(0), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
