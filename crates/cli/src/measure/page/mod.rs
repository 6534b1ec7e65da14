//! The page of a measurement.

mod charts;
mod tables;

use super::kinds::{self, FigureOf};
use super::{Family, Report, overfill};
use crate::filters::Omission;
use crate::page::{details, document, figure, links, list, paragraph, section};
use crate::units::{brief_percent, grouped};

/// The first line of the document.
pub(super) const FIRST_LINE: &str = "<!DOCTYPE html><!-- made by sstfilter measure -->\n";

const TITLE: &str = "The filter family, measured";

/// Returns the document.
pub(super) fn html(report: &Report) -> anyhow::Result<String> {
    let family = &report.family;
    let figures = overview(family) + &rates(family)? + &sizes(family)? + &times(family)? + &overfill(family)?;
    let omission = |one: &Omission| format!("{} at {}: {}", one.filter, one.at, one.reason);
    let omissions = match &report.omissions[..] {
        [] => String::new(),
        some => list("omissions", "Left out", some.iter().map(omission)),
    };
    Ok(document(FIRST_LINE, TITLE, &(head(report) + &figures + &omissions)))
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
    let lead = "Sizes, false positive rates and times of all of sstfilter's kinds of filter, measured on one machine with \
                the command below.";
    crate::page::head(TITLE, lead, facts) + &list("findings", "What stands out", report.findings.iter().cloned())
}

fn overview(family: &Family) -> String {
    let most = family.effort.ladder.last().copied().unwrap_or(0);
    let (keys, rate) = (grouped(most), brief_percent(kinds::RATE));
    let text = format!("All filters with {keys} keys at a rate of {rate}, without hashing; sizes are of whole blocks:");
    let sections =
        [("rates", "rates and sizes"), ("sizes", "size by keys"), ("times", "times"), ("overfill", "beyond the plan")];
    links(sections) + &paragraph(&text) + &tables::overview(family)
}

fn rates(family: &Family) -> anyhow::Result<String> {
    let (keys, probes) = (grouped(family.effort.rate_keys), grouped(family.effort.max_probes));
    let text = format!(
        "Rates fall to the right, and memory falls toward the bottom. Each mark is a filter of {keys} keys, probed for up \
         to {probes} absent keys. No filter can be below the broken line, log2(1/rate)."
    );
    let chart = figure(&charts::rates(family))?;
    let details = details("The figures", &tables::rates(family));
    Ok(section("rates", "False positive rate and size", &text) + &chart + &details)
}

fn sizes(family: &Family) -> anyhow::Result<String> {
    let text = format!(
        "Bits per key of whole blocks at a rate of {}, including trailers: small filters pay for their trailer and for \
         rounding. The sizes of register-blocked Bloom filters are powers of two, which fit some numbers of keys better \
         than others.",
        brief_percent(kinds::RATE)
    );
    let chart = figure(&charts::sizes(family))?;
    let details = details("The figures: bits per key", &tables::by_keys(family, |point| point.size.bits_per_key));
    Ok(section("sizes", "Size by the number of keys", &text) + &chart + &details)
}

fn times(family: &Family) -> anyhow::Result<String> {
    let (rate, repetitions) = (brief_percent(kinds::RATE), family.effort.repetitions);
    let text = format!(
        "Nanoseconds per key at a rate of {rate}, without hashing, on one core; the best of {repetitions} repetitions in \
         which the filters took turns. Other machines and other load give other times; ratios carry over better."
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
        "Filters that accept keys while they are in use, planned for {keys} keys at {rate} and filled with up to three \
         times as many. A ring marks where a filter first reports that it has exceeded a limit. \"scalable\" is a \
         standard Bloom filter that grows by further parts: its memory grows, that of the others does not."
    );
    let (fills, rates) = (figure(&charts::fills(family))?, figure(&charts::overfill_rates(family))?);
    let charts = format!(
        "<h3>Fill</h3>{fills}\
         <h3>False positive rate: observed as marks, expected by the filter itself as a line</h3>{rates}"
    );
    let details = details("The figures", &tables::overfill(family));
    Ok(section("overfill", "More keys than planned", &text) + &charts + &details)
}

#[cfg(test)]
mod tests;
