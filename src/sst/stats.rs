//! What reads cost, and what the filters saved.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::stats::{FilterStats, SharedCounter};

/// What one table has answered, and what it has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// The filter's answers and their outcomes.
    pub filter: FilterStats,
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
}

impl TableStats {
    /// The counts of both.
    #[must_use]
    pub const fn merged(&self, other: &Self) -> Self {
        Self {
            filter: self.filter.merged(&other.filter),
            range_skips: self.range_skips + other.range_skips,
            index_block_reads: self.index_block_reads + other.index_block_reads,
            data_block_reads: self.data_block_reads + other.data_block_reads,
            block_cache_hits: self.block_cache_hits + other.block_cache_hits,
            bytes_read: self.bytes_read + other.bytes_read,
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
    pub(crate) range_skips: Counter,
    pub(crate) index_block_reads: Counter,
    pub(crate) data_block_reads: Counter,
    pub(crate) block_cache_hits: Counter,
    pub(crate) bytes_read: Counter,
    /// Further range skips, counted by the set that the table is in.
    pub(crate) range_skips_in_set: Option<SharedCounter>,
}

impl ReadCounters {
    pub(crate) fn snapshot(&self, filter: FilterStats) -> TableStats {
        TableStats {
            filter,
            range_skips: self.range_skips.get() + self.range_skips_in_set.as_ref().map_or(0, SharedCounter::get),
            index_block_reads: self.index_block_reads.get(),
            data_block_reads: self.data_block_reads.get(),
            block_cache_hits: self.block_cache_hits.get(),
            bytes_read: self.bytes_read.get(),
        }
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_add_up() {
        let counters = ReadCounters::default();
        counters.range_skips.add(1);
        counters.bytes_read.add(10);
        let stats = counters.snapshot(FilterStats { negatives: 2, ..FilterStats::default() });
        let both = stats.merged(&stats);
        assert_eq!((both.range_skips, both.bytes_read, both.filter.negatives), (2, 20, 4));
    }
}
