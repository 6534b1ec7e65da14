//! Why a file's filters, or one of them, are not used.

use core::fmt;

use sstfilter::{BlockError, HashIdentity};

use super::identity::TableIdentity;
use super::partition::PartitionError;

/// Why a filter is not used, or a description of filters not accepted. To a read, all of them mean "may be present".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterProblem {
    /// A version that this reader does not know: use a newer release.
    Version {
        /// What has the version.
        what: &'static str,
        /// The newest version that this reader knows.
        expected: u32,
        /// The version found.
        got: u32,
    },
    /// Damage.
    Checksum {
        /// What is damaged.
        what: &'static str,
        /// The checksum that was stored.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// More or fewer bytes than were written, or fewer than there must be.
    Length {
        /// What has this length.
        what: &'static str,
        /// The bytes that were written, or the fewest that there must be.
        expected: u64,
        /// The bytes there are.
        got: u64,
    },
    /// A field with a value that no writer writes; magic bytes of something else.
    Field {
        /// What has the field, and which it is.
        what: &'static str,
        /// The values that it may have.
        expected: &'static str,
        /// The value found.
        got: String,
    },
    /// The filter holds no part of keys that the store probes for, or its ranges are inside prefixes of another
    /// extractor.
    Parts {
        /// The parts that the store probes for.
        expected: String,
        /// The parts that the filter holds.
        got: String,
    },
    /// A sidecar of another table, or of an earlier table under the same name: make it again.
    OtherTable {
        /// The table that it was opened for.
        expected: TableIdentity,
        /// The table that it was made for.
        got: TableIdentity,
    },
    /// What the filter's own bytes say.
    Block(BlockError),
    /// The filter is cut into partitions, and this is wrong with its bytes.
    Partition(PartitionError),
    /// The hash, or an extractor, of the store gives others for keys of a file than when its filters were built, though
    /// it has the same identity or name. No filter of the store is used then.
    ReaderChanged {
        /// The identity of the hash.
        hash: HashIdentity,
    },
    /// The bytes could not be read.
    Unreadable {
        /// What went wrong.
        reason: String,
    },
}

impl From<BlockError> for FilterProblem {
    fn from(error: BlockError) -> Self {
        Self::Block(error)
    }
}

impl From<PartitionError> for FilterProblem {
    fn from(error: PartitionError) -> Self {
        if let PartitionError::Block(error) = error { Self::Block(error) } else { Self::Partition(error) }
    }
}

impl FilterProblem {
    /// Whether the filter is sound, and built with another hash or secret seed than the store's, or of other parts of
    /// keys: a mistake in the store's configuration, and no damage.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        match self {
            Self::Parts { .. } | Self::ReaderChanged { .. } => true,
            Self::Block(error) | Self::Partition(PartitionError::Block(error)) => {
                matches!(error, BlockError::HashMismatch { .. } | BlockError::ExtractorMismatch { .. })
            }
            _ => false,
        }
    }

    /// Whether a later release, or a store with more kinds, may know what this one does not.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Version { .. } => true,
            Self::Block(error) | Self::Partition(PartitionError::Block(error)) => matches!(
                error,
                BlockError::UnknownKind { .. } | BlockError::UnknownHash { .. } | BlockError::Version { .. }
            ),
            _ => false,
        }
    }
}

impl fmt::Display for FilterProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { what, expected, got } => {
                write!(f, "version of a {what}: expected at most {expected}, got {got}; read it with a newer release")
            }
            Self::Checksum { what, expected, got } => {
                write!(f, "{what} is damaged: expected checksum {expected:#010x}, got {got:#010x}")
            }
            Self::Length { what, expected, got } => {
                write!(f, "length of a {what}: expected {expected} bytes, got {got}")
            }
            Self::Field { what, expected, got } => write!(f, "{what}: expected {expected}, got {got}"),
            Self::Parts { expected, got } => {
                write!(f, "filter of other parts of keys: expected one of {expected}, got {got}")
            }
            Self::OtherTable { expected, got } => {
                write!(f, "sidecar of another or an earlier table: expected {expected}, got {got}; make it again")
            }
            Self::Block(error) => error.fmt(f),
            Self::Partition(error) => error.fmt(f),
            Self::ReaderChanged { hash } => write!(
                f,
                "filters built with another hash of the same identity ({hash}), or with another extractor of the same \
                 name: expected what the known keys of a file had, got others for them, here or in another file of the \
                 store; a secret seed was changed, or a function without its tag, or an extractor without its name"
            ),
            Self::Unreadable { reason } => write!(f, "filter could not be read: {reason}"),
        }
    }
}

impl core::error::Error for FilterProblem {}
