//! The fields of a `FilterStore`, which its files share.

use std::sync::{Arc, OnceLock};

use super::budget::FilterBudget;
use super::error::FilterProblem;
use super::partition::PartitionOptions;
use super::ranges::RangePolicy;
use super::reader::Reader;

/// Which files get point filters, if the policy wants one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PointFilters {
    None,
    /// Those without a bitmap.
    UnlessBitmap,
    All,
}

#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) reader: Reader,
    /// Which files get point filters.
    pub(super) points: PointFilters,
    pub(super) partitions: Option<PartitionOptions>,
    pub(super) ranges: Option<RangePolicy>,
    pub(super) budget: Option<FilterBudget>,
    /// Holds the filters of a store without a budget.
    pub(super) unlimited: FilterBudget,
    /// Why no filter is used: the hasher or an extractor does not match its name.
    ///
    /// One description whose known keys have other hashes or parts shows that. The known keys of other files may match
    /// by chance, so from then on the store uses no filter.
    pub(super) trust: Arc<OnceLock<FilterProblem>>,
}
