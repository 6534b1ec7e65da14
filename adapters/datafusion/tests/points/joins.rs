//! A join read all files; then, it lost rows, because a file was skipped whose rows it needed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::JoinType::{self, Full, Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
use datafusion::common::NullEquality;
use datafusion::functions::string::expr_fn::concat;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, cast, in_subquery, not_in_subquery};
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use datafusion::physical_plan::collect;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::prelude::{DataFrame, Expr, SessionConfig, SessionContext, col, lit};
use fastrand::Rng;
use futures::stream::BoxStream;
use sstfilter_datafusion::TableFile;

use crate::fixture::{Fixture, path, texts, url};

/// Notes the files of which anything is read.
#[derive(Debug, Default)]
struct Counting {
    inner: Arc<InMemory>,
    opened: Mutex<BTreeSet<Path>>,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counting")
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.opened.lock().unwrap().insert(location.clone());
        self.inner.get_opts(location, options).await
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A table of files with 20 ids each, which no other file has, but for NULL and `x`, and its map.
struct Joined {
    fixture: Fixture,
    files: usize,
}

/// What a query did.
struct Ran {
    rows: String,
    opened: usize,
    pages: u64,
    plan: String,
}

type Query = fn(DataFrame, DataFrame) -> DataFrame;

impl Joined {
    async fn new(files: usize) -> Self {
        let fixture = Fixture::new();
        let writer = fixture.writer(&fixture.filters);
        let mut builder = writer.builder();
        for file in 0..files {
            let mut ids: Vec<_> = (0..20).map(|id| Some(format!("{file}-{id}"))).collect();
            match file % 20 {
                0 => ids.push(None),
                1 => ids.push(Some("x".to_owned())),
                _ => {}
            }
            let name = file.to_string();
            fixture.put(&name, texts(ids.iter().map(Option::as_deref))).await;
            let meta = fixture.store.head(&path(&name)).await.unwrap();
            let id = TableFile::from(meta).id(&url(), "id", fixture.schema.field(0).data_type()).unwrap();
            let hashes: Vec<_> = ids.iter().flatten().map(|id| fixture.filters.hash(id.as_bytes())).collect();
            builder.add_file(id, hashes);
        }
        writer.add("", builder).await.unwrap();
        Self { fixture, files }
    }

    /// Runs a query of a table with the columns `key` and `number`, and of the table of files.
    async fn run(&self, config: &SessionConfig, keys: &[Option<&str>], query: Query, with_maps: bool) -> Ran {
        let (session, reader) = (SessionContext::new_with_config(config.clone()), self.fixture.reader().await);
        let store = Arc::new(Counting { inner: self.fixture.store.clone(), ..Counting::default() });
        session.register_object_store(url().as_ref(), store.clone());
        let numbers: ArrayRef = Arc::new((0..20).cycle().take(keys.len()).collect::<Int64Array>());
        let keys = RecordBatch::try_from_iter([("key", texts(keys.iter().copied())), ("number", numbers)]).unwrap();
        let table = self.fixture.plain().await;
        let table = if with_maps { table.with_maps("id", &reader).await.unwrap() } else { table };
        let before = reader.statistics().requests;
        let query = query(session.read_batch(keys).unwrap(), session.read_table(Arc::new(table)).unwrap());
        let order = query.schema().columns().into_iter().map(|column| Expr::Column(column).sort(true, true)).collect();
        let plan = query.sort(order).unwrap().create_physical_plan().await.unwrap();
        let rows = collect(plan.clone(), session.task_ctx()).await.unwrap();
        Ran {
            rows: pretty_format_batches(&rows).unwrap().to_string(),
            opened: store.opened.lock().unwrap().len(),
            pages: reader.statistics().requests - before,
            plan: DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(false).to_string(),
        }
    }

    /// Checks that a query has the rows that it has without the map.
    async fn check(&self, config: &SessionConfig, keys: &[Option<&str>], query: Query) -> Ran {
        let expected = self.run(config, keys, query, false).await;
        let ran = self.run(config, keys, query, true).await;
        assert_eq!(ran.rows, expected.rows, "{}", ran.plan);
        ran
    }
}

fn join(left: DataFrame, kind: JoinType, right: DataFrame, columns: [&str; 2]) -> DataFrame {
    left.join(right, kind, &columns[..1], &columns[1..], None).unwrap()
}

fn inner(keys: DataFrame, table: DataFrame) -> DataFrame {
    join(keys, Inner, table, ["key", "id"])
}

fn by_two(keys: DataFrame, table: DataFrame) -> DataFrame {
    keys.join(table, Inner, &["key", "number"], &["id", "amount"], None).unwrap()
}

/// A join in which NULL is equal to NULL.
fn with_null(keys: DataFrame, table: DataFrame) -> DataFrame {
    let ((state, keys), table) = (keys.into_parts(), table.into_unoptimized_plan());
    let (columns, null) = ((vec!["key"], vec!["id"]), NullEquality::NullEqualsNull);
    let joined = LogicalPlanBuilder::from(keys).join_detailed(table, Inner, columns, None, null).unwrap();
    DataFrame::new(state, joined.build().unwrap())
}

fn without_null(keys: DataFrame) -> DataFrame {
    keys.filter(col("key").is_not_null()).unwrap()
}

fn select(frame: DataFrame, column: &str) -> Arc<LogicalPlan> {
    Arc::new(frame.select_columns(&[column]).unwrap().into_unoptimized_plan())
}

fn smallest(frame: DataFrame) -> DataFrame {
    frame.sort_by(vec![col("id")]).unwrap().limit(0, Some(3)).unwrap()
}

fn other(keys: DataFrame, column: Expr) -> DataFrame {
    keys.select(vec![column.alias("other")]).unwrap()
}

/// Queries, and whether they skip files.
const QUERIES: [(Query, bool); 23] = [
    (inner, true),
    (|keys, table| join(keys, Left, table, ["key", "id"]), true),
    (|keys, table| join(keys, LeftSemi, table, ["key", "id"]), true),
    (|keys, table| join(keys, LeftAnti, table, ["key", "id"]), true),
    (|keys, table| join(keys, RightSemi, table, ["key", "id"]), true),
    (|keys, table| join(keys, Right, table, ["key", "id"]), false),
    (|keys, table| join(keys, RightAnti, table, ["key", "id"]), false),
    (|keys, table| join(keys, Full, table, ["key", "id"]), false),
    (|keys, table| join(table, Inner, keys, ["id", "key"]), true),
    (with_null, false),
    (|keys, table| with_null(without_null(keys), table), true),
    (|keys, table| table.filter(in_subquery(col("id"), select(keys, "key"))).unwrap(), true),
    (|keys, table| keys.filter(in_subquery(col("key"), select(table, "id"))).unwrap(), true),
    (|keys, table| table.filter(not_in_subquery(col("id"), select(keys, "key"))).unwrap(), false),
    (|keys, table| keys.filter(not_in_subquery(col("key"), select(table, "id"))).unwrap(), false),
    // A column without a map, and two columns, of which a NULL may be in the one with a map.
    (|keys, table| join(keys, Inner, table, ["number", "amount"]), false),
    (|keys, table| by_two(without_null(keys), table), true),
    (by_two, false),
    // The filters of two joins.
    (|keys, table| join(other(keys.clone(), col("number")), Inner, inner(keys, table), ["other", "amount"]), true),
    // A filter of a limit, on the way of that of the join.
    (|keys, table| smallest(inner(keys, table)), true),
    (|keys, table| inner(keys, smallest(table)), false),
    // Text of another layout, and a value that is made of the column.
    (|keys, table| join(other(keys, cast(col("key"), DataType::Utf8View)), Inner, table, ["other", "id"]), true),
    (|keys, table| join(keys, Inner, other(table, concat(vec![col("id"), lit("")])), ["key", "other"]), false),
];

const KEYS: [Option<&str>; 8] =
    [Some("3-4"), Some("5-6"), None, Some("none"), Some("8-9"), Some("8-9"), Some("11-1"), Some("11-0")];

#[tokio::test]
async fn joins_open_only_the_files_that_have_one_of_their_values() {
    let joined = Joined::new(40).await;
    let config = SessionConfig::new().with_target_partitions(3);
    for (at, (query, skips)) in QUERIES.into_iter().enumerate() {
        let ran = joined.check(&config, &KEYS, query).await;
        let files = if skips { 4 } else { joined.files };
        assert_eq!((ran.opened, ran.pages > 0), (files, skips), "{at}: {}", ran.plan);
        assert_eq!(ran.plan.contains("files_skipped_by_maps=36"), skips, "{at}: {}", ran.plan);
    }
}

/// Exactly those files, and 0.05 others on average: absent ids, and the false positives of the map.
#[tokio::test]
async fn a_join_with_100_ids_opens_few_files_of_1000() {
    let joined = Joined::new(1000).await;
    let (mut random, mut others) = (Rng::with_seed(1), 0);
    let joins = if std::env::var_os("SSTFILTER_LONG").is_some() { 400 } else { 5 };
    for _ in 0..joins {
        let ids: Vec<_> = (0..100).map(|_| (random.usize(..1200), random.usize(..20))).collect();
        let files: BTreeSet<_> = ids.iter().map(|(file, _)| file).filter(|file| **file < 1000).collect();
        let ids: Vec<_> = ids.iter().map(|(file, id)| format!("{file}-{id}")).collect();
        let ids: Vec<_> = ids.iter().map(|id| Some(id.as_str())).collect();
        let ran = joined.run(&SessionConfig::new(), &ids, inner, true).await;
        assert!(ran.opened >= files.len() && ran.pages <= 100, "{}", ran.plan);
        others += ran.opened - files.len();
    }
    assert!(others as f64 <= 0.05 * f64::from(joins), "{others}");
}

#[tokio::test]
async fn a_join_has_its_rows_however_the_engine_runs_it() {
    let joined = Joined::new(12).await;
    // Some options together.
    for setting in [0b0000_u32, 0b0011, 0b0101, 0b1000, 0b1111] {
        let has = |bit: u32| setting & (1 << bit) != 0;
        let mut config = SessionConfig::new().with_target_partitions(if has(0) { 4 } else { 1 });
        let options = config.options_mut();
        options.execution.parquet.pushdown_filters = has(1);
        if has(2) {
            options.optimizer.hash_join_single_partition_threshold = 0;
            options.optimizer.hash_join_single_partition_threshold_rows = 0;
        }
        if has(3) {
            // A file is opened in several ranges, and sorted.
            options.optimizer.repartition_file_min_size = 1;
        }
        for (query, _) in QUERIES {
            joined.check(&config, &KEYS, query).await;
        }
        let ran = joined.check(&config, &KEYS, inner).await;
        assert_eq!(ran.opened, 4, "{setting:b}: {}", ran.plan);
    }
}

#[tokio::test]
async fn a_join_without_values_reads_each_file() {
    let joined = Joined::new(12).await;
    let mut off = SessionConfig::new();
    off.options_mut().set("datafusion.optimizer.enable_dynamic_filter_pushdown", "false").unwrap();
    let mut lookup = SessionConfig::new();
    lookup.options_mut().optimizer.hash_join_inlist_pushdown_max_distinct_values = 2;
    for config in [off, lookup] {
        let ran = joined.check(&config, &KEYS, inner).await;
        assert_eq!((ran.opened, ran.pages), (12, 0), "{}", ran.plan);
    }
}
