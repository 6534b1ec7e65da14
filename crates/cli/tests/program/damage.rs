//! After a crash, users want to know how much is lost, and to save the rest. The failures guarded against: a report
//! that ends at the first bad block, a readable table that is reported without entries, an unused sidecar that is
//! reported as sound, and entries that are lost although their bytes are intact.

use std::fs;

use crate::common::{Place, flip, part, run};

/// Builds a table of 20,000 keys without a filter, so that data begins at 0 and takes nearly all of it.
fn table(place: &Place) -> String {
    format!("{}/000001.sst", place.build(20_000, &[]))
}

fn data_bytes(table: &str) -> usize {
    part(table, "data").1
}

#[test]
fn verify_lists_every_damaged_block_and_says_how_many_entries_are_lost() {
    let place = Place::new();
    let table = table(&place);
    let bytes = data_bytes(&table);
    (0..14).for_each(|number| flip(&table, number * bytes / 14 + 10));
    flip(&table, part(&table, "filter").0 + 5);
    let found = run(&["verify", "--all", &table]).expect_code(1).stdout;
    let lines: Vec<_> = found.lines().filter(|line| line.contains("data at offset")).collect();
    assert_eq!(lines.len(), 14, "{found}");
    assert!(lines.iter().all(|line| line.starts_with(&format!("{table}: checksum of the data at"))), "{found}");
    assert_eq!(found.lines().filter(|line| line.contains("filter at offset")).count(), 1, "{found}");
    let json = run(&["verify", &table, "--json"]).expect_code(1).json();
    let (read, missing) = (json["files"][0]["entries"].as_u64().unwrap(), &json["files"][0]["missing_entries"]);
    assert!(read > 15_000 && missing.as_u64().unwrap() + read == 20_000, "{json}");
    assert!(found.contains("of 20,000 entries cannot be read: `get --salvage` prints the others"), "{found}");
}

#[test]
fn a_sound_table_with_a_stale_sidecar_has_been_read_and_its_entries_are_counted() {
    let place = Place::new();
    let table = table(&place);
    run(&["rebuild", &table]).expect_code(0);
    let other = place.text("other");
    run(&["build", "--generate", "10", "--out", &other]).expect_code(0);
    fs::copy(format!("{other}/000001.sst"), &table).unwrap();
    let found = run(&["verify", &table]).expect_code(1).stdout;
    assert!(found.contains("1 stale, 0 damaged; 10 entries"), "{found}");
}

#[test]
fn a_sidecar_without_its_table_is_an_orphan_and_not_a_sound_file() {
    let place = Place::new();
    let table = table(&place);
    run(&["rebuild", &table]).expect_code(0);
    let (folder, sidecar) = (place.text("tables"), format!("{table}.filter"));
    fs::rename(&table, format!("{folder}/000002.sst")).unwrap();
    let found = run(&["verify", &folder]).expect_code(0).stdout;
    assert!(found.contains(&format!("{sidecar}: orphan: ")) && found.contains("delete it"), "{found}");
    assert!(found.contains("1 sound, 0 damaged; 20,000 entries"), "{found}");
    let json = run(&["verify", &folder, "--json"]).expect_code(0).json();
    assert_eq!((&json["sound"], &json["orphans"][0]), (&1.into(), &sidecar.clone().into()));
    flip(&sidecar, 100);
    assert!(run(&["verify", &folder]).expect_code(1).stdout.contains("1 damaged"), "damage is still reported");
}

#[test]
fn a_sidecar_that_probe_cannot_use_is_told_and_is_no_success() {
    let place = Place::new();
    let table = table(&place);
    run(&["rebuild", &table]).expect_code(0);
    flip(format!("{table}.filter"), 100);
    let keys = place.text("keys.tsv");
    let probed = run(&["probe", &table, "--keys", &keys]).expect_code(1).stdout;
    assert!(probed.contains("000001.sst.filter"), "{probed}");
    assert_eq!(run(&["probe", &table, "--keys", &keys, "--list", "absent"]).expect_code(1).stdout, "");
}
