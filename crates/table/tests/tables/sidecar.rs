//! The failure guarded against: a sidecar is used that lacks keys of its table, because it is incomplete, another
//! reader's, or was replaced, maybe between the opening of its table and the read of its filter. In every such case, the
//! table's own filter answers, and the problem is visible. `matrix` covers damaged sidecars and those of other tables.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sstfilter::{
    BitsPerKey, BuildContext, FalsePositiveRate, FixedPolicy, FixedPrefix, KeyHasher, KindId, RandomAccess,
};
use sstfilter_range::RangePolicy;
use sstfilter_store::{FilterBudget, FilterProblem, FilterStore, PartitionCut, PartitionOptions, sidecar_path};
use sstfilter_table::{FileSystem, FilterVerdict, Lookup, Table, TableError, TableOptions, WritableFile};

use crate::callers::{Builder, Policy};
use crate::container::{CUTS, ranges};
use crate::{Entries, bytes_of};

const TABLE: &str = "/db/000001.sst";
const SIDECAR: &str = "/db/000001.sst.filter";

type Contents = Arc<Mutex<BTreeMap<PathBuf, Bytes>>>;

/// Files in memory that a table cannot write, with a list of the names that were opened.
#[derive(Debug)]
pub(crate) struct Files {
    contents: Contents,
    /// The error of opening a sidecar.
    refusal: Option<io::ErrorKind>,
    opened: Mutex<Vec<PathBuf>>,
}

impl Files {
    fn new(contents: &[(&str, &Bytes)], refusal: Option<io::ErrorKind>) -> Arc<Self> {
        let contents = contents.iter().map(|&(path, bytes)| (path.into(), bytes.clone())).collect();
        Arc::new(Self { contents: Arc::new(Mutex::new(contents)), refusal, opened: Mutex::default() })
    }

    /// Replaces or removes the sidecar, also for tables that are open.
    fn replace_sidecar(&self, sidecar: Option<Bytes>) {
        let mut contents = self.contents.lock().unwrap();
        contents.remove(Path::new(SIDECAR));
        contents.extend(sidecar.map(|sidecar| (SIDECAR.into(), sidecar)));
    }
}

/// A file that is opened by name for each read.
struct ByName(Contents, PathBuf);

impl ByName {
    fn bytes(&self) -> io::Result<Bytes> {
        self.0.lock().unwrap().get(&self.1).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl RandomAccess for ByName {
    fn len(&self) -> io::Result<u64> {
        RandomAccess::len(&self.bytes()?)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.bytes()?.read_exact_at(buf, offset)
    }
}

impl FileSystem for Files {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
        self.opened.lock().unwrap().push(path.to_owned());
        let file = ByName(self.contents.clone(), path.to_owned());
        match self.refusal {
            Some(refusal) if path == Path::new(SIDECAR) => Err(refusal.into()),
            _ => file.bytes().map(|_| Box::new(file) as Box<dyn RandomAccess>),
        }
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn WritableFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn name(key: u32) -> Vec<u8> {
    format!("user:{key:06}").into_bytes()
}

/// Every seventh key is deleted: a filter without it would let older tables answer.
fn is_deleted(key: u32) -> bool {
    key % 7 == 3
}

fn entries(keys: u32, value: &[u8]) -> Entries {
    (0..keys).map(|key| (name(key), (!is_deleted(key)).then(|| value.to_vec()))).collect()
}

/// Builds a table of `keys` keys with its own Bloom filter.
fn table(id: u8, keys: u32, value: &[u8]) -> Bytes {
    bytes_of(&entries(keys, value), &TableOptions::default().with_table_id([id; 16]))
}

fn ribbon() -> TableOptions {
    // Also for few keys: by default, fewer than 1,024 get a blocked Bloom filter, which the tables have themselves.
    let policy = FixedPolicy::ribbon(BitsPerKey::new(8.0).unwrap()).unwrap().with_min_keys(0);
    TableOptions::default().with_policy(Arc::new(policy))
}

/// Builds a sidecar with a Ribbon filter for the table.
fn sidecar_of(table: &Bytes) -> Bytes {
    built(table, &TableOptions::default(), &ribbon())
}

/// Builds a sidecar for the table, as a reader with these options does.
pub(crate) fn built(table: &Bytes, reading: &TableOptions, options: &TableOptions) -> Bytes {
    let table = Table::open_source(table.clone(), reading).unwrap();
    table.build_sidecar(options).unwrap().seal_sidecar().unwrap()
}

pub(crate) fn files(table: &Bytes, sidecar: impl Into<Bytes>) -> Arc<Files> {
    Files::new(&[(TABLE, table), (SIDECAR, &sidecar.into())], None)
}

pub(crate) fn open(files: &Arc<Files>, options: TableOptions) -> Table {
    Table::open(TABLE, &options.with_file_system(Arc::clone(files) as Arc<dyn FileSystem>)).unwrap()
}

fn kind_in_use(table: &Table) -> Option<KindId> {
    Some(table.filters().block()?.info().kind)
}

fn assert_no_key_is_lost(table: &Table, keys: u32, story: &str) {
    for key in 0..keys {
        let lookup = table.get(&name(key)).unwrap();
        let is_expected = if is_deleted(key) { lookup == Lookup::Deleted } else { matches!(lookup, Lookup::Found(_)) };
        assert!(is_expected, "{story}: key {key} is lost");
    }
}

/// Asserts that the sidecar is not used, that the problem is reported, and that the table's own filter answers.
fn assert_unused(table: &Table, keys: u32, story: &str) {
    assert!(!table.uses_sidecar(), "{story}: the sidecar is used");
    let problem = table.sidecar_problem().unwrap_or_else(|| panic!("{story}: nothing shows")).to_string();
    assert!(problem.contains(SIDECAR), "{story}: {problem}");
    assert_eq!(table.stats().sidecar_problems, 1);
    assert!(table.filter_problem().is_none(), "{story}");
    assert_eq!(kind_in_use(table), Some(KindId::BLOCKED_BLOOM), "{story}");
    assert_no_key_is_lost(table, keys, story);
}

#[test]
fn a_table_without_a_sidecar_costs_one_attempt_to_open_one_and_no_other_read() {
    let bytes = table(1, 100, b"value");
    let files = Files::new(&[(TABLE, &bytes)], None);
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

#[test]
fn a_sidecar_that_cannot_be_opened_is_a_problem_that_shows_and_a_missing_one_is_none() {
    let bytes = table(1, 50, b"value");
    for refusal in [io::ErrorKind::PermissionDenied, io::ErrorKind::IsADirectory, io::ErrorKind::Other] {
        let files = Files::new(&[(TABLE, &bytes), (SIDECAR, &sidecar_of(&bytes))], Some(refusal));
        let table = open(&files, TableOptions::default());
        assert_unused(&table, 50, &refusal.to_string());
        assert!(matches!(table.sidecar_problem(), Some(TableError::Io { .. })));
    }
    // A real file system's error, in addition to those of the model.
    let place = Place::new(&bytes);
    std::fs::create_dir(&place.sidecar).unwrap();
    assert!(place.open().sidecar_problem().unwrap().to_string().contains("1.sst.filter"));
    assert_no_key_is_lost(&place.open(), 50, "a directory");
}

/// A table in a directory of its own.
struct Place {
    directory: tempfile::TempDir,
    table: PathBuf,
    sidecar: PathBuf,
}

impl Place {
    fn new(bytes: &Bytes) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let table = directory.path().join("1.sst");
        std::fs::write(&table, bytes).unwrap();
        Self { sidecar: sidecar_path(&table), directory, table }
    }

    fn with_sidecar(bytes: &Bytes, sidecar: &Bytes) -> Self {
        let place = Self::new(bytes);
        std::fs::write(&place.sidecar, sidecar).unwrap();
        place
    }

    fn open(&self) -> Table {
        Table::open(&self.table, &TableOptions::default()).unwrap()
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.directory.path()).unwrap().count()
    }
}

/// Returns a sidecar of `bytes` whose filters contain these keys, built in `store`.
fn sidecar_of_keys(bytes: &Bytes, store: &FilterStore, keys: impl Iterator<Item = u32>) -> Bytes {
    let table = Table::open_source(bytes.clone(), &TableOptions::default()).unwrap();
    let store = store.clone().with_policy(Arc::new(FixedPolicy::default()));
    let mut builder = store.sidecar_builder(&table.identity());
    keys.for_each(|key| builder.add_key(&name(key)));
    builder.finish().seal_sidecar().unwrap()
}

/// Only a faulty writer or a forger makes these, whose checksums hold.
#[test]
fn a_sidecar_without_the_last_key_is_found_out_when_opened_and_one_without_another_by_verify() {
    let bytes = table(1, 5_000, b"value");
    let open_of = |store: &FilterStore, keys: &mut dyn Iterator<Item = u32>| {
        open(&files(&bytes, sidecar_of_keys(&bytes, store, keys)), TableOptions::default())
    };
    assert_unused(&open_of(&FilterStore::default(), &mut (0..4_900)), 5_000, "known keys");
    let cuts = CUTS.map(|cut| FilterStore::default().with_partitions(PartitionOptions::new(cut, 1_024).unwrap()));
    for store in [FilterStore::default()].into_iter().chain(cuts) {
        let table = open_of(&store, &mut (0..5_000).filter(|key| !(2_500..2_600).contains(key)));
        match table.verify().unwrap_err() {
            TableError::FalseNegative { at, key, .. } => {
                assert_eq!(at.path.as_deref(), Some(Path::new(SIDECAR)));
                assert!((name(2_500)..name(2_600)).contains(&key), "{}", key.escape_ascii());
            }
            other => panic!("{other}"),
        }
    }
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
    let bytes = bytes_of(&entries(50, b"value"), &options);
    let other = TableOptions::default().with_hasher(KeyHasher::with_seed(7));
    let files = files(&bytes, built(&bytes, &other, &ribbon()));
    let table = open(&files, TableOptions::default());
    assert!(table.filters().block().is_none() && table.sidecar_problem().is_some());
    assert_no_key_is_lost(&table, 50, "no filter at all");
    let options = TableOptions::default().with_file_system(files);
    assert!(Table::open(TABLE, &options.clone().reject_foreign_filters()).unwrap_err().is_foreign_filter());
    Table::open(TABLE, &options.reject_foreign_filters().without_sidecars()).unwrap();
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
    let bytes = table(1, 2_000, b"value");
    let good = sidecar_of(&bytes);
    let mut damaged = bytes.to_vec();
    // A byte in a data block.
    damaged[5_000] ^= 1;
    let place = Place::with_sidecar(&damaged.into(), &good);
    let refused = place.open().write_sidecar(&ribbon()).unwrap_err();
    assert!(matches!(refused, TableError::Checksum { .. }), "{refused}");
    assert_eq!(std::fs::read(&place.sidecar).unwrap(), good);
    assert_eq!(place.files(), 2, "no temporary file is left");
}

#[test]
fn a_table_that_is_no_longer_at_its_path_gets_no_sidecar() {
    let place = Place::new(&table(1, 100, b"value"));
    let open = place.open();
    let next = place.directory.path().join("next");
    std::fs::write(&next, table(1, 100, b"VALUE")).unwrap();
    std::fs::rename(&next, &place.table).unwrap();
    assert!(open.write_sidecar(&ribbon()).unwrap_err().to_string().contains("replaced"));
    std::fs::remove_file(&place.table).unwrap();
    assert!(matches!(open.write_sidecar(&ribbon()), Err(TableError::Io { .. })));
    assert_eq!(place.files(), 0);

    let pathless = Table::open_source(table(1, 10, b""), &TableOptions::default()).unwrap();
    let refused = pathless.write_sidecar(&ribbon()).unwrap_err().to_string();
    assert!(refused.contains("expected a table that was opened by path"), "{refused}");
}

// promise: limited-memory
// misuse: other-sidecar
#[test]
fn a_sidecar_that_was_built_for_another_table_does_not_replace_a_sound_one() {
    let bytes = table(1, 100, b"value");
    let sound = sidecar_of(&bytes);
    let place = Place::with_sidecar(&bytes, &sound);
    let table = place.open();
    for other in [self::table(2, 100, b"value"), self::table(1, 100, b"VALUE")] {
        let other = Table::open_source(other, &TableOptions::default()).unwrap();
        let refused = table.install_sidecar(&other.build_sidecar(&ribbon()).unwrap(), &ribbon()).unwrap_err();
        let expected = FilterProblem::OtherTable { expected: table.identity(), got: other.identity() };
        assert!(matches!(&refused, TableError::Filter { source, .. } if *source == expected), "{refused}");
        assert_eq!(std::fs::read(&place.sidecar).unwrap(), sound);
    }
    table.install_sidecar(&table.build_sidecar(&TableOptions::default()).unwrap(), &ribbon()).unwrap();
    assert_ne!(std::fs::read(&place.sidecar).unwrap(), sound);
}

#[test]
fn nothing_is_written_where_a_policy_makes_no_filter_or_one_that_belongs_to_nothing() {
    let place = Place::new(&table(1, 100, b"value"));
    let table = place.open();
    let declining = TableOptions::default().with_policy(Policy::of(|_| None));
    let unbound = Policy::of(|_| Some(Builder::new(&BuildContext::new(&KeyHasher::default()))));
    let unbound = TableOptions::default().with_policy(unbound);
    for options in [TableOptions::default().without_filter(), declining, unbound] {
        let built = table.write_sidecar(&options).unwrap();
        assert!(built.metadata().sections().is_empty());
        assert_eq!(table.install_sidecar(&built, &options).unwrap(), None);
    }
    assert_eq!(place.files(), 1);
}

/// Without the copy, readers of the sidecar would lose the table's own range filter.
#[test]
fn a_sidecar_carries_the_tables_range_filter_over_and_damage_to_it_leaves_scans_right() {
    let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap();
    let options = TableOptions::default().with_table_id([1; 16]).with_range_filter(policy);
    let bytes = bytes_of(&entries(60, b"value"), &options);
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
        let problem = table.verify().unwrap_err().to_string();
        assert!(problem.contains(SIDECAR), "bit {bit}: {problem}");
    }
}

/// Options for sidecars of both cuts, with the smallest partitions.
fn partitioned() -> [TableOptions; 2] {
    CUTS.map(|cut| ribbon().with_partitioned_filter(PartitionOptions::new(cut, 1_024).unwrap()))
}

#[test]
fn a_partitioned_sidecar_is_read_by_partitions_and_loses_no_key() {
    let bytes = table(1, 5_000, b"value");
    for options in partitioned() {
        let files = files(&bytes, built(&bytes, &TableOptions::default(), &options));
        let table = open(&files, TableOptions::default());
        assert!(table.sidecar_problem().is_none(), "{:?}", table.sidecar_problem());
        assert!(table.uses_sidecar() && table.filters().partitions().is_some());
        let opened = table.stats().bytes_read;
        // One of the two may be a false positive.
        assert!(!table.may_contain_key(b"user:002500 is absent") || !table.may_contain_key(b"user:002501 is absent"));
        let read = table.stats().bytes_read - opened;
        // At most two partitions, with a target of 1,024 bytes each.
        assert!((1..=2 * 1_100).contains(&read), "{read} bytes for two probes");
        assert_no_key_is_lost(&table, 5_000, "partitions");
        let absent = (0..2_000).filter(|key| !table.may_contain_key(format!("user:{key:06}x").as_bytes())).count();
        assert!(absent > 1_900, "{absent} of 2000 absent keys");
        let report = table.verify().unwrap();
        assert_eq!(report.sidecar, FilterVerdict::ContainsAll { keys: 5_000 });
        assert_eq!(report.filter, report.sidecar);
    }
}

#[test]
fn verify_takes_a_partition_of_a_sidecar_without_a_filter_for_sound_and_finds_damage_behind_it() {
    let bytes = table(1, 5_000, b"value");
    let options = PartitionOptions::new(PartitionCut::KeyRange, 1_024).unwrap();
    // Declines the third filter, so that partitions with filters are on both sides.
    let asked = AtomicU32::new(0);
    let declining = Policy::of(move |context| (asked.fetch_add(1, Relaxed) != 2).then(|| Builder::new(context)));
    let options = TableOptions::default().with_policy(declining).with_partitioned_filter(options);
    let sidecar = built(&bytes, &TableOptions::default(), &options);
    let table = open(&files(&bytes, sidecar.clone()), TableOptions::default());
    let ranges = ranges(table.filters().partitions().unwrap());
    let without_filter = ranges.iter().position(Range::is_empty).expect("one was declined");
    assert_eq!(table.verify().unwrap().sidecar, FilterVerdict::ContainsAll { keys: 5_000 });
    assert_no_key_is_lost(&table, 5_000, "a partition without a filter");

    let mut damaged = sidecar.to_vec();
    damaged[ranges[without_filter + 1].start] ^= 1;
    match open(&files(&bytes, damaged), TableOptions::default()).verify().unwrap_err() {
        TableError::Filter { at, source: FilterProblem::PartitionChecksum { number, .. } } => {
            assert_eq!((number as usize, at.path.as_deref()), (without_filter + 1, Some(Path::new(SIDECAR))));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_sidecar_that_vanishes_or_is_replaced_before_it_is_loaded_loses_no_key() {
    let bytes = table(1, 2_000, b"value");
    let prefixes = TableOptions::default().with_extractor(Arc::new(FixedPrefix::new(8)));
    let of_prefixes = built(&bytes, &prefixes, &ribbon());
    let replacements = [
        None,
        Some(of_prefixes),
        Some(sidecar_of(&table(1, 1_000, b"value"))),
        Some(sidecar_of_keys(&bytes, &FilterStore::default(), 0..1_999)),
        Some(Bytes::new()),
    ];
    for (number, replacement) in replacements.into_iter().enumerate() {
        for options in [ribbon(), partitioned()[0].clone(), partitioned()[1].clone()] {
            let files = files(&bytes, built(&bytes, &TableOptions::default(), &options));
            let table = open(&files, TableOptions::default().with_filter_budget(FilterBudget::new(1 << 20)));
            assert!(table.uses_sidecar());
            files.replace_sidecar(replacement.clone());
            assert_no_key_is_lost(&table, 2_000, &format!("replacement {number}"));
            // One that holds prefixes alone is another sound sidecar of the table.
            assert!(number == 1 || table.verify().is_err(), "replacement {number}");
        }
    }
}
