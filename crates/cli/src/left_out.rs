//! Tables that a command leaves out of all its figures, and why.

use core::fmt;
use std::path::Path;

use serde::Serialize;

use crate::input;
use crate::output::Outcome;

/// A table that no figure counts.
#[derive(Debug, Serialize)]
pub(crate) struct LeftOut {
    path: String,
    pub(crate) why: String,
    #[serde(skip)]
    pub(crate) outcome: Outcome,
}

impl LeftOut {
    pub(crate) fn new(path: &Path, why: String, outcome: Outcome) -> Self {
        let path = input::name(path).into_owned();
        // Some reasons name the file themselves.
        let why = match why.strip_prefix(&format!("{path}: ")) {
            Some(reason) => reason.to_owned(),
            None => why,
        };
        Self { path, why, outcome }
    }

    /// Returns the worst outcome of the tables that were left out.
    pub(crate) fn outcome(all: &[Self]) -> Outcome {
        all.iter().map(|left| left.outcome).max().unwrap_or(Outcome::Yes)
    }

    /// Returns the first table left out with its reason in parentheses, to end a sentence.
    pub(crate) fn first(all: &[Self]) -> String {
        all.first().map(|left| format!(" ({}: {})", left.path, left.why)).unwrap_or_default()
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: left out: {}", self.path, self.why)
    }
}

/// Command that extracts the keys of a RocksDB table whose compression this program does not support.
pub(crate) const BY_SST_DUMP: &str = "\
sst_dump --file=TABLE --command=scan --output_hex | sed -n \"s/^'\\([0-9A-Fa-f]*\\)' seq.*/\\1/p\" | \
sstfilter compare --input - --keys-format hex";
