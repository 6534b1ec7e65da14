//! Range filters from outside. The failures guarded against: a range filter that is treated as a point filter, and a
//! filter of other prefixes that reports keys as absent that it does not cover.

use crate::common::{Place, flip, lines, part, run};

/// Builds a table of keys `user07:0000`, 20 for each of 50 users: every tenth second.
pub(super) fn tables_of_rows(place: &Place, options: &[&str]) -> String {
    let keys = place.write("rows", lines(0..1_000, |row| format!("user{:02}:{:04}", row / 20, row % 20 * 10)));
    let out = place.text("rows.tables");
    let build = ["build", "--input", &keys, "--out", &out, "--files", "4", "--overwrite"];
    run(&[&build[..], options].concat()).expect_code(0);
    out
}

pub(super) const HASHED: [&str; 4] = ["--range-filter", "hashed:64:0.001:4", "--range-prefix", ":"];

#[test]
fn options_that_make_no_range_filter_are_refused() {
    let place = Place::new();
    tables_of_rows(&place, &[]);
    let (rows, out, ordered) = (place.text("rows"), place.text("out"), place.text("ordered"));
    for (options, words) in [
        (&["--range-filter", "hashed"][..], "expected ordered"),
        (&["--range-filter", "ordered", "--policy", "bloom"], "leave out --policy"),
    ] {
        run(&[&["filter", "--keys", &rows, "--out", &out], options].concat()).expect_error(words);
        assert!(!place.path("out").exists());
    }
    run(&["filter", "--keys", &rows, "--out", &ordered, "--range-filter", "ordered"]).expect_code(0);
    run(&["probe", &ordered, "--range", "b", "a"]).expect_error("expected LOWER below UPPER");
    run(&["probe", &ordered, "--range", "a"]).expect_error("--range");
    run(&["get", &ordered]).expect_error("expected a table, got a filter");
    run(&["filter", &ordered, "--out", &out]).expect_error("expected a table, got a filter");
}

#[test]
fn the_range_filter_of_a_table_is_verified_and_read() {
    let place = Place::new();
    let out = tables_of_rows(&place, &HASHED);
    let table = format!("{out}/000001.sst");
    let prefix = ["--range-prefix", ":"];
    let sound = run(&[&["verify", &out][..], &prefix].concat()).expect_code(0).stdout;
    assert!(sound.contains("0 damaged") && !sound.contains("not compared"), "{sound}");
    assert!(run(&["verify", &out]).expect_code(0).stdout.contains("not compared"), "sound, but for other readers");
    let scan = ["get", &out, "--range", "user07:0000", "user08:0000"];
    for (options, is_unused) in [(&prefix[..], false), (&[], true)] {
        let found = run(&[&scan[..], options].concat()).expect_code(0);
        assert_eq!(found.stdout.lines().count(), 20);
        assert_eq!(found.stderr.contains("pass its prefix with --range-prefix"), is_unused, "{}", found.stderr);
    }
    flip(&table, part(&table, "range-filter").0 + 3);
    for options in [&prefix[..], &[]] {
        let verified = run(&[&["verify", &out], options].concat()).expect_code(1).stdout;
        assert!(verified.contains("1 damaged"), "{verified}");
    }
    assert_eq!(run(&[&scan[..], &prefix].concat()).expect_code(0).stdout.lines().count(), 20);
}

#[test]
fn a_build_reports_its_range_filters_and_a_range_is_printed() {
    let place = Place::new();
    let ordered = ["--range-filter", "ordered:0.001"];
    let out = tables_of_rows(&place, &ordered);
    let found = run(&["get", &out, "--range", "user07:0100", "user07:0125"]).expect_code(0);
    assert_eq!(found.stdout, "user07:0100\t\nuser07:0110\t\nuser07:0120\t\n");
    run(&["get", &out, "--range", "user60:", "user70:"]).expect_code(1);
    let rows = place.text("rows");
    let build = [&["build", "--overwrite", "--input", &rows, "--out", &out][..], &ordered].concat();
    let filter = &run(&[&build[..], &["--json"]].concat()).expect_code(0).json()["written"][0]["range_filter"];
    assert_eq!((&filter["kind"], &filter["keys"]), (&"range".into(), &1_000.into()));
    let page = run(&build).expect_code(0).stdout;
    assert!(page.contains("1 table: range, "), "{page}");
}
