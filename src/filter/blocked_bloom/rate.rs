//! The expected false positive rate, computed only from counts.
//!
//! It uses only additions, multiplications and divisions, in a fixed order, so that a size derived from a rate is the
//! same on every platform (`exp` and `powf` differ between platforms).

use super::line::MAX_PROBES;
use crate::filter::power;

/// Expected rate over the product of the lanes' expected fills, by number of probes. The product ignores that a key
/// uses lanes in fixed sets. The ratio was computed by inclusion and exclusion over the sets at the sizes where each
/// number of probes is used, and varies by less than 0.3 % there.
const LANE_CORRECTION: [f64; 17] = [
    1.0, 1.0, 1.0029, 0.9984, 0.9972, 0.9945, 0.9947, 0.9952, 1.0, 0.9751, 0.9710, 0.9664, 0.9632, 0.9585, 0.9549,
    0.9537, 0.9517,
];

/// Thousandths of a bit per key from which the next number of probes has fewer false positives, measured on built
/// filters (around each threshold, the two numbers differ by at most 1 %). Nine probes would win from 13,260 on, by
/// less than 3 %; eight are kept until 14,500 because the ninth needs a second round of lanes.
pub(super) const PROBE_THRESHOLDS: [u32; 15] =
    [2_050, 3_550, 5_130, 6_680, 8_450, 10_220, 12_180, 14_500, 16_450, 18_800, 21_800, 24_300, 27_300, 30_000, 34_000];

/// Returns the correction for lines of `keys_per_line` keys.
///
/// Folding makes lines fuller than planned for their number of probes. Nearly all bits are then set, and it matters
/// less which of them a query tests. Up to eight probes, lanes fill up against each other: the rate is too high by the
/// covariance of two bits, which is proportional to `n` times the square of the odds that a bit is clear. Beyond, two
/// probes share the bits of a lane, and the excess is proportional to `n` times the odds. Both are scaled from the
/// fullest planned line; the results are within 0.3 % of inclusion and exclusion up to eight probes, and half a percent
/// beyond.
fn lane_correction(probes: u8, keys_per_line: u64) -> f64 {
    let planned = LANE_CORRECTION[usize::from(probes)];
    let fullest = fullest_planned(probes);
    if keys_per_line <= fullest {
        return planned;
    }
    let excess = |keys: u64| {
        let clear = power(1.0 - f64::from(probes) / 512.0, keys);
        keys as f64 * power(clear / (1.0 - clear), if probes <= 8 { 2_u8 } else { 1 })
    };
    1.0 - (1.0 - planned) * (excess(keys_per_line) / excess(fullest))
}

/// Returns the keys per line at the smallest size for which a number of probes is chosen.
fn fullest_planned(probes: u8) -> u64 {
    let threshold = usize::from(probes).checked_sub(2).and_then(|index| PROBE_THRESHOLDS.get(index));
    // A line has 512 bits, and thresholds are thousandths of a bit per key.
    512_000 / u64::from(*threshold.unwrap_or(&1_000))
}

/// Returns the expected rate of `keys` keys in `lines` lines: the mean over the number of keys in a line.
///
/// This number is binomial. Its weights are computed outwards from the mean, so that nothing underflows at any size.
pub(crate) fn of_lines(keys: u64, lines: u64, probes: u8) -> f64 {
    if keys == 0 {
        return 0.0;
    }
    let probes = probes.clamp(1, MAX_PROBES);
    if lines <= 1 {
        return of_one_line(keys, probes);
    }
    let mean = keys / lines;
    // Lines this full do not differ any more. The limit also bounds the time for a trailer with a false number of keys.
    if mean > 1 << 16 {
        return of_one_line(mean, probes);
    }
    let odds = 1.0 / (lines - 1) as f64;
    let (mut weights, mut rates) = (1.0, of_one_line(mean, probes));
    let mut walk = |steps: &mut dyn Iterator<Item = (u64, f64)>| {
        let mut weight = 1.0;
        for (count, ratio) in steps {
            weight *= ratio;
            if weight < NEGLIGIBLE {
                break;
            }
            weights += weight;
            rates += weight * of_one_line(count, probes);
        }
    };
    walk(&mut (mean..keys).map(|count| (count + 1, (keys - count) as f64 / (count + 1) as f64 * odds)));
    walk(&mut (0..mean).rev().map(|count| (count, (count + 1) as f64 / ((keys - count) as f64 * odds))));
    (rates / weights * lane_correction(probes, mean)).min(1.0)
}

/// Weights below this, relative to the mean's 1, cannot change the result: at the smallest rates the fullest lines
/// count most, by a factor of at most 1e10.
const NEGLIGIBLE: f64 = 1e-30;

/// Returns the rate of a line with `keys` keys, in which the fills that the probes meet are independent. All probes of
/// a key come from 32 bits of its hash, and a key that has these bits of another one is positive for it.
fn of_one_line(keys: u64, probes: u8) -> f64 {
    let clear = power(1.0 - f64::from(probes) / 512.0, keys);
    (power(1.0 - clear, probes) + keys as f64 / 4_294_967_296.0).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterShape;
    use crate::filter::blocked_bloom::shape::{BloomShape, expected_fpr, smallest_size_for};
    use crate::units::{BitsPerKey, FalsePositiveRate};

    /// The lanes' base sets, as in the layout's definition.
    const BASE_SETS: [u8; 9] = [0x00, 0x01, 0x03, 0x0b, 0x17, 0x2f, 0x3f, 0x7f, 0xff];

    /// Probes, keys per line as a Poisson mean, and the rate by inclusion and exclusion over the bits of both rounds of
    /// lanes, computed by another program.
    const COMPUTED: [(u8, u64, f64); 12] = [
        (9, 70, 0.049_836),
        (9, 140, 0.451_188),
        (10, 62, 0.034_153),
        (11, 108, 0.327_619),
        (12, 47, 0.011_096),
        (12, 94, 0.254_918),
        (13, 63, 0.062_729),
        (14, 38, 0.004_079),
        (15, 51, 0.030_036),
        (16, 30, 0.001_038),
        (16, 60, 0.083_522),
        (16, 90, 0.381_186),
    ];

    /// The exact rate by inclusion and exclusion over the bits of one query: the probability that none
    /// of a subset of its bits is set, for Poisson many keys in its line. Up to eight probes.
    fn exact(probes: u8, keys_per_line: f64) -> f64 {
        let sets: Vec<u8> = (0..8).map(|turn| BASE_SETS[usize::from(probes)].rotate_left(turn)).collect();
        let query = sets[0];
        let subsets = (0..=255_u8).filter(|subset| subset & !query == 0);
        subsets
            .map(|subset| {
                let untouched: f64 =
                    sets.iter().map(|set| (63.0_f64 / 64.0).powi((set & subset).count_ones().cast_signed())).sum();
                let sign = if subset.count_ones() % 2 == 0 { 1.0 } else { -1.0 };
                sign * (-keys_per_line * (1.0 - untouched / 8.0)).exp()
            })
            .sum()
    }

    #[test]
    fn thresholds_are_those_of_the_vectors() {
        let own = crate::vectors::vectors("blocked-bloom").numbers("probe_thresholds");
        assert!(own.into_iter().eq(PROBE_THRESHOLDS.map(u64::from)));
    }

    #[test]
    fn the_rate_agrees_with_inclusion_and_exclusion() {
        for (millibits, probes) in
            [(1_500, 1), (3_000, 2), (5_000, 3), (6_000, 4), (8_000, 5), (10_000, 6), (12_000, 7), (14_000, 8)]
        {
            let lines = 1_000_000;
            let keys = lines * 512_000 / millibits;
            let expected = exact(probes, keys as f64 / lines as f64);
            let ratio = of_lines(keys, lines, probes) / expected;
            assert!((ratio - 1.0).abs() < 0.005, "{probes} probes: ratio {ratio}");
        }
    }

    #[test]
    fn the_rate_of_folded_lines_agrees_with_inclusion_and_exclusion() {
        for probes in 1..=8_u8 {
            for factor in 1..=8 {
                let (keys, lines) = (fullest_planned(probes) * 480_000, 480_000 / factor);
                let expected = exact(probes, keys as f64 / lines as f64);
                let ratio = of_lines(keys, lines, probes) / expected;
                assert!((ratio - 1.0).abs() < 0.003, "{probes} probes, folded by {factor}: ratio {ratio}");
            }
        }
    }

    #[test]
    fn the_correction_is_that_of_the_table_at_every_size_that_is_planned() {
        for millibits in 1_000..=100_000 {
            let size = BitsPerKey::from_millibits(millibits).unwrap();
            let shape = BloomShape::for_keys(1 << 24, size).unwrap();
            let correction = lane_correction(shape.probes(), (1 << 24) / shape.lines().count());
            assert_eq!(correction, LANE_CORRECTION[usize::from(shape.probes())], "{size}");
        }
    }

    #[test]
    fn the_rate_of_folded_lines_with_two_rounds_of_lanes_is_the_computed_one() {
        for (probes, keys_per_line, expected) in COMPUTED {
            let ratio = of_lines(keys_per_line * 100_000, 100_000, probes) / expected;
            assert!((ratio - 1.0).abs() < 0.005, "{probes} probes, {keys_per_line} keys per line: ratio {ratio}");
        }
    }

    #[test]
    fn the_rate_falls_with_the_size_of_the_filter() {
        let mut last = 1.0;
        for millibits in (1_000..=100_000).step_by(500) {
            let rate = expected_fpr(1_000_000, BitsPerKey::from_millibits(millibits).unwrap());
            assert!(rate > 0.0 && rate < last * 1.03, "{millibits}: {rate} after {last}");
            last = rate;
        }
    }

    #[test]
    fn overfilled_and_empty_filters_have_the_rates_one_expects() {
        assert_eq!(of_lines(0, 1, 6), 0.0);
        assert!(of_lines(u64::from(u32::MAX), 1, 6) > 0.99);
        assert!(of_lines(10_000_000, 100, 6) > 0.99);
        let one = BloomShape::for_keys(1, BitsPerKey::TEN).unwrap();
        assert!(one.payload_bytes() == 64);
        // One in 2^32: all bits of a key come from 32 of its hash.
        assert!((2.3e-10..2.4e-10).contains(&of_lines(1, 1, 6)));
    }

    #[test]
    fn no_filter_is_expected_to_let_more_through_than_it_is_asked() {
        for probes in 1..=16 {
            for (keys, lines) in [(16_385, 6), (100_000, 2), (1 << 20, 16), ((1 << 40) - 1, 3)] {
                let rate = of_lines(keys, lines, probes);
                assert!((0.9..=1.0).contains(&rate), "{probes} probes, {keys} keys in {lines} lines: {rate}");
            }
        }
    }

    #[test]
    fn the_smallest_size_for_a_rate_meets_it_and_one_step_less_does_not() {
        for rate in [0.5, 0.1, 0.01, 0.001, 1e-6] {
            let rate = FalsePositiveRate::new(rate).unwrap();
            let size = smallest_size_for(10_000_000, rate);
            assert!(expected_fpr(10_000_000, size) <= rate.get());
            let less = BitsPerKey::from_millibits(size.millibits() - 20).unwrap();
            assert!(expected_fpr(10_000_000, less) > rate.get() * 0.999, "{rate}: {size}");
        }
    }
}
