//! Up to 64 tables that lie side by side in their level, shared by versions.

use std::sync::Arc;

use crate::block::{GROUP, bits_of, first_bits};
use crate::sst::Table;
use crate::sst::grouped_filters::GroupedFilters;
use crate::sst::heads::{InRange, KeyRanges};
use crate::sst::key_bounds::KeyBounds;
use crate::sst::reader::Reader;

/// A chunk with fewer tables is merged with a neighbour. Half of the most, which are the bits of one word: evenly cut,
/// more than one chunk's tables make chunks of at least this.
pub(super) const LEAST_TABLES: usize = GROUP / 2;

/// Some of a level's tables, in its order.
#[derive(Debug)]
pub(super) struct Chunk {
    tables: Vec<Arc<Table>>,
    ranges: KeyRanges,
    /// None where a key is in the range of one table at most.
    together: Option<FiltersTogether>,
}

/// The filters of tables that overlap.
#[derive(Debug)]
pub(super) struct FiltersTogether {
    /// What makes probes for all of them. A table whose reader may make others is among those probed alone.
    pub(super) reader: Arc<Reader>,
    pub(super) filters: GroupedFilters,
}

impl Chunk {
    /// Of any number of tables, chunks of sizes that differ by at most one, each made by `new`.
    pub(super) fn cut(tables: &[Arc<Table>], new: fn(&[Arc<Table>]) -> Self) -> impl Iterator<Item = Self> {
        let chunks = tables.len().div_ceil(GROUP);
        let bound = move |chunk: usize| chunk * tables.len() / chunks;
        (0..chunks).filter_map(move |chunk| tables.get(bound(chunk)..bound(chunk + 1))).map(new)
    }

    /// Of tables that overlap nowhere.
    pub(super) fn sorted(tables: &[Arc<Table>]) -> Self {
        let ranges = KeyRanges::new(tables.iter().map(|table| table.properties()));
        Self { tables: tables.to_vec(), ranges, together: None }
    }

    /// Of tables that may overlap.
    pub(super) fn overlapping(tables: &[Arc<Table>]) -> Self {
        let together = tables.first().map(|first| {
            let is_grouped = |table: &Table| table.reader.is_same(&first.reader);
            let filters = GroupedFilters::new(tables.iter().map(AsRef::as_ref), is_grouped);
            FiltersTogether { reader: first.reader.clone(), filters }
        });
        Self { together, ..Self::sorted(tables) }
    }

    pub(super) fn together(&self) -> Option<&FiltersTogether> {
        self.together.as_ref()
    }

    pub(super) fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// The smallest key of the first table, which in a level above 0 is the smallest of all.
    pub(super) fn smallest_key(&self) -> Option<&[u8]> {
        self.tables.first()?.properties().smallest_key.as_deref()
    }

    /// The tables that have `key` in their range.
    #[inline]
    pub(super) fn holding<'a>(&'a self, key: &[u8]) -> impl Iterator<Item = &'a Arc<Table>> + use<'a> {
        bits_of(self.in_range(key)).filter_map(|bit| self.tables.get(bit))
    }

    /// The same tables, as bits.
    #[inline]
    pub(super) fn in_range(&self, key: &[u8]) -> u64 {
        match self.ranges.head(key).map(|head| self.ranges.holding(0, head)) {
            None => 0,
            Some(InRange::These(tables)) => tables,
            Some(InRange::AtMost(tables)) => self.tables_where(tables, |table| table.properties().range_holds(key)),
        }
    }

    /// The tables that may have a key within `bounds` in their range.
    pub(super) fn meeting(&self, bounds: KeyBounds) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.iter().filter(move |table| table.properties().overlaps(bounds.range()))
    }

    #[cold]
    fn tables_where(&self, which: u64, holds: impl Fn(&Table) -> bool) -> u64 {
        let holding = bits_of(which & first_bits(self.tables.len()));
        let holding = holding.filter(|&bit| self.tables.get(bit).is_some_and(|table| holds(table)));
        holding.fold(0, |bits, bit| bits | 1 << bit)
    }
}
