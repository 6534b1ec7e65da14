//! Looking up many keys at once.
//!
//! Each step begins with loads that miss caches: of filters, of indexes, of blocks. So it is taken for all keys of a
//! batch before the next, and the misses of one key overlap with those of the others.

use std::sync::Arc;

use bytes::Bytes;

use super::snapshot::{KeyProbe, Version};
use crate::sst::batch::{BlockSearch, BlocksRead};
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
            let lookup = |(&key, result)| BatchLookup::new(self, key, self.holding(key), result);
            let mut batch: Vec<_> = keys.iter().zip(results).map(lookup).collect();
            while !batch.is_empty() {
                probe_all(&mut batch);
                search_all(&mut batch);
            }
        }
        results
    }
}

/// Takes each lookup to the next table whose filter may contain its key. Lookups without one end.
fn probe_all<'a, T: Iterator<Item = &'a Arc<Table>>>(batch: &mut Vec<BatchLookup<'a, '_, T>>) {
    while batch.iter().any(|lookup| lookup.candidate.is_none()) {
        batch.retain_mut(BatchLookup::advance);
        batch.iter_mut().for_each(BatchLookup::probe);
    }
}

/// Searches the candidate of each lookup. Those that find their key, or fail, end.
fn search_all<'a, T: Iterator<Item = &'a Arc<Table>>>(batch: &mut Vec<BatchLookup<'a, '_, T>>) {
    for lookup in batch.iter_mut() {
        if let Some(candidate) = &lookup.candidate {
            lookup.block.locate(candidate.table, lookup.key);
        }
    }
    for lookup in batch.iter_mut() {
        if let Some(candidate) = &lookup.candidate {
            lookup.block.prefetch(candidate.table);
        }
    }
    let mut read = BlocksRead::default();
    batch.retain_mut(|lookup| lookup.search(&mut read));
}

/// A lookup on its way.
struct BatchLookup<'a, 'r, T> {
    key: &'a [u8],
    probe: KeyProbe<'a>,
    /// Those in range that are still to be probed, the newest first.
    tables: T,
    /// The one that is probed next.
    next: Option<&'a Table>,
    /// The one that is searched next.
    candidate: Option<Candidate<'a>>,
    /// The search of that one.
    block: BlockSearch,
    result: &'r mut Result<Option<Bytes>, TableError>,
}

/// A table that may have the key, by what its filter answered.
struct Candidate<'a> {
    table: &'a Table,
    probe: Answer,
}

impl<'a, 'r, T: Iterator<Item = &'a Arc<Table>>> BatchLookup<'a, 'r, T> {
    fn new(version: &'a Version, key: &'a [u8], tables: T, result: &'r mut Result<Option<Bytes>, TableError>) -> Self {
        let probe = KeyProbe::new(version, key);
        Self { key, probe, tables, next: None, candidate: None, block: BlockSearch::default(), result }
    }

    /// Goes on to the next table, and prefetches its filter. `false` when there is no table left.
    fn advance(&mut self) -> bool {
        if self.candidate.is_some() {
            return true;
        }
        self.next = self.tables.next().map(AsRef::as_ref);
        if let Some(table) = self.next {
            self.probe.prefetch(table);
        }
        self.next.is_some()
    }

    fn probe(&mut self) {
        let Some(table) = self.next.take() else { return };
        let probe = self.probe.probe(table);
        self.candidate = (!probe.is_absent()).then_some(Candidate { table, probe });
    }

    /// Searches the candidate. `false` when the lookup has ended with it.
    fn search(&mut self, read: &mut BlocksRead) -> bool {
        let Some(Candidate { table, probe }) = self.candidate.take() else { return true };
        *self.result = match self.block.finish(table, self.key, &probe, read) {
            Ok(Lookup::Absent) => return true,
            Ok(Lookup::Found(value)) => Ok(Some(value)),
            Ok(Lookup::Deleted) => Ok(None),
            Err(error) => Err(error),
        };
        false
    }
}
