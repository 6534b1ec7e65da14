//! The page of a report. It lists only the first items of each list, so that a store of any size gives a short page.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sstfilter_charts::{Chart, Colour, Part, Style, bar};

use super::chart::DRAWN;
use super::levels::{self, LevelRow, unknown};
use super::rates::{self, Rate};
use super::remarks::{Group, Remark};
use super::survey::TableRow;
use super::{Report, sentence};
use crate::advise::tables::{ABOUT_COSTS, COST_COLUMNS, LEVEL_COLUMNS};
use crate::inspect::State;
use crate::left_out::LeftOut;
use crate::output::Column;
use crate::page::{bullets, details, document, escaped, figure, head, links, list, paragraph, section, table};
use crate::probe::distinct_names;
use crate::units::{bytes, counted, grouped, percent};

/// The first line of the document.
pub(super) const FIRST_LINE: &str = "<!DOCTYPE html><!-- made by sstfilter report -->\n";

/// Maximum number of listed tables, and of listed reasons for a state.
const LISTED: usize = 50;

/// Returns the document.
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
    Ok(document(FIRST_LINE, &title(report), &body))
}

/// Returns the title: where the tables are, and the engines that wrote them.
fn title(report: &Report) -> String {
    let folders: BTreeSet<_> = report.per_table.iter().filter_map(|row| Path::new(&row.path).parent()).collect();
    let place = match folders.first() {
        Some(folder) if folders.len() == 1 && !folder.as_os_str().is_empty() => folder.display().to_string(),
        _ => counted(folders.len() as u64, "folder"),
    };
    let engine = |row: &TableRow| match row.overview.format.as_str() {
        "table" => Some("sstfilter".to_owned()),
        format => format.strip_suffix(" table").map(str::to_owned),
    };
    let engines: BTreeSet<_> = report.per_table.iter().filter_map(engine).collect();
    let engines = if engines.is_empty() { String::new() } else { format!(" ({})", Vec::from_iter(engines).join(", ")) };
    format!("Filters of {place}{engines}")
}

fn top(report: &Report) -> String {
    let skipped = match report.skipped.len() as u64 {
        0 => String::new(),
        count => format!("; {}", counted(count, "other file")),
    };
    let facts = [
        ("command", report.command.clone()),
        ("tables", format!("{}, {}{skipped}", grouped(report.tables as u64), bytes(report.bytes))),
        ("entries", report.entries.map_or_else(unknown, grouped)),
        ("filters", bytes(report.filter_bytes)),
        ("bits per key", report.bits_per_key.map_or_else(unknown, |bits| format!("{bits:.2}"))),
        ("date", report.date.clone()),
        ("version", format!("{} {}", report.program, report.version)),
    ];
    let lead =
        "The filters of all tables: their kinds, cost and false positive rates, and the tables that need a look.";
    head(&title(report), lead, facts)
}

/// Returns a note with the number of unlisted items and the command that lists all.
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
        0 => "None: each table has a usable filter.".to_owned(),
        count => format!("{}: {states}. Each item ends with the commands to run first.", counted(count, "table")),
    };
    let further = |title: &str, text: &str, list: String| match list.as_str() {
        "" => String::new(),
        list => format!("<h3>{title}</h3>{}{list}", paragraph(text)),
    };
    let of_fallbacks =
        format!("{} with another kind of filter than requested.", counted(fallbacks.len() as u64, "table"));
    let orphans = match report.orphans.as_slice() {
        [] => String::new(),
        orphans => paths(orphans.iter().map(String::as_str)),
    };
    section("remarks", "Tables that need a look", &text)
        + &remark_list(bad, report)
        + &further("Orphan sidecars", "Their tables are gone, so no reader uses them. Delete them.", orphans)
        + &further("Notes", "Tables whose filter is used.", remark_list(&report.notes, report))
        + &further("Fallbacks", &of_fallbacks, remark_list(fallbacks, report))
}

/// Returns a list with an item for each state and reason. Further reasons are in a list that is closed at first.
fn remark_list(remarks: &[Remark], report: &Report) -> String {
    let list_of_state = |remarks| {
        let groups = Group::of(remarks);
        let items: String = groups.iter().take(LISTED).map(|group| remark(group, &report.words)).collect();
        let further: Vec<_> = groups.iter().skip(LISTED).flat_map(|Group(tables)| tables).collect();
        let lines = further.iter().map(|remark| format!("{}: {}", remark.path, remark.text()));
        let further = match further.len() as u64 {
            0 => String::new(),
            count => details(&counted(count, "more table"), &bullets(lines)),
        };
        format!("<ul class=\"remarks\">{items}</ul>{further}")
    };
    remarks.chunk_by(|one, other| one.state == other.state).map(list_of_state).collect()
}

fn remark(group: &Group<'_>, words: &[String; 2]) -> String {
    let Group(tables) = group;
    let [Remark { path, level, format, state, reason, advice, .. }, others @ ..] = tables.as_slice() else {
        return String::new();
    };
    let (name, level, all) = if others.is_empty() {
        (path.clone(), level.map(|level| format!("level {level}")), String::new())
    } else {
        let count = counted(tables.len() as u64, "table");
        let names = distinct_names(tables.iter().map(|remark| remark.path.as_str()));
        let all = details(&format!("all {count}"), &paths(names.iter().map(String::as_str)));
        (count, None, all)
    };
    let known = [Some(format.clone()), level].into_iter().flatten().filter(|text| !text.is_empty() && *text != "none");
    let known = known.collect::<Vec<_>>().join(", ");
    let code = |command: &String| format!("<code>{}</code>", escaped(command));
    let commands: String = group.commands(words).iter().map(code).collect();
    format!(
        "<li><b>{}</b> <span class=\"{state}\">{state}</span> <span class=\"note\">{}</span>\
         <br/>{}<br/>{} {commands}{all}</li>",
        escaped(&name),
        escaped(&known),
        escaped(reason),
        escaped(advice),
        state = state.name(),
    )
}

fn paths<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    paragraph(&paths.collect::<Vec<_>>().join(", "))
}

fn levels(report: &Report) -> String {
    let is_known = report.levels.iter().any(|row| row.level.is_some());
    let source = if is_known {
        "Levels come from the MANIFEST next to the tables, or from the tables themselves."
    } else {
        "No level is known: neither a table nor a MANIFEST next to the tables records one."
    };
    let text = format!(
        "Bytes of the filters by kind. {source} Useless reads: the mean number of tables that a lookup of an absent key \
         reads."
    );
    let colours = colours(report);
    let legend: String = colours.iter().map(|(kind, colour)| swatch(kind, *colour)).collect();
    let rows = || report.levels.iter().take(LISTED);
    let most = rows().map(|row| row.filter_bytes).max().unwrap_or(0);
    let bars: String = rows().map(|row| level_bar(row, most, &colours)).collect();
    let bars = format!("<div class=\"bars\">{bars}</div><p class=\"legend\">{legend}</p>");
    section("levels", "Filters by level", &text) + &bars + &table(&levels::COLUMNS, rows())
}

/// Returns a colour for each kind of filter that takes bytes.
fn colours(report: &Report) -> BTreeMap<&str, Colour> {
    let kinds = report.levels.iter().flat_map(|row| &row.filters).filter(|kind| kind.bytes > 0);
    let kinds: BTreeSet<_> = kinds.map(|kind| kind.filter.as_str()).collect();
    // By name, so that a kind has the same colour on every level.
    kinds.into_iter().enumerate().map(|(nth, kind)| (kind, Style::nth(nth).colour)).collect()
}

fn swatch(name: &str, colour: Colour) -> String {
    let part = Part { share: 1.0, colour, tip: name.to_owned() };
    format!("<span>{}{}</span>", bar("swatch", &[part]), escaped(name))
}

/// Returns a row of a name, bars and a figure.
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
        "{} Each table is probed for the absent keys between its smallest and its largest key, or for all absent keys if \
         these are unknown. Filters that hold only prefixes are not measured on keys made from stored ones, which share \
         their prefix with a stored key. {}",
        sentence(&report.absent_from),
        rates::ABOUT
    );
    let rows = || report.rates.iter().take(LISTED);
    let rate = |of: &Rate| of.observed_fpr.max(of.expected_fpr.unwrap_or(0.0));
    // Never zero, because bars are shares of it.
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
    let text = "What filters of sstfilter would cost for the same tables, at the same rate or in the same bytes. \
                sstfilter advise --tables prints the same figures.";
    let marks = format!(
        "Each mark is the filter of one table; the largest {DRAWN} are drawn. The lines are sstfilter's filters with the \
         number of keys of the median table."
    );
    let text = if chart.is_some() { format!("{text} {marks}") } else { text.to_owned() };
    let drawn = chart.map(figure).transpose()?.unwrap_or_default();
    let costs = match settings.tables {
        0 => paragraph("No table's filter has a known cost."),
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
    let hint = "To spread the same bytes over the levels so that lookups of absent keys read as little as possible:";
    let hint = format!("<p>{hint} <code>{}</code></p>", escaped(&command));
    format!("<h3>By level</h3>{}{hint}", table(&LEVEL_COLUMNS, levels.iter().take(LISTED)))
}

/// Returns a list of the tables whose cost is not counted.
fn left_out(report: &Report) -> String {
    let left_out = &report.settings.left_out;
    if left_out.is_empty() {
        return String::new();
    }
    let lines = LeftOut::lines(left_out, "left out");
    let more = more(lines.len(), LISTED, &report.command_on_all("advise", " --tables"));
    let summary = format!("{} left out of these figures", counted(left_out.len() as u64, "file"));
    details(&summary, &(bullets(lines.into_iter().take(LISTED)) + &more))
}

/// A table and a name that distinguishes it from the others.
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
