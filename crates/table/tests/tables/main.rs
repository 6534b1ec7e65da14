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

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter_table::{Lookup, Table, TableBuilder, TableOptions, TablePart, TableSet, TableSnapshot, TableSummary};

mod block_cache;
mod caller_panics;
mod callers;
mod corruption;
mod damage;
mod errors;
mod key_parts;
mod kinds;
mod matrix;
mod partitions;
mod prefix_scan;
mod ranges;
mod reports;
mod roundtrip;
mod salvage;
mod secret_seed;
mod sidecar;
mod skipped_reads;
mod snapshots;
mod sources;
mod threads;

/// Values by key; `None` is a tombstone.
type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Returns entries of these keys, all with the same value.
fn of_keys(keys: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Entries {
    keys.into_iter().map(|key| (key.into(), Some(b"value".to_vec()))).collect()
}

/// Builds a table in memory.
fn built(entries: &Entries, options: &TableOptions) -> (Bytes, TableSummary) {
    let mut builder = TableBuilder::new(Vec::new(), options).unwrap();
    for (key, value) in entries {
        match value {
            Some(value) => builder.add(key, value).unwrap(),
            None => builder.delete(key).unwrap(),
        }
    }
    let (bytes, summary) = builder.finish().unwrap();
    (bytes.into(), summary)
}

fn bytes_of(entries: &Entries, options: &TableOptions) -> Bytes {
    built(entries, options).0
}

fn open(bytes: &Bytes, options: &TableOptions) -> Table {
    Table::open_source(bytes.clone(), options).unwrap()
}

/// Returns the range of a part of the table.
fn region(bytes: &Bytes, part: TablePart) -> Option<Range<usize>> {
    let Range { start, end } = open(bytes, &TableOptions::default()).region(part)?;
    Some(usize::try_from(start).unwrap()..usize::try_from(end).unwrap())
}

/// Encodes numbers as keys of the same order.
fn key(number: u32) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// Asserts that lookups find these entries, and nothing right behind them.
fn assert_holds(table: &Table, entries: &Entries, what: &str) {
    for (key, value) in entries {
        let expected = value.clone().map_or(Lookup::Deleted, |value| Lookup::Found(value.into()));
        assert_eq!(table.get(key).unwrap(), expected, "{what}: {}", key.escape_ascii());
        let behind = [key, &b"!"[..]].concat();
        assert_eq!(table.get(&behind).unwrap(), Lookup::Absent, "{what}: behind {}", key.escape_ascii());
    }
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
