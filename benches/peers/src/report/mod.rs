//! Makes the tables and charts of `benches/results` from recorded measurements. The conclusions in `benches/RESULTS.md`
//! are written by hand.

pub mod advice;
mod ahead;
mod charts;
mod engines;
mod markdown;

use std::fs;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use sstfilter_charts::{Chart, Frame};

use crate::ranges::record::RangeMeasurements;
use crate::record::{EngineRecord, Measurements, read_json};

/// The input of the tables.
#[derive(Debug)]
struct Material {
    peers: Measurements,
    native: Option<Measurements>,
    engines: Vec<EngineRecord>,
    ranges: Option<RangeMeasurements>,
    charts: Vec<(&'static str, Chart)>,
}

/// Writes tables.md and the charts.
///
/// # Errors
///
/// The system's error for a file that cannot be read or written.
pub fn run(out: &Path) -> io::Result<()> {
    let results = out.join("results");
    fs::create_dir_all(&results)?;
    let peers: Measurements = read_json(&results.join("peers.json"))?;
    let native = read_if_there(&results.join("peers-native.json"))?;
    let engines = read_if_there(&results.join("engines.json"))?.unwrap_or_default();
    let ranges = read_if_there(&results.join("ranges.json"))?;
    let charts = charts::all(&peers.records);
    for (file, chart) in &charts {
        fs::write(results.join(file), chart.svg(Frame::FILE).map_err(io::Error::other)?)?;
    }
    let material = Material { peers, native, engines, ranges, charts };
    fs::write(results.join("tables.md"), markdown::text(&material))
}

/// Reads records, which may be missing.
fn read_if_there<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    path.exists().then(|| read_json(path)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::record::tests::{key_bytes, record};
    use crate::record::{Run, Uses, write_json};

    #[test]
    fn a_new_report_keeps_the_pages_that_were_written_by_hand() {
        let out = std::env::temp_dir().join(format!("sstfilter-peers-report-{}", std::process::id()));
        fs::create_dir_all(out.join("results")).unwrap();
        let (pages, by_hand) = (["RESULTS.md", "results/notes.md"].map(|page| out.join(page)), "Written by hand.\n");
        pages.iter().for_each(|page| fs::write(page, by_hand).unwrap());
        let peers = Measurements {
            run: Run { date: "2026-01-02".to_owned(), ..Run::now(vec!["--quick".to_owned()]) },
            records: vec![record("sstfilter", "a", "a", 10_000), record("xorf", "Xor8", "a", 10_000)],
            uses: Uses {
                key_bytes: vec![key_bytes("sstfilter", "a", "a", 4.0), key_bytes("xorf", "BinaryFuse8", "a", 2.0)],
                ..Uses::default()
            },
        };
        write_json(&out.join("results/peers.json"), &peers).unwrap();
        write_json(&out.join("results/peers-native.json"), &peers).unwrap();
        for _ in 0..2 {
            run(&out).unwrap();
            let text = fs::read_to_string(out.join("results/tables.md")).unwrap();
            assert!(text.contains("2026-01-02") && text.contains("Xor8"), "{text}");
            assert!(text.contains("## Compiled for the CPU") && text.contains("| 0.50x |"), "{text}");
            assert!(!text.contains("## Counted single probes"), "{text}");
        }
        pages.iter().for_each(|page| assert_eq!(fs::read_to_string(page).unwrap(), by_hand));
        fs::remove_dir_all(out).unwrap();
    }
}
