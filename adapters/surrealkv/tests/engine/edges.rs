//! Stores of no keys and of one, the smallest and the largest keys, and seeds that change between runs. Filters of one
//! key have one line; filters of a lost seed are useless, but must not be wrong.

use sstfilter::KeyHasher;
use sstfilter_surrealkv::SstFilterPolicy;

use crate::store::{
    Policy, Store, custom_hasher, engine_bloom, engine_ribbon, key, migrating, options, policy, runtime,
};

fn every_policy() -> Vec<Policy> {
    vec![
        policy(SstFilterPolicy::bloom()),
        policy(SstFilterPolicy::ribbon()),
        policy(migrating(engine_bloom())),
        policy(migrating(engine_ribbon())),
    ]
}

#[test]
fn a_store_of_no_key_or_one_answers_right() {
    let runtime = runtime();
    for policy in every_policy() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&runtime, options(folder.path()), policy.clone());
        store.flush();
        assert_eq!(store.get(b"a"), None);
        store.put([b"a".to_vec()]);
        store.flush();
        assert_eq!((store.get(b"a"), store.get(b"b")), (Some(b"a".to_vec()), None));
        store.write([(b"a".to_vec(), None)]);
        store.compact();
        assert_eq!(store.get(b"a"), None);
        store.close();
    }
}

#[test]
fn keys_of_one_byte_and_of_64_kib_are_found_and_empty_keys_are_the_engines_to_refuse() {
    let runtime = runtime();
    for policy in every_policy() {
        let keys: Vec<Vec<u8>> =
            (0..=255).map(|byte| vec![byte]).chain((0..20).map(|byte| vec![byte; 65_536])).collect();
        let filter = policy.as_ref().unwrap().create_filter(&[Vec::new()]);
        assert!(policy.as_ref().unwrap().may_contain(&filter, b""), "the policy itself takes an empty key");
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&runtime, options(folder.path()), policy.clone());
        store.put(keys.clone());
        store.flush();
        assert_eq!(store.lost(keys.clone()), 0);
        store.close();
        let store = Store::open(&runtime, options(folder.path()), policy);
        store.compact();
        assert_eq!(store.lost(keys.clone()), 0);
        assert_eq!(store.get(&vec![99; 65_536]), None);
        store.close();
    }
}

#[test]
fn secret_and_custom_hashes_work_and_a_changed_one_loses_no_key() {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let hashers =
        [KeyHasher::default(), KeyHasher::with_secret_seed(9), KeyHasher::with_secret_seed(10), custom_hasher()];
    for (round, hasher) in hashers.iter().enumerate() {
        let own = SstFilterPolicy::ribbon().with_hasher(hasher.clone());
        let counters = own.counters();
        let store = Store::open(&runtime, options(folder.path()), policy(own));
        let (old, new) = (0..round * 3_000, round * 3_000..(round + 1) * 3_000);
        assert_eq!(store.lost(old.map(key)), 0, "filters of other hashes are not used");
        assert_eq!(counters.snapshot().positives, 0);
        store.put(new.clone().map(key));
        store.flush();
        assert_eq!(store.lost(new.clone().map(key)), 0);
        new.clone().for_each(|number| assert_eq!(store.get(&[key(number), vec![1]].concat()), None));
        let counts = counters.snapshot();
        assert!(counts.positives >= 3_000 && counts.negatives > 2_500, "{counts:?}");
        store.close();
    }
}

#[test]
fn under_one_name_a_changed_seed_loses_no_key() {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    for (round, seed) in [1, 2, 1].into_iter().enumerate() {
        // Migration keeps the name, whatever the hash.
        let own = migrating(engine_bloom()).with_hasher(KeyHasher::with_seed(seed));
        let counters = own.counters();
        let store = Store::open(&runtime, options(folder.path()), policy(own));
        store.put((round * 1_000..(round + 1) * 1_000).map(key));
        store.flush();
        assert_eq!(store.lost((0..(round + 1) * 1_000).map(key)), 0);
        let counts = counters.snapshot();
        assert_eq!(counts.unusable.other_hash > 0, round > 0, "{counts:?}");
        assert_eq!(counts.unusable.total(), counts.unusable.other_hash);
        store.close();
    }
}
