//! `sstfilter get`: point lookups.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use sstfilter::KeyHasher;
use sstfilter_table::{TableSet, TableStats};

use crate::files::{self, TableReading};
use crate::lines::{KeyLines, KeysFormat};
use crate::output::{Outcome, Output, Text, hex, in_options, note};

#[derive(Debug, Args)]
#[command(
    override_usage = "sstfilter get [OPTIONS] <DIR> <KEY>...\n       sstfilter get [OPTIONS] <DIR> --keys <FILE>"
)]
pub(crate) struct GetArgs {
    /// Directory of numbered sstfilter tables (the highest number is the newest), or one table
    #[arg(value_name = "DIR")]
    tables: PathBuf,

    /// Keys to look up
    #[arg(value_name = "KEY", required_unless_present = "from")]
    keys: Vec<OsString>,

    /// Also look up the keys of this file (text after a tab is ignored)
    #[arg(long = "keys", id = "from", value_name = "FILE")]
    from: Option<PathBuf>,
}

impl GetArgs {
    /// Returns the keys of the command line, followed by the keys of the file.
    fn keys(&self, format: KeysFormat) -> anyhow::Result<Vec<Vec<u8>>> {
        let parse = |key: &OsString| {
            format.parse_argument(key).with_context(|| format!("key '{}'", Text(key.as_encoded_bytes().to_vec())))
        };
        let mut keys: Vec<_> = self.keys.iter().map(parse).collect::<anyhow::Result<_>>()?;
        if let Some(path) = &self.from {
            let lines = KeyLines::read(path, format, "--keys")?;
            keys.extend(lines.iter().map(|(key, _)| key.to_vec()));
        }
        Ok(keys)
    }
}

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

/// Looks up the keys. The answer is no if any key is absent.
pub(crate) fn run(
    args: &GetArgs,
    format: KeysFormat,
    secret: Option<&KeyHasher>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    // Before any table is opened, because a malformed key is found at once.
    let keys = args.keys(format)?;
    // Without a range prefix: lookups do not use range filters.
    let (set, _) = files::open_set(&args.tables, TableReading { secret, ..TableReading::default() })?;
    let snapshot = set.snapshot();
    for problem in snapshot.tables(0).filter_map(|table| table.filter_problem()) {
        note(&format!("note: reading without a filter: {}", in_options(&problem)));
    }
    for problem in snapshot.tables(0).filter_map(|table| table.sidecar_problem()) {
        note(&format!("note: reading without a sidecar: {}", in_options(problem)));
    }
    let lookups: Vec<_> = keys.into_iter().map(|key| look_up(&set, key)).collect::<anyhow::Result<_>>()?;
    let found = lookups.iter().filter(|lookup| lookup.found).count();
    let absent = lookups.len() - found;
    if output.is_json {
        let TableStats { data_block_reads, bytes_read, .. } = set.stats();
        let tables = snapshot.tables(0).count();
        output.json(&GetReport { lookups, found, absent, tables, data_block_reads, bytes_read })?;
    } else {
        print(&lookups, format, output)?;
    }
    Ok(Outcome::from_sound(absent == 0))
}

fn look_up(set: &TableSet, key: Vec<u8>) -> anyhow::Result<KeyLookup> {
    let value = set.get(&key)?.map(|value| Text(value.to_vec()));
    Ok(KeyLookup { key: Text(key), found: value.is_some(), value })
}

/// Prints the value of a single key, or lines of key and value, as `build` reads them. Nothing else goes to standard
/// output; an empty value is explained on standard error.
fn print(lookups: &[KeyLookup], format: KeysFormat, output: &mut Output<'_>) -> anyhow::Result<()> {
    // Keys in hexadecimal digits may be any bytes, and so may their values.
    let encode = |text: &Text| if format == KeysFormat::Hex { hex(&text.0).into_bytes() } else { text.0.clone() };
    let shown = |key: &Text| if format == KeysFormat::Hex { hex(&key.0) } else { key.to_string() };
    for KeyLookup { key, value, .. } in lookups {
        match value {
            // The bare value, for scripts; of several, each needs its key.
            Some(value) if lookups.len() == 1 => {
                output.record(&[&encode(value)], format.line_end())?;
                if value.0.is_empty() {
                    note(&format!("present, without a value: {}", shown(key)));
                }
            }
            Some(value) => output.record(&[&encode(key), b"\t", &encode(value)], format.line_end())?,
            None => note(&format!("absent: {}", shown(key))),
        }
    }
    Ok(())
}
