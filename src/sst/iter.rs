//! Walking a table in key order.

use core::iter::FusedIterator;
use core::ops::Bound;

use bytes::Bytes;

use super::block::{Block, BlockCursor};
use super::format::BlockHandle;
use super::index::DataBlockPlace;
use super::{Table, TableError};
use crate::range::KeyRange;

impl Table {
    /// All entries in key order.
    #[must_use]
    pub fn iter(&self) -> TableIter<'_> {
        self.iter_within(Bytes::new(), Bound::Unbounded)
    }

    /// The entries whose keys are in `range`, in key order, tombstones included. If the range filter has "absent" for
    /// it, nothing is read.
    ///
    /// ```
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// for key in [b"a", b"c", b"e"] {
    ///     builder.add(key, b"")?;
    /// }
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    /// let keys: Result<Vec<_>, _> = table.range(b"b"..=b"e").map(|entry| Ok(entry?.key)).collect();
    /// assert_eq!(keys?, [&b"c"[..], b"e"]);
    /// assert_eq!(table.range(b"f"..).count(), 0);
    /// # Ok::<(), sstfilter::sst::TableError>(())
    /// ```
    pub fn range<'a>(&self, range: impl Into<KeyRange<'a>>) -> TableIter<'_> {
        let range = range.into();
        if !self.filters().may_contain_range(range) {
            return TableIter { state: State::Done, ..self.iter() };
        }
        let start = match range.lower {
            Bound::Included(lower) => Bytes::copy_from_slice(lower),
            Bound::Excluded(lower) => Bytes::from([lower, b"\0"].concat()),
            Bound::Unbounded => Bytes::new(),
        };
        self.iter_within(start, range.upper.map(Bytes::copy_from_slice))
    }

    /// The entries from `start` up to an end.
    pub(super) fn iter_within(&self, start: Bytes, upper: Bound<Bytes>) -> TableIter<'_> {
        TableIter { table: self, state: State::Start(start), upper }
    }
}

impl<'a> IntoIterator for &'a Table {
    type Item = <TableIter<'a> as Iterator>::Item;
    type IntoIter = TableIter<'a>;

    fn into_iter(self) -> TableIter<'a> {
        self.iter()
    }
}

/// One entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// The value; `None` for a tombstone. It shares the memory of its data block.
    pub value: Option<Bytes>,
}

/// The entries of a table in key order; see [`Table::iter`] and [`Table::range`].
///
/// Each data block is read once, when the walk comes to it, and past the block cache: a walk over everything would
/// fill it with blocks that no lookup needs. The first error ends the walk: after an [`Err`] comes [`None`].
///
/// ```
/// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions};
///
/// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
/// for key in [b"a", b"c", b"e"] {
///     builder.add(key, b"")?;
/// }
/// let bytes = bytes::Bytes::from(builder.finish()?.0);
/// let table = Table::open_source(bytes, &ReadOptions::default())?;
/// let keys: Result<Vec<_>, _> = table.range(b"b"..).map(|entry| Ok(entry?.key)).collect();
/// assert_eq!(keys?, [&b"c"[..], b"e"]);
/// # Ok::<(), sstfilter::sst::TableError>(())
/// ```
#[derive(Debug)]
pub struct TableIter<'a> {
    table: &'a Table,
    state: State,
    /// The walk ends at the first entry beyond it.
    upper: Bound<Bytes>,
}

#[derive(Debug)]
enum State {
    /// Nothing read; the key to begin with.
    Start(Bytes),
    /// On an entry that has been returned, in the data block at `position`.
    InBlock {
        position: usize,
        block: OpenBlock,
    },
    Done,
}

impl TableIter<'_> {
    /// Takes one step. After `None` or an error, the walk is over.
    fn step(&mut self) -> Result<Option<Entry>, TableError> {
        match &mut self.state {
            State::Done => Ok(None),
            // A copy: where a source of the caller's panics and that is caught, the next step begins here again.
            State::Start(from) => {
                let from = from.clone();
                self.enter(self.table.index()?.position_of(&from), &from)
            }
            State::InBlock { position, block } => {
                if let Some(entry) = block.step()? {
                    return Ok(Some(entry));
                }
                let next = *position + 1;
                self.enter(next, b"")
            }
        }
    }

    /// The first entry of the data block at `position`, or the first whose key is not below `from`.
    fn enter(&mut self, position: usize, from: &[u8]) -> Result<Option<Entry>, TableError> {
        let Some(place) = self.table.index()?.place(position) else { return Ok(None) };
        let mut block = OpenBlock::read(self.table, &place)?;
        if !block.cursor.seek(from)? {
            return Err(block.cursor.block().ends_before(place.last_key));
        }
        let entry = block.entry();
        self.state = State::InBlock { position, block };
        Ok(Some(entry))
    }
}

/// A data block that a walk is in.
#[derive(Debug)]
pub(super) struct OpenBlock {
    pub(super) handle: BlockHandle,
    pub(super) cursor: BlockCursor<Block>,
    /// The last key that the index has for the block; `None` without an index.
    pub(super) last_key: Option<Bytes>,
}

impl OpenBlock {
    pub(super) fn read(table: &Table, place: &DataBlockPlace<'_>) -> Result<Self, TableError> {
        let cursor = BlockCursor::new(table.read_data_block(place)?);
        Ok(Self { handle: place.handle, cursor, last_key: Some(Bytes::copy_from_slice(place.last_key)) })
    }

    /// The next entry; `None` behind the last.
    pub(super) fn step(&mut self) -> Result<Option<Entry>, TableError> {
        if self.cursor.advance()? {
            return Ok(Some(self.entry()));
        }
        match &self.last_key {
            Some(last) if self.cursor.key() != &last[..] => Err(self.cursor.block().ends_before(last)),
            _ => Ok(None),
        }
    }

    /// The entry that the walk is on.
    fn entry(&self) -> Entry {
        Entry { key: Bytes::copy_from_slice(self.cursor.key()), value: self.cursor.value_bytes() }
    }

    /// The error for the entries after the current one, which `problem` makes unreadable although the checksum holds.
    pub(super) fn rest(self, problem: TableError) -> TableError {
        let lower = Bound::Excluded(Bytes::copy_from_slice(self.cursor.key()));
        let keys = (lower, self.last_key.map_or(Bound::Unbounded, Bound::Included));
        TableError::Missing { bytes: self.handle.range(), blocks: Some(1), keys, source: Box::new(problem) }
    }
}

impl Iterator for TableIter<'_> {
    type Item = Result<Entry, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        let within = KeyRange::from((Bound::Unbounded, self.upper.as_ref().map(|upper| &**upper)));
        let step = step.map(|entry| entry.filter(|entry| within.contains(&entry.key)));
        if !matches!(step, Ok(Some(_))) {
            self.state = State::Done;
        }
        step.transpose()
    }
}

impl FusedIterator for TableIter<'_> {}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicBool, Ordering};
    use std::io;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;
    use crate::sst::{RandomAccess, ReadOptions, TableBuilder, TableOptions};

    /// A table of the keys a, c, e, whose one data block ends with d, under a checksum that holds.
    fn lying_table() -> Table {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().without_filter()).unwrap();
        for key in [b"a", b"c", b"e"] {
            builder.add(key, b"").unwrap();
        }
        assert_eq!(builder.data.contents, b"\0\x01\0a\0\x01\0c\0\x01\0e");
        builder.data.contents[11] = b'd';
        Table::open_source(Bytes::from(builder.finish().unwrap().0), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn a_block_that_ends_before_the_key_in_the_index_is_an_error() {
        let table = lying_table();
        assert!(matches!(table.get(b"e"), Err(TableError::Corrupt { .. })));
        assert!(matches!(table.range(b"e"..).next(), Some(Err(TableError::Corrupt { .. }))));
        assert!(matches!(table.verify(), Err(TableError::Corrupt { .. })));
    }

    #[test]
    fn a_walk_ends_with_its_first_error() {
        let table = lying_table();
        let mut walk = table.iter();
        assert!(walk.by_ref().take(3).all(|entry| entry.is_ok()));
        assert!(matches!(walk.next(), Some(Err(TableError::Corrupt { .. }))));
        assert!(walk.next().is_none() && walk.next().is_none());
    }

    /// A table in memory whose next read panics when it is told so.
    #[derive(Debug)]
    struct Panicking {
        bytes: Bytes,
        panics: Arc<AtomicBool>,
    }

    impl RandomAccess for Panicking {
        fn len(&self) -> io::Result<u64> {
            RandomAccess::len(&self.bytes)
        }

        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            assert!(!self.panics.swap(false, Ordering::Relaxed), "the caller's code panics, as it was told to");
            self.bytes.read_exact_at(buf, offset)
        }
    }

    #[test]
    fn a_walk_from_a_key_never_begins_before_it_though_its_first_read_panicked() {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap();
        for key in [b"a", b"c", b"e"] {
            builder.add(key, b"").unwrap();
        }
        let panics = Arc::new(AtomicBool::new(false));
        let source = Panicking { bytes: Bytes::from(builder.finish().unwrap().0), panics: panics.clone() };
        let table = Table::open_source(source, &ReadOptions::default()).unwrap();
        let mut walk = table.range(b"d"..);
        panics.store(true, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| walk.next().is_some())).is_err());
        let keys: Vec<Bytes> = walk.map(|entry| entry.unwrap().key).collect();
        assert_eq!(keys, ["e"]);
    }
}
