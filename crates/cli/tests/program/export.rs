//! Output for other programs: dumped keys, bare blocks, completions, manual pages. A dump that cannot be read back, or
//! a block that differs from the table's, would lose keys elsewhere without notice.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use sstfilter_table::{TableOptions, TableWriter};

use crate::common::{Place, flip, lines, names, program, run, say_skipped};

/// Builds a table of keys that a line of text can hold, and keys that it cannot.
fn any_bytes(place: &Place) -> String {
    let keys = "\t6e6f206b6579\n00\t\n0061\t00\n0a\t0d\n61\t\n6162\t610963\n620d\tff\nefbbbf\t31\nff\t0a\n";
    let (input, out) = (place.write("any.hex", keys), place.text("any"));
    run(&["build", "--input", &input, "--out", &out, "--keys-format", "hex"]).expect_code(0);
    format!("{out}/000001.sst")
}

#[test]
fn a_dump_in_hex_is_what_was_built() {
    let place = Place::new();
    let table = any_bytes(&place);
    let dumped = run(&["dump", &table, "--keys-format", "hex"]).expect_code(0);
    assert_eq!((dumped.stdout, dumped.stderr), (fs::read_to_string(place.path("any.hex")).unwrap(), String::new()));
    let keys = run(&["dump", &table, "--keys-format", "hex", "--keys-only"]).expect_code(0).stdout;
    assert_eq!(keys, "\t\n00\n0061\n0a\n61\n6162\n620d\nefbbbf\nff\n");
    let read_back = place.write("keys.hex", keys);
    let probed = run(&["probe", &table, "--keys", &read_back, "--keys-format", "hex", "--json"]).expect_code(0).json();
    assert_eq!((&probed["keys"], &probed["keys_touching_none"]), (&9.into(), &0.into()));
}

#[test]
fn a_dump_of_text_is_what_was_built_and_other_bytes_are_escaped_for_people() {
    let place = Place::new();
    let text = "\tempty key\na\t1\nb\t\nb c\t2\tx\n\u{e9}\t\u{20ac}\n";
    let (input, out) = (place.write("in", text), place.text("tables"));
    run(&["build", "--input", &input, "--out", &out]).expect_code(0);
    let table = format!("{out}/000001.sst");
    let dumped = run(&["dump", &table]).expect_code(0);
    assert_eq!((dumped.stdout.as_str(), dumped.stderr.as_str()), (text, ""));
    assert_eq!(run(&["dump", &table, "--keys-only"]).expect_code(0).stdout, "\t\na\nb\nb c\n\u{e9}\n");

    let dumped = run(&["dump", "--escape", &any_bytes(&place)]).expect_code(0);
    assert!(dumped.stdout.contains("\\x00a\t\\x00\n") && dumped.stdout.contains("b\\r\t\\xff\n"), "{}", dumped.stdout);
    assert!(
        dumped.stdout.contains("\\xef\\xbb\\xbf\t1\n") && dumped.stdout.contains("ab\ta\tc\n"),
        "{}",
        dumped.stdout
    );
    assert!(dumped.stderr.contains("note: 10 of the keys and values are not plain text"), "{}", dumped.stderr);
}

/// Once, escapes in a pipe were read as other keys, which no filter contains.
#[test]
fn what_another_program_reads_of_a_dump_are_the_keys_themselves() {
    let place = Place::new();
    let hex = "00\t\n0061\t00\n410d\t0d61\nefbbbf\t09\nff\tfe\n";
    let (input, out) = (place.write("in.hex", hex), place.text("tables"));
    run(&["build", "--input", &input, "--out", &out, "--keys-format", "hex"]).expect_code(0);
    let table = format!("{out}/000001.sst");
    let dumped = program().args(["dump", &table]).output().unwrap();
    assert_eq!((dumped.status.code(), dumped.stderr), (Some(0), Vec::new()));
    let text = place.path("text");
    fs::write(&text, dumped.stdout).unwrap();
    let (text, again) = (place.text("text"), place.text("again"));
    run(&["build", "--input", &text, "--out", &again]).expect_code(0);
    let read_back = run(&["dump", &format!("{again}/000001.sst"), "--keys-format", "hex"]).expect_code(0).stdout;
    assert_eq!(read_back, hex);
    let probed = run(&["probe", &table, "--keys", &text, "--json"]).expect_code(0).json();
    assert_eq!((&probed["keys"], &probed["keys_touching_none"]), (&5.into(), &0.into()));
}

#[test]
fn a_dump_fails_where_a_line_would_be_read_as_another_key() {
    let place = Place::new();
    let cases = [
        ("610a", "", &[][..], r"key a\n: a line"),
        ("6109", "", &[], r"key a\t: a line"),
        ("efbbbf61", "", &[], "a line"),
        ("61", "620a", &[], "key a: a line"),
    ];
    for (number, (key, value, options, words)) in cases.into_iter().enumerate() {
        let (input, out) = (place.write("in.hex", format!("{key}\t{value}\n")), place.text(&number.to_string()));
        run(&["build", "--input", &input, "--out", &out, "--keys-format", "hex"]).expect_code(0);
        let table = format!("{out}/000001.sst");
        let refused = run(&[&["dump", &table], options].concat()).expect_code(2);
        let told = refused.stderr.contains(words) && refused.stderr.contains("--keys-format hex");
        assert!(told && refused.stdout.is_empty(), "{key} {value}: {}", refused.stderr);
    }
}

#[test]
fn a_dump_with_nul_bytes_has_keys_alone() {
    let place = Place::new();
    let (input, out) = (place.write("in", b"b\r\n\0\0a\t\0"), place.text("tables"));
    run(&["build", "--input", &input, "--out", &out, "--keys-format", "nul"]).expect_code(0);
    let table = format!("{out}/000001.sst");
    let dump = ["dump", &table, "--keys-format", "nul"];
    assert_eq!(run(&[&dump[..], &["--keys-only"]].concat()).expect_code(0).stdout, "\0a\t\0b\r\n\0");
    run(&dump).expect_error("add --keys-only");
    run(&["dump", &any_bytes(&place), "--keys-format", "nul", "--keys-only"])
        .expect_error(r"key \x00 contains a NUL byte");
}

#[test]
fn a_dump_tells_tombstones_from_empty_values() {
    let place = Place::new();
    let path = place.text("000001.sst");
    let mut writer = TableWriter::create(&path, &TableOptions::default()).unwrap();
    writer.add(b"a", b"").unwrap();
    writer.delete(b"b").unwrap();
    writer.finish().unwrap();
    let dumped = run(&["dump", &path]).expect_code(0);
    assert_eq!(
        (dumped.stdout.as_str(), dumped.stderr.as_str()),
        ("a\t\nb\n", "note: 1 tombstone, printed as lines without a tab\n")
    );
    let json = run(&["dump", &path, "--json"]).expect_code(0).json();
    let expected = serde_json::json!({
        "entries": [{"key": "a", "value": ""}, {"key": "b", "tombstone": true}], "count": 2, "tombstones": 1
    });
    assert_eq!(json, expected);
    assert_eq!(run(&["dump", &path, "--json", "--keys-only"]).expect_code(0).json()["entries"][0]["key"], "a");
}

#[test]
fn a_dump_ends_with_its_reader_and_at_damage() {
    let place = Place::new();
    let table = format!("{}/000001.sst", place.build(20_000, &[]));
    for arguments in [&["dump", &table][..], &["dump", "--json", &table]] {
        let mut child = program().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(141), ""), "{arguments:?}");
    }
    flip(&table, 100_000);
    let dumped = run(&["dump", &table]).expect_code(2);
    assert!(
        dumped.stdout.starts_with("key0000\tvalue0000\n") && dumped.stderr.contains("checksum"),
        "{}",
        dumped.stderr
    );
    run(&["dump", &place.text("missing")]).expect_error("missing");
}

/// The generator of completions panics when a write fails.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_completions_and_pages_is_an_error() {
    for arguments in [&["completions", "bash"][..], &["man"], &["--help"], &["probe", "--help"], &["--version"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = program().args(arguments).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("cannot write to standard output") && !stderr.contains("panicked"), "{stderr}");
    }
}

#[test]
fn the_keys_of_another_engines_table_are_dumped_and_its_filter_knows_them() {
    let table = "../interop/fixtures/rocksdb/11.8-bloom-7-keys.sst";
    let place = Place::new();
    let keys = run(&["dump", table, "--keys-only", "--keys-format", "hex"]).expect_code(0).stdout;
    assert_eq!(keys.lines().count(), 7, "{keys}");
    let keys = place.write("keys", keys);
    let probed = run(&["probe", table, "--keys", &keys, "--keys-format", "hex", "--json"]).expect_code(0).json();
    assert_eq!((&probed["keys"], &probed["keys_touching_none"]), (&7.into(), &0.into()));
    let refused = run(&["dump", table, "--json"]).expect_code(2);
    assert!(refused.stderr.contains("add --keys-only"), "{}", refused.stderr);
    run(&["filter", table, "--out", &place.text("x")])
        .expect_error("expected a table of sstfilter, got one of RocksDB");
    assert!(!place.path("x").exists());
}

#[test]
fn the_extracted_block_is_the_one_of_the_table() {
    let place = Place::new();
    let table = format!("{}/000001.sst", place.build(2_000, &["--policy", "ribbon", "--fpr", "0.01"]));
    let block = place.text("x.block");
    let report = run(&["filter", &table, "--out", &block, "--json"]).expect_code(0).json();
    let filter = run(&["inspect", &table, "--json"]).expect_code(0).json()["files"][0]["table"]["filter"].clone();
    let shown = run(&["inspect", &block, "--json"]).expect_code(0).json()["files"][0]["filter_block"].clone();
    assert_eq!(shown, filter);
    assert_eq!(
        (&report["filters"][0]["keys"], &report["bytes"]),
        (&2_000.into(), &fs::metadata(&block).unwrap().len().into())
    );
    assert_eq!(report["filters"][0]["bound_to"], filter["file_fingerprint"]);
    run(&["verify", &block]).expect_code(0);

    run(&["filter", &table, "--out", &block]).expect_error("already exists");
    run(&["filter", &table, "--out", &block, "--overwrite"]).expect_code(0);
    run(&["filter", &block, "--out", &place.text("y")]).expect_error("expected a table, got a filter");
    run(&["dump", &block]).expect_error("is a filter block, which has no keys");
    let piped = program().args(["filter", &table, "--out", "-"]).output().unwrap();
    assert_eq!((piped.status.code(), piped.stdout), (Some(0), fs::read(&block).unwrap()));
    run(&["filter", &table, "--out", "-", "--json"]).expect_error("standard output receives the filter");
    run(&["filter", &table, "--out", &place.text("none/y")]).expect_error("cannot write");
    run(&["filter", &table, "--out", &place.text("")]).expect_error("got a directory");
    let start = run(&["inspect", &table, "--json"]).json()["files"][0]["table"]["layout"].clone();
    let region = start.as_array().unwrap().iter().find(|region| region["name"] == "filter").unwrap().clone();
    flip(&table, usize::try_from(region["offset"].as_u64().unwrap()).unwrap() + 9);
    run(&["filter", &table, "--out", &place.text("y")]).expect_error("checksum");
    assert!(!place.path("y").exists());
}

#[test]
fn a_block_of_a_secret_seed_is_extracted_without_the_seed() {
    let place = Place::new();
    let seed = place.write("seed", "00112233445566ff\n");
    let table = format!("{}/000001.sst", place.build(200, &["--secret-seed-file", &seed]));
    let (with, without) = (place.text("with"), place.text("without"));
    run(&["filter", &table, "--out", &with, "--secret-seed-file", &seed]).expect_code(0);
    run(&["filter", &table, "--out", &without]).expect_code(0);
    assert_eq!(fs::read(with).unwrap(), fs::read(without).unwrap());
}

#[test]
fn a_block_is_built_from_keys_and_may_contain_each_of_them() {
    let place = Place::new();
    let keys = place.write("keys", lines(0..3_000, |key| format!("key{key}\tvalue")));
    for (number, (policy, kind)) in
        [("auto", "ribbon"), ("bloom", "bloom"), ("binary-fuse", "binary-fuse")].iter().enumerate()
    {
        let block = place.text(&format!("{number}.block"));
        let arguments = ["filter", "--keys", &keys, "--out", &block, "--policy", policy, "--fpr", "0.01", "--json"];
        let report = run(&arguments).expect_code(0).json();
        assert_eq!((&report["filters"][0]["kind"], &report["filters"][0]["keys"]), (&(*kind).into(), &3_000.into()));
        assert!(report["filters"][0]["expected_fpr"].as_f64().unwrap() <= 0.01, "{report}");
        run(&["verify", &block]).expect_code(0);
        let bytes = fs::read(&block).unwrap();
        let filter = sstfilter::FilterBlock::open_unverified(bytes).unwrap();
        let hasher = sstfilter::KeyHasher::default();
        assert!((0..3_000).all(|key| filter.may_contain(hasher.hash(format!("key{key}").as_bytes()))));
        let absent = (0..3_000).filter(|key| filter.may_contain(hasher.hash(format!("no{key}").as_bytes()))).count();
        assert!(absent < 100, "{absent}");
    }
    let out = place.text("x");
    let build = |options: &[&str]| run(&[&["filter", "--keys", &keys, "--out", &out], options].concat());
    build(&["--bits-per-key", "1"]).expect_error("pass --policy bloom");
    build(&["--policy", "quotient"]).expect_error("possible values");
    run(&["filter", "--keys", &place.text("none"), "--out", &out]).expect_error("cannot read");
    run(&["filter", "--keys", &place.write("empty", ""), "--out", &out]).expect_error("contains no key");
    assert!(!place.path("x").exists());
    assert!(names(place.path("")).iter().all(|name| !name.contains("sstfilter")), "a temporary file was left");
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let place = Place::new();
    let help = run(&["help"]).expect_code(0).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Descriptions of several lines are indented further.
    let names_of = commands.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let commands: Vec<_> = names_of.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help").collect();
    assert!(commands.contains(&"build") && commands.contains(&"completions"), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).expect_code(0).stdout;
        assert!(commands.iter().all(|command| script.contains(command)), "{shell}");
    }
    let script = place.write("completions.bash", run(&["completions", "bash"]).stdout);
    match Command::new("bash").args(["-n", &script]).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => say_skipped("bash reads its completions", error),
    }
    run(&["completions", "tcsh"]).expect_error("possible values");

    assert!(run(&["man"]).expect_code(0).stdout.contains(".TH sstfilter 1"));
    run(&["man", "--out", &place.text("man1")]).expect_code(0);
    let pages = names(place.path("man1"));
    for command in &commands {
        assert!(pages.contains(&format!("sstfilter-{command}.1")), "{command}: {pages:?}");
    }
    assert!(pages.contains(&"sstfilter-map-build.1".to_owned()), "{pages:?}");
    let page = fs::read_to_string(place.path("man1/sstfilter-build.1")).unwrap();
    assert!(page.contains("memory"), "{page}");
}
