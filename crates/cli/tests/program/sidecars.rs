//! Sidecars in a store that is looked after. The failures guarded against: a table that stays damaged for ever although
//! its filter was rebuilt; a sound table that is called damaged because of its sidecar; and sidecars that are counted as
//! tables after their tables have gone.

use std::fs;

use serde_json::Value;

use crate::common::{Place, flip, json, names, part, probed, run};

/// Builds four tables of 8,000 keys, without fallbacks.
fn four_tables(place: &Place) -> String {
    place.build(8_000, &["--files", "4", "--policy", "bloom", "--range-filter", "ordered"])
}

fn rebuild(path: &str) {
    run(&["rebuild", path, "--policy", "bloom"]).expect_code(0);
}

/// Damages a part of a table.
fn damage(table: &str, name: &str) {
    flip(table, part(table, name).0 + 20);
}

#[test]
fn a_sound_sidecar_replaces_damaged_filters_of_its_table_and_nothing_else() {
    let place = Place::new();
    let store = four_tables(&place);
    let table = format!("{store}/000002.sst");
    damage(&table, "filter");
    damage(&table, "range-filter");
    run(&["verify", &store]).expect_code(1);
    rebuild(&table);
    let verified = run(&["verify", &store]).expect_code(0).stdout;
    for words in [
        "000002.sst: the filter in the table is damaged, but a sound sidecar replaces it: filter at",
        "replaces it: range-filter at offset",
        "0 damaged",
    ] {
        assert!(verified.contains(words), "{words} in {verified}");
    }
    let found = json(&["verify", &store], 0);
    assert_eq!((found["files"][1]["replaced"].as_array().unwrap().len(), &found["sound"]), (2, &4.into()), "{found}");
    let remark = &json(&["report", &store], 0)["remarks"][0];
    assert_eq!((&remark["state"], &remark["paths"][0]), (&"ok".into(), &table.as_str().into()));

    damage(&table, "data");
    let verified = run(&["verify", &table]).expect_code(1).stdout;
    for words in ["checksum of the data at", "a sound sidecar replaces it", "1 damaged; 1,"] {
        assert!(verified.contains(words), "{words} in {verified}");
    }
    run(&["report", &store]).expect_code(1);
    damage(&table, "data");
    // A damaged sidecar replaces nothing.
    flip(format!("{table}.filter"), 100);
    let verified = json(&["verify", &store], 1);
    let problems = verified["files"][0]["problems"].as_array().unwrap();
    assert_eq!((&verified["damaged"], problems.len()), (&1.into(), 3), "{verified}");
    let names_all = |problem: &Value| {
        problem.as_str().unwrap().contains(&format!("filter at offset 0 of {table}.filter is not used: "))
    };
    assert!(problems.iter().any(names_all), "{verified}");
    let probed = run(&["probe", &table, "--keys", &place.text("keys.tsv")]).expect_code(1).stdout;
    assert!(probed.contains("000002.sst.filter"), "{probed}");
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
    assert!(verified.contains("3 sound, 1 stale, 0 damaged; 8,000 entries"), "{verified}");
    assert_eq!(json(&["verify", &store], 1)["stale"], 1);
    run(&["verify", &sidecar]).expect_code(1);
    let report = json(&["report", &store], 1);
    assert_eq!(report["remarks"][0]["commands"], Value::from(vec![format!("sstfilter rebuild {table}")]), "{report}");

    rebuild(&table);
    for command in [["verify", &store], ["report", &store]] {
        run(&command).expect_code(0);
    }
}

#[test]
fn orphans_are_listed_and_counted_as_nothing() {
    let place = Place::new();
    let store = four_tables(&place);
    rebuild(&store);
    (3..5).for_each(|number| fs::remove_file(format!("{store}/00000{number}.sst")).unwrap());
    let (orphan, keys) = (format!("{store}/000003.sst.filter"), place.text("keys.tsv"));
    let verified = run(&["verify", &store]).expect_code(0).stdout;
    assert!(verified.contains("orphan: the table is gone") && verified.contains(&orphan), "{verified}");
    assert!(verified.contains("2 sound, 0 damaged; 4,000 entries"), "{verified}");
    // Half a sidecar is one by its name, and damage is reported all the same.
    fs::write(format!("{store}/000004.sst.filter"), "half").unwrap();
    assert!(run(&["verify", &store]).expect_code(1).stdout.contains("1 damaged"));

    let report = json(&["report", &store], 0);
    assert_eq!(report["files"].as_array().unwrap().len(), 2, "{report}");
    assert!(report["notes"][0].as_str().unwrap().starts_with("2 files: orphan: the table is gone"), "{report}");
    let all = run(&["probe", &store, "--keys", &keys]).expect_code(0).stdout;
    assert!(all.contains("probed files                     2"), "{all}");
    assert!(all.contains("2 files: orphan: ") && all.contains("delete it"), "{all}");
    let named = probed(&[&orphan, "--keys", &keys], 0);
    assert!(named["files"][0]["reason"].is_null(), "probed because it is named: {named}");
    let respelled = format!("{store}/../tables/000003.sst.filter");
    let named = probed(&[&store, &respelled, "--keys", &keys], 0);
    assert_eq!(named["probed_files"], 3, "each file counts once, however it is named: {named}");
    assert_eq!(run(&["verify", &respelled, &store, "--json"]).json()["orphans"].as_array().unwrap().len(), 2);

    (1..3).for_each(|number| fs::remove_file(format!("{store}/00000{number}.sst")).unwrap());
    assert_eq!(names(&store).len(), 4);
    run(&["report", &store]).expect_error("no table, only orphans");
    run(&["probe", &store, "--keys", &keys]).expect_error("no table, only orphans");
}
