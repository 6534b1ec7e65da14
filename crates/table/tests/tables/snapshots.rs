//! Lookups in sets of tables, and readers of sets that change. The failures guarded against: a reader sees half an edit,
//! or loses a table that it still reads; counts differ between single lookups and batches, or are lost with a table;
//! with tables of several hashes, one is probed with the hash of another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use bytes::Bytes;
use sstfilter::{BitsPerKey, BuildContext, FilterStats, FixedPolicy, FixedPrefix, KeyHasher, KeyParts};
use sstfilter_store::{FilterBudget, PartitionCut, PartitionOptions, ViewEdit};
use sstfilter_table::{Table, TableOptions, TablePart, TableSet, TableSnapshot};

use crate::engine::AddNewest;
use crate::sources::Source;
use crate::{Entries, of_keys, open, sidecar};

fn bytes_of(number: u128, entries: &Entries, options: &TableOptions) -> Bytes {
    crate::bytes_of(entries, &options.clone().with_table_id(number.to_le_bytes()))
}

/// A table in which every key has the same value.
fn table(number: u128, keys: &[&str], value: &str) -> Arc<Table> {
    let entries = keys.iter().map(|key| (key.as_bytes().to_vec(), Some(value.as_bytes().to_vec()))).collect();
    Arc::new(open(&bytes_of(number, &entries, &TableOptions::default()), &TableOptions::default()))
}

fn number_of(table: &Table) -> u128 {
    u128::from_le_bytes(*table.table_id())
}

fn numbers(tables: &TableSnapshot, level: u32) -> Vec<u128> {
    tables.tables(level).map(|table| number_of(table)).collect()
}

fn text(tables: &TableSnapshot, key: &str) -> Option<String> {
    let value = tables.get(key.as_bytes()).unwrap();
    let batch = tables.multi_get(&[key.as_bytes()]).pop().unwrap().unwrap();
    assert_eq!(value, batch, "{key}");
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Returns a table, and its source, which lives until the table is closed.
fn closing(number: u128, keys: &[&str]) -> (Arc<Table>, Weak<Source>) {
    let entries = keys.iter().map(|key| (key.as_bytes().to_vec(), Some(number.to_string().into_bytes()))).collect();
    let (table, source) = Source::open(&bytes_of(number, &entries, &TableOptions::default()), &TableOptions::default());
    (Arc::new(table), Arc::downgrade(&source))
}

#[test]
fn a_removed_table_is_read_by_the_snapshots_that_have_it_and_closed_with_the_last_of_them() {
    for level in [0, 1] {
        let set = TableSet::new([]).unwrap();
        let (table, is_open) = closing(1, &["a", "b"]);
        let first = set.apply(ViewEdit::new().add_newest(level, table.clone())).unwrap();
        let second = set.apply(ViewEdit::new().add(5, closing(2, &["c"]).0)).unwrap();
        let third = set.apply(ViewEdit::new().remove(level, &table)).unwrap();
        drop(table);
        assert_eq!((text(&third, "a"), text(&third, "c").unwrap()), (None, "2".to_owned()));
        assert_eq!((text(&first, "a").unwrap(), text(&first, "c")), ("1".to_owned(), None));
        drop(first);
        assert_eq!((text(&second, "b").unwrap(), text(&second, "c").unwrap()), ("1".to_owned(), "2".to_owned()));
        // The second snapshot still contains the table.
        assert_eq!(is_open.strong_count(), 1);
        drop(second);
        assert_eq!(is_open.strong_count(), 0);
        // A refused edit must not keep its tables open.
        let refused =
            set.apply(ViewEdit::new().add_newest(0, closing(3, &["a"]).0).remove(level, &closing(1, &["a"]).0));
        assert!(refused.is_err());
    }
}

/// How a table's filter is built and read.
#[derive(Clone, Copy, Debug)]
enum Filter {
    Bloom,
    /// Another kind than blocked Bloom.
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

/// Returns equal functions, which no reader can know to be equal.
fn custom_hasher() -> KeyHasher {
    KeyHasher::custom(5, |key| KeyHasher::with_seed(1).hash(key))
}

fn table_with(
    filter: Filter,
    (hasher, parts): (KeyHasher, &KeyParts),
    number: u128,
    entries: &Entries,
    read: &TableOptions,
) -> Arc<Table> {
    let built = if let Filter::Foreign = filter { KeyHasher::with_seed(9) } else { hasher.clone() };
    let mut options = TableOptions::default().with_context(BuildContext::new(&built)).with_key_parts(parts.clone());
    let mut read = read.clone().with_hasher(hasher).with_key_parts(parts.clone());
    match filter {
        Filter::None => options = options.without_filter(),
        Filter::Ribbon => {
            options = options.with_policy(Arc::new(FixedPolicy::ribbon(BitsPerKey::TEN).unwrap().with_min_keys(0)));
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
            let table = Table::open_source(Bytes::from(bytes.clone()), &read).unwrap();
            bytes[usize::try_from(table.region(TablePart::Filter).unwrap().start).unwrap()] ^= 1;
        }
        Filter::Sidecar => {
            let sidecar = sidecar::built(&bytes.clone().into(), &read, &options);
            return Arc::new(sidecar::open(&sidecar::files(&bytes.into(), sidecar), read));
        }
        _ => {}
    }
    Arc::new(Table::open_source(Bytes::from(bytes), &read).unwrap())
}

#[test]
fn batches_answer_and_count_like_single_lookups_whatever_the_filters_are() {
    let (whole_keys, extractor) = (KeyParts::whole_keys(), Arc::new(FixedPrefix::new(3)));
    for (hasher, parts) in [
        (KeyHasher::default as fn() -> KeyHasher, whole_keys.clone()),
        (custom_hasher, whole_keys.clone()),
        (KeyHasher::default, KeyParts::extracted(extractor.clone())),
        (KeyHasher::default, whole_keys.with_extractor(extractor)),
    ] {
        let run = |is_batch: bool| {
            let read = TableOptions::default().with_block_cache(1 << 30);
            let (mut edit, mut model) = (ViewEdit::new(), Entries::new());
            // Oldest first: disjoint at the levels above 0, and overlapping at level 0, in several chunks.
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
                edit = edit.add_newest(level, table_with(filter, (hasher(), &parts), number.into(), &entries, &read));
                model.extend(entries);
            }
            let tables = TableSet::new([]).unwrap().apply(edit).unwrap();
            assert!(tables.filter_problem().is_none());
            let mut keys: Vec<Vec<u8>> = (0..3_100).map(|key| format!("{:04}", key * 7 % 3_100).into_bytes()).collect();
            // Below, between and above all keys.
            keys.extend([b"".to_vec(), b"000".to_vec(), b"12345".to_vec(), b"9".to_vec()]);
            let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let values: Vec<_> = if is_batch {
                refs.chunks(75).flat_map(|keys| tables.multi_get(keys)).map(Result::unwrap).collect()
            } else {
                refs.iter().map(|key| tables.get(key).unwrap()).collect()
            };
            for (key, value) in keys.iter().zip(&values) {
                assert_eq!(value.as_deref(), model.get(key).and_then(Option::as_deref), "{}", key.escape_ascii());
            }
            tables.all_tables().map(|table| (*table.table_id(), table.stats())).collect::<Vec<_>>()
        };
        let (singly, batches) = (run(false), run(true));
        for (one, other) in singly.iter().zip(&batches) {
            assert_eq!(one, other, "{parts}");
        }
        let of_filter = |number: usize| {
            let counts = singly.iter().filter(|(table, _)| u128::from_le_bytes(*table) as usize % 9 == number);
            counts.map(|(_, stats)| stats.filters.filter).fold(FilterStats::default(), |sum, stats| sum.merged(&stats))
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
fn a_batch_reads_no_block_twice_that_a_cache_keeps() {
    let entries: Entries = (0..32_u8).map(|key| (vec![key], Some(vec![7; 64]))).collect();
    let refs: Vec<&[u8]> = entries.keys().map(Vec::as_slice).collect();
    for level in [0, 1] {
        // One entry per block.
        let bytes = bytes_of(0, &entries, &TableOptions::default().without_filter().with_block_bytes(64).unwrap());
        let table = open(&bytes, &TableOptions::default().with_block_cache(1 << 30));
        assert_eq!(table.properties().data_blocks, 32);
        // Reads the index, so that the counts below are only of data blocks.
        table.get(refs[31]).unwrap();
        let set = TableSet::new([]).unwrap();
        set.apply(ViewEdit::new().add_newest(level, Arc::new(table))).unwrap();
        let counted = |keys: &[&[u8]]| {
            let before = set.stats();
            assert!(set.multi_get(keys).into_iter().all(|value| value.unwrap().unwrap() == [7; 64][..]));
            let after = set.stats();
            let reads = after.data_block_reads - before.data_block_reads;
            (reads, after.block_cache_hits - before.block_cache_hits)
        };
        assert_eq!(counted(&refs[..20]), (20, 0), "not in the cache");
        assert_eq!(counted(&refs[..20]), (0, 20), "in the cache");
        // The first key of a block reads it, and the others find it in the cache.
        assert_eq!(counted(&[refs[29], refs[29], refs[30], refs[29]]), (2, 2));
    }
}

// promise: threads
#[test]
fn threads_that_share_a_set_count_every_lookup() {
    let key = |number: u32| format!("user:{number:06}").into_bytes();
    let table = |age: u32| crate::bytes_of(&of_keys((0..50).map(|at| key(at * 11 + age))), &TableOptions::default());
    let set = crate::set_of((0..70).map(|age| open(&table(age), &TableOptions::default())).collect());
    let asked: Vec<Vec<u8>> = (0..800).map(key).collect();
    let refs: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
    refs.iter().for_each(|key| drop(set.get(key).unwrap()));
    let counts = || (set.snapshot().view().lookups(), set.stats().filters);
    let (lookups, once) = counts();
    thread::scope(|scope| {
        for thread in 0..6 {
            let (set, refs) = (&set, &refs);
            scope.spawn(move || {
                if thread % 2 == 0 {
                    refs.iter().for_each(|key| drop(set.get(key).unwrap()));
                } else {
                    refs.chunks(32).for_each(|keys| drop(set.multi_get(keys)));
                }
            });
        }
    });
    let (all_lookups, all) = counts();
    // Once by this thread, and once by each of six others.
    assert_eq!((all_lookups, all.searched), (lookups * 7, once.searched * 7));
    assert_eq!(all.skipped_by_bounds, once.skipped_by_bounds * 7);
    assert_eq!(all.filter.negatives, once.filter.negatives * 7);
    assert_eq!(all.filter.positives, once.filter.positives * 7);
}

/// Every edit moves all keys from one generation to the next, across levels, in one step.
// promise: limited-memory
#[test]
fn no_reader_sees_half_an_edit() {
    const KEYS: usize = 40;
    const GENERATIONS: u64 = 300;
    let names: Vec<String> = (0..KEYS).map(|key| format!("{key:03}")).collect();
    // Tables of four keys, alternating between levels 1 and 2; one of them at level 0.
    let tables_of = |generation: u64| {
        let value = generation.to_string();
        let tables = names.chunks(4).enumerate().map(|(at, keys)| {
            let level = if at == 3 { 0 } else { 1 + u32::try_from((at as u64 + generation) % 2).unwrap() };
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            (level, table(u128::from(generation) << 32 | at as u128, &keys, &value))
        });
        tables.collect::<Vec<_>>()
    };
    let set = TableSet::new([]).unwrap();
    let mut present = tables_of(0);
    set.apply(present.iter().fold(ViewEdit::new(), |edit, (level, table)| edit.add_newest(*level, table.clone())))
        .unwrap();
    let (is_over, newest) = (AtomicBool::new(false), AtomicU64::new(0));
    let reader = |thread: u64| {
        let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let (mut last, mut seen) = (0, 0);
        while !is_over.load(Ordering::Acquire) {
            let least = newest.load(Ordering::Acquire);
            let tables = set.snapshot();
            let values = match thread % 2 {
                0 => tables.multi_get(&keys),
                _ => keys.iter().map(|key| tables.get(key)).collect(),
            };
            let values: Vec<u64> =
                values.into_iter().map(|value| text_of(&value.unwrap().unwrap()).parse().unwrap()).collect();
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            assert!(values[0] >= last.max(least), "a set older than one that was seen");
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
            let edit = present.iter().fold(ViewEdit::new(), |edit, (level, table)| edit.remove(*level, table));
            set.apply(next.iter().fold(edit, |edit, (level, table)| edit.add_newest(*level, table.clone()))).unwrap();
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
    let set = TableSet::new([]).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let set = &set;
            scope.spawn(move || {
                for number in (thread..200_u128).step_by(4) {
                    let key = format!("{number:03}");
                    let table = table(number, &[&key], &key);
                    set.apply(ViewEdit::new().add(1, table.clone())).unwrap();
                    if number.is_multiple_of(3) {
                        set.apply(ViewEdit::new().remove(1, &table)).unwrap();
                    }
                }
            });
        }
    });
    let expected: Vec<u128> = (0..200_u128).filter(|number| !number.is_multiple_of(3)).collect();
    assert_eq!(numbers(&set.snapshot(), 1), expected);
}
