//! Error messages of tables. The failure guarded against: a message without the file, the part, or what was expected
//! and found there.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::FixedPrefix;
use sstfilter_table::{Table, TableBuilder, TableError, TableOptions, TablePart};

/// Asserts that a message states what was expected, and contains all `parts`.
fn assert_says(error: impl Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts.iter().chain(&["expected", "got"]) {
        assert!(text.contains(part), "no {part:?} in {text:?}");
    }
    assert!(!text.ends_with('.') && text.len() < 400, "{text}");
}

#[test]
fn refused_tables_say_where_and_what() {
    assert_says(TableOptions::default().with_block_bytes(1).unwrap_err(), &["block bytes", "64 to 16777216", "1"]);
    assert_says(TableOptions::default().with_restart_interval(0).unwrap_err(), &["restart interval", "0"]);
    let options = TableOptions::default().with_extractor(Arc::new(FixedPrefix::new(2)));
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    builder.add(b"bb", b"1").unwrap();
    assert_says(builder.add(b"aa", b"2").unwrap_err(), &["ascend", "\"bb\"", "\"aa\""]);
    let bytes = builder.finish().unwrap().0;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("000042.sst");
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Table::open(&path, &TableOptions::default())
    };
    let table = open(&bytes).unwrap();
    assert_says(table.filter_problem().unwrap(), &["extractor", "expected one of whole keys", "got 'fixed-prefix:2'"]);
    assert!(table.filter_problem().unwrap().is_foreign_filter());
    let flipped = |at: u64| {
        let mut damaged = bytes.clone();
        damaged[usize::try_from(at).unwrap()] ^= 1;
        damaged
    };
    let properties = table.region(TablePart::Properties).unwrap().start;
    for (bytes, parts) in [
        (&bytes[..40], &["000042.sst", "cut short", "64", "40"][..]),
        (&[0; 100], &["000042.sst", "not a table", "SSTFLTR"]),
        (&[&[0], &bytes[..]].concat(), &["000042.sst", "file length"]),
        (&flipped(properties), &["000042.sst", "properties at offset", "checksum"]),
    ] {
        assert_says(open(bytes).unwrap_err(), parts);
    }
    let damaged = open(&flipped(3)).unwrap().get(b"bb").unwrap_err();
    assert_says(damaged, &["data at offset 0", "000042.sst", "checksum of the", "expected 0x", "got 0x"]);
    let missing = Table::open("no such table", &TableOptions::default()).unwrap_err();
    assert!(missing.to_string().starts_with("opening no such table: ") && missing.source().is_some(), "{missing}");
    assert!(matches!(missing, TableError::Io { path: Some(_), .. }));
    let unnamed = Table::open_source(Bytes::from_static(&[7; 100]), &TableOptions::default());
    assert!(matches!(unnamed, Err(TableError::NotATable { .. })));
}
