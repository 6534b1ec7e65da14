//! How keys are spread over a filter: the positions of each, and how many there should be.

use super::rate;
use crate::codec::AlignedBuffer;
use crate::codec::map_to_range;
use crate::error::{BlockError, ConfigError, FilterError};
use crate::filter::{EncodedShape, ParamWords, power};
use crate::hash::{KeyHash, STEP};
use crate::units::{BitsPerKey, FalsePositiveRate};

/// The most positions that a key has.
pub const MAX_PROBES: u8 = 32;

/// Thousandths of a bit per key from which on the next number of probes gives fewer false positives: where
/// (1 - e^(-k/c))^k is the same for k and k + 1.
const PROBE_THRESHOLDS: [u32; MAX_PROBES as usize - 1] = [
    2_078, 3_556, 5_014, 6_464, 7_912, 9_358, 10_804, 12_248, 13_692, 15_136, 16_580, 18_024, 19_467, 20_910, 22_354,
    23_797, 25_240, 26_683, 28_126, 29_569, 31_012, 32_455, 33_898, 35_341, 36_784, 38_227, 39_670, 41_112, 42_555,
    43_998, 45_441,
];

/// The number of probes, 1 to 32, that gives the lowest rate at a size: 0.69 times the bits per key, rounded.
///
/// ```
/// use sstfilter::BitsPerKey;
/// use sstfilter::filter::standard_bloom::optimal_probes;
///
/// let probes = [4.79, 9.59, 14.38, 19.17, 23.96].map(|size| optimal_probes(BitsPerKey::new(size).unwrap()));
/// assert_eq!(probes, [3, 7, 10, 13, 17]);
/// ```
#[must_use]
pub fn optimal_probes(size: BitsPerKey) -> u8 {
    let passed = PROBE_THRESHOLDS.iter().filter(|&&threshold| size.millibits() >= threshold).count();
    u8::try_from(passed + 1).unwrap_or(MAX_PROBES)
}

/// The bits per key that a rate takes: ln(1/rate) / ln(2)^2, as if a key could have any fraction of a probe.
///
/// | rate | bits per key | probes |
/// |--:|--:|--:|
/// | 10 % | 4.79 | 3 |
/// | 1 % | 9.59 | 7 |
/// | 0.1 % | 14.38 | 10 |
/// | 0.01 % | 19.17 | 13 |
/// | 0.001 % | 23.96 | 17 |
///
/// Filters are not sized by this but by [`size_for_rate`], which has whole probes: up to 0.4 % more.
///
/// ```
/// use sstfilter::FalsePositiveRate;
/// use sstfilter::filter::standard_bloom::bits_per_key_for;
///
/// let bits = [0.1, 0.01, 0.001, 0.0001, 0.00001].map(|rate| bits_per_key_for(FalsePositiveRate::new(rate).unwrap()));
/// assert_eq!(bits.map(|bits| format!("{bits:.2}")), ["4.79", "9.59", "14.38", "19.17", "23.96"]);
/// ```
#[must_use]
pub fn bits_per_key_for(rate: FalsePositiveRate) -> f64 {
    rate.information_bits() / core::f64::consts::LN_2
}

/// The smallest size at which a filter of `keys` keys has an expected rate of at most `rate`.
///
/// # Errors
///
/// [`ConfigError::StandardBloomRate`] when 100 bits per key are not enough.
pub fn size_for_rate(keys: u64, rate: FalsePositiveRate) -> Result<BitsPerKey, ConfigError> {
    let fpr_at = |millibits: u32| {
        let size = BitsPerKey::from_millibits(millibits).unwrap_or(BitsPerKey::MAX);
        rate::of_keys(keys, positions_for(keys, size), optimal_probes(size))
    };
    let (mut low, mut high) = (BitsPerKey::MIN.millibits(), BitsPerKey::MAX.millibits());
    if fpr_at(high) > rate.get() {
        return Err(ConfigError::StandardBloomRate { got: rate.get() });
    }
    while low < high {
        let middle = low.midpoint(high);
        if fpr_at(middle) <= rate.get() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    BitsPerKey::from_millibits(low)
}

/// Positions for `keys` keys at `size`: rounded up to 64, at least 64; `u64::MAX` when there are more.
pub(crate) fn positions_for(keys: u64, size: BitsPerKey) -> u64 {
    let millibits = u128::from(keys) * u128::from(size.millibits());
    u64::try_from(millibits.div_ceil(64_000).max(1) * 64).unwrap_or(u64::MAX)
}

/// The most bytes of payload that a block can have: their number in words of 8 bytes has 32 bits.
const MAX_PAYLOAD_BYTES: u64 = u32::MAX as u64 * 8;

/// `bytes` zeros, for a filter in memory.
pub(crate) fn allocate(bytes: u64) -> Result<AlignedBuffer, FilterError> {
    check_size(bytes)?;
    AlignedBuffer::zeroed(bytes, 0).ok_or(FilterError::NoMemory { bytes })
}

/// Whether a block has room for a payload of so many bytes.
fn check_size(bytes: u64) -> Result<(), FilterError> {
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(FilterError::TooLarge { most_bytes: MAX_PAYLOAD_BYTES, got: bytes });
    }
    Ok(())
}

/// How many positions there are, and how many of them a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    positions: u64,
    probes: u8,
}

impl Spread {
    /// `probes` of `positions` positions, as asked for by the caller.
    pub(crate) fn new(positions: u64, probes: u8) -> Result<Self, ConfigError> {
        let refused = |option, expected, got| Err(ConfigError::OutOfRange { option, expected, got });
        match (positions, probes) {
            (0, _) => refused("positions of a filter", "1 or more", positions),
            (_, 0 | 33..) => refused("probes", "1 to 32", probes.into()),
            _ => Ok(Self { positions, probes }),
        }
    }

    /// The spread for `keys` keys at `size`, of any size.
    pub(crate) fn for_keys(keys: u64, size: BitsPerKey) -> Self {
        Self { positions: positions_for(keys, size), probes: optimal_probes(size) }
    }

    pub(crate) fn positions(self) -> u64 {
        self.positions
    }

    pub(crate) fn probes(self) -> u8 {
        self.probes
    }

    /// The number of probes, `PROBES` when it is known where the code is compiled.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it bounds loops that are to be unrolled")]
    pub(crate) fn probes_or<const PROBES: u8>(self) -> u8 {
        if PROBES == ANY_PROBES { self.probes } else { PROBES }
    }

    /// Bytes of payload with so many positions in each word of 8 bytes.
    pub(crate) fn payload_bytes(self, positions_per_word: u64) -> u64 {
        self.positions.div_ceil(positions_per_word) * 8
    }

    /// One word of 64 bits, its low half first: the positions, and the probes in its sixth byte.
    pub(crate) fn params(self) -> ParamWords {
        let word = self.positions | u64::from(self.probes) << 40;
        #[expect(clippy::cast_possible_truncation, reason = "its halves")]
        [word as u32, (word >> 32) as u32].into_iter().collect()
    }

    /// Reads and checks what a trailer says of a filter with so many positions in each word of 8 bytes.
    pub(crate) fn decode(encoded: &EncodedShape, positions_per_word: u64) -> Result<Self, BlockError> {
        let field = |field, expected, got| Err(BlockError::Field { field, expected, got });
        let &[low, high] = encoded.params.as_slice() else {
            return field("parameter words", "2 for standard and counting Bloom", encoded.params.count().into());
        };
        if encoded.salt != 0 {
            return field("salt", "0 for standard and counting Bloom", encoded.salt.into());
        }
        let Some(probes) = u8::try_from(high >> 8).ok().filter(|probes| (1..=MAX_PROBES).contains(probes)) else {
            return field("probes", "1 to 32", (high >> 8).into());
        };
        let positions = u64::from(high & 0xff) << 32 | u64::from(low);
        let spread = Self { positions, probes };
        if positions == 0 || spread.payload_bytes(positions_per_word) != encoded.payload_bytes {
            return field("positions", "1 or more, as many as fill the payload's words", positions);
        }
        Ok(spread)
    }

    /// The expected rate with `keys` distinct keys.
    pub(crate) fn expected_fpr(self, keys: u64) -> f64 {
        rate::of_keys(keys, self.positions, self.probes)
    }

    /// The rate when a share of `fill_ratio` of the positions is taken.
    pub(crate) fn fpr_at(self, fill_ratio: f64) -> f64 {
        power(fill_ratio, self.probes)
    }

    /// How many keys it takes to fill `filled` positions (Swamidass and Baldi 2007); the largest number when all are.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "such casts end at the ends of the range"
    )]
    pub(crate) fn estimated_keys(self, filled: u64) -> u64 {
        let positions = self.positions as f64;
        let keys = -(positions / f64::from(self.probes)) * (-(filled as f64) / positions).ln_1p();
        keys.round() as u64
    }

    /// The positions of a key.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the loops over keys keep it in registers")]
    pub(crate) fn walk(self, hash: KeyHash) -> Walk {
        let hash = hash.get();
        Walk { at: hash, step: hash.wrapping_mul(STEP), positions: self.positions }
    }
}

/// Stands for a number of probes that is not known where the code is compiled.
pub(super) const ANY_PROBES: u8 = 0;

/// Runs a loop over keys with the number of probes as a constant, where it is a usual one.
macro_rules! with_probes {
    ($spread:expr, $probes:ident => $call:expr) => {
        with_probes!($spread, $probes => $call, 1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    };
    ($spread:expr, $probes:ident => $call:expr, $($count:literal)+) => {
        match $spread.probes() {
            $($count => {
                const $probes: u8 = $count;
                $call
            })+
            _ => {
                const $probes: u8 = $crate::filter::standard_bloom::spread::ANY_PROBES;
                $call
            }
        }
    };
}
pub(super) use with_probes;

/// The positions of one key, one after the other: an infinite walk, of which the first `probes` are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    at: u64,
    step: u64,
    positions: u64,
}

/// By how many bits the step turns. Odd, so that 64 steps differ.
const TURN: u32 = 23;

impl Walk {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the loops over keys keep it in registers")]
    pub(crate) fn next(&mut self) -> u64 {
        let position = map_to_range(self.at, self.positions);
        self.at = self.at.wrapping_add(self.step);
        self.step = self.step.rotate_left(TURN);
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threshold_is_where_the_next_number_of_probes_starts_to_win() {
        for (fewer, &threshold) in (1..).zip(&PROBE_THRESHOLDS) {
            let rate_of =
                |millibits: u32, probes| rate::of_keys(1 << 24, (1 << 24) * u64::from(millibits) / 1_000, probes);
            assert!(rate_of(threshold - 2, fewer) < rate_of(threshold - 2, fewer + 1), "{threshold}");
            assert!(rate_of(threshold + 2, fewer + 1) < rate_of(threshold + 2, fewer), "{threshold}");
        }
    }

    #[test]
    fn probes_grow_with_the_size_and_stay_in_range() {
        let sizes = (1_000..=100_000).map(|size| BitsPerKey::from_millibits(size).unwrap());
        let probes: Vec<u8> = sizes.map(optimal_probes).collect();
        assert!(probes.is_sorted());
        assert_eq!((probes[0], probes[probes.len() - 1]), (1, MAX_PROBES));
    }

    #[test]
    fn positions_are_rounded_up_to_whole_words_at_any_number_of_keys() {
        let positions = |keys| positions_for(keys, BitsPerKey::TEN);
        assert_eq!([0, 1, 6, 7, 64, 1_000].map(positions), [64, 64, 64, 128, 640, 10_048]);
        assert_eq!(positions(1 << 32), 10 << 32);
        assert_eq!(positions_for(u64::MAX, BitsPerKey::MAX), u64::MAX);
        assert!(matches!(
            allocate(Spread::for_keys(u64::MAX, BitsPerKey::MAX).payload_bytes(64)),
            Err(FilterError::TooLarge { .. })
        ));
    }

    #[test]
    fn the_largest_payload_is_32_gib_less_a_word() {
        let most_bytes = (32 << 30) - 8;
        assert!([0, 8, most_bytes].into_iter().all(|bytes| check_size(bytes).is_ok()));
        let got = most_bytes + 8;
        assert_eq!(allocate(got).err(), Some(FilterError::TooLarge { most_bytes, got }));
    }

    #[test]
    fn the_smallest_size_for_a_rate_meets_it_and_is_near_the_textbooks() {
        for rate in [0.5, 0.1, 0.01, 0.001, 1e-6, 1e-9] {
            let rate = FalsePositiveRate::new(rate).unwrap();
            let size = size_for_rate(1 << 24, rate).unwrap();
            assert!(Spread::for_keys(1 << 24, size).expected_fpr(1 << 24) <= rate.get());
            let ratio = size.get() / bits_per_key_for(rate);
            assert!((0.9999..1.005).contains(&ratio), "{rate}: {size}, {ratio}");
        }
        assert!(size_for_rate(1 << 24, FalsePositiveRate::new(1e-30).unwrap()).is_err());
    }

    #[test]
    fn params_round_trip_and_lies_are_refused() {
        for (positions, probes) in [(1, 1), (64, 7), (1_000, 3), (10 << 32, 32)] {
            let spread = Spread::new(positions, probes).unwrap();
            let payload_bytes = spread.payload_bytes(64);
            let encoded = EncodedShape { params: spread.params(), salt: 0, keys: 5, payload_bytes };
            assert_eq!(Spread::decode(&encoded, 64), Ok(spread));
            for payload_bytes in [0, payload_bytes - 8, payload_bytes + 8] {
                assert!(Spread::decode(&EncodedShape { payload_bytes, ..encoded }, 64).is_err());
            }
            assert!(Spread::decode(&EncodedShape { salt: 1, ..encoded }, 64).is_err());
        }
        for words in [&[64, 0][..], &[64, 33 << 8], &[64, 1 << 16 | 1 << 8], &[0, 1 << 8], &[64], &[64, 1 << 8, 0], &[]]
        {
            let params = words.iter().copied().collect();
            assert!(
                Spread::decode(&EncodedShape { params, salt: 0, keys: 1, payload_bytes: 8 }, 64).is_err(),
                "{words:?}"
            );
        }
        assert!(Spread::new(0, 1).is_err() && Spread::new(1, 0).is_err() && Spread::new(1, 33).is_err());
    }

    #[test]
    fn estimates_are_right_for_the_fill_that_keys_are_expected_to_leave() {
        let spread = Spread::new(10_000, 7).unwrap();
        let filled = 10_000.0 * (1.0 - (-7_000.0_f64 / 10_000.0).exp());
        assert_eq!(spread.estimated_keys(filled as u64), 1_000);
        assert_eq!(spread.estimated_keys(0), 0);
        assert_eq!(spread.estimated_keys(10_000), u64::MAX);
    }
}
