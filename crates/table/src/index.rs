//! The index in memory: the last key and the handle of each data block.
//!
//! All keys are in one vector, so that an index of a million blocks takes a few allocations. Lookups search the heads
//! of the keys, and compare whole keys only where heads are equal. A binary search over whole keys takes two dependent
//! loads per step, of a bound and a key, most of them cache misses.

use sstfilter::internal::key_head::KeyHeads;

use super::block::{Block, BlockCursor};
use super::error::shown;
use super::format::BlockHandle;
use super::{TableError, TableProperties};

/// A decoded index, consistent in itself and with the properties.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableIndex {
    /// The smallest key of the table, then the last key of each block.
    keys: Vec<u8>,
    /// End of each key in `keys`, after a first 0.
    bounds: Vec<usize>,
    handles: Vec<BlockHandle>,
    /// Heads of the last keys.
    heads: KeyHeads,
}

/// The position of a data block in the file and among the keys.
#[derive(Debug)]
pub(crate) struct DataBlockHandle<'a> {
    pub(crate) handle: BlockHandle,
    /// The last key of the previous block; for the first block, its own first key.
    pub(crate) lower: &'a [u8],
    pub(crate) last_key: &'a [u8],
}

impl DataBlockHandle<'_> {
    /// Whether `first` may be the block's first key.
    pub(crate) fn admits_first(&self, first: &[u8]) -> bool {
        // The first block begins with the table's smallest key, every other one after the previous block's last key.
        let is_after = if self.handle.offset == 0 { first == self.lower } else { first > self.lower };
        is_after && first <= self.last_key
    }
}

impl TableIndex {
    /// Decodes an index block. Its data blocks must be contiguous from the file's first byte, match the number and
    /// bytes in the properties, and end with the largest key.
    pub(crate) fn decode(block: &Block, properties: &TableProperties) -> Result<Self, TableError> {
        let smallest = properties.filters.key_bounds().map_or(&[][..], |(smallest, _)| smallest);
        let (keys, bounds) = (smallest.to_vec(), vec![0, smallest.len()]);
        let mut index = Self { keys, bounds, handles: Vec::new(), heads: KeyHeads::default() };
        let mut end = 0;
        let mut cursor = BlockCursor::new(block);
        while cursor.advance()? {
            // Contiguous from the first byte on, so that every byte of the data belongs to exactly one block.
            let handle = cursor.value().and_then(BlockHandle::decode);
            let next = handle.filter(|handle| handle.offset == end).and_then(|handle| Some((handle, handle.end()?)));
            // Each block contains its last key, so that the keys in memory can never exceed the file. A forged index
            // could otherwise expand shared prefixes.
            let key_bytes = cursor.key().len() as u64;
            let next = next.filter(|(block, next)| key_bytes <= block.contents_bytes && *next <= properties.data_bytes);
            let Some((handle, next)) = next else {
                return Err(block.corrupt(format!("a data block at offset {end}"), format_args!("{handle:?}")));
            };
            index.keys.extend_from_slice(cursor.key());
            index.bounds.push(index.keys.len());
            index.handles.push(handle);
            end = next;
        }
        index.check(block, properties, end)?;
        // Last, because heads omit the prefix that all keys share.
        let last_keys = (0..index.handles.len()).map(|position| Some(index.last_key(position)));
        index.heads = KeyHeads::new(last_keys);
        Ok(index)
    }

    fn check(&self, block: &Block, properties: &TableProperties, end: u64) -> Result<(), TableError> {
        let (blocks, bytes) = (properties.data_blocks, properties.data_bytes);
        if self.handles.len() as u64 != blocks || end != bytes {
            let got = format!("{} blocks of {end} bytes", self.handles.len());
            return Err(block.corrupt(format!("{blocks} data blocks of {bytes} bytes"), got));
        }
        // Lookups skip tables by the bounds in the properties, so the data must not contain keys beyond them.
        let last = self.handles.len().checked_sub(1).map(|last| self.last_key(last));
        let largest = properties.filters.key_bounds().map(|(_, largest)| largest);
        if last != largest {
            let expected = format!("the largest key {} at the end", shown(largest.unwrap_or_default()));
            return Err(block.corrupt(expected, shown(last.unwrap_or_default())));
        }
        Ok(())
    }

    /// Returns the position of block `position` in the file and among the keys; `None` beyond the last.
    pub(crate) fn entry(&self, position: usize) -> Option<DataBlockHandle<'_>> {
        let handle = *self.handles.get(position)?;
        Some(DataBlockHandle { handle, lower: self.key(position), last_key: self.last_key(position) })
    }

    /// Returns the last key of block `position`.
    pub(crate) fn last_key(&self, position: usize) -> &[u8] {
        self.key(position + 1)
    }

    fn key(&self, number: usize) -> &[u8] {
        let Some(&[start, end]) = self.bounds.get(number..).and_then(|bounds| bounds.first_chunk()) else { return &[] };
        self.keys.get(start..end).unwrap_or_default()
    }

    /// Returns the number of the only block that can contain `key`; beyond the last block if the key is above it.
    pub(crate) fn position_of(&self, key: &[u8]) -> usize {
        self.heads.partition_point(key, |position| self.last_key(position) < key)
    }

    /// Returns the handle of block `position`.
    #[inline]
    pub(crate) fn handle(&self, position: usize) -> Option<BlockHandle> {
        self.handles.get(position).copied()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::block::BlockBuilder;
    use crate::properties::metadata_between;
    use crate::{TableLocation, TablePart};

    /// Last key, offset, bytes of contents.
    type Named = (&'static [u8], u64, u64);

    fn properties(data_blocks: u64, data_bytes: u64, largest_key: &[u8]) -> TableProperties {
        TableProperties {
            entries: 10,
            tombstones: 0,
            raw_key_bytes: 0,
            raw_value_bytes: 0,
            data_blocks,
            data_bytes,
            block_bytes: 4096,
            restart_interval: 16,
            level: None,
            filter_policy: None,
            range_filter_missing: None,
            filters: metadata_between(b"", largest_key).into(),
        }
    }

    fn decode(entries: &[Named], properties: &TableProperties) -> Result<TableIndex, TableError> {
        let mut block = BlockBuilder::new(2);
        for &(key, offset, contents_bytes) in entries {
            block.add(key, Some(&BlockHandle { offset, contents_bytes, checksum: 7 }.encode()));
        }
        let contents = Bytes::from(block.seal().clone());
        TableIndex::decode(
            &Block::open(contents, TableLocation { path: None, part: TablePart::Index, offset: 0 })?,
            properties,
        )
    }

    #[test]
    fn a_key_belongs_to_the_first_block_that_does_not_end_before_it() {
        let index = decode(&[(b"c", 0, 96), (b"f", 100, 96), (b"k", 200, 96)], &properties(3, 300, b"k")).unwrap();
        for (key, position) in [("", 0), ("a", 0), ("c", 0), ("c\0", 1), ("f", 1), ("g", 2), ("k", 2), ("l", 3)] {
            assert_eq!(index.position_of(key.as_bytes()), position, "{key}");
        }
        let entry = index.entry(2).unwrap();
        assert_eq!(entry.handle, BlockHandle { offset: 200, contents_bytes: 96, checksum: 7 });
        assert_eq!((entry.lower, entry.last_key), (&b"f"[..], &b"k"[..]));
        assert!(index.entry(3).is_none());
    }

    #[test]
    fn keys_are_placed_by_their_whole_length_where_their_beginnings_are_equal() {
        let keys: Vec<Vec<u8>> = (0..3_u8)
            .flat_map(|first| (0..4).map(move |zeros| [&[b'p', first][..], &vec![0; zeros * 4]].concat()))
            .collect();
        assert!(keys.is_sorted());
        let mut block = BlockBuilder::new(3);
        for (position, key) in (0..).zip(&keys) {
            let handle = BlockHandle { offset: position * 100, contents_bytes: 96, checksum: 7 };
            block.add(key, Some(&handle.encode()));
        }
        let contents = Bytes::from(block.seal().clone());
        let properties = properties(12, 1_200, keys.last().unwrap());
        let block = Block::open(contents, TableLocation { path: None, part: TablePart::Index, offset: 0 }).unwrap();
        let index = TableIndex::decode(&block, &properties).unwrap();
        let near = keys
            .iter()
            .flat_map(|key| [&key[..], &key[..key.len() - 1], &[key, &b"\0"[..]].concat()].map(<[u8]>::to_vec));
        for key in near.chain([&b""[..], b"o", b"q", b"pp"].map(<[u8]>::to_vec)) {
            assert_eq!(index.position_of(&key), keys.partition_point(|last| *last < key), "{key:?}");
        }
    }

    #[test]
    fn an_index_that_disagrees_with_the_properties_or_itself_is_refused() {
        let sound = properties(2, 200, b"f");
        decode(&[(b"c", 0, 96), (b"f", 100, 96)], &sound).unwrap();
        let refused: [(&str, &[Named]); 7] = [
            ("a gap", &[(b"c", 0, 90), (b"f", 100, 96)]),
            ("an overlap", &[(b"c", 0, 97), (b"f", 100, 96)]),
            ("a block too few", &[(b"f", 0, 196)]),
            ("another last key", &[(b"c", 0, 96), (b"e", 100, 96)]),
            ("a block beyond the data", &[(b"c", 0, 96), (b"f", 100, 97)]),
            ("a block beyond everything", &[(b"c", 0, u64::MAX), (b"f", 100, 96)]),
            ("a key longer than its block", &[(b"cccccccccc", 0, 9), (b"f", 13, 183)]),
        ];
        for (what, entries) in refused {
            assert!(matches!(decode(entries, &sound), Err(TableError::Corrupt { .. })), "{what}");
        }
    }
}
