//! Examines each table of a store: its filter, and the cost of that filter.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::advise::chart::NamedFilter;
use crate::advise::tables::{TableFilter, filter_of};
use crate::inspect::{Overview, State, look_over};
use crate::left_out::LeftOut;
use crate::opened::Reading;
use crate::output::Outcome;
use crate::progress::Progress;
use crate::{files, input};

/// A table, and its filter's answers for absent keys.
#[derive(Debug, Serialize)]
pub(super) struct TableRow {
    pub(super) path: String,
    pub(super) bytes: u64,
    #[serde(flatten)]
    pub(super) overview: Overview,
    /// Null if its filter was not probed.
    pub(super) observed_rate: Option<f64>,
    /// Absent keys between its smallest and its largest key for which the table would be read.
    #[serde(skip)]
    pub(super) touched: u64,
}

/// All tables of a store.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) paths: Vec<PathBuf>,
    /// One row for each path.
    pub(super) tables: Vec<TableRow>,
    /// Filters whose cost is known.
    pub(super) filters: Vec<NamedFilter>,
    /// Tables whose filter's cost is unknown.
    pub(super) left_out: Vec<LeftOut>,
    pub(super) skipped: Vec<String>,
    pub(super) outcome: Outcome,
}

impl Survey {
    pub(super) fn new(paths: &[PathBuf], reading: Reading<'_>) -> anyhow::Result<Self> {
        let mut skipped = Vec::new();
        let found = files::expand_all(paths, &mut skipped)?;
        let mut survey = Self { skipped, ..Self::default() };
        let mut progress = Progress::new("looking at filters", found.len() as u64);
        for path in found {
            // A problem with one table must not end the survey.
            survey.add(&path, reading);
            survey.paths.push(path);
            progress.step();
        }
        Ok(survey)
    }

    fn add(&mut self, path: &Path, reading: Reading<'_>) {
        let (bytes, outcome, overview) = look_over(path, reading);
        self.outcome = self.outcome.max(outcome);
        let path_name = input::name(path).into_owned();
        let mut table = TableRow { path: path_name.clone(), bytes, overview, observed_rate: None, touched: 0 };
        match filter_of(path, reading).map_err(|why| why.leave_out(path)) {
            Ok(filter) => {
                table.overview.add_figures(&filter);
                self.filters.push((path_name, filter));
                self.tables.push(table);
            }
            Err(left) => {
                self.tables.push(table);
                self.judge(self.tables.len() - 1, left.outcome, &left.why);
                self.left_out.push(left);
            }
        }
    }

    /// Marks the table at `index` as damaged or unread, unless its state is already bad.
    pub(super) fn judge(&mut self, index: usize, outcome: Outcome, why: &str) {
        self.outcome = self.outcome.max(outcome);
        let Some(table) = self.tables.get_mut(index).filter(|table| !table.overview.state.is_bad()) else { return };
        if let Some(state) = State::of(outcome) {
            (table.overview.state, table.overview.remark) = (state, Some(why.to_owned()));
        }
    }
}

impl Overview {
    /// Adds counted and measured figures if the table does not record them.
    fn add_figures(&mut self, filter: &TableFilter) {
        if self.keys.is_none() {
            self.keys = Some(filter.keys);
            self.bits_per_key = Some(filter.bits_per_key());
            self.expected_fpr = self.expected_fpr.or(Some(filter.expected_fpr));
        }
    }
}
