//! Counters: what reads cost, and what the filters saved.

use core::sync::atomic::AtomicU64;

use sstfilter_store::FileStats;

/// The answers and reads of one table, or of all tables of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// Results of filters for lookups and scans.
    pub filters: FileStats,
    /// Reads of the index block: one for each open table, unless it fails.
    pub index_block_reads: u64,
    /// Reads of data blocks from the source.
    pub data_block_reads: u64,
    /// Hits of data blocks in the [cache](super::TableOptions::with_block_cache).
    pub block_cache_hits: u64,
    /// All bytes read, including those read to open the table.
    pub bytes_read: u64,
    /// Number of tables with a sidecar that is not used: see [`Table::sidecar_problem`](super::Table::sidecar_problem).
    /// 0 or 1 for one table.
    pub sidecar_problems: u64,
}

impl TableStats {
    /// Returns the sums of both.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        Self {
            filters: self.filters.merged(&other.filters),
            index_block_reads: self.index_block_reads + other.index_block_reads,
            data_block_reads: self.data_block_reads + other.data_block_reads,
            block_cache_hits: self.block_cache_hits + other.block_cache_hits,
            bytes_read: self.bytes_read + other.bytes_read,
            sidecar_problems: self.sidecar_problems + other.sidecar_problems,
        }
    }
}

/// Counters that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    pub(crate) index_block_reads: AtomicU64,
    pub(crate) data_block_reads: AtomicU64,
    pub(crate) block_cache_hits: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_add_up() {
        let mut filters = FileStats::default();
        (filters.skipped_by_bounds, filters.searched) = (1, 2);
        let stats = TableStats { filters, bytes_read: 10, ..TableStats::default() };
        let both = stats.merged(&stats);
        assert_eq!((both.filters.skipped_by_bounds, both.filters.searched, both.bytes_read), (2, 4, 20));
    }
}
