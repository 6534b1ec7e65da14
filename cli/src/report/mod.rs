//! `sstfilter report`: measures every kind of filter, and writes the figures as a page, as CSV and as JSON.

mod articles;
mod contender;
mod csv;
mod data;
mod effort;
mod findings;
mod growing;
mod keys;
mod machine;
mod measure;
mod page;
mod summary;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;

use crate::args::ReportArgs;
use crate::output::{Outcome, Output};
use crate::progress::Stages;
use contender::ALL;
use data::{FilterInfo, Report};
use effort::Effort;
use machine::Machine;
use measure::{by_keys, overfill, rates};
use summary::Summary;

/// Measures, and writes the three files.
pub(crate) fn run(args: &ReportArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    // Minutes of measuring are not to end in a directory that cannot be written.
    prepare(&args.out)?;
    let report = measure(args)?;
    let mut files = Vec::new();
    let json = serde_json::to_string_pretty(&report)? + "\n";
    for (name, contents) in
        [("report.html", page::html(&report)), ("report.csv", csv::csv(&report)), ("report.json", json)]
    {
        files.push(write(&args.out, name, &contents)?);
    }
    output.report(&Summary::new(&report, files))?;
    Ok(Outcome::Yes)
}

fn measure(args: &ReportArgs) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let effort = Effort::from_args(args);
    let growing = ALL.iter().filter(|contender| contender.grows()).count() as u64;
    let steps = (ALL.len() * rates::SETTINGS.len() + effort.ladder.len()) as u64;
    let stages = Stages::new(steps + growing * overfill::looks() + articles::steps());
    let (by_keys, mut omissions) = by_keys::measure(&effort, &stages)?;
    let (rates, left_out) = rates::measure(&effort, &stages);
    omissions.extend(left_out);
    let overfill = overfill::measure(&effort, &stages)?;
    let articles = articles::measure(&effort, &stages)?;
    Ok(Report {
        program: "sstfilter",
        version: env!("CARGO_PKG_VERSION"),
        date: machine::today(),
        command: command(args),
        machine: Machine::this(),
        filters: ALL
            .iter()
            .map(|contender| FilterInfo {
                name: contender.name,
                grows: contender.grows(),
                removes: contender.removes(),
            })
            .collect(),
        rates,
        by_keys_fpr: by_keys::RATE,
        findings: findings::findings(&by_keys, &overfill),
        by_keys,
        overfill_fpr: overfill::RATE,
        overfill,
        articles,
        omissions,
        effort,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// The command that gives these figures again; where they were written is no part of them.
fn command(args: &ReportArgs) -> String {
    let quick = if args.quick { " --quick" } else { "" };
    let most_keys = args.most_keys.map(|most| format!(" --most-keys {most}")).unwrap_or_default();
    format!("sstfilter report --out DIR{quick}{most_keys}")
}

/// Makes the directory if there is none, and tries whether files can be written there.
fn prepare(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {} (--out)", directory.display()))?;
    temporary(directory).map(drop)
}

fn temporary(directory: &Path) -> anyhow::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".sstfilter-")
        .suffix(".tmp")
        .tempfile_in(directory)
        .with_context(|| format!("cannot write in the directory {} (--out)", directory.display()))
}

/// Writes one file whole, or leaves what was there.
fn write(directory: &Path, name: &str, contents: &str) -> anyhow::Result<PathBuf> {
    let path = directory.join(name);
    let context = || format!("cannot write {}", path.display());
    let mut file = temporary(directory)?;
    file.write_all(contents.as_bytes()).with_context(context)?;
    share(&file).and_then(|()| file.as_file().sync_all()).with_context(context)?;
    file.persist(&path).map_err(|failed| failed.error).with_context(context)?;
    Ok(path)
}

/// Temporary files are their owner's alone; a report is for everybody whom the directory admits.
#[cfg(unix)]
fn share(file: &tempfile::NamedTempFile) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn share(_file: &tempfile::NamedTempFile) -> std::io::Result<()> {
    Ok(())
}
