//! Sidecars in a store that is looked after. The failures guarded against: a table that stays damaged for ever although
//! its filter was rebuilt; a sound table that is called damaged because of its sidecar; and sidecars that are counted as
//! tables after their tables have gone.

use std::fs;

use serde_json::Value;
use sstfilter_table::{TableOptions, TableWriter};

use crate::common::{Place, flip, names, part, run};

/// Builds four tables of 8,000 keys, without fallbacks.
fn four_tables(place: &Place) -> String {
    place.build(8_000, &["--files", "4", "--policy", "bloom"])
}

fn rebuild(path: &str) {
    run(&["rebuild", path, "--policy", "bloom"]).expect_code(0);
}

/// Damages a part of a table.
fn damage(table: &str, name: &str) {
    flip(table, part(table, name).0 + 20);
}

#[test]
fn a_rebuilt_filter_makes_a_table_with_a_damaged_one_ok() {
    let place = Place::new();
    let store = four_tables(&place);
    let table = format!("{store}/000002.sst");
    damage(&table, "filter");
    run(&["verify", &store]).expect_code(1);
    rebuild(&table);
    let verified = run(&["verify", &store]).expect_code(0).stdout;
    for words in
        ["000002.sst: the filter in the table is damaged, but a sound sidecar replaces it: filter at", "0 damaged"]
    {
        assert!(verified.contains(words), "{words} in {verified}");
    }
    let json = run(&["verify", &store, "--json"]).expect_code(0).json();
    assert_eq!((json["files"][1]["replaced"].as_array().unwrap().len(), &json["sound"]), (1, &4.into()), "{json}");
    let report = run(&["report", &store, "--json"]).expect_code(0).json();
    assert_eq!(
        (&report["remarks"][0]["state"], &report["remarks"][0]["paths"][0]),
        (&"ok".into(), &table.as_str().into())
    );

    // A damaged sidecar replaces nothing.
    flip(format!("{table}.filter"), 100);
    let json = run(&["verify", &store, "--json"]).expect_code(1).json();
    assert_eq!((&json["damaged"], json["files"][0]["problems"].as_array().unwrap().len()), (&1.into(), 2), "{json}");
}

#[test]
fn a_table_that_cannot_be_salvaged_is_to_be_restored() {
    let place = Place::new();
    let store = four_tables(&place);
    let table = format!("{store}/000002.sst");
    let length = usize::try_from(fs::metadata(&table).unwrap().len()).unwrap();
    flip(&table, length - 20);
    let report = run(&["report", &store, "--json"]).expect_code(1).json();
    assert_eq!(report["remarks"][0]["commands"], Value::from(vec![format!("sstfilter verify {table}")]), "{report}");
    assert!(report["remarks"][0]["advice"].as_str().unwrap().starts_with("Restore the table from a backup"));
    run(&["get", &table, "--salvage"]).expect_error("nothing can be salvaged");
}

#[test]
fn a_table_without_entries_needs_no_filter_and_unknown_numbers_are_no_zeros() {
    let place = Place::new();
    let store = place.text("store");
    fs::create_dir(&store).unwrap();
    fs::copy("../interop/fixtures/leveldb/0-keys.ldb", format!("{store}/000001.ldb")).unwrap();
    let report = run(&["report", &store, "--json"]).expect_code(0).json();
    assert_eq!(
        (&report["files"][0]["state"], &report["families"][0]["total"]["entries"]),
        (&"ok".into(), &Value::Null)
    );

    let options = TableOptions::default().without_filter();
    TableWriter::create(format!("{store}/000002.sst"), &options).unwrap().finish().unwrap();
    let report = run(&["report", &store, "--json"]).expect_code(0).json();
    assert!(report["files"].as_array().unwrap().iter().all(|file| file["state"] == "ok"), "{report}");
}

#[test]
fn damaged_data_stays_damaged_whatever_the_sidecar() {
    let place = Place::new();
    let store = four_tables(&place);
    let table = format!("{store}/000002.sst");
    damage(&table, "filter");
    rebuild(&table);
    damage(&table, "data");
    let verified = run(&["verify", &table]).expect_code(1).stdout;
    for words in ["checksum of the data at", "a sound sidecar replaces it", "1 damaged; 1,"] {
        assert!(verified.contains(words), "{words} in {verified}");
    }
    run(&["report", &store]).expect_code(1);
}

/// It calls the table ok, so it must say what it did not look at.
#[test]
fn report_says_that_data_blocks_were_not_checked() {
    let place = Place::new();
    let store = four_tables(&place);
    let table = format!("{store}/000002.sst");
    damage(&table, "data");
    let absent = place.write("absent", "absent\n");
    let report = run(&["report", &store, "--absent", &absent]).expect_code(0).stdout;
    assert!(
        report.contains(&format!("\ndata blocks were not read: `sstfilter verify {store}` checks all")),
        "{report}"
    );
    run(&["verify", &store]).expect_code(1);
}

#[test]
fn a_damaged_range_filter_is_replaced_too() {
    let place = Place::new();
    let store = place.build(8_000, &["--policy", "bloom", "--range-filter", "ordered"]);
    let table = format!("{store}/000001.sst");
    damage(&table, "range-filter");
    rebuild(&table);
    assert!(run(&["verify", &store]).expect_code(0).stdout.contains("replaces it: range-filter at offset"));
}

/// All commands agree about it: the table is sound, and the exit code is 1.
#[test]
fn a_stale_sidecar_is_no_damage_and_its_table_can_be_rebuilt() {
    let place = Place::new();
    let store = four_tables(&place);
    let (table, other) = (format!("{store}/000002.sst"), format!("{store}/000003.sst"));
    rebuild(&other);
    fs::rename(format!("{other}.filter"), format!("{table}.filter")).unwrap();
    let keys = place.text("keys.tsv");
    let sidecar = format!("{table}.filter");
    for command in [&["probe", &store, "--keys", &keys][..], &["probe", &sidecar, "--keys", &keys]] {
        let text = run(command).expect_code(1).stdout;
        assert!(text.contains("the sidecar is of another table, or of an earlier table of this name"), "{text}");
    }
    let verified = run(&["verify", &store]).expect_code(1).stdout;
    let line = verified.lines().next().unwrap();
    assert!(line.starts_with(&format!("{table}: stale sidecar: ")), "{verified}");
    assert!(line.ends_with("; replace or delete it: `sstfilter rebuild TABLE` replaces it"), "{verified}");
    assert!(verified.contains("3 sound, 1 stale, 0 damaged"), "{verified}");
    assert_eq!(run(&["verify", &store, "--json"]).expect_code(1).json()["stale"], 1);
    let report = run(&["report", &store, "--json"]).expect_code(1).json();
    assert_eq!(report["remarks"][0]["commands"], Value::from(vec![format!("sstfilter rebuild {table}")]), "{report}");

    rebuild(&table);
    for command in [["verify", &store], ["report", &store]] {
        run(&command).expect_code(0);
    }
}

#[test]
fn a_message_about_a_damaged_sidecar_names_its_whole_path() {
    let place = Place::new();
    let table = format!("{}/000001.sst", four_tables(&place));
    rebuild(&table);
    flip(format!("{table}.filter"), 100);
    let verified = run(&["verify", &table]).expect_code(1).stdout;
    assert!(
        verified.starts_with(&format!("{table}: filter at offset 0 of {table}.filter is not used: ")),
        "{verified}"
    );
}

#[test]
fn orphans_are_listed_and_counted_as_nothing() {
    let place = Place::new();
    let store = four_tables(&place);
    rebuild(&store);
    (3..5).for_each(|number| fs::remove_file(format!("{store}/00000{number}.sst")).unwrap());
    let (orphan, keys) = (format!("{store}/000003.sst.filter"), place.text("keys.tsv"));
    // Half a sidecar is one by its name.
    fs::write(format!("{store}/000004.sst.filter"), "half").unwrap();

    let report = run(&["report", &store, "--json"]).expect_code(0).json();
    assert_eq!(report["files"].as_array().unwrap().len(), 2, "{report}");
    assert!(report["notes"][0].as_str().unwrap().starts_with("2 files: orphan: the table is gone"), "{report}");
    let probed = run(&["probe", &store, "--keys", &keys]).expect_code(0);
    assert!(probed.stdout.contains("probed files                     2"), "{}", probed.stdout);
    assert!(probed.stdout.contains("2 files: orphan: ") && probed.stdout.contains("delete it"), "{}", probed.stdout);
    let named = crate::common::probed(&[&orphan, "--keys", &keys], 0);
    assert!(named["files"][0]["reason"].is_null(), "probed because it is named: {named}");
    let respelled = format!("{store}/../tables/000003.sst.filter");
    let named = crate::common::probed(&[&store, &respelled, "--keys", &keys], 0);
    assert_eq!(named["probed_files"], 3, "each file counts once, however it is named: {named}");
    assert_eq!(run(&["verify", &respelled, &store, "--json"]).json()["orphans"].as_array().unwrap().len(), 2);

    (1..3).for_each(|number| fs::remove_file(format!("{store}/00000{number}.sst")).unwrap());
    assert_eq!(names(&store).len(), 4);
    run(&["report", &store]).expect_error("no table, only orphans");
    run(&["probe", &store, "--keys", &keys]).expect_error("no table, only orphans");
}

#[test]
fn a_sidecar_next_to_a_table_of_another_engine_is_mentioned() {
    let place = Place::new();
    let table = format!("{}/000001.sst", four_tables(&place));
    rebuild(&table);
    let foreign = place.path("foreign");
    fs::create_dir(&foreign).unwrap();
    for (name, fixture) in [("000001.sst", "rocksdb/11.8-bloom-fv6.sst"), ("000002.ldb", "leveldb/6000-keys.ldb")] {
        fs::copy(format!("../interop/fixtures/{fixture}"), foreign.join(name)).unwrap();
        fs::copy(format!("{table}.filter"), foreign.join(format!("{name}.filter"))).unwrap();
    }
    let foreign = place.text("foreign");
    let text = run(&["report", &foreign]).expect_code(0).stdout;
    let line = "the sidecar next to the table is ignored: only tables of sstfilter have sidecars";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    assert!(!text.contains(".filter"), "no file of its own: {text}");
}
