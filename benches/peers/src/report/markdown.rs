//! tables.md.

use std::collections::BTreeSet;

use sstfilter_charts::{Table, grouped};

use super::{Material, ahead, engines};
use crate::page::filled;
use crate::ranges::record::RangeMeasurements;
use crate::ranges::tables as range_tables;
use crate::record::{Measurements, Run};
use crate::tables;

const PAGE: &str = include_str!("../pages/tables.txt");

/// The figures of the page, each with the name of its place.
type Values = Vec<(&'static str, String)>;

/// The whole file.
pub fn text(material: &Material) -> String {
    let Material { peers, native, engines, ranges, charts } = material;
    let Measurements { run, records, uses } = peers;
    let images = charts.iter().map(|(file, chart)| format!("![{}]({file})\n", chart.title));
    let sizes: BTreeSet<_> = records.iter().map(|record| record.n).collect();
    let sizes = sizes.into_iter().map(|n| (format!("{} keys", grouped(n)), tables::of_size(records, n)));
    let ahead = [ahead::table(records), ahead::uses(uses)].iter().map(markdown).collect::<Vec<_>>();
    let mut values = vec![
        ("run", date_and_machine(run)),
        ("commands", commands(material)),
        ("charts", images.collect::<Vec<_>>().join("\n")),
        ("ahead", ahead.join("\n")),
        ("sizes", sections("##", sizes)),
        ("engines", markdown(&engines::table(engines))),
        ("versions", versions(records.iter().map(|record| (&record.implementation, &record.version)))),
    ];
    values.extend(tables::of_uses(uses).map(|(title, table)| (title, table.markdown())));
    if let Some(native) = native {
        values.push(("run for the CPU", date_and_machine(&native.run)));
        values.push(("compiled for the CPU", tables::compiled_for_cpu(&native.records, records).markdown()));
    }
    values.extend(ranges.iter().flat_map(of_ranges));
    filled(PAGE, &values)
}

fn of_ranges(run: &RangeMeasurements) -> Values {
    let built = run.records.iter().map(|record| &record.built);
    let mut values = vec![
        ("run of ranges", date_and_machine(&run.run)),
        ("kinds of keys", sections("###", range_tables::by_keys(&run.records))),
        ("left out", run.left_out.iter().flat_map(|problem| ["- ", problem, "\n"]).collect()),
        ("versions of range filters", versions(built.map(|built| (&built.implementation, &built.version)))),
    ];
    values.extend(range_tables::of_run(run).map(|(title, table)| (title, table.markdown())));
    values
}

fn date_and_machine(run: &Run) -> String {
    format!("{} (UTC). {}", run.date, run.machine())
}

/// A table, or nothing if it has no rows.
fn markdown(table: &Table) -> String {
    if table.is_empty() { String::new() } else { table.markdown() }
}

/// Sections of a title and a table each, without the hashes of the first title.
fn sections(hashes: &str, tables: impl IntoIterator<Item = (String, Table)>) -> String {
    let sections = tables.into_iter().map(|(title, table)| format!("{title}\n\n{}\n", table.markdown()));
    sections.collect::<Vec<_>>().join(&format!("{hashes} "))
}

/// The versions of crates, each once.
fn versions<'a>(crates: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let versions: BTreeSet<_> = crates.map(|(name, version)| format!("{name} {version}")).collect();
    versions.into_iter().collect::<Vec<_>>().join(", ")
}

fn commands(material: &Material) -> String {
    let run = "cargo run --release --manifest-path benches/peers/Cargo.toml";
    let mut lines = vec![format!("{run} -- {}--json benches/results/peers.json", arguments(&material.peers.run))];
    if let Some(native) = &material.native {
        let cpu = native.records.iter().find_map(|record| record.target_cpu.as_deref()).unwrap_or("native");
        lines.push(format!(
            "RUSTFLAGS=\"-C target-cpu={cpu}\" {run} --target-dir benches/peers/target/native -- \\\n    {}--json \
             benches/results/peers-native.json",
            arguments(&native.run)
        ));
    }
    if !material.engines.is_empty() {
        lines.push("(cd benches/engines && cargo run --release -- --json ../results/engines.json)".to_owned());
    }
    if let Some(ranges) = &material.ranges {
        lines.push(format!("{run} -- ranges {}--json benches/results/ranges.json", arguments(&ranges.run)));
    }
    lines.push(format!("{run} -- report"));
    lines.join("\n")
}

/// The arguments of a run, each with a space behind it.
fn arguments(run: &Run) -> String {
    run.arguments.iter().flat_map(|argument| [argument, " "]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::ranges::record::{Built, CorrelatedRecord, HeldRecord, RangeRecord};

    fn built(implementation: &str, kind: &str) -> Built {
        let (implementation, kind, keys) = (implementation.to_owned(), kind.to_owned(), "u64, uniform".to_owned());
        Built { implementation, version: "1.2.3".to_owned(), kind, longest: Some(1 << 10), keys, n: 1_000_000 }
    }

    fn record(implementation: &str, kind: &str, fpr: f64, empty_ns: f64) -> RangeRecord {
        RangeRecord {
            built: built(implementation, kind),
            length: 1 << 10,
            bits_per_key: 19.0,
            is_allocated: false,
            empty_ranges: 1 << 20,
            fpr,
            build_ns_per_key: 30.0,
            empty_ns,
            batch_ns: None,
        }
    }

    fn run() -> RangeMeasurements {
        let (ours, theirs) = ("hashed, 1 % at 2^10", "Grafite");
        let held = |lost| HeldRecord {
            built: built("grafite", theirs),
            place: "across".to_owned(),
            length: Some(1 << 10),
            ranges: 1_000,
            lost,
        };
        RangeMeasurements {
            run: Run::now(Vec::new()),
            records: vec![record("sstfilter", ours, 0.0098, 40.0), record("grafite", theirs, 0.0102, 30.0)],
            correlated: vec![CorrelatedRecord {
                built: built("grafite", theirs),
                length: 1 << 10,
                degree: 1.0,
                empty_ranges: 1_000,
                fpr: 0.25,
            }],
            held: vec![held(0), held(4)],
            left_out: vec!["a peer: panics".to_owned()],
        }
    }

    #[test]
    fn a_report_has_the_losses() {
        let text = filled(PAGE, &of_ranges(&run()));
        for part in [
            "### 1,000,000 keys: u64, uniform",
            "| 0.75x |",
            "25.000 %",
            "| 2,000 | 4 | 500 |",
            "- a peer: panics",
            "grafite 1.2.3, sstfilter 1.2.3",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let ahead =
            text.lines().find(|line| line.contains("| hashed, 1 % at 2^10 | ") && line.starts_with("| grafite"));
        assert_eq!(ahead, Some("| grafite | Grafite | u64, uniform | hashed, 1 % at 2^10 |  |  |  | 2^10 |"));
    }

    #[test]
    fn records_survive_json() {
        let json = serde_json::to_string(&run()).unwrap();
        assert_eq!(serde_json::from_str::<RangeMeasurements>(&json).unwrap(), run());
    }
}
