//! Lists the user keys of a table's data blocks.

use sstfilter::RandomAccess;

use super::ForeignTable;
use super::file::{StoredBlock, TableFile};
use super::layout::{DataLocation, IndexLocation};
use super::partitions::{INTERNAL_SUFFIX_BYTES, in_file_order, without_suffix};
use crate::compression;
use crate::error::{Error, Part};
use crate::format::handle::BlockHandle;
use crate::format::row_block::{KeyBudget, RowBlock, Steps, Value, Values};

/// A block in memory, and a position in it.
#[derive(Debug)]
struct OpenBlock {
    contents: Vec<u8>,
    steps: Steps,
    /// Bounds the time of a walk, which copies, compares and hashes each key in full.
    budget: KeyBudget,
    part: Part,
    offset: u64,
}

impl OpenBlock {
    fn new(contents: Vec<u8>, values: Values, part: Part, offset: u64) -> Self {
        let budget = KeyBudget::of_block(contents.len());
        Self { contents, steps: Steps::new(values), budget, part, offset }
    }

    fn malformed(&self, problem: impl Into<String>) -> Error {
        Error::malformed(self.part, self.offset, problem)
    }

    fn next_value(&mut self) -> Option<Result<Value<'_>, Error>> {
        let (part, offset) = (self.part, self.offset);
        let malformed = |problem| Error::malformed(part, offset, problem);
        let parsed = match part {
            Part::Data => RowBlock::parse_data(&self.contents),
            _ => RowBlock::parse(&self.contents),
        };
        let value = match parsed {
            Ok(block) => self.steps.next(&block)?.map_err(malformed),
            Err(problem) => Err(malformed(problem)),
        };
        // Unsupported, not malformed: an engine could have written such a block.
        let spent = self.budget.spend(self.steps.key().len());
        let spent = spent.map_err(|_| Error::unsupported(part, "a block of keys that share too many bytes"));
        Some(value.and_then(|value| spent.map(|()| value)))
    }

    fn next_handle(&mut self) -> Option<Result<BlockHandle, Error>> {
        let handle = self.next_value()?.map(Value::handle);
        Some(handle.and_then(|handle| handle.ok_or_else(|| self.malformed("expected a block handle"))))
    }
}

/// An iterator over the blocks of an index. Blocks of each level must ascend in the file, so that even a forged index
/// makes no block be read twice.
#[derive(Debug)]
pub(crate) struct IndexWalk {
    place: IndexLocation,
    is_opened: bool,
    /// The index block of each level that is being read. Empty at the end.
    levels: Vec<OpenBlock>,
    last_index: Option<BlockHandle>,
    last_data: Option<BlockHandle>,
}

/// A block found by an [`IndexWalk`].
pub(crate) enum Met {
    /// An index block, already opened: the index itself, or a part of it.
    Index(BlockHandle),
    /// A data block, not read yet.
    Data(BlockHandle),
}

impl IndexWalk {
    pub(crate) const fn new(place: IndexLocation) -> Self {
        Self { place, is_opened: false, levels: Vec::new(), last_index: None, last_data: None }
    }

    /// Returns the next block, or the error of an index block that cannot be read. The walk then continues behind it if
    /// possible.
    pub(crate) fn next<R: RandomAccess>(&mut self, file: &TableFile<R>) -> Option<Result<Met, (BlockHandle, Error)>> {
        if !self.is_opened {
            self.is_opened = true;
            return Some(self.open(file, self.place.handle));
        }
        let handle = loop {
            match self.levels.last_mut()?.next_handle() {
                Some(handle) => break handle,
                None => drop(self.levels.pop()),
            }
        };
        let is_data = self.levels.len() > usize::from(self.place.two_levels);
        let next = handle.map_err(|error| (self.place.handle, error)).and_then(|handle| {
            let last = if is_data { &mut self.last_data } else { &mut self.last_index };
            let malformed = |problem| (handle, Error::malformed(Part::Index, self.place.handle.offset, problem));
            in_file_order(*last, handle).map_err(malformed)?;
            *last = Some(handle);
            Ok(handle)
        });
        match next {
            Ok(handle) if is_data => Some(Ok(Met::Data(handle))),
            Ok(handle) => Some(self.open(file, handle)),
            Err(error) => {
                // In an index of two levels, the next block may be sound. An error of the first level ends the walk:
                // behind an index block out of order, the order of the rest means nothing.
                self.levels.pop();
                Some(Err(error))
            }
        }
    }

    fn open<R: RandomAccess>(&mut self, file: &TableFile<R>, handle: BlockHandle) -> Result<Met, (BlockHandle, Error)> {
        let opened = file.decompressed(handle, Part::Index).and_then(|contents| {
            // Parsed here once for its errors; `next_value` parses the frame again, which takes constant time.
            let block = OpenBlock::new(contents, self.place.values, Part::Index, handle.offset);
            RowBlock::parse(&block.contents).map_err(|problem| block.malformed(problem))?;
            Ok(block)
        });
        self.levels.push(opened.map_err(|error| (handle, error))?);
        Ok(Met::Index(handle))
    }
}

/// An iterator over the keys of one data block.
#[derive(Debug)]
pub(crate) struct BlockKeys {
    block: OpenBlock,
    suffix_bytes: usize,
    max_type: u8,
}

impl BlockKeys {
    /// Starts at the first key of a data block's decompressed contents.
    pub(crate) fn new(contents: Vec<u8>, place: &DataLocation, offset: u64) -> Self {
        let block = OpenBlock::new(contents, Values::Sized, Part::Data, offset);
        Self { block, suffix_bytes: place.suffix_bytes, max_type: place.max_type }
    }

    pub(crate) fn next(&mut self) -> Option<Result<&[u8], Error>> {
        let value = self.block.next_value()?.map(drop);
        Some(value.and_then(|()| self.user_key()))
    }

    fn user_key(&self) -> Result<&[u8], Error> {
        let key = self.block.steps.key();
        check_type(key, self.max_type, Part::Data)?;
        without_suffix(key, self.suffix_bytes).map_err(|problem| self.block.malformed(problem))
    }
}

/// Refuses keys that do not end in a sequence number and one of the types up to `max_type`.
pub(crate) fn check_type(key: &[u8], max_type: u8, part: Part) -> Result<(), Error> {
    match key.last_chunk::<INTERNAL_SUFFIX_BYTES>() {
        Some(&[kind, ..]) if kind > max_type => Err(Error::unsupported(part, "a key without sequence number and type")),
        _ => Ok(()),
    }
}

/// Returns the contents of a data block whose checksum holds. Refuses a block that was compressed with a dictionary:
/// without it, it fails to decompress, or decompresses to other bytes. A table with a dictionary may have other blocks
/// as well, because a writer stores a block as it is if compression does not help.
pub(crate) fn contents_of<R: RandomAccess>(
    block: StoredBlock,
    file: &TableFile<R>,
    place: &DataLocation,
) -> Result<Vec<u8>, Error> {
    if place.has_dictionary && compression::uses_dictionary(block.compression()) {
        return Err(Error::unsupported(Part::CompressionDictionary, "compression with a dictionary"));
    }
    block.decompressed(file.numbering)
}

/// An iterator over the user keys of a table, from [`ForeignTable::user_keys`].
#[derive(Debug)]
pub struct UserKeys<'a, R> {
    table: &'a ForeignTable<R>,
    /// `None` after the end or an error.
    walk: Option<Result<(IndexWalk, &'a DataLocation), Error>>,
    block: Option<BlockKeys>,
    last: Option<Vec<u8>>,
}

impl<R: RandomAccess> ForeignTable<R> {
    /// Returns the user keys without timestamps, each once, in the table's order, including keys of deletions and
    /// merges. The iterator ends after an error.
    ///
    /// Reads data blocks one by one. They may be compressed by Snappy, zlib, LZ4 or Zstandard if the feature of that
    /// name is on. Blocks that were compressed with a dictionary cannot be read, except by Snappy, which uses none.
    pub fn user_keys(&self) -> UserKeys<'_, R> {
        let walk = self.layout.data.as_ref().map(|place| (IndexWalk::new(place.index), place)).map_err(Clone::clone);
        UserKeys { table: self, walk: Some(walk), block: None, last: None }
    }
}

impl<R: RandomAccess> UserKeys<'_, R> {
    fn step(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(block) = &mut self.block {
                if let Some(key) = block.next() {
                    let key = key?;
                    // Versions of a key are adjacent.
                    if self.last.as_deref() == Some(key) {
                        continue;
                    }
                    let key = key.to_vec();
                    self.check_order(&key)?;
                    self.last = Some(key.clone());
                    return Ok(Some(key));
                }
                self.block = None;
            }
            let Some(walk) = &mut self.walk else { return Ok(None) };
            let (walk, place) = walk.as_mut().map_err(|error| error.clone())?;
            let file = &self.table.file;
            match walk.next(file) {
                None => return Ok(None),
                // The end, unlike in `verify`: a list with gaps would look complete.
                Some(Err((_, error))) => return Err(error),
                Some(Ok(Met::Index(_))) => {}
                Some(Ok(Met::Data(handle))) => {
                    let contents = contents_of(file.checked(handle, Part::Data)?, file, place)?;
                    self.block = Some(BlockKeys::new(contents, place, handle.offset));
                }
            }
        }
    }

    fn check_order(&self, key: &[u8]) -> Result<(), Error> {
        let (Some(last), Ok(rules)) = (&self.last, &self.table.layout.rules) else { return Ok(()) };
        if rules.may_follow(last, key) {
            return Ok(());
        }
        Err(Error::malformed(Part::Data, 0, format!("expected keys in order, got \"{}\"", key.escape_ascii())))
    }
}

impl<R: RandomAccess> Iterator for UserKeys<'_, R> {
    type Item = Result<Vec<u8>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.step().transpose();
        if !matches!(key, Some(Ok(_))) {
            (self.walk, self.block) = (None, None);
        }
        key
    }
}
