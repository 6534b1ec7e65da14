//! The failures guarded against: a demonstration that shows wrong figures, or exits with success although a key was
//! lost.

use std::fs;
use std::sync::OnceLock;

use crate::common::run;
use serde_json::Value;

/// The demonstration's report. It takes seconds, so it runs once for all tests.
pub(crate) fn report() -> &'static Value {
    static REPORT: OnceLock<Value> = OnceLock::new();
    REPORT.get_or_init(|| run(&["demo", "--json"]).expect_code(0).json())
}

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_else(|| panic!("no number {field} in {value}"))
}

fn by_name<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry[field] == name).unwrap()
}

/// Whether the number of false positives is as expected, within four standard errors.
fn assert_rate_as_expected(figures: &Value) {
    let (observed, expected) = (number(figures, "observed_fpr"), number(figures, "expected_fpr"));
    let sigma = (expected * (1.0 - expected) / number(figures, "absent_probes")).sqrt();
    assert!((observed - expected).abs() < 4.0 * sigma, "{observed} observed, {expected} expected, sigma {sigma}");
}

#[test]
fn the_figures_keep_their_bounds() {
    let report = report();
    let scenario = &report["scenario_70_files"];
    let reads = |policy| number(by_name(scenario, "policy", policy), "data_block_reads_per_absent_lookup");
    assert!((69.0..=70.0).contains(&reads("none")), "{}", reads("none"));
    for policy in ["bloom", "ribbon"] {
        assert!(reads(policy) <= 0.70, "{}", reads(policy));
        let figures = by_name(scenario, "policy", policy);
        assert_eq!(figures["false_negatives"], 0);
        assert_eq!(figures["present_lookups"], 63_666);
        assert_eq!(figures["absent_lookups"], 22_721);
        assert_eq!(figures["filter_kind_used"], "bloom");
        assert!(number(figures, "filter_bits_per_key") < 11.0);
        assert!(number(figures, "bytes_read_per_absent_lookup") < 4_096.0);
        assert!(number(figures, "ns_per_absent_lookup") > 0.0);
        assert_rate_as_expected(figures);
    }
    assert_eq!(by_name(scenario, "policy", "bloom")["fallback_reason"], Value::Null);
    assert_eq!(by_name(scenario, "policy", "ribbon")["fallback_reason"], "too few keys");
    assert_eq!(by_name(scenario, "policy", "none")["false_negatives"], 0);
    let map = by_name(scenario, "policy", "map");
    assert!(reads("map") < 0.02 && number(map, "filter_bits_per_key") < 18.0, "{map}");
    assert_eq!((&map["false_negatives"], &map["absent_lookups"]), (&0.into(), &22_721.into()));
    assert_rate_as_expected(map);
    check_compacted(&report["compacted"]);
    let conclusion = report["conclusion"].as_str().unwrap();
    assert!(conclusion.contains("0 of 63,666 keys are lost") && conclusion.ends_with('.'), "{conclusion}");
}

fn check_compacted(compacted: &Value) {
    let (bloom, ribbon) = (by_name(compacted, "kind", "bloom"), by_name(compacted, "kind", "ribbon"));
    for figures in [bloom, ribbon] {
        assert_rate_as_expected(figures);
        assert_eq!(figures["keys"], 63_666);
        assert_eq!(figures["false_negatives"], 0);
        assert!(number(figures, "build_ns_per_key") > 0.0);
    }
    assert!(number(ribbon, "bits_per_key") < 0.72 * number(bloom, "bits_per_key"));
}

#[test]
fn scans_with_range_filters_read_a_tenth_of_the_files_that_hold_none_of_their_names() {
    let report = report();
    let scans = &report["scans"];
    assert_eq!(scans["is_accepted"], true, "{scans}");
    let rows = scans["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    let row = |stretch: u64, method: &str| {
        rows.iter().find(|row| row["stretch"] == stretch && row["method"] == method).unwrap()["lengths"].clone()
    };
    for row in rows.iter().flat_map(|row| row["lengths"].as_array().unwrap()) {
        assert_eq!(row["wrong_scans"], 0, "{row}");
        assert!(number(row, "useless_reads_per_scan") <= number(row, "data_block_reads_per_scan"), "{row}");
    }
    for method in ["none", "prefix Bloom", "range, ordered", "range, hashed"] {
        for length in 0..3 {
            let (none, of_method) = (row(100, "none")[length].clone(), row(100, method)[length].clone());
            assert_eq!(none["files_without_a_name"], of_method["files_without_a_name"]);
            assert!(
                number(&of_method, "useless_reads_per_scan") <= number(&none, "useless_reads_per_scan"),
                "{method}"
            );
        }
    }
    let useless = |method: &str| number(&row(100, method)[1], "useless_reads_per_scan");
    // Without filters, most files are read. The others have no key on one side of the scan, or the scan falls between
    // two blocks.
    assert!(useless("prefix Bloom") < useless("none"), "{scans}");
    assert!(useless("none") > 40.0 && useless("range, ordered") <= 0.1 * useless("none"), "{scans}");
}

#[test]
fn with_a_quarter_of_the_memory_shrinking_halves_the_useless_reads() {
    let report = report();
    let rows = report["less_memory"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        for design in ["kept_or_dropped", "shrunk", "partitions", "shrunk_partitions"] {
            assert_eq!(row[design]["false_negatives"], 0, "{row}");
        }
    }
    let quarter = rows.iter().find(|row| row["memory_percent"] == 25).unwrap();
    let reads = |design: &str| number(&quarter[design], "data_block_reads_per_absent_lookup");
    assert!(reads("shrunk") <= 0.5 * reads("kept_or_dropped"), "{quarter}");
    assert!(reads("shrunk_partitions") <= 0.2 * reads("kept_or_dropped"), "{quarter}");
}

#[test]
fn no_accident_hides_a_key_and_the_readme_has_the_figures() {
    let accidents = &report()["accidents"];
    let readme = fs::read_to_string("../../README.md").unwrap();
    let columns = |first: &str| {
        let mut cells = readme.lines().find_map(|line| line.strip_prefix(first)).unwrap().split(" | ");
        [(); 4].map(|()| cells.next().unwrap().trim_end_matches(" |").replace(',', ""))
    };
    let [names, plain, ours] = ["| | ", "| plain Bloom filter | ", "| sstfilter | "].map(columns);
    for ((name, plain), ours) in names.iter().zip(plain).zip(ours) {
        let row = by_name(accidents, "accident", name);
        assert_eq!(row["plain_bloom_false_negatives"].to_string(), plain, "{row}");
        assert_eq!(row["false_negatives"].to_string(), ours, "{row}");
        assert!(row["false_negatives"] == 0 && row["problem"].is_string(), "{row}");
    }
    let none = by_name(accidents, "accident", "none");
    assert_eq!((&none["plain_bloom_false_negatives"], &none["problem"]), (&0.into(), &Value::Null));
}

#[test]
fn the_text_fits_a_terminal_without_broken_rows_and_ends_in_a_sentence() {
    let text = run(&["demo"]).expect_code(0).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let rows = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!((rows(" bloom "), rows(" ribbon "), rows("   ")), (2, 2, 0), "{text}");
    assert!(text.contains("too few keys (about 909 per file)"), "{text}");
    assert!(text.ends_with("the build time.\n"), "{text}");
}
