//! Migration stores blocks under a name whose policy reads filters by its own rules. If that policy reads a block as
//! its own filter, a rolled-back program loses keys. If this package reads a block as an old filter, the new program
//! loses keys.

use std::sync::Arc;

use sstfilter_surrealkv::{MigrationError, SstFilterPolicy};
use surrealkv::FilterPolicy;

use crate::store::{Store, engine_bloom, engine_ribbon, key, migrating, options, policy, runtime};

const KEYS: usize = 4_000;

fn old_policies() -> [Arc<dyn FilterPolicy>; 2] {
    [engine_bloom(), engine_ribbon()]
}

#[test]
fn there_and_back_again_no_key_is_lost_and_old_filters_stay_in_use() {
    let runtime = runtime();
    for old in old_policies() {
        let folder = tempfile::tempdir().unwrap();
        let own = migrating(Arc::clone(&old));
        let counters = own.counters();
        let (old, own) = (Some(old), policy(own));

        let store = Store::open(&runtime, options(folder.path()), old.clone());
        store.put((0..KEYS).map(key));
        store.flush();
        store.close();

        let store = Store::open(&runtime, options(folder.path()), own.clone());
        assert_eq!(store.lost((0..KEYS).map(key)), 0);
        assert_eq!(store.lost((KEYS..2 * KEYS).map(key)), KEYS);
        let counts = counters.snapshot();
        assert_eq!((counts.old_positives >= KEYS as u64, counts.positives), (true, 0), "{counts:?}");
        absent_keys_are_mostly_negative(&store);
        assert!(counters.snapshot().old_negatives > 3_500);
        store.put((KEYS..2 * KEYS).map(key));
        store.flush();
        assert_eq!(store.lost((0..2 * KEYS).map(key)), 0);
        assert!(counters.snapshot().positives >= KEYS as u64);
        store.close();

        // The program is rolled back.
        let store = Store::open(&runtime, options(folder.path()), old.clone());
        assert_eq!(store.lost((0..2 * KEYS).map(key)), 0);
        store.put((2 * KEYS..3 * KEYS).map(key));
        store.flush();
        assert_eq!(store.lost((0..3 * KEYS).map(key)), 0);
        store.close();

        let store = Store::open(&runtime, options(folder.path()), own);
        assert_eq!(store.lost((0..3 * KEYS).map(key)), 0);
        store.compact();
        assert_eq!(store.lost((0..3 * KEYS).map(key)), 0);
        let before = counters.snapshot();
        absent_keys_are_mostly_negative(&store);
        let after = counters.snapshot();
        assert_eq!(after.old_negatives, before.old_negatives, "no old filter is left");
        assert!(after.negatives > before.negatives + 3_500);
        assert_eq!(after.unusable.total(), 0);
        store.close();

        let store = Store::open(&runtime, options(folder.path()), old);
        assert_eq!(store.lost((0..3 * KEYS).map(key)), 0);
        store.compact();
        assert_eq!(store.lost((0..3 * KEYS).map(key)), 0);
        store.close();
    }
}

fn absent_keys_are_mostly_negative(store: &Store<'_>) {
    (0..KEYS).for_each(|number| assert_eq!(store.get(&[key(number), vec![1]].concat()), None));
}

#[test]
fn the_old_policies_take_every_block_for_may_contain() {
    for old in old_policies() {
        for own in [SstFilterPolicy::bloom(), SstFilterPolicy::ribbon()] {
            let own = own.migrating_from(Arc::clone(&old)).unwrap();
            for count in [1, 2, 7, 60, 1_023, 1_024, 5_000, 20_000] {
                let keys: Vec<Vec<u8>> = (0..count).map(key).collect();
                let filter = own.create_filter(&keys);
                assert!((0..2 * count).all(|number| old.may_contain(&filter, &key(number))), "{count} keys");
            }
        }
    }
}

#[test]
fn filters_of_the_old_policies_are_read_as_they_are() {
    for old in old_policies() {
        let own = migrating(Arc::clone(&old));
        for count in [1, 2, 7, 60, 1_000] {
            let keys: Vec<Vec<u8>> = (0..count).map(key).collect();
            let filter = old.create_filter(&keys);
            let same = |number| own.may_contain(&filter, &key(number)) == old.may_contain(&filter, &key(number));
            assert!((0..2 * count).all(same));
        }
        assert_eq!(own.counters().snapshot().unusable.total(), 0);
    }
}

#[test]
fn what_is_too_short_for_the_old_policy_means_may_contain() {
    for old in old_policies() {
        let own = migrating(Arc::clone(&old));
        let filter = old.create_filter(&[key(0)]);
        // Without the migration, the old policies answer "absent" for such bytes.
        assert!(!old.may_contain(&[], &key(0)) && !old.may_contain(&[6], &key(0)));
        assert!(own.may_contain(&[], &key(0)) && own.may_contain(&[6], &key(0)));
        assert!(own.may_contain(&[0], &key(0)) && own.may_contain(&[255], &key(0)));
        (0..filter.len()).for_each(|length| {
            let mut cut = filter[..length].to_vec();
            cut.push(200);
            assert!(own.may_contain(&cut, &key(0)), "{length}");
        });
        assert!(own.counters().snapshot().unusable.total() >= 4);
    }
}

#[test]
fn a_block_without_the_closing_byte_is_not_read_as_an_old_filter() {
    // About one block in nine ends with a byte that the engine's Bloom filter would read as its number of probes.
    let (own, plain) = (migrating(engine_bloom()), SstFilterPolicy::bloom());
    let mut misread = 0;
    for count in 1..400 {
        let keys: Vec<Vec<u8>> = (0..count).map(key).collect();
        let block = plain.create_filter(&keys);
        assert!(keys.iter().all(|key| own.may_contain(&block, key)));
        misread += usize::from(keys.iter().any(|key| !engine_bloom().may_contain(&block, key)));
    }
    assert!(misread > 10, "the engine's own policy misreads {misread}");
}

#[test]
fn unknown_policies_and_impostors_are_refused() {
    struct Impostor(&'static str);

    impl FilterPolicy for Impostor {
        fn name(&self) -> &str {
            self.0
        }

        fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
            SstFilterPolicy::bloom().may_contain(filter, key) && filter.len() % 2 == key.len() % 2
        }

        fn create_filter(&self, keys: &[Vec<u8>]) -> Vec<u8> {
            SstFilterPolicy::bloom().create_filter(keys)
        }

        fn key_hash(&self, key: &[u8]) -> u64 {
            SstFilterPolicy::bloom().key_hash(key)
        }

        fn create_filter_from_hashes(&self, hashes: &[u64]) -> Vec<u8> {
            SstFilterPolicy::bloom().create_filter_from_hashes(hashes)
        }
    }

    let refusal = |old| SstFilterPolicy::ribbon().migrating_from(old).err();
    let name = "my.Filter";
    assert_eq!(refusal(Arc::new(Impostor(name))), Some(MigrationError::UnknownPolicy { name: name.to_owned() }));
    for name in ["leveldb.BloomFilter", "surrealkv.RibbonFilter"] {
        assert_eq!(refusal(Arc::new(Impostor(name))), Some(MigrationError::NotSafe { name }));
    }
    let own = SstFilterPolicy::ribbon();
    assert!(matches!(refusal(Arc::new(own)), Some(MigrationError::UnknownPolicy { .. })));
    let migrating = migrating(engine_bloom());
    assert_eq!(refusal(Arc::new(migrating)), Some(MigrationError::NotSafe { name: "leveldb.BloomFilter" }));
}
