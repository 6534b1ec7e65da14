//! Writes lines and the bits beside them.

use alloc::vec::Vec;

use super::{LINE_CODES, OVERFULL};

/// The line that is being written: `(push)* end`, again and again.
#[derive(Debug, Default)]
pub struct OpenLine {
    occupied: [u64; 4],
    run_ends: [u64; 4],
    /// Positions of the last codes of the runs before the open one, which an overfull line stores.
    ends: Vec<u32>,
    quotient: u8,
    codes: u32,
}

impl OpenLine {
    /// Returns the number of codes so far.
    #[must_use]
    pub const fn codes(&self) -> u32 {
        self.codes
    }

    /// Adds a code. Its quotient must not be below the one before.
    #[inline(always)]
    pub fn push(&mut self, quotient: u8) {
        if self.codes == 0 || quotient != self.quotient {
            self.end_run();
            self.quotient = quotient;
            set_bit(&mut self.occupied, quotient.into());
        }
        self.codes += 1;
    }

    #[inline(always)]
    fn end_run(&mut self) {
        let Some(last) = self.codes.checked_sub(1) else { return };
        set_bit(&mut self.run_ends, last);
        self.ends.push(last);
    }

    /// Returns the line's bytes with this rank, which has 31 bits, and begins the next line. For an overfull line,
    /// `overflow` stores the run ends, and returns the number of the first one.
    pub fn end(&mut self, rank: u32, overflow: impl FnOnce(&[u32]) -> u32) -> [u8; 64] {
        self.end_run();
        let line = if self.codes <= LINE_CODES {
            encode(self.occupied, self.run_ends, u64::from(rank) << 32)
        } else {
            let start = u64::from(overflow(&self.ends)) | u64::from(self.codes) << 32;
            encode(self.occupied, [start, 0, 0, 0], u64::from(rank) << 32 | OVERFULL)
        };
        self.clear();
        line
    }

    /// Begins the line again.
    pub fn clear(&mut self) {
        self.ends.clear();
        (self.occupied, self.run_ends, self.codes) = ([0; 4], [0; 4], 0);
    }

    /// Returns a line that looks overfull to queries and has all quotients, but no codes: `mark`, in place of the
    /// number of its first run end, says why.
    #[must_use]
    pub fn marked(mark: u32, rank: u32) -> [u8; 64] {
        encode([u64::MAX; 4], [mark.into(), 0, 0, 0], u64::from(rank) << 32 | OVERFULL)
    }
}

/// `last` shares its word with the last 32 run ends.
fn encode(occupied: [u64; 4], [a, b, c, d]: [u64; 4], last: u64) -> [u8; 64] {
    let mut bytes = [0; 64];
    let words = [occupied, [a, b, c, d | last]];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words.as_flattened()) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

/// Sets a bit, if it is below 256.
#[inline(always)]
fn set_bit(words: &mut [u64; 4], bit: u32) {
    if let Some(word) = words.get_mut((bit >> 6) as usize) {
        *word |= 1 << (bit & 63);
    }
}

/// Packs numbers of any bits, low bits first.
#[derive(Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    word: u64,
    filled: u32,
}

/// An end of what was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct BitEnd {
    bytes: usize,
    word: u64,
    filled: u32,
}

impl BitWriter {
    /// Reserves memory for this many bits and the padding of [`finish`](Self::finish). `None` if allocation fails.
    #[must_use]
    pub fn reserve(&mut self, bits: u64) -> Option<()> {
        // 16: a word that is filled in part, and the padding.
        self.bytes.try_reserve_exact(usize::try_from(bits / 8 + 16).ok()?).ok()
    }

    /// Appends a number of at most 64 bits.
    #[inline(always)]
    pub fn push(&mut self, value: u64, bits: u32) {
        self.word |= value << self.filled;
        self.filled += bits;
        if self.filled >= 64 {
            self.put_word();
            self.filled -= 64;
            // `bits - filled` is at most 63 here: it could be 64 only for an empty word.
            self.word = if self.filled == 0 { 0 } else { value >> (bits - self.filled) };
        }
    }

    fn put_word(&mut self) {
        self.bytes.extend_from_slice(&self.word.to_le_bytes());
    }

    /// Returns the bytes of the words that are complete.
    #[must_use]
    pub fn whole_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the bytes so far, with a last one that is filled in part.
    #[must_use]
    pub fn byte_len(&self) -> u64 {
        self.whole_bytes() + u64::from(self.filled.div_ceil(8))
    }

    /// Pads the current byte with zeros, and returns the index of the next one.
    pub fn next_byte(&mut self) -> u64 {
        self.filled = self.filled.next_multiple_of(8);
        if self.filled == 64 {
            self.put_word();
            (self.word, self.filled) = (0, 0);
        }
        self.byte_len()
    }

    /// Returns the words, and one word of padding for reads beyond the last number.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if self.filled > 0 {
            self.put_word();
        }
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes
    }

    /// Returns the end of what was written so far.
    #[must_use]
    pub fn end(&self) -> BitEnd {
        BitEnd { bytes: self.bytes.len(), word: self.word, filled: self.filled }
    }

    /// Goes back to an earlier end.
    pub fn rewind(&mut self, end: BitEnd) {
        self.bytes.truncate(end.bytes);
        (self.word, self.filled) = (end.word, end.filled);
    }

    /// Appends the [bytes so far](Self::byte_len) to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
        let bytes = self.filled.div_ceil(8) as usize;
        out.extend_from_slice(self.word.to_le_bytes().get(..bytes).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix64;

    #[test]
    fn numbers_are_packed_low_bits_first_and_a_writer_goes_back_to_an_earlier_end() {
        for bits in [0, 1, 7, 8, 13, 40, 56, 63, 64] {
            let number = |at: u64| mix64(at) & 1_u64.checked_shl(bits).map_or(u64::MAX, |limit| limit - 1);
            let (mut writer, mut expected) = (BitWriter::default(), Vec::new());
            for at in 0..50 {
                // What is written after an end leaves no trace.
                let end = writer.end();
                (0..at % 4).for_each(|more| writer.push(number(more * 99), bits));
                writer.rewind(end);
                writer.push(number(at), bits);
                expected.extend((0..bits).map(|bit| number(at) >> bit & 1 == 1));
                let bytes =
                    expected.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit)));
                let mut written = vec![7];
                writer.append_to(&mut written);
                assert_eq!((written[0], &written[1..]), (7, &bytes.collect::<Vec<u8>>()[..]), "{bits} bits");
                assert_eq!(writer.byte_len(), written.len() as u64 - 1);
                assert_eq!(writer.whole_bytes(), expected.len() as u64 / 64 * 8);
            }
            let bytes = expected.len().div_ceil(8);
            assert_eq!(writer.next_byte(), bytes as u64);
            assert_eq!(writer.finish().len(), bytes.next_multiple_of(8) + 8, "{bits} bits");
        }
    }
}
