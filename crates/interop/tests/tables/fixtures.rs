//! The tables of `crates/interop/fixtures` that these tests read.

use bytes::Bytes;
use sstfilter_interop::ForeignTable;

pub(crate) use crate::fixture::Fixture;

/// All tables of RocksDB and LevelDB, but for those whose policies are not known.
pub(crate) fn all() -> Vec<Fixture> {
    let mut fixtures = crate::fixture::all();
    fixtures.retain(|fixture| fixture.engine != "pebble" && !fixture.file.contains("own-name"));
    assert!(fixtures.len() > 150, "{} tables", fixtures.len());
    fixtures
}

/// Returns the table of this file.
pub(crate) fn named(file: &str) -> Fixture {
    crate::fixture::all().into_iter().find(|fixture| fixture.file == file).unwrap()
}

/// Opens a table without its comparator.
pub(crate) fn opened(file: &str) -> ForeignTable<Bytes> {
    ForeignTable::open(named(file).bytes()).unwrap()
}

impl Fixture {
    /// Returns whether it has a filter, a known order, and keys that can be listed.
    pub(crate) fn has_usable_filter(&self) -> bool {
        self.has_filter() && self.has_known_order() && self.has_known_codec()
    }
}
