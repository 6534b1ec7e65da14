//! A data block with the heads of its keys.
//!
//! For an absent key, the heads nearly always decide, and the search does not touch the block itself, which is mostly
//! values. Heads and offsets cost 12 bytes per entry.

use core::cmp::Ordering;

use sstfilter::internal::key_head::{common_prefix, head, lower_bound};
use sstfilter::internal::prefetch;

use super::TableError;
use super::block::{Block, BlockCursor, Lookup};

/// Up to this number of entries with equal heads are searched linearly. For more, the search uses the block's restart
/// points.
const WALKED: usize = 16;

/// A block whose entries were all read and are in order. Every search reads the first two fields, and the others only
/// if heads are equal.
#[derive(Debug)]
#[repr(C)]
pub(super) struct HeadedBlock {
    /// The head of each entry's key.
    heads: Box<[u64]>,
    /// Length of the prefix that all keys share and heads omit.
    shared_bytes: usize,
    /// Offset of each entry.
    offsets: Box<[u32]>,
    block: Block,
}

impl HeadedBlock {
    /// Walks `block`, whose keys should be from `lower` to `last`. `None` if the walk fails, a key is below `lower`, or
    /// the last key is not `last`. Such a block is not cached, and each read of it reports the damage.
    pub(super) fn new(block: &Block, lower: &[u8], last: &[u8]) -> Option<Self> {
        let shared_bytes = common_prefix(lower, last);
        let (mut heads, mut offsets) = (Vec::new(), Vec::new());
        let mut cursor = BlockCursor::new(block);
        let mut offset = cursor.next;
        while cursor.advance().ok()? {
            if heads.is_empty() && cursor.key() < lower {
                return None;
            }
            // `lower` and the last key bound all keys, so all of them have the shared prefix.
            heads.push(head(cursor.key().get(shared_bytes..)?));
            offsets.push(u32::try_from(offset).ok()?);
            offset = cursor.next;
        }
        let (heads, offsets) = (heads.into(), offsets.into());
        (cursor.key() == last).then(|| Self { heads, shared_bytes, offsets, block: block.clone() })
    }

    /// Returns the bytes in memory, of the block, the heads and the offsets.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.block.memory_bytes() + self.heads.len() as u64 * 12
    }

    /// Prefetches the heads of a usual block: 64 of them in 8 cache lines.
    pub(super) fn prefetch(&self) {
        self.heads.iter().step_by(8).take(8).for_each(|head| prefetch(head));
    }

    /// Looks up `target`, which must not be below the block's lower bound or above its last key, and so has the shared
    /// prefix.
    pub(super) fn get(&self, target: &[u8]) -> Result<Lookup, TableError> {
        let head = head(target.get(self.shared_bytes..).unwrap_or_default());
        let first = lower_bound(&self.heads, head);
        if self.heads.get(first) == Some(&head) { self.get_among_equals(target, first) } else { Ok(Lookup::Absent) }
    }

    /// Compares `target` with the keys that have its head, beginning at `first`.
    #[inline(never)]
    fn get_among_equals(&self, target: &[u8], first: usize) -> Result<Lookup, TableError> {
        let heads = self.heads.get(first..).unwrap_or_default();
        let equal = heads.partition_point(|head| heads.first() == Some(head));
        if equal > WALKED {
            return Ok(self.block.get(target)?.unwrap_or(Lookup::Absent));
        }
        // Number of bytes that the last key passed shares with the target. The first key compared shares no more with
        // its predecessor than the target does, because their heads differ.
        let mut agreed = target.len();
        for &offset in self.offsets.get(first..first + equal).unwrap_or_default() {
            let entry = self.block.entry_at(offset as usize)?;
            // The entry shares more with its predecessor than the target does, so it is on the same side of the target.
            if entry.shared > agreed {
                continue;
            }
            let rest = target.get(entry.shared..).unwrap_or_default();
            match entry.suffix.cmp(rest) {
                Ordering::Less => agreed = entry.shared + common_prefix(entry.suffix, rest),
                Ordering::Equal => {
                    return Ok(entry.value.map_or(Lookup::Deleted, |value| Lookup::Found(self.block.share(value))));
                }
                Ordering::Greater => break,
            }
        }
        Ok(Lookup::Absent)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::block::BlockBuilder;
    use crate::{TableLocation, TablePart};

    fn block_of(keys: &[Vec<u8>], interval: u32) -> Block {
        let mut builder = BlockBuilder::new(interval);
        for (position, key) in keys.iter().enumerate() {
            builder.add(key, (position % 5 != 4).then_some(key));
        }
        let contents = Bytes::from(builder.seal().clone());
        Block::open(contents, TableLocation { path: None, part: TablePart::Data, offset: 0 }).unwrap()
    }

    /// Searches the block itself.
    fn sought(block: &Block, target: &[u8]) -> Lookup {
        block.get(target).unwrap().unwrap_or(Lookup::Absent)
    }

    /// Keys of a few different bytes, including zeros, after a prefix: many are prefixes of others, and many have equal
    /// heads.
    fn crowded(prefix: &[u8], max_bytes: u32, alphabet: &[u8]) -> Vec<Vec<u8>> {
        let mut keys = vec![prefix.to_vec()];
        let mut longest = keys.clone();
        for _ in 0..max_bytes {
            let longer = |key: &Vec<u8>| alphabet.iter().map(|&byte| [key, &[byte][..]].concat()).collect::<Vec<_>>();
            longest = longest.iter().flat_map(longer).collect();
            keys.extend(longest.iter().cloned());
        }
        keys.sort();
        keys
    }

    fn assert_same(all: &[Vec<u8>], step: usize) {
        let keys: Vec<_> = all.iter().step_by(step).cloned().collect();
        let (first, last) = (keys.first().unwrap(), keys.last().unwrap());
        for interval in [1, 3, 16, 1_000] {
            let block = block_of(&keys, interval);
            let headed = HeadedBlock::new(&block, first, last).unwrap();
            for target in all.iter().filter(|target| *target >= first && *target <= last) {
                assert_eq!(headed.get(target).unwrap(), sought(&block, target), "{target:?}, interval {interval}");
            }
        }
    }

    #[test]
    fn a_headed_block_answers_every_key_in_its_bounds_like_a_block_just_read() {
        for step in [1, 2, 3, 7] {
            assert_same(&crowded(b"", 7, &[0, 1]), step);
            assert_same(&crowded(b"", 4, &[0, 1, 0x80, 0xff]), step);
            assert_same(&crowded(b"prefix", 10, &[0, 0xff]), step);
            assert_same(&crowded(b"\0\0\0\0\0\0\0\0\0", 9, &[0, 7]), step);
        }
    }

    #[test]
    fn long_runs_of_equal_heads_are_entered_at_a_restart_point() {
        // The first and the last key share nothing, so all heads between them are equal.
        let mut keys = vec![b"a".to_vec()];
        keys.extend((0..500).map(|head| format!("middle of nowhere {head:05}").into_bytes()));
        keys.push(b"z".to_vec());
        assert_same(&keys, 1);
        assert_same(&keys, 3);
    }

    #[test]
    fn a_block_that_is_not_what_the_index_says_gets_no_heads() {
        let keys = crowded(b"key", 3, b"ab");
        let block = block_of(&keys, 2);
        let (first, last) = (keys.first().unwrap(), keys.last().unwrap());
        assert!(HeadedBlock::new(&block, first, last).is_some());
        assert!(HeadedBlock::new(&block, b"keya", last).is_none(), "a first key below the bound");
        assert!(HeadedBlock::new(&block, first, b"keyz").is_none(), "another last key");
        // Two restart intervals out of order, which no search detects.
        let contents = b"\0\x01\0c\0\x01\0b\0\x01\0d\0\0\0\0\x04\0\0\0\x08\0\0\0\x03\0\0\0";
        let disordered =
            Block::open(Bytes::from_static(contents), TableLocation { path: None, part: TablePart::Data, offset: 0 })
                .unwrap();
        assert!(disordered.get(b"d").unwrap().is_some());
        assert!(HeadedBlock::new(&disordered, b"a", b"d").is_none());
    }
}
