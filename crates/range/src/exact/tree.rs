//! Bits with summaries: finds the next set bit in a few words, however far it is.

use crate::params::tree_bytes;

/// The levels of a tree, from the bits themselves to a level of one word. Damaged bytes cause wrong answers, but never
/// a panic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree<'a> {
    words: &'a [[u8; 8]],
    bits: u64,
}

impl<'a> Tree<'a> {
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8], bits: u64) -> Self {
        Self { words: bytes.as_chunks().0, bits }
    }

    /// Returns a word of the bits, or of the levels after them; 0 beyond the last.
    #[inline(always)]
    pub(super) fn word(self, number: u64) -> u64 {
        let word = usize::try_from(number).ok().and_then(|number| self.words.get(number));
        word.map_or(0, |&word| u64::from_le_bytes(word))
    }

    /// Returns the position of the first set bit at or after `position`.
    #[inline(always)]
    pub(super) fn first_from(self, position: u64) -> Option<u64> {
        let word = self.word(position / 64) >> (position % 64);
        if word != 0 {
            return Some(position + u64::from(word.trailing_zeros()));
        }
        self.first_in_level(0, self.bits, position)
    }

    /// Does the same in the level of `bits` bits that begins at word `start`.
    fn first_in_level(self, start: u64, bits: u64, position: u64) -> Option<u64> {
        if position >= bits {
            return None;
        }
        let word = self.word(start + position / 64) >> (position % 64);
        if word != 0 {
            return Some(position + u64::from(word.trailing_zeros()));
        }
        // The next level has a bit for each word of this one.
        let words = bits.div_ceil(64);
        if words == 1 {
            return None;
        }
        let next = self.first_in_level(start + words, words, position / 64 + 1)?;
        Some(next * 64 + u64::from(self.word(start + next).trailing_zeros()))
    }

    /// Returns the number of set bits from `position` up to the next that is not set.
    #[inline(always)]
    pub(super) fn ones_from(self, position: u64) -> u64 {
        let mut end = position;
        loop {
            let ones = u64::from((self.word(end / 64) >> (end % 64)).trailing_ones());
            end += ones;
            if ones == 0 || !end.is_multiple_of(64) {
                return end - position;
            }
        }
    }
}

/// Sets bits, and writes them with their summaries.
#[derive(Debug)]
pub(super) struct TreeWriter {
    bytes: Vec<u8>,
    words: usize,
}

impl TreeWriter {
    /// `None` if allocation fails.
    pub(super) fn new(bits: u64) -> Option<Self> {
        let (length, words) = (usize::try_from(tree_bytes(bits)).ok()?, usize::try_from(bits.div_ceil(64)).ok()?);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).ok()?;
        bytes.resize(words * 8, 0);
        Some(Self { bytes, words })
    }

    #[inline(always)]
    pub(super) fn set(&mut self, position: u64) {
        if let Some(byte) = self.bytes.get_mut((position / 8) as usize) {
            *byte |= 1 << (position % 8);
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let (mut start, mut words) = (0, self.words);
        while words > 1 {
            let level = self.bytes.get(start..).unwrap_or_default();
            let used: Vec<bool> = level.chunks(8).map(|word| word.iter().any(|&byte| byte != 0)).collect();
            let bytes = used.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit)));
            self.bytes.extend(bytes);
            start += words * 8;
            words = words.div_ceil(64);
            self.bytes.resize(start + words * 8, 0);
        }
        self.bytes
    }
}
