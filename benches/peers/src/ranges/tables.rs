//! The tables of range filters.

use sstfilter_charts::Align::{Left, Right};
use sstfilter_charts::{Column, Table, grouped};

use super::measure::DEGREES;
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
pub fn by_keys(records: &[RangeRecord]) -> impl Iterator<Item = (String, Table)> {
    let kinds = figures::groups(records, |record| (&record.built.keys, record.built.n)).into_iter();
    kinds.map(|((keys, n), _)| (format!("{} keys: {keys}", grouped(n)), of_keys(records, keys)))
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
    let peers = figures::groups(records.iter().filter(|record| !record.built.is_ours()), |record| &record.built);
    let cells =
        |built: &Built| vec![built.implementation.clone(), built.kind.clone(), built.keys.clone(), our_kind(built)];
    let peers = peers.into_iter().map(|(built, of_peer)| (cells(built), of_peer));
    let titles = ["crate", "filter", "keys", "compared with our"];
    figures::ahead(&titles, &FIGURES, peers, |record| beside(record, records), |record| power(record.length))
}

/// Rates by degree of correlation.
fn correlated(run: &RangeMeasurements) -> Table {
    let columns = [("crate", Left), ("filter", Left), ("range", Right)];
    let mut table = Table::new(columns.into_iter().chain(DEGREES.map(|(title, _)| (title, Right))));
    for ((built, length), records) in figures::groups(&run.correlated, |record| (&record.built, record.length)) {
        let rate = |(_, degree): (&str, f64)| {
            let of_degree = records.iter().find(|record| record.degree.total_cmp(&degree).is_eq());
            of_degree.map_or_else(String::new, |record| percent(record.fpr))
        };
        let cells = [built.implementation.clone(), built.kind.clone(), power(length)];
        table.push(cells.into_iter().chain(DEGREES.map(rate)).collect());
    }
    table
}

/// Ranges that hold a key, and how many of them were reported as empty: of all keys and lengths together.
fn false_negatives(held: &[HeldRecord]) -> Table {
    let sums = figures::groups(held, |record| (&record.built.kind, &record.place)).into_iter().map(|(_, records)| {
        let sum = |count: fn(&HeldRecord) -> u64| records.iter().map(|record| count(record)).sum::<u64>();
        (records[0], sum(|record| record.ranges), sum(|record| record.lost))
    });
    let columns: [Column<(&HeldRecord, u64, u64)>; 7] = [
        ("crate", Left, |(record, ..)| record.built.implementation.clone()),
        ("version", Left, |(record, ..)| record.built.version.clone()),
        ("filter", Left, |(record, ..)| record.built.kind.clone()),
        ("ranges with a key", Left, |(record, ..)| record.place.clone()),
        ("ranges", Right, |(_, ranges, _)| grouped(*ranges)),
        ("false negatives", Right, |(.., lost)| grouped(*lost)),
        ("one in", Right, |(_, ranges, lost)| ranges.checked_div(*lost).map_or_else(String::new, grouped)),
    ];
    Table::of(sums, &columns)
}
