//! The search for a block, in steps that a batch takes for all of its lookups.
//!
//! Each step begins with loads that miss caches: of indexes, of the cache, of blocks. So it is taken for all lookups
//! before the next, and the misses of one overlap with those of the others.

use super::table::{BlockPlace, FoundBlock};
use super::table_filter::Answer;
use super::{BlockKey, Lookup, Table, TableError};

/// The search of one lookup in the table that it comes to next.
#[derive(Debug, Default)]
pub(super) struct BlockSearch {
    place: Option<BlockPlace>,
    found: Option<FoundBlock>,
}

/// The blocks that lookups of a batch have read since the cache was searched for them.
#[derive(Debug, Default)]
pub(super) struct BlocksRead(Vec<BlockKey>);

impl BlockSearch {
    /// The first step: searches the index, if it is in memory.
    pub(super) fn locate(&mut self, table: &Table, key: &[u8]) {
        self.place = table.place_of(key);
    }

    /// The second: searches the cache.
    pub(super) fn prefetch(&mut self, table: &Table) {
        let found = |place: BlockPlace| table.prefetch_cached(&place).map_or(FoundBlock::At(place), FoundBlock::Cached);
        self.found = self.place.take().map(found);
    }

    /// The last: searches the block, unless `probe` says that the table lacks the key.
    pub(super) fn finish(
        &mut self,
        table: &Table,
        key: &[u8],
        probe: &Answer,
        read: &mut BlocksRead,
    ) -> Result<Lookup, TableError> {
        let found = match self.found.take() {
            Some(FoundBlock::At(place)) if !probe.is_absent() => read.find(table, place),
            found => found.unwrap_or(FoundBlock::NotSought),
        };
        table.get_after(probe, key, found)
    }
}

impl BlocksRead {
    /// What the cache lacked is sought there again only if another lookup has read it since.
    fn find(&mut self, table: &Table, place: BlockPlace) -> FoundBlock {
        if self.0.contains(&place.key) {
            return table.prefetch_cached(&place).map_or(FoundBlock::At(place), FoundBlock::Cached);
        }
        self.0.push(place.key);
        FoundBlock::At(place)
    }
}
