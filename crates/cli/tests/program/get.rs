//! `get`, the reader of tables. The failures guarded against: an older value, an entry that is left out or read back as
//! another one, and a message that hides that something is missing.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;
use sstfilter_table::{TableOptions, TableWriter};

use crate::common::{Place, flip, json, part, program, run};

#[test]
fn values_are_printed_and_absent_keys_named() {
    let place = Place::new();
    let out = place.build(100, &["--files", "4"]);
    assert_eq!(run(&["get", &out, "key0042"]).expect_code(0).stdout, "value0042\n");
    let mixed = run(&["get", &out, "key0001", "nothing"]).expect_code(1);
    assert_eq!((mixed.stdout.as_str(), mixed.stderr.as_str()), ("key0001\tvalue0001\n", "absent: nothing\n"));
    assert_eq!(run(&["get", &out, "key0001", "nothing", "--quiet"]).expect_code(1).stderr, "");
    assert_eq!(run(&["get", &out, "key0001", "nothing", "--keys-only"]).expect_code(1).stdout, "key0001\n");
    let both = json(&["get", &out, "key0001", "nothing"], 1);
    let entry = serde_json::json!({ "key": "key0001", "value": "value0001", "is_tombstone": false });
    assert_eq!((&both["found"][0], &both["absent"][0]), (&entry, &"nothing".into()));
    assert!(json(&["get", &out, "no"], 1)["found"].as_array().unwrap().is_empty());
    let (input, single) = (place.write("in", "k\n"), place.text("single"));
    run(&["build", "--input", &input, "--out", &single]).expect_code(0);
    let found = run(&["get", &single, "k"]).expect_code(0);
    assert_eq!((found.stdout.as_str(), found.stderr.as_str()), ("\n", "present, without a value: k\n"));
    let all = run(&["get", &out]).expect_code(0).stdout;
    assert!(all.starts_with("key0000\tvalue0000\nkey0001\t") && all.lines().count() == 100, "{all}");
}

#[test]
fn the_highest_number_is_the_newest() {
    let place = Place::new();
    let [a, b] = ["old", "new"].map(|value| {
        let (input, out) = (place.write("in", format!("k\t{value}\n")), place.text(&format!("of-{value}")));
        run(&["build", "--input", &input, "--out", &out]).expect_code(0);
        out
    });
    let rename = |from: &str, to: &str| fs::rename(from, to).unwrap();
    rename(&format!("{b}/000001.sst"), &format!("{a}/000010.sst"));
    assert_eq!(run(&["get", &a, "k"]).expect_code(0).stdout, "new\n");
    rename(&format!("{a}/000010.sst"), &format!("{a}/10.sst"));
    assert_eq!(run(&["get", &a]).expect_code(0).stdout, "k\tnew\n");
    fs::copy(format!("{a}/10.sst"), format!("{a}/0010.sst")).unwrap();
    run(&["get", &a, "k"]).expect_error("have the same number: cannot tell which is newer");
    fs::remove_file(format!("{a}/0010.sst")).unwrap();
    rename(&format!("{a}/10.sst"), &format!("{a}/ten.sst"));
    run(&["get", &a, "k"]).expect_error("cannot tell its age without a number");
}

/// Once, escapes in a pipe were read as other keys, which no filter contains.
#[test]
fn what_is_printed_is_read_back_as_the_same_entries() {
    let place = Place::new();
    let out = place.text("tables");
    let build = |input: &[u8], format: &[&str]| {
        let input = place.write("in", input);
        run(&[&["build", "--input", &input, "--out", &out, "--overwrite"], format].concat()).expect_code(0);
        input
    };
    let any = "\t6e6f206b6579\n00\t\n0061\t00\n0a\t0d\n61\t\n6162\t610963\n620d\tff\nefbbbf\t31\nff\t0a\n";
    let text = "\tempty key\na\t1\nb\t\nb c\t2\tx\n\u{e9}\t\u{20ac}\n";
    for (format, input, options) in [
        ("hex", any.as_bytes(), &[][..]),
        ("hex", b"\t\n00\n0d0a\n", &["--keys-only"]),
        ("lines", text.as_bytes(), &[]),
        ("lines", b"\t\na\nb\r\nb c\n", &["--keys-only"]),
        ("crlf", b"abc\t2\r\nabc\r\t1\r\r\n", &[]),
        ("nul", b"\0a\t\0b\r\n\0", &["--keys-only"]),
    ] {
        let format = ["--keys-format", format];
        let input_path = build(input, &format);
        for path in [out.clone(), format!("{out}/000001.sst")] {
            let printed = program().args(["get", &path]).args(format).args(options).output().unwrap();
            assert!(printed.stdout == input, "{format:?} {options:?}: {:?}", String::from_utf8_lossy(&printed.stdout));
            let got = run(&[&["get", &path, "--keys", &input_path, "--json"], &format[..]].concat());
            assert_eq!(got.expect_code(0).json()["absent"].as_array().unwrap().len(), 0);
        }
    }
    let hex = ["--keys-format", "hex"];
    build(any.as_bytes(), &hex);
    assert_eq!(run(&["get", &out, "0061", hex[0], hex[1]]).expect_code(0).stdout, "00\n");
    assert_eq!(run(&["get", &out, "6b", hex[0], hex[1]]).expect_code(1).stderr, "absent: 6b\n");
    let json = run(&["get", &out, "ff", "00", "--json", hex[0], hex[1]]).expect_code(0).json();
    assert_eq!((&json["found"][0]["key"]["hex"], &json["found"][1]["key"]), (&"ff".into(), &"\0".into()));
    for (entry, words) in [
        ("610a\t", r"key a\n: a line"),
        ("6109\t", r"key a\t: a line"),
        ("efbbbf61\t", "a line"),
        ("61\t620a", "key a: a line"),
    ] {
        build(format!("{entry}\n").as_bytes(), &hex);
        let refused = run(&["get", &out]).expect_code(2);
        assert!(refused.stderr.contains(words) && refused.stderr.contains("--keys-format hex"), "{}", refused.stderr);
        assert!(refused.stdout.is_empty(), "{entry}");
    }
    build(b"00\t\n", &hex);
    run(&["get", &out, "--keys-format", "nul"]).expect_error("add --keys-only");
    run(&["get", &out, "--keys-format", "nul", "--keys-only"]).expect_error(r"key \x00 contains a NUL byte");
}

#[test]
fn tombstones_are_no_empty_values() {
    let place = Place::new();
    let path = place.text("000001.sst");
    let mut writer = TableWriter::create(&path, &TableOptions::default()).unwrap();
    writer.add(b"a", b"").unwrap();
    writer.delete(b"b").unwrap();
    writer.finish().unwrap();
    let printed = run(&["get", &path]).expect_code(0);
    let note = "note: 1 tombstone, printed as lines without a tab: `build` would read keys without a value\n";
    assert_eq!((printed.stdout.as_str(), printed.stderr.as_str()), ("a\t\nb\n", note));
    let json = json(&["get", &path], 0);
    let b = serde_json::json!({ "key": "b", "value": null, "is_tombstone": true });
    assert_eq!((&json["found"][0]["value"], &json["found"][1], &json["tombstones"]), (&"".into(), &b, &1.into()));
    assert_eq!(run(&["get", &place.text("")]).expect_code(0).stdout, "a\t\n", "a set has no deleted keys");
}

#[test]
fn output_ends_with_its_reader_and_at_damage() {
    let place = Place::new();
    let table = format!("{}/000001.sst", place.build(20_000, &[]));
    let keys = place.text("keys.tsv");
    let probe = ["probe", &table, "--keys", &keys, "--list", "all"];
    for arguments in [&["get", &table][..], &["get", "--json", &table], &probe, &[&probe[..], &["--json"]].concat()] {
        let mut child = program().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(141), ""), "{arguments:?}");
    }
    flip(&table, 100_000);
    let cut = run(&["get", &table]).expect_code(2);
    assert!(cut.stdout.starts_with("key0000\tvalue0000\n") && cut.stderr.contains("--salvage prints"));
    let json = json(&["get", &table], 2);
    let error = json["error"].as_str().unwrap();
    assert!(error.contains("checksum"), "{error}");
    assert_eq!(json["found"].as_array().unwrap().len(), cut.stdout.lines().count());
    run(&["get", &place.text("missing")]).expect_error("missing");
    run(&["get", "key0001", &table]).expect_error("expected tables first, then keys: sstfilter get ");
    run(&["get", &table, "--keys", "key0001"]).expect_error("pass a key itself after the path");
    run(&["get", &table, "--keys", &table]).expect_error("expected a file of keys, got a table");
}

#[test]
fn of_other_engines_there_are_keys_alone() {
    let place = Place::new();
    for (table, count) in [("rocksdb/11.8-bloom-7-keys.sst", 7), ("leveldb/snappy.ldb", 6_000)] {
        let table = format!("../interop/fixtures/{table}");
        let keys = run(&["get", &table, "--keys-only", "--keys-format", "hex"]).expect_code(0).stdout;
        assert_eq!(keys.lines().count(), count, "{table}");
        let keys = place.write("keys", keys);
        let probed = crate::common::probed(&[&table, "--keys", &keys, "--keys-format", "hex"], 0);
        assert_eq!(probed["without_candidates"], 0, "{probed}");
        let json = json(&["get", &table, "--keys-only"], 0);
        assert_eq!(json["found_entries"], count);
        for refused in [&["get", &table][..], &["get", &table, "--salvage"], &["get", &table, "key"]] {
            run(refused).expect_error("`get TABLE --keys-only` prints the keys of one table");
        }
    }
    for directory in ["rocksdb", "leveldb"] {
        run(&["get", &format!("../interop/fixtures/{directory}"), "k"]).expect_error("expected a table of sstfilter");
    }
    run(&["get", "../../fixtures/v1/bloom-1000-keys-10-bits.block"]).expect_error("expected a table, got a filter");
}

#[test]
fn salvage_prints_the_entries_of_sound_blocks_and_tells_what_is_missing() {
    let place = Place::new();
    let table = format!("{}/000001.sst", place.build(20_000, &[]));
    let all = run(&["get", &table]).expect_code(0).stdout;
    let salvage = |code| run(&["get", &table, "--salvage"]).expect_code(code);
    let (index, data_bytes) = (part(&table, "index").0, part(&table, "data").1);
    let sound = salvage(0);
    assert!(sound.stdout == all && sound.stderr.contains("20,000 of 20,000 entries salvaged, 0 bytes missing."));
    flip(&table, index + 20);
    let without_index = salvage(0);
    assert!(without_index.stdout == all && without_index.stderr.contains("the index cannot be used"));
    flip(&table, index + 20);
    (1..4).for_each(|number| flip(&table, number * data_bytes / 4));
    let salvaged = salvage(1);
    let count = salvaged.stdout.lines().count();
    assert_eq!(salvaged.stderr.matches("missing: keys after \"key").count(), 3, "{}", salvaged.stderr);
    assert!(salvaged.stderr.contains("bytes missing. To put them back: sstfilter build"), "{}", salvaged.stderr);
    let rest = json(&["get", &table, "--salvage", "--keys-only"], 1);
    let key = |at: usize, name: &str| rest["missing"][at][name].as_str().unwrap();
    assert!(key(0, "first_key_from") < key(0, "last_key_up_to") && key(0, "last_key_up_to") < key(1, "first_key_from"));
    assert_eq!((rest["missing"].as_array().unwrap().len(), &rest["found_entries"]), (3, &count.into()));
    assert_eq!(rest["lost_entries"], 20_000 - count);

    // The oldest of a directory comes first; a table that is none any more does not end it.
    fs::write(place.path("tables/000003.sst"), fs::read(&table).unwrap()).unwrap();
    fs::write(place.path("tables/000002.sst"), "").unwrap();
    let both = json(&["get", &place.text("tables"), "--salvage"], 2);
    assert_eq!((&both["found_entries"], &both["lost_entries"]), (&(2 * count).into(), &Value::Null));
    assert!(both["missing"].to_string().contains("000002.sst"), "{}", both["missing"]);
    let told = run(&["get", &place.text("tables"), "--salvage"]).expect_code(2).stderr;
    assert!(told.contains("000002.sst") && told.contains("an older value of it is printed"), "{told}");
}
