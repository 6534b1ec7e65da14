//! Errors: damage to a file, and features of its format that this crate does not know.

use core::fmt;
use std::io;

/// A part of a table file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The fixed bytes at the end of the file.
    Footer,
    /// The block that names the other parts.
    Metaindex,
    /// The table's properties.
    Properties,
    /// A full filter, or a LevelDB filter block.
    Filter,
    /// The index of a partitioned filter.
    PartitionIndex,
    /// A partition of a filter.
    Partition,
    /// The index of the data blocks.
    Index,
    /// A data block.
    Data,
    /// Range tombstones.
    RangeTombstones,
    /// The dictionary that data blocks were compressed with.
    CompressionDictionary,
    /// A database's log of changes, a file of its own.
    Manifest,
    /// Another block that the metaindex names; neither filters nor keys depend on it.
    Other,
}

impl Part {
    /// Returns the part's name for use in a sentence, such as `filter`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Footer => "footer",
            Self::Metaindex => "metaindex",
            Self::Properties => "properties",
            Self::Filter => "filter",
            Self::PartitionIndex => "filter partition index",
            Self::Partition => "filter partition",
            Self::Index => "index",
            Self::Data => "data block",
            Self::RangeTombstones => "range tombstones",
            Self::CompressionDictionary => "compression dictionary",
            Self::Manifest => "manifest",
            Self::Other => "block",
        }
    }
}

/// The reason why a table or filter cannot be read, or why its answer would not be safe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Reading failed. The bytes may be sound, and a retry may succeed.
    Io {
        /// The part that was read.
        part: Part,
        /// The kind of failure.
        kind: io::ErrorKind,
        /// The system's message.
        message: String,
    },
    /// Not a table of a known engine: the magic number at the end is none of theirs.
    NotATable {
        /// The last bytes of the file, at most eight.
        found: Vec<u8>,
    },
    /// A checksum does not hold.
    Checksum {
        /// The part that the checksum covers.
        part: Part,
        /// Where the part begins in the file.
        offset: u64,
        /// The stored checksum.
        expected: u32,
        /// The checksum of the bytes that were read.
        found: u32,
    },
    /// The bytes violate the format.
    Malformed {
        /// The part that contains them.
        part: Part,
        /// Where the part begins in the file; 0 for bytes that were passed without their file.
        offset: u64,
        /// Names what was expected and what was found.
        problem: String,
    },
    /// The bytes look sound, but this crate does not know their meaning.
    Unsupported {
        /// The part that uses the feature.
        part: Part,
        /// The feature, with its value.
        what: String,
    },
    /// The table has no filter.
    NoFilter,
}

impl Error {
    pub(crate) fn malformed(part: Part, offset: u64, problem: impl Into<String>) -> Self {
        Self::Malformed { part, offset, problem: problem.into() }
    }

    pub(crate) fn unsupported(part: Part, what: impl Into<String>) -> Self {
        Self::Unsupported { part, what: what.into() }
    }

    /// Compares a stored checksum with that of the bytes that were read.
    pub(crate) fn check(part: Part, offset: u64, expected: u32, found: u32) -> Result<(), Self> {
        if found == expected { Ok(()) } else { Err(Self::Checksum { part, offset, expected, found }) }
    }

    /// Sets the part and the offset: a bare filter does not know where it came from.
    #[must_use]
    pub(crate) fn at(self, part: Part, offset: u64) -> Self {
        match self {
            Self::Malformed { problem, .. } => Self::Malformed { part, offset, problem },
            Self::Unsupported { what, .. } => Self::Unsupported { part, what },
            other => other,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { part, message, .. } => write!(f, "cannot read the {part}: {message}"),
            Self::NotATable { found } => {
                write!(f, "not a table of RocksDB, LevelDB or Pebble: its last bytes are \"{}\"", found.escape_ascii())
            }
            Self::Checksum { part, offset, expected, found } => {
                write!(f, "{part} at {offset} is damaged: expected checksum {expected:#010x}, got {found:#010x}")
            }
            Self::Malformed { part, offset, problem } => write!(f, "{part} at {offset} is malformed: {problem}"),
            Self::Unsupported { part, what } => write!(f, "{part}: {what} is not supported"),
            Self::NoFilter => f.write_str("the table has no filter"),
        }
    }
}

impl core::error::Error for Error {}
