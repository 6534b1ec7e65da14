//! Hashes and extractors that are not the writer's although they seem so, and readers that insist on the right ones. The
//! failures guarded against: a store is opened with a wrong secret or a changed function, and present keys read as
//! absent; or nothing fails, and every lookup reads every table. `matrix` covers hashes of other identities.

use std::collections::HashMap;

use bytes::Bytes;
use sstfilter::{BlockError, BuildContext, KeyHash, KeyHasher, SecretSeed};
use sstfilter_store::FilterProblem;
use sstfilter_table::{FilterVerdict, Table, TableError, TableOptions, TablePart, TableSet};

use crate::callers::Extractor;
use crate::{Entries, assert_holds, bytes_of, of_keys, open};

const KEYS: u32 = 2_000;

fn name(key: u32) -> Vec<u8> {
    format!("user:{key:06}").into_bytes()
}

fn entries() -> Entries {
    of_keys((0..KEYS).map(name))
}

/// Builds a table of the keys with all numbers below [`KEYS`].
fn table(hasher: &KeyHasher) -> Bytes {
    bytes_of(&entries(), &TableOptions::default().with_context(BuildContext::new(hasher)))
}

fn reading(hasher: &KeyHasher) -> TableOptions {
    TableOptions::default().with_hasher(hasher.clone())
}

/// Asserts that a set of these tables finds all keys, and returns it.
fn set_with_all(tables: impl Into<Vec<Table>>) -> TableSet {
    let set = crate::set_of(tables.into());
    assert!((0..KEYS).all(|key| set.get(&name(key)).unwrap().is_some()));
    set
}

/// Returns two seeds with the same fingerprint: among 2^17 seeds, about two have one.
fn seeds_with_one_fingerprint() -> [SecretSeed; 2] {
    let mut seen = HashMap::new();
    (0..1_u64 << 20)
        .find_map(|seed| seen.insert(SecretSeed::from(seed).fingerprint(), seed).map(|other| [seed, other]))
        .unwrap()
        .map(SecretSeed::from)
}

fn is_of_another_hash(error: &TableError) -> bool {
    matches!(error, TableError::Filter { source: FilterProblem::Block(BlockError::HashMismatch { .. }), .. })
}

#[test]
fn a_strict_reader_refuses_a_filter_of_another_hash_and_takes_its_own_and_damaged_ones() {
    let (hasher, seed) = KeyHasher::random_secret().unwrap();
    let (other, _) = KeyHasher::random_secret().unwrap();
    let bytes = table(&hasher);
    for wrong in [reading(&other), TableOptions::default(), reading(&KeyHasher::with_seed(7))] {
        let refused = Table::open_source(bytes.clone(), &wrong.reject_foreign_filters()).unwrap_err();
        assert!(is_of_another_hash(&refused), "{refused}");
    }
    let again = KeyHasher::with_secret_seed(SecretSeed::from_bytes(seed.to_bytes()));
    let strict = reading(&again).reject_foreign_filters();
    let table = open(&bytes, &strict);
    assert!(table.filter_problem().is_none());
    assert_holds(&table, &entries(), "lookups");

    let mut damaged = bytes.to_vec();
    damaged[usize::try_from(table.region(TablePart::Filter).unwrap().start).unwrap()] ^= 1;
    let table = open(&damaged.into(), &strict);
    let problem = table.filter_problem().unwrap();
    assert!(matches!(&problem, TableError::Filter { .. }) && !problem.is_foreign_filter(), "{problem}");
    assert_holds(&table, &entries(), "lookups");
}

#[test]
fn a_filter_of_another_secret_says_both_fingerprints() {
    let [built, other] = [42, 43].map(SecretSeed::from);
    let table = open(
        &table(&KeyHasher::with_secret_seed(built.clone())),
        &reading(&KeyHasher::with_secret_seed(other.clone())),
    );
    let [built, other] = [built, other].map(|seed| format!("{:#010x}", seed.fingerprint()));
    let FilterVerdict::NotProbed { reason } = table.verify().unwrap().filter else { panic!("it was probed") };
    for text in [table.filter_problem().unwrap().to_string(), reason] {
        assert!(text.contains(&built) && text.contains(&other), "{text}");
    }
}

#[test]
fn a_strict_set_refuses_a_table_of_another_seed_than_its_newest() {
    let directory = tempfile::tempdir().unwrap();
    let paths = [1, 2].map(|seed| {
        let path = directory.path().join(format!("{seed}.sst"));
        std::fs::write(&path, table(&KeyHasher::with_seed(seed))).unwrap();
        path
    });
    let strict = TableOptions::default().reject_foreign_filters();
    assert!(TableSet::open((0..).zip(paths.iter().rev()), &TableOptions::default()).is_ok());
    let refused = TableSet::open((0..).zip(paths.iter().rev()), &strict).unwrap_err();
    assert!(is_of_another_hash(&refused), "{refused}");
    assert!(TableSet::open([(0, &paths[0])], &strict).is_ok());
}

/// One wrong secret in 2^32 has the right one's fingerprint.
// promise: no-false-negatives
// misuse: same-fingerprint
#[test]
fn a_wrong_secret_with_the_right_fingerprint_denies_nothing() {
    let [built, wrong] = seeds_with_one_fingerprint().map(KeyHasher::with_secret_seed);
    assert_eq!(built.identity(), wrong.identity());
    let bytes = table(&built);

    let table = open(&bytes, &reading(&wrong));
    assert_is_found_out(&table, "another secret");
    assert_holds(&table, &entries(), "lookups");
    assert!(table.filter_problem().unwrap().is_foreign_filter());
    assert!(matches!(table.verify().unwrap().filter, FilterVerdict::NotProbed { .. }));
    assert!(Table::open_source(bytes.clone(), &reading(&wrong).reject_foreign_filters()).is_err());

    let set = set_with_all([table]);
    assert!(crate::tables_of(&set)[0].filter_problem().is_some());
    // The set does not probe the older table's filter with the newest table's hasher, although both have the same
    // identity.
    let set = set_with_all([&wrong, &built].map(|hasher| open(&self::table(&built), &reading(hasher))));
    let tables = crate::tables_of(&set);
    assert!(tables[0].filter_problem().is_some() && tables[1].filter_problem().is_none());
}

/// A hash function whose tag never changes.
fn function(seed: u64) -> KeyHasher {
    KeyHasher::custom(1, move |key| {
        let number = key.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
        KeyHash::mix(number.rotate_left(8) ^ seed << 40)
    })
}

/// One bound with its old hash proves nothing: the table must check both.
// promise: no-false-negatives
// misuse: changed-hash
#[test]
fn a_changed_function_is_found_out_by_either_bound_where_the_other_has_its_old_hash() {
    let bytes = table(&function(1));
    let built = open(&bytes, &reading(&function(1)));
    let filter = built.filters().block().unwrap();
    let (smallest, largest) = (name(0), name(KEYS - 1));
    for (same, differing) in [(&smallest, &largest), (&largest, &smallest)] {
        let denies = |seed: &u64| !filter.may_contain(function(*seed).hash(differing));
        let (before, after) = (function(1), function((2..100).find(denies).unwrap()));
        let kept = same.clone();
        let changed = KeyHasher::custom(1, move |key| if key == kept { before.hash(key) } else { after.hash(key) });
        assert_eq!(changed.identity(), function(1).identity());

        let opened = open(&bytes, &reading(&changed));
        assert_holds(&opened, &entries(), "lookups");
        let set = set_with_all([opened]);
        assert_is_found_out(&crate::tables_of(&set)[0], &differing.escape_ascii().to_string());
        let newest = open(&bytes_of(&Entries::new(), &TableOptions::default()), &reading(&changed));
        let set = set_with_all([newest, open(&bytes, &reading(&function(1)))]);
        assert!(crate::tables_of(&set)[1].filter_problem().is_none(), "it is not probed by the newest's");
    }
}

fn assert_is_found_out(table: &Table, what: &str) {
    let problem = table.filter_problem();
    let is_found_out = matches!(problem, Some(TableError::Filter { source: FilterProblem::ReaderChanged { .. }, .. }));
    assert!(is_found_out, "{what}: {problem:?}");
}

/// Extractors are identified by name. Two different ones with the same name each probe only the filters of their own
/// tables.
#[test]
fn a_set_probes_filters_with_their_own_extractors_even_if_the_names_are_the_same() {
    let set = set_with_all([9, 11].map(|length| {
        let options = TableOptions::default().with_extractor(Extractor::new("prefix", move |key| key.get(..length)));
        open(&bytes_of(&entries(), &options), &options)
    }));
    assert!(crate::tables_of(&set).iter().all(|table| table.filter_problem().is_none()));
}
