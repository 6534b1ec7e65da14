//! Range scans over many tables, some with range filters. The failures guarded against: a scan skips a table with a key
//! in the range, so that the key is lost, or an older value or a deleted key reappears; a damaged or foreign filter is
//! used; a scan fails because of a filter that it does not need; a scan reads tables that the filter excludes, or that
//! are beyond its end.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use byteorder::{BigEndian, ByteOrder};
use bytes::Bytes;
use proptest::prelude::*;
use sstfilter::{
    BuildContext, DelimitedPrefix, FallbackReason, FalsePositiveRate, FixedPrefix, KeyExtractor, KeyHasher, KeyRange,
};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{PartitionOptions, ViewEdit};
use sstfilter_table::{FilterVerdict, Table, TableError, TableOptions, TablePart, TableSet, TableSnapshot};

use crate::callers::Extractor;
use crate::common::effort;
use crate::engine::AddNewest;
use crate::{Entries, built, bytes_of, of_keys};

fn ordered() -> RangePolicy {
    RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap()
}

/// A policy for ranges of up to 64 in the four bytes after a prefix of four.
fn bounded() -> RangePolicy {
    let units = RangeUnits::integer(4).unwrap().with_prefix(prefix());
    RangePolicy::hashed(units, 64, FalsePositiveRate::ONE_PERCENT).unwrap()
}

fn prefix() -> Arc<dyn KeyExtractor> {
    Arc::new(FixedPrefix::new(4))
}

fn reading() -> TableOptions {
    TableOptions::default().with_range_extractor(prefix())
}

fn options(policy: impl Into<Option<RangePolicy>>) -> TableOptions {
    let options = TableOptions::default().with_block_bytes(128).unwrap();
    match policy.into() {
        Some(policy) => options.with_range_filter(policy),
        None => options,
    }
}

fn open(entries: &Entries, policy: impl Into<Option<RangePolicy>>) -> Table {
    crate::open(&bytes_of(entries, &options(policy)), &reading())
}

fn key(group: u32, number: u32) -> Vec<u8> {
    let mut key = vec![0; 8];
    BigEndian::write_u64(&mut key, u64::from(group) << 32 | u64::from(number));
    key
}

/// Returns every `step`th of `numbers` in each group, from an offset that depends on the group.
fn spread(numbers: std::ops::Range<u32>, step: usize) -> Entries {
    of_keys((0..4).flat_map(|group| numbers.clone().skip(group as usize).step_by(step).map(move |at| key(group, at))))
}

/// Returns the merged contents of all tables, which are newest first.
fn newest(tables: &[Entries]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = Entries::new();
    tables.iter().rev().for_each(|table| all.extend(table.clone()));
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn values(scan: impl Iterator<Item = Result<(Bytes, Bytes), TableError>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    scan.map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn expected(all: &BTreeMap<Vec<u8>, Vec<u8>>, range: KeyRange<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    all.iter().filter(|(key, _)| range.contains(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns ranges between all ends, with all kinds of bounds. The long form tries all of them. Otherwise, with many
/// ends, one in four, which is coprime to the kinds of bounds and the number of ends. The short form, with few ends,
/// tries one in seven.
fn ranges(ends: &[Vec<u8>]) -> impl Iterator<Item = KeyRange<'_>> {
    let pairs = ends.iter().flat_map(move |lower| ends.iter().map(move |upper| (lower, upper)));
    let bounds = |end| [Bound::Included(end), Bound::Excluded(end), Bound::Unbounded];
    let all = pairs.flat_map(move |(lower, upper)| {
        bounds(lower).into_iter().flat_map(move |lower| bounds(upper).map(|upper| KeyRange::from((lower, upper))))
    });
    all.step_by(if ends.len() < 10 { effort::strides(1, 7) } else { effort::sample(4) })
}

/// Returns the positions of the tables that a scan of the range must read.
fn matches_of(set: &TableSnapshot, range: KeyRange<'_>) -> Vec<usize> {
    crate::positions_of(set, set.view().candidates_in_range(range).map(|candidate| candidate.file))
}

/// Compares all ways to read ranges with the contents of the tables.
fn check(set: &TableSnapshot, held: &[Entries], ends: &[Vec<u8>]) {
    let all = newest(held);
    for range in ranges(ends) {
        assert_eq!(values(set.range(range)), expected(&all, range), "{range:?}");
        let matches = matches_of(set, range);
        for (position, (table, entries)) in set.tables(0).zip(held).enumerate() {
            let own: Vec<_> = entries.keys().filter(|key| range.contains(key)).collect();
            let found: Vec<_> = table.range(range).map(|entry| entry.unwrap().key.to_vec()).collect();
            assert!(found.iter().eq(own.iter().copied()), "{range:?}");
            let (may_contain, is_read) = (table.filters().may_contain_range(range), matches.contains(&position));
            assert!(own.is_empty() || may_contain && is_read, "{range:?}");
            // A scan also knows the filter's lower bound of the next key.
            assert!(may_contain || !is_read, "{range:?}");
        }
    }
    for prefix in ends {
        let of_prefix: Vec<_> = all.iter().filter(|(key, _)| key.starts_with(prefix)).collect();
        let found = values(set.scan_prefix(prefix));
        assert!(found.iter().map(|(key, value)| (key, value)).eq(of_prefix.iter().copied()), "{prefix:?}");
        for (table, entries) in set.tables(0).zip(held) {
            let has_it = entries.keys().any(|key| key.starts_with(prefix));
            assert!(table.filters().may_contain_prefix(prefix) || !has_it, "{prefix:?}");
        }
    }
}

/// Returns tables that overlap, overwrite each other and delete each other's keys.
fn overlapping() -> Vec<Entries> {
    let table = |age: u32| -> Entries {
        let keys = (0..3).flat_map(|group| (0..40).map(move |number| (group, number * 7)));
        let kept = keys.filter(|(group, number)| (group * 31 + number * (age + 3)) % 5 < 2);
        kept.map(|(group, number)| {
            let is_deleted = (number + age).is_multiple_of(4);
            (key(group, number), (!is_deleted).then(|| age.to_string().into_bytes()))
        })
        .collect()
    };
    (0..5).map(table).collect()
}

fn ends() -> Vec<Vec<u8>> {
    let near = [0, 7, 8, 13, 70, 98, 273, 300].map(|number| [key(0, number), key(1, number), key(2, number)]);
    let others = [&b""[..], b"\0\0\0\x01", b"\0\0\0\x01\0\0\0\x07\0", b"\0\0\0\x02", b"\xff\xff"];
    near.into_iter().flatten().chain(others.map(<[u8]>::to_vec)).collect()
}

#[test]
fn sets_of_several_levels_scan_ranges_as_lists_do() {
    let held = overlapping();
    let mut edit = ViewEdit::new();
    for entries in held.iter().rev() {
        edit = edit.add_newest(0, Arc::new(open(entries, ordered())));
    }
    let below = of_keys((0..300).map(|number| key(1, number * 3)));
    let mut levels = held.clone();
    levels.push(below.clone());
    for half in below.iter().collect::<Vec<_>>().chunks(10) {
        let part: Entries = half.iter().map(|&(key, value)| (key.clone(), value.clone())).collect();
        edit = edit.add(3, Arc::new(open(&part, bounded())));
    }
    let set = TableSet::new([]).unwrap().apply(edit).unwrap();
    let all = newest(&levels);
    for range in ranges(&ends()) {
        assert_eq!(values(set.range(range)), expected(&all, range), "{range:?}");
        let matching: u64 =
            set.view().candidates_in_range(range).map(|found| found.file.range(range).count() as u64).sum();
        let held: usize = levels.iter().map(|table| table.keys().filter(|key| range.contains(key)).count()).sum();
        assert_eq!(matching, held as u64, "{range:?}");
    }
    for prefix in ends() {
        let with_prefix = all.iter().filter(|(key, _)| key.starts_with(&prefix));
        assert!(values(set.scan_prefix(&prefix)).iter().map(|(key, value)| (key, value)).eq(with_prefix), "{prefix:?}");
    }
}

#[test]
fn a_scan_between_the_keys_of_all_tables_reads_next_to_no_data_block() {
    let reads = |policy: Option<RangePolicy>| {
        let held = |table: u32| of_keys((0..40).map(|group| key(group << 24, 100 + table)));
        let set = crate::set_of((0..20).map(|table| open(&held(table), policy.clone())).collect()).snapshot();
        // Halfway between two groups.
        let from = 5 << 24 | 1 << 23;
        assert_eq!(set.range(&key(from, 100)..&key(from, 160)).count(), 0);
        let stats = set.stats();
        (stats.filters.ranges.negatives, stats.data_block_reads)
    };
    assert_eq!(reads(None), (0, 20));
    for policy in [ordered(), bounded()] {
        let (negatives, data_block_reads) = reads(Some(policy));
        assert!(negatives >= 18 && negatives + data_block_reads == 20, "{negatives} of 20, {data_block_reads} reads");
    }
}

#[test]
fn a_scan_without_an_end_reads_only_the_tables_whose_keys_come_before_it_stops() {
    // All tables have the same first and last key; between them, each has its own range.
    let table = |number: u32| {
        let stretch = (0..200).map(|at| key(10 + number, at * 1_000));
        of_keys(stretch.chain([key(0, 0), key(100, 0)]))
    };
    let reads = |policy: Option<RangePolicy>| {
        let tables = (0..40).rev().map(|number| open(&table(number), policy.clone()));
        let set = crate::set_of(tables.collect()).snapshot();
        let found: Vec<_> = set.range(&key(17, 0)..).take(100).map(|entry| entry.unwrap().0).collect();
        assert!(found.iter().eq(&(0..100).map(|at| Bytes::from(key(17, at * 1_000))).collect::<Vec<_>>()));
        set.tables(0).filter(|table| table.stats().data_block_reads > 0).count()
    };
    // Without a filter's lower bound, every table may have the next key.
    assert_eq!((reads(Some(ordered())), reads(None)), (1, 40));
}

#[test]
fn a_positive_is_recorded_when_the_scan_knows_what_came_of_it_and_not_before() {
    let table = crate::set_of(vec![open(&spread(0..1_000_000, 50_000), ordered())]).snapshot();
    let stats = || table.stats().filters.ranges;
    let outcomes = || (stats().true_positives, stats().false_positives);
    let (from, to) = (key(1, 400_000), key(1, 600_000));
    let mut walk = table.range(&from..&to);
    assert_eq!((stats().positives, outcomes()), (1, (0, 0)));
    walk.next().unwrap().unwrap();
    assert_eq!(outcomes(), (1, 0));
    assert!(walk.count() > 0 && outcomes() == (1, 0), "once");
    // Probed, but dropped before the first entry.
    drop(table.range(&from..&to));
    assert_eq!((stats().positives, outcomes()), (2, (1, 0)), "nothing was read");

    // An ordered filter cannot exclude a range next to a key.
    let beside = (0..20).map(|number| key(1, 1 + number * 50_000)).find(|from| {
        let range = KeyRange::from((Bound::Excluded(from.as_slice()), Bound::Included(from.as_slice())));
        assert_eq!(table.range(range).count(), 0, "empty");
        let upper = [from.as_slice(), b"\x05"].concat();
        let range = KeyRange::from((Bound::Excluded(from.as_slice()), Bound::Excluded(upper.as_slice())));
        let before = stats().positives;
        assert_eq!(table.range(range).count(), 0);
        stats().positives > before
    });
    if beside.is_some() {
        assert_eq!(outcomes(), (1, 1));
    }
    let ends = table.tables(0).next().unwrap().properties();
    assert!(table.range(ends.filters.key_bounds().unwrap().0..).count() > 60);
    assert_eq!(outcomes().0, 1, "not probed where an end of the table is in the range");
}

#[test]
fn a_range_filter_stands_beside_every_filter_and_beside_none_and_the_parts_lie_end_to_end() {
    let held = spread(0..1_000_000, 9_973);
    let keys = held.len() as u64;
    let base = options(ordered());
    let kinds = [
        base.clone(),
        base.clone().without_filter(),
        base.clone().with_partitioned_filter(PartitionOptions::default()),
    ];
    for (number, options) in kinds.into_iter().enumerate() {
        let (bytes, summary) = built(&held, &options);
        let table = crate::open(&bytes, &reading());
        let region = table.region(TablePart::RangeFilter).unwrap();
        assert_eq!((region.start % 64, region.end - region.start), (0, summary.range_filter_bytes));
        assert!(table.range_filter_problem().is_none() && table.filter_problem().is_none());
        assert_eq!(table.properties().filters.sections().len() == 2, number != 1);
        let mut end = 0;
        for (part, region) in table.layout() {
            assert_eq!(region.start, end, "{part}");
            end = region.end;
        }
        assert_eq!(end, bytes.len() as u64);
        let report = table.verify().unwrap();
        assert_eq!(report.range_filter, FilterVerdict::ContainsAll { keys });
        assert_eq!(report.filter == FilterVerdict::None, number == 1);
        assert_eq!(table.properties().filters.range_extractor(), None);
        assert!(table.stats().bytes_read > 0 && held.keys().all(|key| table.may_contain_key(key)));
        // A reader that only does lookups is not affected.
        let plain = crate::open(&bytes, &TableOptions::default().without_filter());
        assert!(plain.filters().range_filter().is_none() && held.keys().all(|key| plain.get(key).is_ok()));
    }
    assert_eq!(open(&held, bounded()).properties().filters.range_extractor(), Some("fixed-prefix:4"));
    let without = open(&held, None);
    assert!(without.filters().range_filter().is_none() && without.properties().range_filter_missing.is_none());
    assert_eq!(without.verify().unwrap().range_filter, FilterVerdict::None);
}

#[test]
fn a_filter_of_another_hash_or_extractor_is_not_used_and_a_strict_reader_refuses_it() {
    let held = spread(0..1_000_000, 9_973);
    let seeded = options(bounded()).with_context(BuildContext::new(&KeyHasher::with_seed(5)));
    let wrong = [
        (options(bounded()), TableOptions::default()),
        (options(bounded()), reading().with_range_extractor(Arc::new(FixedPrefix::new(3)))),
        (options(bounded()), reading().with_range_extractor(Arc::new(DelimitedPrefix::new(0)))),
        (options(bounded()), reading().with_hasher(KeyHasher::with_seed(6))),
        (seeded.clone(), reading().with_hasher(KeyHasher::with_seed(6))),
    ];
    for (number, (write, read)) in wrong.into_iter().enumerate() {
        let bytes = bytes_of(&held, &write);
        let table = crate::open(&bytes, &read);
        assert!(table.range_filter_problem().is_some_and(|problem| problem.is_foreign_filter()), "{number}");
        assert!(table.filters().may_contain_range(&key(1, 100_001)..&key(1, 100_002)));
        assert_eq!(table.stats().filters.ranges.unusable, 1);
        assert_eq!(table.range(..).count(), held.len());
        assert!(matches!(table.verify().unwrap().range_filter, FilterVerdict::NotProbed { .. }));
        assert!(Table::open_source(bytes, &read.reject_foreign_filters()).is_err(), "{number}");
    }
    let table = crate::open(&bytes_of(&held, &seeded), &reading().reject_foreign_filters());
    assert!(table.range_filter_problem().is_none());
    // Ordered codes use neither hash nor extractor.
    let other_hash = TableOptions::default().with_hasher(KeyHasher::with_seed(6));
    let table = crate::open(&bytes_of(&held, &options(ordered())), &other_hash);
    assert!(table.range_filter_problem().is_none() && table.filter_problem().is_some());
}

#[test]
fn a_table_without_the_range_filter_it_was_to_have_says_why() {
    // It breaks its promise: a longer key has another part.
    let unstable = Extractor::of_prefixes("unstable", |key| key.get(..key.len() / 2));
    let units = RangeUnits::integer(4).unwrap().with_prefix(unstable);
    let policy = RangePolicy::hashed(units, 64, FalsePositiveRate::ONE_PERCENT).unwrap();
    let held = spread(0..1_000, 7);
    let (bytes, summary) = built(&held, &options(Some(policy)));
    let report = summary.range_filter.unwrap();
    assert_eq!((report.reason, report.used, summary.range_filter_bytes), (FallbackReason::UnstableExtractor, None, 0));
    let table = crate::open(&bytes, &reading());
    assert_eq!(table.properties().range_filter_missing.as_deref(), Some("unstable key extractor"));
    assert!(table.filters().range_filter().is_none() && table.region(TablePart::RangeFilter).is_none());
    assert_eq!(table.range(..).count(), held.len());
    assert_eq!(table.verify().unwrap().range_filter, FilterVerdict::None);
}

fn any_entries() -> impl Strategy<Value = Entries> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(0x7f), Just(0xff)];
    let free = proptest::collection::vec(byte, 0..7);
    let fixed = (0..3_u32, 0..200_u32).prop_map(|(group, number)| key(group, number));
    let value = proptest::option::weighted(0.8, proptest::collection::vec(any::<u8>(), 0..3));
    proptest::collection::btree_map(prop_oneof![free, fixed], value, 0..60)
}

fn any_end() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(0x7f), Just(0xff)];
    let fixed = (0..3_u32, 0..200_u32).prop_map(|(group, number)| key(group, number));
    prop_oneof![proptest::collection::vec(byte, 0..7), fixed]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::common::cases(128, 128)))]

    // promise: range-filters
    #[test]
    fn no_key_of_any_tables_is_lost_to_a_scan_of_any_range(
        tables in proptest::collection::vec((any_entries(), 0..3_u8), 1..5),
        ends in proptest::collection::vec(any_end(), 2..6),
    ) {
        let policy = |number| match number { 0 => None, 1 => Some(ordered()), _ => Some(bounded()) };
        let opened = tables.iter().map(|(entries, number)| open(entries, policy(*number))).collect();
        let held: Vec<_> = tables.into_iter().map(|(entries, _)| entries).collect();
        check(&crate::set_of(opened).snapshot(), &held, &ends);
    }
}
