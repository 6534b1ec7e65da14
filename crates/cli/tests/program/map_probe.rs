//! `map probe` and `map info`: what maps say about keys. The failure guarded against: a damaged map that hides keys.

use std::fs;
use std::path::Path;

use crate::common::{Place, flip, run};
use crate::map::{FOREIGN, json, write_lists};

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
    let pages = json(&["inspect", &damaged], 0)["files"][0]["map"]["pages"].as_u64().unwrap();
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
fn a_map_whose_end_is_damaged_covers_nothing() {
    let place = Place::new();
    let list = place.write("list", "key\n");
    let map = place.text("a.map");
    run(&["map", "build", "--key-lists", &list, "--out", &map]).expect_code(0);
    let length = fs::read(&map).unwrap().len();
    flip(&map, length - 20);
    for command in [&["inspect", &map][..], &["verify", &map], &["map", "probe", &map, "--key", "key"]] {
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
    run(&["inspect", &list]).expect_code(1);
    run(&["inspect", &place.text("missing")]).expect_code(2);
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
