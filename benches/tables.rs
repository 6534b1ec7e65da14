//! Point lookups in a store of 70 tables with overlapping ranges: the whole saving that filters bring to a reader. And
//! in 10,000 tables on 7 levels, which change.
//!
//! The tables are in memory, so a false positive costs the search of a block and no disk read.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{absent, policies, present};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sstfilter::{BuildContext, FalsePositiveRate, KeyHasher};
use sstfilter_map::MapOptions;
use sstfilter_store::ViewEdit;
use sstfilter_table::{Table, TableBuilder, TableOptions, TableSet};

/// Files of a store whose key ranges overlap, and keys in each: what a lookup has to probe.
const FILES: u64 = 70;
const KEYS_PER_FILE: u64 = 15_000;

/// Keys looked up in one iteration.
const QUERIES: u64 = 2048;

/// Keys of one `multi_get`.
const BATCH: usize = 32;

/// How tables are written, by the filter that they get, and whether the set has a file map.
fn stores() -> Vec<(&'static str, TableOptions, bool)> {
    let context = || BuildContext::new(&KeyHasher::default()).with_expected_keys(KEYS_PER_FILE);
    let options = || TableOptions::default().with_context(context());
    let filtered =
        policies().into_iter().take(2).map(|(name, policy)| (name, options().with_policy(Arc::new(policy)), false));
    let mut stores: Vec<_> = filtered.collect();
    stores.push(("no filter", options().without_filter(), false));
    stores.push(("blocked-bloom and a map", options(), true));
    stores.push(("no filter, a map", options().without_filter(), true));
    stores
}

/// Deals `keys`, which ascend, over all tables.
fn table_set(keys: &[[u8; 16]], options: &TableOptions) -> TableSet {
    let file_count = usize::try_from(FILES).expect("it is small");
    let table = |file: usize| {
        let mut builder = TableBuilder::new(Vec::new(), options).expect("a vector takes all");
        for key in keys.iter().skip(file).step_by(file_count) {
            builder.add(key, b"a value of 20 bytes.").expect("keys ascend");
        }
        let (bytes, _) = builder.finish().expect("a vector takes all");
        Table::open_source(Bytes::from(bytes), &TableOptions::default()).expect("it was just written")
    };
    TableSet::new((0..).zip((0..file_count).rev().map(table))).expect("ages differ")
}

fn found(set: &TableSet, keys: &[[u8; 16]]) -> usize {
    keys.iter().filter(|key| matches!(set.get(&key[..]), Ok(Some(_)))).count()
}

fn found_in_batches(set: &TableSet, keys: &[&[u8]]) -> usize {
    let values = keys.chunks(BATCH).flat_map(|batch| set.multi_get(batch));
    values.filter(|value| matches!(value, Ok(Some(_)))).count()
}

fn lookups(criterion: &mut Criterion) {
    let keys = present(FILES * KEYS_PER_FILE);
    // Both spread over the whole range of keys.
    let stride = keys.len() / usize::try_from(QUERIES).expect("it is small");
    let hits: Vec<_> = keys.iter().copied().step_by(stride).collect();
    let misses: Vec<_> = absent(FILES * KEYS_PER_FILE).into_iter().step_by(stride).collect();
    let missed: Vec<&[u8]> = misses.iter().map(|key| &key[..]).collect();
    for (name, options, has_map) in stores() {
        let set = table_set(&keys, &options);
        if has_map {
            let options = MapOptions::for_entries(keys.len() as u64, FalsePositiveRate::ONE_PERCENT);
            set.update_map(options.expect("few bits")).expect("in memory");
        }
        assert_eq!((found(&set, &hits), found_in_batches(&set, &missed)), (hits.len(), 0));
        let mut group = criterion.benchmark_group(format!("{FILES} tables, {name}"));
        group.throughput(Throughput::Elements(misses.len() as u64)).sample_size(10);
        group.bench_function("get absent", |bencher| bencher.iter(|| found(&set, black_box(&misses))));
        group.bench_function("get present", |bencher| bencher.iter(|| found(&set, black_box(&hits))));
        group.bench_function(format!("multi_get absent, {BATCH} keys"), |bencher| {
            bencher.iter(|| found_in_batches(&set, black_box(&missed)));
        });
    }
}

/// Levels of a store of 10,000 tables, and how many each has.
const LEVELS: [(u32, u64); 7] = [(0, 4), (1, 10), (2, 50), (3, 200), (4, 736), (5, 2_000), (6, 7_000)];

/// Keys of each of these tables.
const LEVEL_KEYS: u64 = 8;

/// Tables that an edit exchanges.
const EXCHANGED: usize = 20;

/// The tables of a level, which spread over all keys. Keys of level `n` are `n` above a multiple of 16.
fn level_tables(level: u32, count: u64) -> Vec<Arc<Table>> {
    // Tables at level 0 overlap, at all others they lie side by side.
    let place = |table: u64, at: u64| if level == 0 { at * count + table } else { table * LEVEL_KEYS + at };
    let most = LEVELS[6].1;
    let table = |table: u64| {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).expect("a vector takes all");
        for at in 0..LEVEL_KEYS {
            let number = place(table, at) * most / count * 16 + u64::from(level);
            builder.add(&common::key(number), b"a value of 20 bytes.").expect("keys ascend");
        }
        let (bytes, _) = builder.finish().expect("a vector takes all");
        Arc::new(Table::open_source(Bytes::from(bytes), &TableOptions::default()).expect("it was just written"))
    };
    (0..count).map(table).collect()
}

/// A set of all levels, and tables of the last one, spread over all chunks, each with one to be exchanged for it.
fn level_set() -> (TableSet, Vec<[Arc<Table>; 2]>) {
    let (set, mut edit) = (TableSet::new([]).expect("it is empty"), ViewEdit::new());
    for (level, count) in LEVELS {
        for (age, table) in (0..).zip(level_tables(level, count)) {
            edit = if level == 0 { edit.add_to_level_0(age, table) } else { edit.add(level, table) };
        }
    }
    let tables = set.apply(edit).expect("tables of a level lie side by side");
    let others = level_tables(6, LEVELS[6].1);
    let stride = others.len() / EXCHANGED;
    let exchanged = tables.tables(6).cloned().zip(others).step_by(stride).take(EXCHANGED);
    (set, exchanged.map(|(one, other)| [one, other]).collect())
}

/// Runs `work` while `threads` look keys up, and returns how many they have found.
fn while_reading<T>(set: &TableSet, keys: &[[u8; 16]], threads: u32, work: impl FnOnce() -> T) -> (T, u64) {
    let is_over = AtomicBool::new(false);
    let read = || {
        let mut found = 0;
        for key in keys.iter().cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
            found += u64::from(set.get(key).expect("memory does not fail").is_some());
        }
        found
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(read)).collect();
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        (result, readers.into_iter().filter_map(|reader| reader.join().ok()).sum())
    })
}

/// The times of 200 edits there and back, sorted: with fewer cores than threads, some include what the system gives to
/// others.
fn edit_times(set: &TableSet, exchanged: &[[Arc<Table>; 2]]) -> Vec<Duration> {
    let time = |turn: usize| {
        let edit = exchanged
            .iter()
            .fold(ViewEdit::new(), |edit, pair| edit.replace(6, &pair[turn % 2], pair[(turn + 1) % 2].clone()));
        let begin = Instant::now();
        set.apply(edit).expect("it goes there and back");
        begin.elapsed()
    };
    let mut times: Vec<_> = (0..200).map(time).collect();
    times.sort();
    times
}

fn levels(criterion: &mut Criterion) {
    let (set, exchanged) = level_set();
    let most = LEVELS[6].1 * LEVEL_KEYS;
    let keys_at =
        |add: u64| -> Vec<[u8; 16]> { (0..QUERIES).map(|at| common::key(at * 7_919 % most * 16 + add)).collect() };
    let (deepest, absent) = (keys_at(6), keys_at(9));
    for threads in [0, 8] {
        let (times, found) = while_reading(&set, &deepest, threads, || edit_times(&set, &exchanged));
        println!(
            "edit of {EXCHANGED} in 10,000 tables, {threads} threads reading: median {:?}, nine of ten within {:?}; {found} keys found",
            times[100], times[180]
        );
    }
    let mut group = criterion.benchmark_group("10,000 tables on 7 levels");
    group.throughput(Throughput::Elements(QUERIES)).sample_size(10);
    let snapshot = set.snapshot();
    let count = |keys: &[[u8; 16]]| keys.iter().filter(|key| matches!(snapshot.get(&key[..]), Ok(Some(_)))).count();
    assert_eq!((count(&deepest), count(&absent)), (deepest.len(), 0));
    group.bench_function("get absent", |bencher| bencher.iter(|| count(black_box(&absent))));
    group.bench_function("get absent, each of the current version", |bencher| {
        bencher.iter(|| found(&set, black_box(&absent)));
    });
    group.bench_function("get at the last level", |bencher| bencher.iter(|| count(black_box(&deepest))));
    for (name, keys) in [("absent", &absent), ("at the last level", &deepest)] {
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        group.bench_function(format!("multi_get {name}, {BATCH} keys"), |bencher| {
            bencher.iter(|| black_box(&keys).chunks(BATCH).map(|keys| snapshot.multi_get(keys).len()).sum::<usize>());
        });
    }
}

criterion_group!(benches, lookups, levels);
criterion_main!(benches);
