//! The charts of filter costs.

use sstfilter_charts::{Chart, Colour, Form, Mark, Point, Series, Style, grouped};

use crate::figures::{Figure, groups, nanoseconds, percent};
use crate::record::Record;
use crate::subjects::sstfilter::NAME;

/// The charts of times by number of keys, each with its file.
const BY_KEYS: [(&str, Figure<Record>); 3] = [
    ("build-by-keys.svg", ("Building a filter", |record| Some(record.build_ns_per_key))),
    ("single-by-keys.svg", ("Single probes: absent keys, one call each", |record| Some(record.query_miss_ns))),
    (
        "batch-by-keys.svg",
        ("Batched probes: absent keys, where a crate has such a call", |record| record.batch_miss_ns),
    ),
];

/// The number of keys at which sizes are compared, if it was measured. At this size, rounding adds little to any
/// filter.
const KEYS: u64 = 1_000_000;

/// Filters of one kind take the same time at every size, so only one of them is drawn.
const NOT_DRAWN: [&str; 7] = [
    "blocked Bloom, 16 bits",
    "blocked Bloom, 20 bits",
    "split block Bloom, 10.6 bits",
    "Ribbon, 1 %",
    "Ribbon, 2^-8",
    "Ribbon, 2^-16",
    "BinaryFuse16",
];

/// Returns all charts for which there are `records`, each with the name of its file.
pub fn all(records: &[Record]) -> Vec<(&'static str, Chart)> {
    let by_keys = |(file, (title, time))| (file, Chart::by_keys(title, "nanoseconds per key", times(records, time)));
    let rates = by_rate(records).map(|chart| ("bits-by-rate.svg", chart));
    rates.into_iter().chain(BY_KEYS.map(by_keys)).collect()
}

fn by_rate(records: &[Record]) -> Option<Chart> {
    let sizes = || records.iter().map(|record| record.n);
    let keys = sizes().find(|&n| n == KEYS).or_else(|| sizes().max())?;
    let of_size = records.iter().filter(|record| record.n == keys && record.fpr > 0.0);
    // The size in bits stands on the axis.
    let name = |record: &Record| format!("{} {}", record.name(), record.kind.split(", ").next().unwrap_or_default());
    let all = series(of_size, name, |record| {
        let tip = format!("{}: {:.2} bits per key, {}", record.title(), record.bits_per_key, percent(record.fpr));
        Point { at: (record.fpr, record.bits_per_key), tip }
    });
    Some(Chart::by_rate(&format!("Size and false positive rate, {} keys", grouped(keys)), all))
}

fn times(records: &[Record], time: fn(&Record) -> Option<f64>) -> Vec<Series> {
    let time = |record: &Record| time(record).filter(|time| *time > 0.0);
    let drawn = records.iter().filter(|record| !NOT_DRAWN.contains(&&*record.kind) && time(record).is_some());
    series(drawn, Record::title, |record| {
        let time = time(record).unwrap_or_default();
        let tip = format!("{}, {} keys: {} ns", record.title(), grouped(record.n), nanoseconds(time));
        Point { at: (record.n as f64, time), tip }
    })
}

/// A line for the records of each name.
fn series<'a>(
    records: impl Iterator<Item = &'a Record>,
    name: impl Fn(&Record) -> String,
    point: impl Fn(&Record) -> Point,
) -> Vec<Series> {
    let line = |(name, records): (String, Vec<&Record>)| {
        let (style, points) = (style(records[0]), records.into_iter().map(&point).collect());
        Series { name, style, form: Form::Marked, points }
    };
    groups(records, name).into_iter().map(line).collect()
}

/// Ours are heavy lines, Bloom filters in blue and the others in red; each peer has its colour, and its kinds their
/// mark.
fn style(record: &Record) -> Style {
    let (colour, mark) = match (record.implementation.as_str(), record.kind.as_str()) {
        (NAME, kind) if kind.contains("Bloom") => (Colour::BLUE, Mark::Disc),
        (NAME, _) => (Colour::RED, Mark::Disc),
        ("fastbloom", _) => (Colour::SKY, Mark::Square),
        ("sbbf-rs-safe", _) => (Colour::GREEN, Mark::Square),
        ("lsm-tree", _) => (Colour::GREY, Mark::Square),
        ("xorf", kind) if kind.starts_with("Xor") => (Colour::PINK, Mark::Diamond),
        ("xorf", _) => (Colour::PINK, Mark::Triangle),
        ("pleat", kind) if kind.starts_with("standard") => (Colour::AMBER, Mark::Diamond),
        ("pleat", _) => (Colour::AMBER, Mark::Triangle),
        ("qfilter", _) => (Colour::INK, Mark::Triangle),
        _ => (Colour::INK, Mark::Diamond),
    };
    Style { colour, mark, width: if record.implementation == NAME { 3 } else { 1 } }
}
