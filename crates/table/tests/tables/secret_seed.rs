//! Secret hash seeds, and readers with a wrong one. The failures guarded against: a store is opened with a wrong secret
//! after a restore or a configuration change, nothing fails, and every lookup reads every table. Or worse, the wrong
//! secret goes undetected, and present keys read as absent.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{BlockError, BuildContext, FixedPrefix, KeyExtractor, KeyHash, KeyHasher, SecretSeed};
use sstfilter_store::{FilterBudget, FilterProblem};
use sstfilter_table::{
    FilterVerdict, Lookup, Table, TableBuilder, TableError, TableOptions, TablePart, TableSet, TableWriter,
};

const KEYS: u32 = 2_000;

fn name(key: u32) -> Vec<u8> {
    format!("user:{key:06}").into_bytes()
}

/// Builds a table of the keys with all numbers below [`KEYS`].
fn table(hasher: &KeyHasher) -> Bytes {
    let options = TableOptions::default().with_context(BuildContext::new(hasher));
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    (0..KEYS).for_each(|key| builder.add(&name(key), b"value").unwrap());
    Bytes::from(builder.finish().unwrap().0)
}

fn open(bytes: &Bytes, options: &TableOptions) -> Result<Table, TableError> {
    Table::open_source(bytes.clone(), options)
}

fn reading(hasher: &KeyHasher) -> TableOptions {
    TableOptions::default().with_hasher(hasher.clone())
}

fn assert_all_found(table: &Table) {
    for key in 0..KEYS {
        assert!(matches!(table.get(&name(key)).unwrap(), Lookup::Found(_)), "key {key} is lost");
    }
}

/// Returns two seeds with the same fingerprint: among 2^17 seeds, about two have one.
fn seeds_with_one_fingerprint() -> [SecretSeed; 2] {
    let mut seen = HashMap::new();
    (0..1_u64 << 20)
        .find_map(|seed| seen.insert(SecretSeed::from(seed).fingerprint(), seed).map(|other| [seed, other]))
        .unwrap()
        .map(SecretSeed::from)
}

#[test]
fn a_filter_of_another_secret_is_not_used_and_says_both_fingerprints() {
    let (built, other) = (SecretSeed::from(42), SecretSeed::from(43));
    let bytes = table(&KeyHasher::with_secret_seed(built.clone()));

    let table = open(&bytes, &reading(&KeyHasher::with_secret_seed(other.clone()))).unwrap();
    let problem = table.filter_problem().unwrap().to_string();
    let expected = format!(
        "built with another secret seed (fingerprint {:#010x}, the reader's is {:#010x})",
        built.fingerprint(),
        other.fingerprint()
    );
    assert!(problem.contains(&expected), "{problem}");
    assert_all_found(&table);
    assert_eq!((table.stats().filters.filter.unusable, table.stats().filters.filter.negatives), (u64::from(KEYS), 0));
    let FilterVerdict::NotProbed { reason } = table.verify().unwrap().filter else { panic!("it was probed") };
    assert!(reason.contains(&expected), "{reason}");

    let seedless = open(&bytes, &TableOptions::default()).unwrap();
    let problem = seedless.filter_problem().unwrap().to_string();
    assert!(problem.contains("built with a secret seed (fingerprint 0xca1a2710), but the reader's hash is"));
    assert_all_found(&seedless);
}

#[test]
fn a_strict_reader_refuses_a_filter_of_another_hash_and_takes_its_own() {
    let (hasher, seed) = KeyHasher::random_secret().unwrap();
    let (other, _) = KeyHasher::random_secret().unwrap();
    let bytes = table(&hasher);
    for wrong in [reading(&other), TableOptions::default(), reading(&KeyHasher::with_seed(7))] {
        let refused = open(&bytes, &wrong.reject_foreign_filters()).unwrap_err();
        assert!(
            matches!(
                &refused,
                TableError::Filter { source: FilterProblem::Block(BlockError::HashMismatch { .. }), .. }
            ),
            "{refused}"
        );
    }
    let again = KeyHasher::with_secret_seed(SecretSeed::from_bytes(seed.to_bytes()));
    let table = open(&bytes, &reading(&again).reject_foreign_filters()).unwrap();
    assert!(table.filter_problem().is_none());
    assert_all_found(&table);
}

#[test]
fn a_strict_reader_still_opens_a_table_whose_filter_is_damaged() {
    let hasher = KeyHasher::with_secret_seed(42);
    let bytes = table(&hasher);
    let filter = open(&bytes, &reading(&hasher)).unwrap().region(TablePart::Filter).unwrap();
    let mut damaged = bytes.to_vec();
    damaged[usize::try_from(filter.start).unwrap()] ^= 1;
    let table = open(&Bytes::from(damaged), &reading(&hasher).reject_foreign_filters()).unwrap();
    let problem = table.filter_problem().unwrap();
    assert!(matches!(&problem, TableError::Filter { .. }) && !problem.is_foreign_filter(), "{problem}");
    assert_all_found(&table);
}

#[test]
fn a_strict_set_refuses_a_table_of_another_seed_than_its_newest() {
    let directory = tempfile::tempdir().unwrap();
    let paths = [1, 2].map(|seed| {
        let path = directory.path().join(format!("{seed}.sst"));
        std::fs::write(&path, table(&KeyHasher::with_seed(seed))).unwrap();
        path
    });
    assert!(TableSet::open((0..).zip(paths.iter().rev()), &TableOptions::default()).is_ok());
    let refused =
        TableSet::open((0..).zip(paths.iter().rev()), &TableOptions::default().reject_foreign_filters()).unwrap_err();
    assert!(
        matches!(refused, TableError::Filter { source: FilterProblem::Block(BlockError::HashMismatch { .. }), .. }),
        "{refused}"
    );
    assert!(TableSet::open([(0, &paths[0])], &TableOptions::default().reject_foreign_filters()).is_ok());
}

/// One wrong secret in 2^32 has the right one's fingerprint.
// promise: no-false-negatives
// misuse: same-fingerprint
#[test]
fn a_wrong_secret_with_the_right_fingerprint_denies_nothing() {
    let [built, wrong] = seeds_with_one_fingerprint().map(KeyHasher::with_secret_seed);
    assert_eq!(built.identity(), wrong.identity());
    let bytes = table(&built);

    let table = open(&bytes, &reading(&wrong)).unwrap();
    let problem = table.filter_problem().unwrap();
    assert!(matches!(problem, TableError::Filter { source: FilterProblem::ReaderChanged { .. }, .. }), "{problem}");
    assert_all_found(&table);
    assert!(problem.is_foreign_filter());
    let FilterVerdict::NotProbed { reason } = table.verify().unwrap().filter else { panic!("it was probed") };
    assert!(reason.contains("a secret seed, a hash or an extractor was changed"), "{reason}");
    assert!(open(&bytes, &reading(&wrong).reject_foreign_filters()).is_err());

    let set = crate::set_of(vec![table]);
    assert!(crate::tables_of(&set)[0].filter_problem().is_some());
    assert!((0..KEYS).all(|key| set.get(&name(key)).unwrap().is_some()));
    // The set does not probe the older table's filter with the newest table's hasher, although both have the same
    // identity.
    let mixed = [&wrong, &built].map(|hasher| open(&self::table(&built), &reading(hasher)).unwrap());
    let set = crate::set_of(mixed.into());
    let tables = crate::tables_of(&set);
    assert!(tables[0].filter_problem().is_some() && tables[1].filter_problem().is_none());
    assert!((0..KEYS).all(|key| set.get(&name(key)).unwrap().is_some()));
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
    let built = open(&bytes, &reading(&function(1))).unwrap();
    let filter = built.filters().block().unwrap();
    let (smallest, largest) = (name(0), name(KEYS - 1));
    for (same, differing) in [(&smallest, &largest), (&largest, &smallest)] {
        let denies = |seed: &u64| !filter.may_contain(function(*seed).hash(differing));
        let (before, after) = (function(1), function((2..100).find(denies).unwrap()));
        let kept = same.clone();
        let changed = KeyHasher::custom(1, move |key| if key == kept { before.hash(key) } else { after.hash(key) });
        assert_eq!(changed.identity(), function(1).identity());

        let opened = open(&bytes, &reading(&changed)).unwrap();
        assert_all_found(&opened);
        assert_denies_its_own(&opened, differing);
        let set = crate::set_of(vec![opened]);
        assert!((0..KEYS).all(|key| set.get(&name(key)).unwrap().is_some()));
        assert_denies_its_own(&crate::tables_of(&set)[0], differing);
        let empty = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap().finish().unwrap().0;
        let newest = open(&Bytes::from(empty), &reading(&changed)).unwrap();
        let with_its_own = crate::set_of(vec![newest, open(&bytes, &reading(&function(1))).unwrap()]);
        assert!((0..KEYS).all(|key| with_its_own.get(&name(key)).unwrap().is_some()));
        assert!(crate::tables_of(&with_its_own)[1].filter_problem().is_none(), "it is not probed by the newest's");
    }
}

fn assert_denies_its_own(table: &Table, key: &[u8]) {
    let problem = table.filter_problem();
    let is_found_out = matches!(problem, Some(TableError::Filter { source: FilterProblem::ReaderChanged { .. }, .. }));
    assert!(is_found_out, "{}: {problem:?}", key.escape_ascii());
}

/// Extractors are identified by name. Two different ones with the same name each probe only the filters of their own
/// tables.
#[test]
fn a_set_probes_filters_with_their_own_extractors_even_if_the_names_are_the_same() {
    #[derive(Debug)]
    struct Prefix(FixedPrefix);
    impl KeyExtractor for Prefix {
        fn name(&self) -> &'static str {
            "prefix"
        }
        fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
            self.0.extract(key)
        }
    }
    let tables = [9, 11].map(|length| {
        let extractor: Arc<dyn KeyExtractor> = Arc::new(Prefix(FixedPrefix::new(length)));
        let options = TableOptions::default().with_extractor(extractor.clone());
        let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
        (0..KEYS).for_each(|key| builder.add(&name(key), b"value").unwrap());
        let bytes = Bytes::from(builder.finish().unwrap().0);
        Table::open_source(bytes, &TableOptions::default().with_extractor(extractor)).unwrap()
    });
    let set = crate::set_of(tables.into());
    assert!(crate::tables_of(&set).iter().all(|table| table.filter_problem().is_none()));
    assert!((0..KEYS).all(|key| set.get(&name(key)).unwrap().is_some()));
}

/// Extracts the first byte of a key, or the first two of a marked one.
#[derive(Debug)]
struct Marked(u8);
impl KeyExtractor for Marked {
    fn name(&self) -> &'static str {
        "marked"
    }
    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        key.get(..if key.get(1) == Some(&self.0) { 2 } else { 1 }).map(Cow::Borrowed)
    }
}

// promise: documented-use
#[test]
fn a_filter_that_is_read_later_or_beside_its_table_shows_a_set_the_wrong_extractor_too() {
    let directory = tempfile::tempdir().unwrap();
    let writer = TableOptions::default().with_extractor(Arc::new(Marked(b'?')));
    let write = |name: &str, keys: [&[u8]; 3], options: &TableOptions| {
        let path = directory.path().join(name);
        let mut table = TableWriter::create(&path, options).unwrap();
        keys.iter().for_each(|key| table.add(key, b"value").unwrap());
        table.finish().unwrap();
        path
    };
    let [right, wrong] = [b'?', b'x'].map(|mark| TableOptions::default().with_extractor(Arc::new(Marked(mark))));
    let keys: [[&[u8]; 3]; 2] = [[b"aa", b"ax", b"az"], [b"bx", b"by", b"bz"]];
    let budgeted = wrong.clone().with_filter_budget(FilterBudget::unlimited());
    let finds_all = |paths: [PathBuf; 2], options: &TableOptions| {
        let set = TableSet::open((0..).zip(paths.into_iter().rev()), options).unwrap();
        keys.iter().flatten().all(|key| set.get(key).unwrap().is_some())
    };
    assert!(finds_all([write("1.sst", keys[0], &writer), write("2.sst", keys[1], &writer)], &budgeted));
    // These tables have only the filters in their sidecars.
    let unfiltered = writer.clone().without_filter();
    let paths = [write("3.sst", keys[0], &unfiltered), write("4.sst", keys[1], &unfiltered)];
    for path in &paths {
        Table::open(path, &right).unwrap().write_sidecar(&writer).unwrap();
    }
    assert!(finds_all(paths.clone(), &wrong));
    assert!(finds_all(paths, &budgeted));
}
