//! Tables and sets of tables: entries survive the round trip, damage is found, filters save reads.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../../../../tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../../../store/tests/common/container.rs"]
mod container;

#[allow(dead_code, reason = "other test programs use the rest")]
#[expect(clippy::big_endian_bytes, reason = "keys of numbers, in the order of the numbers")]
#[path = "../../../store/tests/store/engine.rs"]
mod engine;

use std::sync::Arc;

use sstfilter_table::{Table, TableBuilder, TableOptions, TableSet, TableSnapshot, TableSummary};

mod block_cache;
mod caller_panics;
#[path = "../format/cases.rs"]
mod cases;
mod corruption;
mod damage;
mod errors;
mod flipped_bits;
mod key_parts;
mod kinds;
mod matrix;
mod model;
mod partitions;
mod prefix_lookup;
mod prefix_scan;
mod ranges;
mod reports;
mod roundtrip;
mod salvage;
mod same_as_an_engine;
mod secret_seed;
mod set;
mod sidecar;
mod sidecar_partitions;
mod skipped_reads;
mod snapshots;
mod threads;
mod writer_faults;

/// Builds a table of these keys, each with its value or a tombstone.
fn built<'a, V: AsRef<[u8]> + 'a>(
    entries: impl IntoIterator<Item = (&'a Vec<u8>, &'a Option<V>)>,
    options: &TableOptions,
) -> (Vec<u8>, TableSummary) {
    let mut builder = TableBuilder::new(Vec::new(), options).unwrap();
    for (key, value) in entries {
        match value {
            Some(value) => builder.add(key, value.as_ref()).unwrap(),
            None => builder.delete(key).unwrap(),
        }
    }
    builder.finish().unwrap()
}

/// Returns a set of tables, which are listed from the newest to the oldest.
fn set_of(tables: Vec<Table>) -> TableSet {
    TableSet::new((0..).zip(tables.into_iter().rev())).unwrap()
}

/// Returns the positions of the tables that may contain `key`.
fn matches_of(set: &TableSet, key: &[u8]) -> Vec<usize> {
    let tables = set.snapshot();
    let mut candidates = tables.view().candidates(key);
    positions_of(&tables, std::iter::from_fn(|| candidates.next_file()))
}

/// Returns the positions of the tables that may contain a key with this prefix.
fn prefix_matches_of(set: &TableSet, prefix: &[u8]) -> Vec<usize> {
    let tables = set.snapshot();
    positions_of(&tables, tables.view().candidates_by_prefix(prefix).map(|candidate| candidate.file))
}

/// Returns the positions of the tables that may contain each of `keys`, from one batch lookup.
fn batch_matches_of(set: &TableSet, keys: &[&[u8]]) -> Vec<Vec<usize>> {
    let tables = set.snapshot();
    let mut found = vec![Vec::new(); keys.len()];
    let mut candidates = tables.view().candidates_of_each(keys);
    loop {
        let next = candidates.next_files();
        if next.is_empty() {
            return found.into_iter().map(|files| positions_of(&tables, files.into_iter())).collect();
        }
        next.iter().for_each(|&(key, table)| found[key].push(table));
    }
}

/// Returns all tables of the set, newest first.
fn tables_of(set: &TableSet) -> Vec<Arc<Table>> {
    set.snapshot().all_tables().cloned().collect()
}

/// Returns the positions of these tables among all.
fn positions_of<'a>(tables: &TableSnapshot, found: impl Iterator<Item = &'a Arc<Table>>) -> Vec<usize> {
    let position = |table| tables.all_tables().position(|other| Arc::ptr_eq(other, table));
    found.map(|table| position(table).unwrap()).collect()
}
