//! What reads cost, and what the filters saved.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::stats::FilterStats;
use crate::store::FileStats;

/// What one table has answered, and what it has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// The filter's answers and their outcomes.
    pub filter: FilterStats,
    /// The range filter's answers to scans, and their outcomes.
    pub range_filter: FilterStats,
    /// Lookups of keys outside the table's range, answered without its filter.
    pub range_skips: u64,
    /// Reads of the index block: one in a table's life, unless it fails.
    pub index_block_reads: u64,
    /// Reads of data blocks from the source.
    pub data_block_reads: u64,
    /// Data blocks that the [`BlockCache`](super::BlockCache) had.
    pub block_cache_hits: u64,
    /// All bytes read, those of opening the table included.
    pub bytes_read: u64,
    /// 1 if there is a sidecar that is not used: see [`Table::sidecar_problem`](super::Table::sidecar_problem). Of
    /// several tables, how many have one.
    pub sidecar_problems: u64,
}

impl TableStats {
    /// The counts of both.
    #[must_use]
    pub const fn merged(&self, other: &Self) -> Self {
        Self {
            filter: self.filter.merged(&other.filter),
            range_filter: self.range_filter.merged(&other.range_filter),
            range_skips: self.range_skips + other.range_skips,
            index_block_reads: self.index_block_reads + other.index_block_reads,
            data_block_reads: self.data_block_reads + other.data_block_reads,
            block_cache_hits: self.block_cache_hits + other.block_cache_hits,
            bytes_read: self.bytes_read + other.bytes_read,
            sidecar_problems: self.sidecar_problems + other.sidecar_problems,
        }
    }
}

/// What a set of tables has looked up, and what it has skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSetStats {
    /// Keys looked up.
    pub lookups: u64,
    /// Tables that lookups came to before they ended at a hit: the sum of the next three.
    pub tables_considered: u64,
    /// Tables skipped because the key is outside their range.
    pub skipped_by_range: u64,
    /// Tables skipped because their filter does not contain the key.
    pub skipped_by_filter: u64,
    /// Tables whose index and data were searched.
    pub touched: u64,
    /// The sum over the tables, from when each was opened.
    pub tables: TableStats,
}

/// Counters that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    pub(crate) index_block_reads: AtomicU64,
    pub(crate) data_block_reads: AtomicU64,
    pub(crate) block_cache_hits: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
}

impl ReadCounters {
    pub(crate) fn snapshot(&self, filters: FileStats) -> TableStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TableStats {
            filter: filters.filter,
            range_filter: filters.ranges,
            range_skips: filters.skipped_by_bounds,
            index_block_reads: count(&self.index_block_reads),
            data_block_reads: count(&self.data_block_reads),
            block_cache_hits: count(&self.block_cache_hits),
            bytes_read: count(&self.bytes_read),
            sidecar_problems: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_add_up() {
        let counters = ReadCounters { bytes_read: 10.into(), ..ReadCounters::default() };
        let negatives = |negatives| FilterStats { negatives, ..FilterStats::default() };
        let [filter, ranges] = [2, 3].map(negatives);
        let stats = counters.snapshot(FileStats { filter, ranges, skipped_by_bounds: 1, ..FileStats::default() });
        let both = stats.merged(&stats);
        assert_eq!((both.range_skips, both.bytes_read), (2, 20));
        assert_eq!((both.filter.negatives, both.range_filter.negatives), (4, 6));
    }
}
