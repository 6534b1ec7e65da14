//! Writing a table file: all of it, or nothing that looks like one.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::io::io_error;
use super::{FileSystem, TableBuilder, TableError, TableOptions, TableSummary, WritableFile};

/// Blocks are collected into writes of this many bytes: with 4 KiB blocks, 64 times fewer system calls.
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// Writes a table file: `(add | delete)* finish`, keys strictly ascending.
///
/// The bytes go to a temporary file beside the table, named `.sstfilter-*.tmp`. [`finish`](Self::finish)
/// syncs it, renames it to the table's name, and syncs the directory, so that after a crash there is
/// either the whole table or none. A writer that is dropped unfinished, or fails, removes its temporary
/// file; only a crash can leave one, and it never has a table's name.
///
/// [`TableBuilder`] says what refuses an entry and what poisons the writer.
///
/// A sidecar of a table that is replaced stays. It is no longer used, because it names the table that it was made for.
///
/// ```
/// use sstfilter::sst::{Lookup, Table, TableOptions, TableWriter};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("000007.sst");
/// let mut writer = TableWriter::create(&path, &TableOptions::default())?;
/// writer.add(b"apple", b"red")?;
/// assert!(!path.exists());
/// let summary = writer.finish()?;
/// assert_eq!(summary.file_bytes, std::fs::metadata(&path)?.len());
///
/// let table = Table::open(&path, &TableOptions::default())?;
/// assert_eq!(table.get(b"banana")?, Lookup::Absent);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TableWriter {
    builder: TableBuilder<BufWriter<Box<dyn WritableFile>>>,
    files: Arc<dyn FileSystem>,
    path: PathBuf,
}

impl TableWriter {
    /// Begins the table that will be at `path`. A file that is there already stays until
    /// [`finish`](Self::finish) replaces it.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`] when no file can be made in the directory of `path`, and those of
    /// [`TableBuilder::new`].
    pub fn create(path: impl AsRef<Path>, options: &TableOptions) -> Result<Self, TableError> {
        let (path, files) = (path.as_ref(), Arc::clone(&options.files));
        let (path, file) = create_beside(files.as_ref(), path)?;
        let mut builder = TableBuilder::new(BufWriter::with_capacity(WRITE_BUFFER_BYTES, file), options)?;
        builder.sink.path = Some(path.clone());
        Ok(Self { builder, files, path })
    }

    /// Adds `key` with `value`.
    ///
    /// # Errors
    ///
    /// Those of [`TableBuilder::add`].
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        self.builder.add(key, value)
    }

    /// Adds a tombstone for `key`.
    ///
    /// # Errors
    ///
    /// Those of [`TableBuilder::add`].
    pub fn delete(&mut self, key: &[u8]) -> Result<(), TableError> {
        self.builder.delete(key)
    }

    /// Entries added so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.builder.entries()
    }

    /// About how many bytes the file would have if it were finished now, the filter included.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        self.builder.estimated_bytes()
    }

    /// Completes the table and gives it its name.
    ///
    /// # Errors
    ///
    /// Those of [`TableBuilder::finish`], and [`TableError::Io`] from the syncs and the rename. There is
    /// then no new table, with one exception: when syncing the directory fails, the table is there but
    /// may not survive a crash.
    pub fn finish(self) -> Result<TableSummary, TableError> {
        let Self { builder, files, path } = self;
        let (flushed, summary) = builder.finish()?;
        publish(files.as_ref(), flushed.into_parts().0, &path)?;
        Ok(summary)
    }
}

/// A file that is to be at `path`, under a temporary name beside it; and the path, absolute, so that the process may
/// change its directory before the file is published.
pub(crate) fn create_beside(
    files: &dyn FileSystem,
    path: &Path,
) -> Result<(PathBuf, Box<dyn WritableFile>), TableError> {
    let path = files.absolute(path).map_err(io_error("finding the place of", Some(path)))?;
    let file = files.create(directory_of(&path));
    let file = file.map_err(io_error("creating a temporary file for", Some(&path)))?;
    Ok((path, file))
}

/// Gives a file that is written to the end its name.
pub(crate) fn publish(files: &dyn FileSystem, mut file: Box<dyn WritableFile>, path: &Path) -> Result<(), TableError> {
    // The bytes, then the name, then the directory that holds the name: each step relies on the one before it
    // having outlasted a crash. See `FileSystem`.
    file.sync().map_err(io_error("syncing", Some(path)))?;
    file.persist(path).map_err(io_error("renaming a temporary file to", Some(path)))?;
    files.sync_directory(directory_of(path)).map_err(io_error("syncing the directory of", Some(path)))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_file_name_lies_in_the_current_directory() {
        assert_eq!(directory_of(Path::new("7.sst")), Path::new("."));
        assert_eq!(directory_of(Path::new("/db/7.sst")), Path::new("/db"));
    }
}
