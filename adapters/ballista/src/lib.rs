//! File maps on a [Ballista](https://datafusion.apache.org/ballista) cluster: point queries over many Parquet files, and
//! the building of maps as jobs of the cluster.
//!
//! The scheduler plans queries, and reads maps when it does: executors get plans of the files that remain, and need
//! nothing for them. Executors that build maps need one aggregate function.
//!
//! - [`session`] connects to a scheduler. Its `CREATE EXTERNAL TABLE ... STORED AS MAPPED_PARQUET` makes tables with
//!   maps, and [`refresh_listing`](sstfilter_datafusion::refresh_listing) builds their maps.
//! - [`scheduler_config`] and [`executor_config`] add to the configuration of Ballista's own processes what they need.
//!   The program of this package starts both.
//!
//! Sessions of `datafusion-distributed` need nothing of this package: the session of the coordinator plans. Its README
//! has both.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::object_store::{session_config_with_s3_support, session_state_with_s3_support};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::BallistaLogicalExtensionCodec;
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::config::SchedulerConfig;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::{FunctionRegistry, TaskContext};
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use sstfilter_datafusion::{MAPPED_PARQUET, MappedListing, MappedListingFactory, decode_table, encode_table, map_part};

/// Bytes of a message between processes, at most. Ballista's 16 MiB are less than the names of 200,000 files in a plan, or
/// the hashes of 2.1 million ids of a file.
const MAX_MESSAGE_BYTES: u32 = 1 << 30;

/// Tables that a scheduler keeps open, and the files that they have together.
const MAX_TABLES: usize = 64;
const MAX_FILES: usize = 2_000_000;

/// Connects to a scheduler, `df://HOST:PORT`. Tables with maps are those of `CREATE EXTERNAL TABLE ... STORED AS
/// MAPPED_PARQUET`, and each [`MappedListing`] and [`MappedTable`](sstfilter_datafusion::MappedTable) that is registered.
///
/// Stores are those of Ballista: local files that all processes see, and S3, by Ballista's options `s3.*`.
///
/// # Errors
///
/// As [`SessionContextExt::remote`].
pub async fn session(url: &str) -> Result<SessionContext> {
    let mut state = session_state_with_s3_support(session_config(session_config_with_s3_support()))?;
    state.table_factories_mut().insert(MAPPED_PARQUET.to_owned(), Arc::new(MappedListingFactory));
    let session = SessionContext::remote_with_state(url, state).await?;
    // Ballista replaces the functions of the state.
    session.register_udaf(map_part());
    Ok(session)
}

/// Adds to a session's configuration what plans with maps need, for sessions that are not made by [`session`].
#[must_use]
pub fn session_config(config: SessionConfig) -> SessionConfig {
    config
        .with_ballista_logical_extension_codec(Arc::new(MapCodec::default()))
        .with_ballista_grpc_client_max_message_size(MAX_MESSAGE_BYTES as usize)
}

/// Adds to a scheduler's configuration what it needs to plan queries of tables with maps, and to build maps.
#[must_use]
pub fn scheduler_config(config: SchedulerConfig) -> SchedulerConfig {
    let build = config.override_session_builder.clone().unwrap_or_else(|| Arc::new(session_state_with_s3_support));
    SchedulerConfig {
        override_config_producer: Some(
            config.override_config_producer.clone().unwrap_or_else(|| Arc::new(session_config_with_s3_support)),
        ),
        override_session_builder: Some(Arc::new(move |config| {
            let mut state = build(config)?;
            state.register_udaf(Arc::new(map_part()))?;
            Ok(state)
        })),
        override_logical_codec: Some(Arc::new(MapCodec::default())),
        grpc_server_max_decoding_message_size: MAX_MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MAX_MESSAGE_BYTES,
        grpc_client_max_message_size: MAX_MESSAGE_BYTES,
        ..config
    }
}

/// Adds to an executor's configuration what it needs to build maps. Queries need nothing of executors.
#[must_use]
pub fn executor_config(config: ExecutorProcessConfig) -> ExecutorProcessConfig {
    let mut functions = BallistaFunctionRegistry::default();
    functions.aggregate_functions.insert(map_part().name().to_owned(), Arc::new(map_part()));
    ExecutorProcessConfig {
        override_function_registry: Some(Arc::new(functions)),
        grpc_max_decoding_message_size: MAX_MESSAGE_BYTES,
        grpc_max_encoding_message_size: MAX_MESSAGE_BYTES,
        ..config
    }
}

/// Writes tables with maps into plans for the scheduler, which makes them again; all else is Ballista's.
///
/// The scheduler decodes a table for each query. It keeps the last 64, of two million files together, so that later
/// queries neither list files nor open maps.
#[derive(Debug, Default)]
pub struct MapCodec {
    ballista: BallistaLogicalExtensionCodec,
    tables: Mutex<VecDeque<(Vec<u8>, Arc<MappedListing>)>>,
}

impl MapCodec {
    /// Returns the table that was made of these bytes, or makes it; `None` if they are of another kind.
    fn table(&self, bytes: &[u8], schema: &SchemaRef) -> Result<Option<Arc<MappedListing>>> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let at = tables.iter().position(|(of, table)| of == bytes && table.schema() == *schema);
        if let Some(found) = at.and_then(|at| tables.remove(at)) {
            let table = Arc::clone(&found.1);
            tables.push_front(found);
            return Ok(Some(table));
        }
        let Some(table) = decode_table(bytes, schema)?.map(Arc::new) else { return Ok(None) };
        // Without maps, there is nothing to keep open.
        if table.has_maps() {
            tables.push_front((bytes.to_vec(), Arc::clone(&table)));
            let mut files = 0;
            tables.retain(|(_, table)| {
                files += table.listed_files();
                files <= MAX_FILES
            });
            tables.truncate(MAX_TABLES);
        }
        Ok(Some(table))
    }
}

impl LogicalExtensionCodec for MapCodec {
    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        name: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match self.table(bytes, &schema)? {
            Some(table) => Ok(table),
            None => self.ballista.try_decode_table_provider(bytes, name, schema, context),
        }
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        table: Arc<dyn TableProvider>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        match encode_table(&*table)? {
            Some(table) => bytes.extend(table),
            None => self.ballista.try_encode_table_provider(name, table, bytes)?,
        }
        Ok(())
    }

    fn try_decode(&self, bytes: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        self.ballista.try_decode(bytes, inputs, context)
    }

    fn try_encode(&self, node: &Extension, bytes: &mut Vec<u8>) -> Result<()> {
        self.ballista.try_encode(node, bytes)
    }

    fn try_decode_file_format(&self, bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        self.ballista.try_decode_file_format(bytes, context)
    }

    fn try_encode_file_format(&self, bytes: &mut Vec<u8>, format: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.ballista.try_encode_file_format(bytes, format)
    }
}

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
