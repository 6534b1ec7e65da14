//! A plot: axes, a grid, lines, marks and text, in pixels.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::{
    Circle, Color, DrawingArea, DrawingBackend, IntoDrawingArea, IntoFont, PathElement, Polygon, Rectangle, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{RGBColor, WHITE};

use super::labels::{Area, text_width};
use super::style::{FAINT_INK, GRID, INK, Mark, Style};

const SIZE: (u32, u32) = (1000, 600);
const MARGINS: Area = Area { from: (64, 76), to: (0, 56) };
const TITLE_SIZE: i32 = 20;
const TEXT_SIZE: i32 = 14;
const RADIUS: i32 = 4;
const FONT: &str = "Helvetica, Arial, sans-serif";

/// A drawing that failed; drawing into a string does not.
type DrawError = DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>;

/// What drawing returns.
pub type Drawn = Result<(), DrawError>;

/// One axis. Positions are of the scale drawn: of a logarithmic one, logarithms.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with the unit.
    pub title: String,
    /// The positions of its ends.
    pub ends: (f64, f64),
    /// Positions with a line and a text.
    pub ticks: Vec<(f64, String)>,
}

/// A place in the plot, as positions on both axes.
pub type Place = (f64, f64);

/// The drawing, with its axes drawn.
pub struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
    x: Axis,
    y: Axis,
    plot: Area,
}

impl<'a> Canvas<'a> {
    /// An empty plot that leaves `label_width` pixels to its right.
    pub fn new(svg: &'a mut String, title: &str, x: Axis, y: Axis, label_width: i32) -> Result<Self, DrawError> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (width, height) = (SIZE.0.cast_signed(), SIZE.1.cast_signed());
        let plot = Area { from: MARGINS.from, to: (width - label_width, height - MARGINS.to.1) };
        let canvas = Self { area, x, y, plot };
        canvas.write(title, (16, 26), TITLE_SIZE, INK, HPos::Left)?;
        canvas.axes()?;
        Ok(canvas)
    }

    /// Where the data are.
    pub fn plot(&self) -> Area {
        self.plot
    }

    /// The pixel of a place.
    pub fn pixel(&self, (x, y): Place) -> (i32, i32) {
        let Area { from: (left, top), to: (right, bottom) } = self.plot;
        (between(left, right, share(x, self.x.ends)), between(bottom, top, share(y, self.y.ends)))
    }

    /// A line through `places`, with a mark at each.
    pub fn series(&self, places: &[Place], style: Style) -> Drawn {
        self.line(places, style.colour, style.width)?;
        places.iter().try_for_each(|&place| self.mark(self.pixel(place), style))
    }

    /// A line through `places`.
    pub fn line(&self, places: &[Place], colour: RGBColor, width: u32) -> Drawn {
        let pixels: Vec<_> = places.iter().map(|&place| self.pixel(place)).collect();
        self.area.draw(&PathElement::new(pixels, colour.stroke_width(width)))
    }

    /// A line from a point to the label that names it.
    pub fn leader(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Drawn {
        self.area.draw(&PathElement::new([from, to], colour.mix(0.6).stroke_width(1)))
    }

    /// A label whose left edge is at `pixel`, in the middle of its height.
    pub fn label(&self, text: &str, pixel: (i32, i32), colour: RGBColor) -> Drawn {
        self.write(text, pixel, TEXT_SIZE, colour, HPos::Left)
    }

    /// A label in `area`, beside `point`: it begins or ends at the edge that is nearer to the point.
    pub fn label_beside(&self, text: &str, area: Area, point: (i32, i32), colour: RGBColor) -> Drawn {
        let middle = i32::midpoint(area.from.1, area.to.1);
        let is_left = area.to.0 < point.0;
        let (edge, anchor) = if is_left { (area.to.0, HPos::Right) } else { (area.from.0, HPos::Left) };
        self.write(text, (edge, middle), TEXT_SIZE, colour, anchor)
    }

    /// The size of a label.
    pub fn label_size(text: &str) -> (i32, i32) {
        (text_width(text, TEXT_SIZE), TEXT_SIZE + 2)
    }

    /// Ends the drawing.
    pub fn finish(self) -> Drawn {
        self.area.present()
    }

    fn axes(&self) -> Drawn {
        let Area { from: (left, top), to: (right, bottom) } = self.plot;
        for (position, text) in &self.x.ticks {
            let (x, _) = self.pixel((*position, self.y.ends.0));
            self.rule((x, top), (x, bottom), GRID)?;
            self.write(text, (x, bottom + 16), TEXT_SIZE, FAINT_INK, HPos::Center)?;
        }
        for (position, text) in &self.y.ticks {
            let (_, y) = self.pixel((self.x.ends.0, *position));
            self.rule((left, y), (right, y), GRID)?;
            self.write(text, (left - 8, y), TEXT_SIZE, FAINT_INK, HPos::Right)?;
        }
        self.rule((left, bottom), (right, bottom), FAINT_INK)?;
        self.write(&self.x.title, (i32::midpoint(left, right), bottom + 40), TEXT_SIZE, INK, HPos::Center)?;
        self.write(&self.y.title, (16, top - 22), TEXT_SIZE, INK, HPos::Left)
    }

    fn rule(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Drawn {
        self.area.draw(&PathElement::new([from, to], colour.stroke_width(1)))
    }

    fn write(&self, text: &str, pixel: (i32, i32), size: i32, colour: RGBColor, from: HPos) -> Drawn {
        let style = (FONT, size).into_font().color(&colour).pos(Pos::new(from, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), pixel, style))
    }

    fn mark(&self, (x, y): (i32, i32), style: Style) -> Drawn {
        let radius = if style.width > 1 { RADIUS + 1 } else { RADIUS };
        let fill = style.colour.filled();
        match style.mark {
            Mark::Disc => self.area.draw(&Circle::new((x, y), radius, fill)),
            Mark::Square => self.area.draw(&Rectangle::new([(x - radius, y - radius), (x + radius, y + radius)], fill)),
            Mark::Triangle => {
                let corners = [(x, y - radius - 1), (x + radius + 1, y + radius), (x - radius - 1, y + radius)];
                self.area.draw(&Polygon::new(corners, fill))
            }
            Mark::Diamond => {
                let reach = radius + 2;
                self.area.draw(&Polygon::new([(x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y)], fill))
            }
        }
    }
}

/// How far `value` is from the first to the second of `ends`.
fn share(value: f64, (first, last): (f64, f64)) -> f64 {
    (value - first) / (last - first)
}

#[expect(clippy::cast_possible_truncation, reason = "pixels of an image a thousand wide")]
fn between(from: i32, to: i32, share: f64) -> i32 {
    (f64::from(from) + share * f64::from(to - from)).round() as i32
}

/// Ticks at 1, 2 and 5 times the powers of ten within `ends`, which are decimal logarithms.
pub fn decimal_ticks(ends: (f64, f64), text: impl Fn(f64) -> String) -> Vec<(f64, String)> {
    let exponents = -9..=9;
    let values = exponents.flat_map(|exponent| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(exponent)));
    let within = |value: &f64| (ends.0 - 1e-9..=ends.1 + 1e-9).contains(&value.log10());
    values.filter(within).map(|value| (value.log10(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_stand_at_round_numbers_up_to_and_with_the_ends() {
        let ticks = decimal_ticks((0.0, 2.0), |value| format!("{value}"));
        let texts: Vec<_> = ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["1", "2", "5", "10", "20", "50", "100"]);
    }
}
