//! The entries of many tables whose keys begin with a prefix.

use core::cmp::{Ordering, Reverse};
use core::fmt;
use core::iter::FusedIterator;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use bytes::Bytes;

use super::{Entry, Table, TableError, TableIter};

/// The keys with a prefix and their newest values, in key order; see [`TableSet::scan_prefix`](super::TableSet::scan_prefix).
///
/// Each table is read when the scan comes to its first key with the prefix, and then one data block at a time, past the
/// block cache. The first error ends the scan, because whatever else it gave might be outdated: after an [`Err`] comes
/// [`None`].
pub struct PrefixScan<'a> {
    prefix: Vec<u8>,
    /// The one with the smallest key is on top.
    heads: BinaryHeap<Head<'a>>,
    /// What comes next, while older entries of its key are passed over. Kept here, so that a scan goes on where it was
    /// after a panic in a source of the caller's.
    pending: Option<Entry>,
}

/// Where the scan is in one table.
struct Head<'a> {
    walk: TableIter<'a>,
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

impl<'a> PrefixScan<'a> {
    /// The scan of `tables`, the newest first. Tables without a key with the prefix may be left out.
    pub(crate) fn new(tables: impl IntoIterator<Item = &'a Table>, prefix: &[u8]) -> Self {
        let head = |(age, table): (usize, &'a Table)| {
            let smallest = table.properties().smallest_key.as_deref()?;
            let lower_bound = Bytes::copy_from_slice(smallest.max(prefix));
            Some(Head { walk: table.iter_from(prefix), entry: None, lower_bound, age })
        };
        let heads = tables.into_iter().enumerate().filter_map(head).collect();
        Self { prefix: prefix.to_vec(), heads, pending: None }
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
                advance(head, &self.prefix)?;
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
            advance(head, &self.prefix)?;
        }
        Ok(None)
    }
}

/// Takes a table one entry on, or off the heap if it has no more with the prefix.
fn advance(mut head: PeekMut<'_, Head<'_>>, prefix: &[u8]) -> Result<(), TableError> {
    match head.walk.next().transpose()? {
        Some(entry) if entry.key.starts_with(prefix) => head.entry = Some(entry),
        _ => drop(PeekMut::pop(head)),
    }
    Ok(())
}

impl Iterator for PrefixScan<'_> {
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

impl FusedIterator for PrefixScan<'_> {}

impl fmt::Debug for PrefixScan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixScan")
            .field("prefix", &self.prefix)
            .field("tables", &self.heads.len())
            .finish_non_exhaustive()
    }
}
