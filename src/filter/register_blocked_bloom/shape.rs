//! Sizes and stored payloads.

use alloc::string::ToString;

use super::layout::{self, PROBES, code_of};
use super::rate::{self, Fill};
use crate::error::{BlockError, ConfigError};
use crate::filter::{EncodedShape, FilterShape, ParamWords, ShapeFields, batch};
use crate::hash::KeyHash;
use crate::ids::KindId;
use crate::units::FalsePositiveRate;

/// The size of the smallest filter: one cache line.
const MIN_BYTES: u64 = 64;

/// The size of the largest filter. The index takes more bits of the hash for each size; up to here they do not overlap
/// the 24 that choose the bits in the word, with room to spare.
pub(super) const MAX_BYTES: u64 = 1 << 30;

/// The largest size of a filter that is planned for a rate. At most four bits in a word reach a low rate only by size:
/// a tenth of the rate takes nearly twice the size. 1,000 bits per key, ten times the maximum of any other Bloom
/// filter, are reached at about 10^-6; without a limit, 10^-9 would take a GiB for some hundred keys.
const MAX_BITS_PER_KEY: u64 = 1_000;

/// The largest filter of `keys` keys, in bytes.
pub(super) fn max_bytes(keys: u64) -> u64 {
    (keys.saturating_mul(MAX_BITS_PER_KEY) / 8).clamp(MIN_BYTES, MAX_BYTES)
}

const fn too_low(min: f64, rate: FalsePositiveRate) -> ConfigError {
    ConfigError::RateOutOfRange { kind: KindId::REGISTER_BLOCKED_BLOOM, min, max: 1.0, got: rate.get() }
}

/// The shape of a register-blocked Bloom filter: its size and the number of bits of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterBlockedShape {
    pub(super) probes: u8,
    /// The binary logarithm of the number of words. With a power of two, a word's index is one shift of the hash.
    pub(super) index_bits: u32,
}

impl RegisterBlockedShape {
    /// Returns the shape of a filter of `bytes` bytes, or the reason why there is none.
    pub(crate) fn new(bytes: u64, probes: u8) -> Result<Self, ConfigError> {
        if !PROBES.contains(&probes) {
            return Err(ConfigError::out_of_range("probes of a register-blocked bloom filter", "2 to 4", probes));
        }
        let (option, expected) =
            ("size of a register-blocked bloom filter", "a power of two of bytes, from 64 to 2^30");
        Self::of_bytes(bytes, probes).ok_or(ConfigError::out_of_range(option, expected, bytes))
    }

    /// Returns the smallest size at which `keys` distinct keys have an expected rate of at most `rate`, if one within
    /// [`max_bytes`] has.
    pub(super) fn with_probes_for_rate(keys: u64, rate: FalsePositiveRate, probes: u8) -> Option<Self> {
        let sizes = MIN_BYTES.ilog2()..=max_bytes(keys).ilog2();
        let mut sizes = sizes.filter_map(|bits| Self::of_bytes(1 << bits, probes));
        sizes.find(|shape| shape.expected_fpr(keys) <= rate.get())
    }

    /// Returns the smallest size that reaches `rate` with any number of probes, with the fewest probes that reach it
    /// there.
    pub(crate) fn for_rate(keys: u64, rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        let fitting = PROBES.filter_map(|probes| Self::with_probes_for_rate(keys, rate, probes));
        // `min_by_key` returns the first of equal sizes: the one with the fewest probes.
        fitting.min_by_key(|shape| shape.index_bits).ok_or_else(|| too_low(Self::min_fpr(keys), rate))
    }

    /// Returns the lowest rate of `keys` keys.
    fn min_fpr(keys: u64) -> f64 {
        let largest = PROBES.filter_map(|probes| Self::of_bytes(1 << max_bytes(keys).ilog2(), probes));
        largest.map(|shape| shape.expected_fpr(keys)).fold(1.0, f64::min)
    }

    /// Returns an error for a rate that no number of keys reaches.
    pub(super) fn check_rate(rate: FalsePositiveRate) -> Result<(), ConfigError> {
        // The fewest keys that may have each size.
        let keys = (MIN_BYTES.ilog2()..=MAX_BYTES.ilog2()).map(|bits| (8_u64 << bits).div_ceil(MAX_BITS_PER_KEY));
        let min = keys.map(Self::min_fpr).fold(1.0, f64::min);
        if rate.get() < min { Err(too_low(min, rate)) } else { Ok(()) }
    }

    /// Returns `None` when `bytes` is not a power of two, or out of range.
    pub(super) fn of_bytes(bytes: u64, probes: u8) -> Option<Self> {
        let is_size = bytes.is_power_of_two() && (MIN_BYTES..=MAX_BYTES).contains(&bytes);
        is_size.then(|| Self { probes, index_bits: (bytes / 8).ilog2() })
    }

    pub(super) const fn words(self) -> u64 {
        1 << self.index_bits
    }

    pub(super) const fn bits(self) -> u64 {
        self.words() * 64
    }

    /// Returns the payload's words, if there are exactly as many as the shape has.
    #[inline]
    fn payload_words(self, payload: &[u8]) -> Option<&[[u8; 8]]> {
        let (words, rest) = payload.as_chunks();
        // Only the exact length, because probes index by the number of words of the shape.
        (rest.is_empty() && words.len() as u64 == self.words()).then_some(words)
    }
}

impl FilterShape for RegisterBlockedShape {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let [code] = encoded.words("1 for register-blocked Bloom")?;
        let expected = "2, 3 or 4 bits in 64 (bits + 256 * 64)";
        // Compares the whole word, because no other word width is supported.
        let probes = PROBES.into_iter().find(|&probes| code_of(probes) == code);
        let probes = probes.ok_or(BlockError::field("word layout", expected, code))?;
        BlockError::require(encoded.salt == 0, "salt", "0 for register-blocked Bloom", encoded.salt)?;
        let wrong = BlockError::field("payload bytes", "a power of two from 64 to 2^30", encoded.payload_bytes);
        Self::of_bytes(encoded.payload_bytes, probes).ok_or(wrong)
    }

    fn bits_of_key(&self) -> Option<u8> {
        Some(self.probes)
    }

    fn params(&self) -> ParamWords {
        [code_of(self.probes)].into_iter().collect()
    }

    fn payload_bytes(&self) -> u64 {
        self.words() * 8
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        rate::of_keys(keys, self.words(), self.probes)
    }

    fn describe(&self) -> ShapeFields {
        vec![("words", self.words().to_string()), ("bits per key", self.probes.to_string())]
    }

    fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        let words = payload.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
        Some(Fill::of_words(words, self.probes).ones as f64 / self.bits() as f64)
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        let words = self.payload_words(payload);
        words.is_none_or(|words| layout::contains(words, self.index_bits, self.probes, hash))
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        match self.payload_words(payload) {
            Some(words) => layout::contains_batch(words, self.index_bits, self.probes, hashes, matches),
            None => batch::all_match(hashes, matches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(params: &[u32], payload_bytes: u64) -> EncodedShape {
        EncodedShape { params: params.iter().copied().collect(), salt: 0, keys: 0, payload_bytes }
    }

    #[test]
    fn sizes_that_are_no_power_of_two_or_out_of_range_are_refused() {
        let with = |bytes| RegisterBlockedShape::new(bytes, 2);
        for bytes in (6..=30).map(|bits| 1_u64 << bits) {
            assert_eq!(with(bytes).unwrap().payload_bytes(), bytes);
        }
        for bytes in [0, 1, 32, 63, 65, 96, 100_000, (1 << 18) + 1, 1 << 31, 1 << 63, u64::MAX] {
            let error = with(bytes).unwrap_err();
            assert!(error.to_string().ends_with(&format!("from 64 to 2^30, got {bytes}")), "{error}");
        }
    }

    #[test]
    fn the_size_for_a_rate_is_the_least_power_of_two_that_keeps_to_it() {
        let one_percent = FalsePositiveRate::ONE_PERCENT;
        for probes in PROBES {
            let shape_for = |keys| RegisterBlockedShape::with_probes_for_rate(keys, one_percent, probes);
            for keys in [0, 1, 1_000, 100_000, 1_000_000] {
                let found = shape_for(keys).unwrap();
                assert!(found.expected_fpr(keys) <= 0.01 && found.probes == probes);
                let half = RegisterBlockedShape::new(found.payload_bytes() / 2, probes);
                assert!(!half.is_ok_and(|half| half.expected_fpr(keys) <= 0.01), "{probes}, {keys} keys");
            }
            assert_eq!([1 << 32, u64::MAX].map(shape_for), [None, None]);
        }
    }

    #[test]
    fn without_a_layout_the_smallest_filter_is_chosen_and_of_equal_ones_the_fastest() {
        let shape_for = |keys| RegisterBlockedShape::for_rate(keys, FalsePositiveRate::ONE_PERCENT);
        assert_eq!(shape_for(1_000).unwrap(), RegisterBlockedShape::new(2_048, 3).unwrap());
        assert_eq!(shape_for(90_000).unwrap(), RegisterBlockedShape::new(256 << 10, 2).unwrap());
        let refused = shape_for(1 << 32);
        assert!(matches!(refused, Err(ConfigError::RateOutOfRange { min, .. }) if min > 0.4), "{refused:?}");
    }

    #[test]
    fn a_rate_takes_at_most_a_thousand_bits_per_key_and_the_error_says_which_rate_does() {
        for keys in [1, 2, 8, 9, 33, 1_000, 1 << 20, 1 << 23] {
            for rate in [1e-4, 1e-6, 1e-9, 1e-12] {
                let shape_for = |rate| RegisterBlockedShape::for_rate(keys, FalsePositiveRate::new(rate).unwrap());
                let (shape, target) = match shape_for(rate) {
                    Ok(shape) => (shape, rate),
                    Err(ConfigError::RateOutOfRange { min, .. }) => (shape_for(min).unwrap(), min),
                    other => panic!("{other:?}"),
                };
                assert!(shape.payload_bytes() <= (keys * 125).max(64), "{keys} keys: {shape:?}");
                assert!(
                    shape.expected_fpr(keys) <= target && target <= rate.max(4e-6),
                    "{keys} keys at {rate}: {target}"
                );
            }
        }
    }

    #[test]
    fn any_number_of_keys_has_a_rate_and_a_size_or_is_refused() {
        let numbers = || (0..64).flat_map(|log2| [(1_u64 << log2) - 1, 1 << log2, (1 << log2) + 1]);
        for probes in PROBES {
            let largest = RegisterBlockedShape::new(1 << 30, probes).unwrap();
            let rates: Vec<f64> = numbers().map(|keys| largest.expected_fpr(keys)).collect();
            assert!(
                rates.iter().all(|rate| (0.0..=1.0).contains(rate)) && rates.last().is_some_and(|&rate| rate > 0.999)
            );
            for keys in numbers() {
                match RegisterBlockedShape::with_probes_for_rate(keys, FalsePositiveRate::ONE_PERCENT, probes) {
                    Some(shape) => assert!(shape.expected_fpr(keys) <= 0.01 && keys < 1 << 30),
                    None => assert!(keys > 1 << 28),
                }
            }
        }
    }

    #[test]
    fn what_no_writer_writes_is_refused_with_the_field_named() {
        let field_of = |encoded: EncodedShape| match RegisterBlockedShape::decode(&encoded) {
            Err(BlockError::Field { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field_of(encoded(&[], 64)), "parameter words");
        assert_eq!(field_of(encoded(&[0x4002, 0], 64)), "parameter words");
        for code in [0, 2, 0x2001, 0x2002, 0x4001, 0x4005, 0x1_4002] {
            assert_eq!(field_of(encoded(&[code], 64)), "word layout");
        }
        assert_eq!(field_of(EncodedShape { salt: 1, ..encoded(&[0x4002], 64) }), "salt");
        for bytes in [0, 8, 32, 72, 192, 1 << 31, 1 << 34] {
            assert_eq!(field_of(encoded(&[0x4002], bytes)), "payload bytes");
        }
    }

    #[test]
    fn a_shape_is_decoded_from_what_it_encodes() {
        for probes in PROBES {
            for bytes in [64, 1 << 18, 1 << 30] {
                let shape = RegisterBlockedShape::new(bytes, probes).unwrap();
                assert_eq!(RegisterBlockedShape::decode(&shape.encode(0)), Ok(shape));
                assert_eq!(shape.payload_bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_payload_of_another_length_reads_as_may_be_present() {
        let shape = RegisterBlockedShape::new(256, 2).unwrap();
        let hashes: Vec<KeyHash> = (0..100).map(KeyHash::mix).collect();
        for length in [0, 1, 64, 255, 257, 263, 264, 512] {
            let (payload, mut matches) = (vec![0; length], vec![0; 2]);
            assert!(hashes.iter().all(|&hash| shape.may_contain(&payload, hash)), "{length}");
            shape.may_contain_batch(&payload, &hashes, &mut matches);
            assert!((0..100).all(|index| matches[index / 64] >> (index % 64) & 1 == 1));
        }
    }
}
