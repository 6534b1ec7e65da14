//! The page: one HTML document that needs nothing else.

mod charts;
mod tables;

use sstfilter_charts::{Chart, Frame, css};

use super::measure::{self, FigureOf};
use super::{Family, Report, overfill};
use crate::filters::Omission;
use crate::units::{brief_percent, grouped};

/// The first line of the document.
pub(super) const FIRST_LINE: &str = "<!DOCTYPE html><!-- made by sstfilter report -->\n";

/// The document.
pub(super) fn html(report: &Report) -> anyhow::Result<String> {
    let family = &report.family;
    let figures = overview(family) + &rates(family)? + &sizes(family)? + &times(family)? + &overfill(family)?;
    let omission = |one: &Omission| format!("{} at {}: {}", one.filter, one.at, one.reason);
    let omissions = match &report.omissions[..] {
        [] => String::new(),
        some => list("omissions", "Left out", some.iter().map(omission)),
    };
    let (page_style, charts_style, head) = (include_str!("style.css"), css(), head(report));
    Ok(format!(
        "{FIRST_LINE}<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>The filter family, measured</title><style>{page_style}{charts_style}</style></head><body><main>\
         {head}{figures}{omissions}</main></body></html>\n"
    ))
}

fn section(id: &str, title: &str, text: &str) -> String {
    format!("<h2 id=\"{id}\">{}</h2><p>{}</p>", escaped(title), escaped(text))
}

/// A section that is a list.
fn list(id: &str, title: &str, items: impl Iterator<Item = String>) -> String {
    let items: Vec<_> = items.map(|item| format!("<li>{}</li>", escaped(&item))).collect();
    format!("<h2 id=\"{id}\">{}</h2><ul class=\"findings\">{}</ul>", escaped(title), items.concat())
}

/// A chart in two drawings, of which the style sheet shows one.
fn figure(chart: &Chart) -> anyhow::Result<String> {
    let draw = |frame| chart.svg(frame).map_err(anyhow::Error::from_boxed);
    Ok(format!("<figure>{}{}</figure>", draw(Frame::WIDE)?, draw(Frame::NARROW)?))
}

fn details(summary: &str, table: &str) -> String {
    format!("<details><summary>{summary}</summary>{table}</details>")
}

fn head(report: &Report) -> String {
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
    format!(
        "<h1>The filter family, measured</h1><p class=\"lead\">Sizes, false positive rates and times of every kind of \
         filter that sstfilter has, measured on one machine with the command below.</p><dl class=\"facts\">{}</dl>{}",
        facts.map(fact).concat(),
        list("findings", "What stands out", report.findings.iter().cloned())
    )
}

fn overview(family: &Family) -> String {
    let most = family.effort.ladder.last().copied().unwrap_or(0);
    let (keys, rate) = (grouped(most), brief_percent(measure::RATE));
    let text = format!("All filters at {keys} keys and a rate of {rate}, hashes given; sizes are of whole blocks:");
    let (text, table) = (escaped(&text), tables::overview(family));
    format!(
        "<nav><a href=\"#rates\">rates and sizes</a><a href=\"#sizes\">size by keys</a><a href=\"#times\">times</a>\
         <a href=\"#overfill\">beyond the plan</a></nav><p>{text}</p>{table}"
    )
}

fn rates(family: &Family) -> anyhow::Result<String> {
    let (keys, probes) = (grouped(family.effort.rate_keys), grouped(family.effort.max_probes));
    let text = format!(
        "Further right is a lower rate, further down less memory. Each mark is a filter of {keys} keys, probed for up to \
         {probes} absent ones. No filter can be below the broken line, log2(1/rate)."
    );
    let chart = figure(&charts::rates(family))?;
    let details = details("The figures", &tables::rates(family));
    Ok(section("rates", "False positive rate and size", &text) + &chart + &details)
}

fn sizes(family: &Family) -> anyhow::Result<String> {
    let text = format!(
        "Bits per key of whole blocks at a rate of {}, trailers included: small filters pay for their trailer and for \
         what is rounded up. Register-blocked Bloom filters have powers of two as sizes: some fit, some do not.",
        brief_percent(measure::RATE)
    );
    let chart = figure(&charts::sizes(family))?;
    let details = details("The figures: bits per key", &tables::by_keys(family, |point| point.size.bits_per_key));
    Ok(section("sizes", "Size by the number of keys", &text) + &chart + &details)
}

fn times(family: &Family) -> anyhow::Result<String> {
    let (rate, repetitions) = (brief_percent(measure::RATE), family.effort.repetitions);
    let text = format!(
        "Nanoseconds per key at a rate of {rate}, hashes given, one core; the best of {repetitions} repetitions in which \
         the filters took turns. Times are of this machine and of this hour; ratios carry over better than figures."
    );
    let figures: [(&str, FigureOf); 3] = [
        ("Building, from hashes to the finished filter", |point| point.times.build_ns_per_key),
        ("Probing for absent keys, one by one", |point| point.times.query_one_ns),
        ("Probing for absent keys, in one batch", |point| point.times.query_batch_ns),
    ];
    let mut html = section("times", "Time by the number of keys", &text);
    for (title, of) in figures {
        let details = details("The figures: ns per key", &tables::by_keys(family, of));
        let chart = charts::by_keys(family, "nanoseconds per key", of, "ns per key");
        html.extend([format!("<h3>{title}</h3>"), figure(&chart)?, details]);
    }
    Ok(html)
}

fn overfill(family: &Family) -> anyhow::Result<String> {
    let (keys, rate) = (grouped(family.effort.overfill_keys), brief_percent(overfill::RATE));
    let text = format!(
        "Filters that take keys while they are in use, planned for {keys} keys at {rate} and offered up to three times as \
         many. A ring is where a filter first says that it has passed a limit."
    );
    let (fills, rates) = (figure(&charts::fills(family))?, figure(&charts::overfill_rates(family))?);
    let charts = format!(
        "<h3>Fill</h3>{fills}\
         <h3>False positive rate: observed as marks, expected by the filter itself as a line</h3>{rates}"
    );
    let details = details("The figures", &tables::overfill(family));
    Ok(section("overfill", "More keys than planned", &text) + &charts + &details)
}

/// `text` for the page, without a line break before a `%`.
fn escaped(text: &str) -> String {
    sstfilter_charts::escaped(&text.replace(" %", "\u{a0}%"))
}

#[cfg(test)]
mod tests;
