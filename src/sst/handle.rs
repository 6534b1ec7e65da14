//! Where a block lies.

use super::checksum::BLOCK_TRAILER_BYTES;
use crate::codec::{put_varint, take_varint};

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

/// A block's first byte in the file and the length of its contents, trailer excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    pub(crate) contents_bytes: u64,
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

    /// Two varints.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(20);
        put_varint(&mut out, self.offset);
        put_varint(&mut out, self.contents_bytes);
        out
    }

    /// Two varints and nothing behind them.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (offset, bytes) = take_varint(bytes)?;
        let (contents_bytes, rest) = take_varint(bytes)?;
        rest.is_empty().then_some(Self { offset, contents_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_round_trip_and_their_ends_do_not_overflow() {
        let handle = BlockHandle { offset: 300, contents_bytes: 70_000 };
        assert_eq!(BlockHandle::decode(&handle.encode()), Some(handle));
        assert_eq!(handle.end(), Some(70_304));
        let huge = BlockHandle { offset: 300, contents_bytes: u64::MAX };
        assert_eq!(BlockHandle::decode(&huge.encode()), Some(huge));
        assert_eq!((huge.end(), huge.bytes()), (None, u64::MAX));
    }

    #[test]
    fn bytes_before_or_behind_a_handle_are_refused() {
        assert_eq!(BlockHandle::decode(&[]), None);
        assert_eq!(BlockHandle::decode(&[1]), None);
        assert_eq!(BlockHandle::decode(&[1, 2, 3]), None);
    }
}
