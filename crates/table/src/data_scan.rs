//! Finds data blocks without the index, if that is damaged.
//!
//! Data blocks are contiguous from the file's first byte, and each is followed by a checksum of its contents, the
//! table's id and its offset. So a block can be recognized at its start, if its end is known. Entries state their
//! lengths, and the properties state the restart interval. After each entry, these determine the only offset where the
//! block's last word and its checksum could be. After a damaged block, the scan tries every byte as a start.
//!
//! Rejected alternative: comparing a checksum at every byte. It needs no properties, but after a damaged block it takes
//! time proportional to the damaged bytes times the length of a block.
//!
//! Without the checksums in the index, a block left over from an earlier table with the same id and offset would be
//! accepted. Ids that never repeat exclude that.

use core::ops::{Bound, Range};

use bytes::Bytes;
use sstfilter::internal::varint::take_varint;

use super::block::{Block, MAX_KEY_BYTES, MAX_VALUE_BYTES, read_u32};
use super::format::{BLOCK_TRAILER_BYTES, BlockHandle};
use super::{Table, TableError, TablePart};

/// Bytes that are read at once; bytes beyond them are read word by word.
const WINDOW_BYTES: u64 = 64 << 10;

/// Maximum bytes of an entry before its key: three varints.
const HEADER_BYTES: usize = 15;

/// Limit of steps per byte of data, after which the search gives up. Sound data takes about two. Damaged blocks in
/// which each entry is a restart point take about half the number of a block's entries, and a malicious block could
/// take any number.
const STEPS_PER_BYTE: u64 = 256;

/// A scan over the data of a table.
#[derive(Debug)]
pub(super) struct DataScan<'a> {
    table: &'a Table,
    /// Offset of the first byte that has not been scanned.
    at: u64,
    window: Bytes,
    window_start: u64,
    last_key: Option<Vec<u8>>,
    /// The block after the bytes that were reported as missing.
    found: Option<FoundBlock>,
    steps_left: u64,
}

/// A sound block and its handle.
pub(super) type FoundBlock = (Block, BlockHandle);

impl<'a> DataScan<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        let steps_left = table.properties().data_bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(1 << 20);
        Self { table, at: 0, window: Bytes::new(), window_start: 0, last_key: None, found: None, steps_left }
    }

    /// Returns the next sound block, after an error for any missing bytes before it; `None` at the end of the data.
    pub(super) fn next(&mut self) -> Result<Option<FoundBlock>, TableError> {
        if let Some(found) = self.found.take() {
            return Ok(Some(found));
        }
        let (start, end) = (self.at, self.table.properties().data_bytes);
        if start >= end {
            return Ok(None);
        }
        // A copy, because a block that is found replaces the last key.
        let (before, mut found, mut at) = (self.last_key.clone(), Ok(None), start);
        while at < end && matches!(found, Ok(None)) && self.steps_left > 0 {
            found = self.block_at(at);
            at += 1;
        }
        let (block, problem) = found.map_or_else(|unread| (None, Some(unread)), |block| (block, None));
        let begins = block.as_ref().map_or(end, |(_, handle)| handle.offset);
        // After the block, or at the end of the data after a failed read or an exhausted search.
        self.at = block.as_ref().and_then(|(_, handle)| handle.end()).unwrap_or(end);
        let first = block.as_ref().and_then(|(block, _)| block.first_key().ok());
        if begins == start {
            return Ok(block);
        }
        let missing = self.missing(start..begins, before.as_deref(), first, problem);
        self.found = block;
        Err(missing)
    }

    /// Returns the error for bytes in which no block was found, between the keys before and after them.
    fn missing(
        &self,
        bytes: Range<u64>,
        before: Option<&[u8]>,
        behind: Option<&[u8]>,
        problem: Option<TableError>,
    ) -> TableError {
        let (smallest, largest) = self.table.properties().filters.key_bounds().unzip();
        let bound = |neighbour: Option<&[u8]>, end: Option<&[u8]>| {
            let end = end.map_or(Bound::Unbounded, Bound::Included);
            neighbour.map_or(end, Bound::Excluded).map(Bytes::copy_from_slice)
        };
        let keys = (bound(before, smallest), bound(behind, largest));
        let source = problem.unwrap_or_else(|| {
            let (at, bytes) = (self.table.file.location(TablePart::Data, bytes.start), bytes.end - bytes.start);
            TableError::corrupt(at, "a data block, found by its checksum", format_args!("none in {bytes} bytes"))
        });
        TableError::Missing { bytes, blocks: None, keys, source: Box::new(source) }
    }

    /// Returns the sound block that begins at `start`, if there is one.
    fn block_at(&mut self, start: u64) -> Result<Option<FoundBlock>, TableError> {
        self.fill_window(start)?;
        let properties = self.table.properties();
        // A forged interval of 0 must not be a divisor.
        let interval = properties.restart_interval.max(1);
        let (mut entries, mut key_bytes, mut at) = (0, 0, start);
        // No entry of a block begins beyond this size: a longer block has only one entry.
        while at - start <= properties.block_bytes {
            self.steps_left = self.steps_left.saturating_sub(1);
            let Some((shared, suffix, end)) = self.entry_at(at)? else { return Ok(None) };
            let is_whole = entries % interval == 0;
            // A block with such an entry would be refused; checking here saves its checksum.
            if shared > key_bytes || (is_whole && shared > 0) || (entries > 0 && suffix == 0) {
                return Ok(None);
            }
            (key_bytes, at, entries) = (shared + suffix, end, entries + 1);
            if let Some(found) = self.block_of(start, at, entries.div_ceil(interval))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// If an entry may be at `at`, returns the shared and the following bytes of its key, and the offset after the
    /// entry.
    fn entry_at(&self, at: u64) -> Result<Option<(u64, u64, u64)>, TableError> {
        let mut bytes = [0; HEADER_BYTES];
        let bytes = self.read(at, &mut bytes)?;
        let lengths = take_varint(bytes).and_then(|(shared, rest)| {
            let (suffix, rest) = take_varint(rest)?;
            let (value, rest) = take_varint(rest)?;
            Some((shared, suffix, value, (bytes.len() - rest.len()) as u64))
        });
        let Some((shared, suffix, value, header)) = lengths else { return Ok(None) };
        let (value, is_tombstone) = (value >> 1, value & 1 == 1);
        let is_consistent = shared <= MAX_KEY_BYTES && suffix <= MAX_KEY_BYTES && value <= MAX_VALUE_BYTES;
        if !is_consistent || (is_tombstone && value > 0) {
            return Ok(None);
        }
        let end = at + header + suffix + value;
        Ok((end < self.table.properties().data_bytes).then_some((shared, suffix, end)))
    }

    /// Returns the sound block from `start` on whose entries end at `entries_end`.
    fn block_of(&mut self, start: u64, entries_end: u64, restarts: u64) -> Result<Option<FoundBlock>, TableError> {
        let end = entries_end + 4 * restarts + 4;
        // Cheap checks of two words first: they rule out nearly every wrong end before a checksum is computed.
        let is_inside = end + BLOCK_TRAILER_BYTES as u64 <= self.table.properties().data_bytes;
        if !is_inside || self.word(entries_end)? != Some(0) || self.word(end - 4)?.map(u64::from) != Some(restarts) {
            return Ok(None);
        }
        let Some(checksum) = self.word(end)? else { return Ok(None) };
        let handle = BlockHandle { offset: start, contents_bytes: end - start, checksum };
        // A checksum costs one step per byte, so that forged ends cannot make the scan quadratic.
        self.steps_left = self.steps_left.saturating_sub(handle.contents_bytes);
        match self.table.file.read_block(TablePart::Data, handle, self.table.table_id()) {
            Ok(block) => Ok(self.accepts(&block).then_some((block, handle))),
            // A failed read says nothing about the bytes, so it must not count as "no block here".
            Err(unread @ TableError::Io { .. }) => Err(unread),
            Err(_) => Ok(None),
        }
    }

    /// Whether the keys of a block ascend, after those of earlier blocks and up to the table's largest key.
    fn accepts(&mut self, block: &Block) -> bool {
        let (Ok(first), Ok((_, last))) = (block.first_key(), block.check_entries()) else { return false };
        let bounds = self.table.properties().filters.key_bounds();
        let is_next = bounds.is_some_and(|(smallest, largest)| {
            let is_behind = self.last_key.as_deref().map_or(first >= smallest, |before| first > before);
            is_behind && last.as_slice() <= largest
        });
        if is_next {
            self.last_key = Some(last);
        }
        is_next
    }

    fn word(&self, at: u64) -> Result<Option<u32>, TableError> {
        let mut bytes = [0; 4];
        Ok(read_u32(self.read(at, &mut bytes)?, 0))
    }

    /// Returns data bytes from `at` on, as many as fit into `buffer`, or fewer at the end.
    fn read<'b>(&'b self, at: u64, buffer: &'b mut [u8]) -> Result<&'b [u8], TableError> {
        let left = self.table.properties().data_bytes.saturating_sub(at);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let in_window = at.checked_sub(self.window_start).and_then(|skipped| usize::try_from(skipped).ok());
        let found = in_window.and_then(|start| self.window.get(start..start.checked_add(length)?));
        if let Some(found) = found {
            return Ok(found);
        }
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        self.table.file.read_into(buffer, at)?;
        Ok(buffer)
    }

    /// Reads a window from `at` on, unless at least half a window from there on is in memory.
    fn fill_window(&mut self, at: u64) -> Result<(), TableError> {
        let (window_end, end) = (self.window_start + self.window.len() as u64, self.table.properties().data_bytes);
        if at + WINDOW_BYTES / 2 <= window_end || window_end == end {
            return Ok(());
        }
        self.window = self.table.file.read_bytes(at, WINDOW_BYTES.min(end - at))?;
        self.window_start = at;
        Ok(())
    }
}
