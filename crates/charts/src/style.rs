//! Colours that are distinguishable on light and dark backgrounds, and marks that distinguish similar colours.

use core::fmt::Write;

use plotters::style::RGBColor;

/// A colour for a light background and its counterpart for a dark one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    pub(crate) light: (u8, u8, u8),
    dark: (u8, u8, u8),
}

const fn colour(light: u32, dark: u32) -> Colour {
    const fn channels(rgb: u32) -> (u8, u8, u8) {
        let [blue, green, red, _] = rgb.to_le_bytes();
        (red, green, blue)
    }
    Colour { light: channels(light), dark: channels(dark) }
}

// Based on the palette of Okabe and Ito, which colour-blind readers can distinguish, without its yellow (too light for
// lines on white). Light values must differ from each other, because the style sheet selects elements by them.
impl Colour {
    /// Deep blue.
    pub const BLUE: Self = colour(0x00_67_a5, 0x4a_a3_ec);
    /// Light blue.
    pub const SKY: Self = colour(0x2f_9b_d8, 0x8f_d3_ff);
    /// Violet blue.
    pub const NAVY: Self = colour(0x3b_3f_9e, 0xa3_a6_ff);
    /// Green.
    pub const GREEN: Self = colour(0x00_87_5f, 0x2e_c7_9a);
    /// Pink.
    pub const PINK: Self = colour(0xb9_50_8f, 0xee_8f_c8);
    /// Vermilion.
    pub const RED: Self = colour(0xcf_4a_00, 0xff_7a_33);
    /// Amber.
    pub const AMBER: Self = colour(0xc9_85_00, 0xff_c1_45);
    /// Brown.
    pub const BROWN: Self = colour(0x8a_5a_2b, 0xd3_a2_73);
    /// The colour of text and of the darkest series.
    pub const INK: Self = colour(0x1c_24_30, 0xe6_eb_f1);
    /// Grey.
    pub const GREY: Self = colour(0x7a_85_94, 0x93_a0_b0);

    pub(crate) const FAINT: Self = colour(0x5b_66_75, 0x9a_a7_b6);
    pub(crate) const GRID: Self = colour(0xe3_e7_ec, 0x27_30_3c);
    pub(crate) const RULE: Self = colour(0xc9_d0_d9, 0x3a_46_55);
    pub(crate) const PAPER: Self = colour(0xff_ff_ff, 0x11_16_1d);

    const ALL: [Self; 14] = [
        Self::BLUE,
        Self::SKY,
        Self::NAVY,
        Self::GREEN,
        Self::PINK,
        Self::RED,
        Self::AMBER,
        Self::BROWN,
        Self::INK,
        Self::GREY,
        Self::FAINT,
        Self::GRID,
        Self::RULE,
        Self::PAPER,
    ];

    pub(crate) fn rgb(self) -> RGBColor {
        RGBColor(self.light.0, self.light.1, self.light.2)
    }
}

/// The mark of a measured point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A disc.
    Disc,
    /// A square on its side.
    Square,
    /// A square on its corner.
    Diamond,
    /// A triangle on its base.
    Triangle,
    /// An open disc.
    Ring,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The colour of its line, marks and label.
    pub colour: Colour,
    /// The mark of its points.
    pub mark: Mark,
    /// The width of its line in pixels.
    pub width: u32,
}

/// Colours of series in their order: neighbours are easy to tell apart.
const COLOURS: [Colour; 10] = [
    Colour::BLUE,
    Colour::RED,
    Colour::SKY,
    Colour::NAVY,
    Colour::GREEN,
    Colour::PINK,
    Colour::AMBER,
    Colour::BROWN,
    Colour::INK,
    Colour::GREY,
];

const MARKS: [Mark; 5] = [Mark::Disc, Mark::Square, Mark::Diamond, Mark::Triangle, Mark::Ring];

impl Style {
    /// Returns the style of the series with this number, from 0. The first fifty differ in their colour or mark.
    #[must_use]
    pub fn nth(number: usize) -> Self {
        let round = number / COLOURS.len();
        // Marks change with each colour, because some colours are similar, and move on by one in each round of colours.
        let mark = MARKS[(number + round) % MARKS.len()];
        Self { colour: COLOURS[number % COLOURS.len()], mark, width: 2 }
    }
}

/// Returns the style sheet of a page with charts. On dark screens, it replaces each colour by its counterpart: a rule
/// takes precedence over an attribute of the drawing.
#[must_use]
pub fn css() -> String {
    let mut css = "polyline{stroke-linejoin:round;stroke-linecap:round}@media (prefers-color-scheme:dark){".to_owned();
    for Colour { light, dark } in Colour::ALL {
        // Upper-case digits, as plotters writes them: attribute selectors compare values byte for byte.
        let (light, dark) = (hex(light), hex(dark));
        // Writing to a string does not fail.
        let _ = write!(css, "[stroke=\"{light}\"]{{stroke:{dark}}}[fill=\"{light}\"]{{fill:{dark}}}");
    }
    css + "}"
}

pub(crate) fn hex((red, green, blue): (u8, u8, u8)) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contrast of two colours as WCAG 2 defines it.
    fn contrast(one: (u8, u8, u8), other: (u8, u8, u8)) -> f64 {
        let luminance = |(red, green, blue): (u8, u8, u8)| {
            let linear = |channel: u8| (f64::from(channel) / 255.0).powf(2.2);
            0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
        };
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn lines_and_text_stand_out_on_both_grounds() {
        // These are meant to be faint.
        let lesser = [Colour::GRID, Colour::RULE, Colour::PAPER];
        for colour in Colour::ALL.into_iter().filter(|colour| !lesser.contains(colour)) {
            assert!(contrast(colour.light, Colour::PAPER.light) > 3.0, "{colour:?}");
            assert!(contrast(colour.dark, Colour::PAPER.dark) > 3.0, "{colour:?}");
        }
    }

    #[test]
    fn fifty_series_have_fifty_styles() {
        let styles: Vec<_> = (0..50).map(Style::nth).collect();
        assert!((0..50).all(|later| !styles[..later].contains(&styles[later])));
    }

    #[test]
    fn each_light_colour_has_one_dark_counterpart() {
        let mut lights = Colour::ALL.map(|colour| colour.light);
        lights.sort_unstable();
        assert!(lights.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
