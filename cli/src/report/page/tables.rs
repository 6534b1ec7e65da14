//! The figures as HTML tables.

use core::fmt::Write;

use super::escape::escaped;
use crate::report::articles::{Row, Verdict};
use crate::report::data::Report;
use crate::report::measure::by_keys::{FigureOf, KeysPoint};
use crate::report::measure::rates::SETTINGS;
use crate::units::{brief_percent, grouped, percent};

/// A table whose first column names what the others are figures of.
struct Table {
    html: String,
}

impl Table {
    fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        let begin = "<div class=\"scroll\"><table><thead><tr>".to_owned();
        let html = header.into_iter().fold(begin, |html, name| html + "<th>" + &escaped(name) + "</th>");
        Self { html: html + "</tr></thead><tbody>" }
    }

    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.html.push_str("<tr>");
        for cell in cells {
            self.html.push_str("<td>");
            self.html.push_str(&escaped(&cell));
            self.html.push_str("</td>");
        }
        self.html.push_str("</tr>");
    }

    fn finish(self) -> String {
        self.html + "</tbody></table></div>"
    }
}

const NO_FIGURE: &str = "\u{2013}";

/// Every filter at its largest, in one line each.
pub(super) fn overview(report: &Report) -> String {
    let most = report.by_keys.iter().map(|point| point.keys).max().unwrap_or(0);
    let header = [
        "filter",
        "bits per key",
        "above the bound",
        "build, ns",
        "ask one, ns",
        "ask in batch, ns",
        "takes keys later",
        "removes keys",
    ];
    let mut table = Table::new(header);
    let bound = -report.by_keys_fpr.log2();
    let yes_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
    for filter in &report.filters {
        let figures = report.by_keys.iter().find(|point| point.filter == filter.name && point.keys == most);
        let figure = |of: &dyn Fn(&KeysPoint) -> String| figures.map_or_else(|| NO_FIGURE.to_owned(), of);
        table.row([
            filter.name.to_owned(),
            figure(&|point| format!("{:.2}", point.bits_per_key)),
            figure(&|point| format!("{:.1} %", (point.bits_per_key / bound - 1.0) * 100.0)),
            figure(&|point| format!("{:.1}", point.build_ns_per_key)),
            figure(&|point| format!("{:.1}", point.query_one_ns)),
            figure(&|point| format!("{:.1}", point.query_batch_ns)),
            yes_no(filter.grows),
            yes_no(filter.removes),
        ]);
    }
    table.finish()
}

/// Bits per key and the observed rate, by filter and the rate asked for.
pub(super) fn rates(report: &Report) -> String {
    let header = ["filter", "asked", "bits per key", "bound", "observed", "expected", "absent keys asked"];
    let mut table = Table::new(header);
    for point in &report.rates {
        table.row([
            point.filter.to_owned(),
            brief_percent(point.asked_fpr),
            format!("{:.2}", point.bits_per_key),
            format!("{:.2}", -point.expected_fpr.log2()),
            percent(point.observed_fpr),
            percent(point.expected_fpr),
            grouped(point.probes),
        ]);
    }
    debug_assert!(report.rates.len() <= report.filters.len() * SETTINGS.len());
    table.finish()
}

/// One figure by filter and number of keys.
pub(super) fn by_keys(report: &Report, decimals: usize, of: FigureOf) -> String {
    let sizes: Vec<_> = report.effort.ladder.iter().map(|&keys| grouped(keys)).collect();
    let mut table = Table::new(std::iter::once("filter").chain(sizes.iter().map(String::as_str)));
    for filter in &report.filters {
        let figure = |&keys: &u64| {
            let point = report.by_keys.iter().find(|point| point.filter == filter.name && point.keys == keys);
            point.map_or_else(|| NO_FIGURE.to_owned(), |point| format!("{:.decimals$}", of(point)))
        };
        table.row(std::iter::once(filter.name.to_owned()).chain(report.effort.ladder.iter().map(figure)));
    }
    table.finish()
}

/// Fill and rates at every look.
pub(super) fn overfill(report: &Report) -> String {
    let header = ["filter", "offered", "keys", "refused", "fill", "expected", "observed", "alarms"];
    let mut table = Table::new(header);
    for point in &report.overfill {
        table.row([
            point.filter.to_owned(),
            format!("{} %", point.offered_percent),
            grouped(point.offered_keys),
            grouped(point.refused_keys),
            format!("{:.1} %", point.fill_ratio * 100.0),
            percent(point.expected_fpr),
            percent(point.observed_fpr),
            point.alarms.join(", "),
        ]);
    }
    table.finish()
}

/// The articles' figures beside ours, grouped by article.
pub(super) fn articles(rows: &[Row]) -> String {
    let mut html = String::new();
    for (position, row) in rows.iter().enumerate() {
        let is_first = position == 0 || rows.get(position - 1).is_some_and(|above| above.article != row.article);
        if is_first {
            let end = if position > 0 { "</tbody></table></div>" } else { "" };
            // Writing to a string does not fail.
            let _ = write!(
                html,
                "{end}<h3>{}</h3><div class=\"scroll articles\"><table><thead><tr><th>figure</th>\
                 <th class=\"tight\">published</th><th class=\"tight\">measured here</th><th class=\"tight\">verdict</th>\
                 <th class=\"text\">what is right</th></tr></thead><tbody>",
                escaped(row.article)
            );
        }
        let _ = write!(
            html,
            "<tr><td class=\"tight\"><strong>{}</strong></td><td class=\"tight\" data-name=\"published\">{}</td>\
             <td class=\"tight\" data-name=\"measured here\">{}</td><td class=\"tight\">{}</td><td class=\"text\">{}</td></tr>",
            escaped(&row.what),
            escaped(&row.published),
            escaped(&row.ours),
            verdict(row.verdict),
            escaped(&row.right)
        );
    }
    if rows.is_empty() { html } else { html + "</tbody></table></div>" }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "<span class=\"holds\">\u{2713} holds</span>",
        Verdict::Unpublished => "beside it",
        Verdict::Differs => "<span class=\"differs\">\u{2260} differs</span>",
    }
}
