//! LevelDB, in its Rust port.
//!
//! It merges level 0 as soon as four files are there, which cannot be turned off. So the files are written one by one,
//! each flushed, and measured in the resulting layout: a lookup then reads few files.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};
use rusty_leveldb::{BloomPolicy, DB, LdbIterator, Options, WriteBatch};

use super::{BLOOM, CACHE_BYTES, Engine};
use crate::data::Data;

/// More than the data of any scenario's file.
const WRITE_BUFFER_BYTES: usize = 1 << 30;
const ENTRIES_PER_WRITE: u32 = 1_000;
/// A range behind all keys.
const NOTHING: (&[u8], &[u8]) = (b"x", b"y");

/// An open database.
pub(super) struct LevelDb {
    db: DB,
    path: Box<Path>,
}

impl LevelDb {
    /// Writes each file of `data` and flushes it, and brings all blocks into the cache.
    pub(super) fn build(data: &Data, directory: &Path) -> Result<Box<dyn Engine>> {
        let mut options = Options {
            write_buffer_size: WRITE_BUFFER_BYTES,
            block_cache_capacity_bytes: CACHE_BYTES,
            filter_policy: Rc::new(Box::new(BloomPolicy::new(10))),
            ..Options::default()
        };
        // The scenario of one file must stay one file; the default splits tables.
        if data.scenario.files == 1 {
            options.max_file_size = WRITE_BUFFER_BYTES;
        }
        let mut db = DB::open(directory, options)?;
        for file in 0..data.scenario.files {
            write_file(&mut db, data, file)?;
        }
        // A full scan loads all blocks into the cache before the clock starts.
        let mut entries = db.new_iter()?;
        while entries.advance() {}
        Ok(Box::new(Self { db, path: directory.into() }))
    }
}

fn write_file(db: &mut DB, data: &Data, file: usize) -> Result<()> {
    let mut batch = WriteBatch::default();
    for (key, value) in data.entries(file) {
        batch.put(key.as_bytes(), &value);
        if batch.count() == ENTRIES_PER_WRITE {
            db.write(std::mem::take(&mut batch), false)?;
        }
    }
    db.write(batch, false)?;
    // A compaction of any range flushes the memtable first.
    Ok(db.compact_range(NOTHING.0, NOTHING.1)?)
}

impl Engine for LevelDb {
    fn label(&self) -> (&'static str, &'static str) {
        ("rusty-leveldb", BLOOM)
    }

    fn shape(&self) -> Result<String> {
        let files = fs::read_dir(&self.path).with_context(|| format!("listing {}", self.path.display()))?;
        let is_table = |name: &Path| name.extension().is_some_and(|extension| extension == "ldb");
        let tables = files.flatten().filter(|file| is_table(&file.path())).count();
        Ok(format!("tables after its own compaction: {tables}"))
    }

    fn get_each(&mut self, keys: &[&[u8]]) -> Result<usize> {
        Ok(keys.iter().filter(|key| self.db.get(key).is_some()).count())
    }
}
