//! Writes the times by which `sstfilter advise` ranks kinds as source text, so that no figure is copied by hand.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use sstfilter::kind;

use crate::record::{Measurements, Record, read_json};
use crate::subjects::sstfilter::{NAME, record_name};

const HEADER: &str = "\
//! Measured times of building and probing, written by `sstfilter-peers advice` from `benches/results`.

/// Name of a kind or variant, with its nanoseconds per key to build and per absent key to probe in batches, at 10,000,
/// 100,000, 1,000,000 and 10,000,000 keys.
pub(super) const MEASURED: &[(&str, [(f64, f64); 4])] = &[
";

/// Writes the file.
///
/// # Errors
///
/// The system's error for a file, or a kind that was not measured.
pub fn run(results: &Path, out: &Path) -> io::Result<()> {
    fs::write(out, text(results)?)
}

/// Returns the times of all kinds. A kind has its own file until a full run measures it.
fn text(results: &Path) -> io::Result<String> {
    let mut records = read_json::<Measurements>(&results.join("peers.json"))?.records;
    let mut text = HEADER.to_owned();
    for name in kind::all().iter().map(|entry| entry.name) {
        let own = results.join(format!("{name}.json"));
        if own.exists() {
            records.extend(read_json::<Measurements>(&own)?.records);
        }
        let times = [10_000, 100_000, 1_000_000, 10_000_000].map(|keys| time(&records, record_name(name), keys));
        let times: Option<Vec<_>> = times.into_iter().collect();
        let times = times.ok_or_else(|| io::Error::other(format!("no times of {name} in {}", results.display())))?;
        // Writing to a string does not fail.
        let _ = writeln!(text, "    (\"{name}\", [{}]),", times.join(", "));
    }
    Ok(text + "];\n")
}

/// Returns the times with `keys` keys, or with the largest measured number below.
fn time(records: &[Record], kind: &str, keys: u64) -> Option<String> {
    let is_of_kind = |record: &&Record| {
        record.implementation == NAME && record.kind == kind && record.isa.is_none() && record.n <= keys
    };
    let record = records.iter().filter(is_of_kind).max_by_key(|record| record.n)?;
    Some(format!("({:.1}, {:.1})", record.build_ns_per_key, record.batch_miss_ns?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_has_the_times_of_the_results() {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
        let times = include_str!("../../../../crates/cli/src/commands/advise/measured.rs");
        assert_eq!(times, text(&results).unwrap(), "run `cargo run -- advice` at the root of the repository");
    }
}
