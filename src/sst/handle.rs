//! Where a block lies.

use super::checksum::BLOCK_TRAILER_BYTES;
use super::entry_block::MAX_BLOCK_BYTES;
use super::writer::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::codec::{put_u32, put_varint, take_varint};

/// Names of the blocks, as the metaindex and all messages have them.
pub(crate) mod name {
    pub(crate) const DATA: &str = "data";
    pub(crate) const PADDING: &str = "padding";
    pub(crate) const FILTER: &str = "filter";
    pub(crate) const PROPERTIES: &str = "properties";
    pub(crate) const INDEX: &str = "index";
    pub(crate) const METAINDEX: &str = "metaindex";
    pub(crate) const FOOTER: &str = "footer";
}

/// Most bytes of a metaindex: three short names, each with a handle, take at most 100.
const MAX_METAINDEX_BYTES: u64 = 4 << 10;

/// Most bytes of properties: two of them are keys, and all others together take less than the rest.
const MAX_PROPERTIES_BYTES: u64 = 2 * MAX_KEY_BYTES + (64 << 10);

/// Most bytes of a data block: those of its one entry, if the entry is longer than any `block_bytes`.
const MAX_DATA_BYTES: u64 = MAX_KEY_BYTES + MAX_VALUE_BYTES + 64;

/// Most bytes that the contents of a block of this name can have, whatever a handle says.
pub(crate) fn most_contents_bytes(block: &str) -> u64 {
    match block {
        name::METAINDEX => MAX_METAINDEX_BYTES,
        name::PROPERTIES => MAX_PROPERTIES_BYTES,
        name::DATA => MAX_DATA_BYTES,
        name::INDEX => MAX_BLOCK_BYTES,
        // How large a filter may be is its kind's own affair, and engines may add kinds.
        _ => u64::MAX,
    }
}

/// A block's first byte in the file, the length of its contents, trailer excluded, and which contents they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    pub(crate) contents_bytes: u64,
    /// The block's bound checksum, so that what stood at the place before is not taken for it.
    pub(crate) checksum: u32,
}

impl BlockHandle {
    /// Contents and trailer.
    pub(crate) fn bytes(&self) -> u64 {
        self.contents_bytes.saturating_add(BLOCK_TRAILER_BYTES as u64)
    }

    /// The first byte behind the block; `None` when no file is that long.
    pub(crate) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.contents_bytes)?.checked_add(BLOCK_TRAILER_BYTES as u64)
    }

    /// Two varints and the checksum.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        put_varint(&mut out, self.offset);
        put_varint(&mut out, self.contents_bytes);
        put_u32(&mut out, self.checksum);
        out
    }

    /// The handle in `bytes`, with nothing behind it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (offset, bytes) = take_varint(bytes)?;
        let (contents_bytes, checksum) = take_varint(bytes)?;
        Some(Self { offset, contents_bytes, checksum: u32::from_le_bytes(checksum.try_into().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_round_trip_and_their_ends_do_not_overflow() {
        for checksum in [0, u32::MAX - 1] {
            let handle = BlockHandle { offset: 300, contents_bytes: 70_000, checksum };
            assert_eq!(BlockHandle::decode(&handle.encode()), Some(handle));
            assert_eq!(handle.end(), Some(70_304));
            let huge = BlockHandle { offset: 300, contents_bytes: u64::MAX, checksum };
            assert_eq!(BlockHandle::decode(&huge.encode()), Some(huge));
            assert_eq!((huge.end(), huge.bytes()), (None, u64::MAX));
        }
    }

    #[test]
    fn bytes_that_are_missing_from_a_handle_or_stand_behind_it_are_refused() {
        for bytes in [&[][..], &[1], &[1, 2], &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5, 6, 7]] {
            assert_eq!(BlockHandle::decode(bytes), None, "{bytes:?}");
        }
    }
}
