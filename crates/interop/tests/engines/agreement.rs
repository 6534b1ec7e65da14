//! Checks that hold for a table of any engine.

use std::iter::zip;

use bytes::Bytes;
use sstfilter::Probe;
use sstfilter_interop::{Error, FilterInfo, FilterKind, FilterUnit, ForeignTable, KeyBatch};

use crate::effort;
use crate::fixture::{self, ABSENT_KEYS, Fixture};

/// Checks that no stored key is absent, one by one or in a batch.
pub(crate) fn no_stored_key_is_absent(engine: &str) {
    for fixture in fixture::of_engine(engine) {
        let (table, file) = (fixture.open(), &fixture.file);
        let keys: Vec<_> = fixture.stored().collect();
        assert_eq!(keys.len(), fixture.count as usize, "{file}");
        for (number, (key, batched)) in zip(&keys, batch(&table, &keys)).enumerate() {
            let single = table.probe(key);
            let expected = if fixture.is_usable() { Probe::MaybePresent } else { Probe::Unusable };
            assert_eq!([single, batched], [expected; 2], "{file}: stored key {number}, alone and in a batch");
        }
    }
}

/// Checks that each absent key gets the engine's answer, one by one and in a batch: all keys in the long form,
/// otherwise one in seven, so that keys of every last digit are among them.
pub(crate) fn absent_keys_get_the_engines_answers(engine: &str) {
    let mut tables = 0;
    for fixture in fixture::of_engine(engine).iter().filter(|fixture| fixture.is_usable()) {
        let (table, file) = (fixture.open(), &fixture.file);
        let step = effort::sample(7);
        let keys: Vec<_> = fixture.absent(step).collect();
        let answers: Vec<_> = fixture.answers().into_iter().step_by(step).collect();
        let count = (ABSENT_KEYS as usize).div_ceil(step);
        assert_eq!((keys.len(), answers.len()), (count, count));
        for (number, ((key, batched), may_be_present)) in zip(zip(&keys, batch(&table, &keys)), answers).enumerate() {
            let single = table.probe(key);
            let expected = [expected(may_be_present); 2];
            assert_eq!([single, batched], expected, "{file}: absent key {}, alone and in a batch", number * step);
        }
        tables += 1;
    }
    assert!(tables > 0, "no table of {engine} was probed");
}

/// Checks that each stored prefix may be present, and that each absent prefix gets the engine's answer.
pub(crate) fn prefixes_get_the_engines_answers(engine: &str) {
    let mut tables = 0;
    for fixture in fixture::of_engine(engine).iter().filter(|fixture| fixture.is_usable() && fixture.prefixes > 0) {
        let table = fixture.open();
        for prefix in fixture.stored_prefixes() {
            assert_eq!(table.probe_prefix(&prefix), Probe::MaybePresent, "{}: {}", fixture.file, prefix.escape_ascii());
        }
        let prefixes = fixture.absent_prefixes();
        assert_eq!(prefixes.len(), fixture.prefixes, "{}", fixture.file);
        for (prefix, may_be_present) in zip(prefixes, fixture.prefix_answers()) {
            // The engine probed for exactly this prefix. Longer keys may have longer prefixes, which may also be
            // present.
            let is_shared = fixture.is_prefix_of_all(&prefix);
            let expected = expected(may_be_present || !is_shared);
            assert_eq!(table.probe_prefix(&prefix), expected, "{}: {}", fixture.file, prefix.escape_ascii());
        }
        tables += 1;
    }
    assert!(tables > 0, "no table of {engine} was probed by prefix");
}

/// Checks the descriptions of an engine's tables, the keys listed from them, and tables whose rules are not known.
pub(crate) fn tables_are_read_as_they_were_written(engine: &str) {
    tables_are_what_was_asked_for(engine);
    user_keys_are_the_stored_ones(engine);
    unknown_rules_are_unusable(engine);
}

/// Checks that a table without a filter, or with an unknown order of keys, always answers "unusable", with that reason.
fn unknown_rules_are_unusable(engine: &str) {
    let fixtures = fixture::of_engine(engine);
    let mut tables = 0;
    for fixture in fixtures.iter().filter(|fixture| !fixture.has_filter() || !fixture.has_known_order()) {
        let table = fixture.open();
        for key in fixture.absent(97) {
            let may_contain = table.try_probe(&key);
            let is_right = match &may_contain {
                Err(Error::NoFilter) => !fixture.has_filter(),
                Err(Error::Unsupported { .. }) => !fixture.has_known_order(),
                // LevelDB also writes a filter block for a table without keys; its empty index leads every key past the
                // end.
                Ok(false) => fixture.layout == "per_data_block" && fixture.count == 0,
                _ => false,
            };
            assert!(is_right, "{}: {may_contain:?}", fixture.file);
        }
        tables += 1;
    }
    assert!(tables > 0, "no such table of {engine}");
}

/// Checks that a table's description matches the options that the engine wrote it with.
fn tables_are_what_was_asked_for(engine: &str) {
    for fixture in fixture::of_engine(engine) {
        let table = fixture.open();
        assert_eq!(format!("{:?}", table.engine()).to_lowercase(), engine, "{}", fixture.file);
        assert_eq!(table.format_version(), fixture.format_version, "{}", fixture.file);
        assert_eq!(table.checksum_type() as u8, fixture.checksum, "{}", fixture.file);
        match table.filter_info() {
            Ok(info) => assert_filter_is(&fixture, &info),
            Err(Error::NoFilter) => assert!(!fixture.has_filter(), "{}", fixture.file),
            Err(error) => assert!(!fixture.has_known_order(), "{}: {error}", fixture.file),
        }
    }
}

fn assert_filter_is(fixture: &Fixture, info: &FilterInfo) {
    let kinds: Vec<_> = info.kinds.iter().map(|(kind, _)| kind_name(*kind)).collect();
    let is_kind = if fixture.has_filter() { kinds.contains(&fixture.filter.as_str()) } else { kinds.is_empty() };
    assert!(is_kind, "{}: {kinds:?}", fixture.file);
    let is_right = match fixture.layout.as_str() {
        "full" => info.unit == FilterUnit::Table && info.blocks == 1,
        // Seven keys fit into one partition; hundreds do not.
        "partitioned" | "decoupled" => info.unit == FilterUnit::Partition && (fixture.count < 10 || info.blocks > 1),
        "per_data_block" => matches!(info.unit, FilterUnit::DataBlocks { bytes: 2048 }),
        other => panic!("{}: no layout called {other}", fixture.file),
    };
    assert!(is_right, "{}: {info:?}", fixture.file);
}

pub(crate) fn kind_name(kind: FilterKind) -> &'static str {
    match kind {
        FilterKind::LegacyBloom => "legacy_bloom",
        FilterKind::FastLocalBloom => "fast_local_bloom",
        FilterKind::Ribbon128 => "ribbon",
        FilterKind::LevelDbBloom => "leveldb_bloom",
        FilterKind::BinaryFuse => "binary_fuse",
        _ => "none",
    }
}

/// Checks that the listed user keys are the stored ones, each once, in the table's order.
pub(crate) fn user_keys_are_the_stored_ones(engine: &str) {
    let mut tables = 0;
    for fixture in fixture::of_engine(engine).iter().filter(|fixture| fixture.has_known_codec()) {
        let listed: Result<Vec<_>, _> = fixture.open().user_keys().collect();
        let mut listed = listed.unwrap_or_else(|error| panic!("{}: {error}", fixture.file));
        if fixture.comparator.contains("Reverse") {
            listed.reverse();
        }
        let mut stored: Vec<_> = fixture.stored().collect();
        if !fixture.has_known_order() {
            listed.sort();
            stored.sort();
        }
        assert!(listed == stored, "{}: {} listed, {} stored", fixture.file, listed.len(), stored.len());
        tables += 1;
    }
    assert!(tables > 0, "no keys of {engine} were listed");
}

const fn expected(may_be_present: bool) -> Probe {
    if may_be_present { Probe::MaybePresent } else { Probe::Absent }
}

fn batch(table: &ForeignTable<Bytes>, keys: &[Vec<u8>]) -> Vec<Probe> {
    let answers = table.probe_batch(&KeyBatch::new(keys.iter().map(Vec::as_slice))).answers;
    assert_eq!(answers.len(), keys.len());
    answers
}
