//! The targets of our range filters, compared with the measurements.

use sstfilter_charts::Align::{Left, Right};
use sstfilter_charts::{Column, Table};

use super::keys::KeyKind;
use super::ours::{ORDERED, hashed};
use super::record::{RangeMeasurements, RangeRecord};

/// A figure of a record; `None` if it has none.
type Figure = fn(&RangeRecord) -> Option<f64>;

/// A figure with its maximum.
struct Target {
    what: &'static str,
    kind: String,
    keys: KeyKind,
    length: u64,
    figure: Figure,
    most: f64,
}

/// The targets: for a rate of 1 %, and times in nanoseconds with a million keys.
fn all() -> Vec<Target> {
    let bits: Figure = |record| Some(record.bits_per_key);
    let single: Figure = |record| Some(record.empty_ns);
    let batch: Figure = |record| record.batch_ns;
    let build: Figure = |record| Some(record.build_ns_per_key);
    let fpr: Figure = |record| Some(record.fpr * 100.0);
    let (uniform, long) = (KeyKind::Uniform, 1 << 10);
    let target = |what, kind: &str, keys, length, figure, most| {
        let kind = kind.to_owned();
        Target { what, kind, keys, length, figure, most }
    };
    let mut targets = Vec::new();
    for (length, most) in [(1 << 5, 14.3), (1 << 10, 19.3), (1 << 20, 29.3)] {
        targets.push(target("bits per key", &hashed(length), uniform, length, bits, most));
        targets.push(target("false positives, %", &hashed(length), uniform, length, fpr, 1.0));
    }
    for (keys, most) in [(uniform, 10.1), (KeyKind::Names, 10.7), (KeyKind::NamesAndLetters, 10.7)] {
        targets.push(target("bits per key", ORDERED, keys, long, bits, most));
        targets.push(target("false positives, %", ORDERED, keys, long, fpr, 1.0));
    }
    for (kind, most) in [(hashed(long), [30.0, 12.0, 25.0]), (ORDERED.to_owned(), [75.0, 35.0, 15.0])] {
        targets.push(target("empty range, single", &kind, uniform, long, single, most[0]));
        targets.push(target("empty range, batched", &kind, uniform, long, batch, most[1]));
        targets.push(target("build", &kind, uniform, long, build, most[2]));
    }
    targets
}

impl Target {
    fn measured(&self, records: &[RangeRecord]) -> Option<f64> {
        let is_this = |record: &&RangeRecord| {
            record.built.is_ours()
                && record.built.kind == self.kind
                && record.built.keys == self.keys.name()
                && record.length == self.length
        };
        records.iter().find(is_this).and_then(self.figure)
    }
}

/// Each target that was measured.
pub fn table(run: &RangeMeasurements) -> Table {
    let columns: [Column<(Target, f64)>; 6] = [
        ("target", Left, |(target, _)| target.what.to_owned()),
        ("our filter", Left, |(target, _)| target.kind.clone()),
        ("keys", Left, |(target, _)| target.keys.name().to_owned()),
        ("at most", Right, |(target, _)| format!("{:.1}", target.most)),
        ("measured", Right, |(target, measured)| format!("{measured:.*}", if target.most < 10.0 { 3 } else { 2 })),
        ("", Left, |(target, measured)| if *measured <= target.most { "reached" } else { "missed" }.to_owned()),
    ];
    let measured = |target: Target| target.measured(&run.records).map(|measured| (target, measured));
    Table::of(all().into_iter().filter_map(measured), &columns)
}
