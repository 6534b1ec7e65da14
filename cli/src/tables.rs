//! Opening tables, alone and as a set.

use std::path::Path;

use sstfilter::{ReadOptions, Table, TableError, TableSet};

use crate::files;

/// The tables at `path`, newest first, asked with the hash that the newest was built with.
pub(crate) fn open_set(path: &Path) -> anyhow::Result<TableSet> {
    let paths = files::tables_newest_first(path)?;
    Ok(TableSet::open(paths, &ReadOptions::default())?)
}

/// Opens one table.
pub(crate) fn open(file: &Path) -> Result<Table, TableError> {
    Table::open(file, &ReadOptions::default())
}

/// Entries of a sound table, and all that is wrong with an unsound one: filter, index and data are looked
/// at one by one, so that damage to one does not hide damage to another.
pub(crate) fn verify(file: &Path) -> (u64, Vec<String>) {
    let table = match open(file) {
        Ok(table) => table,
        Err(problem) => return (0, vec![problem.to_string()]),
    };
    match table.verify() {
        Ok(report) => (report.entries, Vec::new()),
        Err(first) => {
            let mut problems = vec![first.to_string()];
            let data = table.iter().find_map(Result::err).map(|problem| problem.to_string());
            let filter = table.filter_problem().map(ToString::to_string);
            for problem in [filter, data].into_iter().flatten() {
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
            (0, problems)
        }
    }
}
