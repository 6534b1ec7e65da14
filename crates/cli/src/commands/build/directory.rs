//! The directory for tables: creates it, locks it, and removes old files from it.
//!
//! If there are tables of an earlier build, new ones are written to a subdirectory, and the old ones stay until all new
//! ones are complete. Then the old tables are removed, the last one first, and the new ones are renamed, the first one
//! first: a lookup never mixes the two. A build that is killed in between leaves only the first tables of one build,
//! and every new table complete, in the subdirectory or in its final place.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use sstfilter_table::{FileSystem, LocalFileSystem};
use tempfile::TempDir;

use crate::file::look::{Format, list};
use crate::file::names::{has_table_extension, is_leftover, is_numbered_by_us, table_beside, table_name, table_number};
use crate::file::replace::{self, Mark, ensure_no_database, ensure_replaceable};
use crate::system::interrupt::MadeDirectories;
use crate::words::escape::path_name;
use crate::words::units::counted;

/// A directory that only this process builds in, as long as the value lives.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// Whether it contains tables of an earlier build, which will be replaced.
    has_old_tables: bool,
    /// Where new tables are until the old ones are replaced.
    staging: Option<TempDir>,
    _lock: Option<File>,
    /// Removes created directories without a table when dropped.
    _made: MadeDirectories,
}

impl Directory {
    /// Creates the directory if it is missing and removes what killed runs left there. Tables stay until
    /// [`publish`](Self::publish).
    pub(super) fn open(path: &Path, overwrite: bool) -> anyhow::Result<Self> {
        let made = make(path)?;
        // Before anything is listed: another build may be removing files.
        let lock = lock(path)?;
        ensure_no_database(path)?;
        let tables = own_tables(path)?;
        if !tables.is_empty() && !overwrite {
            // At least one: a sidecar without its table is in the way, too.
            let count = tables.iter().filter(|file| has_table_extension(file)).count().max(1);
            let (name, tables) = (path_name(path), counted(count as u64, "table"));
            bail!("{name} already contains {tables}: choose another --out, or replace them with --overwrite");
        }
        list(path)?.iter().filter(|file| is_leftover(file)).try_for_each(|file| remove_leftover(file, overwrite))?;
        Ok(Self { path: path.to_owned(), has_old_tables: !tables.is_empty(), staging: None, _lock: lock, _made: made })
    }

    /// Prepares the writing of tables. Call it before the first one.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        if self.has_old_tables {
            let staging = tempfile::Builder::new().prefix(".sstfilter-").suffix(".tmp").tempdir_in(&self.path);
            let context = || format!("cannot create a directory for new tables in {}", path_name(&self.path));
            self.staging = Some(staging.with_context(context)?);
        }
        Ok(())
    }

    /// Returns the directory to write tables to.
    pub(super) fn place(&self) -> &Path {
        self.staging.as_ref().map_or(&self.path, TempDir::path)
    }

    /// Returns a sentence about the old tables, if there are any, for a build that fails before it is complete.
    pub(super) fn old_tables(&self) -> Option<String> {
        self.staging.as_ref().map(|_| format!("the old tables in {} are unchanged", path_name(&self.path)))
    }

    /// Replaces the old tables by the `tables` new ones, which are all complete.
    pub(super) fn publish(&mut self, tables: usize) -> anyhow::Result<()> {
        let Some(staging) = self.staging.take() else { return Ok(()) };
        let old = own_tables(&self.path)?;
        sync(&self.path)?;
        // Old tables are removed from here on, so the new ones must stay even if this fails.
        // Kept, because dropping it would remove the new tables.
        let staging = staging.keep();
        let replaced = remove(&old).and_then(|()| self.take(tables, &staging));
        replaced
            .with_context(|| format!("the new tables are complete, but some may still be in {}", path_name(&staging)))
    }

    fn take(&self, tables: usize, staging: &Path) -> anyhow::Result<()> {
        for name in (1..=tables as u64).map(table_name) {
            let path = self.path.join(&name);
            fs::rename(staging.join(name), &path).with_context(|| format!("cannot create {}", path_name(&path)))?;
        }
        fs::remove_dir(staging).with_context(|| format!("cannot remove {}", path_name(staging)))?;
        sync(&self.path)
    }
}

/// Returns the tables of an earlier build with their sidecars, the last one first. Fails if a file has the name of one
/// but was not written by this program.
fn own_tables(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut tables = Vec::new();
    for file in list(directory)? {
        let sidecar_of = table_beside(&file);
        let table = sidecar_of.as_ref().unwrap_or(&file);
        if !has_table_extension(table) {
            continue;
        }
        let look = if sidecar_of.is_some() { Format::Sidecar } else { Format::Table };
        ensure_replaceable(&file, Some(Mark::End(look)))?;
        let (name, is_own) = (path_name(&file), is_numbered_by_us(table));
        ensure!(is_own, "{name} was not written by this command: move it away, or choose another --out");
        // A sidecar is removed before its table: otherwise, it could be taken for that of the new table.
        tables.push((table_number(table), sidecar_of.is_some(), file));
    }
    tables.sort_by(|a, b| b.cmp(a));
    Ok(tables.into_iter().map(|(_, _, file)| file).collect())
}

/// Removes a temporary file that a killed run left, or its directory of tables that should have replaced others.
/// A file that another command is writing stays.
fn remove_leftover(leftover: &Path, overwrite: bool) -> anyhow::Result<()> {
    let name = path_name(leftover);
    let found = fs::symlink_metadata(leftover).with_context(|| format!("cannot read {name}"))?.file_type();
    if found.is_file() {
        return replace::remove_leftover(leftover).map(drop).with_context(|| format!("cannot remove {name}"));
    }
    ensure!(found.is_dir(), "{name} is not a temporary file of this command: move it away, or choose another --out");
    // Not removed without --overwrite: they may be the only complete copy of the tables.
    ensure!(
        overwrite,
        "{name} contains tables of a build that was killed: move them away, or replace them with --overwrite"
    );
    for file in list(leftover)? {
        let is_temporary = is_leftover(&file) && fs::symlink_metadata(&file).is_ok_and(|found| found.is_file());
        if !is_temporary {
            ensure_replaceable(&file, Some(Mark::End(Format::Table)))?;
        }
        remove(&[file])?;
    }
    fs::remove_dir(leftover).with_context(|| format!("cannot remove {name}"))
}

/// Creates the directory if it is missing, and syncs its parents, so that it survives a crash like the tables in it.
fn make(path: &Path) -> anyhow::Result<MadeDirectories> {
    match fs::metadata(path) {
        Ok(metadata) => {
            ensure!(metadata.is_dir(), "{}: expected a directory, got a file", path_name(path));
            Ok(MadeDirectories::default())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // An empty path, the parent of a relative path of one name, is the current directory.
            let is_there = |directory: &Path| directory.as_os_str().is_empty() || directory.exists();
            let missing: Vec<_> = path.ancestors().take_while(|directory| !is_there(directory)).collect();
            let made = MadeDirectories::new(missing.iter().map(|directory| (*directory).to_owned()).collect());
            fs::create_dir_all(path).with_context(|| format!("cannot create the directory {}", path_name(path)))?;
            missing.into_iter().filter_map(Path::parent).try_for_each(sync).map(|()| made)
        }
        Err(error) => Err(error).with_context(|| format!("cannot open {}", path_name(path))),
    }
}

fn sync(directory: &Path) -> anyhow::Result<()> {
    // An empty path stands for the current directory.
    let is_current = directory.as_os_str().is_empty();
    let synced = LocalFileSystem.sync_directory(if is_current { Path::new(".") } else { directory });
    synced.with_context(|| format!("cannot sync {}", path_name(directory)))
}

fn remove(paths: &[PathBuf]) -> anyhow::Result<()> {
    let remove = |path: &PathBuf| fs::remove_file(path).with_context(|| format!("cannot remove {}", path_name(path)));
    paths.iter().try_for_each(remove)
}

/// Locks the directory against a second build, which would remove this build's temporary files as leftovers. The system
/// releases the lock when the process ends, however it ends. On systems that cannot lock directories, there is no lock.
fn lock(path: &Path) -> anyhow::Result<Option<File>> {
    let directory = match File::open(path) {
        Ok(directory) => directory,
        Err(_) if !cfg!(unix) => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot open {}", path_name(path))),
    };
    match directory.try_lock() {
        Ok(()) => Ok(Some(directory)),
        Err(TryLockError::WouldBlock) => {
            bail!("another build is writing to {}: wait for it, or choose another --out", path_name(path))
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}
