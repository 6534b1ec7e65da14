//! The report of a build.

use core::fmt;
use std::path::Path;

use serde::Serialize;
use sstfilter::{BlockInfo, BuildReport, FallbackReason};
use sstfilter_table::TableSummary;

/// The tables whose filters have the same kind, requested kind and reason.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FilterGroup {
    #[serde(flatten)]
    pub(crate) filter: Choice,
    tables: usize,
    keys: u64,
    bytes: u64,
    pub(crate) bits_per_key: f64,
    /// Mean over the tables.
    pub(crate) expected_fpr: f64,
}

/// The kind of filter that was built, and why it differs from the requested one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Choice {
    pub(crate) kind: &'static str,
    pub(crate) requested: &'static str,
    pub(crate) reason: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct TableLine {
    name: String,
    keys: u64,
    bytes: u64,
    #[serde(flatten)]
    filter: Choice,
    filter_bytes: u64,
    bits_per_key: f64,
    expected_fpr: f64,
}

impl TableLine {
    pub(crate) fn new(summary: &TableSummary) -> Self {
        Self::of_filter(summary, summary.filter.as_ref())
    }

    fn of_filter(summary: &TableSummary, filter: Option<&BuildReport>) -> Self {
        let name = summary.path.as_deref().and_then(Path::file_name);
        Self {
            name: name.unwrap_or_default().to_string_lossy().into_owned(),
            keys: summary.properties.entries,
            bytes: summary.file_bytes,
            filter: Choice::of(filter),
            filter_bytes: filter.map_or(0, |report| report.block_bytes),
            bits_per_key: filter.map_or(0.0, BuildReport::bits_per_key),
            // Without a filter, every lookup in range reads the table.
            expected_fpr: filter.map_or(1.0, |report| report.expected_fpr),
        }
    }
}

/// Groups the filters of tables by kind, requested kind and reason.
pub(crate) fn group(tables: &[TableLine]) -> Vec<FilterGroup> {
    let mut groups: Vec<FilterGroup> = Vec::new();
    for table in tables {
        let known = groups.iter().position(|group| group.filter == table.filter);
        // In order of first use: there are few groups, so a linear search is enough.
        let position = known.unwrap_or_else(|| {
            groups.push(FilterGroup { filter: table.filter, ..FilterGroup::default() });
            groups.len() - 1
        });
        groups[position].add(table);
    }
    groups
}

impl FilterGroup {
    fn add(&mut self, table: &TableLine) {
        self.expected_fpr = (self.expected_fpr * self.tables as f64 + table.expected_fpr) / (self.tables as f64 + 1.0);
        self.tables += 1;
        self.keys += table.keys;
        self.bytes += table.filter_bytes;
        self.bits_per_key = self.bytes as f64 * 8.0 / (self.keys as f64).max(1.0);
    }
}

impl Choice {
    /// Returns the choice of a filter, or of no filter.
    pub(crate) fn of(filter: Option<&BuildReport>) -> Self {
        Self {
            kind: filter.and_then(|report| report.used).map_or("none", |kind| kind.name()),
            requested: filter.map_or("none", |report| report.requested.name()),
            reason: filter.map_or("as requested", |report| report.reason.as_str()),
        }
    }

    /// Returns the choice that a block records.
    pub(crate) fn of_block(info: &BlockInfo) -> Self {
        Self { kind: info.kind.name(), requested: info.requested.name(), reason: info.reason.as_str() }
    }

    pub(crate) fn is_as_requested(&self) -> bool {
        self.kind == self.requested
    }

    /// Whether the number of keys decided the kind. That is how `auto` chooses, so it is no fallback that needs a look.
    /// A policy for one kind writes the same block for so few keys: nothing in the block tells the two apart.
    pub(crate) fn is_by_number_of_keys(&self) -> bool {
        self.reason == FallbackReason::TooFewKeys.as_str()
    }

    /// Returns why the kind is not the requested one.
    pub(crate) fn why(&self) -> String {
        let Self { requested, reason, .. } = self;
        if self.is_by_number_of_keys() {
            format!("{reason} for {requested}")
        } else {
            format!("not {requested}: {reason}")
        }
    }
}

impl fmt::Display for Choice {
    /// Writes `bloom`, `bloom (too few keys for ribbon)`, or `bloom (not ribbon: memory budget)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reason only where it explains something: nearly all kinds are as requested.
        let kind = self.kind;
        if self.is_as_requested() { write!(f, "{kind}") } else { write!(f, "{kind} ({})", self.why()) }
    }
}
