//! fjall, with each file ingested as a separate table.
//!
//! A table that overlaps others becomes a run of level 0, and stays there until level 0 reaches the threshold of the
//! leveled strategy. The threshold is set to its maximum of 255, which no scenario reaches. An ingestion begins a new
//! table every 64 MiB; these tables do not overlap, and form one run.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use fjall::compaction::Leveled;
use fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use super::{BLOOM, CACHE_BYTES, Engine};
use crate::data::Data;

/// An open database and its only keyspace.
pub(super) struct Fjall {
    filter: &'static str,
    keyspace: Keyspace,
    _database: Database,
}

impl Fjall {
    /// Ingests each file of `data`, reopens the database, and brings all blocks into the cache.
    pub(super) fn build(data: &Data, directory: &Path, filter: &'static str) -> Result<Box<dyn Engine>> {
        let (database, keyspace) = open(directory, filter)?;
        for file in 0..data.scenario.files {
            let mut ingestion = keyspace.start_ingestion()?;
            for (key, value) in data.entries(file) {
                ingestion.write(key, value)?;
            }
            ingestion.finish()?;
        }
        drop((keyspace, database));
        let (database, keyspace) = open(directory, filter)?;
        // A full scan loads all blocks into the cache before the clock starts.
        for entry in keyspace.iter() {
            entry.into_inner()?;
        }
        Ok(Box::new(Self { filter, keyspace, _database: database }))
    }
}

fn open(directory: &Path, filter: &str) -> Result<(Database, Keyspace)> {
    let filter_policy = match filter {
        BLOOM => FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0))),
        _ => FilterPolicy::disabled(),
    };
    let options = || {
        KeyspaceCreateOptions::default()
            .filter_policy(filter_policy)
            // Held in memory on every level, like the filters and indexes of RocksDB's open tables.
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .index_block_pinning_policy(PinningPolicy::all(true))
            // The maximum: level 0 keeps every table of a scenario.
            .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(u8::MAX)))
    };
    let database = Database::builder(directory).cache_size(CACHE_BYTES as u64).open()?;
    let keyspace = database.keyspace("items", options)?;
    Ok((database, keyspace))
}

impl Engine for Fjall {
    fn label(&self) -> (&'static str, &'static str) {
        ("fjall", self.filter)
    }

    fn shape(&self) -> Result<String> {
        let (all, newest) = (self.keyspace.table_count(), self.keyspace.l0_table_count());
        Ok(format!("tables at level 0: {newest}, below: {}", all - newest))
    }

    fn get_each(&mut self, keys: &[&[u8]]) -> Result<usize> {
        let mut found = 0;
        for key in keys {
            found += usize::from(self.keyspace.get(key)?.is_some());
        }
        Ok(found)
    }
}
