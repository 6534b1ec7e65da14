//! Each database numbers its files from 1. A map of files once took the file's name for its id: a database that was made
//! again in the same place lost its keys.

use std::collections::HashMap;
use std::fs;

use bytes::Bytes;
use sstfilter_interop::{Error, ForeignTable, Part};

use crate::fixtures;
use crate::hostile::leveldb_table;

fn fingerprint(bytes: impl Into<Bytes>) -> Result<u64, Error> {
    ForeignTable::open(bytes.into())?.fingerprint()
}

// promise: file-maps
#[test]
fn no_two_tables_of_different_entries_have_one_fingerprint() {
    let mut found: HashMap<u64, Vec<u8>> = HashMap::new();
    for engine in ["rocksdb", "leveldb", "pebble"] {
        for entry in fs::read_dir(format!("fixtures/{engine}")).expect("a table") {
            let bytes = fs::read(entry.expect("a table").path()).expect("a table");
            let Ok(table) = ForeignTable::open(Bytes::from(bytes.clone())) else { continue };
            let fingerprint = match table.fingerprint() {
                Err(Error::Unsupported { .. }) if engine == "pebble" => continue,
                found => found.expect("a fingerprint"),
            };
            assert_eq!(table.fingerprint(), Ok(fingerprint));
            if let Some(other) = found.insert(fingerprint, bytes.clone()) {
                // LevelDB and goleveldb wrote the same entries, and different filters.
                let keys = |bytes: Vec<u8>| -> Result<Vec<_>, Error> {
                    ForeignTable::open(Bytes::from(bytes))?.user_keys().collect()
                };
                assert_eq!(keys(other), keys(bytes), "{engine}: {fingerprint:#018x}");
            }
        }
    }
    assert!(found.len() > 230, "{} fingerprints", found.len());
}

/// An index shortens its keys, so that small tables of different keys have equal ones.
#[test]
fn tables_of_equal_layout_differ_in_any_of_their_blocks() {
    let suffix = [1, 0, 0, 0, 0, 0, 0, 0];
    let table = |changed: u32| {
        let key = |i: u32| format!("{i:03}{}", if i == changed { 'b' } else { 'a' });
        let keys: Vec<Vec<u8>> = (0..100).map(|i| [key(i).as_bytes(), &suffix].concat()).collect();
        fingerprint(leveldb_table(&keys)).expect("a table")
    };
    // The last key of a block is in the index; the others are in the block and in the filter alone.
    let mut all: Vec<_> = (0..101).map(table).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 101);
}

/// A table of one block would otherwise rest on its 32 bits.
#[test]
fn tables_whose_only_blocks_have_one_checksum_differ() {
    let suffix = [1, 0, 0, 0, 0, 0, 0, 0];
    let table = |key: &[u8]| leveldb_table(&[[key, &suffix].concat(), [&[0xff], &suffix[..]].concat()]);
    let (one, mut other) = (*b"aaaaa", *b"aaaaa");
    // A multiple of the polynomial of CRC32C, whose highest power is the lowest bit of the first byte.
    for bit in (0..33).filter(|bit| 0x1_1edc_6f41_u64 >> (32 - bit) & 1 == 1) {
        other[bit / 8] ^= 1 << (bit % 8);
    }
    let data_bytes = 40;
    let [one, other] = [one, other].map(|key| table(&key));
    assert!(one[..data_bytes] != other[..data_bytes]);
    assert_eq!(data_checksum(&one), data_checksum(&other), "the blocks have one checksum");
    assert_ne!(fingerprint(one), fingerprint(other));
}

/// The checksum of the first block.
fn data_checksum(table: &Bytes) -> Vec<u8> {
    let report = ForeignTable::open(table.clone()).expect("a table").verify();
    assert!(report.is_sound(), "{report:?}");
    let end = usize::try_from(report.blocks.iter().find(|block| block.offset == 0).expect("a block").bytes);
    let end = end.expect("small");
    table[end - 4..end].to_vec()
}

#[test]
fn a_table_whose_properties_or_index_are_damaged_has_no_fingerprint() {
    let fixture = fixtures::named("leveldb/lengths.ldb");
    let report = fixture.open().verify();
    let index = report.blocks.iter().find(|block| block.part == Part::Index).expect("an index").offset;
    let mut damaged = fixture.bytes().to_vec();
    damaged[usize::try_from(index).expect("small")] ^= 1;
    assert!(matches!(fingerprint(damaged), Err(Error::Checksum { .. })));
}
