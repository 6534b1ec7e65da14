//! Tables that LevelDB wrote.

use sstfilter::Probe;
use sstfilter_interop::HashFunction;

use crate::{agreement, fixture};

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
fn tables_of_leveldb_are_described_and_listed_as_they_were_written() {
    agreement::tables_are_read_as_they_were_written("leveldb");
}

/// goleveldb and LevelDB before 1.18 share the name of their policy, but read the last bytes of a key with another sign.
// promise: other-engines
#[test]
fn keys_are_found_under_the_old_policy_name_whichever_hash_wrote_them() {
    for engine in ["goleveldb", "leveldb-before-1.18"] {
        agreement::no_stored_key_is_absent(engine);
        agreement::user_keys_are_the_stored_ones(engine);
        for fixture in fixture::of_engine(engine) {
            let (table, mut negatives) = (fixture.open(), 0);
            for (key, may_be_present) in fixture.absent(1).zip(fixture.answers()) {
                let may_contain = table.probe(&key) == Probe::MaybePresent;
                let hashes = [HashFunction::LevelDbBloomHash, HashFunction::RocksDbBloomHash];
                let [unsigned, signed] = hashes.map(|function| function.hash(&key));
                assert!(may_contain || !may_be_present, "{engine}: {}", key.escape_ascii());
                assert!(may_contain == may_be_present || signed != unsigned, "{engine}: {}", key.escape_ascii());
                negatives += u32::from(!may_contain);
            }
            assert!(negatives > 95_000, "{engine}: {negatives}");
        }
    }
}
