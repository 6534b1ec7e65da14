//! Where table files lie: among the system's files, or wherever an engine keeps its own.

use core::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, PersistError};

use super::RandomAccess;

/// Files by name, for [`TableWriter`](super::TableWriter) and [`Table::open`](super::Table::open).
///
/// An engine that has an environment of its own (RocksDB's `FileSystem`, Pebble's `vfs.FS`) implements this
/// for it and sets it with [`TableOptions::with_file_system`](super::TableOptions::with_file_system) and
/// [`ReadOptions::with_file_system`](super::ReadOptions::with_file_system); a test does so to make files
/// fail. Unless one is set, tables are files of the system: [`LocalFileSystem`].
///
/// A table is written in this order, and the first step that fails is the last one taken:
///
/// ```text
/// create_temporary   write*   flush   sync   persist   sync_directory
/// ```
///
/// Operations that later releases add will have defaults.
///
/// A failed [`sync`](PendingFile::sync) is never tried again: the system may have dropped what it could
/// not write, and would report the next one as done. An interrupted operation is to be taken up again by
/// the implementation; only from `write` is [`io::ErrorKind::Interrupted`] understood.
///
/// A file system that counts the syncs of another one:
///
/// ```
/// use std::io::{self, Write};
/// use std::path::Path;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use sstfilter::{FileSystem, LocalFileSystem, PendingFile, RandomAccess, TableOptions, TableWriter};
///
/// #[derive(Debug, Default)]
/// struct Counting {
///     below: LocalFileSystem,
///     syncs: Arc<AtomicU32>,
/// }
///
/// #[derive(Debug)]
/// struct CountingFile(Box<dyn PendingFile>, Arc<AtomicU32>);
///
/// impl FileSystem for Counting {
///     fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
///         self.below.open(path)
///     }
///     fn create_temporary(&self, directory: &Path) -> io::Result<Box<dyn PendingFile>> {
///         Ok(Box::new(CountingFile(self.below.create_temporary(directory)?, self.syncs.clone())))
///     }
///     fn sync_directory(&self, directory: &Path) -> io::Result<()> {
///         self.syncs.fetch_add(1, Ordering::Relaxed);
///         self.below.sync_directory(directory)
///     }
/// }
///
/// impl Write for CountingFile {
///     fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
///         self.0.write(bytes)
///     }
///     fn flush(&mut self) -> io::Result<()> {
///         self.0.flush()
///     }
/// }
///
/// impl PendingFile for CountingFile {
///     fn sync(&mut self) -> io::Result<()> {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         self.0.sync()
///     }
///     fn persist(self: Box<Self>, path: &Path) -> io::Result<()> {
///         self.0.persist(path)
///     }
/// }
///
/// let files = Arc::new(Counting::default());
/// let options = TableOptions::default().with_file_system(files.clone());
/// let directory = tempfile::tempdir()?;
/// TableWriter::create(directory.path().join("000001.sst"), &options)?.finish()?;
/// assert_eq!(files.syncs.load(Ordering::Relaxed), 2, "the file, then its directory");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Opens the file at `path` to be read.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>>;

    /// Makes an empty file in `directory`, under a name that no table has and no reader opens.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn create_temporary(&self, directory: &Path) -> io::Result<Box<dyn PendingFile>>;

    /// Makes the names in `directory` outlast a crash, as they are now.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// `path` in a form that means the same file for as long as the process lives. Where names have nothing to do
    /// with the system's current directory, that is `path` itself.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }
}

/// A file that is being written and has no name of its own yet: `write* sync persist`.
///
/// Dropped before it is persisted, it removes itself.
pub trait PendingFile: Write + fmt::Debug + Send {
    /// Makes all that was written outlast a crash.
    ///
    /// # Errors
    ///
    /// What the system says. What was written is then lost or not, and the file of no use.
    fn sync(&mut self) -> io::Result<()>;

    /// Names the file `path`, in the directory that it was made in; a file of this name is replaced, at no
    /// moment missing.
    ///
    /// # Errors
    ///
    /// What the system says. The file is then removed, as when it is dropped.
    fn persist(self: Box<Self>, path: &Path) -> io::Result<()>;
}

/// The system's files, by the standard library.
///
/// Temporary files are named `.sstfilter-*.tmp`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFileSystem;

impl FileSystem for LocalFileSystem {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
        // Before it is opened, because opening is enough to set some devices off.
        check_regular(&std::fs::metadata(path)?)?;
        Ok(Box::new(open_regular(path)?))
    }

    fn create_temporary(&self, directory: &Path) -> io::Result<Box<dyn PendingFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let mut temporary = tempfile::Builder::new();
        temporary.prefix(".sstfilter-").suffix(".tmp");
        // Made by hand, it has the permissions of other files and errors keep the system's code.
        Ok(Box::new(LocalPending(temporary.make_in(directory, |path| options.open(path))?)))
    }

    /// Only Unix knows and needs this.
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
    }
}

/// Opens a file that was regular a moment ago. What has come in its place since then is refused, and not waited for:
/// opening a pipe without a writer would take until there is one.
fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// A pipe would be waited for, and a device has no length.
fn check_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file, got a device or pipe"));
    }
    Ok(())
}

/// How often a rename is taken up again.
const MAX_INTERRUPTIONS: u32 = 100;

#[derive(Debug)]
struct LocalPending(NamedTempFile);

impl Write for LocalPending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_file_mut().flush()
    }
}

impl PendingFile for LocalPending {
    fn sync(&mut self) -> io::Result<()> {
        self.0.as_file().sync_all()
    }

    fn persist(self: Box<Self>, path: &Path) -> io::Result<()> {
        persist_by(self.0, |file| file.persist(path).map(drop))
    }
}

/// Renames `file` by `rename`: once more each time that a signal interrupts it.
fn persist_by(
    mut file: NamedTempFile,
    mut rename: impl FnMut(NamedTempFile) -> Result<(), PersistError>,
) -> io::Result<()> {
    for _ in 0..MAX_INTERRUPTIONS {
        match rename(file) {
            Err(failed) if failed.error.kind() == io::ErrorKind::Interrupted => file = failed.file,
            renamed => return renamed.map_err(|failed| failed.error),
        }
    }
    rename(file).map_err(|failed| failed.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_file_is_there_under_another_name_until_it_is_persisted_or_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let count = || std::fs::read_dir(directory.path()).unwrap().count();
        let files = LocalFileSystem;
        drop(files.create_temporary(directory.path()).unwrap());
        assert_eq!(count(), 0);
        let mut pending = files.create_temporary(directory.path()).unwrap();
        pending.write_all(b"abc").unwrap();
        pending.sync().unwrap();
        let path = directory.path().join("a");
        assert!(!path.exists() && count() == 1);
        pending.persist(&path).unwrap();
        files.sync_directory(directory.path()).unwrap();
        let mut read = [0; 3];
        files.open(&path).unwrap().read_exact_at(&mut read, 0).unwrap();
        assert_eq!((&read, count()), (b"abc", 1));
    }

    /// As between the first look at a file and its opening.
    #[cfg(unix)]
    #[test]
    fn a_pipe_that_takes_the_place_of_a_file_while_it_is_opened_is_refused_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("000001.sst");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(open_regular(&pipe).map(drop)).unwrap());
        let opened = told.recv_timeout(std::time::Duration::from_secs(10)).expect("opening waits for a writer");
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let device = open_regular(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(device.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(open_regular(directory.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[cfg(unix)]
    #[test]
    fn an_error_of_the_system_keeps_its_code() {
        let error = LocalFileSystem.create_temporary(Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(2));
        let pending = LocalFileSystem.create_temporary(&std::env::temp_dir()).unwrap();
        assert_eq!(pending.persist(Path::new("/nowhere/1.sst")).unwrap_err().raw_os_error(), Some(2));
    }

    #[test]
    fn a_rename_is_taken_up_again_after_a_signal_and_after_no_other_error() {
        use io::ErrorKind::{Interrupted, PermissionDenied};
        let renames = |interruptions: u32, last: Option<io::ErrorKind>| {
            let mut attempts = 0;
            let renamed = persist_by(NamedTempFile::new().unwrap(), |file| {
                attempts += 1;
                let kind = if attempts <= interruptions { Some(Interrupted) } else { last };
                kind.map_or(Ok(()), |kind| Err(PersistError { error: kind.into(), file }))
            });
            (attempts, renamed.map_err(|error| error.kind()))
        };
        assert_eq!(renames(0, None), (1, Ok(())));
        assert_eq!(renames(0, Some(PermissionDenied)), (1, Err(PermissionDenied)));
        assert_eq!(renames(2, None), (3, Ok(())));
        assert_eq!(renames(2, Some(PermissionDenied)), (3, Err(PermissionDenied)));
        assert_eq!(renames(MAX_INTERRUPTIONS, None), (MAX_INTERRUPTIONS + 1, Ok(())));
        assert_eq!(renames(u32::MAX, None), (MAX_INTERRUPTIONS + 1, Err(Interrupted)));
    }
}
