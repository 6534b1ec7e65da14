//! What is refused, and with which words. The failures guarded against: an option that means something else than the
//! user meant, a file that is read as keys although it has none, and a message that does not say what to do.

use std::fs;

use crate::common::{Place, names, run, run_with_input};

/// Runs each row in a directory of files, `@`, and expects exit code 2 and a message with these words.
fn refuse(place: &Place, rows: &[(&str, &str)]) {
    for (arguments, words) in rows {
        let root = place.text("");
        let words = words.replace("@/", &root);
        let arguments: Vec<_> = arguments.split(' ').map(|word| word.replace("@/", &root)).collect();
        let run = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(2);
        assert!(
            run.stderr.contains("error: ") && run.stderr.contains(&words),
            "{arguments:?}: {words}: {}",
            run.stderr
        );
        assert!(run.stderr.len() < 1_500, "{}", run.stderr);
    }
}

#[test]
fn options_out_of_range_are_refused_with_the_range() {
    let place = Place::new();
    place.write("in", "a\nb\n");
    let build = |options: &str| format!("build --input @/in --out @/tables {options}");
    let mut rows = Vec::new();
    for bits in ["NaN", "0", "-1", "1e9", "inf", "0.999", "100.1", "ten", "1e300", "-1e300"] {
        rows.push((build(&format!("--bits-per-key {bits}")), "1 to 100"));
    }
    for rate in ["NaN", "0", "-0.1", "1", "1.5", "inf", "half"] {
        rows.push((build(&format!("--fpr {rate}")), "between 0 and 1"));
    }
    for partitions in ["100", "2M", "many", "-1", "4K:size", "4K:"] {
        rows.push((build(&format!("--partitions={partitions}")), "--partitions"));
    }
    for (options, words) in [
        ("--policy ribbon --fpr 0.9", "0.5"),
        ("--policy binary-fuse --bits-per-key 4.4", "at least 4.4"),
        ("--policy xor+ --bits-per-key 9", "at least 9.115"),
        ("--bits-per-key 1", "pass --policy bloom"),
        ("--policy none --fpr 0.1", "--policy none: expected no size of filters"),
        ("--policy quotient", "possible values"),
        ("--fpr 0.01 --bits-per-key 10", "cannot be used with"),
        ("--files 0", "expected 1 to 1,000,000, got '0'"),
        ("--files -1", "expected a whole number such as 250000, 250_000, 1e6, 64K or 64Ki, got '-1'"),
        ("--files 1.5", "whole number"),
        ("--files 1e30", "expected at most"),
        ("--files 3", "--files: expected at most 2, the number of keys, got 3"),
        ("--consecutive", "--files"),
        ("--table-bytes 1", "expected 4,000 to 1,099,511,627,776"),
        ("--hash-seed -1", "unexpected argument"),
        ("--hash-seed 0xgg", "0x hexadecimal"),
        ("--memory-limit some", "whole number"),
        ("--memory-limit 64KB", "whole number"),
        ("--range-filter hashed", "expected ordered"),
        ("--range-filter hashed:0", "longest range"),
        ("--range-filter hashed:1e18", "at most 2^41 units"),
        ("--range-filter hashed:8:0.01:9", "expected 1 to 8"),
        ("--range-filter ordered --range-prefix=", "expected a number of bytes"),
        ("--generate 5", "cannot be used with"),
    ] {
        rows.push((build(options), words));
    }
    let rows: Vec<_> = rows.iter().map(|(arguments, words)| (arguments.as_str(), *words)).collect();
    refuse(&place, &rows);
    refuse(
        &place,
        &[
            ("build --out @/tables", "--input"),
            ("build --generate 0 --out @/tables", "expected 1 to"),
            ("rebuild", "<TABLE>"),
            ("rebuild @/in --policy none", "invalid value 'none' for '--policy <KIND>'"),
            ("rebuild @/in --fpr 0.9 --policy ribbon", "0.5"),
            ("get", "<PATH>"),
            ("get @/in --range a", "--range"),
            ("get @/in --range b a", "expected LOWER below UPPER"),
            ("get @/in key --range a b", "cannot be used with"),
            ("get @/in key --salvage", "cannot be used with"),
            ("get @/in key --keys-format base64", "possible values: lines, crlf, nul, hex"),
            ("completions tcsh", "possible values"),
            ("completions bash --out @/x", "--out: expected man"),
            ("completions man --json", "no JSON form"),
            ("frobnicate", "unrecognized"),
            ("repair @/in", "tip: `get --salvage` prints the entries of damaged tables"),
            ("verify --absent @/in", "unexpected argument '--absent' found\n\nUsage"),
        ],
    );
    assert_eq!(names(place.path("")), ["in"], "a build that is refused leaves no directory");
    for (command, lists_none) in [("build", true), ("rebuild", false)] {
        assert_eq!(run(&["help", command]).expect_code(0).stdout.contains("auto, none, "), lists_none);
    }
}

#[test]
fn bad_input_is_refused_with_advice_and_leaves_everything_as_it_was() {
    let place = Place::new();
    let tables = place.build(10, &["--files", "2"]);
    let bytes = fs::read(format!("{tables}/000001.sst")).unwrap();
    place.write("blank", "\n\n\n");
    place.write("keys.gz", [0x1f, 0x8b, 8, 0]);
    place.write("large", "x".repeat(100_000));
    place.write("many", "x\n".repeat(20_000));
    place.write("odd.hex", "6b65\n6b6\n");
    place.write("wrong-seed", "0x42");
    place.write("cut.sst", &bytes[..bytes.len() - 10]);
    fs::create_dir(place.path("kept")).unwrap();
    fs::create_dir(place.path("void")).unwrap();
    refuse(
        &place,
        &[
            ("build --out @/a/b/c --input @/missing", "cannot read @/missing"),
            ("build --out @/kept --input @/missing", "cannot read"),
            ("build --out @/new --input @/void", "got a directory"),
            ("build --out @/new --input @/blank", "contains no key"),
            ("build --out @/new --input @/keys.gz", "gzip -d"),
            ("build --out @/new --input @/large --memory-limit 64Ki", "--memory-limit"),
            ("build --out @/new --input @/many --memory-limit 128Ki", "--memory-limit"),
            ("build --out @/new --input @/cut.sst", "expected a file of keys, got a table"),
            ("build --out @/large --generate 9", "expected a directory, got a file"),
            ("build --out @/tables --input @/blank --overwrite", "contains no key"),
            ("build --out @/tables --generate 9", "already contains 2 tables"),
            ("build --out @/new --generate 9 --hash-seed 1 --secret-seed-file @/keys.tsv", "expected a secret seed"),
            ("build --out @/new --input @/odd.hex --keys-format hex", "line 2: expected two hexadecimal"),
            ("get @/tables --keys @/odd.hex --keys-format hex", "line 2: expected two hexadecimal"),
            ("get @/tables key0001 --keys-format hex", "key 'key0001': expected hexadecimal digits"),
            ("get @/tables --keys @/blank", "contains no key"),
            ("get @/tables --keys @/cut.sst", "expected a file of keys, got a table"),
            ("get @/missing k", "cannot read @/missing"),
            ("verify @/missing", "cannot read @/missing"),
            ("verify @/void", "no table and no filter"),
            ("inspect @/tables", "expected a file, got a directory: `sstfilter report @/tables`"),
            ("frobnicate", "unrecognized"),
            ("get @/void k", "contains no table of sstfilter (*.sst)"),
            ("get @/large k", "@/large: neither a table nor a filter block"),
            ("get @/cut.sst k", "@/cut.sst: neither a table nor a filter block"),
            ("get @/cut.sst", "it may have been cut short"),
            ("verify @/tables --secret-seed-file @/wrong-seed", "16 hexadecimal digits"),
        ],
    );
    run_with_input(&["build", "--input", "-", "--out", &place.text("new")], b"")
        .expect_error("standard input contains no");
    assert!(!place.path("a").exists() && !place.path("new").exists() && place.path("kept").exists());
    assert_eq!((names(&tables).len(), fs::read(format!("{tables}/000001.sst")).unwrap()), (2, bytes));
    let seed = place.write("seed", "00112233445566ff\n");
    run(&["build", "--generate", "9", "--out", &tables, "--hash-seed", "1", "--secret-seed-file", &seed])
        .expect_error("expected --hash-seed or --secret-seed-file, got both");
}

#[test]
fn what_a_user_may_have_meant_otherwise_is_noted() {
    let place = Place::new();
    let cut = fs::read(format!("{}/000001.sst", place.build(1_000, &[]))).unwrap()[..9_000].to_vec();
    for (number, (keys, words, count)) in [
        (&b"\xef\xbb\xbfa\tx\r\nb\n"[..], "the byte order mark at its beginning is not part", 2),
        (b"abc\r\nabc\n", "1 of 2 lines with a carriage return at the end", 2),
        (b"\tempty\n\n\na\n", "2 empty lines skipped: the empty key is a line with only a tab", 2),
        (&cut, "NUL bytes, which are read as bytes of keys", 0),
    ]
    .into_iter()
    .enumerate()
    {
        let (input, out) = (place.write("in", keys), place.text(&number.to_string()));
        let built = run(&["build", "--input", &input, "--out", &out, "--json"]).expect_code(0);
        assert!(built.stderr.contains(words), "{words}: {}", built.stderr);
        assert!(count == 0 || built.json()["entries"] == count, "{words}");
        let quiet = run(&["build", "--input", &input, "--out", &out, "--overwrite", "--quiet"]).expect_code(0);
        assert_eq!(quiet.stderr, "");
        run(&["get", &out, "--keys", &input]).expect_code(0);
    }
    assert_eq!(run(&["get", &place.text("0"), "a"]).expect_code(0).stdout, "x\r\n");
    assert_eq!(run(&["get", &place.text("1"), "abc\r", "abc"]).expect_code(0).stdout.lines().count(), 2);
}

#[test]
fn a_dash_is_standard_input_for_keys_seeds_and_files() {
    let place = Place::new();
    let (out, secret, seed) = (place.text("tables"), place.text("secret"), b"00112233445566ff\n");
    run_with_input(&["build", "--input", "-", "--out", &out], b"a\t1\nb\t2\n").expect_code(0);
    run_with_input(&["build", "--generate", "9", "--out", &secret, "--secret-seed-file", "-"], seed).expect_code(0);
    run_with_input(&["get", &secret, "user:000000000007:profile", "--secret-seed-file", "-"], seed).expect_code(0);
    run_with_input(&["probe", &out, "--keys", "-", "--json"], b"a\nc\nd\n").expect_code(0);
    let table = fs::read(format!("{out}/000001.sst")).unwrap();
    let block = fs::read("../../fixtures/v1/bloom-1000-keys-10-bits.block").unwrap();
    for (bytes, code) in [(&table[..], 0), (&block, 0), (&table[..table.len() - 1], 1), (b"", 1)] {
        run_with_input(&["verify", "-"], bytes).expect_code(code);
        run_with_input(&["inspect", "-", "--json"], bytes).expect_code(code).json();
    }
    let twice = run_with_input(&["probe", "-", "--keys", "-"], &table).expect_code(2).stderr;
    assert!(twice.contains("standard input can be read only once"), "{twice}");
}
