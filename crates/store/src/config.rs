//! What the files of a store share.

use std::sync::{Arc, OnceLock};

use sstfilter_range::RangePolicy;

use super::budget::FilterBudget;
use super::error::FilterProblem;
use super::partition::PartitionOptions;
use super::reader::Reader;

#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) reader: Reader,
    /// Whether files get filters for lookups.
    pub(super) builds_points: bool,
    pub(super) partitions: Option<PartitionOptions>,
    pub(super) ranges: Option<RangePolicy>,
    pub(super) budget: Option<FilterBudget>,
    /// For filters that are read when they are first probed, where there is no budget.
    pub(super) unlimited: FilterBudget,
    /// Why no filter is used, if none is: the hasher or an extractor is not what its name says.
    ///
    /// One description whose known keys have other hashes or parts shows that. The known keys of other files may have
    /// the same by chance, so from then on no filter of the store is used.
    pub(super) trust: Arc<OnceLock<FilterProblem>>,
}
