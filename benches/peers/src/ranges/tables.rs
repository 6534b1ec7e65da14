//! The tables of range filters.

use sstfilter_charts::Align::{Left, Right};
use sstfilter_charts::{Column, Table, grouped};

use super::ours::{ORDERED, hashed};
use super::record::{Built, HeldRecord, RangeMeasurements, RangeRecord};
use crate::figures::{self, Beside, Figure, nanoseconds, percent, times_ours};

/// The tables of a whole run: titles and tables, those without rows left out.
pub fn of_run(run: &RangeMeasurements) -> impl Iterator<Item = (&'static str, Table)> {
    let tables = [
        ("Where others are ahead of us", ahead(&run.records)),
        ("Ranges close above a key", correlated(run)),
        ("False negatives", false_negatives(&run.held)),
    ];
    tables.into_iter().filter(|(_, table)| !table.is_empty())
}

/// Returns the kinds of keys that were measured, in order, each with its table.
pub fn by_keys(records: &[RangeRecord]) -> Vec<(String, Table)> {
    let mut names: Vec<&str> = records.iter().map(|record| record.built.keys.as_str()).collect();
    names.dedup();
    let title = |name: &str| {
        let n = records.iter().find(|record| record.built.keys == name).map_or(0, |record| record.built.n);
        format!("{} keys: {name}", grouped(n))
    };
    names.into_iter().map(|name| (title(name), of_keys(records, name))).collect()
}

/// All filters of keys of one kind.
pub fn of_keys(records: &[RangeRecord], keys: &str) -> Table {
    let columns: [Column<Beside<'_, RangeRecord>>; 10] = [
        ("crate", Left, |(record, _)| record.built.implementation.clone()),
        ("filter", Left, |(record, _)| record.built.kind.clone()),
        ("range", Right, |(record, _)| power(record.length)),
        ("bits/key", Right, |(record, _)| bits(record)),
        ("rate", Right, |(record, _)| percent(record.fpr)),
        ("build", Right, |(record, _)| nanoseconds(record.build_ns_per_key)),
        ("vs ours", Right, |row| times_ours(row, |record| Some(record.build_ns_per_key))),
        ("empty", Right, |(record, _)| nanoseconds(record.empty_ns)),
        ("vs ours", Right, |row| times_ours(row, |record| Some(record.empty_ns))),
        ("batch", Right, |(record, _)| record.batch_ns.map(nanoseconds).unwrap_or_default()),
    ];
    let of_keys = records.iter().filter(|record| record.built.keys == keys);
    Table::of(of_keys.map(|record| (record, beside(record, records))), &columns)
}

/// A length, which is a power of two.
fn power(length: u64) -> String {
    if length == 1 { "1".to_owned() } else { format!("2^{}", length.ilog2()) }
}

/// Allocated bits are marked.
fn bits(record: &RangeRecord) -> String {
    format!("{:.2}{}", record.bits_per_key, if record.is_allocated { " (a)" } else { "" })
}

/// Returns our kind to compare a peer with: hashed codes for the same longest range, or ordered codes for any.
fn our_kind(built: &Built) -> String {
    built.longest.map_or_else(|| ORDERED.to_owned(), hashed)
}

/// Returns our record to compare a peer's with.
fn beside<'a>(record: &RangeRecord, records: &'a [RangeRecord]) -> Option<&'a RangeRecord> {
    let kind = our_kind(&record.built);
    let is_ours = |other: &&RangeRecord| {
        other.built.is_ours()
            && other.built.kind == kind
            && other.built.keys == record.built.keys
            && other.length == record.length
    };
    records.iter().find(is_ours).filter(|_| !record.built.is_ours())
}

const FIGURES: [Figure<RangeRecord>; 4] = [
    ("fewer bits per key", |record| Some(record.bits_per_key)),
    ("lower rate", |record| Some(record.fpr)),
    ("faster build", |record| Some(record.build_ns_per_key)),
    ("faster probe", |record| Some(record.empty_ns)),
];

/// Lists each peer that is ahead of ours in some figure, with the lengths.
fn ahead(records: &[RangeRecord]) -> Table {
    let mut peers: Vec<_> = records.iter().map(|record| &record.built).filter(|built| !built.is_ours()).collect();
    peers.dedup();
    let peer = |built: &Built| {
        let of_peer = records.iter().filter(|record| record.built == *built);
        (vec![built.implementation.clone(), built.kind.clone(), built.keys.clone(), our_kind(built)], of_peer.collect())
    };
    let titles = ["crate", "filter", "keys", "compared with our"];
    let ours = |record| beside(record, records);
    figures::ahead(&titles, &FIGURES, peers.into_iter().map(peer), ours, |record| power(record.length))
}

/// The titles of the degrees that are measured.
const DEGREES: [(&str, f64); 5] = [("D = 0", 0.0), ("0.25", 0.25), ("0.5", 0.5), ("0.75", 0.75), ("1", 1.0)];

/// Rates by degree of correlation.
fn correlated(run: &RangeMeasurements) -> Table {
    let columns = [("crate", Left), ("filter", Left), ("range", Right)];
    let mut table = Table::new(columns.into_iter().chain(DEGREES.map(|(title, _)| (title, Right))));
    let mut filters: Vec<_> = run.correlated.iter().map(|record| (&record.built, record.length)).collect();
    filters.dedup();
    for (built, length) in filters {
        let mut row = vec![built.implementation.clone(), built.kind.clone(), power(length)];
        row.extend(DEGREES.map(|(_, degree)| {
            let is_there = |record: &&super::record::CorrelatedRecord| {
                record.built == *built && record.degree.total_cmp(&degree).is_eq()
            };
            run.correlated.iter().find(is_there).map_or_else(String::new, |record| percent(record.fpr))
        }));
        table.push(row);
    }
    table
}

/// Ranges that hold a key, and how many of them were reported as empty: of all keys and lengths together.
fn false_negatives(held: &[HeldRecord]) -> Table {
    let mut sums: Vec<HeldRecord> = Vec::new();
    for record in held {
        match sums.iter_mut().find(|sum| sum.built.kind == record.built.kind && sum.place == record.place) {
            Some(sum) => {
                sum.ranges += record.ranges;
                sum.lost += record.lost;
            }
            None => sums.push(record.clone()),
        }
    }
    let columns: [Column<HeldRecord>; 7] = [
        ("crate", Left, |sum| sum.built.implementation.clone()),
        ("version", Left, |sum| sum.built.version.clone()),
        ("filter", Left, |sum| sum.built.kind.clone()),
        ("ranges with a key", Left, |sum| sum.place.clone()),
        ("ranges", Right, |sum| grouped(sum.ranges)),
        ("false negatives", Right, |sum| grouped(sum.lost)),
        ("one in", Right, |sum| sum.ranges.checked_div(sum.lost).map_or_else(String::new, grouped)),
    ];
    Table::of(sums, &columns)
}
