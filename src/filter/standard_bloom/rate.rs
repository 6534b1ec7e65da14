//! The expected false positive rate, computed from counts alone.
//!
//! Only additions, multiplications and divisions, in a fixed order: a size that is derived from a rate is the same on
//! every platform.

use crate::filter::power;

/// Above so many positions the fill does not vary enough to show.
const LARGE: u64 = 1 << 20;

/// The rate of `keys` distinct keys at `probes` of `positions` positions each: the mean of the fill to the power
/// `probes`.
///
/// The power of the mean fill, the usual formula, is too low for small filters, because the fill varies from one to the
/// other (Bose et al. 2008); the second moment of the fill makes up for it.
pub(super) fn of_keys(keys: u64, positions: u64, probes: u8) -> f64 {
    if keys == 0 || positions == 0 {
        return 0.0;
    }
    let (size, throws) = (positions as f64, u128::from(keys) * u128::from(probes));
    let clear = power(1.0 - 1.0 / size, throws);
    let fill = 1.0 - clear;
    let of_mean_fill = power(fill, probes);
    if positions > LARGE || positions <= 2 {
        return of_mean_fill;
    }
    let both_clear = power(1.0 - 2.0 / size, throws);
    let variance = ((size - 1.0) * both_clear + clear - size * clear * clear).max(0.0) / size;
    let probes = f64::from(probes);
    (of_mean_fill * (1.0 + probes * (probes - 1.0) / 2.0 * variance / (fill * fill))).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_filters_have_the_rate_of_the_usual_formula() {
        for (bits, probes) in [(4.79, 3_i32), (9.59, 7), (14.38, 10), (19.17, 13), (23.96, 17)] {
            let keys = 10_000_000_u64;
            let usual = (1.0 - (-f64::from(probes) / bits).exp()).powi(probes);
            let rate = of_keys(keys, (keys as f64 * bits) as u64, probes as u8);
            assert!((rate / usual - 1.0).abs() < 1e-5, "{bits}: {rate}, {usual}");
        }
    }

    #[test]
    fn the_rate_hardly_jumps_where_the_second_moment_is_left_out() {
        let (below, above) = (of_keys(100_000, LARGE, 7), of_keys(100_000, LARGE + 1, 7));
        assert!((below / above - 1.0).abs() < 1e-4, "{below} {above}");
    }

    #[test]
    fn the_saturated_filter_of_a_thousand_bits_lets_three_of_four_through() {
        let rate = of_keys(800, 1_000, 3);
        assert!((0.752..0.7525).contains(&rate), "{rate}");
    }

    #[test]
    fn empty_and_overfull_filters_have_the_rates_one_expects() {
        assert_eq!(of_keys(0, 64, 7), 0.0);
        for keys in [1 << 32, u64::MAX] {
            assert_eq!(of_keys(keys, 64, 7), 1.0);
        }
        for positions in [1, 2, 3] {
            assert!((0.0..=1.0).contains(&of_keys(1, positions, 32)));
        }
    }
}
