//! If a fixture is lost, its probes are lost with it, and every other test still passes. So the manifest must name
//! every table, and the tables must cover the promises.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;

use crate::fixture::{self, Fixture};

fn assert_covered(what: &str, is_one: impl Fn(&Fixture) -> bool) {
    assert!(fixture::all().iter().any(|fixture| fixture.is_usable() && is_one(fixture)), "no table: {what}");
}

#[test]
fn the_manifest_names_every_table_once() {
    let named: Vec<_> = fixture::all().into_iter().map(|fixture| fixture.file).collect();
    let distinct: BTreeSet<_> = named.iter().cloned().collect();
    assert_eq!(named.len(), distinct.len());
    assert_eq!(distinct, tables_in_folders());
}

fn tables_in_folders() -> BTreeSet<String> {
    let mut tables = BTreeSet::new();
    for engine in ["rocksdb", "leveldb", "pebble"] {
        for entry in fs::read_dir(fixture::folder().join(engine)).unwrap() {
            let path = entry.unwrap().path();
            if ["sst", "ldb"].map(OsStr::new).map(Some).contains(&path.extension()) {
                tables.insert(format!("{engine}/{}", path.file_name().unwrap().display()));
            }
        }
    }
    tables
}

#[test]
fn rocksdbs_filters_are_covered_in_each_format_version() {
    for version in 2..=7 {
        let bloom = if version < 5 { "legacy_bloom" } else { "fast_local_bloom" };
        for layout in ["full", "partitioned"] {
            assert_covered(&format!("{bloom}, {layout}, version {version}"), |fixture| {
                fixture.engine == "rocksdb"
                    && fixture.format_version == version
                    && fixture.filter == bloom
                    && fixture.layout == layout
                    && fixture.count >= 2000
            });
        }
    }
    for version in 4..=7 {
        assert_covered(&format!("ribbon, version {version}"), |fixture| {
            fixture.filter == "ribbon" && fixture.format_version == version
        });
    }
}

#[test]
fn rocksdbs_checksums_are_covered_in_each_form() {
    for version in 4..=7 {
        for checksum in 0..=4 {
            assert_covered(&format!("checksum {checksum}, version {version}"), |fixture| {
                fixture.engine == "rocksdb" && fixture.format_version == version && fixture.checksum == checksum
            });
        }
    }
}

#[test]
fn rocksdbs_kinds_are_covered_in_each_layout() {
    for kind in ["legacy_bloom", "fast_local_bloom", "ribbon"] {
        for layout in ["full", "partitioned", "decoupled"] {
            assert_covered(&format!("{kind}, {layout}"), |fixture| fixture.filter == kind && fixture.layout == layout);
        }
    }
    for extractor in ["rocksdb.FixedPrefix", "rocksdb.CappedPrefix", "rocksdb.Noop"] {
        assert_covered(&format!("{extractor} alone"), |fixture| {
            fixture.extractor.as_ref().is_some_and(|name| name.starts_with(extractor)) && !fixture.whole_key
        });
    }
    assert_covered("whole keys and prefixes, partitioned", |fixture| {
        fixture.is_partitioned() && fixture.whole_key && fixture.prefixes > 0
    });
    assert_covered("keys that have no prefix", |fixture| fixture.unfiltered > 0);
}

#[test]
fn few_keys_and_many_are_covered_for_each_engine() {
    for engine in ["rocksdb", "leveldb", "pebble"] {
        for count in [1, 7, 6000] {
            assert_covered(&format!("{count} keys of {engine}"), |fixture| {
                fixture.engine == engine && fixture.count == count
            });
        }
    }
}

#[test]
fn comparators_with_and_without_timestamps_are_covered() {
    for comparator in [
        "leveldb.BytewiseComparator",
        "rocksdb.ReverseBytewiseComparator",
        "leveldb.BytewiseComparator.u64ts",
        "rocksdb.ReverseBytewiseComparator.u64ts",
    ] {
        for is_partitioned in [false, true] {
            assert_covered(comparator, |fixture| {
                fixture.comparator == comparator && fixture.is_partitioned() == is_partitioned
            });
        }
    }
}
