//! Input and output: byte sources, file systems, and reading blocks from them.
//!
//! A block is read in this order: bounds, bytes, bound checksum. A handle alone does not justify an allocation. Every
//! kind of block except the filter has a maximum length, and a block of more than [`WHOLE_BYTES`] gets memory only
//! after its checksum has matched, so a file that is mostly a hole is refused cheaply. Rejected alternative: bounds
//! computed from the properties. A filter may have a user-defined kind and size, and whoever forges a handle can also
//! forge the properties.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::Ordering;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use crc32c::crc32c_append;
use sstfilter::RandomAccess;
use sstfilter::internal::AlignedBuffer;
use tempfile::{NamedTempFile, PersistError};

use super::block::Block;
use super::format::{BLOCK_TRAILER_BYTES, BlockHandle, bind, bound_checksum, compare_checksums, max_contents_bytes};
use super::stats::ReadCounters;
use super::{TableError, TableLocation, TablePart};

/// A file system for [`TableWriter`](super::TableWriter) and [`Table::open`](super::Table::open).
///
/// An engine implements this trait for its own environment (RocksDB's `FileSystem`, Pebble's `vfs.FS`) and sets it with
/// [`TableOptions::with_file_system`](super::TableOptions::with_file_system). A test implements it to make files fail.
/// The default is [`LocalFileSystem`].
///
/// A table is written in this order, up to the first step that fails:
///
/// ```text
/// create   write*   flush   sync   persist   sync_directory
/// ```
///
/// With this order, a table appears whole or not at all. The bytes are synced before the rename, because a name that
/// survives a crash must not refer to bytes that do not. The directory is synced after it, because until then the name
/// itself may be lost.
///
/// Methods added by later releases will have default implementations.
///
/// A failed [`sync`](WritableFile::sync) is never retried: the system may have dropped the bytes that it could not
/// write, and would then report success. The implementation retries interrupted operations itself; only `write` may
/// return [`io::ErrorKind::Interrupted`].
///
/// This file system counts the syncs of another one:
///
/// ```
/// use std::io::{self, Write};
/// use std::path::Path;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use sstfilter::RandomAccess;
/// use sstfilter_table::{FileSystem, LocalFileSystem, TableOptions, TableWriter, WritableFile};
///
/// #[derive(Debug, Default)]
/// struct Counting {
///     below: LocalFileSystem,
///     syncs: Arc<AtomicU32>,
/// }
///
/// #[derive(Debug)]
/// struct CountingFile(Box<dyn WritableFile>, Arc<AtomicU32>);
///
/// impl FileSystem for Counting {
///     fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
///         self.below.open(path)
///     }
///     fn create(&self, directory: &Path) -> io::Result<Box<dyn WritableFile>> {
///         Ok(Box::new(CountingFile(self.below.create(directory)?, self.syncs.clone())))
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
/// impl WritableFile for CountingFile {
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
    /// Opens the file at `path` for reading. Also called for sidecars, which most tables do not have.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none; otherwise the system's error.
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>>;

    /// Creates an empty file in `directory`, with a temporary name that no table has and no reader opens.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn create(&self, directory: &Path) -> io::Result<Box<dyn WritableFile>>;

    /// Makes the current names in `directory` survive a crash.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Returns `path` in a form that names the same file for the life of the process. If names do not depend on the
    /// system's current directory, returns `path` itself.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }
}

/// A file that is being written under a temporary name: `write* sync persist`.
///
/// A file that is dropped before it is persisted is removed.
pub trait WritableFile: Write + fmt::Debug + Send {
    /// Makes all written bytes survive a crash.
    ///
    /// # Errors
    ///
    /// The system's error. Some of the bytes may then be lost, and the file is useless.
    fn sync(&mut self) -> io::Result<()>;

    /// Renames the file to `path`, in the directory where it was created. Replaces an existing file atomically.
    ///
    /// # Errors
    ///
    /// The system's error. The file is then removed, as if it were dropped.
    fn persist(self: Box<Self>, path: &Path) -> io::Result<()>;
}

/// The local file system, through the standard library.
///
/// Temporary files are named `.sstfilter-*.tmp`, and locked while they are written. Windows may refuse to replace an
/// open file, such as the sidecar of an open table. The new file is then removed, and the system's error returned.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFileSystem;

impl FileSystem for LocalFileSystem {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
        // Checked before opening, because merely opening some devices has an effect. If there is no file, this is the
        // only call.
        check_regular(&std::fs::metadata(path)?)?;
        Ok(Box::new(open_regular(path)?))
    }

    fn create(&self, directory: &Path) -> io::Result<Box<dyn WritableFile>> {
        let mut temporary = tempfile::Builder::new();
        temporary.prefix(".sstfilter-").suffix(".tmp");
        // `make_in`, not `tempfile_in`: the file gets the usual permissions (a temporary file gets 0600), and errors
        // keep the system's code.
        Ok(Box::new(LocalFile(temporary.make_in(directory, create_locked)?)))
    }

    /// Only Unix needs this and can do it.
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
    }
}

/// Creates a file and locks it until it is closed, so that whoever removes the files of writers that were killed sees
/// that this one is in use. `AlreadyExists` makes the caller try another name: such a process was faster than the lock.
fn create_locked(path: &Path) -> io::Result<File> {
    let file = File::create_new(path)?;
    let is_locked = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    let is_removed = matches!(path.try_exists(), Ok(false));
    if is_locked || is_removed { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(file) }
}

/// Opens a file that was regular a moment ago. A pipe may have replaced it since, and opening must not wait for a
/// writer, hence `O_NONBLOCK`.
fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    // `O_NOCTTY`: opening a terminal must not make it the controlling one.
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Refuses everything but regular files: a pipe would block, and a device has no length.
fn check_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file, got a device or pipe"));
    }
    Ok(())
}

/// Maximum retries of an interrupted rename.
const MAX_INTERRUPTIONS: u32 = 100;

/// Writes to the file itself: the errors of `NamedTempFile`'s own [`Write`] lack the system's error number.
#[derive(Debug)]
struct LocalFile(NamedTempFile);

impl Write for LocalFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_file_mut().flush()
    }
}

impl WritableFile for LocalFile {
    fn sync(&mut self) -> io::Result<()> {
        self.0.as_file().sync_all()
    }

    fn persist(self: Box<Self>, path: &Path) -> io::Result<()> {
        persist_by(self.0, |file| file.persist(path).map(drop))
    }
}

/// Renames `file` with `rename`, and retries when a signal interrupts it.
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

/// Blocks up to this size are read once, larger ones twice, the first time in pieces. Filters of fewer than 50 million
/// keys at 10 bits are smaller.
pub(crate) const WHOLE_BYTES: u64 = 64 << 20;

const PIECE_BYTES: usize = 1 << 20;

/// A source with its length, path and counters.
pub(crate) struct TableFile {
    source: Box<dyn RandomAccess>,
    /// The path it was opened by, if any.
    pub(crate) path: Option<Arc<Path>>,
    pub(crate) length: u64,
    pub(crate) counters: ReadCounters,
}

impl TableFile {
    pub(crate) fn new(source: Box<dyn RandomAccess>, path: Option<Arc<Path>>) -> Result<Self, TableError> {
        // Only once: the bytes must not change while the table is open.
        let length = source.len().map_err(io_error("reading the length of", path.as_deref()))?;
        Ok(Self { source, path, length, counters: ReadCounters::default() })
    }

    pub(crate) fn location(&self, part: TablePart, offset: u64) -> TableLocation {
        TableLocation { path: self.path.clone(), part, offset }
    }

    /// Fills `buf` with the bytes from `offset` on.
    pub(crate) fn read_into(&self, buf: &mut [u8], offset: u64) -> Result<(), TableError> {
        self.source.read_exact_at(buf, offset).map_err(io_error("reading", self.path.as_deref()))?;
        // Counts only successful reads.
        self.counters.bytes_read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Reads `length` bytes into a buffer aligned to a cache line. The range must be inside the file.
    pub(crate) fn read_bytes(&self, offset: u64, length: u64) -> Result<Bytes, TableError> {
        let buffer = AlignedBuffer::without_tail(length).ok_or_else(|| io::ErrorKind::OutOfMemory.into());
        let mut buffer = buffer.map_err(io_error("reading", self.path.as_deref()))?;
        self.read_into(buffer.as_mut_slice(), offset)?;
        Ok(buffer.freeze())
    }

    /// Reads a block of entries.
    pub(crate) fn read_block(&self, part: TablePart, handle: BlockHandle, id: &[u8; 16]) -> Result<Block, TableError> {
        Block::open(self.read_contents(part, handle, id)?, self.location(part, handle.offset))
    }

    /// Reads the contents of a block into a buffer aligned to a cache line. Compares their checksum with the stored one
    /// and with the handle's. Allocates more than [`WHOLE_BYTES`] only after the checksum has matched.
    pub(crate) fn read_contents(
        &self,
        part: TablePart,
        handle: BlockHandle,
        id: &[u8; 16],
    ) -> Result<Bytes, TableError> {
        let at = self.location(part, handle.offset);
        self.check_inside(&at, handle.bytes())?;
        let most = max_contents_bytes(part);
        if handle.contents_bytes > most {
            let expected = format!("contents of at most {most} bytes");
            return Err(TableError::corrupt(at, expected, handle.contents_bytes));
        }
        if handle.contents_bytes > WHOLE_BYTES {
            let contents = handle.offset..handle.offset + handle.contents_bytes;
            let mut stored = [0; BLOCK_TRAILER_BYTES];
            self.read_into(&mut stored, contents.end)?;
            // The stored checksum first, so that a block in a hole of the file is refused after four bytes.
            compare_checksums(handle.checksum, u32::from_le_bytes(stored), &at)?;
            let got = bind(self.checksum_in_pieces(contents)?, id, handle.offset);
            compare_checksums(handle.checksum, got, &at)?;
        }
        // After a read in pieces, this second read may return other bytes, so the checksum is compared again.
        let bytes = self.read_bytes(handle.offset, handle.bytes())?;
        let contents = bytes.slice(..bytes.len() - BLOCK_TRAILER_BYTES);
        let stored = bytes.last_chunk().copied().map_or(0, u32::from_le_bytes);
        let got = bound_checksum(&contents, id, handle.offset);
        // Both: the stored checksum detects damage; the handle's detects an older block of the same table and offset.
        compare_checksums(stored, got, &at)?;
        compare_checksums(handle.checksum, got, &at)?;
        Ok(contents)
    }

    /// Returns an error unless the `bytes` bytes from `at` on are inside the file.
    pub(crate) fn check_inside(&self, at: &TableLocation, bytes: u64) -> Result<(), TableError> {
        if at.offset.checked_add(bytes).is_some_and(|end| end <= self.length) {
            return Ok(());
        }
        let expected = format!("a block inside the {} bytes of the file", self.length);
        Err(TableError::corrupt(at.clone(), expected, format_args!("{bytes} bytes")))
    }

    /// Returns the CRC32C of a range inside the file, without keeping its bytes in memory.
    pub(crate) fn checksum_in_pieces(&self, range: Range<u64>) -> Result<u32, TableError> {
        let (mut seen, mut piece) = (0, vec![0; PIECE_BYTES]);
        for offset in range.clone().step_by(PIECE_BYTES) {
            piece.truncate(usize::try_from(range.end - offset).unwrap_or(PIECE_BYTES));
            self.read_into(&mut piece, offset)?;
            seen = crc32c_append(seen, &piece);
        }
        Ok(seen)
    }
}

/// Adds the failed operation and the path to the system's error.
pub(crate) fn io_error(context: &'static str, path: Option<&Path>) -> impl FnOnce(io::Error) -> TableError {
    move |source| TableError::Io { context, path: path.map(Path::to_path_buf), source }
}

#[cfg(test)]
mod tests {
    use io::ErrorKind::{Interrupted, PermissionDenied};

    use super::*;

    fn check(source: &impl RandomAccess) {
        assert_eq!(source.len().unwrap(), 5);
        let mut three = [0; 3];
        source.read_exact_at(&mut three, 2).unwrap();
        assert_eq!(&three, b"cde");
        source.read_exact_at(&mut [], 5).unwrap();
        for offset in [3, 5, 6, u64::MAX] {
            let error = source.read_exact_at(&mut three, offset).unwrap_err();
            assert!(matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput), "{offset}");
        }
    }

    #[test]
    fn a_temporary_file_is_locked_while_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = LocalFileSystem.create(directory.path()).unwrap();
        let path = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
        let other = File::open(&path).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        // Windows removes a file when its last handle is closed.
        drop((other, file));
        assert!(!path.exists());
        assert!(create_locked(&path).is_ok());
        assert_eq!(create_locked(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn files_bytes_and_pointers_to_them_read_alike() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"abcde").unwrap();
        check(&file);
        let bytes = Bytes::from_static(b"abcde");
        check(&bytes);
        check(&Arc::new(bytes.clone()));
        check(&(Box::new(bytes) as Box<dyn RandomAccess>));
    }

    #[test]
    fn a_pending_file_is_there_under_another_name_until_it_is_persisted_or_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let count = || std::fs::read_dir(directory.path()).unwrap().count();
        let files = LocalFileSystem;
        drop(files.create(directory.path()).unwrap());
        assert_eq!(count(), 0);
        let mut pending = files.create(directory.path()).unwrap();
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

    /// The pipe takes the place of the file between the check and the opening.
    #[cfg(unix)]
    // promise: safe-to-open
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
        let error = LocalFileSystem.create(Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(2));
        let pending = LocalFileSystem.create(&std::env::temp_dir()).unwrap();
        assert_eq!(pending.persist(Path::new("/nowhere/1.sst")).unwrap_err().raw_os_error(), Some(2));
    }

    #[test]
    fn a_rename_is_retried_after_a_signal_and_after_no_other_error() {
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

    const ID: [u8; 16] = [3; 16];

    fn file() -> TableFile {
        let mut bytes = b"......contents".to_vec();
        bytes.extend(bound_checksum(b"contents", &ID, 6).to_le_bytes());
        TableFile::new(Box::new(Bytes::from(bytes)), None).unwrap()
    }

    /// Returns a handle with the checksum of the block at 6.
    fn handle(offset: u64, contents_bytes: u64) -> BlockHandle {
        BlockHandle { offset, contents_bytes, checksum: bound_checksum(b"contents", &ID, 6) }
    }

    #[test]
    fn a_block_is_read_whole_and_counted() {
        let file = file();
        assert_eq!(file.read_contents(TablePart::Data, handle(6, 8), &ID).unwrap(), &b"contents"[..]);
        assert_eq!(file.counters.bytes_read.into_inner(), 12);
    }

    #[test]
    fn another_table_and_another_place_are_damage() {
        let foreign = file().read_contents(TablePart::Data, handle(6, 8), &[4; 16]);
        assert!(matches!(foreign, Err(TableError::Checksum { .. })));
        let misplaced = file().read_contents(TablePart::Data, handle(5, 8), &ID);
        assert!(matches!(misplaced, Err(TableError::Checksum { .. })));
    }

    #[test]
    fn contents_that_belong_to_table_and_place_but_are_not_those_of_the_handle_are_damage() {
        let sum = bound_checksum(b"contents", &ID, 6);
        let handle = |checksum| BlockHandle { offset: 6, contents_bytes: 8, checksum };
        assert_eq!(file().read_contents(TablePart::Data, handle(sum), &ID).unwrap(), &b"contents"[..]);
        let newer = bound_checksum(b"newer...", &ID, 6);
        match file().read_contents(TablePart::Data, handle(newer), &ID) {
            Err(TableError::Checksum { expected, got, .. }) => assert_eq!((expected, got), (newer, sum)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_handle_beyond_the_file_is_refused_before_any_memory_is_allocated() {
        for (offset, contents_bytes) in [(6, 9), (0, u64::MAX), (u64::MAX, 1), (1 << 40, 1 << 40)] {
            let refused = file().read_contents(TablePart::Data, handle(offset, contents_bytes), &ID);
            assert!(matches!(refused, Err(TableError::Corrupt { .. })), "{offset}");
        }
    }

    #[test]
    fn a_block_longer_than_any_of_its_name_is_refused() {
        let file = TableFile::new(Box::new(Hole(1 << 40)), None).unwrap();
        let most = [
            (TablePart::Metaindex, 4_096),
            (TablePart::Properties, 4_429_185_024),
            (TablePart::Data, 134_217_792),
            (TablePart::Index, u32::MAX.into()),
        ];
        for (block, most) in most {
            let refused =
                |contents_bytes| file.read_contents(block, handle(0, contents_bytes), &ID).unwrap_err().to_string();
            assert!(refused(most + 1).contains(&format!("at most {most} bytes, got {}", most + 1)), "{block}");
            assert!(refused(most).contains("checksum"), "{block}");
        }
    }

    /// Zeros.
    struct Hole(u64);

    impl RandomAccess for Hole {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0)
        }

        fn read_exact_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
            buf.fill(0);
            Ok(())
        }
    }

    #[test]
    fn a_block_that_is_checked_in_pieces_reads_back_and_each_byte_of_it_counts() {
        for length in [WHOLE_BYTES, WHOLE_BYTES + 1, WHOLE_BYTES + 2 * PIECE_BYTES as u64] {
            let mut bytes = vec![0x5a; usize::try_from(length).unwrap() + 6];
            let checksum = bound_checksum(&bytes[6..], &ID, 6);
            bytes.extend(checksum.to_le_bytes());
            let handle = BlockHandle { offset: 6, contents_bytes: length, checksum };
            let read = |bytes: &[u8]| {
                let file = TableFile::new(Box::new(Bytes::copy_from_slice(bytes)), None).unwrap();
                file.read_contents(TablePart::Index, handle, &ID)
            };
            assert_eq!(read(&bytes).unwrap(), &bytes[6..bytes.len() - 4]);
            for damaged in [6, 5 + PIECE_BYTES, 6 + PIECE_BYTES, bytes.len() - 5, bytes.len() - 1] {
                bytes[damaged] ^= 1;
                assert!(matches!(read(&bytes), Err(TableError::Checksum { .. })), "{length} bytes, byte {damaged}");
                bytes[damaged] ^= 1;
            }
        }
    }
}
