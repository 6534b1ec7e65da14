//! Tables that need a look, and the commands to run first.

use core::cmp::Reverse;
use std::path::Path;

use serde::Serialize;
use sstfilter_store::sidecar_path;

use super::survey::{Survey, TableRow};
use crate::groups::{self, without_path};
use crate::inspect::{Damage, Overview, State};
use crate::output::shell_word;
use crate::replace::Replaces;
use crate::units::grouped;

/// A table with a state or a remark.
#[derive(Debug, Serialize)]
pub(super) struct Remark {
    pub(super) path: String,
    pub(super) level: Option<u32>,
    pub(super) format: String,
    pub(super) state: State,
    pub(super) reason: String,
    /// How to fix it.
    pub(super) advice: &'static str,
    pub(super) commands: Vec<String>,
    /// The path as a word of a command.
    #[serde(skip)]
    word: String,
    #[serde(skip)]
    steps: &'static [Step],
}

/// A command that helps.
#[derive(Debug)]
struct Step {
    command: &'static str,
    /// Follows the paths.
    option: &'static str,
    max_tables: usize,
}

/// Maximum number of tables in a command for several.
const MAX_TABLES: usize = 10;

const INSPECT: Step = Step { command: "inspect", option: "", max_tables: MAX_TABLES };
const VERIFY: Step = Step { command: "verify", option: "", max_tables: MAX_TABLES };
const REBUILD: Step = Step { command: "rebuild", option: "", max_tables: MAX_TABLES };
const SALVAGE: Step = Step { command: "dump", option: " --salvage", max_tables: 1 };

impl Step {
    /// Returns the command line for the first of these tables, with a shell comment if there are more.
    fn line<'a>(&self, options: &str, words: impl ExactSizeIterator<Item = &'a str>) -> String {
        let Self { command, option, max_tables } = self;
        let more = match words.len() {
            count if count > *max_tables => format!("  # the first {max_tables} of {}", grouped(count as u64)),
            _ => String::new(),
        };
        let words: Vec<_> = words.take(*max_tables).collect();
        format!("sstfilter {command}{options} {}{option}{more}", words.join(" "))
    }
}

/// Returns the remarks on all tables, the worst first. `options` are the command line options for reading tables.
pub(super) fn of_all(survey: &Survey, options: &str) -> Vec<Remark> {
    let tables = survey.paths.iter().zip(&survey.tables);
    let tables =
        tables.filter(|(_, TableRow { overview, .. })| overview.state != State::Ok || overview.remark.is_some());
    let mut remarks: Vec<_> = tables.map(|(path, table)| Remark::new(path, table, options)).collect();
    remarks.sort_by_key(|remark| Reverse(remark.state));
    remarks
}

impl Remark {
    fn new(path: &Path, table: &TableRow, options: &str) -> Self {
        let overview = &table.overview;
        let (advice, steps) = advice(path, overview);
        let word = shell_word(path);
        Self {
            path: table.path.clone(),
            level: overview.level,
            format: overview.format.clone(),
            state: overview.state,
            reason: without_path(overview.remark.as_deref().unwrap_or_default(), &table.path),
            advice,
            commands: steps.iter().map(|step| step.line(options, core::iter::once(word.as_str()))).collect(),
            word,
            steps,
        }
    }

    /// Returns the state and the reason.
    pub(super) fn text(&self) -> String {
        match self.state {
            State::Ok => self.reason.clone(),
            state => format!("{}: {}", state.name(), self.reason),
        }
    }
}

/// Tables with the same state, reason and advice.
pub(super) struct Group<'a>(pub(super) Vec<&'a Remark>);

impl<'a> Group<'a> {
    /// Groups remarks of one state.
    pub(super) fn of(remarks: &'a [Remark]) -> Vec<Self> {
        let groups = groups::by(remarks, |remark| (&remark.reason, remark.advice));
        groups.into_iter().map(|(_, remarks)| Self(remarks)).collect()
    }

    pub(super) fn line(&self) -> String {
        let text = self.0.first().map(|remark| remark.text()).unwrap_or_default();
        groups::line(&text, "table", self.0.iter().map(|remark| remark.path.as_str()))
    }

    /// Returns the commands for the first of the tables. `paths` are those of all tables, each with a blank before it.
    pub(super) fn commands(&self, [options, paths]: &[String; 2]) -> Vec<String> {
        let steps = self.0.first().map_or(&[][..], |remark| remark.steps);
        let words = || self.0.iter().map(|remark| remark.word.as_str());
        let line = |step: &Step| match step.command {
            "rebuild" if self.0.len() > 1 => format!("sstfilter rebuild --only-problems{options}{paths}"),
            _ => step.line(options, words()),
        };
        steps.iter().map(line).collect()
    }

    pub(super) fn advice(&self) -> &'static str {
        self.0.first().map_or("", |remark| remark.advice)
    }
}

/// Returns advice about a table, and the commands that help.
fn advice(path: &Path, overview: &Overview) -> (&'static str, &'static [Step]) {
    let is_sidecar_kept = || Replaces::SIDECAR.check(&sidecar_path(path)).is_err();
    let is_own = ["table", "filter block", "range filter", "sidecar"].contains(&overview.format.as_str());
    match (overview.state, overview.format == "table") {
        (State::Unread, _) => ("Check the permissions of the file, and its disk.", &[VERIFY]),
        (State::Damaged, true) if overview.beyond_filters == Damage::Whole => {
            ("Restore the table from a backup: nothing can be salvaged from it.", &[VERIFY])
        }
        (State::Damaged, true) if overview.beyond_filters == Damage::Data => (
            "Restore the table from a backup, or build a new one of the entries that can still be read.",
            &[VERIFY, SALVAGE],
        ),
        (State::Damaged, true) if is_sidecar_kept() => {
            ("Delete the sidecar, which was cut short, by hand. Then build a new filter.", &[VERIFY])
        }
        (State::Damaged, true) => {
            ("If only a filter is damaged, build a new one next to the table.", &[VERIFY, REBUILD])
        }
        (State::Damaged, false) => (
            "If only the filter is damaged, compact the table in its engine; otherwise restore the file from a backup.",
            &[VERIFY],
        ),
        (State::Unusable, _) if is_own => {
            ("Pass what the filter needs, such as --secret-seed-file, or build a new one.", &[INSPECT])
        }
        (State::Unusable, _) => (
            "If the reason names an option or a comparator, pass it (--comparator). Otherwise, set one of the engine's own \
             filter policies, and compact the table.",
            &[INSPECT],
        ),
        (State::Missing, true) => ("Build a filter next to the table.", &[REBUILD]),
        (State::Missing, false) => ("Set a filter policy in the engine, and compact the table.", &[INSPECT]),
        (State::Stale, true) => ("Replace the sidecar, or delete it.", &[REBUILD]),
        (State::Stale | State::Orphan, _) => ("Delete the sidecar.", &[]),
        (State::Fallback, _) => {
            ("Leave it if the table has few keys; otherwise check the options of its engine.", &[INSPECT])
        }
        (State::Ok, _) => ("Nothing has to be done.", &[]),
    }
}
