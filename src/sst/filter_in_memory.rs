//! All of a filter in memory, to be verified.

use bytes::Bytes;

use super::table_partitions::TablePartitions;
use crate::block::FilterBlock;
use crate::hash::{HashIdentity, KeyHash};

/// All of a filter.
pub(crate) enum FilterInMemory {
    Whole(Box<FilterBlock<Bytes>>),
    Partitioned {
        partitions: TablePartitions,
        /// `None` for a partition without a filter.
        blocks: Vec<Option<FilterBlock<Bytes>>>,
    },
}

impl FilterInMemory {
    pub(crate) fn hash_identity(&self) -> HashIdentity {
        match self {
            Self::Whole(block) => block.hash_identity(),
            Self::Partitioned { partitions, .. } => partitions.index.hash_identity(),
        }
    }

    /// The number of partitions; 0 of a filter in one block.
    pub(crate) fn partitions(&self) -> u64 {
        match self {
            Self::Whole(_) => 0,
            Self::Partitioned { blocks, .. } => blocks.len() as u64,
        }
    }

    pub(crate) fn may_contain(&self, key: &[u8], hash: KeyHash) -> bool {
        match self {
            Self::Whole(block) => block.may_contain_added(hash),
            Self::Partitioned { partitions, blocks } => {
                let place = partitions.index.place_of_hash(key, hash);
                let block = blocks.get(place.number as usize).and_then(Option::as_ref);
                block.is_none_or(|block| block.may_contain(place.hash))
            }
        }
    }
}
