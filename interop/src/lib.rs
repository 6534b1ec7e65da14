//! Reads the filters of RocksDB, LevelDB and Pebble tables.

#![forbid(unsafe_code)]

mod error;

pub use error::{Error, Part};
