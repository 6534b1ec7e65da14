//! `sstfilter advise` from outside. The failure guarded against: advice whose figures are not those of the filters
//! that are then built.

use std::fs;

use crate::common::{Place, run};
use crate::engines::{array, number};

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
        place.write(&format!("lists/{file}"), crate::common::lines(0..keys, |key| format!("{file}-{key}")));
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
