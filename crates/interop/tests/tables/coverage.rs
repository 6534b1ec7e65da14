//! A verdict that does not say what it left out is taken for one of the whole table. Damage in the rest stays unnoticed
//! until the engine meets it.

use bytes::Bytes;
use sstfilter_interop::{BlockState, Coverage, Error, ForeignTable, Part};

use crate::fixtures;

#[test]
fn every_table_is_covered_or_says_why_it_is_not() {
    let (mut complete, mut unchecked) = (0, 0);
    for fixture in fixtures::all() {
        let table = fixture.open();
        let report = table.verify();
        match report.coverage() {
            Coverage::Complete => complete += 1,
            Coverage::WithoutChecksums { blocks } => {
                assert!(fixture.file.contains("checksum-none"), "{}", fixture.file);
                // The footer has a state, but is no block.
                assert_eq!(*blocks, report.blocks.len() as u64 - 1, "{}", fixture.file);
                unchecked += 1;
            }
            Coverage::NotReached { part: Part::PartitionIndex, data_blocks: Some(0), .. } => {
                assert!(!fixture.has_known_order() && fixture.layout != "full", "{}", fixture.file);
            }
            other => panic!("{}: {other:?}", fixture.file),
        }
    }
    assert!(complete > 150, "{complete} tables");
    assert_eq!(unchecked, 6);
}

/// RocksDB's numbers of codecs that are not read.
const BZIP2: u8 = 3;
const XPRESS: u8 = 6;

/// Changes the codec of the block at `offset`, of `bytes` bytes with its trailer, under a valid checksum.
fn with_codec(table: &Bytes, offset: u64, bytes: u64, codec: u8) -> Bytes {
    let [begin, length] = [offset, bytes].map(|number| usize::try_from(number).expect("small"));
    let (mut forged, end) = (table.to_vec(), begin + length - 4);
    forged[end - 1] = codec;
    let crc = crc32c::crc32c(&forged[begin..end]).rotate_right(15).wrapping_add(0xa282_ead8);
    forged[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    forged.into()
}

#[test]
fn data_blocks_behind_an_index_that_is_not_read_are_counted() {
    let fixture = fixtures::named("rocksdb/7.8-checksum-crc32c-fv5.sst");
    let (sound, report) = (fixture.bytes(), fixture.open().verify());
    let index = report.blocks.iter().find(|block| block.part == Part::Index).expect("an index");
    let data_blocks = report.blocks.iter().filter(|block| block.part == Part::Data).count() as u64;
    let forged = with_codec(&sound, index.offset, index.bytes, XPRESS);
    let report = ForeignTable::open(forged).expect("a table").verify();
    let why = Error::Unsupported { part: Part::Index, what: "compression by Xpress".into() };
    let expected = Coverage::NotReached { part: Part::Index, why, data_blocks: Some(data_blocks) };
    assert_eq!(report.coverage(), &expected);
    // Not damaged, but not verified either.
    assert!(report.is_sound() && data_blocks > 0);
}

#[test]
fn a_data_block_in_a_codec_that_is_not_read_is_covered_by_its_checksum() {
    let fixture = fixtures::named("rocksdb/7.8-checksum-crc32c-fv5.sst");
    let report = fixture.open().verify();
    let data = report.blocks.iter().find(|block| block.part == Part::Data).expect("a data block");
    let forged = with_codec(&fixture.bytes(), data.offset, data.bytes, BZIP2);
    let report = ForeignTable::open(forged).expect("a table").verify();
    assert_eq!(report.coverage(), &Coverage::Complete);
    assert!(report.keys_unchecked.is_some_and(|why| why.to_string().contains("bzip2")));
    assert!(report.blocks.iter().all(|block| matches!(block.state, BlockState::Sound | BlockState::NoChecksum)));
}
