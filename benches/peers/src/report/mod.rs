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

    #[test]
    fn tables_are_those_of_the_results_and_pages_that_were_written_by_hand_stay() {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
        let out = std::env::temp_dir().join(format!("sstfilter-peers-report-{}", std::process::id()));
        let results = out.join("results");
        fs::create_dir_all(&results).unwrap();
        for name in ["peers.json", "peers-native.json", "engines.json", "ranges.json"] {
            fs::copy(recorded.join(name), results.join(name)).unwrap();
        }
        let (pages, by_hand) = ([out.join("RESULTS.md"), results.join("notes.md")], "Written by hand.\n");
        pages.iter().for_each(|page| fs::write(page, by_hand).unwrap());
        run(&out).unwrap();
        let [made, expected] =
            [results, recorded].map(|results| fs::read_to_string(results.join("tables.md")).unwrap());
        assert!(made == expected, "run `cargo run -- report` at the root of the repository");
        pages.iter().for_each(|page| assert_eq!(fs::read_to_string(page).unwrap(), by_hand));
        fs::remove_dir_all(out).unwrap();
    }
}
