//! The section on range filters.

use std::fmt::Write as _;

use super::{describe, versions};
use crate::ranges::record::RangeMeasurements;
use crate::ranges::tables;

/// How it was measured, and what the columns mean.
const METHOD: &str = "\
One thread. Candidates take turns, and the best of several rounds counts. Both ends of every range are included.\n\
*range* is the number of points in it; for names, the last bytes count as a number. *rate* is the share of\n\
1,048,576 empty ranges (of names: one for each absent name) that may hold a key. An error counts as \"may hold a\n\
key\", because a caller cannot skip anything for it. *empty* is the time for one of 16,384 of these ranges, one\n\
call for each, and *batch* the same by the crate's batch call. *build* starts from sorted keys and ends with a\n\
filter that can be probed, per key. *bits/key* is the whole stored filter; (a) marks filters that cannot be\n\
stored, whose allocated memory counts. *vs ours* is the crate's time divided by ours: above 1 we are faster.\n\
Filters that are built for a longest range are compared with our hashed codes for that range, the others with our\n\
ordered codes. rsurf is probed with 256 ranges of each kind, because each takes half a millisecond. Times are in\n\
nanoseconds.\n\n\
Ranges start independently of the keys, with two exceptions: at names that Debian 12 does not have, which\n\
resemble those that it has, and in \"Ranges close above a key\". Normally distributed keys have a standard\n\
deviation of 2^64 / 100.\n";

const CORRELATED: &str = "\
The rate for empty ranges that start up to 2^round(30 (1 - D)) above one of the uniform keys, the test of the\n\
Grafite paper. Our hashed codes keep their rate there. Ordered codes do not, like every filter that cuts keys\n\
off.\n";

const FALSE_NEGATIVES: &str = "\
Ranges that hold a key, of all keys and lengths together. Filters change their map at certain multiples: hashed\n\
ones at those of their chunk (ours) or reduced universe (Grafite). There the ranges lie across a multiple, with\n\
their key on either side. With 16 keys per filter, 10,000 filters were built for each length. A false negative\n\
is a lost key.\n";

/// The whole section, without its title.
pub fn text(run: &RangeMeasurements) -> String {
    let mut text = format!("Measured on {} (UTC). {}\n\n{METHOD}\n", run.date, describe(&run.machine));
    for (title, table) in tables::by_keys(&run.records) {
        push(&mut text, &title, "", &table.markdown());
    }
    for (title, table) in tables::of_run(run) {
        push(&mut text, title, about(title), &table.markdown());
    }
    if !run.left_out.is_empty() {
        let problems = run.left_out.iter().map(|problem| format!("- {problem}\n"));
        push(&mut text, "Left out", "", &problems.collect::<String>());
    }
    let built = run.records.iter().map(|record| &record.built);
    let versions = versions(built.map(|built| (&built.implementation, &built.version)));
    text + "### Versions of range filters\n\n" + &versions
}

fn push(text: &mut String, title: &str, about: &str, body: &str) {
    let space = if about.is_empty() { "" } else { "\n" };
    let _ = write!(text, "### {title}\n\n{about}{space}{body}\n");
}

fn about(title: &str) -> &'static str {
    match title {
        tables::CORRELATED => CORRELATED,
        tables::FALSE_NEGATIVES => FALSE_NEGATIVES,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sstfilter_charts::Machine;

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
            date: "2026-01-02".to_owned(),
            arguments: Vec::new(),
            machine: Machine::this("portable"),
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
        let text = text(&run());
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
