//! Axes: map values to positions, and choose the values with a tick.

use core::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// An axis from its first end to its last, which may be smaller.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Title with the unit.
    pub(crate) title: String,
    /// Whether equal ratios have equal distances, and not equal differences.
    is_logarithmic: bool,
    /// The values at its ends.
    pub(crate) ends: (f64, f64),
    /// Values with a grid line and a label.
    ticks: Vec<(f64, String)>,
}

/// Leading digits of ticks, from sparse to dense: an axis uses the first choice with enough ticks.
const DIGITS: [&[f64]; 5] = [
    &[1.0],
    &[1.0, 3.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0],
    &[1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
];

/// The fewest ticks of an axis: with two, a reader cannot see whether it is logarithmic.
const MIN_TICKS: usize = 3;

/// The most ticks of an axis of rates: more labels would overlap on a phone.
const MAX_RATES: usize = 6;

impl Axis {
    /// Returns an axis from 0 to `last` with a tick at every multiple of `step`, or of a smaller step if there would be
    /// fewer than three; `text` formats the labels.
    pub fn linear(title: &str, last: f64, step: f64, text: impl Fn(f64) -> String) -> Self {
        let step = step.min(last / (MIN_TICKS - 1) as f64);
        // A thousandth of a step more: a multiple may round to just above `last`.
        let multiples = (0_u32..100).map(|index| f64::from(index) * step);
        let ticks = multiples.take_while(|value| *value <= last + step / 1e3).map(|value| (value, text(value)));
        Self { title: title.to_owned(), is_logarithmic: false, ends: (0.0, last), ticks: ticks.collect() }
    }

    /// Returns a logarithmic axis with ticks at round numbers.
    #[must_use]
    pub fn logarithmic(title: &str, ends: (f64, f64)) -> Self {
        // Powers of ten alone are too far apart for lines that are nearly level.
        Self::with_ticks(title, ends, round_ticks(ends, &DIGITS[1..], MIN_TICKS + 1), trimmed)
    }

    /// Returns an axis of numbers of keys with a tick at every power of ten, or more if these are few.
    #[must_use]
    pub fn keys(ends: (f64, f64)) -> Self {
        Self::with_ticks("keys in the filter", ends, round_ticks(ends, &DIGITS, MIN_TICKS), short)
    }

    /// Returns an axis of false positive rates with ticks at powers of ten, and at further rates if these are few.
    #[must_use]
    pub fn rates(title: &str, ends: (f64, f64)) -> Self {
        let ticks = round_ticks(ends, &DIGITS, MIN_TICKS);
        let every = ticks.len().div_ceil(MAX_RATES).max(1);
        Self::with_ticks(title, ends, ticks.into_iter().step_by(every).collect(), percent)
    }

    fn with_ticks(title: &str, ends: (f64, f64), ticks: Vec<f64>, text: fn(f64) -> String) -> Self {
        let ticks = ticks.into_iter().map(|value| (value, text(value))).collect();
        Self { title: title.to_owned(), is_logarithmic: true, ends, ticks }
    }

    /// Returns the title, which says so if the values of a horizontal axis fall from left to right.
    pub(crate) fn directed_title(&self) -> String {
        if self.ends.0 > self.ends.1 { format!("{} (falls to the right)", self.title) } else { self.title.clone() }
    }

    /// Maps `value` to a position that is linear in pixels.
    pub(crate) fn position(&self, value: f64) -> f64 {
        // Zero has no logarithm, so it is drawn beyond any end.
        if self.is_logarithmic { value.max(1e-12).log10() } else { value }
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

/// Returns the values of the first of these `choices` of digits with at least `least` values within `ends`. If none has
/// so many, `ends` are so close that steps of equal size look equal.
fn round_ticks(ends: (f64, f64), choices: &[&[f64]], least: usize) -> Vec<f64> {
    let enough = choices.iter().map(|digits| round_numbers(ends, digits)).find(|ticks| ticks.len() >= least);
    enough.unwrap_or_else(|| multiples(ends, least))
}

/// Returns `digits` times powers of ten within `ends`.
fn round_numbers(ends: (f64, f64), digits: &[f64]) -> Vec<f64> {
    let decades = (-12..=12).map(|exponent| 10_f64.powi(exponent));
    decades.flat_map(|decade| digits.iter().map(move |digit| digit * decade)).filter(|&n| is_between(n, ends)).collect()
}

/// Returns the multiples within `ends` of the largest step, 1, 2 or 5 times a power of ten, that has at least `least`.
fn multiples(ends: (f64, f64), least: usize) -> Vec<f64> {
    let (low, high) = (ends.0.min(ends.1), ends.0.max(ends.1));
    let steps = (-15..=12).rev().flat_map(|exponent| [5.0, 2.0, 1.0].map(|digit| digit * 10_f64.powi(exponent)));
    let of_step = |step: f64| {
        let first = (low / step).ceil();
        (0_u32..20)
            .map(|index| (first + f64::from(index)) * step)
            .take_while(|&value| value <= high)
            .collect::<Vec<_>>()
    };
    steps.map(of_step).find(|ticks| ticks.len() >= least).unwrap_or_default()
}

/// Returns the value with ten significant digits, because powers of ten below one are not exact.
fn rounded(value: f64) -> f64 {
    format!("{value:.9e}").parse().unwrap_or(value)
}

fn trimmed(value: f64) -> String {
    rounded(value).to_string()
}

/// Formats `10000` as `10 K`.
fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", trimmed(value / 1e6)),
        1e3.. => format!("{} K", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

/// Formats a rate as a percentage.
fn percent(rate: f64) -> String {
    let percentage = rounded(rate * 100.0);
    if percentage < 0.001 { format!("{percentage:e} %") } else { format!("{percentage} %") }
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
        assert_eq!(texts(&Axis::keys((90.0, 1.1e3))), ["100", "300", "1 K"]);
        assert_eq!(texts(&Axis::rates("", (0.2, 9e-4))), ["0.1 %", "1 %", "10 %"]);
        assert_eq!(texts(&Axis::rates("", (0.03, 0.0033))), ["0.5 %", "1 %", "2 %"]);
        assert_eq!(texts(&Axis::rates("", (0.1, 1e-10)))[..2], ["1e-8 %", "1e-6 %"]);
        assert_eq!(texts(&Axis::linear("", 1.0, 0.5, |value| format!("{value}"))), ["0", "0.5", "1"]);
    }

    #[test]
    fn an_axis_of_any_ends_has_at_least_three_ticks_with_labels_of_their_own() {
        for low in [1e-9, 3.3e-4, 0.87, 2.05, 9.5, 870.0, 999_999.0] {
            for ratio in [1.01, 1.26, 1.45, 2.0, 9.0, 99.0, 1e4] {
                let (low, high) = (low, low * ratio);
                let axes = [
                    Axis::logarithmic("", (low, high)),
                    Axis::keys((low, high)),
                    Axis::rates("", (high.min(1.0), low.min(0.9))),
                    Axis::linear("", high, low, |value| format!("{value}")),
                ];
                for axis in axes {
                    let mut labels = texts(&axis);
                    labels.dedup();
                    assert!((3..=100).contains(&labels.len()) && labels.len() == axis.ticks.len(), "{axis:?}");
                    assert!(axis.ticks.iter().all(|tick| is_between(tick.0, axis.ends)), "{axis:?}");
                }
            }
        }
    }

    #[test]
    fn an_axis_of_one_value_or_none_still_has_a_length() {
        for values in [vec![], vec![7.0], vec![7.0, 7.0]] {
            let (low, high) = extent(values.into_iter());
            assert!(low < high);
        }
    }

    #[test]
    fn an_axis_whose_values_fall_says_so() {
        assert_eq!(Axis::rates("rate", (0.1, 0.001)).directed_title(), "rate (falls to the right)");
        assert_eq!(Axis::keys((1.0, 10.0)).directed_title(), "keys in the filter");
    }
}
