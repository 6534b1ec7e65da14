//! Iterates over a table in key order, optionally past damage.

use core::iter::FusedIterator;
use core::ops::Bound;

use bytes::Bytes;
use sstfilter::KeyRange;

use super::block::{Block, BlockCursor};
use super::data_scan::DataScan;
use super::format::BlockHandle;
use super::index::{DataBlockHandle, TableIndex};
use super::{Table, TableError};

impl Table {
    /// Iterates over all entries in key order.
    #[must_use]
    pub fn iter(&self) -> TableIter<'_> {
        self.iter_within(Bytes::new(), Bound::Unbounded)
    }

    /// Iterates over the entries in `range` in key order, including tombstones. Reads nothing if the range filter
    /// answers "absent".
    ///
    /// ```
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// for key in [b"a", b"c", b"e"] {
    ///     builder.add(key, b"")?;
    /// }
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &TableOptions::default())?;
    /// let keys: Result<Vec<_>, _> = table.range(b"b"..=b"e").map(|entry| Ok(entry?.key)).collect();
    /// assert_eq!(keys?, [&b"c"[..], b"e"]);
    /// assert_eq!(table.range(b"f"..).count(), 0);
    /// # Ok::<(), sstfilter_table::TableError>(())
    /// ```
    pub fn range<'a>(&self, range: impl Into<KeyRange<'a>>) -> TableIter<'_> {
        let range = range.into();
        if !self.filters().may_contain_range(range) {
            return TableIter { is_done: true, ..self.iter() };
        }
        let start = match range.lower {
            Bound::Included(lower) => Bytes::copy_from_slice(lower),
            // The smallest key above `lower`.
            Bound::Excluded(lower) => Bytes::from([lower, b"\0"].concat()),
            Bound::Unbounded => Bytes::new(),
        };
        self.iter_within(start, range.upper.map(Bytes::copy_from_slice))
    }

    /// Iterates over the entries from `start` up to an end.
    pub(super) fn iter_within(&self, start: Bytes, upper: Bound<Bytes>) -> TableIter<'_> {
        TableIter { table: self, start, upper, blocks: None, open: None, blocks_read: 0, is_done: false }
    }

    /// Iterates over all entries, in the blocks of `index`, or without an index in blocks that are found by their
    /// checksums.
    pub(super) fn iter_by<'a>(&'a self, index: Option<&'a TableIndex>) -> TableIter<'a> {
        let blocks = match index {
            Some(index) => Blocks::Indexed { index, position: 0 },
            None => Blocks::Scanned(DataScan::new(self)),
        };
        TableIter { blocks: Some(blocks), ..self.iter() }
    }

    /// Iterates over all entries in sound data blocks, in key order, with an error for each gap between them.
    ///
    /// Needs neither the filters nor the index: if the index is damaged, blocks are found by their checksums. Needs
    /// footer, metaindex and properties, without which the table does not open. Returns nothing from a block with a
    /// wrong checksum. Reads each data block once, when the iterator gets to it, bypassing the block cache. All errors
    /// are [`TableError::Missing`].
    ///
    /// ```
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    ///
    /// let options = TableOptions::default().with_block_bytes(64)?;
    /// let mut builder = TableBuilder::new(Vec::new(), &options)?;
    /// (0..1_000_u32).try_for_each(|key| builder.add(&key.to_be_bytes(), b"value"))?;
    /// let mut bytes = builder.finish()?.0;
    /// bytes[5_000] ^= 1;
    ///
    /// let table = Table::open_source(bytes::Bytes::from(bytes), &TableOptions::default())?;
    /// let (entries, missing): (Vec<_>, Vec<_>) = table.salvage().partition(Result::is_ok);
    /// assert!(entries.len() > 990 && missing.len() == 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn salvage(&self) -> impl FusedIterator<Item = Result<Entry, TableError>> {
        let mut walk = self.iter_by(self.index().ok());
        core::iter::from_fn(move || walk.step().transpose()).fuse()
    }

    /// Reads the index, unless it is in memory. If it is damaged, [`salvage`](Self::salvage) finds blocks only by their
    /// checksums.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`], or damage in the index.
    pub fn check_index(&self) -> Result<(), TableError> {
        self.index().map(drop)
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
    /// The value, which shares the memory of its data block; `None` for a tombstone.
    pub value: Option<Bytes>,
}

/// An iterator over the entries of a table in key order; see [`Table::iter`] and [`Table::range`].
///
/// Each data block is read once, when the iterator gets to it. Blocks bypass the block cache, which a walk over
/// everything would fill with blocks that no lookup needs. The first error ends the iterator: after an [`Err`] comes
/// [`None`].
///
/// ```
/// use sstfilter_table::{Table, TableBuilder, TableOptions};
///
/// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
/// for key in [b"a", b"c", b"e"] {
///     builder.add(key, b"")?;
/// }
/// let bytes = bytes::Bytes::from(builder.finish()?.0);
/// let table = Table::open_source(bytes, &TableOptions::default())?;
/// let keys: Result<Vec<_>, _> = table.range(b"b"..).map(|entry| Ok(entry?.key)).collect();
/// assert_eq!(keys?, [&b"c"[..], b"e"]);
/// # Ok::<(), sstfilter_table::TableError>(())
/// ```
#[derive(Debug)]
pub struct TableIter<'a> {
    table: &'a Table,
    start: Bytes,
    /// The walk ends before the first entry beyond this.
    upper: Bound<Bytes>,
    /// `None` until the first read.
    blocks: Option<Blocks<'a>>,
    open: Option<OpenBlock>,
    /// Number of blocks whose entries have all been returned.
    pub(super) blocks_read: u64,
    is_done: bool,
}

/// The source of the next block.
#[derive(Debug)]
enum Blocks<'a> {
    Indexed { index: &'a TableIndex, position: usize },
    Scanned(DataScan<'a>),
}

impl TableIter<'_> {
    /// Returns the next entry at or after the start, without regard to the end. An error describes missing entries,
    /// after which the walk can continue.
    pub(super) fn step(&mut self) -> Result<Option<Entry>, TableError> {
        loop {
            if let Some(mut open) = self.open.take() {
                match open.step(&self.start) {
                    // Counted only if all entries of the block were sound.
                    Ok(None) => self.blocks_read += 1,
                    Ok(entry) => {
                        self.open = Some(open);
                        return Ok(entry);
                    }
                    Err(problem) => return Err(open.rest(problem)),
                }
            }
            match self.next_block()? {
                Some(block) => self.open = Some(block),
                None => return Ok(None),
            }
        }
    }

    /// Returns the next block; `None` after the last.
    fn next_block(&mut self) -> Result<Option<OpenBlock>, TableError> {
        let blocks = if let Some(blocks) = &mut self.blocks {
            blocks
        } else {
            let index = self.table.index()?;
            self.blocks.insert(Blocks::Indexed { index, position: index.position_of(&self.start) })
        };
        match blocks {
            Blocks::Indexed { index, position } => {
                let Some(entry) = index.entry(*position) else { return Ok(None) };
                let read = OpenBlock::read(self.table, &entry, &self.start);
                // After the read: if the caller's source panics and the panic is caught, the next step reads the block
                // again.
                *position += 1;
                read.map(Some)
            }
            Blocks::Scanned(scan) => {
                let found = scan.next()?;
                Ok(found.map(|(block, handle)| OpenBlock { handle, cursor: BlockCursor::new(block), last_key: None }))
            }
        }
    }
}

impl Iterator for TableIter<'_> {
    type Item = Result<Entry, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let step = self.step().map_err(TableError::cause);
        let within = KeyRange::from((Bound::Unbounded, self.upper.as_ref().map(|upper| &**upper)));
        let step = step.map(|entry| entry.filter(|entry| within.contains(&entry.key)));
        if !matches!(step, Ok(Some(_))) {
            // A finished iterator that is kept does not keep its last block in memory.
            (self.is_done, self.open) = (true, None);
        }
        step.transpose()
    }
}

impl FusedIterator for TableIter<'_> {}

/// The current data block of a walk.
#[derive(Debug)]
struct OpenBlock {
    handle: BlockHandle,
    cursor: BlockCursor<Block>,
    /// The block's last key in the index; `None` without an index.
    last_key: Option<Bytes>,
}

impl OpenBlock {
    /// Reads the block at `entry`, and moves near `start` if that is in the block.
    fn read(table: &Table, entry: &DataBlockHandle<'_>, start: &[u8]) -> Result<Self, TableError> {
        let [lower, last_key] = [entry.lower, entry.last_key].map(Bytes::copy_from_slice);
        let cursor = table.read_data_block(entry).and_then(|block| {
            let mut cursor = BlockCursor::new(block);
            // In all but the first block, `start` is below every key, and a search would be in vain.
            if start > &lower[..] {
                cursor.enter(start)?;
            }
            Ok(cursor)
        });
        // For the first block, `lower` is its own first key; for others, it is a key of the previous block.
        let lower = if entry.handle.offset == 0 { Bound::Included(lower) } else { Bound::Excluded(lower) };
        match cursor {
            Ok(cursor) => Ok(Self { handle: entry.handle, cursor, last_key: Some(last_key) }),
            Err(problem) => Err(missing(entry.handle, (lower, Bound::Included(last_key)), problem)),
        }
    }

    /// Returns the next entry that is not below `start`; `None` after the last.
    fn step(&mut self, start: &[u8]) -> Result<Option<Entry>, TableError> {
        while self.cursor.advance()? {
            let key = self.cursor.key();
            if key >= start {
                return Ok(Some(Entry { key: Bytes::copy_from_slice(key), value: self.cursor.value_bytes() }));
            }
        }
        match &self.last_key {
            // A block that ends early would hide keys silently.
            Some(last) if self.cursor.key() != &last[..] => Err(self.cursor.block().ends_before(last)),
            _ => Ok(None),
        }
    }

    /// Returns the error for the entries after the current one, which `problem` makes unreadable although the checksum
    /// matches.
    fn rest(self, problem: TableError) -> TableError {
        let lower = Bound::Excluded(Bytes::copy_from_slice(self.cursor.key()));
        missing(self.handle, (lower, self.last_key.map_or(Bound::Unbounded, Bound::Included)), problem)
    }
}

/// Returns the error for missing entries of a data block.
fn missing(block: BlockHandle, keys: (Bound<Bytes>, Bound<Bytes>), problem: TableError) -> TableError {
    TableError::Missing { bytes: block.range(), blocks: Some(1), keys, source: Box::new(problem) }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicBool, Ordering};
    use std::io;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;
    use crate::{TableBuilder, TableOptions};
    use sstfilter::RandomAccess;

    /// A table of the keys a, c, e whose only data block ends with d, under a valid checksum.
    fn lying_table() -> Table {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().without_filter()).unwrap();
        for key in [b"a", b"c", b"e"] {
            builder.add(key, b"").unwrap();
        }
        assert_eq!(builder.data.contents, b"\0\x01\0a\0\x01\0c\0\x01\0e");
        builder.data.contents[11] = b'd';
        Table::open_source(Bytes::from(builder.finish().unwrap().0), &TableOptions::default()).unwrap()
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

    /// A table in memory whose next read panics if `panics` is set.
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
            assert!(!self.panics.swap(false, Ordering::Relaxed), "the caller's code panics, as planned");
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
        let table = Table::open_source(source, &TableOptions::default()).unwrap();
        let mut walk = table.range(b"d"..);
        panics.store(true, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| walk.next().is_some())).is_err());
        let keys: Vec<Bytes> = walk.map(|entry| entry.unwrap().key).collect();
        assert_eq!(keys, ["e"]);
    }
}
