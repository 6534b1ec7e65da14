//! The page of a report. It lists only the first items of each list, so that a store of any size gives a short page.

use core::cmp::Reverse;

use sstfilter::{ConfigError, FalsePositiveRate, FixedPolicy, Sizing};
use sstfilter_charts::{Axis, Chart, Colour, Form, Mark, Point, Series, Style};

use super::run::StoreReport;
use crate::model::costs::TableFilter;
use crate::model::file::FileReport;
use crate::print::html::{document, figure, head, links, list, paragraph, rows, section, whole};
use crate::print::{Extent, Record};
use crate::words::escape::path_name;
use crate::words::units::{counted, grouped, percent};

/// The first line of the document.
pub(super) const FIRST_LINE: &str = "<!DOCTYPE html><!-- made by sstfilter report -->\n";

/// Maximum number of listed files and remarks.
const LISTED: usize = 50;

/// Maximum number of column families whose figures are listed.
const LISTED_FAMILIES: usize = 20;

/// Maximum number of tables in the chart, which is drawn twice on the page.
const DRAWN: usize = 400;

/// Returns the document.
pub(super) fn html(report: &StoreReport) -> anyhow::Result<String> {
    let lead = "The filters of all files: their state, cost and false positive rates, and what to do about them.";
    let facts = [
        ("command", report.command.clone()),
        ("date", report.date.clone()),
        ("version", format!("{} {}", report.program, report.version)),
    ];
    let names = [
        ("remarks", "reasons and what to do"),
        ("families", "levels, rates and costs"),
        ("sizes", "sizes and rates"),
        ("files", "files"),
    ];
    let all = Extent { has_all_items: true, ..Extent::default() };
    let body = [
        head(&report.title, lead, facts),
        links(names),
        list("findings", "What stands out", report.findings.iter().cloned()),
        section("remarks", "Reasons and what to do", "The worst come first. Commands to run first are below each."),
        each(&report.remarks, LISTED, |remark| whole(remark, Extent::default())),
        section("families", "Levels, rates and costs", ABOUT_FIGURES),
        each(&report.families, LISTED_FAMILIES, |family| whole(family, Extent::default())),
        chart(report)?,
        section("files", "Files", "The worst come first, and of these the largest filters."),
        rows(&report.files.iter().take(LISTED).map(|file| file as &dyn Record).collect::<Vec<_>>(), all),
        more(report.files.len(), LISTED),
        report.notes.iter().map(|note| paragraph(note)).collect(),
    ];
    Ok(document(FIRST_LINE, &report.title, &body.concat()))
}

const ABOUT_FIGURES: &str = "Useless reads: tables that a lookup of an absent key reads although they do not have it. \
    Margins are those of 95 % and assume independent probes; keys made from stored ones may be correlated. Costs are \
    those of filters for the same keys; rates are means weighted by keys.";

/// Draws the first items of a list.
fn each<T>(items: &[T], most: usize, draw: impl Fn(&T) -> String) -> String {
    items.iter().take(most).map(draw).collect::<String>() + &more(items.len(), most)
}

fn more(items: usize, listed: usize) -> String {
    match items.saturating_sub(listed) as u64 {
        0 => String::new(),
        more => format!("<p class=\"note\">{} more are in report.json.</p>", grouped(more)),
    }
}

/// Maximum bits per key in the chart: a table of a few keys has hundreds, and would compress all others into a line at
/// the bottom.
const MAX_BITS: f64 = 40.0;

/// Steps of the lines of sstfilter's filters.
const STEPS: u32 = 60;

/// Draws the size and rate of the largest filters, and those of sstfilter's filters of as many keys as the median
/// table.
fn chart(report: &StoreReport) -> anyhow::Result<String> {
    let mut filters: Vec<_> = report.files.iter().filter_map(|file| Some((file, TableFilter::of(file)?))).collect();
    filters.sort_by_key(|(_, filter)| Reverse(filter.bytes));
    filters.truncate(DRAWN);
    let largest = filters.len();
    filters.retain(|(_, filter)| filter.fpr > 0.0 && filter.fpr < 1.0 && filter.bits_per_key() <= MAX_BITS);
    if filters.is_empty() {
        return Ok(section("sizes", "Sizes and rates", "No filter has a known size and rate."));
    }
    // The axis reaches at least from 3 % to 0.33 %, so that a single rate does not fill it.
    let rates = || filters.iter().map(|(_, filter)| filter.fpr);
    let ends = ((rates().fold(0.02, f64::max) * 1.5).min(0.99), rates().fold(0.005, f64::min) / 1.5);
    let max_bits = filters.iter().map(|(_, filter)| filter.bits_per_key()).fold(-ends.1.log2() * 1.3, f64::max);
    let max_bits = (max_bits.min(MAX_BITS) / 5.0).ceil() * 5.0;
    let mut series = by_level(&filters);
    series.extend(lines(&filters, ends));
    let text = format!(
        "Each mark is the filter of one table; the largest {DRAWN} are drawn, but not {} beyond {MAX_BITS} bits per key or \
         without a rate. The lines are sstfilter's filters with the number of keys of the median table.",
        largest - filters.len()
    );
    let title = format!("The filters of {}", counted(filters.len() as u64, "table"));
    let chart = Chart::bits_by_rate(&title, Axis::rates("false positive rate", ends), max_bits, series);
    Ok(section("sizes", "Sizes and rates", &text) + &figure(&chart)?)
}

/// Returns the tables of each level, as marks.
fn by_level(filters: &[(&FileReport, TableFilter)]) -> Vec<Series> {
    let mut levels: Vec<_> = filters.iter().map(|(file, _)| file.place.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let series = |(nth, level): (usize, Option<u32>)| {
        let mut points: Vec<_> = filters
            .iter()
            .filter(|(file, _)| file.place.level == level)
            .map(|(file, filter)| point(file, filter))
            .collect();
        // From left to right: the axis of rates is descending.
        points.sort_by(|left, right| right.at.0.total_cmp(&left.at.0));
        let name = level.map_or_else(|| "unknown level".to_owned(), |level| format!("level {level}"));
        // From the second style on: a line below has the colour of the first.
        Series { name, style: Style::nth(nth + 1), form: Form::Marks, points }
    };
    levels.into_iter().enumerate().map(series).collect()
}

fn point(file: &FileReport, filter: &TableFilter) -> Point {
    let (bits, keys, rate) = (filter.bits_per_key(), grouped(filter.keys), percent(filter.fpr));
    let tip = format!("{}: {keys} keys, {bits:.2} bits per key, {rate}", path_name(&file.path.0));
    Point { at: (filter.fpr, bits), tip }
}

fn lines(filters: &[(&FileReport, TableFilter)], (highest, lowest): (f64, f64)) -> [Series; 2] {
    let mut keys: Vec<_> = filters.iter().map(|(_, filter)| filter.keys).collect();
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
