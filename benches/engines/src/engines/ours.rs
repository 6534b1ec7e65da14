//! sstfilter's own tables and table set, with a block cache, or without one, so that they read and check each block
//! again; and with a file map, which lookups probe before the filters.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use sstfilter::kind::RibbonKind;
use sstfilter::{BitsPerKey, FalsePositiveRate, FilterPolicy, FixedPolicy};
use sstfilter_map::MapOptions;
use sstfilter_table::{Table, TableOptions, TableSet, TableWriter};

use super::{Engine, OURS_MAPPED, OURS_UNCACHED, RIBBON};
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
        let mut reading = TableOptions::default();
        if name != OURS_UNCACHED {
            reading = reading.with_block_cache(1 << 30);
        }
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
        let set = TableSet::new((0..).zip(tables.collect::<Result<Vec<Table>>>()?))?;
        if name == OURS_MAPPED {
            set.update_map(MapOptions::for_entries(data.scenario.keys() as u64, FalsePositiveRate::ONE_PERCENT)?)?;
        }
        Ok(Box::new(Self { name, filter, set }))
    }
}

impl Engine for Ours {
    fn label(&self) -> (&'static str, &'static str) {
        (self.name, self.filter)
    }

    fn shape(&self) -> Result<String> {
        let (snapshot, mut shape) = (self.set.snapshot(), String::new());
        let (tables, view) = (snapshot.tables(0).count(), snapshot.view());
        write!(shape, "tables in the set: {tables}")?;
        if view.maps().next().is_some() {
            write!(shape, ", in a file map: {}", tables - view.uncovered_files().count())?;
        }
        Ok(shape)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Scenario;
    use crate::engines::{BLOOM, OURS};

    #[test]
    fn only_the_engine_with_a_map_has_one_and_it_covers_all_tables() {
        let data = Data::new(Scenario::new(5, 40), 32);
        for (name, expected) in
            [(OURS, "tables in the set: 5"), (OURS_MAPPED, "tables in the set: 5, in a file map: 5")]
        {
            let directory = tempfile::tempdir().unwrap();
            let engine = Ours::build(&data, directory.path(), name, BLOOM).unwrap();
            assert_eq!(engine.shape().unwrap(), expected);
        }
    }
}
