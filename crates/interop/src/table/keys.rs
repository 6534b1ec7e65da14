//! Lists the user keys of a table's data blocks.

use sstfilter::RandomAccess;

use super::ForeignTable;
use super::file::{StoredBlock, TableFile};
use super::layout::{DataLocation, IndexLocation};
use super::partitions::{INTERNAL_SUFFIX_BYTES, in_file_order};
use crate::compression;
use crate::error::{Error, Part};
use crate::format::handle::BlockHandle;
use crate::format::properties::KeyBudget;
use crate::format::row_block::{RowBlock, Steps, Value, Values};

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
        Error::Malformed { part: self.part, offset: self.offset, problem: problem.into() }
    }

    fn next_value(&mut self) -> Option<Result<Value<'_>, Error>> {
        let (part, offset) = (self.part, self.offset);
        let malformed = |problem| Error::Malformed { part, offset, problem };
        let parsed = match part {
            Part::Data => RowBlock::parse_data(&self.contents),
            _ => RowBlock::parse(&self.contents),
        };
        let value = match parsed.map_err(malformed) {
            Ok(block) => self.steps.next(&block)?.map_err(malformed),
            Err(error) => Err(error),
        };
        // Unsupported, not malformed: an engine could have written such a block.
        let spent = self.budget.spend(self.steps.key().len());
        let spent =
            spent.map_err(|_| Error::Unsupported { part, what: "a block of keys that share too many bytes".into() });
        Some(value.and_then(|value| spent.map(|()| value)))
    }

    fn next_handle(&mut self) -> Option<Result<BlockHandle, Error>> {
        let handle = match self.next_value()? {
            Ok(value) => value.handle(),
            Err(error) => return Some(Err(error)),
        };
        Some(handle.ok_or_else(|| self.malformed("expected a block handle")))
    }

    /// Returns the next key without its last `suffix_bytes`.
    fn next_user_key(&mut self, suffix_bytes: usize, max_type: u8) -> Option<Result<&[u8], Error>> {
        if let Err(error) = self.next_value()? {
            return Some(Err(error));
        }
        let key = self.steps.key();
        if let Err(error) = check_type(key, max_type, self.part) {
            return Some(Err(error));
        }
        let end = key.len().checked_sub(suffix_bytes);
        Some(
            end.and_then(|end| key.get(..end))
                .ok_or_else(|| self.malformed(format!("expected keys of {suffix_bytes} bytes or more"))),
        )
    }
}

/// An iterator over the blocks of an index. Blocks of each level must ascend in the file, so that even a forged index
/// makes no block be read twice.
#[derive(Debug)]
pub(crate) struct IndexWalk {
    place: IndexLocation,
    state: WalkState,
    top: Option<OpenBlock>,
    last_top: Option<BlockHandle>,
    below: Option<OpenBlock>,
    last_data: Option<BlockHandle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkState {
    Unopened,
    Open,
    Ended,
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
        Self { place, state: WalkState::Unopened, top: None, last_top: None, below: None, last_data: None }
    }

    /// Returns the next block, or the error of an index block that cannot be read. The walk then continues behind it if
    /// possible.
    pub(crate) fn next<R: RandomAccess>(&mut self, file: &TableFile<R>) -> Option<Result<Met, (BlockHandle, Error)>> {
        match self.state {
            WalkState::Ended => None,
            WalkState::Unopened => {
                self.state = WalkState::Open;
                let handle = self.place.handle;
                self.top = match self.open(file, handle) {
                    Ok(block) => Some(block),
                    Err(error) => return Some(self.end_with(handle, error)),
                };
                Some(Ok(Met::Index(handle)))
            }
            WalkState::Open if self.place.two_levels => self.next_of_two_levels(file),
            WalkState::Open => {
                let handle = self.top.as_mut()?.next_handle()?;
                Some(self.data(handle))
            }
        }
    }

    fn next_of_two_levels<R: RandomAccess>(
        &mut self,
        file: &TableFile<R>,
    ) -> Option<Result<Met, (BlockHandle, Error)>> {
        if let Some(handle) = self.below.as_mut().and_then(OpenBlock::next_handle) {
            return Some(self.data(handle));
        }
        self.below = None;
        let top = self.top.as_mut()?;
        let handle = match top.next_handle()? {
            Ok(handle) => handle,
            Err(error) => return Some(self.end_with(self.place.handle, error)),
        };
        // The end, not a skip: behind an index block out of order, the order of the rest means nothing.
        if let Err(problem) = in_file_order(self.last_top, handle) {
            let error = top.malformed(problem);
            return Some(self.end_with(handle, error));
        }
        self.last_top = Some(handle);
        match self.open(file, handle) {
            Ok(block) => {
                self.below = Some(block);
                Some(Ok(Met::Index(handle)))
            }
            Err(error) => Some(Err((handle, error))),
        }
    }

    fn open<R: RandomAccess>(&self, file: &TableFile<R>, handle: BlockHandle) -> Result<OpenBlock, Error> {
        let contents = file.decompressed(handle, Part::Index)?;
        // Parsed here once for its errors; `next_value` parses the frame again, which takes constant time.
        let block = OpenBlock::new(contents, self.place.values, Part::Index, handle.offset);
        RowBlock::parse(&block.contents).map_err(|problem| block.malformed(problem))?;
        Ok(block)
    }

    fn data(&mut self, handle: Result<BlockHandle, Error>) -> Result<Met, (BlockHandle, Error)> {
        let handle = match handle {
            Ok(handle) => handle,
            Err(error) => return self.leave_block(self.place.handle, error),
        };
        if let Err(problem) = in_file_order(self.last_data, handle) {
            let error = Error::Malformed { part: Part::Index, offset: self.place.handle.offset, problem };
            return self.leave_block(handle, error);
        }
        self.last_data = Some(handle);
        Ok(Met::Data(handle))
    }

    /// Ends the current index block. In an index of two levels, the next block may be sound.
    fn leave_block(&mut self, handle: BlockHandle, error: Error) -> Result<Met, (BlockHandle, Error)> {
        if self.below.take().is_some() {
            return Err((handle, error));
        }
        self.end_with(handle, error)
    }

    fn end_with(&mut self, handle: BlockHandle, error: Error) -> Result<Met, (BlockHandle, Error)> {
        self.state = WalkState::Ended;
        Err((handle, error))
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
        self.block.next_user_key(self.suffix_bytes, self.max_type)
    }
}

/// Refuses keys that do not end in a sequence number and one of the types up to `max_type`.
pub(crate) fn check_type(key: &[u8], max_type: u8, part: Part) -> Result<(), Error> {
    match key.last_chunk::<INTERNAL_SUFFIX_BYTES>() {
        Some(&[kind, ..]) if kind > max_type => {
            Err(Error::Unsupported { part, what: "a key without sequence number and type".into() })
        }
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
        let what = "compression with a dictionary".into();
        return Err(Error::Unsupported { part: Part::CompressionDictionary, what });
    }
    block.decompressed(file.numbering)
}

/// An iterator over the user keys of a table, from [`ForeignTable::user_keys`].
#[derive(Debug)]
pub struct UserKeys<'a, R> {
    table: &'a ForeignTable<R>,
    /// `None` after the end or an error.
    walk: Option<(IndexWalk, &'a DataLocation)>,
    block: Option<BlockKeys>,
    last: Option<Vec<u8>>,
    failed: Option<Error>,
}

impl<R: RandomAccess> ForeignTable<R> {
    /// Returns the user keys without timestamps, each once, in the table's order, including keys of deletions and
    /// merges. The iterator ends after an error.
    ///
    /// Reads data blocks one by one. They may be compressed by Snappy, zlib, LZ4 or Zstandard if the feature of that
    /// name is on. Blocks that were compressed with a dictionary cannot be read, except by Snappy, which uses none.
    pub fn user_keys(&self) -> UserKeys<'_, R> {
        let place = self.layout.data.as_ref().map_err(Clone::clone);
        let (walk, failed) = match place {
            Ok(place) => (Some((IndexWalk::new(place.index), place)), None),
            Err(error) => (None, Some(error)),
        };
        UserKeys { table: self, walk, block: None, last: None, failed }
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
            let Some((walk, place)) = &mut self.walk else { return Ok(None) };
            match walk.next(&self.table.file) {
                None => return Ok(None),
                // The end, unlike in `verify`: a list with gaps would look complete.
                Some(Err((_, error))) => return Err(error),
                Some(Ok(Met::Index(_))) => {}
                Some(Ok(Met::Data(handle))) => {
                    let file = &self.table.file;
                    let block = file.stored(handle, Part::Data)?.checked(file.checksums)?;
                    let contents = contents_of(block, file, place)?;
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
        let problem = format!("expected keys in order, got \"{}\"", key.escape_ascii());
        Err(Error::Malformed { part: Part::Data, offset: 0, problem })
    }
}

impl<R: RandomAccess> Iterator for UserKeys<'_, R> {
    type Item = Result<Vec<u8>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let key = self.step().transpose();
        if !matches!(key, Some(Ok(_))) {
            (self.walk, self.block) = (None, None);
        }
        key
    }
}
