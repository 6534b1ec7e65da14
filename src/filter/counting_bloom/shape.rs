//! The shape of a block, and counters as cells.

use crate::error::BlockError;
use crate::filter::standard_bloom::{Cell, Spread, may_contain, may_contain_batch};
use crate::filter::{EncodedShape, FilterKind, FilterShape, ParamWords, probe_one_by_one};
use crate::hash::KeyHash;

/// Counters in a word of 8 bytes.
const COUNTERS_PER_WORD: u64 = 16;

/// A position is one counter of four bits, the first of a byte in its low half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter;

impl Counter {
    /// Where a counter is: its byte, and its lowest bit in it.
    pub(super) fn place(position: u64) -> (usize, u64) {
        ((position >> 1) as usize, (position & 1) * 4)
    }

    /// What a counter has counted; nothing beyond the payload.
    pub(super) fn get(payload: &[u8], position: u64) -> u8 {
        let (byte, shift) = Self::place(position);
        payload.get(byte).map_or(0, |byte| byte >> shift & 15)
    }
}

impl Cell for Counter {
    const PER_WORD_LOG2: u32 = 4;

    #[inline]
    fn taken(word: u64, position: u64) -> u64 {
        let counter = word >> ((position & 15) * 4);
        let halves = counter | counter >> 1;
        halves | halves >> 2
    }
}

/// The shape of a counting Bloom filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountingBloomShape {
    spread: Spread,
}

impl CountingBloomShape {
    pub(crate) fn new(spread: Spread) -> Self {
        Self { spread }
    }

    pub(crate) fn spread(self) -> Spread {
        self.spread
    }

    pub(crate) fn counters(self) -> u64 {
        self.spread.positions()
    }
}

/// Bit 0 of each counter of a byte that is not 0, and of each that is 15.
pub(super) fn taken_and_saturated(byte: u8) -> (u8, u8) {
    let (halves, quarters) = (byte | byte >> 1, byte & byte >> 1);
    ((halves | halves >> 2) & 0x11, quarters & quarters >> 2 & 0x11)
}

/// Counters that are not 0.
pub(super) fn taken(payload: &[u8]) -> u64 {
    payload.iter().map(|&byte| u64::from(taken_and_saturated(byte).0.count_ones())).sum()
}

impl FilterShape for CountingBloomShape {
    const KIND: FilterKind = FilterKind::COUNTING_BLOOM;

    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        Spread::decode(encoded, COUNTERS_PER_WORD).map(Self::new)
    }

    fn params(&self) -> ParamWords {
        self.spread.params()
    }

    fn payload_bytes(&self) -> u64 {
        self.spread.payload_bytes(COUNTERS_PER_WORD)
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        self.spread.expected_fpr(keys)
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        vec![("counters", self.counters().to_string()), ("probes", self.spread.probes().to_string())]
    }

    /// Counters in use over counters.
    fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        Some((taken(payload) as f64 / self.counters() as f64).min(1.0))
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        payload.len() as u64 != self.payload_bytes() || may_contain::<Counter>(self.spread, payload, hash)
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        if payload.len() as u64 == self.payload_bytes() {
            may_contain_batch::<Counter>(self.spread, payload, hashes, hits);
        } else {
            probe_one_by_one(self, payload, hashes, hits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_every_byte_are_told_apart() {
        for byte in 0..=255 {
            let halves = [byte & 15, byte >> 4];
            let count = |wanted: fn(u8) -> bool| halves.into_iter().filter(|&half| wanted(half)).count() as u32;
            let (taken, saturated) = taken_and_saturated(byte);
            assert_eq!(
                (taken.count_ones(), saturated.count_ones()),
                (count(|half| half > 0), count(|half| half == 15))
            );
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
        let shape = CountingBloomShape::new(Spread::new(10_000, 7).unwrap());
        for length in [0, 8, shape.payload_bytes() - 8, shape.payload_bytes() + 8] {
            let payload = vec![0; length as usize];
            assert!((0..1_000).all(|key| shape.may_contain(&payload, KeyHash::from_remixed(key))), "{length}");
        }
    }
}
