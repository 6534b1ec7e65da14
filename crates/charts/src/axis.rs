//! Axes: map values to positions, and choose the values with a tick.

use core::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// The map from values to positions on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal distances.
    Linear,
    /// Equal ratios have equal distances.
    Logarithmic,
}

/// An axis from its first end to its last, which may be smaller.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Title with the unit.
    pub title: String,
    /// The map from values to positions.
    pub scale: Scale,
    /// The values at its ends.
    pub ends: (f64, f64),
    /// Values with a grid line and a label.
    pub ticks: Vec<(f64, String)>,
}

/// Rates with a tick: the powers of ten.
const RATES: [(f64, &str); 6] =
    [(1.0, "100 %"), (0.1, "10 %"), (0.01, "1 %"), (1e-3, "0.1 %"), (1e-4, "0.01 %"), (1e-5, "0.001 %")];

/// Leading digits of ticks, from sparse to dense: an axis uses the first choice with at least four ticks.
const DIGITS: [&[f64]; 4] = [
    &[1.0, 3.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0],
    &[1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
];

impl Axis {
    /// Returns an axis from 0 to `last` with a tick at every multiple of `step`; `text` formats the labels.
    pub fn linear(title: &str, last: f64, step: f64, text: impl Fn(f64) -> String) -> Self {
        // A thousandth of a step more: a multiple may round to just above `last`.
        let multiples = (0_u32..100).map(|index| f64::from(index) * step);
        let ticks = multiples.take_while(|value| *value <= last + step / 1e3).map(|value| (value, text(value)));
        Self { title: title.to_owned(), scale: Scale::Linear, ends: (0.0, last), ticks: ticks.collect() }
    }

    /// Returns a logarithmic axis with ticks at round numbers.
    #[must_use]
    pub fn logarithmic(title: &str, ends: (f64, f64)) -> Self {
        let choices = || DIGITS.into_iter().map(|digits| round_numbers(ends, digits));
        let ticks = choices().find(|ticks| ticks.len() >= 4).or_else(|| choices().next_back()).unwrap_or_default();
        let ticks = ticks.into_iter().map(|value| (value, trimmed(value))).collect();
        Self { title: title.to_owned(), scale: Scale::Logarithmic, ends, ticks }
    }

    /// Returns an axis of numbers of keys with a tick at every power of ten.
    #[must_use]
    pub fn keys(ends: (f64, f64)) -> Self {
        let ticks = round_numbers(ends, &[1.0]).into_iter().map(|keys| (keys, short(keys))).collect();
        Self { title: "keys in the filter".to_owned(), scale: Scale::Logarithmic, ends, ticks }
    }

    /// Returns an axis of false positive rates with a tick at every power of ten.
    #[must_use]
    pub fn rates(title: &str, ends: (f64, f64)) -> Self {
        let ticks =
            RATES.into_iter().filter(|(rate, _)| is_between(*rate, ends)).map(|(at, text)| (at, text.to_owned()));
        Self { title: title.to_owned(), scale: Scale::Logarithmic, ends, ticks: ticks.collect() }
    }

    /// Maps `value` to a position that is linear in pixels.
    pub(crate) fn position(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            // Zero has no logarithm, so it is drawn beyond any end.
            Scale::Logarithmic => value.max(1e-12).log10(),
        }
    }
}

impl Ranged for Axis {
    type ValueType = f64;
    type FormatOption = NoDefaultFormatting;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let ends = (self.position(self.ends.0), self.position(self.ends.1));
        let share = (self.position(*value) - ends.0) / (ends.1 - ends.0);
        #[expect(clippy::cast_possible_truncation, reason = "a float cast to an integer saturates")]
        let pixel = (f64::from(first) + share * f64::from(last - first)).round() as i32;
        pixel
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Plotters also asks for light grid lines, which these charts do not have.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.iter().map(|tick| tick.0).collect() }
    }

    fn range(&self) -> Range<f64> {
        self.ends.0..self.ends.1
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|tick| tick.0.total_cmp(value).is_eq());
        tick.map(|tick| tick.1.clone()).unwrap_or_default()
    }
}

/// Returns the minimum and maximum of the values, far enough apart to span an axis.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low > high { (1.0, 10.0) } else { (low, high.max(low * 1.1)) }
}

fn is_between(value: f64, ends: (f64, f64)) -> bool {
    // With some tolerance: products of powers of ten are not exact.
    let (low, high) = (ends.0.min(ends.1), ends.0.max(ends.1));
    value >= low * 0.999 && value <= high * 1.001
}

/// Returns `digits` times powers of ten within `ends`.
fn round_numbers(ends: (f64, f64), digits: &[f64]) -> Vec<f64> {
    let decades = (-3..=9).map(|exponent| 10_f64.powi(exponent));
    decades.flat_map(|decade| digits.iter().map(move |digit| digit * decade)).filter(|&n| is_between(n, ends)).collect()
}

/// Formats a value with at most three decimals, because powers of ten below one are not exact.
fn trimmed(value: f64) -> String {
    format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats `10000` as `10 K`.
fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", value / 1e6),
        1e3.. => format!("{} K", value / 1e3),
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.1.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers_and_neither_few_nor_many() {
        assert_eq!(texts(&Axis::logarithmic("", (0.9, 110.0))), ["1", "3", "10", "30", "100"]);
        assert_eq!(texts(&Axis::logarithmic("", (4.0, 11.0))), ["4", "6", "8", "10"]);
        assert_eq!(texts(&Axis::keys((90.0, 1.1e6))), ["100", "1 K", "10 K", "100 K", "1 M"]);
        assert_eq!(texts(&Axis::rates("", (0.2, 9e-4))), ["10 %", "1 %", "0.1 %"]);
        assert_eq!(texts(&Axis::linear("", 1.0, 0.5, |value| format!("{value}"))), ["0", "0.5", "1"]);
    }

    #[test]
    fn an_axis_of_one_value_or_none_still_has_a_length() {
        for values in [vec![], vec![7.0], vec![7.0, 7.0]] {
            let (low, high) = extent(values.into_iter());
            assert!(low < high);
        }
    }
}
