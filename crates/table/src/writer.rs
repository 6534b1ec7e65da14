//! Writes table files atomically.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::io::io_error;
use super::{FileSystem, TableBuilder, TableError, TableOptions, TableSummary, WritableFile};

/// Blocks are collected into writes of this size: with 4 KiB blocks, 64 times fewer system calls.
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// Writes a table file: `(add | delete)* finish`, keys strictly ascending.
///
/// The bytes go to a temporary file `.sstfilter-*.tmp` in the table's directory. [`finish`](Self::finish) syncs it,
/// renames it to the table's name, and syncs the directory, so that after a crash there is either the whole table or
/// none. A writer that fails or is dropped unfinished removes its temporary file. Only a crash can leave one, and it
/// never has a table's name.
///
/// For refused entries and poisoned writers, see [`TableBuilder`].
///
/// The sidecar of a replaced table remains, but is no longer used, because it identifies the table that it was made
/// for.
///
/// ```
/// use sstfilter_table::{Lookup, Table, TableOptions, TableWriter};
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
    builder: TableBuilder<Buffered>,
    files: Arc<dyn FileSystem>,
    path: PathBuf,
}

impl TableWriter {
    /// Begins the table that will be at `path`. An existing file remains until [`finish`](Self::finish) replaces it.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`] if no file can be created in the directory of `path`, and the errors of
    /// [`TableBuilder::new`].
    pub fn create(path: impl AsRef<Path>, options: &TableOptions) -> Result<Self, TableError> {
        let (path, files) = (path.as_ref(), Arc::clone(&options.files));
        // First, so that a path where no file can be created fails before any work.
        let (path, file) = create_beside(files.as_ref(), path)?;
        let mut builder = TableBuilder::new(Buffered { file, buffer: Vec::new() }, options)?;
        builder.sink.path = Some(path.clone());
        Ok(Self { builder, files, path })
    }

    /// Adds `key` with `value`.
    ///
    /// # Errors
    ///
    /// The errors of [`TableBuilder::add`].
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        self.builder.add(key, value)
    }

    /// Adds a tombstone for `key`.
    ///
    /// # Errors
    ///
    /// The errors of [`TableBuilder::add`].
    pub fn delete(&mut self, key: &[u8]) -> Result<(), TableError> {
        self.builder.delete(key)
    }

    /// Returns the number of entries added so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.builder.entries()
    }

    /// Returns the approximate bytes of the file if it were finished now, including filters.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        self.builder.estimated_bytes()
    }

    /// Completes the table and renames it to its path.
    ///
    /// # Errors
    ///
    /// The errors of [`TableBuilder::finish`], and [`TableError::Io`] from the syncs and the rename. After an error
    /// there is no new table, except if syncing the directory fails: the table then exists, but may not survive a
    /// crash.
    pub fn finish(self) -> Result<TableSummary, TableError> {
        let Self { builder, files, path } = self;
        let (flushed, summary) = builder.finish()?;
        publish(files.as_ref(), flushed.file, &path)?;
        Ok(summary)
    }
}

/// Collects small writes. Unlike std's `BufWriter`, it writes nothing when dropped: an unfinished table is useless, and
/// the caller's code may be panicking.
#[derive(Debug)]
struct Buffered {
    file: Box<dyn WritableFile>,
    buffer: Vec<u8>,
}

impl Write for Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > WRITE_BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() > WRITE_BUFFER_BYTES {
            // A copy of a large block into the buffer would save no call.
            return self.file.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.buffer);
        // Also after an error: the builder is then poisoned, and nothing may be written twice.
        self.buffer.clear();
        written.and_then(|()| self.file.flush())
    }
}

/// Creates a temporary file in the directory of `path`. Also returns the path, absolute, so that the process may change
/// its directory before the file is published.
pub(crate) fn create_beside(
    files: &dyn FileSystem,
    path: &Path,
) -> Result<(PathBuf, Box<dyn WritableFile>), TableError> {
    let path = files.absolute(path).map_err(io_error("finding the absolute path of", Some(path)))?;
    let file = files.create(directory_of(&path));
    let file = file.map_err(io_error("creating a temporary file for", Some(&path)))?;
    Ok((path, file))
}

/// Syncs a completely written file, and renames it to `path`.
pub(crate) fn publish(files: &dyn FileSystem, mut file: Box<dyn WritableFile>, path: &Path) -> Result<(), TableError> {
    // The bytes, then the name, then the directory with the name: each step relies on the durability of the one before.
    // See `FileSystem`.
    file.sync().map_err(io_error("syncing", Some(path)))?;
    file.persist(path).map_err(io_error("renaming a temporary file to", Some(path)))?;
    files.sync_directory(directory_of(path)).map_err(io_error("syncing the directory of", Some(path)))
}

fn directory_of(path: &Path) -> &Path {
    // The parent of a bare file name is empty, and means the current directory.
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Records the lengths of writes.
    #[derive(Clone, Debug, Default)]
    struct Log(Arc<Mutex<Vec<usize>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl WritableFile for Log {
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn persist(self: Box<Self>, _: &Path) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn small_writes_are_collected_and_dropped_with_the_writer() {
        let log = Log::default();
        let mut file = Buffered { file: Box::new(log.clone()), buffer: Vec::new() };
        for bytes in [100_000, 162_144, 1, 262_145, 50] {
            file.write_all(&vec![7; bytes]).unwrap();
        }
        // The first two fill the buffer exactly, and a larger write bypasses it.
        assert_eq!(*log.0.lock(), [262_144, 1, 262_145]);
        drop(file);
        assert_eq!(log.0.lock().len(), 3);
        let mut file = Buffered { file: Box::new(log.clone()), buffer: Vec::new() };
        file.write_all(&[7; 50]).unwrap();
        file.flush().unwrap();
        assert_eq!(log.0.lock()[3..], [50]);
    }

    #[test]
    fn a_bare_file_name_lies_in_the_current_directory() {
        assert_eq!(directory_of(Path::new("7.sst")), Path::new("."));
        assert_eq!(directory_of(Path::new("/db/7.sst")), Path::new("/db"));
    }
}
