//! A cluster that loses rows when a process is killed, or a map is old or damaged, is worth nothing. This starts clusters
//! of Ballista and `datafusion-distributed`, builds maps as their jobs, queries, kills, and prints what was counted.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod checks;
mod cluster;
mod data;
#[path = "../../src/requests.rs"]
mod requests;

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion_distributed::{DefaultSessionBuilder, MappedWorkerSessionBuilderExt, Worker};
use sstfilter::FalsePositiveRate;
use sstfilter_datafusion::map_part;
use sstfilter_map::MapOptions;
use tonic::transport::Server;

use crate::requests::log_requests;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The sizes that the demonstration has with `--full` are those in brackets.
#[derive(Parser)]
struct Options {
    /// With the sizes of the table in RESULTS.md
    #[arg(long)]
    full: bool,
    #[command(subcommand)]
    role: Option<Role>,
    /// Options of cargo's own tests, which mean nothing here
    #[arg(long, hide = true)]
    nocapture: bool,
}

#[derive(Subcommand)]
enum Role {
    /// Run parts of queries for datafusion-distributed
    Worker {
        #[arg(long)]
        port: u16,
        #[arg(long)]
        log_requests: PathBuf,
        #[arg(long)]
        until_input_ends: bool,
    },
}

/// How much is done.
#[derive(Clone, Copy)]
struct Sizes {
    /// Random queries whose rows are compared.
    queries: usize,
    /// Files of the folder that is queried.
    files: usize,
    /// Files of the folder whose map is built, and compared with that of one process.
    built_files: usize,
    /// Ids of the files that are built within 256 MiB.
    ids: usize,
}

const SHORT: Sizes = Sizes { queries: 160, files: 100, built_files: 400, ids: 1_000_000 };
const FULL: Sizes = Sizes { queries: 10_000, files: 1_000, built_files: 10_000, ids: 10_000_000 };

/// Ids that the maps here are made for.
const MAX_IDS: u64 = 10_000_000;

/// Returns the options of all maps here.
fn map_options() -> Result<MapOptions, Failure> {
    Ok(MapOptions::for_entries(MAX_IDS, FalsePositiveRate::ONE_PERCENT)?)
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(32 << 20).build()?;
    runtime.block_on(async {
        match options.role {
            Some(Role::Worker { port, log_requests: log, .. }) => worker(port, &log).await,
            None => demonstrate(if options.full { FULL } else { SHORT }).await,
        }
    })
}

async fn demonstrate(sizes: Sizes) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let result = checks::all(sizes, folder.path()).await;
    if result.is_err() {
        eprintln!("logs and files: {}", folder.keep().display());
    }
    result
}

/// Runs a worker of `datafusion-distributed`: as published, but for its one function more and the log.
async fn worker(port: u16, log: &Path) -> Result<(), Failure> {
    std::thread::spawn(|| {
        // However it ends, this process does, too.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1)
    });
    let runtime = log_requests(Some(log), RuntimeEnvBuilder::new().build_arc()?)?;
    let sessions = DefaultSessionBuilder.map(|builder: SessionStateBuilder| {
        let mut builder = builder;
        builder.aggregate_functions().get_or_insert_default().push(map_part().into());
        Ok(builder.build())
    });
    let worker = Worker::from_session_builder(sessions).with_runtime_env(runtime);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Ok(Server::builder().add_service(worker.into_worker_server()).serve(address).await?)
}
