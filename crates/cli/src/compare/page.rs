//! The page of a comparison.

use core::iter;

use sstfilter::kind::{self, Updates};

use super::charts::{self, FigureOf};
use super::curves::{Curves, RatePoint};
use super::rows::Row;
use super::{Comparison, Footing};
use crate::commands::options::AUTO;
use crate::filters::Omission;
use crate::output::Column;
use crate::page::{details, document, figure, links, list, paragraph, section, table, table_of_cells};
use crate::units::{counted, grouped, percent};

/// The first line of the document.
pub(super) const FIRST_LINE: &str = "<!DOCTYPE html><!-- made by sstfilter compare -->\n";

const TITLE: &str = "All kinds of filter, compared";

/// The times of a row, each with its title.
const TIMES: [(&str, FigureOf); 3] = [
    ("Building, from hashes to the finished filter", |row| row.times.build_ns_per_key),
    ("Probing for absent keys, one by one", |row| row.times.query_one_ns),
    ("Probing for absent keys, in one batch", |row| row.times.query_batch_ns),
];

/// Returns the document.
pub(super) fn html(comparison: &Comparison, curves: &Curves) -> anyhow::Result<String> {
    let footing = comparison.footing;
    let figures = overview(comparison) + &rates(curves)? + &sizes(curves, footing)? + &times(curves, footing)?;
    let omission = |one: &Omission| format!("{} at {}: {}", one.filter, one.at, one.reason);
    let left_out: Vec<_> = comparison.omissions.iter().chain(&curves.omissions).map(omission).collect();
    let omissions = if left_out.is_empty() { String::new() } else { list("omissions", "Left out", left_out) };
    Ok(document(FIRST_LINE, TITLE, &(head(comparison) + &figures + &omissions)))
}

fn head(comparison: &Comparison) -> String {
    let (keys, files) = (counted(comparison.keys, "key"), counted(comparison.files, "file"));
    let facts = [
        ("machine", format!("{}, {} cores", comparison.machine.cpu, comparison.machine.cores)),
        ("keys", format!("{keys} in {files}")),
        ("absent keys", format!("{}, {}", grouped(comparison.absent_keys), comparison.absent_from)),
        ("system", comparison.machine.system.clone()),
        ("compiler", comparison.machine.rustc.clone()),
        ("instruction set in use", comparison.machine.kernels.clone()),
        ("date", comparison.date.clone()),
        ("version", format!("{} {}", comparison.program, comparison.version)),
        ("command", comparison.command.clone()),
        ("took", format!("{:.0} s", comparison.seconds)),
    ];
    let lead = "Sizes, false positive rates and times of all of sstfilter's kinds of filter, measured on one machine \
                with the command below.";
    let left_out = comparison.left_out.iter().map(ToString::to_string);
    let remarks = findings(comparison).into_iter().chain(comparison.notes.iter().cloned()).chain(left_out);
    crate::page::head(TITLE, lead, facts) + &list("findings", "What stands out", remarks)
}

/// Returns sentences on the fastest and slowest filters, after the conclusion.
fn findings(comparison: &Comparison) -> Vec<String> {
    let mut sentences = vec![comparison.conclusion.clone()];
    for (task, of) in TIMES {
        // Without `auto`, which is one of the others.
        let kinds = || comparison.rows.iter().filter(|row| row.filter != AUTO);
        let least = kinds().min_by(|a, b| of(a).total_cmp(&of(b)));
        let most = kinds().max_by(|a, b| of(a).total_cmp(&of(b)));
        if let Some((fast, slow)) = least.zip(most) {
            let (fast_ns, slow_ns) = (of(fast), of(slow));
            sentences.push(format!(
                "{task}: fastest is {} with {fast_ns:.1} ns per key, slowest {} with {slow_ns:.1}.",
                fast.filter, slow.filter
            ));
        }
    }
    if comparison.has_all_keys() {
        sentences.push("Every filter is positive for all of its keys.".to_owned());
    }
    sentences
}

/// Whether a kind takes and removes keys while it is in use.
fn updates(row: &Row) -> String {
    let kind = kind::all().iter().find(|entry| entry.name == row.filter);
    match kind.map(|entry| entry.updates) {
        Some(Updates::InsertAndRemove) => "inserts, removals",
        Some(Updates::Insert) => "inserts",
        Some(Updates::None) | None => "none",
    }
    .to_owned()
}

fn overview(comparison: &Comparison) -> String {
    let columns: [Column<Row>; 10] = [
        ("filter", Row::name),
        ("bytes", |row| grouped(row.bytes)),
        ("bits per key", |row| format!("{:.2}", row.bits_per_key)),
        ("expected rate", |row| percent(row.expected_fpr)),
        ("measured rate", Row::measured),
        ("build, ns", |row| format!("{:.1}", row.times.build_ns_per_key)),
        ("probe one, ns", |row| format!("{:.1}", row.times.query_one_ns)),
        ("probe batch, ns", |row| format!("{:.1}", row.times.query_batch_ns)),
        ("blocks read", Row::blocks),
        ("updates", updates),
    ];
    let text = format!(
        "Filters planned for {}. Sizes are of whole blocks, and times are per key, without hashing. Measured rates \
         have margins of 95 %, which assume independent probes. Blocks are those that an absent key reads: without filters, \
         it reads {:.2}.",
        comparison.footing, comparison.blocks_without_filters
    );
    let sections = [("rates", "rates and sizes"), ("sizes", "size by keys"), ("times", "times")];
    links(sections) + &paragraph(&text) + &table(&columns, &comparison.rows)
}

fn rates(curves: &Curves) -> anyhow::Result<String> {
    let keys = curves.rates.first().map_or(0, |point| point.keys);
    let text = format!(
        "Memory falls toward the bottom. Each mark is a filter of {}, probed for made-up absent keys. No filter can be \
         below the broken line, log2(1/rate). A ring surrounds a mark where two filters are alike.",
        counted(keys, "key")
    );
    let columns: [Column<RatePoint>; 7] = [
        ("filter", |point| point.filter.to_owned()),
        ("target", |point| percent(point.target_fpr)),
        ("bits per key", |point| format!("{:.2}", point.bits_per_key)),
        ("bound", |point| format!("{:.2}", -point.expected_fpr.log2())),
        ("observed", |point| percent(point.observed_fpr)),
        ("expected", |point| percent(point.expected_fpr)),
        ("absent keys probed", |point| grouped(point.probes)),
    ];
    let chart = figure(&charts::rates(curves))?;
    let details = details("The figures", &table(&columns, &curves.rates));
    Ok(section("rates", "False positive rate and size", &text) + &chart + &details)
}

fn sizes(curves: &Curves, footing: Footing) -> anyhow::Result<String> {
    let text = format!(
        "Bits per key of whole blocks at {footing}, including trailers: small filters pay for their trailer and for \
         rounding. The sizes of register-blocked Bloom filters are powers of two, which fit some numbers of keys \
         better than others."
    );
    let chart = figure(&charts::sizes(curves, footing))?;
    let details = details("The figures: bits per key", &figures_by_keys(curves, |row| row.bits_per_key));
    Ok(section("sizes", "Size by the number of keys", &text) + &chart + &details)
}

fn times(curves: &Curves, footing: Footing) -> anyhow::Result<String> {
    let text = format!(
        "Nanoseconds per key at {footing}, without hashing, on one core; the best of several repetitions in which the \
         filters took turns. Other machines and other load give other times; ratios carry over better."
    );
    let mut html = section("times", "Time by the number of keys", &text);
    for (title, of) in TIMES {
        let details = details("The figures: ns per key", &figures_by_keys(curves, of));
        let chart = charts::by_keys(curves, footing, title, of, "ns per key");
        html.extend([format!("<h3>{title}</h3>"), figure(&chart)?, details]);
    }
    Ok(html)
}

/// Returns a table of one figure by kind and number of keys.
fn figures_by_keys(curves: &Curves, of: FigureOf) -> String {
    let mut ladder: Vec<_> = curves.by_keys.iter().map(|row| row.keys).collect();
    ladder.sort_unstable();
    ladder.dedup();
    let cell = |name: &str, keys: u64| {
        let row = curves.by_keys.iter().find(|row| row.filter == name && row.keys == keys);
        row.map_or_else(|| "\u{2013}".to_owned(), |row| format!("{:.2}", of(row)))
    };
    let row = |name: &str| -> Vec<String> {
        iter::once(name.to_owned()).chain(ladder.iter().map(|&keys| cell(name, keys))).collect()
    };
    let header = iter::once("filter".to_owned()).chain(ladder.iter().map(|&keys| grouped(keys)));
    table_of_cells(header, kind::all().iter().map(|entry| row(entry.name)))
}
