//! Tables of other engines: the program must report what those engines wrote and answer. The failures guarded against:
//! a sound table reported as damaged, damage that is not found, and a stored key that is reported as absent.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{
    ABSENT, FIXTURES, Place, decimal_keys, fixtures, flip, index, inspected, json, log_record, part, probed, run,
    write_manifest,
};

/// Runs a command on files and returns its report on each.
fn run_on(command: &str, paths: &[&String], code: i32) -> Vec<Value> {
    let paths: Vec<&str> = paths.iter().map(|path| path.as_str()).collect();
    let report = run(&[&[command, "--json"], &paths[..]].concat()).expect_code(code).json();
    report["files"].as_array().unwrap().clone()
}

#[test]
fn every_table_of_another_engine_is_sound_and_its_filter_has_each_of_its_keys() {
    let fixtures = fixtures();
    let paths: Vec<_> = fixtures.keys().collect();
    for file in run_on("verify", &paths, 3) {
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
