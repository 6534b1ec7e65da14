//! The expected false positive rate: exact, by additions and multiplications alone, because sizes follow from it.

use super::shape::CuckooShape;

/// The share of absent keys that a filter lets through after `keys` distinct keys were inserted.
///
/// A key is told from others by its tag and its pair of buckets: one of `tag values x pairs` classes, all equally
/// likely, wherever its tag lies. An absent key gets through exactly when its class is one of those of the keys:
/// with probability `1 - (1 - 1 / classes) ^ keys`. At a load of l that is about `8 l / (2^bits - 1)`.
pub(super) fn of_shape(shape: CuckooShape, keys: u64) -> f64 {
    let one_key = 1.0 / (shape.tag_values() as f64 * shape.pairs() as f64);
    // The chance that one of `n` keys meets the class, for n = 1, 2, 4, ...: the union of two halves. Nothing is
    // subtracted from 1, so that small chances keep all their digits.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_eight_slots_at_the_load() {
        for tag_bits in [4, 8, 12, 16, 24, 32] {
            let shape = CuckooShape::with_tag_bits(1_000_000, tag_bits).unwrap();
            let load = 1e6 / shape.places() as f64;
            let per_slot = 8.0 * load / ((1_u64 << tag_bits) - 1) as f64;
            let expected = -(-per_slot).exp_m1();
            let ratio = of_shape(shape, 1_000_000) / expected;
            assert!((ratio - 1.0).abs() < 1e-6, "{tag_bits} bits: {ratio}");
        }
    }

    #[test]
    fn the_rate_is_nothing_without_keys_and_never_above_one() {
        let shape = CuckooShape::with_tag_bits(0, 4).unwrap();
        assert_eq!(of_shape(shape, 0), 0.0);
        assert_eq!(of_shape(shape, 1), 1.0 / (15.0 * shape.pairs() as f64));
        assert!(of_shape(shape, u64::MAX) <= 1.0);
    }
}
