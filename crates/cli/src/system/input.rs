//! Input files, named by path, or by `-` for standard input.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use sstfilter::RandomAccess;
use sstfilter_table::{FileSystem, LocalFileSystem};

use super::memory;
use crate::words::escape::path_name;
use crate::words::units;

/// The path of standard input. A file with this name is `./-`.
const STANDARD_INPUT: &str = "-";

/// How standard input was read. It can be read only once: a second reader would wait or find it empty.
static STANDARD_INPUT_USE: Mutex<Use> = Mutex::new(Use::None);

enum Use {
    None,
    /// As a stream that has a reader.
    Stream,
    /// As a table or a filter block, which is read in several places.
    Whole(Bytes),
}

/// Whether `path` stands for standard input.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Returns the path as messages and reports show it.
pub(crate) fn name(path: &Path) -> Cow<'_, str> {
    if is_standard(path) { Cow::Borrowed("standard input") } else { path_name(path) }
}

/// Opens a file, a pipe, or standard input for reading from beginning to end. `option` is the command line option that
/// named the path.
pub(crate) fn open(path: &Path, option: &str) -> anyhow::Result<Box<dyn Read>> {
    if is_standard(path) {
        let mut usage = STANDARD_INPUT_USE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        ensure!(matches!(*usage, Use::None), "standard input can be read only once: pass `-` in one place");
        *usage = Use::Stream;
        return Ok(Box::new(io::stdin().lock()));
    }
    let context = || format!("cannot read {} ({option})", name(path));
    let file = File::open(path).with_context(context)?;
    // A directory opens like a file on Unix; its first read fails with a message that does not name it.
    ensure!(!file.metadata().with_context(context)?.is_dir(), "{}: expected a file, got a directory", name(path));
    Ok(Box::new(file))
}

/// A regular file that is read in parts: a pipe would block, and a device may have no end. Standard input is read into
/// memory first.
pub(crate) struct RegularFile {
    path: PathBuf,
    /// Its bytes, which are read on demand.
    pub(crate) source: Box<dyn RandomAccess>,
    pub(crate) length: u64,
}

impl RegularFile {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        if is_standard(path) {
            let bytes = whole_standard_input()?;
            return Ok(Self { path: path.to_owned(), length: bytes.len() as u64, source: Box::new(bytes) });
        }
        let opened = LocalFileSystem.open(path).and_then(|source| Ok((source.len()?, source)));
        let (length, source) = opened.with_context(|| cannot_read(path))?;
        Ok(Self { path: path.to_owned(), source, length })
    }

    /// Returns the last `bytes` of the file, or the whole file if it is shorter.
    pub(crate) fn end(&self, bytes: u64) -> anyhow::Result<Bytes> {
        let bytes = bytes.min(self.length);
        self.read(self.length - bytes, bytes)
    }

    pub(crate) fn read(&self, offset: u64, length: u64) -> anyhow::Result<Bytes> {
        // `try_reserve`: the length may come from a damaged file, and a plain allocation would abort the process.
        let mut bytes = Vec::new();
        let reserved = usize::try_from(length).ok().filter(|&length| bytes.try_reserve_exact(length).is_ok());
        let read = reserved.ok_or(io::Error::from(io::ErrorKind::OutOfMemory)).and_then(|length| {
            bytes.resize(length, 0);
            self.source.read_exact_at(&mut bytes, offset)
        });
        read.with_context(|| cannot_read(&self.path))?;
        Ok(bytes.into())
    }

    /// Returns the bytes of the file up to the first piece of zeros: an engine stops reading a log there.
    pub(crate) fn up_to_hole(&self) -> anyhow::Result<Vec<u8>> {
        const PIECE_BYTES: u64 = 1 << 20;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < self.length {
            let offset = bytes.len() as u64;
            let piece = self.read(offset, PIECE_BYTES.min(self.length - offset))?;
            if piece.iter().all(|&byte| byte == 0) {
                break;
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", name(path))
}

/// Reads all of standard input. It is kept, so that this can be called again.
pub(crate) fn whole_standard_input() -> anyhow::Result<Bytes> {
    let mut usage = STANDARD_INPUT_USE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match &*usage {
        Use::Whole(bytes) => return Ok(bytes.clone()),
        Use::Stream => bail!("standard input can be read only once: pass `-` in one place"),
        Use::None => {}
    }
    // Standard input has no length, and may never end: available memory is the limit.
    let limit = memory::available_bytes().unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(limit).read_to_end(&mut bytes);
    read.context("cannot read standard input")?;
    let most = units::bytes(limit);
    let is_whole = (bytes.len() as u64) < limit;
    ensure!(is_whole, "standard input: expected less than the {most} of available memory: pass a file");
    let bytes = Bytes::from(bytes);
    *usage = Use::Whole(bytes.clone());
    Ok(bytes)
}

/// Returns the length of a regular file; `None` for input without a known length, such as a pipe.
pub(crate) fn length(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok().filter(|_| !is_standard(path))?;
    metadata.is_file().then_some(metadata.len())
}
