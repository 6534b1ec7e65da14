//! Ways to configure filters, ours and those of the engine.

use std::sync::Arc;

use slatedb::object_store::path::Path;
use slatedb::{
    BloomFilterPolicy, CompactorBuilder, DbBuilder, DbReaderBuilder, FilterPolicy, PrefixExtractor, PrefixTarget,
};
use sstfilter::{BitsPerKey, FalsePositiveRate, FixedPolicy, KeyHasher};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_slatedb::{FilteredKeys, OldBloom, SlateFilters};

/// The filters of a process.
#[derive(Clone, Debug)]
pub(crate) enum Configuration {
    Ours(Box<SlateFilters>),
    /// SlateDB's own Bloom filters.
    BuiltIn,
    None,
}

impl Configuration {
    /// A writer's builder.
    pub(crate) fn db(&self, builder: DbBuilder<Path>) -> DbBuilder<Path> {
        match self {
            Self::Ours(filters) => filters.configure(builder),
            Self::BuiltIn | Self::None => builder.with_filter_policies(self.policies()),
        }
    }

    pub(crate) fn reader(&self, builder: DbReaderBuilder<Path>) -> DbReaderBuilder<Path> {
        match self {
            Self::Ours(filters) => filters.configure(builder),
            Self::BuiltIn | Self::None => builder.with_filter_policies(self.policies()),
        }
    }

    pub(crate) fn compactor(&self, builder: CompactorBuilder<Path>) -> CompactorBuilder<Path> {
        match self {
            Self::Ours(filters) => filters.configure(builder),
            Self::BuiltIn | Self::None => builder.with_filter_policies(self.policies()),
        }
    }

    fn policies(&self) -> Vec<Arc<dyn FilterPolicy>> {
        match self {
            Self::BuiltIn => vec![Arc::new(BloomFilterPolicy::new(10))],
            Self::Ours(_) | Self::None => vec![],
        }
    }

    pub(crate) fn ours(&self) -> Option<&SlateFilters> {
        match self {
            Self::Ours(filters) => Some(filters),
            Self::BuiltIn | Self::None => None,
        }
    }
}

/// One of each, with counters of its own. Ribbon filters are built for any number of keys.
pub(crate) fn all() -> Vec<Configuration> {
    let ribbon = SlateFilters::default().with_kind(ribbon());
    let bloom = SlateFilters::default().with_kind(FixedPolicy::bloom(BitsPerKey::TEN).unwrap());
    let other_seed = SlateFilters::new(&KeyHasher::with_seed(7)).with_kind(self::ribbon());
    let two_bytes = || Arc::new(FirstBytes { name: "first-2", length: 2 });
    let prefixes = SlateFilters::default().with_keys(FilteredKeys::prefixes(two_bytes()));
    let both = SlateFilters::default().with_keys(FilteredKeys::whole_and_prefixes(two_bytes()));
    let ranges = SlateFilters::default().with_range_filter(ordered());
    let short_ranges = SlateFilters::default().with_range_filter(hashed(4));
    let everything =
        both.clone().with_range_filter(ordered()).with_old_bloom(BloomFilterPolicy::new(10), OldBloom::Stub);
    let old = |new_ssts| SlateFilters::default().with_old_bloom(BloomFilterPolicy::new(10), new_ssts);
    let points = [ribbon, bloom, other_seed, prefixes, both, old(OldBloom::Stub), old(OldBloom::Full)];
    let ours = points.into_iter().chain([ranges, short_ranges, everything]);
    ours.map(|filters| Configuration::Ours(Box::new(filters)))
        .chain([Configuration::BuiltIn, Configuration::None])
        .collect()
}

/// Returns Ribbon even for a handful of keys, with so few columns that about every second key matches. At a lower rate,
/// blocked Bloom would be smaller and be built instead.
pub(crate) fn ribbon() -> FixedPolicy {
    FixedPolicy::ribbon(BitsPerKey::TEN).unwrap().with_min_keys(0)
}

/// Range filters of any keys, at 1 %.
pub(crate) fn ordered() -> RangePolicy {
    RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap()
}

/// Range filters of short ranges, at 1 %: of up to 2^`units_log2` of the integers that keys begin with, in eight bytes.
pub(crate) fn hashed(units_log2: u32) -> RangePolicy {
    let units = RangeUnits::integer(8).unwrap();
    RangePolicy::hashed(units, 1 << units_log2, FalsePositiveRate::ONE_PERCENT).unwrap()
}

/// The first bytes of a key; shorter keys have no prefix.
#[derive(Debug)]
pub(crate) struct FirstBytes {
    pub(crate) name: &'static str,
    pub(crate) length: usize,
}

impl PrefixExtractor for FirstBytes {
    fn name(&self) -> &str {
        self.name
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        (bytes.len() >= self.length).then_some(self.length)
    }
}
