//! Pebble's columnar blocks (`sstable/colblk`) of names and values, and of an index. The index is columnar from version
//! 5 of its format on, the metaindex from version 6 on, the properties from version 7 on.
//!
//! A header, one entry per column, the columns, a byte of padding:
//!
//! ```text
//! version u8 = 1 | columns u16 | rows u32 | (type u8, offset u32) per column | columns... | pad
//! ```
//!
//! A column of numbers begins with a byte for their width. If its highest bit is set, a base of eight bytes follows.
//! Then come the numbers less the base, aligned to their width. A column of byte strings is a column of offsets (0,
//! then the end of each string) and the concatenated strings.

use crate::format::cursor::Cursor;
use crate::format::handle::BlockHandle;

const VERSION: u8 = 1;
const PAD_BYTES: usize = 1;

/// Pebble's `DataType`.
const NUMBERS: u8 = 2;
const BYTE_STRINGS: u8 = 3;

/// Bounds the allocation for a compressed block. A metaindex has a dozen names, properties have some dozens.
const MAX_NAMES: usize = 1 << 16;

/// A flag in the width of numbers: a base precedes them.
const HAS_BASE: u8 = 0x80;

/// A name and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Returns the names and values of a block with these two columns, in the order of the names.
///
/// Refuses overlaps and gaps between columns, where Pebble's reader panics.
pub(crate) fn names_and_values(block: &[u8]) -> Result<Vec<Pair<'_>>, String> {
    let (rows, [names, values]) = columns(block, [BYTE_STRINGS, BYTE_STRINGS], MAX_NAMES)?;
    let (names, values) = (names.byte_strings(rows)?, values.byte_strings(rows)?);
    if !names.is_sorted_by(|before, after| before < after) {
        return Err("expected names in ascending order".into());
    }
    Ok(names.into_iter().zip(values).collect())
}

/// Returns the handles in an index, at most `max_rows`. Checks only the frame of separators and block properties.
pub(crate) fn index_handles(block: &[u8], max_rows: usize) -> Result<Vec<BlockHandle>, String> {
    let types = [BYTE_STRINGS, NUMBERS, NUMBERS, BYTE_STRINGS];
    let (rows, [separators, offsets, sizes, properties]) = columns(block, types, max_rows)?;
    separators.byte_strings(rows)?;
    properties.byte_strings(rows)?;
    let (offsets, sizes) = (offsets.numbers(rows)?, sizes.numbers(rows)?);
    Ok((0..rows).map(|row| BlockHandle { offset: offsets.get(row), size: sizes.get(row) }).collect())
}

/// A column's range in its block.
#[derive(Clone, Copy, Debug)]
struct Column<'a> {
    block: &'a [u8],
    begin: usize,
    end: usize,
}

/// Returns the number of rows, and the columns, which must have these types.
fn columns<const COUNT: usize>(
    block: &[u8],
    types: [u8; COUNT],
    max_rows: usize,
) -> Result<(usize, [Column<'_>; COUNT]), String> {
    let too_short = || format!("expected {COUNT} columns, got {} bytes", block.len());
    let data_end = block.len().checked_sub(PAD_BYTES).ok_or_else(too_short)?;
    let mut cursor = Cursor::new(block.get(..data_end).ok_or_else(too_short)?);
    let (Some(version), Some(&[low, high]), Some(rows)) =
        (cursor.byte(), cursor.take(2).and_then(<[u8]>::first_chunk), cursor.u32())
    else {
        return Err(too_short());
    };
    let count = usize::from(u16::from_le_bytes([low, high]));
    if (version, count) != (VERSION, COUNT) {
        return Err(format!("expected {COUNT} columns in version {VERSION}, got {count} in version {version}"));
    }
    let mut columns = [Column { block, begin: 0, end: data_end }; COUNT];
    for (column, expected) in columns.iter_mut().zip(types) {
        let (kind, begin) = cursor.byte().zip(cursor.u32()).ok_or_else(too_short)?;
        if kind != expected {
            return Err(format!("expected a column of type {expected}, got {kind}"));
        }
        column.begin = usize::try_from(begin).map_err(|_| too_short())?;
    }
    let header_end = data_end - cursor.rest().len();
    // Without gaps, every byte of the block belongs to one field, so that damage cannot hide between them.
    if columns.first().is_some_and(|first| first.begin != header_end) {
        return Err(format!("expected the first column right behind the header, at {header_end}"));
    }
    for column in 1..COUNT {
        columns[column - 1].end = columns[column].begin;
    }
    if columns.iter().any(|column| column.begin > column.end) {
        return Err("expected columns one behind the other".into());
    }
    // Rows cannot share bytes: names differ from each other, and so do offsets of blocks.
    let max_rows = max_rows.min(block.len());
    match usize::try_from(rows) {
        Ok(rows) if rows <= max_rows => Ok((rows, columns)),
        _ => Err(format!("expected at most {max_rows} rows, got {rows}")),
    }
}

impl<'a> Column<'a> {
    fn problem(&self, what: &str) -> String {
        format!("column from {} to {}: expected {what}", self.begin, self.end)
    }

    /// Returns the column's numbers, which must fill it.
    fn numbers(&self, rows: usize) -> Result<Numbers<'a>, String> {
        let (numbers, end) = self.leading_numbers(rows)?;
        if end == self.end { Ok(numbers) } else { Err(self.problem("numbers that fill it")) }
    }

    /// Returns the numbers at the column's beginning, and the offset of their end.
    fn leading_numbers(&self, count: usize) -> Result<(Numbers<'a>, usize), String> {
        if count == 0 {
            return Ok((Numbers { bytes: &[], width: 0, base: 0 }, self.begin));
        }
        let too_short = || self.problem("a number for each row");
        let mut cursor = Cursor::new(self.block.get(self.begin..self.end).ok_or_else(too_short)?);
        let encoding = cursor.byte().ok_or_else(too_short)?;
        let has_base = encoding & HAS_BASE != 0;
        let width = match encoding & !HAS_BASE {
            width @ (0 | 1 | 2 | 4) => usize::from(width),
            8 if !has_base => 8,
            _ => return Err(self.problem(&format!("a width of 0, 1, 2, 4 or 8 bytes, not {encoding:#04x},"))),
        };
        let base = if has_base { cursor.take(8).and_then(<[u8]>::first_chunk).ok_or_else(too_short)? } else { &[0; 8] };
        // Aligned within the block, not within the column.
        let begin = (self.end - cursor.rest().len()).next_multiple_of(width.max(1));
        let end = begin.saturating_add(count.saturating_mul(width));
        let bytes = self.block.get(begin..end).filter(|_| end <= self.end).ok_or_else(too_short)?;
        Ok((Numbers { bytes, width, base: u64::from_le_bytes(*base) }, end))
    }

    /// Returns the column's byte strings, which must fill it.
    fn byte_strings(&self, rows: usize) -> Result<Vec<&'a [u8]>, String> {
        if rows == 0 {
            return if self.begin == self.end { Ok(Vec::new()) } else { Err(self.problem("nothing without rows")) };
        }
        let (offsets, begin) = self.leading_numbers(rows + 1)?;
        if offsets.base != 0 || offsets.get(0) != 0 {
            return Err(self.problem("the first string at 0"));
        }
        let strings = self.block.get(begin..self.end).unwrap_or_default();
        let mut read = Vec::with_capacity(rows);
        for row in 0..rows {
            let range = offsets.position(row)..offsets.position(row + 1);
            read.push(strings.get(range).ok_or_else(|| self.problem("offsets that ascend within it"))?);
        }
        if offsets.position(rows) == strings.len() { Ok(read) } else { Err(self.problem("strings that fill it")) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Numbers<'a> {
    bytes: &'a [u8],
    width: usize,
    base: u64,
}

impl Numbers<'_> {
    fn get(&self, row: usize) -> u64 {
        let bytes = self.bytes.get(row * self.width..(row + 1) * self.width).unwrap_or_default();
        let number = bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        self.base.wrapping_add(number)
    }

    /// Returns a number as an index; one that memory cannot address becomes an index beyond the block.
    fn position(&self, row: usize) -> usize {
        usize::try_from(self.get(row)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    //! With forged offsets or overlapping columns, other bytes would be read as a handle.

    use super::{index_handles, names_and_values};
    use crate::format::handle::BlockHandle;

    /// Pebble's block for `a` = `1`, `bc` = nothing, and `d` = `234`.
    fn block() -> Vec<u8> {
        let mut block = vec![1, 2, 0, 3, 0, 0, 0, 3, 17, 0, 0, 0, 3, 26, 0, 0, 0];
        block.extend([1, 0, 1, 3, 4]);
        block.extend(b"abcd");
        block.extend([1, 0, 1, 1, 4]);
        block.extend(b"1234");
        block.push(0);
        block
    }

    #[test]
    fn names_and_values_are_read() {
        let block = block();
        let expected: &[(&[u8], &[u8])] = &[(b"a", b"1"), (b"bc", b""), (b"d", b"234")];
        assert_eq!(names_and_values(&block), Ok(expected.to_vec()));
        let empty = [1, 2, 0, 0, 0, 0, 0, 3, 17, 0, 0, 0, 3, 17, 0, 0, 0, 0];
        assert_eq!(names_and_values(&empty), Ok(Vec::new()));
    }

    #[test]
    fn offsets_are_aligned_within_the_block() {
        // Offsets of two bytes begin at 18, right behind their width; offsets of four begin at 28, three bytes behind
        // theirs.
        let mut block = vec![1, 2, 0, 1, 0, 0, 0, 3, 17, 0, 0, 0, 3, 24, 0, 0, 0];
        block.extend([2, 0, 0, 2, 0, b'a', b'b']);
        block.extend([4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'1', 0]);
        assert_eq!(names_and_values(&block), Ok(vec![(&b"ab"[..], &b"1"[..])]));
    }

    #[test]
    fn an_index_is_read() {
        let mut block = vec![1, 4, 0, 2, 0, 0, 0, 3, 27, 0, 0, 0, 2, 33, 0, 0, 0, 2, 46, 0, 0, 0, 3, 52, 0, 0, 0];
        block.extend([1, 0, 1, 2, b'a', b'b']);
        // 65,536 and 66,000 as differences from the first, in two bytes each.
        block.extend([0x82, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xd0, 0x01]);
        // 459 and 100, aligned to two bytes; two strings without bytes, and the pad.
        block.extend([2, 0, 0xcb, 1, 100, 0, 0, 0]);
        let expected = [BlockHandle { offset: 65_536, size: 459 }, BlockHandle { offset: 66_000, size: 100 }];
        assert_eq!(index_handles(&block, 2), Ok(expected.to_vec()));
        assert!(index_handles(&block, 1).is_err());
        for length in 0..block.len() {
            assert!(index_handles(&block[..length], 2).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_block_that_lies_is_an_error() {
        let sound = block();
        let version_columns_and_rows = [(0, 2), (1, 3), (2, 1), (3, 2), (3, 4), (6, 255)];
        let types_and_begins = [(7, 2), (8, 18), (12, 4), (13, 25), (13, 27), (16, 1)];
        let encodings = [(17, 0x81), (17, 3), (17, 0), (17, 2)];
        let offsets = [(18, 1), (19, 4), (20, 0), (21, 3), (21, 5), (27, 1), (30, 3), (30, 255)];
        let header = version_columns_and_rows.into_iter().chain(types_and_begins);
        for (index, byte) in header.chain(encodings).chain(offsets) {
            let mut block = sound.clone();
            assert_ne!(block[index], byte);
            block[index] = byte;
            assert!(names_and_values(&block).is_err(), "byte {index} = {byte}");
        }
        for length in 0..sound.len() {
            assert!(names_and_values(&sound[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn names_out_of_order_are_an_error() {
        let mut block = block();
        let name = block.iter().position(|&byte| byte == b'd').expect("a name");
        block[name] = b'a';
        assert!(names_and_values(&block).is_err());
    }
}
