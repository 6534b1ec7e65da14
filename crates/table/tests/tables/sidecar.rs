//! The failure guarded against: a sidecar is used for a table that it was not made for. A table was rewritten under its
//! name, restored from a backup, or given the number of a deleted one, and the filter of the earlier table is negative
//! for nearly every key. Or the sidecar is incomplete, or another reader's. In every such case, the table's own filter
//! answers, and the problem is visible.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sstfilter::{
    BitsPerKey, BlockBuilder, BuildContext, FalsePositiveRate, FilterPolicy, Filters, FixedPolicy, FixedPrefix,
    KeyHash, KeyHasher, KeyParts, KindId, KindRegistry, RandomAccess,
};
use sstfilter_range::RangePolicy;
use sstfilter_store::{FilterBudget, FilterProblem, FilterStore, PartitionCut, PartitionOptions, sidecar_path};
use sstfilter_table::{FileSystem, FilterVerdict, Lookup, Table, TableBuilder, TableError, TableOptions, WritableFile};

const TABLE: &str = "/db/000001.sst";
pub(crate) const SIDECAR: &str = "/db/000001.sst.filter";

/// Read-only files in memory, with counts of how often each name was opened.
#[derive(Debug, Default)]
pub(crate) struct Files {
    contents: BTreeMap<PathBuf, Bytes>,
    /// The error of opening a sidecar.
    refusal: Option<io::ErrorKind>,
    opened: Mutex<Vec<PathBuf>>,
}

impl FileSystem for Files {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
        self.opened.lock().unwrap().push(path.to_owned());
        match self.refusal {
            Some(refusal) if path == Path::new(SIDECAR) => Err(refusal.into()),
            _ => Ok(Box::new(self.contents.get(path).cloned().ok_or(io::ErrorKind::NotFound)?)),
        }
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn WritableFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn name(key: u32) -> Vec<u8> {
    format!("user:{key:06}").into_bytes()
}

/// Every seventh key is deleted: a filter without it would let older tables answer.
fn is_deleted(key: u32) -> bool {
    key % 7 == 3
}

fn fill<W: io::Write>(mut builder: TableBuilder<W>, keys: u32, value: &[u8]) -> W {
    for key in 0..keys {
        if is_deleted(key) {
            builder.delete(&name(key)).unwrap();
        } else {
            builder.add(&name(key), value).unwrap();
        }
    }
    builder.finish().unwrap().0
}

/// Builds a table of `keys` keys with its own Bloom filter.
pub(crate) fn table(id: u8, keys: u32, value: &[u8]) -> Bytes {
    let options = TableOptions::default().with_table_id([id; 16]);
    fill(TableBuilder::new(Vec::new(), &options).unwrap(), keys, value).into()
}

pub(crate) fn ribbon() -> TableOptions {
    // Also for few keys: by default, fewer than 1,024 get a blocked Bloom filter, which the tables have themselves.
    let policy = FixedPolicy::ribbon(BitsPerKey::new(8.0).unwrap()).unwrap().with_min_keys(0);
    TableOptions::default().with_policy(Arc::new(policy))
}

/// Builds a sidecar with a Ribbon filter for the table.
pub(crate) fn sidecar_of(table: &Bytes) -> Bytes {
    built(table, &TableOptions::default(), &ribbon())
}

/// Builds a sidecar for the table, as a reader with these options does.
pub(crate) fn built(table: &Bytes, reading: &TableOptions, options: &TableOptions) -> Bytes {
    let table = Table::open_source(table.clone(), reading).unwrap();
    table.build_sidecar(options).unwrap().seal_sidecar().unwrap()
}
const END_BYTES: usize = 60;

/// Returns the three parts of a sidecar: filter bytes, their description, and the end.
fn parts_of(sidecar: &[u8]) -> [&[u8]; 3] {
    let end = sidecar.len() - END_BYTES;
    let filter_bytes = u64::from_le_bytes(sidecar[end..end + 8].try_into().unwrap());
    let (filter, rest) = sidecar.split_at(usize::try_from(filter_bytes).unwrap());
    let (description, end) = rest.split_at(rest.len() - END_BYTES);
    [filter, description, end]
}

/// Returns the sidecar with the filter bytes `filter`, which `section` describes, under valid checksums.
fn forged(sidecar: &[u8], filter: &[u8], section: &[u8]) -> Bytes {
    let [_, description, end] = parts_of(sidecar);
    let (mut description, mut end) = (description.to_vec(), end.to_vec());
    description[SECTION].copy_from_slice(section);
    end[..8].copy_from_slice(&(filter.len() as u64).to_le_bytes());
    end[40..44].copy_from_slice(&crc32c::crc32c(&description).to_le_bytes());
    let sum = crc32c::crc32c(&end[..56]);
    end[56..].copy_from_slice(&sum.to_le_bytes());
    [filter, &description, &end].concat().into()
}

/// Range of the first section in a description.
const SECTION: std::ops::Range<usize> = 44..72;
const SECTION_CHECKSUM_AT: usize = 24;

pub(crate) fn files(table: &Bytes, sidecar: impl Into<Bytes>) -> Arc<Files> {
    let contents = [(TABLE.into(), table.clone()), (SIDECAR.into(), sidecar.into())];
    Arc::new(Files { contents: contents.into(), ..Files::default() })
}

pub(crate) fn open(files: &Arc<Files>, options: TableOptions) -> Table {
    Table::open(TABLE, &options.with_file_system(Arc::clone(files) as Arc<dyn FileSystem>)).unwrap()
}

fn kind_in_use(table: &Table) -> Option<KindId> {
    Some(table.filters().block()?.info().kind)
}

pub(crate) fn assert_no_key_is_lost(table: &Table, keys: u32, story: &str) {
    for key in 0..keys {
        let lookup = table.get(&name(key)).unwrap();
        let is_expected = if is_deleted(key) { lookup == Lookup::Deleted } else { matches!(lookup, Lookup::Found(_)) };
        assert!(is_expected, "{story}: key {key} is lost");
    }
}

/// Asserts that the sidecar is not used, that the problem is reported, and that the table's own filter answers.
pub(crate) fn assert_unused(table: &Table, keys: u32, story: &str) {
    assert!(!table.uses_sidecar(), "{story}: the sidecar is used");
    let problem = table.sidecar_problem().unwrap_or_else(|| panic!("{story}: nothing shows")).to_string();
    assert!(problem.contains(SIDECAR), "{story}: {problem}");
    assert_eq!(table.stats().sidecar_problems, 1);
    assert!(table.filter_problem().is_none(), "{story}");
    assert_eq!(kind_in_use(table), Some(KindId::BLOCKED_BLOOM), "{story}");
    assert_no_key_is_lost(table, keys, story);
}

#[test]
fn a_sidecar_answers_in_place_of_the_tables_own_filter_and_loses_neither_key_nor_tombstone() {
    let bytes = table(1, 3_000, b"value");
    let table = open(&files(&bytes, sidecar_of(&bytes)), TableOptions::default());
    assert_eq!(kind_in_use(&table), Some(KindId::RIBBON));
    assert!(table.sidecar_problem().is_none() && table.stats().sidecar_problems == 0);
    assert!(table.uses_sidecar());
    assert_no_key_is_lost(&table, 3_000, "a sound sidecar");
    let absent = (0..2_000).filter(|key| !table.may_contain_key(format!("user:{key:06}x").as_bytes())).count();
    // At 8 bits per key, well below 5 % are false positives.
    assert!(absent > 1_900, "{absent} of 2000 absent keys");
    let report = table.verify().unwrap();
    assert_eq!(report.sidecar, FilterVerdict::ContainsAll { keys: 3_000 });
    assert_eq!(report.filter, report.sidecar);
}

#[test]
fn a_table_without_a_sidecar_costs_one_attempt_to_open_one_and_no_other_read() {
    let bytes = table(1, 100, b"value");
    let files = Arc::new(Files { contents: [(TABLE.into(), bytes.clone())].into(), ..Files::default() });
    let table = open(&files, TableOptions::default());
    assert_eq!(*files.opened.lock().unwrap(), [TABLE, SIDECAR].map(PathBuf::from));
    let alone = Table::open_source(bytes, &TableOptions::default()).unwrap();
    assert_eq!(table.stats().bytes_read, alone.stats().bytes_read);
    assert!(!table.uses_sidecar() && table.sidecar_problem().is_none());
    assert_eq!(table.verify().unwrap().sidecar, FilterVerdict::None);
    files.opened.lock().unwrap().clear();
    open(&files, TableOptions::default().without_sidecars());
    open(&files, TableOptions::default().without_filter());
    // Neither option tries to open a sidecar.
    assert_eq!(*files.opened.lock().unwrap(), [TABLE, TABLE].map(PathBuf::from));
}

/// Asserts that verifying the table finds damage in its sidecar.
pub(crate) fn assert_is_found(table: &Table, story: &str) {
    let problem = table.verify().err().unwrap_or_else(|| panic!("{story}: not found")).to_string();
    assert!(problem.contains(SIDECAR), "{story}: {problem}");
}

// promise: limited-memory
// misuse: stale-sidecar
// misuse: other-sidecar
#[test]
fn a_sidecar_of_another_table_or_of_an_earlier_one_of_the_same_id_is_not_used() {
    let bytes = table(1, 50, b"value");
    let others = [
        ("another id, the same length", table(2, 50, b"value")),
        ("the same id, another length", table(1, 40, b"value")),
        ("the same id and length, other values", table(1, 50, b"VALUE")),
    ];
    for (story, other) in others {
        assert_eq!(other.len() == bytes.len(), !story.contains("another length"));
        let table = open(&files(&bytes, sidecar_of(&other)), TableOptions::default());
        assert_unused(&table, 50, story);
        assert!(matches!(
            table.sidecar_problem(),
            Some(TableError::Filter { source: FilterProblem::OtherTable { .. }, .. })
        ));
        assert!(table.verify().is_err(), "{story}");
    }
}

#[test]
fn a_sidecar_that_cannot_be_opened_is_a_problem_that_shows_and_a_missing_one_is_none() {
    let bytes = table(1, 50, b"value");
    for refusal in [io::ErrorKind::PermissionDenied, io::ErrorKind::IsADirectory, io::ErrorKind::Other] {
        let sidecar = sidecar_of(&bytes);
        let contents = [(TABLE.into(), bytes.clone()), (SIDECAR.into(), sidecar)].into();
        let files = Arc::new(Files { contents, refusal: Some(refusal), ..Files::default() });
        let table = open(&files, TableOptions::default());
        assert_unused(&table, 50, &refusal.to_string());
        assert!(matches!(table.sidecar_problem(), Some(TableError::Io { .. })));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    std::fs::write(&path, &bytes).unwrap();
    // A real file system's error, in addition to those of the model.
    std::fs::create_dir(sidecar_path(&path)).unwrap();
    let table = Table::open(&path, &TableOptions::default()).unwrap();
    assert!(table.sidecar_problem().unwrap().to_string().contains("1.sst.filter"));
    assert_no_key_is_lost(&table, 50, "a directory");
}

/// Returns a sidecar of `bytes` whose filter contains only the keys below `held`, under valid checksums.
pub(crate) fn sidecar_lacking_keys(bytes: &Bytes, held: u32) -> Bytes {
    sidecar_of_keys(bytes, &FilterStore::default(), 0..held)
}

/// Returns a sidecar of `bytes` whose filters contain these keys, built in `store`.
pub(crate) fn sidecar_of_keys(bytes: &Bytes, store: &FilterStore, keys: impl Iterator<Item = u32>) -> Bytes {
    let table = Table::open_source(bytes.clone(), &TableOptions::default()).unwrap();
    let store = store.clone().with_policy(Arc::new(FixedPolicy::default()));
    let mut builder = store.sidecar_builder(&table.identity());
    keys.for_each(|key| builder.add_key(&name(key)));
    builder.finish().seal_sidecar().unwrap()
}

#[test]
fn a_sidecar_without_the_last_key_is_found_out_when_opened_and_one_without_another_by_verify() {
    let bytes = table(1, 50, b"value");
    let table = open(&files(&bytes, sidecar_lacking_keys(&bytes, 40)), TableOptions::default());
    assert_unused(&table, 50, "known keys");
    // Only a forger makes this: the filter contains the known keys, but not the others.
    let forged = sidecar_of_keys(&bytes, &FilterStore::default(), [0, 49].into_iter());
    let table = open(&files(&bytes, forged), TableOptions::default());
    match table.verify().unwrap_err() {
        TableError::FalseNegative { at, .. } => assert_eq!(at.path.as_deref(), Some(Path::new(SIDECAR))),
        other => panic!("{other}"),
    }
}

#[test]
fn a_sidecar_that_vanishes_or_is_replaced_while_the_table_is_open_loses_no_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    let sidecar_path = sidecar_path(&path);
    let bytes = table(1, 2_000, b"value");
    std::fs::write(&path, &bytes).unwrap();
    // The same id, as if the table had been rewritten with more keys.
    let stale = sidecar_of(&table(1, 1_000, b"value"));
    let open = || {
        std::fs::write(&sidecar_path, sidecar_of(&bytes)).unwrap();
        let table = Table::open(&path, &TableOptions::default()).unwrap();
        assert!(table.uses_sidecar());
        table
    };

    let table = open();
    std::fs::remove_file(&sidecar_path).unwrap();
    assert_no_key_is_lost(&table, 2_000, "vanished");
    assert!(matches!(table.verify(), Err(TableError::Io { .. })));

    let table = open();
    std::fs::write(&sidecar_path, &stale).unwrap();
    assert_no_key_is_lost(&table, 2_000, "replaced by a stale one");
    assert!(matches!(table.verify(), Err(TableError::Filter { .. })));

    let table = open();
    table.write_sidecar(&TableOptions::default()).unwrap();
    assert!(sidecar_path.exists());
    assert_no_key_is_lost(&table, 2_000, "replaced by a good one");
    assert_eq!(kind_in_use(&table), Some(KindId::RIBBON), "the one that was loaded");
    table.verify().unwrap();
}

#[test]
fn a_sidecar_for_another_hash_moves_a_store_to_it_and_is_not_used_by_readers_of_the_old_one() {
    let bytes = table(1, 500, b"value");
    for hasher in [KeyHasher::with_seed(7), KeyHasher::with_secret_seed(7)] {
        let options = TableOptions::default().with_hasher(hasher);
        let moved = Table::open_source(bytes.clone(), &options).unwrap();
        assert!(moved.filter_problem().is_some(), "its own filter is of the old hash");
        let files = files(&bytes, built(&bytes, &options, &ribbon()));

        let table = open(&files, options.reject_foreign_filters());
        assert_eq!(kind_in_use(&table), Some(KindId::RIBBON));
        assert_no_key_is_lost(&table, 500, "the new hash");
        let report = table.verify().unwrap();
        assert_eq!(report.sidecar, FilterVerdict::ContainsAll { keys: 500 });
        assert!(matches!(report.filter, FilterVerdict::NotProbed { .. }));

        let table = open(&files, TableOptions::default().reject_foreign_filters());
        assert_unused(&table, 500, "the old hash");
        assert!(table.sidecar_problem().unwrap().is_foreign_filter());
        assert!(matches!(table.verify().unwrap().sidecar, FilterVerdict::NotProbed { .. }));
    }
}

#[test]
fn a_strict_reader_refuses_a_table_that_has_nothing_but_a_sidecar_of_another_hash() {
    let options = TableOptions::default().without_filter();
    let bytes: Bytes = fill(TableBuilder::new(Vec::new(), &options).unwrap(), 50, b"value").into();
    let other = TableOptions::default().with_hasher(KeyHasher::with_seed(7));
    let files = files(&bytes, built(&bytes, &other, &ribbon()));
    let table = open(&files, TableOptions::default());
    assert!(table.filters().block().is_none() && table.sidecar_problem().is_some());
    assert_no_key_is_lost(&table, 50, "no filter at all");
    let options = TableOptions::default().with_file_system(files);
    assert!(Table::open(TABLE, &options.clone().reject_foreign_filters()).unwrap_err().is_foreign_filter());
    Table::open(TABLE, &options.reject_foreign_filters().without_sidecars()).unwrap();
}

/// A hash function that is not the original one of its tag.
fn changed_function(tag: u64) -> KeyHasher {
    KeyHasher::custom(tag, |key| KeyHash::mix(key.iter().fold(1, |sum, &byte| sum * 31 + u64::from(byte))))
}

#[test]
fn a_set_whose_newest_table_has_another_function_probes_the_sidecars_of_others_by_their_own() {
    let options = TableOptions::default().without_filter();
    let bytes: Bytes = fill(TableBuilder::new(Vec::new(), &options).unwrap(), 500, b"value").into();
    let hasher = KeyHasher::custom(5, |key| KeyHasher::default().hash(key));
    let reading = TableOptions::default().with_hasher(hasher);
    let older = open(&files(&bytes, built(&bytes, &reading, &ribbon())), reading);
    assert!(older.uses_sidecar());
    let empty = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap().finish().unwrap().0;
    let newest = TableOptions::default().with_hasher(changed_function(5));
    let newest = Table::open_source(Bytes::from(empty), &newest).unwrap();
    let set = crate::set_of(vec![newest, older]);
    assert!(set.snapshot().filter_problem().is_none());
    for key in (0..500).filter(|&key| !is_deleted(key)) {
        assert!(set.get(&name(key)).unwrap().is_some(), "key {key} is lost");
    }
    assert!((0..500).all(|key| set.get(&[&name(key)[..], b"x"].concat()).unwrap().is_none()));
    assert!(set.stats().filters.filter.negatives > 450, "{:?}", set.stats());
}

#[test]
fn a_table_of_no_entries_has_a_sidecar_of_no_keys() {
    let bytes = table(1, 0, b"");
    let table = open(&files(&bytes, sidecar_of(&bytes)), TableOptions::default());
    assert!(table.uses_sidecar());
    assert_eq!(table.get(b"key").unwrap(), Lookup::Absent);
    table.verify().unwrap();
}

#[test]
fn damaged_data_ends_a_rebuild_and_the_sidecar_that_is_there_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    let bytes = table(1, 2_000, b"value");
    std::fs::write(&path, &bytes).unwrap();
    let good = sidecar_of(&bytes);
    std::fs::write(sidecar_path(&path), &good).unwrap();
    let mut damaged = bytes.to_vec();
    // A byte in a data block.
    damaged[5_000] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let refused = Table::open(&path, &TableOptions::default()).unwrap().write_sidecar(&ribbon()).unwrap_err();
    assert!(matches!(refused, TableError::Checksum { .. }), "{refused}");
    assert_eq!(std::fs::read(sidecar_path(&path)).unwrap(), good);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn a_table_that_is_no_longer_at_its_path_gets_no_sidecar() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    std::fs::write(&path, table(1, 100, b"value")).unwrap();
    let open = Table::open(&path, &TableOptions::default()).unwrap();
    let next = directory.path().join("next");
    std::fs::write(&next, table(1, 100, b"VALUE")).unwrap();
    std::fs::rename(&next, &path).unwrap();
    assert!(open.write_sidecar(&ribbon()).unwrap_err().to_string().contains("replaced"));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(open.write_sidecar(&ribbon()), Err(TableError::Io { .. })));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

    let pathless = Table::open_source(table(1, 10, b""), &TableOptions::default()).unwrap();
    let refused = pathless.write_sidecar(&ribbon()).unwrap_err().to_string();
    assert!(refused.contains("expected a table that was opened by path"), "{refused}");
}

// promise: limited-memory
// misuse: other-sidecar
#[test]
fn a_sidecar_that_was_built_for_another_table_does_not_replace_a_sound_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    let bytes = table(1, 100, b"value");
    std::fs::write(&path, &bytes).unwrap();
    let sound = sidecar_of(&bytes);
    std::fs::write(sidecar_path(&path), &sound).unwrap();
    let table = Table::open(&path, &TableOptions::default()).unwrap();
    for other in [self::table(2, 100, b"value"), self::table(1, 100, b"VALUE")] {
        let other = Table::open_source(other, &TableOptions::default()).unwrap();
        let refused = table.install_sidecar(&other.build_sidecar(&ribbon()).unwrap(), &ribbon()).unwrap_err();
        let expected = FilterProblem::OtherTable { expected: table.identity(), got: other.identity() };
        assert!(matches!(&refused, TableError::Filter { source, .. } if *source == expected), "{refused}");
        assert_eq!(std::fs::read(sidecar_path(&path)).unwrap(), sound);
    }
    table.install_sidecar(&table.build_sidecar(&TableOptions::default()).unwrap(), &ribbon()).unwrap();
    assert_ne!(std::fs::read(sidecar_path(&path)).unwrap(), sound);
}

/// A policy that builds no filters, or other ones than requested.
#[derive(Debug)]
struct Unhelpful(Option<FixedPolicy>);

impl FilterPolicy for Unhelpful {
    fn name(&self) -> &'static str {
        "unhelpful"
    }

    fn builder(&self, _: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        Some(self.0.as_ref()?.builder(&BuildContext::new(&KeyHasher::default())))
    }
}

#[test]
fn nothing_is_written_where_a_policy_makes_no_filter_or_one_that_belongs_to_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    std::fs::write(&path, table(1, 100, b"value")).unwrap();
    let table = Table::open(&path, &TableOptions::default()).unwrap();
    let declining = TableOptions::default().with_policy(Arc::new(Unhelpful(None)));
    let unbound = TableOptions::default().with_policy(Arc::new(Unhelpful(Some(FixedPolicy::default()))));
    for options in [TableOptions::default().without_filter(), declining, unbound] {
        let built = table.write_sidecar(&options).unwrap();
        assert!(built.metadata().sections().is_empty());
        assert_eq!(table.install_sidecar(&built, &options).unwrap(), None);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_sidecar_of_a_kind_that_the_reader_does_not_know_is_not_used_and_is_no_damage() {
    let bytes = table(1, 50, b"value");
    let sidecar = sidecar_of(&bytes);
    let [filter, description, _] = parts_of(&sidecar);
    let mut filter = filter.to_vec();
    let at = filter.len() - 32;
    // The kind is byte 21 of the trailer; no known kind is 200.
    filter[at + 21] = 200;
    // The file's fingerprint and the parameter words precede the trailer.
    let words = usize::from(filter[at + 24] >> 4);
    let end = filter.len() - 4;
    let sum = crc32c::crc32c(&filter[at - 8 - 4 * words..end]).to_le_bytes();
    filter[end..].copy_from_slice(&sum);
    let mut section = description[SECTION].to_vec();
    section[SECTION_CHECKSUM_AT..].copy_from_slice(&crc32c::crc32c(&filter[..end]).to_le_bytes());
    let unknown = forged(&sidecar, &filter, &section);
    let table = open(&files(&bytes, unknown), TableOptions::default().with_kinds(KindRegistry::default()));
    assert_unused(&table, 50, "kind 200");
    assert!(matches!(table.verify().unwrap().sidecar, FilterVerdict::NotProbed { .. }));
}

/// The description claims that a filter of whole keys holds the store's current parts. If it were used, prefixes would
/// read as absent.
// promise: limited-memory
#[test]
fn a_sidecar_whose_filter_lacks_a_part_that_its_description_names_loses_no_prefix() {
    let table = table(1, 3_000, b"v");
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(9)));
    for cut in [None, Some(PartitionCut::KeyRange), Some(PartitionCut::HashRange)] {
        let store = match cut {
            Some(cut) => FilterStore::default().with_partitions(PartitionOptions::new(cut, 1_024).unwrap()),
            None => FilterStore::default(),
        };
        let whole_keys = sidecar_of_keys(&table, &store, 0..3_000);
        let store = store.with_filters(Filters::default().with_key_parts(parts.clone()));
        let of_parts = sidecar_of_keys(&table, &store, 0..3_000);
        let [filter, description, _] = parts_of(&whole_keys);
        let files = files(&table, forged(&of_parts, filter, &description[SECTION]));
        for options in [TableOptions::default(), TableOptions::default().with_filter_budget(FilterBudget::unlimited())]
        {
            let table = open(&files, options.with_key_parts(parts.clone()));
            for key in (0..3_000).step_by(50) {
                assert!(
                    table.filters().may_contain_prefix(&name(key)[..9]),
                    "{cut:?}: the prefix of key {key} is lost"
                );
            }
            assert!(table.sidecar_problem().is_some() || table.filter_problem().is_some(), "{cut:?}");
            assert_no_key_is_lost(&table, 3_000, "a part that the filter lacks");
        }
    }
}

/// Without the copy, readers of the sidecar would lose the table's own range filter.
#[test]
fn a_sidecar_carries_the_tables_range_filter_over_and_damage_to_it_leaves_scans_right() {
    let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap();
    let options = TableOptions::default().with_table_id([1; 16]).with_range_filter(policy);
    let bytes: Bytes = fill(TableBuilder::new(Vec::new(), &options).unwrap(), 60, b"value").into();
    let sidecar = sidecar_of(&bytes);
    let table = open(&files(&bytes, sidecar.clone()), TableOptions::default());
    assert!(table.uses_sidecar() && table.filters().range_filter().is_some());
    assert_eq!(kind_in_use(&table), Some(KindId::RIBBON));
    assert!(!table.filters().may_contain_range(&b"user:0000001"[..]..&b"user:0000002"[..]));
    table.verify().unwrap();
    let from = name(20);
    for bit in 0..sidecar.len() * 8 {
        let mut damaged = sidecar.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let table = open(&files(&bytes, damaged), TableOptions::default());
        assert_eq!(table.range(&from[..]..).count(), 40, "bit {bit}");
        assert_no_key_is_lost(&table, 60, "damage");
        assert_is_found(&table, &format!("bit {bit}"));
    }
}
