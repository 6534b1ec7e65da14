//! Where a block is in its file.

use super::cursor::Cursor;

/// A block ends in its compression type, one byte, and its checksum, four.
pub(crate) const TRAILER_BYTES: u64 = 5;

/// The place of a block in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockHandle {
    /// Where its first byte is.
    pub offset: u64,
    /// Bytes it is stored in, without the five of its trailer.
    pub size: u64,
}

impl BlockHandle {
    /// Two varints.
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self { offset: cursor.varint64()?, size: cursor.varint64()? })
    }

    /// The block right behind this one, `delta` bytes longer: how RocksDB stores handles of format version 4 and later.
    pub(crate) fn following(self, delta: i64) -> Option<Self> {
        Some(Self { offset: self.end()?, size: self.size.checked_add_signed(delta)? })
    }

    /// Behind its trailer.
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
