//! Walking a table in key order.

use core::iter::FusedIterator;

use bytes::Bytes;

use super::entry_block::EntryCursor;
use super::reader::missing_last_key;
use super::{Table, TableError};

/// One entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// The value; `None` for a tombstone. It shares the memory of its data block.
    pub value: Option<Bytes>,
}

/// The entries of a table in key order; see [`Table::iter`] and [`Table::iter_from`].
///
/// Each data block is read once, when the walk comes to it. The first error ends the walk: after an
/// [`Err`] comes [`None`].
///
/// ```
/// use sstfilter::{ReadOptions, Table, TableBuilder, TableOptions};
///
/// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
/// for key in [b"a", b"c", b"e"] {
///     builder.add(key, b"")?;
/// }
/// let bytes = bytes::Bytes::from(builder.finish()?.0);
/// let table = Table::open_source(bytes, &ReadOptions::default())?;
/// let keys: Result<Vec<_>, _> = table.iter_from(b"b").map(|entry| Ok(entry?.key)).collect();
/// assert_eq!(keys?, [&b"c"[..], b"e"]);
/// # Ok::<(), sstfilter::TableError>(())
/// ```
#[derive(Debug)]
pub struct TableIter<'a> {
    table: &'a Table,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing read; where to begin.
    Begin(Option<Vec<u8>>),
    /// In the data block at `position`.
    Walking {
        position: usize,
        cursor: EntryCursor,
        arrival: Arrival,
    },
    Done,
}

/// Whether the cursor's entry has been given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    OnNextEntry,
    OnLastEntry,
}

impl<'a> TableIter<'a> {
    pub(crate) fn new(table: &'a Table, from: Option<Vec<u8>>) -> Self {
        Self { table, state: State::Begin(from) }
    }

    /// Takes one step; the state is `Done` unless the step left another.
    fn step(&mut self) -> Result<Option<Entry>, TableError> {
        let (mut position, mut cursor, arrival) = match core::mem::replace(&mut self.state, State::Done) {
            State::Done => return Ok(None),
            State::Begin(from) => match self.begin(from.as_deref())? {
                Some(begun) => begun,
                None => return Ok(None),
            },
            State::Walking { position, cursor, arrival } => (position, cursor, arrival),
        };
        if arrival == Arrival::OnLastEntry {
            while !cursor.advance()? {
                self.check_end(position, &cursor)?;
                position += 1;
                let Some(next) = self.block_cursor(position)? else { return Ok(None) };
                cursor = next;
            }
        }
        let entry = Entry { key: Bytes::copy_from_slice(cursor.key()), value: cursor.value_bytes() };
        self.state = State::Walking { position, cursor, arrival: Arrival::OnLastEntry };
        Ok(Some(entry))
    }

    fn begin(&self, from: Option<&[u8]>) -> Result<Option<(usize, EntryCursor, Arrival)>, TableError> {
        let Some(from) = from else {
            return Ok(self.block_cursor(0)?.map(|cursor| (0, cursor, Arrival::OnLastEntry)));
        };
        let index = self.table.index()?;
        let position = index.position_of(from);
        if position == index.len() {
            return Ok(None);
        }
        let block = self.table.data_block(index, position)?;
        let cursor = block.seek(from)?;
        let cursor = cursor.ok_or_else(|| missing_last_key(&block, index.last_key(position)))?;
        Ok(Some((position, cursor, Arrival::OnNextEntry)))
    }

    fn block_cursor(&self, position: usize) -> Result<Option<EntryCursor>, TableError> {
        let index = self.table.index()?;
        if position >= index.len() {
            return Ok(None);
        }
        Ok(Some(self.table.data_block(index, position)?.cursor()))
    }

    /// The block's last key must be the one that the index has for it.
    fn check_end(&self, position: usize, cursor: &EntryCursor) -> Result<(), TableError> {
        let last_key = self.table.index()?.last_key(position);
        if cursor.key() == last_key { Ok(()) } else { Err(missing_last_key(cursor.block(), last_key)) }
    }
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
    use crate::sst::handle::BlockHandle;
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
