//! Looking up many keys at once.
//!
//! Each step begins with loads that miss caches: of filters, of indexes, of blocks. So it is taken for all keys of a
//! batch before the next, and the misses of one key overlap with those of the others. Levels follow each other: a key
//! that is found does not come to the older ones.

use bytes::Bytes;

use super::chunk::Chunk;
use super::level::Level;
use super::snapshot::{KeyProbe, Version, count_negatives};
use crate::block::bits_of;
use crate::sst::batch::{BlockSearch, BlocksRead};
use crate::sst::grouped_filters::Tables;
use crate::sst::table_filter::Answer;
use crate::sst::{Lookup, Table, TableError};

/// Keys that are looked up together: enough for misses to overlap, and few enough for their lines to stay in L1.
const BATCH: usize = 32;

impl Version {
    /// The newest value of each of `keys`, in their order; see [`get`](Self::get).
    ///
    /// ```
    /// use sstfilter::sst::Version;
    ///
    /// let values = Version::default().multi_get(&[b"a", b"b"]);
    /// assert!(values.iter().all(|value| matches!(value, Ok(None))));
    /// ```
    #[must_use]
    pub fn multi_get(&self, keys: &[&[u8]]) -> Vec<Result<Option<Bytes>, TableError>> {
        let mut results: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
        for (keys, results) in keys.chunks(BATCH).zip(results.chunks_mut(BATCH)) {
            let lookup = |(&key, result)| BatchLookup::new(self, key, result);
            let mut batch: Vec<_> = keys.iter().zip(results).map(lookup).collect();
            for level in self.each_level() {
                if level.is_overlapping() {
                    level.chunks().iter().for_each(|chunk| search_chunk(chunk, &mut batch));
                } else {
                    search_sorted(level, &mut batch);
                }
            }
        }
        results
    }
}

/// Looks all keys up in the tables of an overlapping chunk.
fn search_chunk<'a>(chunk: &'a Chunk, batch: &mut Vec<BatchLookup<'a, '_>>) {
    let (mut tables, hashes): (Vec<Tables>, Vec<_>) = batch.iter().map(|lookup| lookup.probe.in_range(chunk)).unzip();
    if let Some(together) = chunk.together() {
        together.filters.probe_batch(&hashes, &mut tables);
    }
    for (lookup, &tables) in batch.iter_mut().zip(&tables) {
        (lookup.tables, lookup.left) = (tables, tables.candidates);
    }
    while batch.iter().any(|lookup| lookup.left != 0) {
        batch.iter_mut().for_each(|lookup| lookup.advance(chunk));
        search_candidates(batch);
    }
    batch.iter().for_each(|lookup| count_negatives(chunk, lookup.tables, lookup.ended_at()));
    batch.retain(|lookup| !lookup.has_ended);
}

/// Looks each key up in the table of a sorted level that has it in its range.
fn search_sorted<'a>(level: &'a Level, batch: &mut Vec<BatchLookup<'a, '_>>) {
    for lookup in batch.iter_mut() {
        lookup.table = level.find(lookup.probe.key).map(AsRef::as_ref);
        if let Some(table) = lookup.table {
            table.prefetch();
        }
    }
    batch.iter().filter_map(|lookup| lookup.table).for_each(Table::prefetch_reader);
    for lookup in batch.iter() {
        if let Some(table) = lookup.table {
            lookup.probe.prefetch(table);
        }
    }
    for lookup in batch.iter_mut() {
        let probe = |table| (table, lookup.probe.probe(table));
        lookup.candidate = lookup.table.map(probe).filter(|(_, probe)| !probe.is_absent());
    }
    search_candidates(batch);
    batch.retain(|lookup| !lookup.has_ended);
}

/// Searches the candidate of each lookup that has one.
fn search_candidates(batch: &mut [BatchLookup<'_, '_>]) {
    let has_candidate = |lookup: &&mut BatchLookup<'_, '_>| lookup.candidate.is_some();
    batch.iter_mut().filter(has_candidate).for_each(BatchLookup::locate);
    batch.iter_mut().filter(has_candidate).for_each(BatchLookup::prefetch);
    let mut read = BlocksRead::default();
    batch.iter_mut().filter(has_candidate).for_each(|lookup| lookup.search(&mut read));
}

/// A lookup on its way.
struct BatchLookup<'a, 'r> {
    probe: KeyProbe<'a>,
    /// What is known of the tables of an overlapping chunk.
    tables: Tables,
    /// The candidates of these to which the lookup has not come.
    left: u64,
    /// The bit of the one to which it came last.
    bit: usize,
    /// The table of a sorted level that has the key in its range.
    table: Option<&'a Table>,
    /// The table that is searched next, by what its filter answered.
    candidate: Option<(&'a Table, Answer)>,
    /// The search of that one.
    block: BlockSearch,
    has_ended: bool,
    result: &'r mut Result<Option<Bytes>, TableError>,
}

impl<'a, 'r> BatchLookup<'a, 'r> {
    fn new(version: &'a Version, key: &'a [u8], result: &'r mut Result<Option<Bytes>, TableError>) -> Self {
        Self {
            probe: KeyProbe::new(version, key),
            tables: Tables { in_range: 0, candidates: 0 },
            left: 0,
            bit: 0,
            table: None,
            candidate: None,
            block: BlockSearch::default(),
            has_ended: false,
            result,
        }
    }

    /// Goes on to the next candidate of a chunk whose own filter may contain the key, too.
    fn advance(&mut self, chunk: &'a Chunk) {
        for bit in bits_of(self.left) {
            self.left &= !(1 << bit);
            let Some(table) = chunk.tables().get(bit) else { continue };
            let probe = self.probe.probe_candidate(chunk, bit, table);
            if !probe.is_absent() {
                (self.bit, self.candidate) = (bit, Some((table.as_ref(), probe)));
                return;
            }
        }
    }

    /// The bit of the table of a chunk where the lookup has ended.
    fn ended_at(&self) -> Option<usize> {
        self.has_ended.then_some(self.bit)
    }

    fn locate(&mut self) {
        if let Some((table, _)) = self.candidate {
            self.block.locate(table, self.probe.key);
        }
    }

    fn prefetch(&mut self) {
        if let Some((table, _)) = self.candidate {
            self.block.prefetch(table);
        }
    }

    /// Searches the candidate. The lookup ends if that has an entry, or fails.
    fn search(&mut self, read: &mut BlocksRead) {
        let Some((table, probe)) = self.candidate.take() else { return };
        *self.result = match self.block.finish(table, self.probe.key, &probe, read) {
            Ok(Lookup::Absent) => return,
            Ok(Lookup::Found(value)) => Ok(Some(value)),
            Ok(Lookup::Deleted) => Ok(None),
            Err(error) => Err(error),
        };
        (self.has_ended, self.left) = (true, 0);
    }
}
