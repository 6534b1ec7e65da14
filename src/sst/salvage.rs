//! What is left of a damaged table.

use core::iter::FusedIterator;
use core::ops::Bound;

use bytes::Bytes;

use super::data_scan::DataScan;
use super::index::{DataBlockPlace, TableIndex};
use super::iter::OpenBlock;
use super::{Entry, Table, TableError};

impl Table {
    /// All entries in data blocks that are sound, in key order, and what is missing between them.
    ///
    /// The filters are not needed, and neither is the index: where it is damaged, blocks are found by their checksums.
    /// Footer, metaindex and properties are: without them the table does not open, and nothing says what its blocks
    /// are. Nothing of a block whose checksum does not hold is given. Each data block is read once, when the walk
    /// comes to it, past the block cache. All errors are [`TableError::Missing`].
    ///
    /// ```
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let options = TableOptions::default().with_block_bytes(64)?;
    /// let mut builder = TableBuilder::new(Vec::new(), &options)?;
    /// (0..1_000_u32).try_for_each(|key| builder.add(&key.to_be_bytes(), b"value"))?;
    /// let mut bytes = builder.finish()?.0;
    /// bytes[5_000] ^= 1;
    ///
    /// let table = Table::open_source(bytes::Bytes::from(bytes), &ReadOptions::default())?;
    /// let (entries, missing): (Vec<_>, Vec<_>) = table.salvage().partition(Result::is_ok);
    /// assert!(entries.len() > 990 && missing.len() == 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn salvage(&self) -> impl FusedIterator<Item = Result<Entry, TableError>> {
        Salvage::new(self, self.index().ok())
    }

    /// Reads the index, unless it is in memory: where it is damaged, [`salvage`](Self::salvage) finds blocks by their
    /// checksums alone.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`], or damage in the index.
    pub fn check_index(&self) -> Result<(), TableError> {
        self.index().map(drop)
    }
}

/// The entries that are left of a table; see [`Table::salvage`].
pub(super) struct Salvage<'a> {
    table: &'a Table,
    blocks: Blocks<'a>,
    open: Option<OpenBlock>,
    blocks_read: u64,
}

/// Where the next block is from.
enum Blocks<'a> {
    Indexed { index: &'a TableIndex, position: usize },
    Scanned(DataScan<'a>),
}

impl<'a> Salvage<'a> {
    /// Finds blocks by `index`, or by their checksums alone.
    pub(super) fn new(table: &'a Table, index: Option<&'a TableIndex>) -> Self {
        let blocks = match index {
            Some(index) => Blocks::Indexed { index, position: 0 },
            None => Blocks::Scanned(DataScan::new(table)),
        };
        Self { table, blocks, open: None, blocks_read: 0 }
    }

    /// Data blocks whose entries have been given.
    pub(super) const fn blocks_read(&self) -> u64 {
        self.blocks_read
    }

    /// The next block that can be read, and what is missing before it; `None` behind the last.
    fn next_block(&mut self) -> Option<(Option<OpenBlock>, Option<TableError>)> {
        match &mut self.blocks {
            Blocks::Indexed { index, position } => {
                let place = index.place(*position)?;
                *position += 1;
                Some(match OpenBlock::read(self.table, &place) {
                    Ok(block) => (Some(block), None),
                    Err(problem) => (None, Some(unread(&place, problem))),
                })
            }
            Blocks::Scanned(scan) => scan.next(),
        }
    }
}

/// The block that the index has there.
fn unread(place: &DataBlockPlace<'_>, problem: TableError) -> TableError {
    let [lower, upper] = [place.lower, place.last_key].map(Bytes::copy_from_slice);
    let lower = if place.handle.offset == 0 { Bound::Included(lower) } else { Bound::Excluded(lower) };
    TableError::Missing {
        bytes: place.handle.range(),
        blocks: Some(1),
        keys: (lower, Bound::Included(upper)),
        source: Box::new(problem),
    }
}

impl Iterator for Salvage<'_> {
    type Item = Result<Entry, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(mut open) = self.open.take() {
                match open.step() {
                    Ok(Some(entry)) => {
                        self.open = Some(open);
                        return Some(Ok(entry));
                    }
                    Ok(None) => self.blocks_read += 1,
                    Err(problem) => return Some(Err(open.rest(problem))),
                }
            }
            let (block, missing) = self.next_block()?;
            self.open = block;
            if let Some(missing) = missing {
                return Some(Err(missing));
            }
        }
    }
}

impl FusedIterator for Salvage<'_> {}
