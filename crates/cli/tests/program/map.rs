//! `map`: a map that an operator builds from tables or lists finds each key in its file, and says so if it cannot.
//!
//! The failures guarded against: a damaged file that is covered without some of its keys, a damaged map that hides
//! keys, and a file of another program that `--overwrite` replaces.

use std::fs;
use std::path::Path;
use std::process::Command;

use sstfilter::{FileId, Filters, KeyHasher};
use sstfilter_map::FileMap;

use crate::common::{Place, flip, lines, names, program, run};

const FOREIGN: &str = "../interop/fixtures";

/// Runs a command with `--json`, and expects the exit code.
fn json(arguments: &[&str], code: i32) -> serde_json::Value {
    run(&[arguments, &["--json"]].concat()).expect_code(code).json()
}

/// Writes lists of `keys` keys each, whose names are numbers.
fn write_lists(place: &Place, directory: &str, lists: std::ops::Range<usize>, keys: usize) -> String {
    fs::create_dir_all(place.path(directory)).unwrap();
    for list in lists {
        place.write(&format!("{directory}/{list:03}.keys"), lines(0..keys, |key| format!("{list}-{key}")));
    }
    place.text(directory)
}

#[test]
fn a_map_of_tables_finds_each_key_in_its_table() {
    let place = Place::new();
    let tables = place.build(3_000, &["--files", "3", "--consecutive"]);
    let [map, keys, id] = [&place.text("a.map"), &place.text("keys.tsv"), "0x00000000000000aa"];
    let built = json(&["map", "build", &tables, "--out", map, "--bits", "30", "--id", id], 0);
    assert_eq!(
        (&built["map"]["covered_files"], &built["map"]["map_entries"], &built["map"]["map_id"]),
        (&3.into(), &3_000.into(), &id.into())
    );
    let info = json(&["map", "info", map, "--files", "--tables", &tables], 0)["maps"][0].clone();
    assert_eq!((&info["prefix_bits"], &info["hash"]), (&30.into(), &built["map"]["hash"]));
    assert!(info["files"].as_array().unwrap().iter().all(|file| file["entries"] == 1_000), "{info}");
    let inspected = json(&["inspect", &format!("{tables}/000002.sst")], 0);
    let own_id = &inspected["files"][0]["table"]["filter"]["file_fingerprint"];
    let named = |file: &&serde_json::Value| file["path"].as_str().unwrap().ends_with("000002.sst");
    assert_eq!(&info["files"].as_array().unwrap().iter().find(named).unwrap()["file_id"], own_id);

    let probed = json(&["map", "probe", map, "--keys", keys, "--tables", &tables], 0);
    assert_eq!((&probed["mean_files_per_key"], &probed["reads"]), (&1.0.into(), &built["map"]["pages"]));
    let listed = run(&["map", "probe", map, "--keys", keys, "--per-key", "--tables", &tables]).expect_code(0);
    let expected = lines(0..3_000, |key| format!("key{key:04}\t1\t{tables}/{:06}.sst", key / 1_000 + 1));
    assert_eq!(listed.stdout, expected);
    let absent = run(&["map", "probe", map, "--key", "none", "--key", "key2999"]).expect_code(0);
    assert!(absent.stdout.starts_with("none\t0\t\nkey2999\t1\t0x"), "{}", absent.stdout);

    let verified = json(&["verify", map, &tables], 0);
    let found = |verified: &serde_json::Value| {
        verified["files"].as_array().unwrap().iter().find(|file| file["map_check"].is_object()).unwrap().clone()
    };
    let verified = found(&verified);
    assert_eq!((&verified["keys_compared"], &verified["map_check"]["files_compared"]), (&3_000.into(), &3.into()));
    let two = format!("{tables}/000002.sst");
    let verified = run(&["verify", map, &two]).expect_code(0);
    assert!(verified.stdout.contains("a.map: 1,000 keys of 1 of 3 files looked up"));
}

#[test]
fn an_engine_loads_the_map_with_the_printed_id_and_finds_lists_by_names_that_are_ids() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 1..3, 500);
    place.write("lists/0x0123456789abcdef.keys", "other\n");
    let map = place.text("a.map");
    let built = json(&["map", "build", "--key-lists", &lists, "--out", &map], 0);
    let id = built["map"]["map_id"].as_str().unwrap().strip_prefix("0x").unwrap();
    let id = FileId::from_fingerprint(u64::from_str_radix(id, 16).unwrap());
    let filters = Filters::default();
    let map = FileMap::load(fs::read(map).unwrap(), &filters, id).unwrap();
    let hash = |id: u64, bytes: &[u8]| KeyHasher::default().hash(&[&id.to_le_bytes(), bytes].concat()).get();
    let named = |name: &str| {
        let contents = fs::read(format!("{lists}/{name}")).unwrap();
        FileId::from_fingerprint(contents.chunks(1 << 20).fold(hash(0, name.as_bytes()), hash))
    };
    let fingerprint = FileId::from_fingerprint(0x0123_4567_89ab_cdef);
    for (file, key) in [(named("001.keys"), "1-499"), (named("002.keys"), "2-0"), (fingerprint, "other")] {
        let file = map.index().local_id(file).unwrap();
        assert!(map.candidates(filters.hash(key.as_bytes())).may_contain(file), "{key}");
    }
}

#[test]
fn partial_and_merged_maps_have_the_bytes_of_one_build() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..6, 400);
    let [whole, parts, first, rest, merged] =
        ["whole", "parts", "first", "rest", "merged"].map(|name| place.text(name));
    let common = ["--bits", "28", "--page-bytes", "1Ki", "--id", "0x0000000000000001"];
    let build = |options: &[&str], code| json(&[&["map", "build"], options, &common].concat(), code);
    build(&["--key-lists", &lists, "--out", &whole], 0);
    let built = build(&["--key-lists", &lists, "--out", &parts, "--memory-limit", "7K", "--threads", "1"], 0);
    assert_eq!(built["partial_maps"], 3);
    assert_eq!(names(place.path("")), ["lists", "parts", "whole"], "partial maps are removed");
    let bytes = |path: &str| fs::read(path).unwrap();
    assert!(bytes(&whole) == bytes(&parts));

    let of =
        |numbers: std::ops::Range<usize>| numbers.map(|list| format!("{lists}/{list:03}.keys")).collect::<Vec<_>>();
    for (map, own) in [(&first, of(0..2)), (&rest, of(2..6))] {
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        build(&[&["--out", map, "--key-lists"], &own[..]].concat(), 0);
    }
    run(&[&["map", "merge", &first, &rest, "--out", &merged], &common[2..]].concat()).expect_code(0);
    assert!(bytes(&whole) == bytes(&merged));
    let limited = ["map", "build", "--key-lists", &lists, "--out", &place.text("none"), "--memory-limit", "7K"];
    run(&limited).expect_error("pass --bits or --max-entries");
}

#[test]
fn a_merge_drops_files_by_id_and_those_that_are_gone() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..4, 50);
    let map = place.text("a.map");
    run(&["map", "build", "--key-lists", &lists, "--out", &map]).expect_code(0);
    let merge = |options: &[&str]| {
        let out = place.text("merged");
        let merged = json(&[&["map", "merge", &map, "--overwrite", "--out", &out], options].concat(), 0);
        assert_eq!(merged["map"]["covered_files"].as_u64().unwrap() + merged["dropped_files"].as_u64().unwrap(), 4);
        let probed = run(&["map", "probe", &out, "--key", "1-7", "--key", "2-7", "--key-lists", &lists]).expect_code(0);
        let covered = |list: &str| probed.stdout.contains(&format!("{lists}/{list}.keys"));
        (merged["map"]["covered_files"].as_u64().unwrap(), covered("001"), covered("002"))
    };
    assert_eq!(merge(&[]), (4, true, true));
    let info = json(&["map", "info", &map, "--files", "--key-lists", &format!("{lists}/002.keys")], 0);
    let files = info["maps"][0]["files"].as_array().unwrap().clone();
    let id = files.iter().find(|file| !file["path"].is_null()).unwrap()["file_id"].as_str().unwrap();
    assert_eq!(merge(&["--drop", id]), (3, true, false));
    assert_eq!(merge(&["--keep", id]), (1, false, true));
    fs::remove_file(place.path("lists/001.keys")).unwrap();
    assert_eq!(merge(&["--keep", &lists]), (3, false, true));
    let nothing =
        run(&["map", "merge", &map, "--out", &place.text("none"), "--keep", "0x0000000000000005"]).expect_code(2);
    assert!(nothing.stderr.contains("no map covers 0x") && nothing.stderr.contains("no covered file is kept"));
}

#[test]
fn a_file_that_two_maps_cover_is_judged_once_and_one_that_none_covers_is_named() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..3, 20);
    let [a, b] = ["a", "b"].map(|name| place.text(name));
    for (map, own) in [(&a, ["000", "001"]), (&b, ["001", "000"])] {
        let own = own.map(|list| format!("{lists}/{list}.keys"));
        run(&["map", "build", "--key-lists", &own[0], &own[1], "--out", map]).expect_code(0);
    }
    let probe = ["map", "probe", &a, &b, "--key", "1-5", "--key", "2-5", "--key-lists", &lists];
    let probed = run(&probe).expect_code(0);
    assert_eq!(probed.stdout, format!("1-5\t1\t{lists}/001.keys\n2-5\t0\t\n"));
    assert!(probed.stderr.contains("002.keys: no map covers it, so it may have every key"), "{}", probed.stderr);
    let json = json(&probe, 0);
    assert_eq!((&json["covered_files"], &json["maps"]), (&2.into(), &2.into()));
}

#[test]
fn any_sound_map_judges_a_file_whose_page_is_damaged_in_another() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..4, 1_000);
    let [damaged, sound, alone] = ["damaged", "sound", "alone"].map(|name| place.text(name));
    let list = |number: usize| format!("{lists}/{number:03}.keys");
    let build = |map: &str, own: &[String]| {
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        run(&[&["map", "build", "--page-bytes", "1Ki", "--out", map, "--key-lists"], &own[..]].concat()).expect_code(0);
    };
    build(&damaged, &[list(0), list(1), list(2)]);
    build(&sound, &[list(1), list(2), list(3)]);
    build(&alone, &[list(0), list(1)]);
    let pages = json(&["map", "info", &damaged], 0)["maps"][0]["pages"].as_u64().unwrap();
    (0..usize::try_from(pages).unwrap()).for_each(|page| flip(&damaged, page * 1_024 + 5));
    let keys = place.write("keys", "1-5\n2-5\n3-5\n0-5\nnone\n");
    let rows = |maps: &[&str], code| {
        let probe = [&["map", "probe"], maps, &["--keys", &keys, "--per-key", "--key-lists", &lists]].concat();
        run(&probe).expect_code(code).stdout
    };
    // In whichever order, only the first file has nothing but the damaged map.
    let of = |key: &str, files: &str, count: u64| format!("{key}\t{count}\t{files}\n");
    let partly = [
        of("1-5", &format!("{},{damaged}:*?", list(1)), 2),
        of("2-5", &format!("{},{damaged}:*?", list(2)), 2),
        of("3-5", &format!("{},{damaged}:*?", list(3)), 2),
        of("0-5", &format!("{damaged}:*?"), 1),
        of("none", &format!("{damaged}:*?"), 1),
    ];
    assert_eq!(rows(&[&damaged, &sound], 1), partly.concat());
    assert_eq!(rows(&[&sound, &damaged], 1), partly.concat());
    // Each file has a sound map.
    let wholly = [of("1-5", &list(1), 1), of("2-5", &list(2), 1), of("3-5", &list(3), 1), of("0-5", &list(0), 1)];
    assert_eq!(rows(&[&damaged, &sound, &alone], 1), wholly.concat() + &of("none", "", 0));
    let probed = json(&["map", "probe", &damaged, &sound, &alone, "--keys", &keys], 1);
    assert_eq!((&probed["damaged_lookups"], &probed["covered_files"]), (&5.into(), &4.into()));
    assert_eq!(probed["keys_touching_none"], 1);
}

#[test]
fn a_list_of_keys_in_the_place_of_a_table_and_the_reverse_is_an_error_that_says_what_to_pass() {
    let place = Place::new();
    let (tables, lists) = (place.build(2_000, &[]), write_lists(&place, "lists", 0..2, 20));
    let [map, list, copy] = [&place.text("a.map"), &format!("{lists}/000.keys"), &place.text("copy")];
    fs::copy(format!("{tables}/000001.sst"), copy).unwrap();
    let hint = "for files of keys, pass --key-lists";
    run(&["map", "build", list, "--out", map]).expect_error(hint);
    run(&["map", "build", &lists, "--out", map]).expect_error(hint);
    let left = run(&["map", "build", &tables, list, "--out", map]).expect_code(1);
    assert!(left.stdout.contains("000.keys: not covered: neither a table"), "{}", left.stdout);
    for table in [copy.as_str(), &tables, &format!("{FOREIGN}/leveldb/6000-keys.ldb")] {
        let error = "expected a list of keys, got a table";
        run(&["map", "build", "--key-lists", table, "--out", map, "--overwrite"]).expect_error(error);
    }
}

#[test]
fn maps_of_other_bits_or_hashes_are_not_merged_and_the_message_says_which() {
    let place = Place::new();
    let list = place.write("list", "key\n");
    let [a, b, c] = ["a", "b", "c"].map(|name| place.text(name));
    for (map, options) in [(&a, ["--bits", "20"]), (&b, ["--bits", "21"]), (&c, ["--hash-seed", "7"])] {
        run(&[&["map", "build", "--key-lists", &list, "--out", map, "--max-entries", "1K"][..6], &options].concat())
            .expect_code(0);
    }
    let out = place.text("out");
    run(&["map", "merge", &a, &b, "--out", &out]).expect_error("build it with --bits 20");
    let d = place.text("d");
    run(&["map", "build", "--key-lists", &list, "--out", &d, "--bits", "20", "--hash-seed", "7"]).expect_code(0);
    run(&["map", "merge", &a, &d, "--out", &out]).expect_error("expected a map of the hash of");
    assert!(!Path::new(&out).exists());
}

#[test]
fn a_damaged_page_makes_every_file_a_candidate_and_is_counted() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..5, 1_000);
    let [map, merged, keys] = [&place.text("a.map"), &place.text("merged"), &place.text("lists/003.keys")];
    run(&["map", "build", "--key-lists", &lists, "--out", map, "--page-bytes", "1Ki"]).expect_code(0);
    flip(map, 100);
    let verified = run(&["verify", map, "--key-lists", &lists]).expect_code(1);
    assert!(verified.stdout.contains("page 0 of a file map: its checksum differs"), "{}", verified.stdout);
    assert!(verified.stdout.contains("5,000 keys of 5 of 5 files looked up"), "no key is hidden");
    let probed = json(&["map", "probe", map, "--keys", keys, "--per-key", "--key-lists", &lists], 1);
    let damaged = probed["damaged_lookups"].as_u64().unwrap();
    assert!(damaged > 0);
    let answers = probed["answers"].as_array().unwrap();
    let all = |answer: &&serde_json::Value| answer["all_of"][0] == map.as_str() && answer["files"] == 5;
    assert_eq!(answers.iter().filter(all).count() as u64, damaged);
    let is_found = |answer: &serde_json::Value| all(&answer) || answer["which"].to_string().contains("003.keys");
    assert!(answers.iter().all(is_found));

    let report = run(&["map", "merge", map, "--out", merged, "--page-bytes", "1Ki"]).expect_code(1);
    assert!(report.stdout.contains("pages unknown") && report.stdout.contains("build the map from keys again"));
    let verified = json(&["verify", merged, "--key-lists", &lists], 0);
    assert!(verified["files"][0]["map_check"]["unknown_pages"].as_u64() > Some(0) && verified["damaged"] == 0);
    let probed = json(&["map", "probe", merged, "--keys", keys], 0);
    assert!(probed["unknown_lookups"].as_u64() > Some(0), "{probed}");
}

#[test]
fn a_map_whose_end_is_damaged_covers_nothing() {
    let place = Place::new();
    let list = place.write("list", "key\n");
    let map = place.text("a.map");
    run(&["map", "build", "--key-lists", &list, "--out", &map]).expect_code(0);
    let length = fs::read(&map).unwrap().len();
    flip(&map, length - 20);
    for command in [&["map", "info", &map][..], &["verify", &map], &["map", "probe", &map, "--key", "key"]] {
        let run = run(command).expect_code(1);
        assert!((run.stdout + &run.stderr).contains("checksum"), "{command:?}");
    }
    let probed = json(&["map", "probe", &map, "--key", "key", "--key-lists", &list], 1);
    assert_eq!(probed["not_covered"][0], list.as_str());
    // A script that reads only the rows must see that the key may be somewhere.
    assert_eq!(probed["answers"][0]["all_of"][0], map.as_str());
    let row = run(&["map", "probe", &map, "--key", "key"]).expect_code(1).stdout;
    assert_eq!(row, format!("key\t0\t{map}:*?\n"));
    run(&["map", "merge", &map, "--out", &place.text("out")]).expect_error("would not cover its files");
    run(&["map", "info", &list]).expect_code(1);
    run(&["map", "info", &place.text("missing")]).expect_code(2);
}

#[test]
fn a_key_that_a_map_does_not_find_is_named() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..2, 100);
    let map = place.text("a.map");
    let stated = place.write("lists/0x0000000000000001.keys", "1-5\n");
    run(&["map", "build", "--key-lists", &lists, "--out", &map, "--bits", "40"]).expect_code(0);
    // The id that the name states stands for other contents now.
    place.write("lists/0x0000000000000001.keys", "1-5\nnew key\n");
    place.write("lists/007.keys", "uncovered\n");
    let verified = json(&["verify", &map, "--key-lists", &lists], 1);
    let lost = &verified["files"][0]["map_check"]["lost"][0];
    assert_eq!((&lost["lost_key"], &lost["lost_keys"]), (&"new key".into(), &1.into()));
    assert_eq!(lost["path"], stated);
    assert!(verified["notes"][0].as_str().unwrap().contains("007.keys: no map covers it"), "{verified}");
}

#[test]
fn a_file_whose_keys_cannot_all_be_read_is_not_covered() {
    let place = Place::new();
    let tables = place.build(2_000, &["--files", "2"]);
    flip(format!("{tables}/000001.sst"), 100);
    let map = place.text("a.map");
    let built = json(&["map", "build", &tables, "--out", &map], 1);
    assert_eq!(
        (&built["map"]["covered_files"], &built["left_out"][0]),
        (&1.into(), &format!("{tables}/000001.sst").into())
    );
    flip(format!("{tables}/000002.sst"), 100);
    run(&["map", "build", &tables, "--out", &map, "--overwrite"]).expect_error("no file that a map could cover");
}

#[test]
fn tables_of_other_engines_are_covered_unless_they_have_range_tombstones() {
    let place = Place::new();
    let [rocksdb, leveldb, tombstones] =
        ["rocksdb/11.8-bloom-7-keys.sst", "leveldb/6000-keys.ldb", "rocksdb/11.8-range-tombstones.sst"]
            .map(|name| format!("{FOREIGN}/{name}"));
    let map = place.text("a.map");
    let built = json(&["map", "build", &rocksdb, &leveldb, &tombstones, "--out", &map], 0);
    assert_eq!((&built["map"]["covered_files"], &built["left_out"][0]), (&2.into(), &tombstones.as_str().into()));
    let dumped = run(&["get", &leveldb, "--keys-only", "--keys-format", "hex"]).expect_code(0).stdout;
    let keys = place.write("keys", dumped);
    let probed =
        json(&["map", "probe", &map, "--keys", &keys, "--keys-format", "hex", "--per-key", "--tables", &leveldb], 0);
    let answers = probed["answers"].as_array().unwrap();
    assert!(
        answers.len() > 5_000 && answers.iter().all(|answer| answer["which"].to_string().contains("6000-keys.ldb"))
    );
    run(&["verify", &map, &rocksdb, &leveldb]).expect_code(0);
}

#[test]
fn only_a_map_is_replaced_and_only_if_that_is_wished() {
    let place = Place::new();
    let tables = place.build(10, &[]);
    let (text, table) = (place.write("text", "a text of more than thirty-two bytes\n"), format!("{tables}/000001.sst"));
    for out in [&text, &table] {
        let before = fs::read(out).unwrap();
        run(&["map", "build", &tables, "--out", out]).expect_error("already exists");
        run(&["map", "build", &tables, "--out", out, "--overwrite"]).expect_error("was not written by this command");
        assert_eq!(fs::read(out).unwrap(), before);
    }
    let map = place.text("a.map");
    run(&["map", "build", &tables, "--out", &map]).expect_code(0);
    run(&["map", "build", &tables, "--out", &map]).expect_error("already exists");
    run(&["map", "merge", &map, "--out", &map]).expect_error("already exists");
    let copy = place.text("copy.map");
    fs::copy(&map, &copy).unwrap();
    run(&["map", "merge", &copy, "--out", &map, "--overwrite"]).expect_code(0);
    run(&["verify", &map, &tables]).expect_code(0);
    run(&["map", "build", "--key-lists", "-", "--out", &text]).expect_error("already exists");
    run(&["map", "build", "--key-lists", "-", "--out", &place.text("b")]).expect_error("its id needs a name");
}

/// Engines number the files of each database from 1, and a list of keys is rewritten under its name.
// promise: file-maps
#[test]
fn a_file_that_comes_back_under_its_name_with_other_keys_is_not_covered() {
    let place = Place::new();
    let fixtures =
        ["leveldb/6000-keys.ldb", "leveldb/lengths.ldb", "rocksdb/7.8-bloom-fv5.sst", "rocksdb/11.8-bloom-fv5.sst"];
    let [one, two] = ["one", "two"].map(|database| {
        fs::create_dir(place.path(database)).unwrap();
        place.text(database)
    });
    for (fixture, to) in fixtures.iter().zip(["one/000005.ldb", "two/000005.ldb", "one/000007.sst", "two/000007.sst"]) {
        fs::copy(format!("{FOREIGN}/{fixture}"), place.path(to)).unwrap();
    }
    let map = place.text("a.map");
    run(&["map", "build", &one, "--out", &map]).expect_code(0);
    let probed = json(&["map", "probe", &map, "--key", "00000000", "--tables", &two], 0);
    assert_eq!(probed["not_covered"], serde_json::json!([format!("{two}/000005.ldb"), format!("{two}/000007.sst")]));
    // One map can cover both databases.
    run(&["map", "build", &one, &two, "--out", &map, "--overwrite"]).expect_code(0);
    let verified = json(&["verify", &map, &one, &two], 0);
    assert!(verified["notes"].to_string().contains("of 4 of 4 files"), "{verified}");
    assert!(!verified["notes"].to_string().contains("no map covers"), "{verified}");

    let list = place.write("a.keys", "old\n");
    run(&["map", "build", "--key-lists", &list, "--out", &map, "--overwrite"]).expect_code(0);
    place.write("a.keys", "new\n");
    let probed = json(&["map", "probe", &map, "--key", "new", "--key-lists", &list], 0);
    assert_eq!(probed["not_covered"][0], list.as_str());
}

// promise: file-maps
#[test]
fn a_file_that_maps_contradict_each_other_about_may_have_every_key() {
    let place = Place::new();
    let [a, b, out] = ["a.map", "b.map", "out.map"].map(|name| place.text(name));
    let list = place.text("0x0000000000000001.keys");
    for (map, keys) in [(&a, "one\n"), (&b, "two\nthree\n")] {
        fs::write(&list, keys).unwrap();
        run(&["map", "build", "--key-lists", &list, "--out", map, "--bits", "24"]).expect_code(0);
    }
    let words = "two files have this id";
    let probe = ["map", "probe", &a, &b, "--key", "two", "--key-lists", &list];
    let probed = run(&probe).expect_code(1);
    assert_eq!(probed.stdout, format!("two\t1\t{list}\n"));
    assert!(probed.stderr.contains(&format!("{list}: file 0x0000000000000001: expected")), "{}", probed.stderr);
    let report = json(&probe, 1);
    assert_eq!((&report["covered_files"], &report["not_covered"][0]), (&0.into(), &list.as_str().into()));
    assert!(report["contradictions"][0].as_str().unwrap().contains(words), "{report}");
    let verified = run(&["verify", &a, &b]).expect_code(1).stdout;
    assert!(verified.contains(words), "{verified}");
    run(&["verify", &a]).expect_code(0);
    run(&["map", "merge", &a, &b, "--out", &out]).expect_error("b.map: file 0x0000000000000001");
    assert!(!Path::new(&out).exists());
}

#[test]
fn a_pipe_named_like_a_table_is_left_out_of_lists() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..1, 5);
    for name in ["000001.sst", "000001.sst.filter", "0x0000000000000001.keys"] {
        let pipe = place.path("lists").join(name);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let map = place.text(&format!("{name}.map"));
        for path in [&lists, pipe.to_str().unwrap()] {
            let mut command = Command::new("timeout");
            command.arg("60").arg(program().get_program()).args([
                "map",
                "build",
                "--overwrite",
                "--out",
                &map,
                "--key-lists",
                path,
            ]);
            let output = command.output().unwrap();
            // Other entries of a directory that are no files are not listed at all.
            let is_listed = !name.starts_with("0x") || *path != *lists;
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(if is_listed { 2 } else { 0 }), "{text}");
            assert!(!is_listed || text.contains("expected a regular file"), "{text}");
        }
        fs::remove_file(pipe).unwrap();
    }
}

#[test]
fn two_files_of_one_id_are_refused_with_their_names() {
    let place = Place::new();
    let tables = place.build(10, &[]);
    let copy = place.text("copy.sst");
    fs::copy(format!("{tables}/000001.sst"), &copy).unwrap();
    run(&["map", "build", &tables, &copy, "--out", &place.text("a.map")]).expect_error("copy.sst have the same id");
}

#[test]
fn a_map_of_a_secret_seed_is_probed_with_it_and_judges_nothing_without() {
    let place = Place::new();
    let (seed, list) = (place.write("seed", "0123456789abcdef\n"), place.write("list", "key\n"));
    let map = place.text("a.map");
    let secret = ["--secret-seed-file", seed.as_str()];
    run(&[&["map", "build", "--key-lists", &list, "--out", &map], &secret[..]].concat()).expect_code(0);
    let probe = ["map", "probe", &map, "--key", "key", "--key-lists", &list];
    assert_eq!(json(&[&probe[..], &secret].concat(), 0)["answers"][0]["files"], 1);
    let without = json(&probe, 0);
    assert_eq!((&without["covered_files"], &without["not_covered"][0]), (&0.into(), &list.as_str().into()));
    let verified = json(&["verify", &map, "--key-lists", &list], 0);
    assert!(verified["files"][0]["keys_not_compared_because"].to_string().contains("--secret-seed-file"));
}

#[test]
fn a_map_of_writes_is_shown_and_verified_and_its_files_are_not_guessed() {
    let map = "../../fixtures/v1/map-20-flushes-coalesced.map";
    let info = json(&["map", "info", map], 0)["maps"][0].clone();
    assert_eq!((&info["covered_files"], &info["covered_writes"]), (&0.into(), &9.into()));
    assert!(run(&["map", "info", map]).expect_code(0).stdout.contains("file map of 9 intervals of writes"));
    let verified = json(&["verify", map], 0);
    assert_eq!(verified["files"][0]["map_check"]["damaged_pages"], 0);
    let probed = json(&["map", "probe", map, "--key", "key-000001"], 0);
    assert!(probed["left_out"][0]["why"].as_str().unwrap().contains("one of writes"), "{probed}");
    let place = Place::new();
    run(&["map", "merge", map, "--out", &place.text("b.map")]).expect_code(2);
}
