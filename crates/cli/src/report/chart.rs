//! The chart of a report: the size and rate of each table's filter, together with this library's filters.

use core::cmp::Reverse;

use sstfilter::{ConfigError, FalsePositiveRate, FixedPolicy, Sizing};
use sstfilter_charts::{Axis, Chart, Colour, Form, Mark, Point, Series, Style};

use crate::advise::tables::TableFilter;
use crate::units::{counted, grouped, percent};

/// Steps of the lines of this library's filters.
const STEPS: u32 = 60;

/// Maximum bits per key in the chart: a table of a few keys has hundreds, and would compress all others into a line at
/// the bottom.
const MAX_BITS: f64 = 40.0;

/// Maximum number of tables in the chart, which is drawn twice on the page.
pub(super) const DRAWN: usize = 400;

/// A table's name and filter.
pub(super) type NamedFilter = (String, TableFilter);

/// Returns a chart of the largest filters whose size and rate fit into it; `None` if there is no such filter.
pub(super) fn chart(filters: &[NamedFilter]) -> Option<Chart> {
    let mut filters = filters.to_vec();
    // The largest filters: they cost the most.
    filters.sort_by_key(|(_, filter)| Reverse(filter.bytes));
    filters.truncate(DRAWN);
    let is_drawn = |filter: &TableFilter| {
        filter.expected_fpr > 0.0 && filter.expected_fpr < 1.0 && filter.bits_per_key() <= MAX_BITS
    };
    let drawn: Vec<_> = filters.iter().filter(|(_, filter)| is_drawn(filter)).collect();
    if drawn.is_empty() {
        return None;
    }
    // The axis reaches at least from 3 % to 0.33 %, so that a single rate does not fill it.
    let rates = drawn.iter().map(|(_, filter)| filter.expected_fpr);
    let ends = (rates.clone().fold(0.02, f64::max) * 1.5, rates.fold(0.005, f64::min) / 1.5);
    let ends = (ends.0.min(0.99), ends.1);
    let max_bits = drawn.iter().map(|(_, filter)| filter.bits_per_key()).fold(-ends.1.log2() * 1.3, f64::max);
    let mut series = by_level(&drawn);
    series.extend(lines(&drawn, ends));
    let tables = counted(drawn.len() as u64, "table");
    let title = match filters.len() - drawn.len() {
        0 => format!("The filters of {tables}"),
        hidden => {
            let hidden = grouped(hidden as u64);
            format!("The filters of {tables}; {hidden} more of over {MAX_BITS} bits per key or without a rate")
        }
    };
    let x = Axis::rates("false positive rate, expected", ends);
    Some(Chart::bits_by_rate(&title, x, (max_bits.min(MAX_BITS) / 5.0).ceil() * 5.0, series))
}

/// Returns the tables of each level, as marks.
fn by_level(drawn: &[&NamedFilter]) -> Vec<Series> {
    let mut levels: Vec<_> = drawn.iter().map(|(_, filter)| filter.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let is_known = levels != [None];
    let series = |(nth, level): (usize, Option<u32>)| {
        let on_level = drawn.iter().filter(|(_, filter)| filter.level == level);
        let mut points: Vec<_> = on_level.map(|(name, filter)| point(name, filter)).collect();
        // From left to right: the axis of rates is descending.
        points.sort_by(|left, right| right.at.0.total_cmp(&left.at.0));
        let name = match level {
            Some(level) => format!("level {level} now"),
            None if is_known => "unknown level now".to_owned(),
            None => "tables now".to_owned(),
        };
        // From the second style on: a line below has the colour of the first.
        Series { name, style: Style::nth(nth + 1), form: Form::Marks, points }
    };
    levels.into_iter().enumerate().map(series).collect()
}

fn point(name: &str, filter: &TableFilter) -> Point {
    let (bits, keys, rate) = (filter.bits_per_key(), grouped(filter.keys), percent(filter.expected_fpr));
    Point { at: (filter.expected_fpr, bits), tip: format!("{name}: {keys} keys, {bits:.2} bits per key, {rate}") }
}

/// Returns lines of this library's filters with the number of keys of the median table.
fn lines(drawn: &[&NamedFilter], (highest, lowest): (f64, f64)) -> [Series; 2] {
    let mut keys: Vec<_> = drawn.iter().map(|(_, filter)| filter.keys).collect();
    keys.sort_unstable();
    // The median stands for all, because bits per key hardly depend on the number of keys.
    let keys = keys.get(keys.len() / 2).copied().unwrap_or(1);
    let rates = (0..=STEPS).map(|step| highest * (lowest / highest).powf(f64::from(step) / f64::from(STEPS)));
    let line = |name: &str, colour, policy: fn(Sizing) -> Result<FixedPolicy, ConfigError>| {
        let bits = |rate| {
            let plan = policy(Sizing::Rate(FalsePositiveRate::new(rate).ok()?)).ok()?.plan(keys, None).ok()?;
            Some(Point { at: (rate, plan.block_bytes as f64 * 8.0 / keys as f64), tip: String::new() })
        };
        let style = Style { colour, mark: Mark::Ring, width: 2 };
        Series { name: name.to_owned(), style, form: Form::Line, points: rates.clone().filter_map(bits).collect() }
    };
    [
        line("sstfilter, Bloom", Colour::BLUE, FixedPolicy::bloom),
        line("sstfilter, Ribbon", Colour::INK, FixedPolicy::ribbon),
    ]
}
