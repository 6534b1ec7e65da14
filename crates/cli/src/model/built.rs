//! What is known about a filter that was just built.

use sstfilter::{BuildReport, KindId};

use super::file::FilterReport;
use super::filters::EXACT_RANGE;
use crate::print::record;
use crate::print::types::{Bits, Bytes, Rate};
use crate::words::group;
use crate::words::units::{counted, percent};

record! {
    /// A filter that was built.
    pub(crate) struct BuiltFilter {
        pub(crate) kind: String,
        pub(crate) fallback: Option<String>,
        pub(crate) keys: Option<u64>,
        pub(crate) filter_bytes: Bytes,
        pub(crate) bits_per_key: Option<Bits>,
        pub(crate) expected_fpr: Option<Rate>,
    }
}

impl BuiltFilter {
    pub(crate) fn new(report: &BuildReport) -> Self {
        let kind = report.used.map_or("none", |kind| kind.name());
        let is_exact = report.used == Some(KindId::RANGE) && report.expected_fpr == 0.0 && report.distinct_keys > 0;
        Self {
            kind: if is_exact { EXACT_RANGE } else { kind }.to_owned(),
            fallback: (kind != report.requested.name()).then(|| format!("not {}: {}", report.requested, report.reason)),
            keys: Some(report.distinct_keys),
            filter_bytes: Bytes(report.block_bytes),
            bits_per_key: Some(Bits(report.bits_per_key())),
            expected_fpr: Some(Rate(report.expected_fpr)),
        }
    }

    pub(crate) fn of_report(report: &FilterReport) -> Self {
        let FilterReport { kind, keys, filter_bytes, bits_per_key, expected_fpr, .. } = report.clone();
        Self { kind, fallback: None, keys, filter_bytes, bits_per_key, expected_fpr }
    }

    /// Returns filters together, with the mean of their rates. Their kind is that of the first one.
    pub(crate) fn sum(filters: &[&Self]) -> Self {
        let keys: u64 = filters.iter().filter_map(|filter| filter.keys).sum();
        let bytes: u64 = filters.iter().map(|filter| filter.filter_bytes.0).sum();
        let rates: Vec<_> = filters.iter().filter_map(|filter| filter.expected_fpr).map(|rate| rate.0).collect();
        Self {
            keys: Some(keys),
            filter_bytes: Bytes(bytes),
            bits_per_key: Some(Bits(bytes as f64 * 8.0 / (keys as f64).max(1.0))),
            expected_fpr: (!rates.is_empty()).then(|| Rate(rates.iter().sum::<f64>() / rates.len() as f64)),
            ..filters.first().map(|&filter| filter.clone()).unwrap_or_default()
        }
    }

    /// Returns the filter in words: `bloom (not ribbon: too few keys), 10.01 bits per key, 0.940 %`.
    pub(crate) fn words(&self) -> String {
        let fallback = self.fallback.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let bits = self.bits_per_key.map(|bits| format!(", {:.2} bits per key", bits.0)).unwrap_or_default();
        let rate = self.expected_fpr.map(|rate| format!(", {}", percent(rate.0))).unwrap_or_default();
        format!("{}{fallback}{bits}{rate}", self.kind)
    }

    /// Returns a line for all filters with the same kind and reason.
    pub(crate) fn lines<'a>(filters: impl Iterator<Item = &'a Self>) -> Vec<String> {
        let groups = group::by(filters, |filter| (filter.kind.clone(), filter.fallback.clone()));
        let line = |filters: Vec<&Self>| {
            format!("{}: {}", counted(filters.len() as u64, "table"), Self::sum(&filters).words())
        };
        groups.into_iter().map(|(_, filters)| line(filters)).collect()
    }
}
