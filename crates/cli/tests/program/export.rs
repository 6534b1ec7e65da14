//! Output for other programs: dumped keys, bare blocks, completions, manual pages. A dump that cannot be read back, or
//! a block that differs from the table's, would lose keys elsewhere without notice.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::common::{Place, array, flip, inspected, json, lines, names, part, program, run, say_skipped};
use crate::options::parts;

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
    // It can be copied without the seed.
    run(&["filter", &format!("{secret}/000001.sst"), "--out", &place.text("z")]).expect_code(0);
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
        assert!(
            kind == "ribbon" || figures(advised) == figures(filter),
            "the bytes advised are those built: {advised}"
        );
        let found = run(&["probe", &out, "--keys", &keys, "--list", "absent"]).expect_code(0);
        assert_eq!(found.stdout, "");
    }
    fs::remove_file(&out).unwrap();
    build(&["--bits-per-key", "1"]).expect_error("pass --policy bloom");
    run(&["filter", "--keys", &place.text("none"), "--out", &out]).expect_error("cannot read");
    run(&["filter", "--keys", &place.write("empty", ""), "--out", &out]).expect_error("contains no key");
    assert_eq!(names(place.path("")), ["empty", "keys"], "a file was left");
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let place = Place::new();
    let (commands, _) = parts(&[]);
    assert!(commands.len() > 10, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).expect_code(0).stdout;
        assert!(commands.iter().all(|command| script.contains(command)), "{shell}");
    }
    let script = place.write("completions.bash", run(&["completions", "bash"]).stdout);
    match Command::new("bash").args(["-n", &script]).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => say_skipped("bash reads its completions", error),
    }
    assert!(run(&["completions", "man"]).expect_code(0).stdout.contains(".TH sstfilter 1"));
    run(&["completions", "man", "--out", &place.text("man1")]).expect_code(0);
    let pages = names(place.path("man1"));
    for command in &commands {
        assert!(pages.contains(&format!("sstfilter-{command}.1")), "{command}: {pages:?}");
    }
    assert!(pages.contains(&"sstfilter-map-build.1".to_owned()), "{pages:?}");
    let page = fs::read_to_string(place.path("man1/sstfilter-build.1")).unwrap();
    assert!(page.contains("memory"), "{page}");
}
