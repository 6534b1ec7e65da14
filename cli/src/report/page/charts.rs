//! Which charts the page has.

use super::chart::{Axis, Chart, Form, Limit, Point, Scale, Series, Side};
use super::style::{BOUND, style};
use crate::report::data::Report;
use crate::report::measure::by_keys::{FigureOf, KeysPoint};
use crate::report::measure::overfill::OverfillPoint;
use crate::units::{brief_percent, grouped, percent};

/// The most bits per key drawn; a filter that takes more leaves the chart.
const MOST_BITS: f64 = 30.0;

/// The lowest rate drawn.
const LOWEST_RATE: f64 = 4e-6;

/// Rate against size.
pub(super) fn rates(report: &Report) -> Chart {
    let bound: Vec<_> = (0..=40).map(|step| 10_f64.powf(-1.0 - f64::from(step) / 10.0)).collect();
    let mut series = vec![Series {
        name: "information bound".to_owned(),
        style: BOUND,
        form: Form::Broken,
        points: bound.iter().map(|rate| point((*rate, -rate.log2()), String::new())).collect(),
    }];
    series.extend(by_filter(
        report,
        &report.rates,
        |rate| rate.filter,
        |rate| {
            let tip = format!(
                "{}: {:.2} bits per key, {} observed, {} expected",
                rate.filter,
                rate.bits_per_key,
                percent(rate.observed_fpr),
                percent(rate.expected_fpr)
            );
            point((rate.observed_fpr, rate.bits_per_key), tip)
        },
    ));
    // Fingerprints of 32 bits, which a rate below 2^-16 takes where there are none between: nothing gets through.
    series.iter_mut().for_each(|series| series.points.retain(|point| point.at.0 >= LOWEST_RATE));
    let rate_ticks = [0.1, 0.01, 1e-3, 1e-4, 1e-5].map(|rate| (rate, brief_percent(rate)));
    Chart {
        title: format!("False positive rate and bits per key, {} keys", grouped(report.effort.rate_keys)),
        x: axis("false positive rate, observed", Scale::Logarithmic, (0.14, LOWEST_RATE), rate_ticks),
        y: axis("bits per key", Scale::Linear, (0.0, MOST_BITS), even_ticks(5.0, MOST_BITS)),
        series,
        limits: Vec::new(),
        rings: Vec::new(),
    }
}

/// Bits per key by the number of keys.
pub(super) fn sizes(report: &Report) -> Chart {
    let bits = |point: &KeysPoint| point.bits_per_key;
    let mut chart = by_keys(report, "bits per key, whole block", bits, |value| format!("{value:.2} bits per key"));
    let bound = -report.by_keys_fpr.log2();
    chart.limits.push(Limit { at: bound, side: Side::BelowRight, text: format!("information bound: {bound:.0} bits") });
    chart.y.ends.0 = chart.y.ends.0.min(bound * 0.86);
    chart.y.ticks = some_ticks(chart.y.ends);
    chart
}

/// A time by the number of keys.
pub(super) fn times(report: &Report, of: FigureOf) -> Chart {
    by_keys(report, "nanoseconds per key", of, |value| format!("{value:.2} ns per key"))
}

fn by_keys(report: &Report, title: &str, of: impl Fn(&KeysPoint) -> f64, show: impl Fn(f64) -> String) -> Chart {
    let series = by_filter(
        report,
        &report.by_keys,
        |at| at.filter,
        |at| {
            let tip = format!("{}, {} keys: {}", at.filter, grouped(at.keys), show(of(at)));
            point((at.keys as f64, of(at)), tip)
        },
    );
    let (low, high) = extent(series.iter().flat_map(|series| series.points.iter().map(|point| point.at.1)));
    let (least, most) = extent(report.effort.ladder.iter().map(|&keys| keys as f64));
    let ends = (low * 0.87, high * 1.15);
    let ticks = log_ticks((least, most), &[1.0]).into_iter().map(|(keys, _)| (keys, short_number(keys)));
    Chart {
        title: format!("{title}, by the number of keys, rate {}", brief_percent(report.by_keys_fpr)),
        x: axis("keys in the filter", Scale::Logarithmic, (least * 0.9, most * 1.1), ticks),
        y: axis(title, Scale::Logarithmic, ends, some_ticks(ends)),
        series,
        limits: Vec::new(),
        rings: Vec::new(),
    }
}

/// The fill of filters that are given more than they were planned for.
pub(super) fn fills(report: &Report) -> Chart {
    let series = by_filter(
        report,
        &report.overfill,
        |at| at.filter,
        |at| {
            let tip = format!("{} at {} %: {:.1} % full", at.filter, at.offered_percent, at.fill_ratio * 100.0);
            point((at.offered_percent as f64, at.fill_ratio), tip)
        },
    );
    let ticks = even_ticks(0.2, 1.0).into_iter().map(|(fill, _)| (fill, format!("{:.0} %", fill * 100.0)));
    Chart {
        title: "How full filters get that are given more keys than planned".to_owned(),
        x: plan_axis(),
        y: axis("fill: share of bits, counters or places in use", Scale::Linear, (0.0, 1.0), ticks),
        series,
        limits: vec![
            Limit { at: 0.7, side: Side::BelowRight, text: "Bloom kinds: 70 %".to_owned() },
            Limit { at: 0.95, side: Side::AboveLeft, text: "cuckoo: 95 %".to_owned() },
        ],
        rings: first_with(&report.overfill, "fill", |at| at.fill_ratio),
    }
}

/// Their rates: expected as a line, observed as marks.
pub(super) fn overfill_rates(report: &Report) -> Chart {
    let of = |rate: fn(&OverfillPoint) -> f64| {
        by_filter(
            report,
            &report.overfill,
            |at| at.filter,
            |at| {
                let rates = (percent(at.observed_fpr), percent(at.expected_fpr));
                let tip =
                    format!("{} at {} %: {} observed, {} expected", at.filter, at.offered_percent, rates.0, rates.1);
                point((at.offered_percent as f64, rate(at)), tip)
            },
        )
    };
    let mut series = of(|at| at.observed_fpr);
    for series in &mut series {
        series.form = Form::Marks;
        series.points.retain(|point| point.at.1 > 1e-5);
    }
    let expected = of(|at| at.expected_fpr).into_iter().map(|mut series| {
        series.points.retain(|point| point.at.1 > 1e-5);
        Series { name: String::new(), form: Form::Line, ..series }
    });
    series.extend(expected);
    let ticks = [1.0, 0.1, 0.01, 1e-3, 1e-4].map(|rate| (rate, brief_percent(rate)));
    Chart {
        title: "Rates of filters that are given more keys than planned".to_owned(),
        x: plan_axis(),
        y: axis("false positive rate", Scale::Logarithmic, (5e-5, 1.2), ticks),
        series,
        limits: vec![Limit { at: 0.1, side: Side::AboveLeft, text: "limit: 10 %".to_owned() }],
        rings: first_with(&report.overfill, "rate", |at| at.observed_fpr),
    }
}

fn plan_axis() -> Axis {
    let ticks = even_ticks(50.0, 300.0).into_iter().map(|(percent, _)| (percent, format!("{percent:.0} %")));
    axis("keys offered, of the keys planned for", Scale::Linear, (0.0, 305.0), ticks)
}

/// Where each filter first raises `alarm`.
fn first_with(points: &[OverfillPoint], alarm: &str, of: fn(&OverfillPoint) -> f64) -> Vec<(f64, f64)> {
    let mut seen: Vec<&str> = Vec::new();
    let mut rings = Vec::new();
    for point in points.iter().filter(|point| point.alarms.contains(&alarm)) {
        if !seen.contains(&point.filter) {
            seen.push(point.filter);
            rings.push((point.offered_percent as f64, of(point)));
        }
    }
    rings
}

/// One series for each filter that has points, in the filters' order.
fn by_filter<T>(
    report: &Report,
    all: &[T],
    filter: fn(&T) -> &'static str,
    place: impl Fn(&T) -> Point,
) -> Vec<Series> {
    let of = |name: &'static str| Series {
        name: name.to_owned(),
        style: style(name),
        form: Form::Marked,
        points: all.iter().filter(|one| filter(one) == name).map(&place).collect(),
    };
    report.filters.iter().map(|info| of(info.name)).filter(|series| !series.points.is_empty()).collect()
}

fn point(at: (f64, f64), tip: String) -> Point {
    Point { at, tip }
}

fn axis(title: &str, scale: Scale, ends: (f64, f64), ticks: impl IntoIterator<Item = (f64, String)>) -> Axis {
    Axis { title: title.to_owned(), scale, ends, ticks: ticks.into_iter().collect() }
}

/// Multiples of `step` up to `last`.
fn even_ticks(step: f64, last: f64) -> Vec<(f64, String)> {
    let at = |index: u32| f64::from(index) * step;
    (0..100).map(at).take_while(|&value| value <= last + step / 1e3).map(|value| (value, format!("{value}"))).collect()
}

/// `digits` times powers of ten, within `ends`.
fn log_ticks(ends: (f64, f64), digits: &[f64]) -> Vec<(f64, String)> {
    let decades = (-3..=9).map(|exponent| 10_f64.powi(exponent));
    let values = decades.flat_map(|decade| digits.iter().map(move |digit| digit * decade));
    let is_within = |value: &f64| *value >= ends.0 * 0.999 && *value <= ends.1 * 1.001;
    // Powers below one are not exact: `{:.3}` writes them as they are meant.
    let text = |value: f64| format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned();
    values.filter(is_within).map(|value| (value, text(value))).collect()
}

/// As many ticks as read well: the sparsest choice of digits that gives four.
fn some_ticks(ends: (f64, f64)) -> Vec<(f64, String)> {
    const DIGITS: [&[f64]; 4] = [
        &[1.0, 3.0],
        &[1.0, 2.0, 5.0],
        &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0],
        &[1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    ];
    let choices = || DIGITS.into_iter().map(|digits| log_ticks(ends, digits));
    choices().find(|ticks| ticks.len() >= 4).or_else(|| choices().next_back()).unwrap_or_default()
}

/// The least and the greatest; an extent of 0 would have no scale.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low > high { (1.0, 10.0) } else { (low, high.max(low * 1.1)) }
}

/// `10000` as `10 K`.
fn short_number(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", value / 1e6),
        1e3.. => format!("{} K", value / 1e3),
        _ => format!("{value}"),
    }
}
