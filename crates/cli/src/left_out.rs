//! Tables that are in none of a command's figures, and why.

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

    /// What the tables that are left out say of the whole.
    pub(crate) fn outcome(all: &[Self]) -> Outcome {
        all.iter().map(|left| left.outcome).max().unwrap_or(Outcome::Yes)
    }

    /// Why nothing is left, if the first of `all` was left out, to end a sentence.
    pub(crate) fn first(all: &[Self]) -> String {
        all.first().map(|left| format!(" ({}: {})", left.path, left.why)).unwrap_or_default()
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: left out: {}", self.path, self.why)
    }
}

/// How to get the keys of a table of RocksDB whose compression this program does not know.
pub(crate) const BY_SST_DUMP: &str = "\
sst_dump --file=TABLE --command=scan --output_hex | sed -n \"s/^'\\([0-9A-Fa-f]*\\)' seq.*/\\1/p\" | \
sstfilter compare --input - --keys-format hex";
