//! The entries of many tables whose keys are in a range.

use core::cmp::{Ordering, Reverse};
use core::fmt;
use core::iter::FusedIterator;
use core::ops::Bound;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use bytes::Bytes;

use super::{Entry, Table, TableError, TableIter};
use crate::store::{ScanCandidate, ScanCandidates};

/// The keys in a range and their newest values, in key order; see [`TableSnapshot::range`](super::TableSnapshot::range)
/// and [`TableSnapshot::scan_prefix`](super::TableSnapshot::scan_prefix).
///
/// A table is read when the scan comes to where its next key may be, and then one data block at a time, past the block
/// cache. Where that is, its smallest key or its range filter says: a scan that stops early does not read tables that
/// continue further on. The first error ends the scan, because whatever else it gave might be outdated: after an
/// [`Err`] comes [`None`].
pub struct RangeScan<'a> {
    /// The one with the smallest key is on top.
    heads: BinaryHeap<Head<'a>>,
    /// What comes next, while older entries of its key are passed over. Kept here, so that a scan goes on where it was
    /// after a panic in a source of the caller's.
    pending: Option<Entry>,
}

/// Where the scan is in one table.
struct Head<'a> {
    walk: TableIter<'a>,
    /// Where the walk comes from, which wants to know whether there is an entry; until that is known.
    candidate: Option<ScanCandidate<'a, Table>>,
    /// The entry that the walk has come to; `None` before it has read any.
    entry: Option<Entry>,
    /// No key that the walk has still to give sorts before it.
    lower_bound: Bytes,
    /// 0 in the newest table.
    age: usize,
}

impl Head<'_> {
    fn key(&self) -> &[u8] {
        self.entry.as_ref().map_or(&self.lower_bound, |entry| &entry.key)
    }

    /// By key; of one key, tables that have not been read come first, because the newest entry may be theirs, and then
    /// the newest. Reversed, because the heap's top is the largest.
    fn rank(&self) -> Reverse<(&[u8], bool, usize)> {
        Reverse((self.key(), self.entry.is_some(), self.age))
    }
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}

impl<'a> RangeScan<'a> {
    /// The scan of the candidates, the newest first, up to an end.
    pub(super) fn new(candidates: ScanCandidates<'a, Table>, end: &Bound<Bytes>) -> Self {
        let head = |(age, candidate): (usize, ScanCandidate<'a, Table>)| {
            let lower_bound = candidate.lower_bound.clone();
            let walk = candidate.file.iter_within(lower_bound.clone(), end.clone());
            Head { walk, candidate: Some(candidate), entry: None, lower_bound, age }
        };
        Self { heads: candidates.enumerate().map(head).collect(), pending: None }
    }

    fn step(&mut self) -> Result<Option<(Bytes, Bytes)>, TableError> {
        loop {
            if self.pending.is_none() {
                self.pending = self.newest_of_smallest_key()?;
            }
            let Some(Entry { key, .. }) = &self.pending else { return Ok(None) };
            while let Some(head) = self.heads.peek_mut()
                && head.key() == key
            {
                advance(head)?;
            }
            if let Some(Entry { key, value: Some(value) }) = self.pending.take() {
                return Ok(Some((key, value)));
            }
        }
    }

    /// The entry on top, once the table there has been read.
    fn newest_of_smallest_key(&mut self) -> Result<Option<Entry>, TableError> {
        while let Some(head) = self.heads.peek_mut() {
            if let Some(entry) = &head.entry {
                return Ok(Some(entry.clone()));
            }
            advance(head)?;
        }
        Ok(None)
    }
}

/// Takes a table one entry on, or off the heap if it has no more in the range.
fn advance(mut head: PeekMut<'_, Head<'_>>) -> Result<(), TableError> {
    let next = head.walk.next().transpose()?;
    if let Some(candidate) = head.candidate.take() {
        candidate.record(next.is_some());
    }
    match next {
        Some(entry) => head.entry = Some(entry),
        None => drop(PeekMut::pop(head)),
    }
    Ok(())
}

impl Iterator for RangeScan<'_> {
    type Item = Result<(Bytes, Bytes), TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.heads.clear();
            self.pending = None;
        }
        step.transpose()
    }
}

impl FusedIterator for RangeScan<'_> {}

impl fmt::Debug for RangeScan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeScan").field("tables", &self.heads.len()).finish_non_exhaustive()
    }
}
