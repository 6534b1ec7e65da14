//! Databases that RocksDB and LevelDB wrote (`crates/interop/fixtures/README.md`). The failures guarded against: a damaged
//! table that is called sound because its data was not reached, files of the engine or rests of compactions that count
//! as tables or as damage, and a MANIFEST that is dropped without a word.

use std::fs;

use serde_json::Value;

use crate::common::{Place, array, copied, database, expected, file_name, flip, json, log_record, names, run};

/// All databases, and the exit code of their verification.
const ALL: [(&str, i32); 11] = [
    ("blobs-7.8", 0),
    ("bzip2", 3),
    ("empty", 0),
    ("families", 0),
    ("leveldb-rest", 0),
    ("prefix-only", 0),
    ("ribbon", 0),
    ("running", 0),
    ("tombstones", 0),
    ("wal-only", 0),
    ("zlib", 0),
];

/// Returns the names of files, sorted.
fn file_names(files: &[Value]) -> Vec<String> {
    let mut names: Vec<_> = files.iter().map(|file| file_name(&file["path"]).to_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_live_tables_of_a_database_are_verified_with_all_their_keys_and_nothing_else_counts() {
    for (name, code) in ALL {
        let (verified, expected) = (json(&["verify", &database(name)], code), expected(name));
        let extension = if expected["engine"] == "leveldb" { "ldb" } else { "sst" };
        let number = |table: &Value| format!("{:06}.{extension}", table["number"].as_u64().unwrap());
        let tables: Vec<_> = array(&expected, "tables").iter().map(number).collect();
        assert_eq!(file_names(array(&verified, "files")), tables, "{name}");
        let not_live: Vec<_> = array(&expected, "not_live").iter().map(|file| file.as_str().unwrap()).collect();
        assert_eq!(file_names(array(&verified, "not_live")), not_live, "{name}");
        for rest in ["others", "orphans"] {
            assert!(array(&verified, rest).is_empty(), "{name}: {verified}");
        }
        for file in array(&verified, "files").iter().filter(|_| code == 0) {
            assert_eq!((&file["state"], &file["blocks_not_checked"]), (&"ok".into(), &0.into()), "{name} {file}");
            // The entries of one table include a range tombstone.
            let keys = file["entries"].as_u64().unwrap() - u64::from(name == "tombstones" && file["entries"] == 61);
            assert_eq!(file["keys_compared"], keys, "{name} {file}");
        }
    }
}

#[test]
fn the_files_of_a_database_are_what_the_database_is_and_inspect_describes_its_live_tables() {
    for (name, _) in ALL {
        let (directory, expected) = (database(name), expected(name));
        let files: Vec<_> = names(&directory).iter().map(|file| format!("{directory}/{file}")).collect();
        let files: Vec<_> = files.iter().map(String::as_str).collect();
        let [whole, each] = [&[directory.as_str()][..], &files].map(|paths| run(&[&["report"], paths].concat()));
        // Advice repeats the paths.
        assert_eq!(
            (whole.stdout, whole.code),
            (each.stdout.replace(&files.join(" "), &directory), each.code),
            "{name}"
        );
        let shown = run(&[&["inspect", "--json"], &files[..]].concat()).expect_code(0).json();
        assert!(shown["notes"].to_string().contains("files of the engine, not tables: CURRENT, "), "{name}: {shown}");
        let [tables, described] = [array(&expected, "tables"), array(&shown, "files")];
        assert_eq!(tables.len(), described.len(), "{name}");
        for (table, file) in tables.iter().zip(described) {
            assert_eq!((&file["bytes"], &file["place"]["level"]), (&table["bytes"], &table["level"]), "{name}");
            assert_eq!(file["place"]["is_live"], true, "{name} {file}");
        }
    }
    run(&["inspect", &database("empty")]).expect_error("sstfilter report");
}

#[test]
fn what_the_live_version_does_not_name_is_told_and_judged_only_alone() {
    for (name, extension) in [("running", "sst"), ("leveldb-rest", "ldb")] {
        let directory = database(name);
        let shown = run(&["verify", &directory]).expect_code(0).stdout;
        for words in [
            "2 files: not in the live version of the database, so not counted: replaced by newer tables",
            "being written, never completed, or no table of this database",
            "not live: neither a table nor a filter",
            "2 sound, 0 damaged",
        ] {
            assert!(shown.contains(words), "{words} in {shown}");
        }
        let cut = if extension == "sst" { 16 } else { 17 };
        run(&["verify", &format!("{directory}/{cut:06}.{extension}")]).expect_code(1);
        let stray = run(&["verify", &format!("{directory}/000099.{extension}")]).expect_code(0).stdout;
        assert!(stray.contains("1 sound, 0 damaged"), "{stray}");
    }
}

/// What becomes of the MANIFEST, the exit code, and words of the message.
#[test]
fn a_manifest_that_cannot_be_read_is_said_and_the_tables_are_verified_all_the_same() {
    let place = Place::new();
    let directory = copied(&place, "blobs-7.8");
    let manifest = format!("{directory}/MANIFEST-000005");
    let sound = fs::read(&manifest).unwrap();
    // A record of a tag that no version writes: 402.
    let unknown = [&sound[..], &log_record(&[0x92, 3, 0])].concat();
    let flipped = |at: usize, bit: u8| Some([&sound[..at], &[sound[at] ^ bit], &sound[at + 1..]].concat());
    let first = 7 + usize::from(sound[4]);
    let stored = place.write("stored", "user:00000000\nuser:00001996\n");
    for (bytes, code, words) in [
        (flipped(20, 1), 1, "1 sound, 1 damaged"),
        // A length behind which the file ends.
        (flipped(first + 5, 0x40), 1, "1 sound, 1 damaged"),
        (Some([&sound[..first], &[0; 7], &sound[first..]].concat()), 1, "expected "),
        (Some(sound[..first + 9].to_vec()), 1, "expected "),
        (Some(Vec::new()), 1, "expected "),
        (Some(unknown), 3, "402"),
        (None, 2, "cannot read"),
        (Some(sound.clone()), 0, "1 sound, 0 damaged"),
    ] {
        match bytes {
            Some(bytes) => fs::write(&manifest, bytes).unwrap(),
            None => fs::remove_file(&manifest).unwrap(),
        }
        let shown = run(&["verify", &directory]).expect_code(code).stdout;
        assert!(shown.contains(words) && shown.contains("1 sound"), "{words} in {shown}");
        let keys = run(&["probe", &directory, "--keys", &stored, "--list", "absent"]).stdout;
        assert_eq!(keys, "", "a stored key is called absent");
        assert_eq!(shown.contains("MANIFEST-000005: "), code != 0, "{shown}");
    }
    fs::write(format!("{directory}/CURRENT"), "../elsewhere\n").unwrap();
    assert!(run(&["verify", &directory]).expect_code(1).stdout.contains("CURRENT: "));
    fs::write(format!("{directory}/CURRENT"), "MANIFEST-000005\n").unwrap();
    fs::remove_file(format!("{directory}/000014.sst")).unwrap();
    let shown = run(&["verify", &directory]).expect_code(1).stdout;
    assert!(shown.contains("000014.sst: the manifest of its database names it, and it is gone"), "{shown}");
}

/// What is passed by its name is meant, whatever the MANIFEST says of it, and is no file that `DB/*` happens to pass.
#[test]
fn files_that_are_passed_by_name_count_beside_live_ones_and_links_hide_nothing() {
    let place = Place::new();
    let [live, other] = ["zlib", "ribbon"].map(|name| copied(&place, name));
    let (live_table, backup) = (format!("{live}/000009.sst"), format!("{live}/backup.sst"));
    fs::copy(format!("{other}/000011.sst"), &backup).unwrap();
    let key = place.write("key", "user:00007996\n");
    let reads = |paths: &[&str]| run(&[&["probe", "--keys", &key, "--list", "all"], paths].concat()).stdout;
    let is_read = |name: &str| format!("user:00007996\t1\t{name}\tfilter\n");
    assert_eq!(reads(&[&live_table, &backup]), is_read("backup.sst"));
    assert_eq!(reads(&[&live]), "user:00007996\t0\t\t\n", "the database does not use it");
    fs::write(format!("{live}/000008-001.log"), "of Pebble").unwrap();
    assert_eq!(run(&["probe", &live, "--keys", &key, "--list", "absent"]).stdout, "", "it may be in the log");
    flip(&backup, 500);
    run(&["verify", &live_table, &backup]).expect_code(1);
    run(&["verify", &live]).expect_code(0);
    fs::write(format!("{live}/x.map"), [0; 100]).unwrap();
    run(&["verify", &live_table, &format!("{live}/x.map")]).expect_code(1);
    fs::remove_file(&backup).unwrap();
    let tables = place.text("tables");
    fs::create_dir(&tables).unwrap();
    fs::copy(format!("{other}/000011.sst"), format!("{tables}/000001.sst")).unwrap();
    std::os::unix::fs::symlink(format!("{tables}/000001.sst"), &backup).unwrap();
    assert_eq!(reads(&[&live, &tables]), is_read("000001.sst"));
    assert_eq!(reads(&[&tables, &live]), is_read("000001.sst"));
}

#[test]
fn data_behind_a_compressed_index_is_not_called_sound_if_it_is_not_checked() {
    let place = Place::new();
    let refused = run(&["verify", &database("bzip2")]).expect_code(3).stdout;
    let words = "000009.sst: not checked: 72 of 72 data blocks: index: compression by bzip2 is not supported";
    assert!(refused.contains(words) && refused.contains("1 not checked, 0 damaged"), "{refused}");
    let refused = json(&["verify", &database("bzip2")], 3);
    assert_eq!((&refused["sound"], &refused["files"][0]["blocks_not_checked"]), (&0.into(), &72.into()));
    // Damage comes first, and what was not reached is said as well.
    let directory = copied(&place, "bzip2");
    let table = format!("{directory}/000009.sst");
    let length = fs::read(&table).unwrap().len();
    let damaged = (0..length).rev().step_by(16).find(|&at| {
        flip(&table, at);
        let found = run(&["verify", &directory]);
        flip(&table, at);
        found.code == Some(1) && found.stdout.contains("72 of 72 data blocks")
    });
    assert!(damaged.is_some());
}
