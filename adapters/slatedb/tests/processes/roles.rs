//! The processes: each opens the store and answers requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slatedb::config::{CompactionWorkerOptions, CompactorOptions, DbReaderOptions, FlushOptions, FlushType, Settings};
use slatedb::{CompactionWorkerBuilder, CompactorBuilder, Db, DbReader, WriteBatch};
use sstfilter_slatedb::{SlateFilters, TakesFilters};

use crate::disk::Disk;
use crate::process::{Requests, Result, say};
use crate::rows;

/// The store's path on the disk.
pub(crate) const STORE: &str = "store";

/// The interval at which processes look for each other's work. The engine's defaults are seconds.
const POLL: Duration = Duration::from_millis(50);

/// The silence of a worker after which another one gets its compaction. The engine's default is 30 s.
const WORKER_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum lag of a reader that follows the writer.
const LAG: Duration = Duration::from_secs(30);

/// Keys between two reports of a reader.
const KEYS_OF_REPORT: usize = 200;

/// The filters of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Ours.
    Ours,
    /// SlateDB's Bloom filters of 10 bits per key, the default of each builder.
    BuiltIn,
    /// No filters.
    None,
}

impl Policy {
    pub(crate) fn configure<B: TakesFilters>(self, builder: B, without: impl FnOnce(B) -> B) -> B {
        match self {
            Self::Ours => SlateFilters::default().configure(builder),
            Self::BuiltIn => builder,
            Self::None => without(builder),
        }
    }
}

/// Runs `[ROLE, FOLDER, STOP]`, where `STOP` may be empty.
pub(crate) async fn run(arguments: &[String]) -> Result<()> {
    let [role, folder, stop] = arguments else { return Err(format!("no such role: {arguments:?}").into()) };
    let requests = Requests::new();
    let store = Arc::new(Disk::open(folder, false)?);
    store.stop(stop);
    match role.as_str() {
        "writer" => write(store, requests).await,
        "reader" => read(store, requests).await,
        "compactor" => compact(store, requests, Policy::Ours, Some(worker_options())).await,
        "coordinator" => compact(store, requests, Policy::Ours, None).await,
        "foreign-compactor" => compact(store, requests, Policy::BuiltIn, Some(worker_options())).await,
        "worker" => work(store, requests).await,
        _ => Err(format!("no such role: {role}").into()),
    }
}

async fn write(store: Arc<Disk>, mut requests: Requests) -> Result<()> {
    let settings = Settings {
        // Each write waits until it is durable, so the test would mostly wait for flushes.
        flush_interval: Some(Duration::from_millis(10)),
        manifest_poll_interval: POLL,
        min_filter_keys: 0,
        // Never wait for the compactor, which may be dead.
        l0_max_ssts: 10_000,
        l0_max_ssts_per_key: 10_000,
        compactor_options: None,
        // Off, so that a reader's request for a deleted SST cannot hide in the counts.
        garbage_collector_options: None,
        ..Settings::default()
    };
    let builder = Db::builder(STORE, store.clone()).with_settings(settings);
    let db = SlateFilters::default().configure(builder).build().await?;
    say("ready");
    loop {
        let request = requests.next().await?;
        match request.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["stop", ref at @ ..] => {
                store.stop(&at.join(" "));
                say("armed");
            }
            ["write", number] => {
                let mut batch = WriteBatch::new();
                for (key, value) in rows::batch(number.parse()?) {
                    match value {
                        Some(value) => batch.put(key.as_bytes(), value.as_bytes()),
                        None => batch.delete(key.as_bytes()),
                    }
                }
                // `write` returns when the batch is in memory; only a durable batch may be acknowledged.
                db.write(batch).await?.await_durable().await?;
                say("written");
            }
            ["flush"] => {
                db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await?;
                say("flushed");
            }
            ["close"] => {
                db.close().await?;
                say("closed");
                return Ok(());
            }
            _ => return Err(format!("a writer cannot {request:?}").into()),
        }
    }
}

async fn read(store: Arc<Disk>, mut requests: Requests) -> Result<()> {
    let options = DbReaderOptions { manifest_poll_interval: POLL, ..DbReaderOptions::default() };
    let reader =
        SlateFilters::default().configure(DbReader::builder(STORE, store).with_options(options)).build().await?;
    say("ready");
    loop {
        let request = requests.next().await?;
        match request.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["verify", batches] => {
                verify(&reader, batches.parse()?, |position| say(format_args!("looked up {position}"))).await?;
                say("verified");
            }
            ["close"] => {
                reader.close().await?;
                say("closed");
                return Ok(());
            }
            _ => return Err(format!("a reader cannot {request:?}").into()),
        }
    }
}

/// Looks up every key of the first batches until all answers are right. A reader that follows the writer may lag.
/// Calls `report` between some of them.
pub(crate) async fn verify(reader: &DbReader, batches: u64, report: impl Fn(usize)) -> Result<()> {
    let started = Instant::now();
    let mut wrong: Vec<rows::Row> = rows::after(batches).into_iter().collect();
    loop {
        let mut still_wrong = Vec::new();
        for (position, row) in wrong.into_iter().enumerate() {
            if reader.get(row.0.as_bytes()).await?.as_deref() != row.1.as_deref().map(str::as_bytes) {
                still_wrong.push(row);
            }
            if position % KEYS_OF_REPORT == KEYS_OF_REPORT - 1 {
                report(position);
            }
        }
        match still_wrong.first() {
            None => return Ok(()),
            Some((key, _)) if started.elapsed() > LAG => {
                return Err(format!("{} keys are lost or wrong, the first is {key}", still_wrong.len()).into());
            }
            Some(_) => tokio::time::sleep(POLL).await,
        }
        wrong = still_wrong;
    }
}

async fn compact(
    store: Arc<Disk>,
    mut requests: Requests,
    policy: Policy,
    worker: Option<CompactionWorkerOptions>,
) -> Result<()> {
    let options = CompactorOptions {
        poll_interval: POLL,
        commit_compacted_interval: POLL,
        worker_heartbeat_timeout: WORKER_TIMEOUT,
        worker,
        ..CompactorOptions::default()
    };
    let builder = CompactorBuilder::new(STORE, store).with_options(options);
    let compactor = Arc::new(policy.configure(builder, |builder| builder.with_filter_policies(Vec::new())).build());
    let running = tokio::spawn({
        let compactor = Arc::clone(&compactor);
        async move { compactor.run().await }
    });
    say("ready");
    tokio::select! {
        // A failed compactor must not look like an idle one.
        ended = running => Err(format!("the compactor ended: {ended:?}").into()),
        _ = requests.next() => {
            compactor.stop().await?;
            say("closed");
            Ok(())
        }
    }
}

async fn work(store: Arc<Disk>, mut requests: Requests) -> Result<()> {
    let builder = CompactionWorkerBuilder::new(STORE, store).with_options(worker_options());
    let worker = Arc::new(SlateFilters::default().configure(builder).build().await?);
    let running = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.run().await }
    });
    say("ready");
    tokio::select! {
        ended = running => Err(format!("the worker ended: {ended:?}").into()),
        _ = requests.next() => {
            worker.stop().await?;
            say("closed");
            Ok(())
        }
    }
}

fn worker_options() -> CompactionWorkerOptions {
    CompactionWorkerOptions {
        compactions_poll_interval: POLL / 2,
        heartbeat_interval: WORKER_TIMEOUT / 8,
        // Small, so that a compaction writes many SSTs.
        max_sst_size: 64 << 10,
        min_filter_keys: 0,
        ..CompactionWorkerOptions::default()
    }
}
