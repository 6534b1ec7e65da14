//! Tables that RocksDB wrote.

use crate::agreement;

#[test]
fn no_key_that_rocksdb_stored_is_absent() {
    agreement::no_stored_key_is_absent("rocksdb");
}

// promise: other-engines
#[test]
fn absent_keys_get_the_answers_of_rocksdb() {
    agreement::absent_keys_get_the_engines_answers("rocksdb");
}

#[test]
fn tables_of_rocksdb_are_described_and_listed_as_they_were_written() {
    agreement::tables_are_read_as_they_were_written("rocksdb");
}

#[test]
fn prefixes_get_the_answers_of_rocksdb() {
    agreement::prefixes_get_the_engines_answers("rocksdb");
}
