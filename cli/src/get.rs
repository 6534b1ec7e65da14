//! `sstfilter get`: point lookups.

use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;
use sstfilter::KeyHasher;
use sstfilter::sst::{Table, TableSet, TableStats};

use crate::files;
use crate::output::{Outcome, Output, Text, in_options, note};

#[derive(Debug, Serialize)]
struct GetReport {
    lookups: Vec<KeyLookup>,
    found: usize,
    absent: usize,
    tables: usize,
    data_block_reads: u64,
    bytes_read: u64,
}

#[derive(Debug, Serialize)]
struct KeyLookup {
    key: Text,
    found: bool,
    value: Option<Text>,
}

/// The answer is no when any key is absent.
pub(crate) fn run(
    tables: &Path,
    keys: &[OsString],
    secret: Option<&KeyHasher>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let (set, _) = files::open_set(tables, secret)?;
    for problem in set.tables().iter().filter_map(Table::filter_problem) {
        note(&format!("note: reading without a filter: {}", in_options(problem)));
    }
    let lookups: Vec<_> =
        keys.iter().map(|key| look_up(&set, key.as_encoded_bytes())).collect::<anyhow::Result<_>>()?;
    let found = lookups.iter().filter(|lookup| lookup.found).count();
    let absent = lookups.len() - found;
    if output.is_json {
        let TableStats { data_block_reads, bytes_read, .. } = set.stats().tables;
        let tables = set.tables().len();
        output.json(&GetReport { lookups, found, absent, tables, data_block_reads, bytes_read })?;
    } else {
        print(&lookups, output)?;
    }
    Ok(Outcome::from_sound(absent == 0))
}

fn look_up(set: &TableSet, key: &[u8]) -> anyhow::Result<KeyLookup> {
    let value = set.get(key)?.map(|value| Text(value.to_vec()));
    Ok(KeyLookup { key: Text(key.to_vec()), found: value.is_some(), value })
}

/// One key: its value. Many: lines of key and value, as `build` reads them.
fn print(lookups: &[KeyLookup], output: &mut Output<'_>) -> anyhow::Result<()> {
    for lookup in lookups {
        match &lookup.value {
            Some(value) if lookups.len() == 1 => output.raw_line(&value.0)?,
            Some(value) => output.raw_line(&[&lookup.key.0, &b"\t"[..], &value.0].concat())?,
            None => note(&format!("absent: {}", lookup.key)),
        }
    }
    Ok(())
}
