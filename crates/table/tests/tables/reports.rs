//! Figures that tables report. The failure guarded against: one of them is wrong without losing a key. Every lookup is
//! then right, but the dashboard, the log, or the size at which a table is split is wrong.

use std::collections::BTreeMap;

use sstfilter::{BuildContext, FalsePositiveRate, KeyHasher};
use sstfilter_range::RangePolicy;
use sstfilter_store::FilterBudget;
use sstfilter_table::{TableBuilder, TableOptions, TableWriter};

use crate::{bytes_of, key, of_keys, open};

#[test]
fn a_table_says_which_level_it_was_written_for() {
    for level in [None, Some(0), Some(6)] {
        let mut context = BuildContext::new(&KeyHasher::default());
        context.level = level;
        let bytes = bytes_of(&of_keys([b"key"]), &TableOptions::default().with_context(context));
        assert_eq!(open(&bytes, &TableOptions::default()).properties().level, level);
    }
}

#[test]
fn a_file_in_the_making_has_the_counts_and_sizes_of_the_table_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let options = TableOptions::default();
    let mut writer = TableWriter::create(directory.path().join("counted.sst"), &options).unwrap();
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    for number in 0..3_000_u32 {
        assert_eq!((writer.entries(), writer.estimated_bytes()), (builder.entries(), builder.estimated_bytes()));
        writer.add(&key(number), &[7; 90]).unwrap();
        builder.add(&key(number), &[7; 90]).unwrap();
    }
    let path = writer.finish().unwrap().path.unwrap();
    let (written, built) = (std::fs::metadata(path).unwrap().len(), builder.finish().unwrap().0.len() as u64);
    assert!(written == built && written > 250_000, "{written} and {built} bytes");
}

/// An engine exports each figure by its name, or all of them as JSON.
#[test]
fn every_figure_is_visited_once_and_is_in_the_json() {
    let budget = FilterBudget::new(1 << 20);
    let ranges = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap();
    let options = TableOptions::default().with_range_filter(ranges).with_filter_budget(budget.clone());
    let table = open(&bytes_of(&of_keys((0..1_000).map(|number| key(number * 2))), &options), &options);
    (0..2_000).for_each(|number| drop(table.get(&key(number)).unwrap()));
    let _ = table.filters().may_contain_range(&b"key 000001"[..]..&b"key 0000011"[..]);
    let stats = table.filters().stats();
    let mut visited = BTreeMap::new();
    stats.visit(|name, count| assert_eq!(visited.insert(name, count), None, "{name}"));
    assert_eq!(visited.len(), 15);
    let named = |name: &str| visited[name];
    assert_eq!(named("filter_true_positives_total"), 1_000);
    assert_eq!(named("filter_negatives_total"), stats.filter.negatives);
    assert_eq!(named("range_filter_negatives_total") + named("range_filter_positives_total"), 1);
    assert_eq!(named("filter_searched_files_total"), stats.searched);
    assert_eq!((named("filter_overfull_files"), stats.overfull), (0, 0));
    let mut in_budget = BTreeMap::new();
    budget.stats().visit(|name, figure| assert_eq!(in_budget.insert(name, figure), None, "{name}"));
    assert_eq!((in_budget["filter_budget_limit_bytes"], in_budget["filter_budget_loads_total"]), (1 << 20, 2));

    let numbers = |value: &serde_json::Value| -> u64 {
        let fields = value.as_object().unwrap();
        let number = |field: &serde_json::Value| field.as_u64().or_else(|| Some(field.as_object()?.len() as u64));
        fields.values().map(|field| number(field).unwrap()).sum()
    };
    let json = serde_json::to_value(stats).unwrap();
    assert_eq!(json["filter"]["true_positives"], 1_000);
    assert_eq!(
        numbers(&json["filter"]) + numbers(&json["ranges"]),
        visited.values().sum::<u64>() - stats.searched - stats.skipped_by_bounds
    );
    assert_eq!(numbers(&serde_json::to_value(budget.stats()).unwrap()), in_budget.values().sum::<u64>());
}
