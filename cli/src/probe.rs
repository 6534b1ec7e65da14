//! `sstfilter probe`: the filters alone; index and data are not read.

use core::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use sstfilter::KeyHasher;
use sstfilter::sst::Table;

use crate::lines::{KeyLines, KeysFormat};
use crate::output::{Column, Outcome, figures, in_options};
use crate::progress::Progress;
use crate::{files, units};

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// A directory of numbered tables, or one table
    #[arg(value_name = "DIR")]
    tables: PathBuf,

    /// Keys to probe for (text after a tab is ignored)
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
}

#[derive(Debug, Serialize)]
pub(crate) struct ProbeReport {
    keys: usize,
    tables: usize,
    /// Keys that no table may hold.
    keys_touching_none: usize,
    min_tables_per_key: u64,
    mean_tables_per_key: f64,
    max_tables_per_key: u64,
    /// If all keys are absent.
    expected_tables_per_key: f64,
    positives: u64,
    /// Positives over probes: the false positive rate if all keys are absent.
    observed_rate: f64,
    expected_rate: f64,
    unusable_filters: usize,
    per_table: Vec<TableProbes>,
}

#[derive(Debug, Serialize)]
struct TableProbes {
    path: String,
    filter: String,
    keys_in_table: u64,
    positives: u64,
    observed_rate: f64,
    expected_rate: f64,
    /// Why every key counts as a positive: there is no filter, or it cannot be used.
    problem: Option<String>,
}

pub(crate) fn run(
    args: &ProbeArgs,
    format: KeysFormat,
    secret: Option<&KeyHasher>,
) -> anyhow::Result<(Outcome, ProbeReport)> {
    let (set, paths) = files::open_set(&args.tables, secret)?;
    let lines = KeyLines::read(&args.keys, format, "--keys")?;
    // What all filters of the set that can be used are probed with.
    let described = || KeyHasher::from_identity(set.tables().first()?.hash_identity());
    let hasher = secret.cloned().or_else(described).unwrap_or_default();
    let (positives, touched) = probe_all(set.tables(), &hasher, &lines);
    let per_table = paths.iter().zip(set.tables()).zip(positives);
    let per_table = per_table.map(|((path, table), positives)| TableProbes::new(path, table, positives, lines.len()));
    Ok((Outcome::Yes, ProbeReport::new(per_table.collect(), &touched)))
}

/// How many keys each table's filter is positive for, and how many tables each key touches. Key ranges are ignored:
/// the rates are those of the filters.
fn probe_all(tables: &[Table], hasher: &KeyHasher, keys: &KeyLines) -> (Vec<u64>, Vec<u64>) {
    let (mut positives, mut touched) = (vec![0; tables.len()], Vec::with_capacity(keys.len()));
    let mut progress = Progress::new("probing filters", keys.len() as u64);
    for (key, _) in keys.iter() {
        let hash = hasher.hash(key);
        let mut count = 0;
        for (table, positives) in tables.iter().zip(&mut positives) {
            let is_absent = table.filter().is_some_and(|filter| filter.probe(hash).is_absent());
            count += u64::from(!is_absent);
            *positives += u64::from(!is_absent);
        }
        touched.push(count);
        progress.step();
    }
    (positives, touched)
}

impl TableProbes {
    fn new(path: &Path, table: &Table, positives: u64, keys: usize) -> Self {
        let (filter, expected_rate, problem) = match table.filter().map(sstfilter::FilterReader::block) {
            None => ("none".to_owned(), 1.0, Some("the table has no filter".to_owned())),
            Some(Err(problem)) => ("unusable".to_owned(), 1.0, Some(in_options(problem))),
            Some(Ok(block)) => (block.info().kind.to_string(), block.info().expected_fpr, None),
        };
        let observed_rate = positives as f64 / keys as f64;
        let keys_in_table = table.properties().entries;
        let path = path.display().to_string();
        Self { path, filter, keys_in_table, positives, observed_rate, expected_rate, problem }
    }
}

impl ProbeReport {
    /// `touched` is how many tables each key touches.
    fn new(per_table: Vec<TableProbes>, touched: &[u64]) -> Self {
        let expected: f64 = per_table.iter().map(|table| table.expected_rate).sum();
        let tables = per_table.len();
        let positives = touched.iter().sum();
        let mean = positives as f64 / touched.len() as f64;
        Self {
            keys: touched.len(),
            tables,
            keys_touching_none: touched.iter().filter(|&&tables| tables == 0).count(),
            min_tables_per_key: touched.iter().min().copied().unwrap_or_default(),
            mean_tables_per_key: mean,
            max_tables_per_key: touched.iter().max().copied().unwrap_or_default(),
            expected_tables_per_key: expected,
            positives,
            observed_rate: mean / tables as f64,
            expected_rate: expected / tables as f64,
            unusable_filters: per_table.iter().filter(|table| table.problem.is_some()).count(),
            per_table,
        }
    }
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: [Column<TableProbes>; 6] = [
            ("table", |table| Path::new(&table.path).file_name().unwrap_or_default().to_string_lossy().into_owned()),
            ("filter", |table| table.filter.clone()),
            ("keys in table", |table| units::grouped(table.keys_in_table)),
            ("positives", |table| units::grouped(table.positives)),
            ("rate", |table| units::percent(table.observed_rate)),
            ("expected if absent", |table| units::percent(table.expected_rate)),
        ];
        writeln!(f, "{}", figures(&columns, &self.per_table))?;
        for table in &self.per_table {
            if let Some(problem) = &table.problem {
                writeln!(f, "{}: positive for every key: {problem}", table.path)?;
            }
        }
        let (keys, tables) = (units::counted(self.keys as u64, "key"), units::counted(self.tables as u64, "table"));
        writeln!(f, "{keys} over {tables}")?;
        writeln!(
            f,
            "tables touched per key: {:.3} on average ({} to {}); {:.3} expected if all keys are absent",
            self.mean_tables_per_key, self.min_tables_per_key, self.max_tables_per_key, self.expected_tables_per_key,
        )?;
        writeln!(f, "keys certainly in no table: {}", units::grouped(self.keys_touching_none as u64))
    }
}
