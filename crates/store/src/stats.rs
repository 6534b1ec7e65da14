//! What was counted for files and levels.

use sstfilter::FilterStats;
use sstfilter::internal::FilterCounters;

/// What lookups and scans have found out by the filters of one file, or of all files of a level.
///
/// A lookup counts for a file once it has come to it: it stops at the newest file that has the key. So a false positive
/// is a file that was searched for nothing, and [`FilterStats::observed_fpr`] is the rate that lookups met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FileStats {
    /// The answers of point filters, and their outcomes. Where a filter holds parts of keys alone, a key that is not
    /// there says nothing about its parts: there are no false positives then, and the rate is not known.
    pub filter: FilterStats,
    /// The answers of range filters, and their outcomes.
    pub ranges: FilterStats,
    /// Lookups of keys outside the bounds of a file. Files of a level whose files do not overlap are found by their
    /// bounds, and not counted here, but for those with range tombstones.
    pub skipped_by_bounds: u64,
    /// Files that lookups had to search.
    pub searched: u64,
}

impl FileStats {
    /// Passes the name and the value of each count to `visit`, to export them: for the files of a level, with the level
    /// as a label. Counts never decrease, and their names end in `_total`.
    ///
    /// ```
    /// # let view = sstfilter_store::FilterView::<std::sync::Arc<sstfilter_store::FileFilters>>::new(&Default::default());
    /// view.level_stats(1).visit(|name, count| println!("{name}{{level=\"1\"}} {count}"));
    /// ```
    pub fn visit(&self, mut visit: impl FnMut(&'static str, u64)) {
        const RANGES: [&str; 6] = [
            "range_filter_negatives_total",
            "range_filter_positives_total",
            "range_filter_true_positives_total",
            "range_filter_false_positives_total",
            "range_filter_unusable_total",
            "range_filter_not_loaded_total",
        ];
        const POINTS: [&str; 6] = [
            "filter_negatives_total",
            "filter_positives_total",
            "filter_true_positives_total",
            "filter_false_positives_total",
            "filter_unusable_total",
            "filter_not_loaded_total",
        ];
        for (names, stats) in [(POINTS, &self.filter), (RANGES, &self.ranges)] {
            names.into_iter().zip(stats.counts()).for_each(|(name, (_, count))| visit(name, count));
        }
        visit("filter_skipped_by_bounds_total", self.skipped_by_bounds);
        visit("filter_searched_files_total", self.searched);
    }

    /// The counts of both.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        Self {
            filter: self.filter.merged(&other.filter),
            ranges: self.ranges.merged(&other.ranges),
            skipped_by_bounds: self.skipped_by_bounds + other.skipped_by_bounds,
            searched: self.searched + other.searched,
        }
    }

    /// What was counted after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            filter: self.filter.since(&earlier.filter),
            ranges: self.ranges.since(&earlier.ranges),
            skipped_by_bounds: self.skipped_by_bounds.saturating_sub(earlier.skipped_by_bounds),
            searched: self.searched.saturating_sub(earlier.searched),
        }
    }
}

impl FileStats {
    /// What these counters of a file have, without its range filter.
    pub(super) fn of(counters: &FilterCounters) -> Self {
        let (skipped_by_bounds, searched) = counters.view_counts();
        Self { filter: counters.snapshot(true), ranges: FilterStats::default(), skipped_by_bounds, searched }
    }

    /// Adds what was counted elsewhere.
    pub(super) fn add_to(&self, counters: &FilterCounters) {
        let FilterStats { negatives, positives, unusable, .. } = self.filter;
        counters.add_answers(negatives + positives, positives);
        counters.add_unusable(unusable);
        counters.add_view_counts(self.skipped_by_bounds, self.searched);
    }
}
