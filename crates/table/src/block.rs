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
//! Sorted keys share prefixes, so each entry stores only its difference from the previous key. Without restart points,
//! a key could only be read by walking from the first entry. Restart points bound that walk: every 16th key (by
//! default) is stored whole. A search compares these keys, and then walks from the last one that does not exceed the
//! target. More restart points make searches shorter and blocks larger. A block without entries is the four bytes of n
//! = 0.
//!
//! # Reading is safe whatever the bytes
//!
//! The checksum is compared before any of this runs, so wrong bytes here were written that way, by a faulty writer or
//! on purpose. Impossible lengths and offsets are still errors. A walk and `verify` detect keys out of order across
//! restart intervals; a search does not.
//!
//! Keys that share bytes with the previous key are longer in memory than in the block. The growth is bounded:
//!
//! - A key consists of bytes from entries since the last restart point, because the entry there shares nothing and no
//!   later one shares more than its predecessor has. So no key is longer than the bytes of its restart interval.
//! - An interval has at most [`MAX_RESTART_INTERVAL`] entries. So its keys together have at most 1,024 times its bytes.
//! - Intervals do not overlap in a block, nor blocks in a file. So all keys of a walk together have at most 1,024 times
//!   the bytes of the file, even in a file from an attacker.
//!
//! A cursor's step costs less: only the bytes of its entry. Only copying or comparing the key costs the whole key.

use core::borrow::Borrow;
use core::fmt;
use core::ops::Range;

use bytes::{BufMut, Bytes};
use sstfilter::internal::key_head::common_prefix;
use sstfilter::internal::varint::{put_varint, take_varint};

use super::error::{TableError, TableLocation, shown};

/// Maximum bytes of a key: 64 MiB.
pub const MAX_KEY_BYTES: u64 = 64 << 20;

/// Maximum bytes of a value: 64 MiB.
pub const MAX_VALUE_BYTES: u64 = 64 << 20;

/// Maximum number of entries from one restart point to the next. Readers refuse more: this bounds the memory of a walk,
/// as the module's documentation shows.
pub(crate) const MAX_RESTART_INTERVAL: u32 = 1_024;

/// Maximum bytes of a block: restart offsets have 32 bits.
pub(crate) const MAX_BLOCK_BYTES: u64 = u32::MAX as u64;

/// Maximum bytes of three varints: 5 each, because every length fits 32 bits.
const MAX_ENTRY_HEADER_BYTES: usize = 15;

/// Reads the number at `offset`; `None` beyond the end.
pub(super) fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// Builds blocks: `(add* seal reset)*`. All blocks use one buffer.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    pub(super) contents: Vec<u8>,
    restarts: Vec<u32>,
    interval: u32,
    since_restart: u32,
    /// Key of the last entry, in this block or the previous one: keys ascend across blocks.
    last_key: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn new(interval: u32) -> Self {
        Self { contents: Vec::new(), restarts: Vec::new(), interval, since_restart: interval, last_key: Vec::new() }
    }

    /// Adds an entry, or a tombstone if `value` is `None`. The caller ensures that keys ascend and that
    /// [`bytes_with`](Self::bytes_with) does not exceed [`MAX_BLOCK_BYTES`].
    #[expect(clippy::cast_possible_truncation, reason = "the caller keeps to MAX_BLOCK_BYTES")]
    pub(crate) fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        // The previous key may be of the block before: a block begins with a restart point, so nothing is shared with
        // it.
        let shared = if self.since_restart < self.interval {
            self.since_restart += 1;
            common_prefix(&self.last_key, key)
        } else {
            self.since_restart = 1;
            self.restarts.push(self.contents.len() as u32);
            0
        };
        let suffix = key.get(shared..).unwrap_or_default();
        let bytes = value.unwrap_or_default();
        // One reservation per entry, not one per field.
        self.contents.reserve(MAX_ENTRY_HEADER_BYTES + suffix.len() + bytes.len());
        put_varint(&mut self.contents, shared as u64);
        put_varint(&mut self.contents, suffix.len() as u64);
        // The lowest bit marks a tombstone, so an empty value and a deletion differ.
        put_varint(&mut self.contents, (bytes.len() as u64) << 1 | u64::from(value.is_none()));
        self.contents.extend_from_slice(suffix);
        self.contents.extend_from_slice(bytes);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
    }

    /// Returns the last key added; empty before the first.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Returns the bytes of the block if it were sealed now.
    pub(crate) fn bytes(&self) -> u64 {
        self.contents.len() as u64 + self.restarts.len() as u64 * 4 + 4
    }

    /// Returns an upper bound of the bytes with one more entry.
    pub(crate) fn bytes_with(&self, key: &[u8], value: Option<&[u8]>) -> u64 {
        let entry = MAX_ENTRY_HEADER_BYTES as u64 + key.len() as u64 + value.map_or(0, <[u8]>::len) as u64;
        // 4 bytes, in case the entry is a restart point.
        self.bytes() + entry + 4
    }

    /// Completes the block and returns its contents, to which the caller may append a trailer.
    #[expect(clippy::cast_possible_truncation, reason = "the caller keeps to MAX_BLOCK_BYTES")]
    pub(crate) fn seal(&mut self) -> &mut Vec<u8> {
        for &restart in &self.restarts {
            self.contents.put_u32_le(restart);
        }
        self.contents.put_u32_le(self.restarts.len() as u32);
        &mut self.contents
    }

    /// Begins the next block.
    pub(crate) fn reset(&mut self) {
        self.contents.clear();
        self.restarts.clear();
        self.since_restart = self.interval;
    }
}

/// The answer of a table for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The value. It shares the memory of its data block.
    Found(Bytes),
    /// A tombstone: the key is deleted from this table and all older ones.
    Deleted,
    /// Absent from this table; older ones may contain the key.
    Absent,
}

/// A block whose restart points have been checked.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    contents: Bytes,
    entries_end: usize,
    restarts: usize,
    at: TableLocation,
}

impl Block {
    /// Opens the block `contents`, which is located `at` in the file.
    pub(crate) fn open(contents: Bytes, at: TableLocation) -> Result<Self, TableError> {
        let length = contents.len();
        let count = length.checked_sub(4).and_then(|offset| read_u32(&contents, offset));
        let entries_end = count.and_then(|count| length.checked_sub((count as usize).checked_add(1)?.checked_mul(4)?));
        let (Some(count), Some(entries_end)) = (count, entries_end) else {
            return Err(TableError::corrupt(at, "restart points that fit the block", format_args!("{count:?}")));
        };
        let block = Self { contents, entries_end, restarts: count as usize, at };
        // Once, when the block is opened, so that searches can rely on the restart points.
        block.check_restarts()?;
        Ok(block)
    }

    /// Checks that the first restart point is 0, that they ascend, and that each is at an entry.
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

    /// Returns the offset of a restart point; beyond the last, the end of the entries.
    fn restart(&self, index: usize) -> usize {
        if index >= self.restarts {
            return self.entries_end;
        }
        read_u32(&self.contents, self.entries_end + index * 4).map_or(self.entries_end, |offset| offset as usize)
    }

    /// Returns the bytes of the contents in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.contents.len() as u64
    }

    /// Returns an error at this block.
    pub(crate) fn corrupt(&self, expected: impl Into<String>, got: impl fmt::Display) -> TableError {
        TableError::corrupt(self.at.clone(), expected, got)
    }

    /// Returns the error for a data block that ends before `last_key`, its last key in the index.
    pub(crate) fn ends_before(&self, last_key: &[u8]) -> TableError {
        self.corrupt(format!("entries up to {}, as the index says", shown(last_key)), "an end before it")
    }

    /// Looks up `key`; `None` if the block ends before it.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Lookup>, TableError> {
        let mut cursor = BlockCursor::new(self);
        if !cursor.seek(key)? {
            return Ok(None);
        }
        if cursor.key() != key {
            return Ok(Some(Lookup::Absent));
        }
        Ok(Some(cursor.value_bytes().map_or(Lookup::Deleted, Lookup::Found)))
    }

    /// Reads all entries and checks their order. Returns their number and the last key.
    pub(super) fn check_entries(&self) -> Result<(u64, Vec<u8>), TableError> {
        let (mut entries, mut cursor) = (0, BlockCursor::new(self));
        while cursor.advance()? {
            entries += 1;
        }
        Ok((entries, cursor.key))
    }

    /// Returns the value of a name, in a block of named values.
    pub(super) fn value_of(&self, name: &str) -> Result<Option<Bytes>, TableError> {
        match self.get(name.as_bytes())? {
            Some(Lookup::Found(value)) => Ok(Some(value)),
            Some(Lookup::Deleted) => Err(self.corrupt(format!("a value of {name}"), "a tombstone")),
            Some(Lookup::Absent) | None => Ok(None),
        }
    }

    /// Returns the last restart point whose key is not above `target`; the first if all are above.
    fn restart_before(&self, target: &[u8]) -> Result<usize, TableError> {
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.key_at_restart(middle)? <= target { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// Returns the first key.
    pub(crate) fn first_key(&self) -> Result<&[u8], TableError> {
        self.key_at_restart(0)
    }

    fn key_at_restart(&self, index: usize) -> Result<&[u8], TableError> {
        let entry = self.entry_at(self.restart(index))?;
        self.check_whole(&entry)?;
        Ok(entry.suffix)
    }

    /// Checks that an entry at a restart point has its whole key.
    #[inline]
    fn check_whole(&self, entry: &RawEntry<'_>) -> Result<(), TableError> {
        if entry.shared == 0 { Ok(()) } else { Err(self.corrupt("a whole key at a restart point", entry.shared)) }
    }

    /// Parses the entry at `offset`. Checks that it ends before the restart points, and that its key is not too long.
    pub(super) fn entry_at(&self, offset: usize) -> Result<RawEntry<'_>, TableError> {
        let entry = self.parse_entry(offset);
        let entry = entry.ok_or_else(|| self.corrupt("an entry", format_args!("none at byte {offset}")))?;
        let key_bytes = entry.shared.saturating_add(entry.suffix.len());
        // Before the key is assembled in memory.
        if key_bytes as u64 > MAX_KEY_BYTES {
            return Err(self.corrupt(format!("a key of at most {MAX_KEY_BYTES} bytes"), key_bytes));
        }
        Ok(entry)
    }

    fn parse_entry(&self, offset: usize) -> Option<RawEntry<'_>> {
        let (shared, rest) = take_varint(self.contents.get(offset..self.entries_end)?)?;
        let (suffix_bytes, rest) = take_varint(rest)?;
        let (value, rest) = take_varint(rest)?;
        let (suffix, rest) = rest.split_at_checked(usize::try_from(suffix_bytes).ok()?)?;
        let (bytes, rest) = rest.split_at_checked(usize::try_from(value >> 1).ok()?)?;
        let is_tombstone = value & 1 == 1;
        // One encoding for each entry: writers give a tombstone no value.
        if is_tombstone && !bytes.is_empty() {
            return None;
        }
        let value = (!is_tombstone).then_some(bytes);
        Some(RawEntry { shared: usize::try_from(shared).ok()?, suffix, value, end: self.entries_end - rest.len() })
    }

    /// Checks that the entry may follow `key`: it shares no more bytes than `key` has, and its own key is above.
    #[inline]
    fn check_order(&self, key: &[u8], entry: &RawEntry<'_>, is_first: bool) -> Result<(), TableError> {
        let Some((shared, replaced)) = key.split_at_checked(entry.shared) else {
            let expected = format!("at most {} bytes shared with the key before", key.len());
            return Err(self.corrupt(expected, entry.shared));
        };
        // The shared bytes are equal, so the suffixes decide.
        if !is_first && entry.suffix <= replaced {
            let got = [shared, entry.suffix].concat();
            return Err(self.corrupt(format!("a key after {}", shown(key)), shown(&got)));
        }
        Ok(())
    }

    /// Returns the bytes of `value`, which is in this block, sharing the block's memory.
    pub(super) fn share(&self, value: &[u8]) -> Bytes {
        self.contents.slice_ref(value)
    }
}

/// An entry as stored in a block.
pub(super) struct RawEntry<'a> {
    /// Bytes shared with the previous key.
    pub(super) shared: usize,
    /// The rest of the key.
    pub(super) suffix: &'a [u8],
    /// `None` for a tombstone.
    pub(super) value: Option<&'a [u8]>,
    /// Offset of the next entry.
    end: usize,
}

/// Walks the entries of a block, which it owns or borrows. Every step checks the order of the keys and the restart
/// points.
#[derive(Debug)]
pub(crate) struct BlockCursor<B> {
    block: B,
    /// Offset of the next entry.
    pub(super) next: usize,
    next_restart: usize,
    /// Number of entries since the last restart point; 0 before the first entry.
    since_restart: u32,
    key: Vec<u8>,
    value: Option<Range<usize>>,
}

impl<B: Borrow<Block>> BlockCursor<B> {
    /// Returns a cursor before the first entry.
    pub(crate) fn new(block: B) -> Self {
        Self { block, next: 0, next_restart: 0, since_restart: 0, key: Vec::new(), value: None }
    }

    /// Moves from before the first entry to before the last restart point whose key is not above `target`.
    pub(crate) fn enter(&mut self, target: &[u8]) -> Result<(), TableError> {
        self.next_restart = self.block().restart_before(target)?;
        self.next = self.block().restart(self.next_restart);
        Ok(())
    }

    /// Moves from before the first entry to the first whose key is not below `target`; `false` if there is none.
    fn seek(&mut self, target: &[u8]) -> Result<bool, TableError> {
        self.enter(target)?;
        while self.advance()? {
            if self.key() >= target {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves to the next entry; `false` if there is none.
    pub(crate) fn advance(&mut self) -> Result<bool, TableError> {
        let block = self.block.borrow();
        // Entries and restart points are stored apart, so a forged block can make them disagree.
        let restart = block.restart(self.next_restart);
        if self.next > restart {
            return Err(block.corrupt("a restart point between two entries", restart));
        }
        if self.next == block.entries_end {
            return Ok(false);
        }
        // No order check for the first entry after `enter`: the cursor has not seen the key before it.
        let is_first = self.since_restart == 0;
        let entry = block.entry_at(self.next)?;
        if self.next == restart {
            self.since_restart = 0;
            self.next_restart += 1;
            block.check_whole(&entry)?;
        }
        // Bounds the memory of keys; see the module's documentation.
        if self.since_restart == MAX_RESTART_INTERVAL {
            let expected = format!("at most {MAX_RESTART_INTERVAL} entries from one restart point to the next");
            return Err(block.corrupt(expected, "more"));
        }
        self.since_restart += 1;
        block.check_order(&self.key, &entry, is_first)?;
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(entry.suffix);
        self.value = entry.value.map(|value| entry.end - value.len()..entry.end);
        self.next = entry.end;
        Ok(true)
    }

    pub(crate) fn block(&self) -> &Block {
        self.block.borrow()
    }

    /// Returns the key of the entry; empty before the first.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the value; `None` for a tombstone.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.block().contents.get(self.value.clone()?)
    }

    /// Returns the value, sharing the block's memory; `None` for a tombstone.
    pub(crate) fn value_bytes(&self) -> Option<Bytes> {
        self.value().map(|value| self.block().share(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TablePart;

    #[test]
    fn keys_share_prefixes_between_restart_points_only() {
        let mut builder = BlockBuilder::new(2);
        for key in [&b"abc"[..], b"abd", b"abe"] {
            builder.add(key, Some(b"v"));
        }
        let bytes = builder.bytes();
        let contents = builder.seal().clone();
        assert_eq!(contents.len() as u64, bytes);
        assert_eq!(contents, b"\x00\x03\x02abcv\x02\x01\x02dv\x00\x03\x02abev\x00\0\0\0\x0c\0\0\0\x02\0\0\0");
    }

    #[test]
    fn tombstones_have_the_low_bit_set_and_no_bytes() {
        let mut builder = BlockBuilder::new(1);
        builder.add(b"k", None);
        assert_eq!(builder.seal()[..4], *b"\x00\x01\x01k");
    }

    #[test]
    fn a_block_of_no_entries_is_a_restart_count_of_zero() {
        assert_eq!(BlockBuilder::new(16).seal()[..], [0; 4]);
    }

    #[test]
    fn the_bytes_foretold_are_an_upper_bound() {
        let mut builder = BlockBuilder::new(1);
        for key in 0..300_u32 {
            let (key, value) = (format!("{key:04}"), Some(&[0; 200][..]));
            let foretold = builder.bytes_with(key.as_bytes(), value);
            builder.add(key.as_bytes(), value);
            assert!((foretold - 14..=foretold).contains(&builder.bytes()));
        }
    }

    fn open(contents: &[u8]) -> Result<Block, TableError> {
        Block::open(Bytes::copy_from_slice(contents), TableLocation { path: None, part: TablePart::Data, offset: 0 })
    }

    fn walk(contents: &[u8]) -> Result<Vec<Vec<u8>>, TableError> {
        let block = open(contents)?;
        let mut cursor = BlockCursor::new(&block);
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
        let mut builder = BlockBuilder::new(interval);
        keys.for_each(|key| builder.add(&name(key), Some(&key.to_le_bytes())));
        builder.seal().clone()
    }

    #[test]
    fn every_key_is_found_and_every_gap_leads_to_the_next_key() {
        for interval in [1, 2, 3, 16, 1_000] {
            let block = open(&build((0..300).map(|key| key * 2), interval)).unwrap();
            for target in 0..600_u32 {
                let mut cursor = BlockCursor::new(&block);
                let found = cursor.seek(&name(target)).unwrap().then(|| cursor.key().to_vec());
                let expected = (target < 599).then(|| target.next_multiple_of(2));
                assert_eq!(found, expected.map(name));
            }
        }
    }

    #[test]
    fn an_empty_block_has_no_entries() {
        let block = open(&[0; 4]).unwrap();
        assert!(block.get(b"").unwrap().is_none() && block.first_key().is_err());
        assert!(!BlockCursor::new(&block).advance().unwrap());
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

    // promise: safe-to-open
    #[test]
    fn a_key_that_sharing_makes_longer_than_keys_are_is_refused() {
        let half = usize::try_from(MAX_KEY_BYTES / 2).unwrap();
        for (rest, is_refused) in [(half, false), (half + 1, true)] {
            let mut builder = BlockBuilder::new(2);
            builder.add(&vec![1; half], None);
            builder.add(&vec![1; half + rest], None);
            let block = open(builder.seal()).unwrap();
            let mut cursor = BlockCursor::new(&block);
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
            let _ = open(&damaged).map(|block| block.get(&name(7)).is_ok());
        }
        for length in 0..contents.len() {
            let _ = walk(&contents[..length]);
        }
    }
}
