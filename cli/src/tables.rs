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

/// Whether the system refused to read, which says nothing of what it would have read.
pub(crate) fn is_unread(problem: &TableError) -> bool {
    matches!(problem, TableError::Io { .. })
}

/// What `verify` found in a file.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// Entries of a sound file.
    pub(crate) entries: u64,
    /// All that is wrong with an unsound one.
    pub(crate) problems: Vec<String>,
    /// Why the filter of a sound one was not asked.
    pub(crate) filter_not_asked: Option<String>,
    /// Some of it could not be read.
    pub(crate) is_unread: bool,
}

impl Verified {
    fn add(&mut self, problem: &TableError) {
        self.is_unread |= is_unread(problem);
        let problem = problem.to_string();
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// Verifies a table. Of an unsound one, filter, index and data are looked at one by one, so that damage to one
/// does not hide damage to another.
pub(crate) fn verify(file: &Path, secret: Option<&KeyHasher>) -> Verified {
    let mut verified = Verified::default();
    match open(file, secret) {
        Err(problem) => verified.add(&problem),
        Ok(table) => match table.verify() {
            Ok(report) => {
                verified.entries = report.entries;
                if let FilterVerdict::NotAsked { reason } = report.filter {
                    verified.filter_not_asked = Some(reason);
                }
            }
            Err(first) => {
                verified.add(&first);
                table.filter_problem().into_iter().for_each(|problem| verified.add(problem));
                table.iter().find_map(Result::err).iter().for_each(|problem| verified.add(problem));
            }
        },
    }
    verified
}
