//! Storage engines with their own filter and with ours.

use sstfilter_charts::Align::{Left, Right};
use sstfilter_charts::{Column, Table, grouped};

use crate::figures::{nanoseconds, ratio};
use crate::record::EngineRecord;
use crate::subjects::sstfilter::NAME;

/// How the names of engines with a file map end.
const FILE_MAP: &str = "file map";

/// All engines' records, each beside ours of the same files and operation.
pub fn table(records: &[EngineRecord]) -> Table {
    let columns: [Column<(&EngineRecord, Option<f64>)>; 8] = [
        ("operation", Left, |(record, _)| record.operation.clone()),
        ("files", Right, |(record, _)| record.files.to_string()),
        ("keys per file", Right, |(record, _)| grouped(record.keys_per_file)),
        ("engine", Left, |(record, _)| record.engine.clone()),
        ("filter", Left, |(record, _)| record.filter.clone()),
        ("ns per key", Right, |(record, _)| nanoseconds(record.ns_per_key)),
        ("vs ours", Right, |(record, ours)| ratio(record.ns_per_key, *ours)),
        ("note", Left, |(record, _)| record.note.clone().unwrap_or_default()),
    ];
    let ours = |record| ours_beside(record, records).map(|ours| ours.ns_per_key);
    Table::of(records.iter().map(|record| (record, ours(record))), &columns)
}

/// Our fastest record of the same files and operation, in the same engine if there is one. A file map is no filter, and
/// has records of its own.
fn ours_beside<'a>(record: &EngineRecord, records: &'a [EngineRecord]) -> Option<&'a EngineRecord> {
    if is_ours(record) {
        return None;
    }
    let job = |record: &EngineRecord| (record.operation.clone(), record.files, record.keys_per_file);
    let is_filter = |other: &EngineRecord| is_ours(other) && !other.engine.ends_with(FILE_MAP);
    let comparable = || records.iter().filter(|other| is_filter(other) && job(other) == job(record));
    let fastest = |a: &&EngineRecord, b: &&EngineRecord| a.ns_per_key.total_cmp(&b.ns_per_key);
    let in_same_engine = comparable().filter(|other| other.engine == record.engine).min_by(fastest);
    in_same_engine.or_else(|| comparable().min_by(fastest))
}

fn is_ours(record: &EngineRecord) -> bool {
    record.engine.starts_with(NAME) || record.filter.starts_with(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(engine: &str, filter: &str, operation: &str, ns_per_key: f64) -> EngineRecord {
        let (engine, filter, operation) = (engine.to_owned(), filter.to_owned(), operation.to_owned());
        EngineRecord { engine, filter, files: 70, keys_per_file: 15_000, operation, ns_per_key, note: None }
    }

    #[test]
    fn an_engine_is_compared_with_ours_at_the_same_operation_and_within_itself_first() {
        let rows = [
            record("sstfilter", "blocked Bloom", "get", 100.0),
            record("sstfilter, file map", "blocked Bloom", "get", 5.0),
            record("rocksdb", "sstfilter", "get", 400.0),
            record("rocksdb", "bloom", "get", 800.0),
            record("fjall", "bloom", "get", 800.0),
            record("fjall", "bloom", "multi_get_32", 800.0),
        ];
        let beside: Vec<_> = rows.iter().map(|row| ours_beside(row, &rows).map(|ours| ours.ns_per_key)).collect();
        assert_eq!(beside, [None, None, None, Some(400.0), Some(100.0), None]);
    }
}
