//! The figures as HTML tables.

use core::iter;

use crate::measure::kinds::{self, FigureOf, KeysPoint, RatePoint};
use crate::measure::overfill::OverfillPoint;
use crate::measure::{Family, FilterInfo};
use crate::output::Column;
use crate::page::{table, table_of_cells};
use crate::units::{brief_percent, grouped, percent};

/// Formats a figure with the given number of decimals, or a dash if there is none.
fn figure(point: Option<&KeysPoint>, decimals: usize, of: FigureOf) -> String {
    point.map_or_else(|| "\u{2013}".to_owned(), |point| format!("{:.decimals$}", of(point)))
}

/// Returns a table of every filter with the most keys, one line each.
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
    // Of the figures and not of the ladder: at its end, no kind may have a figure.
    let most = family.by_keys.iter().map(|point| point.size.keys).max().unwrap_or(0);
    let yes_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let row = |filter: &FilterInfo| {
        let point = family.point(filter, most);
        vec![
            filter.name.to_owned(),
            figure(point, 2, |point| point.size.bits_per_key),
            figure(point, 1, |point| (point.size.bits_per_key / kinds::BOUND - 1.0) * 100.0),
            figure(point, 1, |point| point.times.build_ns_per_key),
            figure(point, 1, |point| point.times.query_one_ns),
            figure(point, 1, |point| point.times.query_batch_ns),
            yes_no(filter.grows),
            yes_no(filter.removes),
        ]
    };
    table_of_cells(header, family.filters.iter().map(row))
}

/// Returns a table of bits per key and observed rates, by filter and target rate.
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

/// Returns a table of one figure by filter and number of keys.
pub(super) fn by_keys(family: &Family, of: FigureOf) -> String {
    let ladder = &family.effort.ladder;
    let row = |filter: &FilterInfo| {
        let figures = ladder.iter().map(|&keys| figure(family.point(filter, keys), 2, of));
        iter::once(filter.name.to_owned()).chain(figures).collect()
    };
    let sizes = ladder.iter().map(|&keys| grouped(keys));
    table_of_cells(iter::once("filter".to_owned()).chain(sizes), family.filters.iter().map(row))
}

/// Returns a table of fill and rates at every measurement.
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
