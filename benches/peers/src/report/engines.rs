//! Storage engines with their own filter and with ours.

use crate::record::EngineRecord;
use crate::subjects::sstfilter::NAME;
use crate::table::{Align, Table, grouped, nanoseconds, ratio};

/// All engines' records, each beside ours of the same files and operation.
pub fn table(records: &[EngineRecord]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("operation", Left),
        ("files", Right),
        ("keys per file", Right),
        ("engine", Left),
        ("filter", Left),
        ("ns per key", Right),
        ("vs ours", Right),
        ("note", Left),
    ]);
    for record in records {
        table.push(vec![
            record.operation.clone(),
            record.files.to_string(),
            grouped(record.keys_per_file),
            record.engine.clone(),
            record.filter.clone(),
            nanoseconds(record.ns_per_key),
            ratio(record.ns_per_key, ours_beside(record, records).map(|ours| ours.ns_per_key)),
            record.note.clone().unwrap_or_default(),
        ]);
    }
    table
}

/// Our fastest record of the same files and operation, in the same engine if there is one.
fn ours_beside<'a>(record: &EngineRecord, records: &'a [EngineRecord]) -> Option<&'a EngineRecord> {
    if is_ours(record) {
        return None;
    }
    let job = |record: &EngineRecord| (record.operation.clone(), record.files, record.keys_per_file);
    let comparable = || records.iter().filter(|other| is_ours(other) && job(other) == job(record));
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
            record("rocksdb", "sstfilter", "get", 400.0),
            record("rocksdb", "bloom", "get", 800.0),
            record("fjall", "bloom", "get", 800.0),
            record("fjall", "bloom", "multi_get_32", 800.0),
        ];
        let beside: Vec<_> = rows.iter().map(|row| ours_beside(row, &rows).map(|ours| ours.ns_per_key)).collect();
        assert_eq!(beside, [None, None, Some(400.0), Some(100.0), None]);
    }
}
