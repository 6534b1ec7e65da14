//! Tables that Pebble wrote.
//!
//! These tests guard against a filter that is read differently from Pebble: it is negative for a key in the table, and
//! a reader that skips the table loses the key. Pebble's filters contain the comparer's part of a key, its blocks are
//! row blocks or columnar, and its newest footers have a checksum: each of these is a way to read the wrong bytes.

use bytes::Bytes;
use sstfilter::Probe;
use sstfilter_interop::{BlockState, ChecksumType, Coverage, Engine, Error, ForeignTable, KeyCoverage, Part};

use crate::agreement;
use crate::fixture::{self, Fixture};

type PebbleTable = ForeignTable<Bytes>;

fn named(name: &str) -> Fixture {
    let file = format!("pebble/{name}.sst");
    fixture::of_engine("pebble").into_iter().find(|fixture| fixture.file == file).unwrap()
}

/// Pebble also writes the formats of LevelDB and RocksDB; such a table counts as theirs.
fn is_pebbles_own(fixture: &Fixture) -> bool {
    fixture.file.starts_with("pebble/v")
}

// promise: other-engines
#[test]
fn no_key_that_pebble_stored_is_absent() {
    agreement::no_stored_key_is_absent("pebble");
}

// promise: other-engines
#[test]
fn absent_keys_get_the_answers_of_pebble() {
    agreement::absent_keys_get_the_engines_answers("pebble");
}

#[test]
fn every_block_of_a_table_that_pebble_wrote_is_reached() {
    for fixture in fixture::of_engine("pebble") {
        assert_eq!(fixture.open().verify().coverage(), &Coverage::Complete, "{}", fixture.file);
    }
}

#[test]
fn a_table_is_described_as_it_was_written() {
    for fixture in fixture::of_engine("pebble") {
        let (table, file) = (fixture.open(), &fixture.file);
        let engine = if is_pebbles_own(&fixture) { Engine::Pebble } else { Engine::RocksDb };
        assert_eq!((table.engine(), table.format_version()), (engine, fixture.format_version), "{file}");
        let checksum = if fixture.checksum == 1 { ChecksumType::Crc32c } else { ChecksumType::XxHash64 };
        assert_eq!(table.checksum_type(), checksum, "{file}");
        assert_eq!(table.properties().comparator(), Some(fixture.comparator.as_str()), "{file}");
        let ranges = fixture.file.contains("range");
        assert_eq!(table.has_range_tombstones(), ranges, "{file}");
        let filter = match table.filter_info() {
            Ok(info) => agreement::kind_name(info.kinds[0].0),
            Err(error) => {
                if error == Error::NoFilter {
                    "none"
                } else {
                    panic!("{file}: {error}")
                }
            }
        };
        assert_eq!(filter, fixture.filter, "{file}");
    }
}

#[test]
fn a_filters_size_and_rate_are_what_was_configured() {
    for bits in [4, 8, 10, 12, 16] {
        let info = named(&format!("v8-fuse-{bits}bits")).open().filter_info().unwrap();
        assert_eq!(info.expected_fpr, Some(0.5_f64.powi(bits)));
        assert!(info.parameters.contains(&("fingerprint_bits", bits.to_string())), "{:?}", info.parameters);
        assert_eq!((info.keys, info.coverage), (Some(6_000), KeyCoverage::WholeKeys));
    }
    let info = named("v8-cockroach").open().filter_info().unwrap();
    assert_eq!(info.coverage, KeyCoverage::Prefixes("cockroach_comparator".to_owned()));
}

#[test]
fn a_comparer_that_is_not_known_is_named_and_nothing_is_absent() {
    for name in ["v4-first-four", "v8-first-four"] {
        let fixture = named(name);
        let table = fixture.open();
        for key in fixture.stored().chain(fixture.absent(1)).take(1_000) {
            let Err(why) = table.try_probe(&key) else { panic!("{name}: {:?}", table.probe(&key)) };
            let expected = "leveldb.BytewiseComparator or cockroach_comparator";
            let unsupported = format!("comparer \"fixtures.FirstFour\" (expected {expected}) is not supported");
            assert_eq!(why.to_string(), format!("properties: {unsupported}"));
        }
    }
}

#[test]
fn a_key_that_its_comparer_cannot_split_may_be_present() {
    let table = named("v8-cockroach").open();
    // No length of a version; a length of one, which no key has; no sentinel before the version; a version longer than
    // the key.
    for key in [&b""[..], b"99999999\x00\x01", b"99999999x12345678\x09", b"9\x09"] {
        assert_eq!(table.probe(key), Probe::MaybePresent, "{}", key.escape_ascii());
    }
    assert_eq!(table.probe(b"99999999\0"), Probe::Absent);
    // Test keys are split at the last delimiter.
    let table = named("v8-testkeys").open();
    let stored = named("v8-testkeys").stored().next().unwrap();
    assert_eq!(table.probe(&[&stored[..], b"@1"].concat()), Probe::MaybePresent);
    assert_eq!(table.probe(&[&stored[..], b"@1@1"].concat()), Probe::Absent);
}

#[test]
fn a_start_of_keys_is_not_answered_by_filters_that_do_not_hold_it() {
    let starts: [(&str, &[u8]); 3] = [("v8-bloom", b"9999"), ("v8-testkeys", b"9999"), ("v8-cockroach", b"99999999\0")];
    for (name, start) in starts {
        assert!(!named(name).open().probe_prefix(start).is_absent(), "{name}");
    }
}

#[test]
fn keys_of_rows_are_listed_and_columns_say_that_they_are_not() {
    for fixture in fixture::of_engine("pebble") {
        let keys: Result<Vec<_>, _> = fixture.open().user_keys().collect();
        if fixture.format_version < 5 {
            assert_eq!(keys, Ok(fixture.stored().collect()), "{}", fixture.file);
        } else {
            let what = "the format of blocks of columns, which versions from 5 on have,".to_owned();
            assert_eq!(keys, Err(Error::Unsupported { part: Part::Data, what }), "{}", fixture.file);
        }
    }
}

#[test]
fn every_table_is_sound_and_loses_no_key() {
    for fixture in fixture::of_engine("pebble") {
        let report = fixture.open().verify();
        assert!(report.is_sound(), "{}: {report:?}", fixture.file);
        let blocks = |part| report.blocks.iter().filter(|block| block.part == part).count();
        assert!(blocks(Part::Index) > 0, "{}", fixture.file);
        assert!(blocks(Part::Data) > 0 || fixture.count == 0, "{}", fixture.file);
        let is_probed = fixture.has_filter() && fixture.format_version < 5 && !fixture.file.contains("first-four");
        assert_eq!(report.keys_checked, if is_probed { u64::from(fixture.count) } else { 0 }, "{}", fixture.file);
        let footer = &report.blocks[0];
        let has_checksum = is_pebbles_own(&fixture) && fixture.format_version >= 6;
        assert_eq!(footer.state == BlockState::Sound, has_checksum, "{}", fixture.file);
    }
}

/// Flips each bit of the file, and passes the resulting table to `check`.
fn for_each_flip(fixture: &Fixture, mut check: impl FnMut(usize, Result<PebbleTable, Error>)) {
    let sound = fixture.bytes();
    for bit in 0..8 * sound.len() {
        let mut bytes = sound.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        check(bit, ForeignTable::open(Bytes::from(bytes)));
    }
}

/// Small tables of each shape of footer, metaindex and properties.
const SMALL: [&str; 7] = [
    "v1-bloom-xxhash64",
    "v4-fuse-7-keys",
    "v4-range-tombstones",
    "v5-bloom-xxhash64",
    "v6-bloom-7-keys",
    "v7-bloom-xxhash64",
    "v8-fuse-7-keys",
];

#[test]
fn no_flipped_bit_makes_a_stored_key_absent() {
    for fixture in SMALL.map(named) {
        let stored: Vec<_> = fixture.stored().collect();
        for_each_flip(&fixture, |bit, table| {
            let Ok(table) = table else { return };
            for key in stored.iter().take(8) {
                assert!(!table.probe(key).is_absent(), "{}: bit {bit}", fixture.file);
            }
        });
    }
}

#[test]
fn every_flipped_bit_is_found() {
    for fixture in SMALL.map(named) {
        let footer_bytes = match fixture.format_version {
            1..=5 => 53,
            6 => 57,
            _ => 61,
        };
        let version_bits = 8 * (fixture.bytes().len() - 12)..8 * (fixture.bytes().len() - 8);
        for_each_flip(&fixture, |bit, table| {
            let is_found = table.map_or(true, |table| !table.verify().is_sound());
            // Versions 1 to 4 do not differ in anything that this test reads, and their footers have no checksum.
            let is_another_version = footer_bytes == 53 && version_bits.contains(&bit);
            assert!(is_found || is_another_version, "{}: bit {bit} of {}", fixture.file, 8 * fixture.bytes().len());
        });
    }
}

#[test]
fn a_version_damaged_into_that_of_another_kind_of_blocks_is_found() {
    for (name, version) in [("v5-bloom", 4), ("v5-bloom", 1), ("v4-bloom", 5), ("v1-bloom", 5)] {
        let mut bytes = named(name).bytes().to_vec();
        let at = bytes.len() - 12;
        bytes[at] = version;
        assert!(!ForeignTable::open(Bytes::from(bytes)).unwrap().verify().is_sound(), "{name} as version {version}");
    }
}

#[test]
fn a_cut_table_is_an_error_or_answers_nothing() {
    let fixture = named("v8-fuse-7-keys");
    let (bytes, footer) = (fixture.bytes(), 61);
    for length in 0..bytes.len() {
        assert!(ForeignTable::open(bytes.slice(..length)).is_err(), "{length} bytes");
        // The end of the table, behind a part of it.
        let end = bytes.slice(bytes.len() - footer..);
        let cut = [&bytes[..length.min(bytes.len() - footer)], &end[..]].concat();
        if let Ok(table) = ForeignTable::open(Bytes::from(cut)) {
            assert!(fixture.stored().all(|key| !table.probe(&key).is_absent()), "{length} bytes");
        }
    }
}

/// Damages the metaindex and the properties under valid checksums, like an attacker.
#[test]
fn blocks_that_lie_with_sound_checksums_do_no_harm() {
    let (mut tried, mut opened) = (0, 0);
    for fixture in ["v4-fuse-7-keys", "v6-bloom-7-keys", "v8-fuse-7-keys", "v8-codec-nocompression"].map(named) {
        let sound = fixture.bytes();
        let report = fixture.open().verify();
        let parts = [Part::Metaindex, Part::Properties, Part::Filter, Part::Index];
        for block in report.blocks.iter().filter(|block| parts.contains(&block.part)) {
            let [begin, bytes] = [block.offset, block.bytes].map(|place| usize::try_from(place).unwrap());
            let range = begin..begin + bytes - 5;
            for at in range.clone() {
                for change in [1, 0x80, 0xff, sound[at]] {
                    let mut bytes = sound.to_vec();
                    bytes[at] ^= change;
                    let sum =
                        crc32c::crc32c(&bytes[range.start..=range.end]).rotate_right(15).wrapping_add(0xa282_ead8);
                    bytes[range.end + 1..range.end + 5].copy_from_slice(&sum.to_le_bytes());
                    tried += 1;
                    if let Ok(table) = ForeignTable::open(Bytes::from(bytes)) {
                        opened += 1;
                        table.probe(b"key");
                        table.verify();
                        table.user_keys().take(100).for_each(drop);
                    }
                }
            }
        }
    }
    assert!(tried > 4_000 && opened > 1_000, "{tried} tables, of which {opened} were opened");
}
