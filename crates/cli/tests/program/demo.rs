//! The failures guarded against: a demonstration that shows wrong figures, or exits with success although a key was
//! lost.

use std::sync::OnceLock;

use serde_json::Value;

use crate::common::run;

/// The demonstration's report. It takes seconds, so it runs once for all tests.
pub(crate) fn report() -> &'static Value {
    static REPORT: OnceLock<Value> = OnceLock::new();
    REPORT.get_or_init(|| run(&["demo", "--json"]).expect_code(0).json())
}

/// Returns a figure of the row of `scene` that has these values.
pub(crate) fn figure(scene: &str, values: &[(&str, Value)], figure: &str) -> f64 {
    let mut rows = report()[scene].as_array().unwrap().iter();
    let row = rows.find(|row| values.iter().all(|(name, value)| &row[*name] == value));
    row.unwrap_or_else(|| panic!("{values:?} in {scene}"))[figure].as_f64().unwrap()
}

#[test]
fn the_figures_keep_their_bounds_and_no_key_is_lost() {
    let reads = |method: &str| figure("lookups_in_70_files", &[("method", method.into())], "block_reads");
    assert!((69.0..=70.0).contains(&reads("no filter")) && reads("bloom") <= 0.7 && reads("map of all files") < 0.02);
    let of_kind = |kind: &str, name: &str| figure("filters_in_one_file", &[("kind", kind.into())], name);
    assert!(of_kind("ribbon", "bits_per_key") < 0.72 * of_kind("bloom", "bits_per_key"));
    for kind in ["bloom", "ribbon"] {
        let (observed, margin) = (of_kind(kind, "observed_fpr"), of_kind(kind, "observed_fpr_margin"));
        assert!((observed - of_kind(kind, "expected_fpr")).abs() < 2.0 * margin, "{kind}");
    }
    let with_memory = |percent: u64, method: &str| {
        let row = [("memory_percent", percent.into()), ("method", method.into())];
        figure("lookups_with_less_memory", &row, "block_reads")
    };
    assert!(with_memory(25, "shrunk") <= 0.5 * with_memory(25, "kept or dropped"), "a quarter of the memory");
    assert!(with_memory(25, "shrunk partitions") <= 0.2 * with_memory(25, "kept or dropped"));
    let in_vain = |method: &str| {
        figure("scans_of_100_names", &[("stretch", 100.into()), ("method", method.into())], "reads_in_vain")
    };
    assert!(in_vain("no filter") > 40.0 && in_vain("ordered range filter") <= 0.1 * in_vain("no filter"));
    let scenes = ["lookups_in_70_files", "filters_in_one_file", "lookups_with_less_memory", "scans_of_100_names"];
    let lost: Vec<_> = scenes.iter().flat_map(|scene| report()[scene].as_array().unwrap()).collect();
    assert!(lost.len() == 3 + 2 + 8 + 4 && lost.iter().all(|row| row["lost_keys"] == 0), "{lost:?}");
    let text = run(&["demo"]).expect_code(0).stdout;
    assert!(text.contains("\n0 of 63,666 keys are lost."), "{text}");
    assert!(text.lines().filter(|line| !line.ends_with('.')).all(|line| line.chars().count() <= 100), "{text}");
}
