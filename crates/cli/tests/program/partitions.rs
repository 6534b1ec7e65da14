//! Partitioned filters. The failures guarded against: a command treats such a table as one without a filter (`inspect`
//! shows none, `advise` leaves it out, `probe` counts every key as a positive), or it hides a damaged partition among
//! the sound ones.

use std::fs;

use sstfilter::KeyParts;

use crate::common::{Place, flip, inspected, json, lines, number, part, probed, run};
use crate::described::bare_filters;

const KEYS: usize = 20_000;

/// Builds a table, whose filter has partitions of 1 KiB.
fn table(place: &Place, cut: &str) -> String {
    let partitions = format!("1Ki:{cut}");
    format!("{}/000001.sst", place.build(KEYS, &["--policy", "bloom", "--overwrite", "--partitions", &partitions]))
}

/// Keys between those of the table.
fn absent(place: &Place) -> String {
    place.write("absent", lines(0..KEYS, |key| format!("key{key:04}!")))
}

#[test]
fn partitions_of_tables_sidecars_and_filters_alone_are_probed_and_verified() {
    let place = Place::new();
    for (cut, name) in [("key", "key.sst"), ("hash", "hash.sst"), ("key", "beside.sst")] {
        fs::rename(table(&place, cut), place.path(name)).unwrap();
    }
    let by_key = place.text("key.sst");
    run(&["rebuild", &place.text("beside.sst"), "--policy", "bloom", "--partitions", "1Ki:hash"]).expect_code(0);
    let [_, container] = bare_filters(&place, &KeyParts::whole_keys());
    for (name, keys) in
        [("key.sst", KEYS), ("hash.sst", KEYS), ("beside.sst", KEYS), ("beside.sst.filter", KEYS), ("container", 3_000)]
    {
        let path = place.text(name);
        let stored = place.write("stored", lines(0..keys, |key| format!("key{key:04}")));
        let found = probed(&[&path, "--keys", &stored], 0);
        assert_eq!(found["files"][0]["read_for"], keys, "no stored key is absent: {found}");
        let file = &probed(&[&path, "--keys", &absent(&place)], 0)["files"][0];
        let (observed, expected) = (number(&file["positive_rate"]), number(&file["expected_fpr"]));
        assert!(file["reason"].is_null() && expected > 0.004 && (observed / expected - 1.0).abs() < 0.4, "{file}");
        assert!(file["kind"].as_str().unwrap().contains("partitioned, bloom"), "{file}");
        let shown = inspected(&[&path], 0)["filters"].clone();
        let verified = json(&["verify", &path], 0)["files"][0].clone();
        // Those of the table and of its sidecar.
        let partitions: f64 = shown.as_array().unwrap().iter().map(|filter| number(&filter["partitions"])).sum();
        assert!(partitions > 2.0 && verified["partitions"] == partitions, "{verified} {shown}");
    }
    assert!(run(&["inspect", &place.text("beside.sst.filter")]).expect_code(0).stdout.contains("cut by hash range"));
    for (file, words) in [(&container, "expected a table, got a filter"), (&by_key, "partitioned filter")] {
        run(&["filter", file, "--out", &place.text("out")]).expect_error(words);
    }
}

#[test]
fn a_damaged_partition_has_one_wording_and_costs_its_own_keys_alone() {
    let place = Place::new();
    let (table, absent) = (table(&place, "key"), absent(&place));
    let rate = |code| number(&inspected(&[&table], code)["filters"][0]["expected_fpr"]);
    let (before, at) = (rate(0), part(&table, "filter").0 + 100);
    flip(&table, at);
    let after = rate(1);
    assert!((0.02..0.07).contains(&(after - before)), "one partition of some thirty: {before} {after}");
    let file = &probed(&[&table, "--keys", &absent], 1)["files"][0];
    let read = number(&file["read_for"]) / number(&file["in_bounds"]);
    assert!((read / after - 1.0).abs() < 0.4 && file["reason"].as_str().unwrap().contains("partition 0"), "{file}");
    run(&["get", &table, "key0042"]).expect_code(0);
    flip(&table, at);

    run(&["rebuild", &table, "--policy", "bloom", "--partitions", "1Ki"]).expect_code(0);
    let sidecar = format!("{table}.filter");
    // Flips of the payload and of the version; the result is not a newer version.
    let version = fs::read(&sidecar).unwrap().windows(3).position(|bytes| bytes == b"\x21SF").unwrap();
    for at in [100, version] {
        flip(&sidecar, at);
        for path in [&table, &sidecar] {
            let damaged = |command: &[&str]| {
                let text = run(command).expect_code(1).stdout;
                let words = "partition 0 of a filter is damaged or foreign: expected checksum ";
                let at = text.find(words).unwrap_or_else(|| panic!("{command:?}: {text}"));
                text[at..].split(['\n', '"', ';']).next().unwrap().to_owned()
            };
            let verified = damaged(&["verify", path]);
            assert_eq!(damaged(&["inspect", path]), verified);
            assert_eq!(damaged(&["inspect", path, "--json"]), verified);
            assert_eq!(damaged(&["probe", path, "--keys", &absent]), verified);
            let probes = &inspected(&[path, "--absent", &absent], 1)["observed"]["probes"];
            let share = number(probes) / KEYS as f64;
            assert!((0.9..0.98).contains(&share), "one partition of some thirty: {share}");
        }
        flip(&sidecar, at);
    }
    assert!(number(&inspected(&[&sidecar, "--absent", &absent], 0)["observed"]["observed_fpr"]) < 0.03);
}
