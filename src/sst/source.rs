//! Where the filters of a table are read from: the table itself, or a sidecar beside it.

use core::ops::Range;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::format::part_of;
use super::io::{TableFile, WHOLE_BYTES, io_error};
use super::parts::TableParts;
use super::{FileSystem, TableError, TableLocation, TablePart};
use crate::store::{FilterMetadata, FilterProblem, FilterSection, FilterSource, sidecar_path};

/// The filter bytes in a file.
pub(super) struct FilterBytes {
    pub(super) file: Arc<TableFile>,
    /// Where they begin.
    pub(super) start: u64,
    pub(super) metadata: Arc<FilterMetadata>,
}

impl FilterBytes {
    pub(super) fn new(file: &Arc<TableFile>, start: u64, metadata: Arc<FilterMetadata>) -> Self {
        Self { file: file.clone(), start, metadata }
    }

    /// Where a filter is.
    pub(super) fn location(&self, section: &FilterSection) -> TableLocation {
        self.file.location(part_of(section.part), self.start.saturating_add(section.offset))
    }

    /// The bytes in `range`, on a cache-line boundary. A description alone is no reason to allocate: more than
    /// [`WHOLE_BYTES`] are read only once their checksum has held.
    pub(super) fn read_range(&self, range: Range<u64>) -> Result<Bytes, TableError> {
        let at = self.file.location(TablePart::Filter, self.start.saturating_add(range.start));
        let end = self.start.checked_add(range.end).filter(|&end| end <= self.file.length);
        let length = range.end.saturating_sub(range.start);
        if end.is_none() {
            let expected = format!("a filter inside the {} bytes of the file", self.file.length);
            return Err(TableError::corrupt(at, expected, format_args!("{length} bytes")));
        }
        if length > WHOLE_BYTES {
            // A filter in one block, whose checksum is of all but its last four bytes.
            let mut whole = self.metadata.sections().iter().filter(|section| section.index_bytes == 0);
            let section = whole.find(|section| section.range() == range).ok_or_else(|| {
                TableError::corrupt(at.clone(), "a partition of at most 64 MiB", format_args!("{length} bytes"))
            })?;
            let got = self.file.checksum_in_pieces(at.offset..at.offset + length - 4)?;
            super::format::compare_checksums(section.checksum, got, &at)?;
        }
        self.file.read_bytes(at.offset, length)
    }
}

impl FilterSource for FilterBytes {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.read_range(range).map_err(|problem| match problem {
            TableError::Io { source, .. } => source,
            other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
        })
    }
}

/// Bytes of a sidecar's end that are read at once: a trailer, and a longer description than most have.
const END_BYTES: u64 = 512;

/// Looks for the sidecar of a table: what it says of its filters, and where they are. `None` if there is none. A table
/// without one costs one look at a directory, or one attempt to open a file.
///
/// It must have the table's smallest and largest key, of which it also has what the hash and the extractors make: one
/// of other keys would seem to show that these have changed.
pub(super) fn find_sidecar(
    table: &Path,
    files: &dyn FileSystem,
    parts: &TableParts,
) -> Option<Result<FilterBytes, TableError>> {
    let path: Arc<Path> = sidecar_path(table).into();
    if !files.may_exist(&path) {
        return None;
    }
    let source = match files.open(&path) {
        Err(error) if is_missing(&error) => return None,
        opened => opened.map_err(io_error("opening", Some(&path))),
    };
    let file = source.and_then(|source| TableFile::new(source, Some(path.clone())));
    Some(file.and_then(|file| {
        let refused = |source: FilterProblem| TableError::Sidecar { path: path.to_path_buf(), source };
        let mut tail = read_end(&file, END_BYTES)?;
        let tail_bytes = FilterMetadata::sidecar_tail_bytes(&tail).map_err(refused)?;
        if tail_bytes > tail.len() as u64 {
            tail = read_end(&file, tail_bytes)?;
        }
        let metadata = FilterMetadata::of_sidecar(&tail, file.length, &parts.identity()).map_err(refused)?;
        if metadata.key_bounds() != parts.properties.filters.key_bounds() {
            let (what, expected) = ("filters of a sidecar", "all keys from the table's smallest to its largest");
            return Err(refused(FilterProblem::Field { what, expected, got: metadata.keys_added().to_string() }));
        }
        Ok(FilterBytes::new(&Arc::new(file), 0, metadata.into()))
    }))
}

/// Whether there is no sidecar. Beside a table whose own name is as long as names can be, there cannot be one.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

/// The last `max` bytes of a file, or all of it.
fn read_end(file: &TableFile, max: u64) -> Result<Bytes, TableError> {
    let bytes = max.min(file.length);
    file.read_bytes(file.length - bytes, bytes)
}
