//! The failure guarded against: a plan for levels that the store does not have, or that loses against equal filters.

use serde_json::Value;
use sstfilter::{BuildContext, KeyHasher};
use sstfilter_table::{TableOptions, TableWriter};

use crate::common::{Place, json, run};
use crate::engines::{array, number};

fn levels(arguments: &[&str], code: i32) -> Value {
    json(&[&["advise", "levels"], arguments].concat(), code)
}

/// Returns a figure of the plan, of equal bits, of the present filters (now) or of enough memory.
fn total(advice: &Value, choice: &str, figure: &str) -> f64 {
    let mut totals = advice["totals"].as_array().unwrap().iter();
    number(&totals.find(|total| total["choice"] == choice).unwrap_or_else(|| panic!("{choice}: {advice}"))[figure])
}

#[test]
fn levels_get_the_memory_of_equal_bits_or_of_an_option() {
    let options = ["1e4,1e5,1e6,1e7,1e8", "--policy", "standard-bloom"];
    let advice = levels(&options, 0);
    let plan = array(&advice, "plan");
    assert_eq!((plan.len(), &plan[4]["level"], &plan[4]["keys"]), (5, &4.into(), &100_000_000.into()), "{advice}");
    assert_eq!(advice["memory_limit_bytes"], 111_110_000 * 10 / 8);
    let bytes: f64 = plan.iter().map(|level| number(&level["filter_bytes"])).sum();
    assert!((total(&advice, "this plan", "filter_bytes") - bytes).abs() < 0.5, "{advice}");
    let same = levels(&[&options[..], &["--memory", "138887500"]].concat(), 0);
    assert_eq!(same["plan"], advice["plan"]);
    assert!(advice["advice"].as_str().unwrap().contains("equal bits per key everywhere cause 3.4"), "{advice}");
}

#[test]
fn a_plan_needs_neither_memory_nor_keys() {
    let without = levels(&["40K/4,1e6", "--memory", "0"], 0);
    for choice in ["this plan", "equal bits"] {
        let figures = ["filter_bytes", "useless_reads"].map(|figure| total(&without, choice, figure));
        assert_eq!(figures.map(f64::to_bits), [0.0, 5.0].map(f64::to_bits), "{without}");
    }
    assert_eq!((&without["plan"][0]["runs"], &without["plan"][0]["keys"]), (&4.into(), &40_000.into()));
    let short = levels(&["1e4,1e6", "--bits-per-key", "0.5"], 0);
    assert!(short["advice"].as_str().unwrap().contains("even the smallest filters do not fit"), "{short}");
    let none = levels(&["1e4", "--memory", "10"], 1);
    assert_eq!(
        (&none["advice"], &none["plan"][0]["options"]),
        (&"no filter fits into this memory".into(), &"--policy none".into())
    );
    assert_eq!(levels(&["1e6"], 0)["plan"][0]["options"], "--policy ribbon --bits-per-key 10.00");
    assert!(total(&levels(&["0,0"], 0), "this plan", "useless_reads") < 1e-9);
    let huge = levels(&["18446744073709551615", "--bits-per-key", "1e300"], 1);
    assert!((total(&huge, "this plan", "useless_reads") - 1.0).abs() < 1e-9, "{huge}");
}

#[test]
fn optimized_for_hits_the_last_level_with_keys_has_no_filters_and_memory_that_saves_nothing_is_told() {
    let advice = levels(&["1e4,1e5,0", "--optimize-for-hits"], 0);
    let rate = |level: usize| number(&advice["plan"][level]["expected_fpr"]);
    assert!(rate(0) < 1e-6 && rate(1) >= 1.0, "{advice}");
    assert_eq!(advice["plan"][1]["filter_bytes"], 0);
    // The useless reads of a level without filters hide the effect of memory on the others.
    let store = ["40K/4,1e5,1e6,1e7", "--bits-per-key", "10"];
    let advice = levels(&[&store[..], &["--optimize-for-hits"]].concat(), 0);
    let [enough, plan] = ["enough", "this plan"]
        .map(|choice| ["filter_bytes", "useless_reads"].map(|figure| total(&advice, choice, figure)));
    assert!(enough[0] < plan[0] / 2.0 && enough[1] < plan[1] * 1.01, "{advice}");
    assert!(advice["advice"].as_str().unwrap().contains(" would be enough: 1.0"), "{advice}");
    assert!(!levels(&store, 0)["totals"].to_string().contains("enough"));
}

/// Writes a table of `keys` keys, for a level if one is passed.
fn write_table(directory: &str, number: u32, level: Option<u32>, keys: u32, has_filter: bool) {
    let context = BuildContext::new(&KeyHasher::default());
    let context = level.map_or(context.clone(), |level| context.with_level(level));
    let options = TableOptions::default().with_context(context);
    let options = if has_filter { options } else { options.without_filter() };
    let mut writer = TableWriter::create(format!("{directory}/{number:06}.sst"), &options).unwrap();
    (0..keys).for_each(|key| writer.add(format!("{number}:{key:08}").as_bytes(), b"value").unwrap());
    writer.finish().unwrap();
}

#[test]
fn the_levels_of_tables_are_those_that_they_were_written_for() {
    let place = Place::new();
    let directory = place.text("");
    for (number, level, keys, has_filter) in [
        (1, Some(0), 1_000, true),
        (2, Some(0), 3_000, true),
        (3, Some(1), 9_000, true),
        (4, Some(1), 6_000, false),
        (5, Some(2), 50_000, true),
        (6, None, 10, true),
    ] {
        write_table(&directory, number, level, keys, has_filter);
    }
    let advice = levels(&[&directory, "--policy", "bloom"], 0);
    let size = |level: &Value| ["level", "keys", "runs", "tables"].map(|name| level[name].as_u64().unwrap());
    let sizes: Vec<_> = advice["plan"].as_array().unwrap().iter().map(size).collect();
    assert_eq!(sizes, [[0, 4_000, 2, 2], [1, 15_000, 1, 2], [2, 50_000, 1, 1]], "{advice}");
    let notes = advice["notes"].to_string();
    assert!(notes.contains("000006.sst: left out: its level is unknown"), "{notes}");
    assert!(notes.contains("000004.sst: counted as always read: no filter"), "{notes}");
    let report = json(&["report", &directory], 0);
    let of_levels =
        report["families"][0]["levels"].as_array().unwrap().iter().filter(|level| !level["level"].is_null());
    let now: f64 = of_levels.map(|level| number(&level["filter_bytes"])).sum();
    assert!((total(&advice, "now", "filter_bytes") - now).abs() < 0.5, "{advice}");
    assert!((number(&advice["memory_limit_bytes"]) - now).abs() < 0.5, "{advice}");
    // Two filters on level 0, no filter for six of fifteen lookups on level 1, one filter on level 2.
    assert!((0.42..0.45).contains(&total(&advice, "now", "useless_reads")), "{advice}");
    assert!(total(&advice, "this plan", "useless_reads") < 0.1, "{advice}");
    run(&["advise", "levels", &format!("{directory}/000006.sst")])
        .expect_error("expected tables whose level is known, got none");
}
