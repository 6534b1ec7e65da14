//! Scans a range of keys over many tables.

use core::cmp::Reverse;
use core::iter::FusedIterator;
use core::ops::Bound;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use bytes::Bytes;
use sstfilter_store::{ScanCandidate, ScanCandidates};

use super::{Entry, Table, TableError, TableIter};

/// Iterates over the keys in a range and their newest values, in key order; see
/// [`TableSnapshot::range`](super::TableSnapshot::range) and
/// [`TableSnapshot::scan_prefix`](super::TableSnapshot::scan_prefix).
///
/// A table is read once the scan reaches a lower bound of its next key, which its smallest key or its range filter
/// provides. So a scan that stops early does not read tables that continue later. Data blocks are read one at a time,
/// bypassing the block cache. The first error ends the scan, because later entries might be outdated: after an [`Err`]
/// comes [`None`].
pub(super) struct RangeScan<'a> {
    /// Newest first.
    tables: Vec<Position<'a>>,
    /// For each table with more entries: a lower bound of its next key, whether that is the key of an entry, and the
    /// table's number. The smallest key is on top. At equal keys, unread tables come first, because the newest entry
    /// may be theirs, and then the newest.
    heads: BinaryHeap<Reverse<(Bytes, bool, usize)>>,
    /// The next entry, while older entries of its key are skipped. A field, so that a scan can continue after a panic
    /// in the caller's source.
    pending: Option<Entry>,
}

/// The position of the scan in one table.
struct Position<'a> {
    walk: TableIter<'a>,
    /// The candidate that the walk came from, until it is known whether the table has an entry in the range.
    candidate: Option<ScanCandidate<'a, Table>>,
    /// The value of the current entry; `None` for a tombstone, or before the first read.
    value: Option<Bytes>,
}

impl<'a> RangeScan<'a> {
    /// Scans the candidates, which are newest first, up to an end.
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
            // Reads the table on top until its entry is known.
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

    /// Moves the table on top to its next entry, or removes it from the heap if it has none in the range.
    fn advance(&mut self) -> Result<(), TableError> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(()) };
        let Some(position) = self.tables.get_mut(head.0.2) else { return Ok(()) };
        let next = position.walk.next().transpose()?;
        if let Some(candidate) = position.candidate.take() {
            // Only the first read of a table shows whether its range filter was a false positive.
            candidate.record(next.is_some());
        }
        if let Some(Entry { key, value }) = next {
            (head.0.0, head.0.1, position.value) = (key, true, value);
        } else {
            // The value keeps its data block in memory.
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
