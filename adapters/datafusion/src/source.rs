//! The scan of a table's files, which does not open those that a join has no use for.

use std::fmt::{self, Formatter};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use datafusion_datasource::morsel::{MorselPlan, MorselPlanner, Morselizer};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use crate::wanted::{ColumnMaps, Wanted};

/// A source of Parquet files that asks maps again while the query runs. Joins give their filter to the scan when the
/// query is planned, and its values when they have read their other side.
#[derive(Clone)]
pub(crate) struct MappedSource {
    inner: Arc<dyn FileSource>,
    scan: Arc<Scan>,
    /// The filters of the inner source that may change. The others were evaluated when the query was planned.
    dynamic: Arc<[Arc<dyn PhysicalExpr>]>,
    answer: Arc<Mutex<Answer>>,
}

/// The part of a table that a plan needs to ask maps again.
pub(crate) struct Scan {
    pub(crate) maps: Vec<Arc<ColumnMaps>>,
    /// The files of the table, those that the plan reads, and those that maps have excluded from it.
    pub(crate) files: usize,
    pub(crate) planned: usize,
    pub(crate) excluded: usize,
}

impl Scan {
    /// Asks the maps which files of the table to open.
    async fn search(self: Arc<Self>, wanted: Wanted) -> Arc<[bool]> {
        let mut is_searched = vec![true; self.files];
        wanted.retain(&self.maps, &mut is_searched, self.planned).await;
        is_searched.into()
    }
}

/// The position of a file of a plan in the list of the table.
pub(crate) struct Position(pub(crate) usize);

/// The answer of the maps for one state of the filters.
struct Answer {
    generation: u64,
    wanted: Wanted,
    /// Whether to open each file of the table; empty if any may have rows. Whichever partition of the scan is polled
    /// moves it on.
    is_searched: Shared<BoxFuture<'static, Arc<[bool]>>>,
}

impl Default for Answer {
    fn default() -> Self {
        let any = async { Arc::default() };
        Self { generation: 0, wanted: Wanted::default(), is_searched: any.boxed().shared() }
    }
}

impl MappedSource {
    pub(crate) fn new(inner: Arc<dyn FileSource>, scan: Arc<Scan>) -> Self {
        let filter = inner.filter();
        let terms = filter.iter().flat_map(split_conjunction).filter(|term| snapshot_generation(term) != 0);
        let dynamic = terms.cloned().collect();
        Self { inner, scan, dynamic, answer: Arc::default() }
    }

    fn with_inner(&self, inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(Self { inner, ..self.clone() })
    }

    /// Whether a file may have rows for which the current filters are true.
    async fn may_have_rows(&self, Position(position): Position) -> bool {
        // Before the filters are read: a later state of them only excludes more rows.
        let generation = self.dynamic.iter().map(snapshot_generation).fold(0, u64::wrapping_add);
        let is_searched = {
            let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
            if answer.generation != generation {
                let wanted = self.dynamic.iter().map(|term| Wanted::of(term, &self.scan.maps));
                let wanted = wanted.fold(Wanted::default(), Wanted::and);
                // Other filters, such as that of a `LIMIT`, may change with each batch.
                if answer.wanted != wanted {
                    let scan = Arc::clone(&self.scan);
                    answer.is_searched = scan.search(wanted.clone()).boxed().shared();
                    answer.wanted = wanted;
                }
                answer.generation = generation;
            }
            answer.is_searched.clone()
        };
        is_searched.await.get(position).copied().unwrap_or(true)
    }
}

impl FileSource for MappedSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.inner.create_file_opener(object_store, base_config, partition)
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let inner = self.inner.create_morselizer(object_store, base_config, partition)?;
        if self.dynamic.is_empty() {
            return Ok(inner);
        }
        let skipped = MetricBuilder::new(self.inner.metrics()).counter("files_skipped_by_maps", partition);
        Ok(Box::new(MappedMorselizer { inner: inner.into(), source: self.clone(), skipped }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        self.with_inner(self.inner.with_batch_size(batch_size))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt_extra(t, f)?;
        let Scan { maps, files, excluded, .. } = &*self.scan;
        let columns = maps.iter().map(|map| map.column.as_str()).collect::<Vec<_>>().join(", ");
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "maps={columns}\nexcluded_by_maps={excluded} of {files}"),
            _ => write!(f, ", maps=[{columns}], files_excluded_by_maps={excluded} of {files}"),
        }
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        self.inner.repartitioned(target_partitions, repartition_file_min_size, output_ordering, config)
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let FilterPushdownPropagation { filters, updated_node } = self.inner.try_pushdown_filters(filters, config)?;
        // Other filters have answers of their own.
        let wrap = |inner| Arc::new(Self::new(inner, Arc::clone(&self.scan))) as Arc<dyn FileSource>;
        Ok(FilterPushdownPropagation { filters, updated_node: updated_node.map(wrap) })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        eq_properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(self.inner.try_pushdown_sort(order, eq_properties)?.map(|inner| self.with_inner(inner)))
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        Ok(self.inner.try_pushdown_projection(projection)?.map(|inner| self.with_inner(inner)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    /// As the source inside, which each executor knows. There, all files of the plan are read.
    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        base: &FileScanConfig,
        ctx: &datafusion::physical_plan::proto::ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<datafusion_proto_models::protobuf::PhysicalPlanNode>> {
        use datafusion::datasource::physical_plan::FileScanConfigBuilder;
        let base = FileScanConfigBuilder::from(base.clone()).with_source(Arc::clone(&self.inner)).build();
        self.inner.try_to_proto(&base, ctx)
    }
}

/// Plans the reads of files that may have rows.
#[derive(Clone)]
struct MappedMorselizer {
    inner: Arc<dyn Morselizer>,
    source: MappedSource,
    skipped: Count,
}

impl fmt::Debug for MappedMorselizer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MappedMorselizer").field(&self.inner).finish()
    }
}

impl Morselizer for MappedMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let Some(&Position(position)) = file.extension() else { return self.inner.plan_file(file) };
        let (own, position) = (self.clone(), Position(position));
        let planner = async move {
            if own.source.may_have_rows(position).await {
                return own.inner.plan_file(file);
            }
            own.skipped.add(1);
            Ok(Box::new(Planner(None)) as Box<dyn MorselPlanner>)
        };
        Ok(Box::new(Planner(Some(MorselPlan::new().with_pending_planner(planner)))))
    }
}

/// The plan of a file: none if it is skipped.
struct Planner(Option<MorselPlan>);

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Planner")
    }
}

impl MorselPlanner for Planner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(self.0)
    }
}
