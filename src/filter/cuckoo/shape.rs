//! Sizes and rates, and the candidate buckets of a key.

use alloc::string::ToString;
use core::ops::Deref;

use super::bucket::{Lanes, SLOTS, Word};
use crate::error::{BlockError, ConfigError};
use crate::filter::batch::{all_match, answers, answers_ahead};
use crate::filter::cache::CUCKOO_PREFETCH_BYTES;
use crate::filter::dynamic::GrowingShape;
use crate::filter::health::FilterHealth;
use crate::filter::{EncodedShape, FilterShape, KindId, MAX_PAYLOAD_BYTES, ParamWords, ShapeFields};
use crate::hash::{KeyHash, STEP, map_to_range};
use crate::kernel::prefetch::prefetch;
use crate::units::FalsePositiveRate;

/// The supported tag widths.
pub(super) const TAG_BITS: core::ops::RangeInclusive<u8> = 4..=32;

/// The tag widths with which filters hold their planned keys. With fewer bits, too many keys share tag and buckets:
/// with 4 bits, one filter in 250 of a thousand keys fills up early, and large ones do so more often; with 5 bits, one
/// in 10,000 of three hundred keys.
pub(super) const RELIABLE_TAG_BITS: core::ops::RangeInclusive<u8> = 6..=32;

/// The slots in a pair of buckets.
const PLACES_PER_PAIR: u64 = 8;

/// The multipliers of [`CuckooShape::sum_of`]: the first 128 bits of the fraction of pi, so that nobody chose them.
const SUM_MULTIPLIERS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345];

/// The size of a cuckoo filter: its tag width, and its number of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CuckooShape {
    pub(super) tag_bits: u8,
    /// The number of pairs of buckets: one with an even number and one with an odd number.
    pairs: u64,
}

/// Runs `$call` for the buckets of a payload, compiled for words of 64 and of 128 bits; `None` if [`Buckets::new`]
/// fails.
macro_rules! with_buckets {
    ($shape:expr, $payload:expr, $buckets:pat => $call:expr) => {
        if $shape.tag_bits <= 16 {
            Buckets::<_, u64>::new($shape, $payload).map(|$buckets| $call)
        } else {
            Buckets::<_, u128>::new($shape, $payload).map(|$buckets| $call)
        }
    };
}
pub(super) use with_buckets;

/// The two buckets that can hold a key, and its tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Candidates {
    /// Never 0.
    pub(super) tag: u32,
    pub(super) first: u64,
    /// Never `first`.
    pub(super) second: u64,
}

impl CuckooShape {
    /// Returns the shape for `keys` keys at a false positive rate of at most `rate`, with the narrowest tags that reach
    /// it.
    pub(crate) fn for_rate(keys: u64, rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        let mut least = 1.0;
        for tag_bits in RELIABLE_TAG_BITS {
            let shape = Self::with_tag_bits(keys, tag_bits)?;
            least = shape.expected_fpr(keys);
            if least <= rate.get() {
                return Ok(shape);
            }
        }
        Err(ConfigError::RateOutOfRange { kind: KindId::CUCKOO, min: least, max: 1.0, got: rate.get() })
    }

    /// Returns the shape for `keys` keys with tags of `tag_bits` bits, 4 to 32.
    pub(crate) fn with_tag_bits(keys: u64, tag_bits: u8) -> Result<Self, ConfigError> {
        if !TAG_BITS.contains(&tag_bits) {
            return Err(ConfigError::out_of_range("tag bits", "4 to 32", tag_bits));
        }
        let pairs = places_for(keys).div_ceil(PLACES_PER_PAIR.into()).max(1);
        let words = (pairs * u128::from(tag_bits)).div_ceil(8);
        match u64::try_from(words) {
            Ok(words) if words <= MAX_PAYLOAD_BYTES / 8 => Ok(Self::of_words(tag_bits, words)),
            _ => Err(ConfigError::out_of_range("keys of a cuckoo filter", "at most 32 GiB of tags", keys)),
        }
    }

    /// Returns the shape with all the pairs that fit `words` words.
    fn of_words(tag_bits: u8, words: u64) -> Self {
        Self { tag_bits, pairs: words * 8 / u64::from(tag_bits) }
    }

    /// Returns the number of buckets, of four slots each: always even.
    pub(super) const fn buckets(&self) -> u64 {
        self.pairs * 2
    }

    /// Returns the number of slots; insertions succeed up to a load of 95 %.
    pub(super) const fn slots(&self) -> u64 {
        self.pairs * PLACES_PER_PAIR
    }

    /// Returns the payload's bytes after the last bucket: less than a pair of buckets, all 0.
    #[expect(clippy::cast_possible_truncation, reason = "an offset beyond memory finds no bytes")]
    pub(super) fn bytes_behind<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        payload.get((self.pairs * u64::from(self.tag_bits)) as usize..).unwrap_or_default()
    }

    /// Returns the number of values of a tag. 0 is not one: it marks a free slot.
    const fn tag_values(&self) -> u64 {
        (1 << self.tag_bits) - 1
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call hides the loop's constants and takes a third more time")]
    pub(super) fn probe(&self, payload: &[u8], hash: KeyHash) -> bool {
        let key = self.candidates(hash);
        with_buckets!(*self, payload, buckets => buckets.may_contain(&key)).unwrap_or(true)
    }

    /// Counts the tags in a payload of the shape's length.
    pub(super) fn count(&self, payload: &[u8]) -> Option<u64> {
        with_buckets!(*self, payload, buckets => buckets.count())
    }

    /// Returns the buckets and the tag of a key. The high bits of the hash choose the first bucket; the tag comes from
    /// the bits that the bucket does not determine.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a tag has at most 32 bits")]
    pub(super) const fn candidates(&self, hash: KeyHash) -> Candidates {
        // `+ 1`, because 0 marks a free slot.
        let tag = map_to_range(hash.get().wrapping_mul(STEP), self.tag_values()) as u32 + 1;
        let first = map_to_range(hash.get(), self.buckets());
        Candidates { tag, first, second: self.other(first, tag) }
    }

    /// Returns the other bucket of a tag: the numbers of both add up to the tag's sum, modulo the number of buckets.
    /// The sum is odd and the number of buckets even, so one of the two numbers is even and the other odd.
    #[inline]
    pub(super) const fn other(&self, bucket: u64, tag: u32) -> u64 {
        let (sum, buckets) = (self.sum_of(tag), self.buckets());
        let other = sum.wrapping_sub(bucket);
        if sum < bucket { other.wrapping_add(buckets) } else { other }
    }

    /// Returns the sum of the numbers of both buckets of `tag`: odd, and below the number of buckets. Mixing makes the
    /// sums of neighbouring tags unrelated; otherwise the other buckets of small tags would cluster.
    #[inline]
    const fn sum_of(&self, tag: u32) -> u64 {
        let product = (tag as u64).wrapping_mul(SUM_MULTIPLIERS[0]);
        let mixed = (product ^ (product >> 32)).wrapping_mul(SUM_MULTIPLIERS[1]);
        map_to_range(mixed, self.pairs) * 2 + 1
    }
}

/// Returns the slots for `keys` keys: at a load of 95 %, with slack below some 2,500 keys.
///
/// A filter of m slots takes 0.977 m keys on average, and small ones vary by about the root of m. With these sizes, at
/// most one filter in 40,000 had too few slots (tags of 8 bits, 300,000 sets of keys for each number of keys).
fn places_for(keys: u64) -> u128 {
    if keys <= PLACES_PER_PAIR {
        return PLACES_PER_PAIR.into();
    }
    let keys = u128::from(keys);
    (keys * 20).div_ceil(19).max(keys + keys / 42 + keys.isqrt() * 4 / 3 + 8)
}

impl FilterShape for CuckooShape {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let [word] = encoded.words("1 for cuckoo")?;
        let tag_bits = u8::try_from(word).unwrap_or(u8::MAX);
        BlockError::require(TAG_BITS.contains(&tag_bits), "tag bits", "4 to 32", word)?;
        BlockError::require(encoded.salt == 0, "salt", "0 for cuckoo", encoded.salt)?;
        let shape = Self::of_words(tag_bits, encoded.payload_bytes / 8);
        let is_whole = shape.pairs > 0 && shape.payload_bytes() == encoded.payload_bytes;
        let expected = "whole pairs of buckets, padded to a word";
        BlockError::require(is_whole, "payload bytes", expected, encoded.payload_bytes)?;
        BlockError::require(encoded.keys <= shape.slots(), "keys", "at most the slots of the buckets", encoded.keys)?;
        Ok(shape)
    }

    fn params(&self) -> ParamWords {
        [u32::from(self.tag_bits)].into_iter().collect()
    }

    fn payload_bytes(&self) -> u64 {
        (self.pairs * u64::from(self.tag_bits)).next_multiple_of(8)
    }

    /// Exact, and computed only by additions and multiplications, because sizes follow from it.
    ///
    /// A tag and its pair of buckets form one of `tag values x pairs` classes, all equally likely, in whichever bucket
    /// the tag lies. An absent key is a false positive exactly if its class is that of a present key, with probability
    /// `1 - (1 - 1 / classes) ^ keys`. At a load of l that is about `8 l / (2^bits - 1)`.
    fn expected_fpr(&self, keys: u64) -> f64 {
        let one_key = 1.0 / (self.tag_values() as f64 * self.pairs as f64);
        // The chance that one of `n` keys has the class, for n = 1, 2, 4, ...: the union of two halves. Nothing is
        // subtracted from 1, so small chances keep all their digits.
        let union = |left: f64, right: f64| left + right - left * right;
        let (mut sum, mut power, mut left) = (0.0, one_key, keys);
        while left > 0 {
            if left & 1 == 1 {
                sum = union(sum, power);
            }
            power = union(power, power);
            left >>= 1;
        }
        sum
    }

    fn describe(&self) -> ShapeFields {
        vec![("buckets", self.buckets().to_string()), ("tag bits", self.tag_bits.to_string())]
    }

    /// Returns tags over slots.
    fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        Some(self.count(payload)? as f64 / self.slots() as f64)
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        self.probe(payload, hash)
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        with_buckets!(*self, payload, buckets => buckets.may_contain_batch(hashes, matches))
            .unwrap_or_else(|| all_match(hashes, matches));
    }
}

impl GrowingShape for CuckooShape {
    const KIND: KindId = KindId::CUCKOO;

    fn health(&self, keys: u64, _payload: &[u8]) -> FilterHealth {
        FilterHealth::of_cuckoo(keys, keys as f64 / self.slots() as f64, self.expected_fpr(keys))
    }

    /// Checks two invariants that later operations rely on: the recorded number of keys equals the number of tags, and
    /// the bytes after the last bucket are 0.
    fn accept(&self, keys: u64, payload: &mut [u8]) -> Result<(), BlockError> {
        BlockError::require(self.count(payload) == Some(keys), "keys", "the number of tags", keys)?;
        let mut behind = self.bytes_behind(payload).iter();
        behind.try_for_each(|&byte| BlockError::require(byte == 0, "bytes behind the last bucket", "0", byte))
    }
}

/// The buckets of a payload, each read as a word. They are probed or, if `P` is writable, changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets<P, W> {
    pub(super) shape: CuckooShape,
    pub(super) payload: P,
    pub(super) lanes: Lanes<W>,
}

impl<P: Deref<Target = [u8]>, W: Word> Buckets<P, W> {
    /// Returns `None` unless the payload has the shape's length, and at least a word.
    #[inline]
    pub(super) fn new(shape: CuckooShape, payload: P) -> Option<Self> {
        let is_whole = payload.len() as u64 == shape.payload_bytes() && payload.len() >= size_of::<W>();
        is_whole.then(|| Self { shape, payload, lanes: Lanes::new(shape.tag_bits.into()) })
    }

    /// Returns the byte at which a bucket's word is read, and the bit of the word at which the bucket begins. Buckets
    /// are packed to the bit. A word that would end beyond the payload is read from an earlier byte.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a payload fits memory")]
    pub(super) fn locate(&self, bucket: u64) -> (usize, u32) {
        let bit = bucket * u64::from(SLOTS) * u64::from(self.shape.tag_bits);
        let byte = ((bit / 8) as usize).min(self.payload.len() - size_of::<W>());
        (byte, (bit - byte as u64 * 8) as u32)
    }

    #[inline]
    pub(super) fn get(&self, bucket: u64) -> W {
        let (byte, shift) = self.locate(bucket);
        self.lanes.cut(W::read(&self.payload, byte) >> shift)
    }

    #[inline]
    fn may_contain(&self, key: &Candidates) -> bool {
        // `|` instead of `||`, so that no branch separates the loads of the two buckets.
        self.lanes.hold(self.get(key.first), key.tag) | self.lanes.hold(self.get(key.second), key.tag)
    }

    fn may_contain_batch(&self, hashes: &[KeyHash], matches: &mut [u64]) {
        // Computes a key's candidates twice, for the prefetch and for the comparison: cheaper than storing them.
        let candidates = |hash| self.shape.candidates(hash);
        let test = |hash| self.may_contain(&candidates(hash));
        if self.payload.len() < CUCKOO_PREFETCH_BYTES {
            answers(hashes, matches, test);
        } else {
            answers_ahead(hashes, matches, |hash| self.prefetch(&candidates(hash)), test);
        }
    }

    /// Counts the tags in all buckets.
    fn count(&self) -> u64 {
        (0..self.shape.buckets()).map(|bucket| u64::from(self.lanes.count(self.get(bucket)))).sum()
    }

    /// Prefetches both buckets of a key.
    #[inline]
    pub(super) fn prefetch(&self, key: &Candidates) {
        for bucket in [key.first, key.second] {
            prefetch(self.payload.as_ptr().wrapping_add(self.locate(bucket).0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::vectors;

    fn shape(keys: u64, tag_bits: u8) -> CuckooShape {
        CuckooShape::with_tag_bits(keys, tag_bits).unwrap()
    }

    #[test]
    fn a_key_has_two_buckets_whose_numbers_lead_to_each_other() {
        let hashes = || (0..2_000).map(KeyHash::mix).chain([0, 1, u64::MAX].map(KeyHash::from_well_mixed));
        for tag_bits in TAG_BITS {
            for keys in [0, 9, 20, 100, 1_000, 1 << 32] {
                let shape = shape(keys, tag_bits);
                for Candidates { tag, first, second } in hashes().map(|hash| shape.candidates(hash)) {
                    assert!((1..=shape.tag_values()).contains(&u64::from(tag)));
                    assert!(first < shape.buckets() && second < shape.buckets());
                    assert_eq!((shape.other(first, tag), shape.other(second, tag)), (second, first));
                    assert_eq!((first + second) % 2, 1, "one even, one odd");
                }
            }
        }
    }

    #[test]
    fn hashes_lead_to_the_tags_and_buckets_of_the_vectors() {
        for row in vectors("cuckoo").rows("derivations") {
            let shape = CuckooShape { tag_bits: row.number("tag_bits") as u8, pairs: row.number("pairs") };
            let [first, second] = ["first", "second"].map(|name| row.number(name));
            let expected = Candidates { tag: row.hex("tag") as u32, first, second };
            assert_eq!(shape.candidates(KeyHash::from_well_mixed(row.hex("hash"))), expected, "{row}");
        }
    }

    #[test]
    fn sizes_are_95_percent_full_and_a_block_tells_them_from_its_length() {
        for tag_bits in TAG_BITS {
            for keys in (9..3_000).chain([100_000, 1 << 32]) {
                let shape = shape(keys, tag_bits);
                assert!(shape.slots() >= keys && shape.slots() as f64 * 0.9501 >= keys as f64 * 0.999);
                let encoded = shape.encode(keys);
                assert_eq!(CuckooShape::decode(&encoded), Ok(shape));
            }
            let bits = shape(1 << 32, tag_bits).payload_bytes() as f64 * 8.0 / (1_u64 << 32) as f64;
            assert!(bits <= 1.053 * f64::from(tag_bits), "{tag_bits}: {bits}");
        }
    }

    #[test]
    fn four_thousand_million_keys_have_a_size_and_take_no_memory() {
        assert!((4_520_000_000..4_530_000_000).contains(&shape(1 << 32, 8).payload_bytes()));
        assert!(CuckooShape::for_rate(1 << 34, FalsePositiveRate::ONE_PERCENT).is_ok());
    }

    #[test]
    fn any_number_of_keys_has_a_shape_that_keeps_to_the_rate_or_is_beyond_the_format() {
        let one_percent = FalsePositiveRate::ONE_PERCENT;
        for keys in (0..64).flat_map(|log2| [(1_u64 << log2) - 1, 1 << log2, (1 << log2) + 1]) {
            let by_rate = CuckooShape::for_rate(keys, one_percent);
            assert!(by_rate.is_ok_and(|shape| shape.expected_fpr(keys) <= 0.01) || keys > 1 << 34, "{keys}");
            assert!((0.0..=1.0).contains(&shape(1 << 33, 8).expected_fpr(keys)), "{keys} keys");
        }
    }

    #[test]
    fn keys_are_refused_only_where_their_tags_would_exceed_the_format() {
        for tag_bits in TAG_BITS {
            let (mut most, mut too_many) = (0, u64::MAX);
            while too_many - most > 1 {
                let middle = most.midpoint(too_many);
                let is_ok = CuckooShape::with_tag_bits(middle, tag_bits).is_ok();
                if is_ok { most = middle } else { too_many = middle }
            }
            let largest = shape(most, tag_bits);
            // Up to the last pair of buckets that the words hold, or the first that is too small for the keys.
            assert!(MAX_PAYLOAD_BYTES / u64::from(tag_bits) - largest.pairs <= 1, "{tag_bits} bits: {largest:?}");
            assert!(largest.payload_bytes() <= MAX_PAYLOAD_BYTES && largest.expected_fpr(most) < 0.6);
            let error = CuckooShape::with_tag_bits(too_many, tag_bits);
            assert!(matches!(error, Err(ConfigError::OutOfRange { got, .. }) if got == too_many));
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
            assert!(shape(1_000_000, chosen.tag_bits - 1).expected_fpr(1_000_000) > rate.get());
        }
        let too_low = FalsePositiveRate::new(1.7e-9).unwrap();
        let refused = CuckooShape::for_rate(1_000_000, too_low);
        assert!(matches!(refused, Err(ConfigError::RateOutOfRange { got: 1.7e-9, .. })), "{refused:?}");
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
            let mut matches = [0; 1];
            for payload in [&[][..], &[0; 8], &[0; 10_000]] {
                assert!(shape.may_contain(payload, KeyHash::mix(1)));
                shape.may_contain_batch(payload, &[KeyHash::mix(1)], &mut matches);
                assert_eq!(matches, [1]);
            }
        }
    }

    #[test]
    fn the_rate_is_that_of_eight_slots_at_the_load() {
        for tag_bits in [4, 8, 12, 16, 24, 32] {
            let shape = CuckooShape::with_tag_bits(1_000_000, tag_bits).unwrap();
            let load = 1e6 / shape.slots() as f64;
            let per_slot = 8.0 * load / ((1_u64 << tag_bits) - 1) as f64;
            let expected = -(-per_slot).exp_m1();
            let ratio = shape.expected_fpr(1_000_000) / expected;
            assert!((ratio - 1.0).abs() < 1e-6, "{tag_bits} bits: {ratio}");
        }
    }

    #[test]
    fn the_rate_is_nothing_without_keys_and_never_above_one() {
        let shape = CuckooShape::with_tag_bits(0, 4).unwrap();
        assert_eq!(shape.expected_fpr(0), 0.0);
        assert_eq!(shape.expected_fpr(1), 1.0 / (15.0 * shape.pairs as f64));
        assert!(shape.expected_fpr(u64::MAX) <= 1.0);
    }
}
