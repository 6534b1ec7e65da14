//! RESULTS.md and its charts, from measurements that were written down.

pub mod advice;
mod ahead;
mod charts;
mod engines;
mod markdown;
mod ranges;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::de::DeserializeOwned;

use crate::ranges::record::RangeMeasurements;
use crate::record::{EngineRecord, Measurements, read_json};

/// What the report is made from.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Measurements that `--json` wrote; `results/peers.json` below the output directory by default.
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// Measurements of this program compiled for the machine's CPU; `results/peers-native.json` below the output
    /// directory by default, if it is there.
    #[arg(long, value_name = "FILE")]
    native: Option<PathBuf>,
    /// Measurements of storage engines; `results/engines.json` below the output directory by default, if it is there.
    #[arg(long, value_name = "FILE")]
    engines: Option<PathBuf>,
    /// Measurements of range filters; `results/ranges.json` below the output directory by default, if it is there.
    #[arg(long, value_name = "FILE")]
    ranges: Option<PathBuf>,
    /// Where RESULTS.md goes, with the charts in `results` beside it.
    #[arg(long, value_name = "DIR", default_value = "benches")]
    out: PathBuf,
}

/// Everything that the report tells of.
#[derive(Debug)]
struct Material {
    peers: Measurements,
    native: Option<Measurements>,
    engines: Vec<EngineRecord>,
    ranges: Option<RangeMeasurements>,
    notes: String,
    range_notes: String,
    charts: Vec<charts::Image>,
}

/// Writes RESULTS.md and the charts.
///
/// # Errors
///
/// What the system says of a file that cannot be read or written.
pub fn run(args: &ReportArgs) -> io::Result<()> {
    let results = args.out.join("results");
    fs::create_dir_all(&results)?;
    let peers: Measurements = read_json(&args.peers.clone().unwrap_or_else(|| results.join("peers.json")))?;
    let native = read_if_there(args.native.as_deref(), &results.join("peers-native.json"))?;
    let engines = read_if_there(args.engines.as_deref(), &results.join("engines.json"))?.unwrap_or_default();
    let ranges = read_if_there(args.ranges.as_deref(), &results.join("ranges.json"))?;
    let charts = charts::all(&peers.records)?;
    for chart in &charts {
        fs::write(results.join(chart.file), &chart.svg)?;
    }
    let [notes, range_notes] = [read_notes(&results.join("notes.md"))?, read_notes(&results.join("range-notes.md"))?];
    let material = Material { peers, native, engines, ranges, notes, range_notes, charts };
    fs::write(args.out.join("RESULTS.md"), markdown::text(&material))
}

/// Records: those asked for must be there, those at the usual place may.
fn read_if_there<T: DeserializeOwned>(asked_for: Option<&Path>, usual: &Path) -> io::Result<Option<T>> {
    match asked_for {
        Some(path) => read_json(path).map(Some),
        None if usual.exists() => read_json(usual).map(Some),
        None => Ok(None),
    }
}

/// The notes that people write, which no run overwrites.
fn read_notes(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sstfilter_charts::Machine;

    use crate::record::tests::{key_bytes, record};
    use crate::record::write_json;

    #[test]
    fn a_new_report_keeps_the_notes_as_they_were_written() {
        let out = std::env::temp_dir().join(format!("sstfilter-peers-report-{}", std::process::id()));
        fs::create_dir_all(out.join("results")).unwrap();
        let notes = "Written by hand,\n\n* to the letter.\n";
        fs::write(out.join("results/notes.md"), notes).unwrap();
        let peers = Measurements {
            date: "2026-01-02".to_owned(),
            arguments: vec!["--quick".to_owned()],
            machine: Machine::this("portable"),
            records: vec![record("sstfilter", "a", "a", 10_000), record("xorf", "Xor8", "a", 10_000)],
            many_filters: Vec::new(),
            key_bytes: vec![key_bytes("sstfilter", "a", "a", 4.0), key_bytes("xorf", "BinaryFuse8", "a", 2.0)],
            counted: Vec::new(),
        };
        write_json(&out.join("results/peers.json"), &peers).unwrap();
        write_json(&out.join("results/peers-native.json"), &peers).unwrap();
        let args = ReportArgs { peers: None, native: None, engines: None, ranges: None, out: out.clone() };
        for _ in 0..2 {
            run(&args).unwrap();
            let text = fs::read_to_string(out.join("RESULTS.md")).unwrap();
            assert!(text.contains(notes) && text.contains("2026-01-02") && text.contains("Xor8"), "{text}");
            assert!(text.contains("## Compiled for the CPU") && text.contains("| 0.50x |"), "{text}");
            assert!(!text.contains("## Counted single probes"), "{text}");
        }
        assert_eq!(fs::read_to_string(out.join("results/notes.md")).unwrap(), notes);
        fs::remove_dir_all(out).unwrap();
    }
}
