//! `sstfilter scan`: the entries of a range, and the tables that were skipped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use sstfilter::KeyRange;
use sstfilter_table::Table;

use crate::lines::KeysFormat;
use crate::opened::Reading;
use crate::output::{Outcome, Output, Text, hex, in_options, note};
use crate::probe::{Ends, SkippedBy};
use crate::units::{counted, grouped};
use crate::{files, input};

#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    /// Directory of numbered sstfilter tables (the highest number is the newest), or one table
    #[arg(value_name = "DIR")]
    tables: PathBuf,

    /// Lower end of the range, inclusive
    lower: OsString,

    /// Upper end of the range, exclusive
    upper: OsString,
}

#[derive(Debug, Serialize)]
struct ScanReport {
    entries: Vec<Entry>,
    count: usize,
    tables: usize,
    /// Tables whose smallest and largest key exclude the range.
    skipped_by_keys: usize,
    skipped_by_range_filter: usize,
    data_block_reads: u64,
    per_table: Vec<TableRead>,
}

#[derive(Debug, Serialize)]
struct Entry {
    key: Text,
    value: Text,
}

#[derive(Debug, Serialize)]
struct TableRead {
    path: String,
    skipped_by: Option<SkippedBy>,
    data_block_reads: u64,
}

/// Scans the range. The answer is no if it contains no entry.
pub(crate) fn run(
    args: &ScanArgs,
    format: KeysFormat,
    reading: Reading<'_>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let ends = Ends::parse("LOWER UPPER", [&args.lower, &args.upper], format)?;
    let (set, paths) = files::open_set(&args.tables, reading.of_tables())?;
    let set = set.snapshot();
    for problem in set.tables(0).filter_map(|table| table.range_filter_problem()) {
        note(&format!("note: reading without a range filter: {}", in_options(&problem)));
    }
    let mut entries = Vec::new();
    // Collected before anything is printed: an error must not follow half of the entries.
    for entry in set.range(ends.range()) {
        let (key, value) = entry?;
        entries.push(Entry { key: Text(key.to_vec()), value: Text(value.to_vec()) });
    }
    // After the scan, whose counters show what was read.
    let read = |(table, path): (&Arc<Table>, &PathBuf)| TableRead::new(table, path, ends.range());
    let per_table: Vec<_> = set.tables(0).zip(&paths).map(read).collect();
    let skipped = |by| per_table.iter().filter(|table| table.skipped_by == Some(by)).count();
    let report = ScanReport {
        count: entries.len(),
        entries,
        tables: per_table.len(),
        skipped_by_keys: skipped(SkippedBy::Keys),
        skipped_by_range_filter: skipped(SkippedBy::RangeFilter),
        data_block_reads: set.stats().data_block_reads,
        per_table,
    };
    let outcome = Outcome::from_sound(report.count > 0);
    if output.is_json {
        output.json(&report)?;
    } else {
        report.print(format, output)?;
    }
    Ok(outcome)
}

impl TableRead {
    /// Describes a table after a scan of `range`, which must be its first read.
    fn new(table: &Table, path: &Path, range: KeyRange<'_>) -> Self {
        let may_contain_range = table.filters().may_contain_range(range);
        let stats = table.stats();
        let skipped_by = if stats.data_block_reads > 0 || may_contain_range {
            None
        } else if stats.filters.ranges.negatives > 0 {
            Some(SkippedBy::RangeFilter)
        } else {
            Some(SkippedBy::Keys)
        };
        Self { path: input::name(path).into_owned(), skipped_by, data_block_reads: stats.data_block_reads }
    }
}

impl ScanReport {
    /// Prints lines of key and value, as `build` reads them, and a summary of the reads on standard error.
    fn print(&self, format: KeysFormat, output: &mut Output<'_>) -> anyhow::Result<()> {
        let encode = |text: &Text| if format == KeysFormat::Hex { hex(&text.0).into_bytes() } else { text.0.clone() };
        for Entry { key, value } in &self.entries {
            output.record(&[&encode(key), b"\t", &encode(value)], format.line_end())?;
        }
        note(&format!(
            "{} from {}: {} skipped by their smallest and largest keys, {} by their range filters; {} read",
            counted(self.count as u64, "key"),
            counted(self.tables as u64, "table"),
            grouped(self.skipped_by_keys as u64),
            grouped(self.skipped_by_range_filter as u64),
            counted(self.data_block_reads, "data block"),
        ));
        Ok(())
    }
}
