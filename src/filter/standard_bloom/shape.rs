//! The shape of a block, and bits as cells.

use super::probe::{self, Cell};
use super::spread::Spread;
use crate::error::BlockError;
use crate::filter::{EncodedShape, FilterKind, FilterShape, ParamWords, probe_one_by_one};
use crate::hash::KeyHash;
use crate::kernel::line;
use crate::units::BitsPerKey;

/// Bits in a word of 8 bytes.
const BITS_PER_WORD: u64 = 64;

/// A position is one bit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bit;

impl Cell for Bit {
    const PER_WORD_LOG2: u32 = 6;

    #[inline]
    fn taken(word: u64, position: u64) -> u64 {
        word >> (position & 63)
    }
}

/// The shape of a standard Bloom filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StandardBloomShape {
    spread: Spread,
}

impl StandardBloomShape {
    pub(crate) fn new(spread: Spread) -> Self {
        Self { spread }
    }

    /// The shape for `keys` keys at `size`, of any size.
    pub(crate) fn for_keys(keys: u64, size: BitsPerKey) -> Self {
        Self::new(Spread::for_keys(keys, size))
    }

    pub(crate) fn spread(self) -> Spread {
        self.spread
    }

    pub(crate) fn bits(self) -> u64 {
        self.spread.positions()
    }

    pub(crate) fn probes(self) -> u8 {
        self.spread.probes()
    }
}

/// Ones in a payload.
pub(crate) fn ones(payload: &[u8]) -> u64 {
    let (lines, rest) = payload.as_chunks();
    let (words, bytes) = rest.as_chunks();
    let of_words: u32 = words.iter().map(|&word| u64::from_le_bytes(word).count_ones()).sum();
    let of_bytes: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
    line::ones(lines) + u64::from(of_words + of_bytes)
}

impl FilterShape for StandardBloomShape {
    const KIND: FilterKind = FilterKind::STANDARD_BLOOM;

    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        Spread::decode(encoded, BITS_PER_WORD).map(Self::new)
    }

    fn params(&self) -> ParamWords {
        self.spread.params()
    }

    fn payload_bytes(&self) -> u64 {
        self.spread.payload_bytes(BITS_PER_WORD)
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        self.spread.expected_fpr(keys)
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        vec![("bits", self.bits().to_string()), ("probes", self.probes().to_string())]
    }

    /// Ones over bits.
    fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        Some((ones(payload) as f64 / self.bits() as f64).min(1.0))
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        payload.len() as u64 != self.payload_bytes() || probe::may_contain::<Bit>(self.spread, payload, hash)
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        if payload.len() as u64 == self.payload_bytes() {
            probe::may_contain_batch::<Bit>(self.spread, payload, hashes, hits);
        } else {
            probe_one_by_one(self, payload, hashes, hits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_another_length_reads_as_may_be_present() {
        let shape = StandardBloomShape::for_keys(1_000, BitsPerKey::TEN);
        for length in [0, 8, shape.payload_bytes() - 8, shape.payload_bytes() + 8] {
            let payload = vec![0; length as usize];
            assert!((0..1_000).all(|key| shape.may_contain(&payload, KeyHash::from_remixed(key))), "{length}");
        }
    }

    #[test]
    fn ones_are_counted_in_every_byte() {
        for length in [0, 1, 7, 8, 64, 65, 200] {
            assert_eq!(ones(&vec![0x81; length]), 2 * length as u64);
        }
    }
}
