//! The contents of a chart, in values.

use crate::axis::{Axis, extent};
use crate::style::{Colour, Mark, Style};

/// A whole chart, in values.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series; earlier ones are drawn over later ones.
    pub series: Vec<Series>,
}

/// A line or a row of marks.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its label; empty if another series has the label of both.
    pub name: String,
    /// Its colour and mark.
    pub style: Style,
    /// Whether it has a line, marks or both.
    pub form: Form,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// A point of a series with its tip.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its values on both axes.
    pub at: (f64, f64),
    /// Text that a browser shows under the pointer; none if empty.
    pub tip: String,
}

/// The elements of a drawn series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line with a mark at each point.
    Marked,
    /// Only a line.
    Line,
    /// Only a broken line.
    Broken,
    /// Only marks.
    Marks,
}

/// The rates in charts of sizes: from just above 1/8 to just above 16-bit fingerprints at 2^-18.
const RATES: (f64, f64) = (0.14, 4e-6);

/// Maximum bits per key in charts of sizes; the line of a larger filter leaves the chart.
const MAX_BITS: f64 = 30.0;

impl Chart {
    /// Returns a chart of a figure by the number of keys, both logarithmic.
    #[must_use]
    pub fn by_keys(title: &str, y_title: &str, series: Vec<Series>) -> Self {
        let points = || series.iter().flat_map(|series| &series.points);
        let (least, most) = extent(points().map(|point| point.at.0));
        let (low, high) = extent(points().map(|point| point.at.1));
        let (x, y) = (Axis::keys((least * 0.9, most * 1.1)), Axis::logarithmic(y_title, (low * 0.87, high * 1.15)));
        Self { title: title.to_owned(), x, y, series }
    }

    /// Returns a chart of bits per key by the observed false positive rate, with the information bound.
    #[must_use]
    pub fn by_rate(title: &str, mut series: Vec<Series>) -> Self {
        // A filter without a false positive has no place on a logarithmic axis.
        series.iter_mut().for_each(|series| series.points.retain(|point| point.at.0 >= RATES.1));
        Self::bits_by_rate(title, Axis::rates("false positive rate, observed", RATES), MAX_BITS, series)
    }

    /// Returns a chart of up to `max_bits` bits per key by the false positive rate, with the information bound.
    #[must_use]
    pub fn bits_by_rate(title: &str, x: Axis, max_bits: f64, mut series: Vec<Series>) -> Self {
        let bound = [x.ends.0, x.ends.1].map(|rate| Point { at: (rate, -rate.log2()), tip: String::new() });
        let style = Style { colour: Colour::GREY, mark: Mark::Ring, width: 2 };
        let name = "information bound".to_owned();
        series.push(Series { name, style, form: Form::Broken, points: bound.to_vec() });
        let y = Axis::linear("bits per key", max_bits, 5.0, |bits| format!("{bits}"));
        Self { title: title.to_owned(), x, y, series }
    }
}

impl Form {
    pub(crate) fn has_marks(self) -> bool {
        matches!(self, Self::Marked | Self::Marks)
    }
}
