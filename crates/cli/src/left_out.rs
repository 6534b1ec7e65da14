//! Tables that a command leaves out of all its figures, and why.

use core::fmt;
use std::path::Path;

use serde::Serialize;

use crate::groups::{self, without_path};
use crate::output::Outcome;
use crate::{files, input};

/// A table that no figure counts.
#[derive(Debug, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) path: String,
    pub(crate) why: String,
    #[serde(skip)]
    pub(crate) outcome: Outcome,
}

impl LeftOut {
    pub(crate) fn new(path: &Path, why: &str, outcome: Outcome) -> Self {
        let path = input::name(path).into_owned();
        // Some reasons name the file themselves.
        Self { why: without_path(why, &path), path, outcome }
    }

    /// Leaves out a sidecar without its table.
    pub(crate) fn orphan(path: &Path) -> Self {
        Self::new(path, &format!("orphan: {}", files::ORPHAN), Outcome::Yes)
    }

    /// Returns the worst outcome of the tables that were left out.
    pub(crate) fn outcome(all: &[Self]) -> Outcome {
        all.iter().map(|left| left.outcome).max().unwrap_or(Outcome::Yes)
    }

    /// Returns a line for each reason, with `label` before it.
    pub(crate) fn lines(all: &[Self], label: &str) -> Vec<String> {
        let groups = groups::by(all, |left| &left.why).into_iter();
        let line = |(why, files): (&String, Vec<&Self>)| {
            groups::line(&format!("{label}: {why}"), "file", files.iter().map(|left| left.path.as_str()))
        };
        groups.map(line).collect()
    }

    /// Returns the first table left out with its reason in parentheses, to end a sentence.
    pub(crate) fn first(all: &[Self]) -> String {
        let first = if all.len() > 1 { "the first: " } else { "" };
        all.first().map(|left| format!(" ({first}{}: {})", left.path, left.why)).unwrap_or_default()
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: left out: {}", self.path, self.why)
    }
}
