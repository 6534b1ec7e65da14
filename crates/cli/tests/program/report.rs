//! Operators of a store act on its report. The failures guarded against: a bad table that is not listed, a wrong rate,
//! column families that are added up, a page that a file's name breaks or that ten thousand tables make too long to
//! open, and an overwritten file of the user.

use std::fs;

use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;
use sstfilter_interop::ForeignTable;
use sstfilter_table::{TableOptions, TableWriter};

use crate::common::{
    self, ABSENT, FIXTURES, Place, absent_keys, array, copied, decimal_keys, expected, file_name, fixtures, flip, json,
    lines, names, number, part, run, write_manifest,
};

/// Copies a fixture into `store` as the table of a number, and returns its bytes.
fn take(place: &Place, number: u8, name: &str) -> u64 {
    fs::create_dir_all(place.path("store")).unwrap();
    fs::copy(format!("{FIXTURES}/{name}"), place.path(&format!("store/{number:06}.sst"))).unwrap()
}

/// Creates a RocksDB database of three levels: one table has fallen back, one has no filter, one has a damaged filter,
/// and the keys of one cannot be read.
fn database(place: &Place) -> String {
    let tables = [
        (1, 1, "rocksdb/7.8-ribbon-asked-7-keys.sst"),
        (2, 1, "rocksdb/7.8-bloom-fv5.sst"),
        (3, 1, "rocksdb/7.8-no-policy.sst"),
        (4, 2, "rocksdb/11.8-ribbon-fv6.sst"),
        (5, 2, "rocksdb/7.8-codec-bzip2.sst"),
        (6, 2, "rocksdb/11.8-bloom-fv6.sst"),
    ];
    let entry = |(number, level, name)| (number, level, take(place, number, name), ["00000000", "99999999"]);
    write_manifest(place, "store", &tables.map(entry));
    let damaged = place.text("store/000006.sst");
    let table = ForeignTable::open(fs::File::open(&damaged).unwrap()).unwrap();
    let (_, filter) = table.named_blocks().find(|(name, _)| name.starts_with(b"fullfilter")).unwrap();
    flip(&damaged, usize::try_from(filter.offset).unwrap() + 9);
    place.write("store/LOG", "of RocksDB\n");
    place.text("store")
}

fn report(paths: &[&str], options: &[&str], code: i32) -> Value {
    json(&[&["report"], paths, options].concat(), code)
}

fn page(place: &Place) -> String {
    fs::read_to_string(place.path("out/report.html")).unwrap()
}

pub(crate) fn parsed(html: &str) -> Document<'_> {
    Document::parse_with_options(html, ParsingOptions { allow_dtd: true, ..ParsingOptions::default() }).unwrap()
}

fn texts<'a>(document: &'a Document<'_>, tag: &str) -> Vec<&'a str> {
    document.descendants().filter(|node| node.has_tag_name(tag)).filter_map(|node| node.text()).collect()
}

/// Returns the state and the file names of each remark.
fn remarks(json: &Value) -> Vec<(&str, Vec<&str>)> {
    let remarks = array(json, "remarks").iter();
    remarks
        .map(|remark| (remark["state"].as_str().unwrap(), array(remark, "paths").iter().map(file_name).collect()))
        .collect()
}

fn commands(remark: &Value) -> Vec<&str> {
    array(remark, "commands").iter().map(|command| command.as_str().unwrap()).collect()
}

/// Whether a finding has these words.
fn finds(json: &Value, words: &str) -> bool {
    array(json, "findings").iter().any(|finding| finding.as_str().unwrap().contains(words))
}

#[test]
fn each_bad_table_of_a_database_is_listed_by_level_with_the_command_that_helps() {
    let place = Place::new();
    let store = database(&place);
    let json = report(&[&store], &[], 1);
    let figures = |level: &Value| ["level", "tables", "bad_tables"].map(|name| level[name].as_u64().unwrap());
    let family = &json["families"][0];
    assert_eq!(array(family, "levels").iter().map(figures).collect::<Vec<_>>(), [[1, 3, 1], [2, 3, 1]], "{json}");
    let states: Vec<_> =
        array(&json, "files").iter().map(|file| (file["state"].as_str().unwrap(), file_name(&file["path"]))).collect();
    assert_eq!(states[..2], [("damaged", "000006.sst"), ("missing", "000003.sst")], "the worst come first");
    let listed = remarks(&json);
    assert_eq!(listed[..2], [("damaged", vec!["000006.sst"]), ("missing", vec!["000003.sst"])], "{json}");
    assert!(listed.contains(&("ok", vec!["000001.sst"])), "too few keys for Ribbon: {json}");
    assert_eq!(commands(&json["remarks"][0]), [format!("sstfilter verify {store}/000006.sst")]);
    let text = run(&["report", &store]).expect_code(1).stdout;
    for words in
        ["files that need a look: 2 of 6 (1 missing, 1 damaged)", "files of the engine, not tables: CURRENT, 1 LOG"]
    {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(text.contains(&format!("    sstfilter verify {store}/000006.sst\n")), "{text}");
    assert!(text.contains("    part   keys, which were not read\n") && text.contains("bzip2"), "{text}");
    assert_eq!(names(&store).len(), 9, "nothing is written unless a directory is named");
}

#[test]
fn the_page_its_json_and_standard_output_agree_and_need_nothing_else() {
    let place = Place::new();
    let (store, out) = (database(&place), place.text("out"));
    let printed = report(&[&store], &["--out", &out], 1);
    assert_eq!(names(&out), ["report.html", "report.json"], "and no left-over");
    let mut written: Value = serde_json::from_slice(&fs::read(place.path("out/report.json")).unwrap()).unwrap();
    written["written_files"] = printed["written_files"].clone();
    assert_eq!(written, printed);
    let html = page(&place);
    let document = parsed(&html);
    let (cells, items) = (texts(&document, "td"), texts(&document, "li"));
    for file in array(&printed, "files") {
        assert!(cells.contains(&file["path"].as_str().unwrap()), "{file}");
    }
    let findings = array(&printed, "findings").iter().map(|finding| finding.as_str().unwrap().replace(" %", "\u{a0}%"));
    let commands = array(&printed, "remarks").iter().flat_map(commands).map(str::to_owned);
    for text in findings.chain(commands) {
        assert!(items.contains(&text.as_str()), "{text}");
    }
    assert_eq!(texts(&document, "h1"), [format!("Filters of {store} (RocksDB)")]);
    check_page(&document, 1);
    assert!(html.matches("href=\"#").count() >= 4, "links to its sections");
}

/// Fails unless the page has this many charts, each for large and for small screens, has the targets of its links, and
/// loads nothing.
pub(crate) fn check_page(document: &Document<'_>, charts: usize) {
    for class in ["wide", "narrow"] {
        let is_one = |node: &Node<'_, '_>| node.has_tag_name("svg") && node.attribute("class") == Some(class);
        assert_eq!(document.descendants().filter(is_one).count(), charts, "{class}");
    }
    let all = |name| document.descendants().filter_map(move |node| node.attribute(name));
    for link in all("href") {
        assert!(all("id").any(|id| id == link.trim_start_matches('#')), "{link}");
    }
    for word in ["http:", "https:", "<script", "<img", "<link", "@import", "url("] {
        assert!(!document.input_text().contains(word), "{word}");
    }
}

/// The engines counted these positives with their own filters.
#[test]
fn the_rates_on_given_keys_are_those_that_the_engine_has() {
    let place = Place::new();
    let tables = ["rocksdb/11.8-bloom-fv5.sst", "rocksdb/11.8-bloom-fv6.sst", "rocksdb/11.8-ribbon-fv7.sst"];
    (1..).zip(tables).for_each(|(number, table)| _ = take(&place, number, table));
    let all = fixtures();
    let of_table = tables.map(|table| &all[&format!("{FIXTURES}/{table}")]);
    // They have the same absent keys.
    let [_, absent] = decimal_keys(of_table[0]);
    let json = report(&[&place.text("store")], &["--absent", &place.write("absent", absent)], 0);
    let mut sum = 0.0;
    for file in array(&json, "files") {
        let number: usize = file_name(&file["path"])[..6].parse().unwrap();
        let observed = &file["observed"];
        assert_eq!(
            (&observed["probes"], &observed["positives"]),
            (&ABSENT.into(), &of_table[number - 1]["positives"]),
            "{file}"
        );
        sum += observed["positives"].as_f64().unwrap();
    }
    let family = &json["families"][0];
    assert!((number(&family["total"]["useless_reads"]) * ABSENT as f64 - sum).abs() < 1e-6, "{family}");
    assert!(family["absent_from"].as_str().unwrap().contains("(--absent)"), "{family}");
}

#[test]
fn keys_that_are_made_measure_the_rate_of_each_kind_and_none_is_a_stored_one() {
    let place = Place::new();
    let keys = place.write("keys", lines(0..40_000, |key| format!("key{key:05}")));
    fs::create_dir_all(place.path("store")).unwrap();
    for (policy, number) in [("bloom", 1), ("ribbon", 2)] {
        let out = place.text(policy);
        run(&["build", "--input", &keys, "--out", &out, "--policy", policy, "--fpr", "0.05"]).expect_code(0);
        fs::rename(format!("{out}/000001.sst"), place.path(&format!("store/{number:06}.sst"))).unwrap();
    }
    let json = report(&[&place.text("store")], &[], 0);
    for file in array(&json, "files") {
        let [probes, margin, observed] =
            ["probes", "observed_fpr_margin", "observed_fpr"].map(|name| number(&file["observed"][name]));
        assert!(probes > 20_000.0 && margin < 0.003, "{file}");
        let expected = number(&file["filters"][0]["expected_fpr"]);
        assert!((observed - expected).abs() < 0.005, "a stored key is a positive: {file}");
    }
    assert!(json["families"][0]["absent_from"].as_str().unwrap().contains("two bytes (ffa5) added"), "{json}");
}

/// Without a warning, nobody sees a filter that is too full; with stored keys, each filter looks like one.
#[test]
fn a_rate_above_the_expected_one_stands_out_and_stored_keys_are_refused_as_absent_ones() {
    let place = Place::new();
    let store = place.build(3_000, &["--policy", "bloom"]);
    let warns = |json: &Value| finds(json, "more false positives than expected: ");
    let mixed = lines(0..3_000, |key| if key % 20 == 0 { format!("key{key:04}") } else { format!("key{key:04}x") });
    assert!(warns(&report(&[&store], &["--absent", &place.write("mixed", mixed)], 0)));
    assert!(!warns(&report(&[&store], &[], 0)));
    let text = run(&["report", &store, "--absent", &place.text("mixed")]).expect_code(0).stdout;
    assert!(text.contains(&format!("\ndata blocks were not read: `sstfilter verify {store}` checks all")), "{text}");
    let stored = place.text("keys.tsv");
    let words = "--absent: expected keys that no table has, got stored";
    run(&["inspect", &format!("{store}/000001.sst"), "--absent", &stored]).expect_error(words);
    run(&["report", &store, "--absent", &stored])
        .expect_error(&format!("{words} ones: 100 of 100 keys that pass the filter"));
}

/// Eight families with a table each have the useless reads of one table, and not of eight.
#[test]
fn each_column_family_has_its_own_figures_which_are_those_of_the_engine() {
    let place = Place::new();
    let (database, copy) = (common::database("families"), copied(&place, "families"));
    fs::remove_file(format!("{copy}/CURRENT")).unwrap();
    let expected = expected("families");
    // Without a MANIFEST, bounds are unknown: two more keys are probed.
    for (store, error) in [(&database, 1e-6), (&copy, 2.1)] {
        let json = report(&[store], &[], 0);
        let families = array(&json, "families");
        let names: Vec<_> = families.iter().map(|family| family["column_family"].as_str().unwrap()).collect();
        assert_eq!(names, ["cf0", "cf1", "cf2", "cf3"]);
        assert!(families.iter().all(|family| number(&family["total"]["useless_reads"]) < 0.02), "{json}");
        assert!(finds(&json, "cf2: on average"), "{json}");
        for family in array(&expected, "families").iter().filter(|family| family["absent"] != 0) {
            let (name, absent) = (family["name"].as_str().unwrap(), place.write("absent", absent_keys(family)));
            let json = report(&[store], &["--family", name, "--absent", &absent], 0);
            assert_eq!(array(&json, "files").len(), 1, "{json}");
            let reads = number(&json["families"][0]["total"]["useless_reads"]) * 1_000.0;
            assert!((reads - array(family, "let_through").len() as f64).abs() < error, "{name}: {reads}");
        }
    }
    run(&["report", &database, "--family", "dropped"]).expect_error("which are cf0, cf1, cf2, cf3");
    run(&["advise", "levels", &database]).expect_error("are of several (cf0, cf1, cf2, cf3): choose one with --family");
    let advice = json(&["advise", "levels", &database, "--family", "cf1"], 0);
    assert_eq!((&advice["keys"], &advice["plan"][0]["level"]), (&500.into(), &2.into()), "{advice}");
}

#[test]
fn range_tombstones_prefixes_and_intended_bloom_filters_are_what_they_are_for_the_engine() {
    let place = Place::new();
    let json = report(&[&common::database("tombstones")], &[], 0);
    let total = &json["families"][0]["total"];
    assert_eq!(total["range_tombstone_tables"], 1);
    assert!(number(&total["useless_reads"]) < 0.02, "reads for tombstones are needed: {total}");
    assert!(finds(&json, "1 table with range tombstones: every lookup within their bounds reads them"), "{json}");

    let json = report(&[&common::database("ribbon")], &[], 0);
    let levels: Vec<_> = array(&json, "files").iter().map(|file| (&file["place"]["level"], &file["state"])).collect();
    assert_eq!(levels, [(&1.into(), &"fallback".into()), (&0.into(), &"ok".into())], "intended on level 0");

    let prefixes = common::database("prefix-only");
    let json = report(&[&prefixes], &[], 0);
    assert_eq!(json["families"][0]["total"]["useless_reads"], Value::Null, "{json}");
    assert!(finds(&json, "not in these figures: 1 table") && !finds(&json, "on average"), "{json}");
    let family = &expected("prefix-only")["families"][0];
    let absent = place.write("absent", absent_keys(family));
    let json = report(&[&prefixes], &["--absent", &absent], 0);
    let reads = number(&json["families"][0]["total"]["useless_reads"]) * 1_000.0;
    assert!((reads - array(family, "let_through").len() as f64).abs() < 1e-6, "{reads}");
}

#[test]
fn tables_without_filters_or_readable_keys_have_a_report() {
    let place = Place::new();
    take(&place, 1, "rocksdb/7.8-no-policy.sst");
    take(&place, 2, "rocksdb/7.8-codec-bzip2.sst");
    let (store, out) = (place.text("store"), place.text("out"));
    let one = |number: u8| format!("{store}/{number:06}.sst");
    let text = run(&["report", &one(1), "--out", &out]).expect_code(0).stdout;
    assert!(text.contains("need a look: 1 of 1 (1 missing)"), "{text}");
    assert!(texts(&parsed(&page(&place)), "h2").len() >= 5);
    let family = &report(&[&one(2)], &[], 0)["families"][0];
    assert_eq!((&family["absent_keys"], &family["total"]["observed_fpr"]), (&0.into(), &Value::Null), "{family}");
    assert!(family["absent_from"].as_str().unwrap().contains("pass some with --absent"), "{family}");
    // The rest of the report does not depend on the keys.
    assert!(number(&family["costs"][0]["filter_bytes"]) > 0.0, "{family}");
    // Numbers that are not known are no zeros.
    fs::copy(format!("{FIXTURES}/leveldb/0-keys.ldb"), place.path("store/000003.ldb")).unwrap();
    let empty = report(&[&place.text("store/000003.ldb")], &[], 0);
    assert_eq!((&empty["files"][0]["state"], &empty["families"][0]["total"]["entries"]), (&"ok".into(), &Value::Null));
}

/// This program can rewrite only its own filters. A new filter does not bring back data, but the entries in sound blocks
/// can be saved.
#[test]
fn damaged_tables_of_ours_are_to_be_rebuilt_or_salvaged_and_the_report_is_clear_then() {
    let place = Place::new();
    let store = place.build(3_000, &["--files", "4", "--policy", "bloom"]);
    let tables = [1, 2, 3, 4].map(|number| format!("{store}/00000{number}.sst"));
    flip(&tables[0], 20);
    flip(&tables[1], part(&tables[1], "filter").0 + 20);
    flip(&tables[1], 20);
    flip(&tables[2], part(&tables[2], "properties").0 + 20);
    flip(&tables[3], part(&tables[3], "filter").0 + 5);
    let json = report(&[&store], &[], 1);
    let [whole, data, filter] = array(&json, "remarks") else { panic!("{json}") };
    let listed = [
        ("damaged", vec!["000003.sst"]),
        ("damaged", vec!["000001.sst", "000002.sst"]),
        ("damaged", vec!["000002.sst", "000004.sst"]),
    ];
    assert_eq!(remarks(&json), listed, "beyond rescue, to be salvaged, to be rebuilt");
    assert_eq!(commands(whole), [format!("sstfilter verify {}", tables[2])], "it cannot be opened");
    assert!(whole["advice"].as_str().unwrap().starts_with("Restore the table from a backup"), "{whole}");
    run(&["get", &tables[2], "--salvage"]).expect_error("the footer, metaindex and properties locate the data");
    assert_eq!(commands(data)[0], format!("sstfilter verify {} {}", tables[0], tables[1]));
    assert!(commands(data)[1].contains("--salvage") && commands(data)[1].contains(&tables[0]), "{data}");
    assert_eq!(commands(filter)[1], format!("sstfilter rebuild --only-problems {store}"));
    let last = array(&json, "files").iter().find(|file| file_name(&file["path"]) == "000004.sst").unwrap();
    assert_eq!(last["observed"], Value::Null, "a damaged filter has no rate");
    run(&["rebuild", &tables[3], "--policy", "bloom"]).expect_code(0);
    let json = report(&[&tables[3]], &[], 0);
    assert_eq!((&json["files"][0]["state"], &json["remarks"][0]["state"]), (&"ok".into(), &"ok".into()), "{json}");
}

/// A browser does not open a page with a line for each of ten thousand tables.
#[test]
fn the_report_of_a_thousand_tables_is_as_short_as_that_of_fifty() {
    let place = Place::new();
    let store = place.build(3_000, &["--files", "1000"]);
    let text = run(&["report", &store, "--out", &place.text("out")]).expect_code(0).stdout;
    assert!(text.contains("and 995 more: --all") && text.lines().count() < 60, "{text}");
    let html = page(&place);
    assert!(html.len() < 100_000, "{} bytes", html.len());
    assert!(texts(&parsed(&html), "p").contains(&"950 more are in report.json."));
    let json: Value = serde_json::from_slice(&fs::read(place.path("out/report.json")).unwrap()).unwrap();
    assert_eq!((array(&json, "files").len(), &json["families"][0]["total"]["entries"]), (1_000, &3_000.into()));
    // Shells expand `DIR/*` next to `DIR`: a file that counts twice doubles every figure.
    let again = format!("{store}/../tables/000001.sst");
    assert_eq!(array(&report(&[&again, &store, &format!("{store}/.")], &[], 0), "files").len(), 1_000);
}

// promise: whole-tables
#[test]
fn a_report_replaces_its_own_files_and_writes_nothing_in_a_database() {
    let place = Place::new();
    let (store, out) = (place.build(100, &[]), place.text("out"));
    let report = ["report", &store, "--out", &out];
    (0..2).for_each(|_| _ = run(&report).expect_code(0));
    for (mine, text) in [("report.html", "<!DOCTYPE html><!-- made by sstfilter compare -->\n"), ("report.json", "{}")]
    {
        let own = fs::read(place.path("out").join(mine)).unwrap();
        fs::write(place.path("out").join(mine), text).unwrap();
        run(&report).expect_error(&format!("{mine} was not written by this command"));
        assert_eq!(fs::read_to_string(place.path("out").join(mine)).unwrap(), text);
        fs::write(place.path("out").join(mine), own).unwrap();
    }
    let database = database(&place);
    let before = names(&database);
    let file = place.write("file", "");
    for command in [&["compare", "--generate", "9"][..], &["report", &store]] {
        run(&[command, &["--out", &database]].concat()).expect_error("is the directory of a database");
        run(&[command, &["--out", &file]].concat()).expect_error("cannot create the directory");
    }
    assert_eq!(names(&database), before);
}

/// Ten damaged tables, each with an offset of its own, must not hide that eight others have no filter, whose reads are
/// no cost of the filters.
#[test]
fn each_state_is_told_once_with_all_of_its_files_and_missing_filters_are_no_cost_of_others() {
    let place = Place::new();
    let store = place.text("store");
    fs::create_dir_all(&store).unwrap();
    for number in 1..=18 {
        let options = TableOptions::default();
        let options = if number <= 8 { options.without_filter() } else { options };
        let mut writer = TableWriter::create(format!("{store}/{number:06}.sst"), &options).unwrap();
        (0..100).for_each(|key| writer.add(format!("{key:08}:{number:06}").as_bytes(), b"value").unwrap());
        writer.finish().unwrap();
    }
    let total = report(&[&store], &[], 0)["families"][0]["total"].clone();
    let [reads, unfiltered] = ["useless_reads", "unfiltered_reads"].map(|name| number(&total[name]));
    assert!((7.5..=8.0).contains(&unfiltered) && (0.0..0.5).contains(&(reads - unfiltered)), "{total}");
    for number in 9..=18 {
        let table = format!("{store}/{number:06}.sst");
        flip(&table, part(&table, "filter").0 + 20);
    }
    let text = run(&["report", &store]).expect_code(1).stdout;
    let missing = format!("  missing:\n    paths   {store}/000001.sst, {store}/000002.sst");
    assert!(text.contains(&missing) && text.contains(", for example\n"), "{text}");
    assert!(text.contains("of them because a filter is missing or cannot be used"), "{text}");
    let json = report(&[&store], &[], 1);
    let counts: Vec<_> = remarks(&json).iter().map(|(state, files)| (*state, files.len())).collect();
    assert_eq!(counts, [("damaged", 10), ("missing", 8)], "{json}");
    assert_eq!(json["families"][0]["uncosted_tables"], 18);
}

#[test]
fn the_cost_of_another_size_or_rate_is_that_of_the_tables_that_are_built_with_it() {
    let place = Place::new();
    let tables = place.build(9_000, &["--files", "2"]);
    for (setting, goal) in [(["--bits-per-key", "14"], "14 bits per key"), (["--fpr", "0.002"], "rate of 0.2 %")] {
        let json = report(&[&tables], &setting, 0);
        for policy in ["auto", "bloom", "ribbon"] {
            let choice = format!("{policy}, {goal}");
            let cost = array(&json["families"][0], "costs").iter().find(|cost| cost["choice"] == choice[..]).unwrap();
            let (keys, out) = (place.text("keys.tsv"), place.text("again"));
            let build = ["build", "--overwrite", "--files", "2", "--policy", policy, "--input", &keys, "--out", &out];
            run(&[&build, &setting[..]].concat()).expect_code(0);
            let built = &report(&[&out], &[], 0)["families"][0]["total"];
            for figure in ["filter_bytes", "mean_fpr"] {
                // The size of a Ribbon filter depends a little on its keys.
                assert!((number(&cost[figure]) / number(&built[figure]) - 1.0).abs() < 0.01, "{cost} {built}");
            }
        }
    }
    let text = run(&["report", &tables, "--bits-per-key", "30"]).expect_code(0).stdout;
    assert!(text.contains("bloom, 30 bits per key"), "{text}");
}
