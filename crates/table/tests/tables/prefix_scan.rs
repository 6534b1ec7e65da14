//! Prefix scans over many tables. The failures guarded against: a failing table is skipped, so that older values or
//! deleted keys appear; a scan of ten entries reads a block of every table. `key_parts` compares scans with a map.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{DelimitedPrefix, KeyParts};
use sstfilter_table::{Table, TableError, TableOptions, TableSnapshot};

use crate::sources::{Fault, Source};
use crate::{Entries, of_keys};

/// For writers and readers.
fn options() -> TableOptions {
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b':')));
    TableOptions::default().with_key_parts(parts).with_block_bytes(64).unwrap()
}

fn bytes_of(entries: &Entries) -> Bytes {
    crate::bytes_of(entries, &options())
}

fn open(entries: &Entries) -> Table {
    crate::open(&bytes_of(entries), &options())
}

#[test]
fn tables_without_the_prefix_are_not_read() {
    let table = |tenant: u32| {
        let users = (0..40).map(|user| format!("t{tenant:03}:{user:02}"));
        // All ranges overlap.
        open(&of_keys(users.chain(["a:".to_owned(), "z:".to_owned()])))
    };
    let set = crate::set_of((0..70).map(table).collect()).snapshot();
    assert_eq!(set.scan_prefix(b"t033:").map(Result::unwrap).count(), 40);
    let touched = set.all_tables().filter(|table| table.stats().data_block_reads > 0).count();
    assert!(touched <= 4, "{touched} tables were read for the prefix of one");
}

#[test]
fn a_scan_that_stops_early_reads_no_table_that_begins_later() {
    let tables = (0..50).map(|number| open(&of_keys([format!("t{number:02}")])));
    let set = crate::set_of(tables.collect()).snapshot();
    assert_eq!(set.scan_prefix(b"t").take(3).map(Result::unwrap).count(), 3);
    // The next key is known only after its table is read; lower bounds are known for all tables.
    let reads = set.stats().data_block_reads;
    assert!(reads <= 4, "{reads} blocks for three entries");
    assert_eq!(set.scan_prefix(b"t").count(), 50);
}

/// Returns two tables of the same keys, the newer of which fails in one read after `reads` others, and its entries. An
/// entry in three is a tombstone.
fn faulty_set(reads: u64, fault: Fault) -> (Arc<TableSnapshot>, BTreeMap<Bytes, Bytes>) {
    let older = of_keys((0..30).map(|number| format!("a:{number:02}")));
    let value = |at: usize| (!at.is_multiple_of(3)).then(|| b"new".to_vec());
    let newer: Entries = older.keys().enumerate().map(|(at, key)| (key.clone(), value(at))).collect();
    let source = Source::with_fault(bytes_of(&newer), fault);
    let table = Table::open_source(source.clone(), &options()).unwrap();
    source.plan_after(reads);
    let expected = newer.into_iter().filter_map(|(key, value)| Some((key.into(), value?.into())));
    (crate::set_of(vec![table, open(&older)]).snapshot(), expected.collect())
}

// promise: limited-memory
#[test]
fn a_scan_ends_at_its_first_error_and_gives_nothing_older_instead() {
    for reads in 0..6 {
        let (set, expected) = faulty_set(reads, Fault::Error);
        let mut scan = set.scan_prefix(b"a:");
        let given: Vec<_> = scan.by_ref().take_while(Result::is_ok).map(Result::unwrap).collect();
        assert!(given.len() < expected.len(), "no read failed");
        assert!(given.iter().all(|(_, value)| value == "new"), "after {reads} reads");
        assert!(scan.next().is_none() && scan.next().is_none());
        let again: Result<BTreeMap<_, _>, TableError> = set.scan_prefix(b"a:").collect();
        assert_eq!(again.unwrap(), expected, "another scan reads again");
    }
}

#[test]
fn a_scan_goes_on_after_a_panic_of_a_source_and_skips_nothing() {
    for reads in 0..6 {
        let (set, expected) = faulty_set(reads, Fault::Panic);
        let mut scan = set.scan_prefix(b"a:");
        let (mut given, mut panics) = (BTreeMap::new(), 0);
        loop {
            match catch_unwind(AssertUnwindSafe(|| scan.next())) {
                Err(_) => panics += 1,
                Ok(None) => break,
                Ok(Some(entry)) => {
                    let (key, value) = entry.unwrap();
                    assert!(given.insert(key, value).is_none());
                }
            }
        }
        assert_eq!((panics, given), (1, expected), "after {reads} reads");
    }
}
