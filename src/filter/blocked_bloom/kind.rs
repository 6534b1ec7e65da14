//! Configuration of blocked Bloom filters as a kind.

use alloc::boxed::Box;

use super::build::BloomBits;
use super::line::MAX_PROBES;
use super::shape::{BloomShape, probes_for};
use crate::error::ConfigError;
use crate::filter::{
    BuildLimits, FallbackReason, FilterShape, Kind, KindId, RATE_KEYS, StreamedPayload, by_size_or_rate,
};
use crate::units::{BitsPerKey, FalsePositiveRate, Sizing};

/// Blocked Bloom filters of a rate or a size, 10 bits per key by default.
///
/// Two settings are for filters that will [shrink](crate::FilterBlock::shrink_to). [`with_fold`](Self::with_fold) makes
/// the number of lines a multiple with small divisors. [`with_probes`](Self::with_probes) sets fewer probes, which
/// raise the rate at first and lower it once the filter is small.
///
/// ```
/// use sstfilter::kind::BlockedBloomKind;
/// use sstfilter::{BitsPerKey, BuildContext, FilterBlock, KeyHasher, FixedPolicy};
///
/// let kind = BlockedBloomKind::configure(BitsPerKey::TEN)?.with_fold(12)?.with_probes(4)?;
/// let hasher = KeyHasher::default();
/// let mut builder = FixedPolicy::from(kind).builder(&BuildContext::new(&hasher));
/// (0..10_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
/// let block = FilterBlock::load(builder.finish().block.unwrap_or_default(), &hasher)?;
///
/// // In percent of absent keys: 1 with all lines, and the others with a half, a third, a quarter, a sixth of them.
/// let rates: Vec<f64> = block.shrink_steps().iter().map(|(_, rate)| (rate * 1e2).round()).collect();
/// assert_eq!((block.info().expected_fpr * 1e2).round(), 1.0);
/// assert_eq!(rates[..4], [8.0, 22.0, 38.0, 66.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockedBloomKind {
    size: BitsPerKey,
    /// The requested rate, if any: the size follows from it and from the number of probes.
    rate: Option<FalsePositiveRate>,
    /// `None` for the number with the lowest rate at the size.
    probes: Option<u8>,
    /// The number of lines is a multiple of this factor; `None` for the one of [`FACTORS`] that suits the size.
    factor: Option<u32>,
}

/// The factors of filters that will shrink. Six has the divisors 2 and 3, which lower the rate most for their bytes; 12
/// adds 4 for a quarter of the bytes.
const FACTORS: [u32; 3] = [12, 6, 2];

/// A factor is used from this many of its multiples on, so that rounding up costs at most a sixteenth of the filter,
/// and less than 3 % on average.
const MIN_MULTIPLES: u64 = 16;

/// The largest factor of [`BlockedBloomKind::with_fold`]: with it, the smallest filter has 64 KiB.
const MAX_FACTOR: u32 = 1_024;

impl BlockedBloomKind {
    /// Configures filters of a rate or a size.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for fingerprint bits, and for a rate that no number of probes reaches at 100 bits per key.
    pub fn configure(sizing: impl Into<Sizing>) -> Result<Self, ConfigError> {
        by_size_or_rate(sizing.into(), |size| Ok(Self::new(size)), |rate| Self::of_rate(rate, None))
    }

    /// Configures filters of `size`.
    #[must_use]
    pub(crate) const fn new(size: BitsPerKey) -> Self {
        Self { size, rate: None, probes: None, factor: Some(1) }
    }

    fn of_rate(rate: FalsePositiveRate, probes: Option<u8>) -> Result<Self, ConfigError> {
        let rate_at = |size| {
            // The best number of probes depends on the size, so each size that is tried has its own.
            let shape = BloomShape::with_settings(RATE_KEYS, size, probes.unwrap_or_else(|| probes_for(size)), |_| 1);
            shape.map_or(1.0, |shape| shape.expected_fpr(RATE_KEYS))
        };
        let size = BitsPerKey::smallest_where(|size| rate_at(size) <= rate.get());
        let (kind, least) = (KindId::BLOCKED_BLOOM, rate_at(BitsPerKey::MAX));
        let size = size.ok_or(ConfigError::RateOutOfRange { kind, min: least, max: 1.0, got: rate.get() })?;
        Ok(Self { rate: Some(rate), probes, ..Self::new(size) })
    }

    /// Rounds the number of a filter's lines up to a multiple of `factor`, so that the filter can fold by each divisor
    /// of `factor`: 12 allows a half, a third, a quarter, a sixth and a twelfth. This costs at most `factor - 1` lines
    /// of 64 bytes, at 12 and 10,000 keys less than half a percent on average. The default is 1.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] when `factor` is not from 1 to 1,024.
    pub fn with_fold(self, factor: u32) -> Result<Self, ConfigError> {
        let refused = ConfigError::out_of_range("factor of a bloom filter's lines", "1 to 1024", factor);
        if (1..=MAX_FACTOR).contains(&factor) { Ok(Self { factor: Some(factor), ..self }) } else { Err(refused) }
    }

    /// Rounds the number of lines up so that the filter can fold by 2 and 3, unless a factor is set.
    pub(crate) fn foldable(self) -> Self {
        Self { factor: self.factor.filter(|&factor| factor > 1), ..self }
    }

    /// Sets the number of probes. The default is the number with the lowest rate at the size
    /// ([`probes_for`](crate::filter::blocked_bloom::probes_for)). A folded filter keeps its probes, which are then too
    /// many for its size. At 10 bits per key, whole, folded by 2, and by 4, the rates are
    ///
    /// | probes | whole | a half | a quarter |
    /// |--:|--:|--:|--:|
    /// | 6 (default) | 0.97 % | 12.1 % | 57 % |
    /// | 4 | 1.27 % | 9.4 % | 41 % |
    /// | 3 | 1.81 % | 9.3 % | 34 % |
    ///
    /// If a rate is requested, filters become large enough to reach it with this number of probes.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] when `probes` is not from 1 to 16; [`ConfigError::RateOutOfRange`] when this number
    /// does not reach the requested rate at 100 bits per key.
    pub fn with_probes(self, probes: u8) -> Result<Self, ConfigError> {
        if !(1..=MAX_PROBES).contains(&probes) {
            return Err(ConfigError::out_of_range("probes of a bloom filter", "1 to 16", probes));
        }
        // With other probes the rate needs another size.
        let kind = match self.rate {
            Some(rate) => Self::of_rate(rate, Some(probes))?,
            None => Self { probes: Some(probes), ..self },
        };
        Ok(Self { factor: self.factor, ..kind })
    }
}

impl Default for BlockedBloomKind {
    /// Ten bits per key.
    fn default() -> Self {
        Self::new(BitsPerKey::TEN)
    }
}

impl Kind for BlockedBloomKind {
    type Shape = BloomShape;

    const ID: KindId = KindId::BLOCKED_BLOOM;
    const STRENGTH: &'static str = "is built in one pass and probed at one cache line per key";
    const IS_STREAMED: bool = true;

    fn plan(&self, keys: u64) -> Result<BloomShape, FallbackReason> {
        let probes = self.probes.unwrap_or_else(|| probes_for(self.size));
        let pays = |lines| FACTORS.into_iter().find(|&factor| lines >= MIN_MULTIPLES * u64::from(factor)).unwrap_or(1);
        let factor = |lines| self.factor.unwrap_or_else(|| pays(lines));
        BloomShape::with_settings(keys, self.size, probes, factor).ok_or(FallbackReason::TooManyKeys)
    }

    fn stream(&self, plan: &BloomShape, limits: BuildLimits) -> Option<Box<dyn StreamedPayload>> {
        BloomBits::new(*plan, limits).map(|bits| Box::new(bits) as _)
    }

    fn fallback_size(&self) -> Option<BitsPerKey> {
        Some(self.size)
    }

    /// Returns the [foldable](BlockedBloomKind::foldable) kind, and unless probes are set, with the best number of them
    /// for two thirds of the size, between the whole filter and a half. A rate stays, so filters of a rate become
    /// larger.
    fn shrinkable(&self) -> Option<Self> {
        let probes = probes_for(BitsPerKey::from_millibits(self.size.millibits() * 2 / 3).unwrap_or(self.size));
        let kind = self.probes.map_or_else(|| self.with_probes(probes), |_| Ok(*self)).unwrap_or(*self);
        Some(kind.foldable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_rate(rate: f64) -> Result<BlockedBloomKind, ConfigError> {
        BlockedBloomKind::configure(FalsePositiveRate::new(rate).unwrap())
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let kind = BlockedBloomKind::default();
        assert!([0, 17, 255].iter().all(|&probes| kind.with_probes(probes).is_err()));
        assert!([0, 1_025, u32::MAX].iter().all(|&factor| kind.with_fold(factor).is_err()));
        assert!(matches!(of_rate(1e-6).unwrap().with_probes(1), Err(ConfigError::RateOutOfRange { .. })));
    }

    #[test]
    fn a_size_is_kept_and_probed_as_often_as_set() {
        let plan = |kind: BlockedBloomKind| kind.plan(1_000).unwrap();
        let default = plan(BlockedBloomKind::default());
        for probes in 1..=16 {
            let set = plan(BlockedBloomKind::default().with_probes(probes).unwrap());
            assert_eq!((set.probes(), set.lines().count()), (probes, default.lines().count()));
        }
    }

    #[test]
    fn the_number_of_lines_is_the_next_multiple_of_the_factor() {
        for (keys, factor) in [(0, 12), (1, 1), (1_000, 12), (10_000, 7), (614_400, 12), (1_000_003, 1_024)] {
            let lines = |kind: BlockedBloomKind| kind.plan(keys).unwrap().lines().count();
            let plain = lines(BlockedBloomKind::default());
            let folding = lines(BlockedBloomKind::default().with_fold(factor).unwrap());
            assert_eq!(folding, plain.next_multiple_of(factor.into()), "{keys} keys, factor {factor}");
        }
    }

    #[test]
    fn a_rate_is_met_with_the_probes_that_are_set_whatever_is_set_first() {
        for rate in [0.1, 0.01, 0.001] {
            let default = of_rate(rate).unwrap();
            for probes in 2..=8 {
                let Ok(kind) = default.with_probes(probes) else { continue };
                let plan = kind.plan(RATE_KEYS).unwrap();
                assert_eq!(plan.probes(), probes);
                assert!(plan.expected_fpr(RATE_KEYS) <= rate, "{probes} probes");
                assert!(plan.expected_fpr(RATE_KEYS) > rate * 0.99, "{probes} probes: larger than it need be");
                assert!(plan.payload_bytes() + 64 >= default.plan(RATE_KEYS).unwrap().payload_bytes());
                let folding = default.with_fold(12).unwrap();
                assert_eq!(folding.with_probes(probes), kind.with_fold(12));
            }
        }
    }
}
