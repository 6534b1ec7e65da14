//! After a crash, users want to know what is damaged, how much is lost, and to save the rest. The failures guarded
//! against: damage that is not found, a stored key that damage makes absent, and a report that ends at the first bad
//! block.

use std::fs;

use sstfilter::KeyParts;

use crate::common::{FIXTURES, Place, flip, json, lines, part, run};
use crate::described::bare_filters;

/// Files of each sort, each with a key that it holds.
fn files(place: &Place) -> Vec<(String, &'static str)> {
    let keys = place.write("keys", lines(0..2_000, |key| format!("key{key:04}")));
    let filter = |name: &str, options: &[&str]| {
        run(&[&["filter", "--keys", &keys, "--out", &place.text(name)], options].concat()).expect_code(0);
        (place.text(name), "key0007")
    };
    let foreign = |name: &str, table: &str, key| (place.write(name, fs::read(table).unwrap()), key);
    let [_, container] = bare_filters(place, &KeyParts::whole_keys());
    vec![
        (format!("{}/000001.sst", place.build(500, &["--range-filter", "ordered"])), "key0007"),
        (container, "key0007"),
        filter("ribbon", &["--policy", "ribbon", "--fpr", "0.01"]),
        filter("ordered", &["--range-filter", "ordered"]),
        filter("hashed", &["--range-filter", "hashed:64:0.01:4", "--range-prefix", "3"]),
        foreign("rocksdb.sst", &format!("{FIXTURES}/rocksdb/11.8-bloom-fv6.sst"), "00000000"),
        foreign("zlib.sst", &format!("{FIXTURES}/databases/zlib/db/000009.sst"), "user:00000000"),
    ]
}

// promise: damage
#[test]
fn damage_anywhere_in_any_file_is_found_and_makes_no_stored_key_absent() {
    let place = Place::new();
    for (file, key) in files(&place) {
        let sound = fs::read(&file).unwrap();
        run(&["verify", &file]).expect_code(0);
        let probe = ["probe", &file, "--key", key, "--list", "absent"];
        let check = |bytes: &[u8], what: String| {
            fs::write(&file, bytes).unwrap();
            let verified = run(&["verify", &file]);
            // A flipped version of another engine may be a future one.
            let is_found = verified.code == Some(1) || verified.stdout.contains("format version");
            assert!(is_found, "{file}, {what}: {:?} {}", verified.code, verified.stdout);
            assert_eq!(run(&probe).stdout, "", "{file}, {what}");
        };
        for at in (0..sound.len()).step_by(sound.len() / 20).chain((sound.len() - 32..sound.len()).step_by(3)) {
            let mut flipped = sound.clone();
            flipped[at] ^= 1;
            check(&flipped, format!("byte {at}"));
        }
        for length in [0, 1, 8, 31, 53, 64, sound.len() / 2, sound.len() - 1] {
            check(&sound[..length], format!("{length} bytes"));
        }
    }
}

#[test]
fn verify_lists_every_damaged_block_and_says_how_many_entries_are_lost() {
    let place = Place::new();
    let table = format!("{}/000001.sst", place.build(20_000, &[]));
    let bytes = part(&table, "data").1;
    (0..14).for_each(|number| flip(&table, number * bytes / 14 + 10));
    flip(&table, part(&table, "filter").0 + 5);
    let found = run(&["verify", "--all", &table]).expect_code(1).stdout;
    let lines: Vec<_> = found.lines().filter(|line| line.contains("data at offset")).collect();
    assert_eq!(lines.len(), 14, "{found}");
    assert!(lines.iter().all(|line| line.starts_with(&format!("{table}: checksum of the data at"))), "{found}");
    assert_eq!(found.lines().filter(|line| line.contains("filter at offset")).count(), 1, "{found}");
    let json = json(&["verify", &table], 1);
    let (read, missing) = (json["files"][0]["entries"].as_u64().unwrap(), &json["files"][0]["missing_entries"]);
    assert!(read > 15_000 && missing.as_u64().unwrap() + read == 20_000, "{json}");
    assert!(found.contains("of 20,000 entries cannot be read: `get --salvage` prints the others"), "{found}");
}

#[test]
fn what_is_neither_table_nor_filter_is_said_to_be_and_a_filter_that_was_cut_short_is_not_skipped() {
    let place = Place::new();
    for (name, contents) in [("empty", vec![]), ("text", b"hello\n".repeat(100)), ("zeros", vec![0; 4_096])] {
        let path = place.write(name, contents);
        assert!(run(&["verify", &path]).expect_code(1).stdout.contains("neither"));
        run(&["get", &path, "k"]).expect_code(2);
    }
    let out = place.build(500, &[]);
    run(&["verify", &out]).expect_code(0);
    for length in [0, 20, 1_000] {
        fs::write(format!("{out}/000001.filter"), vec![7; length]).unwrap();
        run(&["verify", &out]).expect_code(1);
    }
    // A flipped bit leaves a file recognizable, unless it is one of the two magic bytes.
    let (block, end) = (place.text("block"), 32);
    run(&["filter", "--keys", &place.text("keys.tsv"), "--out", &block]).expect_code(0);
    let length = fs::read(&block).unwrap().len();
    for at in (0..end).filter(|at| ![26, 27].contains(at)) {
        flip(&block, length - end + at);
        let told = run(&["verify", &block]).expect_code(1).stdout;
        assert!(!told.contains("neither a table"), "byte {at}: {told}");
        flip(&block, length - end + at);
    }
}
