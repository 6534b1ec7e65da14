//! The directory that tables are written to: made, locked, and cleared of what is to go.
//!
//! Tables of an earlier build stay until all new ones are complete, which are written to a directory of their own
//! below. The old ones then go, the last one first, and the new ones take their names from the first on: a lookup never
//! mixes the two, and whoever is killed in between leaves the first tables of one build, and the new ones complete, in
//! one place or the other.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use sstfilter_table::{FileSystem, LocalFileSystem};
use tempfile::TempDir;

use crate::files::{self, Look};
use crate::interrupt::MadeDirectories;
use crate::output::path_name;
use crate::replace::{Mark, Replaces, ensure_no_database};
use crate::units;

/// A directory that this process alone builds in, for as long as the value lives.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// Whether it holds tables of an earlier build, which are to be replaced.
    has_old_tables: bool,
    /// Where the new tables are until the old ones are replaced.
    staging: Option<TempDir>,
    /// Temporary files and directories of killed runs that were removed.
    pub(super) leftovers_removed: u64,
    _lock: Option<File>,
    /// Those that stay without a table go with this value.
    _made: MadeDirectories,
}

impl Directory {
    /// Makes the directory if need be and removes what killed runs left there. Tables stay until
    /// [`publish`](Self::publish).
    pub(super) fn open(path: &Path, overwrite: bool) -> anyhow::Result<Self> {
        let made = make(path)?;
        let lock = lock(path)?;
        ensure_no_database(path)?;
        let tables = own_tables(path)?;
        if !tables.is_empty() && !overwrite {
            let count = tables.iter().filter(|file| files::has_table_extension(file)).count().max(1);
            let (directory, tables) = (path_name(path), units::counted(count as u64, "table"));
            bail!("{directory} holds {tables} already: choose another --out, or replace them with --overwrite");
        }
        let leftovers: Vec<_> = files::list(path)?.into_iter().filter(|file| files::is_leftover(file)).collect();
        leftovers.iter().try_for_each(|leftover| remove_leftover(leftover, overwrite))?;
        Ok(Self {
            path: path.to_owned(),
            has_old_tables: !tables.is_empty(),
            staging: None,
            leftovers_removed: leftovers.len() as u64,
            _lock: lock,
            _made: made,
        })
    }

    /// To be called before tables are written.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        if self.has_old_tables {
            let staging = tempfile::Builder::new().prefix(".sstfilter-").suffix(".tmp").tempdir_in(&self.path);
            let context = || format!("cannot make a directory for new tables in {}", path_name(&self.path));
            self.staging = Some(staging.with_context(context)?);
        }
        Ok(())
    }

    /// Where tables are written.
    pub(super) fn place(&self) -> &Path {
        self.staging.as_ref().map_or(&self.path, TempDir::path)
    }

    /// What to say of the old tables, if there are some, when a build ends before it is complete.
    pub(super) fn old_tables(&self) -> Option<String> {
        let remain = || format!("the tables in {} are those of before", path_name(&self.path));
        self.staging.as_ref().map(|_| remain())
    }

    /// Replaces the old tables by the new ones, of which there are `tables`, all complete.
    pub(super) fn publish(&mut self, tables: usize) -> anyhow::Result<()> {
        let Some(staging) = self.staging.take() else { return Ok(()) };
        let old = own_tables(&self.path)?;
        sync(&self.path).with_context(|| format!("cannot sync {}", path_name(&self.path)))?;
        // The old tables go: from here on the new ones stay, whatever happens.
        let staging = staging.keep();
        let replaced = remove(&old).and_then(|()| self.take(tables, &staging));
        replaced.with_context(|| format!("the new tables are complete, and not all in {} yet", path_name(&staging)))
    }

    fn take(&self, tables: usize, staging: &Path) -> anyhow::Result<()> {
        for name in (1..=tables as u64).map(files::table_name) {
            let path = self.path.join(&name);
            fs::rename(staging.join(name), &path).with_context(|| format!("cannot make {}", path_name(&path)))?;
        }
        fs::remove_dir(staging).with_context(|| format!("cannot remove {}", path_name(staging)))?;
        sync(&self.path).with_context(|| format!("cannot sync {}", path_name(&self.path)))
    }
}

/// The tables of an earlier build with their sidecars, the last one first. Fails if a file has the name of one and is
/// none.
fn own_tables(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut tables = Vec::new();
    for file in files::list(directory)? {
        let sidecar_of = files::table_beside(&file);
        let table = sidecar_of.as_ref().unwrap_or(&file);
        if !files::has_table_extension(table) {
            continue;
        }
        let look = if sidecar_of.is_some() { Look::Sidecar } else { Look::Table };
        Replaces::Own(Mark::End(look)).check(&file)?;
        let is_numbered = files::is_numbered_by_us(table);
        let name = path_name(&file);
        ensure!(is_numbered, "{name} was not written by this command: move it away, or choose another --out");
        // The sidecar of a table before the table: it would be taken for that of the next one of this name.
        tables.push((files::table_number(table), sidecar_of.is_some(), file));
    }
    tables.sort_by(|a, b| b.cmp(a));
    Ok(tables.into_iter().map(|(_, _, file)| file).collect())
}

/// Removes a temporary file that a killed run left, or its directory of tables that were to replace others.
fn remove_leftover(leftover: &Path, overwrite: bool) -> anyhow::Result<()> {
    let name = path_name(leftover);
    let found = fs::symlink_metadata(leftover).with_context(|| format!("cannot read {name}"))?.file_type();
    if found.is_file() {
        return remove(&[leftover.to_owned()]);
    }
    ensure!(found.is_dir(), "{name} is no temporary file of this command: move it away, or choose another --out");
    ensure!(
        overwrite,
        "{name} holds tables of a build that was killed: move them away, or replace them with --overwrite"
    );
    for file in files::list(leftover)? {
        let is_temporary = files::is_leftover(&file) && fs::symlink_metadata(&file).is_ok_and(|found| found.is_file());
        if !is_temporary {
            Replaces::Own(Mark::End(Look::Table)).check(&file)?;
        }
        remove(&[file])?;
    }
    fs::remove_dir(leftover).with_context(|| format!("cannot remove {name}"))
}

/// Makes the directory if there is none, such that it outlasts a crash like the tables in it.
fn make(path: &Path) -> anyhow::Result<MadeDirectories> {
    match fs::metadata(path) {
        Ok(metadata) => {
            ensure!(metadata.is_dir(), "{}: expected a directory, got a file", path_name(path));
            Ok(MadeDirectories::default())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let missing: Vec<_> = path.ancestors().take_while(|directory| !is_there(directory)).collect();
            let made = MadeDirectories::new(missing.iter().map(|directory| (*directory).to_owned()).collect());
            fs::create_dir_all(path)
                .and_then(|()| missing.into_iter().filter_map(Path::parent).try_for_each(sync))
                .with_context(|| format!("cannot make the directory {}", path_name(path)))?;
            Ok(made)
        }
        Err(error) => Err(error).with_context(|| format!("cannot open {}", path_name(path))),
    }
}

/// The parent of a relative path of one name is empty, and is the current directory.
fn is_there(directory: &Path) -> bool {
    directory.as_os_str().is_empty() || directory.exists()
}

fn sync(directory: &Path) -> io::Result<()> {
    let is_current = directory.as_os_str().is_empty();
    LocalFileSystem.sync_directory(if is_current { Path::new(".") } else { directory })
}

fn remove(paths: &[PathBuf]) -> anyhow::Result<()> {
    paths
        .iter()
        .try_for_each(|path| fs::remove_file(path).with_context(|| format!("cannot remove {}", path_name(path))))
}

/// Keeps a second build out, which would take our temporary files for left-overs. The system releases
/// the lock when the process ends, however it ends. Where directories cannot be locked there is none.
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
