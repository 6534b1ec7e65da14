//! The counts that engines see, of files, levels and views: what each means, and its name in exports.

use sstfilter::FilterStats;
use sstfilter::internal::FilterCounters;

/// Counts of the lookups and scans that used the filters of one file, or of all files of a level.
///
/// A lookup counts for the files that it reaches: it stops at the newest file that contains the key. So a false
/// positive is a file that was searched in vain, and [`FilterStats::observed_fpr`] is the rate that lookups met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FileStats {
    /// The answers of point filters, or range filters in their place, and the outcomes. If a filter holds only parts of
    /// keys, a missing key says nothing about its parts: there are no false positives then, and the rate is unknown.
    pub filter: FilterStats,
    /// The answers of other range filters, and their outcomes.
    pub ranges: FilterStats,
    /// Lookups of keys outside the bounds of a file, or that none of its writes wrote. Files of a level without
    /// overlaps are found by their bounds, and not counted here unless they have range tombstones.
    pub skipped_by_bounds: u64,
    /// Files that lookups had to search.
    pub searched: u64,
    /// Files whose loaded filter was [overfull](sstfilter::FilterBlock::is_overfull): they have far more keys than were
    /// announced. For one file 1 or 0; for a level, those that are in it now.
    pub overfull: u64,
}

impl FileStats {
    /// Passes the name and the value of each count to `visit`, for export; for the files of a level, use the level as a
    /// label. Counts never decrease, and their names end in `_total`, except for `filter_overfull_files`.
    ///
    /// ```
    /// # use sstfilter_store::{FileFilters, FilterView};
    /// # let view = FilterView::<std::sync::Arc<FileFilters>>::new(&Default::default());
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
        visit("filter_overfull_files", self.overfull);
    }

    /// Returns the sums of both counts.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        Self {
            filter: self.filter.merged(&other.filter),
            ranges: self.ranges.merged(&other.ranges),
            skipped_by_bounds: self.skipped_by_bounds + other.skipped_by_bounds,
            searched: self.searched + other.searched,
            overfull: self.overfull + other.overfull,
        }
    }

    /// Returns what was counted after `earlier`, and the overfull files of now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            filter: self.filter.since(&earlier.filter),
            ranges: self.ranges.since(&earlier.ranges),
            skipped_by_bounds: self.skipped_by_bounds.saturating_sub(earlier.skipped_by_bounds),
            searched: self.searched.saturating_sub(earlier.searched),
            overfull: self.overfull,
        }
    }
}

impl FileStats {
    /// Returns the counts of a file without its range filter.
    pub(super) fn of(counters: &FilterCounters) -> Self {
        let (skipped_by_bounds, searched) = counters.view_counts();
        Self { filter: counters.snapshot(true), skipped_by_bounds, searched, ..Self::default() }
    }

    /// Adds these counts to `counters`.
    pub(super) fn add_to(&self, counters: &FilterCounters) {
        let FilterStats { negatives, positives, unusable, .. } = self.filter;
        counters.add_answers(negatives + positives, positives);
        counters.add_unusable(unusable);
        counters.add_view_counts(self.skipped_by_bounds, self.searched);
    }
}

/// Defines the counters of maps: for each its name in a view, in [`MapStats`], and in exports.
macro_rules! map_counters {
    ($($(#[$docs:meta])* $counter:ident, $field:ident, $exported:literal;)+) => {
        /// The counters of a view: of its lookups, then those of maps.
        #[derive(Clone, Copy)]
        pub(crate) enum Count {
            Lookups,
            $($counter,)+
        }

        impl Count {
            pub(crate) const ALL: usize = [Self::Lookups $(, Self::$counter)+].len();
        }

        /// Counts of lookups in views with maps.
        #[cfg(feature = "maps")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct MapStats {
            $($(#[$docs])* pub $field: u64,)+
        }

        #[cfg(feature = "maps")]
        impl MapStats {
            /// Returns the sums of a view's counters.
            pub(crate) fn of(counters: &sstfilter::internal::StripedCounters) -> Self {
                Self { $($field: counters.sum(Count::$counter as usize),)+ }
            }

            /// Passes the name and the value of each count to `visit`, for export. Counts never decrease.
            pub fn visit(&self, mut visit: impl FnMut(&'static str, u64)) {
                $(visit($exported, self.$field);)+
            }
        }
    };
}

map_counters! {
    /// Lookups that consulted maps.
    Mapped, lookups, "file_map_lookups_total";
    /// Lookups of these that used filters instead, of all files or of those of a map that is read by page, because the
    /// entries of their key are damaged, could not be read, or were not there yet.
    Unknown, unknown, "file_map_unknown_total";
    /// Covered files that maps did not exclude; with maps of writes, those that lookups searched. Maps excluded all
    /// others, without counting each.
    Candidates, candidates, "file_map_candidates_total";
    /// Candidates that did not contain the key: outside of their bounds, excluded by their filters, or searched in
    /// vain.
    FalseCandidates, false_candidates, "file_map_false_candidates_total";
    /// Files searched in vain that no map covers, but a new one could; with maps of writes, all that no map covers.
    FalseReads, false_reads, "file_map_false_reads_total";
    /// Edits that added a file whose smallest or largest key was not among its writes, so that the view dropped its
    /// maps of writes: a number was given to two flushes, or a file states wrong writes.
    Dropped, dropped, "file_map_dropped_total";
}
