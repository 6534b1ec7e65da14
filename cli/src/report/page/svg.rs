//! A plot as SVG: axes, a grid, lines, marks and labels. Colours are classes, which the page's style defines.

use core::fmt::Write;

use super::chart::{Chart, Form, Series, Side};
use super::escape::escaped;
use super::labels::spread;
use super::mark::mark;

/// How large a chart is drawn: its text keeps its size, so that a phone gets a drawing of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The class by which the page shows one drawing or the other.
    class: &'static str,
    size: (f64, f64),
    left: f64,
    /// Room for the labels at the ends of lines; without them, a legend stands below.
    right: f64,
}

/// For screens of at least 720 pixels.
pub(super) const WIDE: Frame = Frame { class: "wide", size: (920.0, 460.0), left: 58.0, right: 196.0 };
/// For phones.
pub(super) const NARROW: Frame = Frame { class: "narrow", size: (380.0, 340.0), left: 54.0, right: 22.0 };

const TOP: f64 = 34.0;
const BOTTOM: f64 = 50.0;
const LABEL_GAP: f64 = 18.0;

/// The chart as one SVG element; `number` makes its identifiers its own.
pub(super) fn draw(chart: &Chart, frame: Frame, number: usize) -> String {
    Drawing { chart, frame, id: format!("{}{number}", frame.class), svg: String::new() }.finish()
}

struct Drawing<'a> {
    chart: &'a Chart,
    frame: Frame,
    id: String,
    svg: String,
}

impl Drawing<'_> {
    fn finish(mut self) -> String {
        let (width, height) = self.frame.size;
        let title = escaped(&self.chart.title);
        put(
            &mut self.svg,
            format_args!(
                "<svg class=\"{}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{}-title\">\
             <title id=\"{}-title\">{title}</title>",
                self.frame.class, self.id, self.id
            ),
        );
        self.axes();
        self.limits();
        let (left, top, right, bottom) = self.plot();
        let (margin, span) = (7.0, (right - left, bottom - top));
        put(
            &mut self.svg,
            format_args!(
                "<clipPath id=\"{}-plot\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\
             <g clip-path=\"url(#{}-plot)\">",
                self.id,
                left - margin,
                top - margin,
                span.0 + 2.0 * margin,
                span.1 + 2.0 * margin,
                self.id
            ),
        );
        // The first series are the most important: they are drawn last, on top.
        self.chart.series.iter().rev().for_each(|series| self.series(series));
        for &ring in &self.chart.rings {
            let (x, y) = self.pixel(ring);
            put(&mut self.svg, format_args!("<circle class=\"alarm\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\"/>"));
        }
        put(&mut self.svg, format_args!("</g>"));
        if self.has_labels() {
            self.labels();
        }
        put(&mut self.svg, format_args!("</svg>"));
        self.svg
    }

    fn has_labels(&self) -> bool {
        self.frame.right > 100.0
    }

    /// Left, top, right, bottom.
    fn plot(&self) -> (f64, f64, f64, f64) {
        let (width, height) = self.frame.size;
        (self.frame.left, TOP, width - self.frame.right, height - BOTTOM)
    }

    fn pixel(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let (left, top, right, bottom) = self.plot();
        (left + (right - left) * self.chart.x.share(x), bottom - (bottom - top) * self.chart.y.share(y))
    }

    fn axes(&mut self) {
        let (left, top, right, bottom) = self.plot();
        for (value, text) in &self.chart.x.ticks {
            let (x, _) = self.pixel((*value, self.chart.y.ends.0));
            put(&mut self.svg, format_args!("<path class=\"grid\" d=\"M{x:.1} {top}V{bottom}\"/>"));
            put(
                &mut self.svg,
                format_args!(
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                    bottom + 18.0
                ),
            );
        }
        for (value, text) in &self.chart.y.ticks {
            let (_, y) = self.pixel((self.chart.x.ends.0, *value));
            put(&mut self.svg, format_args!("<path class=\"grid\" d=\"M{left} {y:.1}H{right}\"/>"));
            put(
                &mut self.svg,
                format_args!(
                    "<text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                    left - 8.0,
                    y + 4.0
                ),
            );
        }
        put(&mut self.svg, format_args!("<path class=\"axis\" d=\"M{left} {bottom}H{right}\"/>"));
        let (x_title, y_title) = (escaped(&self.chart.x.title), escaped(&self.chart.y.title));
        put(
            &mut self.svg,
            format_args!(
                "<text class=\"title\" x=\"{right}\" y=\"{}\" text-anchor=\"end\">{x_title}</text>",
                bottom + 40.0
            ),
        );
        put(&mut self.svg, format_args!("<text class=\"title\" x=\"4\" y=\"16\">{y_title}</text>"));
    }

    fn limits(&mut self) {
        let (left, _, right, _) = self.plot();
        for limit in &self.chart.limits {
            let (_, y) = self.pixel((self.chart.x.ends.0, limit.at));
            let text = escaped(&limit.text);
            put(&mut self.svg, format_args!("<path class=\"limit\" d=\"M{left} {y:.1}H{right}\"/>"));
            let (x, y, anchor) = match limit.side {
                Side::AboveLeft => (left + 6.0, y - 5.0, "start"),
                Side::BelowRight => (right - 4.0, y + 14.0, "end"),
            };
            put(
                &mut self.svg,
                format_args!(
                    "<text class=\"limit-text\" x=\"{x}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
                ),
            );
        }
    }

    fn series(&mut self, series: &Series) {
        put(&mut self.svg, format_args!("<g class=\"{}\">", series.style.class));
        if series.form != Form::Marks {
            let broken = if series.form == Form::Broken { " broken" } else { "" };
            put(&mut self.svg, format_args!("<polyline class=\"line{broken}\" points=\""));
            for point in &series.points {
                let (x, y) = self.pixel(point.at);
                put(&mut self.svg, format_args!("{x:.1},{y:.1} "));
            }
            put(&mut self.svg, format_args!("\"/>"));
        }
        if matches!(series.form, Form::Marked | Form::Marks) {
            for point in &series.points {
                let at = self.pixel(point.at);
                let tip = escaped(&point.tip);
                put(&mut self.svg, format_args!("{}", mark(series.style.mark, at, Some(&tip))));
            }
        }
        put(&mut self.svg, format_args!("</g>"));
    }

    /// Names the series at their right ends.
    fn labels(&mut self) {
        let (_, top, right, bottom) = self.plot();
        let named: Vec<_> = self.chart.series.iter().filter(|series| !series.name.is_empty()).collect();
        let ends: Vec<_> =
            named.iter().filter_map(|series| series.points.last()).map(|point| self.pixel(point.at)).collect();
        let wanted: Vec<_> = ends.iter().map(|end| end.1.clamp(top, bottom)).collect();
        let middles = spread(&wanted, LABEL_GAP, top - 6.0, bottom + 6.0);
        for ((series, end), middle) in named.iter().zip(&ends).zip(middles) {
            let text = if end.1 < top - 1.0 { format!("{} (above)", series.name) } else { series.name.clone() };
            let x = right + 26.0;
            put(&mut self.svg, format_args!("<g class=\"{}\">", series.style.class));
            if end.1 >= top - 1.0 {
                let from = (end.0 + 7.0).min(right + 8.0);
                put(
                    &mut self.svg,
                    format_args!("<path class=\"leader\" d=\"M{from:.1} {:.1}L{:.1} {middle:.1}\"/>", end.1, x - 3.0),
                );
            }
            if matches!(series.form, Form::Marked | Form::Marks) {
                put(&mut self.svg, format_args!("{}", mark(series.style.mark, (x + 4.0, middle), None)));
            }
            let indent = if matches!(series.form, Form::Marked | Form::Marks) { 15.0 } else { 2.0 };
            put(
                &mut self.svg,
                format_args!(
                    "<text class=\"label\" x=\"{}\" y=\"{:.1}\">{}</text></g>",
                    x + indent,
                    middle + 4.5,
                    escaped(&text)
                ),
            );
        }
    }
}

fn put(svg: &mut String, arguments: core::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = svg.write_fmt(arguments);
}
