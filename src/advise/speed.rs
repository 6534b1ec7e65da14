//! How long building and asking take, as measured once.

/// Nanoseconds per key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Speed {
    pub(super) build_ns: f64,
    pub(super) probe_ns: f64,
}

/// Build and probe at 10,000, 100,000, 1,000,000 and 10,000,000 keys.
pub(super) type Measured = [(f64, f64); 4];

/// Keys of the first column, as a power of ten.
const FIRST_LOG10: f64 = 4.0;

/// What a lock adds to each call that other threads want as well: an estimate.
pub(super) const LOCK_NS: f64 = 100.0;

/// Between two columns the time is taken in proportion to the logarithm of the number of keys; outside, that of the
/// nearest.
pub(super) fn at(measured: &Measured, keys: u64) -> Speed {
    let place = (keys.max(1) as f64).log10() - FIRST_LOG10;
    let place = place.clamp(0.0, (measured.len() - 1) as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 3")]
    let left = place as usize;
    let right = (left + 1).min(measured.len() - 1);
    let share = place - left as f64;
    let between = |one: f64, other: f64| one + (other - one) * share;
    Speed {
        build_ns: between(measured[left].0, measured[right].0),
        probe_ns: between(measured[left].1, measured[right].1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_from_between_the_columns_and_not_from_beyond() {
        let measured = [(1.0, 10.0), (2.0, 20.0), (4.0, 40.0), (8.0, 80.0)];
        assert_eq!(at(&measured, 0), Speed { build_ns: 1.0, probe_ns: 10.0 });
        assert_eq!(at(&measured, 100_000), Speed { build_ns: 2.0, probe_ns: 20.0 });
        assert_eq!(at(&measured, u64::MAX), Speed { build_ns: 8.0, probe_ns: 80.0 });
        let between = at(&measured, 316_228);
        assert!((between.build_ns - 3.0).abs() < 1e-5 && (between.probe_ns - 30.0).abs() < 1e-4, "{between:?}");
    }
}
