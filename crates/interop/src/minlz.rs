//! Decompresses `MinLZ` blocks. Since version 6 of its format, Pebble compresses blocks other than data blocks with
//! `MinLZ`. This module implements the block format of the `MinLZ` specification v1.0, without its streams and without
//! the fallback to Snappy.

use crate::format::cursor::Cursor;

/// The first byte of a block. Any other value begins a Snappy block.
const MARK: u8 = 0;
/// The maximum length of a block's contents, by the specification.
const MAX_BYTES: usize = 8 << 20;

/// The minimum offsets of copies with two and with three bytes of offset.
const COPY2_OFFSET: usize = 64;
const COPY3_OFFSET: usize = 1 << 16;

/// Decompresses a block of at most [`MAX_BYTES`] of contents. The buffer grows as contents arrive.
pub(crate) fn decompress(stored: &[u8]) -> Result<Vec<u8>, String> {
    let mut cursor = Cursor::new(stored);
    if cursor.byte() != Some(MARK) {
        return Err("expected a MinLZ block, which begins with 0".into());
    }
    if cursor.rest().is_empty() {
        return Ok(Vec::new());
    }
    match cursor.varint32().map(|length| length as usize) {
        Some(0) if cursor.rest().len() <= MAX_BYTES => Ok(cursor.rest().to_vec()),
        Some(length @ 1..=MAX_BYTES) => Contents { bytes: Vec::new(), length, offset: 1 }.read(cursor),
        length => Err(format!("expected contents of at most {MAX_BYTES} bytes, got {length:?}")),
    }
}

/// The contents decompressed so far.
struct Contents {
    bytes: Vec<u8>,
    /// The final length, as the block claims it.
    length: usize,
    /// The last copy's offset, which a "repeat" uses again.
    offset: usize,
}

impl Contents {
    fn read(mut self, mut cursor: Cursor<'_>) -> Result<Vec<u8>, String> {
        while let Some(tag) = cursor.byte() {
            let at = self.bytes.len();
            self.step(tag, &mut cursor)
                .ok_or_else(|| format!("expected literals or a copy after {at} bytes, got tag {tag:#04x}"))?;
        }
        if self.bytes.len() == self.length {
            Ok(self.bytes)
        } else {
            Err(format!("expected {} bytes, got {}", self.length, self.bytes.len()))
        }
    }

    fn step(&mut self, tag: u8, cursor: &mut Cursor<'_>) -> Option<()> {
        let value = usize::from(tag >> 2);
        match tag & 3 {
            0 => self.literals_or_repeat(value, cursor),
            1 => self.copy1(value, cursor),
            2 => {
                let offset = number(cursor, 2)? + COPY2_OFFSET;
                let length = copy_length(value, cursor)?;
                self.copy(offset, length)
            }
            _ => self.fused(tag, cursor),
        }
    }

    fn literals_or_repeat(&mut self, value: usize, cursor: &mut Cursor<'_>) -> Option<()> {
        let length = match value >> 1 {
            short @ 0..=28 => short + 1,
            bytes => number(cursor, bytes - 28)? + 30,
        };
        if value & 1 == 1 { self.copy(self.offset, length) } else { self.literals(cursor.take(length)?) }
    }

    fn copy1(&mut self, value: usize, cursor: &mut Cursor<'_>) -> Option<()> {
        let offset = (value >> 4 | number(cursor, 1)? << 2) + 1;
        let length = match value & 15 {
            15 => number(cursor, 1)? + 18,
            short => short + 4,
        };
        self.copy(offset, length)
    }

    /// Decodes a copy with up to four literals before it.
    fn fused(&mut self, tag: u8, cursor: &mut Cursor<'_>) -> Option<()> {
        let mut literals = usize::from(tag >> 3 & 3);
        let (offset, length);
        if tag & 4 == 0 {
            literals += 1;
            length = usize::from(tag >> 5) + 4;
            offset = number(cursor, 2)? + COPY2_OFFSET;
        } else {
            // Three bits of the length are in the tag, three in the bytes behind it.
            let bits = number(cursor, 3)?;
            offset = (bits >> 3) + COPY3_OFFSET;
            length = copy_length(usize::from(tag >> 5) | (bits & 7) << 3, cursor)?;
        }
        self.literals(cursor.take(literals)?)?;
        self.copy(offset, length)
    }

    fn literals(&mut self, literals: &[u8]) -> Option<()> {
        (literals.len() <= self.length - self.bytes.len()).then(|| self.bytes.extend_from_slice(literals))
    }

    /// Copies from `offset` bytes back. A copy may overlap its own output, which then repeats.
    fn copy(&mut self, offset: usize, length: usize) -> Option<()> {
        let mut from = self.bytes.len().checked_sub(offset)?;
        if length > self.length - self.bytes.len() {
            return None;
        }
        self.offset = offset;
        let mut left = length;
        while left > 0 {
            // Only `offset` bytes exist behind `from`, so an overlapping copy takes several rounds.
            let some = left.min(self.bytes.len() - from);
            self.bytes.extend_from_within(from..from + some);
            from += some;
            left -= some;
        }
        Some(())
    }
}

/// Reads the length of a copy with two or three bytes of offset. Long copies store it in extra bytes.
fn copy_length(value: usize, cursor: &mut Cursor<'_>) -> Option<usize> {
    match value {
        short @ 0..=60 => Some(short + 4),
        bytes => Some(number(cursor, bytes - 60)? + 64),
    }
}

/// Reads an integer of one to three bytes.
fn number(cursor: &mut Cursor<'_>, bytes: usize) -> Option<usize> {
    Some(cursor.take(bytes)?.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
}

#[cfg(test)]
mod tests {
    //! A wrong length or offset yields properties that the table does not have. `tests/engines/pebble.rs` reads blocks
    //! that Pebble wrote; these tests cover the element types one by one, by the specification.

    use super::decompress;

    fn block(length: u8, elements: &[&[u8]]) -> Vec<u8> {
        [&[0, length], elements.concat().as_slice()].concat()
    }

    #[test]
    fn literals_and_copies_are_read_by_the_specification() {
        assert_eq!(decompress(&[0]), Ok(Vec::new()));
        assert_eq!(decompress(&[0, 0, b'a', b'b']), Ok(b"ab".to_vec()));
        // Three literals; a copy of four from two bytes back.
        assert_eq!(decompress(&block(7, &[&[2 << 3], b"xab", &[1 | 1 << 6, 0]])), Ok(b"xababab".to_vec()));
        // A repeat at the beginning copies from one byte back.
        assert_eq!(decompress(&block(5, &[&[0], b"x", &[4 | 3 << 3]])), Ok(b"xxxxx".to_vec()));
        // Lengths of one more byte: 30 literals and 20 copied.
        let letters: Vec<u8> = (0..30).collect();
        let twenty = [&letters[..], &letters[20..], &letters[20..]].concat();
        assert_eq!(decompress(&block(50, &[&[29 << 3, 0], &letters, &[1 | 15 << 2 | 1 << 6, 2, 2]])), Ok(twenty));
    }

    #[test]
    fn far_copies_are_read_by_the_specification() {
        let letters: Vec<u8> = (0..70).collect();
        let literals = [&[29 << 3, 40], &letters[..]].concat();
        let mut expected = letters.clone();
        expected.extend(5..9);
        // From 65 bytes back: with two bytes of offset, and with a literal before it.
        assert_eq!(decompress(&block(74, &[&literals, &[2, 1, 0]])), Ok(expected));
        let mut fused = letters.clone();
        fused.extend([99, 6, 7, 8, 9]);
        assert_eq!(decompress(&block(75, &[&literals, &[3, 1, 0, 99]])), Ok(fused));
        // 70,000 bytes by a repeat, then a copy of 68 from 65,537 bytes back with two literals.
        let long = 70_000_u32 - 1 - 30;
        let [l0, l1, l2, _] = long.to_le_bytes();
        let length = [0, 0xb6, 0xa3, 0x04]; // 70,070 as a varint
        let stored = [&length[..], &[0, 7, 4 | 31 << 3, l0, l1, l2], &[0xbf - 0x08, 0x0f, 0, 0, 4, 98, 99]].concat();
        let contents = decompress(&stored).expect("a block");
        assert_eq!((contents.len(), &contents[69_998..70_004]), (70_070, &[7, 7, 98, 99, 7, 7][..]));
    }

    #[test]
    fn blocks_that_lie_are_errors() {
        let sound = block(7, &[&[2 << 3], b"xab", &[1 | 1 << 6, 0]]);
        for length in 0..sound.len() {
            assert!(length == 1 || decompress(&sound[..length]).is_err(), "{length} bytes");
        }
        let forged: [&[u8]; 7] = [
            &[1, 1, 0, b'a'],                   // Snappy
            &[0, 2, 0, b'a'],                   // shorter than it says
            &[0, 1, 8, b'a', b'b'],             // longer than it says
            &[0, 5, 1, 0],                      // a copy from before the beginning
            &[0, 9, 0, b'a', 1 | 1 << 6, 0],    // the same
            &[0, 3, 0, b'a', 4 | 3 << 3],       // a repeat beyond the end
            &[0, 0xff, 0xff, 0xff, 0x7f, 0, 1], // 256 MiB
        ];
        for stored in forged {
            assert!(decompress(stored).is_err(), "{stored:?}");
        }
    }
}
