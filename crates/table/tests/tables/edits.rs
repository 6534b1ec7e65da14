//! Edits of a set of tables, compared with a map. The failures guarded against: a value that reappears after a
//! compaction, because its table got the wrong position in level 0; a refused edit with a lasting effect; a lost key at
//! the bound of two tables of one level.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter_store::{ViewEdit, ViewError};
use sstfilter_table::{Table, TableBuilder, TableOptions, TableSet, TableSnapshot};

use crate::common::random::Random;
use crate::engine::AddNewest;

pub(crate) type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

pub(crate) fn bytes_of(number: u128, entries: &Entries, options: &TableOptions) -> Bytes {
    let mut builder = TableBuilder::new(Vec::new(), &options.clone().with_table_id(number.to_le_bytes())).unwrap();
    for (key, value) in entries {
        match value {
            Some(value) => builder.add(key, value).unwrap(),
            None => builder.delete(key).unwrap(),
        }
    }
    Bytes::from(builder.finish().unwrap().0)
}

pub(crate) fn open(bytes: Bytes) -> Arc<Table> {
    Arc::new(Table::open_source(bytes, &TableOptions::default()).unwrap())
}

pub(crate) fn table_of(number: u128, entries: &Entries) -> Arc<Table> {
    open(bytes_of(number, entries, &TableOptions::default()))
}

/// A table in which every key has the same value.
pub(crate) fn table(number: u128, keys: &[&str], value: &str) -> Arc<Table> {
    table_of(number, &keys.iter().map(|key| (key.as_bytes().to_vec(), Some(value.as_bytes().to_vec()))).collect())
}

pub(crate) fn number_of(table: &Table) -> u128 {
    u128::from_le_bytes(*table.table_id())
}

pub(crate) fn numbers(tables: &TableSnapshot, level: u32) -> Vec<u128> {
    tables.tables(level).map(|table| number_of(table)).collect()
}

/// Returns the table with this number.
pub(crate) fn held(set: &TableSet, number: u128) -> Arc<Table> {
    set.snapshot().all_tables().find(|table| number_of(table) == number).unwrap().clone()
}

/// Returns the numbers of the tables that may contain the key, newest first.
pub(crate) fn candidates(tables: &TableSnapshot, key: &[u8]) -> Vec<u128> {
    let mut candidates = tables.view().candidates(key);
    std::iter::from_fn(|| candidates.next_file()).map(|table| number_of(table)).collect()
}

pub(crate) fn text(tables: &TableSnapshot, key: &str) -> Option<String> {
    let value = tables.get(key.as_bytes()).unwrap();
    let batch = tables.multi_get(&[key.as_bytes()]).pop().unwrap().unwrap();
    assert_eq!(value, batch, "{key}");
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn of_two_tables_at_level_0_the_one_added_later_is_the_newer() {
    let set = TableSet::new([]).unwrap();
    let edit = ViewEdit::new().add_newest(0, table(1, &["a", "b", "c"], "1")).add_newest(0, table(2, &["b", "c"], "2"));
    set.apply(edit).unwrap();
    let tables = set.apply(ViewEdit::new().add_newest(0, table(3, &["c"], "3"))).unwrap();
    assert_eq!(numbers(&tables, 0), [3, 2, 1]);
    let values = ["a", "b", "c", "d"].map(|key| text(&tables, key));
    assert_eq!(values, [Some("1".into()), Some("2".into()), Some("3".into()), None]);
}

#[test]
fn tables_that_take_each_others_places_are_all_there() {
    let (one, two, three) = (table(1, &["a"], "1"), table(2, &["b"], "2"), table(3, &["c"], "3"));
    let set = TableSet::new([]).unwrap();
    set.apply(ViewEdit::new().add_newest(0, one.clone()).add_newest(0, two.clone())).unwrap();
    let swapped = set.apply(ViewEdit::new().replace(0, &one, two.clone()).replace(0, &two, one.clone())).unwrap();
    assert_eq!(numbers(&swapped, 0), [1, 2]);
    assert_eq!((text(&swapped, "a").as_deref(), text(&swapped, "b").as_deref()), (Some("1"), Some("2")));
    let moved = set.apply(ViewEdit::new().replace(0, &two, one.clone()).replace(0, &one, three)).unwrap();
    assert_eq!(numbers(&moved, 0), [3, 1]);
    assert_eq!((text(&moved, "a").as_deref(), text(&moved, "c").as_deref()), (Some("1"), Some("3")));
}

// misuse: age-at-level-0
#[test]
fn a_table_that_replaces_another_at_level_0_has_its_age() {
    let set = TableSet::new([]).unwrap();
    let old = [1, 2, 3, 4].map(|number| table(number, &["a", &format!("b{number}")], &number.to_string()));
    set.apply(old.iter().fold(ViewEdit::new(), |edit, table| edit.add_newest(0, table.clone()))).unwrap();
    // 2 and 3 become 5.
    let edit = ViewEdit::new()
        .replace(0, &old[2], table(5, &["a", "b2", "b3"], "5"))
        .remove(0, &old[1])
        .add_newest(0, table(6, &["z"], "6"));
    let tables = set.apply(edit).unwrap();
    assert_eq!(numbers(&tables, 0), [6, 4, 5, 1]);
    assert_eq!(text(&tables, "a").unwrap(), "4");
    assert_eq!(text(&tables, "b2").unwrap(), "5");
    assert_eq!(text(&tables, "b1").unwrap(), "1");
    let tables = set.apply(ViewEdit::new().remove(0, &old[3])).unwrap();
    assert_eq!(text(&tables, "a").unwrap(), "5");
}

#[test]
fn lower_levels_are_newer_and_level_numbers_need_not_be_dense() {
    let set = TableSet::new([]).unwrap();
    let levels = [0, 1, 6, 1_000_000, u32::MAX];
    let tables = levels.iter().enumerate().rev();
    let edit = tables.fold(ViewEdit::new(), |edit, (age, &level)| {
        let own = format!("key {age}");
        edit.add_newest(level, table(age as u128, &["key", &own], &level.to_string()))
    });
    let mut tables = set.apply(edit).unwrap();
    assert_eq!(tables.view().levels().collect::<Vec<_>>(), levels);
    for (age, &level) in levels.iter().enumerate() {
        assert_eq!(text(&tables, "key").unwrap(), level.to_string());
        assert_eq!(text(&tables, "key 4").unwrap(), u32::MAX.to_string());
        tables = set.apply(ViewEdit::new().remove(level, &held(&set, age as u128))).unwrap();
        assert_eq!(tables.view().levels().collect::<Vec<_>>(), levels[age + 1..]);
    }
    assert_eq!(text(&tables, "key"), None);
}

/// Returns a set with one table at level 0 and three at level 1.
pub(crate) fn small_set() -> TableSet {
    let set = TableSet::new([]).unwrap();
    let edit = ViewEdit::new()
        .add_newest(0, table(1, &["b", "k"], "1"))
        .add(1, table(2, &["a", "c"], "2"))
        .add(1, table(4, &["m", "p"], "4"))
        .add(1, table(3, &["f", "h"], "3"));
    set.apply(edit).unwrap();
    set
}

// promise: limited-memory
#[test]
fn an_edit_that_fails_changes_nothing() {
    type Change = fn(ViewEdit<Table>, &TableSet) -> ViewEdit<Table>;
    let missing = |level, position| ViewError::NotAtLevel { level, position };
    let duplicate = |level, position| ViewError::Duplicate { level, position };
    let overlap = |largest: &str, smallest: &str| ViewError::Overlap {
        level: 1,
        largest: largest.as_bytes().to_vec(),
        smallest: smallest.as_bytes().to_vec(),
    };
    let refused: [(&str, Change, ViewError); 17] = [
        ("removed from another level", |edit, set| edit.remove(2, &held(set, 2)), missing(2, 0)),
        ("never there", |edit, _| edit.remove(1, &new(&["a"])), missing(1, 0)),
        ("the same id as one that is there", |edit, _| edit.remove(1, &table(2, &["a", "c"], "2")), missing(1, 0)),
        ("removed twice", |edit, set| edit.remove(1, &held(set, 2)).remove(1, &held(set, 2)), missing(1, 1)),
        (
            "removed and replaced",
            |edit, set| edit.remove(1, &held(set, 2)).replace(1, &held(set, 2), new(&["a"])),
            missing(1, 1),
        ),
        (
            "removed and replaced at level 0",
            |edit, set| edit.remove(0, &held(set, 1)).replace(0, &held(set, 1), new(&["a"])),
            missing(0, 1),
        ),
        ("replaced where it is not", |edit, set| edit.replace(0, &held(set, 2), new(&["a"])), missing(0, 0)),
        ("there already", |edit, set| edit.add(1, held(set, 2)), duplicate(1, 0)),
        ("there already at level 0", |edit, set| edit.add_newest(0, held(set, 1)), duplicate(0, 0)),
        (
            "added twice",
            |edit, _| {
                let table = new(&["q"]);
                edit.add(1, table.clone()).add(1, table)
            },
            duplicate(1, 1),
        ),
        (
            "added, and in place of another",
            |edit, set| {
                let table = new(&["q"]);
                edit.add_newest(0, table.clone()).replace(0, &held(set, 1), table)
            },
            duplicate(0, 1),
        ),
        ("an equal smallest key", |edit, _| edit.add(1, new(&["a"])), overlap("c", "a")),
        ("an equal bound above", |edit, _| edit.add(1, new(&["k", "m"])), overlap("m", "m")),
        ("an equal bound below", |edit, _| edit.add(1, new(&["c", "d"])), overlap("c", "c")),
        ("inside a range", |edit, _| edit.add(1, new(&["n"])), overlap("p", "n")),
        ("around everything", |edit, _| edit.add(1, new(&["A", "z"])), overlap("z", "a")),
        ("two that are added", |edit, _| edit.add(1, new(&["r", "t"])).add(1, new(&["s"])), overlap("t", "s")),
    ];
    for (what, change, expected) in refused {
        for is_alone in [true, false] {
            let set = small_set();
            let before = set.snapshot();
            let edit = change(ViewEdit::new(), &set);
            // The edit also has a sound part after the refused one.
            let edit = if is_alone { edit } else { edit.add(5, table(7, &["x"], "7")).remove(1, &held(&set, 3)) };
            let error = set.apply(edit).unwrap_err();
            // The sound part would shift positions.
            assert!(
                if is_alone { error == expected } else { discriminant(&error) == discriminant(&expected) },
                "{what}"
            );
            assert!(Arc::ptr_eq(&before, &set.snapshot()), "{what}");
            let all = [7, 8, 9].map(|number| table(number, &[&format!("zz{number}")], "new"));
            let edit = all.into_iter().fold(ViewEdit::new(), |edit, table| edit.add(1, table));
            let edit = edit.remove(0, &held(&set, 1));
            let edit = [2, 3, 4].into_iter().fold(edit, |edit, number| edit.remove(1, &held(&set, number)));
            let tables = set.apply(edit).unwrap();
            assert_eq!((numbers(&tables, 0), numbers(&tables, 1)), (vec![], vec![7, 8, 9]), "{what}");
        }
    }
}

fn new(keys: &[&str]) -> Arc<Table> {
    table(9, keys, "9")
}

#[test]
fn errors_name_level_and_place() {
    let text = ViewError::Overlap { level: 3, largest: b"peach".to_vec(), smallest: b"apple".to_vec() }.to_string();
    assert!(["level 3", "peach", "apple"].into_iter().all(|part| text.contains(part)), "{text}");
    for error in [ViewError::NotAtLevel { level: 3, position: 17 }, ViewError::Duplicate { level: 3, position: 17 }] {
        let text = error.to_string();
        assert!(text.contains("17") && text.contains("level 3"), "{text}");
    }
}

#[test]
fn a_key_between_and_at_the_bounds_of_neighbours_is_found_in_the_one_that_has_it() {
    // Bounds that are prefixes of each other, that differ late, and that are empty.
    // Heads of eight bytes decide most comparisons, so some bounds differ only after them.
    let bounds = ["", "\0", "\0\0", "a", "a\0", "aaaaaaaaa", "aaaaaaaaab", "aaaaaaaaab\0\0\0\0\0\0\0\0", "b", "c"];
    let set = TableSet::new([]).unwrap();
    let tables = (0..).zip(&bounds).map(|(number, key)| table(number, &[key], key));
    let tables = set.apply(tables.fold(ViewEdit::new(), |edit, table| edit.add(3, table))).unwrap();
    assert_eq!(numbers(&tables, 3), (0..10).collect::<Vec<_>>());
    for (number, key) in bounds.iter().enumerate() {
        assert_eq!(text(&tables, key).as_deref(), Some(*key));
        assert_eq!(candidates(&tables, key.as_bytes()), [number as u128]);
    }
    for key in ["\0\0\0", "\u{1}", "aa", "aaaaaaaaaa", "aaaaaaaaab\0", "bb", "d"] {
        assert_eq!((text(&tables, key), candidates(&tables, key.as_bytes())), (None, vec![]), "{key}");
    }
}

#[test]
fn tables_without_entries_are_kept_overlap_nothing_and_hold_nothing() {
    let set = TableSet::new([]).unwrap();
    let mut edit = ViewEdit::new();
    for number in 0..200_u128 {
        edit = edit.add_newest(u32::from(number.is_multiple_of(2)), table(number, &[], ""));
    }
    let edit = edit.add(1, table(1_000, &["", "b"], "x")).add(1, table(1_001, &["c"], "y"));
    let tables = set.apply(edit).unwrap();
    assert_eq!((tables.tables(0).count(), tables.tables(1).count()), (100, 102));
    assert_eq!(["", "b", "c", "d"].map(|key| text(&tables, key).is_some()), [true, true, true, false]);
    assert_eq!(candidates(&tables, b"").len(), 1);
    assert_eq!(tables.view().candidates_by_prefix(b"").count(), 2);
    // Any table can be removed, from any position.
    let mut edit = ViewEdit::new();
    for number in (0..200_u128).rev() {
        edit = edit.remove(u32::from(number.is_multiple_of(2)), &held(&set, number));
    }
    let tables = set.apply(edit).unwrap();
    assert_eq!((numbers(&tables, 0), numbers(&tables, 1)), (vec![], vec![1_000, 1_001]));
    assert_eq!(["", "b", "c", "d"].map(|key| text(&tables, key).is_some()), [true, true, true, false]);
}

#[test]
fn a_table_moves_to_another_level_in_one_edit_and_stays_the_same_table() {
    let set = small_set();
    let moved = set.snapshot().tables(1).next().unwrap().clone();
    let counted = moved.stats().filters.filter;
    let before = set.snapshot();
    let tables = set.apply(ViewEdit::new().add(2, moved.clone()).remove(1, &moved)).unwrap();
    assert_eq!((numbers(&tables, 1), numbers(&tables, 2)), (vec![3, 4], vec![2]));
    assert!(Arc::ptr_eq(tables.tables(2).next().unwrap(), &moved));
    assert_eq!(numbers(&before, 1), [2, 3, 4]);
    assert_eq!(text(&tables, "a"), text(&before, "a"));
    assert!(moved.stats().filters.filter.probes() > counted.probes());
    // A table can also be replaced by one with the same range.
    let tables = set.apply(ViewEdit::new().replace(1, &held(&set, 3), table(5, &["e", "i"], "5"))).unwrap();
    assert_eq!((numbers(&tables, 1), text(&tables, "e")), (vec![5, 4], Some("5".into())));
}

/// A store of tables by level, and its edits.
struct Store {
    set: TableSet,
    /// Contents of the tables of level 0, newest first, with their numbers.
    overlapping: Vec<(u128, Entries)>,
    /// Contents of the tables of the sorted levels.
    sorted: BTreeMap<u32, Vec<(u128, Entries)>>,
    written: u128,
}

/// Returns one of a few keys, including table bounds with long common prefixes.
fn any_key(random: &mut Random) -> Vec<u8> {
    let number = random.below(400);
    format!("{}{number:03}", ["", "the same beginning "][number % 2]).into_bytes()
}

impl Store {
    fn new() -> Self {
        Self { set: TableSet::new([]).unwrap(), overlapping: Vec::new(), sorted: BTreeMap::new(), written: 0 }
    }

    fn write(&mut self, entries: &Entries) -> (u128, Arc<Table>) {
        self.written += 1;
        (self.written, table_of(self.written, entries))
    }

    /// Returns the newest entry of each key.
    fn contents(&self) -> Entries {
        let mut all = Entries::new();
        let sorted = self.sorted.values().rev().flatten();
        for (_, entries) in sorted.chain(self.overlapping.iter().rev()) {
            all.extend(entries.clone());
        }
        all
    }

    fn flush(&mut self, random: &mut Random) {
        let mut edit = ViewEdit::new();
        for _ in 0..=random.below(3) {
            let value = |random: &mut Random| (!random.one_in(5)).then(|| random.next().to_le_bytes().to_vec());
            let entries: Entries = (0..random.below(20)).map(|_| (any_key(random), value(random))).collect();
            let (number, table) = self.write(&entries);
            edit = edit.add_newest(0, table);
            self.overlapping.insert(0, (number, entries));
        }
        self.set.apply(edit).unwrap();
    }

    /// Merges neighbours at level 0 into one table.
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
        let mut edit = ViewEdit::new().replace(0, &held(&self.set, merged[kept].0), table);
        for (at, (number, _)) in merged.iter().enumerate().filter(|(at, _)| *at != kept) {
            assert_ne!(at, kept);
            edit = edit.remove(0, &held(&self.set, *number));
        }
        self.set.apply(edit).unwrap();
        self.overlapping.insert(first, (number, entries));
    }

    /// Merges a level with the next one, into tables of a few keys each; some tables are kept.
    fn compact(&mut self, random: &mut Random) {
        let mut edit = ViewEdit::new();
        let mut merged = Entries::new();
        let (from, to) = (random.below(3), 1 + random.below(4));
        let (from, to) = (u32::try_from(from).unwrap(), u32::try_from(from.max(to - 1) + 1).unwrap() * 1_000);
        let from = if from == 0 { 0 } else { from * 1_000 };
        if from == to {
            return;
        }
        // The levels between are newer than the target, and older than the source.
        let between: Vec<u32> = self.sorted.keys().copied().filter(|&level| level > from && level <= to).collect();
        for level in between.into_iter().rev().chain((from != 0).then_some(from)) {
            for (number, entries) in self.sorted.remove(&level).unwrap_or_default() {
                edit = edit.remove(level, &held(&self.set, number));
                merged.extend(entries);
            }
        }
        if from == 0 {
            for (number, entries) in self.overlapping.drain(..).rev() {
                edit = edit.remove(0, &held(&self.set, number));
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
            edit = edit.add_newest(to, table);
            rest = left;
        }
        self.sorted.insert(to, tables);
        self.set.apply(edit).unwrap();
    }

    /// Moves the tables of one sorted level, unchanged, to an empty level below all others.
    fn sink(&mut self, random: &mut Random) {
        let Some((&deepest, _)) = self.sorted.last_key_value() else { return };
        let target = if deepest < u32::MAX - 10 { deepest + 1 } else { return };
        let tables = self.sorted.remove(&deepest).unwrap();
        let now = self.set.snapshot();
        let mut edit = ViewEdit::new();
        for table in now.tables(deepest) {
            edit = if random.one_in(2) {
                edit.add_newest(target, table.clone()).remove(deepest, table)
            } else {
                edit.remove(deepest, table).add_newest(target, table.clone())
            };
        }
        self.set.apply(edit).unwrap();
        self.sorted.insert(target, tables);
    }

    /// Applies an edit whose last part is refused.
    fn refused(&mut self, random: &mut Random) {
        let (_, table) = self.write(&Entries::from([(any_key(random), None)]));
        let mut edit = ViewEdit::new().add_newest(0, table.clone()).remove(7, &table);
        if let Some((number, _)) = self.overlapping.first() {
            edit = edit.remove(0, &held(&self.set, *number));
        }
        self.set.apply(edit).unwrap_err();
    }

    /// Checks that the tables are at the levels and positions of the model.
    fn check_places(&self) {
        let now = self.set.snapshot();
        let of = |tables: &[(u128, Entries)]| tables.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        assert_eq!(numbers(&now, 0), of(&self.overlapping));
        for (&level, tables) in &self.sorted {
            assert_eq!(numbers(&now, level), of(tables), "level {level}");
        }
    }
}

fn check(tables: &TableSnapshot, contents: &Entries) {
    let keys: Vec<Vec<u8>> = (0..400)
        .flat_map(|number| ["", "the same beginning "].map(|start| format!("{start}{number:03}").into_bytes()))
        .collect();
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for (key, value) in keys.iter().zip(tables.multi_get(&refs)) {
        let expected = contents.get(key).and_then(Option::as_deref);
        assert_eq!(value.unwrap().as_deref(), expected, "{}", key.escape_ascii());
        assert_eq!(tables.get(key).unwrap().as_deref(), expected, "{}", key.escape_ascii());
        assert!(!contents.contains_key(key) || !candidates(tables, key).is_empty());
    }
    for prefix in [&b""[..], b"0", b"12", b"the same beginning ", b"the same beginning 1", b"zz"] {
        let with_prefix = contents.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        let live = with_prefix.filter_map(|(key, value)| Some((key.clone().into(), value.clone()?.into())));
        let scanned = tables.scan_prefix(prefix).map(Result::unwrap);
        assert!(scanned.eq(live.collect::<Vec<(Bytes, Bytes)>>()), "{}", prefix.escape_ascii());
    }
}

// promise: limited-memory
#[test]
fn random_edits_leave_every_snapshot_with_the_answers_of_its_time() {
    let sequences = crate::common::effort::of_minutes(250, 60, 12);
    for seed in 0..sequences {
        let random = &mut Random::new(seed);
        let mut store = Store::new();
        let mut kept: Vec<(Arc<TableSnapshot>, Entries)> = Vec::new();
        for _ in 0..40 {
            match random.below(8) {
                0..3 => store.flush(random),
                3 => store.merge_at_level_0(random),
                4 | 5 => store.compact(random),
                6 => store.sink(random),
                _ => store.refused(random),
            }
            store.check_places();
            let (tables, contents) = (store.set.snapshot(), store.contents());
            check(&tables, &contents);
            if random.one_in(4) {
                kept.push((tables, contents));
            }
        }
        for (tables, contents) in &kept {
            check(tables, contents);
        }
    }
}
