//! After a crash, users want to know how much is lost, and to save the rest. The failures guarded against: a report
//! that ends at the first bad block, a readable table that is reported without entries, an unused sidecar that is
//! reported as sound, and entries that are lost although their bytes are intact.

use std::fs;

use sstfilter::{BuildContext, FalsePositiveRate, FixedPolicy, KeyHasher};

use crate::common::{Place, flip, lines, run};

/// Builds a table of 20,000 keys without a filter, so that data begins at 0 and takes nearly all of it.
fn table(place: &Place) -> String {
    format!("{}/000001.sst", place.build(20_000, &[]))
}

fn data_bytes(table: &str) -> usize {
    let shown = run(&["inspect", table, "--json"]).json();
    usize::try_from(shown["files"][0]["table"]["properties"]["data_bytes"].as_u64().unwrap()).unwrap()
}

/// Returns offset and bytes of a part of the table.
pub(crate) fn part(table: &str, name: &str) -> (usize, usize) {
    let shown = run(&["inspect", table, "--json"]).json();
    let layout = shown["files"][0]["table"]["layout"].as_array().unwrap().clone();
    let region = layout.into_iter().find(|region| region["name"] == name).unwrap();
    let number = |field: &str| usize::try_from(region[field].as_u64().unwrap()).unwrap();
    (number("offset"), number("bytes"))
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

/// A hundred tables have thousands of lines. A user must find those that need a look without reading all of them.
#[test]
fn inspect_gives_several_files_a_line_each_and_says_which_need_a_look() {
    let place = Place::new();
    let folder = place.build(3_000, &["--files", "2", "--policy", "ribbon"]);
    let fixtures = "../interop/fixtures/rocksdb";
    for (name, fixture) in [("000003.sst", "7.8-ribbon-asked-7-keys.sst"), ("000004.sst", "7.8-no-policy.sst")] {
        fs::copy(format!("{fixtures}/{fixture}"), format!("{folder}/{name}")).unwrap();
    }
    fs::copy("../interop/fixtures/pebble/v8-bloom.sst", format!("{folder}/000005.sst")).unwrap();
    let damaged = format!("{folder}/000002.sst");
    flip(&damaged, part(&damaged, "filter").0 + 5);
    let page = run(&["inspect", &folder]).expect_code(1).stdout;
    let row = |name: &str| {
        let row = page.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let cells = [
        ("000001.sst", ["table", "-", "1,500", "ribbon"]),
        ("000003.sst", ["RocksDB table", "-", "7", "FastLocalBloom"]),
    ];
    for (name, cells) in cells {
        assert_eq!(row(name)[1..5], cells, "{page}");
    }
    let state = |name: &str| row(name).pop().unwrap();
    let names = ["000001.sst", "000002.sst", "000003.sst", "000004.sst", "000005.sst"];
    assert_eq!(names.map(state), ["ok", "damaged", "fallback", "missing", "unusable"], "{page}");
    for words in ["000002.sst: damaged: ", "000003.sst: fallback: Bloom although the policy is Ribbon", "pass it with"]
    {
        assert!(page.contains(words), "{words} in {page}");
    }
    assert!(page.contains("5 files: 1 ok, 1 fallback, 1 missing, 1 unusable, 1 damaged"), "{page}");
    assert!(page.lines().count() < 16 && !page.contains("checksum type"), "fields of one file: {page}");

    let full = run(&["inspect", &folder, "--full"]).expect_code(1).stdout;
    assert!(full.contains("table id") && full.contains("policy written") && full.ends_with(&page), "{full}");
    let json = run(&["inspect", &folder, "--json"]).expect_code(1).json();
    let overview = |field: &str| {
        let files = json["files"].as_array().unwrap().iter();
        files.map(|file| file["overview"][field].clone()).collect::<Vec<_>>()
    };
    assert_eq!(overview("filter"), ["ribbon", "unusable", "FastLocalBloom", "none", "legacy Bloom"]);
    assert_eq!(overview("state"), names.map(state));
    assert_eq!(json["files"][0]["overview"]["filter_bytes"], json["files"][0]["table"]["filter"]["block_bytes"]);
    assert!(json["files"][0]["table"]["table_id"].is_string(), "all fields, with an overview or without: {json}");
    let alone = run(&["inspect", &format!("{folder}/000001.sst")]).expect_code(0).stdout;
    assert_eq!(alone.matches("000001.sst").count(), 1, "one file needs no overview: {alone}");
    assert!(alone.contains("table id"), "{alone}");
}

/// Ten thousand lines with one text would hide the one with another.
#[test]
fn inspect_says_once_what_is_true_of_many_files() {
    let place = Place::new();
    let folder = place.build(300, &["--files", "30"]);
    let second = format!("{folder}/000002.sst");
    fs::write(&second, "no table").unwrap();
    let absent = place.write("absent", lines(0..500, |key| format!("key{key:04}!")));
    let page = run(&["inspect", &folder, "--absent", &absent]).expect_code(1).stdout;
    let remark = "29 files: bloom, because the file has too few keys for ribbon (";
    assert!(page.contains(remark) && page.contains("and 26 more)"), "{page}");
    assert!(page.contains("000002.sst: damaged: neither a table") && page.contains("observed rate"), "{page}");
    assert_eq!(page.matches("too few keys").count(), 1, "{page}");

    // Two files with one name are shown with their paths.
    let other = place.text("other");
    run(&["build", "--generate", "10", "--out", &other]).expect_code(0);
    let page = run(&["inspect", &format!("{folder}/000001.sst"), &other]).expect_code(0).stdout;
    assert!(page.contains("tables/000001.sst") && page.contains("other/000001.sst"), "{page}");
}

/// The default policy chooses Bloom for few keys: if that counted as a fallback, each small table would need a look.
#[test]
fn a_kind_that_the_number_of_keys_decides_is_no_fallback_and_any_other_reason_is_one() {
    let place = Place::new();
    let folder = place.build(300, &[]);
    let partitioned = place.text("partitioned");
    run(&["build", "--input", &place.text("keys.tsv"), "--partitions", "1Ki", "--out", &partitioned]).expect_code(0);
    let mut builder = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT)
        .unwrap()
        .builder(&BuildContext::new(&KeyHasher::default()).with_memory_budget(1));
    (0..2_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
    let block = place.write("block", builder.finish().block.unwrap());
    let shown = run(&["inspect", &folder, &partitioned, &block, "--json"]).expect_code(0).json();
    let overviews: Vec<_> = shown["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| ["state", "remark"].map(|field| file["overview"][field].as_str().unwrap()))
        .collect();
    assert_eq!(
        overviews,
        [
            ["ok", "bloom, because the file has too few keys for ribbon"],
            ["ok", "some partitions are bloom (too few keys for ribbon)"],
            ["fallback", "not ribbon: memory budget"],
        ]
    );
    let report = run(&["report", &folder, &partitioned, "--json"]).expect_code(0).json();
    assert_eq!(report["families"][0]["total"]["fallback_tables"], 0, "{report}");
}

#[test]
fn only_problems_shows_the_files_that_are_not_ok_and_counts_all() {
    let place = Place::new();
    let folder = place.build(3_000, &["--files", "3", "--policy", "bloom"]);
    let sound = run(&["inspect", &folder, "--only-problems"]).expect_code(0).stdout;
    assert!(sound.starts_with("3 files: 3 ok; ") && sound.lines().count() == 2, "{sound}");
    let damaged = format!("{folder}/000002.sst");
    flip(&damaged, part(&damaged, "filter").0 + 5);
    let page = run(&["inspect", &folder, "--only-problems"]).expect_code(1).stdout;
    assert!(page.contains("000002.sst: damaged: ") && page.contains("3 files: 2 ok, 1 damaged"), "{page}");
    assert!(!page.contains("000001.sst") && !page.contains("000003.sst"), "{page}");
    let json = run(&["inspect", &folder, "--only-problems", "--json"]).expect_code(1).json();
    assert_eq!((json["files"].as_array().unwrap().len(), &json["files"][0]["path"]), (1, &damaged.into()), "{json}");
    let alone = run(&["inspect", &format!("{folder}/000001.sst"), "--only-problems"]).expect_code(0).stdout;
    assert!(alone.starts_with("1 file: 1 ok"), "{alone}");
}

#[test]
fn a_sidecar_that_probe_cannot_use_is_told_and_is_no_success() {
    let place = Place::new();
    let table = table(&place);
    run(&["rebuild", &table]).expect_code(0);
    flip(format!("{table}.filter"), 100);
    let keys = place.text("keys.tsv");
    let probed = run(&["probe", &table, "--keys", &keys]).expect_code(1).stdout;
    assert!(probed.contains("the table's own filter was probed"), "{probed}");
    assert_eq!(run(&["probe", &table, "--keys", &keys, "--only-absent"]).expect_code(1).stdout, "");
}
