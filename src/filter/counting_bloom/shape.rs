//! Counters as the cells of a standard Bloom array, instead of bits.

use crate::filter::KindId;
use crate::filter::standard_bloom::{ArrayShape, Cell};

/// A position is one counter of four bits; even positions are the low half of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter;

/// The shape of a counting Bloom filter.
pub(crate) type CountingBloomShape = ArrayShape<Counter>;

impl Counter {
    /// Returns the byte of a counter, and the counter's lowest bit in it.
    pub(super) fn location(position: u64) -> (usize, u64) {
        ((position >> 1) as usize, (position & 1) * 4)
    }

    /// Returns a counter's value; 0 beyond the payload.
    pub(super) fn get(payload: &[u8], position: u64) -> u8 {
        let (byte, shift) = Self::location(position);
        payload.get(byte).map_or(0, |byte| byte >> shift & 15)
    }
}

impl Cell for Counter {
    const KIND: KindId = KindId::COUNTING_BLOOM;
    const PER_WORD_LOG2: u32 = 4;
    const PLURAL: &'static str = "counters";

    #[inline]
    fn taken(word: u64, position: u64) -> u64 {
        let counter = word >> ((position & 15) * 4);
        let halves = counter | counter >> 1;
        halves | halves >> 2
    }

    fn count_taken(payload: &[u8]) -> u64 {
        payload.iter().map(|&byte| u64::from(taken(byte).count_ones())).sum()
    }
}

/// Returns the lowest bit of each counter of a byte that is not 0.
fn taken(byte: u8) -> u8 {
    let halves = byte | byte >> 1;
    (halves | halves >> 2) & 0x11
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterShape;
    use crate::filter::standard_bloom::BloomParams;
    use crate::hash::KeyHash;

    #[test]
    fn counters_of_every_byte_are_told_apart() {
        for byte in 0..=255 {
            let halves = [byte & 15, byte >> 4];
            assert_eq!(Counter::count_taken(&[byte]), halves.into_iter().filter(|&half| half > 0).count() as u64);
            assert_eq!([0, 1].map(|position| Counter::get(&[byte], position)), halves);
            let word = u64::from(byte) << 24;
            assert_eq!(
                [6, 7].map(|position| Counter::taken(word, position) & 1),
                halves.map(|half| u64::from(half > 0))
            );
        }
    }

    #[test]
    fn a_payload_of_another_length_reads_as_may_be_present() {
        let shape = CountingBloomShape::new(BloomParams::new(10_000, 7).unwrap());
        for length in [0, 8, shape.payload_bytes() - 8, shape.payload_bytes() + 8] {
            let payload = vec![0; length as usize];
            assert!((0..1_000).all(|key| shape.may_contain(&payload, KeyHash::mix(key))), "{length}");
        }
    }
}
