//! What is refused, and with which words. The failures guarded against: an option that means something else than the
//! user meant, a file that is read as keys although it has none, and a message that does not say what to do.

use std::fs;

use crate::common::{Place, lines, names, run, run_with_input};

/// Runs each row in a directory of files, `@`, and expects exit code 2 and a message with these words.
fn refuse(place: &Place, rows: &[(&str, &str)]) {
    for (arguments, words) in rows {
        let root = place.text("");
        let words = words.replace("@/", &root);
        let arguments: Vec<_> = arguments.split(' ').map(|word| word.replace("@/", &root)).collect();
        let told = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(2).stderr;
        assert!(told.contains("error: ") && told.contains(&words), "{arguments:?}: {words}: {told}");
        assert!(told.len() < 1_500, "{told}");
    }
}

#[test]
fn options_out_of_range_are_refused_with_the_range() {
    let place = Place::new();
    place.write("in", "a\nb\n");
    let build = |options: &str| format!("build --input @/in --out @/tables {options}");
    let mut rows = Vec::new();
    for bits in ["NaN", "-1", "inf", "0.999", "100.1", "ten", "1e300"] {
        rows.push((build(&format!("--bits-per-key {bits}")), "1 to 100"));
    }
    for rate in ["NaN", "0", "-0.1", "1", "half"] {
        rows.push((build(&format!("--fpr {rate}")), "between 0 and 1"));
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
        ("--files 1e30", "expected at most"),
        ("--files 3", "--files: expected at most 2, the number of keys, got 3"),
        ("--consecutive", "--files"),
        ("--table-bytes 1", "expected 4,000 to 1,099,511,627,776"),
        ("--hash-seed -1", "unexpected argument"),
        ("--hash-seed 0xgg", "0x hexadecimal"),
        ("--memory-limit 64KB", "whole number"),
        ("--partitions 2M", "--partitions"),
        ("--range-filter hashed:0", "longest range"),
        ("--range-filter hashed:1e18", "at most 2^41 units"),
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
fn advice_and_comparisons_of_what_is_none_are_refused() {
    let place = Place::new();
    place.write("keys", lines(0..100, |key| format!("key{key}")));
    place.write("empty", "\n");
    place.write("block", fs::read("../../fixtures/v1/bloom-1000-keys-10-bits.block").unwrap());
    fs::create_dir(place.path("folder")).unwrap();
    refuse(
        &place,
        &[
            ("advise kind", "required"),
            ("advise kind -1", "-1"),
            ("advise kind 0", "'0'"),
            ("advise kind 10 --fpr 1.5", "between 0 and 1"),
            ("advise kind 10 --lookups-per-key NaN", "NaN"),
            ("advise kind 10 --fpr 0.1 --memory 10", "cannot be used with"),
            ("advise kind 10 --writers 0", "--writers"),
            ("advise kind 10 --policy bloom", "--policy"),
            ("advise kind 18446744073709551615 --lookups-per-key 1e9", "error: "),
            ("advise files 0 10 10", "'0'"),
            ("advise files 4e9 10 10", "4e9"),
            ("advise files 1 10", "required"),
            ("advise files 1 10 10 --memory 1KB", "1KB"),
            ("advise files 1 10 10 --prices 1", "--prices"),
            ("advise files 1 10 10 --prices 1,-1", "--prices"),
            ("advise levels", "<LEVELS|PATH>"),
            ("advise levels ", "a value is required"),
            (
                "advise levels 1e4,,1e5",
                "expected keys of each level, such as 40K/4,1e5,1e6, or paths, got '1e4,,1e5', which is neither",
            ),
            ("advise levels 1e4/0", "which is neither"),
            ("advise levels -1", "-1"),
            ("advise levels 10 --bits-per-key -1", "at least 0"),
            ("advise levels 10 --bits-per-key 1 --memory 10", "cannot be used with"),
            ("advise levels 10 --policy auto", "auto"),
            ("advise levels ./nowhere", "which is neither"),
            ("report", "<PATH>"),
            ("report @/folder", "no table and no filter"),
            ("report @/nothing", "cannot read"),
            ("report @/block --absent @/empty", "contains no key"),
            ("report @/block --fpr 0.1 --bits-per-key 9", "cannot be used with"),
            ("report @/block --bits-per-key 0.5", "1 to 100"),
            ("compare", "required arguments"),
            ("compare --input @/none", "none"),
            ("compare --input @/empty", "contains no key"),
            ("compare --input @/folder", "no table and no filter"),
            ("compare --input @/block", "pass its table, or a file of keys"),
            ("compare --input @/keys --absent @/empty", "contains no key"),
            ("compare --input @/keys --absent @/keys", "--absent: all 100 keys are also in --input"),
            ("compare --input @/keys --holdout 0.0001%", "--holdout 0.0001% of 100 keys is none"),
            ("compare --input @/keys --holdout 99.9999%", "--holdout 99.9999% of 100 keys is all"),
            ("compare --input @/keys --holdout 10", "such as 10%, got '10'"),
            ("compare --input @/keys --files 101", "--files: expected at most 9"),
            ("compare --input @/keys --files 0", "--files"),
            ("compare --input @/keys --fpr 2", "expected a number between 0 and 1"),
            ("compare --input @/keys --fpr 1e-30", "no kind can build filters"),
            ("compare --input @/keys --fpr 0.1 --bits-per-key 9", "cannot be used with"),
            ("compare --input @/keys --absent @/keys --holdout 5%", "cannot be used with"),
            ("compare --input @/keys --range-length 0", "--range-length"),
            ("compare --input @/keys --range-length 9 --files 2", "cannot be used with"),
            ("compare --generate 9 --range-length 9", "cannot be used with"),
            ("compare --generate 0", "--generate"),
            ("compare --generate 9 --input @/keys", "cannot be used with"),
            ("compare --generate 9 --absent @/keys", "cannot be used with"),
            ("compare --generate 9 --files 10", "--files: expected at most 9"),
        ],
    );
    run_with_input(&["compare", "--input", "-", "--absent", "-"], b"a\nb\n").expect_error("only once");
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
    place.write("kept/notes.txt", "no table");
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
            ("verify @/void", "no table and no filter (it is empty)"),
            ("verify @/kept", "no table and no filter (1 other file)"),
            (
                "verify ../interop/fixtures/databases/running",
                "in directories below it: pass ../interop/fixtures/databases/",
            ),
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
    assert_eq!(run_with_input(&["get", "-", "b"], &table).expect_code(0).stdout, "2\n");
    assert_eq!(run_with_input(&["get", "-"], &table).expect_code(0).stdout, "a\t1\nb\t2\n");
    assert_eq!(run_with_input(&["get", &out, "--keys", "-"], b"b\na\n").expect_code(0).stdout, "b\t2\na\t1\n");
    for command in ["get", "probe"] {
        let twice = run_with_input(&[command, "-", "--keys", "-"], &table).expect_code(2).stderr;
        assert!(twice.contains("standard input can be read only once"), "{twice}");
    }
}

/// A script must not wait for an object that a command prints twice, in another form, or not at all.
#[test]
fn after_an_error_there_is_one_object_too() {
    let place = Place::new();
    let (out, missing) = (place.build(10, &[]), place.text("missing"));
    for arguments in [
        &["get", &missing, "key"][..],
        &["get"],
        &["build", "--generate", "0", "--out", &out],
        &["build", "--generate", "9", "--out", &out],
        &["probe", &out, "--keys", &missing],
        &["completions", "bash"],
        &["frobnicate"],
        &[],
    ] {
        let run = run(&[arguments, &["--json"]].concat()).expect_code(2);
        let object = run.json();
        let error = object["error"].as_str().unwrap();
        let is_told = !error.is_empty() && !error.starts_with("error") && run.stderr.contains(error);
        assert!(is_told, "{arguments:?}: {object}");
        // `get` may have printed entries before it fails.
        assert!(object.as_object().unwrap().len() == 1 || object["found"].is_array(), "{object}");
    }
    assert!(run(&["--help", "--json"]).expect_code(0).stdout.contains("Usage"));
}
