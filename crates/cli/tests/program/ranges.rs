//! Range filters from outside. The failures guarded against: a range filter that is treated as a point filter, or as
//! sound with a flipped bit, and a filter of other prefixes that reports keys as absent that it does not cover.

use std::fs;

use crate::common::{Place, flip, lines, part, run};

/// Keys `user07:0000`, 20 for each of 50 users: every tenth second.
fn keys(place: &Place) -> String {
    place.write("rows", lines(0..1_000, |row| format!("user{:02}:{:04}", row / 20, row % 20 * 10)))
}

/// A block of these keys, built with `options`.
fn block(place: &Place, name: &str, options: &[&str]) -> String {
    let (keys, out) = (keys(place), place.text(name));
    run(&[&["filter", "--keys", &keys, "--out", &out], options].concat()).expect_code(0);
    out
}

fn hashed(place: &Place) -> String {
    block(place, "hashed.filter", &["--range-filter", "hashed:64:0.01:4", "--range-prefix", ":"])
}

#[test]
fn a_flipped_bit_anywhere_in_a_block_is_found_by_inspect_and_verify() {
    let place = Place::new();
    for block in [block(&place, "ordered.filter", &["--range-filter", "ordered"]), hashed(&place)] {
        let sound = run(&["verify", &block]).expect_code(0).stdout;
        assert!(sound.contains("1 sound, 0 damaged; 1,000 entries"), "{sound}");
        let length = usize::try_from(fs::metadata(&block).unwrap().len()).unwrap();
        // Also flips the kind: a range filter must not become a filter of keys.
        for at in [0, length / 2, length - 40, length - 32 + 16, length - 32 + 21, length - 1] {
            flip(&block, at);
            run(&["verify", &block]).expect_code(1);
            let shown = run(&["inspect", &block]).expect_code(1).stdout;
            assert!(shown.contains("checksum") && shown.contains("state   damaged"), "{at}: {shown}");
            let probed = run(&["probe", "--json", "--range", "user00:0001", "user00:0002", &block]).expect_code(1);
            assert_eq!(probed.json()["answers"][0]["files"][0]["answer"], "read", "{at}: {}", probed.stdout);
            flip(&block, at);
        }
        let whole = fs::read(&block).unwrap();
        fs::write(&block, &whole[..length - 1]).unwrap();
        assert_eq!(run(&["verify", &block]).expect_code(1).stderr, "");
        fs::write(&block, whole).unwrap();
    }
}

#[test]
fn options_that_make_no_range_filter_are_refused() {
    let place = Place::new();
    let (rows, out) = (keys(&place), place.text("out"));
    for (options, words) in [
        (&["--range-filter", "hashed"][..], "expected ordered"),
        (&["--range-filter", "ordered", "--policy", "bloom"], "leave out --policy"),
    ] {
        run(&[&["filter", "--keys", &rows, "--out", &out], options].concat()).expect_error(words);
        assert!(!place.path("out").exists());
    }
    let ordered = block(&place, "ordered.filter", &["--range-filter", "ordered"]);
    let hashed = hashed(&place);
    let probed = run(&["probe", &hashed, "--range", "a", "b"]).expect_code(0).stdout;
    assert!(probed.contains("pass its prefix with --range-prefix"), "{probed}");
    run(&["probe", &ordered, "--range", "b", "a"]).expect_error("expected LOWER below UPPER");
    run(&["probe", &ordered, "--range", "a"]).expect_error("--range");
    run(&["get", &ordered]).expect_error("expected a table, got a filter");
    run(&["filter", &ordered, "--out", &out]).expect_error("expected a table, got a filter");
}

/// Four tables of the rows, dealt one by one, with a range filter.
fn tables(place: &Place, options: &[&str]) -> String {
    let (keys, out) = (keys(place), place.text("tables"));
    run(&[&["build", "--input", &keys, "--out", &out, "--files", "4", "--json"], options].concat()).expect_code(0);
    out
}

const HASHED: [&str; 4] = ["--range-filter", "hashed:64:0.001:4", "--range-prefix", ":"];

#[test]
fn the_range_filter_of_a_table_is_shown_verified_and_probed() {
    let place = Place::new();
    let out = tables(&place, &HASHED);
    let table = format!("{out}/000001.sst");
    let prefix = ["--range-prefix", ":"];
    let sound = run(&[&["verify", &out][..], &prefix].concat()).expect_code(0).stdout;
    assert!(sound.contains("0 damaged") && !sound.contains("not compared"), "{sound}");
    assert!(run(&["verify", &out]).expect_code(0).stdout.contains("not compared"), "sound, but for other readers");
    let probe = ["probe", "--json", &out, "--range", "user07:0101", "user07:0105"];
    let probed = run(&[&probe[..], &prefix].concat()).expect_code(0).json();
    let answers: Vec<_> =
        probed["answers"][0]["files"].as_array().unwrap().iter().map(|file| &file["answer"]).collect();
    assert_eq!(answers, ["skip"; 4], "{probed}");

    flip(&table, part(&table, "range-filter").0 + 3);
    for options in [&prefix[..], &[]] {
        let verified = run(&[&["verify", &out], options].concat()).expect_code(1).stdout;
        assert!(verified.contains("1 damaged"), "{verified}");
    }
    let scan = ["get", "--json", &out, "--range", "user07:0000", "user08:0000"];
    assert_eq!(run(&[&scan[..], &prefix].concat()).expect_code(0).json()["found_entries"], 20);
}

#[test]
fn a_build_reports_its_range_filters() {
    let place = Place::new();
    let (keys, out) = (keys(&place), place.text("tables"));
    let built =
        run(&["build", "--json", "--input", &keys, "--out", &out, "--range-filter", "ordered"]).expect_code(0).json();
    assert_eq!(
        (&built["written"][0]["range_filter"]["kind"], &built["written"][0]["range_filter"]["keys"]),
        (&"range".into(), &1_000.into())
    );
    let page =
        run(&["build", "--overwrite", "--input", &keys, "--out", &out, "--range-filter", "ordered"]).expect_code(0);
    assert!(page.stdout.contains("1 table: range, "), "{}", page.stdout);
}
