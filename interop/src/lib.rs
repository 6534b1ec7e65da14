//! Reads the filters of RocksDB, LevelDB and Pebble tables.

#![forbid(unsafe_code)]

mod compression;
mod error;
mod filter;
mod format;
mod hash;
mod table;

pub use error::{Error, Part};
pub use filter::{Filter, FilterKind, LevelDbFilterBlock, LevelDbFilterBlockBuilder, build_leveldb_bloom};
pub use format::checksum::ChecksumType;
pub use format::footer::{Engine, MAX_FOOTER_BYTES, recognize};
pub use format::handle::BlockHandle;
pub use format::properties::{Properties, PropertyValue};
pub use hash::HashFunction;
pub use table::{
    BatchAnswer, BatchAnswers, BlockReport, BlockState, Coverage, FilterInfo, FilterUnit, KeyBatch, Probe, Table,
    UnitBytes, UserKeys, VerifyReport,
};
