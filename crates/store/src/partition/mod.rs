//! Cuts a filter into partitions of some KiB, of which a lookup reads one.
//!
//! A filter of ten million keys has about 12 MB. A cache without room for all of it reads all of it again for a single
//! probe. A *partitioned filter* is a container of ordinary filter blocks of a target size, the partitions, and a *top
//! index* that stays in memory: it contains the offset, the checksum and the keys of each partition. A probe then reads
//! one partition. With partitions of 4 KiB or more, the top index takes less than 1 % of the filter.
//!
//! There are two ways to [cut](PartitionCut) a filter:
//!
//! - by **key range**: a partition holds a run of the sorted keys, and is found by comparing a key with the lower
//!   bounds of partitions. Lookups of neighbouring keys, and scans, read the same partition. Keys must be added in
//!   order.
//! - by **hash range**: a partition holds the keys of a range of hashes. It is found by one multiplication, and needs
//!   neither keys nor their order. Use it if the engine passes only hashes.
//!
//! A [`PartitionedBuilder`] builds a container. A reader with its own cache of partitions uses a [`PartitionIndex`],
//! which does no input or output: it says which bytes to read, and opens them.
//!
//! Each partition has its own checksum, and records why it fell back to another kind of filter. A partition that is
//! damaged, or has no filter, answers "may be present" only for its own keys; a damaged one that must hold a [known
//! key](sstfilter::LoadContext::with_known_keys), for the keys of all partitions. A partition without a filter confirms
//! no known key: if no other partition must hold one, the whole filter is not used.
//!
//! docs/format/files.md specifies the bytes.

mod bounds;
mod build;
mod index;
#[cfg(test)]
mod tests;
mod trailer;

pub use build::PartitionedBuilder;
pub use index::PartitionIndex;

use sstfilter::ConfigError;

/// How a filter is cut into partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionCut {
    /// Each partition holds a run of the sorted keys. Keys must be added in ascending order, compared as bytes. A probe
    /// finds the partition by the key's bytes, which must equal the bytes that were added: a key that an extractor maps
    /// to the same part may be in another partition.
    KeyRange,
    /// Each partition holds the keys of a range of hashes, in any order.
    HashRange,
}

/// The size and the cut of partitions.
///
/// ```
/// use sstfilter_store::{PartitionCut, PartitionOptions};
///
/// assert_eq!(PartitionOptions::default(), PartitionOptions::new(PartitionCut::KeyRange, 16 << 10)?);
/// assert!(PartitionOptions::new(PartitionCut::HashRange, 100).is_err());
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionOptions {
    cut: PartitionCut,
    target_bytes: u32,
}

/// The minimum size of partitions: in smaller ones, trailers and the top index are a tenth of the filter.
const MIN_TARGET_BYTES: u32 = 1 << 10;

/// The maximum size of partitions: with larger ones a probe reads as much as a whole filter of most files.
const MAX_TARGET_BYTES: u32 = 1 << 20;

impl PartitionOptions {
    /// Creates options for partitions of about `target_bytes`, 1 KiB to 1 MiB. 4 to 64 KiB are usual: smaller
    /// partitions mean smaller reads and a larger top index.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] for any other size.
    pub fn new(cut: PartitionCut, target_bytes: u32) -> Result<Self, ConfigError> {
        if (MIN_TARGET_BYTES..=MAX_TARGET_BYTES).contains(&target_bytes) {
            return Ok(Self { cut, target_bytes });
        }
        let (option, expected) = ("bytes of a filter's partition", "1 KiB to 1 MiB");
        Err(ConfigError::OutOfRange { option, expected, got: target_bytes.into() })
    }

    /// Returns how the filter is cut.
    #[must_use]
    pub const fn cut(&self) -> PartitionCut {
        self.cut
    }

    /// Returns the approximate size of a partition.
    #[must_use]
    pub const fn target_bytes(&self) -> u32 {
        self.target_bytes
    }
}

impl Default for PartitionOptions {
    /// Returns the options of partitions of 16 KiB, cut by key range.
    fn default() -> Self {
        Self { cut: PartitionCut::KeyRange, target_bytes: 16 << 10 }
    }
}
