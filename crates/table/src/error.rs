//! Errors of tables: where, what was expected, and what was found.

use core::fmt;
use core::ops::{Bound, Range};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use sstfilter_store::FilterProblem;

/// A part of a table file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TablePart {
    /// One or all of the data blocks.
    Data,
    /// The zeros before a filter.
    Padding,
    /// The filter block, or all partitions of the filter.
    Filter,
    /// The top index of a partitioned filter.
    FilterIndex,
    /// The range filter block.
    RangeFilter,
    /// The properties block.
    Properties,
    /// The index block.
    Index,
    /// The metaindex block.
    Metaindex,
    /// The footer.
    Footer,
}

impl TablePart {
    /// Returns the part's name in messages and in the metaindex.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Padding => "padding",
            Self::Filter => "filter",
            Self::FilterIndex => "filter-index",
            Self::RangeFilter => "range-filter",
            Self::Properties => "properties",
            Self::Index => "index",
            Self::Metaindex => "metaindex",
            Self::Footer => "footer",
        }
    }
}

impl fmt::Display for TablePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A location in a table: the part, the offset in the file, and the file's path if known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableLocation {
    /// The file, if the table was opened by path.
    pub path: Option<Arc<Path>>,
    /// The part of the table.
    pub part: TablePart,
    /// The offset of the part in the file.
    pub offset: u64,
}

impl fmt::Display for TableLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.part, self.offset)?;
        self.path.as_ref().map_or(Ok(()), |path| write!(f, " of {}", path.display()))
    }
}

/// Why a table cannot be written or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum TableError {
    /// The file system refused a read, a write, or a change of the directory.
    Io {
        /// The operation that failed.
        context: &'static str,
        /// The file, if known.
        path: Option<PathBuf>,
        /// The error of the file system.
        source: io::Error,
    },
    /// A key that does not sort after the previous one. It was refused, and the writer can continue.
    KeyOrder {
        /// The previous key.
        previous: Vec<u8>,
        /// The refused key.
        got: Vec<u8>,
    },
    /// A key or a value beyond the limit. It was refused, and the writer can continue.
    TooLong {
        /// "key" or "value".
        what: &'static str,
        /// Most bytes of it.
        max: u64,
        /// Its length in bytes.
        got: u64,
    },
    /// A block would exceed its maximum length: cut the file earlier.
    BlockTooLarge {
        /// The block.
        block: TablePart,
        /// Most bytes of it.
        max: u64,
        /// Bytes that it needs.
        got: u64,
    },
    /// Too many extractors, or one whose name cannot be stored.
    Extractors {
        /// The allowed number of extractors, or length of a name.
        expected: &'static str,
        /// The number of extractors, or the length of a name.
        got: usize,
    },
    /// An earlier call failed to write, or panicked, so the file is incomplete. Drop the writer and start over.
    Poisoned,
    /// The file does not end like a table.
    NotATable {
        /// The expected location of the magic number.
        at: TableLocation,
        /// The bytes at this location.
        got: [u8; 8],
    },
    /// A table of a version that this reader does not know.
    Version {
        /// The location of the version.
        at: TableLocation,
        /// The newest version that this reader knows.
        expected: u32,
        /// The table's version.
        got: u32,
    },
    /// The file is longer or shorter than its footer says, or too short for a footer.
    FileLength {
        /// The footer.
        at: TableLocation,
        /// The length that the footer states.
        expected: u64,
        /// The length found.
        got: u64,
    },
    /// A damaged block, or one that belongs to another table, another offset or an earlier write.
    Checksum {
        /// The block.
        at: TableLocation,
        /// The checksum stored with the block, or in a reference to it.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// Contents that no writer produces, under a valid checksum, or in padding, which has no checksum.
    Corrupt {
        /// The block.
        at: TableLocation,
        /// The expected contents.
        expected: String,
        /// The contents found.
        got: String,
    },
    /// A filter is not used. Reads continue without it, or with the table's own if it is a sidecar's; `verify` reports
    /// it.
    Filter {
        /// The filter, in the table's file or in the sidecar.
        at: TableLocation,
        /// The problem of the filter.
        source: FilterProblem,
    },
    /// Data that cannot be read: a data block, or the bytes between two sound ones. Only
    /// [`Table::salvage`](super::Table::salvage) returns it.
    Missing {
        /// The range of bytes in the file.
        bytes: Range<u64>,
        /// Number of data blocks; `None` if the index is damaged.
        blocks: Option<u64>,
        /// Bounds of the missing keys.
        keys: (Bound<Bytes>, Bound<Bytes>),
        /// The error from reading them.
        source: Box<Self>,
    },
    /// The filter answers "absent" for a key of the table.
    FalseNegative {
        /// The filter block.
        at: TableLocation,
        /// The key.
        key: Vec<u8>,
    },
}

impl TableError {
    pub(crate) fn corrupt(at: TableLocation, expected: impl Into<String>, got: impl fmt::Display) -> Self {
        Self::Corrupt { at, expected: expected.into(), got: got.to_string() }
    }

    /// Whether a filter is not used because it was built with another hash or secret seed than the reader's, or from
    /// other key parts. This is a mistake in the reader's options, not damage.
    #[must_use]
    pub fn is_foreign_filter(&self) -> bool {
        matches!(self, Self::Filter { source, .. } if source.is_foreign())
    }

    /// Returns the error that made data unreadable, for [`Missing`](Self::Missing); otherwise the error itself.
    pub(crate) fn cause(self) -> Self {
        if let Self::Missing { source, .. } = self { *source } else { self }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { context, path: Some(path), source } => write!(f, "{context} {}: {source}", path.display()),
            Self::Io { context, path: None, source } => write!(f, "{context}: {source}"),
            Self::KeyOrder { previous, got } => {
                write!(f, "keys must ascend: expected one after {}, got {}", shown(previous), shown(got))
            }
            Self::TooLong { what, max, got } => write!(f, "{what} too long: expected at most {max} bytes, got {got}"),
            Self::BlockTooLarge { block, max, got } => {
                write!(f, "{block} block too large: expected at most {max} bytes, got {got}; cut the table earlier")
            }
            Self::Extractors { expected, got } => write!(f, "key extractors: expected {expected}, got {got}"),
            Self::Poisoned => {
                f.write_str("an earlier call failed or panicked: expected no more calls; start the table over")
            }
            Self::NotATable { at, got } => {
                write!(f, "not a table: expected the magic number SSTFLTR in the {at}, got {}", shown(got))
            }
            Self::Version { at, expected, got } => {
                write!(f, "table version in the {at}: expected 1 to {expected}, got {got}; use a newer release")
            }
            Self::FileLength { at, expected, got } => {
                let what = if got < expected { "cut short" } else { "too long" };
                write!(f, "{what}: expected a file length of {expected} bytes from the {at}, got {got}")
            }
            Self::Checksum { at, expected, got } => write!(
                f,
                "checksum of the {at}: expected {expected:#010x}, got {got:#010x}; the bytes are damaged, or belong to \
                 another table, offset or write"
            ),
            Self::Corrupt { at, expected, got } => write!(f, "corrupt: {at}: expected {expected}, got {got}"),
            Self::Filter { at, source } => write!(f, "{at} is not used: {source}"),
            Self::Missing { bytes, keys: (lower, upper), source, .. } => {
                f.write_str("keys")?;
                for (bound, included, excluded) in [(lower, "from", "after"), (upper, "up to", "and before")] {
                    match bound {
                        Bound::Included(key) => write!(f, " {included} {}", shown(key))?,
                        Bound::Excluded(key) => write!(f, " {excluded} {}", shown(key))?,
                        Bound::Unbounded => {}
                    }
                }
                write!(f, ", {} bytes at offset {}: {source}", bytes.end - bytes.start, bytes.start)
            }
            Self::FalseNegative { at, key } => {
                write!(f, "{at}: expected it to contain every key of the table, got \"absent\" for {}", shown(key))
            }
        }
    }
}

impl core::error::Error for TableError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Missing { source, .. } => Some(source),
            Self::Filter { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Maximum bytes of a key in a message.
const SHOWN_BYTES: usize = 32;

/// Formats key bytes for people: escaped, and truncated if long.
pub(crate) fn shown(key: &[u8]) -> String {
    match key.get(..SHOWN_BYTES) {
        Some(start) if key.len() > SHOWN_BYTES => format!("\"{}\"... ({} bytes)", start.escape_ascii(), key.len()),
        _ => format!("\"{}\"", key.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_where_what_was_expected_and_what_was_found() {
        let path = Some(Path::new("/db/7.sst").into());
        let at = TableLocation { path, part: TablePart::Index, offset: 4096 };
        let error = TableError::Checksum { at: at.clone(), expected: 1, got: 2 };
        let text = error.to_string();
        for part in ["index at offset 4096", "/db/7.sst", "expected 0x00000001", "got 0x00000002"] {
            assert!(text.contains(part), "{text}");
        }
        let text = TableError::corrupt(at, "a restart point", 9).to_string();
        assert!(text.ends_with("expected a restart point, got 9"), "{text}");
    }

    #[test]
    fn keys_in_messages_are_escaped_and_cut() {
        assert_eq!(shown(b"a\n\xff"), "\"a\\n\\xff\"");
        let long = shown(&[b'x'; 1_000]);
        assert!(long.len() < 80 && long.contains("1000 bytes"), "{long}");
    }
}
