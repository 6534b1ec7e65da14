//! Chooses the kind and the size of a file's range filter.

use std::sync::Arc;

use sstfilter::{BuildContext, ConfigError, FalsePositiveRate, KeyExtractor, KindId};

use super::build::RangeBuilder;
use super::params::{MAX_CHUNK_BITS, MAX_LOW_BITS, MAX_ORDERED_LOW_BITS};
use super::plan::{HashedPlan, MEAN_SEGMENT_RATE, MapPlan, OrderedPlan, RangeUnits, two_to};

/// Chooses a file's range filter.
///
/// | | [`ordered`](Self::ordered) | [`hashed`](Self::hashed) |
/// |---|---|---|
/// | ranges | any, also unbounded | of a declared length, between keys with one prefix |
/// | bits per key at 1 % | about 10 for ranges of any length | 14 for 2^5 units, 19 for 2^10, 29 for 2^20 |
/// | exact | where keys of one length are dense; if all of them are, in 1 to 10 bits | no |
/// | lower bound of the next key | yes | no |
///
/// The false positive rate of `ordered` holds for numbers if the ends of ranges are spread evenly among them. It rises
/// to 1 near keys, and is high for text. If families of keys share long prefixes, `ordered` takes more bits. The rate
/// of `hashed` is the same for all ranges chosen without knowledge of the seed that have no key in their end units.
///
/// - Numbers and ids, with ranges over neighbouring ones: `ordered`. If all keys of a file have one length, and differ
///   only in a big-endian integer of up to eight bytes at their end, with less than about 200 integers to a key from
///   the smallest to the largest, the filter [is exact](crate::RangeFilter::is_exact) and has no rate.
/// - An entity followed by a time or a version, with ranges inside an entity: `hashed`, with the entity as prefix.
///   `ordered` distinguishes ranges inside an entity only if the file contains about 56 or more of its keys. With
///   fewer, a segment of up to 224 keys spans several entities, and nearly every range inside one is positive.
/// - Text: neither helps much with ranges between neighbouring names. For prefix scans, a point filter with
///   [`KeyParts`](sstfilter::KeyParts) is better.
///
/// "Near a key" means in the key's cell, which at 1 % is 1/2^15 of the span of a segment's keys. docs/format/ranges.md
/// derives the rates, and `sstfilter compare --range-length` measures both maps on your keys. The figure that counts is
/// how often scans find nothing in files that the filter did not skip, which the views of `sstfilter-store` count.
///
/// A file may have one filter of each map, as two blocks.
///
/// ```
/// use sstfilter_range::{RangeFilter, RangePolicy};
/// use sstfilter::{BuildContext, FalsePositiveRate, FileId, KeyHasher, LoadContext};
///
/// let (hasher, file) = (KeyHasher::default(), FileId::random());
/// let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?;
/// let mut builder = policy.builder(&BuildContext::new(&hasher).with_file_id(file));
/// (0..1_000_u64).for_each(|id| builder.add_key(&(id * 50).to_be_bytes()));
/// let block = builder.finish().block.expect("keys in order");
///
/// let filter = RangeFilter::load(block, LoadContext::new(&hasher).with_file_id(file))?;
/// let ids = |from: u64, to: u64| filter.may_contain_range(&from.to_be_bytes()..&to.to_be_bytes());
/// assert!(ids(90, 110));
/// assert!(!ids(110, 140), "between 100 and 150");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RangePolicy {
    pub(super) plan: MapPlan,
}

/// Maximum mean number of codes per line. With 192 of 224 places in use, one line in a hundred overflows, which costs
/// about a quarter of a bit per key; a smaller number of low bits saves up to three.
const MAX_LINE_CODES: f64 = 192.0;

/// Below this number of keys in a segment, one more low bit is cheaper than more segments.
const MIN_SEGMENT_KEYS: f64 = 164.0;

impl RangePolicy {
    /// A policy for any byte strings and ranges of any length. `rate` is about the rate for numbers: the mean over
    /// empty ranges whose ends are spread evenly over the numbers between two separators. The bound is 1.4 times that.
    ///
    /// The rate rises as a range's ends get closer to the file's keys, up to 1 at a key, except where keys of one
    /// length are dense. Text is such a case: names come in families, and a range between names of one family is
    /// positive in most cases. `benches/RESULTS.md` has the rates for package names, which are above one half.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RateOutOfRange`] for a rate below about 2^-31.
    pub fn ordered(rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        let most = MEAN_SEGMENT_RATE;
        let fits = |low_bits: u32| {
            let keys = (224.0 * rate.get() * two_to(low_bits) / most).min(224.0);
            (keys >= MIN_SEGMENT_KEYS).then_some((low_bits, keys))
        };
        // The fewest low bits with which a segment has enough keys.
        let low_bits_and_keys = (0..=MAX_ORDERED_LOW_BITS).find_map(fits);
        let least = MEAN_SEGMENT_RATE / two_to(MAX_ORDERED_LOW_BITS);
        let too_low = ConfigError::RateOutOfRange { kind: KindId::RANGE, min: least, max: 1.0, got: rate.get() };
        let (low_bits, keys) = low_bits_and_keys.ok_or(too_low)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "164 to 224")]
        let segment_keys = keys as u32;
        Ok(Self { plan: MapPlan::Ordered(OrderedPlan { low_bits, segment_keys }) })
    }

    /// A policy for ranges of up to `longest` units inside a prefix. `rate` bounds the false positives of empty ranges
    /// that touch `longest` units. Shorter ranges have proportionally fewer, and ranges up to 32 times longer have
    /// proportionally more. The bound holds wherever ranges begin, as long as they are chosen without knowledge of the
    /// hash seed and no key is in their end units ([`RangeUnits`]).
    ///
    /// Still longer ranges may all be positive, and unbounded ranges and whole prefixes of many units are. A point
    /// filter with [`KeyParts`](sstfilter::KeyParts) serves whole prefixes.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] if `longest` is 0, or if `longest` and `rate` would need more than 43 bits per key.
    pub fn hashed(units: RangeUnits, longest: u64, rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        if longest == 0 {
            let (option, expected) = ("longest range", "at least 1 unit");
            return Err(ConfigError::OutOfRange { option, expected, got: 0 });
        }
        let line_codes = |low_bits| 256.0 * two_to(low_bits) * rate.get() / longest as f64;
        // The fewest low bits with which lines are at least half as full as the maximum.
        let smallest = (0..=MAX_LOW_BITS).find(|&low_bits| line_codes(low_bits) > MAX_LINE_CODES / 2.0);
        let low_bits = smallest.ok_or_else(|| too_long(longest))?;
        let chunk_bits = longest.checked_next_power_of_two().map_or(64, u64::trailing_zeros) + LONGEST_RANGES_LOG2;
        // A trailer with a larger chunk would be refused.
        if chunk_bits > MAX_CHUNK_BITS {
            return Err(too_long(longest));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "96 to 192")]
        let line_codes = line_codes(low_bits).min(MAX_LINE_CODES) as u32;
        let plan = HashedPlan { units, longest, low_bits, line_codes, chunk_bits };
        Ok(Self { plan: MapPlan::Hashed(plan) })
    }

    /// Returns a builder for one file.
    #[must_use]
    pub fn builder(&self, context: &BuildContext) -> RangeBuilder {
        RangeBuilder::new(&self.plan, context)
    }

    /// Returns the extractor of the prefixes that contain the ranges: readers need it, too
    /// ([`RangeContext`](super::RangeContext)).
    #[must_use]
    pub fn extractor(&self) -> Option<&Arc<dyn KeyExtractor>> {
        match &self.plan {
            MapPlan::Hashed(plan) => plan.units.extractor.as_ref(),
            MapPlan::Ordered(_) => None,
        }
    }
}

/// log2 of the number of longest ranges in a chunk. All units of a chunk keep their distances, so a range touches two
/// chunks at most, and mostly one. Larger chunks would put close keys into few lines.
const LONGEST_RANGES_LOG2: u32 = 5;

fn too_long(longest: u64) -> ConfigError {
    let (option, expected) =
        ("longest range", "at most 2^41 units, and 43 bits per key; use coarser units or a higher rate");
    ConfigError::OutOfRange { option, expected, got: longest }
}
