//! Building a block of entries.

use super::EntryValue;
use crate::codec::{common_prefix, put_u32, put_varint};

/// Most bytes of a block: restart offsets have 32 bits.
pub(crate) const MAX_BLOCK_BYTES: u64 = u32::MAX as u64;

/// The most that three varints take.
const MAX_ENTRY_HEADER_BYTES: usize = 15;

/// Takes `(add* seal)*`: the same memory serves block after block.
#[derive(Debug)]
pub(crate) struct EntryBlockBuilder {
    contents: Vec<u8>,
    restarts: Vec<u32>,
    interval: u32,
    since_restart: u32,
    /// Of the last entry, in this block or the one before: keys ascend through all of them.
    last_key: Vec<u8>,
}

impl EntryBlockBuilder {
    pub(crate) fn new(interval: u32) -> Self {
        Self { contents: Vec::new(), restarts: Vec::new(), interval, since_restart: interval, last_key: Vec::new() }
    }

    /// Adds an entry. The caller has seen to it that keys ascend and that
    /// [`bytes_with`](Self::bytes_with) does not exceed [`MAX_BLOCK_BYTES`].
    #[expect(clippy::cast_possible_truncation, reason = "the caller keeps to MAX_BLOCK_BYTES")]
    pub(crate) fn add(&mut self, key: &[u8], value: EntryValue<'_>) {
        let shared = if self.since_restart < self.interval {
            self.since_restart += 1;
            common_prefix(&self.last_key, key)
        } else {
            self.since_restart = 1;
            self.restarts.push(self.contents.len() as u32);
            0
        };
        let suffix = key.get(shared..).unwrap_or_default();
        let bytes = value.bytes();
        self.contents.reserve(MAX_ENTRY_HEADER_BYTES + suffix.len() + bytes.len());
        put_varint(&mut self.contents, shared as u64);
        put_varint(&mut self.contents, suffix.len() as u64);
        put_varint(&mut self.contents, (bytes.len() as u64) << 1 | u64::from(value == EntryValue::Tombstone));
        self.contents.extend_from_slice(suffix);
        self.contents.extend_from_slice(bytes);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
    }

    /// The last key added; empty before the first.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Bytes of the block if it were sealed now.
    pub(crate) fn bytes(&self) -> u64 {
        self.contents.len() as u64 + self.restarts.len() as u64 * 4 + 4
    }

    /// The most bytes the block would have with one more entry.
    pub(crate) fn bytes_with(&self, key: &[u8], value: EntryValue<'_>) -> u64 {
        let entry = MAX_ENTRY_HEADER_BYTES as u64 + key.len() as u64 + value.bytes().len() as u64;
        self.bytes() + entry + 4
    }

    /// The block's contents; room for a trailer may be taken behind them.
    #[expect(clippy::cast_possible_truncation, reason = "the caller keeps to MAX_BLOCK_BYTES")]
    pub(crate) fn seal(&mut self) -> &mut Vec<u8> {
        for &restart in &self.restarts {
            put_u32(&mut self.contents, restart);
        }
        put_u32(&mut self.contents, self.restarts.len() as u32);
        &mut self.contents
    }

    /// Begins the next block.
    pub(crate) fn reset(&mut self) {
        self.contents.clear();
        self.restarts.clear();
        self.since_restart = self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_share_prefixes_between_restart_points_only() {
        let mut builder = EntryBlockBuilder::new(2);
        for key in [&b"abc"[..], b"abd", b"abe"] {
            builder.add(key, EntryValue::Bytes(b"v"));
        }
        let bytes = builder.bytes();
        let contents = builder.seal().clone();
        assert_eq!(contents.len() as u64, bytes);
        assert_eq!(contents, b"\x00\x03\x02abcv\x02\x01\x02dv\x00\x03\x02abev\x00\0\0\0\x0c\0\0\0\x02\0\0\0");
    }

    #[test]
    fn tombstones_have_the_low_bit_set_and_no_bytes() {
        let mut builder = EntryBlockBuilder::new(1);
        builder.add(b"k", EntryValue::Tombstone);
        assert_eq!(builder.seal()[..4], *b"\x00\x01\x01k");
    }

    #[test]
    fn a_block_of_no_entries_is_a_restart_count_of_zero() {
        assert_eq!(EntryBlockBuilder::new(16).seal()[..], [0; 4]);
    }

    #[test]
    fn the_bytes_foretold_are_an_upper_bound() {
        let mut builder = EntryBlockBuilder::new(1);
        for key in 0..300_u32 {
            let (key, value) = (format!("{key:04}"), EntryValue::Bytes(&[0; 200]));
            let foretold = builder.bytes_with(key.as_bytes(), value);
            builder.add(key.as_bytes(), value);
            assert!((foretold - 14..=foretold).contains(&builder.bytes()));
        }
    }
}
