//! The tables and the sidecar of `fixtures`, rebuilt byte for byte and read back on every instruction set of the CPU,
//! and the manifest of all golden files.

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::simd::InstructionSet;
use sstfilter::{FilterBlock, HashIdentity, KeyHasher, KeyParts};
use sstfilter_store::{FilterMetadata, FilterStore, PartitionCut, PartitionOptions};
use sstfilter_table::{Lookup, Table, TableBuilder, TableOptions, VerifyReport};

use crate::common::cases::{self, BLOCKS, BlockCase, Policy, TEN, directory, key, three_parts};
use crate::common::golden::{check_file, digest, hex, is_regenerating};
use crate::common::{self, for_each_set};
use crate::container_cases::{CONTAINERS, ContainerCase, identity_of};

/// Number of absent keys probed in each filter.
const ABSENT_KEYS: u32 = 10_000;

/// A table. If it has tombstones, entry `number` is one if `number % 7 == 3`.
#[derive(Clone, Copy)]
struct TableCase {
    name: &'static str,
    policy: Option<Policy>,
    entries: u32,
    has_tombstones: bool,
    block_bytes: u32,
    parts: fn() -> KeyParts,
    /// Target size of the filter's partitions, which are cut by key range.
    partition_bytes: Option<u32>,
    table_id: [u8; 16],
}

/// What most of the tables have.
const USUAL: TableCase = TableCase {
    name: "",
    policy: Some(TEN),
    entries: 0,
    has_tombstones: true,
    block_bytes: 1_024,
    parts: KeyParts::whole_keys,
    partition_bytes: None,
    table_id: [0; 16],
};

/// All the tables.
const TABLES: [TableCase; 5] = [
    TableCase {
        name: "table-small-tombstones-bloom",
        entries: 50,
        block_bytes: 256,
        table_id: *b"fixture table 1 ",
        ..USUAL
    },
    TableCase {
        name: "table-2000-entries-ribbon",
        policy: Some(Policy::ribbon(0.01, 1_024)),
        entries: 2_000,
        table_id: *b"fixture table 2 ",
        ..USUAL
    },
    TableCase {
        name: "table-empty-without-filter",
        policy: None,
        has_tombstones: false,
        block_bytes: 4_096,
        table_id: *b"fixture table 3 ",
        ..USUAL
    },
    TableCase {
        name: "table-500-entries-three-parts",
        entries: 500,
        parts: three_parts,
        table_id: *b"fixture table 4 ",
        ..USUAL
    },
    TableCase {
        name: "table-1000-entries-partitioned",
        entries: 1_000,
        block_bytes: 4_096,
        parts: three_parts,
        partition_bytes: Some(1_024),
        table_id: *b"fixture table 5 ",
        ..USUAL
    },
];

impl TableCase {
    fn file(&self) -> String {
        format!("{}.sst", self.name)
    }

    fn read(&self) -> Vec<u8> {
        std::fs::read(directory().join(self.file())).unwrap()
    }

    /// Returns the value of entry `number`; `None` for a tombstone.
    fn value(&self, number: u32) -> Option<Vec<u8>> {
        let is_tombstone = self.has_tombstones && number % 7 == 3;
        (!is_tombstone).then(|| format!("v{}", u64::from(number) * u64::from(number)).into_bytes())
    }

    fn build(&self) -> Vec<u8> {
        let options = TableOptions::default().with_table_id(self.table_id);
        let options = options.with_block_bytes(self.block_bytes).unwrap().with_key_parts((self.parts)());
        let options = match self.policy {
            Some(policy) => options.with_policy(Arc::new(policy.make())),
            None => options.without_filter(),
        };
        let options = match self.partition_bytes {
            Some(bytes) => {
                options.with_partitioned_filter(PartitionOptions::new(PartitionCut::KeyRange, bytes).unwrap())
            }
            None => options,
        };
        let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
        for number in 0..self.entries {
            match self.value(number) {
                Some(value) => builder.add(&key(number), &value).unwrap(),
                None => builder.delete(&key(number)).unwrap(),
            }
        }
        builder.finish().unwrap().0
    }
}

/// A fixture sidecar for `table`, of another kind than the table's own filter.
struct SidecarCase {
    name: &'static str,
    table: &'static TableCase,
    policy: Policy,
}

/// The sidecar.
const SIDECAR: SidecarCase =
    SidecarCase { name: "sidecar-2000-entries-bloom", table: &TABLES[1], policy: Policy::bloom(12.0) };

impl SidecarCase {
    fn file(&self) -> String {
        format!("{}.filter", self.name)
    }

    fn build(&self) -> Vec<u8> {
        let store = FilterStore::default().with_policy(Arc::new(self.policy.make()));
        let mut builder = store.sidecar_builder(&identity_of(&self.table.build()));
        (0..self.table.entries).for_each(|number| builder.add_key(&key(number)));
        builder.finish().seal_sidecar().unwrap().to_vec()
    }
}

const RECIPE: &str = r#"  "keys": "key number i, from 0 on, is the ASCII bytes of 'key-' and i in 8 decimal digits; they are added in order",
  "absent_keys": "absent key number i, from 0 to 9999, is the ASCII bytes of 'absent-' and i in 8 decimal digits",
  "values": "entry i of a table has the value 'v' and i * i in decimal digits, without leading zeros; where there are tombstones, entry i is one when i mod 7 is 3",
  "hash": "XXH3-64 of the key's bytes with xxh3_seed; 'identity' is what the trailer shows of it",
  "key_parts": "what the filter holds of each key: the whole key, and the parts by the named extractors; a filter without whole keys is probed for absent keys as parts by its first extractor: the absent key itself is the part, uncut",
  "file_number": "the number, as u64, of the file that the block is bound to; file_id has its bytes",
  "numbers": "hash_id, kind_number, requested_number and reason_number are fields of the trailer, and so is hash_seed, in hexadecimal digits; they and whole_keys and extractors say again what the texts identity, kind, reason and key_parts say",
  "crc32c": "of the whole file",
"#;

fn block_entry(case: &BlockCase, bytes: &[u8]) -> String {
    let filter = FilterBlock::open_unverified(bytes).unwrap();
    let info = filter.info();
    let shape: Vec<String> = info.shape.iter().map(|(name, value)| format!("{name} {value}")).collect();
    format!(
        r#"    {{"file": "{}", "policy": "{}", "keys": {}, "key_parts": "{}", "xxh3_seed": "{:#018x}", "identity": "{}", "file_number": {}, {}, "kind": "{}", "kind_number": {}, "requested_number": {}, "reason": "{}", "reason_number": {}, "shape": "{}", "salt": {}, {}, "false_positives_of_absent_keys": {}}}"#,
        case.file(),
        case.recipe.describe(),
        case.keys,
        (case.parts)(),
        case.hash.seed(),
        info.hash,
        case.file_number.map_or("null".to_owned(), |number| number.to_string()),
        identity_fields(info.hash, &(case.parts)(), case.file_number),
        info.kind,
        info.kind.code(),
        info.requested.code(),
        info.reason,
        info.reason.code(),
        shape.join("; "),
        info.salt,
        digest(bytes),
        case.false_positives(&filter, ABSENT_KEYS),
    )
}

/// What the texts of an entry say, for programs: the hash, the parts of keys and the file.
fn identity_fields(hash: HashIdentity, parts: &KeyParts, file_number: Option<u64>) -> String {
    format!(
        r#""hash_id": {}, "hash_seed": "{:016x}", {}, "file_id": {}"#,
        hash.id.code(),
        hash.seed,
        part_fields(parts),
        file_number.map_or("null".to_owned(), |number| format!(r#""{}""#, hex(&number.to_le_bytes()))),
    )
}

fn part_fields(parts: &KeyParts) -> String {
    let names: Vec<String> = parts.extractors().map(|extractor| format!(r#""{}""#, extractor.name())).collect();
    format!(r#""whole_keys": {}, "extractors": [{}]"#, parts.has_whole_keys(), names.join(", "))
}

fn table_entry(case: &TableCase, bytes: &[u8]) -> String {
    let table = open(bytes);
    let filter = table.filters().block();
    let hasher = KeyHasher::default();
    let absent = (0..ABSENT_KEYS).map(|number| hasher.hash(&cases::absent_key(number)));
    format!(
        r#"    {{"file": "{}", "policy": "{}", "entries": {}, "tombstones": {}, "block_bytes": {}, "restart_interval": 16, "key_parts": "{}", "partition_bytes": {}, "partitions": {}, "table_id": "{}", "data_blocks": {}, {}, "false_positives_of_absent_keys": {}}}"#,
        case.file(),
        case.policy.map_or("none".to_owned(), cases::Policy::describe),
        case.entries,
        table.properties().tombstones,
        case.block_bytes,
        table.properties().filters.key_parts(),
        case.partition_bytes.map_or("null".to_owned(), |bytes| bytes.to_string()),
        table.filters().partitions().map_or("null".to_owned(), |index| index.partitions().to_string()),
        hex(table.table_id()),
        table.properties().data_blocks,
        digest(bytes),
        filter.map_or("null".to_owned(), |filter| common::matches(filter, absent).to_string()),
    )
}

fn sidecar_entry(bytes: &[u8]) -> String {
    let filter = filter_of_sidecar(bytes);
    let hasher = KeyHasher::default();
    let absent = (0..ABSENT_KEYS).map(|number| hasher.hash(&cases::absent_key(number)));
    format!(
        r#"    {{"file": "{}", "table": "{}", "policy": "{}", "keys": {}, {}, "false_positives_of_absent_keys": {}}}"#,
        SIDECAR.file(),
        SIDECAR.table.file(),
        SIDECAR.policy.describe(),
        SIDECAR.table.entries,
        digest(bytes),
        common::matches(&filter, absent),
    )
}

/// Returns the filter of the stored table's sidecar.
fn filter_of_sidecar(bytes: &[u8]) -> FilterBlock<Bytes> {
    let table = identity_of(&SIDECAR.table.build());
    let metadata = FilterMetadata::of_sidecar(bytes, bytes.len() as u64, &table).unwrap();
    let file = FilterStore::default().open(metadata, Bytes::copy_from_slice(bytes));
    file.block().unwrap().clone()
}

fn container_entry(case: &ContainerCase, bytes: &[u8]) -> String {
    let filter = case.load(bytes);
    let absent = case.absent_keys(ABSENT_KEYS);
    format!(
        r#"    {{"file": "{}", "policy": "{}", "cut": "{}", "target_bytes": {}, "keys": {}, "key_parts": "{}", "xxh3_seed": "{:#018x}", "identity": "{}", "file_number": {}, {}, "partitions": {}, {}, "false_positives_of_absent_keys": {}}}"#,
        case.file(),
        case.policy.describe(),
        if case.cut == PartitionCut::KeyRange { "key range" } else { "hash range" },
        case.target_bytes,
        case.keys,
        (case.parts)(),
        case.hash.seed(),
        filter.index.hash_identity(),
        case.file_number.map_or("null".to_owned(), |number| number.to_string()),
        identity_fields(filter.index.hash_identity(), &(case.parts)(), case.file_number),
        filter.index.partitions(),
        digest(bytes),
        absent.iter().filter(|(key, hash)| filter.may_contain(key, *hash)).count(),
    )
}

fn open(bytes: &[u8]) -> Table {
    Table::open_source(Bytes::copy_from_slice(bytes), &TableOptions::default()).unwrap()
}

fn manifest() -> String {
    let blocks: Vec<String> = BLOCKS.iter().map(|case| block_entry(case, &case.build())).collect();
    let tables: Vec<String> = TABLES.iter().map(|case| table_entry(case, &case.build())).collect();
    let containers: Vec<String> = CONTAINERS.iter().map(|case| container_entry(case, &case.build())).collect();
    let (blocks, tables, sidecar) = (blocks.join(",\n"), tables.join(",\n"), sidecar_entry(&SIDECAR.build()));
    let containers = containers.join(",\n");
    format!(
        "{{\n  \"format_version\": 1,\n{RECIPE}  \"blocks\": [\n{blocks}\n  ],\n  \"tables\": [\n{tables}\n  ],\n  \"sidecars\": [\n{sidecar}\n  ],\n  \"partitioned\": [\n{containers}\n  ]\n}}\n"
    )
}

// promise: same-bytes
#[test]
fn every_table_is_written_as_it_was_byte_for_byte() {
    for_each_set(|_| {
        for case in &TABLES {
            check_file(&directory().join(case.file()), &case.build());
        }
    });
}

#[test]
fn the_sidecar_is_built_as_it_was_byte_for_byte() {
    for_each_set(|_| check_file(&directory().join(SIDECAR.file()), &SIDECAR.build()));
}

#[test]
fn every_key_of_the_stored_table_is_found_in_its_sidecar_and_other_tables_do_not_use_it() {
    if is_regenerating() {
        return;
    }
    let bytes = fs::read(directory().join(SIDECAR.file())).unwrap();
    for_each_set(|_| {
        let filter = filter_of_sidecar(&bytes);
        let hasher = KeyHasher::default();
        assert!((0..SIDECAR.table.entries).all(|number| filter.may_contain(hasher.hash(&key(number)))));
    });
    for other in [&TABLES[0], &TABLES[2]] {
        let other = identity_of(&other.read());
        assert!(FilterMetadata::of_sidecar(&bytes, bytes.len() as u64, &other).is_err());
    }
}

#[test]
fn the_manifest_says_what_the_files_are_down_to_the_number_of_false_positives() {
    check_file(&directory().join("manifest.json"), manifest().as_bytes());
}

// promise: stays-readable
#[test]
fn every_entry_of_a_stored_table_is_read() {
    if is_regenerating() {
        return;
    }
    for_each_set(|set| {
        for case in &TABLES {
            assert_reads(case, &case.read(), set);
        }
    });
}

#[test]
fn a_stored_filter_of_three_parts_tells_of_keys_and_of_both_prefixes() {
    if is_regenerating() {
        return;
    }
    let case = TABLES.iter().find(|case| case.name == "table-500-entries-three-parts").unwrap();
    let options = TableOptions::default().with_key_parts(three_parts());
    let table = Table::open_source(Bytes::from(case.read()), &options).unwrap();
    let filter = table.filters().block().unwrap();
    assert_eq!(filter.info().keys, 506, "500 keys, five prefixes and one");
    assert_eq!((filter.info().whole_keys, filter.info().extractors.len()), (true, 2));
    let (parts, hasher) = (three_parts(), KeyHasher::default());
    let holds = |prefix: &str| filter.may_contain_prefix(&parts.prefix(&hasher, prefix.as_bytes()));
    let held: Vec<u32> = (0..1_000).filter(|number| holds(&format!("key-{number:06}"))).collect();
    assert_eq!(held[..5], [0, 1, 2, 3, 4]);
    assert!(held.len() < 30 && holds("key-") && !holds("yek-"), "{held:?}");
    table.verify().unwrap();
}

fn assert_reads(case: &TableCase, bytes: &[u8], set: InstructionSet) {
    let table = open(bytes);
    let VerifyReport { entries, .. } = table.verify().unwrap();
    assert_eq!(entries, u64::from(case.entries), "{} with {set}", case.name);
    assert_eq!(table.table_id(), &case.table_id, "{}", case.name);
    for number in 0..case.entries {
        let expected = case.value(number).map_or(Lookup::Deleted, |value| Lookup::Found(value.into()));
        assert_eq!(table.get(&key(number)).unwrap(), expected, "{} entry {number} with {set}", case.name);
    }
    for number in 0..ABSENT_KEYS {
        assert_eq!(table.get(&cases::absent_key(number)).unwrap(), Lookup::Absent, "{} with {set}", case.name);
    }
}
