//! A time against the number of keys, both logarithmic.

use super::Image;
use super::canvas::{Axis, Canvas, Drawn, Place, decimal_ticks};
use super::labels::spread;
use super::style::Style;
use crate::record::Record;
use crate::table::grouped;

/// Which time a chart shows.
pub struct Figure {
    file: &'static str,
    title: &'static str,
    axis: &'static str,
    of: fn(&Record) -> f64,
}

/// Building.
pub const BUILD: Figure = Figure {
    file: "build-by-keys.svg",
    title: "Building a filter",
    axis: "nanoseconds per key",
    of: |record| record.build_ns_per_key,
};

/// Asking for absent keys.
pub const MISS: Figure = Figure {
    file: "miss-by-keys.svg",
    title: "Asking for absent keys, one by one",
    axis: "nanoseconds per key",
    of: |record| record.query_miss_ns,
};

/// Pixels for the labels on the right.
const LABEL_WIDTH: i32 = 270;
const LABEL_GAP: i32 = 17;

/// Sizes of one kind say the same of time: of those, one is drawn.
const NOT_DRAWN: [&str; 6] = [
    "blocked Bloom, 16 bits",
    "blocked Bloom, 20 bits",
    "Ribbon, 1 %",
    "Ribbon, 2^-8",
    "Ribbon, 2^-16",
    "BinaryFuse16",
];

struct Series {
    title: String,
    style: Style,
    places: Vec<Place>,
}

/// The chart of one figure.
pub fn chart(records: &[Record], figure: &Figure) -> Image {
    let series = series(records, figure.of);
    let mut svg = String::new();
    draw(&mut svg, figure, &series).expect("drawing into a string does not fail");
    Image { file: figure.file, title: figure.title, svg }
}

fn series(records: &[Record], of: fn(&Record) -> f64) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for record in records.iter().filter(|record| !NOT_DRAWN.contains(&record.kind.as_str())) {
        let (title, value) = (record.title(), of(record));
        if value.is_nan() || value <= 0.0 {
            continue;
        }
        let place = ((record.n as f64).log10(), value.log10());
        match all.iter_mut().find(|series| series.title == title) {
            Some(series) => series.places.push(place),
            None => all.push(Series { title, style: Style::of(record), places: vec![place] }),
        }
    }
    // Ours come first in the records, and are drawn last: on top.
    all.reverse();
    all
}

fn draw(svg: &mut String, figure: &Figure, series: &[Series]) -> Drawn {
    let places = || series.iter().flat_map(|series| series.places.iter().copied());
    let x = keys_axis(places().map(|place| place.0));
    let y = time_axis(figure.axis, places().map(|place| place.1));
    let canvas = Canvas::new(svg, figure.title, x, y, LABEL_WIDTH)?;
    series.iter().try_for_each(|series| canvas.series(&series.places, series.style))?;

    let last_pixels: Vec<_> =
        series.iter().filter_map(|series| series.places.last()).map(|&last| canvas.pixel(last)).collect();
    let heights: Vec<_> = last_pixels.iter().map(|pixel| pixel.1).collect();
    let plot = canvas.plot();
    let middles = spread(&heights, LABEL_GAP, plot.from.1, plot.to.1);
    for ((series, last), middle) in series.iter().zip(last_pixels).zip(middles) {
        let beside = (plot.to.0 + 26, middle);
        canvas.leader((last.0 + 8, last.1), (beside.0 - 4, beside.1), series.style.colour)?;
        canvas.label(&series.title, beside, series.style.colour)?;
    }
    canvas.finish()
}

fn keys_axis(positions: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = extent(positions);
    let ticks = (0..=18_u32).map(|exponent| (f64::from(exponent), grouped(10_u64.pow(exponent))));
    let ends = (low - 0.08, high + 0.02);
    let ticks = ticks.filter(|(position, _)| (ends.0..=ends.1).contains(position)).collect();
    Axis { title: "keys in the filter".to_owned(), ends, ticks }
}

fn time_axis(title: &str, positions: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = extent(positions);
    let ends = (low - 0.1, high + 0.1);
    Axis { title: title.to_owned(), ends, ticks: decimal_ticks(ends, |value| format!("{value}")) }
}

/// The least and the greatest; an extent of 0 would have no scale.
fn extent(positions: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = positions.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
    if low > high {
        return (0.0, 1.0);
    }
    let widened = if high - low < 1e-3 { 0.5 } else { 0.0 };
    (low - widened, high + widened)
}
