//! The page: one HTML document that needs nothing else.

mod chart;
mod charts;
mod escape;
mod labels;
mod mark;
mod style;
mod svg;
mod tables;

use core::fmt::Write;

use chart::{Chart, Form, Series};
use escape::escaped;
use mark::mark;
use svg::{NARROW, WIDE};

use super::data::Report;
use super::measure::Omission;
use super::measure::by_keys::FigureOf;
use crate::units::{brief_percent, grouped};

/// The document.
pub(super) fn html(report: &Report) -> String {
    let mut page = Page { html: String::new(), charts: 0 };
    page.put("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>");
    page.put("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>");
    page.put("<title>The filter family, measured</title><style>");
    page.put(include_str!("style.css"));
    page.put("</style></head><body><main>");
    head(&mut page, report);
    rates(&mut page, report);
    sizes(&mut page, report);
    times(&mut page, report);
    if !report.overfill.is_empty() {
        overfill(&mut page, report);
    }
    articles(&mut page, report);
    omissions(&mut page, &report.omissions);
    page.put("</main></body></html>\n");
    page.html
}

struct Page {
    html: String,
    /// Charts so far: their number makes identifiers.
    charts: usize,
}

impl Page {
    /// Appends markup.
    fn put(&mut self, markup: &str) {
        self.html.push_str(markup);
    }

    fn section(&mut self, id: &str, title: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.html, "<h2 id=\"{id}\">{}</h2>", escaped(title));
    }

    fn paragraph(&mut self, text: &str) {
        let _ = write!(self.html, "<p>{}</p>", escaped(text));
    }

    /// A chart in both drawings, and the legend that the small one needs.
    fn chart(&mut self, chart: &Chart) {
        self.charts += 1;
        let drawings = [WIDE, NARROW].map(|frame| svg::draw(chart, frame, self.charts));
        let _ = write!(self.html, "<figure>{}{}{}</figure>", drawings[0], drawings[1], legend(chart));
    }

    fn details(&mut self, summary: &str, contents: &str) {
        let _ = write!(self.html, "<details><summary>{}</summary>{contents}</details>", escaped(summary));
    }
}

fn legend(chart: &Chart) -> String {
    let entry = |series: &Series| {
        let broken = if series.form == Form::Broken { " broken" } else { "" };
        let mark = if broken.is_empty() { mark(series.style.mark, (11.0, 7.0), None) } else { String::new() };
        format!(
            "<li class=\"{}\"><svg viewBox=\"0 0 22 14\" aria-hidden=\"true\"><path class=\"line{broken}\" d=\"M1 7H21\"/>{mark}</svg>\
             <span>{}</span></li>",
            series.style.class,
            escaped(&series.name)
        )
    };
    let entries: String = chart.series.iter().filter(|series| !series.name.is_empty()).map(entry).collect();
    format!("<ul class=\"legend\">{entries}</ul>")
}

fn head(page: &mut Page, report: &Report) {
    page.put("<h1>The filter family, measured</h1>");
    page.put("<p class=\"lead\">Sizes, false positive rates and times of every kind of filter that sstfilter has, measured on one machine with the command below.</p>");
    let facts = [
        ("machine", format!("{}, {} cores", report.machine.cpu, report.machine.cores)),
        ("system", report.machine.system.clone()),
        ("instruction set in use", report.machine.instruction_set.to_owned()),
        ("date", report.date.clone()),
        ("version", format!("{} {}", report.program, report.version)),
        ("command", report.command.clone()),
        ("took", format!("{:.0} s", report.seconds)),
    ];
    page.put("<dl class=\"facts\">");
    for (name, value) in facts {
        let _ = write!(page.html, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value));
    }
    page.put("</dl><nav><a href=\"#rates\">rates and sizes</a><a href=\"#sizes\">size by keys</a><a href=\"#times\">times</a>");
    if !report.overfill.is_empty() {
        page.put("<a href=\"#overfill\">beyond the plan</a>");
    }
    page.put("<a href=\"#articles\">the articles\u{2019} numbers</a></nav>");
    page.section("overview", "What stands out");
    page.put("<ul class=\"findings\">");
    for finding in &report.findings {
        let _ = write!(page.html, "<li>{}</li>", escaped(finding));
    }
    page.put("</ul>");
    let most = report.effort.ladder.last().copied().unwrap_or(0);
    page.paragraph(&format!(
        "All filters at {} keys and a rate of {}, hashes given; sizes are of whole blocks:",
        grouped(most),
        brief_percent(report.by_keys_fpr)
    ));
    page.put(&tables::overview(report));
}

fn rates(page: &mut Page, report: &Report) {
    page.section("rates", "False positive rate and size");
    page.paragraph(&format!(
        "Further right lets fewer absent keys through, further down takes less memory. Each mark is a filter of {} keys \
         that was asked for up to {} absent ones. No filter can be below the broken line, log2(1/rate).",
        grouped(report.effort.rate_keys),
        grouped(report.effort.most_probes)
    ));
    page.chart(&charts::rates(report));
    page.details("The figures", &tables::rates(report));
}

fn sizes(page: &mut Page, report: &Report) {
    page.section("sizes", "Size by the number of keys");
    let has_two_bit = report.filters.iter().any(|filter| filter.name == "two-bit Bloom");
    let two_bit = if has_two_bit { " Two-bit filters have powers of two as sizes: some fit, some do not." } else { "" };
    page.paragraph(&format!(
        "Bits per key of whole blocks at a rate of {}, trailers included: small filters pay for their trailer and for \
         what is rounded up.{two_bit}",
        brief_percent(report.by_keys_fpr)
    ));
    page.chart(&charts::sizes(report));
    page.details("The figures: bits per key", &tables::by_keys(report, 2, |point| point.bits_per_key));
}

fn times(page: &mut Page, report: &Report) {
    page.section("times", "Time by the number of keys");
    page.paragraph(&format!(
        "Nanoseconds per key at a rate of {}, hashes given, one core; the best of {} repetitions in which the filters \
         took turns. Times are of this machine and of this hour; ratios carry over better than figures.",
        brief_percent(report.by_keys_fpr),
        report.effort.repetitions
    ));
    let figures: [(&str, FigureOf); 3] = [
        ("Building, from hashes to the finished filter", |point| point.build_ns_per_key),
        ("Asking for absent keys, one by one", |point| point.query_one_ns),
        ("Asking for absent keys, in one batch", |point| point.query_batch_ns),
    ];
    for (title, of) in figures {
        let _ = write!(page.html, "<h3>{title}</h3>");
        page.chart(&charts::times(report, of));
        page.details("The figures: ns per key", &tables::by_keys(report, 2, of));
    }
}

fn overfill(page: &mut Page, report: &Report) {
    page.section("overfill", "More keys than planned");
    page.paragraph(&format!(
        "Filters that take keys while they are in use, planned for {} keys at {} and offered up to three times as many. \
         A ring is where a filter first says that it has passed a limit.",
        grouped(report.effort.overfill_keys),
        brief_percent(report.overfill_fpr)
    ));
    page.put("<h3>Fill</h3>");
    page.chart(&charts::fills(report));
    page.put("<h3>False positive rate: observed as marks, expected by the filter itself as a line</h3>");
    page.chart(&charts::overfill_rates(report));
    page.details("The figures", &tables::overfill(report));
}

fn articles(page: &mut Page, report: &Report) {
    page.section("articles", "The articles\u{2019} numbers, reproduced");
    page.paragraph(
        "What articles about these filters publish, and what this library gives for the same question. What \
         stands under \u{201c}measured here\u{201d} is of this run: measured, or computed where the last column says so.",
    );
    page.put(&tables::articles(&report.articles));
}

fn omissions(page: &mut Page, omissions: &[Omission]) {
    if omissions.is_empty() {
        return;
    }
    page.section("omissions", "Left out");
    page.put("<ul class=\"findings\">");
    for omission in omissions {
        let text = format!("{} at {}: {}", omission.filter, omission.at, omission.reason);
        let _ = write!(page.html, "<li>{}</li>", escaped(&text));
    }
    page.put("</ul>");
}

#[cfg(test)]
mod tests;
