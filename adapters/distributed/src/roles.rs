//! The processes of the engine: each opens the store over S3, answers requests, and ends when its input ends.

use std::sync::Arc;
use std::time::Duration;

use slate_object_store::path::Path;
use slate_object_store::{self as slate, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};
use slatedb::admin::Admin;
use slatedb::config::{
    CheckpointOptions, CompactionWorkerOptions, CompactorOptions, DbReaderOptions, FlushOptions, FlushType, Settings,
};
use slatedb::db_cache::SplitCache;
use slatedb::db_cache::foyer::{FoyerCache, FoyerCacheOptions};
use slatedb::manifest::SsTableView;
use slatedb::{
    CompactionWorkerBuilder, CompactorBuilder, Db, DbReader, DbReaderMode, PathResolver, WriteBatch,
    instrumented_object_store_stats as request_stats,
};
use slatedb_common::metrics::{DefaultMetricsRecorder, MetricValue};
use sstfilter_slatedb::SlateFilters;

use crate::Result;
use crate::filters::{configured, names_in_block};
use crate::protocol::{Answer, Cache, Compacts, Counters, Follow, Request, Requests, RoleConfig, Sst, say};
use crate::server::{BUCKET, CREDENTIALS};

/// The interval at which processes poll for each other's work. The engine's defaults are seconds, which the
/// demonstration would spend waiting.
const POLL: Duration = Duration::from_millis(100);

/// The silence of a worker after which another one gets its compaction. The engine's default is 30 s.
const WORKER_TIMEOUT: Duration = Duration::from_secs(2);

/// Small, so that a sorted run has many SSTs and a compaction many steps at which it can be killed.
const SST_BYTES: usize = 64 * 1024;

/// A filter for each SST, however small. It must be the same in writers and compactors.
const MIN_FILTER_KEYS: u32 = 0;

/// The number of times the engine repeats a failed request. Without a limit, it never gives up.
const MAX_RETRIES: Option<u32> = Some(5);

/// Runs one role until its input ends.
///
/// # Errors
///
/// If the store cannot be opened, or a request cannot be read.
pub async fn run(role: &str, config: RoleConfig) -> Result<()> {
    // First, so that a process whose store does not open still ends with its input.
    let requests = Requests::new();
    match role {
        "writer" => write(&config, requests).await,
        "reader" => read(&config, requests).await,
        "compactor" => compact(&config, requests).await,
        "worker" => work(&config, requests).await,
        "inspector" => inspect(&config, requests).await,
        "creator" => create(&config, requests).await,
        _ => Err(format!("no role is called {role}").into()),
    }
}

/// Makes a client of the S3 server with the crate of a version of `object_store`.
macro_rules! client {
    ($version:ident, $endpoint:expr, $name:expr) => {{
        // The HTTP client requires a TLS implementation, although it uses plain HTTP here. Fails if one is installed
        // already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = $version::ClientOptions::new().with_user_agent($name.parse()?).with_allow_http(true);
        let store = $version::aws::AmazonS3Builder::new()
            .with_client_options(options)
            .with_endpoint($endpoint)
            .with_bucket_name(BUCKET)
            .with_region("us-east-1")
            .with_access_key_id(CREDENTIALS.0)
            .with_secret_access_key(CREDENTIALS.1)
            .build()?;
        Ok(Arc::new(store))
    }};
}

/// Returns a client of the S3 server with `name` as its `User-Agent`.
///
/// # Errors
///
/// If the endpoint is no URL or the name no header value.
pub fn object_store(endpoint: &str, name: &str) -> Result<Arc<dyn object_store::ObjectStore>> {
    client!(object_store, endpoint, name)
}

/// Returns such a client for SlateDB.
fn slate_store(endpoint: &str, name: &str) -> Result<Arc<dyn ObjectStore>> {
    client!(slate_object_store, endpoint, name)
}

/// Answers requests, by the arms of a match, until the store is closed. An error becomes an answer.
#[macro_export]
macro_rules! serve {
    ($requests:ident, $request:ident => { $($arm:tt)* }) => {{
        $crate::protocol::say(&$crate::protocol::Answer::Ready)?;
        loop {
            let $request = $requests.next().await?;
            // Noted before the arms consume the request.
            let is_last = matches!($request, $crate::protocol::Request::Close);
            let answer: $crate::Result<$crate::protocol::Answer> = async {
                Ok(match $request {
                    $($arm)*
                    other => $crate::protocol::Answer::Failed(format!("this process cannot do {other:?}")),
                })
            }
            .await;
            $crate::protocol::say(&answer.unwrap_or_else(|error| $crate::protocol::Answer::Failed(error.to_string())))?;
            if is_last {
                return Ok(());
            }
        }
    }};
}

async fn write(config: &RoleConfig, mut requests: Requests) -> Result<()> {
    let metrics = Arc::new(DefaultMetricsRecorder::new());
    let settings = Settings {
        // Each write waits until it is durable, so the demonstration would mostly wait for flushes.
        flush_interval: Some(Duration::from_millis(20)),
        manifest_poll_interval: POLL,
        min_filter_keys: MIN_FILTER_KEYS,
        // Never wait for the compactor, which may be dead. The engine's defaults are 8 and 8.
        l0_max_ssts: 10_000,
        l0_max_ssts_per_key: 10_000,
        // The compactor is a separate process; two of them would fence each other.
        compactor_options: None,
        // Off, so that no request for a deleted SST can hide in the counts.
        garbage_collector_options: None,
        object_store_max_retries: MAX_RETRIES,
        ..Settings::default()
    };
    let builder = Db::builder(config.store.as_str(), slate_store(&config.endpoint, &config.name)?)
        .with_settings(settings)
        .with_metrics_recorder(Arc::clone(&metrics) as _);
    let builder = configured(config.filters, builder, |builder| builder.with_filter_policies(Vec::new()));
    let db = builder.build().await?;
    serve!(requests, request => {
        Request::Write(rows) => { write_rows(&db, rows).await?; Answer::Done }
        Request::Flush => { db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await?; Answer::Done }
        Request::Counters => Answer::Counters(counters(&metrics)),
        Request::Close => { db.close().await?; Answer::Counters(counters(&metrics)) }
    })
}

async fn write_rows(db: &Db, rows: Vec<(String, Option<String>)>) -> Result<()> {
    let mut batch = WriteBatch::new();
    for (key, value) in rows {
        match value {
            Some(value) => batch.put(key.as_bytes(), value.as_bytes()),
            None => batch.delete(key.as_bytes()),
        }
    }
    // `write` returns when the batch is in memory; only a durable batch may be acknowledged.
    Ok(db.write(batch).await?.await_durable().await?)
}

async fn read(config: &RoleConfig, mut requests: Requests) -> Result<()> {
    let metrics = Arc::new(DefaultMetricsRecorder::new());
    let mode = match config.follow {
        Follow::Writer => DbReaderMode::ManagedCheckpoint,
        Follow::Checkpoint(id) => DbReaderMode::Checkpoint(id),
    };
    let options = DbReaderOptions {
        manifest_poll_interval: POLL,
        object_store_max_retries: MAX_RETRIES,
        ..DbReaderOptions::default()
    };
    let builder = DbReader::builder(config.store.as_str(), slate_store(&config.endpoint, &config.name)?)
        .with_options(options)
        .with_reader_mode(mode)
        .with_metrics_recorder(Arc::clone(&metrics) as _);
    let builder = configured(config.filters, builder, |builder| builder.with_filter_policies(Vec::new()));
    let builder = match config.cache {
        Cache::Nothing => builder.with_db_cache_disabled(),
        Cache::Metadata => builder.with_db_cache(Arc::new(metadata_cache()), 0),
        Cache::Everything => builder,
    };
    let reader = builder.build().await?;
    serve!(requests, request => {
        Request::Get(keys) => answer_keys(&reader, keys).await?,
        Request::Counters => Answer::Counters(counters(&metrics)),
        Request::Close => { reader.close().await?; Answer::Counters(counters(&metrics)) }
    })
}

/// Caches filters and indexes, and no data. One shard, so that nothing is evicted before the whole cache is full.
fn metadata_cache() -> SplitCache {
    let cache = FoyerCache::new_with_opts(FoyerCacheOptions { max_capacity: 64 << 20, shards: 1 });
    SplitCache::new().with_meta_cache(Some(Arc::new(cache))).build()
}

/// Answers each key as soon as it is found, and then reports that all are done.
async fn answer_keys(reader: &DbReader, keys: Vec<String>) -> Result<Answer> {
    for key in keys {
        let value = reader.get(key.as_bytes()).await?;
        // Answers are lines of JSON, and the demonstration writes only text.
        let value = value.map(|value| String::from_utf8_lossy(&value).into_owned());
        say(&Answer::Found(key, value))?;
    }
    Ok(Answer::Done)
}

async fn compact(config: &RoleConfig, mut requests: Requests) -> Result<()> {
    let metrics = Arc::new(DefaultMetricsRecorder::new());
    let options = CompactorOptions {
        poll_interval: POLL,
        worker_heartbeat_timeout: WORKER_TIMEOUT,
        worker: match config.compacts {
            Compacts::Itself => Some(worker_options()),
            Compacts::Workers => None,
        },
        object_store_max_retries: MAX_RETRIES,
        ..CompactorOptions::default()
    };
    let store = slate_store(&config.endpoint, &config.name)?;
    let builder = CompactorBuilder::new(config.store.as_str(), store)
        .with_options(options)
        .with_metrics_recorder(Arc::clone(&metrics) as _);
    let builder = configured(config.filters, builder, |builder| builder.with_filter_policies(Vec::new()));
    let compactor = Arc::new(builder.build());
    let running = Arc::clone(&compactor);
    exit_on_failure(async move { running.run().await });
    serve!(requests, request => {
        Request::Counters => Answer::Counters(counters(&metrics)),
        Request::Close => { compactor.stop().await?; Answer::Counters(counters(&metrics)) }
    })
}

async fn work(config: &RoleConfig, mut requests: Requests) -> Result<()> {
    let metrics = Arc::new(DefaultMetricsRecorder::new());
    let store = slate_store(&config.endpoint, &config.name)?;
    let builder = CompactionWorkerBuilder::new(config.store.as_str(), store)
        .with_options(worker_options())
        .with_metrics_recorder(Arc::clone(&metrics) as _);
    let builder = configured(config.filters, builder, |builder| builder.with_filter_policies(Vec::new()));
    let worker = Arc::new(builder.build().await?);
    let running = Arc::clone(&worker);
    exit_on_failure(async move { running.run().await });
    serve!(requests, request => {
        Request::Counters => Answer::Counters(counters(&metrics)),
        Request::Close => { worker.stop().await?; Answer::Counters(counters(&metrics)) }
    })
}

fn worker_options() -> CompactionWorkerOptions {
    CompactionWorkerOptions {
        compactions_poll_interval: POLL / 2,
        heartbeat_interval: WORKER_TIMEOUT / 8,
        max_sst_size: SST_BYTES,
        min_filter_keys: MIN_FILTER_KEYS,
        object_store_max_retries: MAX_RETRIES,
        ..CompactionWorkerOptions::default()
    }
}

/// Ends the process if the compactor fails: otherwise a failed compactor looks like an idle one.
fn exit_on_failure(running: impl Future<Output = std::result::Result<(), slatedb::Error>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = running.await {
            eprintln!("the compactor ended: {error}");
            std::process::exit(1);
        }
    });
}

/// Inspects a store from outside, without engine and cache.
async fn inspect(config: &RoleConfig, mut requests: Requests) -> Result<()> {
    let store = slate_store(&config.endpoint, &config.name)?;
    let admin = Admin::builder(config.store.as_str(), Arc::clone(&store)).build();
    serve!(requests, request => {
        Request::Ssts => Answer::Ssts(ssts(config, &admin, store.as_ref()).await?),
        Request::Audit => {
            let audit = SlateFilters::default().audit(DbReader::builder(config.store.as_str(), Arc::clone(&store))).await?;
            Answer::Count(audit.without_usable_filter().count())
        }
        Request::Checkpoint => {
            Answer::Checkpoint(admin.create_detached_checkpoint(&CheckpointOptions::default()).await?.id)
        }
        Request::ActiveCompactions => {
            let compactions = admin.read_compactions(None).await?;
            Answer::Count(compactions.map_or(0, |all| all.recent_compactions().filter(|one| one.active()).count()))
        }
        Request::Close => Answer::Done,
    })
}

async fn ssts(config: &RoleConfig, admin: &Admin, store: &dyn ObjectStore) -> Result<Vec<Sst>> {
    let manifest = admin.read_manifest(None).await?.ok_or("the store has no manifest")?;
    let paths = PathResolver::new(config.store.as_str(), &manifest);
    let level_0 = manifest.l0().iter().map(|view| (None, view));
    let runs = manifest.compacted().iter();
    let compacted = runs.flat_map(|run| run.sst_views().iter().map(|view| (Some(run.id), view)));
    let mut ssts = Vec::new();
    for (sorted_run, view) in level_0.chain(compacted) {
        let path = paths.sst_path(&view.sst.id);
        ssts.push(describe(store, &path, sorted_run, view).await?);
    }
    Ok(ssts)
}

async fn describe(store: &dyn ObjectStore, path: &Path, sorted_run: Option<u32>, view: &SsTableView) -> Result<Sst> {
    let info = &view.sst.info;
    let text =
        |key: &Option<slatedb::bytes::Bytes>| String::from_utf8_lossy(key.as_deref().unwrap_or(&[])).into_owned();
    let mut filter_names = Vec::new();
    if info.filter_len > 0 {
        let block = store.get_range(path, info.filter_offset..info.filter_offset + info.filter_len).await?;
        filter_names = names_in_block(&block).ok_or_else(|| format!("the filter block of {path} is damaged"))?;
    }
    Ok(Sst {
        key: path.to_string(),
        sorted_run,
        keys: (text(&info.first_entry), text(&info.last_entry)),
        filter: (info.filter_offset, info.filter_len),
        index: (info.index_offset, info.index_len),
        filter_names,
    })
}

/// Creates objects that do not exist, as the engine creates manifests, and replaces objects, as manifests of maps are.
async fn create(config: &RoleConfig, mut requests: Requests) -> Result<()> {
    let store = slate_store(&config.endpoint, &config.name)?;
    serve!(requests, request => {
        Request::Create(key) => {
            let options = PutOptions::from(PutMode::Create);
            match store.put_opts(&Path::from(key), config.name.clone().into(), options).await {
                Ok(_) => Answer::Created(true),
                Err(slate::Error::AlreadyExists { .. }) => Answer::Created(false),
                Err(error) => return Err(error.into()),
            }
        }
        Request::Increment(key) => {
            let path = Path::from(key);
            let got = store.get(&path).await?;
            let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: None };
            let number: u64 = String::from_utf8_lossy(&got.bytes().await?).parse()?;
            let options = PutOptions::from(PutMode::Update(version));
            match store.put_opts(&path, (number + 1).to_string().into(), options).await {
                Ok(_) => Answer::Created(true),
                Err(slate::Error::Precondition { .. }) => Answer::Created(false),
                Err(error) => return Err(error.into()),
            }
        }
        Request::Get(keys) => {
            for key in keys {
                let bytes = store.get(&Path::from(key.as_str())).await?.bytes().await?;
                say(&Answer::Found(key, Some(String::from_utf8_lossy(&bytes).into_owned())))?;
            }
            Answer::Done
        }
        Request::Close => Answer::Done,
    })
}

fn counters(metrics: &DefaultMetricsRecorder) -> Counters {
    let mut counters = Counters::default();
    for metric in metrics.snapshot().all() {
        let MetricValue::Counter(count) = metric.value else { continue };
        let label = |name: &str| metric.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str());
        match metric.name.as_str() {
            request_stats::REQUEST_COUNT => {
                *counters.requests.entry(label("api").unwrap_or("unknown").to_owned()).or_default() += count;
            }
            slatedb::db_stats::SST_FILTER_NEGATIVE_COUNT => counters.filter_negatives += count,
            slatedb::db_stats::SST_FILTER_POSITIVE_COUNT => counters.filter_positives += count,
            slatedb::db_stats::SST_FILTER_FALSE_POSITIVE_COUNT => counters.filter_false_positives += count,
            _ => {}
        }
    }
    counters
}
