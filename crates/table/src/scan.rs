//! The entries of many tables whose keys are in a range.

use core::cmp::Reverse;
use core::iter::FusedIterator;
use core::ops::Bound;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use bytes::Bytes;
use sstfilter_store::{ScanCandidate, ScanCandidates};

use super::{Entry, Table, TableError, TableIter};

/// The keys in a range and their newest values, in key order; see [`TableSnapshot::range`](super::TableSnapshot::range)
/// and [`TableSnapshot::scan_prefix`](super::TableSnapshot::scan_prefix).
///
/// A table is read when the scan comes to where its next key may be, and then one data block at a time, past the block
/// cache. Where that is, its smallest key or its range filter says: a scan that stops early does not read tables that
/// continue further on. The first error ends the scan, because whatever else it gave might be outdated: after an
/// [`Err`] comes [`None`].
pub(super) struct RangeScan<'a> {
    /// The newest first.
    tables: Vec<Position<'a>>,
    /// Where each table that has more to give continues, the smallest key on top: a lower bound of its next key,
    /// whether that is the key of an entry, and the table. Tables with the same key come in this order: first those
    /// that have not been read, because the newest entry may be theirs, then the newest.
    heads: BinaryHeap<Reverse<(Bytes, bool, usize)>>,
    /// What comes next, while older entries of its key are passed over. Kept here, so that a scan goes on where it was
    /// after a panic in a source of the caller's.
    pending: Option<Entry>,
}

/// Where the scan is in one table.
struct Position<'a> {
    walk: TableIter<'a>,
    /// Where the walk comes from, which wants to know whether there is an entry; until that is known.
    candidate: Option<ScanCandidate<'a, Table>>,
    /// The value of the entry that the walk has come to; `None` for a tombstone, or before it has read any.
    value: Option<Bytes>,
}

impl<'a> RangeScan<'a> {
    /// The scan of the candidates, the newest first, up to an end.
    pub(super) fn new(candidates: ScanCandidates<'a, Table>, end: &Bound<Bytes>) -> Self {
        let position = |(age, candidate): (usize, ScanCandidate<'a, Table>)| {
            let lower_bound = candidate.lower_bound.clone();
            let walk = candidate.file.iter_within(lower_bound.clone(), end.clone());
            (Position { walk, candidate: Some(candidate), value: None }, Reverse((lower_bound, false, age)))
        };
        let (tables, heads) = candidates.enumerate().map(position).unzip();
        Self { tables, heads, pending: None }
    }

    fn step(&mut self) -> Result<Option<(Bytes, Bytes)>, TableError> {
        loop {
            // The entry on top, once the table there has been read.
            while self.pending.is_none() {
                let Some(Reverse((key, is_read, table))) = self.heads.peek() else { return Ok(None) };
                if *is_read {
                    let value = self.tables.get(*table).and_then(|position| position.value.clone());
                    self.pending = Some(Entry { key: key.clone(), value });
                } else {
                    self.advance()?;
                }
            }
            while let (Some(Entry { key, .. }), Some(Reverse((next, ..)))) = (&self.pending, self.heads.peek())
                && next == key
            {
                self.advance()?;
            }
            if let Some(Entry { key, value: Some(value) }) = self.pending.take() {
                return Ok(Some((key, value)));
            }
        }
    }

    /// Takes the table on top one entry on, or off the heap if it has no more in the range.
    fn advance(&mut self) -> Result<(), TableError> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(()) };
        let Some(position) = self.tables.get_mut(head.0.2) else { return Ok(()) };
        let next = position.walk.next().transpose()?;
        if let Some(candidate) = position.candidate.take() {
            candidate.record(next.is_some());
        }
        if let Some(Entry { key, value }) = next {
            (head.0.0, head.0.1, position.value) = (key, true, value);
        } else {
            // It shares the memory of its data block.
            position.value = None;
            drop(PeekMut::pop(head));
        }
        Ok(())
    }
}

impl Iterator for RangeScan<'_> {
    type Item = Result<(Bytes, Bytes), TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.heads.clear();
            self.tables.clear();
            self.pending = None;
        }
        step.transpose()
    }
}

impl FusedIterator for RangeScan<'_> {}
