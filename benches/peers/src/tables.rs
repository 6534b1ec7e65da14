//! Which figures stand in which table.

use crate::record::{ManyFilters, Record, ours_beside};
use crate::subjects::sstfilter::NAME;
use crate::table::{Align, Table, bytes, grouped, nanoseconds, percent, ratio};

/// The numbers of keys that occur, ascending.
pub fn sizes(records: &[Record]) -> Vec<u64> {
    let mut sizes: Vec<_> = records.iter().map(|record| record.n).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// All subjects at `n` keys. Beside each time stands how many times as long as ours it is.
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
        ("miss ns", Right),
        ("vs ours", Right),
        ("hit ns", Right),
        ("vs ours", Right),
        ("batch ns", Right),
        ("vs ours", Right),
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
    let batch = record.batch_miss_ns;
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
        // Without a batch call, keys that come in batches are asked one by one.
        beside(batch.unwrap_or(record.query_miss_ns), |ours| ours.batch_miss_ns.unwrap_or(f64::NAN)),
        bytes(record.bytes_peak),
    ]
}

/// One key, many filters, compared with the best of ours.
pub fn many_filters(records: &[ManyFilters]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("crate", Left),
        ("asked by", Left),
        ("filters", Right),
        ("keys each", Right),
        ("in all", Right),
        ("ns per key and filter", Right),
        ("vs ours", Right),
    ]);
    for record in records {
        let is_beside =
            |other: &&ManyFilters| other.implementation == NAME && other.keys_per_filter == record.keys_per_filter;
        let ours = records.iter().filter(is_beside).map(|ours| ours.ns_per_probe).min_by(f64::total_cmp);
        table.push(vec![
            record.name(),
            record.method.clone(),
            record.filters.to_string(),
            grouped(record.keys_per_filter),
            bytes(record.total_bytes),
            nanoseconds(record.ns_per_probe),
            ratio(record.ns_per_probe, ours),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

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
}
