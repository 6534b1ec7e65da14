//! Sizing, and probing a stored payload.

use super::layout::WordLayout;
use super::{probe, rate};
use crate::error::{BlockError, ConfigError};
use crate::filter::{EncodedShape, FilterKind, FilterShape, ParamWords, probe_one_by_one};
use crate::hash::KeyHash;
use crate::units::FalsePositiveRate;

/// Bytes of the smallest filter: one cache line.
const MIN_BYTES: u64 = 64;

/// Bytes of the largest filter.
const MAX_BYTES: u64 = 1 << 30;

/// Bytes of the usual filter: within the second level of cache, and Floe's size.
const DEFAULT_BYTES: u64 = 256 << 10;

/// The shape of a two-bit Bloom filter: its size and the layout of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TwoBitShape {
    layout: WordLayout,
    /// Logarithm of the number of machine words.
    index_bits: u32,
}

impl TwoBitShape {
    /// `None` when `bytes` is not a power of two, or out of range.
    fn new(bytes: u64, layout: WordLayout) -> Option<Self> {
        let is_size = bytes.is_power_of_two() && (MIN_BYTES..=MAX_BYTES).contains(&bytes);
        is_size.then(|| Self { layout, index_bits: (bytes / 8).ilog2() })
    }

    pub(super) const fn layout(self) -> WordLayout {
        self.layout
    }

    pub(super) const fn index_bits(self) -> u32 {
        self.index_bits
    }

    /// Words of 64 bits, whatever the layout's.
    pub(super) const fn machine_words(self) -> u64 {
        1 << self.index_bits
    }

    /// Words of the layout's width.
    pub(super) fn words(self) -> u64 {
        self.machine_words() * 64 / u64::from(self.layout.word_bits())
    }

    pub(super) fn bits(self) -> u64 {
        self.machine_words() * 64
    }

    /// The payload's machine words, if it has as many as the shape, and nothing else.
    #[inline]
    fn payload_words(self, payload: &[u8]) -> Option<&[[u8; 8]]> {
        let (words, rest) = payload.as_chunks();
        (rest.is_empty() && words.len() as u64 == self.machine_words()).then_some(words)
    }
}

impl FilterShape for TwoBitShape {
    const KIND: FilterKind = FilterKind::TWO_BIT_BLOOM;

    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let field = |field, expected, got| BlockError::Field { field, expected, got };
        let &[code] = encoded.params.as_slice() else {
            return Err(field("parameter words", "1 for two-bit Bloom", encoded.params.count().into()));
        };
        let expected = "2, 3 or 4 bits in 64, or 1 or 2 in 32 (bits + 256 * width)";
        let layout = WordLayout::from_code(code).ok_or(field("word layout", expected, code.into()))?;
        if encoded.salt != 0 {
            return Err(field("salt", "0 for two-bit Bloom", encoded.salt.into()));
        }
        let expected = "a power of two from 64 to 2^30";
        Self::new(encoded.payload_bytes, layout).ok_or(field("payload bytes", expected, encoded.payload_bytes))
    }

    fn params(&self) -> ParamWords {
        [self.layout.code()].into_iter().collect()
    }

    fn payload_bytes(&self) -> u64 {
        self.machine_words() * 8
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        rate::of_keys(keys, self.words(), self.layout)
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        vec![
            ("words", self.words().to_string()),
            ("word bits", self.layout.word_bits().to_string()),
            ("bits per key", self.layout.bits_per_key().to_string()),
        ]
    }

    fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        let words = payload.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
        Some(rate::of_words(words, self.layout).ones as f64 / self.bits() as f64)
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        self.payload_words(payload).is_none_or(|words| probe::contains(words, *self, hash))
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        match self.payload_words(payload) {
            Some(words) => probe::contains_batch(words, *self, hashes, hits),
            None => probe_one_by_one(self, payload, hashes, hits),
        }
    }
}

/// What a [`TwoBitBloom`](super::TwoBitBloom) is to be: 256 KiB in words of 64 bits, two bits per key, unless said
/// otherwise.
///
/// ```
/// use sstfilter::{FalsePositiveRate, TwoBitOptions, WordLayout};
///
/// let options = TwoBitOptions::default().with_bytes(1 << 20)?;
/// assert!((0.0532..0.0534).contains(&options.expected_fpr(1 << 20)));
/// // Or by what is to come: the smallest power of two that keeps to a rate.
/// let four = TwoBitOptions::default().with_layout(WordLayout::FourBits);
/// assert_eq!(four.with_room_for(500_000, FalsePositiveRate::ONE_PERCENT)?.bytes(), 1 << 20);
/// assert!(options.with_bytes(1_000_000).is_err());
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoBitOptions {
    shape: TwoBitShape,
}

impl Default for TwoBitOptions {
    fn default() -> Self {
        Self { shape: TwoBitShape { layout: WordLayout::default(), index_bits: (DEFAULT_BYTES / 8).ilog2() } }
    }
}

impl TwoBitOptions {
    /// The size, which the filter then keeps.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] unless `bytes` is a power of two from 64 to 2^30.
    pub fn with_bytes(self, bytes: u64) -> Result<Self, ConfigError> {
        let expected = "a power of two of bytes, from 64 to 2^30";
        let error = ConfigError::OutOfRange { option: "size of a two-bit bloom filter", expected, got: bytes };
        Ok(Self { shape: TwoBitShape::new(bytes, self.shape.layout).ok_or(error)? })
    }

    /// How a key's bits lie in its word.
    #[must_use]
    pub const fn with_layout(self, layout: WordLayout) -> Self {
        Self { shape: TwoBitShape { layout, index_bits: self.shape.index_bits } }
    }

    /// The smallest size at which `keys` distinct keys let at most `rate` of absent ones through, in the layout set
    /// so far.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] when 2^30 bytes do not.
    pub fn with_room_for(self, keys: u64, rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        let sizes = (MIN_BYTES.ilog2()..=MAX_BYTES.ilog2()).map(|bits| self.with_bytes(1 << bits));
        let is_enough = |options: &Self| options.expected_fpr(keys) <= rate.get();
        let expected = "as many as 2^30 bytes hold at the rate; take another kind, or split the keys";
        let error = ConfigError::OutOfRange { option: "keys of a two-bit bloom filter", expected, got: keys };
        sizes.flatten().find(is_enough).ok_or(error)
    }

    /// The size.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.shape.payload_bytes()
    }

    /// How a key's bits lie in its word.
    #[must_use]
    pub const fn layout(self) -> WordLayout {
        self.shape.layout
    }

    /// The share of absent keys that such a filter lets through with `keys` distinct keys.
    #[must_use]
    pub fn expected_fpr(&self, keys: u64) -> f64 {
        self.shape.expected_fpr(keys)
    }

    pub(crate) const fn shape(self) -> TwoBitShape {
        self.shape
    }

    pub(super) const fn of_shape(shape: TwoBitShape) -> Self {
        Self { shape }
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
        let with = |bytes| TwoBitOptions::default().with_bytes(bytes);
        for bytes in (6..=30).map(|bits| 1_u64 << bits) {
            assert_eq!(with(bytes).unwrap().bytes(), bytes);
        }
        for bytes in [0, 1, 32, 63, 65, 96, 100_000, (1 << 18) + 1, 1 << 31, 1 << 63, u64::MAX] {
            let error = with(bytes).unwrap_err();
            assert!(error.to_string().ends_with(&format!("from 64 to 2^30, got {bytes}")), "{error}");
        }
    }

    #[test]
    fn room_is_the_least_power_of_two_that_keeps_to_the_rate() {
        let one_percent = FalsePositiveRate::ONE_PERCENT;
        for layout in WordLayout::ALL {
            let options = TwoBitOptions::default().with_layout(layout);
            for keys in [0, 1, 1_000, 100_000, 1_000_000] {
                let found = options.with_room_for(keys, one_percent).unwrap();
                assert!(found.expected_fpr(keys) <= 0.01 && found.layout() == layout);
                let is_too_much = found.with_bytes(found.bytes() / 2).is_ok_and(|half| half.expected_fpr(keys) <= 0.01);
                assert!(!is_too_much, "{layout:?}, {keys} keys");
            }
            assert!(options.with_room_for(1 << 32, one_percent).is_err());
            assert!(options.with_room_for(u64::MAX, one_percent).is_err());
        }
    }

    #[test]
    fn what_no_writer_writes_is_refused_with_the_field_named() {
        let field_of = |encoded: EncodedShape| match TwoBitShape::decode(&encoded) {
            Err(BlockError::Field { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field_of(encoded(&[], 64)), "parameter words");
        assert_eq!(field_of(encoded(&[0x4002, 0], 64)), "parameter words");
        assert_eq!(field_of(encoded(&[0x4005], 64)), "word layout");
        assert_eq!(field_of(encoded(&[0x1_4002], 64)), "word layout");
        assert_eq!(field_of(EncodedShape { salt: 1, ..encoded(&[0x4002], 64) }), "salt");
        for bytes in [0, 8, 32, 72, 192, 1 << 31, 1 << 34] {
            assert_eq!(field_of(encoded(&[0x4002], bytes)), "payload bytes");
        }
    }

    #[test]
    fn a_shape_is_decoded_from_what_it_encodes() {
        for layout in WordLayout::ALL {
            for bytes in [64, 1 << 18, 1 << 30] {
                let shape = TwoBitShape::new(bytes, layout).unwrap();
                assert_eq!(TwoBitShape::decode(&shape.encode(0)), Ok(shape));
                assert_eq!(shape.payload_bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_payload_of_another_length_reads_as_may_be_present() {
        let shape = TwoBitShape::new(256, WordLayout::TwoBits).unwrap();
        let hashes: Vec<KeyHash> = (0..100).map(KeyHash::from_remixed).collect();
        for length in [0, 1, 64, 255, 257, 263, 264, 512] {
            let (payload, mut hits) = (vec![0; length], vec![0; 2]);
            assert!(hashes.iter().all(|&hash| shape.may_contain(&payload, hash)), "{length}");
            shape.may_contain_batch(&payload, &hashes, &mut hits);
            assert!((0..100).all(|index| hits[index / 64] >> (index % 64) & 1 == 1));
        }
    }
}
