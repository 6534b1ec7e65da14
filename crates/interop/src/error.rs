//! What is wrong with a file, or not known of it.

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
    /// The log of a database's changes, beside its tables.
    Manifest,
    /// A block that the metaindex names, and that neither filters nor keys depend on.
    Other,
}

impl Part {
    /// Its name in a sentence: `filter`.
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

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a table or a filter cannot be read, or why its answer would not be safe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Reading failed. This says nothing about the bytes, and may pass.
    Io {
        /// The part that was read.
        part: Part,
        /// The kind of failure.
        kind: io::ErrorKind,
        /// What the system says.
        message: String,
    },
    /// No table of an engine that is known: the magic number at the end is another.
    NotATable {
        /// The last bytes of the file, at most eight.
        found: Vec<u8>,
    },
    /// A checksum does not hold.
    Checksum {
        /// The part it is the checksum of.
        part: Part,
        /// Where the part begins in the file.
        offset: u64,
        /// What is stored.
        expected: u32,
        /// What the bytes give.
        found: u32,
    },
    /// Bytes that the format does not allow.
    Malformed {
        /// The part that has them.
        part: Part,
        /// Where the part begins in the file; 0 for bytes that were given without their file.
        offset: u64,
        /// What was expected, and what was found.
        problem: String,
    },
    /// Sound, as far as can be told, but of a kind whose meaning is not known here.
    Unsupported {
        /// The part that has it.
        part: Part,
        /// What it is, and its value.
        what: String,
    },
    /// The table has no filter.
    NoFilter,
}

impl Error {
    /// The same error, of a part that is known to be at `offset`: a bare filter does not know where it came from.
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
