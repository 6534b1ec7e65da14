//! The failure guarded against: a store grows to 100,000 tables, and the memory of each open table (names, properties,
//! an unread index, counters) takes more than the filters that should fit a budget. Here the allocator itself counts.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::RandomAccess;
use sstfilter_store::{FilterBudget, PartitionOptions};
use sstfilter_table::{FileSystem, Lookup, Table, TableBuilder, TableOptions, TableSet, WritableFile};

use crate::allocator::{alone, held, measure};
use crate::common;

/// A tenth of the tables if time is short: the memory of each does not depend on their number.
fn table_count() -> usize {
    100_000 / common::effort::sample(10)
}

/// Every name is one of the same few tables, written with different settings, so that their bytes count only once.
#[derive(Debug)]
struct EveryName(Vec<Bytes>);

impl FileSystem for EveryName {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
        if path.extension().is_none_or(|extension| extension != "sst") {
            return Err(io::ErrorKind::NotFound.into());
        }
        let number: usize = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).unwrap();
        Ok(Box::new(self.0[number % self.0.len()].clone()))
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn WritableFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("customer {number:07}").into_bytes()
}

/// Returns a table of the even numbers below 200.
fn table(options: &TableOptions) -> Bytes {
    let mut builder = TableBuilder::new(Vec::new(), options).unwrap();
    (0..200).step_by(2).for_each(|number| builder.add(&key(number), b"value").unwrap());
    builder.finish().unwrap().0.into()
}

/// Opens all tables, looks up an absent key in each, and returns the bytes that each keeps.
fn bytes_each(write: &TableOptions, read: &TableOptions, absent: &[u8]) -> usize {
    // As if from several levels, before and after a change of options.
    let tables = (12..16).map(|interval| table(&write.clone().with_restart_interval(interval).unwrap())).collect();
    let options = read.clone().with_file_system(Arc::new(EveryName(tables)));
    let open = |number| Table::open(format!("/var/lib/store/data/{number:06}.sst"), &options).unwrap();
    drop(open(0).get(absent));
    let before = held();
    let opened: Vec<Table> = (0..table_count()).map(open).collect();
    for table in &opened {
        assert_eq!(table.get(absent).unwrap(), Lookup::Absent);
    }
    (held() - before) / opened.len()
}

// promise: limited-memory
#[test]
fn a_hundred_thousand_open_tables_take_a_kibibyte_and_a_half_each_beyond_their_filters() {
    let _alone = alone();
    let (write, read) = (TableOptions::default(), TableOptions::default());
    let sample = Table::open_source(table(&write), &read).unwrap();
    let absent = (1..200).step_by(2).map(key).find(|key| !sample.may_contain_key(key)).unwrap();
    let bare = bytes_each(&write.clone().without_filter(), &read, b"out of range");
    let filtered = bytes_each(&write, &read, &absent);
    let budget = FilterBudget::new(1_000);
    let budgeted = bytes_each(&write, &read.clone().with_filter_budget(budget.clone()), b"out of range");
    let partitioned = write.with_partitioned_filter(PartitionOptions::default());
    let in_partitions = bytes_each(&partitioned, &read.clone().with_filter_budget(budget), b"out of range");
    let block_bytes = sample.filters().block().unwrap().info().block_bytes;
    println!("{bare} bytes each without a filter, {filtered} with one of {block_bytes} bytes");
    println!(
        "{budgeted} bytes each with a filter that a budget has not loaded, {in_partitions} with one of one partition"
    );
    assert!(bare <= 1_280 && budgeted <= 1_536, "{bare} and {budgeted} bytes each");
    // With a top index of one entry.
    assert!(in_partitions <= 1_600, "{in_partitions} bytes each");
    // The block with its padding, and the loaded filter with counters of two threads.
    assert!(filtered as u64 <= bare as u64 + block_bytes + 1_024, "{filtered} bytes each");
}

#[test]
fn a_scan_holds_blocks_of_the_tables_it_is_in_and_not_of_those_it_has_passed() {
    const VALUE_BYTES: usize = 256 << 10;
    let _alone = alone();
    let table = |number| {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap();
        builder.add(&key(number), &vec![7; VALUE_BYTES]).unwrap();
        Table::open_source(Bytes::from(builder.finish().unwrap().0), &TableOptions::default()).unwrap()
    };
    let snapshot = TableSet::new((0..40).map(|number: u32| (number.into(), table(number)))).unwrap().snapshot();
    let (entries, peak) = measure(|| snapshot.range(..).flatten().count());
    assert_eq!(entries, 40);
    assert!(peak < 4 * VALUE_BYTES, "{peak} bytes for a scan of values of {VALUE_BYTES}");
}
