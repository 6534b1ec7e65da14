//! Bars of shares without axes, for a page that labels them itself.

use core::fmt::Write;

use crate::draw::escaped;
use crate::style::{Colour, hex};

/// A part of a bar.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its share of the bar's full length, from 0 to 1.
    pub share: f64,
    /// Its colour.
    pub colour: Colour,
    /// Text that the browser shows under the pointer.
    pub tip: String,
}

/// Draws the parts of one bar, one after the other, as an SVG element of the given class. The page's style sheet
/// determines its width and height.
///
/// ```
/// use sstfilter_charts::{Colour, Part, bar};
///
/// let part = Part { share: 0.25, colour: Colour::BLUE, tip: "Bloom: 1 of 4".to_owned() };
/// assert!(bar("bar", &[part]).contains("width=\"25.00%\""));
/// ```
#[must_use]
pub fn bar(class: &str, parts: &[Part]) -> String {
    let tips = parts.iter().map(|part| escaped(&part.tip)).collect::<Vec<_>>();
    let mut svg = format!("<svg class=\"{class}\" role=\"img\" aria-label=\"{}\">", tips.join("; "));
    let mut start = 0.0;
    for (Part { share, colour, .. }, tip) in parts.iter().zip(tips) {
        let (x, width, fill) = (start * 100.0, share * 100.0, hex(colour.light));
        // Writing to a string does not fail.
        let _ = write!(
            svg,
            "<rect x=\"{x:.2}%\" width=\"{width:.2}%\" height=\"100%\" fill=\"{fill}\"><title>{tip}</title></rect>"
        );
        start += share;
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_their_tips_are_text() {
        let part = |share, colour| Part { share, colour, tip: "<a>".to_owned() };
        let svg = bar("bar", &[part(0.5, Colour::BLUE), part(0.25, Colour::RED)]);
        assert!(svg.contains("x=\"0.00%\" width=\"50.00%\"") && svg.contains("x=\"50.00%\" width=\"25.00%\""), "{svg}");
        assert!(svg.contains("aria-label=\"&lt;a&gt;; &lt;a&gt;\"") && !svg.contains("<a>"), "{svg}");
        assert!(svg.contains("#0067A5"), "the style sheet replaces this colour: {svg}");
    }
}
