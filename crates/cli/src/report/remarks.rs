//! Tables that need a look, and the command to run first.

use core::cmp::Reverse;
use std::path::Path;

use serde::Serialize;

use super::survey::{Survey, TableRow};
use crate::inspect::State;
use crate::output::shell_word;

/// A table whose filter is not as requested.
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
}

/// Returns the remarks of all tables, the worst first. `options` are the command line options for reading tables.
pub(super) fn of_all(survey: &Survey, options: &str) -> Vec<Remark> {
    let tables = survey.paths.iter().zip(&survey.tables).filter(|(_, table)| table.overview.state != State::Ok);
    let mut remarks: Vec<_> = tables.map(|(path, table)| Remark::new(path, table, options)).collect();
    remarks.sort_by_key(|remark| Reverse(remark.state));
    remarks
}

impl Remark {
    fn new(path: &Path, table: &TableRow, options: &str) -> Self {
        let overview = &table.overview;
        let (advice, commands) = advice(overview.state, overview.format == "table");
        let file = shell_word(path);
        Self {
            path: table.path.clone(),
            level: overview.level,
            format: overview.format.clone(),
            state: overview.state,
            reason: overview.remark.clone().unwrap_or_default(),
            advice,
            commands: commands.iter().map(|command| format!("sstfilter {command}{options} {file}")).collect(),
        }
    }
}

/// Returns advice about a filter in this state, and the commands that help.
fn advice(state: State, is_ours: bool) -> (&'static str, &'static [&'static str]) {
    match (state, is_ours) {
        (State::Unread, _) => ("Find out why the file cannot be read.", &["verify"]),
        (State::Damaged, true) => (
            "List the damage. If only the filter is damaged, write a new one next to the table.",
            &["verify", "rebuild"],
        ),
        (State::Damaged, false) => ("List the damage.", &["verify"]),
        (State::Unusable, _) => ("Find out what readers of the filter need.", &["inspect"]),
        (State::Missing, true) => ("Write a filter next to the table.", &["rebuild"]),
        (State::Missing, false) => ("Set a filter policy in its engine and compact.", &["inspect"]),
        (State::Ok | State::Fallback, _) => ("Usual for few keys; otherwise check what was requested.", &["inspect"]),
    }
}
