//! Partitioned filters. The failures guarded against: a command treats such a table as one without a filter (`inspect`
//! shows none, `advise` leaves it out, `probe` counts every key as a positive), or it hides a damaged partition among
//! the sound ones.

use std::fs;
use std::sync::Arc;

use serde_json::Value;
use sstfilter::{BitsPerKey, BuildContext, FileId, FixedPolicy, KeyHasher, Sizing};
use sstfilter_store::{PartitionCut, PartitionOptions, PartitionedBuilder};

use crate::common::{Place, flip, inspected, lines, part, probed, run};

const KEYS: usize = 20_000;

/// One table, whose filter has partitions of 1 KiB.
fn table(place: &Place, options: &[&str]) -> String {
    let is_cut = options.contains(&"--partitions");
    let size: &[&str] = if is_cut { &[] } else { &["--partitions", "1Ki"] };
    let options = [size, options].concat();
    format!("{}/000001.sst", place.build(KEYS, &options))
}

/// Keys between those of the table.
fn absent(place: &Place) -> String {
    place.write("absent", lines(0..KEYS, |key| format!("key{key:04}!")))
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("expected a number, got {of}"))
}

#[test]
fn probe_answers_by_the_partitions_at_the_rate_that_they_have() {
    let place = Place::new();
    for cut in ["key", "hash"] {
        let table = table(&place, &["--policy", "bloom", "--partitions", &format!("1Ki:{cut}"), "--overwrite"]);
        let found = probed(&[&table, "--keys", &absent(&place)], 0);
        let file = &found["files"][0];
        assert!(file["reason"].is_null(), "{file}");
        let (observed, expected) = (number(&file["positive_rate"]), number(&file["expected_fpr"]));
        assert!(expected > 0.004 && (observed / expected - 1.0).abs() < 0.4, "{file}");
        assert!(file["kind"].as_str().unwrap().contains("partitioned, bloom"), "{file}");
        let found = probed(&[&table, "--keys", &place.text("keys.tsv")], 0);
        assert_eq!(found["files"][0]["read_for"], KEYS, "no stored key is absent");
    }
}

#[test]
fn verify_says_how_many_partitions_it_has_checked() {
    let place = Place::new();
    let table = table(&place, &["--policy", "bloom"]);
    let verified = run(&["verify", "--json", &table]).expect_code(0).json();
    let partitions = &inspected(&[&table], 0)["filters"][0]["partitions"];
    assert_eq!(&verified["files"][0]["partitions"], partitions, "{verified}");
    run(&["rebuild", &table, "--partitions", "2Ki"]).expect_code(0);
    let both = run(&["verify", "--json", &table]).expect_code(0).json();
    assert!(number(&both["files"][0]["partitions"]) > number(partitions), "those of the sidecar, too: {both}");
}

#[test]
fn a_damaged_partition_is_named_and_costs_its_own_keys_alone() {
    let place = Place::new();
    let table = table(&place, &["--policy", "bloom"]);
    let sound = inspected(&[&table], 0);
    flip(&table, part(&table, "filter").0 + 100);
    let shown = inspected(&[&table], 1);
    let (before, after) = (&sound["filters"][0]["expected_fpr"], &shown["filters"][0]["expected_fpr"]);
    assert!((0.02..0.07).contains(&(number(after) - number(before))), "one partition of some thirty: {shown}");
    let found = probed(&[&table, "--keys", &absent(&place)], 1);
    let file = &found["files"][0];
    let read = number(&file["read_for"]) / number(&file["in_bounds"]);
    assert!((read / number(after) - 1.0).abs() < 0.4, "{file}");
    assert!(file["reason"].as_str().unwrap().contains("partition 0"), "{file}");
    run(&["verify", &table]).expect_code(1);
    run(&["get", &table, "key0042"]).expect_code(0);
}

/// Writes a partitioned filter to a separate file, with the library's builder.
fn bare_filter(place: &Place, cut: PartitionCut, file: Option<FileId>) -> String {
    let context = BuildContext::new(&KeyHasher::default());
    let context = file.map_or(context.clone(), |file| context.with_file_id(file));
    let options = PartitionOptions::new(cut, 1 << 10).unwrap();
    let policy = FixedPolicy::bloom(Sizing::BitsPerKey(BitsPerKey::default())).unwrap();
    let mut builder = PartitionedBuilder::new(Arc::new(policy), &context, options);
    (0..KEYS).for_each(|key| builder.add_key(format!("key{key:05}").as_bytes()));
    place.write("bare.filter", builder.finish().block.unwrap())
}

#[test]
fn a_filter_in_partitions_is_known_without_its_table_whatever_it_was_built_for() {
    let place = Place::new();
    let keys = place.write("keys", lines(0..KEYS, |key| format!("key{key:05}")));
    for (cut, name, file) in [
        (PartitionCut::KeyRange, "a partition, cut by key range", None),
        (PartitionCut::HashRange, "a partition, cut by hash range", FileId::new(b"file").ok()),
    ] {
        let bare = bare_filter(&place, cut, file);
        let filter = inspected(&[&bare], 0)["filters"][0].clone();
        assert_eq!((&filter["unit"], &filter["keys"]), (&name.into(), &KEYS.into()), "{filter}");
        let verified = run(&["verify", "--json", &bare]).expect_code(0).json();
        assert_eq!(
            (&verified["files"][0]["partitions"], &verified["entries"]),
            (&filter["partitions"], &KEYS.into()),
            "{verified}"
        );
        let found = probed(&[&bare, "--keys", &keys], 0);
        assert_eq!(found["files"][0]["read_for"], KEYS, "{found}");
        let found = probed(&[&bare, "--keys", &absent(&place)], 0);
        assert!(number(&found["files"][0]["positive_rate"]) < 0.03, "{found}");
        run(&["get", &bare]).expect_error("expected a table, got a filter");
        run(&["filter", &bare, "--out", &place.text("out")]).expect_error("expected a table, got a filter");
    }
}

#[test]
fn all_damage_to_a_filter_in_partitions_without_its_table_is_found() {
    let place = Place::new();
    let bare = bare_filter(&place, PartitionCut::KeyRange, None);
    let sound = fs::read(&bare).unwrap();
    // In payloads, in zeros between partitions, in the top index, and in all of the trailer.
    for at in (0..sound.len()).step_by(211).chain(sound.len() - 32..sound.len()) {
        fs::write(&bare, &sound).unwrap();
        flip(&bare, at);
        let verified = run(&["verify", &bare]).expect_code(1).stdout;
        assert!(verified.contains("bare.filter: ") && verified.contains("1 damaged"), "byte {at}: {verified}");
    }
    for cut in [&sound[sound.len() - 33..], &sound[1..]] {
        fs::write(&bare, cut).unwrap();
        run(&["verify", &bare]).expect_code(1);
        run(&["inspect", &bare]).expect_code(1);
    }
}

#[test]
fn the_filter_of_a_sidecar_in_partitions_is_probed_without_its_table() {
    let place = Place::new();
    let table = table(&place, &["--policy", "bloom"]);
    run(&["rebuild", &table, "--partitions", "1Ki:hash"]).expect_code(0);
    let sidecar = format!("{table}.filter");
    assert!(run(&["inspect", &sidecar]).expect_code(0).stdout.contains("cut by hash range"));
    let found = probed(&[&sidecar, "--keys", &place.text("keys.tsv")], 0);
    assert_eq!(found["files"][0]["read_for"], KEYS, "{found}");
    let found = probed(&[&sidecar, "--keys", &absent(&place)], 0);
    assert!(number(&found["files"][0]["positive_rate"]) < 0.03, "{found}");
    assert!(number(&run(&["verify", "--json", &sidecar]).expect_code(0).json()["files"][0]["partitions"]) > 9.0);
    let refused = ["filter", &table, "--out", &place.text("out")];
    run(&refused).expect_error("partitioned filter");
}

#[test]
fn a_damaged_partition_of_a_sidecar_has_one_wording_and_costs_its_own_keys_alone() {
    let place = Place::new();
    let table = table(&place, &["--policy", "bloom"]);
    run(&["rebuild", &table, "--policy", "bloom", "--partitions", "1Ki"]).expect_code(0);
    let (sidecar, absent) = (format!("{table}.filter"), absent(&place));
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
            let shown = run(&["inspect", path, "--absent", &absent, "--json"]).expect_code(1).json();
            let probes = &shown["files"][0]["observed"];
            let share = number(&probes["probes"]) / KEYS as f64;
            assert!((0.9..0.98).contains(&share), "one partition of some thirty: {share} in {shown}");
        }
        flip(&sidecar, at);
    }
    let shown = run(&["inspect", &sidecar, "--absent", &absent, "--json"]).expect_code(0).json();
    assert!(number(&shown["files"][0]["observed"]["observed_fpr"]) < 0.03, "{shown}");
}
