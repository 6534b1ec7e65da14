//! Prefix scans over many tables. The failures guarded against: a deleted key reappears, because the table with its
//! tombstone was skipped or read too late; an older value is returned, because two tables contain the key; a failing
//! table is skipped, and older entries appear; a scan of ten entries reads a block of every table.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use sstfilter::RandomAccess;
use sstfilter::{DelimitedPrefix, KeyParts};
use sstfilter_table::{Table, TableBuilder, TableError, TableOptions, TableSnapshot};

fn parts() -> KeyParts {
    KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b':')))
}

/// Builds a table of keys and values; an empty value is a tombstone.
fn bytes_of(entries: &[(&str, &str)]) -> Bytes {
    let options = TableOptions::default().with_key_parts(parts()).with_block_bytes(64).unwrap();
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    for (key, value) in entries {
        match *value {
            "" => builder.delete(key.as_bytes()).unwrap(),
            value => builder.add(key.as_bytes(), value.as_bytes()).unwrap(),
        }
    }
    Bytes::from(builder.finish().unwrap().0)
}

fn open(source: impl RandomAccess + 'static) -> Table {
    Table::open_source(source, &TableOptions::default().with_key_parts(parts())).unwrap()
}

fn texts(scan: impl Iterator<Item = Result<(Bytes, Bytes), TableError>>) -> Vec<(String, String)> {
    let text = |bytes: Bytes| String::from_utf8(bytes.into()).unwrap();
    scan.map(Result::unwrap).map(|(key, value)| (text(key), text(value))).collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

#[test]
fn the_newest_entry_of_each_key_counts_and_a_tombstone_hides_the_key() {
    let newest = [("a:1", "new"), ("a:3", ""), ("b:1", "")];
    let middle = [("a:2", "two"), ("a:3", "three"), ("a:4", "")];
    let oldest = [("a:1", "old"), ("a:3", "older"), ("a:4", "four"), ("a:5", "five"), ("b:1", "one"), ("c", "see")];
    let tables = [&newest[..], &middle, &oldest].map(|entries| open(bytes_of(entries)));
    let set = crate::set_of(tables.into()).snapshot();
    assert_eq!(texts(set.scan_prefix(b"a:")), pairs([("a:1", "new"), ("a:2", "two"), ("a:5", "five")]));
    assert_eq!(texts(set.scan_prefix(b"b:")), []);
    assert_eq!(texts(set.scan_prefix(b"")).len(), 4, "every key begins with nothing");
    assert_eq!(texts(set.scan_prefix(b"c")), pairs([("c", "see")]));
    assert_eq!(texts(set.scan_prefix(b"d:")), []);
}

/// Returns tables of one tenant each, with 40 users.
fn tenants(tenants: std::ops::Range<u32>) -> Vec<Table> {
    let table = |tenant: u32| {
        let keys: Vec<String> = (0..40).map(|user| format!("t{tenant:03}:{user:02}")).collect();
        let mut entries: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "value")).collect();
        // All ranges overlap.
        entries.insert(0, ("a:", "first"));
        entries.push(("z:", "last"));
        open(bytes_of(&entries))
    };
    tenants.map(table).collect()
}

fn data_block_reads(set: &TableSnapshot) -> u64 {
    set.stats().data_block_reads
}

#[test]
fn tables_without_the_prefix_are_not_read() {
    let set = crate::set_of(tenants(0..70)).snapshot();
    assert_eq!(texts(set.scan_prefix(b"t033:")).len(), 40);
    let touched = set.all_tables().filter(|table| table.stats().data_block_reads > 0).count();
    assert!(touched <= 4, "{touched} tables were read for the prefix of one");
}

#[test]
fn a_scan_that_stops_early_reads_no_table_that_begins_later() {
    let tables = (0..50).map(|number| format!("t{number:02}")).map(|key| open(bytes_of(&[(&key, "value")])));
    let set = crate::set_of(tables.collect()).snapshot();
    assert_eq!(set.scan_prefix(b"t").take(3).map(Result::unwrap).count(), 3);
    // The next key is known only after its table is read; lower bounds are known for all tables.
    assert!(data_block_reads(&set) <= 4, "{} blocks for three entries", data_block_reads(&set));
    assert_eq!(set.scan_prefix(b"t").count(), 50);
}

/// A table in memory of which one read fails or panics, after a number of successful ones.
#[derive(Debug)]
struct Faulty {
    bytes: Bytes,
    left: Arc<AtomicU32>,
    panics: bool,
}

impl RandomAccess for Faulty {
    fn len(&self) -> io::Result<u64> {
        RandomAccess::len(&self.bytes)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.left.fetch_sub(1, Relaxed) == 0 {
            // Only one fault.
            self.left.store(u32::MAX / 2, Relaxed);
            assert!(!self.panics, "the caller's code panics, as planned");
            return Err(io::Error::other("as planned"));
        }
        self.bytes.read_exact_at(buf, offset)
    }
}

/// Returns two tables of the same keys, the newer of which fails in one read after `reads` others, and the expected
/// entries.
fn faulty_set(reads: u32, panics: bool) -> (Arc<TableSnapshot>, BTreeMap<String, String>) {
    let keys: Vec<String> = (0..30).map(|number| format!("a:{number:02}")).collect();
    let newer: Vec<(&str, &str)> =
        keys.iter().enumerate().map(|(at, key)| (key.as_str(), if at % 3 == 0 { "" } else { "new" })).collect();
    let older: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "old")).collect();
    let left = Arc::new(AtomicU32::new(u32::MAX / 2));
    let newer_table = open(Faulty { bytes: bytes_of(&newer), left: left.clone(), panics });
    left.store(reads, Relaxed);
    let expected = newer.into_iter().filter(|(_, value)| !value.is_empty());
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    (crate::set_of(vec![newer_table, open(bytes_of(&older))]).snapshot(), expected)
}

// promise: limited-memory
#[test]
fn a_scan_ends_at_its_first_error_and_gives_nothing_older_instead() {
    for reads in 0..6 {
        let (set, expected) = faulty_set(reads, false);
        let mut scan = set.scan_prefix(b"a:");
        let given: Vec<_> = scan.by_ref().take_while(Result::is_ok).map(Result::unwrap).collect();
        assert!(given.len() < expected.len(), "no read failed");
        assert!(given.iter().all(|(_, value)| value == "new"), "after {reads} reads");
        assert!(scan.next().is_none() && scan.next().is_none());
        let again: Result<Vec<_>, TableError> = set.scan_prefix(b"a:").collect();
        assert_eq!(again.unwrap().len(), expected.len(), "another scan reads again");
    }
}

#[test]
fn a_scan_goes_on_after_a_panic_of_a_source_and_skips_nothing() {
    for reads in 0..6 {
        let (set, expected) = faulty_set(reads, true);
        let mut scan = set.scan_prefix(b"a:");
        let (mut given, mut panics) = (BTreeMap::new(), 0);
        loop {
            match catch_unwind(AssertUnwindSafe(|| scan.next())) {
                Err(_) => panics += 1,
                Ok(None) => break,
                Ok(Some(entry)) => {
                    let (key, value) = entry.unwrap();
                    let text = |bytes: Bytes| String::from_utf8(bytes.into()).unwrap();
                    assert!(given.insert(text(key), text(value)).is_none());
                }
            }
        }
        assert_eq!((panics, given), (1, expected), "after {reads} reads");
    }
}
