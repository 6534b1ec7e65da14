//! The page: one HTML document that needs nothing else.

mod charts;
mod tables;

use sstfilter_charts::{Chart, Frame, css};

use super::measure::{self, FigureOf, Omission};
use super::own_keys::OwnKeys;
use super::{Family, Figures, Report, overfill};
use crate::units::{brief_percent, grouped};

/// The document.
pub(super) fn html(report: &Report) -> anyhow::Result<String> {
    let mut page = Page(format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>The filter family, measured</title><style>{}{}</style></head><body><main>",
        include_str!("style.css"),
        css()
    ));
    head(&mut page, report);
    match &report.figures {
        Figures::OwnKeys(own) => own_keys(&mut page, own),
        Figures::Family(family) => {
            overview(&mut page, family);
            rates(&mut page, family)?;
            sizes(&mut page, family)?;
            times(&mut page, family)?;
            overfill(&mut page, family)?;
        }
    }
    if !report.omissions.is_empty() {
        let text = |one: &Omission| format!("{} at {}: {}", one.filter, one.at, one.reason);
        page.list("omissions", "Left out", report.omissions.iter().map(text));
    }
    page.put("</main></body></html>\n");
    Ok(page.0)
}

/// The markup so far.
struct Page(String);

impl Page {
    /// Appends markup.
    fn put(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    fn section(&mut self, id: &str, title: &str) {
        self.put(&format!("<h2 id=\"{id}\">{}</h2>", escaped(title)));
    }

    fn paragraph(&mut self, text: &str) {
        self.put(&format!("<p>{}</p>", escaped(text)));
    }

    /// A section that is a list.
    fn list(&mut self, id: &str, title: &str, items: impl Iterator<Item = String>) {
        self.section(id, title);
        self.put("<ul class=\"findings\">");
        items.for_each(|item| self.put(&format!("<li>{}</li>", escaped(&item))));
        self.put("</ul>");
    }

    /// A chart in two drawings, of which the style sheet shows one.
    fn chart(&mut self, chart: &Chart) -> anyhow::Result<()> {
        let draw = |frame| chart.svg(frame).map_err(anyhow::Error::from_boxed);
        self.put(&format!("<figure>{}{}</figure>", draw(Frame::WIDE)?, draw(Frame::NARROW)?));
        Ok(())
    }

    fn details(&mut self, summary: &str, contents: &str) {
        self.put(&format!("<details><summary>{}</summary>{contents}</details>", escaped(summary)));
    }
}

fn head(page: &mut Page, report: &Report) {
    page.put("<h1>The filter family, measured</h1>");
    page.put("<p class=\"lead\">Sizes, false positive rates and times of every kind of filter that sstfilter has, measured on one machine with the command below.</p>");
    let facts = [
        ("machine", format!("{}, {} cores", report.machine.cpu, report.machine.cores)),
        ("system", report.machine.system.clone()),
        ("compiler", report.machine.rustc.clone()),
        ("instruction set in use", report.machine.kernels.clone()),
        ("date", report.date.clone()),
        ("version", format!("{} {}", report.program, report.version)),
        ("command", report.command.clone()),
        ("took", format!("{:.0} s", report.seconds)),
    ];
    let fact = |(name, value): (&str, String)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value));
    page.put(&format!("<dl class=\"facts\">{}</dl>", facts.map(fact).concat()));
    page.list("findings", "What stands out", report.findings.iter().cloned());
}

fn own_keys(page: &mut Page, own: &OwnKeys) {
    page.section("own-keys", "Filters of your keys");
    page.paragraph(&format!(
        "All filters hold {} keys at a rate of {}. Rates are observed on {} absent keys ({}).",
        grouped(own.keys),
        brief_percent(own.target_fpr),
        grouped(own.absent_keys),
        own.absent_from
    ));
    page.put(&tables::table(&OwnKeys::COLUMNS, &own.figures));
}

fn overview(page: &mut Page, family: &Family) {
    page.put("<nav><a href=\"#rates\">rates and sizes</a><a href=\"#sizes\">size by keys</a><a href=\"#times\">times</a><a href=\"#overfill\">beyond the plan</a></nav>");
    let most = family.effort.ladder.last().copied().unwrap_or(0);
    page.paragraph(&format!(
        "All filters at {} keys and a rate of {}, hashes given; sizes are of whole blocks:",
        grouped(most),
        brief_percent(measure::RATE)
    ));
    page.put(&tables::overview(family));
}

fn rates(page: &mut Page, family: &Family) -> anyhow::Result<()> {
    page.section("rates", "False positive rate and size");
    page.paragraph(&format!(
        "Further right is a lower rate, further down less memory. Each mark is a filter of {} keys, probed for up to {} \
         absent ones. No filter can be below the broken line, log2(1/rate).",
        grouped(family.effort.rate_keys),
        grouped(family.effort.most_probes)
    ));
    page.chart(&charts::rates(family))?;
    page.details("The figures", &tables::rates(family));
    Ok(())
}

fn sizes(page: &mut Page, family: &Family) -> anyhow::Result<()> {
    page.section("sizes", "Size by the number of keys");
    page.paragraph(&format!(
        "Bits per key of whole blocks at a rate of {}, trailers included: small filters pay for their trailer and for \
         what is rounded up. Register-blocked Bloom filters have powers of two as sizes: some fit, some do not.",
        brief_percent(measure::RATE)
    ));
    page.chart(&charts::sizes(family))?;
    page.details("The figures: bits per key", &tables::by_keys(family, |point| point.size.bits_per_key));
    Ok(())
}

fn times(page: &mut Page, family: &Family) -> anyhow::Result<()> {
    page.section("times", "Time by the number of keys");
    page.paragraph(&format!(
        "Nanoseconds per key at a rate of {}, hashes given, one core; the best of {} repetitions in which the filters \
         took turns. Times are of this machine and of this hour; ratios carry over better than figures.",
        brief_percent(measure::RATE),
        family.effort.repetitions
    ));
    let figures: [(&str, FigureOf); 3] = [
        ("Building, from hashes to the finished filter", |point| point.build_ns_per_key),
        ("Probing for absent keys, one by one", |point| point.query_one_ns),
        ("Probing for absent keys, in one batch", |point| point.query_batch_ns),
    ];
    for (title, of) in figures {
        page.put(&format!("<h3>{title}</h3>"));
        page.chart(&charts::times(family, of))?;
        page.details("The figures: ns per key", &tables::by_keys(family, of));
    }
    Ok(())
}

fn overfill(page: &mut Page, family: &Family) -> anyhow::Result<()> {
    page.section("overfill", "More keys than planned");
    page.paragraph(&format!(
        "Filters that take keys while they are in use, planned for {} keys at {} and offered up to three times as many. \
         A ring is where a filter first says that it has passed a limit.",
        grouped(family.effort.overfill_keys),
        brief_percent(overfill::RATE)
    ));
    page.put("<h3>Fill</h3>");
    page.chart(&charts::fills(family))?;
    page.put("<h3>False positive rate: observed as marks, expected by the filter itself as a line</h3>");
    page.chart(&charts::overfill_rates(family))?;
    page.details("The figures", &tables::overfill(family));
    Ok(())
}

/// `text` with the characters that mean something in markup written as entities, and no line break before a `%`.
fn escaped(text: &str) -> String {
    let text = text.replace(" %", "\u{a0}%").replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
