//! The tables of `crates/interop/fixtures`, with their entries in the manifest.

use std::path::PathBuf;

use bytes::Bytes;
use serde::Deserialize;
use sstfilter::RandomAccess;
use sstfilter_interop::ForeignTable;

/// A line of the manifest, with the fields that these tests need.
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

/// All tables of RocksDB and LevelDB, but for those whose policies are not known.
pub(crate) fn all() -> Vec<Fixture> {
    let manifest = std::fs::read_to_string(directory().join("manifest.json")).expect("the manifest");
    let fixtures: Vec<Fixture> = serde_json::from_str(&manifest).expect("the manifest");
    let read_here: Vec<_> = fixtures
        .into_iter()
        .filter(|fixture| fixture.engine != "pebble" && !fixture.file.contains("own-name"))
        .collect();
    assert!(read_here.len() > 150, "{} tables", read_here.len());
    read_here
}

impl Fixture {
    pub(crate) fn bytes(&self) -> Bytes {
        std::fs::read(directory().join(&self.file)).expect("a table").into()
    }

    pub(crate) fn open(&self) -> ForeignTable<Bytes> {
        let table = ForeignTable::open(self.bytes()).unwrap_or_else(|error| panic!("{}: {error}", self.file));
        self.stated(table)
    }

    /// Returns the table with its comparator stated, if the table does not name it.
    pub(crate) fn stated<R: RandomAccess>(&self, table: ForeignTable<R>) -> ForeignTable<R> {
        table.with_comparator(&self.comparator).with_unchecked_filter()
    }

    /// Returns whether the order of its keys is known.
    pub(crate) fn has_known_order(&self) -> bool {
        !self.comparator.starts_with("fixtures.")
    }

    /// Returns whether it has a filter, a known order, and keys that can be listed.
    pub(crate) fn has_usable_filter(&self) -> bool {
        self.filter != "none" && self.has_known_order() && self.has_known_codec()
    }

    /// Returns whether its data blocks can be decompressed: not with bzip2, and not with a dictionary.
    pub(crate) fn has_known_codec(&self) -> bool {
        !["bzip2", "lz4_dictionary", "zstd_dictionary"].contains(&self.compression.as_str())
    }
}
