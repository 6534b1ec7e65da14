//! A writer is killed between a map and the manifest, a merger between reading and writing, and a reader has a manifest
//! whose maps are deleted. If a file were skipped for a map that does not cover it, its keys would be lost.
//!
//! `cargo test -p sstfilter-distributed --test maps`, larger with `SSTFILTER_LONG=1`. It starts itself again as `server
//! CONFIG`, `map-writer CONFIG`, `map-merger CONFIG` and `map-reader CONFIG`, where `CONFIG` is JSON.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test, of few files")]

mod roles;
mod scenario;

use sstfilter::FalsePositiveRate;
use sstfilter_distributed::cluster::Cluster;
use sstfilter_distributed::maps::{
    Answer, Batch, FILES, File, MAPS, MapRole, Request, View, absent_key, has_key, hash, mix,
};
use sstfilter_distributed::{Error, Result, server};
use sstfilter_map::MapOptions;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", config] => return server::run(serde_json::from_str(config)?).await,
        [role @ ("map-writer" | "map-merger" | "map-reader"), config] => {
            return roles::run(role, serde_json::from_str(config)?).await;
        }
        // Those of the test runner.
        _ => {}
    }
    let size = Size::from_environment();
    let mut cluster = Cluster::start(&std::env::current_exe()?).await?;
    let story = scenario::run(&mut cluster, &size).await?;
    println!("{story:?}");
    assert_eq!(story.kills as u64, 5 * size.rounds);
    assert!(story.merges > 0 && story.lookups > 100 && story.keys > 80 * size.keys);
    assert!(story.missing > 0, "no reader was stale");
    assert!(story.deleted > story.merges, "maps of killed processes are left");
    Ok(())
}

/// The size of the test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Rounds of kills.
    pub(crate) rounds: u64,
    /// Keys of a file.
    pub(crate) keys: u64,
}

impl Size {
    /// Large if `SSTFILTER_LONG` is set, small otherwise.
    #[must_use]
    pub(crate) fn from_environment() -> Self {
        if std::env::var_os("SSTFILTER_LONG").is_some() {
            Self { rounds: 6, keys: 1_000 }
        } else {
            Self { rounds: 1, keys: 100 }
        }
    }

    /// Returns the options of all maps.
    ///
    /// # Errors
    ///
    /// None for the sizes here.
    pub(crate) fn options(files: u64, keys: u64) -> Result<MapOptions> {
        Ok(MapOptions::for_entries(files * keys, FalsePositiveRate::ONE_PERCENT)?)
    }
}
