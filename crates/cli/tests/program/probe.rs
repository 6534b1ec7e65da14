//! `probe` answers many keys at once: which are absent, and which tables the others would touch. The failures guarded
//! against: threads that mix up tables or keys, so that a key is reported as absent from its own table; and a file that
//! cannot be probed and is left out, although it may contain every key.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::common::{Place, flip, lines, part, run};

/// Builds seven tables of 7,000 keys, dealt round-robin.
fn seven_tables(place: &Place) -> String {
    place.build(7_000, &["--files", "7", "--policy", "bloom"])
}

/// The bare filter block of a table.
fn block_of(place: &Place, table: &str) -> String {
    let (start, length) = part(table, "filter");
    place.write("taken-out.filter", &fs::read(table).unwrap()[start..start + length])
}

/// Returns the output of `--per-key` as keys and tables.
fn per_key(arguments: &[&str]) -> BTreeMap<String, Vec<String>> {
    let listed = run(&[&["probe", "--per-key"], arguments].concat()).expect_code(0).stdout;
    let row = |line: &str| {
        let cells: Vec<_> = line.split('\t').collect();
        let tables: Vec<_> = cells[2].split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        assert_eq!(cells[1], tables.len().to_string(), "{line}");
        (cells[0].to_owned(), tables)
    };
    listed.lines().map(row).collect()
}

#[test]
fn each_key_is_listed_with_its_own_table_whatever_the_number_of_threads() {
    let place = Place::new();
    let out = seven_tables(&place);
    let keys = place.text("keys.tsv");
    let answers = per_key(&[&out, "--keys", &keys, "--threads", "1"]);
    assert_eq!(answers.len(), 7_000);
    for (number, (key, tables)) in answers.iter().enumerate() {
        let own = format!("{:06}.sst", number % 7 + 1);
        assert!(tables.contains(&own), "{key} is in {own}, and was said to be in {tables:?}");
    }
    assert!(answers.values().any(|tables| tables.len() > 1), "no false positive: the listing shows own tables only");
    for threads in ["2", "5", "64"] {
        assert_eq!(per_key(&[&out, "--keys", &keys, "--threads", threads]), answers, "{threads} threads");
    }
}

#[test]
fn the_keys_of_either_answer_come_out_as_they_came_in_and_are_all_the_keys() {
    let place = Place::new();
    let out = seven_tables(&place);
    let mixed = place.write("mixed", lines(6_990..7_500, |key| format!("key{key:04}")));
    let maybe = run(&["probe", &out, "--keys", &mixed, "--only-maybe"]).expect_code(0).stdout;
    let absent = run(&["probe", &out, "--keys", &mixed, "--only-absent"]).expect_code(0).stdout;
    assert!(maybe.starts_with("key6990\nkey6991\n") && maybe.contains("key6999\n"), "{maybe}");
    assert!(absent.lines().count() > 400, "{absent}");
    let mut both: Vec<_> = maybe.lines().chain(absent.lines()).map(str::to_owned).collect();
    both.sort();
    assert_eq!(both.join("\n") + "\n", fs::read_to_string(&mixed).unwrap());
    run(&["probe", &out, "--keys", &mixed, "--only-absent", "--only-maybe"]).expect_code(2);

    let json = run(&["probe", &out, "--keys", &mixed, "--only-maybe", "--per-key", "--json"]).expect_code(0).json();
    let answers = json["answers"].as_array().unwrap();
    assert_eq!(answers.len(), maybe.lines().count());
    assert_eq!(answers[0]["key"], "key6990");
    assert!(answers[0]["which"].as_array().unwrap().contains(&"000005.sst".into()), "{}", answers[0]);
    assert_eq!(json["keys_touching_none"], absent.lines().count());
}

#[test]
fn listings_end_and_escape_keys_as_the_input_does() {
    let place = Place::new();
    let keys = place.write("keys", b"a\nb\0\tc\0d\0");
    let (out, format) = (place.text("odd"), ["--keys-format", "nul"]);
    run(&[&["build", "--input", &keys, "--out", &out], &format[..]].concat()).expect_code(0);
    let listed = run(&[&["probe", &out, "--keys", &keys, "--only-maybe"], &format[..]].concat()).expect_code(0);
    assert_eq!(listed.stdout, "a\nb\0\tc\0d\0");
    let hex = place.write("hex", "610A62\n0963\n");
    let listed = run(&["probe", &out, "--keys", &hex, "--only-maybe", "--keys-format", "hex"]).expect_code(0);
    assert_eq!(listed.stdout, "610a62\n0963\n");
}

#[test]
fn a_bare_filter_block_answers_as_its_table_does() {
    let place = Place::new();
    let out = place.build(3_000, &["--policy", "ribbon", "--fpr", "0.01"]);
    let block = block_of(&place, &format!("{out}/000001.sst"));
    let absent = place.write("absent", lines(0..20_000, |key| format!("absent{key}")));
    for keys in [&place.text("keys.tsv"), &absent] {
        let of_table = run(&["probe", &out, "--keys", keys, "--only-maybe", "--filters-only"]).expect_code(0).stdout;
        assert!(!of_table.is_empty());
        assert_eq!(run(&["probe", &block, "--keys", keys, "--only-maybe"]).expect_code(0).stdout, of_table);
    }
    let both = run(&["probe", &out, &block, "--keys", &absent, "--json", "--filters-only"]).expect_code(0).json();
    assert_eq!(both["tables"], 2);
    assert_eq!(both["per_table"][0]["positives"], both["per_table"][1]["positives"]);
    assert_eq!(both["per_table"][1]["format"], "filter block");
}

#[test]
fn tables_of_several_hash_seeds_are_each_probed_with_their_own() {
    let place = Place::new();
    place.build(2_000, &["--hash-seed", "1"]);
    let other = place.text("other");
    let keys = place.text("keys.tsv");
    run(&["build", "--input", &keys, "--out", &other, "--hash-seed", "2"]).expect_code(0);
    let json = run(&["probe", &place.text("tables"), &other, "--keys", &keys, "--json"]).expect_code(0).json();
    assert_eq!((&json["min_tables_per_key"], &json["unusable_filters"]), (&2.into(), &0.into()), "{json}");
}

#[test]
fn a_file_that_cannot_be_probed_may_hold_every_key_and_the_exit_code_says_so() {
    let place = Place::new();
    let out = seven_tables(&place);
    let absent = place.write("absent", lines(0..5_000, |key| format!("absent{key}")));
    let table = format!("{out}/000003.sst");
    let sound = fs::read(&table).unwrap();
    fs::write(&table, &sound[..sound.len() / 2]).unwrap();
    let cut = run(&["probe", &out, "--keys", &absent, "--json"]).expect_code(1).json();
    assert_eq!((&cut["tables"], &cut["keys_touching_none"]), (&7.into(), &0.into()));
    assert_eq!(cut["per_table"][2]["positives"], 5_000);
    assert!(cut["per_table"][2]["problem"].is_string());
    let listed = run(&["probe", &out, "--keys", &absent, "--only-absent"]).expect_code(1);
    assert_eq!(listed.stdout, "", "a key that is listed as absent may be in the table that was cut");
    assert!(listed.stderr.contains("positive for every key"), "{}", listed.stderr);

    let block = block_of(&place, &format!("{out}/000001.sst"));
    flip(&block, 100);
    let listed = run(&["probe", &block, "--keys", &place.text("keys.tsv"), "--only-absent"]).expect_code(1);
    assert_eq!(listed.stdout, "");
    assert!(listed.stderr.contains("checksum"), "{}", listed.stderr);
}

/// A table that is listed for every key says nothing about a key.
#[test]
fn a_table_that_is_listed_for_want_of_a_filter_is_marked() {
    let place = Place::new();
    let out = place.build(8_000, &["--files", "3", "--policy", "bloom", "--partitions", "1Ki"]);
    let keys = place.text("keys.tsv");
    // One partition of the first table, and the whole filter of the second.
    let [first, second] = [1, 2].map(|number| format!("{out}/00000{number}.sst"));
    flip(&first, part(&first, "filter").0 + 20);
    flip(&second, part(&second, "filter-index").0 + 5);
    let probe = ["probe", &out, "--keys", &keys, "--per-key"];
    let listed = run(&probe).expect_code(1).stdout;
    let json = run(&[&probe[..], &["--json"]].concat()).expect_code(1).json();
    let mut marked = [0, 0, 0];
    for (line, answer) in listed.lines().zip(json["answers"].as_array().unwrap()) {
        let names: Vec<_> = line.split('\t').nth(2).unwrap().split(',').collect();
        let plain: Vec<_> = names.iter().map(|name| name.trim_end_matches('?')).collect();
        assert_eq!(answer["which"], Value::from(plain.clone()), "{line}");
        let unfiltered = plain.iter().zip(&names).filter(|(plain, name)| plain != name).map(|(plain, _)| *plain);
        assert_eq!(answer["which_unfiltered"], Value::from(unfiltered.collect::<Vec<_>>()), "{line}");
        for (count, table) in marked.iter_mut().zip(["000001.sst?", "000002.sst?", "000003.sst?"]) {
            *count += usize::from(names.contains(&table));
        }
    }
    // All tables have nearly all keys in their range, and the partition is one of four.
    assert!((1_000..4_000).contains(&marked[0]) && marked[1] > 7_900 && marked[2] == 0, "{marked:?}");
}

#[test]
fn the_speed_of_the_probing_alone_is_told() {
    let place = Place::new();
    let out = seven_tables(&place);
    let json = run(&["probe", &out, "--keys", &place.text("keys.tsv"), "--json"]).expect_code(0).json();
    let number = |name: &str| json[name].as_f64().unwrap();
    assert!((number("probes_per_second") * number("probing_seconds") - 49_000.0).abs() < 1.0, "{json}");
    assert!(run(&["probe", &out, "--keys", &place.text("keys.tsv")]).expect_code(0).stderr.contains("million probes"));
}

/// If tables are disjoint, a lookup touches at most one, whatever their filters answer: a false positive of another
/// table would count a read that never happens.
#[test]
fn a_key_touches_only_tables_between_whose_ends_it_is() {
    let place = Place::new();
    let out = place.build(8_000, &["--files", "8", "--consecutive", "--policy", "bloom", "--bits-per-key", "2"]);
    let keys = place.text("keys.tsv");
    let json = |more: &[&str]| run(&[&["probe", &out, "--keys", &keys, "--json"], more].concat()).expect_code(0).json();
    let (by_bounds, by_filters) = (json(&[]), json(&["--filters-only"]));
    assert_eq!((&by_bounds["mean_tables_per_key"], &by_bounds["max_tables_per_key"]), (&1.0.into(), &1.into()));
    assert_eq!(
        (&by_bounds["mean_tables_in_range_per_key"], &by_filters["mean_tables_in_range_per_key"]),
        (&1.0.into(), &8.0.into())
    );
    assert!(by_filters["mean_tables_per_key"].as_f64().unwrap() > 3.0, "{by_filters}");
    assert_eq!(by_bounds["per_table"][3]["keys_in_range"], 1_000);
    let own = per_key(&[&out, "--keys", &keys]);
    assert!((0..8_000).all(|key| own[&format!("key{key:04}")] == [format!("{:06}.sst", key / 1_000 + 1)]));

    // Keys beyond all tables, between two of them, and at their ends.
    let edges = place.write("edges", "a\nkey0000\nkey0999\nkey0999!\nkey1000\nkey7999\nz\n");
    let touched = per_key(&[&out, "--keys", &edges]);
    let tables = |key: &str| touched[key].len();
    let counts = ["a", "key0000", "key0999", "key0999!", "key1000", "key7999", "z"].map(tables);
    assert_eq!(counts, [0, 1, 1, 0, 1, 1, 0]);
    let page = run(&["probe", &out, "--keys", &keys]).expect_code(0).stdout;
    let without = "tables touched without filters: ";
    assert!(page.contains(&format!("{without}1.000 on average, by their smallest and largest keys\n")), "{page}");
    let unbounded = run(&["probe", &out, "--keys", &keys, "--filters-only"]).expect_code(0).stdout;
    assert!(unbounded.contains(&format!("{without}8.000 on average: all, because their")), "{unbounded}");
    let foreign = "../interop/fixtures/rocksdb/11.8-bloom-fv6.sst";
    let mixed = run(&["probe", &out, foreign, "--keys", &keys]).expect_code(0).stdout;
    assert!(mixed.contains("largest keys, which are unknown for 1 table\n"), "{mixed}");
    let absent = place.write("absent", "a\nz\n");
    let unprobed = run(&["probe", &out, "--keys", &absent, "--json"]).expect_code(0).json();
    assert!(unprobed["observed_rate"].is_null() && unprobed["per_table"][0]["observed_rate"].is_null(), "{unprobed}");
}
