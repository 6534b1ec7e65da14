//! A join read all files; then, it lost rows, because a file was skipped whose rows it needed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{JoinType, NullEquality};
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

type Query = Box<dyn Fn(DataFrame, DataFrame) -> DataFrame>;

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
    async fn run(&self, config: &SessionConfig, keys: &[Option<&str>], query: &Query, with_maps: bool) -> Ran {
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
    async fn check(&self, config: &SessionConfig, keys: &[Option<&str>], query: &Query) -> Ran {
        let expected = self.run(config, keys, query, false).await;
        let ran = self.run(config, keys, query, true).await;
        assert_eq!(ran.rows, expected.rows, "{}", ran.plan);
        ran
    }
}

fn join(kind: JoinType) -> Query {
    Box::new(move |keys, table| keys.join(table, kind, &["key"], &["id"], None).unwrap())
}

/// A join in which NULL is equal to NULL.
fn join_null() -> Query {
    Box::new(|keys, table| {
        let (state, keys) = keys.into_parts();
        let columns = (vec!["key"], vec!["id"]);
        let table = table.into_unoptimized_plan();
        let builder = LogicalPlanBuilder::from(keys);
        let null = NullEquality::NullEqualsNull;
        let joined = builder.join_detailed(table, JoinType::Inner, columns, None, null).unwrap();
        DataFrame::new(state, joined.build().unwrap())
    })
}

fn select(frame: DataFrame, column: &str) -> Arc<LogicalPlan> {
    Arc::new(frame.select_columns(&[column]).unwrap().into_unoptimized_plan())
}

/// Queries, and whether they skip files.
fn queries() -> Vec<(Query, bool)> {
    let smallest =
        |frame: DataFrame, column: &str| frame.sort_by(vec![col(column)]).unwrap().limit(0, Some(3)).unwrap();
    vec![
        (join(JoinType::Inner), true),
        (join(JoinType::Left), true),
        (join(JoinType::LeftSemi), true),
        (join(JoinType::LeftAnti), true),
        (join(JoinType::RightSemi), true),
        (join(JoinType::Right), false),
        (join(JoinType::RightAnti), false),
        (join(JoinType::Full), false),
        (join_null(), false),
        (Box::new(|keys, table| join_null()(keys.filter(col("key").is_not_null()).unwrap(), table)), true),
        (Box::new(|keys, table| table.join(keys, JoinType::Inner, &["id"], &["key"], None).unwrap()), true),
        (Box::new(|keys, table| table.filter(in_subquery(col("id"), select(keys, "key"))).unwrap()), true),
        (Box::new(|keys, table| table.filter(not_in_subquery(col("id"), select(keys, "key"))).unwrap()), false),
        (Box::new(|keys, table| keys.filter(not_in_subquery(col("key"), select(table, "id"))).unwrap()), false),
        (Box::new(|keys, table| keys.filter(in_subquery(col("key"), select(table, "id"))).unwrap()), true),
        // By two columns, of which one has no map.
        (
            Box::new(|keys, table| {
                let keys = keys.filter(col("key").is_not_null()).unwrap();
                keys.join(table, JoinType::Inner, &["key", "number"], &["id", "amount"], None).unwrap()
            }),
            true,
        ),
        (
            Box::new(|keys, table| {
                keys.join(table, JoinType::Inner, &["key", "number"], &["id", "amount"], None).unwrap()
            }),
            false,
        ),
        (Box::new(|keys, table| keys.join(table, JoinType::Inner, &["number"], &["amount"], None).unwrap()), false),
        // Two filters at once, of which one is of another column.
        (
            Box::new(|keys, table| {
                let other = keys.clone().select(vec![col("number").alias("other")]).unwrap();
                let both = join(JoinType::Inner)(keys, table);
                other.join(both, JoinType::Inner, &["other"], &["amount"], None).unwrap()
            }),
            true,
        ),
        (Box::new(move |keys, table| smallest(join(JoinType::Inner)(keys, table), "id")), true),
        (Box::new(move |keys, table| join(JoinType::Inner)(keys, smallest(table, "id"))), false),
        // Values of another layout, and of another type.
        (
            Box::new(|keys, table| {
                let keys = keys.select(vec![cast(col("key"), DataType::Utf8View).alias("view")]).unwrap();
                keys.join(table, JoinType::Inner, &["view"], &["id"], None).unwrap()
            }),
            true,
        ),
        (
            Box::new(|keys, table| {
                let table = table.select(vec![concat(vec![col("id"), lit("")]).alias("made")]).unwrap();
                keys.join(table, JoinType::Inner, &["key"], &["made"], None).unwrap()
            }),
            false,
        ),
    ]
}

const KEYS: [Option<&str>; 8] =
    [Some("3-4"), Some("5-6"), None, Some("none"), Some("8-9"), Some("8-9"), Some("11-1"), Some("11-0")];

#[tokio::test]
async fn joins_open_only_the_files_that_have_one_of_their_values() {
    let joined = Joined::new(40).await;
    let config = SessionConfig::new().with_target_partitions(3);
    for (at, (query, skips)) in queries().into_iter().enumerate() {
        let ran = joined.check(&config, &KEYS, &query).await;
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
        let ran = joined.run(&SessionConfig::new(), &ids, &join(JoinType::Inner), true).await;
        assert!(ran.opened >= files.len() && ran.pages <= 100, "{}", ran.plan);
        others += ran.opened - files.len();
    }
    assert!(others as f64 <= 0.05 * f64::from(joins), "{others}");
}

#[tokio::test]
async fn a_join_has_its_rows_however_the_engine_runs_it() {
    let joined = Joined::new(12).await;
    // Each option alone, and some together.
    for setting in [0b0000_u32, 0b0001, 0b0010, 0b0101, 0b1000, 0b0111, 0b1111] {
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
        for (query, _) in queries() {
            joined.check(&config, &KEYS, &query).await;
        }
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
        let ran = joined.check(&config, &KEYS, &join(JoinType::Inner)).await;
        assert_eq!((ran.opened, ran.pages), (12, 0), "{}", ran.plan);
    }
}
