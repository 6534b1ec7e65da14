//! Who is drawn how: colours that colour-blind readers tell apart, and marks where colours repeat.

use plotters::style::RGBColor;

use crate::record::Record;
use crate::subjects::sstfilter::NAME;

/// Text and axes.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Lesser text.
pub const FAINT_INK: RGBColor = RGBColor(0x66, 0x66, 0x66);
/// Lines of the grid.
pub const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

/// How one series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Colour of line, marks and label.
    pub colour: RGBColor,
    /// Form of its marks.
    pub mark: Mark,
    /// Width of its line in pixels.
    pub width: u32,
}

/// A mark at a measured point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A disc.
    Disc,
    /// A square.
    Square,
    /// A triangle on its base.
    Triangle,
    /// A square on its corner.
    Diamond,
}

/// The palette of Okabe and Ito, without its yellow (too light for lines on white), and a grey.
mod palette {
    use plotters::style::RGBColor;

    pub(super) const BLACK: RGBColor = RGBColor(0x00, 0x00, 0x00);
    pub(super) const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
    pub(super) const SKY_BLUE: RGBColor = RGBColor(0x56, 0xb4, 0xe9);
    pub(super) const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
    pub(super) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
    pub(super) const VERMILION: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
    pub(super) const PURPLE: RGBColor = RGBColor(0xcc, 0x79, 0xa7);
    pub(super) const GREY: RGBColor = RGBColor(0x7f, 0x7f, 0x7f);
}

impl Style {
    /// The style of a record's series: ours heavy, the peers by crate, kinds of one crate by mark.
    pub fn of(record: &Record) -> Self {
        let is_ours = record.implementation == NAME;
        let (colour, mark) = match (record.implementation.as_str(), record.kind.as_str()) {
            (NAME, kind) if kind.contains("Bloom") => (palette::BLUE, Mark::Disc),
            (NAME, _) => (palette::VERMILION, Mark::Disc),
            ("fastbloom", _) => (palette::SKY_BLUE, Mark::Square),
            ("sbbf-rs-safe", _) => (palette::GREEN, Mark::Square),
            ("lsm-tree", _) => (palette::GREY, Mark::Square),
            ("xorf", kind) if kind.starts_with("Xor") => (palette::PURPLE, Mark::Diamond),
            ("xorf", _) => (palette::PURPLE, Mark::Triangle),
            ("pleat", kind) if kind.starts_with("standard") => (palette::ORANGE, Mark::Diamond),
            ("pleat", _) => (palette::ORANGE, Mark::Triangle),
            ("qfilter", _) => (palette::BLACK, Mark::Triangle),
            _ => (palette::BLACK, Mark::Diamond),
        };
        Self { colour, mark, width: if is_ours { 3 } else { 1 } }
    }
}
