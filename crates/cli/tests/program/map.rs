//! `map build`, `map merge`, and what `verify` and `probe` say of maps. The failures guarded against: a damaged file
//! that is covered without some of its keys, a damaged map that hides keys, and a file of another program that
//! `--overwrite` replaces.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use sstfilter::{FileId, Filters, KeyHasher};
use sstfilter_map::FileMap;

use crate::common::{FIXTURES, Place, flip, json, lines, names, program, run};

/// Of tables that do not record their comparator.
const BYTEWISE: &str = "--comparator=leveldb.BytewiseComparator";

/// The id of all maps that are loaded.
const ID: &str = "0x00000000000000aa";

/// Writes lists of `keys` keys each, whose names are numbers.
fn write_lists(place: &Place, directory: &str, lists: Range<usize>, keys: usize) -> String {
    fs::create_dir_all(place.path(directory)).unwrap();
    for list in lists {
        place.write(&format!("{directory}/{list:03}.keys"), lines(0..keys, |key| format!("{list}-{key}")));
    }
    place.text(directory)
}

/// Returns the id of a list: of the hash of its name and of its contents.
fn id_of_list(path: &Path) -> FileId {
    let hash = |id: u64, bytes: &[u8]| KeyHasher::default().hash(&[&id.to_le_bytes(), bytes].concat()).get();
    let name = path.file_name().unwrap().as_encoded_bytes();
    FileId::from_fingerprint(fs::read(path).unwrap().chunks(1 << 20).fold(hash(0, name), hash))
}

/// Whether a map may contain a key in a file; `None` if it does not cover the file.
fn may_contain(map: &str, file: FileId, key: &str) -> Option<bool> {
    let filters = Filters::default();
    let map = FileMap::load(fs::read(map).unwrap(), &filters, FileId::from_fingerprint(0xaa)).unwrap();
    let file = map.index().local_id(file)?;
    Some(map.candidates(filters.hash(key.as_bytes())).may_contain(file))
}

#[test]
fn a_map_has_each_key_of_its_tables_and_verify_says_how_many_were_looked_up() {
    let place = Place::new();
    let tables = place.build(3_000, &["--files", "3", "--consecutive"]);
    let map = place.text("a.map");
    let built = json(&["map", "build", &tables, "--out", &map, "--bits", "30", "--id", ID], 0)["map"].clone();
    for (field, value) in [("covered_files", 3), ("map_entries", 3_000), ("prefix_bits", 30)] {
        assert_eq!(built[field], value, "{built}");
    }
    assert_eq!(built["map_id"], ID);
    assert!(built["covers"].as_array().unwrap().iter().all(|file| file["map_entries"] == 1_000), "{built}");
    let second = format!("{tables}/000002.sst");
    for (paths, words) in [
        (&[&map, &tables][..], "a.map: 3,000 keys of 3 of 3 files looked up"),
        (&[&second, &map], "a.map: 1,000 keys of 1 of 3 files looked up; `map merge --keep` drops"),
        (&[&map], "a.map: covers 3 files, none of which was passed"),
    ] {
        let paths: Vec<_> = paths.iter().map(|path| path.as_str()).collect();
        let verified = run(&[&["verify"], &paths[..]].concat()).expect_code(0).stdout;
        assert!(verified.contains(words) && verified.contains(" 0 damaged"), "{words} in {verified}");
    }
    run(&["verify", &map, &tables, "--key-lists", &place.text("none")]).expect_error("cannot read");
    run(&["verify", &tables, "--key-lists", &tables]).expect_error("--key-lists: expected a map");
}

#[test]
fn an_engine_loads_the_map_with_its_id_and_finds_lists_by_names_that_are_ids() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 1..3, 500);
    place.write("lists/0x0123456789abcdef.keys", "other\n");
    let map = place.text("a.map");
    run(&["map", "build", "--key-lists", &lists, "--out", &map, "--id", ID]).expect_code(0);
    let named = |name: &str| id_of_list(&place.path("lists").join(name));
    let fingerprint = FileId::from_fingerprint(0x0123_4567_89ab_cdef);
    for (file, key) in [(named("001.keys"), "1-499"), (named("002.keys"), "2-0"), (fingerprint, "other")] {
        assert_eq!(may_contain(&map, file, key), Some(true), "{key}");
        assert_eq!(may_contain(&map, file, "absent"), Some(false));
    }
    let random = json(&["map", "build", "--key-lists", &lists, "--out", &map, "--overwrite"], 0);
    assert_ne!(random["map"]["map_id"], ID);
}

#[test]
fn partial_and_merged_maps_have_the_bytes_of_one_build() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..6, 400);
    let [whole, parts, first, rest, merged] =
        ["whole", "parts", "first", "rest", "merged"].map(|name| place.text(name));
    let common = ["--bits", "28", "--page-bytes", "1Ki", "--id", ID];
    let build = |options: &[&str]| json(&[&["map", "build"], options, &common].concat(), 0);
    build(&["--key-lists", &lists, "--out", &whole]);
    // Without --bits, so little memory is an error.
    build(&["--key-lists", &lists, "--out", &parts, "--memory-limit", "7K", "--threads", "1"]);
    assert_eq!(names(place.path("")), ["lists", "parts", "whole"], "partial maps are removed");
    let bytes = |path: &str| fs::read(path).unwrap();
    assert!(bytes(&whole) == bytes(&parts));
    for (map, own) in [(&first, 0..2), (&rest, 2..6)] {
        let own: Vec<_> = own.map(|list| format!("{lists}/{list:03}.keys")).collect();
        build(&[&["--out", map, "--key-lists"], &own.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    }
    run(&[&["map", "merge", &first, &rest, "--out", &merged], &common[2..]].concat()).expect_code(0);
    assert!(bytes(&whole) == bytes(&merged));
}

#[test]
fn a_merge_keeps_and_drops_files_by_id_and_by_path() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..4, 50);
    let tables = place.build(100, &[]);
    let [map, out] = ["a.map", "merged"].map(|name| place.text(name));
    run(&["map", "build", &tables, "--key-lists", &lists, "--out", &map]).expect_code(0);
    let [first, second] = ["001", "002"].map(|list| id_of_list(&place.path(&format!("lists/{list}.keys"))));
    let id = format!("{:#018x}", second.fingerprint());
    let merge = |options: &[&str]| {
        let merge = ["map", "merge", &map, "--overwrite", "--out", &out, "--id", ID];
        let merged = json(&[&merge, options].concat(), 0);
        let covered = merged["map"]["covered_files"].as_u64().unwrap();
        assert_eq!(merged["dropped_files"], 5 - covered, "{merged}");
        (covered, may_contain(&out, first, "1-7"), may_contain(&out, second, "2-7"))
    };
    assert_eq!(merge(&[]), (5, Some(true), Some(true)));
    assert_eq!(merge(&["--drop", &id]), (4, Some(true), None));
    assert_eq!(merge(&["--keep", &id]), (1, None, Some(true)));
    assert_eq!(merge(&["--keep", &id, &tables]), (2, None, Some(true)));
    fs::remove_file(place.path("lists/001.keys")).unwrap();
    assert_eq!(merge(&["--keep", &lists]), (3, None, Some(true)));
    assert_eq!(merge(&["--keep", &format!("{lists}/002.keys"), "--drop", "0x0000000000000006"]), (1, None, Some(true)));
    let nothing = run(&["map", "merge", &map, "--out", &place.text("no"), "--keep", "0x0000000000000005"]);
    let nothing = nothing.expect_code(2);
    assert!(nothing.stderr.contains("no map covers 0x") && nothing.stderr.contains("no covered file is kept"));
}

/// Arguments behind `map`, and words of the message. Nothing is written.
#[test]
fn what_cannot_become_a_map_is_refused_with_what_to_do() {
    let place = Place::new();
    let (tables, lists) = (place.build(2_000, &[]), write_lists(&place, "lists", 0..3, 400));
    let (list, copy, out) = (format!("{lists}/000.keys"), place.text("copy.sst"), place.text("out"));
    fs::copy(format!("{tables}/000001.sst"), &copy).unwrap();
    let maps = ["a", "b", "c"].map(|name| place.text(name));
    for (map, options) in maps.iter().zip([["--bits", "20"], ["--bits", "21"], ["--hash-seed", "7"]]) {
        run(&[&["map", "build", "--key-lists", &list, "--out", map], &options[..]].concat()).expect_code(0);
    }
    let seeded = place.text("d");
    run(&["map", "build", "--key-lists", &list, "--out", &seeded, "--bits", "20", "--hash-seed", "7"]).expect_code(0);
    let (leveldb, writes) =
        (format!("{FIXTURES}/leveldb/6000-keys.ldb"), "../../fixtures/v1/map-20-flushes-coalesced.map");
    let to_pass = "for files of keys, pass --key-lists";
    let cockroach = format!("{FIXTURES}/pebble/v4-cockroach.sst");
    let rows: [(&[&str], &str); 16] = [
        (&["build", &cockroach], "may treat different bytes as one key"),
        (&["build", &list], to_pass),
        (&["build", &lists], to_pass),
        (&["build", "nosuch"], "error: cannot read nosuch"),
        (&["build", "--key-lists", &copy], "expected a file of keys, got a table"),
        (&["build", "--key-lists", &tables], "expected a file of keys, got a table"),
        (&["build", "--key-lists", &leveldb], "expected a file of keys, got a table"),
        (&["build", "--key-lists", "-"], "its id needs a name"),
        (&["build", &tables, &copy], "copy.sst have the same id"),
        (&["build", "--key-lists", &lists, "--memory-limit", "7K", "--threads", "1"], "pass --bits or --max-entries"),
        (&["build", &tables, "--page-bytes", "64K"], "a power of two from 1,024 to 1,048,576"),
        (&["merge", &maps[0], &maps[1]], "build it again with 20 bits"),
        (&["merge", &maps[0], &seeded], "expected a map of the hash of"),
        (&["merge", writes], "got one of writes"),
        (&["merge", &maps[0], &list], "would not cover its files"),
        (&["merge", &maps[0], "--drop", "17"], "expected a fingerprint"),
    ];
    for (arguments, words) in rows {
        run(&[&["map"], arguments, &["--out", &out]].concat()).expect_error(words);
        assert!(!Path::new(&out).exists(), "{arguments:?}");
    }
    run(&["verify", writes]).expect_code(0);
}

#[test]
fn a_damaged_page_hides_no_key_and_is_unknown_to_a_merge() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..5, 1_000);
    let [map, merged] = [&place.text("a.map"), &place.text("merged")];
    run(&["map", "build", "--key-lists", &lists, "--out", map, "--page-bytes", "1Ki"]).expect_code(0);
    flip(map, 100);
    let verified = run(&["verify", map, "--key-lists", &lists]).expect_code(1).stdout;
    for words in ["page 0 of a file map: its checksum differs", "5,000 keys of 5 of 5 files looked up", "1 damaged"] {
        assert!(verified.contains(words) && !verified.contains("lost"), "{words} in {verified}");
    }
    let report = run(&["map", "merge", map, "--out", merged, "--page-bytes", "1Ki"]).expect_code(1).stdout;
    assert!(report.contains("unknown, because pages") && report.contains("build the map from keys again"), "{report}");
    let verified = json(&["verify", merged, "--key-lists", &lists], 0);
    assert!(verified["files"][0]["map_check"]["unknown_pages"].as_u64() > Some(0), "{verified}");
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
    let verified = run(&["verify", &map, "--key-lists", &lists]).expect_code(1).stdout;
    let lost = format!("a.map: lost 1 key of {stated} (0x0000000000000001), such as new key");
    assert!(verified.contains(&lost) && verified.contains("007.keys: no map covers it"), "{verified}");
}

#[test]
fn a_file_whose_keys_cannot_all_be_read_is_not_covered() {
    let place = Place::new();
    let tables = place.build(2_000, &["--files", "2"]);
    let (first, map) = (format!("{tables}/000001.sst"), place.text("a.map"));
    flip(&first, 100);
    let built = json(&["map", "build", &tables, "--out", &map], 1);
    assert_eq!((&built["map"]["covered_files"], &built["left_out"][0]), (&1.into(), &first.as_str().into()));
    flip(format!("{tables}/000002.sst"), 100);
    run(&["map", "build", &tables, "--out", &map, "--overwrite"]).expect_error("no file that a map could cover");
    let tombstones = format!("{FIXTURES}/rocksdb/11.8-range-tombstones.sst");
    let leveldb = format!("{FIXTURES}/leveldb/6000-keys.ldb");
    let built = json(&["map", "build", &leveldb, &tombstones, "--out", &map, "--overwrite", BYTEWISE], 0);
    assert_eq!((&built["map"]["covered_files"], &built["left_out"][0]), (&1.into(), &tombstones.as_str().into()));
    assert!(built["findings"].to_string().contains("range tombstones, which a map does not know"), "{built}");
}

// promise: file-maps
#[test]
fn maps_that_contradict_each_other_are_neither_sound_nor_merged_nor_believed() {
    let place = Place::new();
    let [a, b, out] = ["a.map", "b.map", "out.map"].map(|name| place.text(name));
    let list = place.text("0x0000000000000001.keys");
    for (map, keys) in [(&a, "one\n"), (&b, "two\nthree\n")] {
        fs::write(&list, keys).unwrap();
        run(&["map", "build", "--key-lists", &list, "--out", map, "--bits", "24"]).expect_code(0);
        run(&["verify", map]).expect_code(0);
    }
    for key in ["two", "one", "none"] {
        let probed = run(&["probe", &a, &b, "--key", key, "--key-lists", &list, "--list", "all"]).expect_code(1);
        assert_eq!(probed.stdout, format!("{key}\t1\t0x0000000000000001.keys\tmap unknown\n"));
        assert!(probed.stderr.contains("file 0x0000000000000001: expected"), "{}", probed.stderr);
    }
    let verified = run(&["verify", &a, &b]).expect_code(1).stdout;
    assert!(verified.contains("two files have this id") && verified.contains("2 damaged"), "{verified}");
    run(&["map", "merge", &a, &b, "--out", &out]).expect_error("b.map: file 0x0000000000000001");
    assert!(!Path::new(&out).exists());
}

#[test]
fn a_pipe_named_like_a_table_is_left_out_of_lists() {
    let place = Place::new();
    let lists = write_lists(&place, "lists", 0..1, 5);
    for (name, code) in [("000001.sst", 2), ("000001.sst.filter", 2), ("0x0000000000000001.keys", 0)] {
        let pipe = place.path("lists").join(name);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // Other entries of a directory that are no files are not listed at all.
        for (path, code) in [(lists.as_str(), code), (pipe.to_str().unwrap(), 2)] {
            let mut command = Command::new("timeout");
            command.arg("60").arg(program().get_program());
            let output =
                command.args(["map", "build", "--out", &place.text("map"), "--overwrite", "--key-lists", path]);
            let output = output.output().unwrap();
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(code), "{text}");
            assert!(code == 0 || text.contains("expected a regular file"), "{text}");
        }
        fs::remove_file(pipe).unwrap();
    }
}

#[test]
fn a_map_of_a_secret_seed_judges_only_with_the_seed_and_may_cover_other_files_without() {
    let place = Place::new();
    let (seed, list) = (place.write("seed", "0123456789abcdef\n"), place.write("list", "key\n"));
    let (map, tables) = (place.text("a.map"), place.build(10, &[]));
    let secret = ["--secret-seed-file", seed.as_str()];
    run(&[&["map", "build", "--key-lists", &list, "--out", &map], &secret[..]].concat()).expect_code(0);
    let verify = ["verify", &map, "--key-lists", &list];
    assert_eq!(json(&[&verify[..], &secret].concat(), 0)["files"][0]["keys_compared"], 1);
    assert!(json(&verify, 0)["files"][0]["keys_not_compared_because"].to_string().contains("--secret-seed-file"));
    let probe = ["probe", &map, "--key", "other", "--key-lists", &list, "--list", "all"];
    assert_eq!(run(&[&probe[..], &secret].concat()).expect_code(0).stdout, "other\t0\t\t\n");
    let without = run(&probe).expect_code(3);
    assert_eq!(without.stdout, "other\t?\tlist\tno filter\n");
    assert!(without.stderr.contains("pass the seed with --secret-seed-file"), "{}", without.stderr);
    assert_eq!(run(&["probe", &map, &tables, "--key", "key", "--list", "absent"]).expect_code(3).stdout, "");
    let keys = place.text("list");
    let group = &json(&["probe", &map, &tables, "--keys", &keys], 3)["groups"][0];
    assert_eq!(group["without_candidates"], Value::Null);
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
    let probe = ["probe", &a, &b, "--key", "1-5", "--key", "2-5", "--key-lists", &lists, "--list", "all"];
    let probed = run(&probe).expect_code(0);
    assert_eq!(probed.stdout, "1-5\t2\t001.keys,002.keys\tmap,no filter\n2-5\t1\t002.keys\tno filter\n");
    assert!(probed.stderr.contains("002.keys: no map covers it"), "{}", probed.stderr);
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
    let pages = json(&["inspect", &damaged], 0)["files"][0]["map"]["pages"].as_u64().unwrap();
    (0..usize::try_from(pages).unwrap()).for_each(|page| flip(&damaged, page * 1_024 + 5));
    let keys = place.write("keys", "1-5\n2-5\n3-5\n0-5\nnone\n");
    let rows = |maps: &[&str]| {
        let probed = run(&[&["probe"], maps, &["--keys", &keys, "--list", "all", "--key-lists", &lists]].concat());
        assert!(probed.stderr.contains("damaged: 5 keys: the map is damaged there"), "{}", probed.stderr);
        probed.expect_code(1).stdout
    };
    // In whichever order, only the first file has nothing but the damaged map.
    let partly = [1, 2, 3].map(|list| format!("{list}-5\t2\t000.keys,{list:03}.keys\tmap unknown,map\n")).concat()
        + "0-5\t1\t000.keys\tmap unknown\nnone\t1\t000.keys\tmap unknown\n";
    assert_eq!(rows(&[&damaged, &sound]), partly);
    assert_eq!(rows(&[&sound, &damaged]), partly);
    // Each file has a sound map.
    let wholly = [1, 2, 3, 0].map(|list| format!("{list}-5\t1\t{list:03}.keys\tmap\n")).concat();
    assert_eq!(rows(&[&damaged, &sound, &alone]), wholly + "none\t0\t\t\n");
}

#[test]
fn a_map_whose_end_is_damaged_covers_nothing() {
    let place = Place::new();
    let (list, map) = (place.write("list", "key\n"), place.text("a.map"));
    run(&["map", "build", "--key-lists", &list, "--out", &map]).expect_code(0);
    let length = fs::read(&map).unwrap().len();
    flip(&map, length - 20);
    for command in [&["inspect", &map][..], &["verify", &map], &["probe", &map, "--key", "key"]] {
        let run = run(command).expect_code(1);
        assert!((run.stdout + &run.stderr).contains("checksum"), "{command:?}");
    }
    // A script that reads only the rows must see that the key may be somewhere.
    for (options, rows) in [
        (&["all"][..], "key\t?\t\t\n"),
        (&["absent"], ""),
        (&["maybe"], "key\n"),
        (&["all", "--key-lists", &list], "key\t?\tlist\tno filter\n"),
    ] {
        let probe = [&["probe", &map, "--key", "key", "--list"], options].concat();
        assert_eq!(run(&probe).expect_code(1).stdout, rows, "{options:?}");
    }
    run(&["map", "merge", &map, "--out", &place.text("out")]).expect_error("would not cover its files");
}

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
        fs::copy(format!("{FIXTURES}/{fixture}"), place.path(to)).unwrap();
    }
    let map = place.text("a.map");
    run(&["map", "build", &one, "--out", &map, BYTEWISE]).expect_code(0);
    let probed = json(&["probe", BYTEWISE, &map, &two, "--key", "00000000"], 0);
    let said = format!("2 files: no map covers it ({two}/000005.ldb, {two}/000007.sst)");
    assert!(probed["findings"].to_string().contains(&said), "{probed}");
    // One map can cover both databases.
    run(&["map", "build", &one, &two, "--out", &map, "--overwrite", BYTEWISE]).expect_code(0);
    let verified = json(&["verify", BYTEWISE, &map, &one, &two], 0);
    assert!(verified["notes"].to_string().contains("of 4 of 4 files"), "{verified}");
    assert!(!verified["notes"].to_string().contains("no map covers"), "{verified}");

    let list = place.write("a.keys", "old\n");
    run(&["map", "build", "--key-lists", &list, "--out", &map, "--overwrite"]).expect_code(0);
    place.write("a.keys", "new\n");
    let probed = json(&["probe", &map, "--key", "new", "--key-lists", &list], 0);
    assert_eq!(probed["findings"][0], format!("{list}: no map covers it"));
}
