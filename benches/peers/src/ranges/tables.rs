//! The tables of range filters.

use super::ours::{ORDERED, hashed};
use super::peers::{DIVA, GRAFITE, SURF};
use super::record::{Built, HeldRecord, RangeMeasurements, RangeRecord};
use super::targets;
use crate::subjects::sstfilter::NAME;
use crate::table::{Align, Table, grouped, nanoseconds, percent, ratio};

/// Titles of tables.
pub const AT_EQUAL_RATES: &str = "At equal rates";
pub const CORRELATED: &str = "Ranges close above a key";
pub const FALSE_NEGATIVES: &str = "False negatives";

/// The tables of a whole run: titles and tables, those without rows left out.
pub fn of_run(run: &RangeMeasurements) -> Vec<(&'static str, Table)> {
    let tables = [
        ("Targets", targets::table(run)),
        ("Where others are ahead of us", ahead(&run.records)),
        (AT_EQUAL_RATES, at_equal_rates(&run.records)),
        (CORRELATED, correlated(run)),
        (FALSE_NEGATIVES, false_negatives(&run.held)),
    ];
    tables.into_iter().filter(|(_, table)| !table.is_empty()).collect()
}

/// Which keys were measured, in order, each with its table.
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
    let mut table = Table::new(&[
        ("crate", Align::Left),
        ("filter", Align::Left),
        ("range", Align::Right),
        ("bits/key", Align::Right),
        ("rate", Align::Right),
        ("build", Align::Right),
        ("vs ours", Align::Right),
        ("empty", Align::Right),
        ("vs ours", Align::Right),
        ("batch", Align::Right),
        ("half empty", Align::Right),
    ]);
    for record in records.iter().filter(|record| record.built.keys == keys) {
        let ours = beside(record, records);
        table.push(vec![
            record.built.implementation.clone(),
            record.built.kind.clone(),
            power(record.length),
            bits(record),
            rate(record),
            nanoseconds(record.build_ns_per_key),
            ratio(record.build_ns_per_key, ours.map(|ours| ours.build_ns_per_key)),
            nanoseconds(record.empty_ns),
            ratio(record.empty_ns, ours.map(|ours| ours.empty_ns)),
            record.batch_ns.map(nanoseconds).unwrap_or_default(),
            nanoseconds(record.mixed_ns),
        ]);
    }
    table
}

/// A length, which is a power of two.
fn power(length: u64) -> String {
    if length == 1 { "1".to_owned() } else { format!("2^{}", length.ilog2()) }
}

/// Allocated bits are marked.
fn bits(record: &RangeRecord) -> String {
    format!("{:.2}{}", record.bits_per_key, if record.is_allocated { " (a)" } else { "" })
}

/// Rates with errors in them are marked.
fn rate(record: &RangeRecord) -> String {
    let errors = if record.errors > 0.0 { format!(" ({} errors)", percent(record.errors)) } else { String::new() };
    percent(record.fpr) + &errors
}

/// The kind of ours that a peer is compared with: hashed codes for the same longest range, or ordered codes for any.
fn our_kind(built: &Built) -> String {
    built.longest.map_or_else(|| ORDERED.to_owned(), hashed)
}

/// The record of ours that a peer's is compared with.
fn beside<'a>(record: &RangeRecord, records: &'a [RangeRecord]) -> Option<&'a RangeRecord> {
    let kind = our_kind(&record.built);
    let is_ours = |other: &&RangeRecord| {
        is_ours(&other.built)
            && other.built.kind == kind
            && other.built.keys == record.built.keys
            && other.length == record.length
    };
    records.iter().find(is_ours).filter(|_| !self::is_ours(&record.built))
}

pub fn is_ours(built: &Built) -> bool {
    built.implementation == NAME
}

/// A figure, of which less is better.
type Figure = fn(&RangeRecord) -> f64;

const FIGURES: [(&str, Figure); 5] = [
    ("fewer bits per key", |record| record.bits_per_key),
    ("lower rate", |record| record.fpr),
    ("faster build", |record| record.build_ns_per_key),
    ("faster, all empty", |record| record.empty_ns),
    ("faster, half empty", |record| record.mixed_ns),
];

/// Differences below this share are noise.
const NOISE: f64 = 0.03;

/// Each peer that is ahead of ours in something, with the lengths.
fn ahead(records: &[RangeRecord]) -> Table {
    let mut columns = vec![("crate", Align::Left), ("filter", Align::Left), ("keys", Align::Left)];
    columns.push(("compared with our", Align::Left));
    columns.extend(FIGURES.map(|(title, _)| (title, Align::Left)));
    let mut table = Table::new(&columns);
    for built in peers(records) {
        let cells = FIGURES.map(|(_, figure)| lengths_ahead(built, records, figure));
        if cells.iter().any(|cell| !cell.is_empty()) {
            let mut row = vec![built.implementation.clone(), built.kind.clone(), built.keys.clone(), our_kind(built)];
            row.extend(cells);
            table.push(row);
        }
    }
    table
}

/// The filters of others, each with its keys.
fn peers(records: &[RangeRecord]) -> Vec<&Built> {
    let mut peers: Vec<_> = records.iter().map(|record| &record.built).filter(|built| !is_ours(built)).collect();
    peers.dedup();
    peers
}

fn lengths_ahead(built: &Built, records: &[RangeRecord], figure: Figure) -> String {
    let of_peer: Vec<_> = records.iter().filter(|record| record.built == *built).collect();
    let is_ahead = |record: &&&RangeRecord| {
        beside(record, records).is_some_and(|ours| figure(record) < figure(ours) * (1.0 - NOISE))
    };
    let lengths: Vec<_> = of_peer.iter().filter(is_ahead).map(|record| power(record.length)).collect();
    if lengths.len() == of_peer.len() && lengths.len() > 1 { "always".to_owned() } else { lengths.join("; ") }
}

/// The rate that peers are set to, and the lengths for which they are.
const EQUAL_RATE: f64 = 0.01;
const EQUAL_LENGTHS: [u64; 2] = [1 << 5, 1 << 10];

/// What passes for [`EQUAL_RATE`]: the deviation of a rate that is observed on a million ranges, and of a seed.
const EQUAL_WITHIN: f64 = 1.1;

/// Ours beside the smallest of each peer's settings that keep the rate.
fn at_equal_rates(records: &[RangeRecord]) -> Table {
    let mut table = Table::new(&[
        ("range", Align::Right),
        ("crate", Align::Left),
        ("filter", Align::Left),
        ("bits/key", Align::Right),
        ("rate", Align::Right),
        ("our filter", Align::Left),
        ("bits/key", Align::Right),
        ("rate", Align::Right),
        ("empty, vs our single", Align::Right),
        ("empty, vs our batch", Align::Right),
        ("build, vs ours", Align::Right),
    ]);
    for length in EQUAL_LENGTHS {
        for implementation in [GRAFITE, DIVA, SURF] {
            let of_peer = |record: &&RangeRecord| {
                record.built.implementation == implementation
                    && record.built.keys == super::keys::KeyKind::Uniform.name()
                    && record.length == length
                    && record.built.longest.is_none_or(|longest| longest == length)
            };
            let settings: Vec<_> = records.iter().filter(of_peer).collect();
            if let Some(row) = equal_row(&settings, records) {
                table.push(row);
            }
        }
    }
    table
}

/// The row of one peer; `None` without a record of it.
fn equal_row(settings: &[&RangeRecord], records: &[RangeRecord]) -> Option<Vec<String>> {
    let first = *settings.first()?;
    let keeps_rate = |record: &&&RangeRecord| record.fpr <= EQUAL_RATE * EQUAL_WITHIN;
    let fewest = |a: &&&RangeRecord, b: &&&RangeRecord| a.bits_per_key.total_cmp(&b.bits_per_key);
    let Some(theirs) = settings.iter().filter(keeps_rate).min_by(fewest) else {
        let none = format!("no setting keeps {}", percent(EQUAL_RATE));
        return Some(vec![power(first.length), first.built.implementation.clone(), none]);
    };
    let ours = beside(theirs, records)?;
    Some(vec![
        power(theirs.length),
        theirs.built.implementation.clone(),
        theirs.built.kind.clone(),
        bits(theirs),
        rate(theirs),
        ours.built.kind.clone(),
        bits(ours),
        rate(ours),
        ratio(theirs.empty_ns, Some(ours.empty_ns)),
        ratio(theirs.empty_ns, ours.batch_ns),
        ratio(theirs.build_ns_per_key, Some(ours.build_ns_per_key)),
    ])
}

/// The titles of the degrees that are measured.
const DEGREES: [(&str, f64); 5] = [("D = 0", 0.0), ("0.25", 0.25), ("0.5", 0.5), ("0.75", 0.75), ("1", 1.0)];

/// Rates by degree of correlation.
fn correlated(run: &RangeMeasurements) -> Table {
    let mut columns = vec![("crate", Align::Left), ("filter", Align::Left), ("range", Align::Right)];
    columns.extend(DEGREES.map(|(title, _)| (title, Align::Right)));
    let mut table = Table::new(&columns);
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
    let mut table = Table::new(&[
        ("crate", Align::Left),
        ("version", Align::Left),
        ("filter", Align::Left),
        ("ranges with a key", Align::Left),
        ("ranges", Align::Right),
        ("false negatives", Align::Right),
        ("one in", Align::Right),
        ("errors", Align::Right),
    ]);
    let place = |record: &HeldRecord| (record.built.kind.clone(), record.place.clone());
    let mut places: Vec<&HeldRecord> = Vec::new();
    for record in held {
        if !places.iter().any(|first| place(first) == place(record)) {
            places.push(record);
        }
    }
    for first in places {
        let alike = || held.iter().filter(|record| place(record) == place(first));
        let ranges: u64 = alike().map(|record| record.ranges).sum();
        let lost: u64 = alike().map(|record| record.lost).sum();
        let errors: u64 = alike().map(|record| record.errors).sum();
        table.push(vec![
            first.built.implementation.clone(),
            first.built.version.clone(),
            first.built.kind.clone(),
            first.place.clone(),
            grouped(ranges),
            grouped(lost),
            ranges.checked_div(lost).map_or_else(String::new, grouped),
            if errors == 0 { String::new() } else { grouped(errors) },
        ]);
    }
    table
}
