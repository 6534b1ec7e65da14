//! Reasons why a partitioned filter, or a partition of it, cannot be used.

use core::fmt;

use sstfilter::BlockError;

/// The reason why a partitioned filter, or a partition of it, cannot be used. For reads, every variant means "may be
/// present".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionError {
    /// The trailer of the filter, or the block of a partition, has an error of filter blocks.
    Block(BlockError),
    /// The bytes do not end like a partitioned filter.
    NotPartitioned {
        /// The value at the position of the magic number.
        got: u16,
    },
    /// The top index is damaged.
    IndexChecksum {
        /// The checksum in the trailer.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// The bytes of a partition are not those in the top index: they are damaged, or from another place, file or write.
    Checksum {
        /// The partition.
        number: u32,
        /// The checksum in the top index.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// A partition has more or fewer bytes than the top index says.
    Length {
        /// The partition.
        number: u32,
        /// The length in the top index.
        expected: u32,
        /// The length found.
        got: u64,
    },
    /// The partition has no filter: its policy wanted none, or none could be built.
    WithoutFilter,
    /// Known keys were passed, and not all partitions that must hold one have been read: see
    /// [`PartitionIndex::check_known_keys`](crate::PartitionIndex::check_known_keys).
    KnownKeysUnchecked {
        /// The first partition that must hold a known key.
        partition: u32,
    },
}

impl From<BlockError> for PartitionError {
    fn from(error: BlockError) -> Self {
        Self::Block(error)
    }
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(error) => error.fmt(f),
            Self::NotPartitioned { got } => {
                write!(f, "not a partitioned filter: expected the magic number 0x5053 at its end, got {got:#06x}")
            }
            Self::IndexChecksum { expected, got } => {
                write!(f, "top index of a partitioned filter: expected checksum {expected:#010x}, got {got:#010x}")
            }
            Self::Checksum { number, expected, got } => write!(
                f,
                "partition {number} of a filter is damaged or foreign: expected checksum {expected:#010x} by the top \
                 index, got {got:#010x}"
            ),
            Self::Length { number, expected, got } => {
                write!(f, "partition {number} of a filter: expected {expected} bytes by the top index, got {got}")
            }
            Self::WithoutFilter => f.write_str("no filter to probe: the partition was written without one"),
            Self::KnownKeysUnchecked { partition } => write!(
                f,
                "known keys: expected all partitions that must hold one to be read first \
                 (PartitionIndex::check_known_keys), got partition {partition} unread"
            ),
        }
    }
}

impl core::error::Error for PartitionError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        // The message is already that of the block.
        if let Self::Block(error) = self { error.source() } else { None }
    }
}
