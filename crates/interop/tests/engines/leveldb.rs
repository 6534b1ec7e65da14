//! Tables that LevelDB wrote.

use crate::agreement;

#[test]
fn no_key_that_leveldb_stored_is_absent() {
    agreement::no_stored_key_is_absent("leveldb");
}

// promise: other-engines
#[test]
fn absent_keys_get_the_answers_of_leveldb() {
    agreement::absent_keys_get_the_engines_answers("leveldb");
}

#[test]
fn leveldb_tables_of_unknown_rules_are_unusable() {
    agreement::unknown_rules_are_unusable("leveldb");
}

#[test]
fn leveldb_tables_are_what_was_asked_for() {
    agreement::tables_are_what_was_asked_for("leveldb");
}

#[test]
fn listed_keys_are_those_that_leveldb_stored() {
    agreement::user_keys_are_the_stored_ones("leveldb");
}
