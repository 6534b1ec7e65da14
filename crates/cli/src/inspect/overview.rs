//! One line for each of several files: which have a filter, of what kind, and which need a look.

use core::fmt;

use serde::Serialize;

use super::{Fields, FileReport, FilterFields, TableFields};
use crate::output::{Column, Outcome, figures};
use crate::partitions::PartitionFields;
use crate::probe::file_name;
use crate::units::{grouped, percent};

/// A file's filter in one line. A remark says why it needs a look.
#[derive(Debug, Default, Serialize)]
pub(super) struct Overview {
    /// `table`, `RocksDB table`, `filter block` and so on; `none` if it is not known what the file is.
    format: String,
    /// Kinds of filters; `none`, or `unusable`.
    filter: String,
    keys: Option<u64>,
    bits_per_key: Option<f64>,
    expected_fpr: Option<f64>,
    /// What is wrong with the filter, or unusual; null if nothing is.
    remark: Option<String>,
}

impl Overview {
    pub(super) fn new(fields: &Fields) -> Self {
        match fields {
            Fields::Table(table) => Self::of_table(table),
            Fields::FilterBlock(filter) => Self { format: "filter block".into(), ..Self::of_block(filter) },
            Fields::RangeFilter(_) => Self { format: "range filter".into(), filter: "range".into(), ..Self::default() },
            Fields::PartitionedFilter(partitions) => {
                Self { format: "filter block".into(), ..Self::of_partitions(partitions) }
            }
            Fields::Sidecar(sidecar) => {
                let filter = Self::of_either(sidecar.filter.as_ref(), sidecar.partitions.as_ref());
                Self { format: "sidecar".into(), ..filter.unwrap_or_default() }
            }
            Fields::ForeignTable(table) => table.overview(),
            Fields::Problem(problem) => Self::without_filter("none", "none", Some(problem.clone())),
        }
    }

    pub(super) fn without_filter(format: &str, filter: &str, remark: Option<String>) -> Self {
        Self { format: format.into(), filter: filter.into(), remark, ..Self::default() }
    }

    pub(super) fn of_filter(format: String, filter: String, keys: Option<u64>, rates: [Option<f64>; 2]) -> Self {
        let [bits_per_key, expected_fpr] = rates;
        Self { format, filter, keys, bits_per_key, expected_fpr, remark: None }
    }

    pub(super) fn with_remark(self, remark: Option<String>) -> Self {
        Self { remark: self.remark.or(remark), ..self }
    }

    /// With its sidecar's filter, if that is used.
    fn of_table(table: &TableFields) -> Self {
        let own = Self::of_either(table.filter.as_ref(), table.partitions.as_ref());
        let used = table.sidecar.as_ref().filter(|sidecar| sidecar.problem.is_none());
        let of_sidecar = used.and_then(|sidecar| sidecar.fields.as_ref());
        let of_sidecar =
            of_sidecar.and_then(|fields| Self::of_either(fields.filter.as_ref(), fields.partitions.as_ref()));
        let of_sidecar = of_sidecar.map(|found| found.with_remark(Some("of its sidecar".into())));
        let state = if table.filter_problem.is_some() { "unusable" } else { "none" };
        let sidecar_problem = table.sidecar.as_ref().and_then(|sidecar| sidecar.problem.clone());
        let found = of_sidecar.or(own).unwrap_or_else(|| Self::without_filter("", state, table.filter_problem.clone()));
        Self { format: "table".into(), ..found.with_remark(sidecar_problem) }
    }

    fn of_either(filter: Option<&FilterFields>, partitions: Option<&PartitionFields>) -> Option<Self> {
        partitions.map(Self::of_partitions).or_else(|| filter.map(Self::of_block))
    }

    fn of_block(filter: &FilterFields) -> Self {
        let info = &filter.info;
        let remark = match filter.checksum_state.as_str() {
            "ok" if info.requested != info.kind => Some(format!("not {}: {}", info.requested, info.reason)),
            "ok" => None,
            damage => Some(damage.to_owned()),
        };
        let rates = [(info.keys > 0).then(|| info.bits_per_key()), Some(info.expected_fpr)];
        Self::of_filter(String::new(), info.kind.to_string(), Some(info.keys), rates).with_remark(remark)
    }

    fn of_partitions(partitions: &PartitionFields) -> Self {
        let bits_per_key = partitions.bytes as f64 * 8.0 / partitions.keys.max(1) as f64;
        let rates = [Some(bits_per_key), Some(partitions.expected_fpr)];
        Self::of_filter(String::new(), format!("partitioned, {}", partitions.kinds()), Some(partitions.keys), rates)
            .with_remark(partitions.problem().map(str::to_owned))
    }
}

/// The lines of several files, and those that need a look once more with the reason.
pub(super) fn write(f: &mut fmt::Formatter<'_>, files: &[FileReport]) -> fmt::Result {
    let columns: [Column<FileReport>; 6] = [
        ("file", |file| file_name(&file.path)),
        ("format", |file| file.overview.format.clone()),
        ("filter", |file| file.overview.filter.clone()),
        ("keys", |file| file.overview.keys.map_or_else(|| "-".to_owned(), grouped)),
        ("bits per key", |file| file.overview.bits_per_key.map_or_else(|| "-".to_owned(), |bits| format!("{bits:.2}"))),
        ("expected rate", |file| file.overview.expected_fpr.map_or_else(|| "-".to_owned(), percent)),
    ];
    writeln!(f, "\n{}", figures(&columns, files))?;
    for file in files {
        if let Some(remark) = &file.overview.remark {
            let damaged = if file.outcome == Outcome::Yes { "" } else { "not sound: " };
            writeln!(f, "{}: {damaged}{remark}", file_name(&file.path))?;
        }
    }
    Ok(())
}
