//! The fields of a `FilterStore`, which its files share.

use std::sync::{Arc, OnceLock};

use super::budget::FilterBudget;
use super::error::FilterProblem;
use super::partition::PartitionOptions;
use super::ranges::RangePolicy;
use super::reader::Reader;

/// The files that get point filters, if the policy wants one: not those whose [range
/// filter](super::FilterStore::with_range_filters) answers for their keys, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PointFilters {
    /// No file.
    None,
    /// Files whose range filter is not exact. One that is exact and no bitmap takes two thirds of Bloom's bytes or
    /// more, and lookups seven times as long (`benches/results/ids.md`).
    UnlessExact,
    /// Files whose range filter is not an exact bitmap, which is smaller and faster than any point filter. But it is no
    /// bitmap in partitions, and does not shrink: with partitions, all files get point filters, and if filters shrink
    /// for a budget, those whose bitmap is more than half as large.
    #[default]
    UnlessBitmap,
    /// All files: for readers of a block's bytes that probe by hash.
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
