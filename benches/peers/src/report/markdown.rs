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
    use std::path::Path;

    use super::*;
    use crate::record::read_json;

    fn recorded() -> RangeMeasurements {
        read_json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/ranges.json")).unwrap()
    }

    #[test]
    fn a_report_says_what_was_left_out() {
        let run = RangeMeasurements { left_out: vec!["a peer: panics".to_owned()], ..recorded() };
        let text = filled(PAGE, &of_ranges(&run));
        assert!(text.contains("\n### Left out\n\n- a peer: panics\n\n### Versions"), "{text}");
    }

    #[test]
    fn records_of_ranges_survive_json() {
        let json = serde_json::to_string(&recorded()).unwrap();
        assert_eq!(serde_json::from_str::<RangeMeasurements>(&json).unwrap(), recorded());
    }
}
