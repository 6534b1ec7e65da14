//! Which range filter a file gets.

use std::sync::Arc;

use super::build::RangeBuilder;
use super::params::{MAX_CHUNK_BITS, MAX_LOW_BITS, MAX_ORDERED_LOW_BITS};
use crate::error::ConfigError;
use crate::hash::KeyExtractor;
use crate::policy::BuildContext;
use crate::units::FalsePositiveRate;

/// What ranges are counted in, for [`RangePolicy::bounded`]: an integer in big-endian bytes, at the start of the key or
/// after its prefix.
///
/// Keys may have more bytes than the integer: it is their order that counts, not their end. Fewer bytes are padded
/// with zeros.
///
/// ```
/// use std::sync::Arc;
///
/// use sstfilter::FixedPrefix;
/// use sstfilter::range::RangeUnits;
///
/// // Keys of 16 bytes: a sensor, and the time in milliseconds. Ranges are counted in seconds, about.
/// let seconds = RangeUnits::integer(8)?.within(Arc::new(FixedPrefix::new(8))).of_low_bits(10)?;
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
    /// Units of 1 in an integer of 1 to 8 bytes.
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

    /// Units of 2^`bits`: the integer's low bits are left out. A range from one second to the next in keys of
    /// nanoseconds then counts few units, and takes few bits per key.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] when that leaves no bit of the integer.
    pub fn of_low_bits(self, bits: u32) -> Result<Self, ConfigError> {
        if bits >= self.integer_bytes * 8 {
            let (option, expected) = ("low bits left out of a range unit", "fewer than the integer has");
            return Err(ConfigError::OutOfRange { option, expected, got: bits.into() });
        }
        Ok(Self { low_bits: bits, ..self })
    }

    /// The integer follows the part that `extractor` gives, which must be a prefix of the key. A query whose ends have no
    /// such part in common is answered with "may be present".
    ///
    /// The extractor must keep the promise of [`KeyExtractor::extract_prefix`], and give a part for the part itself:
    /// [`FixedPrefix`](crate::FixedPrefix) and [`DelimitedPrefix`](crate::DelimitedPrefix) do.
    #[must_use]
    pub fn within(self, extractor: Arc<dyn KeyExtractor>) -> Self {
        Self { extractor: Some(extractor), ..self }
    }

    /// Bits of a 64-bit window that are below a unit.
    pub(super) fn shift(&self) -> u32 {
        64 - self.integer_bytes * 8 + self.low_bits
    }
}

/// Chooses a file's range filter.
///
/// | | [`ordered`](Self::ordered) | [`bounded`](Self::bounded) |
/// |---|---|---|
/// | ranges | any, also without an end | of a declared length, between keys with one prefix |
/// | false positive rate | for numbers, and ends spread evenly among them; up to 1 beside keys, and high for text | proven for all ranges chosen without knowing the seed |
/// | bits per key at 1 % | about 10, whatever the length | 14 for 2^5 units, 19 for 2^10, 29 for 2^20 |
/// | exact | where keys of one length are dense | no |
/// | lower bound of the next key | yes | no |
///
/// Take `ordered` unless ranges start beside existing keys: a few rows per entity, read by time, are such ranges.
/// FORMAT.md derives the rates; `sstfilter advise` applies this rule to keys of yours.
///
/// ```
/// use sstfilter::range::{RangeContext, RangeFilter, RangePolicy};
/// use sstfilter::{BuildContext, FalsePositiveRate, KeyHasher};
///
/// let hasher = KeyHasher::default();
/// let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?;
/// let mut builder = policy.builder(&BuildContext::new(&hasher));
/// for key in [&b"apple"[..], b"cherry", b"plum"] {
///     builder.add_key(key);
/// }
/// let block = builder.finish().block.expect("three keys in order");
///
/// let filter = RangeFilter::load(block, &RangeContext::new(&hasher))?;
/// assert!(filter.may_hold(&b"banana"[..]..&b"date"[..]));
/// assert!(!filter.may_hold(&b"quince"[..]..));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RangePolicy {
    pub(super) plan: MapPlan,
}

/// The code map of a filter to build.
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

#[derive(Clone, Copy, Debug)]
pub(super) struct OrderedPlan {
    /// Low bits per key: where keys share codes, the codes get more of them.
    pub(super) low_bits: u32,
    /// The most keys of a segment.
    pub(super) segment_keys: u32,
}

impl HashedPlan {
    /// The rate for ranges of the declared length.
    pub(super) fn rate(&self) -> f64 {
        rate_of_hashed(f64::from(self.line_codes) / (256.0 * two_to(self.low_bits)), self.longest)
    }
}

impl OrderedPlan {
    /// The mean rate for ranges whose ends are independent of the keys.
    pub(super) fn rate(self) -> f64 {
        rate_of_ordered(self.segment_keys.into(), self.low_bits)
    }
}

/// The rate of hashed codes that fill this share of their space, for empty ranges of `units` units.
pub(super) fn rate_of_hashed(filled: f64, units: u64) -> f64 {
    -(-filled * units as f64).exp_m1()
}

/// The rate of ordered codes with this mean number in a segment, for ranges with one end in a segment at random.
pub(super) fn rate_of_ordered(segment_codes: f64, low_bits: u32) -> f64 {
    (MEAN_SEGMENT_RATE * segment_codes / 224.0 / two_to(low_bits)).min(1.0)
}

/// The most codes per line that a plan aims at. At 192 of 224 places, one line in a hundred overflows, which costs about
/// a quarter of a bit per key; the next smaller number of low bits saves up to three.
const MOST_LINE_CODES: f64 = 192.0;

/// The mean of keys over cells in use, in a segment of 224 keys without low bits: the cells that a segment's keys span are
/// between half and all of them, and evenly so in the logarithm.
pub(super) const MEAN_SEGMENT_RATE: f64 = 224.0 / 256.0 * core::f64::consts::LOG2_E;

/// Keys of a segment below which one more low bit is cheaper than more segments.
const LEAST_SEGMENT_KEYS: f64 = 164.0;

impl RangePolicy {
    /// Any byte strings and ranges of any length, at about this rate for numbers: for an empty range whose ends are spread
    /// evenly over the numbers between two separators, this is the rate on average, and the bound is 1.4 times that.
    ///
    /// The rate is higher the closer a range's ends are to the file's keys, and up to 1 beside one, except where keys of one
    /// length are dense. Text is such a case: names crowd in families, and a range between names of the same family is
    /// mostly reported. `benches/RESULTS.md` has the rates for names of packages, which are above one half.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] for a rate below 2^-31.
    pub fn ordered(rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        let most = MEAN_SEGMENT_RATE;
        let fits = |low_bits: u32| {
            let keys = (224.0 * rate.get() * two_to(low_bits) / most).min(224.0);
            (keys >= LEAST_SEGMENT_KEYS).then_some((low_bits, keys))
        };
        let (low_bits, keys) =
            (0..=MAX_ORDERED_LOW_BITS).find_map(fits).ok_or_else(|| too_many_low_bits(MAX_ORDERED_LOW_BITS + 1))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "164 to 224")]
        let segment_keys = keys as u32;
        Ok(Self { plan: MapPlan::Ordered(OrderedPlan { low_bits, segment_keys }) })
    }

    /// Ranges of up to `longest` units inside a prefix. An empty range of `longest` units is reported as "may be present" at
    /// this rate at most, shorter ones less often in proportion, and up to 32 times longer ones more often in proportion:
    /// wherever they begin, as long as they are chosen without knowing the hash seed. Longer ones may all be reported.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] for a `longest` of 0, and for ranges so long, and rates so low, that a key would take
    /// more than 43 bits.
    pub fn bounded(units: RangeUnits, longest: u64, rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        if longest == 0 {
            let (option, expected) = ("longest range", "at least 1 unit");
            return Err(ConfigError::OutOfRange { option, expected, got: 0 });
        }
        let line_codes = |low_bits| 256.0 * two_to(low_bits) * rate.get() / longest as f64;
        let smallest = (0..=MAX_LOW_BITS).find(|&low_bits| line_codes(low_bits) > MOST_LINE_CODES / 2.0);
        let low_bits = smallest.ok_or_else(|| too_many_low_bits(MAX_LOW_BITS + 1))?;
        let chunk_bits = longest.next_power_of_two().trailing_zeros() + LONGEST_RANGES_LOG2;
        debug_assert!(chunk_bits <= MAX_CHUNK_BITS, "2^40 low bits bound the longest range");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "96 to 192")]
        let line_codes = line_codes(low_bits).min(MOST_LINE_CODES) as u32;
        let plan = HashedPlan { units, longest, low_bits, line_codes, chunk_bits };
        Ok(Self { plan: MapPlan::Hashed(plan) })
    }

    /// A builder for one file.
    #[must_use]
    pub fn builder(&self, context: &BuildContext) -> RangeBuilder {
        RangeBuilder::new(&self.plan, context)
    }

    /// The extractor of the prefixes that ranges are inside of.
    #[must_use]
    pub fn extractor(&self) -> Option<&Arc<dyn KeyExtractor>> {
        match &self.plan {
            MapPlan::Hashed(plan) => plan.units.extractor.as_ref(),
            MapPlan::Ordered(_) => None,
        }
    }
}

/// log2 of the longest ranges in a chunk: all units of a chunk keep their distances, so a range touches two chunks at
/// most, and mostly one. Larger chunks would crowd close keys into few lines.
const LONGEST_RANGES_LOG2: u32 = 5;

fn too_many_low_bits(low_bits: u32) -> ConfigError {
    let (option, expected) = (
        "low bits of a range filter's codes",
        "at most 31 if ordered and 40 if hashed; allow a higher rate or shorter ranges",
    );
    ConfigError::OutOfRange { option, expected, got: low_bits.into() }
}

/// 2^`exponent`, the same on every platform.
pub(super) fn two_to(exponent: u32) -> f64 {
    (1_u64 << exponent) as f64
}
