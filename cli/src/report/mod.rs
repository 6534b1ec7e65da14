//! `sstfilter report`: measures every kind of filter, and writes the figures as a page, as CSV and as JSON.

mod csv;
mod findings;
mod measure;
mod overfill;
mod own_keys;
mod page;

use core::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use sstfilter::kind::{self, KindEntry, Updates};
use sstfilter::sst::{FileSystem, LocalFileSystem, WritableFile};
use sstfilter_charts::{Machine, today};

use crate::args::ReportArgs;
use crate::lines::KeysFormat;
use crate::output::{Outcome, figures};
use crate::progress;
use crate::units::counted;
use measure::{Effort, KeysPoint, Omission, RatePoint};
use overfill::OverfillPoint;
use own_keys::OwnKeys;

/// What the page shows and `report.json` holds.
#[derive(Clone, Debug, Serialize)]
struct Report {
    program: &'static str,
    version: &'static str,
    date: String,
    command: String,
    machine: Machine,
    #[serde(flatten)]
    figures: Figures,
    /// Figures that are missing, and why.
    omissions: Vec<Omission>,
    /// Sentences that say what stands out.
    findings: Vec<String>,
    seconds: f64,
}

/// On which keys the kinds were measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Figures {
    /// On the user's own.
    OwnKeys(OwnKeys),
    /// On generated ones, and in every respect.
    #[serde(untagged)]
    Family(Family),
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
pub(crate) fn run(args: &ReportArgs, format: KeysFormat) -> anyhow::Result<(Outcome, Summary)> {
    // Checked first: minutes of measuring must not end at a directory that cannot be written.
    args.out.as_deref().map_or(Ok(()), prepare)?;
    let report = measure(args, format)?;
    let mut files = Vec::new();
    if let Some(directory) = &args.out {
        files.push(write(directory, "report.html", &page::html(&report)?)?);
        files.push(write(directory, "report.csv", &csv::csv(&report)?)?);
        files.push(write(directory, "report.json", &(serde_json::to_string_pretty(&report)? + "\n"))?);
    }
    let (filters, own_keys) = match report.figures {
        Figures::Family(family) => (family.filters.iter().map(|filter| filter.name).collect(), None),
        Figures::OwnKeys(own) => (own.figures.iter().map(|one| one.point.size.filter).collect(), Some(own)),
    };
    let Report { omissions, findings, seconds, .. } = report;
    Ok((Outcome::Yes, Summary { files, filters, own_keys, omissions, findings, seconds }))
}

fn measure(args: &ReportArgs, format: KeysFormat) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let mut omissions = Vec::new();
    let figures = match &args.keys {
        Some(path) => Figures::OwnKeys(own_keys::measure(path, format, args, &mut omissions)?),
        None => Figures::Family(family(Effort::from_args(args), &mut omissions)?),
    };
    let findings = match &figures {
        Figures::OwnKeys(own) => vec![own.sentence()],
        Figures::Family(family) => findings::findings(&family.by_keys, &family.overfill),
    };
    Ok(Report {
        program: "sstfilter",
        version: env!("CARGO_PKG_VERSION"),
        date: today(),
        command: command(args),
        machine: Machine::this(sstfilter::simd::selected().name()),
        figures,
        omissions,
        findings,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Measures all kinds on generated keys.
fn family(effort: Effort, omissions: &mut Vec<Omission>) -> anyhow::Result<Family> {
    let growing = overfill::growing().count() as u64;
    let steps = (kind::all().len() * measure::SETTINGS.len() + effort.ladder.len()) as u64;
    let stages = progress::stages(steps + growing * overfill::LOOKS);
    let info = |kind: &'static KindEntry| {
        let updates = kind.abilities.updates;
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

/// The command that reproduces these figures, without the paths of its output and of the user's keys.
fn command(args: &ReportArgs) -> String {
    let words = [
        Some("sstfilter report --out DIR".to_owned()),
        args.quick.then(|| "--quick".to_owned()),
        args.most_keys.map(|most| format!("--most-keys {most}")),
        args.keys.as_ref().map(|_| "--keys FILE".to_owned()),
        args.absent.as_ref().map(|_| "--absent FILE".to_owned()),
        args.fpr.map(|rate| format!("--fpr {}", rate.get())),
        args.current.map(|bytes| format!("--current {bytes}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Creates the directory if there is none, and checks that files can be written there.
fn prepare(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {} (--out)", directory.display()))?;
    temporary(directory).map(drop)
}

fn temporary(directory: &Path) -> anyhow::Result<Box<dyn WritableFile>> {
    let file = LocalFileSystem.create(directory);
    file.with_context(|| format!("cannot write in the directory {} (--out)", directory.display()))
}

/// Writes one file whole, or leaves what was there.
fn write(directory: &Path, name: &str, contents: &str) -> anyhow::Result<PathBuf> {
    let path = directory.join(name);
    let mut file = temporary(directory)?;
    let written = file.write_all(contents.as_bytes()).and_then(|()| file.sync()).and_then(|()| file.persist(&path));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// What is printed when the report is written.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    files: Vec<PathBuf>,
    filters: Vec<&'static str>,
    own_keys: Option<OwnKeys>,
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
        self.files.iter().try_for_each(|file| writeln!(f, "wrote {}", file.display()))?;
        match &self.own_keys {
            Some(own) => writeln!(f, "{}\n", figures(&OwnKeys::COLUMNS, &own.figures))?,
            None => writeln!(f)?,
        }
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))
    }
}
