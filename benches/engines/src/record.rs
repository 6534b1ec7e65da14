//! The records of a run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sstfilter_charts::Align::{Left, Right};
use sstfilter_charts::{Column, Table};

/// A measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    /// Absent keys, one by one.
    Get,
    /// Absent keys, 32 in a call.
    #[serde(rename = "multi_get_32")]
    MultiGet32,
    /// Absent keys for which all filters are negative, one by one.
    GetNegative,
    /// Absent keys for which all filters are negative, 32 in a call.
    #[serde(rename = "multi_get_32_negative")]
    MultiGet32Negative,
    /// Present keys, one by one.
    GetPresent,
}

impl Operation {
    pub(crate) const ALL: [Self; 5] =
        [Self::Get, Self::MultiGet32, Self::GetNegative, Self::MultiGet32Negative, Self::GetPresent];

    /// Whether its keys come in batches.
    pub(crate) fn is_batched(self) -> bool {
        matches!(self, Self::MultiGet32 | Self::MultiGet32Negative)
    }

    /// Whether all filters are negative for its keys.
    pub(crate) fn is_negative(self) -> bool {
        matches!(self, Self::GetNegative | Self::MultiGet32Negative)
    }
}

/// One operation of one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) engine: String,
    pub(crate) filter: String,
    pub(crate) files: usize,
    pub(crate) keys_per_file: usize,
    pub(crate) operation: Operation,
    pub(crate) ns_per_key: f64,
    /// The engine's layout of the files.
    pub(crate) note: String,
}

/// One line per record, as a first look; `sstfilter-peers report` compares them.
pub(crate) fn table(records: &[Record]) -> Table {
    let columns: [Column<&Record>; 5] = [
        ("engine", Left, |record| record.engine.clone()),
        ("filter", Left, |record| record.filter.clone()),
        ("operation", Left, |record| format!("{:?}", record.operation)),
        ("ns per key", Right, |record| format!("{:.1}", record.ns_per_key)),
        ("files", Left, |record| record.note.clone()),
    ];
    Table::of(records, &columns)
}

/// Writes the records as an indented array.
pub(crate) fn write_json(path: &Path, records: &[Record]) -> Result<()> {
    let text = serde_json::to_string_pretty(records)? + "\n";
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_names_that_readers_of_the_records_expect() {
        let names = Operation::ALL.map(|operation| serde_json::to_string(&operation).unwrap());
        let expected = ["get", "multi_get_32", "get_negative", "multi_get_32_negative", "get_present"];
        assert_eq!(names, expected.map(|name| format!("\"{name}\"")));
    }
}
