//! Walking a table in key order.

use core::iter::FusedIterator;

use bytes::Bytes;

use super::block::{Block, BlockCursor, CursorPosition};
use super::{Table, TableError};

impl Table {
    /// All entries in key order.
    #[must_use]
    pub fn iter(&self) -> TableIter<'_> {
        TableIter::new(self, None)
    }

    /// The entries from `key` on, which need not be there.
    #[must_use]
    pub fn iter_from(&self, key: &[u8]) -> TableIter<'_> {
        TableIter::new(self, Some(key.to_vec()))
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

/// The entries of a table in key order; see [`Table::iter`] and [`Table::iter_from`].
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
/// let keys: Result<Vec<_>, _> = table.iter_from(b"b").map(|entry| Ok(entry?.key)).collect();
/// assert_eq!(keys?, [&b"c"[..], b"e"]);
/// # Ok::<(), sstfilter::sst::TableError>(())
/// ```
#[derive(Debug)]
pub struct TableIter<'a> {
    table: &'a Table,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing read; the key to begin with.
    Start(Option<Vec<u8>>),
    /// On an entry that has been returned, in the data block at `position`.
    InBlock {
        position: usize,
        block: Block,
        cursor: CursorPosition,
    },
    Done,
}

impl<'a> TableIter<'a> {
    pub(crate) fn new(table: &'a Table, from: Option<Vec<u8>>) -> Self {
        Self { table, state: State::Start(from) }
    }

    /// Takes one step; the state is `Done` unless the step leaves another.
    fn step(&mut self) -> Result<Option<Entry>, TableError> {
        match core::mem::replace(&mut self.state, State::Done) {
            State::Done => Ok(None),
            State::Start(None) => self.first_from(0),
            State::Start(Some(key)) => self.seek(&key),
            State::InBlock { position, block, cursor } => {
                let mut cursor = BlockCursor::resume(&block, cursor);
                if cursor.advance()? {
                    let (entry, cursor) = entry_and_position(cursor);
                    self.state = State::InBlock { position, block, cursor };
                    return Ok(Some(entry));
                }
                let last_key = self.table.index()?.last_key(position);
                if cursor.key() != last_key {
                    return Err(block.ends_before(last_key));
                }
                self.first_from(position + 1)
            }
        }
    }

    /// The first entry of the data block at `position`. A block that was read has a first key.
    fn first_from(&mut self, position: usize) -> Result<Option<Entry>, TableError> {
        let index = self.table.index()?;
        if position >= index.len() {
            return Ok(None);
        }
        let block = self.table.read_data_block(index, position)?;
        let mut cursor = block.cursor();
        cursor.advance()?;
        let (entry, cursor) = entry_and_position(cursor);
        self.state = State::InBlock { position, block, cursor };
        Ok(Some(entry))
    }

    /// The first entry whose key is not below `key`.
    fn seek(&mut self, key: &[u8]) -> Result<Option<Entry>, TableError> {
        let index = self.table.index()?;
        let position = index.position_of(key);
        if position == index.len() {
            return Ok(None);
        }
        let block = self.table.read_data_block(index, position)?;
        let Some(cursor) = block.seek(key)? else { return Err(block.ends_before(index.last_key(position))) };
        let (entry, cursor) = entry_and_position(cursor);
        self.state = State::InBlock { position, block, cursor };
        Ok(Some(entry))
    }
}

/// The entry that a cursor is on, and where it stands.
fn entry_and_position(cursor: BlockCursor<'_>) -> (Entry, CursorPosition) {
    let entry = Entry { key: Bytes::copy_from_slice(cursor.key()), value: cursor.value_bytes() };
    (entry, cursor.into_position())
}

impl Iterator for TableIter<'_> {
    type Item = Result<Entry, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

impl FusedIterator for TableIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sst::forge::forged;
    use crate::sst::format::BlockHandle;
    use crate::sst::{ReadOptions, TableBuilder, TableOptions};

    /// A table of the keys a, c, e, whose one data block ends with d, under a checksum that holds.
    fn lying_table() -> Table {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().without_filter()).unwrap();
        for key in [b"a", b"c", b"e"] {
            builder.add(key, b"").unwrap();
        }
        let bytes = builder.finish().unwrap().0;
        assert_eq!(bytes[..12], *b"\0\x01\0a\0\x01\0c\0\x01\0e");
        let mut contents = bytes[..20].to_vec();
        contents[11] = b'd';
        let checksum = u32::from_le_bytes(*bytes[20..].first_chunk().unwrap());
        let handle = BlockHandle { offset: 0, contents_bytes: 20, checksum };
        Table::open_source(Bytes::from(forged(&bytes, handle, &contents)), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn a_block_that_ends_before_the_key_in_the_index_is_an_error() {
        let table = lying_table();
        assert!(matches!(table.get(b"e"), Err(TableError::Corrupt { .. })));
        assert!(matches!(table.iter_from(b"e").next(), Some(Err(TableError::Corrupt { .. }))));
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
}
