//! Lists keys or ranges one by one: which may be present, which are absent, and which tables each would touch.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;

use super::batch::Detail;
use super::file::Answers;
use crate::lines::KeysFormat;
use crate::output::{Output, Text};

/// The keys or ranges to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    All,
    /// Those that some table may contain.
    Maybe,
    /// Those that no table contains.
    Absent,
}

/// The answers of all tables for each key or range.
pub(super) struct Touched<'a> {
    /// The number of tables that may contain it.
    pub(super) counts: &'a [u32],
    /// The tables, if they are listed.
    pub(super) tables: Vec<Listed<'a>>,
    pub(super) detail: Detail,
}

/// A table in a listing.
pub(super) struct Listed<'a> {
    name: String,
    /// The keys or ranges that it may contain.
    positives: &'a Answers,
    /// Those that it may contain only because it has no usable filter.
    unanswered: &'a Answers,
}

/// The answers of all tables for one key or range.
#[derive(Debug, Serialize)]
pub(crate) struct Answer<S> {
    #[serde(flatten)]
    sought: S,
    /// The number of tables that may contain it.
    tables: u32,
    /// The names of these tables, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    which: Option<Vec<String>>,
    /// Those of them that may contain it only because they have no usable filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    which_unfiltered: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SoughtKey {
    key: Text,
}

impl SoughtKey {
    pub(super) fn new(key: &[u8]) -> Self {
        Self { key: Text(key.to_vec()) }
    }
}

impl<'a> Touched<'a> {
    /// `tables` are the path, positives and unanswered of each table.
    pub(super) fn new(
        counts: &'a [u32],
        tables: impl Iterator<Item = (&'a str, &'a Answers, &'a Answers)> + Clone,
        detail: Detail,
    ) -> Self {
        if detail == Detail::Counts {
            return Self { counts, tables: Vec::new(), detail };
        }
        let names = distinct_names(tables.clone().map(|(path, ..)| path));
        let listed = |(name, (_, positives, unanswered))| Listed { name, positives, unanswered };
        Self { counts, tables: names.into_iter().zip(tables).map(listed).collect(), detail }
    }

    /// Returns the tables that may contain the key or range at `position`.
    fn which(&self, position: u32) -> impl Iterator<Item = &Listed<'a>> {
        self.tables.iter().filter(move |table| table.positives.holds(position))
    }

    /// Returns the names of these tables in a line, with a `?` after each that has no usable filter.
    fn which_text(&self, position: u32) -> String {
        let mark = |table: &Listed<'_>| if table.unanswered.holds(position) { "?" } else { "" };
        self.which(position).map(|table| table.name.clone() + mark(table)).collect::<Vec<_>>().join(",")
    }
}

impl Listing {
    fn takes(self, tables: u32) -> bool {
        match self {
            Self::All => true,
            Self::Maybe => tables > 0,
            Self::Absent => tables == 0,
        }
    }

    /// Returns the positions of the listed keys or ranges, and how many tables each touches.
    fn chosen(self, found: &Touched<'_>) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(found.counts.iter().copied()).filter(move |&(_, tables)| self.takes(tables))
    }

    /// Prints the listed keys or ranges in the format of the input, as `encoded` returns them, each with its tables if
    /// they were requested.
    pub(super) fn print(
        self,
        found: &Touched<'_>,
        encoded: impl Fn(usize) -> Vec<u8>,
        format: KeysFormat,
        output: &mut Output<'_>,
    ) -> anyhow::Result<()> {
        for (position, tables) in self.chosen(found) {
            let which = match found.detail {
                Detail::Counts => String::new(),
                Detail::Files => format!("\t{tables}\t{}", found.which_text(position)),
            };
            output.record(&[&encoded(position as usize), which.as_bytes()], format.terminator())?;
        }
        Ok(())
    }

    /// Returns the listed keys or ranges for JSON.
    pub(super) fn answers<S>(self, found: &Touched<'_>, sought: impl Fn(usize) -> S) -> Vec<Answer<S>> {
        let names = |position, is_taken: &dyn Fn(&Listed<'_>) -> bool| {
            let taken = found.which(position).filter(|table| is_taken(table));
            (found.detail == Detail::Files).then(|| taken.map(|table| table.name.clone()).collect())
        };
        let answer = |(position, tables): (u32, u32)| Answer {
            sought: sought(position as usize),
            tables,
            which: names(position, &|_| true),
            which_unfiltered: names(position, &|table| table.unanswered.holds(position)),
        };
        self.chosen(found).map(answer).collect()
    }
}

/// Returns names that distinguish files: file names, or paths if two files have the same name.
pub(crate) fn distinct_names<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let names: Vec<_> = paths.clone().map(file_name).collect();
    let is_distinct = names.iter().collect::<HashSet<_>>().len() == names.len();
    // Paths for all files, so that one list does not mix both forms.
    if is_distinct { names } else { paths.map(str::to_owned).collect() }
}

/// Returns the last part of a path.
pub(crate) fn file_name(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}
