//! The section on range filters.

use std::fmt::Write as _;

use super::markdown::{describe, versions};
use crate::ranges::record::RangeMeasurements;
use crate::ranges::tables;

/// How it was measured, and what the columns mean.
const METHOD: &str = "\
One thread; everybody in turn, several turns, the best of them. Both ends of every range are included. *range* is the number of\n\
points in it; for names, the last bytes count as a number. *rate* is the share of 1,048,576 empty ranges (of names: one for\n\
each absent name) that may hold a key; an error counts as such, because a caller cannot skip anything for it. *empty* is the time for\n\
one of 16,384 of these ranges, one call for each; *batch* the same by the crate's batch call; *half empty* one call for each range when\n\
every second one, at random, holds a key. *build* is everything from sorted keys to a filter that can be probed, per key.\n\
*bits/key* is the whole filter as it is stored; (a) marks filters that cannot be stored, of which the allocated memory counts. *vs ours* is\n\
how many times as long as ours it takes: above 1 we are faster. Filters for a longest range are compared with our hashed\n\
codes for that range, the others with our ordered codes. A filter that takes more than 20 microseconds for a range was timed once, with 256\n\
ranges of each kind. Times are in nanoseconds.\n\n\
Ranges start independently of the keys, except at names that Debian 12 does not have, which resemble those that it has, and\n\
in \"Ranges close above a key\". Normally distributed keys have a standard deviation of 2^64 / 100.\n";

const AT_EQUAL_RATES: &str = "\
Each crate with the smallest filter of its settings that keeps 1 % (within a tenth), uniform keys. Diva's rate can only be halved: its\n\
setting is a number of bits.\n";

const CORRELATED: &str = "\
The rate for empty ranges that start up to 2^round(30 (1 - D)) above one of the uniform keys, the test of the Grafite paper. Our hashed codes keep their\n\
rate there; ordered codes do not, as every filter that cuts keys off does not.\n";

const FALSE_NEGATIVES: &str = "\
Ranges that hold a key, of all keys and lengths together. Filters change their map at certain multiples, hashed ones at those of\n\
their chunk (ours) or reduced universe (Grafite): there the ranges lie across a multiple, with their key on either side. With 16 keys a filter,\n\
10,000 filters were built for each length. A false negative is a lost key.\n";

/// The whole section, without its title; `notes` are written by people.
pub fn text(run: &RangeMeasurements, notes: &str) -> String {
    let mut text = format!("Measured on {} (UTC). {}\n\n{METHOD}\n", run.date, describe(&run.machine));
    if !notes.trim().is_empty() {
        let _ = writeln!(text, "{notes}");
    }
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
        tables::AT_EQUAL_RATES => AT_EQUAL_RATES,
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
            errors: 0.0,
            build_ns_per_key: 30.0,
            empty_ns,
            batch_ns: None,
            mixed_ns: empty_ns,
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
            errors: 0,
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
    fn a_report_has_the_losses_the_targets_that_are_missed_and_the_notes() {
        let text = text(&run(), "Written by hand.\n");
        for part in [
            "Written by hand.",
            "### 1,000,000 keys: u64, uniform",
            "| 0.75x |",
            "| empty range, single | hashed, 1 % at 2^10 | u64, uniform | 30.0 | 40.00 | missed |",
            "| bits per key | hashed, 1 % at 2^10 | u64, uniform | 19.3 | 19.00 | reached |",
            "### At equal rates",
            "25.000 %",
            "| 2,000 | 4 | 500 |",
            "- a peer: panics",
            "grafite 1.2.3, sstfilter 1.2.3",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let ahead =
            text.lines().find(|line| line.contains("| hashed, 1 % at 2^10 | ") && line.starts_with("| grafite"));
        assert_eq!(ahead, Some("| grafite | Grafite | u64, uniform | hashed, 1 % at 2^10 |  |  |  | 2^10 | 2^10 |"));
    }

    #[test]
    fn records_survive_json() {
        let json = serde_json::to_string(&run()).unwrap();
        assert_eq!(serde_json::from_str::<RangeMeasurements>(&json).unwrap(), run());
    }
}
