//! Powers by multiplication only: equal on every platform, unlike `powf` and `exp`.

/// Returns `base` to the power `exponent`, by squaring.
pub(crate) fn power(mut base: f64, exponent: impl Into<u128>) -> f64 {
    let (mut exponent, mut result) = (exponent.into(), 1.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_exact_and_anything_to_the_power_of_nothing_is_one() {
        assert_eq!(
            (power(0.5, 10_u64), power(2.0, 100_u64), power(0.3, 0_u64)),
            (1.0 / 1_024.0, 2.0_f64.powi(100), 1.0)
        );
        assert_eq!(power(0.999, u128::MAX), 0.0);
    }
}
