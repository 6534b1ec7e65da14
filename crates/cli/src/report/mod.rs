//! `sstfilter report`: measures every kind of filter, and writes the figures as a page, as CSV and as JSON.

mod csv;
mod findings;
mod measure;
mod overfill;
mod page;

use core::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use sstfilter::kind::{self, KindEntry, Updates};
use sstfilter_charts::{Machine, today};
use sstfilter_table::{FileSystem, LocalFileSystem};

use crate::args::ReportArgs;
use crate::filters::Omission;
use crate::output::{Outcome, path_name};
use crate::progress;
use crate::replace::{self, Mark, Replaces};
use crate::units::counted;
use measure::{Effort, KeysPoint, RatePoint};
use overfill::OverfillPoint;

/// What the page shows and `report.json` holds.
#[derive(Clone, Debug, Serialize)]
struct Report {
    program: &'static str,
    version: &'static str,
    date: String,
    command: String,
    machine: Machine,
    #[serde(flatten)]
    family: Family,
    /// Figures that are missing, and why.
    omissions: Vec<Omission>,
    /// Sentences that say what stands out.
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
    /// The figures of `filter` with `keys` keys, unless they were left out.
    fn point(&self, filter: &FilterInfo, keys: u64) -> Option<&KeysPoint> {
        self.by_keys.iter().find(|point| point.size.filter == filter.name && point.size.keys == keys)
    }
}

/// A filter that took part.
#[derive(Clone, Debug, Serialize)]
struct FilterInfo {
    name: &'static str,
    /// Whether it takes keys while it is in use.
    grows: bool,
    /// Whether keys can be removed from it.
    removes: bool,
}

/// Measures, and writes the three files.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<(Outcome, Summary)> {
    // Checked first: minutes of measuring must not end at a directory that cannot be written.
    prepare(&args.out)?;
    let report = measure(args)?;
    let contents = [page::html(&report)?, csv::csv(&report.family)?, serde_json::to_string_pretty(&report)? + "\n"];
    let mut files = Vec::new();
    for ((path, replaces), contents) in files_in(&args.out).into_iter().zip(contents) {
        replace::write(&path, contents.as_bytes(), replaces)?;
        files.push(path_name(&path).into_owned());
    }
    let filters = report.family.filters.iter().map(|filter| filter.name).collect();
    let Report { omissions, findings, seconds, .. } = report;
    Ok((Outcome::Yes, Summary { files, filters, omissions, findings, seconds }))
}

fn measure(args: &ReportArgs) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let mut omissions = Vec::new();
    let family = family(Effort::from_args(args), &mut omissions)?;
    Ok(Report {
        program: "sstfilter",
        version: env!("CARGO_PKG_VERSION"),
        date: today(),
        command: command(args),
        machine: Machine::this(sstfilter::simd::selected().name()),
        findings: findings::findings(&family.by_keys, &family.overfill),
        family,
        omissions,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Measures all kinds on generated keys.
fn family(effort: Effort, omissions: &mut Vec<Omission>) -> anyhow::Result<Family> {
    let growing = overfill::growing().count() as u64;
    let steps = (kind::all().len() * measure::SETTINGS.len() + effort.ladder.len()) as u64;
    let stages = progress::stages(steps + growing * overfill::LOOKS);
    let info = |kind: &'static KindEntry| {
        let updates = kind.updates;
        FilterInfo { name: kind.name, grows: updates != Updates::None, removes: updates == Updates::InsertAndRemove }
    };
    Ok(Family {
        filters: kind::all().iter().map(info).collect(),
        by_keys: measure::by_keys(&effort, &stages, omissions)?,
        rates: measure::rates(&effort, &stages, omissions),
        overfill: overfill::measure(&effort, &stages)?,
        effort,
    })
}

/// The command that reproduces these figures, without the path of its output.
fn command(args: &ReportArgs) -> String {
    let words = [
        Some("sstfilter report --out DIR".to_owned()),
        args.quick.then(|| "--quick".to_owned()),
        args.max_keys.map(|most| format!("--max-keys {most}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The files of a report, and by what those of an earlier one are known.
fn files_in(directory: &Path) -> [(PathBuf, Replaces); 3] {
    let marks = [
        ("report.html", page::FIRST_LINE),
        ("report.csv", csv::HEADER),
        ("report.json", "{\n  \"program\": \"sstfilter\","),
    ];
    marks.map(|(name, mark)| (directory.join(name), Replaces::Own(Mark::Beginning(mark))))
}

/// Creates the directory if there is none, and checks that the files can be written there.
fn prepare(directory: &Path) -> anyhow::Result<()> {
    let name = path_name(directory);
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {name} (--out)"))?;
    files_in(directory).iter().try_for_each(|(path, replaces)| replaces.check(path))?;
    let file = LocalFileSystem.create(directory);
    file.map(drop).with_context(|| format!("cannot write in the directory {name} (--out)"))
}

/// What is printed when the report is written.
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
