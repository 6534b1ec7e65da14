//! Opening tables, alone and as a set.

use std::path::Path;

use sstfilter::KeyHasher;
use sstfilter::sst::{ReadOptions, Table, TableError, TableSet};

use crate::files;

/// The tables at `path`, newest first; without a secret seed, probed with the hash that the newest was built with.
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

/// Whether reading failed, which tells nothing about the bytes.
pub(crate) fn is_unread(problem: &TableError) -> bool {
    matches!(problem, TableError::Io { .. })
}
