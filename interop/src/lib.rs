//! Reads the filters of RocksDB, LevelDB and Pebble tables.

#![forbid(unsafe_code)]

mod error;
mod filter;
mod hash;

pub use error::{Error, Part};
pub use filter::{Filter, FilterKind, LevelDbFilterBlock, LevelDbFilterBlockBuilder, build_leveldb_bloom};
pub use hash::HashFunction;
