//! Finds the tables of a directory, orders them, and opens them.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use sstfilter::KeyHasher;
use sstfilter_store::FilterProblem;
use sstfilter_table::{Table, TableError, TableOptions};

use crate::file::blocks::RangePrefix;
pub(crate) use crate::file::look::{Look, list, look_at, neither};
pub(crate) use crate::file::names::*;
use crate::file::open::whole;
pub(crate) use crate::file::problem::{ORPHAN, STALE};
use crate::groups;
use crate::input;
use crate::output::{Outcome, in_options};
use crate::progress::ReadProgress;
use crate::units::counted;

/// Returns the error for a file map in the place of a table or a filter. It is no damage, so it is an error of the
/// system's kind.
pub(crate) fn is_a_map(path: &Path) -> anyhow::Error {
    let message = format!("{}: a file map, neither a table nor a filter: use `sstfilter map`", input::name(path));
    std::io::Error::new(std::io::ErrorKind::InvalidInput, message).into()
}

/// Facts about a table of this library that the table does not record, but its reader needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableReading<'a> {
    pub(crate) secret: Option<&'a KeyHasher>,
    /// Prefix of hashed range filters.
    pub(crate) range_prefix: Option<RangePrefix>,
    /// Advanced by each read.
    pub(crate) progress: Option<&'a ReadProgress>,
}

/// The files that were met so far. Two paths may lead to one file, as `DIR` and `DIR/000001.sst` do.
#[derive(Default)]
pub(crate) struct Met(HashSet<PathBuf>);

impl Met {
    /// Whether the file at `path` is met for the first time.
    pub(crate) fn is_first(&mut self, path: &Path) -> bool {
        // Standard input and missing files have no canonical path.
        let canonical = fs::canonicalize(path).ok().filter(|_| !input::is_standard(path));
        self.0.insert(canonical.unwrap_or_else(|| path.to_owned()))
    }
}

/// The files that paths lead to, each once.
#[derive(Default)]
pub(crate) struct Found {
    /// The files that were passed, and the tables and filter blocks of directories.
    pub(crate) files: Vec<PathBuf>,
    /// Sidecars whose tables are gone. No reader uses them.
    pub(crate) orphans: Vec<PathBuf>,
    /// Other files of directories.
    pub(crate) skipped: Vec<String>,
    met: Met,
}

impl Found {
    pub(crate) fn of(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut found = Self::default();
        paths.iter().try_for_each(|path| found.add(path))?;
        Ok(found)
    }

    /// Adds the file itself, or the files of a directory. Tables and filter blocks are recognized by their bytes, or by
    /// their name if they were cut short. A sidecar next to its table is not added.
    pub(crate) fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let is_directory = is_directory(path)?;
        // A directory that comes again would add its other files to `skipped` again.
        if !self.met.is_first(path) {
            return Ok(());
        }
        if !is_directory {
            let files = if is_orphan(path) { &mut self.orphans } else { &mut self.files };
            files.push(path.to_owned());
            return Ok(());
        }
        let (mut is_empty, skipped) = (true, self.skipped.len());
        for file in list(path)? {
            let role = Role::of(&file);
            is_empty &= !matches!(role, Role::File | Role::Orphan);
            match role {
                Role::File if self.met.is_first(&file) => self.files.push(file),
                Role::Orphan if self.met.is_first(&file) => self.orphans.push(file),
                Role::Other => self.skipped.push(input::name(&file).into_owned()),
                Role::File | Role::Orphan | Role::Sidecar => {}
            }
        }
        let others = match self.skipped.len() - skipped {
            0 => "no files".to_owned(),
            others => counted(others as u64, "other file"),
        };
        ensure!(
            !is_empty,
            "{} contains no table and no filter block, but {others}: pass the directory with the tables (subdirectories \
             are not searched)",
            input::name(path)
        );
        Ok(())
    }

    /// Fails if there is nothing but orphans.
    pub(crate) fn ensure_files(&self) -> anyhow::Result<()> {
        if let ([], [orphan, ..]) = (&self.files[..], &self.orphans[..]) {
            bail!("no table, only orphans: {}: {ORPHAN}", input::name(orphan));
        }
        Ok(())
    }
}

/// Whether the path is that of a directory, and not of a file or standard input.
pub(crate) fn is_directory(path: &Path) -> anyhow::Result<bool> {
    let metadata = || fs::metadata(path).with_context(|| format!("cannot read {}", input::name(path)));
    Ok(!input::is_standard(path) && metadata()?.is_dir())
}

/// The role of a file in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A table, or a filter block without a table.
    File,
    /// A sidecar next to its table, which is reported together with the table.
    Sidecar,
    Orphan,
    Other,
}

impl Role {
    fn of(file: &Path) -> Self {
        // The name comes first: a file that was cut short has lost the bytes that identify it.
        if is_named_like_table(file) {
            return Self::File;
        }
        let look = look_at(file).ok();
        let is_sidecar = look == Some(Look::Sidecar);
        match table_of_sidecar(file) {
            Some(table) if table.is_file() && (is_sidecar || has_table_extension(&table)) => Self::Sidecar,
            Some(table) if is_sidecar || (look == Some(Look::Neither) && has_table_extension(&table)) => Self::Orphan,
            None if is_leftover(file) || matches!(look, Some(Look::Neither | Look::Map)) => Self::Other,
            // A filter block without a table may have any name.
            _ => Self::File,
        }
    }
}

/// Whether the file is a sidecar without its table.
pub(crate) fn is_orphan(file: &Path) -> bool {
    !input::is_standard(file) && Role::of(file) == Role::Orphan
}

/// Returns a line that names the first of these orphans, if there are any.
pub(crate) fn orphans_line(orphans: &[PathBuf]) -> Option<String> {
    let names: Vec<_> = orphans.iter().map(|orphan| input::name(orphan)).collect();
    let line = || groups::line(&format!("orphan: {ORPHAN}"), "file", names.iter().map(AsRef::as_ref));
    (!names.is_empty()).then(line)
}

/// Returns an error about the first table of another engine, which says more than an error about ours.
fn foreign_among(paths: &[PathBuf]) -> Option<anyhow::Error> {
    paths.iter().find_map(|path| match look_at(path) {
        Ok(Look::Foreign(engine)) => Some(anyhow!(
            "{}: expected a table of sstfilter, got one of {}, whose values this program cannot read: `probe` shows \
             which tables may contain a key, and `get --keys-only` prints the keys of a table",
            input::name(path),
            engine.name()
        )),
        _ => None,
    })
}

/// Opens one table; a table from standard input is read into memory.
pub(crate) fn open_table(file: &Path, reading: TableReading<'_>) -> anyhow::Result<Table> {
    open_table_with(file, &read_options(reading))
}

fn open_table_with(file: &Path, options: &TableOptions) -> anyhow::Result<Table> {
    if input::is_standard(file) {
        return Ok(Table::open_source(whole(file)?, options)?);
    }
    // Looked at only after a failure, because nearly all tables are sstfilter's.
    let opened = Table::open(file, options);
    opened.map_err(|problem| foreign_among(&[file.to_owned()]).unwrap_or_else(|| about(file, problem)))
}

/// Adds the file's name to the problem, unless its message contains the name.
fn about(file: &Path, problem: TableError) -> anyhow::Error {
    let name = input::name(file).into_owned();
    let is_named = in_options(&problem).contains(&name);
    let problem = anyhow::Error::from(problem);
    if is_named { problem } else { problem.context(name) }
}

/// Opens one table and ignores its sidecar.
pub(crate) fn open_table_alone(file: &Path, reading: TableReading<'_>) -> anyhow::Result<Table> {
    open_table_with(file, &read_options(reading).without_sidecars())
}

/// Returns the options for reading tables: with the secret seed, or else with the hash that each table records.
pub(crate) fn read_options(reading: TableReading<'_>) -> TableOptions {
    let options = TableOptions::default();
    let options = match reading.secret {
        Some(hasher) => options.with_hasher(hasher.clone()),
        None => options,
    };
    let options = match reading.progress {
        Some(progress) => options.with_file_system(Arc::new(progress.clone())),
        None => options,
    };
    match reading.range_prefix {
        Some(prefix) => options.with_range_extractor(prefix.extractor()),
        None => options,
    }
}

/// Whether reading failed, so that nothing is known about the bytes.
pub(crate) fn is_unread(problem: &TableError) -> bool {
    match problem {
        TableError::Io { .. } => true,
        TableError::Filter { source, .. } => {
            matches!(source, FilterProblem::Unreadable { .. })
        }
        _ => false,
    }
}

/// Whether a sidecar is not used because it is of another table. This is not damage.
pub(crate) fn is_stale(problem: &TableError) -> bool {
    matches!(problem, TableError::Filter { source: FilterProblem::OtherTable { .. }, .. })
}

/// Whether the table next to this sidecar ignores it, because it is of another table.
pub(crate) fn is_stale_sidecar(sidecar: &Path, reading: TableReading<'_>) -> bool {
    let table = table_of_sidecar(sidecar).filter(|table| table.is_file());
    let table = table.and_then(|table| open_table(&table, reading).ok());
    table.is_some_and(|table| table.sidecar_problem().is_some_and(is_stale))
}

/// Returns what a filter's problem means for its table: nothing is wrong if the filter was built for other readers.
pub(crate) fn outcome_of_filter(problem: &TableError) -> Outcome {
    if is_unread(problem) { Outcome::Failed } else { Outcome::from_sound(problem.is_foreign_filter()) }
}
