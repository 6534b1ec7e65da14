//! The figures as HTML tables.

use core::iter;

use super::escaped;
use crate::output::Column;
use crate::report::measure::{self, FigureOf, KeysPoint, RatePoint};
use crate::report::overfill::OverfillPoint;
use crate::report::{Family, FilterInfo};
use crate::units::{brief_percent, grouped, percent};

/// A table of `rows`, whose first column names what the others are figures of.
pub(super) fn table<T>(columns: &[Column<T>], rows: &[T]) -> String {
    let rows = rows.iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect());
    markup(columns.iter().map(|(title, _)| *title), rows)
}

fn markup(header: impl IntoIterator<Item = impl AsRef<str>>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let cell = |tag: &str, text: &str| format!("<{tag}>{}</{tag}>", escaped(text));
    let header: String = header.into_iter().map(|title| cell("th", title.as_ref())).collect();
    let row = |row: Vec<String>| format!("<tr>{}</tr>", row.iter().map(|text| cell("td", text)).collect::<String>());
    let rows: String = rows.map(row).collect();
    format!("<div class=\"scroll\"><table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>")
}

/// A figure with the given number of decimals, or a dash where there is none.
fn figure(point: Option<&KeysPoint>, decimals: usize, of: FigureOf) -> String {
    point.map_or_else(|| "\u{2013}".to_owned(), |point| format!("{:.decimals$}", of(point)))
}

/// Every filter at its largest, in one line each.
pub(super) fn overview(family: &Family) -> String {
    let header = [
        "filter",
        "bits per key",
        "above the bound, %",
        "build, ns",
        "probe one, ns",
        "probe batch, ns",
        "takes keys later",
        "removes keys",
    ];
    let most = family.by_keys.iter().map(|point| point.size.keys).max().unwrap_or(0);
    let yes_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let row = |filter: &FilterInfo| {
        let point = family.point(filter, most);
        vec![
            filter.name.to_owned(),
            figure(point, 2, |point| point.size.bits_per_key),
            figure(point, 1, |point| (point.size.bits_per_key / measure::BOUND - 1.0) * 100.0),
            figure(point, 1, |point| point.times.build_ns_per_key),
            figure(point, 1, |point| point.times.query_one_ns),
            figure(point, 1, |point| point.times.query_batch_ns),
            yes_no(filter.grows),
            yes_no(filter.removes),
        ]
    };
    markup(header, family.filters.iter().map(row))
}

/// Bits per key and the observed rate, by filter and the target rate.
pub(super) fn rates(family: &Family) -> String {
    let columns: [Column<RatePoint>; 7] = [
        ("filter", |point| point.size.filter.to_owned()),
        ("target", |point| brief_percent(point.size.target_fpr)),
        ("bits per key", |point| format!("{:.2}", point.size.bits_per_key)),
        ("bound", |point| format!("{:.2}", -point.size.expected_fpr.log2())),
        ("observed", |point| percent(point.observed_fpr)),
        ("expected", |point| percent(point.size.expected_fpr)),
        ("absent keys probed", |point| grouped(point.probes)),
    ];
    table(&columns, &family.rates)
}

/// One figure by filter and number of keys.
pub(super) fn by_keys(family: &Family, of: FigureOf) -> String {
    let ladder = &family.effort.ladder;
    let row = |filter: &FilterInfo| {
        let figures = ladder.iter().map(|&keys| figure(family.point(filter, keys), 2, of));
        iter::once(filter.name.to_owned()).chain(figures).collect()
    };
    let sizes = ladder.iter().map(|&keys| grouped(keys));
    markup(iter::once("filter".to_owned()).chain(sizes), family.filters.iter().map(row))
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
