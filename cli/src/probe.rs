//! `sstfilter probe`: the filters alone, without a look at index or data.

use core::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter::{KeyHasher, PreparedKey, Table, TableSet};

use crate::args::ProbeArgs;
use crate::lines::KeyLines;
use crate::output::{Outcome, Output, figures};
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

pub(crate) fn run(args: &ProbeArgs, secret: Option<&KeyHasher>, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let paths = files::tables_newest_first(&args.tables)?;
    let set = tables::open_set(&args.tables, secret)?;
    let text = fs::read(&args.keys).with_context(|| format!("cannot read {}", args.keys.display()))?;
    let keys = KeyLines::parse(text);
    ensure!(keys.len() > 0, "{} holds no key: expected one per line", args.keys.display());
    let (positives, per_key) = probe_all(set.tables(), &hasher_of(&set, secret), &keys);
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

/// How many keys each table's filter lets through, and how many tables each key touches. Ranges have no say: the
/// rates are those of the filters.
fn probe_all(tables: &[Table], hasher: &KeyHasher, keys: &KeyLines) -> (Vec<u64>, PerKey) {
    let mut positives = vec![0_u64; tables.len()];
    let mut per_key = PerKey::default();
    let mut progress = Progress::new("probing filters", keys.len() as u64);
    for (key, _) in keys.iter() {
        let mut prepared = PreparedKey::new(hasher.hash(key));
        let mut touched = 0;
        for (table, positives) in tables.iter().zip(&mut positives) {
            let is_absent = table.filter().is_some_and(|filter| filter.probe_prepared(&mut prepared).is_absent());
            let maybe = u64::from(!is_absent);
            touched += maybe;
            *positives += maybe;
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
    min: Option<u64>,
    max: u64,
    total: u64,
}

impl PerKey {
    fn count(&mut self, touched: u64) {
        self.keys += 1;
        self.none += u64::from(touched == 0);
        self.min = Some(self.min.map_or(touched, |min| min.min(touched)));
        self.max = self.max.max(touched);
        self.total += touched;
    }
}

impl TableProbes {
    fn new(path: &Path, table: &Table, positives: u64, keys: u64) -> Self {
        let (filter, expected_rate, problem) = match table.filter().map(sstfilter::GuardedFilter::block) {
            None => ("none".to_owned(), 1.0, Some("the table has no filter".to_owned())),
            Some(Err(problem)) => ("unusable".to_owned(), 1.0, Some(problem.to_string())),
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
            min_tables_per_key: per_key.min.unwrap_or(0),
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
        let mut rows = figures(["table", "filter", "keys in table", "keys let through", "rate", "expected if absent"]);
        for table in &self.per_table {
            rows.add_row([
                file_name(&table.path),
                table.filter.clone(),
                units::grouped(table.keys_in_table),
                units::grouped(table.positives),
                units::percent(table.observed_rate),
                units::percent(table.expected_rate),
            ]);
        }
        writeln!(f, "{rows}")?;
        for table in &self.per_table {
            if let Some(problem) = &table.problem {
                writeln!(f, "{}: every key is let through: {problem}", table.path)?;
            }
        }
        let (keys, tables) = (units::counted(self.keys, "key"), units::counted(self.tables as u64, "table"));
        writeln!(f, "{keys} over {tables}")?;
        writeln!(
            f,
            "tables touched per key: {:.3} on average ({} to {}); {:.3} expected if all keys are absent",
            self.mean_tables_per_key, self.min_tables_per_key, self.max_tables_per_key, self.expected_tables_per_key,
        )?;
        writeln!(f, "keys in no table for certain: {}", units::grouped(self.keys_touching_none))
    }
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}
