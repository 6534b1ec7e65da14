//! The contenders: the filters that are compared.

use std::sync::Arc;

use slatedb::object_store::path::Path;
use slatedb::{BloomFilterPolicy, CompactorBuilder, DbBuilder, FilterPolicy, PrefixExtractor, PrefixTarget};
use sstfilter::{BitsPerKey, ConfigError, DelimitedPrefix, FalsePositiveRate, FixedPolicy, FixedPrefix};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_slatedb::{FilteredKeys, SlateFilters};

use crate::AnyError;

/// The filters of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Contender {
    /// None.
    None,
    /// SlateDB's Bloom filters at their default of 10 bits per key.
    BuiltIn,
    /// Blocked Bloom filters of 10 bits per key.
    Bloom,
    /// The default of `SlateFilters`: Ribbon filters of the built-in rate.
    Ribbon,
    /// Ribbon filters of 10 bits per key.
    RibbonTen,
    /// Ribbon filters of 2 %, for caches of many shards.
    RibbonTwo,
    /// Ribbon filters of 4 %.
    RibbonFour,
}

/// The contents of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    Whole,
    WholeAndPrefixes,
    /// Whole keys, and the first eight bytes.
    WholeAndSensors,
    /// Whole keys, and a range filter in addition.
    WholeAndRanges(Ranges),
}

/// Range filters, all at 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranges {
    Ordered,
    /// Up to all keys with a name and a slash: two units.
    BoundedByName,
    /// Up to 1,024 units of 1,024 milliseconds, 17 minutes, of a sensor.
    BoundedByTime,
}

impl Ranges {
    fn policy(self) -> Result<RangePolicy, ConfigError> {
        let rate = FalsePositiveRate::ONE_PERCENT;
        match self {
            Self::Ordered => RangePolicy::ordered(rate),
            Self::BoundedByName => {
                let units =
                    RangeUnits::integer(1)?.with_granularity_bits(7)?.with_prefix(Arc::new(DelimitedPrefix::new(b'/')));
                RangePolicy::hashed(units, 2, rate)
            }
            Self::BoundedByTime => {
                let units =
                    RangeUnits::integer(8)?.with_granularity_bits(10)?.with_prefix(Arc::new(FixedPrefix::new(8)));
                RangePolicy::hashed(units, 1_024, rate)
            }
        }
    }
}

/// The first eight bytes.
struct Sensor;

impl PrefixExtractor for Sensor {
    fn name(&self) -> &'static str {
        "sensor"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        (bytes.len() >= 8).then_some(8)
    }
}

/// Everything up to the first slash.
struct UpToSlash;

impl PrefixExtractor for UpToSlash {
    fn name(&self) -> &'static str {
        "up-to-slash"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        bytes.iter().position(|byte| *byte == b'/').map(|slash| slash + 1)
    }
}

impl Contender {
    /// Those of all lookups and scans.
    pub(crate) const ALL: [Self; 5] = [Self::None, Self::BuiltIn, Self::Bloom, Self::Ribbon, Self::RibbonTen];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no filter",
            Self::BuiltIn => "SlateDB's Bloom, 10 bits",
            Self::Bloom => "our blocked Bloom, 10 bits",
            Self::Ribbon => "our Ribbon, same rate",
            Self::RibbonTen => "our Ribbon, 10 bits",
            Self::RibbonTwo => "our Ribbon, 2 %",
            Self::RibbonFour => "our Ribbon, 4 %",
        }
    }

    /// Returns this package's filters, if the contender uses them.
    fn ours(self, parts: Parts) -> Result<Option<SlateFilters>, AnyError> {
        let keys = match parts {
            Parts::Whole | Parts::WholeAndRanges(_) => FilteredKeys::whole(),
            Parts::WholeAndSensors => FilteredKeys::whole_and_prefixes(Arc::new(Sensor)),
            Parts::WholeAndPrefixes => FilteredKeys::whole_and_prefixes(Arc::new(UpToSlash)),
        };
        let mut filters = SlateFilters::default().with_keys(keys);
        if let Parts::WholeAndRanges(ranges) = parts {
            filters = filters.with_range_filter(ranges.policy()?);
        }
        Ok(match self {
            Self::None | Self::BuiltIn => None,
            Self::Ribbon => Some(filters),
            Self::Bloom => Some(filters.with_kind(FixedPolicy::bloom(BitsPerKey::TEN)?)),
            Self::RibbonTen => Some(filters.with_kind(FixedPolicy::ribbon(BitsPerKey::TEN)?)),
            Self::RibbonTwo => Some(filters.with_kind(FixedPolicy::ribbon(FalsePositiveRate::new(0.02)?)?)),
            Self::RibbonFour => Some(filters.with_kind(FixedPolicy::ribbon(FalsePositiveRate::new(0.04)?)?)),
        })
    }

    fn engines_own(self, parts: Parts) -> Vec<Arc<dyn FilterPolicy>> {
        let bloom = BloomFilterPolicy::new(10);
        match (self, parts) {
            (Self::None, _) => Vec::new(),
            (_, Parts::Whole | Parts::WholeAndRanges(_)) => vec![Arc::new(bloom)],
            (_, Parts::WholeAndSensors) => vec![Arc::new(bloom.with_prefix_extractor(Arc::new(Sensor)))],
            (_, Parts::WholeAndPrefixes) => vec![Arc::new(bloom.with_prefix_extractor(Arc::new(UpToSlash)))],
        }
    }

    pub(crate) fn configure(self, parts: Parts, builder: DbBuilder<Path>) -> Result<DbBuilder<Path>, AnyError> {
        Ok(match self.ours(parts)? {
            Some(filters) => filters.configure(builder),
            None => builder.with_filter_policies(self.engines_own(parts)),
        })
    }

    pub(crate) fn configure_compactor(
        self,
        parts: Parts,
        builder: CompactorBuilder<Path>,
    ) -> Result<CompactorBuilder<Path>, AnyError> {
        Ok(match self.ours(parts)? {
            Some(filters) => filters.configure(builder),
            None => builder.with_filter_policies(self.engines_own(parts)),
        })
    }
}
