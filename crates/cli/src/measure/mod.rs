//! `sstfilter measure`: measures every kind of filter, and writes the figures as a page, CSV and JSON.

mod csv;
mod findings;
mod kinds;
mod overfill;
mod page;

use core::fmt;
use std::time::Instant;

use serde::Serialize;
use sstfilter::kind::{self, KindEntry, Updates};
use sstfilter_charts::{Machine, today};

use crate::args::MeasureArgs;
use crate::filters::Omission;
use crate::output::Outcome;
use crate::progress;
use crate::replace::OwnFiles;
use crate::units::counted;
use kinds::{Effort, KeysPoint, RatePoint};
use overfill::OverfillPoint;

/// The contents of the page and of `measure.json`.
#[derive(Clone, Debug, Serialize)]
struct Report {
    program: &'static str,
    command: String,
    version: &'static str,
    date: String,
    machine: Machine,
    #[serde(flatten)]
    family: Family,
    /// Figures that are missing, and why.
    omissions: Vec<Omission>,
    /// Sentences about notable results.
    findings: Vec<String>,
    seconds: f64,
}

/// The figures of all kinds on generated keys.
#[derive(Clone, Debug, Serialize)]
struct Family {
    effort: Effort,
    filters: Vec<FilterInfo>,
    rates: Vec<RatePoint>,
    by_keys: Vec<KeysPoint>,
    overfill: Vec<OverfillPoint>,
}

impl Family {
    /// Returns the figures of `filter` with `keys` keys, unless they were left out.
    fn point(&self, filter: &FilterInfo, keys: u64) -> Option<&KeysPoint> {
        self.by_keys.iter().find(|point| point.size.filter == filter.name && point.size.keys == keys)
    }
}

/// A filter that took part.
#[derive(Clone, Debug, Serialize)]
struct FilterInfo {
    name: &'static str,
    /// Whether keys can be inserted while it is in use.
    grows: bool,
    /// Whether keys can be removed.
    removes: bool,
}

/// Measures all kinds and writes the three files.
pub(crate) fn run(args: &MeasureArgs) -> anyhow::Result<(Outcome, Summary)> {
    // Checked first: minutes of measuring must not end at a directory that cannot be written.
    let files = OwnFiles::prepare(&args.out, FILES)?;
    let report = measure(args)?;
    let contents = [page::html(&report)?, csv::csv(&report.family)?, serde_json::to_string_pretty(&report)? + "\n"];
    let files = files.write(&contents)?;
    let filters = report.family.filters.iter().map(|filter| filter.name).collect();
    let Report { omissions, findings, seconds, .. } = report;
    Ok((Outcome::Yes, Summary { files, filters, omissions, findings, seconds }))
}

fn measure(args: &MeasureArgs) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let mut omissions = Vec::new();
    let family = family(Effort::from_args(args), &mut omissions)?;
    Ok(Report {
        program: "sstfilter",
        command: command(args),
        version: env!("CARGO_PKG_VERSION"),
        date: today(),
        machine: Machine::this(sstfilter::simd::selected().name()),
        findings: findings::findings(&family.by_keys, &family.overfill),
        family,
        omissions,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Measures all kinds on generated keys.
fn family(effort: Effort, omissions: &mut Vec<Omission>) -> anyhow::Result<Family> {
    let steps = (kind::all().len() * kinds::SETTINGS.len() + effort.ladder.len()) as u64;
    let stages = progress::stages(steps + overfill::looks());
    let info = |kind: &'static KindEntry| {
        let updates = kind.updates;
        FilterInfo { name: kind.name, grows: updates != Updates::None, removes: updates == Updates::InsertAndRemove }
    };
    Ok(Family {
        filters: kind::all().iter().map(info).collect(),
        by_keys: kinds::by_keys(&effort, &stages, omissions)?,
        rates: kinds::rates(&effort, &stages, omissions),
        overfill: overfill::measure(&effort, &stages)?,
        effort,
    })
}

/// Returns the command that reproduces these figures, without the path of its output.
fn command(args: &MeasureArgs) -> String {
    let words = [
        Some("sstfilter measure --out DIR".to_owned()),
        args.quick.then(|| "--quick".to_owned()),
        args.max_keys.map(|most| format!("--max-keys {most}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The files, and the beginning by which those of an earlier run are recognized.
const FILES: [(&str, &str); 3] = [
    ("measure.html", page::FIRST_LINE),
    ("measure.csv", csv::HEADER),
    // Depends on the first fields of `Report` and their order.
    ("measure.json", "{\n  \"program\": \"sstfilter\",\n  \"command\": \"sstfilter measure "),
];

/// The summary that is printed when the files are written.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    files: Vec<String>,
    filters: Vec<&'static str>,
    omissions: Vec<Omission>,
    findings: Vec<String>,
    seconds: f64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filters = counted(self.filters.len() as u64, "filter");
        writeln!(f, "{filters} in {:.0} s: {}\n", self.seconds, self.filters.join(", "))?;
        for omission in &self.omissions {
            writeln!(f, "- left out: {} at {}: {}", omission.filter, omission.at, omission.reason)?;
        }
        self.files.iter().try_for_each(|file| writeln!(f, "wrote {file}"))?;
        writeln!(f)?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))
    }
}
