//! Measures false positive rates on absent keys.

use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::survey::{Survey, TableRow};
use crate::advise::tables::ABSENT_SUFFIX;
use crate::input;
use crate::left_out::LeftOut;
use crate::lines::{KeyLines, KeysFormat};
use crate::opened::{self, Reading, for_each_key};
use crate::output::{Column, explained, hex};
use crate::probe::{FileProbes, KeyBatch, probe_files};
use crate::units::{counted, grouped, margin, percent, with_margin};

/// Maximum number of drawn keys. At a rate of 1 % on each of seven levels, they measure it to about a tenth of itself.
const DRAWN_KEYS: usize = 50_000;

/// Maximum bytes of drawn keys, because a key may have megabytes.
const DRAWN_BYTES: usize = 64 << 20;

/// The report warns of a rate that exceeds the expected one by more than this factor, after subtracting its margin.
const HIGH: f64 = 1.2;

/// Keys that no table contains.
pub(super) struct AbsentKeys {
    keys: Vec<Vec<u8>>,
    /// How they were found.
    pub(super) from: String,
    is_drawn: bool,
}

impl AbsentKeys {
    /// Reads absent keys from a file.
    pub(super) fn given(path: &Path, format: KeysFormat) -> anyhow::Result<Self> {
        let lines = KeyLines::read(path, format, "--absent")?;
        let keys: Vec<_> = lines.iter().map(|(key, _)| key.to_vec()).collect();
        let from = format!(
            "the {} of {} (--absent), assumed to be in no table",
            counted(keys.len() as u64, "absent key"),
            input::name(path)
        );
        Ok(Self { keys, from, is_drawn: false })
    }

    /// Makes absent keys from the first keys of each table by adding bytes. Reading all keys would take as long as
    /// `verify`.
    pub(super) fn drawn(survey: &mut Survey, reading: Reading<'_>) -> Self {
        // Filters without a table have no keys to draw from.
        let is_table = |&index: &usize| survey.tables[index].overview.format.ends_with("table");
        let tables: Vec<_> = (0..survey.tables.len()).filter(is_table).collect();
        // The same number from each table, so that every level is measured.
        let most = DRAWN_KEYS.div_ceil(tables.len().max(1));
        let (mut keys, mut unread) = (Vec::new(), Vec::new());
        for index in &tables {
            let path = &survey.paths[*index];
            if let Err(problem) = draw(path, most, DRAWN_BYTES / tables.len(), reading, &mut keys) {
                let left = LeftOut::new(path, &explained(&problem), opened::outcome_of(&problem));
                survey.judge_data(*index, left.outcome, &left.why);
                unread.push(left);
            }
        }
        // Overlapping tables may contain the same key, which counts once.
        keys.sort_unstable();
        keys.dedup();
        let from = drawn_from(keys.len(), most, &unread);
        Self { keys, from, is_drawn: true }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether the keys can measure the rate of a table's filter. Drawn keys cannot measure a filter of prefixes,
    /// because they share their prefix with a stored key.
    fn suit(&self, table: &TableRow) -> bool {
        !(self.is_drawn && table.overview.holds_parts_alone)
    }
}

/// Adds absent keys, made from the first keys of the table at `path`.
fn draw(
    path: &Path,
    max_keys: usize,
    max_bytes: usize,
    reading: Reading<'_>,
    keys: &mut Vec<Vec<u8>>,
) -> anyhow::Result<()> {
    let (first, mut bytes) = (keys.len(), 0);
    for_each_key(path, reading, &mut |key| {
        keys.push([key, &ABSENT_SUFFIX].concat());
        bytes += key.len();
        let is_enough = keys.len() - first >= max_keys || bytes >= max_bytes;
        if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

/// Describes how keys were drawn, up to `most` from each table, and names unread tables.
fn drawn_from(keys: usize, most: usize, unread: &[LeftOut]) -> String {
    let unread = match unread.len() as u64 {
        0 => String::new(),
        count => format!("; the keys of {} could not be read{}", counted(count, "table"), LeftOut::first(unread)),
    };
    match keys {
        0 => format!("no absent keys: none could be made from stored keys{unread}; pass some with --absent"),
        _ => format!(
            "{} made from stored keys: up to {} of each table, from its smallest key on, with two bytes ({}) \
             added{unread}",
            counted(keys as u64, "absent key"),
            grouped(most as u64),
            hex(&ABSENT_SUFFIX)
        ),
    }
}

/// The false positive rate of one kind of filter on one level.
#[derive(Debug, Default, Serialize)]
pub(super) struct Rate {
    pub(super) level: Option<u32>,
    pub(super) filter: String,
    tables: usize,
    /// Probes for absent keys between the smallest and the largest key of each table.
    probes: u64,
    positives: u64,
    pub(super) observed_fpr: f64,
    observed_fpr_margin: f64,
    /// Mean over the probes; null if the rate of some filter cannot be computed.
    pub(super) expected_fpr: Option<f64>,
}

/// Note on the measured rates.
pub(super) const ABOUT: &str =
    "Margins are those of 95 % and assume independent probes; keys made from stored keys may be correlated.";

/// Columns of rates in text and on the page.
pub(super) const COLUMNS: [Column<Rate>; 7] = [
    ("level", |rate| rate.level.map_or_else(|| "unknown".to_owned(), |level| level.to_string())),
    ("filter", |rate| rate.filter.clone()),
    ("tables", |rate| grouped(rate.tables as u64)),
    ("probes", |rate| grouped(rate.probes)),
    ("positives", |rate| grouped(rate.positives)),
    ("measured", Rate::measured),
    ("expected", |rate| rate.expected_fpr.map_or_else(super::levels::unknown, percent)),
];

/// Probes all tables for the keys between their smallest and largest, and records the answers. Filters that cannot be
/// used, or not for such keys, have no rate.
pub(super) fn measure(survey: &mut Survey, absent: &AbsentKeys, reading: Reading<'_>) -> Vec<Rate> {
    if absent.keys.is_empty() {
        return Vec::new();
    }
    let keys = KeyBatch::new(absent.keys.iter().map(Vec::as_slice).collect());
    let probed = probe_files(&survey.paths, &keys, reading);
    let mut rates: BTreeMap<(Option<u32>, String), Rate> = BTreeMap::new();
    for (index, probes) in probed.iter().enumerate() {
        // The problem of a sidecar is known, and is not the table's.
        if let (Some(problem), None) = (&probes.problem, &probes.sidecar_problem) {
            survey.judge(index, probes.outcome, problem);
        }
        let table = &mut survey.tables[index];
        table.touched = probes.positives + probes.keys_not_probed;
        table.unfiltered = probes.positives_unanswered();
        // A filter with a problem is positive for every key, which is no rate of its own.
        if probes.problem.is_none() && absent.suit(table) {
            table.observed_rate = probes.observed_rate;
            let (level, filter) = (table.overview.level, &table.overview.filter);
            let rate = rates.entry((level, filter.clone())).or_insert_with(|| Rate::of(level, filter));
            rate.add(probes);
        }
    }
    // Without probes, the rate would be NaN.
    rates.into_values().filter(|rate| rate.probes > 0).map(Rate::finished).collect()
}

impl Rate {
    fn of(level: Option<u32>, filter: &str) -> Self {
        Self { level, filter: filter.to_owned(), expected_fpr: Some(0.0), ..Self::default() }
    }

    fn add(&mut self, probes: &FileProbes) {
        self.tables += 1;
        self.probes += probes.keys_probed();
        self.positives += probes.positives;
        // A sum until `finished` divides it.
        let sum = self.expected_fpr.zip(probes.expected_rate);
        self.expected_fpr = sum.map(|(sum, rate)| sum + rate * probes.keys_probed() as f64);
    }

    fn finished(self) -> Self {
        let probes = self.probes as f64;
        Self {
            observed_fpr: self.positives as f64 / probes,
            observed_fpr_margin: margin(self.positives, self.probes),
            expected_fpr: self.expected_fpr.map(|sum| sum / probes),
            ..self
        }
    }

    pub(super) fn measured(&self) -> String {
        with_margin(self.observed_fpr, self.observed_fpr_margin)
    }

    /// Whether the observed rate is clearly above the expected one.
    pub(super) fn is_high(&self) -> bool {
        self.expected_fpr.is_some_and(|expected| self.observed_fpr - self.observed_fpr_margin > HIGH * expected)
    }

    pub(super) fn name(&self) -> String {
        match self.level {
            Some(level) => format!("level {level}, {}", self.filter),
            None => self.filter.clone(),
        }
    }

    pub(super) fn warning(&self) -> String {
        let expected = percent(self.expected_fpr.unwrap_or_default());
        format!("More false positives than expected ({}): {} instead of {expected}.", self.name(), self.measured())
    }
}
