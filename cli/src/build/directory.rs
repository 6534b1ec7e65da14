//! The directory that tables are written to: made, locked, and cleared of what is to go.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use sstfilter::sst::{FileSystem, LocalFileSystem};

use crate::interrupt::MadeDirectories;
use crate::{files, units};

/// A directory that this process alone builds in, for as long as the value lives.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// Tables of an earlier build with their sidecars, the last one first.
    old_tables: Vec<PathBuf>,
    /// Temporary files of killed runs that were removed.
    pub(super) leftovers_removed: u64,
    _lock: Option<File>,
    /// Those that stay without a table go with this value.
    _made: MadeDirectories,
}

impl Directory {
    /// Makes the directory if need be and removes what killed runs left there. Tables stay until
    /// [`remove_old_tables`](Self::remove_old_tables).
    pub(super) fn open(path: &Path, overwrite: bool) -> anyhow::Result<Self> {
        let made = make(path)?;
        let lock = lock(path)?;
        let table_of = |file: &PathBuf| files::table_beside(file).unwrap_or_else(|| file.clone());
        let (mut tables, others): (Vec<_>, Vec<_>) =
            files::list(path)?.into_iter().partition(|file| files::has_table_extension(&table_of(file)));
        if let Some(foreign) = tables.iter().find(|file| !files::is_numbered_by_us(&table_of(file))) {
            bail!("{} was not written by this command: move it away, or choose another --out", foreign.display());
        }
        if !tables.is_empty() && !overwrite {
            let count = tables.iter().filter(|file| files::has_table_extension(file)).count().max(1);
            let (directory, tables) = (path.display(), units::counted(count as u64, "table"));
            bail!("{directory} holds {tables} already: choose another --out, or replace them with --overwrite");
        }
        // The sidecar of a table before the table: it would be taken for that of the next one of this name.
        let order = |file: &PathBuf| (files::table_number(&table_of(file)), files::table_beside(file).is_some());
        tables.sort_by_key(|file| core::cmp::Reverse(order(file)));
        let leftovers: Vec<_> = others.into_iter().filter(|file| files::is_leftover(file)).collect();
        remove(&leftovers)?;
        Ok(Self {
            path: path.to_owned(),
            old_tables: tables,
            leftovers_removed: leftovers.len() as u64,
            _lock: lock,
            _made: made,
        })
    }

    /// Removes the tables of an earlier build, so that no lookup mixes the two: the last one first, so
    /// that a kill leaves its first tables without a gap.
    pub(super) fn remove_old_tables(&self) -> anyhow::Result<()> {
        remove(&self.old_tables)
    }
}

/// Makes the directory if there is none, such that it outlasts a crash like the tables in it.
fn make(path: &Path) -> anyhow::Result<MadeDirectories> {
    match fs::metadata(path) {
        Ok(metadata) => {
            ensure!(metadata.is_dir(), "{}: expected a directory, got a file", path.display());
            Ok(MadeDirectories::default())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let missing: Vec<_> = path.ancestors().take_while(|directory| !is_there(directory)).collect();
            let made = MadeDirectories::new(missing.iter().map(|directory| (*directory).to_owned()).collect());
            fs::create_dir_all(path)
                .and_then(|()| missing.into_iter().filter_map(Path::parent).try_for_each(sync))
                .with_context(|| format!("cannot make the directory {}", path.display()))?;
            Ok(made)
        }
        Err(error) => Err(error).with_context(|| format!("cannot open {}", path.display())),
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
    paths.iter().try_for_each(|path| fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display())))
}

/// Keeps a second build out, which would take our temporary files for left-overs. The system releases
/// the lock when the process ends, however it ends. Where directories cannot be locked there is none.
fn lock(path: &Path) -> anyhow::Result<Option<File>> {
    let directory = match File::open(path) {
        Ok(directory) => directory,
        Err(_) if !cfg!(unix) => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot open {}", path.display())),
    };
    match directory.try_lock() {
        Ok(()) => Ok(Some(directory)),
        Err(TryLockError::WouldBlock) => {
            bail!("another build is writing to {}: wait for it, or choose another --out", path.display())
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}
