//! The page. Whatever the number of tables, it has lines for the first of each list alone.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sstfilter_charts::{Chart, Colour, Part, bar};

use super::levels::{self, LevelRow, unknown};
use super::rates::{self, Rate};
use super::remarks::Remark;
use super::survey::TableRow;
use super::{Report, sentence};
use crate::advise::chart::{self, NamedFilter};
use crate::advise::tables::{ABOUT_COSTS, COST_COLUMNS, LEVEL_COLUMNS};
use crate::inspect::State;
use crate::left_out::LeftOut;
use crate::output::Column;
use crate::page::{bullets, details, document, escaped, figure, head, links, list, paragraph, section, table};
use crate::probe::distinct_names;
use crate::units::{bytes, counted, grouped, percent};

/// The first line of the document.
pub(super) const FIRST_LINE: &str = "<!DOCTYPE html><!-- made by sstfilter report -->\n";

/// Tables with a line of their own.
const LISTED: usize = 50;

/// Fallbacks with a line of their own: most are of small tables, for one reason.
const LISTED_FALLBACKS: usize = 10;

/// Tables with a mark in the chart, which has two drawings.
const DRAWN: usize = 400;

/// Colours of the kinds, in their order; further ones begin again.
const COLOURS: [Colour; 8] =
    [Colour::BLUE, Colour::AMBER, Colour::GREEN, Colour::PINK, Colour::NAVY, Colour::BROWN, Colour::SKY, Colour::INK];

/// The largest filters by size and rate, beside those of this library.
pub(super) fn chart(filters: &[NamedFilter]) -> Option<Chart> {
    let mut largest = filters.to_vec();
    largest.sort_by_key(|(_, filter)| Reverse(filter.bytes));
    largest.truncate(DRAWN);
    chart::chart(&largest)
}

/// The document.
pub(super) fn html(report: &Report, chart: Option<&Chart>) -> anyhow::Result<String> {
    let sections = [
        list("findings", "What stands out", report.findings.iter().cloned()),
        remarks(report),
        levels(report),
        rates(report),
        settings(report, chart)?,
        tables(report),
    ];
    let names = [
        ("remarks", "tables that need a look"),
        ("levels", "levels"),
        ("rates", "false positive rates"),
        ("settings", "other settings"),
        ("tables", "largest filters"),
    ];
    let body = top(report) + &links(names) + &sections.concat();
    Ok(document(FIRST_LINE, "The filters of a store", &body))
}

fn top(report: &Report) -> String {
    let skipped = match report.skipped.len() as u64 {
        0 => String::new(),
        count => format!("; {}", counted(count, "other file")),
    };
    let facts = [
        ("command", report.command.clone()),
        ("tables", format!("{}, {}{skipped}", grouped(report.tables as u64), bytes(report.bytes))),
        ("entries", grouped(report.entries)),
        ("filters", bytes(report.filter_bytes)),
        ("bits per key", report.bits_per_key.map_or_else(unknown, |bits| format!("{bits:.2}"))),
        ("date", report.date.clone()),
        ("version", format!("{} {}", report.program, report.version)),
    ];
    let lead = "Which filters the tables have, what they cost, how well they work, and which tables need a look.";
    head("The filters of a store", lead, facts)
}

/// How many more there are than the listed ones, and which command lists all.
fn more(count: usize, listed: usize, command: &str) -> String {
    match count.saturating_sub(listed) as u64 {
        0 => String::new(),
        more => format!("<p class=\"note\">{} more: <code>{}</code></p>", grouped(more), escaped(command)),
    }
}

fn remarks(report: &Report) -> String {
    let (bad, fallbacks) = report.remarks();
    let states = State::counts(bad.iter().map(|remark| remark.state));
    let text = match bad.len() as u64 {
        0 => "None: each table has a filter that can be used.".to_owned(),
        count => format!("{}: {states}. Each ends with the command to run first.", counted(count, "table")),
    };
    let of_fallbacks = match fallbacks.len() as u64 {
        0 => String::new(),
        count => {
            let text = format!("{} with another kind of filter than was requested.", counted(count, "table"));
            format!("<h3>Fallbacks</h3>{}{}", paragraph(&text), remark_list(fallbacks, LISTED_FALLBACKS, report))
        }
    };
    section("remarks", "Tables that need a look", &text) + &remark_list(bad, LISTED, report) + &of_fallbacks
}

/// The first of `remarks`, and how many more there are.
fn remark_list(remarks: &[Remark], listed: usize, report: &Report) -> String {
    if remarks.is_empty() {
        return String::new();
    }
    let items: String = remarks.iter().take(listed).map(remark).collect();
    let more = more(remarks.len(), listed, &report.command_on_all("inspect", ""));
    format!("<ul class=\"remarks\">{items}</ul>{more}")
}

fn remark(remark: &Remark) -> String {
    let Remark { path, level, format, state, reason, advice, commands } = remark;
    let level = level.map(|level| format!("level {level}")).unwrap_or_default();
    let known = [format.as_str(), &level].into_iter().filter(|text| !text.is_empty() && *text != "none");
    let known = known.collect::<Vec<_>>().join(", ");
    let code = |command: &String| format!("<code>{}</code>", escaped(command));
    let commands: String = commands.iter().map(code).collect();
    format!(
        "<li><b>{}</b> <span class=\"{state}\">{state}</span> <span class=\"note\">{}</span>\
         <br/>{}<br/>{} {commands}</li>",
        escaped(path),
        escaped(&known),
        escaped(reason),
        escaped(advice),
        state = state.name(),
    )
}

fn levels(report: &Report) -> String {
    let is_known = report.levels.iter().any(|row| row.level.is_some());
    let source = if is_known {
        "Levels are those that the MANIFEST beside the tables gives, or the tables themselves."
    } else {
        "No level is known: no table says its own, and no MANIFEST beside the tables does."
    };
    let text = format!(
        "Bytes of the filters, by kind. {source} Useless reads: how many tables a lookup of an absent key reads on \
         average."
    );
    let colours = colours(report);
    let legend: String = colours.iter().map(|(kind, colour)| swatch(kind, *colour)).collect();
    let rows = || report.levels.iter().take(LISTED);
    let most = rows().map(|row| row.filter_bytes).max().unwrap_or(0);
    let bars: String = rows().map(|row| level_bar(row, most, &colours)).collect();
    let bars = format!("<div class=\"bars\">{bars}</div><p class=\"legend\">{legend}</p>");
    section("levels", "Filters by level", &text) + &bars + &table(&levels::COLUMNS, rows())
}

/// A colour for each kind of filter that takes bytes.
fn colours(report: &Report) -> BTreeMap<&str, Colour> {
    let kinds = report.levels.iter().flat_map(|row| &row.filters).filter(|kind| kind.bytes > 0);
    let kinds: BTreeSet<_> = kinds.map(|kind| kind.filter.as_str()).collect();
    kinds.into_iter().zip(COLOURS.into_iter().cycle()).collect()
}

fn swatch(name: &str, colour: Colour) -> String {
    let part = Part { share: 1.0, colour, tip: name.to_owned() };
    format!("<span>{}{}</span>", bar("swatch", &[part]), escaped(name))
}

/// A row of bars: its name, the bars, and a figure.
fn bar_row(name: &str, bars: &str, figure: &str) -> String {
    format!("<b>{}</b><div>{bars}</div><span>{}</span>", escaped(name), escaped(figure))
}

fn level_bar(row: &LevelRow, most: u64, colours: &BTreeMap<&str, Colour>) -> String {
    let part = |kind: &levels::KindRow| {
        let (tables, size) = (counted(kind.tables as u64, "table"), bytes(kind.bytes));
        let tip = format!("{}: {tables}, {size}", kind.filter);
        let colour = colours.get(kind.filter.as_str()).copied()?;
        Some(Part { share: kind.bytes as f64 / most.max(1) as f64, colour, tip })
    };
    let parts: Vec<_> = row.filters.iter().filter_map(part).collect();
    bar_row(&format!("level {}", row.name()), &bar("bar", &parts), &bytes(row.filter_bytes))
}

fn rates(report: &Report) -> String {
    let text = format!(
        "{} Each table is probed for the absent keys between its smallest and its largest key; if nothing says those, \
         for all of them. Filters of prefixes alone are not measured on keys that were made: such keys share their prefix \
         with a stored key.",
        sentence(&report.absent_from)
    );
    let rows = || report.rates.iter().take(LISTED);
    let rate = |of: &Rate| of.observed_fpr.max(of.expected_fpr.unwrap_or(0.0));
    let most = rows().map(rate).fold(f64::MIN_POSITIVE, f64::max);
    let bars: String = rows().map(|rate| rate_bars(rate, most)).collect();
    let legend = swatch("measured", Colour::BLUE) + &swatch("expected", Colour::GREY);
    let bars = format!("<div class=\"bars\">{bars}</div><p class=\"legend\">{legend}</p>");
    let figures = if report.rates.is_empty() { String::new() } else { bars + &table(&rates::COLUMNS, rows()) };
    section("rates", "Measured false positive rates", &text) + &figures
}

fn rate_bars(rate: &Rate, most: f64) -> String {
    let line = |rate: f64, colour, name: &str| {
        bar("line", &[Part { share: rate / most, colour, tip: format!("{name}: {}", percent(rate)) }])
    };
    let expected = rate.expected_fpr.map(|rate| line(rate, Colour::GREY, "expected")).unwrap_or_default();
    bar_row(&rate.name(), &(line(rate.observed_fpr, Colour::BLUE, "measured") + &expected), &rate.measured())
}

fn settings(report: &Report, chart: Option<&Chart>) -> anyhow::Result<String> {
    let settings = &report.settings;
    let text = "Filters of sstfilter for the same tables, at the same rate or in the same bytes: the figures of \
                sstfilter advise --tables.";
    let marks = format!(
        "Each mark is the filter of one table; the largest {DRAWN} are drawn. The lines are sstfilter's filters for as \
         many keys as the median table has."
    );
    let text = if chart.is_some() { format!("{text} {marks}") } else { text.to_owned() };
    let drawn = chart.map(figure).transpose()?.unwrap_or_default();
    let costs = match settings.tables {
        0 => paragraph("The cost of no table's filter is known."),
        _ => table(&COST_COLUMNS, &settings.rows()),
    };
    let remarks: String = settings.remarks().map(|remark| paragraph(&remark)).collect();
    let note = format!("<p class=\"note\">{}</p>", escaped(&sentence(ABOUT_COSTS)));
    let section = section("settings", "What other settings would cost", &text);
    Ok(section + &drawn + &costs + &remarks + &costs_by_level(report) + &left_out(report) + &note)
}

fn costs_by_level(report: &Report) -> String {
    let levels = &report.settings.levels;
    if levels.is_empty() {
        return String::new();
    }
    let command = report.command_on_all("advise --levels", " --tables");
    let hint = "The same bytes spread over the levels so that lookups of absent keys read as little as possible:";
    let hint = format!("<p>{hint} <code>{}</code></p>", escaped(&command));
    format!("<h3>By level</h3>{}{hint}", table(&LEVEL_COLUMNS, levels.iter().take(LISTED)))
}

/// The tables that no cost counts.
fn left_out(report: &Report) -> String {
    let left_out = &report.settings.left_out;
    if left_out.is_empty() {
        return String::new();
    }
    let more = more(left_out.len(), LISTED, &report.command_on_all("advise", " --tables"));
    let summary = format!("{} in none of these figures", counted(left_out.len() as u64, "table"));
    details(&summary, &(bullets(left_out.iter().take(LISTED).map(LeftOut::to_string)) + &more))
}

/// A table under a name that tells it from the others.
type Named<'a> = (String, &'a TableRow);

fn tables(report: &Report) -> String {
    let columns: [Column<Named<'_>>; 9] = [
        ("table", |(name, _)| name.clone()),
        ("level", |(_, row)| row.overview.level.map_or_else(unknown, |level| level.to_string())),
        ("entries", |(_, row)| row.overview.entries.map_or_else(unknown, grouped)),
        ("filter", |(_, row)| row.overview.filter.clone()),
        ("filter bytes", |(_, row)| grouped(row.overview.filter_bytes)),
        ("bits per key", |(_, row)| row.overview.bits_per_key.map_or_else(unknown, |bits| format!("{bits:.2}"))),
        ("expected rate", |(_, row)| row.overview.expected_fpr.map_or_else(unknown, percent)),
        ("measured rate", |(_, row)| row.observed_rate.map_or_else(unknown, percent)),
        ("state", |(_, row)| row.overview.state.name().to_owned()),
    ];
    let names = distinct_names(report.per_table.iter().map(|row| row.path.as_str()));
    let mut rows: Vec<Named<'_>> = names.into_iter().zip(&report.per_table).collect();
    rows.sort_by_key(|(_, row)| Reverse(row.overview.filter_bytes));
    rows.truncate(LISTED);
    let listed = counted(rows.len() as u64, "table");
    let text = format!("The {listed} with the largest filters, of {}.", grouped(report.tables as u64));
    let more = more(report.tables, LISTED, &report.command_on_all("inspect", ""));
    section("tables", "Largest filters", &text) + &table(&columns, &rows) + &more
}
