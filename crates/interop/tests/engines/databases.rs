//! A reader that adds up the tables of all column families, or counts the rest of a compaction as a table, describes a
//! database that nobody has. A manifest that it cannot read leaves it with exactly that. So these are whole databases
//! that RocksDB and LevelDB wrote, closed or copied while open, and everything is compared with what the engine itself
//! said of its live tables and of its lookups (`crates/interop/fixtures/README.md`).

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use serde::Deserialize;
use sstfilter::Probe;
use sstfilter_interop::{BlockState, Coverage, Error, ForeignTable, Manifest, ManifestFile, Part};

use crate::fixture;

const BYTEWISE: &str = "leveldb.BytewiseComparator";
/// Sequence number and type, behind a key in a manifest.
const INTERNAL_SUFFIX_BYTES: usize = 8;

/// The file `expected.json`: what the engine says.
#[derive(Debug, Deserialize)]
struct Expected {
    engine: String,
    families: Vec<Family>,
    tables: Vec<LiveTable>,
    not_live: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Family {
    id: u32,
    name: String,
    first: u32,
    step: u32,
    count: u32,
    deleted_from: u32,
    deleted_to: u32,
    absent: u32,
    /// Filters that all lookups of absent keys probed.
    filters_probed: u64,
    /// Absent keys that filters let through, and how many tables they were looked up in.
    let_through: Vec<(u32, u64)>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
struct LiveTable {
    number: u64,
    family: u32,
    level: u32,
    bytes: u64,
    smallest: String,
    largest: String,
}

impl Family {
    fn key(number: u32) -> Vec<u8> {
        format!("user:{number:08}").into_bytes()
    }

    fn stored(&self, i: u32) -> Vec<u8> {
        Self::key(self.first + i * self.step)
    }

    fn absent(&self, i: u32) -> Vec<u8> {
        Self::key(self.first + i / 2 * self.step + 1 + i % 2)
    }
}

impl LiveTable {
    fn of_manifest(number: u64, file: &ManifestFile) -> Self {
        let user_key = |key: &[u8]| String::from_utf8(key[..key.len() - INTERNAL_SUFFIX_BYTES].to_vec()).unwrap();
        let (smallest, largest) = (user_key(&file.smallest), user_key(&file.largest));
        Self { number, family: file.column_family, level: file.level, bytes: file.bytes, smallest, largest }
    }
}

/// A database of the fixtures.
struct Database {
    name: String,
    folder: PathBuf,
    expected: Expected,
    manifest: Manifest,
}

impl Database {
    fn named(name: &str) -> Self {
        let place = fixture::folder().join("databases").join(name);
        let expected = fs::read_to_string(place.join("expected.json")).unwrap();
        let expected = serde_json::from_str(&expected).unwrap();
        let folder = place.join("db");
        let current = fs::read_to_string(folder.join("CURRENT")).unwrap();
        let manifest = fs::read(folder.join(current.trim_end())).unwrap();
        let manifest = Manifest::parse(&manifest).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name: name.into(), folder, expected, manifest }
    }

    fn all() -> Vec<Self> {
        let names = fs::read_dir(fixture::folder().join("databases")).unwrap().map(|entry| entry.unwrap().file_name());
        let databases: Vec<_> = names.map(|name| Self::named(name.to_str().unwrap())).collect();
        assert!(databases.len() > 10, "{} databases", databases.len());
        databases
    }

    fn bytes(&self, table: &LiveTable) -> Vec<u8> {
        let extension = if self.expected.engine == "leveldb" { "ldb" } else { "sst" };
        fs::read(self.folder.join(format!("{:06}.{extension}", table.number))).unwrap()
    }

    fn open(&self, table: &LiveTable) -> ForeignTable<Bytes> {
        ForeignTable::open(Bytes::from(self.bytes(table))).unwrap().with_comparator(BYTEWISE)
    }

    /// Returns how many filters the lookup of `key` probes, and how many of them are positive.
    fn lookup(&self, tables: &[(&LiveTable, ForeignTable<Bytes>)], key: &[u8]) -> (u64, u64) {
        let (mut probed, mut positive) = (0, 0);
        for (entry, table) in tables {
            let bounds = table.bounds(self.manifest.file(entry.number).unwrap()).unwrap();
            let may_contain = bounds.holds(key).then(|| table.probe(key));
            assert_ne!(may_contain, Some(Probe::Unusable), "{}: {}", self.name, entry.number);
            probed += u64::from(may_contain.is_some());
            positive += u64::from(may_contain == Some(Probe::MaybePresent));
        }
        (probed, positive)
    }

    fn tables_of(&self, family: &Family) -> Vec<(&LiveTable, ForeignTable<Bytes>)> {
        let tables = self.expected.tables.iter().filter(|table| table.family == family.id);
        tables.map(|table| (table, self.open(table))).collect()
    }
}

// promise: other-engines
#[test]
fn the_manifest_is_what_the_engine_says() {
    for database in Database::all() {
        let (name, manifest, expected) = (&database.name, &database.manifest, &database.expected);
        let tables: Vec<_> = manifest.files().map(|(number, file)| LiveTable::of_manifest(number, file)).collect();
        assert_eq!(tables, expected.tables, "{name}");
        let families: Vec<_> = manifest.column_families().map(|family| (family.id, &family.name)).collect();
        let expected_families: Vec<_> = expected.families.iter().map(|family| (family.id, &family.name)).collect();
        assert_eq!(families, expected_families, "{name}");
        for family in manifest.column_families() {
            assert_eq!(family.comparator.as_deref(), Some(BYTEWISE), "{name}: {}", family.name);
        }
        assert!(tables.iter().all(|table| table.number < manifest.next_file_number()), "{name}");
        assert!(manifest.files().all(|(_, file)| file.path == 0), "{name}");
    }
}

#[test]
fn a_file_that_is_not_live_is_not_in_the_manifest() {
    let mut rests = 0;
    for database in Database::all() {
        for file in &database.expected.not_live {
            assert!(database.folder.join(file).exists(), "{}: {file}", database.name);
            let (number, _) = file.split_once('.').unwrap();
            assert_eq!(database.manifest.file(number.parse().unwrap()), None, "{}: {file}", database.name);
            rests += 1;
        }
    }
    assert_eq!(rests, 8, "four of RocksDB and four of LevelDB");
}

#[test]
fn each_table_of_rocksdb_names_its_column_family() {
    for database in Database::all().iter().filter(|database| database.expected.engine == "rocksdb") {
        for family in &database.expected.families {
            for (entry, table) in database.tables_of(family) {
                let expected = Some((family.id, family.name.as_str()));
                assert_eq!(table.properties().column_family(), expected, "{}: {}", database.name, entry.number);
            }
        }
    }
}

#[test]
fn a_family_has_the_keys_that_were_put_into_it_and_no_others() {
    for database in Database::all().iter().filter(|database| !["bzip2", "wal-only"].contains(&&*database.name)) {
        for family in &database.expected.families {
            let tables = database.tables_of(family);
            let listed = tables.iter().flat_map(|(_, table)| table.user_keys().map(Result::unwrap));
            let mut listed: Vec<_> = listed.collect();
            listed.sort();
            listed.dedup();
            // The last keys of a database that was running are in its log.
            let in_tables = if database.expected.not_live.is_empty() { family.count } else { family.count - 100 };
            let stored: Vec<_> = (0..in_tables).map(|i| family.stored(i)).collect();
            assert!(listed == stored, "{}: {}: {} keys", database.name, family.name, listed.len());
        }
    }
}

// promise: other-engines
#[test]
fn absent_keys_are_looked_up_in_as_many_tables_as_the_engine_says() {
    for database in Database::all() {
        for family in &database.expected.families {
            let tables = database.tables_of(family);
            let (mut probed, mut let_through) = (0, Vec::new());
            for i in 0..family.absent {
                let (filters, positive) = database.lookup(&tables, &family.absent(i));
                probed += filters;
                if positive > 0 {
                    let_through.push((i, positive));
                }
            }
            let found = (probed, let_through);
            let expected = (family.filters_probed, family.let_through.clone());
            assert_eq!(found, expected, "{}: {}", database.name, family.name);
        }
    }
}

/// The filter of the table with the tombstones is negative for the deleted keys, and still no lookup may skip it.
#[test]
fn a_deleted_key_is_within_the_bounds_of_the_tombstone() {
    let database = Database::named("tombstones");
    let family = &database.expected.families[0];
    let tables = database.tables_of(family);
    let with_tombstones: Vec<_> = tables.iter().filter(|(_, table)| table.has_range_tombstones()).collect();
    let [(entry, table)] = with_tombstones[..] else { panic!("expected one table with tombstones") };
    let bounds = table.bounds(database.manifest.file(entry.number).unwrap()).unwrap();
    let mut negative = 0;
    for i in family.deleted_from..family.deleted_to {
        assert!(bounds.holds(&family.stored(i)), "{i}");
        negative += u32::from(table.probe(&family.stored(i)).is_absent());
    }
    assert!(negative > 150, "{negative} of {}", family.deleted_to - family.deleted_from);
}

#[test]
fn every_live_table_is_sound_and_verified_as_far_as_its_codec_is_read() {
    for database in Database::all() {
        for entry in &database.expected.tables {
            let table = database.open(entry);
            let report = table.verify();
            let name = format!("{}: {}", database.name, entry.number);
            assert!(report.is_sound() && report.keys_lost == 0, "{name}: {report:?}");
            if database.name == "bzip2" {
                let Coverage::NotReached { part: Part::Index, why, data_blocks } = report.coverage() else {
                    panic!("{name}: {:?}", report.coverage());
                };
                assert!(why.to_string().contains("bzip2"), "{name}: {why}");
                assert_eq!(*data_blocks, table.properties().data_blocks(), "{name}");
                assert!(*data_blocks > Some(10), "{name}: {data_blocks:?}");
            } else {
                assert_eq!(report.coverage(), &Coverage::Complete, "{name}");
                assert!(report.keys_checked > 0 && report.keys_unchecked.is_none(), "{name}: {report:?}");
            }
        }
    }
}

#[test]
fn damage_to_data_blocks_in_zlib_is_found_where_it_is() {
    let database = Database::named("zlib");
    let entry = &database.expected.tables[0];
    let sound = database.bytes(entry);
    let report = database.open(entry).verify();
    assert_eq!(report.keys_checked, 500);
    let blocks: Vec<_> = report.blocks.iter().filter(|block| block.part == Part::Data).collect();
    for block in blocks.iter().step_by(blocks.len().div_ceil(40)) {
        let mut damaged = sound.clone();
        damaged[usize::try_from(block.offset + block.bytes / 2).unwrap()] ^= 4;
        let report = ForeignTable::open(Bytes::from(damaged)).unwrap().verify();
        let damaged: Vec<_> = report.damaged().map(|block| (block.part, block.offset)).collect();
        assert_eq!(damaged, [(Part::Data, block.offset)]);
        assert_eq!(report.coverage(), &Coverage::Complete);
    }
}

/// A flipped bit in a length makes a record look like one that was being written. It is not believed.
#[test]
fn a_damaged_manifest_is_an_error() {
    for name in ["blobs-7.8", "families", "leveldb-rest"] {
        let database = Database::named(name);
        let current = fs::read_to_string(database.folder.join("CURRENT")).unwrap();
        let mut bytes = fs::read(database.folder.join(current.trim_end())).unwrap();
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = Manifest::parse(&bytes);
            assert!(matches!(read, Err(Error::Checksum { .. } | Error::Malformed { .. })), "{name}: {bit}: {read:?}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Manifest::parse(&bytes), Ok(database.manifest));
    }
}

#[test]
fn blocks_that_need_no_dictionary_are_read_in_a_table_that_has_one() {
    let fixtures = fixture::of_engine("rocksdb");
    let named = |name: &str| {
        let file = format!("rocksdb/7.8-dictionary-{name}.sst");
        fixtures.iter().find(|fixture| fixture.file == file).unwrap()
    };
    for (name, is_read) in [("none", true), ("snappy", cfg!(feature = "snappy")), ("lz4", false)] {
        let fixture = named(name);
        let report = fixture.open().verify();
        let states = report.blocks.iter().map(|block| &block.state);
        assert!(states.clone().all(|state| *state == BlockState::Sound || *state == BlockState::NoChecksum), "{name}");
        assert_eq!(report.coverage(), &Coverage::Complete, "{name}");
        assert_eq!(report.keys_checked == u64::from(fixture.count), is_read, "{name}: {}", report.keys_checked);
        assert_eq!(report.keys_unchecked.is_none(), is_read, "{name}: {:?}", report.keys_unchecked);
    }
    let refused = named("lz4").open().user_keys().find_map(Result::err);
    assert!(matches!(refused, Some(Error::Unsupported { part: Part::CompressionDictionary, .. })), "{refused:?}");
}
