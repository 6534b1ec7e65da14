//! Blocks of entries in key order: data, properties, index and metaindex share this encoding.
//!
//! ```text
//! entry:     varint  bytes shared with the key before it
//!            varint  bytes of the key that follow
//!            varint  bytes of the value x 2, + 1 for a tombstone
//!            the rest of the key, then the value
//! entries, then
//!            u32 x n offsets of the restart points: entries that share nothing; the first is 0
//!            u32     n
//! ```
//!
//! A block of no entries is the four bytes of n = 0. A search compares the keys at the restart points,
//! then walks from the last one that does not exceed the key sought.

mod build;
mod kept;
mod read;

pub(crate) use build::{EntryBlockBuilder, MAX_BLOCK_BYTES};
pub(crate) use kept::KeptBlock;
pub(crate) use read::{EntryBlock, EntryCursor};

/// Most entries from one restart point to the next. Writers keep to it, and readers refuse more: what a walk takes is
/// bounded by it, as [`read`] shows.
pub(crate) const MAX_RESTART_INTERVAL: u32 = 1_024;

/// What an entry says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryValue<'a> {
    Bytes(&'a [u8]),
    Tombstone,
}

impl<'a> EntryValue<'a> {
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Tombstone => &[],
        }
    }
}
