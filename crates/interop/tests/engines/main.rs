//! A filter that is read almost as its engine reads it: one hash branch for keys of nine bytes, one rounding of a
//! partition's bounds, one format version's rule taken for another's. Nine of ten answers are then right, a unit test
//! of the formula passes, and a stored key is called absent in production. So the engines were asked themselves: each
//! table here was written by RocksDB, LevelDB or Pebble, and each answer on 100,000 absent keys is compared with the
//! one that the engine gave (`crates/interop/fixtures/README.md`).

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]
#![expect(clippy::big_endian_bytes, reason = "keys that sort as their numbers do")]

mod agreement;
mod coverage;
#[path = "../../../../tests/common/effort.rs"]
mod effort;
mod fixture;
mod leveldb;
mod pebble;
mod rocksdb;
