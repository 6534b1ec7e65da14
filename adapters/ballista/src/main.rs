//! Ballista's scheduler and executor with file maps, and clients.

mod client;
mod requests;

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ballista_core::object_store::{
    runtime_env_with_s3_support, session_config_with_s3_support, session_state_with_s3_support,
};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::health::spawn_health_server;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use clap::{Parser, Subcommand};
use datafusion::execution::SessionStateBuilder;
use sstfilter_ballista::{executor_config, scheduler_config};

use crate::client::Failure;
use crate::requests::log_requests;

/// Ballista with file maps.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
    /// Append a line to this file for each request to local files: `GET BYTES PATH`
    #[arg(long, global = true, value_name = "FILE")]
    log_requests: Option<PathBuf>,
    /// End when standard input does, for a program that starts this one
    #[arg(long, global = true)]
    until_input_ends: bool,
}

#[derive(Subcommand)]
enum Role {
    /// Plan queries and jobs, with all options of Ballista's scheduler
    Scheduler(Box<ballista_scheduler::config::Config>),
    /// Run parts of them, with all options of Ballista's executor
    Executor(Box<ballista_executor::config::Config>),
    /// Build the maps of a table, or bring them up to date
    Refresh(client::RefreshArguments),
    /// Run statements, and print the rows of queries
    Sql(client::SqlArguments),
}

fn main() -> ExitCode {
    let Err(error) = start(Arguments::parse()) else { return ExitCode::SUCCESS };
    eprintln!("sstfilter-ballista: {error}");
    ExitCode::FAILURE
}

fn start(arguments: Arguments) -> Result<(), Failure> {
    if arguments.until_input_ends {
        std::thread::spawn(|| {
            // However it ends.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(1)
        });
    }
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    // As Ballista's own scheduler: plans are deep.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(32 << 20).build()?;
    runtime.block_on(run(arguments))
}

async fn run(Arguments { role, log_requests: log, .. }: Arguments) -> Result<(), Failure> {
    match role {
        Role::Scheduler(options) => scheduler(*options, log).await,
        Role::Executor(options) => executor(*options, log).await,
        Role::Refresh(arguments) => client::refresh(arguments, log).await,
        Role::Sql(arguments) => client::sql(arguments, log).await,
    }
}

async fn scheduler(options: ballista_scheduler::config::Config, log: Option<PathBuf>) -> Result<(), Failure> {
    let address: SocketAddr = format!("{}:{}", options.bind_host, options.bind_port).parse()?;
    let config: SchedulerConfig = options.try_into()?;
    let config = scheduler_config(config.with_override_session_builder(Arc::new(move |config| {
        let state = session_state_with_s3_support(config)?;
        let runtime = log_requests(log.as_deref(), Arc::clone(state.runtime_env()))?;
        Ok(SessionStateBuilder::new_from_existing(state).with_runtime_env(runtime).build())
    })));
    let cluster = BallistaCluster::new_from_config(&config).await?;
    Ok(start_server(cluster, address, Arc::new(config)).await?)
}

async fn executor(options: ballista_executor::config::Config, log: Option<PathBuf>) -> Result<(), Failure> {
    let health_address: SocketAddr = format!("{}:{}", options.bind_host, options.bind_health_port).parse()?;
    let mut config = executor_config(ExecutorProcessConfig::try_from(options)?);
    config.override_config_producer = Some(Arc::new(session_config_with_s3_support));
    config.override_runtime_producer =
        Some(Arc::new(move |config| log_requests(log.as_deref(), runtime_env_with_s3_support(config)?)));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let health = spawn_health_server(health_address, config.health.clone(), stopped);
    let result = start_executor_process(Arc::new(config)).await;
    // The server may have ended by itself.
    let _ = stop.send(());
    let _ = health.await;
    Ok(result?)
}
