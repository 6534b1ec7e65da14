//! `build` with any input file and any directory: it must report what it wrote, replace nothing without being told to,
//! and leave nothing half written.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Place, names, program, run};

#[test]
fn unsorted_lines_become_a_table_and_the_last_line_of_a_key_wins() {
    let place = Place::new();
    let input = place.write("in", "b\t1\na\t2\n\nb\t3\nc\n");
    let out = place.text("tables");
    let summary = run(&["build", "--input", &input, "--out", &out, "--json"]).expect_code(0).json();
    assert_eq!((&summary["tables"], &summary["keys"]), (&1.into(), &3.into()));
    assert_eq!((&summary["duplicate_keys"], &summary["blank_lines"]), (&1.into(), &1.into()));
    assert_eq!(names(&out), ["000001.sst"]);
    assert_eq!(run(&["get", &out, "a", "b", "c"]).expect_code(0).stdout, "a\t2\nb\t3\nc\t\n");
}

#[test]
fn keys_are_dealt_to_exactly_as_many_files_as_asked_for() {
    let place = Place::new();
    for layout in [&["--files", "7"][..], &["--files", "7", "--consecutive", "--overwrite"]] {
        let out = place.build(100, layout);
        assert_eq!(names(&out).len(), 7);
        let first = run(&["inspect", &format!("{out}/000001.sst"), "--json"]).expect_code(0).json();
        let largest = &first["files"][0]["table"]["properties"]["largest_key"];
        assert_eq!(largest, if layout.len() == 2 { "key0098" } else { "key0013" });
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
    let arguments = ["build", "--generate", "20000", "--table-bytes", "64K", "--out", &out, "--json"];
    let summary = run(&arguments).expect_code(0).json();
    let tables = summary["table_list"].as_array().unwrap();
    assert_eq!(tables.len(), names(&out).len());
    assert!(tables.len() > 5, "{summary}");
    let total: u64 = tables.iter().map(|table| table["keys"].as_u64().unwrap()).sum();
    assert_eq!(total, 20_000);
    for table in tables {
        assert!(table["bytes"].as_u64().unwrap() < 80 << 10, "{table}");
        let on_disk = fs::metadata(place.path("tables").join(table["name"].as_str().unwrap())).unwrap().len();
        assert_eq!(table["bytes"], on_disk);
    }
    assert_eq!(run(&["verify", &out, "--json"]).expect_code(0).json()["entries"], 20_000);
    run(&["get", &out, "user:000000019999:profile"]).expect_code(0);
    run(&["get", &out, "user:000000020000:profile"]).expect_code(1);
}

#[test]
fn the_kind_of_filter_follows_policy_and_number_of_keys() {
    let place = Place::new();
    let kind = |keys: &str, options: &[&str]| {
        let out = place.text("tables");
        let arguments = ["build", "--generate", keys, "--out", &out, "--overwrite", "--json"];
        let summary = run(&[&arguments, options].concat()).expect_code(0).json();
        let group = &summary["filters"][0];
        let text = |field: &str| group[field].as_str().unwrap().to_owned();
        (text("kind"), text("requested"), text("reason"), group["bits_per_key"].as_f64().unwrap())
    };
    assert_eq!(kind("5000", &["--policy", "bloom"]).0, "bloom");
    assert_eq!(kind("5000", &["--policy", "ribbon", "--fpr", "0.01"]).0, "ribbon");
    assert_eq!(kind("5000", &["--policy", "standard-bloom"]).0, "standard-bloom");
    assert_eq!(kind("5000", &["--policy", "standard-bloom", "--fpr", "0.01"]).0, "standard-bloom");
    assert_eq!(kind("5000", &[]).0, "ribbon");
    let small = kind("500", &["--policy", "ribbon"]);
    assert_eq!((small.0.as_str(), small.1.as_str(), small.2.as_str()), ("bloom", "ribbon", "too few keys"));
    let (_, _, _, bits) = kind("50000", &["--policy", "bloom", "--bits-per-key", "12.5"]);
    assert!((12.4..12.6).contains(&bits), "{bits}");
    kind("5000", &["--policy", "auto", "--fpr", "0.001"]);
    kind("5000", &["--policy", "bloom", "--fpr", "0.001", "--hash-seed", "0xfeed"]);
    let shown = run(&["inspect", &place.text("tables/000001.sst"), "--json"]).expect_code(0).json();
    assert_eq!(shown["files"][0]["table"]["filter"]["hash_seed"], "0x000000000000feed");
    run(&["get", &place.text("tables"), "user:000000000007:profile"]).expect_code(0);
}

#[test]
fn tables_record_their_level_and_may_have_no_filter() {
    let place = Place::new();
    let out = place.build(2_000, &["--policy", "none", "--level", "3", "--range-filter", "ordered"]);
    let shown = run(&["inspect", &format!("{out}/000001.sst"), "--json"]).expect_code(0).json();
    let (table, overview) = (&shown["files"][0]["table"], &shown["files"][0]["overview"]);
    assert_eq!(
        (&overview["level"], &overview["filter"], &overview["state"]),
        (&3.into(), &"none".into(), &"missing".into())
    );
    assert!(table["range_filter"].is_object(), "{table}");
    run(&["get", &out, "key0007"]).expect_code(0);
    let keys = place.text("keys.tsv");
    let sized = ["build", "--input", &keys, "--out", &place.text("sized"), "--policy", "none", "--fpr", "0.1"];
    run(&sized).expect_error("--policy none: expected no size of filters");
    let block = ["filter", "build", "--keys", &keys, "--out", &place.text("block"), "--policy", "none"];
    run(&block).expect_error("invalid value 'none' for '--policy <KIND>'");
    run(&["rebuild", &out, "--policy", "none"]).expect_error("invalid value 'none' for '--policy <KIND>'");
    for (command, lists_none) in [("build", true), ("rebuild", false)] {
        assert_eq!(run(&["help", command]).expect_code(0).stdout.contains("auto, none, "), lists_none);
    }
}

#[test]
fn a_directory_with_tables_is_kept_unless_told_otherwise() {
    let place = Place::new();
    let out = place.build(10, &["--files", "5"]);
    let input = place.text("keys.tsv");
    run(&["build", "--input", &input, "--out", &out]).expect_error("--overwrite");
    assert_eq!(names(&out).len(), 5);
    place.write("tables/.sstfilter-000abc.tmp", "left over");
    place.write("tables/notes.txt", "not ours");
    run(&["build", "--input", &input, "--out", &out, "--overwrite"]).expect_code(0);
    assert_eq!(names(&out), ["000001.sst", "notes.txt"]);
    fs::copy(place.path("tables/000001.sst"), place.path("tables/foreign.sst")).unwrap();
    run(&["build", "--input", &input, "--out", &out, "--overwrite"]).expect_error("foreign.sst");
}

#[test]
fn input_that_fails_leaves_the_old_tables() {
    let place = Place::new();
    let out = place.build(10, &[]);
    let empty = place.write("empty", "");
    run(&["build", "--input", &empty, "--out", &out, "--overwrite"]).expect_error("contains no key");
    run(&["get", &out, "key0003"]).expect_code(0);
}

#[test]
fn bad_input_is_refused_with_advice() {
    let place = Place::new();
    let (out, input) = (place.text("tables"), place.write("in", "a\nb\n"));
    let build = |input: &str, options: &[&str]| run(&[&["build", "--input", input, "--out", &out], options].concat());
    build(&place.text("missing"), &[]).expect_error("cannot read");
    build(&place.text(""), &[]).expect_error("got a directory");
    build(&place.write("blank", "\n\n\n"), &[]).expect_error("contains no key");
    build(&place.write("keys.gz", [0x1f, 0x8b, 8, 0]), &[]).expect_error("gzip -d");
    build(&input, &["--files", "3"]).expect_error("at most 2");
    build(&place.write("large", "x".repeat(100_000)), &["--memory-limit", "64K"]).expect_error("--memory-limit");
    build(&place.write("many", "x\n".repeat(20_000)), &["--memory-limit", "128K"]).expect_error("--memory-limit");
    run(&["build", "--input", &input, "--out", &input]).expect_error("expected a directory, got a file");
    assert!(!place.path("tables").exists(), "a build that fails takes its new directory along");
    let nested = place.text("a/b/c");
    run(&["build", "--input", &place.text("missing"), "--out", &nested]).expect_error("cannot read");
    assert!(!place.path("a").exists());
    fs::create_dir(place.path("kept")).unwrap();
    run(&["build", "--input", &place.text("missing"), "--out", &place.text("kept")]).expect_error("cannot read");
    assert!(place.path("kept").exists(), "it was there before");
}

#[test]
fn counts_are_taken_as_people_write_them() {
    let place = Place::new();
    let out = place.text("tables");
    for count in ["2K", "2_000", "2e3"] {
        let built = run(&["build", "--generate", count, "--out", &out, "--overwrite", "--json"]).expect_code(0).json();
        assert_eq!(built["keys"], 2_000, "{count}");
    }
    let advice = run(&["advise", "kind", "1M", "--writers", "1e0", "--json"]).expect_code(0).json();
    assert_eq!(advice["keys"], 1_000_000);
    run(&["advise", "kind", "-5"]).expect_error("got '-5'");
    run(&["advise", "kind", "1e3", "--writers", "0"]).expect_error("expected 1 to");
}

#[test]
fn one_of_a_thing_is_no_plural() {
    let place = Place::new();
    let (out, input) = (
        place.text("tables"),
        place.write(
            "in", "a
a

",
        ),
    );
    let built = run(&["build", "--input", &input, "--out", &out]).expect_code(0).stdout;
    assert!(built.contains("\n1 line dropped because") && built.contains("\n1 blank line skipped"), "{built}");
    run(&["build", "--input", &input, "--out", &out]).expect_error("already contains 1 table");
}

#[test]
fn tables_that_another_command_numbered_are_not_replaced() {
    let place = Place::new();
    let out = place.build(10, &[]);
    fs::rename(place.path("tables/000001.sst"), place.path("tables/1.sst")).unwrap();
    let again = ["build", "--input", &place.text("keys.tsv"), "--out", &out, "--overwrite"];
    run(&again).expect_error("1.sst was not written by this command");
    run(&["get", &out, "key0003"]).expect_code(0);
}

#[test]
fn output_into_a_pipe_is_aligned_ascii() {
    let place = Place::new();
    let out = place.build(100, &["--files", "3"]);
    let keys = place.text("keys.tsv");
    let probed = run(&["probe", &out, "--keys", &keys]).expect_code(0).stdout;
    let advised = run(&["advise", "kind", "1M"]).expect_code(0).stdout;
    assert!(probed.is_ascii() && probed.contains("======"), "{probed}");
    assert!(advised.is_ascii(), "{advised}");
    let rows: Vec<_> = probed.lines().filter(|line| line.contains(".sst")).collect();
    assert_eq!(rows.len(), 3, "{probed}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{probed}");
}

#[test]
fn garbage_lines_are_keys_like_any_other() {
    let place = Place::new();
    let garbage: Vec<u8> = (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (input, out) = (place.write("garbage", garbage), place.text("tables"));
    run(&["build", "--input", &input, "--out", &out]).expect_code(0);
    run(&["verify", &out]).expect_code(0);
    run(&["inspect", &format!("{out}/000001.sst"), "--json"]).expect_code(0).json();
}

#[test]
fn options_out_of_range_are_refused_with_the_range() {
    let place = Place::new();
    let (out, input) = (place.text("tables"), place.write("in", "a\nb\n"));
    let refused = |options: &[&str], words: &str| {
        run(&[&["build", "--input", &input, "--out", &out], options].concat()).expect_error(words);
    };
    for bits in ["NaN", "0", "-1", "1e9", "inf", "0.999", "100.1", "ten"] {
        refused(&["--bits-per-key", bits], "1 to 100");
    }
    for rate in ["NaN", "0", "-0.1", "1", "1.5", "inf", "half"] {
        refused(&["--fpr", rate], "between 0 and 1");
    }
    refused(&["--policy", "ribbon", "--fpr", "0.9"], "0.5");
    refused(&["--policy", "binary-fuse", "--bits-per-key", "4.4"], "at least 4.4");
    refused(&["--policy", "xor+", "--bits-per-key", "9"], "at least 9.115");
    for bits in ["1e300", "-1e300"] {
        let refused = run(&["build", "--input", &input, "--out", &out, "--bits-per-key", bits]);
        assert!(refused.stderr.len() < 200, "{}", refused.stderr);
    }
    refused(&["--bits-per-key", "1"], "pass --policy bloom");
    refused(&["--files", "0"], "expected 1 to 1,000,000, got '0'");
    refused(&["--files", "-1"], "expected a whole number such as 250000, 250_000, 250K, 2M or 1e6, got '-1'");
    refused(&["--files", "1.5"], "whole number");
    refused(&["--files", "1e30"], "expected at most");
    refused(&["--table-bytes", "1"], "4K to 1T");
    refused(&["--hash-seed", "-1"], "");
    refused(&["--hash-seed", "0xgg"], "0x hexadecimal");
    refused(&["--memory-limit", "some"], "whole number of bytes");
    refused(&["--policy", "quotient"], "possible values");
    refused(&["--consecutive"], "--files");
    refused(&["--fpr", "0.01", "--bits-per-key", "10"], "cannot be used with");
    run(&["build", "--out", &out]).expect_error("--input");
    run(&["build", "--generate", "0", "--out", &out]).expect_error("expected 1 to");
    assert!(!place.path("tables").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn two_builds_do_not_write_to_one_directory() {
    let place = Place::new();
    let out = place.text("tables");
    let endless = ["build", "--generate", "999999999999", "--table-bytes", "64K", "--out", &out];
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
