//! The figures as HTML tables.

use super::escaped;
use crate::output::Column;
use crate::report::measure::by_keys::{self, FigureOf, KeysPoint};
use crate::report::measure::overfill::OverfillPoint;
use crate::report::measure::rates::RatePoint;
use crate::report::{Family, FilterInfo};
use crate::units::{brief_percent, grouped, percent};

/// A table of `rows`, whose first column names what the others are figures of.
pub(super) fn table<T>(columns: &[Column<T>], rows: &[T]) -> String {
    let rows = rows.iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect());
    markup(columns.iter().map(|(title, _)| (*title).to_owned()), rows)
}

fn markup(header: impl Iterator<Item = String>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let cell = |tag: &str, text: &str| format!("<{tag}>{}</{tag}>", escaped(text));
    let header: String = header.map(|title| cell("th", &title)).collect();
    let row = |row: Vec<String>| format!("<tr>{}</tr>", row.iter().map(|text| cell("td", text)).collect::<String>());
    let rows: String = rows.map(row).collect();
    format!("<div class=\"scroll\"><table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>")
}

const NO_FIGURE: &str = "\u{2013}";

/// Every filter at its largest, in one line each.
pub(super) fn overview(family: &Family) -> String {
    type Largest<'a> = (&'a FilterInfo, Option<&'a KeysPoint>);
    fn figure(largest: &Largest<'_>, of: FigureOf) -> String {
        largest.1.map_or_else(|| NO_FIGURE.to_owned(), |point| format!("{:.1}", of(point)))
    }
    fn yes_no(is: bool) -> String {
        if is { "yes" } else { "no" }.to_owned()
    }
    let columns: [Column<Largest<'_>>; 8] = [
        ("filter", |(filter, _)| filter.name.to_owned()),
        ("bits per key", |(_, point)| point.map_or(NO_FIGURE.to_owned(), |point| format!("{:.2}", point.bits_per_key))),
        ("above the bound, %", |filter| figure(filter, |point| (point.bits_per_key / by_keys::BOUND - 1.0) * 100.0)),
        ("build, ns", |filter| figure(filter, |point| point.build_ns_per_key)),
        ("probe one, ns", |filter| figure(filter, |point| point.query_one_ns)),
        ("probe batch, ns", |filter| figure(filter, |point| point.query_batch_ns)),
        ("takes keys later", |(filter, _)| yes_no(filter.grows)),
        ("removes keys", |(filter, _)| yes_no(filter.removes)),
    ];
    let most = family.by_keys.iter().map(|point| point.keys).max().unwrap_or(0);
    let largest = family.filters.iter().map(|filter| (filter, family.point(filter, most)));
    table(&columns, &largest.collect::<Vec<_>>())
}

/// Bits per key and the observed rate, by filter and the target rate.
pub(super) fn rates(family: &Family) -> String {
    let columns: [Column<RatePoint>; 7] = [
        ("filter", |point| point.filter.to_owned()),
        ("target", |point| brief_percent(point.target_fpr)),
        ("bits per key", |point| format!("{:.2}", point.bits_per_key)),
        ("bound", |point| format!("{:.2}", -point.expected_fpr.log2())),
        ("observed", |point| percent(point.observed_fpr)),
        ("expected", |point| percent(point.expected_fpr)),
        ("absent keys probed", |point| grouped(point.probes)),
    ];
    table(&columns, &family.rates)
}

/// One figure by filter and number of keys.
pub(super) fn by_keys(family: &Family, of: FigureOf) -> String {
    let ladder = &family.effort.ladder;
    let row = |filter: &FilterInfo| {
        let figure = |&keys: &u64| {
            family.point(filter, keys).map_or_else(|| NO_FIGURE.to_owned(), |point| format!("{:.2}", of(point)))
        };
        std::iter::once(filter.name.to_owned()).chain(ladder.iter().map(figure)).collect()
    };
    let sizes = ladder.iter().map(|&keys| grouped(keys));
    markup(std::iter::once("filter".to_owned()).chain(sizes), family.filters.iter().map(row))
}

/// Fill and rates at every look.
pub(super) fn overfill(family: &Family) -> String {
    let columns: [Column<OverfillPoint>; 8] = [
        ("filter", |point| point.filter.to_owned()),
        ("offered", |point| format!("{} %", point.offered_percent)),
        ("keys", |point| grouped(point.offered_keys)),
        ("refused", |point| grouped(point.refused_keys)),
        ("fill", |point| format!("{:.1} %", point.fill_ratio * 100.0)),
        ("expected", |point| percent(point.expected_fpr)),
        ("observed", |point| percent(point.observed_fpr)),
        ("alarms", |point| point.alarms.join(", ")),
    ];
    table(&columns, &family.overfill)
}
