//! Building a table's filter, whole or in partitions.

use bytes::Bytes;

use super::TableOptions;
use crate::block::FallbackReason;
use crate::hash::KeyParts;
use crate::partition::{PartitionIndex, PartitionedBuilder};
use crate::policy::{BuildReport, FilterBuilder};

/// Takes `add* finish`, in the order of the keys.
#[derive(Debug)]
pub(crate) enum TableFilterBuilder {
    Whole {
        builder: Box<dyn FilterBuilder>,
        /// Those that the table says are in its filter, but for unstable ones.
        parts: KeyParts,
    },
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
    pub(crate) fn new(options: &TableOptions) -> Option<Self> {
        let (policy, context) = (options.policy.as_ref()?, &options.context);
        match options.partitions {
            None => {
                let parts = context.key_parts.clone();
                policy.builder(context).map(|builder| Self::Whole { builder, parts })
            }
            Some(partitions) => {
                let builder = PartitionedBuilder::new(policy.clone(), context, partitions);
                Some(Self::Partitioned(Box::new(builder)))
            }
        }
    }

    pub(crate) fn add_key(&mut self, key: &[u8]) {
        match self {
            Self::Whole { builder, .. } => builder.add_key(key),
            Self::Partitioned(builder) => builder.add_key(key),
        }
    }

    pub(crate) fn estimated_bytes(&self) -> u64 {
        match self {
            Self::Whole { builder, .. } => builder.estimated_bytes(),
            Self::Partitioned(builder) => builder.estimated_bytes(),
        }
    }

    /// The filter, if there is one, and how it was built, unless the policy declined.
    pub(crate) fn finish(self) -> (Option<FilterBytes>, Option<BuildReport>) {
        match self {
            Self::Whole { builder, parts } => {
                let built = builder.finish().with_parts(&parts);
                (built.block.map(FilterBytes::Whole), Some(built.report))
            }
            Self::Partitioned(builder) => {
                let built = builder.finish();
                let report = (built.problem() != Some(FallbackReason::None.into())).then(|| built.report());
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
