//! `sstfilter advise --ranges`: recommends a range filter for a file of keys, and measures it on them.

mod keys;
mod measure;

use core::fmt;

use anyhow::Context;
use keys::{KeyShape, Keys};
use measure::{MapFigures, Measured, Sample};
use serde::Serialize;
use sstfilter::FalsePositiveRate;
use sstfilter_range::{RangePolicy, RangeUnits};

use crate::args::AdviseArgs;
use crate::lines::{KeyLines, KeysFormat};
use crate::opened::Reading;
use crate::output::{Column, Outcome, figures};
use crate::ranges::with_prefix;
use crate::units::{brief_percent, counted, percent};

/// The default length of ranges.
const DEFAULT_UNITS: u64 = 1 << 10;

/// Keys of an ordered filter's smallest segment. If prefixes have fewer rows, a segment spans several of them, and its
/// cells distinguish prefixes but not the rows of one.
const FEW_ROWS: f64 = 164.0;

/// A measured rate keeps the requested one up to this factor: the bound of ordered codes is 1.4 times their mean, and a
/// sample adds its own error.
const KEPT_WITHIN: f64 = 2.0;

#[derive(Debug, Serialize)]
pub(crate) struct RangesReport {
    #[serde(flatten)]
    shape: KeyShape,
    range_units: Option<u64>,
    fpr: f64,
    /// How the ranges were chosen.
    independent_ranges: &'static str,
    ranges_beside_keys: &'static str,
    maps: Vec<MapFigures>,
    /// Why there are no figures of hashed codes, if there are none.
    hashed_not_measured: Option<&'static str>,
    take: &'static str,
    why: String,
    /// Options for `build`.
    options: String,
}

pub(crate) fn run(
    args: &AdviseArgs,
    format: KeysFormat,
    reading: Reading<'_>,
) -> anyhow::Result<(Outcome, RangesReport)> {
    let path = args.ranges.as_deref().context("--ranges: expected a file of keys")?;
    let mut lines = KeyLines::read(path, format, "--ranges")?;
    // Builders of range filters need sorted keys.
    lines.sort_and_dedup();
    let keys = Keys::new(&lines, reading.range_prefix);
    let rate = args.fpr.unwrap_or(FalsePositiveRate::ONE_PERCENT);
    let units = args.range_length.unwrap_or(DEFAULT_UNITS);
    let sample = Sample::new(&keys, units);
    let ordered = MapFigures::new("ordered", &RangePolicy::ordered(rate)?, &keys, &sample)?;
    let mut maps = vec![ordered];
    if let Some(integer_bytes) = keys.shape.integer_bytes {
        let counted_in = with_prefix(RangeUnits::integer(integer_bytes)?, keys.prefix);
        maps.push(MapFigures::new("hashed", &RangePolicy::hashed(counted_in, units, rate)?, &keys, &sample)?);
    }
    Ok((Outcome::Yes, RangesReport::new(keys, rate, units, &sample, maps)))
}

impl RangesReport {
    fn new(keys: Keys<'_>, rate: FalsePositiveRate, units: u64, sample: &Sample<'_>, maps: Vec<MapFigures>) -> Self {
        let (take, why) = choose(&keys.shape, rate.get(), &maps);
        let options = match (take, keys.shape.integer_bytes) {
            ("hashed", Some(integer)) => {
                let prefix = keys.prefix.map(|prefix| format!(" --range-prefix {prefix}")).unwrap_or_default();
                format!("--range-filter hashed:{units}:{}:{integer}{prefix}", rate.get())
            }
            _ => format!("--range-filter ordered:{}", rate.get()),
        };
        let has_integer = keys.shape.integer_bytes.is_some();
        Self {
            range_units: has_integer.then_some(units),
            fpr: rate.get(),
            independent_ranges: sample.independent_in_words,
            ranges_beside_keys: sample.beside_in_words,
            hashed_not_measured: (!has_integer).then_some(
                "keys of various lengths have no integer to count ranges in, unless --range-prefix locates one",
            ),
            maps,
            take,
            why,
            options,
            shape: keys.shape,
        }
    }
}

/// Returns the recommended map and the reason.
fn choose(shape: &KeyShape, rate: f64, maps: &[MapFigures]) -> (&'static str, String) {
    let beside = |at: usize| maps.get(at).and_then(|map| map.beside.as_ref()).map(Measured::rate);
    let ordered = beside(0).unwrap_or(0.0);
    let share = brief_percent(ordered);
    // Hashed codes need an integer, which these keys do not have.
    if maps.len() < 2 {
        let independent = maps.first().and_then(|map| map.independent.as_ref()).map_or(0.0, Measured::rate);
        let caution = if independent.max(ordered) > rate * KEPT_WITHIN {
            let independent = brief_percent(independent);
            format!(
                ". It is wrong in {independent} of the ranges between keys of other files, and in {share} of the ranges that \
                 begin after one of its own keys: these keys are far from evenly spread, so the expected rate does not hold"
            )
        } else {
            String::new()
        };
        return ("ordered", format!("only it supports ranges of any length between any keys{caution}"));
    }
    // Before the rates: a filter that is never wrong needs no caution about ranges next to keys.
    let is_exact = maps.first().is_some_and(MapFigures::is_never_wrong);
    if is_exact && shape.key_bytes.is_some() {
        let density =
            shape.density.map_or_else(String::new, |density| format!(" ({} of the integers)", percent(density)));
        return (
            "ordered",
            format!("it distinguishes keys of one length exactly if they are as dense as these{density}"),
        );
    }
    if ordered <= rate * KEPT_WITHIN {
        return ("ordered", "it also keeps the rate next to keys, and supports ranges of any length".to_owned());
    }
    match shape.median_rows_per_prefix {
        Some(rows) if rows < FEW_ROWS => {
            let of_hashed = beside(1).map_or_else(|| "at most the rate".to_owned(), brief_percent);
            let why = format!(
                "there are few rows per prefix ({rows} in the median): ranges inside a prefix begin next to its keys, where \
                 ordered codes are wrong in {share} of cases and hashed codes in {of_hashed}"
            );
            ("hashed", why)
        }
        _ => {
            let why = format!(
                "it supports ranges of any length in fewer bits. Use hashed if ranges begin next to keys of the file, where \
                 ordered codes are wrong in {share} of cases"
            );
            ("ordered", why)
        }
    }
}

/// Formats a measured rate, or says that no range was empty.
fn measured(figures: Option<&Measured>) -> String {
    figures.map_or_else(|| "none empty".to_owned(), |figures| percent(figures.rate()))
}

impl fmt::Display for RangesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)?;
        if let Some(units) = self.range_units {
            writeln!(f, "ranges of {}", counted(units, "unit"))?;
        }
        let columns: [Column<MapFigures>; 5] = [
            ("map", |map| map.map.to_owned()),
            ("bits per key", |map| format!("{:.2}", map.bits_per_key)),
            ("expected rate", |map| percent(map.expected_fpr)),
            ("independent ranges", |map| measured(map.independent.as_ref())),
            ("ranges next to keys", |map| measured(map.beside.as_ref())),
        ];
        writeln!(f, "\n{}", figures(&columns, &self.maps))?;
        for (name, ranges, how) in [
            ("independent", self.maps.first().and_then(|map| map.independent.as_ref()), self.independent_ranges),
            ("next to keys", self.maps.first().and_then(|map| map.beside.as_ref()), self.ranges_beside_keys),
        ] {
            let ranges = counted(ranges.map_or(0, |measured| measured.ranges), "empty range");
            writeln!(f, "{name}: {ranges}, {how}")?;
        }
        self.hashed_not_measured.iter().try_for_each(|why| writeln!(f, "hashed: not measured: {why}"))?;
        writeln!(f, "\nuse {}: {}", self.take, self.why)?;
        writeln!(f, "build with {}", self.options)
    }
}
