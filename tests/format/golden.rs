//! The files of `fixtures`, rebuilt byte for byte and read back, on every instruction set that the CPU has. The failure
//! guarded against: a change that makes tomorrow's writer and reader agree with each other, and neither with the files
//! that are on disk already. Once there has been a release, a new version of a format adds fixtures, and those of older
//! ones stay readable.

mod ranges;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::cases::{self, BLOCKS, BlockCase, CONTAINERS, ContainerCase, SIDECAR, TABLES, TableCase};
use crate::common::{self, for_each_set};
use bytes::Bytes;
use sstfilter::simd::{self, InstructionSet};
use sstfilter::sst::{Lookup, Table, TableOptions, VerifyReport};
use sstfilter::store::{FilterMetadata, FilterStore, PartitionCut};
use sstfilter::{FilterBlock, FilterKind, FilterReader, FilterSet, KeyHash, KeyHasher, MatchBitmap, kind};

/// Absent keys asked of each filter.
const ABSENT_KEYS: u32 = 10_000;

const TO_REGENERATE: &str = "when the format is meant to change, rewrite the fixtures with \
     SSTFILTER_REGENERATE=1 cargo test --release --test format golden::";

const RECIPE: &str = r#"  "keys": "key number i, from 0 on, is the ASCII bytes of 'key-' and i in 8 decimal digits; they are added in order",
  "absent_keys": "absent key number i, from 0 to 9999, is the ASCII bytes of 'absent-' and i in 8 decimal digits",
  "values": "entry i of a table has the value 'v' and i * i in decimal digits, without leading zeros; where there are tombstones, entry i is one when i mod 7 is 3",
  "hash": "XXH3-64 of the key's bytes with xxh3_seed; 'identity' is what the trailer shows of it",
  "key_parts": "what the filter holds of each key: the whole key, and the parts by the named extractors; a filter without whole keys is probed for absent keys as parts by its extractor",
  "file_number": "the number, as u64, of the file that the block is bound to",
  "crc32c": "of the whole file",
"#;

fn is_regenerating() -> bool {
    std::env::var_os("SSTFILTER_REGENERATE").is_some_and(|value| value == "1")
}

/// Compares `built` with the file at `path`, or writes it there.
fn check_file(path: &Path, built: &[u8]) {
    let set = simd::selected();
    if is_regenerating() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, built).unwrap();
        return;
    }
    let stored = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}; {TO_REGENERATE}", path.display()));
    let differing = stored.iter().zip(built).position(|(stored, built)| stored != built);
    assert!(
        stored == built,
        "{} with {set}: expected the {} bytes of the file, got {}, first difference at {differing:?}; {TO_REGENERATE}",
        path.display(),
        stored.len(),
        built.len(),
    );
}

fn digest(bytes: &[u8]) -> String {
    format!(r#""bytes": {}, "crc32c": "{:#010x}""#, bytes.len(), crc32c::crc32c(bytes))
}

fn block_entry(case: &BlockCase, bytes: &[u8]) -> String {
    let filter = FilterBlock::open_unverified(bytes).unwrap();
    let info = filter.info();
    let shape: Vec<String> = info.shape.iter().map(|(name, value)| format!("{name} {value}")).collect();
    format!(
        r#"    {{"file": "{}", "policy": "{}", "keys": {}, "key_parts": "{}", "xxh3_seed": "{:#018x}", "identity": "{}", "file_number": {}, "kind": "{}", "reason": "{}", "shape": "{}", "salt": {}, {}, "false_positives_of_absent_keys": {}}}"#,
        case.file(),
        case.recipe.describe(),
        case.keys,
        (case.parts)(),
        case.hash.seed(),
        info.hash,
        case.file_number.map_or("null".to_owned(), |number| number.to_string()),
        info.kind,
        info.reason,
        shape.join("; "),
        info.salt,
        digest(bytes),
        case.false_positives(&filter, ABSENT_KEYS),
    )
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
        crate::vectors::hex(table.table_id()),
        table.properties().data_blocks,
        digest(bytes),
        filter.map_or("null".to_owned(), |filter| common::hits(filter, absent).to_string()),
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
        common::hits(&filter, absent),
    )
}

/// The filter of the stored table's sidecar.
fn filter_of_sidecar(bytes: &[u8]) -> FilterBlock<Bytes> {
    let table = cases::identity_of(&SIDECAR.table.build());
    let metadata = FilterMetadata::of_sidecar(bytes, bytes.len() as u64, &table).unwrap();
    let file = FilterStore::default().open(metadata, Arc::new(Bytes::copy_from_slice(bytes)));
    file.block().unwrap().clone()
}

fn container_entry(case: &ContainerCase, bytes: &[u8]) -> String {
    let filter = case.load(bytes);
    let absent = case.absent_keys(ABSENT_KEYS);
    format!(
        r#"    {{"file": "{}", "policy": "{}", "cut": "{}", "target_bytes": {}, "keys": {}, "key_parts": "{}", "xxh3_seed": "{:#018x}", "identity": "{}", "file_number": {}, "partitions": {}, {}, "false_positives_of_absent_keys": {}}}"#,
        case.file(),
        case.policy.describe(),
        if case.cut == PartitionCut::KeyRange { "key range" } else { "hash range" },
        case.target_bytes,
        case.keys,
        (case.parts)(),
        case.hash.seed(),
        filter.index.hash_identity(),
        case.file_number.map_or("null".to_owned(), |number| number.to_string()),
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

#[test]
fn every_block_is_built_as_it_was_byte_for_byte() {
    for_each_set(|_| {
        for case in BLOCKS {
            check_file(&cases::directory().join(case.file()), &case.build());
        }
    });
}

#[test]
fn every_partitioned_filter_is_built_as_it_was_byte_for_byte() {
    for_each_set(|_| {
        for case in &CONTAINERS {
            check_file(&cases::directory().join(case.file()), &case.build());
        }
    });
}

#[test]
fn every_key_of_a_stored_partitioned_filter_is_found() {
    if is_regenerating() {
        return;
    }
    for_each_set(|set| {
        for case in &CONTAINERS {
            let filter = case.load(&case.read());
            filter.verify().unwrap();
            assert!(filter.problems().is_empty(), "{}", case.name);
            let (parts, hasher) = ((case.parts)(), case.hash.hasher());
            for (key, hash) in case.keys() {
                assert!(filter.may_contain(&key, hash), "{} with {set}: {key:?}", case.name);
                let prefix = parts.prefix(&hasher, &key[..10]);
                assert!(filter.may_contain_prefix(&prefix), "{} with {set}: the prefix of {key:?}", case.name);
            }
            let absent = (0..1_000).map(cases::absent_key);
            let lacks_prefix = |key: &Vec<u8>| !filter.may_contain_prefix(&parts.prefix(&hasher, key));
            let negatives = absent.filter(lacks_prefix).count();
            assert_eq!(negatives > 900, parts.extractors().len() > 0, "{}: {negatives}", case.name);
        }
    });
}

#[test]
fn every_table_is_written_as_it_was_byte_for_byte() {
    for_each_set(|_| {
        for case in &TABLES {
            check_file(&cases::directory().join(case.file()), &case.build());
        }
    });
}

#[test]
fn the_sidecar_is_built_as_it_was_byte_for_byte() {
    for_each_set(|_| check_file(&cases::directory().join(SIDECAR.file()), &SIDECAR.build()));
}

#[test]
fn every_key_of_the_stored_table_is_found_in_its_sidecar_and_other_tables_do_not_use_it() {
    if is_regenerating() {
        return;
    }
    let bytes = fs::read(cases::directory().join(SIDECAR.file())).unwrap();
    for_each_set(|_| {
        let filter = filter_of_sidecar(&bytes);
        let hasher = KeyHasher::default();
        assert!((0..SIDECAR.table.entries).all(|number| filter.may_contain(hasher.hash(&cases::key(number)))));
    });
    for other in [&TABLES[0], &TABLES[2]] {
        let other = cases::identity_of(&other.read());
        assert!(FilterMetadata::of_sidecar(&bytes, bytes.len() as u64, &other).is_err());
    }
}

#[test]
fn the_manifest_says_what_the_files_are_down_to_the_number_of_false_positives() {
    check_file(&cases::directory().join("manifest.json"), manifest().as_bytes());
}

#[test]
fn every_key_of_a_stored_block_is_found() {
    if is_regenerating() {
        return;
    }
    for_each_set(|set| {
        for case in BLOCKS {
            let filter = FilterBlock::load(case.read(), case.load_context()).unwrap();
            let hashes = case.hashes();
            let off = filter.info().keys.abs_diff(hashes.len() as u64);
            let allowed = if case.recipe.is_counted() { 0 } else { u64::from(case.keys) / 10 };
            assert!(off <= allowed, "{}: {} keys", case.name, filter.info().keys);
            assert_eq!(filter.hash_identity(), case.hash.hasher().identity(), "{}", case.name);
            let answers = answers(&filter, &hashes);
            assert!(answers.iter().all(|&answer| answer), "{} with {set}", case.name);
        }
    });
}

#[test]
fn a_stored_block_of_parts_tells_of_prefixes_and_one_without_whole_keys_of_no_key() {
    if is_regenerating() {
        return;
    }
    for case in BLOCKS.iter().filter(|case| (case.parts)().extractors().len() > 0) {
        let (parts, hasher) = ((case.parts)(), case.hash.hasher());
        let filter = FilterReader::load(case.read(), case.load_context());
        for key in (0..case.keys).map(cases::key) {
            assert!(!filter.probe_prefix(&parts.prefix(&hasher, &key)).is_absent(), "{}", case.name);
            assert!(!filter.probe(hasher.hash(&key)).is_absent(), "{}", case.name);
        }
        let absent: Vec<Vec<u8>> = (0..ABSENT_KEYS).map(cases::absent_key).collect();
        let lacks_prefix = |key: &&Vec<u8>| filter.probe_prefix(&parts.prefix(&hasher, key)).is_absent();
        assert!(absent.iter().filter(lacks_prefix).count() > 9_000, "{}", case.name);
        let lacked = absent.iter().filter(|key| filter.probe(hasher.hash(key)).is_absent()).count();
        assert_eq!(lacked > 9_000, parts.has_whole_keys(), "{}: {lacked}", case.name);
        assert_eq!(lacked > 0, parts.has_whole_keys(), "{}: {lacked}", case.name);
    }
}

/// What a filter says of each key, which is the same one by one, in a set of filters and in a batch.
fn answers(filter: &FilterBlock<Vec<u8>>, hashes: &[KeyHash]) -> Vec<bool> {
    let mut hits = MatchBitmap::default();
    filter.may_contain_batch(hashes, &mut hits);
    let one_by_one: Vec<bool> = hashes.iter().map(|&hash| filter.may_contain(hash)).collect();
    let set = FilterSet::new([FilterReader::from(Ok(filter.clone()))], filter.hash_identity());
    let mut in_set = MatchBitmap::default();
    for (&hash, &answer) in hashes.iter().zip(&one_by_one) {
        set.matches(hash, &mut in_set);
        assert_eq!(in_set.may_contain(0), answer, "a set with {}", simd::selected());
    }
    let of_batch = (0..hashes.len()).map(|index| hits.may_contain(index));
    assert!(one_by_one.iter().copied().eq(of_batch), "a batch with {}", simd::selected());
    one_by_one
}

#[test]
fn absent_keys_pass_a_stored_block_or_not_whatever_the_instruction_set() {
    if is_regenerating() {
        return;
    }
    for case in BLOCKS {
        let filter = FilterBlock::load(case.read(), case.load_context()).unwrap();
        let first = Mutex::new(None);
        for_each_set(|set| {
            let answers = answers(&filter, &case.absent_hashes(ABSENT_KEYS));
            let mut first = first.lock().unwrap();
            assert!(*first.get_or_insert_with(|| answers.clone()) == answers, "{} with {set}", case.name);
        });
    }
}

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
    let options = TableOptions::default().with_key_parts(cases::three_parts());
    let table = Table::open_source(Bytes::from(case.read()), &options).unwrap();
    let filter = table.filters().block().unwrap();
    assert_eq!(filter.info().keys, 506, "500 keys, five prefixes and one");
    assert_eq!((filter.info().whole_keys, filter.info().extractors.len()), (true, 2));
    let (parts, hasher) = (cases::three_parts(), KeyHasher::default());
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
        assert_eq!(table.get(&cases::key(number)).unwrap(), expected, "{} entry {number} with {set}", case.name);
    }
    for number in 0..ABSENT_KEYS {
        assert_eq!(table.get(&cases::absent_key(number)).unwrap(), Lookup::Absent, "{} with {set}", case.name);
    }
}

#[test]
fn the_fixtures_show_all_kinds_both_rounds_of_lanes_both_numbers_of_layers_and_a_fallback() {
    let infos: Vec<_> = BLOCKS.iter().map(|case| FilterBlock::open_unverified(case.build()).unwrap().info()).collect();
    let shapes_of = |kind: FilterKind, field: &str| -> Vec<u64> {
        let ours = infos.iter().filter(|info| info.kind == kind);
        let fields = ours.flat_map(|info| info.shape.iter()).filter(|(name, _)| *name == field);
        fields.filter_map(|(_, value)| value.parse().ok()).collect()
    };
    let probes = shapes_of(FilterKind::BLOCKED_BLOOM, "probes");
    assert!(probes.iter().any(|&probes| probes <= 8) && probes.iter().any(|&probes| probes > 8), "{probes:?}");
    let layers = shapes_of(FilterKind::RIBBON, "layers");
    assert!(layers.contains(&1) && layers.contains(&2), "{layers:?}");
    assert!(shapes_of(FilterKind::RIBBON, "columns").contains(&32));
    assert!(infos.iter().any(|info| info.kind != info.requested));
    for entry in kind::all() {
        assert!(infos.iter().any(|info| info.kind == entry.id), "no fixture of {}", entry.name);
    }
}
