//! A sidecar is believed for a table that it was not made for: a table was rewritten under its name, restored from a
//! backup, or given the number of one that is gone, and the filter that lay beside the earlier one is negative for
//! nearly every key. Or the sidecar is half there, or another reader's. In every such case the table's own filter
//! answers, and the problem can be seen.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sstfilter::budget::FilterBudget;
use sstfilter::partition::{PartitionCut, PartitionOptions, PartitionedFilter};
use sstfilter::sidecar::{Sidecar, SidecarBuilder, SidecarError, TableIdentity};
use sstfilter::sst::{
    FileSystem, FilterVerdict, LimitedFiles, LocalFileSystem, Lookup, RandomAccess, ReadOptions, Table, TableBuilder,
    TableError, TableId, TableOptions, TableSet, TableWriter, WritableFile,
};
use sstfilter::{
    BitsPerKey, BlockError, BuildContext, FilterBuilder, FilterKind, FilterPolicy, FixedPrefix, KeyExtractor, KeyHash,
    KeyHasher, KeyParts, KindPolicy, KindRegistry, LoadContext,
};

use crate::common::effort;

const TABLE: &str = "/db/000001.sst";
const SIDECAR: &str = "/db/000001.sst.filter";

/// Files in memory that can only be read, and how often each name was opened.
#[derive(Debug, Default)]
struct Files {
    contents: BTreeMap<PathBuf, Bytes>,
    /// What opening a sidecar fails with.
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

fn name(key: u32) -> Vec<u8> {
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

/// The table of `keys` keys, with a Bloom filter of its own.
fn table(id: u8, keys: u32, value: &[u8]) -> Bytes {
    let options = TableOptions::default().with_table_id(TableId::from_bytes([id; 16]));
    fill(TableBuilder::new(Vec::new(), &options).unwrap(), keys, value).into()
}

fn ribbon() -> TableOptions {
    let policy = KindPolicy::ribbon(BitsPerKey::new(8.0).unwrap()).unwrap().with_min_keys(0);
    TableOptions::default().with_policy(Arc::new(policy))
}

/// A Ribbon filter for the table.
fn sidecar_of(table: &Bytes) -> Bytes {
    let table = Table::open_source(table.clone(), &ReadOptions::default()).unwrap();
    table.build_sidecar(&ribbon()).unwrap().bytes.unwrap()
}

/// What a sidecar is, and the bytes of its filter.
fn filter_in(sidecar: &[u8]) -> (Sidecar, &[u8]) {
    let opened = Sidecar::open_for_any_table(sidecar, sidecar.len() as u64).unwrap();
    let filter = &sidecar[..usize::try_from(opened.filter_bytes()).unwrap()];
    (opened, filter)
}

fn files(table: &Bytes, sidecar: impl Into<Bytes>) -> Arc<Files> {
    let contents = [(TABLE.into(), table.clone()), (SIDECAR.into(), sidecar.into())];
    Arc::new(Files { contents: contents.into(), ..Files::default() })
}

fn open(files: &Arc<Files>, options: ReadOptions) -> Table {
    Table::open(TABLE, &options.with_file_system(Arc::clone(files) as Arc<dyn FileSystem>)).unwrap()
}

fn kind_in_use(table: &Table) -> Option<FilterKind> {
    Some(table.filter()?.block().unwrap().info().kind)
}

fn assert_no_key_is_lost(table: &Table, keys: u32, story: &str) {
    for key in 0..keys {
        let lookup = table.get(&name(key)).unwrap();
        let is_expected = if is_deleted(key) { lookup == Lookup::Deleted } else { matches!(lookup, Lookup::Found(_)) };
        assert!(is_expected, "{story}: key {key} is lost");
    }
}

/// The sidecar is not used, that shows, and the table's own filter answers.
fn assert_unused(table: &Table, keys: u32, story: &str) {
    assert!(table.sidecar().is_none(), "{story}: the sidecar is used");
    let problem = table.sidecar_problem().unwrap_or_else(|| panic!("{story}: nothing shows")).to_string();
    assert!(problem.contains(SIDECAR), "{story}: {problem}");
    assert_eq!(table.stats().sidecar_problems, 1);
    assert!(table.filter_problem().is_none(), "{story}");
    assert_eq!(kind_in_use(table), Some(FilterKind::BLOCKED_BLOOM), "{story}");
    assert_no_key_is_lost(table, keys, story);
}

#[test]
fn a_sidecar_answers_in_place_of_the_tables_own_filter_and_loses_neither_key_nor_tombstone() {
    let bytes = table(1, 3_000, b"value");
    let table = open(&files(&bytes, sidecar_of(&bytes)), ReadOptions::default());
    assert_eq!(kind_in_use(&table), Some(FilterKind::RIBBON));
    assert!(table.sidecar_problem().is_none() && table.stats().sidecar_problems == 0);
    assert_eq!(table.sidecar().unwrap().table(), &table.identity());
    assert_no_key_is_lost(&table, 3_000, "a sound sidecar");
    let absent = (0..2_000).filter(|key| !table.may_contain_key(format!("user:{key:06}x").as_bytes())).count();
    assert!(absent > 1_900, "{absent} of 2000 absent keys");
    let report = table.verify().unwrap();
    assert_eq!(report.sidecar, FilterVerdict::ContainsAll { keys: 3_000 });
    assert_eq!(report.filter, report.sidecar);
}

#[test]
fn a_table_without_a_sidecar_costs_one_attempt_to_open_one_and_no_other_read() {
    let bytes = table(1, 100, b"value");
    let files = Arc::new(Files { contents: [(TABLE.into(), bytes.clone())].into(), ..Files::default() });
    let table = open(&files, ReadOptions::default());
    assert_eq!(*files.opened.lock().unwrap(), [TABLE, SIDECAR].map(PathBuf::from));
    let alone = Table::open_source(bytes, &ReadOptions::default()).unwrap();
    assert_eq!(table.stats().bytes_read, alone.stats().bytes_read);
    assert!(table.sidecar().is_none() && table.sidecar_problem().is_none());
    assert_eq!(table.verify().unwrap().sidecar, FilterVerdict::None);
    files.opened.lock().unwrap().clear();
    open(&files, ReadOptions::default().without_sidecars());
    open(&files, ReadOptions::default().without_filter());
    assert_eq!(*files.opened.lock().unwrap(), [TABLE, TABLE].map(PathBuf::from));
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_sidecar_leaves_the_answers_to_the_tables_own_filter() {
    let bytes = table(1, 30, b"value");
    let sidecar = sidecar_of(&bytes);
    let flipped = (0..sidecar.len() * 8).map(|bit| {
        let mut damaged = sidecar.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        (format!("bit {bit}"), damaged)
    });
    let cut = (0..sidecar.len()).map(|length| (format!("cut to {length}"), sidecar[..length].to_vec()));
    let longer = [(String::from("a byte more"), [&sidecar[..], &[0]].concat())];
    for (story, damaged) in flipped.chain(cut).chain(longer) {
        let table = open(&files(&bytes, damaged), ReadOptions::default());
        assert_unused(&table, 30, &story);
        assert!(matches!(table.verify(), Err(TableError::Sidecar { .. })), "{story}");
    }
}

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
        let table = open(&files(&bytes, sidecar_of(&other)), ReadOptions::default());
        assert_unused(&table, 50, story);
        assert!(matches!(
            table.sidecar_problem(),
            Some(TableError::Sidecar { source: SidecarError::OtherTable { .. }, .. })
        ));
        assert!(table.verify().is_err(), "{story}");
    }
}

#[test]
fn a_sidecar_that_is_something_else_is_not_used() {
    let bytes = table(1, 50, b"value");
    let sidecar = sidecar_of(&bytes);
    let own_bare_block = Bytes::copy_from_slice(filter_in(&sidecar).1);
    let unbound = {
        let mut builder = KindPolicy::default().builder(&BuildContext::new(&KeyHasher::default()));
        (0..50).for_each(|key| builder.add_key(&name(key)));
        let table = TableIdentity::new([1; 16], bytes.len() as u64, 7);
        assert_ne!(table, Table::open_source(bytes.clone(), &ReadOptions::default()).unwrap().identity());
        Sidecar::seal(&builder.finish().block.unwrap(), &table, &[""]).unwrap()
    };
    for (story, other) in [
        ("the table", bytes.clone()),
        ("a bare filter block", own_bare_block),
        ("an unbound block", unbound),
        ("zeros", Bytes::from(vec![0; 1_000])),
        ("nothing", Bytes::new()),
    ] {
        assert_unused(&open(&files(&bytes, other), ReadOptions::default()), 50, story);
    }
}

#[test]
fn a_sidecar_that_cannot_be_opened_is_a_problem_that_shows_and_a_missing_one_is_none() {
    let bytes = table(1, 50, b"value");
    for refusal in [io::ErrorKind::PermissionDenied, io::ErrorKind::IsADirectory, io::ErrorKind::Other] {
        let sidecar = sidecar_of(&bytes);
        let contents = [(TABLE.into(), bytes.clone()), (SIDECAR.into(), sidecar)].into();
        let files = Arc::new(Files { contents, refusal: Some(refusal), ..Files::default() });
        let table = open(&files, ReadOptions::default());
        assert_unused(&table, 50, &refusal.to_string());
        assert!(matches!(table.sidecar_problem(), Some(TableError::Io { .. })));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    std::fs::write(&path, &bytes).unwrap();
    std::fs::create_dir(Sidecar::path_of(&path)).unwrap();
    let table = Table::open(&path, &ReadOptions::default()).unwrap();
    assert!(table.sidecar_problem().unwrap().to_string().contains("1.sst.filter"));
    assert_no_key_is_lost(&table, 50, "a directory");
}

/// The sidecar of `bytes` whose filter holds only the keys below `held`, under checksums that hold.
fn sidecar_lacking_keys(bytes: &Bytes, held: u32) -> Bytes {
    let table = Table::open_source(bytes.clone(), &ReadOptions::default()).unwrap().identity();
    let context = BuildContext::new(&KeyHasher::default());
    let mut builder = SidecarBuilder::new(Arc::new(KindPolicy::default()), &context, &table);
    (0..held).for_each(|key| builder.add_key(&name(key)));
    builder.finish().unwrap().bytes.unwrap()
}

#[test]
fn a_sidecar_without_the_last_key_is_found_out_when_opened_and_one_without_another_by_verify() {
    let bytes = table(1, 50, b"value");
    let table = open(&files(&bytes, sidecar_lacking_keys(&bytes, 40)), ReadOptions::default());
    assert_unused(&table, 50, "known keys");
    // What only a forger makes: the known keys are there, and the others are not.
    let identity = table.identity();
    let mut builder =
        SidecarBuilder::new(Arc::new(KindPolicy::default()), &BuildContext::new(&KeyHasher::default()), &identity);
    [0, 49].into_iter().for_each(|key| builder.add_key(&name(key)));
    let forged = builder.finish().unwrap().bytes.unwrap();
    let table = open(&files(&bytes, forged), ReadOptions::default());
    match table.verify().unwrap_err() {
        TableError::FalseNegative { at, .. } => assert_eq!(at.path.as_deref(), Some(Path::new(SIDECAR))),
        other => panic!("{other}"),
    }
}

#[test]
fn a_sidecar_that_vanishes_or_is_replaced_while_the_table_is_open_loses_no_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    let sidecar_path = Sidecar::path_of(&path);
    let bytes = table(1, 2_000, b"value");
    std::fs::write(&path, &bytes).unwrap();
    let stale = sidecar_of(&table(1, 1_000, b"value"));
    let open = || {
        std::fs::write(&sidecar_path, sidecar_of(&bytes)).unwrap();
        let table = Table::open(&path, &ReadOptions::default()).unwrap();
        assert!(table.sidecar().is_some());
        table
    };

    let table = open();
    std::fs::remove_file(&sidecar_path).unwrap();
    assert_no_key_is_lost(&table, 2_000, "vanished");
    assert!(matches!(table.verify(), Err(TableError::Io { .. })));

    let table = open();
    std::fs::write(&sidecar_path, &stale).unwrap();
    assert_no_key_is_lost(&table, 2_000, "replaced by a stale one");
    assert!(matches!(table.verify(), Err(TableError::Sidecar { .. })));

    let table = open();
    let summary = table.write_sidecar(&TableOptions::default()).unwrap();
    assert_eq!(summary.path.as_deref(), Some(&*sidecar_path));
    assert_no_key_is_lost(&table, 2_000, "replaced by a good one");
    assert_eq!(kind_in_use(&table), Some(FilterKind::RIBBON), "the one that was loaded");
    table.verify().unwrap();
}

#[test]
fn a_sidecar_for_another_hash_moves_a_store_to_it_and_is_not_used_by_readers_of_the_old_one() {
    let bytes = table(1, 500, b"value");
    for hasher in [KeyHasher::with_seed(7), KeyHasher::with_secret_seed(7)] {
        let options = ReadOptions::default().with_hasher(hasher);
        let moved = Table::open_source(bytes.clone(), &options).unwrap();
        assert!(moved.filter_problem().is_some(), "its own filter is of the old hash");
        let files = files(&bytes, moved.build_sidecar(&ribbon()).unwrap().bytes.unwrap());

        let table = open(&files, options.with_strict_hash());
        assert_eq!(kind_in_use(&table), Some(FilterKind::RIBBON));
        assert_no_key_is_lost(&table, 500, "the new hash");
        let report = table.verify().unwrap();
        assert_eq!(report.sidecar, FilterVerdict::ContainsAll { keys: 500 });
        assert!(matches!(report.filter, FilterVerdict::NotProbed { .. }));

        let table = open(&files, ReadOptions::default().with_strict_hash());
        assert_unused(&table, 500, "the old hash");
        assert!(table.sidecar_problem().unwrap().is_foreign_filter());
        assert!(matches!(table.verify().unwrap().sidecar, FilterVerdict::NotProbed { .. }));
    }
}

#[test]
fn a_strict_reader_refuses_a_table_that_has_nothing_but_a_sidecar_of_another_hash() {
    let options = TableOptions::default().without_filter();
    let bytes: Bytes = fill(TableBuilder::new(Vec::new(), &options).unwrap(), 50, b"value").into();
    let other = ReadOptions::default().with_hasher(KeyHasher::with_seed(7));
    let sidecar = Table::open_source(bytes.clone(), &other).unwrap().build_sidecar(&ribbon()).unwrap().bytes.unwrap();
    let files = files(&bytes, sidecar);
    let table = open(&files, ReadOptions::default());
    assert!(table.filter().is_none() && table.sidecar_problem().is_some());
    assert_no_key_is_lost(&table, 50, "no filter at all");
    let options = ReadOptions::default().with_file_system(files);
    assert!(Table::open(TABLE, &options.clone().with_strict_hash()).unwrap_err().is_foreign_filter());
    Table::open(TABLE, &options.with_strict_hash().without_sidecars()).unwrap();
}

#[test]
fn a_sidecar_of_other_parts_of_keys_is_not_used() {
    let bytes = table(1, 500, b"value");
    let prefixes = || ReadOptions::default().with_extractor(Arc::new(FixedPrefix::new(8)));
    let table_of_prefixes = Table::open_source(bytes.clone(), &prefixes()).unwrap();
    let files = files(&bytes, table_of_prefixes.build_sidecar(&ribbon()).unwrap().bytes.unwrap());
    let table = open(&files, ReadOptions::default());
    assert_unused(&table, 500, "whole keys");

    let table = open(&files, prefixes());
    assert_eq!(kind_in_use(&table), Some(FilterKind::RIBBON), "one of prefixes, which the table's own is not");
    assert_no_key_is_lost(&table, 500, "prefixes");
    assert!(table.may_contain_prefix(b"user:0003"));

    let others = open(&files, ReadOptions::default().with_extractor(Arc::new(FixedPrefix::new(9))));
    assert!(others.sidecar().is_none() && others.filter_problem().is_some());
    assert_no_key_is_lost(&others, 500, "prefixes of another length");
}

/// A function that is not the one that the tag stands for.
fn changed_function(tag: u64) -> KeyHasher {
    KeyHasher::custom(tag, |key| KeyHash::mix(key.iter().fold(1, |sum, &byte| sum * 31 + u64::from(byte))))
}

#[test]
fn a_custom_hash_that_changed_under_its_tag_is_found_out_in_a_sidecar_too() {
    let bytes = table(1, 500, b"value");
    let hasher = KeyHasher::custom(5, |key| KeyHasher::default().hash(key));
    let options = ReadOptions::default().with_hasher(hasher);
    let sidecar = Table::open_source(bytes.clone(), &options).unwrap().build_sidecar(&ribbon()).unwrap();
    let files = files(&bytes, sidecar.bytes.unwrap());
    assert!(open(&files, options).sidecar().is_some());
    let changed = open(&files, ReadOptions::default().with_hasher(changed_function(5)));
    assert!(changed.sidecar_problem().unwrap().is_foreign_filter());
    assert_no_key_is_lost(&changed, 500, "a changed function");
}

#[test]
fn a_set_whose_newest_table_has_another_function_uses_no_sidecar_of_tables_without_filters() {
    let options = TableOptions::default().without_filter();
    let bytes: Bytes = fill(TableBuilder::new(Vec::new(), &options).unwrap(), 500, b"value").into();
    let hasher = KeyHasher::custom(5, |key| KeyHasher::default().hash(key));
    let reading = ReadOptions::default().with_hasher(hasher);
    let sidecar = Table::open_source(bytes.clone(), &reading).unwrap().build_sidecar(&ribbon()).unwrap();
    let older = open(&files(&bytes, sidecar.bytes.unwrap()), reading);
    assert!(older.sidecar().is_some());
    let empty = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap().finish().unwrap().0;
    let newest = ReadOptions::default().with_hasher(changed_function(5));
    let newest = Table::open_source(Bytes::from(empty), &newest).unwrap();
    let set = TableSet::new(vec![newest, older]).unwrap();
    assert!(set.tables()[1].filter_problem().unwrap().to_string().contains(SIDECAR));
    for key in (0..500).filter(|&key| !is_deleted(key)) {
        assert!(set.get(&name(key)).unwrap().is_some(), "key {key} is lost");
    }
}

#[test]
fn a_set_of_tables_probes_their_sidecars() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..3).map(|number| directory.path().join(format!("{number}.sst"))).collect();
    for path in &paths {
        let mut writer = TableWriter::create(path, &TableOptions::default().without_filter()).unwrap();
        (0..1_000).for_each(|key| writer.add(&name(key * 2), b"value").unwrap());
        writer.finish().unwrap();
        Table::open(path, &ReadOptions::default()).unwrap().write_sidecar(&TableOptions::default()).unwrap();
    }
    let set = TableSet::open(&paths, &ReadOptions::default()).unwrap();
    for key in 0..1_000 {
        assert!(set.get(&name(key * 2)).unwrap().is_some());
        assert!(set.get(&name(key * 2 + 1)).unwrap().is_none());
    }
    let skipped = set.stats().skipped_by_filter;
    assert!(skipped > 2_900, "{skipped} of 3000");
}

#[test]
fn a_table_of_no_entries_has_a_sidecar_of_no_keys() {
    let bytes = table(1, 0, b"");
    let table = open(&files(&bytes, sidecar_of(&bytes)), ReadOptions::default());
    assert!(table.sidecar().is_some());
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
    std::fs::write(Sidecar::path_of(&path), &good).unwrap();
    let mut damaged = bytes.to_vec();
    damaged[5_000] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let refused = Table::open(&path, &ReadOptions::default()).unwrap().write_sidecar(&ribbon()).unwrap_err();
    assert!(matches!(refused, TableError::Checksum { .. }), "{refused}");
    assert_eq!(std::fs::read(Sidecar::path_of(&path)).unwrap(), good);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn a_table_that_is_no_longer_at_its_path_gets_no_sidecar() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    std::fs::write(&path, table(1, 100, b"value")).unwrap();
    let open = Table::open(&path, &ReadOptions::default()).unwrap();
    let next = directory.path().join("next");
    std::fs::write(&next, table(1, 100, b"VALUE")).unwrap();
    std::fs::rename(&next, &path).unwrap();
    assert!(open.write_sidecar(&ribbon()).unwrap_err().to_string().contains("replaced"));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(open.write_sidecar(&ribbon()), Err(TableError::Io { .. })));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

    let pathless = Table::open_source(table(1, 10, b""), &ReadOptions::default()).unwrap();
    let refused = pathless.write_sidecar(&ribbon()).unwrap_err().to_string();
    assert!(refused.contains("expected a table that was opened by path"), "{refused}");
}

#[test]
fn a_sidecar_that_was_built_for_another_table_does_not_replace_a_sound_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    let bytes = table(1, 100, b"value");
    std::fs::write(&path, &bytes).unwrap();
    let sound = sidecar_of(&bytes);
    std::fs::write(Sidecar::path_of(&path), &sound).unwrap();
    let table = Table::open(&path, &ReadOptions::default()).unwrap();
    for other in [self::table(2, 100, b"value"), self::table(1, 100, b"VALUE")] {
        let other = Table::open_source(other, &ReadOptions::default()).unwrap();
        let refused = table.place_sidecar(other.build_sidecar(&ribbon()).unwrap(), &ribbon()).unwrap_err();
        let expected = SidecarError::OtherTable { expected: table.identity(), got: other.identity() };
        assert!(matches!(&refused, TableError::Sidecar { source, .. } if *source == expected), "{refused}");
        assert_eq!(std::fs::read(Sidecar::path_of(&path)).unwrap(), sound);
    }
    table.place_sidecar(table.build_sidecar(&TableOptions::default()).unwrap(), &ribbon()).unwrap();
    assert_ne!(std::fs::read(Sidecar::path_of(&path)).unwrap(), sound);
}

/// Makes no filters, or none that it was told to make.
#[derive(Debug)]
struct Unhelpful(Option<KindPolicy>);

impl FilterPolicy for Unhelpful {
    fn name(&self) -> &'static str {
        "unhelpful"
    }

    fn builder(&self, _: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        Some(self.0.as_ref()?.builder(&BuildContext::new(&KeyHasher::default())))
    }
}

#[test]
fn nothing_is_written_where_a_policy_makes_no_filter_or_one_that_belongs_to_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    std::fs::write(&path, table(1, 100, b"value")).unwrap();
    let table = Table::open(&path, &ReadOptions::default()).unwrap();
    let declining = TableOptions::default().with_policy(Arc::new(Unhelpful(None)));
    for options in [TableOptions::default().without_filter(), declining] {
        let summary = table.write_sidecar(&options).unwrap();
        assert_eq!((summary.path, summary.file_bytes), (None, 0));
    }
    let unbound = TableOptions::default().with_policy(Arc::new(Unhelpful(Some(KindPolicy::default()))));
    let refused = table.write_sidecar(&unbound).unwrap_err();
    assert!(
        matches!(
            refused,
            TableError::Sidecar { source: SidecarError::Filter(BlockError::FileMismatch { got: None, .. }), .. }
        ),
        "{refused}"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_sidecar_of_a_kind_that_the_reader_does_not_know_is_not_used_and_is_no_damage() {
    let bytes = table(1, 50, b"value");
    let sidecar = sidecar_of(&bytes);
    let (opened, filter) = filter_in(&sidecar);
    let mut filter = filter.to_vec();
    let at = filter.len() - 32;
    filter[at + 21] = 200;
    // The file's fingerprint and the parameter words stand before the trailer.
    let words = usize::from(filter[at + 24] >> 4);
    let end = filter.len() - 4;
    let sum = crc32c::crc32c(&filter[at - 8 - 4 * words..end]).to_le_bytes();
    filter[end..].copy_from_slice(&sum);
    let unknown = Sidecar::seal(&filter, opened.table(), &[""]).unwrap();
    let table = open(&files(&bytes, unknown), ReadOptions::default().with_kinds(KindRegistry::default()));
    assert_unused(&table, 50, "kind 200");
    assert!(matches!(table.verify().unwrap().sidecar, FilterVerdict::NotProbed { .. }));
}

#[test]
fn local_files_have_their_sidecars_beside_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("000001.sst");
    std::fs::write(&path, table(1, 100, b"value")).unwrap();
    let options = TableOptions::default().with_file_system(Arc::new(LocalFileSystem));
    let summary = Table::open(&path, &ReadOptions::default()).unwrap().write_sidecar(&options).unwrap();
    let sidecar = summary.path.unwrap();
    assert_eq!(sidecar, directory.path().join("000001.sst.filter"));
    assert_eq!(summary.file_bytes, std::fs::metadata(&sidecar).unwrap().len());
    assert_eq!(summary.filter.unwrap().distinct_keys, 100);
}

/// Sidecars of both cuts, in partitions as small as they can be.
fn partitioned() -> [TableOptions; 2] {
    [PartitionCut::KeyRange, PartitionCut::HashRange]
        .map(|cut| ribbon().with_partitioned_filter(PartitionOptions::new(cut, 1_024).unwrap()))
}

/// Keys whose neighbours share parts, as do keys of different partitions.
#[test]
fn every_part_of_every_key_is_in_its_partition_of_a_sidecar() {
    let (hasher, table) = (KeyHasher::default(), TableIdentity::new([7; 16], 1_000, 7));
    let [few, many]: [Arc<dyn KeyExtractor>; 2] = [Arc::new(FixedPrefix::new(6)), Arc::new(FixedPrefix::new(10))];
    let all_parts = [
        KeyParts::whole_keys().with_extractor(few.clone()).with_extractor(many.clone()),
        KeyParts::extracted(many.clone()).with_extractor(few),
        KeyParts::extracted(many),
    ];
    for (parts, cut) in
        all_parts.iter().flat_map(|parts| [(parts, PartitionCut::KeyRange), (parts, PartitionCut::HashRange)])
    {
        let context = BuildContext::new(&hasher).with_key_parts(parts.clone());
        let mut builder = SidecarBuilder::new(Arc::new(KindPolicy::default()), &context, &table)
            .with_partitions(PartitionOptions::new(cut, 1_024).unwrap());
        (0..40_000).for_each(|key| builder.add_key(&name(key)));
        let built = builder.finish().unwrap().bytes.unwrap();
        let sidecar = Sidecar::open(&built, built.len() as u64, &table).unwrap();
        let filter = built.slice(..usize::try_from(sidecar.filter_bytes()).unwrap());
        let context = LoadContext::new(&hasher).with_key_parts(parts).with_file_id(table.file_id());
        let filter = PartitionedFilter::load(filter, context).unwrap();
        assert!(filter.index().partitions() >= 3, "{} partitions", filter.index().partitions());
        for key in (0..40_000).map(name) {
            assert!(filter.may_contain(&key, hasher.hash(&key)), "{cut:?}, {parts:?}: {}", key.escape_ascii());
            let may_have = |length| filter.may_contain_prefix(&parts.prefix(&hasher, &key[..length]));
            assert!([6, 9, 10].into_iter().all(may_have), "{cut:?}, {parts:?}: {}", key.escape_ascii());
        }
    }
}

fn built(table: &Bytes, options: &TableOptions) -> Bytes {
    let table = Table::open_source(table.clone(), &ReadOptions::default()).unwrap();
    table.build_sidecar(options).unwrap().bytes.unwrap()
}

#[test]
fn a_partitioned_sidecar_is_read_by_partitions_and_loses_no_key() {
    let bytes = table(1, 5_000, b"value");
    for options in partitioned() {
        let files = files(&bytes, built(&bytes, &options));
        let table = open(&files, ReadOptions::default());
        assert!(table.sidecar_problem().is_none(), "{:?}", table.sidecar_problem());
        assert!(table.sidecar().is_some() && table.filter_budget().is_some());
        let unread = open(&files, ReadOptions::default());
        assert!((0..unread.partition_index().unwrap().partitions()).all(|n| unread.read_partition(n).unwrap().is_ok()));
        let opened = table.stats().bytes_read;
        assert!(!table.may_contain_key(b"user:002500 is absent") || !table.may_contain_key(b"user:002501 is absent"));
        let read = table.stats().bytes_read - opened;
        assert!((1..=2 * 1_100).contains(&read), "{read} bytes for two probes");
        assert_no_key_is_lost(&table, 5_000, "partitions");
        let absent = (0..2_000).filter(|key| !table.may_contain_key(format!("user:{key:06}x").as_bytes())).count();
        assert!(absent > 1_900, "{absent} of 2000 absent keys");
        assert_eq!(table.verify().unwrap().sidecar, FilterVerdict::ContainsAll { keys: 5_000 });
    }
}

#[test]
fn verify_finds_a_key_that_a_partition_of_a_sidecar_lacks() {
    let bytes = table(1, 5_000, b"value");
    let identity = Table::open_source(bytes.clone(), &ReadOptions::default()).unwrap().identity();
    for cut in [PartitionCut::KeyRange, PartitionCut::HashRange] {
        let mut builder =
            SidecarBuilder::new(Arc::new(KindPolicy::default()), &BuildContext::new(&KeyHasher::default()), &identity)
                .with_partitions(PartitionOptions::new(cut, 1_024).unwrap());
        (0..5_000).filter(|key| !(2_500..2_600).contains(key)).for_each(|key| builder.add_key(&name(key)));
        let lacking = builder.finish().unwrap().bytes.unwrap();
        let table = open(&files(&bytes, lacking), ReadOptions::default());
        assert!(table.partition_index().unwrap().partitions() > 3);
        match table.verify().unwrap_err() {
            TableError::FalseNegative { at, key, .. } => {
                assert_eq!(at.path.as_deref(), Some(Path::new(SIDECAR)));
                assert!((name(2_500)..name(2_600)).contains(&key), "{}", key.escape_ascii());
            }
            other => panic!("{other}"),
        }
    }
}

/// Declines for the third of its filters.
#[derive(Debug, Default)]
struct Moody(AtomicU32);

impl FilterPolicy for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        (self.0.fetch_add(1, Ordering::Relaxed) != 2).then(|| KindPolicy::default().builder(context))
    }
}

#[test]
fn verify_takes_a_partition_of_a_sidecar_without_a_filter_for_sound_and_finds_damage_behind_it() {
    let bytes = table(1, 5_000, b"value");
    let options = PartitionOptions::new(PartitionCut::KeyRange, 1_024).unwrap();
    let options = TableOptions::default().with_policy(Arc::new(Moody::default())).with_partitioned_filter(options);
    let sidecar = built(&bytes, &options);
    let table = open(&files(&bytes, sidecar.clone()), ReadOptions::default());
    let entries: Vec<_> = table.partition_index().unwrap().entries().collect();
    let without_filter = entries.iter().position(|entry| entry.block_bytes == 0).expect("one was declined");
    assert_eq!(table.verify().unwrap().sidecar, FilterVerdict::ContainsAll { keys: 5_000 });
    assert_no_key_is_lost(&table, 5_000, "a partition without a filter");

    let behind = &entries[without_filter + 1];
    let mut damaged = sidecar.to_vec();
    damaged[usize::try_from(behind.offset).unwrap()] ^= 1;
    match open(&files(&bytes, damaged), ReadOptions::default()).verify().unwrap_err() {
        TableError::Sidecar { source: SidecarError::Filter(BlockError::PartitionChecksum { number, .. }), .. } => {
            assert_eq!(number, behind.number);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn verify_names_the_damaged_partition_of_a_sidecar() {
    let bytes = table(1, 5_000, b"value");
    for options in partitioned() {
        let sidecar = built(&bytes, &options);
        let sound = open(&files(&bytes, sidecar.clone()), ReadOptions::default());
        for entry in sound.partition_index().unwrap().entries() {
            let mut damaged = sidecar.to_vec();
            damaged[usize::try_from(entry.offset + u64::from(entry.block_bytes) / 2).unwrap()] ^= 1;
            match open(&files(&bytes, damaged), ReadOptions::default()).verify().unwrap_err() {
                TableError::Sidecar {
                    source: SidecarError::Filter(BlockError::PartitionChecksum { number, .. }),
                    ..
                } => assert_eq!(number, entry.number),
                other => panic!("partition {}: {other}", entry.number),
            }
        }
    }
}

#[test]
fn a_damaged_partitioned_sidecar_loses_no_key_and_verify_says_so() {
    let bytes = table(1, 1_500, b"value");
    for options in partitioned() {
        let sidecar = built(&bytes, &options);
        let bits = (0..sidecar.len() * 8).step_by(37).chain(sidecar.len() * 8 - 2_000..sidecar.len() * 8);
        for bit in bits.step_by(effort::stride(7)) {
            let mut damaged = sidecar.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let table = open(&files(&bytes, damaged), ReadOptions::default());
            for key in (0..1_500).step_by(3) {
                assert!(table.get(&name(key)).unwrap() != Lookup::Absent, "bit {bit}: key {key} is lost");
            }
            assert!(matches!(table.verify(), Err(TableError::Sidecar { .. })), "bit {bit}");
        }
        for length in (0..sidecar.len()).step_by(97) {
            let table = open(&files(&bytes, sidecar.slice(..length)), ReadOptions::default());
            assert_unused(&table, 1_500, &format!("cut to {length}"));
        }
    }
}

#[test]
fn under_a_budget_a_sidecar_comes_in_with_the_first_probe_and_a_damaged_one_loses_no_key() {
    let bytes = table(1, 2_000, b"value");
    let under_budget = || ReadOptions::default().with_filter_budget(FilterBudget::new(1 << 20));
    for options in [ribbon(), partitioned()[0].clone(), partitioned()[1].clone()] {
        let sidecar = built(&bytes, &options);
        let table = open(&files(&bytes, sidecar.clone()), under_budget());
        let sizes = (table.stats().bytes_read, sidecar.len() as u64);
        assert!(table.sidecar().is_some(), "{:?}", table.sidecar_problem());
        assert!(table.filter_budget().is_some());
        assert_no_key_is_lost(&table, 2_000, "a budget");
        assert!(table.stats().bytes_read > sizes.0 + sizes.1, "it was read when it was probed");
        assert!((0..500).filter(|key| !table.may_contain_key(format!("user:{key:06}x").as_bytes())).count() > 450);
        table.verify().unwrap();
        for bit in (0..sidecar.len() * 8).step_by(101 * effort::stride(7)) {
            let mut damaged = sidecar.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let table = open(&files(&bytes, damaged), under_budget());
            for key in (0..2_000).step_by(7) {
                assert!(table.get(&name(key)).unwrap() != Lookup::Absent, "bit {bit}: key {key} is lost");
            }
        }
    }
}

#[test]
fn a_sidecar_that_vanishes_or_is_replaced_before_it_is_loaded_loses_no_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    let bytes = table(1, 2_000, b"value");
    std::fs::write(&path, &bytes).unwrap();
    let prefixes = ReadOptions::default().with_extractor(Arc::new(FixedPrefix::new(8)));
    let of_prefixes = Table::open_source(bytes.clone(), &prefixes).unwrap().build_sidecar(&ribbon()).unwrap();
    let replacements = [
        None,
        Some(of_prefixes.bytes.unwrap()),
        Some(sidecar_of(&table(1, 1_000, b"value"))),
        Some(sidecar_lacking_keys(&bytes, 1_999)),
        Some(Bytes::new()),
    ];
    for (number, replacement) in replacements.into_iter().enumerate() {
        for options in [ribbon(), partitioned()[0].clone(), partitioned()[1].clone()] {
            std::fs::write(Sidecar::path_of(&path), built(&bytes, &options)).unwrap();
            // Each read opens its file by its name.
            let files = LimitedFiles::new(Arc::new(LocalFileSystem), 0);
            let reading = ReadOptions::default().with_file_system(Arc::new(files));
            let table = Table::open(&path, &reading.with_filter_budget(FilterBudget::new(1 << 20))).unwrap();
            assert!(table.sidecar().is_some());
            match &replacement {
                None => std::fs::remove_file(Sidecar::path_of(&path)).unwrap(),
                Some(other) => std::fs::write(Sidecar::path_of(&path), other).unwrap(),
            }
            assert_no_key_is_lost(&table, 2_000, &format!("replacement {number}"));
        }
    }
}

/// An engine seals a filter of whole keys under the names of the parts that its store has by now: as in a table, the
/// names alone would make prefixes absent.
#[test]
fn a_sidecar_whose_filter_lacks_a_part_that_its_names_say_it_has_loses_no_prefix() {
    let table = table(1, 3_000, b"v");
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(9)));
    let identity = *Sidecar::open_for_any_table(&sidecar_of(&table), sidecar_of(&table).len() as u64).unwrap().table();
    for cut in [None, Some(PartitionCut::KeyRange), Some(PartitionCut::HashRange)] {
        let mut builder =
            SidecarBuilder::new(Arc::new(KindPolicy::default()), &BuildContext::new(&KeyHasher::default()), &identity);
        if let Some(cut) = cut {
            builder = builder.with_partitions(PartitionOptions::new(cut, 1_024).unwrap());
        }
        (0..3_000).for_each(|key| builder.add_key(&name(key)));
        let built = builder.finish().unwrap().bytes.unwrap();
        let claimed = Sidecar::seal(filter_in(&built).1, &identity, &["", "fixed-prefix:9"]).unwrap();
        let files = files(&table, claimed);
        for options in [ReadOptions::default(), ReadOptions::default().with_filter_budget(FilterBudget::unlimited())] {
            let table = open(&files, options.with_key_parts(parts.clone()));
            for key in (0..3_000).step_by(50) {
                assert!(table.may_contain_prefix(&name(key)[..9]), "{cut:?}: the prefix of key {key} is lost");
            }
            assert!(table.sidecar_problem().is_some(), "{cut:?}");
            assert_no_key_is_lost(&table, 3_000, "a part that the filter lacks");
        }
    }
}
