//! Who is drawn how: a colour that colour-blind readers tell apart, and a mark where colours come near.

use super::chart::Style;
use super::mark::Mark;

/// The style of a contender.
pub(super) fn style(name: &str) -> Style {
    let (class, mark) = match name {
        "blocked Bloom" => ("blue", Mark::Disc),
        "standard Bloom" => ("sky", Mark::Square),
        "counting Bloom" => ("navy", Mark::Diamond),
        "two-bit Bloom" => ("green", Mark::Triangle),
        "cuckoo" => ("pink", Mark::Square),
        "Ribbon" => ("red", Mark::Disc),
        "xor" => ("amber", Mark::Square),
        "xor+" => ("brown", Mark::Diamond),
        "binary fuse 3" => ("ink", Mark::Triangle),
        _ => ("grey", Mark::Ring),
    };
    Style { class, mark }
}

/// The style of what is no filter.
pub(super) const BOUND: Style = Style { class: "grey", mark: Mark::Ring };
