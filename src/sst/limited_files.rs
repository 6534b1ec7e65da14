//! Many files, few descriptors.
//!
//! A store of 100,000 tables has more files than a process may have descriptors (1,024 by default on many systems). A
//! file is opened again by its name when a read needs it, and the file that has gone unread the longest, about, is
//! closed for it.
//!
//! Which one is found by a clock: open files stand in a circle, a read marks its file, and a hand that looks for one to
//! close clears marks until it comes to a file without. A read of an open file so touches nothing but that file's own
//! memory. Rejected: a cache in the order of use, because every read would then change what all threads share.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{FileSystem, RandomAccess, WritableFile};
use crate::panics::lock;

/// A file system that keeps at most a number of its files open, for stores of more tables than a process may have
/// descriptors.
///
/// A file that was closed in the meantime is opened by its name again when it is read. So the names must stay while
/// tables are open on them, which an engine that removes a table's file under its readers has to know: a file that has
/// vanished is an error of each read that needs it, and one that has been replaced by a file of another length is, too.
/// A table notices by its checksums if the other file has the same length. A filter that cannot be read for these
/// reasons is "may be present", as always.
///
/// The number is exceeded only while more threads than that read at the same time: each of them then has one descriptor
/// of its own. Clones share the number.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter::sst::{LimitedFiles, LocalFileSystem, Lookup, ReadOptions, Table, TableOptions, TableWriter};
///
/// let directory = tempfile::tempdir()?;
/// let path = |number: u32| directory.path().join(format!("{number}.sst"));
/// for number in 0..10 {
///     let mut writer = TableWriter::create(path(number), &TableOptions::default())?;
///     writer.add(b"apple", &number.to_le_bytes())?;
///     writer.finish()?;
/// }
///
/// let files = LimitedFiles::new(Arc::new(LocalFileSystem), 3);
/// let options = ReadOptions::default().with_file_system(Arc::new(files.clone()));
/// let tables = (0..10).map(|number| Table::open(path(number), &options)).collect::<Result<Vec<_>, _>>()?;
/// assert!(tables.iter().all(|table| matches!(table.get(b"apple"), Ok(Lookup::Found(_)))));
/// assert_eq!(files.open_files(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LimitedFiles(Arc<Shared>);

impl LimitedFiles {
    /// The files of `below`, at most `most_open` of them open; with 0, each read opens its file and closes it.
    #[must_use]
    pub fn new(below: Arc<dyn FileSystem>, most_open: usize) -> Self {
        Self(Arc::new(Shared { below, most_open, circle: Mutex::default() }))
    }

    /// How many files are kept open now.
    #[must_use]
    pub fn open_files(&self) -> usize {
        lock(&self.0.circle).files.len()
    }
}

impl FileSystem for LimitedFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
        // Absolute, so that the process may change its directory before the file is opened again.
        let path = self.0.below.absolute(path)?;
        let room = self.0.make_room();
        let opened: Descriptor = self.0.below.open(&path)?.into();
        let file = Arc::new(OneFile::new(path, opened.len()?));
        self.0.keep(&file, opened, room);
        Ok(Box::new(LimitedFile { file, shared: Arc::clone(&self.0) }))
    }

    fn create(&self, directory: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.0.below.create(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.0.below.sync_directory(directory)
    }

    /// Makes no room for a file that is not there.
    fn may_exist(&self, path: &Path) -> bool {
        self.0.below.may_exist(path)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.below.absolute(path)
    }
}

impl fmt::Debug for LimitedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedFiles")
            .field("below", &self.0.below)
            .field("most_open", &self.0.most_open)
            .field("open", &self.open_files())
            .finish()
    }
}

/// What the files have in common.
struct Shared {
    below: Arc<dyn FileSystem>,
    most_open: usize,
    /// Locked before a file's own lock, never after it.
    circle: Mutex<Circle>,
}

/// The open files.
#[derive(Default)]
struct Circle {
    files: Vec<Arc<OneFile>>,
    /// The file that is looked at next when one is to be closed.
    hand: usize,
    /// Files that are being opened, or closed to make room. With `files` never more than may be open.
    reserved: usize,
}

impl Shared {
    /// Reserves a place for one more open file, and closes another one if need be. `None` while all are being read.
    fn make_room(&self) -> Option<Reserved<'_>> {
        let mut circle = lock(&self.circle);
        let closed =
            if circle.files.len() + circle.reserved < self.most_open { None } else { Some(circle.take_one()?) };
        circle.reserved += 1;
        drop(circle);
        // The system's call to close it, while others go on.
        drop(closed);
        Some(Reserved(self))
    }

    /// Opens `file` again.
    fn reopen(&self, file: &Arc<OneFile>) -> io::Result<Descriptor> {
        let room = self.make_room();
        let opened: Descriptor = self.below.open(&file.path)?.into();
        let (expected, got) = (file.length, opened.len()?);
        if expected != got {
            let reason = format!("replaced while it was in use: expected {expected} bytes, got {got}");
            return Err(io::Error::other(reason));
        }
        Ok(self.keep(file, opened, room))
    }

    /// Keeps `opened` for `file` if there is `room`. Returns what to read by: another thread may have been faster.
    fn keep(&self, file: &Arc<OneFile>, opened: Descriptor, room: Option<Reserved<'_>>) -> Descriptor {
        let Some(room) = room else { return opened };
        let mut circle = lock(&self.circle);
        let mut kept = lock(&file.descriptor);
        let faster = kept.clone();
        if faster.is_none() {
            *kept = Some(Arc::clone(&opened));
            file.position.store(circle.files.len(), Ordering::Relaxed);
            circle.files.push(Arc::clone(file));
        }
        drop((kept, circle));
        let to_read = if let Some(faster) = faster { faster } else { Arc::clone(&opened) };
        // Closed, if it is not kept, before its place is given back.
        drop(opened);
        drop(room);
        to_read
    }

    /// Closes `file` for good.
    fn forget(&self, file: &OneFile) {
        let mut circle = lock(&self.circle);
        let closed = lock(&file.descriptor).take();
        if closed.is_some() {
            circle.remove(file.position.load(Ordering::Relaxed));
        }
        // Closing can take long: not while others wait.
        drop(circle);
        drop(closed);
    }
}

impl Circle {
    /// Takes a file out that has not been read since the hand last passed it, and that nobody is reading.
    fn take_one(&mut self) -> Option<Descriptor> {
        // Once around clears all marks; the second time only files that are being read remain.
        for _ in 0..2 * self.files.len() {
            let position = if self.hand < self.files.len() { self.hand } else { 0 };
            if let Some(closed) = self.files.get(position)?.take_unread() {
                self.remove(position);
                self.hand = position;
                return Some(closed);
            }
            self.hand = position + 1;
        }
        None
    }

    fn remove(&mut self, position: usize) {
        self.files.swap_remove(position);
        if let Some(moved) = self.files.get(position) {
            moved.position.store(position, Ordering::Relaxed);
        }
    }
}

/// A place for an open file, given back when it is dropped.
struct Reserved<'a>(&'a Shared);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        lock(&self.0.circle).reserved -= 1;
    }
}

type Descriptor = Arc<dyn RandomAccess>;

/// A file that is open, or was.
struct OneFile {
    path: Box<Path>,
    length: u64,
    /// Locked only to be copied or changed.
    descriptor: Mutex<Option<Descriptor>>,
    /// Whether it was read since the hand last came by.
    was_read: AtomicBool,
    /// Where it is among the open files. Read and changed under the lock of these, which orders both.
    position: AtomicUsize,
}

impl OneFile {
    fn new(path: PathBuf, length: u64) -> Self {
        Self {
            path: path.into(),
            length,
            descriptor: Mutex::default(),
            was_read: AtomicBool::new(false),
            position: AtomicUsize::new(0),
        }
    }

    /// The descriptor, if it is open, for a read that begins now.
    fn to_read(&self) -> Option<Descriptor> {
        // Loaded first: a file that is read all the time is not written to by each of its readers.
        if !self.was_read.load(Ordering::Relaxed) {
            self.was_read.store(true, Ordering::Relaxed);
        }
        lock(&self.descriptor).clone()
    }

    /// The descriptor, no longer kept, unless the file was read since the last time or is being read now.
    fn take_unread(&self) -> Option<Descriptor> {
        if self.was_read.swap(false, Ordering::Relaxed) {
            return None;
        }
        let mut descriptor = lock(&self.descriptor);
        // Copies are made under this lock, so that the count cannot grow now.
        let is_idle = descriptor.as_ref().is_some_and(|descriptor| Arc::strong_count(descriptor) == 1);
        if is_idle { descriptor.take() } else { None }
    }
}

/// One file as a table reads it.
struct LimitedFile {
    file: Arc<OneFile>,
    shared: Arc<Shared>,
}

impl RandomAccess for LimitedFile {
    /// The length that the file had when it was opened first.
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.length)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let descriptor = match self.file.to_read() {
            Some(descriptor) => descriptor,
            None => self.shared.reopen(&self.file)?,
        };
        descriptor.read_exact_at(buf, offset)
    }
}

impl Drop for LimitedFile {
    fn drop(&mut self) {
        self.shared.forget(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// An open file that was read since the hand last came by.
    fn file() -> Arc<OneFile> {
        let file = OneFile::new(PathBuf::from("file"), 0);
        *lock(&file.descriptor) = Some(Arc::new(Bytes::new()));
        file.was_read.store(true, Ordering::Relaxed);
        Arc::new(file)
    }

    #[test]
    fn the_one_file_that_nobody_reads_is_closed_although_all_were_read_since_the_hand_came_by() {
        let files: Vec<_> = (0..5).map(|_| file()).collect();
        let (idle, others) = files.split_last().unwrap();
        let being_read: Vec<_> = others.iter().map(|file| file.to_read().unwrap()).collect();
        let mut circle = Circle { files: files.clone(), ..Circle::default() };
        assert!(circle.take_one().is_some() && lock(&idle.descriptor).is_none());
        assert!(circle.take_one().is_none(), "all others are being read");
        assert_eq!(circle.files.len(), 4);
        drop(being_read);
        assert!((0..4).all(|_| circle.take_one().is_some()) && circle.take_one().is_none());
        assert!(circle.files.is_empty());
    }
}
