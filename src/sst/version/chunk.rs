//! Up to 64 tables that lie side by side in their level, shared by versions.

use std::sync::Arc;

use crate::block::{GROUP, bits_of, first_bits};
use crate::sst::Table;
use crate::sst::heads::{InRange, KeyRanges};

/// Tables of a chunk are the bits of one word.
const MOST_TABLES: usize = GROUP;

/// A chunk with fewer tables is merged with a neighbour. Half of the most: evenly cut, more than one chunk's tables make
/// chunks of at least this.
pub(super) const LEAST_TABLES: usize = MOST_TABLES / 2;

/// Some of a level's tables, in its order.
#[derive(Debug)]
pub(super) struct Chunk {
    tables: Vec<Arc<Table>>,
    ranges: KeyRanges,
}

impl Chunk {
    /// Of any number of tables, chunks of sizes that differ by at most one.
    pub(super) fn cut(tables: &[Arc<Table>]) -> impl Iterator<Item = Self> {
        let chunks = tables.len().div_ceil(MOST_TABLES);
        let bound = move |chunk: usize| chunk * tables.len() / chunks;
        (0..chunks).filter_map(move |chunk| tables.get(bound(chunk)..bound(chunk + 1))).map(Self::new)
    }

    fn new(tables: &[Arc<Table>]) -> Self {
        Self { tables: tables.to_vec(), ranges: KeyRanges::new(tables.iter().map(|table| table.properties())) }
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
        let tables = match self.ranges.head(key).map(|head| self.ranges.holding(0, head)) {
            None => 0,
            Some(InRange::These(tables)) => tables,
            Some(InRange::AtMost(tables)) => self.tables_where(tables, |table| table.properties().range_holds(key)),
        };
        bits_of(tables).filter_map(|bit| self.tables.get(bit))
    }

    /// The tables that may have a key with this prefix in their range.
    pub(super) fn meeting<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = &'a Arc<Table>> {
        self.tables.iter().filter(move |table| table.properties().range_meets(prefix))
    }

    #[cold]
    fn tables_where(&self, which: u64, holds: impl Fn(&Table) -> bool) -> u64 {
        let holding = bits_of(which & first_bits(self.tables.len()));
        let holding = holding.filter(|&bit| self.tables.get(bit).is_some_and(|table| holds(table)));
        holding.fold(0, |bits, bit| bits | 1 << bit)
    }
}
