//! An engine's own tables get the same filters as tables of the mini SST: the same bytes, answers and number of reads.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{AutoPolicy, FalsePositiveRate, FileId, FilterPolicy, Filters, FixedPolicy, KeyHasher};
use sstfilter_range::RangePolicy;
use sstfilter_store::{BudgetStats, FileStats, FilterBudget, FilterStore, FilterView, PartitionCut, PartitionOptions};
use sstfilter_table::{Table, TableBuilder, TableOptions, TableSet};

use crate::common::is_long;
use crate::engine::{Disk, File, Key, numbered, view_of};

/// Keys are numbers below this.
fn numbers() -> u32 {
    if is_long() { 200_000 } else { 50_000 }
}

/// Settings for writing and reading tables and files.
struct Settings {
    policy: Arc<dyn FilterPolicy>,
    partitions: Option<PartitionOptions>,
    ranges: Option<RangePolicy>,
    budget: Option<u64>,
}

impl Settings {
    fn whole(policy: impl FilterPolicy + 'static) -> Self {
        Self { policy: Arc::new(policy), partitions: None, ranges: None, budget: None }
    }

    fn budget(&self) -> Option<FilterBudget> {
        self.budget.map(FilterBudget::new)
    }

    fn tables(&self, files: &[Vec<Key>]) -> (TableSet, Option<FilterBudget>) {
        let mut write = TableOptions::default().with_policy(self.policy.clone());
        let mut read = TableOptions::default();
        if let Some(partitions) = self.partitions {
            write = write.with_partitioned_filter(partitions);
        }
        if let Some(ranges) = &self.ranges {
            write = write.with_range_filter(ranges.clone());
        }
        let budget = self.budget();
        if let Some(budget) = &budget {
            // That of the writer, too: a store with a budget writes filters that shrink.
            write = write.with_filter_budget(budget.clone());
            read = read.with_filter_budget(budget.clone());
        }
        let open = |(id, keys): (u8, &Vec<Key>)| {
            let options = write.clone().with_table_id([id; 16]);
            let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
            keys.iter().for_each(|key| builder.add(key, b"").unwrap());
            Table::open_source(Bytes::from(builder.finish().unwrap().0), &read).unwrap()
        };
        (crate::set_of((0..).zip(files).map(open).collect()), budget)
    }

    fn files(&self, files: &[Vec<Key>]) -> (FilterView<File>, Option<FilterBudget>) {
        let mut store =
            FilterStore::new(Filters::default().with_hasher(KeyHasher::default())).with_policy(self.policy.clone());
        if let Some(partitions) = self.partitions {
            store = store.with_partitions(partitions);
        }
        if let Some(ranges) = &self.ranges {
            store = store.with_range_filters(ranges.clone());
        }
        let budget = self.budget();
        if let Some(budget) = &budget {
            store = store.with_budget(budget.clone());
        }
        let open = |(id, keys): (u8, &Vec<Key>)| {
            let mut builder = store.builder(FileId::from([id; 16]));
            keys.iter().for_each(|key| builder.add_key(key));
            let (bytes, metadata) = builder.finish().seal();
            let disk = Disk::new(bytes);
            let filters = store.open(metadata, disk.clone());
            Arc::new(File::new(keys.iter().cloned().collect(), disk, filters))
        };
        let files: Vec<_> = (0..).zip(files).map(open).collect();
        // The first is the newest, and later additions are newer, so the order is reversed.
        let view = view_of(&store, &files.iter().rev().map(|file| (0, file)).collect::<Vec<_>>());
        (view, budget)
    }
}

/// The lookups and scans, in the same order for both.
struct Asked {
    keys: Vec<Key>,
    ranges: Vec<[Key; 2]>,
}

fn ask_tables(set: &TableSet, asked: &Asked) -> Vec<FileStats> {
    for key in &asked.keys {
        let _ = set.get(key).unwrap();
    }
    let snapshot = set.snapshot();
    for [from, to] in &asked.ranges {
        snapshot.range(&from[..]..&to[..]).for_each(|entry| drop(entry.unwrap()));
    }
    snapshot.all_tables().map(|table| table.filters().stats()).collect()
}

fn ask_files(view: &FilterView<File>, asked: &Asked) -> Vec<FileStats> {
    for key in &asked.keys {
        let mut candidates = view.candidates(key);
        while let Some(file) = candidates.next_file() {
            if file.has(key) {
                candidates.found();
                break;
            }
        }
    }
    for [from, to] in &asked.ranges {
        let range = &from[..]..&to[..];
        for candidate in view.candidates_in_range(range.clone()) {
            candidate.record(candidate.file.first_in(range.clone().into()).is_some());
        }
    }
    view.files(0).map(|file| file.filters.stats()).collect()
}

#[test]
fn an_engines_own_tables_have_the_same_filter_bytes_rates_and_reads_as_those_of_the_mini_sst() {
    // The files overlap, with a third of all numbers in each.
    let files: Vec<Vec<Key>> =
        (0..8).map(|first| numbered((first..numbers()).step_by(24 + first as usize % 3))).collect();
    let asked = Asked {
        keys: numbered((0..numbers()).step_by(13)),
        ranges: (0..numbers())
            .step_by(1_009)
            .map(|number| [number, number + 3].map(|number| numbered([number]).remove(0)))
            .collect(),
    };
    let one_percent = FalsePositiveRate::ONE_PERCENT;
    let ribbon = || FixedPolicy::ribbon(one_percent).unwrap().with_min_keys(0);
    let cut = |cut| Some(PartitionOptions::new(cut, if is_long() { 4_096 } else { 1_024 }).unwrap());
    // Less than the size of all filters.
    let budget = Some(u64::from(numbers() / 5));
    let all = [
        Settings::whole(AutoPolicy::default()),
        Settings::whole(ribbon()),
        Settings { partitions: cut(PartitionCut::KeyRange), ..Settings::whole(ribbon()) },
        Settings { ranges: Some(RangePolicy::ordered(one_percent).unwrap()), ..Settings::whole(ribbon()) },
        Settings { budget, ..Settings::whole(AutoPolicy::default()) },
        Settings { budget, partitions: cut(PartitionCut::HashRange), ..Settings::whole(ribbon()) },
    ];
    for (number, settings) in all.iter().enumerate() {
        let ((set, table_budget), (view, file_budget)) = (settings.tables(&files), settings.files(&files));
        let snapshot = set.snapshot();
        for (table, file) in snapshot.all_tables().zip(view.files(0)) {
            let [tables, files] = [table.filters(), &file.filters].map(|filters| {
                let metadata = filters.metadata();
                let bytes: Vec<_> = metadata.sections().iter().map(|section| (section.kind, section.bytes)).collect();
                (bytes, filters.block().map(|block| block.as_bytes().to_vec()))
            });
            assert!(tables == files && !tables.0.is_empty(), "settings {number}");
        }
        let [tables, files] = [ask_tables(&set, &asked), ask_files(&view, &asked)];
        assert_eq!(tables, files, "settings {number}");
        let sum = tables.iter().fold(FileStats::default(), |sum, stats| sum.merged(stats));
        assert!(sum.searched > 0 && sum.skipped_by_bounds + sum.filter.negatives > 0, "settings {number}: {sum:?}");
        let [tables, files] = [table_budget, file_budget].map(|budget| budget.as_ref().map(FilterBudget::stats));
        assert_eq!(tables, files, "settings {number}");
        assert!(tables.is_none_or(|BudgetStats { loads, .. }| loads > 0), "settings {number}");
    }
}
