//! Building a table's filter, whole or in partitions.

use bytes::Bytes;

use super::TableOptions;
use crate::block::FallbackReason;
use crate::hash::HashesOfKey;
use crate::partition::{PartitionIndex, PartitionedBuilder};
use crate::policy::{BuildContext, BuildReport, FilterBuilder};

/// Takes `add* finish`, in the order of the keys.
#[derive(Debug)]
pub(crate) enum TableFilterBuilder {
    Whole(Box<dyn FilterBuilder>),
    Partitioned(Box<PartitionedBuilder>),
}

/// A finished filter, as it is written.
#[derive(Debug)]
pub(crate) enum FilterBytes {
    Whole(Bytes),
    Partitioned {
        /// All partitions, with the zeros between them.
        partitions: Bytes,
        /// The top index and the end of the container.
        index: Bytes,
    },
}

impl TableFilterBuilder {
    /// `None` without a policy, or where it declines.
    pub(crate) fn new(options: &TableOptions, context: &BuildContext) -> Option<Self> {
        let policy = options.policy.as_ref()?;
        match options.partitions {
            None => policy.builder(context).map(Self::Whole),
            Some(partitions) => {
                let builder = PartitionedBuilder::new(policy.clone(), context, partitions);
                Some(Self::Partitioned(Box::new(builder)))
            }
        }
    }

    /// Adds a key. The whole filter needs only the hashes that are new, and each partition all of them: the key before may
    /// be in another one.
    pub(crate) fn add(&mut self, key: &[u8], hashes: HashesOfKey<'_>) {
        match self {
            Self::Whole(builder) => hashes.new.iter().for_each(|&hash| builder.add_hash(hash)),
            Self::Partitioned(builder) => builder.add(key, hashes.all),
        }
    }

    pub(crate) fn estimated_bytes(&self) -> u64 {
        match self {
            Self::Whole(builder) => builder.estimated_bytes(),
            Self::Partitioned(builder) => builder.estimated_bytes(),
        }
    }

    /// The filter, if there is one, and how it was built, unless the policy declined.
    pub(crate) fn finish(self) -> (Option<FilterBytes>, Option<BuildReport>) {
        match self {
            Self::Whole(builder) => {
                let built = builder.finish();
                (built.block.map(FilterBytes::Whole), Some(built.report))
            }
            Self::Partitioned(builder) => {
                let built = builder.finish();
                let report = (built.problem() != Some(FallbackReason::None)).then(|| built.report());
                (built.seal().and_then(FilterBytes::of_container), report)
            }
        }
    }
}

impl FilterBytes {
    fn of_container(mut container: Bytes) -> Option<Self> {
        let tail_bytes = PartitionIndex::tail_bytes(&container).ok()?;
        let partition_bytes = container.len().checked_sub(usize::try_from(tail_bytes).ok()?)?;
        let index = container.split_off(partition_bytes);
        Some(Self::Partitioned { partitions: container, index })
    }
}
