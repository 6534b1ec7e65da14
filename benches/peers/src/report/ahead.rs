//! The figures in which a peer is ahead of us.

use sstfilter_charts::Align::{Left, Right};
use sstfilter_charts::{Column, Table, grouped};

use crate::figures::{Figure, ahead, groups, is_ahead, ratio};
use crate::many_filters::{ONE_BY_ONE, SET_OF_ONE_KEY};
use crate::record::{ByteOperation, Record, Uses, ours_beside};
use crate::subjects::sstfilter::NAME;
use crate::tables::{our_key_bytes, ours_by};

/// Single probes are compared with single probes, and batches with batches.
const FIGURES: [Figure<Record>; 6] = [
    ("fewer bits per key", |record| Some(record.bits_per_key)),
    ("fewer false positives", |record| Some(record.fpr)),
    ("faster build", |record| Some(record.build_ns_per_key)),
    ("faster single miss", |record| Some(record.query_miss_ns)),
    ("faster single hit", |record| Some(record.query_hit_ns)),
    ("faster batch", |record| record.batch_miss_ns),
];

/// Lists each peer that is ahead in some figure, and at how many keys.
pub fn table(records: &[Record]) -> Table {
    let peers = groups(records.iter().filter(|record| record.implementation != NAME), Record::title);
    let cells = |first: &Record| vec![first.implementation.clone(), first.kind.clone(), first.against.clone()];
    let peers = peers.into_iter().map(|(_, of_peer)| (cells(of_peer[0]), of_peer));
    let titles = ["crate", "filter", "compared with our"];
    ahead(&titles, &FIGURES, peers, |record| ours_beside(record, records), |record| grouped(record.n))
}

/// A use: crate, call, circumstances, time, and our time to compare with.
type Use<'a> = (&'a str, &'a str, String, f64, Option<f64>);

/// Lists each peer that is ahead with keys as bytes, or with many filters, and by how much.
pub fn uses(Uses { key_bytes, many_filters, .. }: &Uses) -> Table {
    let of_key = key_bytes.iter().map(|record| {
        let job = if record.operation == ByteOperation::Hash { "hashing alone" } else { "hash and single probe" };
        let at = format!("{job}, keys of {} bytes", record.bytes_per_key);
        (&*record.implementation, &*record.method, at, record.ns_per_key, our_key_bytes(record, key_bytes))
    });
    let of_many = many_filters.iter().flat_map(|record| {
        [(ONE_BY_ONE, "our call per filter"), (SET_OF_ONE_KEY, "our set of one key")].map(|(method, title)| {
            let (filters, keys, buffers) = (record.filters, grouped(record.keys_per_filter), record.allocation.name());
            let at = format!("{filters} filters of {keys} keys, buffers {buffers}, against {title}");
            let ours = ours_by(method, record, many_filters);
            (&*record.implementation, &*record.method, at, record.ns_per_probe, ours)
        })
    });
    let columns: [Column<Use<'_>>; 4] = [
        ("crate", Left, |(implementation, ..)| (*implementation).to_owned()),
        ("call", Left, |(_, method, ..)| (*method).to_owned()),
        ("at", Left, |(_, _, at, ..)| at.clone()),
        ("vs ours", Right, |(.., theirs, ours)| ratio(*theirs, *ours)),
    ];
    let all = of_key.chain(of_many);
    Table::of(all.filter(|(.., theirs, ours)| ours.is_some_and(|ours| is_ahead(*theirs, ours))), &columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{key_bytes, record};

    #[test]
    fn a_peer_with_keys_as_bytes_is_listed_only_where_it_is_faster() {
        let rows =
            vec![key_bytes(NAME, "a", "a", 4.0), key_bytes("slow", "b", "a", 5.0), key_bytes("fast", "c", "a", 2.0)];
        let text = uses(&Uses { key_bytes: rows, ..Uses::default() }).markdown();
        assert!(text.contains("| fast | c | hash and single probe, keys of 8 bytes | 0.50x |"), "{text}");
        assert!(!text.contains("slow"), "{text}");
    }

    #[test]
    fn only_figures_that_are_clearly_less_than_ours_are_listed() {
        let mut rows = vec![record(NAME, "a", "a", 10), record(NAME, "a", "a", 1_000)];
        rows.extend([record("peer", "b", "a", 10), record("peer", "b", "a", 1_000), record("equal", "c", "a", 10)]);
        rows[2].build_ns_per_key = 3.0;
        rows[3].build_ns_per_key = 3.0;
        rows[3].fpr = 0.005;
        rows[4].query_miss_ns = 1.99;
        let text = table(&rows).markdown();
        assert!(text.ends_with("| peer | b | a |  | 1,000 | always |  |  |  |\n"), "{text}");
        assert!(!text.contains("equal"), "{text}");
    }
}
