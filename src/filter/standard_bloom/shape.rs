//! The shape of a standard or counting Bloom block, and its probes.
//!
//! In a full filter half of all absent keys fail at the first probe, and the CPU cannot predict which: an exit after
//! each probe would cost a branch misprediction per key. So the first few probes are combined without a branch between
//! them. One absent key in sixteen continues to the remaining probes, which are also combined.

use alloc::string::ToString;
use core::marker::PhantomData;

use super::params::{BloomParams, MAX_PROBES, with_probes};
use crate::error::BlockError;
use crate::filter::batch::{answers, answers_ahead};
use crate::filter::blocked_bloom::line;
use crate::filter::cache::PROBE_PREFETCH_BYTES;
use crate::filter::dynamic::{GrowingShape, InMemory};
use crate::filter::health::FilterHealth;
use crate::filter::words::Word;
use crate::filter::{EncodedShape, FilterShape, KindId, ParamWords, ShapeFields, batch, power};
use crate::hash::KeyHash;
use crate::kernel::prefetch::prefetch;
use crate::units::BitsPerKey;

/// Probes before the first branch. With 3, one absent key in eight mispredicts; with 5, every key pays for a load that
/// few need.
const TOGETHER: u8 = 4;

/// The cell at a position of a payload: a bit or a counter.
pub(crate) trait Cell: Copy + core::fmt::Debug + Send + Sync + 'static {
    /// The kind whose filters have such cells.
    const KIND: KindId;
    /// The binary logarithm of the positions in a word of 8 bytes.
    const PER_WORD_LOG2: u32;
    /// The name of the cells, in the plural.
    const PLURAL: &'static str;

    /// Bit 0 of the result is 1 if a position within its word is taken; the other bits have no meaning.
    fn taken(word: u64, position: u64) -> u64;

    /// Counts the taken positions of a payload.
    fn count_taken(payload: &[u8]) -> u64;

    /// Returns the word of a position.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one shift of a loop over keys")]
    #[expect(clippy::cast_possible_truncation, reason = "the payload is in memory, and its words in it")]
    fn word_of(position: u64) -> usize {
        (position >> Self::PER_WORD_LOG2) as usize
    }
}

/// A position is one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bit;

impl Cell for Bit {
    const KIND: KindId = KindId::STANDARD_BLOOM;
    const PER_WORD_LOG2: u32 = 6;
    const PLURAL: &'static str = "bits";

    #[inline]
    fn taken(word: u64, position: u64) -> u64 {
        word >> (position & 63)
    }

    fn count_taken(payload: &[u8]) -> u64 {
        let (lines, rest) = payload.as_chunks();
        line::ones(lines) + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
    }
}

/// The shape of a Bloom filter whose keys have positions anywhere in an array of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrayShape<C> {
    pub(crate) params: BloomParams,
    cells: PhantomData<C>,
}

/// The shape of a standard Bloom filter.
pub(crate) type StandardBloomShape = ArrayShape<Bit>;

impl<C: Cell> ArrayShape<C> {
    const POSITIONS_PER_WORD: u64 = 1 << C::PER_WORD_LOG2;

    pub(crate) fn new(params: BloomParams) -> Self {
        Self { params, cells: PhantomData }
    }

    /// Returns the shape for `keys` keys at `size`, without a limit.
    pub(crate) fn for_keys(keys: u64, size: BitsPerKey) -> Self {
        Self::new(BloomParams::for_keys(keys, size))
    }

    /// Returns the bits of the last word that belong to positions.
    pub(super) fn mask_of_last(self) -> u64 {
        let unused = self.payload_bytes() / 8 * Self::POSITIONS_PER_WORD - self.params.positions;
        u64::MAX >> (unused * (64 / Self::POSITIONS_PER_WORD))
    }

    /// Returns the share of positions that are taken.
    fn fill_of(self, payload: &[u8]) -> f64 {
        C::count_taken(payload) as f64 / self.params.positions as f64
    }
}

impl<C: Cell> FilterShape for ArrayShape<C> {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let [low, high] = encoded.words("2 for standard and counting Bloom")?;
        BlockError::require(encoded.salt == 0, "salt", "0 for standard and counting Bloom", encoded.salt)?;
        let probes = u8::try_from(high >> 8).unwrap_or(u8::MAX);
        BlockError::require((1..=MAX_PROBES).contains(&probes), "probes", "1 to 32", high >> 8)?;
        let positions = u64::from(high & 0xff) << 32 | u64::from(low);
        let shape = Self::new(BloomParams { positions, probes });
        let is_whole = positions > 0 && shape.payload_bytes() == encoded.payload_bytes;
        BlockError::require(is_whole, "positions", "1 or more, exactly enough to fill the payload's words", positions)?;
        Ok(shape)
    }

    fn bits_of_key(&self) -> Option<u8> {
        (C::KIND == KindId::STANDARD_BLOOM).then_some(self.params.probes)
    }

    /// Packs positions and probes into one word of 64 bits, low half first; the probes are its sixth byte.
    fn params(&self) -> ParamWords {
        let word = self.params.positions | u64::from(self.params.probes) << 40;
        #[expect(clippy::cast_possible_truncation, reason = "its halves")]
        [word as u32, (word >> 32) as u32].into_iter().collect()
    }

    fn payload_bytes(&self) -> u64 {
        self.params.positions.div_ceil(Self::POSITIONS_PER_WORD) * 8
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        self.params.expected_fpr(keys)
    }

    fn describe(&self) -> ShapeFields {
        vec![(C::PLURAL, self.params.positions.to_string()), ("probes", self.params.probes.to_string())]
    }

    fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        Some(self.fill_of(payload).min(1.0))
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        let (params, (words, _)) = (self.params, payload.as_chunks::<8>());
        // A payload of another length must not make a present key absent.
        payload.len() as u64 != self.payload_bytes() || contains_any::<C, _>(params, words, hash)
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        if payload.len() as u64 == self.payload_bytes() {
            contains_batch::<C, _>(self.params, payload.as_chunks::<8>().0, hashes, matches);
        } else {
            batch::all_match(hashes, matches);
        }
    }
}

impl<C: Cell> GrowingShape for ArrayShape<C> {
    const KIND: KindId = C::KIND;

    /// Computed from the actual fill; reads the whole filter.
    fn health(&self, keys: u64, payload: &[u8]) -> FilterHealth {
        let fill_ratio = self.fill_of(payload);
        FilterHealth::of_bloom(keys, fill_ratio, power(fill_ratio, self.params.probes))
    }

    /// Clears the positions after the last, which no writer sets: their bits would count as taken.
    fn accept(&self, _keys: u64, payload: &mut [u8]) -> Result<(), BlockError> {
        if let Some(last) = payload.last_chunk_mut::<8>() {
            *last = (u64::from_le_bytes(*last) & self.mask_of_last()).to_le_bytes();
        }
        Ok(())
    }
}

impl<C: Cell> InMemory<ArrayShape<C>> {
    /// Returns the number of distinct keys that most likely took this many positions. Reads the whole filter.
    pub(crate) fn estimated_keys(&self) -> u64 {
        self.shape.params.estimated_keys(C::count_taken(self.bytes()))
    }
}

/// Returns whether all positions of `hash` are taken, with any number of probes.
#[inline]
pub(super) fn contains_any<C: Cell, W: Word>(params: BloomParams, words: &[W], hash: KeyHash) -> bool {
    with_probes!(params, PROBES => contains::<C, W, PROBES>(params, words, hash))
}

/// Like [`contains_any`], for many keys: sets bit `i % 64` of word `i / 64` of `matches` to the answer for hash `i`.
pub(super) fn contains_batch<C: Cell, W: Word>(
    params: BloomParams,
    words: &[W],
    hashes: &[KeyHash],
    matches: &mut [u64],
) {
    let is_near = words.len() * 8 <= PROBE_PREFETCH_BYTES;
    // Prefetches only the first few cells, because the later ones are rarely reached.
    let prefetch = |hash| prefetch_cells::<C, W>(params, words, hash, params.probes.min(TOGETHER), prefetch);
    with_probes!(params, PROBES => {
        if is_near {
            answers(hashes, matches, |hash| contains::<C, W, PROBES>(params, words, hash));
        } else {
            answers_ahead(hashes, matches, prefetch, |hash| contains::<C, W, PROBES>(params, words, hash));
        }
    });
}

/// Returns whether all positions of `hash` are taken.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of loops over keys")]
fn contains<C: Cell, W: Word, const PROBES: u8>(params: BloomParams, words: &[W], hash: KeyHash) -> bool {
    let probes = params.probes_or::<PROBES>();
    let mut sequence = params.sequence(hash);
    let mut taken = 1;
    for _ in 0..probes.min(TOGETHER) {
        taken &= taken_at::<C, W>(words, sequence.next());
    }
    if taken & 1 == 1 {
        for _ in TOGETHER..probes {
            taken &= taken_at::<C, W>(words, sequence.next());
        }
    }
    taken & 1 == 1
}

/// Returns [`Cell::taken`] at a position; all ones beyond the payload.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of loops over keys")]
fn taken_at<C: Cell, W: Word>(words: &[W], position: u64) -> u64 {
    words.get(C::word_of(position)).map_or(u64::MAX, |word| C::taken(word.value(), position))
}

/// Prefetches the first `probes` cells of a key, each by `prefetch`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of a loop over keys")]
pub(super) fn prefetch_cells<C: Cell, W>(
    params: BloomParams,
    words: &[W],
    hash: KeyHash,
    probes: u8,
    prefetch: impl Fn(*const W),
) {
    let mut sequence = params.sequence(hash);
    for _ in 0..probes {
        prefetch(words.as_ptr().wrapping_add(C::word_of(sequence.next())));
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
            assert!((0..1_000).all(|key| shape.may_contain(&payload, KeyHash::mix(key))), "{length}");
        }
    }

    #[test]
    fn params_round_trip_and_lies_are_refused() {
        for (positions, probes) in [(1, 1), (64, 7), (1_000, 3), (10 << 32, 32)] {
            let shape = StandardBloomShape::new(BloomParams::new(positions, probes).unwrap());
            let (encoded, payload_bytes) = (shape.encode(5), shape.payload_bytes());
            assert_eq!(StandardBloomShape::decode(&encoded), Ok(shape));
            for payload_bytes in [0, payload_bytes - 8, payload_bytes + 8] {
                assert!(StandardBloomShape::decode(&EncodedShape { payload_bytes, ..encoded }).is_err());
            }
            assert!(StandardBloomShape::decode(&EncodedShape { salt: 1, ..encoded }).is_err());
        }
        for words in [&[64, 0][..], &[64, 33 << 8], &[64, 1 << 16 | 1 << 8], &[0, 1 << 8], &[64], &[64, 1 << 8, 0], &[]]
        {
            let encoded = EncodedShape { params: words.iter().copied().collect(), salt: 0, keys: 1, payload_bytes: 8 };
            assert!(StandardBloomShape::decode(&encoded).is_err(), "{words:?}");
        }
    }

    #[test]
    fn ones_are_counted_in_every_byte() {
        for length in [0, 1, 7, 8, 64, 65, 200] {
            assert_eq!(Bit::count_taken(&vec![0x81; length]), 2 * length as u64);
        }
    }
}
