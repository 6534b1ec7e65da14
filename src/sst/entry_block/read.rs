//! Reading a block of entries, trusting nothing.
//!
//! The checksum has been compared before any of this runs, so what is found here was written like
//! that, by a faulty writer or with intent. Lengths and offsets that cannot be are errors all the same;
//! an order that is wrong across restart intervals is seen by a walk and by `verify`, not by a search.
//!
//! Keys that share bytes with the key before them are longer in memory than in the block. By how much is bounded:
//!
//! - A key consists of bytes that entries since the last restart point brought with them, because the entry there
//!   shares nothing and each later one shares no more than its predecessor has. So no key is longer than the bytes of
//!   its restart interval.
//! - An interval has at most [`MAX_RESTART_INTERVAL`] entries. So its keys together have at most 1,024 times its bytes.
//! - Intervals do not overlap in a block, and neither do blocks in a file. So all keys of a walk together have at most
//!   1,024 times the bytes of the file, whoever wrote it.
//!
//! The steps of a cursor take less: each costs the bytes that its entry brought, and only a copy of the key, or a
//! comparison with it, costs the whole key.

use core::fmt;
use core::ops::Range;

use bytes::Bytes;

use super::{EntryValue, MAX_RESTART_INTERVAL};
use crate::codec::{read_u32, take_varint};
use crate::sst::error::shown;
use crate::sst::writer::MAX_KEY_BYTES;
use crate::sst::{Location, TableError};

/// A block whose restart points have been checked.
#[derive(Clone, Debug)]
pub(crate) struct EntryBlock {
    contents: Bytes,
    entries_end: usize,
    restarts: usize,
    at: Location,
}

impl EntryBlock {
    /// Opens the block of `contents`, which lies `at` its place in the file.
    pub(crate) fn open(contents: Bytes, at: Location) -> Result<Self, TableError> {
        let length = contents.len();
        let count = length.checked_sub(4).and_then(|offset| read_u32(&contents, offset));
        let entries_end = count.and_then(|count| (count as usize).checked_add(1)?.checked_mul(4));
        let entries_end = entries_end.and_then(|tail| length.checked_sub(tail));
        let (Some(count), Some(entries_end)) = (count, entries_end) else {
            return Err(TableError::corrupt(at, "restart points that fit the block", format_args!("{count:?}")));
        };
        let block = Self { contents, entries_end, restarts: count as usize, at };
        block.check_restarts()?;
        Ok(block)
    }

    /// The first is 0, they ascend, and all lie among the entries; there are none without entries.
    fn check_restarts(&self) -> Result<(), TableError> {
        if self.restarts == 0 && self.entries_end != 0 {
            return Err(self.corrupt("a restart point for the first entry", "none"));
        }
        let mut least = 0;
        for index in 0..self.restarts {
            let restart = self.restart(index);
            if restart < least || restart >= self.entries_end || (index == 0 && restart != 0) {
                return Err(self.corrupt("ascending restart points among the entries", restart));
            }
            least = restart + 1;
        }
        Ok(())
    }

    /// Offset of a restart point; the end of the entries behind the last.
    pub(super) fn restart(&self, index: usize) -> usize {
        if index >= self.restarts {
            return self.entries_end;
        }
        read_u32(&self.contents, self.entries_end + index * 4).map_or(self.entries_end, |offset| offset as usize)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.restarts == 0
    }

    /// Where the block lies.
    pub(crate) fn location(&self) -> &Location {
        &self.at
    }

    /// An error at this block.
    pub(crate) fn corrupt(&self, expected: &str, got: impl fmt::Display) -> TableError {
        TableError::corrupt(self.at.clone(), expected, got)
    }

    /// A cursor before the first entry.
    pub(crate) fn cursor(&self) -> EntryCursor {
        self.cursor_at(0)
    }

    fn cursor_at(&self, restart: usize) -> EntryCursor {
        EntryCursor {
            block: self.clone(),
            next: self.restart(restart),
            next_restart: restart,
            since_restart: 0,
            key: Vec::new(),
            value: 0..0,
            is_tombstone: false,
            has_entry: false,
        }
    }

    /// A cursor on the first entry whose key is not below `target`, if there is one.
    pub(crate) fn seek(&self, target: &[u8]) -> Result<Option<EntryCursor>, TableError> {
        let mut cursor = self.cursor_at(self.restart_before(target)?);
        while cursor.advance()? {
            if cursor.key() >= target {
                return Ok(Some(cursor));
            }
        }
        Ok(None)
    }

    /// The last restart point whose key is not above `target`; the first when all are.
    pub(super) fn restart_before(&self, target: &[u8]) -> Result<usize, TableError> {
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.key_at_restart(middle)? <= target { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// The first key; `None` in an empty block.
    pub(crate) fn first_key(&self) -> Result<Option<&[u8]>, TableError> {
        if self.is_empty() { Ok(None) } else { self.key_at_restart(0).map(Some) }
    }

    fn key_at_restart(&self, index: usize) -> Result<&[u8], TableError> {
        let header = self.header(self.restart(index))?;
        if header.shared != 0 {
            return Err(self.corrupt("a whole key at a restart point", header.shared));
        }
        Ok(self.bytes(&header.suffix))
    }

    /// Reads the entry that begins at `offset`, and sees to it that it ends before the restart points, and that its
    /// key is not longer than keys are.
    pub(super) fn header(&self, offset: usize) -> Result<Header, TableError> {
        let header = self.try_header(offset);
        let header = header.ok_or_else(|| self.corrupt("an entry", format_args!("none at byte {offset}")))?;
        let key_bytes = header.shared.saturating_add(header.suffix.len());
        if key_bytes as u64 > MAX_KEY_BYTES {
            return Err(self.corrupt(&format!("a key of at most {MAX_KEY_BYTES} bytes"), key_bytes));
        }
        Ok(header)
    }

    /// Bytes of the contents, as a header names them.
    pub(super) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.contents.get(range.clone()).unwrap_or_default()
    }

    /// The same as a share of the block's memory.
    pub(super) fn share(&self, range: Range<usize>) -> Bytes {
        self.contents.slice(range)
    }

    fn try_header(&self, offset: usize) -> Option<Header> {
        let entries = self.contents.get(..self.entries_end)?;
        let (shared, rest) = take_varint(entries.get(offset..)?)?;
        let (unshared, rest) = take_varint(rest)?;
        let (value, rest) = take_varint(rest)?;
        let start = self.entries_end - rest.len();
        let suffix = start..start.checked_add(usize::try_from(unshared).ok()?)?;
        let value_end = suffix.end.checked_add(usize::try_from(value >> 1).ok()?)?;
        let is_tombstone = value & 1 == 1;
        let fits = value_end <= self.entries_end && (!is_tombstone || value_end == suffix.end);
        let shared = usize::try_from(shared).ok()?;
        fits.then_some(Header { shared, value: suffix.end..value_end, suffix, is_tombstone })
    }
}

/// One entry's parts, as ranges of the contents.
pub(super) struct Header {
    pub(super) shared: usize,
    pub(super) suffix: Range<usize>,
    pub(super) value: Range<usize>,
    pub(super) is_tombstone: bool,
}

/// Walks the entries of a block; every step checks the order of the keys and the restart points.
#[derive(Debug)]
pub(crate) struct EntryCursor {
    block: EntryBlock,
    next: usize,
    next_restart: usize,
    /// Entries from the last restart point on.
    since_restart: u32,
    key: Vec<u8>,
    value: Range<usize>,
    is_tombstone: bool,
    has_entry: bool,
}

impl EntryCursor {
    /// Goes to the next entry; `false` when there is none.
    pub(crate) fn advance(&mut self) -> Result<bool, TableError> {
        let restart = self.block.restart(self.next_restart);
        if self.next > restart {
            return Err(self.block.corrupt("a restart point between two entries", restart));
        }
        if self.next == self.block.entries_end {
            return Ok(false);
        }
        let header = self.block.header(self.next)?;
        if self.next == restart {
            self.next_restart += 1;
            self.since_restart = 0;
            if header.shared != 0 {
                return Err(self.block.corrupt("a whole key at a restart point", header.shared));
            }
        }
        if self.since_restart == MAX_RESTART_INTERVAL {
            let expected = format!("at most {MAX_RESTART_INTERVAL} entries from one restart point to the next");
            return Err(self.block.corrupt(&expected, "more"));
        }
        self.since_restart += 1;
        self.take(header)?;
        Ok(true)
    }

    fn take(&mut self, header: Header) -> Result<(), TableError> {
        let suffix = self.block.bytes(&header.suffix);
        let Some(replaced) = self.key.get(header.shared..) else {
            let expected = format!("at most {} bytes shared with the key before", self.key.len());
            return Err(self.block.corrupt(&expected, header.shared));
        };
        if self.has_entry && suffix <= replaced {
            let expected = format!("a key after {}", shown(&self.key));
            let got = [self.key.get(..header.shared).unwrap_or_default(), suffix].concat();
            return Err(self.block.corrupt(&expected, shown(&got)));
        }
        self.key.truncate(header.shared);
        self.key.extend_from_slice(suffix);
        self.next = header.value.end;
        self.value = header.value;
        self.is_tombstone = header.is_tombstone;
        self.has_entry = true;
        Ok(())
    }

    /// Where the next entry begins.
    pub(super) fn next_offset(&self) -> usize {
        self.next
    }

    /// The key of the entry; empty before the first.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn value(&self) -> EntryValue<'_> {
        if self.is_tombstone {
            return EntryValue::Tombstone;
        }
        EntryValue::Bytes(self.block.bytes(&self.value))
    }

    /// The value as a share of the block's memory; `None` for a tombstone.
    pub(crate) fn value_bytes(&self) -> Option<Bytes> {
        (!self.is_tombstone).then(|| self.block.share(self.value.clone()))
    }

    /// The block walked.
    pub(crate) fn block(&self) -> &EntryBlock {
        &self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sst::entry_block::EntryBlockBuilder;

    fn open(contents: &[u8]) -> Result<EntryBlock, TableError> {
        EntryBlock::open(Bytes::copy_from_slice(contents), Location::new(None, "data", 0))
    }

    fn walk(contents: &[u8]) -> Result<Vec<Vec<u8>>, TableError> {
        let mut cursor = open(contents)?.cursor();
        let mut keys = Vec::new();
        while cursor.advance()? {
            keys.push(cursor.key().to_vec());
        }
        Ok(keys)
    }

    fn name(key: u32) -> Vec<u8> {
        format!("{key:04}").into_bytes()
    }

    fn build(keys: impl Iterator<Item = u32>, interval: u32) -> Vec<u8> {
        let mut builder = EntryBlockBuilder::new(interval);
        keys.for_each(|key| builder.add(&name(key), EntryValue::Bytes(&key.to_le_bytes())));
        builder.seal().clone()
    }

    #[test]
    fn every_key_is_found_and_every_gap_leads_to_the_next_key() {
        for interval in [1, 2, 3, 16, 1_000] {
            let block = open(&build((0..300).map(|key| key * 2), interval)).unwrap();
            for target in 0..600_u32 {
                let found = block.seek(&name(target)).unwrap();
                let expected = (target < 599).then(|| target.next_multiple_of(2));
                assert_eq!(found.map(|cursor| cursor.key().to_vec()), expected.map(name));
            }
        }
    }

    #[test]
    fn an_empty_block_has_no_entries() {
        let block = open(&[0; 4]).unwrap();
        assert!(block.is_empty() && block.seek(b"").unwrap().is_none() && block.first_key().unwrap().is_none());
        assert!(!block.cursor().advance().unwrap());
    }

    #[test]
    fn what_no_writer_writes_is_refused() {
        let refused: [(&str, &[u8]); 12] = [
            ("no restart count", b"\0\0\0"),
            ("restart count beyond the block", b"\xff\xff\xff\xff"),
            ("entries without a restart", b"\x00\x01\x02kv\0\0\0\0"),
            ("restarts without entries", b"\0\0\0\0\x01\0\0\0"),
            ("first restart not 0", b"\x00\x01\x02kv\x01\0\0\0\x01\0\0\0"),
            ("a key cut short", b"\x00\x09\x00k\0\0\0\0\x01\0\0\0"),
            ("a value cut short", b"\x00\x01\x08kv\0\0\0\0\x01\0\0\0"),
            ("a tombstone with a value", b"\x00\x01\x03kv\0\0\0\0\x01\0\0\0"),
            ("a restart that shares", b"\x01\x01\x02kv\0\0\0\0\x01\0\0\0"),
            ("more shared than there is", b"\x00\x01\x00k\x02\x01\x00l\0\0\0\0\x01\0\0\0"),
            ("a key twice", b"\x00\x01\x00k\x00\x01\x00k\0\0\0\0\x01\0\0\0"),
            ("a restart inside an entry", b"\x00\x01\x00k\x00\x01\x00l\0\0\0\0\x02\0\0\0\x02\0\0\0"),
        ];
        for (what, contents) in refused {
            assert!(matches!(walk(contents), Err(TableError::Corrupt { .. })), "{what}");
        }
    }

    #[test]
    fn a_key_that_sharing_makes_longer_than_keys_are_is_refused() {
        let half = usize::try_from(MAX_KEY_BYTES / 2).unwrap();
        for (rest, is_refused) in [(half, false), (half + 1, true)] {
            let mut builder = EntryBlockBuilder::new(2);
            builder.add(&vec![1; half], EntryValue::Tombstone);
            builder.add(&vec![1; half + rest], EntryValue::Tombstone);
            let mut cursor = open(builder.seal()).unwrap().cursor();
            assert!(cursor.advance().unwrap());
            let message = cursor.advance().err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(message.contains("a key of at most 67108864 bytes, got 67108865"), is_refused, "{message}");
        }
    }

    #[test]
    fn no_flip_and_no_cut_of_a_block_makes_a_walk_panic_or_leave_the_order() {
        let contents = build(0..40, 4);
        let mut damaged = Vec::new();
        for bit in 0..contents.len() * 8 {
            damaged.clone_from(&contents);
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(walk(&damaged).is_ok_and(|keys| keys.is_sorted()) || walk(&damaged).is_err());
            let _ = open(&damaged).and_then(|block| block.seek(&name(7)));
        }
        for length in 0..contents.len() {
            let _ = walk(&contents[..length]);
        }
    }
}
