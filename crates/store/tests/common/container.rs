//! A partitioned filter in memory, read through its top index as an engine reads it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use sstfilter::{BlockError, FilterBlock, KeyHash, LoadContext, PreparedPrefix};
use sstfilter_store::{FilterProblem, PartitionCut, PartitionIndex};

pub(crate) const CUTS: [PartitionCut; 2] = [PartitionCut::KeyRange, PartitionCut::HashRange];

pub(crate) struct Container {
    bytes: Vec<u8>,
    pub(crate) index: PartitionIndex,
    /// The partitions that were probed; `None` for one that cannot be used. Opening one reads all of it.
    opened: Mutex<HashMap<u32, Option<FilterBlock<Vec<u8>>>>>,
}

/// The range of each partition's block.
pub(crate) fn ranges(index: &PartitionIndex) -> Vec<Range<usize>> {
    let range = |number| index.block_range(number).unwrap();
    let to_usize = |range: Range<u64>| usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
    (0..index.partitions()).map(|number| to_usize(range(number))).collect()
}

impl Container {
    /// Opens the container that fills `bytes`, and checks its known keys.
    pub(crate) fn load<'a>(bytes: &[u8], context: impl Into<LoadContext<'a>>) -> Result<Self, FilterProblem> {
        let container = Self::open(bytes, context)?;
        container.index.check_known_keys(|number| Ok(container.block(number)))?;
        Ok(container)
    }

    /// Opens the container without reading any partition.
    pub(crate) fn open<'a>(bytes: &[u8], context: impl Into<LoadContext<'a>>) -> Result<Self, FilterProblem> {
        let got = bytes.len() as u64;
        let tail_bytes = PartitionIndex::tail_bytes(bytes)?;
        let start = usize::try_from(tail_bytes).ok().and_then(|tail_bytes| bytes.len().checked_sub(tail_bytes));
        let tail = start.map(|start| &bytes[start..]).ok_or(BlockError::TooShort { expected: tail_bytes, got })?;
        let index = PartitionIndex::load(tail, context)?;
        if index.container_bytes() != got {
            return Err(BlockError::Length { expected: index.container_bytes(), got }.into());
        }
        Ok(Self { bytes: bytes.to_vec(), index, opened: Mutex::default() })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes of a partition's block; empty for one without a filter.
    pub(crate) fn block(&self, number: u32) -> &[u8] {
        let place = self.index.block_range(number).unwrap();
        &self.bytes[usize::try_from(place.start).unwrap()..usize::try_from(place.end).unwrap()]
    }

    /// Returns the range of each partition's block.
    pub(crate) fn ranges(&self) -> Vec<Range<usize>> {
        ranges(&self.index)
    }

    pub(crate) fn partition(&self, number: u32) -> Result<FilterBlock<&[u8]>, FilterProblem> {
        self.index.open(number, self.block(number))
    }

    /// Returns whether the key may be in the file; it may be in any partition that cannot be used.
    pub(crate) fn may_contain(&self, key: &[u8], hash: KeyHash) -> bool {
        self.may_contain_range(self.index.locate(key, hash))
    }

    pub(crate) fn may_contain_prefix(&self, prefix: &PreparedPrefix<'_>) -> bool {
        match self.index.partitions_with_prefix(prefix) {
            Ok(mut places) => places.any(|place| self.may_contain_range(place)),
            Err(_) => true,
        }
    }

    fn may_contain_range(&self, (number, hash): (u32, KeyHash)) -> bool {
        if self.index.block_range(number).map_or(true, |range| range.is_empty()) {
            return true;
        }
        let mut opened = self.opened.lock().unwrap();
        let open = || self.index.open(number, self.block(number).to_vec()).ok();
        let block = opened.entry(number).or_insert_with(open);
        block.as_ref().is_none_or(|block| block.may_contain(hash))
    }

    /// Returns the partitions that cannot be used, with the reasons.
    pub(crate) fn problems(&self) -> Vec<(u32, FilterProblem)> {
        (0..self.index.partitions()).filter_map(|number| Some((number, self.partition(number).err()?))).collect()
    }

    /// Checks all partitions, and the zeros between them.
    pub(crate) fn verify(&self) -> Result<(), FilterProblem> {
        let mut end = 0;
        for number in 0..self.index.partitions() {
            let block = self.index.block_range(number)?;
            let zeros = &self.bytes[end..usize::try_from(block.start).unwrap()];
            if let Some(at) = zeros.iter().position(|&byte| byte != 0) {
                let (field, expected) = ("byte between partitions", "0 at this offset");
                return Err(BlockError::Field { field, expected, got: (end + at) as u64 }.into());
            }
            end = usize::try_from(block.end).unwrap();
            if !block.is_empty() {
                self.partition(number)?;
            }
        }
        Ok(())
    }
}
