//! Entries of a table survive the round trip. The failure guarded against: a key is lost or returns another value for
//! some unexpected shape of data (no keys, the empty key, values larger than any block, a filter that cannot be
//! probed). A `BTreeMap` is the oracle.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use sstfilter::{BuildContext, DelimitedPrefix, KeyHasher};
use sstfilter_table::{
    FilterVerdict, Lookup, Table, TableBuilder, TableError, TableOptions, TablePart, TableSet, TableWriter,
};

type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn write(model: &Model, options: &TableOptions) -> Bytes {
    let (bytes, summary) = crate::built(model, options);
    assert_eq!((summary.properties.entries, summary.file_bytes), (model.len() as u64, bytes.len() as u64));
    bytes.into()
}

fn open(model: &Model, options: &TableOptions) -> Table {
    Table::open_source(write(model, options), &TableOptions::default()).unwrap()
}

fn expected(model: &Model, key: &[u8]) -> Lookup {
    match model.get(key) {
        Some(Some(value)) => Lookup::Found(Bytes::copy_from_slice(value)),
        Some(None) => Lookup::Deleted,
        None => Lookup::Absent,
    }
}

/// Compares lookups of every key and its neighbours, and walks from each.
fn assert_same(table: &Table, model: &Model) {
    let all: Model = table.iter().map(Result::unwrap).map(|e| (e.key.to_vec(), e.value.map(Vec::from))).collect();
    assert_eq!(&all, model);
    for key in model.keys() {
        // The next possible key, and a shorter one: the smallest steps in key order.
        let after = [key, &[0][..]].concat();
        let before = key.split_last().map_or(&[][..], |(_, start)| start);
        for probe in [key, &after, before] {
            assert_eq!(table.get(probe).unwrap(), expected(model, probe), "{probe:?}");
            let next = model.range::<[u8], _>((Bound::Included(probe), Bound::Unbounded)).next();
            let found = table.range(probe..).next().map(|entry| entry.unwrap().key.to_vec());
            assert_eq!(found.as_ref(), next.map(|(key, _)| key), "{probe:?}");
        }
    }
    let report = table.verify().unwrap();
    assert_eq!(report.entries, model.len() as u64);
}

fn numbered(keys: impl IntoIterator<Item = u32>) -> Model {
    keys.into_iter()
        .map(|key| {
            let value = (key % 5 != 0).then(|| format!("value of {key}").into_bytes());
            (format!("user:{key:08}").into_bytes(), value)
        })
        .collect()
}

fn small_blocks() -> TableOptions {
    TableOptions::default().with_block_bytes(128).unwrap().with_restart_interval(3).unwrap()
}

#[test]
fn every_entry_is_found_and_walked_at_every_size_of_block_and_interval() {
    let model = numbered((0..700).map(|key| key * 3));
    for block_bytes in [64, 200, 4096, 1 << 20] {
        for interval in [1, 2, 16, 1024] {
            let options = TableOptions::default().with_block_bytes(block_bytes).unwrap();
            assert_same(&open(&model, &options.with_restart_interval(interval).unwrap()), &model);
        }
    }
}

#[test]
fn a_table_of_no_entries_is_a_table() {
    for options in [TableOptions::default(), TableOptions::default().without_filter()] {
        let table = open(&Model::new(), &options);
        assert_eq!(table.get(b"").unwrap(), Lookup::Absent);
        assert!(table.iter().next().is_none() && table.range(b"k"..).next().is_none());
        assert_eq!((table.verify().unwrap().entries, table.properties().filters.key_bounds()), (0, None));
        assert!(table.region(TablePart::Data).is_none());
    }
}

#[test]
fn the_empty_key_and_the_empty_value_are_a_key_and_a_value() {
    let model: Model = [(vec![], Some(vec![])), (vec![0], None), (vec![0, 0], Some(vec![]))].into();
    assert_same(&open(&model, &TableOptions::default()), &model);
    let only: Model = [(vec![], Some(vec![]))].into();
    assert_same(&open(&only, &TableOptions::default()), &only);
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
    let table = Table::open_source(Bytes::from(builder.finish().unwrap().0), &TableOptions::default()).unwrap();
    assert!(matches!(table.get(b"b").unwrap(), Lookup::Found(value) if value == largest));
    let before = table.stats().bytes_read;
    assert_eq!(table.get(b"c").unwrap(), Lookup::Found(Bytes::from_static(b"small")));
    assert!(table.stats().bytes_read - before < 1_000, "a small entry does not share its block with a large one");

    let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap();
    builder.delete(&[1]).unwrap();
    builder.add(largest, &[2]).unwrap();
    let table = Table::open_source(Bytes::from(builder.finish().unwrap().0), &TableOptions::default()).unwrap();
    assert_eq!(table.get(&[1]).unwrap(), Lookup::Deleted);
    assert_eq!(table.get(largest).unwrap(), Lookup::Found(Bytes::from_static(&[2])));
    assert_eq!(table.iter().count(), 2);
}

// promise: same-bytes
#[test]
fn the_same_entries_options_and_id_give_the_same_bytes() {
    let model = numbered(0..1_000);
    let options = TableOptions::default().with_table_id([9; 16]);
    assert_eq!(write(&model, &options), write(&model, &options));
    // By default, each table has a random id.
    assert_ne!(write(&model, &TableOptions::default()), write(&model, &TableOptions::default()));
}

#[test]
fn the_layout_is_end_to_end_and_the_filter_is_aligned() {
    for options in [small_blocks(), small_blocks().without_filter()] {
        let table = open(&numbered(0..333), &options);
        let end = table.layout().into_iter().fold(0, |end, (part, region)| {
            assert_eq!(region.start, end, "{part}");
            region.end
        });
        assert_eq!(end, table.file_bytes());
        assert!(table.region(TablePart::Filter).is_none_or(|filter| filter.start % 64 == 0));
    }
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
fn a_table_without_a_filter_or_read_without_one_answers_the_same() {
    let model = numbered((0..200).map(|key| key * 2));
    let table = open(&model, &small_blocks().without_filter());
    assert!(table.filters().block().is_none());
    assert_eq!(table.verify().unwrap().filter, FilterVerdict::None);
    assert_same(&table, &model);

    let options = TableOptions::default().without_filter();
    let table = Table::open_source(write(&model, &small_blocks()), &options).unwrap();
    assert!(table.filters().block().is_none() && table.filter_problem().is_none());
    assert_same(&table, &model);
}

#[test]
fn a_filter_of_prefixes_is_asked_with_prefixes_and_not_for_keys_outside_its_domain() {
    let mut model = numbered((0..300).map(|key| key * 2));
    // Without the delimiter, a key is outside the extractor's domain.
    model.insert(b"no delimiter".to_vec(), Some(b"outside".to_vec()));
    model.insert(b"zz".to_vec(), None);
    let extractor = Arc::new(DelimitedPrefix::new(b':'));
    let bytes = write(&model, &small_blocks().with_extractor(extractor.clone()));
    let table = Table::open_source(bytes, &TableOptions::default().with_extractor(extractor)).unwrap();
    assert!(table.filter_problem().is_none());
    assert_same(&table, &model);
    assert_eq!(table.verify().unwrap().filter, FilterVerdict::ContainsAll { keys: 300 });

    let probes = table.stats().filters.filter.probes();
    assert_eq!(table.get(b"no such key").unwrap(), Lookup::Absent);
    assert_eq!(table.stats().filters.filter.probes(), probes, "a key outside the domain is no question for the filter");
    assert_eq!(table.get(b"other:1").unwrap(), Lookup::Absent);
    assert_eq!(table.stats().filters.filter.probes(), probes + 1);
}

#[test]
fn a_seed_that_is_no_secret_is_taken_from_the_table() {
    let model = numbered(0..200);
    let table = open(&model, &small_blocks().with_context(BuildContext::new(&KeyHasher::with_seed(42))));
    assert_eq!(table.store().filters().hasher().identity(), KeyHasher::with_seed(42).identity());
    assert_same(&table, &model);
    assert!(table.stats().filters.filter.negatives > 0);
}

#[test]
fn files_read_back_and_replace_what_was_there_only_when_finished() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    for round in 0..2_u8 {
        let mut writer = TableWriter::create(&path, &TableOptions::default()).unwrap();
        writer.add(b"key", &[round]).unwrap();
        let summary = writer.finish().unwrap();
        assert_eq!(summary.path.as_deref(), Some(path.as_path()));
        let set = TableSet::open([(0, &path)], &TableOptions::default()).unwrap();
        assert_eq!(set.get(b"key").unwrap(), Some(Bytes::copy_from_slice(&[round])));
        assert_eq!(summary.file_bytes, std::fs::metadata(&path).unwrap().len());
    }
    let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["1.sst"]);
}

fn any_model() -> impl Strategy<Value = Model> {
    let key = prop_oneof![
        prop::collection::vec(0_u8..3, 0..8),
        prop::collection::vec(any::<u8>(), 0..40),
        "user:[0-9]{1,6}".prop_map(String::into_bytes),
    ];
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..100));
    prop::collection::btree_map(key, value, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::common::cases(128, 128)))]

    #[test]
    fn any_table_answers_like_a_map(model in any_model(), block_bytes in 64_u32..600, interval in 1_u32..20) {
        let options = TableOptions::default().with_block_bytes(block_bytes).unwrap();
        let table = open(&model, &options.with_restart_interval(interval).unwrap());
        assert_same(&table, &model);
    }
}
