//! Entries of a table survive the round trip. The failure guarded against: a key is lost or returns another value for
//! some unexpected shape of data (no keys, the empty key, values larger than any block), or once its block is cached. A
//! `BTreeMap` is the oracle.

use std::ops::Bound;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use sstfilter::{BuildContext, KeyHasher};
use sstfilter_table::{Lookup, Table, TableBuilder, TableError, TableOptions};

use crate::{Entries, built, bytes_of, open};

/// Compares lookups of every key and its neighbours, and walks from each.
fn assert_same(table: &Table, model: &Entries) {
    let all: Entries = table.iter().map(Result::unwrap).map(|e| (e.key.to_vec(), e.value.map(Vec::from))).collect();
    assert_eq!(&all, model);
    for key in model.keys() {
        // The next possible key, and a shorter one: the smallest steps in key order.
        let after = [key, &[0][..]].concat();
        let before = key.split_last().map_or(&[][..], |(_, start)| start);
        for probe in [key, &after, before] {
            let expected = match model.get(probe) {
                Some(Some(value)) => Lookup::Found(Bytes::copy_from_slice(value)),
                Some(None) => Lookup::Deleted,
                None => Lookup::Absent,
            };
            assert_eq!(table.get(probe).unwrap(), expected, "{probe:?}");
            let next = model.range::<[u8], _>((Bound::Included(probe), Bound::Unbounded)).next();
            let found = table.range(probe..).next().map(|entry| entry.unwrap().key.to_vec());
            assert_eq!(found.as_ref(), next.map(|(key, _)| key), "{probe:?}");
        }
    }
    assert_eq!(table.get(b"\xff no such key").unwrap(), Lookup::Absent);
    assert_eq!(table.verify().unwrap().entries, model.len() as u64);
}

fn numbered(keys: impl IntoIterator<Item = u32>) -> Entries {
    let value = |key: u32| (!key.is_multiple_of(5)).then(|| format!("value of {key}").into_bytes());
    keys.into_iter().map(|key| (format!("user:{key:08}").into_bytes(), value(key))).collect()
}

#[test]
fn the_largest_value_and_the_largest_key_fit_and_one_byte_more_is_refused() {
    let too_long = vec![7; (64 << 20) + 1];
    let largest = &too_long[1..];
    let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap();
    builder.add(b"a", b"small").unwrap();
    builder.add(b"b", largest).unwrap();
    assert!(matches!(builder.add(b"c", &too_long), Err(TableError::TooLong { what: "value", .. })));
    assert!(matches!(builder.add(&too_long, b""), Err(TableError::TooLong { what: "key", .. })));
    builder.add(b"c", b"small").unwrap();
    let table = open(&builder.finish().unwrap().0.into(), &TableOptions::default());
    assert!(matches!(table.get(b"b").unwrap(), Lookup::Found(value) if value == largest));
    let before = table.stats().bytes_read;
    assert_eq!(table.get(b"c").unwrap(), Lookup::Found(Bytes::from_static(b"small")));
    assert!(table.stats().bytes_read - before < 1_000, "a small entry does not share its block with a large one");

    let entries: Entries = [(vec![1], None), (largest.to_vec(), Some(vec![2]))].into();
    let table = open(&bytes_of(&entries, &TableOptions::default()), &TableOptions::default());
    assert_eq!(table.get(&[1]).unwrap(), Lookup::Deleted);
    assert_eq!(table.get(largest).unwrap(), Lookup::Found(Bytes::from_static(&[2])));
    assert_eq!(table.iter().count(), 2);
}

/// Values of 100 bytes fill a block each, so the order is checked across blocks.
#[test]
fn a_key_out_of_order_or_twice_is_refused_and_the_table_is_as_if_it_had_not_been_offered() {
    let build = |is_offered: bool| {
        let mut builder = TableBuilder::new(
            Vec::new(),
            &TableOptions::default().with_block_bytes(128).unwrap().with_table_id([1; 16]),
        )
        .unwrap();
        for key in 1..50_u8 {
            builder.add(&[key], &[0; 100]).unwrap();
            for refused in [&[key][..], &[key - 1, 9], b""].iter().filter(|_| is_offered) {
                let error = builder.add(refused, b"2").unwrap_err();
                assert!(matches!(&error, TableError::KeyOrder { previous, .. } if **previous == [key]), "{error}");
                assert!(matches!(builder.delete(refused), Err(TableError::KeyOrder { .. })));
            }
        }
        builder.finish().unwrap().0
    };
    assert_eq!(build(true), build(false));
}

// promise: same-bytes
#[test]
fn the_same_entries_options_and_id_give_the_same_bytes() {
    let model = numbered(0..1_000);
    let options = TableOptions::default().with_table_id([9; 16]);
    assert_eq!(bytes_of(&model, &options), bytes_of(&model, &options));
    // By default, each table has a random id.
    assert_ne!(bytes_of(&model, &TableOptions::default()), bytes_of(&model, &TableOptions::default()));
}

#[test]
fn the_estimate_is_close_to_the_size_at_every_moment() {
    for entries in [0, 1, 10, 1_000, 20_000] {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap();
        for (key, value) in &numbered(0..entries) {
            builder.add(key, value.as_deref().unwrap_or_default()).unwrap();
        }
        let estimate = builder.estimated_bytes();
        let size = builder.finish().unwrap().0.len() as u64;
        // The estimate has room for names and filters that this table does not have.
        assert!(estimate.abs_diff(size) < 300 + size / 100, "{entries} entries: {estimate} for {size}");
    }
}

#[test]
fn a_seed_that_is_no_secret_is_taken_from_the_table() {
    let model = numbered(0..200);
    let options = TableOptions::default().with_context(BuildContext::new(&KeyHasher::with_seed(42)));
    let table = open(&bytes_of(&model, &options), &TableOptions::default());
    assert_eq!(table.store().filters().hasher().identity(), KeyHasher::with_seed(42).identity());
    assert_same(&table, &model);
    assert!(table.stats().filters.filter.negatives > 0);
}

fn any_model() -> impl Strategy<Value = Entries> {
    let key = prop_oneof![
        prop::collection::vec(0_u8..3, 0..8),
        prop::collection::vec(any::<u8>(), 0..40),
        "(a long prefix )?[ab]{0,12}".prop_map(String::into_bytes),
        "user:[0-9]{1,6}".prop_map(String::into_bytes),
    ];
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..100));
    prop::collection::btree_map(key, value, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::common::cases(192, 192)))]

    // promise: bounded-memory
    #[test]
    fn any_table_answers_like_a_map_with_and_without_filter_and_cache(
        model in any_model(),
        block_bytes in prop_oneof![4 => 64..600_u32, 1 => select(vec![4_096, 1 << 20])],
        interval in prop_oneof![4 => 1..20_u32, 1 => select(vec![100, 1_024])],
        is_filtered in any::<bool>(),
    ) {
        let options = TableOptions::default().with_block_bytes(block_bytes).unwrap();
        let options = options.with_restart_interval(interval).unwrap();
        let options = if is_filtered { options } else { options.without_filter() };
        let (bytes, summary) = built(&model, &options);
        prop_assert_eq!((summary.properties.entries, summary.file_bytes), (model.len() as u64, bytes.len() as u64));
        assert_same(&open(&bytes, &TableOptions::default()), &model);

        let unfiltered = TableOptions::default().without_filter();
        let (plain, cached) = (open(&bytes, &unfiltered), open(&bytes, &unfiltered.with_block_cache(1 << 30)));
        let lookups = |table: &Table| model.keys().for_each(|key| drop(table.get(key).unwrap()));
        (0..2).for_each(|_| [&plain, &cached].into_iter().for_each(lookups));
        let (stats, reads) = (cached.stats(), plain.stats().data_block_reads);
        prop_assert_eq!(stats.data_block_reads, cached.properties().data_blocks, "each block is read once");
        prop_assert_eq!((stats.block_cache_hits + stats.data_block_reads, plain.stats().block_cache_hits), (reads, 0));
        assert_same(&cached, &model);
    }
}
