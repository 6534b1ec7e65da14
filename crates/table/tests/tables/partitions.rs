//! Filters in partitions, and filters under a budget. The failures guarded against: a partition is read for keys of
//! another one and hides them; opening reads filters that a budget should leave on disk; a probe of one key reads the
//! whole filter; a table without memory for its filter loses its keys. `matrix` covers damage to partitions.

use std::ops::Range;
use std::sync::Arc;

use sstfilter::{BitsPerKey, FixedPolicy, FixedPrefix, KeyParts};
use sstfilter_store::{FilterBudget, PartitionCut, PartitionOptions};
use sstfilter_table::{FilterVerdict, Lookup, TableBuilder, TableOptions, TablePart};

use crate::container::CUTS;
use crate::sources::Source;
use crate::{Entries, assert_holds, bytes_of, open};

/// Entries of a table: the even numbers.
const ENTRIES: u32 = 20_000;

fn key(number: u32) -> Vec<u8> {
    format!("{:04}:key {number:08}", number / 100).into_bytes()
}

fn entries() -> Entries {
    (0..ENTRIES).map(|number| (key(number * 2), Some(number.to_le_bytes().into()))).collect()
}

fn options(cut: PartitionCut) -> TableOptions {
    TableOptions::default().with_table_id([7; 16]).with_partitioned_filter(PartitionOptions::new(cut, 2_048).unwrap())
}

#[test]
fn what_goes_into_a_table_with_partitions_comes_out_whatever_the_cut_the_kind_and_the_parts() {
    let ribbon = FixedPolicy::ribbon(BitsPerKey::new(10.0).unwrap()).unwrap().with_min_keys(0);
    let (whole, parts) = (KeyParts::whole_keys(), KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4))));
    for cut in CUTS {
        for (what, write, parts) in [
            ("bloom", options(cut), &whole),
            ("ribbon", options(cut).with_policy(Arc::new(ribbon.clone())), &whole),
            ("parts", options(cut).with_key_parts(parts.clone()), &parts),
        ] {
            let table = open(&bytes_of(&entries(), &write), &TableOptions::default().with_key_parts(parts.clone()));
            assert!(table.filter_problem().is_none() && table.filters().block().is_none());
            // 20,000 keys at 10 bits take 25 KB, and a partition at most 2 KiB.
            assert!(table.filters().residency().partitions >= 11, "{what}");
            assert_holds(&table, &entries(), what);
            let stats = table.stats().filters.filter;
            assert_eq!((stats.true_positives, stats.not_loaded, stats.unusable), (u64::from(ENTRIES), 0, 0));
            // About 1 % of 20,000 absent keys.
            assert!((1..400).contains(&stats.false_positives), "{what}: {stats:?}");
            assert_eq!(table.verify().unwrap().filter, FilterVerdict::ContainsAll { keys: ENTRIES.into() });
        }
    }
}

#[test]
fn prefixes_are_found_in_whichever_partitions_their_keys_are_under_any_budget() {
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(2)));
    for (cut, limit) in CUTS.into_iter().flat_map(|cut| [0, 3_000, u64::MAX].map(|limit| (cut, limit))) {
        let bytes = bytes_of(&entries(), &options(cut).with_key_parts(parts.clone()));
        let read = TableOptions::default().with_filter_budget(FilterBudget::new(limit));
        let table = open(&bytes, &read.with_key_parts(parts.clone()));
        let may_contain = |prefix: &[u8]| table.filters().may_contain_prefix(prefix);
        for key in (0..ENTRIES).step_by(50).map(|number| key(number * 2)) {
            assert!((2..key.len()).all(|length| may_contain(&key[..length])), "{cut:?}, {}", key.escape_ascii());
        }
        let absent = (b'0'..=b'3').flat_map(|first| (b'a'..=b'z').map(move |second| [first, second]));
        let positives = absent.filter(|prefix| may_contain(prefix)).count();
        assert!(positives < 20 || limit < u64::MAX, "{positives} of 104");
    }
}

// promise: limited-memory
#[test]
fn a_cold_absent_probe_reads_one_partition_and_nothing_else() {
    for cut in CUTS {
        let bytes = bytes_of(&entries(), &options(cut));
        for read in [TableOptions::default(), TableOptions::default().with_filter_budget(FilterBudget::unlimited())] {
            // Found with a separate table, because probes load partitions.
            let absent: Vec<Vec<u8>> = {
                let table = open(&bytes, &read);
                (0..ENTRIES).map(|number| key(number * 2 + 1)).filter(|key| !table.may_contain_key(key)).collect()
            };
            for key in absent.iter().step_by(1_999) {
                let (table, source) = Source::open(&bytes, &read);
                assert_eq!(source.reads(), 4, "footer, metaindex, properties, top index");
                assert_eq!(table.get(key).unwrap(), Lookup::Absent);
                assert_eq!(source.reads(), 5, "{cut:?}");
                assert!(source.last_bytes() <= 2_048, "{cut:?}");
                assert_eq!(table.get(key).unwrap(), Lookup::Absent);
                assert_eq!(source.reads(), 5, "the partition has stayed");
                assert_eq!(table.stats().filters.filter.negatives, 2);
            }
        }
    }
}

#[test]
fn under_a_budget_opening_reads_nothing_of_a_whole_filter() {
    let budget = FilterBudget::unlimited();
    let bytes = bytes_of(&entries(), &TableOptions::default());
    let (table, source) = Source::open(&bytes, &TableOptions::default().with_filter_budget(budget.clone()));
    assert_eq!(source.reads(), 3, "footer, metaindex, properties");
    assert_eq!(table.filters().residency().bytes, 0);
    assert!(!table.may_contain_key(&key(1)));
    assert_eq!(source.reads(), 4);
    assert_eq!(budget.stats().used_bytes, table.filters().residency().whole_bytes);
    assert_holds(&table, &entries(), "whole filter under a budget");
    drop(table);
    assert_eq!(budget.stats().used_bytes, 0);
}

#[test]
fn the_layout_and_the_summary_count_every_byte_of_the_filter() {
    for cut in CUTS {
        let mut builder = TableBuilder::new(Vec::new(), &options(cut)).unwrap();
        for number in 0..ENTRIES {
            let estimate = builder.estimated_bytes();
            assert!(estimate < 4 << 20);
            builder.add(&key(number * 2), b"value").unwrap();
        }
        let estimate = builder.estimated_bytes();
        let (bytes, summary) = builder.finish().unwrap();
        let table = open(&bytes.into(), &TableOptions::default());
        let region = |part| table.region(part).unwrap();
        let (filter, index) = (region(TablePart::Filter), region(TablePart::FilterIndex));
        let bytes = |region: &Range<u64>| region.end - region.start;
        assert_eq!(filter.start % 64, 0);
        assert_eq!(filter.end, index.start);
        assert_eq!(summary.filter_bytes, bytes(&filter) + bytes(&index));
        assert_eq!(table.layout().iter().map(|(_, region)| bytes(region)).sum::<u64>(), summary.file_bytes);
        let report = summary.filter.unwrap();
        assert_eq!(report.block_bytes, summary.filter_bytes);
        assert_eq!(report.distinct_keys, u64::from(ENTRIES));
        assert!(bytes(&index) * 25 < bytes(&filter), "{index:?} of {filter:?}");
        let off = estimate.abs_diff(summary.file_bytes);
        assert!(off * 50 < summary.file_bytes, "estimated {estimate}, has {}", summary.file_bytes);
    }
}
