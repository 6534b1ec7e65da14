//! The engines, behind one trait.

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "leveldb")]
mod leveldb;
mod ours;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::data::Data;

/// The engine that the others are compared with.
pub(crate) const OURS: &str = "sstfilter";
/// sstfilter without a block cache.
pub(crate) const OURS_UNCACHED: &str = "sstfilter, no block cache";
/// sstfilter with a file map, and a filter in each table.
pub(crate) const OURS_MAPPED: &str = "sstfilter, file map";

#[cfg(any(test, feature = "fjall", feature = "rocksdb"))]
pub(crate) const NONE: &str = "none";
pub(crate) const BLOOM: &str = "Bloom, 10 bits per key";
pub(crate) const RIBBON: &str = "Ribbon, rate of Bloom 10";

/// The size of each engine's block cache: more than all data.
#[cfg(any(feature = "fjall", feature = "leveldb", feature = "rocksdb"))]
const CACHE_BYTES: usize = 1 << 30;

/// An open store with a scenario's data and warm caches.
pub(crate) trait Engine {
    /// Returns the names of the engine and its filter.
    fn label(&self) -> (&'static str, &'static str);

    /// Describes the engine's layout of the scenario's files.
    fn shape(&self) -> Result<String>;

    /// Returns the `keys` for which all filters of the engine are negative, or `None` if the engine does not expose
    /// that.
    fn negatives<'a>(&self, _keys: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
        None
    }

    /// Gets one key after the other. Returns how many were found.
    fn get_each(&mut self, keys: &[&[u8]]) -> Result<usize>;

    /// Returns whether the engine can get many keys in one call.
    fn has_multi_get(&self) -> bool {
        false
    }

    /// Gets all keys, ascending, in one call. Returns how many were found.
    fn multi_get(&mut self, keys: &[&[u8]]) -> Result<usize> {
        self.get_each(keys)
    }
}

type Build = fn(&Data, &Path) -> Result<Box<dyn Engine>>;

/// Every engine with every filter.
const BUILDS: &[Build] = &[
    |data, path| ours::Ours::build(data, path, OURS, BLOOM),
    |data, path| ours::Ours::build(data, path, OURS, RIBBON),
    |data, path| ours::Ours::build(data, path, OURS_UNCACHED, BLOOM),
    |data, path| ours::Ours::build(data, path, OURS_MAPPED, BLOOM),
    #[cfg(feature = "rocksdb")]
    |data, path| rocksdb::RocksDb::build(data, path, BLOOM),
    #[cfg(feature = "rocksdb")]
    |data, path| rocksdb::RocksDb::build(data, path, RIBBON),
    #[cfg(feature = "rocksdb")]
    |data, path| rocksdb::RocksDb::build(data, path, NONE),
    #[cfg(feature = "fjall")]
    |data, path| fjall::Fjall::build(data, path, BLOOM),
    #[cfg(feature = "fjall")]
    |data, path| fjall::Fjall::build(data, path, NONE),
    #[cfg(feature = "leveldb")]
    |data, path| leveldb::LevelDb::build(data, path),
];

/// Fills all compiled-in engines, each in its own directory below `directory`.
pub(crate) fn build_all(data: &Data, directory: &Path) -> Result<Vec<Box<dyn Engine>>> {
    let build = |(number, build): (usize, &Build)| {
        let path = directory.join(number.to_string());
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        let engine = build(data, &path)?;
        let (name, filter) = engine.label();
        eprintln!("filled {name} ({filter}): {}", engine.shape()?);
        Ok(engine)
    };
    BUILDS.iter().enumerate().map(build).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{BATCH, Scenario, views};

    #[test]
    fn every_engine_finds_all_present_keys_and_no_absent_one_by_one_and_in_batches() {
        for scenario in [Scenario::new(12, 300), Scenario::new(1, 3_000)] {
            let directory = tempfile::tempdir().unwrap();
            let data = Data::new(scenario, 10 * BATCH);
            for mut engine in build_all(&data, directory.path()).unwrap() {
                for (queries, expected) in [(&data.absent, 0), (&data.present, 10 * BATCH)] {
                    let mut keys = views(queries);
                    assert_eq!(engine.get_each(&keys).unwrap(), expected, "{:?}", engine.label());
                    keys.chunks_mut(BATCH).for_each(<[&[u8]]>::sort_unstable);
                    let found: usize = keys.chunks(BATCH).map(|batch| engine.multi_get(batch).unwrap()).sum();
                    assert_eq!(found, expected, "{:?}", engine.label());
                }
                let negatives = engine.negatives(&views(&data.present));
                assert!(negatives.is_none_or(|keys| keys.is_empty()), "{:?}", engine.label());
            }
        }
    }
}
