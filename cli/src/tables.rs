//! Opening tables, alone and as a set.

use std::path::Path;

use sstfilter::{FilterVerdict, KeyHasher, ReadOptions, Table, TableError, TableSet};

use crate::files;

/// The tables at `path`, newest first, asked with the secret seed, or the hash that the newest was built with.
pub(crate) fn open_set(path: &Path, secret: Option<&KeyHasher>) -> anyhow::Result<TableSet> {
    let paths = files::tables_newest_first(path)?;
    Ok(TableSet::open(paths, &read_options(secret))?)
}

/// Opens one table.
pub(crate) fn open(file: &Path, secret: Option<&KeyHasher>) -> Result<Table, TableError> {
    Table::open(file, &read_options(secret))
}

fn read_options(secret: Option<&KeyHasher>) -> ReadOptions {
    secret.cloned().map_or_else(ReadOptions::default, |hasher| ReadOptions::default().with_hasher(hasher))
}

/// What `verify` found in a table.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// Entries of a sound table.
    pub(crate) entries: u64,
    /// All that is wrong with an unsound one.
    pub(crate) problems: Vec<String>,
    /// Why the filter of a sound one was not asked.
    pub(crate) filter_not_asked: Option<String>,
}

/// Verifies a table. Of an unsound one, filter, index and data are looked at one by one, so that damage to one does not hide damage to another.
pub(crate) fn verify(file: &Path, secret: Option<&KeyHasher>) -> Verified {
    let table = match open(file, secret) {
        Ok(table) => table,
        Err(problem) => return Verified { problems: vec![problem.to_string()], ..Verified::default() },
    };
    match table.verify() {
        Ok(report) => {
            let filter_not_asked = match report.filter {
                FilterVerdict::NotAsked { reason } => Some(reason),
                _ => None,
            };
            Verified { entries: report.entries, filter_not_asked, ..Verified::default() }
        }
        Err(first) => {
            let mut problems = vec![first.to_string()];
            let data = table.iter().find_map(Result::err).map(|problem| problem.to_string());
            let filter = table.filter_problem().map(ToString::to_string);
            for problem in [filter, data].into_iter().flatten() {
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
            Verified { problems, ..Verified::default() }
        }
    }
}
