//! Plans: the parameters that a policy has chosen for a filter, and the rates that follow from them.

use std::sync::Arc;

use sstfilter::{ConfigError, KeyExtractor};

use super::params::{LINE_BYTES, SEGMENT_BYTES};

/// The units in which ranges are counted for [`RangePolicy::hashed`](super::RangePolicy::hashed): an integer in
/// big-endian bytes, at the start of the key or after its prefix.
///
/// Keys may be longer than the integer. Shorter ones are padded with zeros. Do not use numbers written as text: as
/// bytes, the digits of a range of 100 span millions of units.
///
/// A range counts every unit that it touches. Coarse units ([`with_granularity_bits`](Self::with_granularity_bits))
/// make long ranges cheap: a range of 2^20 units of 1 takes 29 bits per key at 1 %, and the same range in units of 2^10
/// takes 19, because it touches 2^10 units or one more. Keys in one unit share a code and take less space. The price is
/// that a key in a unit that the range covers in part makes the range positive. Choose units of a hundredth of the
/// usual range, and smaller than the distance of neighbouring keys.
///
/// A range that begins right after a key excludes that key's unit only if all keys of the file have one length and end
/// with the integer. Otherwise, begin at the next unit, inclusive.
///
/// ```
/// use std::sync::Arc;
///
/// use sstfilter::FixedPrefix;
/// use sstfilter_range::RangeUnits;
///
/// // Keys of 16 bytes: a sensor, and the time in milliseconds. One range unit is about a second.
/// let seconds = RangeUnits::integer(8)?.with_prefix(Arc::new(FixedPrefix::new(8))).with_granularity_bits(10)?;
/// # let _ = seconds;
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RangeUnits {
    pub(super) integer_bytes: u32,
    pub(super) low_bits: u32,
    pub(super) extractor: Option<Arc<dyn KeyExtractor>>,
}

impl RangeUnits {
    /// Counts in units of 1, in an integer of 1 to 8 bytes.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] for another number of bytes.
    pub fn integer(bytes: u32) -> Result<Self, ConfigError> {
        if !(1..=8).contains(&bytes) {
            let (option, expected) = ("bytes of the integer that ranges are counted in", "1 to 8");
            return Err(ConfigError::OutOfRange { option, expected, got: bytes.into() });
        }
        Ok(Self { integer_bytes: bytes, low_bits: 0, extractor: None })
    }

    /// Counts in units of 2^`bits`: the integer's low bits are dropped. This adds false positives to those that the
    /// policy plans, from keys outside the range in one of its two end units: always if the range begins in the unit of
    /// a key, and otherwise about as often as a unit contains a key.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] if no bit of the integer is left.
    pub fn with_granularity_bits(self, bits: u32) -> Result<Self, ConfigError> {
        if bits >= self.integer_bytes * 8 {
            let (option, expected) = ("granularity bits of a range unit", "fewer than the integer has");
            return Err(ConfigError::OutOfRange { option, expected, got: bits.into() });
        }
        Ok(Self { low_bits: bits, ..self })
    }

    /// Expects the integer after the part that `extractor` returns, which must be a prefix of the key. A query whose
    /// ends do not share such a part is answered with "may be present".
    ///
    /// The extractor must keep the promise of [`KeyExtractor::extract_prefix`], and `extract_prefix` of a part must
    /// return that part, as with [`FixedPrefix`](sstfilter::FixedPrefix) and
    /// [`DelimitedPrefix`](sstfilter::DelimitedPrefix). Otherwise, no filter is built
    /// ([`FallbackReason::UnstableExtractor`](sstfilter::FallbackReason::UnstableExtractor)).
    #[must_use]
    pub fn with_prefix(self, extractor: Arc<dyn KeyExtractor>) -> Self {
        Self { extractor: Some(extractor), ..self }
    }

    /// Bits of a 64-bit window that are below a unit.
    pub(super) fn shift(&self) -> u32 {
        64 - self.integer_bytes * 8 + self.low_bits
    }
}

/// The plan of one of the two maps.
#[derive(Clone, Debug)]
pub(super) enum MapPlan {
    Hashed(HashedPlan),
    Ordered(OrderedPlan),
}

#[derive(Clone, Debug)]
pub(super) struct HashedPlan {
    pub(super) units: RangeUnits,
    pub(super) longest: u64,
    pub(super) low_bits: u32,
    /// Mean number of codes in a line.
    pub(super) line_codes: u32,
    pub(super) chunk_bits: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OrderedPlan {
    /// Low bits per key. Where keys share codes, the codes get more.
    pub(super) low_bits: u32,
    /// Maximum number of keys in a segment.
    pub(super) segment_keys: u32,
}

impl HashedPlan {
    /// Returns the rate for ranges of the declared length.
    pub(super) fn rate(&self) -> f64 {
        rate_of_hashed(f64::from(self.line_codes) / (256.0 * two_to(self.low_bits)), self.longest)
    }
}

impl OrderedPlan {
    /// Returns the bytes of the payload for this many keys of one length without any in common.
    pub(super) fn payload_bytes(self, keys: u64) -> u64 {
        let segments = keys.div_ceil(self.segment_keys.max(1).into());
        segments * (LINE_BYTES + SEGMENT_BYTES) + keys * u64::from(self.low_bits) / 8 + 8
    }

    /// Returns the mean rate for ranges whose ends are spread evenly over the span of a segment.
    pub(super) fn rate(self) -> f64 {
        rate_of_ordered(self.segment_keys.into(), self.low_bits)
    }
}

/// Returns the rate of hashed codes that fill the share `filled` of their space, for empty ranges of `units` units.
pub(super) fn rate_of_hashed(filled: f64, units: u64) -> f64 {
    // 1 - e^-x, but without the cancellation that would lose low rates.
    -(-filled * units as f64).exp_m1()
}

/// Returns the rate of ordered codes with this mean number in a segment, for ranges with one random end in a segment.
pub(super) fn rate_of_ordered(segment_codes: f64, low_bits: u32) -> f64 {
    // In proportion to the codes, and halved by each low bit.
    (MEAN_SEGMENT_RATE * segment_codes / 224.0 / two_to(low_bits)).min(1.0)
}

/// The mean of keys per cell in the span of a segment of 224 keys without low bits. A segment's keys span between half
/// and all of the 256 cells, and the logarithm of that share is spread evenly.
pub(super) const MEAN_SEGMENT_RATE: f64 = 224.0 / 256.0 * core::f64::consts::LOG2_E;

/// Returns 2^`exponent`, with the same bits on every platform.
pub(super) fn two_to(exponent: u32) -> f64 {
    (1_u64 << exponent) as f64
}
