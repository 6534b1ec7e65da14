//! Names, counts and options that filters, policies and tables report. The failure guarded against: one of them is
//! wrong without losing a key. Every lookup is then right, but the dashboard, the log, or the size at which a table is
//! split is wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sstfilter::{BlockBuilder, BuildContext, BuildPurpose, FalsePositiveRate, FilterPolicy, KeyHasher};
use sstfilter_range::RangePolicy;
use sstfilter_store::FilterBudget;
use sstfilter_table::{Table, TableBuilder, TableOptions, TableWriter};

/// A policy that records the context from the table's options, and builds no filter.
#[derive(Debug, Default)]
struct Listening(Mutex<Option<BuildContext>>);

impl FilterPolicy for Listening {
    fn name(&self) -> &'static str {
        "listening"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        *self.0.lock().unwrap() = Some(context.clone());
        None
    }
}

#[test]
fn all_that_the_options_say_of_a_table_reaches_its_policy() {
    let policy = Arc::new(Listening::default());
    let hasher = KeyHasher::with_seed(7);
    let options = TableOptions::default()
        .with_context(
            BuildContext::new(&hasher)
                .with_purpose(BuildPurpose::Compaction)
                .with_level(3)
                .at_bottommost_level()
                .with_expected_keys(11)
                .with_memory_budget(1 << 20),
        )
        .with_policy(Arc::clone(&policy) as Arc<dyn FilterPolicy>);
    TableBuilder::new(Vec::new(), &options).unwrap().add(b"key", b"value").unwrap();
    let told = policy.0.lock().unwrap().take().unwrap();
    assert_eq!((told.purpose, told.level, told.bottommost), (BuildPurpose::Compaction, Some(3), true));
    assert_eq!((told.expected_keys, told.memory_budget), (Some(11), Some(1 << 20)));
    assert_eq!(told.hasher.identity(), hasher.identity());
}

fn table(keys: impl IntoIterator<Item = u32>, options: &TableOptions) -> Bytes {
    let mut builder = TableBuilder::new(Vec::new(), options).unwrap();
    keys.into_iter().for_each(|key| builder.add(format!("key{key:06}").as_bytes(), &[7; 20]).unwrap());
    builder.finish().unwrap().0.into()
}

#[test]
fn a_table_says_which_level_it_was_written_for() {
    for level in [None, Some(0), Some(6)] {
        let mut context = BuildContext::new(&KeyHasher::default());
        context.level = level;
        let bytes = table(0..10, &TableOptions::default().with_context(context));
        assert_eq!(Table::open_source(bytes, &TableOptions::default()).unwrap().properties().level, level);
    }
}

#[test]
fn a_file_in_the_making_has_the_counts_and_sizes_of_the_table_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let options = TableOptions::default();
    let mut writer = TableWriter::create(directory.path().join("counted.sst"), &options).unwrap();
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    for key in 0..3_000_u32 {
        assert_eq!((writer.entries(), writer.estimated_bytes()), (builder.entries(), builder.estimated_bytes()));
        writer.add(format!("key{key:06}").as_bytes(), &[7; 90]).unwrap();
        builder.add(format!("key{key:06}").as_bytes(), &[7; 90]).unwrap();
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
    let table = Table::open_source(table((0..1_000).map(|key| key * 2), &options), &options).unwrap();
    (0..2_000).for_each(|key| drop(table.get(format!("key{key:06}").as_bytes()).unwrap()));
    let _ = table.filters().may_contain_range(&b"key000001"[..]..&b"key0000011"[..]);
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
