//! What is left of a damaged table.

use core::fmt;
use core::iter::FusedIterator;
use core::ops::Bound;

use bytes::Bytes;

use super::block::{Block, BlockCursor};
use super::data_scan::{DataScan, Scanned};
use super::error::shown;
use super::format::BlockHandle;
use super::index::{DataBlockPlace, TableIndex};
use super::iter::entry_at;
use super::{Entry, Table, TableError, TablePart};

impl Table {
    /// All entries in data blocks that are sound, in key order, and what is missing between them.
    ///
    /// The filters are not needed, and neither is the index: where it is damaged, blocks are found by their checksums.
    /// Footer, metaindex and properties are: without them the table does not open, and nothing says what its blocks
    /// are. Nothing of a block whose checksum does not hold is given. Each data block is read once, when the walk
    /// comes to it, past the block cache.
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
    pub fn salvage(&self) -> impl FusedIterator<Item = Result<Entry, Box<MissingData>>> {
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

/// Data that cannot be read: a data block, or bytes between two that are sound.
#[derive(Debug)]
#[non_exhaustive]
pub struct MissingData {
    /// First byte in the file.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// How many data blocks; `None` where the index is damaged.
    pub blocks: Option<u64>,
    /// No missing key sorts before it.
    pub lower: Bound<Bytes>,
    /// No missing key sorts after it.
    pub upper: Bound<Bytes>,
    /// What is wrong.
    pub problem: TableError,
}

impl fmt::Display for MissingData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lower {
            Bound::Included(key) => write!(f, "keys from {}", shown(key))?,
            Bound::Excluded(key) => write!(f, "keys after {}", shown(key))?,
            Bound::Unbounded => f.write_str("keys")?,
        }
        match &self.upper {
            Bound::Included(key) => write!(f, " up to {}", shown(key))?,
            Bound::Excluded(key) => write!(f, " and before {}", shown(key))?,
            Bound::Unbounded => {}
        }
        write!(f, ", {} bytes at offset {}: {}", self.bytes, self.offset, self.problem)
    }
}

impl core::error::Error for MissingData {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.problem)
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

/// A block that the walk is in.
struct OpenBlock {
    handle: BlockHandle,
    cursor: BlockCursor<Block>,
    /// By the index.
    last_key: Option<Bytes>,
}

impl OpenBlock {
    fn step(&mut self) -> Result<Option<Entry>, TableError> {
        if self.cursor.advance()? {
            return Ok(Some(entry_at(&self.cursor)));
        }
        match &self.last_key {
            Some(last) if self.cursor.key() != &last[..] => Err(self.cursor.block().ends_before(last)),
            _ => Ok(None),
        }
    }

    /// What its contents do not give, although its checksum holds.
    fn rest(self, problem: TableError) -> MissingData {
        MissingData {
            offset: self.handle.offset,
            bytes: self.handle.bytes(),
            blocks: Some(1),
            lower: Bound::Excluded(Bytes::copy_from_slice(self.cursor.key())),
            upper: self.last_key.map_or(Bound::Unbounded, Bound::Included),
            problem,
        }
    }
}

impl<'a> Salvage<'a> {
    /// By the index, or by the checksums of blocks alone.
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

    /// Enters the next block that can be read, and says what is missing before it; `None` behind the last.
    fn enter_next(&mut self) -> Option<Result<(), MissingData>> {
        match &mut self.blocks {
            Blocks::Indexed { index, position } => {
                let place = index.place(*position)?;
                *position += 1;
                Some(self.table.read_data_block(&place).map_err(|problem| unread(&place, problem)).map(|block| {
                    let last_key = Some(Bytes::copy_from_slice(place.last_key));
                    self.open = Some(OpenBlock { handle: place.handle, cursor: BlockCursor::new(block), last_key });
                }))
            }
            Blocks::Scanned(scan) => {
                let lower = scan.last_key().map(Bytes::copy_from_slice);
                let Scanned { start, skipped, problem, block } = scan.next()?;
                let upper = block.as_ref().and_then(|(block, _)| block.first_key().ok()).map(Bytes::copy_from_slice);
                self.open =
                    block.map(|(block, handle)| OpenBlock { handle, cursor: BlockCursor::new(block), last_key: None });
                if skipped == 0 {
                    return Some(Ok(()));
                }
                Some(Err(self.unfound((start, skipped), lower, upper, problem)))
            }
        }
    }

    /// Bytes in which no block was found, between the keys before and behind them.
    fn unfound(
        &self,
        (offset, bytes): (u64, u64),
        before: Option<Bytes>,
        behind: Option<Bytes>,
        problem: Option<TableError>,
    ) -> MissingData {
        let properties = self.table.properties();
        let end = |key: Option<&[u8]>| key.map_or(Bound::Unbounded, |key| Bound::Included(Bytes::copy_from_slice(key)));
        let none = || {
            let at = self.table.file.location(TablePart::Data, offset);
            TableError::corrupt(at, "a data block, found by its checksum", format_args!("none in {bytes} bytes"))
        };
        MissingData {
            offset,
            bytes,
            blocks: None,
            lower: before.map_or_else(|| end(properties.smallest_key()), Bound::Excluded),
            upper: behind.map_or_else(|| end(properties.largest_key()), Bound::Excluded),
            problem: problem.unwrap_or_else(none),
        }
    }
}

/// The block that the index has there.
fn unread(place: &DataBlockPlace<'_>, problem: TableError) -> MissingData {
    let lower = Bytes::copy_from_slice(place.lower);
    MissingData {
        offset: place.handle.offset,
        bytes: place.handle.bytes(),
        blocks: Some(1),
        lower: if place.handle.offset == 0 { Bound::Included(lower) } else { Bound::Excluded(lower) },
        upper: Bound::Included(Bytes::copy_from_slice(place.last_key)),
        problem,
    }
}

impl Iterator for Salvage<'_> {
    type Item = Result<Entry, Box<MissingData>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(mut open) = self.open.take() {
                match open.step() {
                    Ok(Some(entry)) => {
                        self.open = Some(open);
                        return Some(Ok(entry));
                    }
                    Ok(None) => self.blocks_read += 1,
                    Err(problem) => return Some(Err(Box::new(open.rest(problem)))),
                }
            }
            if let Err(missing) = self.enter_next()? {
                return Some(Err(Box::new(missing)));
            }
        }
    }
}

impl FusedIterator for Salvage<'_> {}
