//! Reads the filters of tables that RocksDB, LevelDB and Pebble wrote.
//!
//! # Tables
//!
//! [`ForeignTable::open`] recognizes an engine's table by its last bytes, and reads its footer, metaindex and
//! properties. [`ForeignTable::probe`] then probes the filter for a user key. It returns
//! [`Probe::Absent`](sstfilter::Probe::Absent) only if the engine itself would not search the table, every checksum on
//! the way holds, and all options of the table are known. If the filter cannot be used, the answer is
//! [`Probe::Unusable`](sstfilter::Probe::Unusable), and [`ForeignTable::try_probe`] returns the reason.
//!
//! ```
//! use sstfilter::Probe;
//! use sstfilter_interop::{Engine, ForeignTable};
//!
//! let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/rocksdb/11.8-ribbon-fv7.sst");
//! let table = ForeignTable::open(std::fs::File::open(path)?)?;
//! assert_eq!((table.engine(), table.format_version()), (Engine::RocksDb, 7));
//!
//! let first = table.user_keys().next().transpose()?.unwrap_or_default();
//! assert_eq!(table.probe(&first), Probe::MaybePresent);
//! assert_eq!(table.probe(b"a stranger"), Probe::Absent);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Many keys, many tables
//!
//! [`ForeignTable::probe_batch`] takes a [`KeyBatch`], whose keys are hashed and sorted once for all tables.
//! [`ForeignTable::load_filter`] reads a filter into memory in advance. Threads share tables by reference.
//!
//! ```
//! use sstfilter::Probe;
//! use sstfilter_interop::{KeyBatch, ForeignTable};
//!
//! let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/rocksdb/");
//! let keys = KeyBatch::new([b"00000000".as_slice(), b"one", b"two"]);
//! for file in ["11.8-bloom-fv5.sst", "11.8-bloom-fv7.sst"] {
//!     let table = ForeignTable::open(std::fs::File::open(format!("{folder}{file}"))?)?;
//!     let answers = table.probe_batch(&keys);
//!     assert_eq!(answers.answers[0], Probe::MaybePresent);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Bare filters
//!
//! [`Filter`] opens the bytes of one filter, without the table around it; [`HashFunction`] computes the hashes that
//! probe it. [`LevelDbFilterBlockBuilder`] writes LevelDB's filter blocks, byte for byte.
//!
//! # Damage
//!
//! [`ForeignTable::verify`] compares every checksum and probes the filter for every stored key. FORMATS.md, next to
//! this crate's README, describes all bytes and the effects of damage to them.
//!
//! # Features
//!
//! `snappy`, `zlib`, `lz4` and `zstd` decompress data blocks, for [`ForeignTable::user_keys`] and the keys in
//! [`ForeignTable::verify`]. LevelDB may compress its index by Snappy or Zstandard; without the feature, such a table's
//! filter is unusable. All features are on by default. Filters are never compressed.

#![forbid(unsafe_code)]

mod compression;
mod error;
mod filter;
mod format;
mod hash;
mod manifest;
mod minlz;
mod table;

pub use error::{Error, Part};
pub use filter::{Filter, FilterKind, LevelDbFilterBlock, LevelDbFilterBlockBuilder, build_leveldb_bloom};
pub use format::checksum::ChecksumType;
pub use format::footer::{Engine, MAX_FOOTER_BYTES, recognize};
pub use format::handle::BlockHandle;
pub use format::properties::{Properties, PropertyValue};
pub use hash::HashFunction;
pub use manifest::{ColumnFamily, Manifest, ManifestFile};
pub use table::{
    BatchAnswers, BlockReport, BlockState, Coverage, FilterInfo, FilterUnit, ForeignReport, ForeignTable, KeyBatch,
    KeyCoverage, TableBounds, UnitBytes, UserKeys,
};

/// Displays values by the names that their method `name` returns.
macro_rules! display_by_name {
    ($($type:ty),+) => {
        $(impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        })+
    };
}

display_by_name!(Part, ChecksumType, Engine, FilterKind, HashFunction);

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
