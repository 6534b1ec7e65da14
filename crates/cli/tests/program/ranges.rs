//! Range filters from outside. The failures guarded against: a range filter that is treated as a point filter, or as
//! sound with a flipped bit, and a filter of other prefixes that reports keys as absent that it does not cover.

use std::fs;

use serde_json::Value;

use crate::common::{Place, flip, lines, part, run, run_with_input};

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
            let probed =
                run(&["probe", "--json", "--range", "user00:0001", "user00:0002", &block]).expect_code(1).json();
            assert_eq!(probed["touched"], 1, "{at}: {probed}");
            flip(&block, at);
        }
        let whole = fs::read(&block).unwrap();
        fs::write(&block, &whole[..length - 1]).unwrap();
        assert_eq!(run(&["verify", &block]).expect_code(1).stderr, "");
        fs::write(&block, whole).unwrap();
    }
}

#[test]
fn a_range_is_absent_where_no_key_is_and_present_at_every_key() {
    let place = Place::new();
    let ordered = block(&place, "ordered.filter", &["--range-filter", "ordered:0.001"]);
    let hashed = hashed(&place);
    let touched = |block: &str, lower: &str, upper: &str| {
        let options = ["probe", "--json", "--range-prefix", ":", "--range", lower, upper, block];
        run(&options).expect_code(0).json()["touched"].as_u64().unwrap()
    };
    for block in [&ordered, &hashed] {
        assert_eq!(
            (touched(block, "user07:0100", "user07:0101"), touched(block, "user07:0095", "user07:0105")),
            (1, 1)
        );
    }
    assert_eq!((touched(&ordered, "user50:", "user99:"), touched(&hashed, "user90:0000", "user90:0050")), (0, 0));
    let rows = keys(&place);
    for block in [&ordered, &hashed] {
        let probed = run(&["probe", "--json", "--range-prefix", ":", block, "--keys", &rows]).expect_code(0).json();
        assert_eq!((&probed["positives"], &probed["unusable_filters"]), (&1_000.into(), &0.into()), "{probed}");
    }
    let page = run(&["probe", "--range", "user50:", "user99:", &ordered]).expect_code(0).stdout;
    assert!(page.contains("ordered   absent, by its range filter"), "{page}");
    assert!(page.contains("from user50: (inclusive) to user99: (exclusive): 0 of 1 table may contain a key"), "{page}");
}

#[test]
fn a_hashed_filter_of_other_prefixes_may_hold_everything_and_is_no_damage() {
    let place = Place::new();
    let hashed = hashed(&place);
    for prefix in [&[][..], &["--range-prefix", "7"]] {
        let options = ["probe", "--json", "--range", "user07:0101", "user07:0102", &hashed];
        let probed = run(&[&options[..], prefix].concat()).expect_code(0).json();
        assert_eq!((&probed["touched"], &probed["per_table"][0]["range_filter"]), (&1.into(), &"unusable".into()));
        run(&[&["verify", &hashed][..], prefix].concat()).expect_code(0);
    }
}

#[test]
fn options_that_make_no_range_filter_are_refused() {
    let place = Place::new();
    let (rows, out) = (keys(&place), place.text("out"));
    for (options, words) in [
        (&["--range-filter", "hashed"][..], "expected ordered"),
        (&["--range-filter", "hashed:0"], "longest range"),
        (&["--range-filter", "hashed:1e18"], "at most 2^41 units"),
        (&["--range-filter", "ordered", "--policy", "bloom"], "leave out --policy"),
        (&["--range-filter", "hashed:8:0.01:9"], "expected 1 to 8"),
        (&["--range-filter", "ordered", "--range-prefix", ""], "expected a number of bytes"),
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
    assert_eq!((&probed["tables"], &probed["touched"]), (&4.into(), &0.into()), "{probed}");

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
        (&built["built_range_filters"][0]["filter"]["kind"], &built["built_range_filters"][0]["filter"]["keys"]),
        (&"range".into(), &1_000.into())
    );
    let page =
        run(&["build", "--overwrite", "--input", &keys, "--out", &out, "--range-filter", "ordered"]).expect_code(0);
    assert!(page.stdout.contains("built range filters:"), "{}", page.stdout);
}

/// The lines of a listing, as their cells.
fn cells(listed: &str) -> Vec<Vec<String>> {
    listed.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Once, a file of ranges needed a run for each range.
#[test]
fn a_file_of_ranges_gets_the_answers_that_each_range_gets_alone() {
    let place = Place::new();
    let out = tables(&place, &["--range-filter", "ordered:0.001"]);
    let bare = block(&place, "bare.filter", &["--range-filter", "ordered:0.001"]);
    fs::copy("../interop/fixtures/rocksdb/7.8-bloom-fv5.sst", format!("{out}/000009.sst")).unwrap();
    let pairs: Vec<[String; 2]> = (0..200)
        .map(|row| {
            [row * 7, row * 7 + 1 + row % 30].map(|at| format!("user{:02}:{:04}", at / 20, at % 20 * 10 + row % 10))
        })
        .filter(|[lower, upper]| lower < upper)
        .chain([["a", "b"], ["user60:", "user70:"]].map(|ends| ends.map(str::to_owned)))
        .collect();
    let lines = lines(0..pairs.len(), |number| pairs[number].join("\t"));
    let ranges = place.write("ranges", &lines);
    let options = ["probe", &out, &bare, "--ranges", &ranges];
    let listed = run(&[&options[..], &["--per-range"]].concat()).expect_code(0);
    let json = run(&[&options[..], &["--per-key", "--json"]].concat()).expect_code(0).json();
    let rows = cells(&listed.stdout);
    assert_eq!((rows.len(), json["answers"].as_array().unwrap().len()), (pairs.len(), pairs.len()));
    let (mut by_keys, mut by_filter, mut touched) = (0, 0, 0);
    for (number, [lower, upper]) in pairs.iter().enumerate() {
        let alone = run(&["probe", "--json", &out, &bare, "--range", lower, upper]).expect_code(0).json();
        let (row, answer) = (&rows[number], &json["answers"][number]);
        assert_eq!((&row[0], &row[1], row[2].parse().ok()), (lower, upper, alone["touched"].as_u64()), "{alone}");
        assert_eq!((&answer["lower"], &answer["tables"]), (&lower.as_str().into(), &alone["touched"]));
        let per_table = alone["per_table"].as_array().unwrap();
        let which: Vec<_> = per_table.iter().filter(|table| table["may_contain_range"] == true).collect();
        let name = |table: &Value| table["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let mark = |table: &Value| if table["problem"].is_null() { "" } else { "?" };
        let which: Vec<_> = which.iter().map(|table| name(table) + mark(table)).collect();
        assert_eq!(row[3].split(',').filter(|name| !name.is_empty()).collect::<Vec<_>>(), which);
        let skipped = |by: &str| per_table.iter().filter(|table| table["skipped_by"] == by).count() as u64;
        (by_keys, by_filter) = (by_keys + skipped("keys"), by_filter + skipped("range_filter"));
        touched += alone["touched"].as_u64().unwrap();
    }
    let sum = |field: &str| -> u64 {
        json["per_table"].as_array().unwrap().iter().map(|table| table[field].as_u64().unwrap()).sum()
    };
    assert_eq!(
        (sum("skipped_by_keys"), sum("skipped_by_range_filter"), sum("positives")),
        (by_keys, by_filter, touched)
    );
    assert!(by_keys > 0 && by_filter > 50 && touched > 200, "{by_keys} {by_filter} {touched}");
    assert_eq!((&json["ranges"], &json["max_tables_per_range"]), (&pairs.len().into(), &6.into()), "{json}");
    let page = run(&options).expect_code(0).stdout;
    assert!(page.contains("202 ranges over 6 tables") || page.contains("ranges over 6 tables"), "{page}");
    assert!(page.contains("000009.sst: it has no range filter"), "{page}");

    let maybe = run(&[&options[..], &["--only-maybe"]].concat()).expect_code(0).stdout;
    let absent = run(&[&options[..5], &["--only-absent"]].concat()).expect_code(0).stdout;
    assert_eq!((maybe, absent), (lines, String::new()), "the table of RocksDB may hold each");
    let absent = run(&["probe", &bare, "--ranges", &ranges, "--only-absent"]).expect_code(0).stdout;
    let none =
        run(&["probe", &bare, "--ranges", &ranges, "--json"]).expect_code(0).json()["ranges_touching_none"].clone();
    assert_eq!(none, absent.lines().count());
    assert!(absent.contains("a\tb\n") && absent.contains("user60:\tuser70:\n"), "{absent}");
}

#[test]
fn ranges_are_read_in_every_format_of_keys_and_from_standard_input() {
    let place = Place::new();
    let ordered = block(&place, "ordered.filter", &["--range-filter", "ordered:0.001"]);
    let inputs: [(&str, &[u8]); 4] = [
        ("lines", b"user07:0000\tuser07:0001\n\tuser\n\nuser60:\tuser70:\n"),
        ("crlf", b"user07:0000\tuser07:0001\r\n\tuser\r\nuser60:\tuser70:\r\n"),
        ("nul", b"user07:0000\0user07:0001\0\0user\0user60:\0user70:\0"),
        ("hex", b"7573657230373a30303030\t7573657230373a30303031\n\t75736572\n7573657236303a\t7573657237303a\n"),
    ];
    for (format, input) in inputs {
        let probe = ["probe", &ordered, "--ranges", "-", "--keys-format", format];
        let probed = run_with_input(&[&probe[..], &["--json", "--per-range"]].concat(), input).expect_code(0).json();
        let answer =
            |at: usize| (probed["answers"][at]["lower"].as_str().unwrap(), probed["answers"][at]["tables"].as_u64());
        assert_eq!([0, 1, 2].map(answer), [("user07:0000", Some(1)), ("", Some(0)), ("user60:", Some(0))], "{probed}");
        // The output has the format of the input.
        let listed = run_with_input(&[&probe[..], &["--only-absent"]].concat(), input).expect_code(0).stdout;
        assert!(
            input.ends_with(listed.as_bytes()) || format == "lines" && listed == "\tuser\nuser60:\tuser70:\n",
            "{listed:?}"
        );
        assert!(!listed.is_empty());
    }
    for (format, input, words) in [
        ("lines", &b"a\tb\nb\ta\n"[..], "range 2, from 'b' to 'a'"),
        ("lines", b"a b\n", "range 1: expected LOWER and UPPER, separated by a tab, got 'a b' without UPPER"),
        ("nul", b"a\0b\0c\0", "two ends for each range, got 3 ends"),
        ("hex", b"61\t6\n", "line 1"),
        ("lines", b"\n", "contains no key"),
    ] {
        let wrong = run_with_input(&["probe", &ordered, "--ranges", "-", "--keys-format", format], input);
        wrong.expect_error(words);
    }
    run(&["probe", &ordered, "--ranges", "x", "--range", "a", "b"]).expect_error("--range");
    run(&["probe", &ordered, "--ranges", "x", "--keys", "x"]).expect_error("--keys");
}

/// A damaged filter may contain a key of every range, for any number of ranges.
#[test]
fn ranges_over_a_damaged_file_are_no_success() {
    let place = Place::new();
    let ordered = block(&place, "ordered.filter", &["--range-filter", "ordered:0.001"]);
    let ranges = place.write("ranges", "a\tb\nuser60:\tuser70:\n");
    run(&["probe", &ordered, "--ranges", &ranges]).expect_code(0);
    flip(&ordered, 20);
    let page = run(&["probe", &ordered, "--ranges", &ranges]).expect_code(1).stdout;
    assert!(page.contains("checksum") && page.contains("without a key in any table: 0"), "{page}");
    let listed = run(&["probe", &ordered, "--ranges", &ranges, "--only-absent"]).expect_code(1);
    assert!(listed.stdout.is_empty() && listed.stderr.contains("checksum"), "{}", listed.stderr);
}
