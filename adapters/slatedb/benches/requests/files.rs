//! Writes every count as CSV, and the charts.

use core::fmt::Write;
use std::path::PathBuf;

use sstfilter_charts::{Axis, Chart, Colour, Form, Frame, Mark, Point, Series, Style};

use crate::AnyError;
use crate::contenders::Contender;
use crate::experiments::{Measured, Results, SweepPoint};
use crate::keys::Skew;
use crate::lookups::Outcome;
use crate::ranges::RangeScans;
use crate::shards::{DealtPoint, ShardPoint};
use crate::store::Layout;

/// A file of this package.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub(crate) fn write(results: &Results) -> Result<(), AnyError> {
    std::fs::create_dir_all(path("results"))?;
    let tables = [("lookups", lookups(results)), ("sweep", sweep(results)), ("scans", scans(results))];
    for (name, csv) in tables {
        std::fs::write(path(&format!("results/{name}.csv")), csv?)?;
    }
    write_ranges(results)?;
    write_shards(results)?;
    for layout in [Layout::L0, Layout::Runs] {
        for skew in [Skew::Uniform, Skew::Zipf] {
            let svg = chart(results, layout, skew).svg(Frame::FILE)?;
            std::fs::write(path(&chart_file(layout, skew)), svg)?;
        }
    }
    Ok(())
}

/// Range scans alone.
pub(crate) fn write_ranges(results: &Results) -> Result<(), AnyError> {
    Ok(std::fs::write(path("results/ranges.csv"), ranges(results)?)?)
}

/// Caches of several shards alone.
pub(crate) fn write_shards(results: &Results) -> Result<(), AnyError> {
    let mut csv = "filter,shards,cache_percent,deal,gets_per_lookup\n".to_owned();
    for ShardPoint { contender, shards, percent, gets } in &results.shards.points {
        for (deal, gets) in gets.iter().enumerate() {
            writeln!(csv, "\"{}\",{shards},{percent},{deal},{gets:.3}", contender.name())?;
        }
    }
    std::fs::write(path("results/shards.csv"), csv)?;
    let mut csv = "filters,shards,own_missed_percent,ours_missed_percent\n".to_owned();
    for DealtPoint { filters, shards, missed: [own, ours] } in &results.shards.dealt {
        writeln!(csv, "{filters},{shards},{own:.2},{ours:.2}")?;
    }
    Ok(std::fs::write(path("results/dealt.csv"), csv)?)
}

/// Returns the path of one sweep's chart, relative to the package's folder.
pub(crate) fn chart_file(layout: Layout, skew: Skew) -> String {
    format!("results/sweep-{}-{}.svg", layout.name(), skew.name())
}

const OUTCOME: &str = "lookups,filter_gets,index_gets,data_gets,filter_bytes_read,index_bytes_read,data_bytes_read,probes,false_positives,rows";

fn outcome(outcome: &Outcome) -> String {
    let Outcome { lookups, requests, probes, false_positives, rows, .. } = outcome;
    let (filter, index, data) = (requests.filter, requests.index, requests.data);
    format!(
        "{lookups},{},{},{},{},{},{},{probes},{false_positives},{rows}",
        filter.gets, index.gets, data.gets, filter.bytes, index.bytes, data.bytes
    )
}

fn lookups(results: &Results) -> Result<String, AnyError> {
    let mut csv =
        format!("keys,layout,filter,stored_filter_bytes,cached_filter_bytes,cached_index_bytes,cache,kind,{OUTCOME}\n");
    for (set, measured) in [("records", &results.records), ("names", &results.names)] {
        for one in measured {
            let Measured { layout, contender, sizes, filter_charge, index_charge, .. } = one;
            let stored = sizes.filter;
            let store =
                format!("{set},{},\"{}\",{stored},{filter_charge},{index_charge}", layout.name(), contender.name());
            writeln!(csv, "{store},none,absent,{}", outcome(&one.cold_absent))?;
            writeln!(csv, "{store},none,present,{}", outcome(&one.cold_present))?;
            writeln!(csv, "{store},metadata,absent,{}", outcome(&one.cached_absent))?;
            writeln!(csv, "{store},metadata,present,{}", outcome(&one.cached_present))?;
        }
    }
    Ok(csv)
}

fn sweep(results: &Results) -> Result<String, AnyError> {
    let mut csv = format!("layout,lookups_by,filter,cache_percent,cache_bytes,{OUTCOME}\n");
    for SweepPoint { layout, skew, contender, percent, cache_bytes, absent } in &results.sweep {
        let (layout, skew, contender) = (layout.name(), skew.name(), contender.name());
        writeln!(csv, "{layout},{skew},\"{contender}\",{percent},{cache_bytes},{}", outcome(absent))?;
    }
    Ok(csv)
}

fn scans(results: &Results) -> Result<String, AnyError> {
    let mut csv = format!("filter,stored_filter_bytes,cache,kind,{OUTCOME}\n");
    for one in &results.scans {
        let store = format!("\"{}\",{}", one.contender.name(), one.sizes.filter);
        writeln!(csv, "{store},none,absent,{}", outcome(&one.cold_absent))?;
        writeln!(csv, "{store},none,present,{}", outcome(&one.cold_present))?;
        writeln!(csv, "{store},metadata,absent,{}", outcome(&one.cached_absent))?;
        writeln!(csv, "{store},metadata,present,{}", outcome(&one.cached_present))?;
    }
    Ok(csv)
}

fn ranges(results: &Results) -> Result<String, AnyError> {
    let mut csv = format!("scans,filter,stored_filter_bytes,cache,{OUTCOME}\n");
    for RangeScans { workload, contender, sizes, cold, cached } in &results.ranges {
        let store = format!("\"{}\",\"{}\",{}", workload.name(), contender.name(), sizes.filter);
        writeln!(csv, "{store},none,{}", outcome(cold))?;
        writeln!(csv, "{store},metadata,{}", outcome(cached))?;
    }
    Ok(csv)
}

/// The lowest of them is drawn last, on top.
const DRAWN: [Contender; 5] =
    [Contender::Ribbon, Contender::BuiltIn, Contender::RibbonTen, Contender::Bloom, Contender::None];

fn style(contender: Contender) -> Style {
    let (colour, mark, width) = match contender {
        Contender::Ribbon => (Colour::BLUE, Mark::Disc, 3),
        Contender::BuiltIn => (Colour::RED, Mark::Square, 3),
        Contender::RibbonTen | Contender::RibbonTwo | Contender::RibbonFour => (Colour::GREEN, Mark::Diamond, 1),
        Contender::Bloom => (Colour::AMBER, Mark::Triangle, 1),
        Contender::None => (Colour::GREY, Mark::Ring, 1),
    };
    Style { colour, mark, width }
}

/// Broken lines mark the size of all filters of a contender.
const X_TITLE: &str = "cache, in % of what SlateDB's own filters take (broken lines: where all of a kind would fit)";

fn chart(results: &Results, layout: Layout, skew: Skew) -> Chart {
    let title = match (layout, skew) {
        (Layout::L0, Skew::Uniform) => "Lookups of absent keys, uniform, over 64 overlapping SSTs",
        (Layout::L0, Skew::Zipf) => "Lookups of absent keys, by Zipf's law, over 64 overlapping SSTs",
        (Layout::Runs, Skew::Uniform) => "Lookups of absent keys, uniform, over four sorted runs",
        (Layout::Runs, Skew::Zipf) => "Lookups of absent keys, by Zipf's law, over four sorted runs",
    };
    let (low, high) = match layout {
        Layout::L0 => (30.0, 150_000.0),
        Layout::Runs => (3.0, 12_000.0),
    };
    let lines = DRAWN.into_iter().map(|contender| series(results, layout, skew, contender));
    let fits = [Contender::Ribbon, Contender::BuiltIn].into_iter().map(|contender| {
        let percent = 100.0 * results.filter_charge(layout, contender) as f64 / results.built_in_charge(layout) as f64;
        upright(percent, (low, high), style(contender).colour)
    });
    Chart {
        title: title.to_owned(),
        x: Axis::linear(X_TITLE, 200.0, 20.0, |percent| format!("{percent} %")),
        y: Axis::logarithmic("GET requests per 1,000 lookups", (low, high)),
        series: lines.chain(fits).collect(),
    }
}

/// A broken line from the bottom of the plot to its top.
fn upright(x: f64, (low, high): (f64, f64), colour: Colour) -> Series {
    let points = [low, high].map(|y| Point { at: (x, y), tip: String::new() });
    let style = Style { colour, mark: Mark::Disc, width: 1 };
    Series { name: String::new(), style, form: Form::Broken, points: points.to_vec() }
}

fn series(results: &Results, layout: Layout, skew: Skew, contender: Contender) -> Series {
    let is_in = |point: &&SweepPoint| (point.layout, point.skew, point.contender) == (layout, skew, contender);
    let points = results.sweep.iter().filter(is_in).map(|point| {
        let gets = point.absent.gets_per_thousand();
        let tip = format!("{}: {gets:.0} requests at {} %", contender.name(), point.percent);
        Point { at: (point.percent as f64, gets), tip }
    });
    Series { name: contender.name().to_owned(), style: style(contender), form: Form::Marked, points: points.collect() }
}
