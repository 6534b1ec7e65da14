//! `build` and `filter` with any input. The failures guarded against: a key that is in no table, a table of another
//! kind, size or level than requested, two builds that write to one directory, and a filter without a table that
//! differs from the table's, which would lose keys elsewhere without notice.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sstfilter_table::{Table, TableOptions};

use crate::common::{Place, array, flip, inspected, json, lines, names, part, program, run};

fn open(out: &str, number: u64) -> Table {
    Table::open(format!("{out}/{number:06}.sst"), &TableOptions::default()).unwrap()
}

#[test]
fn unsorted_lines_become_a_table_and_the_last_line_of_a_key_wins() {
    let place = Place::new();
    let (input, out) = (place.write("in", "b\t1\na\t2\n\nb\t3\nc\n"), place.text("tables"));
    let built = json(&["build", "--input", &input, "--out", &out], 0);
    let fields = ["tables", "entries", "duplicate_keys"];
    assert_eq!(fields.map(|field| built[field].as_u64().unwrap()), [1, 3, 1]);
    assert_eq!(names(&out), ["000001.sst"]);
    assert_eq!(run(&["get", &out, "a", "b", "c"]).expect_code(0).stdout, "a\t2\nb\t3\nc\t\n");
}

#[test]
fn keys_are_dealt_to_exactly_as_many_files_as_requested() {
    let place = Place::new();
    for (layout, largest) in [(&["--files", "7"][..], "key0098"), (&["--files", "7", "--consecutive"], "key0013")] {
        let out = place.build(100, &[layout, &["--overwrite"]].concat());
        assert_eq!(names(&out).len(), 7);
        assert_eq!(open(&out, 1).iter().last().unwrap().unwrap().key, largest.as_bytes());
        for key in [0, 1, 50, 99] {
            let found = run(&["get", &out, &format!("key{key:04}")]).expect_code(0);
            assert_eq!(found.stdout, format!("value{key:04}\n"));
        }
        run(&["verify", &out]).expect_code(0);
    }
}

#[test]
fn tables_roll_over_at_their_size() {
    let place = Place::new();
    let out = place.text("tables");
    for count in ["20K", "20_000", "2e4"] {
        let arguments = ["build", "--generate", count, "--table-bytes", "64Ki", "--overwrite", "--out", &out, "--json"];
        let built = run(&arguments).expect_code(0).json();
        let written = built["written"].as_array().unwrap();
        assert!(written.len() > 5 && written.len() == names(&out).len(), "{built}");
        let sum = |field: &str| written.iter().map(|table| table[field].as_u64().unwrap()).sum::<u64>();
        assert_eq!((built["entries"].as_u64(), built["table_bytes"].as_u64()), (Some(20_000), Some(sum("bytes"))));
        assert_eq!(sum("entries"), 20_000);
        for table in written {
            let bytes = std::fs::metadata(table["path"].as_str().unwrap()).unwrap().len();
            assert!(table["bytes"] == bytes && bytes < 80 << 10, "{table}");
        }
    }
    run(&["get", &out, "user:000000019999:profile"]).expect_code(0);
    run(&["get", &out, "user:000000020000:profile"]).expect_code(1);
}

#[test]
fn the_kind_of_filter_follows_policy_and_number_of_keys() {
    let place = Place::new();
    let out = place.text("tables");
    for (keys, options, kind, fallback, bits) in [
        ("5000", &["--policy", "bloom"][..], "bloom", Value::Null, 10.0),
        ("5000", &["--policy", "ribbon", "--fpr", "0.01"], "ribbon", Value::Null, 7.0),
        ("5000", &["--policy", "standard-bloom", "--fpr", "0.01"], "standard-bloom", Value::Null, 9.6),
        ("5000", &[], "ribbon", Value::Null, 7.0),
        ("500", &["--policy", "ribbon"], "bloom", "not ribbon: too few keys".into(), 10.0),
        ("50000", &["--policy", "bloom", "--bits-per-key", "12.5"], "bloom", Value::Null, 12.5),
        ("5000", &["--policy", "bloom", "--fpr", "0.001", "--partitions", "1Ki:hash"], "bloom", Value::Null, 17.0),
    ] {
        let arguments = ["build", "--generate", keys, "--out", &out, "--overwrite", "--json"];
        let built = run(&[&arguments, options].concat()).expect_code(0).json();
        let group = &built["written"][0]["filter"];
        assert_eq!((&group["kind"], &group["fallback"]), (&kind.into(), &fallback), "{options:?}");
        let measured = group["bits_per_key"].as_f64().unwrap();
        assert!((measured - bits).abs() < 0.1 * bits, "{options:?}: {measured}");
        run(&["verify", &out]).expect_code(0);
        run(&["get", &out, "user:000000000007:profile"]).expect_code(0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn two_builds_do_not_write_to_one_directory() {
    let place = Place::new();
    let out = place.text("tables");
    let endless = ["build", "--generate", "999999999999", "--table-bytes", "64Ki", "--out", &out];
    let mut first = program().args(endless).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !place.path("tables/000001.sst").exists() && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(5));
    }
    let second = run(&["build", "--generate", "10", "--overwrite", "--out", &out]);
    first.kill().unwrap();
    first.wait().unwrap();
    second.expect_error("another build");
    run(&["build", "--generate", "10", "--overwrite", "--out", &out]).expect_code(0);
    assert_eq!(names(&out), ["000001.sst"]);
}

#[test]
fn the_extracted_block_is_the_one_of_the_table() {
    let place = Place::new();
    let options = ["--policy", "ribbon", "--fpr", "0.01", "--hash-seed", "5"];
    let table = format!("{}/000001.sst", place.build(2_000, &options));
    let block = place.text("x.block");
    let report = json(&["filter", &table, "--out", &block], 0);
    let [filter, mut shown] = [&table, &block].map(|path| inspected(&[path], 0)["filters"][0].clone());
    (shown["role"], shown["policy"]) = ("table".into(), filter["policy"].clone());
    assert_eq!(shown, filter);
    assert_eq!(
        (&report["filters"][0]["keys"], &report["bytes"]),
        (&2_000.into(), &fs::metadata(&block).unwrap().len().into())
    );
    assert_eq!(report["filters"][0]["bound_to"], filter["bound_to"]);
    run(&["verify", &block]).expect_code(0);
    let absent = place.write("absent", lines(10..1_900, |key| format!("key{key:04}x")));
    let [of_table, of_block] =
        [&table, &block].map(|path| run(&["probe", path, "--keys", &absent, "--list", "maybe"]).expect_code(0).stdout);
    assert!(!of_table.is_empty() && of_table == of_block, "without its table, a filter answers as in it");

    run(&["filter", &block, "--out", &place.text("y")]).expect_error("expected a table, got a filter");
    let piped = program().args(["filter", &table, "--out", "-"]).output().unwrap();
    assert_eq!((piped.status.code(), piped.stdout), (Some(0), fs::read(&block).unwrap()));
    run(&["filter", &table, "--out", "-", "--json"]).expect_error("standard output receives the filter");
    run(&["filter", &table, "--out", &place.text("none/y")]).expect_error("cannot write");
    let (seed, secret) = (place.write("seed", "00112233445566ff\n"), place.text("secret"));
    run(&["build", "--generate", "200", "--out", &secret, "--secret-seed-file", &seed]).expect_code(0);
    let copied = |name: &str, options: &[&str]| {
        let copy = ["filter", &format!("{secret}/000001.sst"), "--out", &place.text(name)];
        run(&[&copy, options].concat()).expect_code(0);
        fs::read(place.path(name)).unwrap()
    };
    assert_eq!(copied("without", &[]), copied("with", &["--secret-seed-file", &seed]), "no seed is needed");
    flip(&table, part(&table, "filter").0 + 9);
    run(&["filter", &table, "--out", &place.text("y")]).expect_error("checksum");
    assert!(!place.path("y").exists());
}

#[test]
fn a_block_is_built_from_keys_and_may_contain_each_of_them() {
    let place = Place::new();
    let (keys, out) = (place.write("keys", lines(0..3_000, |key| format!("key{key}\tvalue"))), place.text("block"));
    let build = |options: &[&str]| run(&[&["filter", "--keys", &keys, "--out", &out], options].concat());
    let advice = json(&["advise", "kind", "3000", "--fpr", "0.01"], 0);
    for (policy, kind) in [("auto", "ribbon"), ("bloom", "bloom"), ("binary-fuse", "binary-fuse")] {
        let built = build(&["--overwrite", "--policy", policy, "--fpr", "0.01", "--json"]).expect_code(0).json();
        let filter = &built["filters"][0];
        assert_eq!((&filter["kind"], &filter["keys"]), (&kind.into(), &3_000.into()));
        assert!(filter["expected_fpr"].as_f64().unwrap() <= 0.01, "{built}");
        let advised = array(&advice, "ranked").iter().find(|ranked| ranked["kind"] == kind).unwrap();
        let figures = |of: &Value| ["filter_bytes", "expected_fpr"].map(|figure| of[figure].clone());
        let is_as_advised = kind == "ribbon" || figures(advised) == figures(filter);
        assert!(is_as_advised, "the bytes advised are those built: {advised}");
        let found = run(&["probe", &out, "--keys", &keys, "--list", "absent"]).expect_code(0);
        assert_eq!(found.stdout, "");
    }
    fs::remove_file(&out).unwrap();
    build(&["--bits-per-key", "1"]).expect_error("pass --policy bloom");
    run(&["filter", "--keys", &place.text("none"), "--out", &out]).expect_error("cannot read");
    run(&["filter", "--keys", &place.write("empty", ""), "--out", &out]).expect_error("contains no key");
    assert_eq!(names(place.path("")), ["empty", "keys"], "a file was left");
}
