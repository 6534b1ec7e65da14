//! What can go wrong with a table, where, and what was expected there.

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
    /// The data blocks, or one of them.
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
    /// The part's name, as messages and the metaindex have it.
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

/// A place in a table: which part, at which byte of the file, and of which file if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableLocation {
    /// The file, when the table was opened by path.
    pub path: Option<Arc<Path>>,
    /// The part of the table.
    pub part: TablePart,
    /// Its first byte in the file.
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
    /// The system refused a read, a write, or a change of the directory.
    Io {
        /// What was being done.
        context: &'static str,
        /// The file, if known.
        path: Option<PathBuf>,
        /// What the system said.
        source: io::Error,
    },
    /// A key that does not sort after the one before it. It was refused; the writer goes on.
    KeyOrder {
        /// The key before it.
        previous: Vec<u8>,
        /// The key refused.
        got: Vec<u8>,
    },
    /// A key or a value beyond the limit. It was refused; the writer goes on.
    TooLong {
        /// "key" or "value".
        what: &'static str,
        /// Most bytes of it.
        max: u64,
        /// Bytes that it has.
        got: u64,
    },
    /// A block that cannot hold what the table needs: cut the file earlier.
    BlockTooLarge {
        /// The block.
        block: TablePart,
        /// Most bytes of it.
        max: u64,
        /// Bytes needed.
        got: u64,
    },
    /// More extractors than a table can have, or one whose name cannot be stored.
    Extractors {
        /// How many, or names of which length.
        expected: &'static str,
        /// The number, or the length.
        got: usize,
    },
    /// An earlier call failed to write, or panicked, so the file is incomplete: drop the writer and begin again.
    Poisoned,
    /// The file does not end like a table.
    NotATable {
        /// Where the magic number should be.
        at: TableLocation,
        /// What stands there.
        got: [u8; 8],
    },
    /// A table of a version that this reader does not know.
    Version {
        /// Where the version stands.
        at: TableLocation,
        /// The newest version this reader knows.
        expected: u32,
        /// The table's version.
        got: u32,
    },
    /// The file is longer or shorter than its footer says, or too short for a footer.
    FileLength {
        /// The footer.
        at: TableLocation,
        /// Bytes by the footer.
        expected: u64,
        /// Bytes found.
        got: u64,
    },
    /// A damaged block, or one that belongs to another table, another place or an earlier write.
    Checksum {
        /// The block.
        at: TableLocation,
        /// The checksum that the block carries, or that it has where it is named.
        expected: u32,
        /// The checksum of what was found.
        got: u32,
    },
    /// Contents that no writer produces, under a valid checksum or in padding, which has none.
    Corrupt {
        /// The block.
        at: TableLocation,
        /// What should be there.
        expected: String,
        /// What is.
        got: String,
    },
    /// A filter is not used. Reads go on without it, or with the table's own if it is that of a sidecar; `verify`
    /// reports it.
    Filter {
        /// The filter, in the file of the table or of the sidecar.
        at: TableLocation,
        /// What is wrong with it.
        source: FilterProblem,
    },
    /// Data that cannot be read: a data block, or bytes between two that are sound. Only
    /// [`Table::salvage`](super::Table::salvage) gives it.
    Missing {
        /// The bytes in the file.
        bytes: Range<u64>,
        /// How many data blocks; `None` where the index is damaged.
        blocks: Option<u64>,
        /// No missing key sorts before the first or after the second.
        keys: (Bound<Bytes>, Bound<Bytes>),
        /// The error that reading them gave.
        source: Box<Self>,
    },
    /// The filter lacks a key that the table holds.
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

    /// Whether a filter is not used because it was built with another hash or secret seed than the reader's, or of
    /// other parts of keys: a mistake in the reader's options, not damage.
    #[must_use]
    pub fn is_foreign_filter(&self) -> bool {
        matches!(self, Self::Filter { source, .. } if source.is_foreign())
    }

    /// The error that made data unreadable, for [`Missing`](Self::Missing); every other error itself.
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
                f.write_str("an earlier call failed or panicked: expected no more calls; begin the table again")
            }
            Self::NotATable { at, got } => {
                write!(f, "not a table: expected the magic number SSTFLTR in the {at}, got {}", shown(got))
            }
            Self::Version { at, expected, got } => {
                write!(f, "table version in the {at}: expected 1 to {expected}, got {got}; use a newer release")
            }
            Self::FileLength { at, expected, got } => {
                let what = if got < expected { "cut short" } else { "too long" };
                write!(f, "{what}: expected a file length of {expected} bytes by the {at}, got {got}")
            }
            Self::Checksum { at, expected, got } => write!(
                f,
                "damaged, or of another table, place or time: {at}: expected checksum {expected:#010x}, got {got:#010x}"
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

/// Most bytes of a key that a message shows.
const SHOWN_BYTES: usize = 32;

/// Key bytes as a person reads them: escaped, cut when long.
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
        for part in ["index at offset 4096", "/db/7.sst", "expected checksum 0x00000001", "got 0x00000002"] {
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
