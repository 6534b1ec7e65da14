//! Sizing, and where a key belongs.

use super::rate;
use crate::codec::map_to_range;
use crate::error::{BlockError, ConfigError};
use crate::filter::{EncodedShape, FilterKind, FilterShape, ParamWords};
use crate::hash::{KeyHash, STEP};
use crate::units::FalsePositiveRate;

/// The fewest and the most bits of a tag.
pub(super) const TAG_BITS: core::ops::RangeInclusive<u8> = 4..=32;

/// The fewest for a rate.
const LEAST_FOR_RATES: u8 = 6;

/// Places in a pair of buckets.
const PLACES_PER_PAIR: u64 = 8;

/// Words of 8 bytes that a payload can have: their number has 32 bits.
const MAX_WORDS: u64 = u32::MAX as u64;

/// Multipliers of [`CuckooShape::sum_of`]: the first 128 bits of the fraction of pi.
const SUM_MULTIPLIERS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345];

/// The size of a cuckoo filter: how wide its tags are, and how many buckets it has.
///
/// ```
/// use sstfilter::FalsePositiveRate;
/// use sstfilter::filter::cuckoo::CuckooShape;
///
/// let shape = CuckooShape::for_rate(1 << 32, FalsePositiveRate::new(0.001)?)?;
/// assert_eq!(shape.tag_bits(), 13);
/// assert!(shape.payload_bytes() * 8 < (14 << 32));
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuckooShape {
    tag_bits: u8,
    /// Pairs of buckets: one of an even and one of an odd number.
    pairs: u64,
}

/// Where a key belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Never 0.
    pub(super) tag: u32,
    pub(super) first: u64,
    /// Never `first`.
    pub(super) second: u64,
}

impl CuckooShape {
    /// The shape for `keys` keys at a false positive rate of at most `rate`. Tags have 6 bits at the least: narrower
    /// ones save little, and leave some keys without a place.
    ///
    /// # Errors
    ///
    /// [`ConfigError::CuckooRate`] below what tags of 32 bits give, 1.8e-9; [`ConfigError::OutOfRange`] when the
    /// filter would exceed 32 GiB.
    pub fn for_rate(keys: u64, rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        for tag_bits in LEAST_FOR_RATES..=*TAG_BITS.end() {
            let shape = Self::with_tag_bits(keys, tag_bits)?;
            if rate::of_shape(shape, keys) <= rate.get() {
                return Ok(shape);
            }
        }
        Err(ConfigError::CuckooRate { got: rate.get() })
    }

    /// The shape for `keys` keys with tags of `tag_bits` bits, 4 to 32.
    ///
    /// With 6 bits or more, that many distinct keys fit, but for one filter in 10,000 (below 100 keys, or with 6 bits
    /// from a billion on) or fewer.
    /// With 4 bits one filter in 250 of a thousand keys fills up before the plan, because too many keys share tag
    /// and buckets, and large ones do so more often; with 5 bits one in 10,000 of three hundred.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] for another width, and when the filter would exceed 32 GiB.
    pub fn with_tag_bits(keys: u64, tag_bits: u8) -> Result<Self, ConfigError> {
        if !TAG_BITS.contains(&tag_bits) {
            return Err(ConfigError::OutOfRange { option: "tag bits", expected: "4 to 32", got: tag_bits.into() });
        }
        let pairs = places_for(keys).div_ceil(PLACES_PER_PAIR.into()).max(1);
        let words = (pairs * u128::from(tag_bits)).div_ceil(8);
        match u64::try_from(words) {
            Ok(words @ ..=MAX_WORDS) => Ok(Self::of_words(tag_bits, words)),
            _ => Err(ConfigError::OutOfRange {
                option: "keys of a cuckoo filter",
                expected: "at most 32 GiB of tags",
                got: keys,
            }),
        }
    }

    /// As many pairs as `words` words hold.
    fn of_words(tag_bits: u8, words: u64) -> Self {
        Self { tag_bits, pairs: words * 8 / u64::from(tag_bits) }
    }

    /// Bits of a tag.
    #[must_use]
    pub const fn tag_bits(&self) -> u8 {
        self.tag_bits
    }

    /// Buckets, of four places each: always an even number.
    #[must_use]
    pub const fn buckets(&self) -> u64 {
        self.pairs * 2
    }

    /// Keys that would fill it to the last place; inserting succeeds up to 95 % of them.
    #[must_use]
    pub const fn places(&self) -> u64 {
        self.pairs * PLACES_PER_PAIR
    }

    /// Bytes of the tags, a multiple of 8.
    #[must_use]
    pub const fn payload_bytes(&self) -> u64 {
        (self.pairs * self.tag_bits as u64).next_multiple_of(8)
    }

    /// What stands in the payload behind the last bucket: fewer bytes than a pair of buckets has, all 0.
    #[expect(clippy::cast_possible_truncation, reason = "behind the end of the payload there is nothing")]
    pub(super) fn bytes_behind<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        payload.get((self.pairs * u64::from(self.tag_bits)) as usize..).unwrap_or_default()
    }

    /// The share of absent keys that get through when `keys` distinct keys are in.
    #[must_use]
    pub fn expected_fpr(&self, keys: u64) -> f64 {
        rate::of_shape(*self, keys)
    }

    /// Values of a tag: all but 0.
    pub(super) const fn tag_values(&self) -> u64 {
        (1 << self.tag_bits) - 1
    }

    pub(super) const fn pairs(&self) -> u64 {
        self.pairs
    }

    pub(super) const fn is_narrow(&self) -> bool {
        self.tag_bits <= 16
    }

    /// Where the key of `hash` belongs: the first bucket from the high bits, the tag from all that the bucket
    /// leaves undecided.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a tag has at most 32 bits")]
    pub(super) const fn place(&self, hash: KeyHash) -> Place {
        let tag = map_to_range(hash.get().wrapping_mul(STEP), self.tag_values()) as u32 + 1;
        let first = map_to_range(hash.get(), self.buckets());
        Place { tag, first, second: self.other(first, tag) }
    }

    /// The other bucket of a tag: the numbers of both add up to the tag's sum, modulo the number of buckets. The sum
    /// is odd and the number of buckets even, so one of them has an even number and the other an odd one.
    #[inline]
    pub(super) const fn other(&self, bucket: u64, tag: u32) -> u64 {
        let (sum, buckets) = (self.sum_of(tag), self.buckets());
        let other = sum.wrapping_sub(bucket);
        if sum < bucket { other.wrapping_add(buckets) } else { other }
    }

    /// What the numbers of both buckets of `tag` add up to: odd, below the number of buckets. Neighbouring tags
    /// have unrelated sums, or the few buckets that small tags lead to would lie close together.
    #[inline]
    const fn sum_of(&self, tag: u32) -> u64 {
        let product = (tag as u64).wrapping_mul(SUM_MULTIPLIERS[0]);
        let mixed = (product ^ (product >> 32)).wrapping_mul(SUM_MULTIPLIERS[1]);
        map_to_range(mixed, self.pairs) * 2 + 1
    }
}

/// Places that `keys` keys need: at a load of 95 %, with slack below some 2,500 keys.
///
/// A filter of m places takes 0.977 m keys in the mean, and small ones vary by about the root of m; these are in whole
/// numbers places of which no more than one filter in 40,000 had too few (tags of 8 bits, 300,000 sets of keys of each size).
fn places_for(keys: u64) -> u128 {
    if keys <= PLACES_PER_PAIR {
        return PLACES_PER_PAIR.into();
    }
    let keys = u128::from(keys);
    (keys * 20).div_ceil(19).max(keys + keys / 42 + keys.isqrt() * 4 / 3 + 8)
}

impl FilterShape for CuckooShape {
    const KIND: FilterKind = FilterKind::CUCKOO;

    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let field = |field, expected, got| Err(BlockError::Field { field, expected, got });
        let &[word] = encoded.params.as_slice() else {
            return field("parameter words", "1 for cuckoo", encoded.params.count().into());
        };
        let Some(tag_bits) = u8::try_from(word).ok().filter(|tag_bits| TAG_BITS.contains(tag_bits)) else {
            return field("tag bits", "4 to 32", word.into());
        };
        if encoded.salt != 0 {
            return field("salt", "0 for cuckoo", encoded.salt.into());
        }
        let shape = Self::of_words(tag_bits, encoded.payload_bytes / 8);
        if shape.pairs == 0 || shape.payload_bytes() != encoded.payload_bytes {
            return field("payload bytes", "those of pairs of buckets, up to the next word", encoded.payload_bytes);
        }
        if encoded.keys > shape.places() {
            return field("keys", "at most the places of the buckets", encoded.keys);
        }
        Ok(shape)
    }

    fn params(&self) -> ParamWords {
        [u32::from(self.tag_bits)].into_iter().collect()
    }

    fn payload_bytes(&self) -> u64 {
        self.payload_bytes()
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        rate::of_shape(*self, keys)
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        vec![("buckets", self.buckets().to_string()), ("tag bits", self.tag_bits.to_string())]
    }

    /// Tags over places.
    fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        Some(super::probe::count(*self, payload)? as f64 / self.places() as f64)
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        super::probe::may_contain(*self, payload, hash)
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        super::probe::may_contain_batch(*self, payload, hashes, hits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(keys: u64, tag_bits: u8) -> CuckooShape {
        CuckooShape::with_tag_bits(keys, tag_bits).unwrap()
    }

    #[test]
    fn a_key_has_two_buckets_whose_numbers_lead_to_each_other() {
        let hashes = || (0..2_000).map(KeyHash::from_remixed).chain([0, 1, u64::MAX].map(KeyHash::from_well_mixed));
        for tag_bits in TAG_BITS {
            for keys in [0, 9, 20, 100, 1_000, 1 << 32] {
                let shape = shape(keys, tag_bits);
                for Place { tag, first, second } in hashes().map(|hash| shape.place(hash)) {
                    assert!((1..=shape.tag_values()).contains(&u64::from(tag)));
                    assert!(first < shape.buckets() && second < shape.buckets());
                    assert_eq!((shape.other(first, tag), shape.other(second, tag)), (second, first));
                    assert_eq!((first + second) % 2, 1, "one even, one odd");
                }
            }
        }
    }

    #[test]
    fn hashes_lead_to_the_documented_tags_and_buckets() {
        let hashes = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 0].map(KeyHash::from_well_mixed);
        for (tag_bits, pairs, expected) in [
            (4, 1, [(1, 0, 1), (5, 1, 0), (1, 0, 1)]),
            (8, 2, [(0xd, 0, 1), (0x55, 3, 0), (1, 0, 1)]),
            (12, 1_000, [(0xca, 8, 777), (0x553, 1_991, 1_474), (1, 0, 333)]),
            (16, 131_579, [(0xc94, 1_169, 16_154), (0x5535, 261_988, 4_605), (1, 0, 43_819)]),
            (
                32,
                1 << 30,
                [
                    (0xc93_a7b8, 9_544_371, 350_472_042),
                    (0x5534_de8f, 2_137_939_276, 2_068_773_519),
                    (1, 0, 357_576_109),
                ],
            ),
        ] {
            let shape = CuckooShape { tag_bits, pairs };
            let expected = expected.map(|(tag, first, second)| Place { tag, first, second });
            assert_eq!(hashes.map(|hash| shape.place(hash)), expected, "{shape:?}");
        }
    }

    #[test]
    fn sizes_are_95_percent_full_and_a_block_tells_them_from_its_length() {
        for tag_bits in TAG_BITS {
            for keys in (9..3_000).chain([100_000, 1 << 32]) {
                let shape = shape(keys, tag_bits);
                assert!(shape.places() >= keys && shape.places() as f64 * 0.9501 >= keys as f64 * 0.999);
                let encoded = shape.encode(keys);
                assert_eq!(CuckooShape::decode(&encoded), Ok(shape));
            }
            let bits = shape(1 << 32, tag_bits).payload_bytes() as f64 * 8.0 / (1_u64 << 32) as f64;
            assert!(bits <= 1.053 * f64::from(tag_bits), "{tag_bits}: {bits}");
        }
    }

    #[test]
    fn sizes_beyond_the_format_are_refused_not_wrapped() {
        assert!(CuckooShape::with_tag_bits(1 << 33, 16).is_ok());
        for (keys, tag_bits) in [(1 << 33, 32), (1 << 36, 8), (u64::MAX, 4), (u64::MAX, 32)] {
            assert!(matches!(CuckooShape::with_tag_bits(keys, tag_bits), Err(ConfigError::OutOfRange { .. })));
        }
        assert!([0, 3, 33, 255].iter().all(|&tag_bits| CuckooShape::with_tag_bits(1, tag_bits).is_err()));
    }

    #[test]
    fn the_narrowest_tag_for_a_rate_meets_it_and_one_bit_less_does_not() {
        for rate in [0.05, 0.01, 0.001, 1e-6, 2e-9] {
            let rate = FalsePositiveRate::new(rate).unwrap();
            let chosen = CuckooShape::for_rate(1_000_000, rate).unwrap();
            assert!(chosen.expected_fpr(1_000_000) <= rate.get());
            assert!(shape(1_000_000, chosen.tag_bits() - 1).expected_fpr(1_000_000) > rate.get());
        }
        let too_low = FalsePositiveRate::new(1.7e-9).unwrap();
        assert_eq!(CuckooShape::for_rate(1_000_000, too_low), Err(ConfigError::CuckooRate { got: 1.7e-9 }));
    }

    #[test]
    fn fields_that_no_writer_writes_are_refused() {
        let sound = shape(100, 12).encode(100);
        let with = |change: fn(&mut EncodedShape)| {
            let mut encoded = sound;
            change(&mut encoded);
            CuckooShape::decode(&encoded)
        };
        assert!(with(|_| ()).is_ok());
        assert!(with(|encoded| encoded.params = ParamWords::default()).is_err());
        assert!(with(|encoded| encoded.params = [12, 0].into_iter().collect()).is_err());
        for tag_bits in [0, 3, 33, 12 + 256, u32::MAX] {
            let encoded = EncodedShape { params: [tag_bits].into_iter().collect(), ..sound };
            assert!(CuckooShape::decode(&encoded).is_err(), "{tag_bits}");
        }
        assert!(with(|encoded| encoded.salt = 1).is_err());
        assert!(with(|encoded| encoded.payload_bytes = 0).is_err());
        assert!(with(|encoded| encoded.payload_bytes = 8).is_err());
        assert!(with(|encoded| encoded.keys = 10_000).is_err());
        let wide = EncodedShape { params: [32].into_iter().collect(), payload_bytes: 40, ..sound };
        assert!(CuckooShape::decode(&wide).is_err(), "a word that no pair reaches into");
    }

    #[test]
    fn a_payload_of_another_length_reads_as_may_be_present() {
        for tag_bits in [8, 20] {
            let shape = shape(1_000, tag_bits);
            let mut hits = [0; 1];
            for payload in [&[][..], &[0; 8], &[0; 10_000]] {
                assert!(shape.may_contain(payload, KeyHash::from_remixed(1)));
                shape.may_contain_batch(payload, &[KeyHash::from_remixed(1)], &mut hits);
                assert_eq!(hits, [1]);
            }
        }
    }
}
