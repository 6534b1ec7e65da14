//! Tables and databases that RocksDB, LevelDB and Pebble wrote (`crates/interop/fixtures/README.md`): the program must
//! report what those engines wrote and answer. The failures guarded against: a sound table reported as damaged, damage
//! that is not found or data that was not reached and is called sound, a stored key that is reported as absent, files
//! of the engine or rests of compactions that count as tables or as damage, and a MANIFEST that is dropped without a
//! word.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{
    ABSENT, FIXTURES, Place, array, copied, database, decimal_keys, expected, file_name, fixtures, flip, index,
    inspected, json, log_record, names, part, probed, run, write_manifest,
};

#[test]
fn every_table_of_another_engine_is_sound_and_its_filter_has_each_of_its_keys() {
    let fixtures = fixtures();
    let paths: Vec<_> = fixtures.keys().map(String::as_str).collect();
    for file in array(&json(&[&["verify"], &paths[..]].concat(), 3), "files") {
        let fixture = &fixtures[file["path"].as_str().unwrap()];
        assert_eq!(file["problems"], Value::Array(vec![]), "{file}");
        let is_own_order = fixture["file"].as_str().unwrap().contains("own-order-partitions");
        let is_checked = fixture["checksum"] != 0 && !is_own_order;
        assert_eq!(file["state"], if is_checked { "ok" } else { "not checked" }, "{file}");
        assert_eq!(file["not_checked_because"].is_null(), is_checked, "{file}");
        if fixture["entries"] == "puts" && file["keys_not_compared_because"].is_null() && fixture["filter"] != "none" {
            assert_eq!(file["keys_compared"], fixture["count"], "{file}");
        }
    }
}

/// With damaged data, the comparator of a table of LevelDB cannot be taken from the keys; the message must be about the
/// damage.
#[test]
fn damage_to_a_filter_of_another_engine_is_found_where_it_is() {
    let place = Place::new();
    for (fixture, filter) in [("rocksdb/11.8-bloom-fv6.sst", "fullfilter"), ("leveldb/6000-keys.ldb", "filter.")] {
        let table = place.write("000007.sst", fs::read(format!("{FIXTURES}/{fixture}")).unwrap());
        let (offset, _) = part(&table, filter);
        flip(&table, offset + 9);
        for command in ["inspect", "verify"] {
            let told = run(&[command, &table]).expect_code(1).stdout;
            assert!(told.contains(&format!("filter at {offset}")) && told.contains("is damaged"), "{command}: {told}");
        }
        let lost = run(&["probe", &table, "--key", "00000000!", "--list", "absent"]).expect_code(1);
        assert_eq!(lost.stdout, "", "a damaged filter says that a key is absent");
        assert!(lost.stderr.contains("may contain every key: filter at"), "{}", lost.stderr);
    }
}

#[test]
fn a_table_is_known_by_its_bytes_and_a_directory_may_hold_all_sorts() {
    let place = Place::new();
    let out = place.build(1_000, &[]);
    for (name, fixture) in [("a.dat", "rocksdb/7.8-bloom-fv5.sst"), ("b", "leveldb/6000-keys.ldb")] {
        fs::copy(Path::new(FIXTURES).join(fixture), format!("{out}/{name}")).unwrap();
    }
    fs::write(format!("{out}/notes"), "no table").unwrap();
    let verified = run(&["verify", &out]).expect_code(0).stdout;
    assert!(verified.contains("3 sound, 0 damaged") && verified.contains("notes: skipped"), "{verified}");
    assert_eq!(probed(&[&out, "--keys", &place.text("keys.tsv")], 0)["probed_files"], 3);
    run(&["get", &out, "key0001"]).expect_code(0);
    fs::copy(format!("{out}/a.dat"), format!("{out}/000009.sst")).unwrap();
    run(&["get", &out, "key0001"]).expect_error("000009.sst: expected a table of sstfilter, got one of RocksDB");
}

/// A manifest of one record: the comparator `idb_cmp1` of Chromium's databases.
const OTHER: &[u8] = b"\xf6\xd0\x17\xc7\x0a\x00\x01\x01\x08\x69\x64\x62\x5f\x63\x6d\x70\x31";

/// Only the database's manifest names the comparator of a LevelDB table. With an unknown order, the bytes of a key do
/// not tell which data block it is in.
#[test]
fn a_leveldb_table_is_probed_only_in_the_order_that_its_database_names() {
    /// LevelDB's own comparator, and table 7 on level 2.
    const OWN: &[u8] = b"\x5e\xe3\x52\xb0\x24\x00\x01\x01\x1a\x6c\x65\x76\x65\x6c\x64\x62\x2e\x42\x79\x74\x65\x77\x69\x73\x65\x43\x6f\x6d\x70\x61\x72\x61\x74\x6f\x72\x07\x02\x07\x64\x01\x61\x01\x62";
    let place = Place::new();
    // With a next file number.
    let whole = |manifest: &[u8]| [manifest, &log_record(&[3, 100])].concat();
    let table = place.text("000007.ldb");
    fs::copy(format!("{FIXTURES}/leveldb/6000-keys.ldb"), &table).unwrap();
    let keys = place.write("keys", "00000000!\n");
    let absent = || probed(&["--keys", &keys, &table], 0)["without_candidates"].clone();
    assert_eq!(absent(), 1, "all keys of the table are in bytewise order");
    assert_eq!(absent_of_comparator(&table, &keys, "idb_cmp1"), 0, "the user knows better than the keys");
    let order = |options: &[&str]| {
        let contents = inspected(&[&[table.as_str()], options].concat(), 0)["contents"].clone();
        ["comparator", "comparator_from"].map(|field| contents[field].as_str().unwrap().to_owned())
    };
    assert_eq!(order(&[]), ["leveldb.BytewiseComparator", "keys"]);
    fs::write(place.path("CURRENT"), "MANIFEST-000002\n").unwrap();
    fs::write(place.path("MANIFEST-000002"), whole(OTHER)).unwrap();
    assert_eq!(absent(), 0, "another comparator");
    for command in ["inspect", "verify"] {
        let said = run(&[command, &table]).expect_code(0).stdout;
        assert!(said.contains("idb_cmp1\" of a LevelDB database (expected leveldb.BytewiseC"), "{command}: {said}");
        assert!(said.contains("pass --comparator leveldb.BytewiseComparator if it orders keys"), "{command}: {said}");
    }
    assert_eq!(order(&[]), ["idb_cmp1", "MANIFEST"]);
    assert_eq!(absent_of_comparator(&table, &keys, "leveldb.BytewiseComparator"), 1, "the user knows better");
    assert_eq!(order(&["--comparator", "leveldb.BytewiseComparator"]), ["leveldb.BytewiseComparator", "option"]);
    fs::write(place.path("MANIFEST-000002"), whole(OWN)).unwrap();
    assert_eq!(absent(), 1, "bytewise");
    let advice = json(&["advise", "levels", &table], 0);
    let level = &advice["plan"][0];
    assert_eq!((&level["level"], &level["keys"], &level["runs"]), (&2.into(), &6_000.into(), &1.into()), "{advice}");
    fs::remove_file(place.path("CURRENT")).unwrap();
    run(&["advise", "levels", &table]).expect_error("nor a MANIFEST next to it records it");
}

/// A damaged partition of a filter does not affect the keys in the others.
#[test]
fn the_sound_partitions_of_a_damaged_filter_are_probed() {
    let source = format!("{FIXTURES}/rocksdb/11.8-partitioned-ribbon.sst");
    let place = Place::new();
    let [stored, absent] = decimal_keys(&fixtures()[&source]);
    let (stored, absent) = (place.write("stored", stored), place.write("absent", absent));
    let table = place.text("000007.sst");
    fs::copy(&source, &table).unwrap();
    let absent_ones = |code| probed(&["--keys", &absent, &table], code)["without_candidates"].as_u64().unwrap();
    let before = absent_ones(0);
    let sound = fs::read(&table).unwrap();
    let is_partition = |&at: &usize| {
        fs::write(&table, &sound).unwrap();
        flip(&table, at);
        run(&["verify", &table]).stdout.contains("filter partition at ")
    };
    assert!((0..sound.len()).rev().step_by(256).any(|at| is_partition(&at)));
    let after = absent_ones(1);
    assert!(after > 0 && after < before, "{after} of {before}");
    let lost = run(&["probe", "--keys", &stored, "--list", "absent", &table]).expect_code(1);
    assert!(lost.stdout.is_empty() && lost.stderr.contains("may contain the keys of some parts: filter partition"));
}

fn absent_of_comparator(table: &str, keys: &str, comparator: &str) -> Value {
    probed(&["--keys", keys, table, "--comparator", comparator], 0)["without_candidates"].clone()
}

/// Pebble's tables name the default comparer, but not how it splits keys.
#[test]
fn a_stated_comparator_makes_a_filter_usable_that_the_table_does_not_say_enough_of() {
    let table = format!("{FIXTURES}/pebble/v8-bloom.sst");
    let place = Place::new();
    let [stored, absent] = decimal_keys(&fixtures()[&table]);
    let (stored, absent) = (place.write("stored", stored), place.write("absent", absent));
    let advice = "pass it with --comparator";
    let silent = run(&["probe", &table, "--keys", &absent]).expect_code(0).stdout;
    assert!(silent.contains("may contain every key") && silent.contains(advice), "{silent}");
    assert!(run(&["inspect", &table]).expect_code(0).stdout.contains(advice));
    assert_eq!(inspected(&[&table, "--comparator", "leveldb.BytewiseComparator"], 0)["state"], "ok");
    let found = absent_of_comparator(&table, &absent, "leveldb.BytewiseComparator");
    assert!(index(&found) > ABSENT * 9 / 10, "{found}");
    assert_eq!(absent_of_comparator(&table, &stored, "leveldb.BytewiseComparator"), 0);
}

/// A lookup touches only tables whose key range includes its key. Only the manifest records these ranges.
#[test]
fn the_ends_of_a_table_of_rocksdb_are_those_of_its_manifest_if_it_is_that_of_the_file() {
    let source = format!("{FIXTURES}/rocksdb/11.8-no-policy.sst");
    let [stored, _] = decimal_keys(&fixtures()[&source]);
    let (smallest, largest) = (stored.lines().next().unwrap(), stored.lines().last().unwrap());
    let place = Place::new();
    let table = place.text("000007.sst");
    fs::copy(&source, &table).unwrap();
    let bytes = fs::metadata(&table).unwrap().len();
    let stored = place.write("stored", &stored);
    let outside = place.write("outside", format!("!\n{largest}!\n"));
    let touching_none = |keys: &str| probed(&[&table, "--keys", keys], 0)["without_candidates"].clone();
    assert_eq!(touching_none(&outside), 0, "nothing tells its ends, and it has no filter");
    write_manifest(&place, "", &[(7, 1, bytes, [smallest, largest])]);
    assert_eq!(touching_none(&outside), 2);
    assert_eq!(touching_none(&stored), 0);
    let range = |lower: &str, upper: &str| {
        let found = json(&["probe", &table, "--range", lower, upper], 0);
        let answer = |field: &str| found["answers"][0]["files"][0][field].as_str().unwrap().to_owned();
        [answer("answer"), answer("because")]
    };
    // The output must not look as if a range filter had answered.
    assert_eq!(range("!", smallest), ["skip", "bounds"]);
    assert_eq!(range("!", &format!("{smallest}!")), ["read", "no filter"]);
    assert_eq!(range(&format!("{largest}!"), "~"), ["skip", "bounds"]);
    assert_eq!(range(largest, "~"), ["read", "no filter"]);
    // Another table with this number, and a table that the manifest does not contain.
    for (number, bytes) in [(7, bytes + 1), (8, bytes)] {
        write_manifest(&place, "", &[(number, 1, bytes, [smallest, largest])]);
        assert_eq!(touching_none(&outside), 0);
    }
}

/// Counted as false positives, they would make a sound filter look broken.
#[test]
fn keys_that_a_filter_holds_nothing_of_are_counted_apart() {
    let place = Place::new();
    let keys = place.write("words", "apple\nbanana\n");
    let table = format!("{FIXTURES}/pebble/v4-cockroach.sst");
    let file = &probed(&[&table, "--keys", &keys], 0)["files"][0];
    assert_eq!((&file["read_for"], &file["keys_probed"], &file["positive_rate"]), (&2.into(), &0.into(), &Value::Null));
    let observed = inspected(&[&table, "--absent", &keys], 0)["observed"].clone();
    assert_eq!((&observed["not_probed"], &observed["observed_fpr"]), (&2.into(), &Value::Null), "{observed}");
    let listed = run(&["probe", &table, "--keys", &keys, "--list", "all"]).expect_code(0);
    assert!(listed.stdout.starts_with("apple\t1\tv4-cockroach.sst\tnot covered\n"), "{}", listed.stdout);
    assert!(listed.stderr.contains("its filter holds no part of some keys"), "{}", listed.stderr);
}

#[test]
fn a_filter_without_a_checksum_is_used_only_if_that_is_asked_for() {
    let place = Place::new();
    let table = format!("{FIXTURES}/rocksdb/11.8-checksum-none-fv5.sst");
    let fixture = &fixtures()[&table];
    let [stored, absent] = decimal_keys(fixture);
    let (stored, absent) = (place.write("stored", stored), place.write("absent", absent));
    let refused = run(&["probe", &table, "--keys", &absent]).expect_code(0);
    assert!(refused.stdout.contains("--unchecked-filters uses it anyway"), "{}", refused.stdout);
    let positives =
        |keys: &str| probed(&[&table, "--keys", keys, "--unchecked-filters"], 0)["files"][0]["read_for"].clone();
    assert_eq!((positives(&absent), positives(&stored)), (fixture["positives"].clone(), fixture["count"].clone()));
    let verified = json(&["verify", "--unchecked-filters", &table], 3);
    assert_eq!(verified["files"][0]["keys_compared"], fixture["count"]);
}

#[test]
fn the_advice_on_a_filter_that_cannot_be_used_can_be_followed() {
    let report = run(&["report", &format!("{FIXTURES}/rocksdb/11.8-order-own-order.sst"), "--json"]);
    let remark = &report.expect_code(0).json()["remarks"][0];
    let advice = remark["advice"].as_str().unwrap();
    assert!(remark["state"] == "unusable" && advice.contains("compact the table"), "{remark}");
    assert!(!advice.contains("build a new one") && !advice.contains("--secret-seed-file"), "{remark}");
}

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

/// A change of the MANIFEST, the exit code, and words of the message.
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

/// A file that is passed by its name is read whatever the MANIFEST says of it, unlike one that `DB/*` happens to pass.
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
