//! sstfilter's own tables and table set, with a block cache, or without one, so that they read and check each block
//! again.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use sstfilter::kind::RibbonKind;
use sstfilter::{BitsPerKey, FilterPolicy, FixedPolicy};
use sstfilter_table::{BoundedBlockCache, Table, TableOptions, TableSet, TableWriter};

use super::{Engine, OURS, RIBBON};
use crate::data::Data;

/// Tables in files.
pub(super) struct Ours {
    name: &'static str,
    filter: &'static str,
    set: TableSet,
}

impl Ours {
    /// Writes a table per file of `data`, and opens them.
    pub(super) fn build(
        data: &Data,
        directory: &Path,
        name: &'static str,
        filter: &'static str,
    ) -> Result<Box<dyn Engine>> {
        let reading = TableOptions::default();
        let reading =
            if name == OURS { reading.with_block_cache(Arc::new(BoundedBlockCache::new(1 << 30))) } else { reading };
        let policy: Arc<dyn FilterPolicy> = match filter {
            // RocksDB's Ribbon of 10 also has the rate of its Bloom filter of 10 bits per key.
            RIBBON => Arc::new(FixedPolicy::from(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN)?)),
            _ => Arc::new(FixedPolicy::default()),
        };
        let options = TableOptions::default().with_policy(policy);
        let tables = (0..data.scenario.files).map(|file| {
            let path = directory.join(format!("{file:06}.sst"));
            let mut writer = TableWriter::create(&path, &options)?;
            for (key, value) in data.entries(file) {
                writer.add(key.as_bytes(), &value)?;
            }
            writer.finish()?;
            Ok(Table::open(&path, &reading)?)
        });
        let tables = tables.collect::<Result<Vec<Table>>>()?;
        Ok(Box::new(Self { name, filter, set: TableSet::new(tables) }))
    }
}

impl Engine for Ours {
    fn label(&self) -> (&'static str, &'static str) {
        (self.name, self.filter)
    }

    fn shape(&self) -> Result<String> {
        Ok(format!("tables in the set: {}", self.set.snapshot().tables(0).count()))
    }

    fn negatives<'a>(&self, keys: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
        let snapshot = self.set.snapshot();
        let is_negative = |key: &&&[u8]| snapshot.view().candidates(key).next_file().is_none();
        Some(keys.iter().filter(is_negative).copied().collect())
    }

    fn get_each(&mut self, keys: &[&[u8]]) -> Result<usize> {
        let mut found = 0;
        for key in keys {
            found += usize::from(self.set.get(key)?.is_some());
        }
        Ok(found)
    }

    fn has_multi_get(&self) -> bool {
        true
    }

    fn multi_get(&mut self, keys: &[&[u8]]) -> Result<usize> {
        let mut found = 0;
        for value in self.set.multi_get(keys) {
            found += usize::from(value?.is_some());
        }
        Ok(found)
    }
}
