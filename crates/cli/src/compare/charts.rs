//! The charts of the page.

use sstfilter::kind;
use sstfilter_charts::{Chart, Form, Labels, Point, Series, Style};

use super::Footing;
use super::curves::{Curves, RatePoint};
use super::rows::Row;
use crate::units::{grouped, percent};

/// One of a row's figures.
pub(super) type FigureOf = fn(&Row) -> f64;

/// Returns the chart of rate against size.
pub(super) fn rates(curves: &Curves) -> Chart {
    let place = |rate: &RatePoint| {
        let RatePoint { filter, bits_per_key, observed_fpr, expected_fpr, .. } = rate;
        let (observed, expected) = (percent(*observed_fpr), percent(*expected_fpr));
        let tip = format!("{filter}: {bits_per_key:.2} bits per key, {observed} observed, {expected} expected");
        (*filter, Point { at: (*observed_fpr, *bits_per_key), tip })
    };
    let keys = curves.rates.first().map_or(0, |point| point.keys);
    let title = format!("False positive rate and bits per key, {} keys", grouped(keys));
    Chart::by_rate(&title, Labels::AtEnds, by_kind(&curves.rates, place))
}

/// Returns the chart of bits per key by the number of keys, with the information bound if the rate is given.
pub(super) fn sizes(curves: &Curves, footing: Footing) -> Chart {
    let chart = by_keys(curves, footing, "Size of whole blocks", |row| row.bits_per_key, "bits per key");
    match footing.rate() {
        Some(rate) => {
            let bound = -rate.log2();
            chart.with_lower_bound(bound, &format!("information bound: {bound:.2} bits"))
        }
        None => chart,
    }
}

/// Returns the chart of a figure, in this unit, by the number of keys.
pub(super) fn by_keys(curves: &Curves, footing: Footing, title: &str, of: FigureOf, unit: &str) -> Chart {
    let place = |row: &Row| {
        let tip = format!("{}, {} keys: {:.2} {unit}", row.filter, grouped(row.keys), of(row));
        (row.filter, Point { at: (row.keys as f64, of(row)), tip })
    };
    let title = format!("{title}, by the number of keys, at {footing}");
    Chart::by_keys(&title, unit, by_kind(&curves.by_keys, place))
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
        points: placed.iter().filter(|(filter, _)| *filter == name).map(|(_, point)| point.clone()).collect(),
    };
    let kinds = kind::all().iter().map(|entry| entry.name).enumerate();
    kinds.map(series).filter(|series| !series.points.is_empty()).collect()
}
