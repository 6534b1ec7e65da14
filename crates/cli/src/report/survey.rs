//! Examines each table of a store: its filter, and the cost of that filter.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::chart::NamedFilter;
use crate::advise::tables::{TableFilter, filter_of};
use crate::files::Found;
use crate::input;
use crate::inspect::{Damage, Overview, State, look_over};
use crate::left_out::LeftOut;
use crate::opened::Reading;
use crate::output::Outcome;
use crate::progress::Progress;

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
    /// Those of them that it would be read for because its filter is missing or cannot be used.
    #[serde(skip)]
    pub(super) unfiltered: u64,
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
    /// Sidecars without their tables.
    pub(super) orphans: Vec<String>,
    pub(super) skipped: Vec<String>,
}

impl Survey {
    pub(super) fn new(paths: &[PathBuf], reading: Reading<'_>) -> anyhow::Result<Self> {
        let found = Found::of(paths)?;
        found.ensure_files()?;
        let orphans = found.orphans.iter().map(|orphan| input::name(orphan).into_owned()).collect();
        let mut survey = Self { orphans, skipped: found.skipped, ..Self::default() };
        let mut progress = Progress::new("looking at filters", found.files.len() as u64);
        for path in found.files {
            // A problem with one table must not end the survey.
            survey.add(&path, reading);
            survey.paths.push(path);
            progress.step();
        }
        survey.left_out.extend(found.orphans.iter().map(|orphan| LeftOut::orphan(orphan)));
        Ok(survey)
    }

    fn add(&mut self, path: &Path, reading: Reading<'_>) {
        let (bytes, overview) = look_over(path, reading);
        let path_name = input::name(path).into_owned();
        let found = filter_of(path, reading, &mut self.left_out).map_err(|why| why.leave_out(path));
        let table =
            TableRow { path: path_name.clone(), bytes, overview, observed_rate: None, touched: 0, unfiltered: 0 };
        self.tables.push(table);
        let last = self.tables.len() - 1;
        match found {
            Ok(filter) => {
                self.tables[last].overview.add_figures(&filter);
                self.filters.push((path_name, filter));
            }
            Err(left) => {
                self.judge(last, left.outcome, &left.why);
                self.left_out.push(left);
            }
        }
    }

    /// Marks the table at `index` as damaged or unread, unless its state is already as bad.
    pub(super) fn judge(&mut self, index: usize, outcome: Outcome, why: &str) {
        let (Some(table), Some(state)) = (self.tables.get_mut(index), State::of(outcome)) else { return };
        if table.overview.state < state {
            table.overview.worsen(state, why);
        }
    }

    /// Like [`judge`](Self::judge), for a table whose keys cannot be read.
    pub(super) fn judge_data(&mut self, index: usize, outcome: Outcome, why: &str) {
        let (Some(table), Some(state)) = (self.tables.get_mut(index), State::of(outcome)) else { return };
        // The damage of a table that cannot be opened is known.
        if table.overview.beyond_filters == Damage::None {
            table.overview.worsen(state, why);
            if outcome == Outcome::No {
                table.overview.beyond_filters = Damage::Data;
            }
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.tables.iter().map(|table| table.overview.state.outcome()).max().unwrap_or(Outcome::Yes)
    }
}

impl Overview {
    fn worsen(&mut self, state: State, why: &str) {
        *self = core::mem::take(self).with_remark(state, Some(why.to_owned()));
    }

    /// Adds counted and measured figures if the table does not record them.
    fn add_figures(&mut self, filter: &TableFilter) {
        if self.keys.is_none() {
            self.keys = Some(filter.keys);
            self.bits_per_key = Some(filter.bits_per_key());
            self.expected_fpr = self.expected_fpr.or(Some(filter.expected_fpr));
        }
    }
}
