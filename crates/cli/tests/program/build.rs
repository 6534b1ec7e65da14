//! `build` with any input: the failures guarded against are a key that is in no table, a table of another kind, size or
//! level than requested, and two builds that write to one directory.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sstfilter_table::{Table, TableOptions};

use crate::common::{Place, json, names, program, run};

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
