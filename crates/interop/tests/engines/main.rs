//! A filter that is read almost like its engine reads it: with one wrong hash branch for keys of nine bytes, one wrong
//! rounding of a partition's bounds, or another format version's rule. Nine of ten answers are then right, a unit test
//! of the formula passes, and a stored key is lost in production. So these tests compare with the engines: RocksDB,
//! LevelDB or Pebble wrote each table, and each answer for 100,000 absent keys is compared with the engine's own
//! (`crates/interop/fixtures/README.md`).

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]
#![expect(clippy::big_endian_bytes, reason = "keys that sort as their numbers do")]

mod agreement;
mod coverage;
mod databases;
#[path = "../../../../tests/common/effort.rs"]
mod effort;
mod fixture;
mod leveldb;
mod pebble;
mod rocksdb;
