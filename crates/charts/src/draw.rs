//! Draws charts: plotters maps values to pixels and writes the SVG.

use core::fmt::Write;
use std::error::Error;

use plotters::backend::SVGBackend;
use plotters::coord::{CoordTranslate, Shift};
use plotters::element::DashedPathElement;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, Circle, Color, DrawingArea, FontFamily, IntoDrawingArea, IntoFont, PathElement, Polygon,
    Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{ShapeStyle, TRANSPARENT, TextStyle};

use crate::axis::Axis;
use crate::chart::{Chart, Form, Series};
use crate::style::{Colour, Mark, Style, css};

/// The size of a drawing. Text does not scale with it, so phones need a separate drawing.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The class by which a page's style sheet shows or hides the drawing; none for a separate file.
    class: Option<&'static str>,
    size: (i32, i32),
    /// Space for labels.
    labels: LabelSpace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelSpace {
    /// This many pixels to the right of the plot.
    Right(i32),
    /// A legend of two columns below the plot.
    Below,
}

impl Frame {
    /// A drawing in a page, for screens of at least 720 pixels.
    pub const WIDE: Self = Self { class: Some("wide"), size: (920, 460), labels: LabelSpace::Right(222) };
    /// A drawing in a page, for phones.
    pub const NARROW: Self = Self { class: Some("narrow"), size: (380, 340), labels: LabelSpace::Below };
    /// A separate file, with space for two dozen labels of two words.
    pub const FILE: Self = Self { class: None, size: (1040, 600), labels: LabelSpace::Right(310) };
}

const TOP: i32 = 36;
const BOTTOM: i32 = 52;
const LEFT: i32 = 64;
/// Margin right of a plot without labels: half of the last tick's text.
const RIGHT: i32 = 22;
const LABEL_GAP: i32 = 18;
/// Space for leaders between the plot and its labels.
const LEADERS: i32 = 26;

// Line heights, as plotters expects them: it divides by 1.24 and writes the font size.
const TEXT_SIZE: i32 = 16;
const TITLE_SIZE: i32 = 22;
const FONT: FontFamily<'_> = FontFamily::Name("system-ui, Helvetica, Arial, sans-serif");

type DrawError = Box<dyn Error + Send + Sync>;
type Drawn = Result<(), DrawError>;
type Pixel = (i32, i32);

impl Chart {
    /// Draws the chart as one SVG element.
    ///
    /// # Errors
    ///
    /// Returns the errors of plotters, which draws into a string.
    pub fn svg(&self, frame: Frame) -> Result<String, DrawError> {
        let names = self.series.iter().filter(|series| !series.name.is_empty()).count();
        let legend = if frame.labels == LabelSpace::Below { pixels(names.div_ceil(2)) * LABEL_GAP + 6 } else { 0 };
        let (width, height) = (frame.size.0, frame.size.1 + legend);
        let mut svg = String::new();
        let tips = {
            let size = (width.unsigned_abs(), height.unsigned_abs());
            let drawing =
                Drawing::new(self, frame, SVGBackend::with_string(&mut svg, size).into_drawing_area(), legend)?;
            drawing.draw()?;
            drawing.tips()
        };
        // Replaces the opening tag of plotters, which has a fixed size, and neither a label nor a class.
        let (_, body) = svg.split_once(">\n").unwrap_or_default();
        let body = body.trim_end().trim_end_matches("</svg>");
        let title = escaped(&self.title);
        let (attributes, style) = match frame.class {
            Some(class) => (format!("class=\"{class}\""), String::new()),
            None => ("xmlns=\"http://www.w3.org/2000/svg\"".to_owned(), format!("<style>{}</style>", css())),
        };
        Ok(format!(
            "<svg {attributes} viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">{style}\n{body}{tips}</svg>\n"
        ))
    }
}

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug)]
struct Area {
    /// Left, top.
    from: Pixel,
    /// Right, bottom.
    to: Pixel,
}

struct Drawing<'a> {
    chart: &'a Chart,
    frame: Frame,
    root: DrawingArea<SVGBackend<'a>, Shift>,
    coordinates: Cartesian2d<Axis, Axis>,
    plot: Area,
}

impl<'a> Drawing<'a> {
    /// Draws an empty plot with its axes, above `legend` pixels.
    fn new(
        chart: &'a Chart,
        frame: Frame,
        root: DrawingArea<SVGBackend<'a>, Shift>,
        legend: i32,
    ) -> Result<Self, DrawError> {
        let right = match frame.labels {
            LabelSpace::Right(width) => width,
            LabelSpace::Below => RIGHT,
        };
        let is_file = frame.class.is_none();
        if is_file {
            root.fill(&Colour::PAPER.rgb())?;
        }
        // A separate file has its title in the drawing; a page has it in its text.
        let top = if is_file { TOP + 40 } else { TOP };
        let mut context = ChartBuilder::on(&root)
            .margin_top(top)
            .margin_right(right)
            .margin_bottom(legend)
            .x_label_area_size(BOTTOM)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(chart.x.clone(), chart.y.clone())?;
        context
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(Colour::GRID.rgb())
            .axis_style(Colour::RULE.rgb())
            .label_style(text_style(TEXT_SIZE - 1, Colour::FAINT))
            .draw()?;
        let (x, y) = context.plotting_area().get_pixel_range();
        let plot = Area { from: (x.start, y.start), to: (x.end, y.end) };
        let coordinates = context.as_coord_spec().clone();
        // Ends the borrow of `root`, which moves into the drawing.
        drop(context);
        Ok(Self { chart, frame, root, coordinates, plot })
    }

    fn draw(&self) -> Drawn {
        self.titles()?;
        // The first series are the most important, so they are drawn last, on top.
        (0..self.chart.series.len()).rev().try_for_each(|number| self.series(number))?;
        match self.frame.labels {
            LabelSpace::Below => self.legend()?,
            LabelSpace::Right(_) => self.labels_at_ends()?,
        }
        Ok(self.root.present()?)
    }

    /// Returns the pixel of a point.
    fn pixel(&self, at: (f64, f64)) -> Pixel {
        self.coordinates.translate(&at)
    }

    fn titles(&self) -> Drawn {
        let Area { from: (_, top), to: (right, bottom) } = self.plot;
        if self.frame.class.is_none() {
            self.text(&self.chart.title, (12, 26), TITLE_SIZE, Colour::INK, HPos::Left)?;
        }
        self.text(&self.chart.x.directed_title(), (right, bottom + 40), TEXT_SIZE - 1, Colour::FAINT, HPos::Right)?;
        self.text(&self.chart.y.title, (4, top - 22), TEXT_SIZE - 1, Colour::FAINT, HPos::Left)
    }

    /// Draws the series with this number. Earlier ones are drawn over it.
    fn series(&self, number: usize) -> Drawn {
        let (above, series) = (&self.chart.series[..number], &self.chart.series[number]);
        let style = series.style.colour.rgb().stroke_width(series.style.width);
        let line: Vec<Pixel> = within(&series.points, &self.chart.y).into_iter().map(|at| self.pixel(at)).collect();
        match series.form {
            Form::Marked | Form::Line => self.root.draw(&PathElement::new(line, style))?,
            Form::Broken => self.dashes(line, (6, 5), style)?,
            Form::Marks => {}
        }
        if series.form.has_marks() {
            for point in self.visible(series) {
                let is_hidden = above.iter().any(|above| self.has_mark_at(above, point));
                if is_hidden {
                    // Wider than the mark above it, which would cover any other.
                    self.root.draw(&Circle::new(point, 8, style))?;
                } else {
                    self.mark(point, series.style)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the series has a mark within two pixels.
    fn has_mark_at(&self, series: &Series, (x, y): Pixel) -> bool {
        series.form.has_marks() && self.visible(series).any(|at| (at.0 - x).abs() <= 2 && (at.1 - y).abs() <= 2)
    }

    /// Returns the pixels of the points inside the plot.
    fn visible<'b>(&'b self, series: &'b Series) -> impl Iterator<Item = Pixel> + 'b {
        series.points.iter().map(|point| self.pixel(point.at)).filter(|pixel| self.is_visible(*pixel))
    }

    fn is_visible(&self, (_, y): Pixel) -> bool {
        (self.plot.from.1..=self.plot.to.1).contains(&y)
    }

    /// Names the series right of the plot, each at the height of its last point.
    fn labels_at_ends(&self) -> Drawn {
        let Area { from: (_, top), to: (right, bottom) } = self.plot;
        let ends: Vec<_> =
            self.named().filter_map(|series| Some((series, self.pixel(series.points.last()?.at)))).collect();
        let wanted: Vec<_> = ends.iter().map(|(_, end)| end.1.clamp(top, bottom)).collect();
        let middles = spread(&wanted, LABEL_GAP, top - 6, bottom + 6);
        for (&(series, end), middle) in ends.iter().zip(&middles) {
            // A line that leaves the chart gets an arrow at its name instead of a leader.
            let is_above = end.1 < top;
            if !is_above {
                let from = ((end.0 + 8).min(right + 8), end.1);
                self.leader(from, (right + LEADERS - 4, *middle), series.style.colour)?;
            }
            let name = if is_above { format!("{} \u{2191}", series.name) } else { series.name.clone() };
            self.label(series, &name, (right + LEADERS, *middle))?;
        }
        Ok(())
    }

    /// Names the series below the plot, in two columns.
    fn legend(&self) -> Drawn {
        let column = (self.frame.size.0 - 16) / 2;
        self.named().enumerate().try_for_each(|(index, series)| {
            let (left, row) = (12 + pixels(index % 2) * column, pixels(index / 2));
            self.label(series, &series.name, (left, self.plot.to.1 + BOTTOM + 14 + row * LABEL_GAP))
        })
    }

    /// Draws a mark and a name, from `left` on.
    fn label(&self, series: &Series, name: &str, (left, middle): Pixel) -> Drawn {
        if series.form.has_marks() {
            self.mark((left + 4, middle), series.style)?;
        } else {
            let style = series.style.colour.rgb().stroke_width(series.style.width);
            self.dashes([(left - 2, middle), (left + 10, middle)], (5, 3), style)?;
        }
        self.text(name, (left + 15, middle), TEXT_SIZE, Colour::INK, HPos::Left)
    }

    fn named(&self) -> impl Iterator<Item = &'a Series> + '_ {
        self.chart.series.iter().filter(|series| !series.name.is_empty())
    }

    fn leader(&self, from: Pixel, to: Pixel, colour: Colour) -> Drawn {
        Ok(self.root.draw(&PathElement::new([from, to], colour.rgb().mix(0.55).stroke_width(1)))?)
    }

    fn dashes(&self, line: impl IntoIterator<Item = Pixel>, (dash, gap): Pixel, style: ShapeStyle) -> Drawn {
        let line: Vec<_> = line.into_iter().collect();
        Ok(self.root.draw(&DashedPathElement::new(line, dash, gap, style))?)
    }

    fn text(&self, text: &str, at: Pixel, size: i32, colour: Colour, from: HPos) -> Drawn {
        let style = text_style(size, colour).pos(Pos::new(from, VPos::Center));
        Ok(self.root.draw(&Text::new(text.to_owned(), at, style))?)
    }

    fn mark(&self, (x, y): Pixel, style: Style) -> Drawn {
        let fill = style.colour.rgb().filled();
        let polygon = |corners: &[Pixel]| {
            let corners: Vec<_> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
            self.root.draw(&Polygon::new(corners, fill))
        };
        match style.mark {
            Mark::Disc => self.root.draw(&Circle::new((x, y), 4, fill))?,
            Mark::Ring => {
                self.root.draw(&Circle::new((x, y), 4, Colour::PAPER.rgb().filled()))?;
                self.root.draw(&Circle::new((x, y), 4, style.colour.rgb().stroke_width(2)))?;
            }
            Mark::Square => polygon(&[(-4, -4), (4, -4), (4, 4), (-4, 4)])?,
            Mark::Diamond => polygon(&[(0, -5), (5, 0), (0, 5), (-5, 0)])?,
            Mark::Triangle => polygon(&[(0, -5), (5, 4), (-5, 4)])?,
        }
        Ok(())
    }

    /// Returns invisible discs on the points. They carry the tips, and are larger than the marks, so that they are easy
    /// to point at.
    fn tips(&self) -> String {
        let points = self.chart.series.iter().flat_map(|series| &series.points).filter(|point| !point.tip.is_empty());
        let mut svg = String::new();
        for point in points {
            let (x, y) = self.pixel(point.at);
            if self.is_visible((x, y)) {
                // Writing to a string does not fail.
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x}\" cy=\"{y}\" r=\"7\" fill-opacity=\"0\"><title>{}</title></circle>",
                    escaped(&point.tip)
                );
            }
        }
        svg
    }
}

/// Returns a line up to the edge of the chart, with a last point on the edge.
fn within(points: &[crate::Point], y: &Axis) -> Vec<(f64, f64)> {
    let is_inside = |value: f64| value <= y.ends.1;
    let mut line: Vec<(f64, f64)> = points.iter().map(|point| point.at).take_while(|at| is_inside(at.1)).collect();
    if let (Some(&last), Some(next)) = (line.last(), points.get(line.len())) {
        let share = (y.position(y.ends.1) - y.position(last.1)) / (y.position(next.at.1) - y.position(last.1));
        // Interpolates by ratio: in charts that lines leave, the other axis has rates, which are logarithmic.
        line.push((last.0 * (next.at.0 / last.0).powf(share), y.ends.1));
    }
    line
}

/// Moves the middles of labels apart until neighbours are at least `gap` apart, and within `low..=high` if they fit.
/// The result has the order of `wanted`.
fn spread(wanted: &[i32], gap: i32, low: i32, high: i32) -> Vec<i32> {
    let mut order: Vec<_> = (0..wanted.len()).collect();
    order.sort_by_key(|&index| wanted[index]);
    let mut middles = wanted.to_vec();
    let mut limit = high;
    for &index in order.iter().rev() {
        middles[index] = middles[index].min(limit);
        limit = middles[index] - gap;
    }
    let mut limit = low;
    for &index in &order {
        middles[index] = middles[index].max(limit);
        limit = middles[index] + gap;
    }
    middles
}

fn text_style(size: i32, colour: Colour) -> TextStyle<'static> {
    (FONT, size).into_font().color(&colour.rgb())
}

fn pixels(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX / 1024)
}

/// Returns `text` with markup characters as entities.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::spread;
    use crate::{Axis, Chart, Colour, Form, Frame, Mark, Point, Series, Style};

    const FRAMES: [Frame; 3] = [Frame::WIDE, Frame::NARROW, Frame::FILE];

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        Series {
            name: name.to_owned(),
            style: Style { colour: Colour::BLUE, mark: Mark::Disc, width: 2 },
            form: Form::Marked,
            points: points.iter().map(|&at| Point { at, tip: format!("{name} <{}>", at.1) }).collect(),
        }
    }

    fn marks(svg: &str) -> usize {
        svg.matches("r=\"4\"").count()
    }

    #[test]
    fn labels_are_apart_and_within_their_limits_as_long_as_they_fit() {
        assert_eq!(spread(&[10, 100], 20, 0, 200), [10, 100]);
        assert_eq!(spread(&[105, 50, 95], 20, 0, 200), [105, 50, 85]);
        assert_eq!(spread(&[199, 200, 201], 20, 0, 200), [160, 180, 200]);
        assert_eq!(spread(&[0, 0], 20, 0, 200), [0, 20]);
        assert!(spread(&[], 20, 0, 200).is_empty());
    }

    #[test]
    fn all_text_is_text_and_each_point_has_a_mark_and_a_tip() {
        let chart =
            Chart::by_keys("A & B", "ns", vec![series("one", &[(1e3, 2.0), (1e4, 3.0)]), series("two", &[(1e4, 2.5)])]);
        for frame in FRAMES {
            let svg = chart.svg(frame).unwrap();
            assert!(
                svg.contains("aria-label=\"A &amp; B\"") && svg.contains("one &lt;2&gt;") && svg.contains("10 K"),
                "{svg}"
            );
            assert_eq!((marks(&svg), svg.matches("<title>").count()), (3 + 2, 3), "{svg}");
        }
    }

    #[test]
    fn a_line_that_leaves_the_chart_ends_at_its_edge_and_says_so() {
        let chart = Chart::by_rate("", vec![series("large", &[(0.1, 20.0), (0.01, 40.0)])]);
        let svg = chart.svg(Frame::WIDE).unwrap();
        assert!(svg.contains("large \u{2191}") && svg.contains("information bound"), "{svg}");
        assert_eq!(marks(&svg), 2, "one in the plot, one at the name");
    }

    fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
        let (_, rest) = element.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0)
    }

    /// Returns the labels of the ticks of both axes.
    fn ticks(svg: &str) -> [Vec<&str>; 2] {
        let (mut horizontal, mut vertical) = (Vec::new(), Vec::new());
        for element in svg.split("<text ").skip(1) {
            let (attributes, rest) = element.split_once(">\n").unwrap();
            let label = rest.split_once("\n</text>").unwrap().0;
            let x: i32 = attribute(attributes, "x").unwrap().parse().unwrap();
            match attribute(attributes, "text-anchor").unwrap() {
                "middle" => horizontal.push(label),
                "end" if x < super::LEFT => vertical.push(label),
                _ => {}
            }
        }
        [horizontal, vertical]
    }

    #[test]
    fn each_axis_has_three_ticks_or_more_and_a_falling_one_says_so() {
        let by_keys = |points: &[(f64, f64)]| Chart::by_keys("", "ns", vec![series("one", points)]);
        let by_rate = |ends: (f64, f64), bits: f64| {
            Chart::bits_by_rate("", Axis::rates("rate", ends), bits, vec![series("one", &[])])
        };
        let charts = [
            by_keys(&[]),
            by_keys(&[(1e3, 2.0)]),
            by_keys(&[(100.0, 7.0), (300.0, 7.7)]),
            by_keys(&[(100.0, 2.0), (1e7, 900.0)]),
            by_rate((0.03, 0.005 / 1.5), 15.0),
            by_rate((0.99, 1e-10), 40.0),
            by_rate((0.99, 0.3), 5.0),
            Chart::by_rate("", vec![series("one", &[(0.01, 10.0)])]),
        ];
        for (chart, frame) in charts.iter().flat_map(|chart| FRAMES.map(|frame| (chart, frame))) {
            let svg = chart.svg(frame).unwrap();
            for labels in ticks(&svg) {
                let distinct: BTreeSet<_> = labels.iter().collect();
                assert!(labels.len() >= 3 && distinct.len() == labels.len(), "{labels:?} in {svg}");
            }
            let is_falling = chart.x.ends.0 > chart.x.ends.1;
            assert_eq!(svg.contains("(falls to the right)"), is_falling, "{svg}");
        }
    }

    /// Returns the colour and shape of each mark.
    fn drawn_marks(svg: &str) -> BTreeSet<(String, String)> {
        let of_polygon = |element: &str| {
            let number = |text: &str| text.parse::<i32>().unwrap();
            let corner = |pair: &str| pair.split_once(',').map(|(x, y)| (number(x), number(y))).unwrap();
            let corners: Vec<_> = attribute(element, "points")?.split_whitespace().map(corner).collect();
            let shape: Vec<_> = corners.iter().map(|(x, y)| (x - corners[0].0, y - corners[0].1)).collect();
            Some((attribute(element, "fill")?.to_owned(), format!("{shape:?}")))
        };
        let of_circle = |element: &str| {
            let is_mark = attribute(element, " r") == Some("4");
            let colour = ["fill", "stroke"].map(|name| attribute(element, name).unwrap_or("none").to_owned());
            is_mark.then(|| (colour.concat(), "circle".to_owned()))
        };
        let polygons = svg.split("<polygon ").skip(1).filter_map(|element| of_polygon(element.split_once("/>")?.0));
        let circles = svg.split("<circle ").skip(1).filter_map(|element| of_circle(element.split_once('>')?.0));
        polygons.chain(circles).collect()
    }

    #[test]
    fn no_two_of_fifty_series_have_the_same_colour_and_mark() {
        let point =
            |number: usize| Point { at: (1e3, 1.5_f64.powi(i32::try_from(number).unwrap())), tip: String::new() };
        let one = |number| Series { style: Style::nth(number), points: vec![point(number)], ..series("one", &[]) };
        let svg = Chart::by_keys("", "ns", (0..50).map(one).collect()).svg(Frame::NARROW).unwrap();
        // The rings, one for each colour, are white inside.
        let below_rings = ("#FFFFFFnone".to_owned(), "circle".to_owned());
        let mut drawn = drawn_marks(&svg);
        assert!(drawn.remove(&below_rings), "{drawn:?}");
        assert_eq!(drawn.len(), 50, "{drawn:?}");
    }

    #[test]
    fn a_mark_at_the_place_of_another_is_a_ring_around_it() {
        let svg = Chart::by_keys("", "ns", vec![series("one", &[(1e3, 2.0)]), series("two", &[(1e3, 2.0)])])
            .svg(Frame::WIDE)
            .unwrap();
        assert_eq!((marks(&svg), svg.matches("r=\"8\"").count()), (1 + 2, 1), "{svg}");
    }
}
