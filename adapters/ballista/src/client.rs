//! Clients of a cluster: one refreshes the maps of a table, one runs statements.

use std::path::PathBuf;

use clap::Args;
use datafusion::common::DataFusionError;
use datafusion::prelude::SessionContext;
use sstfilter::FalsePositiveRate;
use sstfilter_datafusion::{RefreshOptions, refresh_listing};
use sstfilter_map::MapOptions;

use crate::requests::log_requests_of;

/// Whatever ends a process of this program.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Args)]
pub struct RefreshArguments {
    /// The scheduler, `df://HOST:PORT`
    scheduler: String,
    /// `CREATE EXTERNAL TABLE ... STORED AS MAPPED_PARQUET LOCATION '...' OPTIONS ('maps.COLUMN' '...')`
    table: String,
    /// The column whose maps are built, or brought up to date
    column: String,
    /// Ids in all files, ever: the same number for each refresh
    #[arg(long, default_value_t = 1_000_000_000)]
    max_ids: u64,
    /// Memory for the ids of a job in each executor
    #[arg(long, default_value_t = 256)]
    memory_mib: u64,
}

#[derive(Args)]
pub struct SqlArguments {
    /// The scheduler, `df://HOST:PORT`
    scheduler: String,
    /// Statements, such as those that make tables, and queries
    #[arg(required = true)]
    statements: Vec<String>,
}

async fn session(scheduler: &str, log: Option<PathBuf>) -> Result<SessionContext, DataFusionError> {
    log_requests_of(log.as_deref(), &sstfilter_ballista::session(scheduler).await?)
}

pub async fn refresh(arguments: RefreshArguments, log: Option<PathBuf>) -> Result<(), Failure> {
    let session = session(&arguments.scheduler, log).await?;
    let before = table_names(&session);
    session.sql(&arguments.table).await?;
    let Some(table) = table_names(&session).into_iter().find(|name| !before.contains(name)) else {
        return Err("expected a statement that makes a table".into());
    };
    let maps = MapOptions::for_entries(arguments.max_ids, FalsePositiveRate::ONE_PERCENT)?;
    let options = RefreshOptions { memory_bytes: arguments.memory_mib << 20 };
    println!("{:?}", refresh_listing(&session, table, &arguments.column, maps, options).await?);
    Ok(())
}

fn table_names(session: &SessionContext) -> Vec<String> {
    let schemas = session.catalog_names().into_iter().filter_map(|name| session.catalog(&name));
    let schemas = schemas.flat_map(|catalog| {
        catalog
            .schema_names()
            .into_iter()
            .filter_map(move |name| (name != "information_schema").then(|| catalog.schema(&name))?)
    });
    schemas.flat_map(|schema| schema.table_names()).collect()
}

pub async fn sql(arguments: SqlArguments, log: Option<PathBuf>) -> Result<(), Failure> {
    let session = session(&arguments.scheduler, log).await?;
    for statement in &arguments.statements {
        let answer = session.sql(statement).await?;
        // A statement that makes a table has no columns.
        if !answer.schema().fields().is_empty() {
            answer.show().await?;
        }
    }
    Ok(())
}
