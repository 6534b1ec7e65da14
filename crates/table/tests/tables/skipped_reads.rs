//! The failure guarded against: filters are probed but save no reads, so that every answer is right, but slow. A source
//! and a hasher that count their calls prove what is read and hashed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sstfilter::{BuildContext, KeyHash, KeyHasher};
use sstfilter_table::{Lookup, Table, TableOptions};

use crate::sources::Source;
use crate::{bytes_of, key, of_keys};

/// Returns a table of the even numbers below 2,000, and its source.
fn counted_table(write: &TableOptions, read: &TableOptions) -> (Table, Arc<Source>) {
    Source::open(&bytes_of(&of_keys((0..2_000).step_by(2).map(key)), write), read)
}

#[test]
fn a_key_that_the_filter_denies_costs_no_read_and_one_that_is_there_a_data_block() {
    let (table, source) = counted_table(&TableOptions::default(), &TableOptions::default());
    let opened = source.reads();
    assert_eq!(opened, 4, "footer, metaindex, properties and filter");
    let denied: Vec<u32> = (1..1_998).step_by(2).filter(|&number| !table.may_contain_key(&key(number))).collect();
    // Of 999 absent keys, about 1 % are false positives.
    assert!(denied.len() > 900);
    for &number in &denied {
        assert_eq!(table.get(&key(number)).unwrap(), Lookup::Absent);
    }
    let stats = table.stats();
    assert_eq!((source.reads(), stats.filters.filter.negatives), (opened, 2 * denied.len() as u64));
    assert_eq!((stats.index_block_reads, stats.data_block_reads), (0, 0));

    for number in (0..2_000).step_by(2) {
        assert!(matches!(table.get(&key(number)).unwrap(), Lookup::Found(_)));
    }
    // The index once and, without a block cache, a data block for each key.
    assert_eq!(source.reads() - opened, 1 + 1_000);
    let stats = table.stats();
    assert_eq!((stats.index_block_reads, stats.data_block_reads), (1, 1_000));
    assert_eq!(stats.filters.filter.true_positives, 1_000);
}

#[test]
fn a_key_outside_the_range_asks_no_filter_and_is_not_hashed() {
    let (hasher, hashed) = counting_hasher();
    let read = TableOptions::default().with_hasher(hasher.clone());
    let (table, source) = counted_table(&TableOptions::default().with_context(BuildContext::new(&hasher)), &read);
    // Building and opening the table also hashed keys.
    let (opened, built) = (source.reads(), hashed.load(Ordering::Relaxed));
    for outside in [&b""[..], b"a", b"key 001998\0", b"zebra"] {
        assert_eq!(table.get(outside).unwrap(), Lookup::Absent);
    }
    assert_eq!((source.reads(), hashed.load(Ordering::Relaxed)), (opened, built));
    assert_eq!((table.stats().filters.skipped_by_bounds, table.stats().filters.filter.probes()), (4, 0));
}

fn counting_hasher() -> (KeyHasher, Arc<AtomicU64>) {
    let hashed = Arc::new(AtomicU64::new(0));
    let counter = hashed.clone();
    let inner = KeyHasher::with_seed(11);
    let hasher = KeyHasher::custom(11, move |key| {
        counter.fetch_add(1, Ordering::Relaxed);
        KeyHash::from_well_mixed(inner.hash(key).get())
    });
    (hasher, hashed)
}

#[test]
fn a_set_hashes_each_key_once_for_all_its_tables() {
    let (hasher, hashed) = counting_hasher();
    let options = TableOptions::default().with_context(BuildContext::new(&hasher));
    let read = TableOptions::default().with_hasher(hasher.clone());
    let (tables, sources): (Vec<_>, Vec<_>) = (0..20).map(|_| counted_table(&options, &read)).unzip();
    let set = crate::set_of(tables);
    let opened: u64 = sources.iter().map(|source| source.reads()).sum();
    let built = hashed.load(Ordering::Relaxed);

    assert_eq!(set.get(&key(777)).unwrap(), None);
    assert_eq!(hashed.load(Ordering::Relaxed) - built, 1);
    assert_eq!(set.get(&key(778)).unwrap(), Some(Bytes::from_static(b"value")));
    assert_eq!(hashed.load(Ordering::Relaxed) - built, 2);
    let keys: Vec<Vec<u8>> = (0..100).map(key).collect();
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    assert_eq!(set.multi_get(&refs).iter().filter(|value| matches!(value, Ok(Some(_)))).count(), 50);
    assert_eq!(hashed.load(Ordering::Relaxed) - built, 102);

    let stats = set.stats();
    let reads: u64 = sources.iter().map(|source| source.reads()).sum();
    assert_eq!(stats.index_block_reads + stats.data_block_reads, reads - opened);
    assert_eq!(set.snapshot().view().lookups(), 102);
    assert!(stats.filters.filter.negatives > 900, "{stats:?}");
}
