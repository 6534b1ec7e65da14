//! RocksDB, with files flushed one by one into level 0 and left there.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, IteratorMode, Options, ReadOptions, WriteBatch};
use rocksdb::{WriteOptions, properties};

use super::{BLOOM, CACHE_BYTES, Engine, RIBBON};
use crate::data::Data;

/// More than the data of any scenario's file.
const WRITE_BUFFER_BYTES: usize = 1 << 30;
/// Fixed, because RocksDB's default (as of 11.8) may change. All versions from 5 on have the newer Bloom filter.
const FORMAT_VERSION: i32 = 6;
const FAMILY: &str = "default";
const ENTRIES_PER_WRITE: usize = 1_000;
const MANY_FILES: i32 = 1 << 20;

/// An open database.
pub(super) struct RocksDb {
    filter: &'static str,
    db: DB,
    read: ReadOptions,
}

impl RocksDb {
    /// Flushes each file of `data` to level 0, and brings all blocks into the cache.
    pub(super) fn build(data: &Data, directory: &Path, filter: &'static str) -> Result<Box<dyn Engine>> {
        // A family named without options would get RocksDB's defaults, not the database's options.
        let db = DB::open_cf_with_opts(&options(filter), directory, [(FAMILY, options(filter))])?;
        for file in 0..data.scenario.files {
            write_file(&db, data, file)?;
        }
        let files = files_at(&db, 0)?;
        ensure!(files == data.scenario.files, "RocksDB has {files} files at level 0, not {}", data.scenario.files);
        // A full scan loads all blocks into the cache before the clock starts.
        for entry in db.iterator(IteratorMode::Start) {
            entry?;
        }
        Ok(Box::new(Self { filter, db, read: ReadOptions::default() }))
    }
}

fn options(filter: &str) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table_options(filter));
    // No engine here compresses: the figures are about filters, not codecs.
    options.set_compression_type(DBCompressionType::None);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    // No limit: a reopened table would read its index and filter again.
    options.set_max_open_files(-1);
    // Level 0 must keep every file: the scenario is a lookup over overlapping files.
    options.set_disable_auto_compactions(true);
    // Without compactions, writes would stop when level 0 reaches RocksDB's defaults.
    options.set_level_zero_slowdown_writes_trigger(MANY_FILES);
    options.set_level_zero_stop_writes_trigger(MANY_FILES);
    options
}

fn table_options(filter: &str) -> BlockBasedOptions {
    let mut options = BlockBasedOptions::default();
    options.set_format_version(FORMAT_VERSION);
    options.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
    // The open tables then hold index and filter, which is faster than a lookup in the cache.
    options.set_cache_index_and_filter_blocks(false);
    match filter {
        BLOOM => options.set_bloom_filter(10.0, false),
        RIBBON => options.set_ribbon_filter(10.0),
        _ => {}
    }
    options
}

fn write_file(db: &DB, data: &Data, file: usize) -> Result<()> {
    let mut write = WriteOptions::default();
    // Each file is flushed at once, so a log would only slow down the setup.
    write.disable_wal(true);
    let mut batch = WriteBatch::default();
    for (key, value) in data.entries(file) {
        batch.put(key, value);
        if batch.len() == ENTRIES_PER_WRITE {
            db.write_opt(std::mem::take(&mut batch), &write)?;
        }
    }
    db.write_opt(batch, &write)?;
    Ok(db.flush()?)
}

fn files_at(db: &DB, level: usize) -> Result<usize> {
    let text = db.property_value(properties::num_files_at_level(level))?;
    Ok(text.context("RocksDB does not say how many files a level has")?.parse()?)
}

impl Engine for RocksDb {
    fn label(&self) -> (&'static str, &'static str) {
        ("RocksDB", self.filter)
    }

    fn shape(&self) -> Result<String> {
        Ok(format!("files at level 0: {}", files_at(&self.db, 0)?))
    }

    fn get_each(&mut self, keys: &[&[u8]]) -> Result<usize> {
        let mut found = 0;
        for key in keys {
            // Pinned, so that the value is not copied.
            found += usize::from(self.db.get_pinned_opt(key, &self.read)?.is_some());
        }
        Ok(found)
    }

    fn has_multi_get(&self) -> bool {
        true
    }

    fn multi_get(&mut self, keys: &[&[u8]]) -> Result<usize> {
        let family = self.db.cf_handle(FAMILY).context("RocksDB has no default column family")?;
        let mut found = 0;
        // The batches are sorted; RocksDB would sort them again otherwise.
        let is_sorted = true;
        for value in self.db.batched_multi_get_cf_opt(family, keys.iter().copied(), is_sorted, &self.read) {
            found += usize::from(value?.is_some());
        }
        Ok(found)
    }
}
