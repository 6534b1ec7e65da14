//! What the files of a store share.

use std::sync::{Arc, OnceLock};

use super::budget::FilterBudget;
use super::error::FilterProblem;
use super::partition::PartitionOptions;
use super::reader::Reader;
use crate::policy::FilterPolicy;
use crate::range::RangePolicy;

#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) reader: Arc<Reader>,
    pub(super) policy: Option<Arc<dyn FilterPolicy>>,
    pub(super) partitions: Option<PartitionOptions>,
    pub(super) ranges: Option<RangePolicy>,
    pub(super) budget: Option<FilterBudget>,
    /// For filters that are read when they are first probed, where there is no budget.
    pub(super) unlimited: FilterBudget,
    pub(super) trust: Arc<Trust>,
}

/// Whether the hasher and the extractors are what their names say.
///
/// One description whose known keys have other hashes or parts shows that they are not. The known keys of other files
/// may have the same by chance, so from then on no filter of the store is used.
#[derive(Debug, Default)]
pub(super) struct Trust(OnceLock<FilterProblem>);

impl Trust {
    /// Why no filter is used, if none is.
    #[inline]
    pub(super) fn problem(&self) -> Option<&FilterProblem> {
        self.0.get()
    }

    pub(super) fn end(&self, reason: FilterProblem) {
        let _ = self.0.set(reason);
    }
}
