//! What is known about a filter that was just built.

use sstfilter::BuildReport;

use crate::print::record;
use crate::print::types::{Bits, Bytes, Rate};

record! {
    /// A filter that was built.
    pub(crate) struct BuiltFilter {
        pub(crate) kind: String [row],
        /// the requested kind
        pub(crate) requested: Option<String> [json],
        /// why the kind is not the requested one
        pub(crate) fallback: Option<String> [row],
        pub(crate) keys: Option<u64> [row],
        pub(crate) filter_bytes: Bytes [row],
        pub(crate) bits_per_key: Option<Bits> [row],
        pub(crate) expected_fpr: Option<Rate> [row],
    }

    /// Filters of one kind together, with the mean of their rates.
    pub(crate) struct FilterGroup {
        pub(crate) tables: u64 [row],
        pub(crate) filter: BuiltFilter [row],
    }
}

impl BuiltFilter {
    pub(crate) fn new(report: &BuildReport) -> Self {
        let kind = report.used.map_or("none", |kind| kind.name());
        Self {
            kind: kind.to_owned(),
            requested: Some(report.requested.name().to_owned()),
            fallback: (kind != report.requested.name()).then(|| format!("not {}: {}", report.requested, report.reason)),
            keys: Some(report.distinct_keys),
            filter_bytes: Bytes(report.block_bytes),
            bits_per_key: Some(Bits(report.bits_per_key())),
            expected_fpr: Some(Rate(report.expected_fpr)),
        }
    }
}

impl FilterGroup {
    /// Returns the groups of filters with the same kind, requested kind and reason, in the order of their first ones.
    pub(crate) fn of<'a>(filters: impl IntoIterator<Item = &'a BuiltFilter>) -> Vec<Self> {
        let filters: Vec<_> = filters.into_iter().collect();
        let choice = |filter: &&BuiltFilter| (filter.kind.clone(), filter.requested.clone(), filter.fallback.clone());
        let groups = crate::words::group::by(&filters, |&filter| choice(&filter));
        groups.into_iter().map(|(_, filters)| Self::new(&filters)).collect()
    }

    fn new(filters: &[&&BuiltFilter]) -> Self {
        let sum = |of: fn(&BuiltFilter) -> Option<u64>| filters.iter().filter_map(|filter| of(filter)).sum::<u64>();
        let (keys, bytes) = (sum(|filter| filter.keys), sum(|filter| Some(filter.filter_bytes.0)));
        let rates: f64 = filters.iter().filter_map(|filter| filter.expected_fpr).map(|rate| rate.0).sum();
        let first = filters.first().map(|filter| (**filter).clone()).unwrap_or_default();
        Self {
            tables: filters.len() as u64,
            filter: BuiltFilter {
                keys: Some(keys),
                filter_bytes: Bytes(bytes),
                bits_per_key: Some(Bits(bytes as f64 * 8.0 / (keys as f64).max(1.0))),
                expected_fpr: Some(Rate(rates / filters.len() as f64)),
                ..first
            },
        }
    }
}
