//! The tables of `crates/interop/fixtures`, by what their manifest says of them.

use std::path::PathBuf;

use bytes::Bytes;
use serde::Deserialize;
use sstfilter_interop::RandomAccess;
use sstfilter_interop::Table;

/// A line of the manifest: what these tests need of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Fixture {
    pub(crate) file: String,
    pub(crate) engine: String,
    pub(crate) format_version: u32,
    pub(crate) filter: String,
    pub(crate) layout: String,
    pub(crate) compression: String,
    pub(crate) comparator: String,
    pub(crate) count: u64,
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// All tables of RocksDB and LevelDB.
pub(crate) fn all() -> Vec<Fixture> {
    let manifest = std::fs::read_to_string(directory().join("manifest.json")).expect("the manifest");
    let fixtures: Vec<Fixture> = serde_json::from_str(&manifest).expect("the manifest");
    let read_here: Vec<_> = fixtures.into_iter().filter(|fixture| fixture.engine != "pebble").collect();
    assert!(read_here.len() > 150, "{} tables", read_here.len());
    read_here
}

impl Fixture {
    pub(crate) fn bytes(&self) -> Bytes {
        std::fs::read(directory().join(&self.file)).expect("a table").into()
    }

    pub(crate) fn open(&self) -> Table<Bytes> {
        let table = Table::open(self.bytes()).unwrap_or_else(|error| panic!("{}: {error}", self.file));
        self.stated(table)
    }

    /// The table, with what it does not say of itself.
    pub(crate) fn stated<R: RandomAccess>(&self, table: Table<R>) -> Table<R> {
        table.with_comparator(&self.comparator).with_unchecked_filter()
    }

    /// Its keys' order is one that is known.
    pub(crate) fn has_known_order(&self) -> bool {
        !self.comparator.starts_with("fixtures.")
    }

    /// It has a filter, in an order that is known, and keys that can be listed.
    pub(crate) fn has_usable_filter(&self) -> bool {
        self.filter != "none" && self.has_known_order() && self.has_known_codec()
    }

    /// Its data blocks can be decompressed: by zlib and bzip2 they cannot, nor with a dictionary.
    pub(crate) fn has_known_codec(&self) -> bool {
        !["zlib", "bzip2", "zstd_dictionary"].contains(&self.compression.as_str())
    }
}
