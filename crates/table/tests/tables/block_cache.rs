//! The block cache is a second copy of the data. The failures guarded against: an answer that changes when a block
//! is cached, a cached block that is read again or counted as read, and damage that is cached or no longer detected.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use proptest::prelude::*;
use sstfilter::RandomAccess;
use sstfilter_table::{Lookup, Table, TableError, TableOptions};

type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn options(block_bytes: u32, restart_interval: u32) -> TableOptions {
    let options = TableOptions::default().with_block_bytes(block_bytes).unwrap();
    options.with_restart_interval(restart_interval).unwrap()
}

fn build(entries: &Entries, options: &TableOptions) -> Bytes {
    crate::built(entries.iter().map(|(key, value)| (key, value)), options).0.into()
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// The even numbers below 2,000; every tenth is deleted.
fn even_entries() -> Entries {
    (0..1_000).map(|number| (key(number * 2), (number % 10 != 9).then(|| format!("value {number}").into()))).collect()
}

fn unfiltered() -> TableOptions {
    TableOptions::default().without_filter()
}

/// A source that counts its reads, and can change one byte.
struct Source {
    bytes: Bytes,
    reads: AtomicU64,
    /// Offset of the byte that reads change; `u64::MAX` for none.
    damaged_at: AtomicU64,
}

impl Source {
    fn new(bytes: Bytes) -> Arc<Self> {
        Arc::new(Self { bytes, reads: AtomicU64::new(0), damaged_at: AtomicU64::new(u64::MAX) })
    }
}

impl RandomAccess for Source {
    fn len(&self) -> io::Result<u64> {
        RandomAccess::len(&self.bytes)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.read_exact_at(buf, offset)?;
        let place = self.damaged_at.load(Ordering::Relaxed).checked_sub(offset);
        if let Some(byte) = place.and_then(|place| buf.get_mut(usize::try_from(place).unwrap())) {
            *byte ^= 1;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::common::cases(300, 300)))]

    #[test]
    fn kept_blocks_answer_like_blocks_that_are_read_each_time(
        entries in prop::collection::btree_map(
            (prop::sample::select(vec!["", "a", "a long prefix "]), prop::collection::vec(0..3_u8, 0..13))
                .prop_map(|(prefix, rest)| [prefix.as_bytes(), &rest].concat()),
            prop::option::weighted(0.8, prop::collection::vec(any::<u8>(), 0..20)),
            1..120,
        ),
        others in prop::collection::vec(prop::collection::vec(0..3_u8, 0..13), 1..40),
        block_bytes in 64..1_024_u32,
        restart_interval in 1..20_u32,
    ) {
        let entries: Entries = entries.into_iter().collect();
        let bytes = build(&entries, &options(block_bytes, restart_interval));
        let plain = Table::open_source(bytes.clone(), &unfiltered()).unwrap();
        let keeping = Table::open_source(bytes, &unfiltered().with_block_cache(1 << 30)).unwrap();
        let near = entries.iter().map(|(key, _)| [key, &b"\0"[..]].concat());
        let targets: Vec<Vec<u8>> = entries.iter().map(|(key, _)| key.clone()).chain(near).chain(others).collect();
        for _ in 0..2 {
            for target in &targets {
                prop_assert_eq!(keeping.get(target).unwrap(), plain.get(target).unwrap(), "{:?}", target);
            }
        }
        let stats = keeping.stats();
        prop_assert_eq!(stats.data_block_reads, keeping.properties().data_blocks);
        prop_assert_eq!(stats.block_cache_hits + stats.data_block_reads, plain.stats().data_block_reads);
        let walk = |table: &Table| table.iter().map(Result::unwrap).collect::<Vec<_>>();
        prop_assert_eq!(walk(&keeping), walk(&plain));
    }
}

#[test]
fn a_block_is_read_once_and_hits_are_counted() {
    let source = Source::new(build(&even_entries(), &options(512, 16)));
    let table = Table::open_source(source.clone(), &unfiltered().with_block_cache(1 << 30)).unwrap();
    let opened = source.reads.load(Ordering::Relaxed);
    for number in (0..1_999).chain(0..1_999) {
        table.get(&key(number)).unwrap();
    }
    let (stats, blocks) = (table.stats(), table.properties().data_blocks);
    assert_eq!((stats.index_block_reads, stats.data_block_reads), (1, blocks));
    assert_eq!(source.reads.load(Ordering::Relaxed) - opened, 1 + blocks);
    // The last key is 1,998.
    assert_eq!(stats.block_cache_hits + stats.data_block_reads, 2 * 1_999);
}

// promise: bounded-memory
#[test]
fn without_the_option_no_block_is_kept() {
    let table = Table::open_source(build(&even_entries(), &options(512, 16)), &unfiltered()).unwrap();
    (0..10).for_each(|_| drop(table.get(&key(4)).unwrap()));
    assert_eq!((table.stats().data_block_reads, table.stats().block_cache_hits), (10, 0));
}

#[test]
fn values_of_kept_blocks_share_their_memory() {
    let bytes = build(&even_entries(), &options(512, 16));
    let table = Table::open_source(bytes, &TableOptions::default().with_block_cache(1 << 30)).unwrap();
    let value = || match table.get(&key(8)).unwrap() {
        Lookup::Found(value) => value,
        other => panic!("{other:?}"),
    };
    let (first, second) = (value(), value());
    assert_eq!(first, "value 4");
    assert_eq!(first.as_ptr(), second.as_ptr());
    drop(table);
    assert_eq!(second, "value 4", "a value outlives its table");
}

#[test]
fn damage_is_not_kept_and_is_an_error_of_every_read() {
    let source = Source::new(build(&even_entries(), &options(512, 16)));
    let table = Table::open_source(source.clone(), &unfiltered().with_block_cache(1 << 30)).unwrap();
    for byte in [0, 5, 100, 400] {
        source.damaged_at.store(byte, Ordering::Relaxed);
        for _ in 0..2 {
            for number in [0, 1, 2] {
                assert!(matches!(table.get(&key(number)), Err(TableError::Checksum { .. })), "byte {byte}");
            }
        }
    }
    // Four bytes, two rounds, three keys: each lookup reads the damaged block again.
    assert_eq!((table.stats().data_block_reads, table.stats().block_cache_hits), (24, 0));

    source.damaged_at.store(u64::MAX, Ordering::Relaxed);
    for _ in 0..2 {
        assert_eq!(table.get(&key(0)).unwrap(), Lookup::Found("value 0".into()));
    }
    // The sound block is read once more, and then cached.
    assert_eq!((table.stats().data_block_reads, table.stats().block_cache_hits), (25, 1));
}

#[test]
fn verify_and_walks_see_damage_behind_a_kept_block() {
    let source = Source::new(build(&even_entries(), &options(512, 16)));
    let table = Table::open_source(source.clone(), &TableOptions::default().with_block_cache(1 << 30)).unwrap();
    table.get(&key(0)).unwrap();
    table.verify().unwrap();
    source.damaged_at.store(5, Ordering::Relaxed);
    assert_eq!(table.get(&key(0)).unwrap(), Lookup::Found("value 0".into()), "what was read sound stays so");
    assert!(matches!(table.verify(), Err(TableError::Checksum { .. })));
    assert!(matches!(table.iter().next(), Some(Err(TableError::Checksum { .. }))));
}

#[test]
fn threads_keep_blocks_for_each_other() {
    let bytes = build(&even_entries(), &options(512, 16));
    let table = Table::open_source(bytes.clone(), &unfiltered().with_block_cache(1 << 30)).unwrap();
    let plain = Table::open_source(bytes, &unfiltered()).unwrap();
    let expected: Vec<Lookup> = (0..2_001).map(|number| plain.get(&key(number)).unwrap()).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (number, expected) in (0..).zip(&expected) {
                    assert_eq!(table.get(&key(number)).unwrap(), *expected, "{number}");
                }
            });
        }
    });
    let before = table.stats();
    (0..1_999).for_each(|number| drop(table.get(&key(number)).unwrap()));
    let after = table.stats();
    assert_eq!(after.data_block_reads, before.data_block_reads, "all are kept");
    // Each of the four threads may read a block before another one has cached it.
    assert!(before.data_block_reads <= 4 * table.properties().data_blocks);
    assert_eq!(after.block_cache_hits + after.data_block_reads, 5 * 1_999);
}

/// Two tables with one id contain the same block at the same offset, but after other keys. A cached block is searched
/// without the prefix that its bounds in the index share.
#[test]
fn a_block_of_another_table_with_the_same_id_is_no_answer() {
    let table = |second: &[u8]| {
        let options = TableOptions::default().with_table_id([7; 16]).without_filter();
        let long = vec![b'x'; 40];
        let entry = |key: &[u8], value: &[u8]| (key.to_vec(), Some(value.to_vec()));
        let entries = [entry(b"aab0", &long), entry(second, &long), entry(b"abc6", b"six"), entry(b"abc7", b"seven")];
        build(&entries.into(), &options.with_block_bytes(64).unwrap())
    };
    let cached = unfiltered().with_block_cache(1 << 20);
    let [first, second] = [b"abc5", b"aab5"].map(|key| Table::open_source(table(key), &cached).unwrap());
    assert_eq!(first.get(b"abc7").unwrap(), Lookup::Found("seven".into()));
    for absent in [&b"aac7"[..], b"aaz7", b"aaz6"] {
        assert_eq!(second.get(absent).unwrap(), Lookup::Absent);
    }
    assert_eq!(second.get(b"abc7").unwrap(), Lookup::Found("seven".into()));
}
