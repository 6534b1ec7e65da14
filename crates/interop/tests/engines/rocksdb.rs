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
fn rocksdb_tables_of_unknown_rules_are_unusable() {
    agreement::unknown_rules_are_unusable("rocksdb");
}

#[test]
fn rocksdb_tables_are_what_was_asked_for() {
    agreement::tables_are_what_was_asked_for("rocksdb");
}

#[test]
fn listed_keys_are_those_that_rocksdb_stored() {
    agreement::user_keys_are_the_stored_ones("rocksdb");
}

#[test]
fn prefixes_get_the_answers_of_rocksdb() {
    agreement::prefixes_get_the_engines_answers("rocksdb");
}
