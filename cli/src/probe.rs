//! `sstfilter probe`: the filters alone; index and data are not read.

use core::fmt;
use std::path::Path;

use serde::Serialize;
use sstfilter::KeyHasher;
use sstfilter::sst::{Table, TableSet};

use crate::lines::KeyLines;
use crate::output::{Column, Outcome, Output, figures, in_options};
use crate::progress::Progress;
use crate::{files, tables, units};

#[derive(Debug, Serialize)]
struct ProbeReport {
    keys: u64,
    tables: usize,
    /// Keys that no table may hold.
    keys_touching_none: u64,
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
    tables: &Path,
    keys: &Path,
    secret: Option<&KeyHasher>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let paths = files::tables_newest_first(tables)?;
    let set = tables::open_set(tables, secret)?;
    let lines = KeyLines::read(keys, "--keys")?;
    let (positives, per_key) = probe_all(set.tables(), &hasher_of(&set, secret), &lines);
    let per_table = paths.iter().zip(set.tables()).zip(positives);
    let per_table = per_table.map(|((path, table), positives)| TableProbes::new(path, table, positives, per_key.keys));
    output.report(&ProbeReport::new(per_table.collect(), &per_key))?;
    Ok(Outcome::Yes)
}

/// What all filters of the set that can be used are probed with.
fn hasher_of(set: &TableSet, secret: Option<&KeyHasher>) -> KeyHasher {
    let described = || KeyHasher::from_identity(set.tables().first()?.hash_identity());
    secret.cloned().or_else(described).unwrap_or_default()
}

/// How many keys each table's filter is positive for, and how many tables each key touches. Key ranges are ignored:
/// the rates are those of the filters.
fn probe_all(tables: &[Table], hasher: &KeyHasher, keys: &KeyLines) -> (Vec<u64>, PerKey) {
    let mut positives = vec![0_u64; tables.len()];
    let mut per_key = PerKey { min: u64::MAX, ..PerKey::default() };
    let mut progress = Progress::new("probing filters", keys.len() as u64);
    for (key, _) in keys.iter() {
        let hash = hasher.hash(key);
        let mut touched = 0;
        for (table, positives) in tables.iter().zip(&mut positives) {
            let is_absent = table.filter().is_some_and(|filter| filter.probe(hash).is_absent());
            touched += u64::from(!is_absent);
            *positives += u64::from(!is_absent);
        }
        per_key.count(touched);
        progress.step();
    }
    (positives, per_key)
}

/// How many tables the keys touch.
#[derive(Debug, Default)]
struct PerKey {
    keys: u64,
    none: u64,
    min: u64,
    max: u64,
    total: u64,
}

impl PerKey {
    fn count(&mut self, touched: u64) {
        self.keys += 1;
        self.none += u64::from(touched == 0);
        self.min = self.min.min(touched);
        self.max = self.max.max(touched);
        self.total += touched;
    }
}

impl TableProbes {
    fn new(path: &Path, table: &Table, positives: u64, keys: u64) -> Self {
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
    fn new(per_table: Vec<TableProbes>, per_key: &PerKey) -> Self {
        let expected: f64 = per_table.iter().map(|table| table.expected_rate).sum();
        let tables = per_table.len();
        let mean = per_key.total as f64 / per_key.keys as f64;
        Self {
            keys: per_key.keys,
            tables,
            keys_touching_none: per_key.none,
            min_tables_per_key: per_key.min,
            mean_tables_per_key: mean,
            max_tables_per_key: per_key.max,
            expected_tables_per_key: expected,
            positives: per_key.total,
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
            ("table", |table| file_name(&table.path)),
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
        let (keys, tables) = (units::counted(self.keys, "key"), units::counted(self.tables as u64, "table"));
        writeln!(f, "{keys} over {tables}")?;
        writeln!(
            f,
            "tables touched per key: {:.3} on average ({} to {}); {:.3} expected if all keys are absent",
            self.mean_tables_per_key, self.min_tables_per_key, self.max_tables_per_key, self.expected_tables_per_key,
        )?;
        writeln!(f, "keys certainly in no table: {}", units::grouped(self.keys_touching_none))
    }
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}
