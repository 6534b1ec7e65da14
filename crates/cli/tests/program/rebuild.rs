//! The failures guarded against: a rebuilt filter that is not used, is incomplete, or has more false positives than the
//! one that it replaces; and a failed rebuild that removes the table's previous filter.

use std::fs;

use serde_json::Value;
use sstfilter_table::{Table, TableOptions};

use crate::common::{Place, flip, json, lines, names, part, program, run};

/// Two tables of 2,000 keys each.
fn two_tables(place: &Place) -> String {
    place.build(4_000, &["--files", "2", "--policy", "bloom", "--bits-per-key", "4"])
}

fn flip_in_filter(table: &str) {
    flip(table, part(table, "filter").0 + 20);
}

fn rate(filter: &Value) -> f64 {
    filter["expected_fpr"].as_f64().unwrap()
}

#[test]
fn rebuilt_filters_are_used_and_the_tables_stay_as_they_are() {
    let place = Place::new();
    let out = two_tables(&place);
    let table = format!("{out}/000001.sst");
    let before = fs::read(&table).unwrap();
    for options in [&["--policy", "ribbon", "--fpr", "0.001"][..], &["--partitions", "1Ki"]] {
        let text = run(&[&["rebuild", &out], options].concat()).expect_code(0).stdout;
        assert!(text.starts_with("rebuilt  2\nfailed   0\n") && text.contains("2 tables: "), "{text}");
        let expected = ["000001.sst", "000001.sst.filter", "000002.sst", "000002.sst.filter"];
        assert_eq!(names(&out), expected);
        assert!(fs::read(&table).unwrap() == before);
        let opened = Table::open(&table, &TableOptions::default()).unwrap();
        assert!(opened.uses_sidecar() && opened.filters().partitions().is_some() == options.contains(&"1Ki"));
        assert_eq!(run(&["get", &out, "key0042"]).expect_code(0).stdout, "value0042\n");
        run(&["verify", &out]).expect_code(0);
    }
    let mut rebuild = program();
    rebuild.args(["rebuild", "tables/000001.sst", "--json"]).current_dir(place.path(""));
    let json: Value = serde_json::from_slice(&rebuild.output().unwrap().stdout).unwrap();
    let row = &json["rebuilt_tables"][0];
    assert_eq!(row["path"], "tables/000001.sst", "as passed");
    run(&["build", "--generate", "100", "--out", &out]).expect_error("already contains 2 tables");
    run(&["build", "--generate", "100", "--overwrite", "--out", &out]).expect_code(0);
    assert_eq!(names(&out), ["000001.sst"], "a build that replaces tables removes their sidecars");
}

/// A store whose filters were built for few false positives must not get more of them from the command that a report
/// prints, nor a larger filter from one that names the kind alone.
#[test]
fn the_rate_is_kept_unless_an_option_names_it_and_before_and_after_are_printed() {
    let place = Place::new();
    for (build, rebuild, is_damaged, kind, fpr) in [
        (&["--policy", "bloom", "--fpr", "0.001"][..], &[][..], true, "bloom", 0.001),
        (&["--policy", "cuckoo", "--fpr", "0.001"], &[], false, "cuckoo", 0.001),
        (&["--policy", "bloom", "--fpr", "0.001"], &["--policy", "ribbon"], false, "ribbon", 0.001),
        (&["--fpr", "0.01"], &["--policy", "ribbon"], false, "ribbon", 0.01),
        (&["--policy", "bloom", "--fpr", "0.001", "--partitions", "1Ki"], &[], false, "bloom", 0.001),
        (&["--policy", "none"], &[], false, "ribbon", 0.01),
        (&["--policy", "bloom"], &["--fpr", "0.2"], false, "ribbon", 0.2),
        (&["--policy", "bloom"], &["--bits-per-key", "10"], false, "ribbon", 0.01),
    ] {
        let out = place.build(8_000, &[build, &["--overwrite"]].concat());
        let table = format!("{out}/000001.sst");
        if is_damaged {
            flip_in_filter(&table);
        }
        let report = json(&[&["rebuild", &table], rebuild].concat(), 0);
        let (row, change) = (&report["rebuilt_tables"][0], report["changes"][0].as_str().unwrap());
        let after = &row["after"];
        assert_eq!(after["kind"], kind, "{report}");
        assert!((0.4..1.35).contains(&(rate(after) / fpr)), "{build:?} {rebuild:?}: {report}");
        assert!(change.starts_with("1 table: ") && change.contains(" -> ") && change.contains(" bits per key, "));
        let sized_by = match (build, rebuild) {
            (_, ["--fpr", ..]) => "null",
            (_, ["--bits-per-key", ..]) => "the rate of a Bloom filter of --bits-per-key",
            (["--policy", "none"], _) => "the rate before is unknown",
            _ => "the rate of the filter before it",
        };
        assert!(row["sized_by"].to_string().contains(sized_by), "{report}");
        assert!(sized_by == "null" || change.contains(sized_by), "{report}");
    }
    let place = Place::new();
    let out = two_tables(&place);
    run(&["rebuild", &out, "--policy", "bloom", "--fpr", "0.001"]).expect_code(0);
    let again = json(&["rebuild", &out, "--policy", "ribbon"], 0);
    assert!(rate(&again["rebuilt_tables"][1]["after"]) < 0.00105, "the rate is that of the sidecar: {again}");
}

#[test]
fn a_table_that_cannot_be_rebuilt_leaves_its_sidecar_and_does_not_stop_the_others() {
    let place = Place::new();
    let out = two_tables(&place);
    run(&["rebuild", &out]).expect_code(0);
    let [one, other] = [1, 2].map(|number| format!("{out}/00000{number}.sst.filter"));
    let (old, old_of_other) = (fs::read(&one).unwrap(), fs::read(&other).unwrap());
    flip(format!("{out}/000001.sst"), 5_000);
    let report = json(&["rebuild", &out, "--bits-per-key", "16"], 2);
    let failure = report["failures"][0].as_str().unwrap();
    assert!(failure.starts_with(&format!("{out}/000001.sst: `sstfilter get --salvage` prints")), "{failure}");
    assert_eq!((&report["rebuilt"], &report["failed"]), (&1.into(), &1.into()), "{report}");
    assert!(fs::read(&one).unwrap() == old && fs::read(&other).unwrap() != old_of_other);
    assert_eq!(names(&out).len(), 4, "no temporary file is left");
    fs::create_dir(place.path("void")).unwrap();
    let keys = place.text("keys.tsv");
    for (path, words) in [
        ("../interop/fixtures/leveldb/6000-keys.ldb", "expected a table of sstfilter, got one of LevelDB"),
        ("../../fixtures/v1/bloom-1000-keys-10-bits.block", "expected a table, got a filter"),
        (&place.text("void"), "void: the directory contains no table"),
        (&place.text("missing"), "cannot read"),
        (&keys, "keys.tsv: neither a table nor a filter"),
        ("-", "standard input: expected a table's file"),
    ] {
        let refused = run(&["rebuild", path]).expect_code(2).stdout;
        assert!(refused.contains("failed   1\n") && refused.contains(words), "{words}: {refused}");
    }
}

/// A sidecar for each sound table would cost a copy of all filters.
#[test]
fn only_tables_with_problems_are_rebuilt_if_requested() {
    let place = Place::new();
    let out = place.build(4_000, &["--files", "4", "--policy", "bloom"]);
    [2, 3].iter().for_each(|number| flip_in_filter(&format!("{out}/00000{number}.sst")));
    let words = ["rebuild", "--only-problems", &out];
    assert!(run(&words).expect_code(0).stdout.starts_with("rebuilt  2\n"));
    assert_eq!(names(&out).len(), 6);
    assert!(run(&words).expect_code(0).stdout.starts_with("rebuilt  0\n"));
    run(&["verify", &out]).expect_code(0);
}

#[test]
fn a_filter_is_rebuilt_under_the_seed_of_its_table_and_no_other() {
    let place = Place::new();
    let (seed, secret) = (place.write("seed", "00112233445566ff\n"), place.text("secret"));
    let out = place.build(2_000, &["--hash-seed", "7", "--range-filter", "hashed:100:0.01:1", "--range-prefix", "4"]);
    run(&["build", "--generate", "100", "--out", &secret, "--secret-seed-file", &seed]).expect_code(0);
    for (arguments, words) in [
        (&["rebuild", &out, "--hash-seed", "8"][..], "--hash-seed: expected the hash of the table"),
        (&["rebuild", &secret], "pass the seed with --secret-seed-file"),
        (&["rebuild", &secret, "--hash-seed", "8"], "pass the seed with --secret-seed-file"),
    ] {
        let refused = run(arguments).expect_code(2).stdout;
        assert!(refused.contains(words) && names(arguments[1]) == ["000001.sst"], "{refused}");
    }
    for seed in [&["--hash-seed", "7"][..], &[]] {
        run(&[&["rebuild", &out, "--policy", "ribbon"], seed].concat()).expect_code(0);
        let table = Table::open(format!("{out}/000001.sst"), &TableOptions::default()).unwrap();
        assert!(table.uses_sidecar() && table.properties().filters.hash_identity().to_string().contains('7'));
        assert_eq!(run(&["get", &out, "key0042"]).expect_code(0).stderr, "");
        run(&["verify", &out]).expect_code(0);
    }
    run(&["rebuild", &secret, "--secret-seed-file", &seed, "--policy", "ribbon"]).expect_code(0);
    let absent = place.write("absent", lines(0..9, |key| format!("absent{key}")));
    run(&["get", &secret, "--keys", &absent, "--secret-seed-file", &seed]).expect_code(1);
}
