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
pub(super) struct Found<'a> {
    /// The number of tables that may contain it.
    pub(super) touched: &'a [u32],
    /// The names of the tables, and what each may contain, if requested.
    pub(super) tables: Option<(Vec<String>, &'a [Answers])>,
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

impl<'a> Found<'a> {
    pub(super) fn new<'b>(
        touched: &'a [u32],
        positives: &'a [Answers],
        paths: impl Iterator<Item = &'b str> + Clone,
        detail: Detail,
    ) -> Self {
        Self { touched, tables: (detail == Detail::Files).then(|| (distinct_names(paths), positives)) }
    }

    /// Returns the tables that may contain the key or range at `position`.
    fn which(&self, position: u32) -> Option<Vec<String>> {
        let (names, positives) = self.tables.as_ref()?;
        let positive = positives.iter().zip(names).filter(|(answers, _)| answers.holds(position));
        Some(positive.map(|(_, name)| name.clone()).collect())
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
    fn chosen(self, found: &Found<'_>) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(found.touched.iter().copied()).filter(move |&(_, tables)| self.takes(tables))
    }

    /// Prints the listed keys or ranges in the format of the input, as `encoded` returns them, each with its tables if
    /// they were requested.
    pub(super) fn print(
        self,
        found: &Found<'_>,
        encoded: impl Fn(usize) -> Vec<u8>,
        format: KeysFormat,
        output: &mut Output<'_>,
    ) -> anyhow::Result<()> {
        for (position, tables) in self.chosen(found) {
            let which = found.which(position).map(|which| format!("\t{tables}\t{}", which.join(",")));
            let record = encoded(position as usize);
            output.record(&[&record, which.unwrap_or_default().as_bytes()], format.terminator())?;
        }
        Ok(())
    }

    /// Returns the listed keys or ranges for JSON.
    pub(super) fn answers<S>(self, found: &Found<'_>, sought: impl Fn(usize) -> S) -> Vec<Answer<S>> {
        let answer = |(position, tables): (u32, u32)| Answer {
            sought: sought(position as usize),
            tables,
            which: found.which(position),
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
