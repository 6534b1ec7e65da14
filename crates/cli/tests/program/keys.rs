//! Keys of a storage engine may be any bytes. A program that supports only lines cuts a key at a tab or carriage
//! return, and then reports a stored key as absent.

use crate::common::{Place, run, run_with_input};

#[test]
fn keys_that_do_not_have_their_format_are_refused_by_line() {
    let place = Place::new();
    let (out, keys) = (place.build(10, &[]), place.write("keys", "6b65\n6b6\n"));
    run(&["probe", &out, "--keys", &keys, "--keys-format", "hex"]).expect_error("line 2: expected two hexadecimal");
    run(&["get", &out, "key0001", "--keys-format", "hex"]).expect_error("key 'key0001': expected hexadecimal digits");
    run(&["get", &out, "k", "--keys-format", "base64"]).expect_error("possible values: lines, crlf, nul, hex");
    run(&["get", &out, "--keys", &place.write("none", "\n")]).expect_error("contains no key");
}

#[test]
fn a_byte_order_mark_is_dropped_and_said_to_be() {
    let place = Place::new();
    let (out, keys) = (place.text("tables"), place.write("keys", "\u{feff}a\tx\r\nb\n"));
    let built = run(&["build", "--input", &keys, "--out", &out]).expect_code(0);
    assert!(built.stderr.contains("the byte order mark at its beginning is not part"), "{}", built.stderr);
    assert_eq!(run(&["get", &out, "a"]).expect_code(0).stdout, "x\r\n");
}

#[test]
fn a_damaged_table_is_no_file_of_keys_and_other_bytes_are_remarked() {
    let place = Place::new();
    let table = format!("{}/000001.sst", place.build(1_000, &[]));
    let bytes = std::fs::read(&table).unwrap();
    let (damaged, other) = (place.write("cut.sst", &bytes[..9_000]), place.write("other", &bytes[..9_000]));
    let out = place.text("new");
    for arguments in [
        &["compare", "--input", &damaged][..],
        &["build", "--input", &damaged, "--out", &out],
        &["probe", &table, "--keys", &damaged],
        &["filter", "--keys", &damaged, "--out", &out],
    ] {
        run(arguments).expect_error("neither a table nor a filter block");
    }
    let probed = run(&["probe", &table, "--keys", &other]).expect_code(0);
    assert!(probed.stderr.contains("NUL bytes") && probed.stderr.contains("--keys-format nul"), "{}", probed.stderr);
    run(&["probe", &table, "--keys", &damaged, "--keys-format", "nul"]).expect_code(0);
}

#[test]
fn a_dash_is_standard_input_for_keys() {
    let place = Place::new();
    let out = place.text("tables");
    run_with_input(&["build", "--input", "-", "--out", &out], b"a\t1\nb\t2\n").expect_code(0);
    let got = run_with_input(&["get", &out, "--keys", "-"], b"b\na\n").expect_code(0);
    assert_eq!(got.stdout, "b\t2\na\t1\n");
    let probed = run_with_input(&["probe", &out, "--keys", "-", "--json"], b"a\nc\nd\n").expect_code(0).json();
    assert_eq!(probed["keys"], 3);
    let (seed, table) = (b"00112233445566ff\n", place.text("secret"));
    run_with_input(&["build", "--generate", "9", "--out", &table, "--secret-seed-file", "-"], seed).expect_code(0);
    let verified = run_with_input(&["verify", &table, "--secret-seed-file", "-", "--json"], seed).expect_code(0).json();
    assert!(verified["files"][0]["keys_not_compared_because"].is_null(), "{verified}");
    run_with_input(&["build", "--input", "-", "--out", &place.text("none")], b"")
        .expect_error("standard input contains no");
}

#[test]
fn a_dash_is_standard_input_for_tables_and_blocks() {
    let place = Place::new();
    let out = place.build(100, &[]);
    let table = std::fs::read(format!("{out}/000001.sst")).unwrap();
    let shown = run_with_input(&["inspect", "-", "--json"], &table).expect_code(0).json();
    assert_eq!(shown["files"][0]["bytes"], table.len());
    assert_eq!(run_with_input(&["get", "-", "key0007"], &table).expect_code(0).stdout, "value0007\n");
    assert_eq!(run_with_input(&["verify", "-", "--json"], &table).expect_code(0).json()["entries"], 100);
    let keys = place.text("keys.tsv");
    assert_eq!(run_with_input(&["probe", "-", "--keys", &keys, "--json"], &table).expect_code(0).json()["keys"], 100);
    run_with_input(&["probe", "-", "--keys", "-"], &table).expect_error("standard input can be read only once");
    let block = std::fs::read("../../fixtures/v1/bloom-1000-keys-10-bits.block").unwrap();
    let shown = run_with_input(&["inspect", "-", "--json"], &block).expect_code(0).json();
    assert_eq!(shown["files"][0]["filter_block"]["keys"], 1_000);
    assert_eq!(run_with_input(&["verify", "-", "--json"], &block).expect_code(0).json()["entries"], 1_000);
    for cut in [&table[..table.len() - 1], &[]] {
        run_with_input(&["verify", "-"], cut).expect_code(1);
        run_with_input(&["inspect", "-"], cut).expect_code(1);
    }
}

#[test]
fn empty_lines_are_counted_and_the_empty_key_is_a_tab() {
    let place = Place::new();
    let (keys, out) = (place.write("keys", "\tempty\n\n\na\n"), place.text("tables"));
    let built = run(&["build", "--input", &keys, "--out", &out]).expect_code(0);
    let note = "2 empty lines skipped: the empty key is a line with only a tab";
    assert!(built.stderr.contains(note), "{}", built.stderr);
    for format in ["lines", "crlf", "hex"] {
        let got = run_with_input(&["get", &out, "--keys", "-", "--keys-format", format], b"\n\t\n\n").expect_code(0);
        assert!(got.stdout.contains("empty") || format == "hex", "{}", got.stdout);
        assert!(got.stderr.contains(note), "{}", got.stderr);
    }
    assert!(run(&["--help"]).expect_code(0).stdout.contains("a line with only a tab is"), "the help says so");
}
