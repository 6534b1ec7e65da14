//! `probe` says for many keys or ranges at once which files a lookup must read, and why. The failures guarded against:
//! threads that mix up files or keys, so that a key is absent from its own table; a file that cannot be probed and is
//! left out, although it may contain every key; a table whose range tombstones decide a lookup and that is not named;
//! tables of another column family that count; and a range filter that is treated as a point filter, or that reports
//! keys as absent that it does not cover.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::common::{
    FIXTURES, Place, absent_keys, array, copied, database, expected, file_name, flip, json, lines, number, part,
    probed, run, run_with_input,
};

/// Builds seven tables of 7,000 keys, dealt round-robin.
fn seven_tables(place: &Place) -> String {
    place.build(7_000, &["--files", "7", "--policy", "bloom"])
}

/// Returns the rows of `--list all`: the key, the names of files, and the reasons.
fn listed(arguments: &[&str], code: i32) -> Vec<(String, Vec<String>, Vec<String>)> {
    let listed = run(&[&["probe", "--list", "all"], arguments].concat()).expect_code(code).stdout;
    let row = |line: &str| {
        let cells: Vec<_> = line.split('\t').collect();
        let [key, number, names, reasons] = cells[..] else { panic!("{line}") };
        let [names, reasons] = [names, reasons]
            .map(|cell| cell.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>());
        assert!(number == names.len().to_string() && names.len() == reasons.len(), "{line}");
        (key.to_owned(), names, reasons)
    };
    listed.lines().map(row).collect()
}

#[test]
fn each_key_is_listed_with_its_own_table_whatever_the_number_of_threads() {
    let place = Place::new();
    let (out, keys) = (seven_tables(&place), place.text("keys.tsv"));
    let answers = listed(&[&out, "--keys", &keys, "--threads", "1"], 0);
    assert_eq!(answers.len(), 7_000);
    for (number, (key, tables, _)) in answers.iter().enumerate() {
        let own = format!("{:06}.sst", number % 7 + 1);
        assert!(tables.contains(&own), "{key} is in {own}, and was said to be in {tables:?}");
    }
    assert!(answers.iter().any(|(_, tables, _)| tables.len() > 1), "no false positive: the listing shows own tables");
    for threads in ["2", "5", "64"] {
        assert_eq!(listed(&[&out, "--keys", &keys, "--threads", threads], 0), answers, "{threads} threads");
    }
    let json = json(&["probe", "--list", "all", &out, "--keys", &keys], 0);
    let text = |value: &Value| value.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let row = |answer: &Value| {
        let of = |field: &str| array(answer, "files").iter().map(|file| text(&file[field])).collect();
        (text(&answer["sought_key"]), of("path"), of("because"))
    };
    assert_eq!(array(&json, "answers").iter().map(row).collect::<Vec<_>>(), answers);
}

#[test]
fn figures_are_those_of_the_listing_and_the_rate_is_the_expected_one() {
    let place = Place::new();
    let out = seven_tables(&place);
    // Between the smallest and the largest key of each table.
    let absent = place.write("absent", lines(10..6_990, |key| format!("key{key:04}x")));
    let group = probed(&[&out, "--keys", &absent], 0);
    let rows = listed(&[&out, "--keys", &absent], 0);
    let sum: usize = rows.iter().map(|(_, names, _)| names.len()).sum();
    assert!((number(&group["mean_candidates"]) * 6_980.0 - sum as f64).abs() < 0.5, "{group}");
    assert_eq!(group["without_candidates"], rows.iter().filter(|(_, names, _)| names.is_empty()).count());
    assert_eq!(group["mean_candidates_without_filters"], 7.0);
    let files = group["files"].as_array().unwrap();
    assert_eq!(files.iter().map(|file| file["read_for"].as_u64().unwrap()).sum::<u64>(), sum as u64);
    let (observed, expected) = (number(&group["mean_candidates"]), number(&group["expected_candidates"]));
    assert!((observed / expected - 1.0).abs() < 0.2, "{observed} {expected}");
}

#[test]
fn the_keys_of_either_answer_come_out_as_they_came_in_and_are_all_the_keys() {
    let place = Place::new();
    let out = seven_tables(&place);
    let mixed = place.write("mixed", lines(6_990..7_500, |key| format!("key{key:04}")));
    let list = |which: &str| run(&["probe", &out, "--keys", &mixed, "--list", which]).expect_code(0).stdout;
    let (maybe, absent) = (list("maybe"), list("absent"));
    assert!(maybe.starts_with("key6990\nkey6991\n") && absent.lines().count() > 400, "{maybe}{absent}");
    let mut both: Vec<_> = maybe.lines().chain(absent.lines()).map(str::to_owned).collect();
    both.sort();
    assert_eq!(both.join("\n") + "\n", fs::read_to_string(&mixed).unwrap());

    let keys = place.write("keys", b"a\nb\0\tc\0d\0");
    let (odd, format) = (place.text("odd"), ["--keys-format", "nul"]);
    run(&[&["build", "--input", &keys, "--out", &odd], &format[..]].concat()).expect_code(0);
    let listed = run(&[&["probe", &odd, "--keys", &keys, "--list", "maybe"], &format[..]].concat()).expect_code(0);
    assert_eq!(listed.stdout, "a\nb\0\tc\0d\0");
    let hex = place.write("hex", "610A62\n0963\n");
    let listed = run(&["probe", &odd, "--keys", &hex, "--list", "maybe", "--keys-format", "hex"]).expect_code(0);
    assert_eq!(listed.stdout, "610a62\n0963\n");
}

#[test]
fn a_file_that_cannot_be_probed_may_hold_every_key_and_its_reason_is_listed() {
    let place = Place::new();
    let out = place.build(4_000, &["--files", "3", "--policy", "bloom"]);
    let [first, second] = [1, 2].map(|number| format!("{out}/00000{number}.sst"));
    flip(&first, part(&first, "filter").0 + 5);
    let found = run(&["get", &out, "key0007"]).expect_code(0);
    assert!(found.stderr.contains("reading without a filter"), "{}", found.stderr);
    assert_eq!(probed(&[&first, "--keys", &place.text("keys.tsv")], 1)["files"][0]["kind"], "unusable");
    let sound = fs::read(&second).unwrap();
    fs::write(&second, &sound[..sound.len() / 2]).unwrap();
    let mut unusable = BTreeMap::<String, usize>::new();
    for (_, names, reasons) in listed(&[&out, "--keys", &place.text("keys.tsv")], 1) {
        let unfiltered = names.into_iter().zip(reasons).filter(|(_, reason)| reason == "unusable filter");
        unfiltered.for_each(|(name, _)| *unusable.entry(name).or_default() += 1);
    }
    // No key is beyond the bounds of a table that is cut short, and a few are beyond those of the first.
    assert!(unusable["000001.sst"] > 3_990 && unusable["000002.sst"] == 4_000 && unusable.len() == 2, "{unusable:?}");
    let absent = run(&["probe", &out, "--key", "zzz", "--list", "absent"]).expect_code(1);
    assert!(absent.stdout.is_empty() && absent.stderr.contains("cut short"), "{}", absent.stderr);
    run(&["probe", &out, "--keys", &place.text("missing")]).expect_error("pass a key with --key");
    run(&["probe", &place.text("missing"), "--key", "a"]).expect_error("cannot read");
    run(&["probe", &out, "key0001"]).expect_error("--key");
}

/// If tables are disjoint, a lookup touches at most one, whatever their filters answer.
#[test]
fn a_key_touches_only_tables_between_whose_ends_it_is() {
    let place = Place::new();
    let out = place.build(8_000, &["--files", "8", "--consecutive", "--policy", "bloom", "--bits-per-key", "2"]);
    let group = probed(&[&out, "--keys", &place.text("keys.tsv")], 0);
    assert_eq!((&group["mean_candidates"], &group["max_candidates"]), (&1.0.into(), &1.into()));
    assert_eq!((&group["files"][3]["in_bounds"], &group["files"][3]["read_for"]), (&1_000.into(), &1_000.into()));
    let edges = place.write("edges", "a\nkey0000\nkey0999\nkey0999!\nkey1000\nkey7999\nz\n");
    let counts: Vec<_> = listed(&[&out, "--keys", &edges], 0).iter().map(|(_, names, _)| names.len()).collect();
    assert_eq!(counts, [0, 1, 1, 0, 1, 1, 0]);
    let page = run(&["probe", &out, "--key", "key1000"]).expect_code(0).stdout;
    let first: Vec<_> = page.lines().nth(7).unwrap().split_whitespace().collect();
    assert_eq!(first, [&format!("{out}/000002.sst"), "read", "filter"], "what to read comes first: {page}");
    assert_eq!(page.matches("skip    bounds").count(), 7, "{page}");
    let other = place.text("other");
    run(&["build", "--input", &place.text("keys.tsv"), "--out", &other, "--hash-seed", "2"]).expect_code(0);
    let both = probed(&[&out, &other, "--keys", &place.text("keys.tsv")], 0);
    assert_eq!((&both["min_candidates"], &both["max_candidates"]), (&2.into(), &2.into()), "{both}");
}

#[test]
fn lookups_in_databases_read_the_tables_that_the_engine_reads() {
    let place = Place::new();
    for name in ["families", "tombstones", "running", "leveldb-rest", "blobs-7.8", "ribbon", "zlib"] {
        let (db, expected) = (database(name), expected(name));
        for family in array(&expected, "families").iter().filter(|family| family["count"] != 0) {
            let keys = place.write("absent", absent_keys(family));
            let paths = [&db, "--keys", &keys, "--family", family["name"].as_str().unwrap()];
            let rows = (0_u64..).zip(listed(&paths, 0));
            let filtered =
                rows.map(|(row, (_, _, reasons))| (row, reasons.iter().filter(|why| *why == "filter").count()));
            let found: Vec<_> = filtered.filter(|(_, tables)| *tables > 0).collect();
            let let_through: Vec<(u64, usize)> = serde_json::from_value(family["let_through"].clone()).unwrap();
            assert_eq!(found, let_through, "{name} {family}");
            let of_family = array(&expected, "tables").iter().filter(|table| table["family"] == family["id"]);
            assert_eq!(probed(&paths, 0)["probed_files"], of_family.count(), "{name} {family}");
        }
    }
    let none = run(&["probe", &database("empty"), "--key", "a", "--list", "all"]).expect_code(0);
    assert_eq!(none.stdout, "a\t0\t\t\n");
}

#[test]
fn families_have_figures_of_their_own_and_a_listing_needs_one() {
    let place = Place::new();
    let (db, keys) = (database("families"), place.write("keys", "no key\n"));
    let json = json(&["probe", &db, "--keys", &keys], 0);
    let of_groups = |field: &str| array(&json, "groups").iter().map(|group| group[field].clone()).collect::<Vec<_>>();
    assert_eq!(
        (of_groups("column_family"), of_groups("probed_files")),
        (vec!["cf0".into(), "cf1".into(), "cf2".into(), "cf3".into()], vec![1.into(); 4])
    );
    run(&["probe", &db, "--keys", &keys, "--list", "all"]).expect_error("cf0, cf1, cf2, cf3");
    run(&["probe", &db, "--keys", &keys, "--family", "cf9"]).expect_error("cf0, cf1, cf2, cf3");
    // Of a table that cannot be opened, the manifest tells.
    let copy = copied(&place, "families");
    let table = format!("{copy}/{}", file_name(&json["groups"][0]["files"][0]["path"]));
    let sound = fs::read(&table).unwrap();
    fs::write(&table, "no table").unwrap();
    assert_eq!(probed(&[&copy, "--keys", &keys, "--family", "cf0"], 1)["files"][0]["state"], "damaged");
    fs::write(&table, sound).unwrap();
    // Without the manifest, the tables themselves tell.
    fs::remove_file(format!("{copy}/CURRENT")).unwrap();
    let alone = probed(&[&place.text("families"), "--keys", &keys, "--family", "cf2"], 0);
    assert_eq!((&alone["probed_files"], &alone["column_family"]), (&1.into(), &"cf2".into()), "{alone}");
}

/// Returns the keys that no file has, as `--list absent` prints them.
fn absent(arguments: &[&str], code: i32) -> String {
    run(&[&["probe", "--list", "absent", "--key", "user:00000004"], arguments].concat()).expect_code(code).stdout
}

#[test]
fn a_live_table_that_is_gone_may_have_every_key() {
    let place = Place::new();
    let (db, keys) = (copied(&place, "running"), place.write("keys", "user:00000004\nno key\n"));
    fs::remove_file(place.path("running/000012.sst")).unwrap();
    assert_eq!(absent(&[&db], 1), "");
    for (key, names, _) in listed(&[&db, "--keys", &keys], 1) {
        assert!(names.contains(&"000012.sst".to_owned()), "{key}");
    }
    let report = run(&["report", &db]).expect_code(1).stdout;
    assert!(report.contains("and it is gone"), "{report}");
}

/// What a shell expands, or the user types, may lack the tables that replaced those that were passed.
#[test]
fn what_is_not_known_of_a_database_is_no_proof_that_a_key_is_absent() {
    let place = Place::new();
    let db = copied(&place, "running");
    let [old, newer] = ["000011.sst", "000014.sst"].map(|name| format!("{db}/{name}"));
    assert_eq!(absent(&[&old, &newer], 0), "", "the key is in the table that was replaced");
    assert_eq!(run(&["verify", &old, &newer]).expect_code(0).stdout.matches("2 sound").count(), 1);
    let twice = run(&["probe", &newer, &format!("{db}/../running"), "--key", "user:00000004", "--json"]);
    assert_eq!(twice.expect_code(0).json()["answers"][0]["files"].as_array().unwrap().len(), 2, "each table once");
    let map = place.text("a.map");
    run(&["map", "build", &db, "--out", &map]).expect_code(0);
    // The map covers a table that was not passed, of which it knows no family.
    assert_eq!(absent(&[&map, &newer, "--family", "default"], 0), "");
    flip(format!("{db}/MANIFEST-000005"), 20);
    fs::remove_file(place.path("running/000012.sst")).unwrap();
    assert_eq!(absent(&[&db], 1), "", "other tables may be live");
}

/// Tables that were live when the files were listed are replaced before they are read.
#[cfg(unix)]
#[test]
fn tables_that_a_running_engine_replaces_meanwhile_are_found_again() {
    replaced_meanwhile(&["running"]);
    // As a shell expands `DB/*.sst`.
    replaced_meanwhile(&["running/000009.sst", "running/000011.sst"]);
}

#[cfg(unix)]
fn replaced_meanwhile(paths: &[&str]) {
    let place = Place::new();
    copied(&place, "running");
    let later = place.path("later");
    fs::create_dir(&later).unwrap();
    for name in ["MANIFEST-000005", "000012.sst", "000014.sst"] {
        fs::rename(place.path("running").join(name), later.join(name)).unwrap();
    }
    // The version before the compaction.
    let manifest = fs::read(later.join("MANIFEST-000005")).unwrap();
    fs::write(place.path("running/MANIFEST-000005"), &manifest[..316]).unwrap();
    for name in ["000016.sst", "000099.sst"] {
        fs::remove_file(place.path("running").join(name)).unwrap();
    }
    // Keys come through a pipe once the engine has gone on: the files were listed before.
    let script = "sleep 1; cp later/* running/; rm running/000009.sst running/000011.sst; echo user:00000004";
    let mut engine = std::process::Command::new("sh");
    engine.args(["-c", script]).current_dir(place.path("")).stdout(std::process::Stdio::piped());
    let mut engine = engine.spawn().unwrap();
    let program = std::process::Command::new(env!("CARGO_BIN_EXE_sstfilter"))
        .args(["probe", "--keys", "-", "--list", "all"])
        .args(paths)
        .current_dir(place.path(""))
        .stdin(engine.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(engine.wait().unwrap().success());
    let shown = String::from_utf8(program.stdout).unwrap();
    assert!(shown.starts_with("user:00000004\t") && shown.contains("000012.sst"), "{shown}");
}

#[test]
fn a_table_whose_range_tombstones_decide_a_lookup_is_in_every_answer() {
    let place = Place::new();
    let (db, expected) = (database("tombstones"), expected("tombstones"));
    let family = &expected["families"][0];
    let [from, to, step] = ["deleted_from", "deleted_to", "step"].map(|field| family[field].as_u64().unwrap());
    let [from, to, step] = [from, to, step].map(|number| usize::try_from(number).unwrap());
    let deleted = lines(from..to, |i| format!("user:{:08}", i * step));
    let keys = place.write("deleted", &deleted);
    for (key, names, reasons) in listed(&[&db, "--keys", &keys], 0) {
        assert_eq!(names, ["000011.sst", "000009.sst"], "{key}: the newer table deletes it, the older one has it");
        assert_eq!(reasons[1], "filter");
        assert!(["range tombstones", "filter"].contains(&&*reasons[0]), "{reasons:?}");
    }
    let group = probed(&[&db, "--keys", &keys], 0);
    assert_eq!((&group["mean_candidates"], &group["min_candidates"]), (&2.0.into(), &2.into()), "{group}");
    assert!(group["files"][0]["read_for_range_tombstones"].as_u64() > Some(150), "{group}");
    let key = deleted.lines().next().unwrap();
    let page = run(&["probe", &db, "--key", key]).expect_code(0).stdout;
    for words in
        ["000011.sst  default            0  read    range tombstones", "has range tombstones: a lookup of any key"]
    {
        assert!(page.contains(words), "{words} in {page}");
    }
    let ends = ["--range", key, "user:9"];
    let page = run(&[&["probe", &db], &ends[..]].concat()).expect_code(0).stdout;
    assert!(page.contains("000011.sst  default            0  read    range tombstones"), "{page}");
    // Its log has newer entries than all tables.
    let running = database("running");
    let page = run(&["probe", &running, "--key", "user:00002400"]).expect_code(0).stdout;
    assert!(page.contains("the log has 5,600 bytes that were not read: it may have the newest entries"), "{page}");
    for (list, listed) in [("absent", ""), ("maybe", "user:00002400\n")] {
        let answer = run(&["--quiet", "probe", "--list", list, "--key", "user:00002400", &running]).expect_code(0);
        assert_eq!(answer.stdout, listed, "it is in the log: {}", answer.stderr);
    }
}

#[test]
fn a_file_of_ranges_gets_the_answers_that_each_range_gets_alone() {
    let place = Place::new();
    let out = tables_of_rows(&place, &HASHED);
    fs::copy(format!("{FIXTURES}/rocksdb/7.8-bloom-fv5.sst"), format!("{out}/000009.sst")).unwrap();
    let inside = (0..30).map(|row| [row * 7, row * 7 + 1 + row % 3].map(|at| (at / 20, at % 20 * 10 + row % 10)));
    let between = (0..9).map(|user| [(user, 195), (user, 9_999)]);
    let pairs: Vec<_> =
        inside.chain(between).chain([[(60, 0), (70, 0)]]).filter(|[lower, upper]| lower < upper).collect();
    let pairs: Vec<_> = pairs.iter().map(|ends| ends.map(|(user, time)| format!("user{user:02}:{time:04}"))).collect();
    let ranges = place.write("ranges", lines(0..pairs.len(), |number| pairs[number].join("\t")));
    let rows = run(&["probe", &out, "--ranges", &ranges, "--list", "all", "--range-prefix", ":"]).expect_code(0).stdout;
    assert_eq!(rows.lines().count(), pairs.len());
    let mut because = BTreeMap::<[&str; 2], u64>::new();
    let answers: Vec<_> = pairs
        .iter()
        .map(|[lower, upper]| {
            json(&["probe", &out, "--range", lower, upper, "--range-prefix", ":"], 0)["answers"][0].take()
        })
        .collect();
    for ((row, alone), ends) in rows.lines().zip(&answers).zip(&pairs) {
        let read: Vec<_> = array(alone, "files").iter().filter(|file| file["answer"] == "read").collect();
        let names: Vec<_> = read.iter().map(|file| file_name(&file["path"])).collect();
        let cells: Vec<_> = row.split('\t').collect();
        assert_eq!(cells[..4], [&ends[0], &ends[1], &read.len().to_string(), &names.join(",")], "{alone}");
        for file in array(alone, "files") {
            *because.entry(["answer", "because"].map(|field| file[field].as_str().unwrap())).or_default() += 1;
        }
    }
    let all = [["read", "filter"], ["read", "no filter"], ["skip", "bounds"], ["skip", "filter"]];
    assert!(because.keys().eq(&all) && because.values().all(|count| *count > 1), "{because:?}");
    let group = probed(&[&out, "--ranges", &ranges, "--range-prefix", ":"], 0);
    let of = |field: &str| array(&group, "files").iter().map(|file| file[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(of("read_for"), because[&all[0]] + because[&all[1]]);
    assert_eq!(of("in_bounds"), of("read_for") + because[&all[3]], "{group}");
}

#[test]
fn hashed_range_filters_answer_readers_with_their_prefix_and_damaged_ones_nobody() {
    let place = Place::new();
    let out = tables_of_rows(&place, &HASHED);
    let read = |ends: [&str; 2], options: &[&str], code| {
        let json = run(&[&["probe", "--json", &out, "--range"], &ends[..], options].concat()).expect_code(code).json();
        let reads = array(&json["answers"][0], "files").iter().filter(|file| file["answer"] == "read").count();
        (reads, json["findings"].to_string().contains("pass its prefix with --range-prefix"))
    };
    let (prefix, between) = (&HASHED[2..], ["user07:0101", "user07:0105"]);
    assert_eq!(read(between, prefix, 0), (0, false));
    assert_eq!(read(["user07:0100", "user07:0101"], prefix, 0), (1, false));
    assert_eq!(read(between, &[], 0), (4, true));
    let table = format!("{out}/000001.sst");
    flip(&table, part(&table, "range-filter").0 + 3);
    assert_eq!(read(between, prefix, 1), (1, false));
    // A key is the range from itself to itself, if there is no other filter.
    let keys = place.write("points", "user07:0100\nuser60:0000\n");
    let block = place.text("ordered.filter");
    run(&["filter", "--keys", &place.text("rows"), "--out", &block, "--range-filter", "ordered:0.0001"]).expect_code(0);
    let maybe = run(&["probe", &block, "--keys", &keys, "--list", "maybe"]).expect_code(0).stdout;
    assert_eq!(maybe, "user07:0100\n");
}

#[test]
fn ranges_are_read_in_every_format_of_keys_and_wrong_ones_are_refused() {
    let place = Place::new();
    tables_of_rows(&place, &[]);
    let (rows, out) = (place.text("rows"), place.text("rows.filter"));
    run(&["filter", "--keys", &rows, "--out", &out, "--range-filter", "ordered:0.0001"]).expect_code(0);
    let inputs: [(&str, &[u8]); 4] = [
        ("lines", b"user07:0000\tuser07:0001\n\tuser\nuser60:\tuser70:\n"),
        ("crlf", b"user07:0000\tuser07:0001\r\n\tuser\r\nuser60:\tuser70:\r\n"),
        ("nul", b"user07:0000\0user07:0001\0\0user\0user60:\0user70:\0"),
        ("hex", b"7573657230373a30303030\t7573657230373a30303031\n\t75736572\n7573657236303a\t7573657237303a\n"),
    ];
    for (format, input) in inputs {
        let probe = ["probe", &out, "--ranges", "-", "--keys-format", format, "--list"];
        let json = run_with_input(&[&probe[..], &["all", "--json"]].concat(), input).expect_code(0).json();
        let answer =
            |at: usize| (json["answers"][at]["lower"].as_str().unwrap(), json["answers"][at]["candidates"].as_u64());
        assert_eq!([0, 1, 2].map(answer), [("user07:0000", Some(1)), ("", Some(0)), ("user60:", Some(0))], "{json}");
        // The output has the format of the input.
        let absent = run_with_input(&[&probe[..], &["absent"]].concat(), input).expect_code(0).stdout;
        assert!(!absent.is_empty() && input.ends_with(absent.as_bytes()), "{absent:?}");
    }
    for (format, input, words) in [
        ("lines", &b"a\tb\nb\ta\n"[..], "range 2, from 'b' to 'a'"),
        ("lines", b"a b\n", "range 1: expected LOWER and UPPER, separated by a tab, got 'a b' without UPPER"),
        ("nul", b"a\0b\0c\0", "two ends for each range, got 3 ends"),
        ("hex", b"61\t6\n", "line 1"),
        ("lines", b"\n", "contains no key"),
    ] {
        run_with_input(&["probe", &out, "--ranges", "-", "--keys-format", format], input).expect_error(words);
    }
    run(&["probe", &out, "--ranges", "x", "--range", "a", "b"]).expect_error("--range");
    run(&["probe", &out, "--ranges", "x", "--keys", "x"]).expect_error("--keys");
}

/// Builds a table of keys `user07:0000`, 20 for each of 50 users: every tenth second.
fn tables_of_rows(place: &Place, options: &[&str]) -> String {
    let keys = place.write("rows", lines(0..1_000, |row| format!("user{:02}:{:04}", row / 20, row % 20 * 10)));
    let out = place.text("rows.tables");
    let build = ["build", "--input", &keys, "--out", &out, "--files", "4", "--overwrite"];
    run(&[&build[..], options].concat()).expect_code(0);
    out
}

const HASHED: [&str; 4] = ["--range-filter", "hashed:64:0.001:4", "--range-prefix", ":"];

#[test]
fn options_that_make_no_range_filter_are_refused() {
    let place = Place::new();
    tables_of_rows(&place, &[]);
    let (rows, out, ordered) = (place.text("rows"), place.text("out"), place.text("ordered"));
    for (options, words) in [
        (&["--range-filter", "hashed"][..], "expected ordered"),
        (&["--range-filter", "ordered", "--policy", "bloom"], "leave out --policy"),
    ] {
        run(&[&["filter", "--keys", &rows, "--out", &out], options].concat()).expect_error(words);
        assert!(!place.path("out").exists());
    }
    run(&["filter", "--keys", &rows, "--out", &ordered, "--range-filter", "ordered"]).expect_code(0);
    run(&["probe", &ordered, "--range", "b", "a"]).expect_error("expected LOWER below UPPER");
    run(&["probe", &ordered, "--range", "a"]).expect_error("--range");
    run(&["get", &ordered]).expect_error("expected a table, got a filter");
    run(&["filter", &ordered, "--out", &out]).expect_error("expected a table, got a filter");
}

#[test]
fn the_range_filter_of_a_table_is_verified_and_read() {
    let place = Place::new();
    let out = tables_of_rows(&place, &HASHED);
    let table = format!("{out}/000001.sst");
    let prefix = ["--range-prefix", ":"];
    let sound = run(&[&["verify", &out][..], &prefix].concat()).expect_code(0).stdout;
    assert!(sound.contains("0 damaged") && !sound.contains("not compared"), "{sound}");
    assert!(run(&["verify", &out]).expect_code(0).stdout.contains("not compared"), "sound, but for other readers");
    let scan = ["get", &out, "--range", "user07:0000", "user08:0000"];
    for (options, is_unused) in [(&prefix[..], false), (&[], true)] {
        let found = run(&[&scan[..], options].concat()).expect_code(0);
        assert_eq!(found.stdout.lines().count(), 20);
        assert_eq!(found.stderr.contains("pass its prefix with --range-prefix"), is_unused, "{}", found.stderr);
    }
    flip(&table, part(&table, "range-filter").0 + 3);
    for options in [&prefix[..], &[]] {
        let verified = run(&[&["verify", &out], options].concat()).expect_code(1).stdout;
        assert!(verified.contains("1 damaged"), "{verified}");
    }
    assert_eq!(run(&[&scan[..], &prefix].concat()).expect_code(0).stdout.lines().count(), 20);
}

#[test]
fn a_build_reports_its_range_filters_and_a_range_is_printed() {
    let place = Place::new();
    let ordered = ["--range-filter", "ordered:0.001"];
    let out = tables_of_rows(&place, &ordered);
    let found = run(&["get", &out, "--range", "user07:0100", "user07:0125"]).expect_code(0);
    assert_eq!(found.stdout, "user07:0100\t\nuser07:0110\t\nuser07:0120\t\n");
    run(&["get", &out, "--range", "user60:", "user70:"]).expect_code(1);
    let rows = place.text("rows");
    let build = [&["build", "--overwrite", "--input", &rows, "--out", &out][..], &ordered].concat();
    let filter = &run(&[&build[..], &["--json"]].concat()).expect_code(0).json()["written"][0]["range_filter"];
    assert_eq!((&filter["kind"], &filter["keys"]), (&"range".into(), &1_000.into()));
    let page = run(&build).expect_code(0).stdout;
    assert!(page.contains("1 table: range, "), "{page}");
}
