//! The block cache is a second copy of the data. The failures guarded against: damage that is cached or no longer
//! detected, and a cached block that answers for another table. `roundtrip` compares the answers with and without it.

use bytes::Bytes;
use sstfilter_table::{Lookup, Table, TableError, TableOptions};

use crate::sources::Source;
use crate::{Entries, bytes_of, key, open};

/// A table of the even numbers below 2,000, in blocks of 512 bytes.
fn even_numbers() -> Bytes {
    let entry = |number: u32| (key(number * 2), Some(format!("value {number}").into()));
    bytes_of(&(0..1_000).map(entry).collect(), &TableOptions::default().with_block_bytes(512).unwrap())
}

fn unfiltered() -> TableOptions {
    TableOptions::default().without_filter()
}

fn cached() -> TableOptions {
    unfiltered().with_block_cache(1 << 30)
}

#[test]
fn values_of_kept_blocks_share_their_memory_and_outlive_their_table() {
    let table = open(&even_numbers(), &cached());
    let value = || match table.get(&key(8)).unwrap() {
        Lookup::Found(value) => value,
        other => panic!("{other:?}"),
    };
    let (first, second) = (value(), value());
    assert_eq!(first.as_ptr(), second.as_ptr());
    drop(table);
    assert_eq!(second, "value 4");
}

#[test]
fn damage_is_not_kept_and_is_an_error_of_every_read() {
    let (table, source) = Source::open(&even_numbers(), &cached());
    for byte in [0, 5, 100, 400] {
        source.damage(byte);
        for number in [0, 1, 2, 0, 1, 2] {
            assert!(matches!(table.get(&key(number)), Err(TableError::Checksum { .. })), "byte {byte}");
        }
    }
    // Four bytes and six keys: each lookup reads the damaged block again.
    assert_eq!((table.stats().data_block_reads, table.stats().block_cache_hits), (24, 0));

    source.damage(None);
    for _ in 0..2 {
        assert_eq!(table.get(&key(0)).unwrap(), Lookup::Found("value 0".into()));
    }
    // The sound block is read once more, and then cached.
    assert_eq!((table.stats().data_block_reads, table.stats().block_cache_hits), (25, 1));
    source.damage(5);
    assert_eq!(table.get(&key(0)).unwrap(), Lookup::Found("value 0".into()), "what was read sound stays so");
    // Verifying and walking see the damage behind the cached block.
    assert!(matches!(table.verify(), Err(TableError::Checksum { .. })));
    assert!(matches!(table.iter().next(), Some(Err(TableError::Checksum { .. }))));
}

/// Two tables with one id contain the same block at the same offset, but after other keys. A cached block is searched
/// without the prefix that its bounds in the index share.
#[test]
fn a_block_of_another_table_with_the_same_id_is_no_answer() {
    let table = |second: &[u8]| -> Table {
        let options = unfiltered().with_table_id([7; 16]).with_block_bytes(64).unwrap();
        let long = [b'x'; 40];
        let entries = [(&b"aab0"[..], &long[..]), (second, &long), (b"abc6", b"six"), (b"abc7", b"seven")];
        let entries: Entries = entries.map(|(key, value)| (key.to_vec(), Some(value.to_vec()))).into();
        open(&bytes_of(&entries, &options), &cached())
    };
    let [first, second] = [table(b"abc5"), table(b"aab5")];
    assert_eq!(first.get(b"abc7").unwrap(), Lookup::Found("seven".into()));
    for absent in [&b"aac7"[..], b"aaz7", b"aaz6"] {
        assert_eq!(second.get(absent).unwrap(), Lookup::Absent);
    }
    assert_eq!(second.get(b"abc7").unwrap(), Lookup::Found("seven".into()));
}
