//! Filters in several parts: RocksDB's partitions, and LevelDB's filters of data blocks.

use core::ops::Range;

use sstfilter::RandomAccess;

use crate::error::{Error, Part};
use crate::filter::Filter;
use crate::format::handle::BlockHandle;
use crate::format::row_block::{RowBlock, Values};
use crate::table::file::TableFile;
use crate::table::once::LoadOnce;
use crate::table::rules::{Direction, Order};

/// The end of an internal key in LevelDB and RocksDB: sequence number and type.
pub(crate) const INTERNAL_SUFFIX_BYTES: usize = 8;

/// Returns a key without its last `suffix_bytes`.
pub(crate) fn without_suffix(key: &[u8], suffix_bytes: usize) -> Result<&[u8], String> {
    let user_key = key.len().checked_sub(suffix_bytes).and_then(|end| key.get(..end));
    user_key.ok_or_else(|| format!("expected keys of {suffix_bytes} bytes or more"))
}

/// The encoding of an index's separators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Separators {
    pub(crate) order: Order,
    /// Bytes behind the user key, to cut from each separator.
    pub(crate) suffix_bytes: usize,
    pub(crate) values: Values,
}

/// An index in memory. Each block has a separator: a user key that is not below any key of the block, and not above any
/// key of the next one.
#[derive(Debug)]
pub(crate) struct SeparatedBlocks {
    order: Order,
    user_keys: Vec<Vec<u8>>,
    handles: Vec<BlockHandle>,
}

impl SeparatedBlocks {
    /// Parses an index block's contents. Separators must ascend, and blocks must ascend in the file, so that a forged
    /// index cannot make a block be read twice.
    pub(crate) fn parse(contents: &[u8], separators: Separators) -> Result<Self, String> {
        let mut blocks = Self { order: separators.order, user_keys: Vec::new(), handles: Vec::new() };
        let mut entries = RowBlock::parse(contents)?.entries(separators.values);
        while let Some(entry) = entries.next() {
            let (key, value) = entry?;
            let user_key = without_suffix(key, separators.suffix_bytes)?;
            blocks.push(user_key, value.handle().ok_or("expected a block handle")?)?;
        }
        Ok(blocks)
    }

    fn push(&mut self, user_key: &[u8], handle: BlockHandle) -> Result<(), String> {
        if self.user_keys.last().is_some_and(|last| self.order.compare(last, user_key).is_gt()) {
            return Err(format!("expected keys in order, got \"{}\"", user_key.escape_ascii()));
        }
        in_file_order(self.handles.last().copied(), handle)?;
        self.user_keys.push(user_key.to_vec());
        self.handles.push(handle);
        Ok(())
    }

    pub(crate) fn handles(&self) -> &[BlockHandle] {
        &self.handles
    }

    /// Returns the block that would contain `key`, or `None` if `key` is above all.
    pub(crate) fn block_of(&self, key: &[u8]) -> Option<usize> {
        let found = self.user_keys.partition_point(|separator| self.order.compare(separator, key).is_lt());
        (found < self.user_keys.len()).then_some(found)
    }

    /// Returns the block that would contain `key`, searching from `from` on, for keys that come in order.
    fn block_from(&self, from: usize, key: &[u8]) -> usize {
        let rest = self.user_keys.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|separator| self.order.compare(separator, key).is_lt()).count()
    }

    /// Returns all blocks that may contain keys beginning with `start`.
    fn blocks_of_prefix(&self, start: &[u8]) -> Range<usize> {
        let before = |separator: &[u8]| match self.order.direction {
            Direction::Bytewise => separator < start,
            Direction::ReverseBytewise => separator > start && !separator.starts_with(start),
        };
        // Separators ascend, which `push` has checked, so a binary search finds the first block.
        let first = self.user_keys.partition_point(|separator| before(separator));
        let rest = self.user_keys.get(first..).unwrap_or_default();
        // Behind a separator that begins with `start`, the next block may contain more such keys. The first other
        // separator ends them, and its block still counts.
        let with_more = rest.iter().take_while(|separator| separator.starts_with(start)).count();
        first..(first + with_more + 1).min(self.user_keys.len())
    }
}

/// Checks that `next` lies behind `last` without overlap.
pub(crate) fn in_file_order(last: Option<BlockHandle>, next: BlockHandle) -> Result<(), String> {
    let end = last.map_or(Some(0), BlockHandle::end);
    if end.is_some_and(|end| end <= next.offset) {
        return Ok(());
    }
    Err(format!("expected blocks one behind the other, got offset {} after {last:?}", next.offset))
}

/// RocksDB's partitioned filter: its index, and the partitions that have been read.
#[derive(Debug)]
pub(crate) struct Partitions {
    blocks: SeparatedBlocks,
    filters: Vec<LoadOnce<Filter<Vec<u8>>>>,
}

impl Partitions {
    pub(crate) fn read<R: RandomAccess>(
        file: &TableFile<R>,
        handle: BlockHandle,
        separators: Separators,
    ) -> Result<Self, Error> {
        let contents = file.plain(handle, Part::PartitionIndex)?;
        let malformed = |problem| Error::malformed(Part::PartitionIndex, handle.offset, problem);
        let blocks = SeparatedBlocks::parse(&contents, separators).map_err(malformed)?;
        if blocks.handles.is_empty() {
            // Every key must fall into some partition.
            return Err(malformed("expected a partition or more, got none".into()));
        }
        let filters = blocks.handles.iter().map(|_| LoadOnce::default()).collect();
        Ok(Self { blocks, filters })
    }

    pub(crate) fn handles(&self) -> &[BlockHandle] {
        self.blocks.handles()
    }

    /// Returns the partition of `key`. For a key above all separators, RocksDB takes the last one.
    pub(crate) fn partition_of(&self, key: &[u8]) -> usize {
        self.blocks.block_of(key).unwrap_or(self.last())
    }

    /// Returns the partition of `key`, searching from the partition `from` of the key before.
    pub(crate) fn partition_from(&self, from: usize, key: &[u8]) -> usize {
        self.blocks.block_from(from, key).min(self.last())
    }

    fn last(&self) -> usize {
        self.filters.len().saturating_sub(1)
    }

    /// Returns the partitions that may contain keys beginning with `start`. RocksDB also adds prefixes to adjacent
    /// partitions.
    pub(crate) fn partitions_of_prefix(&self, start: &[u8]) -> Range<usize> {
        let range = self.blocks.blocks_of_prefix(start);
        if range.is_empty() { self.last()..self.filters.len() } else { range }
    }

    /// Returns all partitions in file order, and reads each the first time.
    pub(crate) fn filters<R: RandomAccess>(
        &self,
        file: &TableFile<R>,
    ) -> impl Iterator<Item = Result<&Filter<Vec<u8>>, Error>> {
        (0..self.filters.len()).map(|partition| self.filter(file, partition))
    }

    /// Returns one partition, and reads it the first time.
    pub(crate) fn filter<R: RandomAccess>(
        &self,
        file: &TableFile<R>,
        partition: usize,
    ) -> Result<&Filter<Vec<u8>>, Error> {
        let (Some(filter), Some(&handle)) = (self.filters.get(partition), self.blocks.handles.get(partition)) else {
            return Err(Error::NoFilter);
        };
        filter.get_or_load(|| read_filter(file, handle, Part::Partition))
    }
}

/// Reads a full filter or a partition of RocksDB.
pub(crate) fn read_filter<R: RandomAccess>(
    file: &TableFile<R>,
    handle: BlockHandle,
    part: Part,
) -> Result<Filter<Vec<u8>>, Error> {
    Filter::rocksdb(file.plain(handle, part)?).map_err(|error| error.at(part, handle.offset))
}

#[cfg(test)]
mod tests {
    use super::{BlockHandle, Direction, Order, SeparatedBlocks};

    fn blocks(direction: Direction, separators: &[&str]) -> SeparatedBlocks {
        let order = Order { direction, timestamp_bytes: 0 };
        let mut blocks = SeparatedBlocks { order, user_keys: Vec::new(), handles: Vec::new() };
        for (i, separator) in separators.iter().enumerate() {
            blocks.push(separator.as_bytes(), BlockHandle { offset: 100 * i as u64, size: 95 }).expect("in order");
        }
        blocks
    }

    #[test]
    fn a_key_is_in_the_first_block_whose_separator_is_not_below_it() {
        let blocks = blocks(Direction::Bytewise, &["b", "d", "d", "f"]);
        let found = ["a", "b", "c", "d", "e", "g"].map(|key| blocks.block_of(key.as_bytes()));
        assert_eq!(found, [Some(0), Some(0), Some(1), Some(1), Some(3), None]);
        assert_eq!((blocks.block_from(1, b"d"), blocks.block_from(1, b"z")), (1, 4));
    }

    #[test]
    fn in_reverse_order_separators_descend() {
        let blocks = blocks(Direction::ReverseBytewise, &["f", "d", "b"]);
        let found = ["g", "f", "e", "c", "b", "a"].map(|key| blocks.block_of(key.as_bytes()));
        assert_eq!(found, [Some(0), Some(0), Some(1), Some(2), Some(2), None]);
    }

    #[test]
    fn keys_of_a_prefix_may_be_in_several_blocks() {
        let forward = blocks(Direction::Bytewise, &["aa", "ab", "abc", "b", "c"]);
        assert_eq!(forward.blocks_of_prefix(b"ab"), 1..4);
        assert_eq!(forward.blocks_of_prefix(b"a"), 0..4);
        assert_eq!(forward.blocks_of_prefix(b"bb"), 4..5);
        assert_eq!(forward.blocks_of_prefix(b"d"), 5..5);
        let reverse = blocks(Direction::ReverseBytewise, &["c", "b", "abc", "ab", "aa"]);
        assert_eq!(reverse.blocks_of_prefix(b"ab"), 2..5);
        assert_eq!(reverse.blocks_of_prefix(b"c"), 0..2);
        assert_eq!(reverse.blocks_of_prefix(b"d"), 0..1);
    }

    #[test]
    fn blocks_that_overlap_are_refused() {
        let mut blocks = blocks(Direction::Bytewise, &["a", "b"]);
        assert!(blocks.push(b"c", BlockHandle { offset: 199, size: 1 }).is_err());
        assert!(blocks.push(b"c", BlockHandle { offset: 0, size: 1 }).is_err());
        assert!(blocks.push(b"a", BlockHandle { offset: 200, size: 1 }).is_err());
        assert!(blocks.push(b"c", BlockHandle { offset: 200, size: 1 }).is_ok());
    }
}
