//! Reasons why a file's filters are not used.

use core::fmt;

use sstfilter::{BlockError, HashIdentity};

use super::identity::TableIdentity;
use super::partition::PartitionError;

/// The reason why a filter is not used, or a description of filters is not accepted. For reads, every variant means
/// "may be present".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterProblem {
    /// A version that this reader does not know: use a newer release.
    Version {
        /// The object that has the version.
        what: &'static str,
        /// The newest version that this reader knows.
        expected: u32,
        /// The version found.
        got: u32,
    },
    /// The bytes are damaged.
    Checksum {
        /// The damaged object.
        what: &'static str,
        /// The checksum that was stored.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// More or fewer bytes than were written, or fewer than the minimum.
    Length {
        /// The object with this length.
        what: &'static str,
        /// The bytes that were written, or the minimum.
        expected: u64,
        /// The length found.
        got: u64,
    },
    /// A field has a value that no writer writes, or the magic bytes are those of something else.
    Field {
        /// The field, and the object that contains it.
        what: &'static str,
        /// The values that it may have.
        expected: &'static str,
        /// The value found.
        got: String,
    },
    /// The filter holds no part of keys that the store probes for, or the ranges of a range filter lie within prefixes
    /// of another extractor.
    Parts {
        /// The parts that the store probes for.
        expected: String,
        /// The parts that the filter holds.
        got: String,
    },
    /// The sidecar belongs to another table, or to an earlier table of the same name: rebuild or remove it.
    OtherTable {
        /// The table that the sidecar was opened for.
        expected: TableIdentity,
        /// The table that the sidecar was written for.
        got: TableIdentity,
    },
    /// An error of the filter block.
    Block(BlockError),
    /// An error of the partitioned filter.
    Partition(PartitionError),
    /// The hash or an extractor of the store returns other values for keys of a file than when its filters were built,
    /// under the same identity or name. The store then uses none of its filters.
    ReaderChanged {
        /// The identity of the hash.
        hash: HashIdentity,
    },
    /// The bytes could not be read.
    Unreadable {
        /// The error of the read.
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
        // Unwrapped, so that an error of a block has one form with and without partitions.
        if let PartitionError::Block(error) = error { Self::Block(error) } else { Self::Partition(error) }
    }
}

impl FilterProblem {
    /// Returns whether the filter is sound, but was built with another hash, secret seed or parts of keys than those of
    /// the store: a mistake in the configuration, not damage.
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

    /// Returns whether a later release, or a store with more kinds, may be able to read the filter.
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
                write!(
                    f,
                    "the sidecar is of another table, or of an earlier table of this name: expected {expected}, got {got}; \
                     rebuild or remove it"
                )
            }
            Self::Block(error) => error.fmt(f),
            Self::Partition(error) => error.fmt(f),
            Self::ReaderChanged { hash } => write!(
                f,
                "filters built with another hash of the same identity ({hash}), or with another extractor of the same \
                 name: expected the hashes and parts that the known keys had when the filters were built, got others, \
                 for this file or another of the store; a secret seed, a hash or an extractor was changed, and its tag \
                 or name was not"
            ),
            Self::Unreadable { reason } => write!(f, "filter could not be read: {reason}"),
        }
    }
}

impl core::error::Error for FilterProblem {}
