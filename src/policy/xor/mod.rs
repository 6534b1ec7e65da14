//! The policy of xor and xor+ filters.

mod layouts;
#[cfg(test)]
mod tests;

use layouts::{Plain, Plus};

use super::bloom::RATE_KEYS;
use super::{BuildContext, FilterBuilder, FilterPolicy, SelfCheck, buffered};
use crate::block::trailer::{MAX_KEYS, MAX_PAYLOAD_BYTES};
use crate::block::{FallbackReason, block_bytes};
use crate::error::ConfigError;
use crate::filter::blocked_bloom::smallest_size_for;
use crate::filter::xor::{self, XorShape, XorWidth};
use crate::filter::{FilterShape, xor_plus};
use crate::units::{BitsPerKey, FalsePositiveRate};

/// Whether empty cells are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum XorLayout {
    /// All cells: the faster one, with 1.23 cells per key.
    #[default]
    Plain,
    /// Those of the third block that are empty are left out: the smaller one, with 1.08 cells and half a bit per key.
    Plus,
}

/// What an xor filter's fingerprints are chosen by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum XorSizing {
    /// The false positive rate, at least 2^-16: that of the shortest fingerprints whose rate is not above it.
    Rate(FalsePositiveRate),
    /// The bits of a fingerprint. The rate is 2^-8 or 2^-16.
    Width(XorWidth),
    /// The size: the longest fingerprints whose filter of a million keys is not larger.
    Size(BitsPerKey),
}

/// Xor and xor+ filters: three cells to read for each key asked for, and 9.84 or 9.12 bits per key at a rate of 2^-8.
///
/// A file gets a blocked Bloom filter of the same rate instead if it has more keys than the format can record
/// ([`FallbackReason::TooManyKeys`], from about 10^10 on), if building would take more memory than the context allows
/// ([`FallbackReason::MemoryBudget`]), if all of 16 attempts fail ([`FallbackReason::ConstructionFailed`]; of
/// well-mixed hashes, one attempt in 7 fails at 2,500 keys, and fewer with more or less), or if the filter denies one
/// of its keys, where it is asked to check ([`FallbackReason::SelfCheckFailed`]).
///
/// ```
/// use sstfilter::{BuildContext, FilterKind, FilterPolicy, KeyHasher};
/// use sstfilter::{XorLayout, XorPolicy, XorSizing, XorWidth};
///
/// let policy = XorPolicy::new(XorLayout::Plus, XorSizing::Width(XorWidth::Eight))?;
/// let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default())).expect("it never declines");
/// (0..100_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
/// let report = builder.finish().report;
/// assert_eq!(report.used, Some(FilterKind::XOR_PLUS));
/// assert!(report.bits_per_key() < 9.15);
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct XorPolicy {
    layout: XorLayout,
    width: XorWidth,
    fallback_size: BitsPerKey,
    self_check: SelfCheck,
}

impl XorPolicy {
    /// Filters of a rate or a size.
    ///
    /// # Errors
    ///
    /// [`ConfigError::XorRate`] when the rate is below 2^-16; [`ConfigError::OutOfRange`] when no filter is as small.
    pub fn new(layout: XorLayout, sizing: XorSizing) -> Result<Self, ConfigError> {
        let width = match sizing {
            XorSizing::Rate(rate) => width_of_rate(rate)?,
            XorSizing::Width(width) => width,
            XorSizing::Size(size) => width_of_size(layout, size)?,
        };
        let rate = FalsePositiveRate::from_fingerprint_bits(width.bits())?;
        let fallback_size = smallest_size_for(RATE_KEYS, rate);
        Ok(Self { layout, width, fallback_size, self_check: SelfCheck::Off })
    }

    /// Whether finished filters are asked for all of their keys.
    #[must_use]
    pub fn with_self_check(self, self_check: SelfCheck) -> Self {
        Self { self_check, ..self }
    }

    /// The bytes of the block of `keys` distinct keys, unless it falls back to Bloom: exactly for the plain layout;
    /// for xor+, where it depends on the keys, within 2 % from 1,000 keys on and within 0.3 % from 100,000 on. `None`
    /// beyond the format.
    ///
    /// ```
    /// use sstfilter::{XorLayout, XorPolicy, XorSizing, XorWidth};
    ///
    /// let policy = XorPolicy::new(XorLayout::Plain, XorSizing::Width(XorWidth::Eight))?;
    /// assert_eq!(policy.estimated_block_bytes(1_000_000), Some(1_230_040 + 40));
    /// # Ok::<(), sstfilter::ConfigError>(())
    /// ```
    #[must_use]
    pub fn estimated_block_bytes(&self, keys: u64) -> Option<u64> {
        self.shape(keys).and_then(|_| block_bytes_of(self.layout, self.width, keys))
    }

    /// About how many bytes building takes beside the hashes and the finished block.
    #[must_use]
    pub fn estimated_build_bytes(&self, keys: u64) -> Option<u64> {
        self.shape(keys).map(|shape| self.build_bytes(keys, shape))
    }

    /// The shape, with all cells, of a filter that a block can carry.
    fn shape(&self, keys: u64) -> Option<XorShape> {
        let shape = xor::shape_for(keys, self.width)?;
        (keys <= MAX_KEYS && shape.payload_bytes() <= MAX_PAYLOAD_BYTES).then_some(shape)
    }

    fn build_bytes(&self, keys: u64, shape: XorShape) -> u64 {
        match self.layout {
            XorLayout::Plain => xor::build_bytes(keys, shape),
            XorLayout::Plus => xor_plus::build_bytes(keys, shape),
        }
    }

    fn plan(&self, keys: u64, memory_budget: Option<u64>) -> Result<XorShape, FallbackReason> {
        let shape = self.shape(keys).ok_or(FallbackReason::TooManyKeys)?;
        let needed = self.build_bytes(keys, shape);
        if memory_budget.is_some_and(|budget| needed > budget) {
            return Err(FallbackReason::MemoryBudget);
        }
        Ok(shape)
    }
}

impl FilterPolicy for XorPolicy {
    fn name(&self) -> &'static str {
        match self.layout {
            XorLayout::Plain => "xor",
            XorLayout::Plus => "xor+",
        }
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        Some(match self.layout {
            XorLayout::Plain => buffered::builder(&Plain(self.clone()), context),
            XorLayout::Plus => buffered::builder(&Plus(self.clone()), context),
        })
    }
}

/// About how many bytes a block has.
fn block_bytes_of(layout: XorLayout, width: XorWidth, keys: u64) -> Option<u64> {
    match layout {
        XorLayout::Plain => xor::shape_for(keys, width).map(|shape| block_bytes(&shape)),
        XorLayout::Plus => xor_plus::expected_shape(keys, width).map(|shape| block_bytes(&shape)),
    }
}

/// The shortest fingerprints whose rate is at most `rate`.
fn width_of_rate(rate: FalsePositiveRate) -> Result<XorWidth, ConfigError> {
    let is_enough = |width: &XorWidth| rate.get() * (1_u64 << width.bits()) as f64 >= 1.0;
    let fitting = [XorWidth::Eight, XorWidth::Sixteen].into_iter().find(is_enough);
    fitting.ok_or(ConfigError::XorRate { got: rate.get() })
}

/// The longest fingerprints whose filter of a million keys has at most `size`.
fn width_of_size(layout: XorLayout, size: BitsPerKey) -> Result<XorWidth, ConfigError> {
    let most_bytes = RATE_KEYS * u64::from(size.millibits()) / 8_000;
    let fits = |&width: &XorWidth| block_bytes_of(layout, width, RATE_KEYS).is_some_and(|bytes| bytes <= most_bytes);
    [XorWidth::Sixteen, XorWidth::Eight].into_iter().find(fits).ok_or(ConfigError::OutOfRange {
        option: "size of an xor or xor+ filter in thousandths of a bit per key",
        expected: match layout {
            XorLayout::Plain => "at least 9841",
            XorLayout::Plus => "at least 9123",
        },
        got: size.millibits().into(),
    })
}
