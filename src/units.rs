//! Sizes and rates as types, so that a bare `f64` never stands for either.

use core::fmt;

use crate::error::ConfigError;
use crate::math;

/// Filter size per distinct key, in thousandths of a bit, from 1 to 100 bits.
///
/// Sizes are computed in integers, so that they are equal on every platform.
///
/// ```
/// use sstfilter::BitsPerKey;
///
/// assert_eq!(BitsPerKey::new(9.9)?.millibits(), 9_900);
/// assert!(BitsPerKey::new(f64::NAN).is_err());
/// assert!(BitsPerKey::new(1e9).is_err());
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitsPerKey {
    millibits: u32,
}

impl BitsPerKey {
    /// The smallest size accepted: one bit per key.
    pub const MIN: Self = Self { millibits: 1_000 };
    /// The largest size accepted: one hundred bits per key.
    pub const MAX: Self = Self { millibits: 100_000 };
    /// Ten bits per key, about 1 % false positives in a blocked Bloom filter.
    pub const TEN: Self = Self { millibits: 10_000 };

    /// Bits per key, rounded to the nearest thousandth.
    ///
    /// # Errors
    ///
    /// [`ConfigError::BitsPerKey`] when `bits` is not a number from 1 to 100.
    pub fn new(bits: f64) -> Result<Self, ConfigError> {
        if !(1.0..=100.0).contains(&bits) {
            return Err(ConfigError::BitsPerKey { got: bits });
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked: 1,000 to 100,000"
        )]
        let millibits = math::round(bits * 1_000.0) as u32;
        Ok(Self { millibits })
    }

    /// Returns the size of `millibits` thousandths of a bit per key.
    ///
    /// # Errors
    ///
    /// [`ConfigError::BitsPerKey`] when `millibits` is not from 1,000 to 100,000.
    pub fn from_millibits(millibits: u32) -> Result<Self, ConfigError> {
        let size = Self { millibits };
        let is_size = (Self::MIN..=Self::MAX).contains(&size);
        if is_size { Ok(size) } else { Err(ConfigError::BitsPerKey { got: size.get() }) }
    }

    /// Returns the size in thousandths of a bit per key.
    #[must_use]
    pub const fn millibits(self) -> u32 {
        self.millibits
    }

    /// Returns the size in bits per key.
    #[must_use]
    pub fn get(self) -> f64 {
        f64::from(self.millibits) / 1_000.0
    }

    /// Finds the smallest size for which the monotone predicate `is_enough` holds, by bisection. `None` when the
    /// largest size is not enough.
    pub fn smallest_where(is_enough: impl Fn(Self) -> bool) -> Option<Self> {
        let (mut low, mut high) = (Self::MIN.millibits, Self::MAX.millibits);
        if !is_enough(Self::MAX) {
            return None;
        }
        while low < high {
            let middle = low.midpoint(high);
            if is_enough(Self { millibits: middle }) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(Self { millibits: low })
    }
}

impl Default for BitsPerKey {
    /// Ten bits per key.
    fn default() -> Self {
        Self::TEN
    }
}

impl fmt::Display for BitsPerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bits per key", self.get())
    }
}

/// The share of absent keys for which a filter returns "may be present", strictly between 0 and 1.
///
/// ```
/// use sstfilter::FalsePositiveRate;
///
/// let one_percent = FalsePositiveRate::new(0.01)?;
/// assert_eq!(one_percent, FalsePositiveRate::ONE_PERCENT);
/// assert!(FalsePositiveRate::new(0.0).is_err());
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct FalsePositiveRate(f64);

impl FalsePositiveRate {
    /// One in a hundred.
    pub const ONE_PERCENT: Self = Self(0.01);

    /// Returns the rate, which lies between 0 and 1, both excluded.
    ///
    /// # Errors
    ///
    /// [`ConfigError::FalsePositiveRate`] when `rate` is not a number strictly between 0 and 1.
    pub fn new(rate: f64) -> Result<Self, ConfigError> {
        if rate > 0.0 && rate < 1.0 { Ok(Self(rate)) } else { Err(ConfigError::FalsePositiveRate { got: rate }) }
    }

    /// Returns the rate 2^-`bits`, which a fingerprint of `bits` bits has.
    ///
    /// # Errors
    ///
    /// [`ConfigError::FalsePositiveRate`] when `bits` is 0 or above 1,000.
    pub fn from_fingerprint_bits(bits: u32) -> Result<Self, ConfigError> {
        // 2^-1,000 is still a normal `f64`; from 2^-1,075 on, the rate would be 0.
        if !(1..=1_000).contains(&bits) {
            return Err(ConfigError::FalsePositiveRate { got: if bits == 0 { 1.0 } else { 0.0 } });
        }
        // Halving is exact, so that the rate is equal on every platform.
        Self::new((0..bits).fold(1.0, |rate, _| rate / 2.0))
    }

    /// Returns the rate as a fraction of 1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for FalsePositiveRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1e-6 { write!(f, "{:.3e}", self.0) } else { write!(f, "{:.4} %", self.0 * 100.0) }
    }
}

/// The target that sets a filter's size. It means the same for every kind; a kind that cannot meet it returns an error.
///
/// ```
/// use sstfilter::{BitsPerKey, FalsePositiveRate, FixedPolicy, Sizing};
///
/// let by_rate = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT)?;
/// let by_size = FixedPolicy::ribbon(BitsPerKey::TEN)?;
/// let by_columns = FixedPolicy::ribbon(Sizing::FingerprintBits(7))?;
/// # let _ = (by_rate, by_size, by_columns);
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Sizing {
    /// At most this false positive rate in a large filter, in as few bytes as the kind needs.
    Rate(FalsePositiveRate),
    /// At most about this size for the whole block of a large file, with the lowest rate that the kind reaches at it.
    BitsPerKey(BitsPerKey),
    /// Bits stored per key: of a fingerprint or a cuckoo filter's tag, or the columns of a Ribbon filter. An error for
    /// Bloom filters, which have no fingerprints.
    FingerprintBits(u8),
}

impl From<FalsePositiveRate> for Sizing {
    fn from(rate: FalsePositiveRate) -> Self {
        Self::Rate(rate)
    }
}

impl From<BitsPerKey> for Sizing {
    fn from(size: BitsPerKey) -> Self {
        Self::BitsPerKey(size)
    }
}

impl fmt::Display for Sizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => write!(f, "a false positive rate of {rate}"),
            Self::BitsPerKey(size) => size.fmt(f),
            Self::FingerprintBits(bits) => write!(f, "fingerprints of {bits} bits"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_outside_one_to_hundred_bits_are_refused() {
        for bits in [f64::NAN, f64::INFINITY, -1.0, 0.0, 0.999, 100.001, 1e9] {
            assert!(BitsPerKey::new(bits).is_err(), "{bits}");
        }
        assert!(BitsPerKey::from_millibits(999).is_err());
        assert!(BitsPerKey::from_millibits(100_001).is_err());
        assert_eq!(BitsPerKey::new(9.9).unwrap().millibits(), 9_900);
    }

    #[test]
    fn rates_outside_the_open_unit_interval_are_refused() {
        for rate in [f64::NAN, f64::INFINITY, -0.1, 0.0, 1.0, 2.0] {
            assert!(FalsePositiveRate::new(rate).is_err(), "{rate}");
        }
        assert!(FalsePositiveRate::from_fingerprint_bits(0).is_err());
        let rate = FalsePositiveRate::from_fingerprint_bits(32).unwrap();
        assert!((rate.get().log2() + 32.0).abs() < 1e-12);
    }
}
