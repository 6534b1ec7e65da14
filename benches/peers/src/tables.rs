//! Which figures stand in which table.

use crate::many_filters::{ONE_BY_ONE, SET_OF_ONE_KEY};
use crate::record::{ByteOperation, CountedProbe, KeyBytes, ManyFilters, Record, ours_beside};
use crate::subjects::sstfilter::NAME;
use crate::table::{Align, Table, bytes, grouped, nanoseconds, percent, ratio};

/// The numbers of keys that occur, ascending.
pub fn sizes(records: &[Record]) -> Vec<u64> {
    let mut sizes: Vec<_> = records.iter().map(|record| record.n).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// All subjects at `n` keys. Beside each time stands how many times as long as ours it is, a single probe beside our
/// single probe, and a batch beside our batch.
pub fn of_size(records: &[Record], n: u64) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("crate", Left),
        ("filter", Left),
        ("hash", Left),
        ("bits/key", Right),
        ("rate", Right),
        ("build ns", Right),
        ("vs ours", Right),
        ("single miss ns", Right),
        ("vs our single", Right),
        ("single hit ns", Right),
        ("vs our single", Right),
        ("batch miss ns", Right),
        ("vs our batch", Right),
        ("no batch call: single vs our batch", Right),
        ("peak", Right),
    ]);
    for record in records.iter().filter(|record| record.n == n) {
        table.push(row(record, ours_beside(record, records)));
    }
    table
}

fn row(record: &Record, ours: Option<&Record>) -> Vec<String> {
    let ours = ours.filter(|ours| *ours != record);
    let beside = |value: f64, of: fn(&Record) -> f64| ratio(value, ours.map(of));
    let beside_batch = |value: Option<f64>| value.map_or_else(String::new, |value| beside(value, our_batch));
    let batch = record.batch_miss_ns;
    let single_for_batch = if batch.is_none() { Some(record.query_miss_ns) } else { None };
    vec![
        record.name(),
        record.kind.clone(),
        record.hash.to_string(),
        format!("{:.2}", record.bits_per_key),
        percent(record.fpr),
        nanoseconds(record.build_ns_per_key),
        beside(record.build_ns_per_key, |ours| ours.build_ns_per_key),
        nanoseconds(record.query_miss_ns),
        beside(record.query_miss_ns, |ours| ours.query_miss_ns),
        nanoseconds(record.query_hit_ns),
        beside(record.query_hit_ns, |ours| ours.query_hit_ns),
        batch.map(nanoseconds).unwrap_or_default(),
        beside_batch(batch),
        // Without a batch call, keys that come in batches are probed one by one.
        beside_batch(single_for_batch),
        bytes(record.bytes_peak),
    ]
}

fn our_batch(ours: &Record) -> f64 {
    ours.batch_miss_ns.unwrap_or(f64::NAN)
}

/// Hashing alone: our hasher beside the function that it calls.
pub fn hashing(records: &[KeyBytes]) -> Table {
    use Align::{Left, Right};
    let mut table =
        Table::new(&[("crate", Left), ("call", Left), ("key bytes", Right), ("ns per key", Right), ("vs ours", Right)]);
    for record in records.iter().filter(|record| record.operation == ByteOperation::Hash) {
        table.push(vec![
            record.implementation.clone(),
            record.method.clone(),
            record.bytes_per_key.to_string(),
            nanoseconds(record.ns_per_key),
            ratio(record.ns_per_key, our_key_bytes(record, records)),
        ]);
    }
    table
}

/// Keys of several lengths hashed and probed, one by one.
pub fn hashing_and_probing(records: &[KeyBytes]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("crate", Left),
        ("filter", Left),
        ("keys", Right),
        ("key bytes", Right),
        ("hash and single probe ns", Right),
        ("compared with our", Left),
        ("vs ours", Right),
    ]);
    for record in records.iter().filter(|record| record.operation == ByteOperation::HashAndProbe) {
        table.push(vec![
            record.implementation.clone(),
            record.method.clone(),
            grouped(record.n),
            record.bytes_per_key.to_string(),
            nanoseconds(record.ns_per_key),
            if record.implementation == NAME { String::new() } else { record.against.clone() },
            ratio(record.ns_per_key, our_key_bytes(record, records)),
        ]);
    }
    table
}

/// The time of the method of ours that `record` is compared with, unless it is ours itself.
pub fn our_key_bytes(record: &KeyBytes, records: &[KeyBytes]) -> Option<f64> {
    let job = |record: &KeyBytes| (record.operation, record.bytes_per_key, record.n);
    let is_beside =
        |other: &&KeyBytes| other.implementation == NAME && other.method == record.against && job(other) == job(record);
    let ours = records.iter().find(is_beside).filter(|_| record.implementation != NAME);
    ours.map(|ours| ours.ns_per_key)
}

/// Our single probes, bare, counted, and counted from many threads.
pub fn counted(records: &[CountedProbe]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("filter", Left),
        ("keys", Right),
        ("may_contain ns", Right),
        ("counted probe ns", Right),
        ("counting adds ns", Right),
        ("threads", Right),
        ("one thread alone ns", Right),
        ("all threads, one reader ns", Right),
        ("vs alone", Right),
    ]);
    for record in records {
        let mut row = vec![
            record.kind.clone(),
            grouped(record.n),
            nanoseconds(record.bare_ns),
            nanoseconds(record.counted_ns),
            format!("{:.2}", record.counted_ns - record.bare_ns),
        ];
        if let Some(shared) = record.shared {
            let times = [nanoseconds(shared.alone_ns), nanoseconds(shared.together_ns)];
            row.push(shared.threads.to_string());
            row.extend(times);
            row.push(ratio(shared.together_ns, Some(shared.alone_ns)));
        }
        table.push(row);
    }
    table
}

/// One key, many filters. A call per filter is compared with our call per filter, and with our set of one key.
pub fn many_filters(records: &[ManyFilters]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("crate", Left),
        ("probed by", Left),
        ("filters", Right),
        ("keys each", Right),
        ("in all", Right),
        ("buffers", Left),
        ("ns per key and filter", Right),
        ("vs our call per filter", Right),
        ("vs our set of one key", Right),
    ]);
    for record in records {
        let beside = |method| ratio(record.ns_per_probe, ours_by(method, record, records));
        table.push(vec![
            record.name(),
            record.method.clone(),
            record.filters.to_string(),
            grouped(record.keys_per_filter),
            bytes(record.total_bytes),
            record.allocation.to_string(),
            nanoseconds(record.ns_per_probe),
            beside(ONE_BY_ONE),
            beside(SET_OF_ONE_KEY),
        ]);
    }
    table
}

/// Single and batched probes of a program that was compiled for one CPU, beside those of the usual one.
pub fn compiled_for_cpu(records: &[Record], usual: &[Record]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("crate", Left),
        ("filter", Left),
        ("keys", Right),
        ("single miss ns", Right),
        ("vs our single", Right),
        ("as usual", Right),
        ("batch miss ns", Right),
        ("vs our batch", Right),
        ("as usual", Right),
    ]);
    for record in records {
        let ours = ours_beside(record, records).filter(|ours| *ours != record);
        let usual = usual.iter().find(|other| other.title() == record.title() && other.n == record.n);
        let time = |time: Option<f64>| time.map(nanoseconds).unwrap_or_default();
        let batch = |record: &Record| record.batch_miss_ns;
        table.push(vec![
            record.name(),
            record.kind.clone(),
            grouped(record.n),
            nanoseconds(record.query_miss_ns),
            ratio(record.query_miss_ns, ours.map(|ours| ours.query_miss_ns)),
            time(usual.map(|usual| usual.query_miss_ns)),
            time(record.batch_miss_ns),
            ratio(record.batch_miss_ns.unwrap_or(f64::NAN), ours.and_then(batch)),
            time(usual.and_then(batch)),
        ]);
    }
    table
}

/// The time of ours by `method` for the same filters, unless `record` is ours.
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
    use crate::record::SharedProbe;
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
        assert_eq!(sizes(&rows), [10, 20]);
    }

    #[test]
    fn a_batch_is_compared_with_a_batch_and_a_single_probe_with_it_only_in_its_own_column() {
        let mut rows = vec![record(NAME, "a", "a", 10), record("peer", "b", "a", 10)];
        rows[0].batch_miss_ns = Some(0.5);
        let ratios = |rows: &[Record]| row(&rows[1], Some(&rows[0]))[11..14].to_vec();
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
