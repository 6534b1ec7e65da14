//! Why a partitioned filter, or a partition of it, cannot be used.

use core::fmt;

use sstfilter::BlockError;

/// Why a partitioned filter, or a partition of it, cannot be used. To a read, all of them mean "may be present".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionError {
    /// The trailer of the filter, or the block of a partition, has an error of filter blocks.
    Block(BlockError),
    /// The last bytes are not those of a partitioned filter.
    NotPartitioned {
        /// The value at the position of the magic number.
        got: u16,
    },
    /// The top index is damaged.
    IndexChecksum {
        /// The checksum that the trailer has for it.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// The bytes of a partition are not those that the top index names: damaged, of another place, file or write.
    Checksum {
        /// The partition.
        number: u32,
        /// The checksum that the top index has for it.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// The bytes of a partition are more or fewer than the top index says.
    Length {
        /// The partition.
        number: u32,
        /// The length that the top index has for it.
        expected: u32,
        /// The bytes there are.
        got: u64,
    },
    /// The partition has no filter: its policy wanted none, or none could be built.
    WithoutFilter,
    /// Known keys were given, and not all partitions that must hold one were read yet: see
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
        // Its message is that of the block.
        if let Self::Block(error) = self { error.source() } else { None }
    }
}
