//! The charts of the page.

use sstfilter_charts::{Axis, Chart, Colour, Form, Labels, Limit, Mark, Point, Series, Side, Style};

use crate::measure::Family;
use crate::measure::kinds::{self, FigureOf, FilterSize, KeysPoint, RatePoint};
use crate::measure::overfill::{OverfillPoint, first_of_each};
use crate::units::{brief_percent, grouped, percent};

/// The lowest rate of an overfilled filter in its chart.
const LOWEST_RATE: f64 = 5e-5;

/// Returns the chart of rate against size.
pub(super) fn rates(family: &Family) -> Chart {
    let place = |rate: &RatePoint| {
        let FilterSize { filter, bits_per_key, expected_fpr, .. } = &rate.size;
        let (observed, expected) = (percent(rate.observed_fpr), percent(*expected_fpr));
        let tip = format!("{filter}: {bits_per_key:.2} bits per key, {observed} observed, {expected} expected");
        (*filter, Point { at: (rate.observed_fpr, *bits_per_key), tip })
    };
    let series = by_filter(family, &family.rates, place);
    let title = format!("False positive rate and bits per key, {} keys", grouped(family.effort.rate_keys));
    Chart::by_rate(&title, Labels::AtEnds, series)
}

/// Returns the chart of bits per key by the number of keys.
pub(super) fn sizes(family: &Family) -> Chart {
    let chart = by_keys(family, "bits per key, whole block", |point| point.size.bits_per_key, "bits per key");
    chart.with_lower_bound(kinds::BOUND, &format!("information bound: {:.0} bits", kinds::BOUND))
}

/// Returns the chart of a figure by the number of keys.
pub(super) fn by_keys(family: &Family, title: &str, of: FigureOf, unit: &str) -> Chart {
    let place = |at: &KeysPoint| {
        let tip = format!("{}, {} keys: {:.2} {unit}", at.size.filter, grouped(at.size.keys), of(at));
        (at.size.filter, Point { at: (at.size.keys as f64, of(at)), tip })
    };
    let series = by_filter(family, &family.by_keys, place);
    let chart_title = format!("{title}, by the number of keys, rate {}", brief_percent(kinds::RATE));
    Chart::by_keys(&chart_title, title, series)
}

/// Returns the chart of the fill of overfilled filters.
pub(super) fn fills(family: &Family) -> Chart {
    let series = overfilled(family, |at| (at.fill_ratio, format!("{:.1} % full", at.fill_ratio * 100.0)));
    let limit = |at, side, text: &str| Limit { at, side, text: text.to_owned() };
    Chart {
        title: "Fill of filters with more keys than planned".to_owned(),
        x: plan_axis(),
        y: Axis::linear("share of bits, counters or slots in use", 1.0, 0.2, |fill| format!("{:.0} %", fill * 100.0)),
        labels: Labels::AtEnds,
        series,
        // The limits that `FilterHealth` sets for these kinds.
        limits: vec![limit(0.7, Side::BelowRight, "Bloom kinds: 70 %"), limit(0.95, Side::AboveLeft, "cuckoo: 95 %")],
        rings: first_with(&family.overfill, "fill", |at| at.fill_ratio),
    }
}

/// Returns the chart of the rates of overfilled filters: expected as a line, observed as marks.
pub(super) fn overfill_rates(family: &Family) -> Chart {
    let of = |rate: fn(&OverfillPoint) -> f64, form| {
        let tip = |at: &OverfillPoint| {
            format!("{} observed, {} expected", percent(at.observed_fpr), percent(at.expected_fpr))
        };
        let mut all = overfilled(family, |at| (rate(at), tip(at)));
        for series in &mut all {
            series.form = form;
            // A rate of zero has no place on a logarithmic axis.
            series.points.retain(|point| point.at.1 > LOWEST_RATE);
        }
        all
    };
    let mut series = of(|at| at.observed_fpr, Form::Marks);
    // Without names, because the marks of the same filter already have one.
    let expected = of(|at| at.expected_fpr, Form::Line);
    series.extend(expected.into_iter().map(|series| Series { name: String::new(), ..series }));
    Chart {
        title: "Rates of filters with more keys than planned".to_owned(),
        x: plan_axis(),
        y: Axis::rates("false positive rate", (LOWEST_RATE, 1.2)),
        labels: Labels::AtEnds,
        series,
        limits: vec![Limit { at: 0.1, side: Side::AboveLeft, text: "limit: 10 %".to_owned() }],
        rings: first_with(&family.overfill, "rate", |at| at.observed_fpr),
    }
}

fn plan_axis() -> Axis {
    // Beyond 300 %, so that the last marks are not on the edge.
    Axis::linear("offered keys in percent of the planned keys", 305.0, 50.0, |percent| format!("{percent:.0} %"))
}

/// Returns a series for every overfilled filter. `figure` returns a value and the end of its tip.
fn overfilled(family: &Family, figure: impl Fn(&OverfillPoint) -> (f64, String)) -> Vec<Series> {
    let place = |at: &OverfillPoint| {
        let (value, tip) = figure(at);
        let tip = format!("{} at {} %: {tip}", at.filter, at.offered_percent);
        (at.filter, Point { at: (at.offered_percent as f64, value), tip })
    };
    // Not all of them are kinds.
    let mut names: Vec<_> = family.overfill.iter().map(|point| point.filter).collect();
    names.dedup();
    let kinds = family.filters.iter().map(|info| info.name);
    let others: Vec<_> = names.into_iter().filter(|name| kinds.clone().all(|kind| kind != *name)).collect();
    named(kinds.chain(others), &family.overfill, place)
}

/// Returns the points at which each filter first raises `alarm`.
fn first_with(points: &[OverfillPoint], alarm: &str, of: fn(&OverfillPoint) -> f64) -> Vec<(f64, f64)> {
    let first = first_of_each(points, |point| point.alarms.contains(&alarm));
    first.into_iter().map(|point| (point.offered_percent as f64, of(point))).collect()
}

/// Returns one series for each filter that has points, in the filters' order. `place` returns a value's filter and
/// point.
fn by_filter<T>(family: &Family, all: &[T], place: impl Fn(&T) -> (&'static str, Point)) -> Vec<Series> {
    named(family.filters.iter().map(|info| info.name), all, place)
}

fn named<T>(
    names: impl Iterator<Item = &'static str>,
    all: &[T],
    place: impl Fn(&T) -> (&'static str, Point),
) -> Vec<Series> {
    let placed: Vec<_> = all.iter().map(place).collect();
    let of = |(name, &(colour, mark)): (&'static str, &(Colour, Mark))| Series {
        name: name.to_owned(),
        style: Style { colour, mark, width: 2 },
        form: Form::Marked,
        points: placed.iter().filter(|(filter, _)| *filter == name).map(|(_, point)| point.clone()).collect(),
    };
    names.zip(STYLES.iter().cycle()).map(of).filter(|series| !series.points.is_empty()).collect()
}

/// Styles of the filters, in their order: neighbours in a chart differ in colour, and similar colours differ in mark.
const STYLES: [(Colour, Mark); 10] = [
    (Colour::BLUE, Mark::Disc),
    (Colour::RED, Mark::Disc),
    (Colour::SKY, Mark::Square),
    (Colour::NAVY, Mark::Diamond),
    (Colour::GREEN, Mark::Triangle),
    (Colour::PINK, Mark::Square),
    (Colour::AMBER, Mark::Square),
    (Colour::BROWN, Mark::Diamond),
    (Colour::INK, Mark::Triangle),
    (Colour::GREY, Mark::Ring),
];
