//! Where a block lies.

use super::checksum::BLOCK_TRAILER_BYTES;
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

/// A block's first byte in the file, the length of its contents, trailer excluded, and which contents they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    pub(crate) contents_bytes: u64,
    /// The block's bound checksum. `None` in all handles of a table of version 1: what stands at the place is then
    /// believed if it belongs there, though it may be older than the handle.
    pub(crate) checksum: Option<u32>,
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
        self.checksum.iter().for_each(|&sum| put_u32(&mut out, sum));
        out
    }

    /// The handle in `bytes` and nothing behind it, of the same version as `parent`, the handle of the block that it
    /// stands in.
    pub(crate) fn decode(bytes: &[u8], parent: &Self) -> Option<Self> {
        let (offset, bytes) = take_varint(bytes)?;
        let (contents_bytes, rest) = take_varint(bytes)?;
        let checksum = match parent.checksum {
            None => rest.is_empty().then_some(None),
            Some(_) => rest.try_into().ok().map(|sum| Some(u32::from_le_bytes(sum))),
        };
        Some(Self { offset, contents_bytes, checksum: checksum? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_round_trip_and_their_ends_do_not_overflow() {
        for checksum in [None, Some(0), Some(u32::MAX - 1)] {
            let handle = BlockHandle { offset: 300, contents_bytes: 70_000, checksum };
            assert_eq!(BlockHandle::decode(&handle.encode(), &handle), Some(handle));
            assert_eq!(handle.end(), Some(70_304));
            let huge = BlockHandle { offset: 300, contents_bytes: u64::MAX, checksum };
            assert_eq!(BlockHandle::decode(&huge.encode(), &handle), Some(huge));
            assert_eq!((huge.end(), huge.bytes()), (None, u64::MAX));
        }
    }

    #[test]
    fn bytes_that_are_missing_from_a_handle_or_stand_behind_it_are_refused() {
        let parent = |checksum| BlockHandle { offset: 0, contents_bytes: 0, checksum };
        for bytes in [&[][..], &[1], &[1, 2, 3], &[1, 2, 3, 4, 5, 6]] {
            assert_eq!(BlockHandle::decode(bytes, &parent(None)), None, "version 1, {bytes:?}");
        }
        for bytes in [&[][..], &[1], &[1, 2], &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5, 6, 7]] {
            assert_eq!(BlockHandle::decode(bytes, &parent(Some(0))), None, "version 2, {bytes:?}");
        }
    }
}
