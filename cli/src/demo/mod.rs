//! `sstfilter demo`: what filters save on real keys, measured on real tables.

mod compacted;
mod report;
mod scenario;
mod tables;

use anyhow::Context;

use crate::keys;
use crate::output::{Outcome, Output};
use report::DemoReport;

/// The answer is no when any key was lost.
pub(crate) fn run(output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let keys = keys::bundled()?;
    let directory =
        tempfile::tempdir().context("cannot make a temporary directory: set TMPDIR to one that can be written")?;
    let scenario = scenario::measure(&keys, directory.path())?;
    let compacted = compacted::measure(&keys, directory.path())?;
    let report = DemoReport::new(&keys, scenario, compacted);
    output.report(&report)?;
    Ok(Outcome::from_sound(report.false_negatives() == 0))
}
