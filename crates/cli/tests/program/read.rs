//! `get`, `probe` and `verify` on damaged, foreign and missing files. No file may cause a panic or be
//! treated as sound.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::common::{Place, flip, part, probed, program, run};

/// A bare filter block, cut out of a table.
fn bare_block(place: &Place) -> String {
    let out = place.build(2_000, &["--policy", "ribbon", "--fpr", "0.01"]);
    let table = format!("{out}/000001.sst");
    let (start, length) = part(&table, "filter");
    place.write("bare", &fs::read(table).unwrap()[start..start + length])
}

#[test]
fn a_damaged_filter_lets_reads_through_and_is_reported() {
    let place = Place::new();
    let out = place.build(2_000, &[]);
    let table = format!("{out}/000001.sst");
    let (start, _) = part(&table, "filter");
    flip(&table, start + 5);
    let found = run(&["get", &out, "key0007"]).expect_code(0);
    assert!(found.stderr.contains("reading without a filter"), "{}", found.stderr);
    let file = &probed(&[&out, "--keys", &place.text("keys.tsv")], 1)["files"][0];
    assert_eq!((&file["kind"], &file["read_for"]), (&"unusable".into(), &2_000.into()));
    assert!(run(&["verify", &out]).expect_code(1).stdout.contains("checksum"));
}

#[test]
fn a_filter_file_of_a_directory_that_was_cut_short_is_damage_and_not_skipped() {
    let place = Place::new();
    let out = place.build(500, &[]);
    run(&["verify", &out]).expect_code(0);
    for length in [0, 20, 1_000] {
        fs::write(format!("{out}/000001.filter"), vec![7; length]).unwrap();
        run(&["verify", &out]).expect_code(1);
    }
}

#[test]
fn every_kind_of_damage_to_a_table_is_found() {
    let place = Place::new();
    let out = place.build(500, &[]);
    let table = format!("{out}/000001.sst");
    let sound = fs::read(&table).unwrap();
    let step = sound.len() / 40;
    for offset in (0..sound.len()).step_by(step) {
        flip(&table, offset);
        run(&["verify", &table]).expect_code(1);
        fs::write(&table, &sound).unwrap();
    }
    for length in [0, 1, 31, 63, 64, 1_000, sound.len() - 1] {
        fs::write(&table, &sound[..length]).unwrap();
        let said = run(&["verify", &table]).expect_code(1).stdout;
        assert!(
            said.contains("magic number of sstfilter, RocksDB") && said.contains("it may have been cut short"),
            "{said}"
        );
        run(&["get", &table, "key0001"]).expect_code(2);
    }
}

#[test]
fn a_bare_filter_block_is_verified() {
    let place = Place::new();
    let block = bare_block(&place);
    run(&["verify", &block]).expect_code(0);
    flip(&block, 3);
    run(&["verify", &block]).expect_code(1);
    let trailer = fs::metadata(&block).unwrap().len() - 20;
    flip(&block, usize::try_from(trailer).unwrap());
    run(&["verify", &block]).expect_code(1);
}

#[test]
fn what_is_neither_table_nor_block_is_said_to_be() {
    let place = Place::new();
    for (name, contents) in [("empty", vec![]), ("text", b"hello\n".repeat(100)), ("zeros", vec![0; 4_096])] {
        let path = place.write(name, contents);
        assert!(run(&["verify", &path]).expect_code(1).stdout.contains("neither"));
        run(&["get", &path, "k"]).expect_code(2);
    }
    run(&["verify", &place.write("pretender", [vec![0xff; 200], b"SSTFLTR\x1a".to_vec()].concat())]).expect_code(1);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let place = Place::new();
    let out = place.build(3_000, &["--files", "100"]);
    let tables: Vec<_> = (1..=100).map(|number| format!("{out}/{number:06}.sst")).collect();
    // More than a pipe holds: a child that another test starts may have the reading end open for a moment.
    let arguments = [&["inspect", "--json"], &tables.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
    assert!(run(&arguments).stdout.len() > 1 << 17);
    let mut child = program().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(141), "{stderr}");
    assert_eq!(stderr, "");
}

#[test]
fn tables_of_a_secret_seed_are_verified_with_its_file_and_said_to_be_unasked_without() {
    let place = Place::new();
    let (seed, other) = (place.write("seed", "00112233445566ff\n"), place.write("other", "8 bytes."));
    let out = place.build(2_000, &["--secret-seed-file", &seed]);

    let verified = run(&["verify", &out, "--secret-seed-file", &seed, "--json"]).expect_code(0).json();
    assert!(verified["files"][0]["keys_not_compared_because"].is_null());
    let denied = [&out, "--keys", &place.write("absent", "no\n"), "--secret-seed-file", &seed];
    assert!(probed(&denied, 0)["files"][0]["reason"].is_null());

    let unasked = run(&["verify", &out]).expect_code(0).stdout;
    assert!(
        unasked.contains("not compared with all keys") && unasked.contains("built with a secret seed"),
        "{unasked}"
    );
    assert!(unasked.contains("pass the seed with --secret-seed-file"), "{unasked}");
    let unasked = run(&["verify", &out, "--secret-seed-file", &other]).expect_code(0).stdout;
    assert!(unasked.contains("built with another secret seed (fingerprint"), "{unasked}");
    let found = run(&["get", &out, "key0042", "--secret-seed-file", &other]).expect_code(0);
    assert!(found.stdout == "value0042\n" && found.stderr.contains("reading without a filter"));

    let wrong = place.write("wrong", "0x42");
    run(&["verify", &out, "--secret-seed-file", &wrong]).expect_error("16 hexadecimal digits");
    run(&["build", "--generate", "9", "--out", &place.text("both"), "--hash-seed", "1", "--secret-seed-file", &seed])
        .expect_error("expected --hash-seed or --secret-seed-file, got both");
}

/// A wrong path must not be read to its end, which may be far away or may never come.
#[cfg(target_os = "linux")]
// promise: safe-to-open
#[test]
fn a_secret_seed_file_without_an_end_is_refused_at_once_and_says_what_was_expected() {
    let place = Place::new();
    let out = place.build(10, &[]);
    let vast = place.text("vast");
    fs::File::create(&vast).unwrap().set_len(1 << 40).unwrap();
    // With a limit on memory, because a failing program would use all of it.
    let limited = |command: &str, seed: &str| {
        let script = format!("ulimit -v 2000000; {command}");
        let output = std::process::Command::new("bash")
            .args(["-c", &script, env!("CARGO_BIN_EXE_sstfilter"), "verify", &out, "--secret-seed-file", seed])
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for seed in ["/dev/zero", &vast] {
        let (code, stderr) = limited(r#"exec "$0" "$@""#, seed);
        let expected = "expected a secret seed of 8 bytes or 16 hexadecimal digits, got more than 64 bytes";
        assert!(code == Some(2) && stderr.contains(expected), "{seed}: {stderr}");
    }
    let (code, stderr) = limited(r#"yes | "$0" "$@""#, "/dev/stdin");
    assert!(code == Some(2) && stderr.contains("got more than 64 bytes"), "{stderr}");
    let (code, stderr) = limited(r#"echo 00112233445566ff | "$0" "$@""#, "/dev/stdin");
    assert!(code == Some(0), "a seed may come through a pipe: {stderr}");
}
