//! Handles: offset and length of a block in its file.

use super::cursor::Cursor;

/// The bytes behind each block: its compression type, one byte, and its checksum, four.
pub(crate) const TRAILER_BYTES: u64 = 5;

/// The offset and size of a block in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockHandle {
    /// The offset of the first byte.
    pub offset: u64,
    /// The stored size in bytes, without the trailer of five.
    pub size: u64,
}

impl BlockHandle {
    /// Decodes two varints.
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self { offset: cursor.varint64()?, size: cursor.varint64()? })
    }

    /// Returns the handle of the block right behind this one, `delta` bytes longer. RocksDB stores handles this way
    /// from format version 4 on.
    pub(crate) fn following(self, delta: i64) -> Option<Self> {
        Some(Self { offset: self.end()?, size: self.size.checked_add_signed(delta)? })
    }

    /// Returns the offset behind the trailer, or `None` if it overflows.
    pub(crate) fn end(self) -> Option<u64> {
        self.offset.checked_add(self.size)?.checked_add(TRAILER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::BlockHandle;

    #[test]
    fn the_block_behind_begins_after_the_trailer() {
        let first = BlockHandle { offset: 100, size: 20 };
        assert_eq!(first.following(-5), Some(BlockHandle { offset: 125, size: 15 }));
        assert_eq!(first.following(-21), None);
        assert_eq!(BlockHandle { offset: u64::MAX - 3, size: 0 }.end(), None);
    }
}
