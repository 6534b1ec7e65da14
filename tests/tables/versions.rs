//! A set of tables that changes, against a map. The failures guarded against: a value that a compaction brings back,
//! because its table got the wrong place among those of level 0; a reader that sees half an edit, or loses a table that
//! it still reads; a refused edit that leaves something behind; a key at the bound of two tables of one level.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use bytes::Bytes;
use sstfilter::budget::FilterBudget;
use sstfilter::partition::{PartitionCut, PartitionOptions};
use sstfilter::sst::{
    BoundedBlockCache, RandomAccess, ReadOptions, Table, TableBuilder, TableError, TableId, TableOptions, TablePart,
    Version, VersionEdit, VersionError, VersionSet,
};
use sstfilter::{
    BitsPerKey, BlockError, BuildContext, FilterStats, FixedPrefix, HashId, KeyHasher, KeyParts, KindPolicy,
};

use crate::common::random::Random;

type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn id(number: u128) -> TableId {
    TableId::from_bytes(number.to_le_bytes())
}

fn bytes_of(number: u128, entries: &Entries, options: &TableOptions) -> Bytes {
    let mut builder = TableBuilder::new(Vec::new(), &options.clone().with_table_id(id(number))).unwrap();
    for (key, value) in entries {
        match value {
            Some(value) => builder.add(key, value).unwrap(),
            None => builder.delete(key).unwrap(),
        }
    }
    Bytes::from(builder.finish().unwrap().0)
}

fn open(bytes: Bytes) -> Arc<Table> {
    Arc::new(Table::open_source(bytes, &ReadOptions::default()).unwrap())
}

fn table_of(number: u128, entries: &Entries) -> Arc<Table> {
    open(bytes_of(number, entries, &TableOptions::default()))
}

/// A table in which every key has the same value.
fn table(number: u128, keys: &[&str], value: &str) -> Arc<Table> {
    table_of(number, &keys.iter().map(|key| (key.as_bytes().to_vec(), Some(value.as_bytes().to_vec()))).collect())
}

fn ids(version: &Version, level: u32) -> Vec<TableId> {
    version.tables(level).map(|table| *table.table_id()).collect()
}

fn numbers(version: &Version, level: u32) -> Vec<u128> {
    ids(version, level).iter().map(|id| u128::from_le_bytes(*id.as_bytes())).collect()
}

fn text(version: &Version, key: &str) -> Option<String> {
    let value = version.get(key.as_bytes()).unwrap();
    let batch = version.multi_get(&[key.as_bytes()]).pop().unwrap().unwrap();
    assert_eq!(value, batch, "{key}");
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn of_two_tables_at_level_0_the_one_added_later_is_the_newer() {
    let set = VersionSet::new();
    let edit = VersionEdit::new().add(0, table(1, &["a", "b", "c"], "1")).add(0, table(2, &["b", "c"], "2"));
    set.apply(edit).unwrap();
    let version = set.apply(VersionEdit::new().add(0, table(3, &["c"], "3"))).unwrap();
    assert_eq!(numbers(&version, 0), [3, 2, 1]);
    let values = ["a", "b", "c", "d"].map(|key| text(&version, key));
    assert_eq!(values, [Some("1".into()), Some("2".into()), Some("3".into()), None]);
}

#[test]
fn tables_that_take_each_others_places_are_all_there() {
    let (one, two, three) = (table(1, &["a"], "1"), table(2, &["b"], "2"), table(3, &["c"], "3"));
    let set = VersionSet::new();
    set.apply(VersionEdit::new().add(0, one.clone()).add(0, two.clone())).unwrap();
    let swapped = set.apply(VersionEdit::new().replace(0, id(1), two.clone()).replace(0, id(2), one.clone())).unwrap();
    assert_eq!(numbers(&swapped, 0), [1, 2]);
    assert_eq!((text(&swapped, "a").as_deref(), text(&swapped, "b").as_deref()), (Some("1"), Some("2")));
    let moved = set.apply(VersionEdit::new().replace(0, id(2), one).replace(0, id(1), three)).unwrap();
    assert_eq!(numbers(&moved, 0), [3, 1]);
    assert_eq!((text(&moved, "a").as_deref(), text(&moved, "c").as_deref()), (Some("1"), Some("3")));
}

#[test]
fn a_table_that_replaces_another_at_level_0_has_its_age() {
    let set = VersionSet::new();
    let tables = (1..=4).map(|number| table(number, &["a", &format!("b{number}")], &number.to_string()));
    set.apply(tables.fold(VersionEdit::new(), |edit, table| edit.add(0, table))).unwrap();
    // 2 and 3 become 5, and 1 is opened again under its id.
    let edit = VersionEdit::new()
        .replace(0, id(3), table(5, &["a", "b2", "b3"], "5"))
        .remove(0, id(2))
        .remove(0, id(1))
        .add(0, table(1, &["a", "b1"], "1 again"))
        .add(0, table(6, &["z"], "6"));
    let version = set.apply(edit).unwrap();
    assert_eq!(numbers(&version, 0), [6, 4, 5, 1]);
    assert_eq!(text(&version, "a").unwrap(), "4");
    assert_eq!(text(&version, "b2").unwrap(), "5");
    assert_eq!(text(&version, "b1").unwrap(), "1 again");
    let version = set.apply(VersionEdit::new().remove(0, id(4))).unwrap();
    assert_eq!(text(&version, "a").unwrap(), "5");
}

#[test]
fn lower_levels_are_newer_and_level_numbers_need_not_be_dense() {
    let set = VersionSet::new();
    let levels = [0, 1, 6, 1_000_000, u32::MAX];
    let tables = levels.iter().enumerate().rev();
    let edit = tables.fold(VersionEdit::new(), |edit, (age, &level)| {
        let own = format!("key {age}");
        edit.add(level, table(age as u128, &["key", &own], &level.to_string()))
    });
    let mut version = set.apply(edit).unwrap();
    assert_eq!(version.levels().collect::<Vec<_>>(), levels);
    for (age, &level) in levels.iter().enumerate() {
        assert_eq!(text(&version, "key").unwrap(), level.to_string());
        assert_eq!(text(&version, "key 4").unwrap(), u32::MAX.to_string());
        version = set.apply(VersionEdit::new().remove(level, id(age as u128))).unwrap();
        assert_eq!(version.levels().collect::<Vec<_>>(), levels[age + 1..]);
    }
    assert_eq!(text(&version, "key"), None);
}

/// A set with a table at level 0, three at level 1, and the keys of all with their values.
fn small_set() -> VersionSet {
    let set = VersionSet::new();
    let edit = VersionEdit::new()
        .add(0, table(1, &["b", "k"], "1"))
        .add(1, table(2, &["a", "c"], "2"))
        .add(1, table(4, &["m", "p"], "4"))
        .add(1, table(3, &["f", "h"], "3"));
    set.apply(edit).unwrap();
    set
}

#[test]
fn an_edit_that_fails_changes_nothing() {
    let new = |keys: &[&str]| table(9, keys, "9");
    let other_reader = || {
        let options = TableOptions::default().with_context(BuildContext::new(&KeyHasher::with_seed(7)));
        open(bytes_of(9, &Entries::from([(b"s".to_vec(), None)]), &options))
    };
    let edit = VersionEdit::new;
    // Each has a sound part before and after the one that is refused.
    let sound = |edit: VersionEdit| edit.add(0, table(7, &["x"], "7")).remove(1, id(3)).add(2, table(8, &["x"], "8"));
    let overlap = |left, right| VersionError::Overlap { level: 1, tables: [id(left), id(right)] };
    let duplicate = |level, number| VersionError::DuplicateId { level, table: id(number) };
    let missing = |level, number| VersionError::NotAtLevel { level, table: id(number) };
    let refused = [
        ("a table removed from another level", edit().remove(2, id(2)), missing(2, 2)),
        ("a table that was never there", edit().remove(1, id(5)), missing(1, 5)),
        ("a table removed twice", edit().remove(1, id(2)).remove(1, id(2)), missing(1, 2)),
        ("removed and replaced", edit().remove(1, id(2)).replace(1, id(2), new(&["a"])), missing(1, 2)),
        ("a replaced table that is not there", edit().replace(0, id(2), new(&["a"])), missing(0, 2)),
        ("an id that is there", edit().add(1, table(2, &["q"], "2")), duplicate(1, 2)),
        ("an id that is there, at another level", edit().add(3, table(1, &["q"], "1")), duplicate(0, 1)),
        ("one id added twice", edit().add(1, new(&["q"])).add(2, new(&["q"])), duplicate(1, 9)),
        ("one id added twice at level 0", edit().add(0, new(&["q"])).add(0, new(&["q"])), duplicate(0, 9)),
        (
            "a table added that an edit adds in place of another",
            edit().add(1, new(&["q"])).replace(1, id(2), new(&["a"])),
            duplicate(1, 9),
        ),
        ("an equal smallest key", edit().add(1, new(&["a"])), overlap(2, 9)),
        ("an equal bound above", edit().add(1, new(&["k", "m"])), overlap(9, 4)),
        ("an equal bound below", edit().add(1, new(&["c", "d"])), overlap(2, 9)),
        ("inside a range", edit().add(1, new(&["n"])), overlap(4, 9)),
        ("around everything", edit().add(1, new(&["A", "z"])), overlap(9, 2)),
        ("two that are added", edit().add(1, new(&["r", "t"])).add(1, table(10, &["s"], "")), overlap(9, 10)),
        ("another reader", edit().add(1, other_reader()), VersionError::MixedReaders { table: id(9) }),
    ];
    for (what, edit, expected) in refused {
        for edit in [edit.clone(), sound(edit)] {
            let set = small_set();
            let before = set.current();
            let shown = format!("{before:?}");
            assert_eq!(set.apply(edit).unwrap_err(), expected, "{what}");
            assert!(Arc::ptr_eq(&before, &set.current()), "{what}");
            assert_eq!(format!("{:?}", set.current()), shown, "{what}");
            // The set knows of no table that it refused, and of each that it has.
            let all = [7, 8, 9].map(|number| table(number, &[&format!("zz{number}")], "new"));
            let edit = all.into_iter().fold(VersionEdit::new(), |edit, table| edit.add(1, table));
            let version = set.apply(edit.remove(0, id(1)).remove(1, id(2)).remove(1, id(3)).remove(1, id(4))).unwrap();
            assert_eq!((ids(&version, 0).len(), numbers(&version, 1)), (0, vec![7, 8, 9]), "{what}");
        }
    }
}

#[test]
fn errors_name_level_and_tables() {
    let text = VersionError::Overlap { level: 3, tables: [id(0xabc), id(0xdef)] }.to_string();
    for part in ["level 3", &id(0xabc).to_string(), &id(0xdef).to_string()] {
        assert!(text.contains(part), "{text}");
    }
    for error in [
        VersionError::NotAtLevel { level: 3, table: id(0xabc) },
        VersionError::DuplicateId { level: 3, table: id(0xabc) },
    ] {
        let text = error.to_string();
        assert!(text.contains(&id(0xabc).to_string()) && text.contains("level 3"), "{text}");
    }
    let text = VersionError::MixedReaders { table: id(0xabc) }.to_string();
    assert!(text.contains(&id(0xabc).to_string()), "{text}");
}

#[test]
fn a_key_between_and_at_the_bounds_of_neighbours_is_found_in_the_one_that_has_it() {
    // Bounds that are beginnings of each other, that differ late, and that are empty.
    let bounds = ["", "\0", "\0\0", "a", "a\0", "aaaaaaaaa", "aaaaaaaaab", "aaaaaaaaab\0\0\0\0\0\0\0\0", "b", "c"];
    let set = VersionSet::new();
    let tables = (0..).zip(&bounds).map(|(number, key)| table(number, &[key], key));
    let version = set.apply(tables.fold(VersionEdit::new(), |edit, table| edit.add(3, table))).unwrap();
    assert_eq!(numbers(&version, 3), (0..10).collect::<Vec<_>>());
    for (number, key) in bounds.iter().enumerate() {
        assert_eq!(text(&version, key).as_deref(), Some(*key));
        let matches: Vec<_> =
            version.matches(key.as_bytes()).map(|(level, table)| (level, *table.table_id())).collect();
        assert_eq!(matches, [(3, id(number as u128))]);
    }
    for key in ["\0\0\0", "\u{1}", "aa", "aaaaaaaaaa", "aaaaaaaaab\0", "bb", "d"] {
        assert_eq!((text(&version, key), version.matches(key.as_bytes()).count()), (None, 0), "{key}");
    }
}

#[test]
fn tables_without_entries_are_kept_overlap_nothing_and_hold_nothing() {
    let set = VersionSet::new();
    let mut edit = VersionEdit::new();
    for number in 0..200_u128 {
        edit = edit.add(u32::from(number.is_multiple_of(2)), table(number, &[], ""));
    }
    let edit = edit.add(1, table(1_000, &["", "b"], "x")).add(1, table(1_001, &["c"], "y"));
    let version = set.apply(edit).unwrap();
    assert_eq!((version.tables(0).count(), version.tables(1).count()), (100, 102));
    assert_eq!(["", "b", "c", "d"].map(|key| text(&version, key).is_some()), [true, true, true, false]);
    assert_eq!(version.matches(b"").count(), 1);
    assert_eq!(version.matches_prefix(b"").count(), 2);
    // Any of them can leave, from any place.
    let mut edit = VersionEdit::new();
    for number in (0..200_u128).rev() {
        edit = edit.remove(u32::from(number.is_multiple_of(2)), id(number));
    }
    let version = set.apply(edit).unwrap();
    assert_eq!((numbers(&version, 0), numbers(&version, 1)), (vec![], vec![1_000, 1_001]));
    assert_eq!(["", "b", "c", "d"].map(|key| text(&version, key).is_some()), [true, true, true, false]);
}

#[test]
fn a_table_moves_to_another_level_in_one_edit_and_stays_the_same_table() {
    let set = small_set();
    let moved = set.current().tables(1).next().unwrap().clone();
    let counted = moved.stats().filter;
    let before = set.current();
    let version = set.apply(VersionEdit::new().add(2, moved.clone()).remove(1, id(2))).unwrap();
    assert_eq!((numbers(&version, 1), numbers(&version, 2)), (vec![3, 4], vec![2]));
    assert!(Arc::ptr_eq(version.tables(2).next().unwrap(), &moved));
    assert_eq!(numbers(&before, 1), [2, 3, 4]);
    assert_eq!(text(&version, "a"), text(&before, "a"));
    assert!(moved.stats().filter.probes() > counted.probes());
    // And aside for one of its own range.
    let version = set.apply(VersionEdit::new().replace(1, id(3), table(5, &["e", "i"], "5"))).unwrap();
    assert_eq!((numbers(&version, 1), text(&version, "e")), (vec![5, 4], Some("5".into())));
}

/// A table in memory that says when it is closed.
#[derive(Debug)]
struct Closing {
    bytes: Bytes,
    _open: Arc<()>,
}

impl RandomAccess for Closing {
    fn len(&self) -> io::Result<u64> {
        RandomAccess::len(&self.bytes)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.bytes.read_exact_at(buf, offset)
    }
}

fn closing(number: u128, keys: &[&str]) -> (Arc<Table>, Weak<()>) {
    let entries = keys.iter().map(|key| (key.as_bytes().to_vec(), Some(number.to_string().into_bytes()))).collect();
    let open = Arc::new(());
    let is_open = Arc::downgrade(&open);
    let source = Closing { bytes: bytes_of(number, &entries, &TableOptions::default()), _open: open };
    (Arc::new(Table::open_source(source, &ReadOptions::default()).unwrap()), is_open)
}

#[test]
fn a_removed_table_is_read_by_the_versions_that_have_it_and_closed_with_the_last_of_them() {
    for level in [0, 1] {
        let set = VersionSet::new();
        let (table, is_open) = closing(1, &["a", "b"]);
        let first = set.apply(VersionEdit::new().add(level, table)).unwrap();
        let second = set.apply(VersionEdit::new().add(5, closing(2, &["c"]).0)).unwrap();
        let third = set.apply(VersionEdit::new().remove(level, id(1))).unwrap();
        assert_eq!((text(&third, "a"), text(&third, "c").unwrap()), (None, "2".to_owned()));
        assert_eq!((text(&first, "a").unwrap(), text(&first, "c")), ("1".to_owned(), None));
        drop(first);
        assert_eq!((text(&second, "b").unwrap(), text(&second, "c").unwrap()), ("1".to_owned(), "2".to_owned()));
        assert_eq!(is_open.strong_count(), 1);
        drop(second);
        assert_eq!(is_open.strong_count(), 0);
        let refused = set.apply(VersionEdit::new().add(0, closing(3, &["a"]).0).remove(level, id(1)));
        assert!(refused.is_err());
    }
}

#[test]
fn batches_read_and_count_what_single_lookups_do() {
    for level in [0, 1] {
        for cached in [false, true] {
            let run = |is_batch: bool| {
                let mut read = ReadOptions::default();
                if cached {
                    read = read.with_block_cache(Arc::new(BoundedBlockCache::new(1 << 30)));
                }
                let mut edit = VersionEdit::new();
                for number in 0..100_u32 {
                    // Side by side at level 1, one over the other at level 0.
                    let key = |at: u32| if level == 0 { (number * 20 + at) * 131 % 3_000 } else { number * 30 + at };
                    let entries: Entries = (0..30)
                        .map(|at| (format!("{:05}", key(at) * 2).into_bytes(), Some(vec![7; number as usize % 9])))
                        .collect();
                    let bytes = bytes_of(number.into(), &entries, &TableOptions::default());
                    let step = if level == 0 { 0 } else { 1 + number % 4 };
                    edit = edit.add(step, Arc::new(Table::open_source(bytes, &read).unwrap()));
                }
                let set = VersionSet::new();
                let version = set.apply(edit).unwrap();
                let keys: Vec<Vec<u8>> = (0..6_100).map(|key| format!("{key:05}").into_bytes()).collect();
                let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let values: Vec<_> = if is_batch {
                    refs.chunks(75).flat_map(|keys| version.multi_get(keys)).map(Result::unwrap).collect()
                } else {
                    refs.iter().map(|key| version.get(key).unwrap()).collect()
                };
                let stats: Vec<_> =
                    version.levels().flat_map(|level| version.tables(level)).map(|table| table.stats()).collect();
                assert_eq!(set.stats().filter, version.stats().filter);
                (values, stats)
            };
            let (singly, batches) = (run(false), run(true));
            assert!(singly.0.iter().flatten().count() > 1_000);
            assert_eq!(singly, batches);
        }
    }
}

/// How a table's filter is made and read.
#[derive(Clone, Copy, Debug)]
enum Filter {
    Bloom,
    /// Of another kind than blocked Bloom.
    Ribbon,
    None,
    Damaged,
    /// Built with another hash.
    Foreign,
    Partitioned(PartitionCut),
    Budgeted,
    Sidecar,
}

const FILTERS: [Filter; 9] = [
    Filter::Bloom,
    Filter::Partitioned(PartitionCut::KeyRange),
    Filter::Damaged,
    Filter::Bloom,
    Filter::Sidecar,
    Filter::Budgeted,
    Filter::Ribbon,
    Filter::Foreign,
    Filter::None,
];

/// What makes the probes of all tables.
#[derive(Clone, Copy, Debug)]
enum Probes {
    WholeKeys,
    /// By functions that are the same, which no reader can know.
    WholeKeysByCustomHash,
    Prefixes,
    PrefixesAndWholeKeys,
}

fn table_with(
    filter: Filter,
    (probes, parts): (Probes, &KeyParts),
    number: u128,
    entries: &Entries,
    read: &ReadOptions,
) -> Arc<Table> {
    let hasher = match probes {
        Probes::WholeKeysByCustomHash => KeyHasher::custom(5, |key| KeyHasher::with_seed(1).hash(key)),
        _ => KeyHasher::default(),
    };
    let built = if let Filter::Foreign = filter { KeyHasher::with_seed(9) } else { hasher.clone() };
    let mut options = TableOptions::default().with_context(BuildContext::new(&built)).with_key_parts(parts.clone());
    let mut read = read.clone().with_hasher(hasher).with_key_parts(parts.clone());
    match filter {
        Filter::None => options = options.without_filter(),
        Filter::Ribbon => {
            options = options.with_policy(Arc::new(KindPolicy::ribbon(BitsPerKey::TEN).unwrap().with_min_keys(0)));
        }
        Filter::Partitioned(cut) => {
            options = options.with_partitioned_filter(PartitionOptions::new(cut, 2_048).unwrap());
        }
        Filter::Budgeted => read = read.with_filter_budget(FilterBudget::unlimited()),
        Filter::Bloom | Filter::Damaged | Filter::Foreign | Filter::Sidecar => {}
    }
    let mut bytes = bytes_of(number, entries, &options).to_vec();
    match filter {
        Filter::Damaged => {
            let layout = Table::open_source(Bytes::from(bytes.clone()), &read).unwrap().layout();
            bytes[usize::try_from(layout.region(TablePart::Filter).unwrap().offset).unwrap()] ^= 1;
        }
        Filter::Sidecar => {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("table");
            std::fs::write(&path, &bytes).unwrap();
            Table::open(&path, &read).unwrap().write_sidecar(&options).unwrap();
            // Its blocks are read after the folder has gone.
            return Arc::new(Table::open(&path, &read).unwrap());
        }
        _ => {}
    }
    Arc::new(Table::open_source(Bytes::from(bytes), &read).unwrap())
}

#[test]
fn batches_answer_and_count_like_single_lookups_whatever_the_filters_are() {
    for probes in [Probes::WholeKeys, Probes::WholeKeysByCustomHash, Probes::Prefixes, Probes::PrefixesAndWholeKeys] {
        let extractor = Arc::new(FixedPrefix::new(3));
        let parts = match probes {
            Probes::WholeKeys | Probes::WholeKeysByCustomHash => KeyParts::whole_keys(),
            Probes::Prefixes => KeyParts::extracted(extractor),
            Probes::PrefixesAndWholeKeys => KeyParts::whole_keys().with_extractor(extractor),
        };
        let run = |is_batch: bool| {
            let read = ReadOptions::default().with_block_cache(Arc::new(BoundedBlockCache::new(1 << 30)));
            let (mut edit, mut model) = (VersionEdit::new(), Entries::new());
            // The oldest first: side by side at the levels above 0, and there one over the other, in several chunks.
            for number in 0..170_u32 {
                let (level, at) = if number < 90 { (3 - number / 30, number % 30) } else { (0, number - 90) };
                let key = |entry: u32| match level {
                    0 => (at * 40 + entry * 97) % 3_000,
                    _ => at * 100 + entry * 3 + level,
                };
                let value = |entry: u32| (!entry.is_multiple_of(5)).then(|| format!("{number} {entry}").into_bytes());
                let entries: Entries =
                    (0..30).map(|entry| (format!("{:04}", key(entry)).into_bytes(), value(entry))).collect();
                let filter = FILTERS[number as usize % FILTERS.len()];
                edit = edit.add(level, table_with(filter, (probes, &parts), number.into(), &entries, &read));
                model.extend(entries);
            }
            let version = VersionSet::new().apply(edit).unwrap();
            assert!(version.filter_problem().is_none());
            let mut keys: Vec<Vec<u8>> = (0..3_100).map(|key| format!("{:04}", key * 7 % 3_100).into_bytes()).collect();
            keys.extend([b"".to_vec(), b"000".to_vec(), b"12345".to_vec(), b"9".to_vec()]);
            let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let values: Vec<_> = if is_batch {
                refs.chunks(75).flat_map(|keys| version.multi_get(keys)).map(Result::unwrap).collect()
            } else {
                refs.iter().map(|key| version.get(key).unwrap()).collect()
            };
            for (key, value) in keys.iter().zip(&values) {
                assert_eq!(value.as_deref(), model.get(key).and_then(Option::as_deref), "{}", key.escape_ascii());
            }
            let tables = version.levels().flat_map(|level| version.tables(level));
            tables.map(|table| (*table.table_id(), table.stats())).collect::<Vec<_>>()
        };
        let (singly, batches) = (run(false), run(true));
        for (one, other) in singly.iter().zip(&batches) {
            assert_eq!(one, other, "{probes:?}");
        }
        let of_filter = |number: usize| {
            let counts =
                singly.iter().filter(|(table, _)| u128::from_le_bytes(*table.as_bytes()) as usize % 9 == number);
            counts.map(|(_, stats)| stats.filter).fold(FilterStats::default(), |sum, stats| sum.merged(&stats))
        };
        for number in [0, 1, 3, 4, 5, 6] {
            let stats = of_filter(number);
            assert!(stats.negatives > 0 && stats.true_positives > 0 && stats.unusable == 0, "{number}: {stats:?}");
        }
        for number in [2, 7] {
            let stats = of_filter(number);
            assert!(stats.unusable > 0 && stats.probes() == stats.unusable, "{number}: {stats:?}");
        }
        assert_eq!(of_filter(8), FilterStats::default());
    }
}

#[test]
fn tables_whose_hashers_share_a_tag_are_each_probed_with_their_own() {
    let table = |number: u32| {
        let hasher = KeyHasher::custom(5, move |key| KeyHasher::with_seed(number.into()).hash(key));
        let options = TableOptions::default().with_context(BuildContext::new(&hasher));
        let keys = (0..200_u32).filter(|key| key % 7 == number % 7);
        let entries = keys.map(|key| (format!("{key:03}").into_bytes(), Some(key.to_le_bytes().to_vec()))).collect();
        let read = ReadOptions::default().with_hasher(hasher);
        Arc::new(Table::open_source(bytes_of(number.into(), &entries, &options), &read).unwrap())
    };
    let edit = (0..7).fold(VersionEdit::new(), |edit, number| edit.add(0, table(number)));
    let version = VersionSet::new().apply(edit).unwrap();
    assert!(version.filter_problem().is_none());
    let keys: Vec<String> = (0..200).map(|key| format!("{key:03}")).collect();
    let refs: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    for (number, (key, value)) in (0_u32..).zip(refs.iter().zip(version.multi_get(&refs))) {
        assert_eq!(value.unwrap().as_deref(), Some(&number.to_le_bytes()[..]));
        assert_eq!(version.get(key).unwrap().as_deref(), Some(&number.to_le_bytes()[..]));
    }
}

#[test]
fn what_tables_counted_stays_counted_when_they_leave_and_is_counted_once_when_they_return() {
    let set = small_set();
    assert_eq!(set.stats().bytes_read, 0, "opening came before");
    let lookups = |version: &Version| ["a", "b", "m", "n"].map(|key| drop(text(version, key)));
    lookups(&set.current());
    let counted = set.stats();
    assert!(counted.data_block_reads >= 6 && counted.filter.probes() >= 8 && counted.bytes_read > 0);
    let table = set.current().tables(1).next().unwrap().clone();
    set.apply(VersionEdit::new().remove(1, id(2))).unwrap();
    assert_eq!(set.stats(), counted);
    set.apply(VersionEdit::new().add(2, table)).unwrap();
    assert_eq!(set.stats(), counted);
    set.apply(VersionEdit::new().remove(2, id(2)).remove(0, id(1)).remove(1, id(3)).remove(1, id(4))).unwrap();
    assert_eq!(set.stats(), counted);
    assert_eq!(set.current().stats(), VersionSet::new().stats());
}

#[test]
fn matches_are_the_tables_that_a_lookup_may_search_and_nothing_is_read_or_counted_for_them() {
    let set = small_set();
    let version = set.apply(VersionEdit::new().add(2, table(5, &["a", "z"], "5"))).unwrap();
    let before = version.stats();
    let matches =
        |key: &[u8]| version.matches(key).map(|(level, table)| (level, *table.table_id())).collect::<Vec<_>>();
    assert_eq!(matches(b"a"), [(1, id(2)), (2, id(5))]);
    assert_eq!(matches(b"b"), [(0, id(1))]);
    assert_eq!(matches(b"zz"), []);
    let prefixed = |prefix: &[u8]| version.matches_prefix(prefix).map(|(level, _)| level).collect::<Vec<_>>();
    assert_eq!(prefixed(b""), [0, 1, 1, 1, 2]);
    assert_eq!(prefixed(b"n"), [1, 2]);
    assert_eq!(prefixed(b"zz"), [0; 0]);
    assert_eq!(version.stats(), before);
}

#[test]
fn tables_of_another_hash_or_extractor_are_refused_while_others_are_there() {
    let seeded = |number, seed| {
        let options = TableOptions::default().with_context(BuildContext::new(&KeyHasher::with_seed(seed)));
        open(bytes_of(number, &Entries::from([(b"s".to_vec(), None)]), &options))
    };
    let extracted = |number| {
        let extractor = Arc::new(FixedPrefix::new(1));
        let bytes = bytes_of(
            number,
            &Entries::from([(b"s".to_vec(), Some(b"1".to_vec()))]),
            &TableOptions::default().with_extractor(extractor.clone()),
        );
        Arc::new(Table::open_source(bytes, &ReadOptions::default().with_extractor(extractor)).unwrap())
    };
    let set = VersionSet::new();
    set.apply(VersionEdit::new().add(0, seeded(1, 1))).unwrap();
    let refused = [seeded(2, 2), extracted(2), table(2, &["s"], "")];
    for table in refused {
        let error = set.apply(VersionEdit::new().add(1, table)).unwrap_err();
        assert_eq!(error, VersionError::MixedReaders { table: id(2) });
    }
    set.apply(VersionEdit::new().add(1, seeded(2, 1))).unwrap();
    // All can be exchanged at once: then the tables are of one hash again.
    let edit = VersionEdit::new().remove(0, id(1)).replace(1, id(2), extracted(3)).add(0, extracted(4));
    assert_eq!(text(&set.apply(edit).unwrap(), "s").as_deref(), Some("1"));
    let mixed = VersionEdit::new().remove(0, id(4)).remove(1, id(3)).add(1, extracted(5)).add(0, seeded(6, 1));
    assert_eq!(set.apply(mixed).unwrap_err(), VersionError::MixedReaders { table: id(6) });
}

#[test]
fn a_hash_that_has_changed_under_its_name_makes_no_version_lose_a_key() {
    let written = KeyHasher::custom(5, |key| KeyHasher::with_seed(1).hash(key));
    // The same for the bounds of table 1, so that its filter seems to be of this hash.
    let changed = KeyHasher::custom(5, |key| KeyHasher::with_seed(1 + u64::from(key != b"a" && key != b"c")).hash(key));
    let options = TableOptions::default().with_context(BuildContext::new(&written));
    let of = |number, keys: [&str; 3]| {
        let entries = keys.map(|key| (key.as_bytes().to_vec(), Some(b"value".to_vec()))).into();
        let read = ReadOptions::default().with_hasher(changed.clone());
        Arc::new(Table::open_source(bytes_of(number, &entries, &options), &read).unwrap())
    };
    // Tables of level 0 are probed together.
    for level in [0, 1] {
        let set = VersionSet::new();
        let before = set.apply(VersionEdit::new().add(level, of(1, ["a", "b", "c"]))).unwrap();
        assert!(before.filter_problem().is_none());
        let version = set.apply(VersionEdit::new().add(level, of(2, ["d", "e", "f"]))).unwrap();
        for key in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(text(&version, key).as_deref(), Some("value"), "{key}");
            assert_eq!(version.matches(key.as_bytes()).count(), 1, "{key}");
        }
        let problem = version.filter_problem();
        assert!(matches!(problem, Some(BlockError::KnownKeyAbsent { hash }) if hash.id == HashId::Custom));
        // Not forgotten with the table that showed it.
        let version = set.apply(VersionEdit::new().remove(level, id(2))).unwrap();
        assert_eq!(text(&version, "b").as_deref(), Some("value"));
        assert!(version.filter_problem().is_some());
    }
}

#[test]
fn damage_in_a_table_is_an_error_of_the_lookups_that_need_it_and_hides_older_tables() {
    let entries = Entries::from([(b"k".to_vec(), Some(b"new".to_vec()))]);
    let mut bytes = bytes_of(1, &entries, &TableOptions::default()).to_vec();
    bytes[2] ^= 1;
    let edit = VersionEdit::new().add(0, open(bytes.into())).add(1, table(2, &["a", "k"], "old"));
    let version = VersionSet::new().apply(edit).unwrap();
    assert!(matches!(version.get(b"k"), Err(TableError::Checksum { .. })));
    let values = version.multi_get(&[b"a", b"k", b"z"]);
    assert!(matches!(values.as_slice(), [Ok(Some(_)), Err(TableError::Checksum { .. }), Ok(None)]), "{values:?}");
}

/// A store of tables by level, and its edits.
struct Store {
    set: VersionSet,
    /// What the tables of level 0 have, the newest first, with their numbers.
    overlapping: Vec<(u128, Entries)>,
    /// The same of the sorted levels.
    sorted: BTreeMap<u32, Vec<(u128, Entries)>>,
    written: u128,
}

/// A key of few different ones, with bounds of tables among them that share long beginnings.
fn any_key(random: &mut Random) -> Vec<u8> {
    let number = random.below(400);
    format!("{}{number:03}", ["", "the same beginning "][number % 2]).into_bytes()
}

impl Store {
    fn new() -> Self {
        Self { set: VersionSet::new(), overlapping: Vec::new(), sorted: BTreeMap::new(), written: 0 }
    }

    fn write(&mut self, entries: &Entries) -> (u128, Arc<Table>) {
        self.written += 1;
        (self.written, table_of(self.written, entries))
    }

    /// What the tables have, by the newest of them.
    fn contents(&self) -> Entries {
        let mut all = Entries::new();
        let sorted = self.sorted.values().rev().flatten();
        for (_, entries) in sorted.chain(self.overlapping.iter().rev()) {
            all.extend(entries.clone());
        }
        all
    }

    fn flush(&mut self, random: &mut Random) {
        let mut edit = VersionEdit::new();
        for _ in 0..=random.below(3) {
            let value = |random: &mut Random| (!random.one_in(5)).then(|| random.next().to_le_bytes().to_vec());
            let entries: Entries = (0..random.below(20)).map(|_| (any_key(random), value(random))).collect();
            let (number, table) = self.write(&entries);
            edit = edit.add(0, table);
            self.overlapping.insert(0, (number, entries));
        }
        self.set.apply(edit).unwrap();
    }

    /// Merges neighbours at level 0 into one of them.
    fn merge_at_level_0(&mut self, random: &mut Random) {
        if self.overlapping.is_empty() {
            return;
        }
        let first = random.below(self.overlapping.len());
        let end = first + 1 + random.below((self.overlapping.len() - first).min(5));
        let merged: Vec<_> = self.overlapping.drain(first..end).collect();
        let entries: Entries = merged.iter().rev().flat_map(|(_, entries)| entries.clone()).collect();
        let (number, table) = self.write(&entries);
        let kept = random.below(merged.len());
        let mut edit = VersionEdit::new().replace(0, id(merged[kept].0), table);
        for (at, (number, _)) in merged.iter().enumerate().filter(|(at, _)| *at != kept) {
            assert_ne!(at, kept);
            edit = edit.remove(0, id(*number));
        }
        self.set.apply(edit).unwrap();
        self.overlapping.insert(first, (number, entries));
    }

    /// Merges a level with the next one, cut into tables of a few keys each; some keep their tables.
    fn compact(&mut self, random: &mut Random) {
        let mut edit = VersionEdit::new();
        let mut merged = Entries::new();
        let (from, to) = (random.below(3), 1 + random.below(4));
        let (from, to) = (u32::try_from(from).unwrap(), u32::try_from(from.max(to - 1) + 1).unwrap() * 1_000);
        let from = if from == 0 { 0 } else { from * 1_000 };
        if from == to {
            return;
        }
        // What lies between is newer than the target, and older than the source.
        let between: Vec<u32> = self.sorted.keys().copied().filter(|&level| level > from && level <= to).collect();
        for level in between.into_iter().rev().chain((from != 0).then_some(from)) {
            for (number, entries) in self.sorted.remove(&level).unwrap_or_default() {
                edit = edit.remove(level, id(number));
                merged.extend(entries);
            }
        }
        if from == 0 {
            for (number, entries) in self.overlapping.drain(..).rev() {
                edit = edit.remove(0, id(number));
                merged.extend(entries);
            }
        }
        let entries: Vec<_> = merged.into_iter().collect();
        let mut tables = Vec::new();
        let mut rest = entries.as_slice();
        while !rest.is_empty() {
            let (cut, left) = rest.split_at(rest.len().min(1 + random.below(4)));
            let entries: Entries = cut.iter().cloned().collect();
            let (number, table) = self.write(&entries);
            tables.push((number, entries));
            edit = edit.add(to, table);
            rest = left;
        }
        self.sorted.insert(to, tables);
        self.set.apply(edit).unwrap();
    }

    /// Moves the tables of one sorted level, as they are, to an empty one below all others.
    fn sink(&mut self, random: &mut Random) {
        let Some((&deepest, _)) = self.sorted.last_key_value() else { return };
        let target = if deepest < u32::MAX - 10 { deepest + 1 } else { return };
        let tables = self.sorted.remove(&deepest).unwrap();
        let version = self.set.current();
        let mut edit = VersionEdit::new();
        for table in version.tables(deepest) {
            edit = if random.one_in(2) {
                edit.add(target, table.clone()).remove(deepest, *table.table_id())
            } else {
                edit.remove(deepest, *table.table_id()).add(target, table.clone())
            };
        }
        self.set.apply(edit).unwrap();
        self.sorted.insert(target, tables);
    }

    /// An edit that is refused by its last part.
    fn refused(&mut self, random: &mut Random) {
        let (_, table) = self.write(&Entries::from([(any_key(random), None)]));
        let edit = VersionEdit::new().add(0, table).remove(7, id(u128::MAX));
        let edit = self.overlapping.first().map_or(edit.clone(), |(number, _)| edit.remove(0, id(*number)));
        self.set.apply(edit).unwrap_err();
    }

    /// The tables are where the model has them.
    fn check_places(&self) {
        let version = self.set.current();
        let of = |tables: &[(u128, Entries)]| tables.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        assert_eq!(numbers(&version, 0), of(&self.overlapping));
        for (&level, tables) in &self.sorted {
            assert_eq!(numbers(&version, level), of(tables), "level {level}");
        }
    }
}

fn check(version: &Version, contents: &Entries) {
    let keys: Vec<Vec<u8>> = (0..400)
        .flat_map(|number| ["", "the same beginning "].map(|start| format!("{start}{number:03}").into_bytes()))
        .collect();
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for (key, value) in keys.iter().zip(version.multi_get(&refs)) {
        let expected = contents.get(key).and_then(Option::as_deref);
        assert_eq!(value.unwrap().as_deref(), expected, "{}", key.escape_ascii());
        assert_eq!(version.get(key).unwrap().as_deref(), expected, "{}", key.escape_ascii());
        assert!(!contents.contains_key(key) || version.matches(key).next().is_some());
    }
    for prefix in [&b""[..], b"0", b"12", b"the same beginning ", b"the same beginning 1", b"zz"] {
        let with_prefix = contents.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        let live = with_prefix.filter_map(|(key, value)| Some((key.clone().into(), value.clone()?.into())));
        let scanned = version.scan_prefix(prefix).map(Result::unwrap);
        assert!(scanned.eq(live.collect::<Vec<(Bytes, Bytes)>>()), "{}", prefix.escape_ascii());
    }
}

#[test]
fn random_edits_leave_every_version_with_the_answers_of_its_time() {
    let sequences = if crate::common::is_long() { 500 } else { 12 };
    for seed in 0..sequences {
        let random = &mut Random::new(seed);
        let mut store = Store::new();
        let mut kept: Vec<(Arc<Version>, Entries)> = Vec::new();
        for _ in 0..40 {
            match random.below(8) {
                0..3 => store.flush(random),
                3 => store.merge_at_level_0(random),
                4 | 5 => store.compact(random),
                6 => store.sink(random),
                _ => store.refused(random),
            }
            store.check_places();
            let (version, contents) = (store.set.current(), store.contents());
            check(&version, &contents);
            if random.one_in(4) {
                kept.push((version, contents));
            }
        }
        for (version, contents) in &kept {
            check(version, contents);
        }
    }
}

/// Every edit moves all keys from one generation to the next, over levels, in one step.
#[test]
fn no_reader_sees_a_mixture_of_versions() {
    const KEYS: usize = 40;
    const GENERATIONS: u64 = 300;
    let names: Vec<String> = (0..KEYS).map(|key| format!("{key:03}")).collect();
    // Tables of four keys, at levels 1 and 2 by turns; one of them at level 0.
    let tables_of = |generation: u64| {
        let value = generation.to_string();
        let tables = names.chunks(4).enumerate().map(|(at, keys)| {
            let level = if at == 3 { 0 } else { 1 + u32::try_from((at as u64 + generation) % 2).unwrap() };
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            (level, table(u128::from(generation) << 32 | at as u128, &keys, &value))
        });
        tables.collect::<Vec<_>>()
    };
    let set = VersionSet::new();
    let mut present = tables_of(0);
    set.apply(present.iter().fold(VersionEdit::new(), |edit, (level, table)| edit.add(*level, table.clone()))).unwrap();
    let (is_over, newest) = (AtomicBool::new(false), AtomicU64::new(0));
    let reader = |thread: u64| {
        let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let (mut last, mut seen) = (0, 0);
        while !is_over.load(Ordering::Acquire) {
            let least = newest.load(Ordering::Acquire);
            let values: Vec<u64> = set.read(|version| {
                let values = match thread % 2 {
                    0 => version.multi_get(&keys),
                    _ => keys.iter().map(|key| version.get(key)).collect(),
                };
                values.into_iter().map(|value| text_of(&value.unwrap().unwrap()).parse().unwrap()).collect()
            });
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            assert!(values[0] >= last.max(least), "a version older than one that was seen");
            seen += u64::from(values[0] > last);
            last = values[0];
        }
        seen
    };
    thread::scope(|scope| {
        let reader = &reader;
        let readers: Vec<_> = (0..8).map(|thread| scope.spawn(move || reader(thread))).collect();
        for generation in 1..=GENERATIONS {
            let next = tables_of(generation);
            let edit =
                present.iter().fold(VersionEdit::new(), |edit, (level, table)| edit.remove(*level, *table.table_id()));
            set.apply(next.iter().fold(edit, |edit, (level, table)| edit.add(*level, table.clone()))).unwrap();
            newest.store(generation, Ordering::Release);
            present = next;
        }
        is_over.store(true, Ordering::Release);
        let seen: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(seen > 0, "the readers never saw a change");
    });
}

fn text_of(value: &[u8]) -> &str {
    std::str::from_utf8(value).unwrap()
}

#[test]
fn edits_of_many_threads_are_all_applied() {
    let set = VersionSet::new();
    thread::scope(|scope| {
        for thread in 0..4 {
            let set = &set;
            scope.spawn(move || {
                for number in (thread..200_u128).step_by(4) {
                    let key = format!("{number:03}");
                    set.apply(VersionEdit::new().add(1, table(number, &[&key], &key))).unwrap();
                    if number.is_multiple_of(3) {
                        set.apply(VersionEdit::new().remove(1, id(number))).unwrap();
                    }
                }
            });
        }
    });
    let expected: Vec<u128> = (0..200_u128).filter(|number| !number.is_multiple_of(3)).collect();
    assert_eq!(numbers(&set.current(), 1), expected);
}
