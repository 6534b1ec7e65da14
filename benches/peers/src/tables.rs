//! The tables and their figures.

use sstfilter_charts::Align::{Left, Right};
use sstfilter_charts::{Column, Table, grouped};

use crate::figures::{Beside, bytes, nanoseconds, percent, ratio, times_ours};
use crate::many_filters::{ONE_BY_ONE, SET_OF_ONE_KEY};
use crate::record::{ByteOperation, CountedProbe, KeyBytes, ManyFilters, Record, SharedProbe, Uses, ours_beside};
use crate::subjects::sstfilter::NAME;

fn beside<'a>(record: &'a Record, records: &'a [Record]) -> Beside<'a, Record> {
    (record, ours_beside(record, records).filter(|ours| *ours != record))
}

fn time(time: Option<f64>) -> String {
    time.map(nanoseconds).unwrap_or_default()
}

/// Makes the table of all subjects at `n` keys. Each time has its ratio to ours: single probes to our single probe,
/// batches to our batch.
pub fn of_size(records: &[Record], n: u64) -> Table {
    let columns: [Column<Beside<'_, Record>>; 15] = [
        ("crate", Left, |(record, _)| record.name()),
        ("filter", Left, |(record, _)| record.kind.clone()),
        ("hash", Left, |(record, _)| format!("{:?}", record.hash).to_lowercase()),
        ("bits/key", Right, |(record, _)| format!("{:.2}", record.bits_per_key)),
        ("rate", Right, |(record, _)| percent(record.fpr)),
        ("build ns", Right, |(record, _)| nanoseconds(record.build_ns_per_key)),
        ("vs ours", Right, |row| times_ours(row, |record| Some(record.build_ns_per_key))),
        ("single miss ns", Right, |(record, _)| nanoseconds(record.query_miss_ns)),
        ("vs our single", Right, |row| times_ours(row, |record| Some(record.query_miss_ns))),
        ("single hit ns", Right, |(record, _)| nanoseconds(record.query_hit_ns)),
        ("vs our single", Right, |row| times_ours(row, |record| Some(record.query_hit_ns))),
        ("batch miss ns", Right, |(record, _)| time(record.batch_miss_ns)),
        ("vs our batch", Right, |row| times_ours(row, |record| record.batch_miss_ns)),
        // Without a batch call, keys that come in batches are probed one by one.
        ("no batch call: single vs our batch", Right, |(record, ours)| match record.batch_miss_ns {
            None => ratio(record.query_miss_ns, ours.and_then(|ours| ours.batch_miss_ns)),
            Some(_) => String::new(),
        }),
        ("peak", Right, |(record, _)| bytes(record.bytes_peak)),
    ];
    let of_size = records.iter().filter(|record| record.n == n);
    Table::of(of_size.map(|record| beside(record, records)), &columns)
}

/// The tables of what is measured of a few filters: titles and tables, those without rows left out.
pub fn of_uses(uses: &Uses) -> impl Iterator<Item = (&'static str, Table)> {
    let tables = [
        ("Hashing keys", hashing(&uses.key_bytes)),
        ("From key bytes to an answer", hashing_and_probing(&uses.key_bytes)),
        ("Counted single probes", counted(&uses.counted)),
        ("One absent key, many filters", many_filters(&uses.many_filters)),
    ];
    tables.into_iter().filter(|(_, table)| !table.is_empty())
}

/// A way from the bytes of a key, and our time to compare with.
type KeyBytesBeside<'a> = (&'a KeyBytes, Option<f64>);

fn of_operation(operation: ByteOperation, records: &[KeyBytes]) -> impl Iterator<Item = KeyBytesBeside<'_>> {
    let of_operation = records.iter().filter(move |record| record.operation == operation);
    of_operation.map(|record| (record, our_key_bytes(record, records)))
}

/// Makes the table of hashing: our hasher, and the function that it calls.
fn hashing(records: &[KeyBytes]) -> Table {
    let columns: [Column<KeyBytesBeside<'_>>; 5] = [
        ("crate", Left, |(record, _)| record.implementation.clone()),
        ("call", Left, |(record, _)| record.method.clone()),
        ("key bytes", Right, |(record, _)| record.bytes_per_key.to_string()),
        ("ns per key", Right, |(record, _)| nanoseconds(record.ns_per_key)),
        ("vs ours", Right, |(record, ours)| ratio(record.ns_per_key, *ours)),
    ];
    Table::of(of_operation(ByteOperation::Hash, records), &columns)
}

/// Keys of several lengths hashed and probed, one by one.
fn hashing_and_probing(records: &[KeyBytes]) -> Table {
    let columns: [Column<KeyBytesBeside<'_>>; 7] =
        [
            ("crate", Left, |(record, _)| record.implementation.clone()),
            ("filter", Left, |(record, _)| record.method.clone()),
            ("keys", Right, |(record, _)| grouped(record.n)),
            ("key bytes", Right, |(record, _)| record.bytes_per_key.to_string()),
            ("hash and single probe ns", Right, |(record, _)| nanoseconds(record.ns_per_key)),
            ("compared with our", Left, |(record, _)| {
                if record.implementation == NAME { String::new() } else { record.against.clone() }
            }),
            ("vs ours", Right, |(record, ours)| ratio(record.ns_per_key, *ours)),
        ];
    Table::of(of_operation(ByteOperation::HashAndProbe, records), &columns)
}

/// Returns the time of our method to compare `record` with, unless it is ours itself.
pub fn our_key_bytes(record: &KeyBytes, records: &[KeyBytes]) -> Option<f64> {
    let job = |record: &KeyBytes| (record.operation, record.bytes_per_key, record.n);
    let is_beside =
        |other: &&KeyBytes| other.implementation == NAME && other.method == record.against && job(other) == job(record);
    let ours = records.iter().find(is_beside).filter(|_| record.implementation != NAME);
    ours.map(|ours| ours.ns_per_key)
}

/// Our single probes, bare, counted, and counted from many threads.
fn counted(records: &[CountedProbe]) -> Table {
    fn shared(record: &CountedProbe, cell: fn(SharedProbe) -> String) -> String {
        record.shared.map(cell).unwrap_or_default()
    }
    let columns: [Column<&CountedProbe>; 9] = [
        ("filter", Left, |record| record.kind.clone()),
        ("keys", Right, |record| grouped(record.n)),
        ("may_contain ns", Right, |record| nanoseconds(record.bare_ns)),
        ("counted probe ns", Right, |record| nanoseconds(record.counted_ns)),
        ("counting adds ns", Right, |record| format!("{:.2}", record.counted_ns - record.bare_ns)),
        ("threads", Right, |record| shared(record, |shared| shared.threads.to_string())),
        ("one thread alone ns", Right, |record| shared(record, |shared| nanoseconds(shared.alone_ns))),
        ("all threads, one reader ns", Right, |record| shared(record, |shared| nanoseconds(shared.together_ns))),
        ("vs alone", Right, |record| shared(record, |shared| ratio(shared.together_ns, Some(shared.alone_ns)))),
    ];
    Table::of(records, &columns)
}

/// A record of many filters, and our times for them: by a call per filter, and by a set of one key.
type ManyFiltersBeside<'a> = (&'a ManyFilters, [Option<f64>; 2]);

/// One key, many filters. A call per filter is compared with our call per filter, and with our set of one key.
fn many_filters(records: &[ManyFilters]) -> Table {
    let columns: [Column<ManyFiltersBeside<'_>>; 9] = [
        ("crate", Left, |(record, _)| record.name()),
        ("probed by", Left, |(record, _)| record.method.clone()),
        ("filters", Right, |(record, _)| record.filters.to_string()),
        ("keys each", Right, |(record, _)| grouped(record.keys_per_filter)),
        ("in all", Right, |(record, _)| bytes(record.total_bytes)),
        ("buffers", Left, |(record, _)| record.allocation.name().to_owned()),
        ("ns per key and filter", Right, |(record, _)| nanoseconds(record.ns_per_probe)),
        ("vs our call per filter", Right, |(record, ours)| ratio(record.ns_per_probe, ours[0])),
        ("vs our set of one key", Right, |(record, ours)| ratio(record.ns_per_probe, ours[1])),
    ];
    let ours = |record| [ONE_BY_ONE, SET_OF_ONE_KEY].map(|method| ours_by(method, record, records));
    Table::of(records.iter().map(|record| (record, ours(record))), &columns)
}

/// Makes the table of single and batched probes of a program compiled for one CPU, compared with the usual program.
pub fn compiled_for_cpu(records: &[Record], usual: &[Record]) -> Table {
    let columns: [Column<(Beside<'_, Record>, Option<&Record>)>; 9] = [
        ("crate", Left, |((record, _), _)| record.name()),
        ("filter", Left, |((record, _), _)| record.kind.clone()),
        ("keys", Right, |((record, _), _)| grouped(record.n)),
        ("single miss ns", Right, |((record, _), _)| nanoseconds(record.query_miss_ns)),
        ("vs our single", Right, |(row, _)| times_ours(row, |record| Some(record.query_miss_ns))),
        ("as usual", Right, |(_, usual)| time(usual.map(|usual| usual.query_miss_ns))),
        ("batch miss ns", Right, |((record, _), _)| time(record.batch_miss_ns)),
        ("vs our batch", Right, |(row, _)| times_ours(row, |record| record.batch_miss_ns)),
        ("as usual", Right, |(_, usual)| time(usual.and_then(|usual| usual.batch_miss_ns))),
    ];
    let as_usual = |record: &Record| usual.iter().find(|other| other.title() == record.title() && other.n == record.n);
    Table::of(records.iter().map(|record| (beside(record, records), as_usual(record))), &columns)
}

/// Returns our time by `method` for the same filters, unless `record` is ours.
pub fn ours_by(method: &str, record: &ManyFilters, records: &[ManyFilters]) -> Option<f64> {
    let filters = |record: &ManyFilters| (record.keys_per_filter, record.allocation);
    let is_beside = |other: &&ManyFilters| {
        other.implementation == NAME && other.method == method && filters(other) == filters(record)
    };
    // The fastest kernels are the last.
    let ours = records.iter().rfind(is_beside).filter(|_| record.implementation != NAME);
    ours.map(|ours| ours.ns_per_probe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{key_bytes, record};

    #[test]
    fn a_peer_stands_beside_ours_of_the_same_size_and_ours_beside_nothing() {
        let mut rows = vec![record(NAME, "a", "a", 10), record("peer", "b", "a", 10), record("peer", "b", "a", 20)];
        rows[0].batch_miss_ns = Some(0.5);
        rows[1].build_ns_per_key = 6.0;
        let text = of_size(&rows, 10).aligned();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(!lines[1].contains('x'), "{text}");
        assert!(lines[2].contains("1.50x") && lines[2].contains("4.00x"), "{text}");
    }

    #[test]
    fn a_batch_is_compared_with_a_batch_and_a_single_probe_with_it_only_in_its_own_column() {
        let mut rows = vec![record(NAME, "a", "a", 10), record("peer", "b", "a", 10)];
        rows[0].batch_miss_ns = Some(0.5);
        let ratios = |rows: &[Record]| {
            let text = of_size(rows, 10).markdown();
            text.lines().last().unwrap().split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()[12..15]
                .to_vec()
        };
        assert_eq!(ratios(&rows), ["", "", "4.00x"]);
        rows[1].batch_miss_ns = Some(1.0);
        assert_eq!(ratios(&rows), ["1.00", "2.00x", ""]);
    }

    #[test]
    fn hashing_and_probing_is_compared_with_our_filter_of_the_same_kind() {
        let rows = [key_bytes(NAME, "a", "a", 4.0), key_bytes(NAME, "b", "b", 2.0), key_bytes("peer", "c", "b", 3.0)];
        let ours: Vec<_> = rows.iter().map(|row| our_key_bytes(row, &rows)).collect();
        assert_eq!(ours, [None, None, Some(2.0)]);
        assert!(
            hashing(&rows).aligned().lines().count() == 1 && hashing_and_probing(&rows).aligned().contains("1.50x")
        );
    }

    #[test]
    fn probes_compiled_for_a_cpu_stand_beside_ours_so_compiled_and_beside_the_usual_ones() {
        let usual = [record(NAME, "a", "a", 10), record("peer", "b", "a", 10)];
        let mut compiled = usual.clone();
        compiled[0].query_miss_ns = 1.25;
        let text = compiled_for_cpu(&compiled, &usual).aligned();
        assert!(text.contains("1.60x") && text.contains("2.00") && !text.contains("1.00x"), "{text}");
    }

    #[test]
    fn counting_stands_beside_the_bare_probe_and_threads_beside_one_alone() {
        let shared = Some(SharedProbe { threads: 2, alone_ns: 3.0, together_ns: 3.3 });
        let record = CountedProbe { kind: "a".to_owned(), n: 10, bare_ns: 2.0, counted_ns: 2.5, shared };
        let text = counted(&[record]).aligned();
        assert!(text.contains("0.50") && text.contains("1.10x"), "{text}");
    }
}
