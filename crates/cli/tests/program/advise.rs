//! `sstfilter advise` from outside. The failures guarded against: advice whose figures are not those of the filters
//! that are then built, and a plan for levels that the store does not have, or that loses against equal filters.

use std::fs;

use serde_json::Value;
use sstfilter::{BuildContext, KeyHasher};
use sstfilter_table::{TableOptions, TableWriter};

use crate::common::{Place, array, json, lines, number, run};

#[test]
fn the_cheapest_kind_follows_lookups_reads_updates_and_memory() {
    let advice =
        |options: &[&str]| run(&[&["--json", "advise", "kind", "1e6"], options].concat()).expect_code(0).json();
    for (options, kind) in [
        (&["--lookups-per-key", "0"][..], "bloom"),
        (&["--lookups-per-key", "100"], "ribbon"),
        // Line ribbon is for stores in memory, and Ribbon for those on disks.
        (&["--fpr", "0.004", "--lookups-per-key", "100", "--false-positive-ns", "500"], "line-ribbon"),
        (&["--fpr", "0.004", "--lookups-per-key", "100", "--false-positive-ns", "100K"], "ribbon"),
        (&["--updates", "insert", "--writers", "8"], "register-blocked-bloom"),
    ] {
        assert_eq!(advice(options)["ranked"][0]["kind"], kind, "{options:?}");
    }
    let removing = advice(&["--updates", "remove", "--writers", "8"]);
    assert_eq!(removing["ranked"][0]["kind"], "cuckoo");
    assert!(removing["advice"].as_str().unwrap().contains("it needs a lock"), "{removing}");
    assert!(removing["unsuitable"].to_string().contains("bloom cannot remove keys"), "{removing}");
    let bounded = advice(&["--memory", "1Mi"]);
    assert!(array(&bounded, "ranked").iter().all(|row| number(&row["filter_bytes"]) <= 1_048_576.0), "{bounded}");
    let none = run(&["advise", "kind", "1000000", "--memory", "100"]).expect_code(1);
    assert!(none.stdout.contains("no kind meets all requirements"), "{}", none.stdout);
}

/// The failure guarded against: advice for a store that is not the one that would be built.
#[test]
fn the_sizes_of_many_files_are_those_of_filters_and_maps_that_are_built() {
    let place = Place::new();
    let (files, keys) = (40, 2_000);
    fs::create_dir(place.path("lists")).unwrap();
    for file in 0..files {
        place.write(&format!("lists/{file}"), lines(0..keys, |key| format!("{file}-{key}")));
    }
    let advise = ["advise", "files", "40", "2000", "1e6", "--fpr", "0.02"];
    let advice = run(&[&advise[..], &["--json"]].concat()).expect_code(0).json();
    let layout = |name: &str| {
        let mut layouts = advice["layouts"].as_array().unwrap().iter();
        layouts.find(|layout| layout["layout"] == name).unwrap_or_else(|| panic!("{name} in {advice}")).clone()
    };
    let [map, lists] = ["a.map", "lists"].map(|name| place.text(name));
    let options = ["--max-entries", "80000", "--fpr", "0.02", "--json"];
    let build = [&["map", "build", "--key-lists", &lists, "--out", &map], &options[..]].concat();
    let built = run(&build).expect_code(0).json();
    let [in_memory, read] = ["file map in memory", "file map, page read"].map(layout);
    assert_eq!(in_memory["stored_bytes"], built["bytes"], "{built}");
    assert_eq!(read["read_bytes"], built["map"]["page_bytes"]);
    assert!((number(&read["opened_in_vain"]) / number(&built["map"]["expected_false_candidates"]) - 1.0).abs() < 0.01);
    assert!((number(&read["requests"]) - 1.0 - 2.0 * number(&read["opened_in_vain"])).abs() < 1e-9);

    let out = place.text("filter");
    let list = place.text("lists/7");
    run(&["filter", "--keys", &list, "--policy", "bloom", "--fpr", "0.02", "--out", &out]).expect_code(0);
    // A filter that is bound to its file has 8 bytes more.
    let bytes = 40 * (fs::metadata(&out).unwrap().len() + 8);
    for name in ["filters in memory", "filters, lines read", "transposed blocks"] {
        assert_eq!(layout(name)["stored_bytes"], bytes, "{name}");
    }
    let transposed = layout("transposed blocks");
    assert_eq!(transposed["read_bytes"], 40 * 64);
    let opened = number(&transposed["opened_in_vain"]);
    assert!((0.7..0.9).contains(&opened) && (number(&transposed["requests"]) - 1.0 - 2.0 * opened).abs() < 1e-9);
    // 10^6 lookups a day, at $0.0004 for 1,000 requests; 10^9 bytes take $0.023 a month.
    assert!((number(&transposed["dollars_per_day"]) - 0.4 * number(&transposed["requests"])).abs() < 1e-6);
    assert!((number(&transposed["dollars_per_month"]) - 0.023e-9 * number(&transposed["stored_bytes"])).abs() < 1e-12);
}

#[test]
fn the_advice_for_many_files_follows_lookups_memory_and_prices() {
    let advice = |lookups: &str, options: &[&str]| {
        let text = run(&[&["advise", "files", "1e4", "1e6", lookups], options].concat()).expect_code(0).stdout;
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        text.lines().find_map(|line| line.strip_prefix("advice  ")).unwrap().to_owned()
    };
    for (lookups, options, expected) in [
        ("0", &[][..], "no filter: $0 a month"),
        ("100", &[], "transposed blocks: $"),
        ("1000", &[], "file map, page read: $"),
        // Memory has no price: it is used if it saves more than a tenth.
        ("1e6", &["--memory", "64G"], "file map in memory"),
        ("1000", &["--memory", "64G"], "file map, page read"),
        ("1000", &["--memory", "1K"], "filters, lines read"),
        (
            "1000",
            &["--prices", "0,0"],
            "file map, page read: 1.02 reads for an absent key; next: transposed blocks, 210",
        ),
        ("1000", &["--prices", "0,0", "--memory", "64G"], "file map in memory: 0.0182 reads"),
    ] {
        let line = advice(lookups, options);
        assert!(line.starts_with(expected), "{line}");
    }
    // The number of lookups at which both cost the same.
    let line = advice("1000", &[]);
    let limit = line.split("cheaper below ").nth(1).unwrap().split(' ').next().unwrap().replace(',', "");
    let limit: u64 = limit.parse().unwrap();
    for (lookups, side) in [(limit / 2, "cheaper above"), (limit + 2, "cheaper below"), (limit * 2, "cheaper below")] {
        let line = advice(&lookups.to_string(), &[]);
        assert!(line.contains(side) && line.matches("cheaper").count() == 1, "{line}");
    }
    let text = run(&["advise", "files", "70", "1e4", "1", "--rewrites", "3"]);
    assert!(text.stdout.contains("1 entry (") && text.stdout.contains("ids of files take 4 ("), "{}", text.stdout);
    let huge = run(&["advise", "files", "2e9", "1e12", "18446744073709551615"]).expect_code(0).stdout;
    assert!(huge.contains("filters: not for this number of keys") && huge.contains("pass --maps"), "{huge}");
}

/// The failure guarded against: a page that shows figures of an earlier program.
#[test]
fn the_tables_of_the_page_of_many_files_are_what_the_program_prints() {
    let page = fs::read_to_string("../../docs/many-files.md").unwrap();
    let mut compared = 0;
    for block in page.split("```sh\n").skip(1) {
        let (command, rest) = block.split_once("\n```\n").unwrap();
        let shown = rest.trim_start().strip_prefix("```text\n").unwrap().split("```").next().unwrap();
        let arguments: Vec<&str> = command.strip_prefix("sstfilter ").unwrap().split(' ').collect();
        assert_eq!(run(&arguments).expect_code(0).stdout, shown, "{command}");
        compared += 1;
    }
    assert_eq!(compared, 3);
}

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
