//! The page of a comparison.

use sstfilter::kind;
use sstfilter_charts::{Chart, Form, Point, Series, Style};

use super::rows::Comparison;
use crate::measure::filters::MeasuredKind;
use crate::measure::made_up::RatePoint;
use crate::print::html::{document, figure, paragraph, rows, section, whole};
use crate::print::{Extent, Record};
use crate::words::units::{grouped, percent};

/// The first line of the document.
pub(super) const FIRST_LINE: &str = "<!DOCTYPE html><!-- made by sstfilter compare -->\n";

const TITLE: &str = "All kinds of filter, compared";

/// A figure of a kind.
type FigureOf = fn(&MeasuredKind) -> f64;

/// The times of a kind, each with its title.
const TIMES: [(&str, FigureOf); 3] = [
    ("Building, from hashes to the finished filter", |row| row.build_ns.0),
    ("Probing for absent keys, one by one", |row| row.probe_ns.0),
    ("Probing for absent keys, in one batch", |row| row.batch_probe_ns.0),
];

/// Returns the document.
pub(super) fn html(comparison: &Comparison) -> anyhow::Result<String> {
    let Comparison { command, date, version, run_seconds, footing, .. } = comparison;
    let made = format!("Made on {date} by sstfilter {version} in {:.0} s: {command}", run_seconds.0);
    // All kinds, even if there are more than a list for a terminal has.
    let extent = Extent { has_all_items: true, ..Extent::default() };
    let mut body = format!("<h1>{TITLE}</h1>{}{}", paragraph(&made), whole(comparison, extent));
    let Some(curves) = &comparison.curves else { return Ok(document(FIRST_LINE, TITLE, &body)) };

    let text = "Memory falls toward the bottom. Each mark is a filter, probed for made-up absent keys. No filter can be \
                below the broken line, log2(1/rate). A ring surrounds a mark where two filters are alike.";
    let points: Vec<&dyn Record> = curves.by_rate.iter().map(|point| point as &dyn Record).collect();
    body += &section("rates", "False positive rate and size", text);
    body += &figure(&by_rate(&curves.by_rate))?;
    body += &["<details><summary>The figures</summary>", &rows(&points, extent), "</details>"].concat();

    let text = format!(
        "Bits per key of whole blocks at {footing}, including trailers: small filters pay for their trailer and for \
         rounding. The sizes of register-blocked Bloom filters are powers of two, which fit some numbers of keys \
         better than others."
    );
    body += &section("sizes", "Size by the number of keys", &text);
    body += &figure(&by_keys(&curves.by_keys, "Size of whole blocks", |row| row.bits_per_key.0, "bits per key"))?;

    let text = format!(
        "Nanoseconds per key at {footing}, without hashing, on one core; the best of several repetitions in which the \
         filters took turns. Other machines and other load give other times; ratios carry over better. compare.json \
         has all figures."
    );
    body += &section("times", "Time by the number of keys", &text);
    for (title, of) in TIMES {
        body += &figure(&by_keys(&curves.by_keys, title, of, "ns per key"))?;
    }
    Ok(document(FIRST_LINE, TITLE, &body))
}

/// Returns the chart of rate against size.
fn by_rate(points: &[RatePoint]) -> Chart {
    let place = |point: &RatePoint| {
        let (observed, expected) = (percent(point.observed_fpr.0), percent(point.expected_fpr.0));
        let (kind, bits) = (point.kind, point.bits_per_key.0);
        let tip = format!("{kind}: {bits:.2} bits per key, {observed} observed, {expected} expected");
        (kind, Point { at: (point.observed_fpr.0, bits), tip })
    };
    Chart::by_rate("False positive rate and bits per key", by_kind(points, place))
}

/// Returns the chart of a figure, in this unit, by the number of keys.
fn by_keys(all: &[MeasuredKind], title: &str, of: FigureOf, unit: &str) -> Chart {
    let place = |row: &MeasuredKind| {
        let tip = format!("{}, {} keys: {:.2} {unit}", row.requested, grouped(row.keys), of(row));
        (row.requested, Point { at: (row.keys as f64, of(row)), tip })
    };
    Chart::by_keys(&format!("{title}, by the number of keys"), unit, by_kind(all, place))
}

/// Returns one series for each kind that has points, in the order of kinds. `place` returns the kind and the point of a
/// figure.
fn by_kind<T>(all: &[T], place: impl Fn(&T) -> (&'static str, Point)) -> Vec<Series> {
    let placed: Vec<_> = all.iter().map(place).collect();
    let series = |(nth, name): (usize, &str)| Series {
        name: name.to_owned(),
        // By its number among all kinds, so that a kind has the same style in each chart.
        style: Style::nth(nth),
        form: Form::Marked,
        points: placed.iter().filter(|(kind, _)| *kind == name).map(|(_, point)| point.clone()).collect(),
    };
    let kinds = kind::all().iter().map(|entry| entry.name).enumerate();
    kinds.map(series).filter(|series| !series.points.is_empty()).collect()
}
