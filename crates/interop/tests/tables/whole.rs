//! Tables as their engine wrote them.

use bytes::Bytes;
use sstfilter::Probe;
use sstfilter_interop::{Engine, ForeignTable, KeyBatch};

use crate::fixtures;
use crate::forged::Forged;

#[test]
fn every_table_is_sound_and_loses_no_key() {
    for fixture in fixtures::all() {
        let report = fixture.open().verify();
        assert!(report.is_sound(), "{}: {report:?}", fixture.file);
        let probed = if fixture.has_usable_filter() { fixture.count } else { 0 };
        assert_eq!(report.keys_checked, u64::from(probed), "{}: {:?}", fixture.file, report.keys_unchecked);
    }
}

#[test]
fn a_batch_answers_as_single_probes_do() {
    for fixture in fixtures::all() {
        let table = fixture.open();
        let keys: Vec<Vec<u8>> = (0..3_000_u32).map(|i| format!("{:08}", i * 37 % 101_000).into_bytes()).collect();
        let batch = KeyBatch::new(keys.iter().map(Vec::as_slice));
        let answers = table.probe_batch(&batch);
        assert_eq!(answers.answers.len(), keys.len());
        for (key, answer) in keys.iter().zip(&answers.answers) {
            assert_eq!(*answer, table.probe(key), "{}", fixture.file);
            if let Err(reason) = table.try_probe(key) {
                assert!(answers.reasons.contains(&reason), "{}: {reason}", fixture.file);
            }
        }
    }
}

#[test]
fn tables_of_format_versions_0_and_1_are_read_by_the_same_rules() {
    // RocksDB 11 no longer writes them. Versions 0 to 2 differ in the footer, and in the length before compressed
    // contents.
    let second = fixtures::named("rocksdb/7.8-checksum-crc32c-fv4.sst").bytes();
    let (blocks, footer) = second.split_at(second.len() - 53);
    let with_version_1 = [&footer[..41], &1_u32.to_le_bytes(), &footer[45..]].concat();
    let with_version_0 = [&footer[1..41], &0xdb47_7524_8b80_fb57_u64.to_le_bytes()].concat();
    for (version, footer) in [(0, with_version_0), (1, with_version_1)] {
        let table = ForeignTable::open(Bytes::from([blocks, &footer].concat())).expect("a table");
        assert_eq!((table.engine(), table.format_version()), (Engine::RocksDb, version));
        let keys: Vec<_> = table.user_keys().flatten().collect();
        assert_eq!(keys.len(), 300);
        keys.iter().for_each(|key| assert_eq!(table.probe(key), Probe::MaybePresent));
        assert!(table.probe(b"a stranger").is_absent());
    }
}

/// RocksDB decides the form of a partitioned index's keys with the first key. Without one, the property has its initial
/// value.
#[test]
fn range_tombstones_alone_under_a_partitioned_index_are_sound_in_every_format_version() {
    let tombstones = crate::forged::row_block([(&b"a\x01\x0f\0\0\0\0\0\0"[..], b"c".to_vec())]);
    let table = |version, index_type: u32, data_blocks| {
        let forged = Forged { version, ..Forged::with_block("rocksdb.range_del2", tombstones.clone()) };
        let numbers =
            [("rocksdb.num.entries", 1), ("rocksdb.num.range-deletions", 1), ("rocksdb.num.data.blocks", data_blocks)];
        let forged = numbers.into_iter().fold(forged, |forged, (name, value)| forged.property(name, &[value]));
        let forged = forged.without_property("rocksdb.num.filter_entries");
        let forged = forged.property("rocksdb.block.based.table.index.type", &index_type.to_le_bytes());
        forged.property("rocksdb.index.key.is.user.key", &[1]).open_with_empty_index().verify()
    };
    for version in 2..=5 {
        assert!(table(version, 2, 0).is_sound(), "version {version}: {:?}", table(version, 2, 0));
    }
    // With keys, or with an index of another type, the version is wrong.
    assert!(!table(2, 0, 0).is_sound() && !table(2, 2, 1).is_sound());
}
