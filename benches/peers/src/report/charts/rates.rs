//! Bits per key against the false positive rate, with what no filter can go below.

use std::cmp::Ordering;

use super::Image;
use super::canvas::{Axis, Canvas, Drawn, Place};
use super::labels::{Area, Toward, place_near};
use super::style::{FAINT_INK, Style};
use crate::record::Record;
use crate::subject::Family;
use crate::table::grouped;

const FILE: &str = "bits-by-rate.svg";
const TITLE: &str = "Size and false positive rate";

/// Decimal logarithms of the highest and the lowest rate shown.
const RATES: (f64, f64) = (-0.7, -5.0);
const BITS: (f64, f64) = (0.0, 24.0);

/// The number of keys shown, if it was measured: no filter of it is rounded up to much.
const KEYS: u64 = 1_000_000;

struct Series {
    title: String,
    family: Family,
    style: Style,
    places: Vec<Place>,
}

/// The chart, unless nothing was measured.
pub fn chart(records: &[Record]) -> Option<Image> {
    let sizes = || records.iter().map(|record| record.n);
    let keys = sizes().find(|&n| n == KEYS).or_else(|| sizes().max())?;
    let series = series(records.iter().filter(|record| record.n == keys && record.fpr > 0.0));
    let mut svg = String::new();
    draw(&mut svg, keys, &series).expect("drawing into a string does not fail");
    Some(Image { file: FILE, title: TITLE, svg })
}

/// Sizes of one kind of ours make one series.
fn series<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for record in records {
        // The size in bits stands on the axis.
        let kind = record.kind.split(", ").next().unwrap_or(&record.kind);
        let title = format!("{} {kind}", record.name());
        let (family, place) = (record.family, (record.fpr.log10(), record.bits_per_key));
        match all.iter_mut().find(|series| series.title == title) {
            Some(series) => series.places.push(place),
            None => all.push(Series { title, family, style: Style::of(record), places: vec![place] }),
        }
    }
    all
}

fn draw(svg: &mut String, keys: u64, series: &[Series]) -> Drawn {
    let title = format!("{TITLE}, {} keys", grouped(keys));
    let canvas = Canvas::new(svg, &title, rate_axis(), bits_axis(), 40)?;
    let bound = |log_rate: f64| (log_rate, -log_rate * std::f64::consts::LOG2_10);
    let bound_name = "log2(1/rate): no filter is smaller";
    canvas.line(&[bound(RATES.0), bound(RATES.1)], FAINT_INK, 1)?;
    let below = canvas.pixel(bound(-3.4));
    canvas.label(bound_name, (below.0 + 10, below.1 + 16), FAINT_INK)?;
    series.iter().rev().try_for_each(|series| canvas.series(&series.places, series.style))?;

    let pixels = || series.iter().flat_map(|series| series.places.iter().map(|&place| canvas.pixel(place)));
    let mut taken: Vec<_> = pixels().map(|pixel| Area::around(pixel, 7)).collect();
    taken.push(Area { from: (below.0, below.1 + 8), to: (below.0 + Canvas::label_size(bound_name).0, below.1 + 24) });
    taken.extend(along(&canvas, bound(RATES.0), bound(RATES.1)));
    for series in series {
        taken.extend(series.places.windows(2).flat_map(|pair| along(&canvas, pair[0], pair[1])));
    }
    for (series, toward) in in_order_of_labels(series) {
        // A series is named at its last point: there the lines have parted.
        let Some(&place) = series.places.last() else { continue };
        let point = canvas.pixel(place);
        let label = place_near(point, Canvas::label_size(&series.title), toward, &taken, canvas.plot());
        let edge = (point.0.clamp(label.from.0 - 3, label.to.0 + 3), i32::midpoint(label.from.1, label.to.1));
        if (edge.1 - point.1).abs() > 8 {
            canvas.leader(point, edge, series.style.colour)?;
        }
        canvas.label_beside(&series.title, label, point, series.style.colour)?;
        taken.push(label);
    }
    canvas.finish()
}

/// Labels of filters above our Bloom line go up and left, those below it down and right, the outermost points
/// first: then the lines that lead to their labels do not cross.
fn in_order_of_labels(series: &[Series]) -> Vec<(&Series, Toward)> {
    let toward = |series: &Series| match series.family {
        Family::Bloom | Family::Dynamic => Toward::UpLeft,
        Family::Static => Toward::DownRight,
    };
    let rate = |series: &Series| series.places.last().map_or(0.0, |place| place.0);
    let mut order: Vec<_> = series.iter().map(|series| (series, toward(series))).collect();
    order.sort_by(|(a, toward_a), (b, toward_b)| match (toward_a, toward_b) {
        (Toward::UpLeft, Toward::UpLeft) => rate(b).total_cmp(&rate(a)),
        (Toward::DownRight, Toward::DownRight) => rate(a).total_cmp(&rate(b)),
        (Toward::UpLeft, Toward::DownRight) => Ordering::Greater,
        (Toward::DownRight, Toward::UpLeft) => Ordering::Less,
    });
    order
}

/// Small areas along a line, that no label is to cover.
fn along(canvas: &Canvas<'_>, from: Place, to: Place) -> Vec<Area> {
    let at = |step: u32| {
        let share = f64::from(step) / 60.0;
        (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1))
    };
    (0..=60).map(|step| Area::around(canvas.pixel(at(step)), 3)).collect()
}

fn rate_axis() -> Axis {
    let texts = ["10 %", "1 %", "0.1 %", "0.01 %", "0.001 %"];
    let ticks = (1..).zip(texts).map(|(exponent, text)| (-f64::from(exponent), text.to_owned())).collect();
    Axis { title: "false positive rate, observed".to_owned(), ends: RATES, ticks }
}

fn bits_axis() -> Axis {
    let ticks = (0..=6).map(|step| (f64::from(step) * 4.0, (step * 4).to_string())).collect();
    Axis { title: "bits per key, whole filter".to_owned(), ends: BITS, ticks }
}
