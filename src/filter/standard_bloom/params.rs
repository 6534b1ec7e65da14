//! A filter's size, its number of positions per key, and the resulting rates.

use crate::error::ConfigError;
use crate::filter::{KindId, RATE_KEYS, power};
use crate::hash::{KeyHash, STEP, map_to_range};
use crate::math;
use crate::units::{BitsPerKey, FalsePositiveRate};

/// The maximum number of positions of a key. Up to 100 bits per key, the lowest rate takes at most 69. But from 32 on
/// the rate is below 1e-9, and each further probe costs more time than the lookups it saves.
pub(crate) const MAX_PROBES: u8 = 32;

/// Thousandths of a bit per key from which the next number of probes has fewer false positives: where (1 - e^(-k/c))^k
/// is equal for k and k + 1. A table, because `exp` differs between platforms and sizes must not.
const PROBE_THRESHOLDS: [u32; MAX_PROBES as usize - 1] = [
    2_078, 3_556, 5_014, 6_464, 7_912, 9_358, 10_804, 12_248, 13_692, 15_136, 16_580, 18_024, 19_467, 20_910, 22_354,
    23_797, 25_240, 26_683, 28_126, 29_569, 31_012, 32_455, 33_898, 35_341, 36_784, 38_227, 39_670, 41_112, 42_555,
    43_998, 45_441,
];

/// Above this many positions the fill of a filter hardly varies, and the rate ignores its variance.
const LARGE: u64 = 1 << 20;

/// Returns the number of probes, 1 to 32, with the lowest rate at a size: 0.69 times the bits per key, rounded.
fn optimal_probes(size: BitsPerKey) -> u8 {
    let passed = PROBE_THRESHOLDS.iter().filter(|&&threshold| size.millibits() >= threshold).count();
    u8::try_from(passed + 1).unwrap_or(MAX_PROBES)
}

/// Returns the smallest size at which a filter of `keys` keys has an expected rate of at most `rate`.
///
/// It is up to 0.4 % more than ln(1/rate) / ln(2)^2 bits per key, because a key has a whole number of probes.
pub(crate) fn size_for_rate(keys: u64, rate: FalsePositiveRate) -> Result<BitsPerKey, ConfigError> {
    // Beyond `RATE_KEYS` the rate does not depend on the number of keys; for 0 keys it would be 0 at every size.
    let keys = keys.clamp(1, RATE_KEYS);
    let fpr_at = |size| BloomParams::for_keys(keys, size).expected_fpr(keys);
    BitsPerKey::smallest_where(|size| fpr_at(size) <= rate.get()).ok_or_else(|| ConfigError::RateOutOfRange {
        kind: KindId::STANDARD_BLOOM,
        min: fpr_at(BitsPerKey::MAX),
        max: 1.0,
        got: rate.get(),
    })
}

/// Returns the positions for `keys` keys at `size`: rounded up to 64, at least 64; `u64::MAX` if there would be more.
fn positions_for(keys: u64, size: BitsPerKey) -> u64 {
    let millibits = u128::from(keys) * u128::from(size.millibits());
    u64::try_from(millibits.div_ceil(64_000).max(1) * 64).unwrap_or(u64::MAX)
}

/// The number of positions of a filter, and how many of them each key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BloomParams {
    pub(crate) positions: u64,
    /// 1 to [`MAX_PROBES`].
    pub(crate) probes: u8,
}

impl BloomParams {
    /// Returns parameters with given `positions` and `probes`, if they are valid.
    pub(crate) fn new(positions: u64, probes: u8) -> Result<Self, ConfigError> {
        match (positions, probes) {
            (0, _) => Err(ConfigError::out_of_range("positions of a filter", "1 or more", positions)),
            (_, 0 | 33..) => Err(ConfigError::out_of_range("probes", "1 to 32", probes)),
            _ => Ok(Self { positions, probes }),
        }
    }

    /// Returns the parameters for `keys` keys at `size`, without a limit on the size.
    pub(crate) fn for_keys(keys: u64, size: BitsPerKey) -> Self {
        Self { positions: positions_for(keys, size), probes: optimal_probes(size) }
    }

    /// Returns the number of probes: `PROBES`, if it is a constant of the compiled loop.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it bounds loops that are to be unrolled")]
    pub(crate) fn probes_or<const PROBES: u8>(self) -> u8 {
        if PROBES == ANY_PROBES { self.probes } else { PROBES }
    }

    /// Returns the expected rate with `keys` distinct keys: the mean of the fill to the power of the probes.
    ///
    /// The usual formula, the power of the mean fill, is too low for small filters, because their fills vary (Bose et
    /// al. 2008); the second moment of the fill corrects it. Only additions, multiplications and divisions are used, in
    /// a fixed order, so that a size derived from a rate is the same on every platform.
    pub(crate) fn expected_fpr(self, keys: u64) -> f64 {
        let Self { positions, probes } = self;
        if keys == 0 || positions == 0 {
            return 0.0;
        }
        let (size, throws) = (positions as f64, u128::from(keys) * u128::from(probes));
        let clear = power(1.0 - 1.0 / size, throws);
        let fill = 1.0 - clear;
        let of_mean_fill = power(fill, probes);
        // With one or two positions, `1 - 2 / size` below is not positive.
        if positions > LARGE || positions <= 2 {
            return of_mean_fill;
        }
        let both_clear = power(1.0 - 2.0 / size, throws);
        let variance = ((size - 1.0) * both_clear + clear - size * clear * clear).max(0.0) / size;
        let probes = f64::from(probes);
        (of_mean_fill * (1.0 + probes * (probes - 1.0) / 2.0 * variance / (fill * fill))).min(1.0)
    }

    /// Returns the number of keys that most likely took `taken` positions (Swamidass and Baldi 2007); [`u64::MAX`] when
    /// all are taken.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float stops at the ends of the range"
    )]
    pub(crate) fn estimated_keys(self, taken: u64) -> u64 {
        let positions = self.positions as f64;
        let keys = -(positions / f64::from(self.probes)) * libm::log1p(-(taken as f64) / positions);
        math::round(keys) as u64
    }

    /// Returns the positions of a key.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the loops over keys keep it in registers")]
    pub(crate) fn sequence(self, hash: KeyHash) -> ProbeSequence {
        let hash = hash.get();
        ProbeSequence { at: hash, step: hash.wrapping_mul(STEP), positions: self.positions }
    }
}

/// Marks a loop that is not compiled for a constant number of probes.
pub(super) const ANY_PROBES: u8 = 0;

/// Runs a loop over keys with the number of probes as a constant, for the usual numbers, up to 20 bits per key. Each
/// number is a separate copy of the loop; copies for larger sizes would cost code size and be used rarely.
macro_rules! with_probes {
    ($params:expr, $probes:ident => $call:expr) => {
        with_probes!($params, $probes => $call, 1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    };
    ($params:expr, $probes:ident => $call:expr, $($count:literal)+) => {
        match $params.probes {
            $($count => {
                const $probes: u8 = $count;
                $call
            })+
            _ => {
                const $probes: u8 = $crate::filter::standard_bloom::params::ANY_PROBES;
                $call
            }
        }
    };
}
pub(super) use with_probes;

/// The constructors of filters that are planned for a number of keys. `$cells` is what their positions are called.
macro_rules! planned_by_keys {
    ($cells:literal) => {
        #[doc = concat!(
            "Creates an empty filter for `keys` keys with this many ", $cells, " per key, and the number of probes ",
            "that has the lowest rate at this size.",
        )]
        ///
        /// # Errors
        ///
        /// [`FilterError::TooLarge`] beyond 32 GiB; [`FilterError::NoMemory`] when allocation fails.
        pub fn for_size(hash: HashIdentity, keys: u64, size: BitsPerKey) -> Result<Self, FilterError> {
            Self::empty(hash, BloomParams::for_keys(keys, size))
        }

        /// Creates the smallest filter whose expected false positive rate with `keys` keys is at most `rate`.
        ///
        /// # Errors
        ///
        #[doc = concat!("[`FilterError::Config`] when 100 ", $cells, " per key are not enough; ")]
        /// [`FilterError::TooLarge`] beyond 32 GiB; [`FilterError::NoMemory`] when allocation fails.
        pub fn for_rate(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
            Self::for_size(hash, keys, $crate::filter::standard_bloom::size_for_rate(keys, rate)?)
        }
    };
}
pub(crate) use planned_by_keys;

/// The positions of one key, in sequence and without end; a filter uses the first `probes`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeSequence {
    at: u64,
    step: u64,
    positions: u64,
}

/// The bits by which the step is rotated after each probe, for the reason in the module documentation. Odd, so that 64
/// successive rotations differ.
const ROTATION: u32 = 23;

impl ProbeSequence {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the loops over keys keep it in registers")]
    pub(crate) fn next(&mut self) -> u64 {
        let position = map_to_range(self.at, self.positions);
        self.at = self.at.wrapping_add(self.step);
        self.step = self.step.rotate_left(ROTATION);
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::vectors;

    fn rate_of(keys: u64, positions: u64, probes: u8) -> f64 {
        BloomParams { positions, probes }.expected_fpr(keys)
    }

    #[test]
    fn positions_are_those_of_the_vectors() {
        for row in vectors("standard-bloom").rows("positions") {
            let params = BloomParams::new(row.number("m"), row.number("probes") as u8).unwrap();
            let mut sequence = params.sequence(KeyHash::from_well_mixed(row.hex("hash")));
            let expected = row.numbers("positions");
            assert_eq!(expected.len() as u64, row.number("probes"), "{row}");
            assert!(expected.into_iter().all(|position| sequence.next() == position), "{row}");
        }
    }

    #[test]
    fn each_threshold_is_where_the_next_number_of_probes_starts_to_win() {
        for (fewer, &threshold) in (1..).zip(&PROBE_THRESHOLDS) {
            let rate_of = |millibits: u32, probes| rate_of(1 << 24, (1 << 24) * u64::from(millibits) / 1_000, probes);
            assert!(rate_of(threshold - 2, fewer) < rate_of(threshold - 2, fewer + 1), "{threshold}");
            assert!(rate_of(threshold + 2, fewer + 1) < rate_of(threshold + 2, fewer), "{threshold}");
        }
    }

    #[test]
    fn thresholds_are_those_of_the_vectors() {
        let own = vectors("standard-bloom").numbers("probe_thresholds");
        assert!(own.into_iter().eq(PROBE_THRESHOLDS.map(u64::from)));
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
    }

    #[test]
    fn the_smallest_size_for_a_rate_meets_it_and_is_near_the_textbooks() {
        for rate in [0.5, 0.1, 0.01, 0.001, 1e-6, 1e-9] {
            let rate = FalsePositiveRate::new(rate).unwrap();
            let size = size_for_rate(1 << 24, rate).unwrap();
            assert!(BloomParams::for_keys(1 << 24, size).expected_fpr(1 << 24) <= rate.get());
            let ratio = size.get() / (-rate.get().log2() / core::f64::consts::LN_2);
            assert!((0.9999..1.005).contains(&ratio), "{rate}: {size}, {ratio}");
        }
        assert!(size_for_rate(1 << 24, FalsePositiveRate::new(1e-30).unwrap()).is_err());
    }

    #[test]
    fn any_number_of_keys_has_a_size_for_a_rate() {
        for keys in (0..64).flat_map(|log2| [(1_u64 << log2) - 1, 1 << log2, (1 << log2) + 1]) {
            for rate in [0.5, 0.01, 1e-6] {
                assert!(size_for_rate(keys, FalsePositiveRate::new(rate).unwrap()).is_ok(), "{keys} keys");
            }
        }
    }

    #[test]
    fn filters_without_positions_or_with_another_number_of_probes_are_refused() {
        assert!(BloomParams::new(0, 1).is_err() && BloomParams::new(1, 0).is_err() && BloomParams::new(1, 33).is_err());
    }

    #[test]
    fn estimates_are_right_for_the_fill_that_keys_are_expected_to_leave() {
        let params = BloomParams::new(10_000, 7).unwrap();
        let filled = 10_000.0 * (1.0 - (-7_000.0_f64 / 10_000.0).exp());
        assert_eq!(params.estimated_keys(filled as u64), 1_000);
        assert_eq!(params.estimated_keys(0), 0);
        assert_eq!(params.estimated_keys(10_000), u64::MAX);
    }

    #[test]
    fn large_filters_have_the_rate_of_the_usual_formula() {
        for (bits, probes) in [(4.79, 3_i32), (9.59, 7), (14.38, 10), (19.17, 13), (23.96, 17)] {
            let keys = 10_000_000_u64;
            let usual = (1.0 - (-f64::from(probes) / bits).exp()).powi(probes);
            let rate = rate_of(keys, (keys as f64 * bits) as u64, probes as u8);
            assert!((rate / usual - 1.0).abs() < 1e-5, "{bits}: {rate}, {usual}");
        }
    }

    #[test]
    fn the_rate_hardly_jumps_where_the_second_moment_is_left_out() {
        let (below, above) = (rate_of(100_000, LARGE, 7), rate_of(100_000, LARGE + 1, 7));
        assert!((below / above - 1.0).abs() < 1e-4, "{below} {above}");
    }

    #[test]
    fn the_saturated_filter_of_a_thousand_bits_lets_three_of_four_through() {
        let rate = rate_of(800, 1_000, 3);
        assert!((0.752..0.7525).contains(&rate), "{rate}");
    }

    #[test]
    fn empty_and_overfull_filters_have_the_rates_one_expects() {
        assert_eq!(rate_of(0, 64, 7), 0.0);
        for keys in [1 << 32, u64::MAX] {
            assert_eq!(rate_of(keys, 64, 7), 1.0);
        }
        for positions in [1, 2, 3] {
            assert!((0.0..=1.0).contains(&rate_of(1, positions, 32)));
        }
    }
}
