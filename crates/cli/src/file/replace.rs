//! How the program writes files, and which files it may replace.
//!
//! A file appears whole or not at all. An existing file is replaced only if it is a regular file; a link is neither
//! followed nor replaced. Otherwise, `--out /dev/full` would turn the device into a file. And it is replaced only if
//! its checksums show that this program wrote it: other programs number their tables in the same way, and a text may
//! end with a magic number. No input is replaced, whoever wrote it. A sidecar of 0 bytes, as after a crash, may be
//! replaced, because nothing is lost. Nothing proves the origin of a sidecar that was cut short.

use std::collections::BTreeSet;
use std::fs::{self, File, FileType, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use sstfilter_table::{FileSystem, LocalFileSystem};
use tempfile::NamedTempFile;

use super::database::directory_of;
use super::look::{Format, begins_with, is_own_file, list};
use super::names::is_leftover;
use crate::system::{input, interrupt};
use crate::words::escape::path_name;

/// What shows that this program wrote a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mark {
    /// The checksum at the end of a file of this format.
    End(Format),
    /// The same, of a filter without a table.
    BareFilter,
    /// The beginning of a page.
    Beginning(&'static str),
}

impl Mark {
    pub(crate) const SIDECAR: Self = Self::End(Format::Sidecar);

    fn is_on(self, path: &Path) -> anyhow::Result<bool> {
        match self {
            Self::SIDECAR if input::length(path) == Some(0) => Ok(true),
            Self::End(look) => is_own_file(path, &[look]),
            Self::BareFilter => {
                is_own_file(path, &[Format::FilterBlock, Format::RangeFilter, Format::PartitionedFilter])
            }
            Self::Beginning(text) => begins_with(path, text.as_bytes()),
        }
    }
}

/// What to do with a file in the place of a sidecar.
const MOVE_OR_DELETE: &str = "move it away, or delete it by hand if it is the rest of a sidecar";

/// Fails if `path` exists, unless it has the mark of files that may be replaced.
pub(crate) fn ensure_replaceable(path: &Path, mark: Option<Mark>) -> anyhow::Result<()> {
    let name = path_name(path);
    // Not `metadata`, which follows links.
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.with_context(|| format!("cannot read {name}"))?.file_type(),
    };
    ensure!(found.is_file(), "{name}: expected a regular file or none, got {}: it is not replaced", kind(found));
    match mark {
        None => bail!("{name} already exists: choose another --out, or replace it with --overwrite"),
        Some(mark) if mark.is_on(path)? => Ok(()),
        Some(Mark::SIDECAR) => bail!("{name} was not written by this command, or was cut short: {MOVE_OR_DELETE}"),
        Some(_) => bail!("{name} was not written by this command: move it away, or choose another path"),
    }
}

fn kind(found: FileType) -> &'static str {
    if found.is_symlink() {
        "a symbolic link"
    } else if found.is_dir() {
        "a directory"
    } else {
        "a device, a pipe or a socket"
    }
}

/// Fails if `out` is one of the files that are read. Two paths may lead to one file.
pub(crate) fn ensure_no_input<'a>(out: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    let Ok(replaced) = fs::canonicalize(out) else { return Ok(()) };
    let is_input = |path: &Path| fs::canonicalize(path).is_ok_and(|path| path == replaced);
    ensure!(!inputs.into_iter().any(is_input), "{}: expected another file than those that are read", path_name(out));
    Ok(())
}

/// Writes a file under a temporary name and then renames it.
pub(crate) fn write(path: &Path, contents: &[u8], mark: Option<Mark>) -> anyhow::Result<()> {
    let _writing = interrupt::writing();
    write_with(path, mark, |file| file.write_all(contents))
}

/// Like [`write`], with contents that `fill` writes. Call it only while [`interrupt::writing`] is held.
pub(crate) fn write_with<T>(
    path: &Path,
    mark: Option<Mark>,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> anyhow::Result<T> {
    let context = || format!("cannot write {}", path_name(path));
    // Of the file itself, because a rename does not cross file systems.
    let directory = directory_of(path).unwrap_or(Path::new("."));
    remove_leftovers(directory).with_context(context)?;
    let mut file = LocalFileSystem.create(directory).with_context(context)?;
    // Synced before the rename: after a crash, the name must not lead to a file without its bytes.
    let filled = fill(&mut file).and_then(|filled| file.sync().map(|()| filled)).with_context(context)?;
    // Checked again: minutes may have passed since the first check.
    ensure_replaceable(path, mark)?;
    file.persist(path).and_then(|()| LocalFileSystem.sync_directory(directory)).with_context(context)?;
    Ok(filled)
}

/// Creates a temporary file, locked as those of tables are.
pub(crate) fn temporary(directory: &Path) -> io::Result<NamedTempFile> {
    loop {
        let file = tempfile::Builder::new().prefix(".sstfilter-").suffix(".tmp").tempfile_in(directory)?;
        let is_locked = matches!(file.as_file().try_lock(), Err(TryLockError::WouldBlock));
        // Otherwise, a run that removes leftovers was faster.
        if !is_locked && file.path().exists() {
            return Ok(file);
        }
    }
}

/// Removes the temporary files that killed runs left in a directory, when this run first writes there. A file that
/// cannot be removed stays.
pub(crate) fn remove_leftovers(directory: &Path) -> anyhow::Result<()> {
    static DONE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if DONE.lock().unwrap_or_else(PoisonError::into_inner).insert(directory.to_owned()) {
        let files = list(directory)?;
        files.iter().filter(|file| is_leftover(file)).for_each(|file| drop(remove_leftover(file)));
    }
    Ok(())
}

/// Removes a file with the name of a temporary file, and returns whether it did: not while a process writes it, which
/// has locked it, nor where the system has no locks.
pub(crate) fn remove_leftover(path: &Path) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(false);
    }
    // Held until the file is gone.
    let file = File::open(path)?;
    if file.try_lock().is_err() { Ok(false) } else { fs::remove_file(path).map(|()| true) }
}

/// Files that one command writes to one directory, each recognized by its beginning.
pub(crate) struct OwnFiles(Vec<(PathBuf, Mark)>);

impl OwnFiles {
    /// Creates the directory if it is missing, and checks that files with these names and beginnings can be written.
    pub(crate) fn prepare(
        directory: &Path,
        files: impl IntoIterator<Item = (impl AsRef<Path>, &'static str)>,
        inputs: &[PathBuf],
    ) -> anyhow::Result<Self> {
        let name = path_name(directory);
        fs::create_dir_all(directory).with_context(|| format!("cannot create the directory {name} (--out)"))?;
        ensure_no_database(directory)?;
        let own = |(name, mark): (_, _)| (directory.join(name), Mark::Beginning(mark));
        let files: Vec<_> = files.into_iter().map(own).collect();
        // All before the first is written: half of a new report next to half of an old one would mislead.
        for (path, mark) in &files {
            ensure_replaceable(path, Some(*mark))?;
            ensure_no_input(path, inputs.iter().map(AsRef::as_ref))?;
        }
        // A trial, so that a read-only directory is refused before the work and not after it.
        let file = LocalFileSystem.create(directory);
        file.map(drop).with_context(|| format!("cannot write in the directory {name} (--out)"))?;
        Ok(Self(files))
    }

    /// Writes the contents of all files in their order and returns the file names.
    pub(crate) fn write(&self, contents: &[impl AsRef<[u8]>]) -> anyhow::Result<Vec<String>> {
        let write = |((path, mark), contents): (&(PathBuf, Mark), &_)| {
            write(path, AsRef::as_ref(contents), Some(*mark)).map(|()| path_name(path).into_owned())
        };
        self.0.iter().zip(contents).map(write).collect()
    }
}

/// Fails for the directory of a database, because only its engine may write there.
pub(crate) fn ensure_no_database(path: &Path) -> anyhow::Result<()> {
    let context = || format!("cannot read the directory {}", path_name(path));
    for entry in fs::read_dir(path).with_context(context)? {
        let name = entry.with_context(context)?.file_name();
        let is_of_database = name == "CURRENT" || name.as_encoded_bytes().starts_with(b"MANIFEST-");
        let (name, found) = (path_name(path), path_name(Path::new(&name)));
        ensure!(!is_of_database, "{name} is the directory of a database (it contains {found}): choose another --out");
    }
    Ok(())
}
