//! What maps say about keys. The failure guarded against: a damaged map that hides keys.

use std::fs;

use crate::common::{Place, flip, json, run};
use crate::engines::FIXTURES;
use crate::map::{BYTEWISE, write_lists};

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
