//! Reasons why a file's filters are not used.

use core::fmt;

use sstfilter::{BlockError, FileId, HashIdentity};

use super::identity::TableIdentity;

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
    /// The sidecar belongs to another table, or to an earlier table of the same name: replace or delete it.
    OtherTable {
        /// The table that the sidecar was opened for.
        expected: TableIdentity,
        /// The table that the sidecar was written for.
        got: TableIdentity,
    },
    /// An error of the filter block, or of the end of a container.
    Block(BlockError),
    /// The bytes of a partition are not those in the top index: they are damaged, or from another place, file or write.
    PartitionChecksum {
        /// The partition.
        number: u32,
        /// The checksum in the top index.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// The partition has no filter: its policy wanted none, or none could be built.
    WithoutFilter,
    /// Known keys were passed, and not all partitions that must hold one have been read: see
    /// [`PartitionIndex::check_known_keys`](crate::PartitionIndex::check_known_keys).
    KnownKeysUnchecked {
        /// The first partition that must hold a known key.
        partition: u32,
    },
    /// The hash or an extractor of the store returns other values for keys of a file than when its filters were built,
    /// under the same identity or name. The store then uses none of its filters.
    ReaderChanged {
        /// The identity of the hash.
        hash: HashIdentity,
        /// The first file that was found to have such filters.
        file: FileId,
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

/// Returns the problem of a field that has another value.
pub(crate) fn wrong_field(what: &'static str, expected: &'static str, got: &impl ToString) -> FilterProblem {
    FilterProblem::Field { what, expected, got: got.to_string() }
}

impl FilterProblem {
    /// Returns whether the filter is sound, but was built with another hash, secret seed or parts of keys than those of
    /// the store: a mistake in the configuration, not damage.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        match self {
            Self::ReaderChanged { .. } => true,
            Self::Block(error) => {
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
            Self::Block(error) => matches!(
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
            Self::OtherTable { expected, got } => {
                write!(
                    f,
                    "the sidecar is of another table, or of an earlier table of this name: expected {expected}, got {got}; \
                     replace or delete it"
                )
            }
            Self::Block(error) => error.fmt(f),
            Self::PartitionChecksum { number, expected, got } => write!(
                f,
                "partition {number} of a filter is damaged or foreign: expected checksum {expected:#010x} by the top \
                 index, got {got:#010x}"
            ),
            Self::WithoutFilter => f.write_str("no filter to probe: the partition was written without one"),
            Self::KnownKeysUnchecked { partition } => write!(
                f,
                "known keys: expected all partitions that must hold one to be read first \
                 (PartitionIndex::check_known_keys), got partition {partition} unread"
            ),
            Self::ReaderChanged { hash, file } => write!(
                f,
                "filters built with another hash of the same identity ({hash}) or another extractor of the same name: \
                 expected the hashes and parts that the known keys of the file of fingerprint {:#018x} had then, got \
                 others; a secret seed, a hash or an extractor was changed, and its tag or name was not",
                file.fingerprint()
            ),
            Self::Unreadable { reason } => write!(f, "filter could not be read: {reason}"),
        }
    }
}

impl core::error::Error for FilterProblem {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        // The message is already that of the block.
        if let Self::Block(error) = self { error.source() } else { None }
    }
}
