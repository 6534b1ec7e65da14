//! What a chart shows, in values; [`svg`](super::svg) makes pixels of it.

use super::mark::Mark;

/// How positions on an axis follow from values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Logarithmic,
}

/// One axis, from its first end to its last, which may be the lesser.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) title: String,
    pub(super) scale: Scale,
    pub(super) ends: (f64, f64),
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// How far `value` is from the first end to the last: 0 to 1 within them.
    pub(super) fn share(&self, value: f64) -> f64 {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(1e-12).log10(),
        };
        (place(value) - place(self.ends.0)) / (place(self.ends.1) - place(self.ends.0))
    }
}

/// A point of a series, and what is said of it when it is pointed at.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) at: (f64, f64),
    pub(super) tip: String,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// The class that gives its colour.
    pub(super) class: &'static str,
    pub(super) mark: Mark,
}

/// What is drawn of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A line with a mark at each point.
    Marked,
    /// A line alone.
    Line,
    /// A broken line alone.
    Broken,
    /// Marks alone.
    Marks,
}

/// One line, or row of marks.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// Its label; empty for a second series of something that has one.
    pub(super) name: String,
    pub(super) style: Style,
    pub(super) form: Form,
    pub(super) points: Vec<Point>,
}

/// A value of the vertical axis that means something.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) at: f64,
    pub(super) side: Side,
    pub(super) text: String,
}

/// Where a limit's text stands: where the chart has no lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    AboveLeft,
    BelowRight,
}

/// A whole chart, in values.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    pub(super) limits: Vec<Limit>,
    /// Points with a ring around them.
    pub(super) rings: Vec<(f64, f64)>,
}
