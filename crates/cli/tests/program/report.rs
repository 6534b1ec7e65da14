//! Operators of a store act on its report. The failures guarded against: a bad table that is not listed, a wrong rate,
//! a page that a file's name breaks or that ten thousand tables make too long to open, and an overwritten file of the
//! user.

use std::fs;

use roxmltree::{Document, ParsingOptions};
use serde_json::Value;
use sstfilter_table::{TableOptions, TableWriter};

use crate::common::{Place, flip, lines, names, run, write_manifest};
use crate::damage::part;

const FIXTURES: &str = "../interop/fixtures";

/// Returns absent keys of the fixtures, the same for which the fixtures' manifest counts positives. Keys have eight
/// decimal digits, and about every tenth number is stored.
fn absent_keys(stride: usize) -> String {
    lines(0..100_000, |key| format!("{:08}", key + key / (stride - 1) + 1))
}

fn fixture(name: &str) -> Value {
    let manifest = fs::read(format!("{FIXTURES}/manifest.json")).unwrap();
    let fixtures: Vec<Value> = serde_json::from_slice(&manifest).unwrap();
    fixtures.into_iter().find(|fixture| fixture["file"] == name).unwrap()
}

/// Copies a fixture into `store` as the table of a number, and returns its bytes.
fn take(place: &Place, number: u8, name: &str) -> u64 {
    fs::create_dir_all(place.path("store")).unwrap();
    fs::copy(format!("{FIXTURES}/{name}"), place.path(&format!("store/{number:06}.sst"))).unwrap()
}

/// Creates a RocksDB database of three levels: one table has fallen back, one has no filter, one has a damaged filter,
/// and the keys of one cannot be read.
fn database(place: &Place) -> String {
    let tables = [
        (1, 0, "rocksdb/7.8-ribbon-asked-7-keys.sst"),
        (2, 1, "rocksdb/7.8-bloom-fv5.sst"),
        (3, 1, "rocksdb/7.8-no-policy.sst"),
        (4, 2, "rocksdb/11.8-ribbon-fv6.sst"),
        (5, 2, "rocksdb/7.8-codec-bzip2.sst"),
        (6, 2, "rocksdb/11.8-bloom-fv6.sst"),
    ];
    let entry = |(number, level, name)| (number, level, take(place, number, name), ["00000000", "99999999"]);
    write_manifest(place, "store", &tables.map(entry));
    let damaged = place.text("store/000006.sst");
    let shown = run(&["inspect", "--json", &damaged]).expect_code(0).json();
    let parts = shown["files"][0]["foreign_table"]["parts"].as_array().unwrap().clone();
    let filter = parts.iter().find(|part| part["name"].as_str().unwrap().starts_with("fullfilter")).unwrap();
    flip(&damaged, usize::try_from(filter["offset"].as_u64().unwrap()).unwrap() + 9);
    place.write("store/LOG", "of RocksDB\n");
    place.text("store")
}

fn page(place: &Place) -> String {
    fs::read_to_string(place.path("out/report.html")).unwrap()
}

fn with_document(html: &str, check: impl FnOnce(&Document<'_>)) {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    check(&Document::parse_with_options(html, options).unwrap());
}

fn texts<'a>(document: &'a Document<'_>, tag: &str) -> Vec<&'a str> {
    document.descendants().filter(|node| node.has_tag_name(tag)).filter_map(|node| node.text()).collect()
}

fn array<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().unwrap_or_else(|| panic!("{name} in {of}"))
}

#[test]
fn each_bad_table_of_a_database_is_listed_by_level_with_the_command_that_helps() {
    let place = Place::new();
    let store = database(&place);
    let json = run(&["report", &store, "--json"]).expect_code(1).json();
    let levels: Vec<_> = array(&json, "levels")
        .iter()
        .map(|level| ["level", "tables", "needing_a_look", "fallbacks"].map(|name| level[name].as_u64().unwrap()))
        .collect();
    assert_eq!(levels, [[0, 1, 0, 1], [1, 2, 1, 0], [2, 3, 1, 0]], "{json}");
    let remarks: Vec<_> = array(&json, "remarks")
        .iter()
        .map(|remark| (remark["state"].as_str().unwrap(), remark["path"].as_str().unwrap().rsplit('/').next().unwrap()))
        .collect();
    assert_eq!(remarks, [("damaged", "000006.sst"), ("missing", "000003.sst"), ("fallback", "000001.sst")], "{json}");
    assert_eq!(json["remarks"][0]["commands"], Value::from(vec![format!("sstfilter verify {store}/000006.sst")]));
    assert_eq!((&json["remarks"][0]["level"], &json["skipped"][0]), (&2.into(), &format!("{store}/CURRENT").into()));
    let text = run(&["report", &store]).expect_code(1).stdout;
    for words in [
        "Tables that need a look: 2 of 6 (1 missing, 1 damaged).",
        "Bloom although the policy is Ribbon",
        "--out FOLDER",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(text.contains(&format!("sstfilter verify {store}/000006.sst")), "{text}");
    assert!(text.contains("the keys of 1 table could not be read") && text.contains("000005.sst"), "{text}");
    assert_eq!(names(&store).len(), 9, "nothing is written unless a folder is named");
}

#[test]
fn the_figures_are_those_of_inspect_and_advise_and_the_files_agree() {
    let place = Place::new();
    let store = database(&place);
    let out = place.text("out");
    let printed = run(&["report", &store, "--out", &out, "--json"]).expect_code(1).json();
    assert_eq!(names(&out), ["report.html", "report.json"], "and no left-over");
    let mut written: Value = serde_json::from_slice(&fs::read(place.path("out/report.json")).unwrap()).unwrap();
    written["files"] = printed["files"].clone();
    assert_eq!(written, printed);
    let advice = run(&["advise", "--tables", &store, "--json"]).expect_code(1).json();
    assert_eq!(printed["settings"], advice);
    let inspected = run(&["inspect", &store, "--json"]).expect_code(1).json();
    for (ours, theirs) in array(&printed, "per_table").iter().zip(array(&inspected, "files")) {
        for (name, value) in theirs["overview"].as_object().unwrap() {
            assert_eq!(&ours[name], value, "{name} of {ours}");
        }
        assert_eq!(ours["bytes"], theirs["bytes"]);
    }
    let bytes = |of: &Value| of["filter_bytes"].as_u64().unwrap();
    assert_eq!(bytes(&printed), array(&printed, "per_table").iter().map(bytes).sum::<u64>());
    let kinds = array(&printed, "levels").iter().flat_map(|level| array(level, "filters"));
    assert_eq!(bytes(&printed), kinds.map(|kind| kind["bytes"].as_u64().unwrap()).sum::<u64>());

    with_document(&page(&place), |document| {
        let rows = texts(document, "td");
        for table in array(&printed, "per_table") {
            assert!(rows.contains(&table["path"].as_str().unwrap().rsplit('/').next().unwrap()), "{table}");
        }
        for finding in array(&printed, "findings") {
            let finding = finding.as_str().unwrap().replace(" %", "\u{a0}%");
            assert!(texts(document, "li").contains(&finding.as_str()), "{finding}");
        }
        let codes = texts(document, "code");
        for command in array(&printed, "remarks").iter().flat_map(|remark| array(remark, "commands")) {
            assert!(codes.contains(&command.as_str().unwrap()), "{command}");
        }
        let bars = document.descendants().filter(|node| node.attribute("class") == Some("bar")).count();
        assert_eq!(bars, 3, "one for each level");
        let lines = ["information bound", "sstfilter, Bloom", "sstfilter, Ribbon"];
        assert_eq!(crate::compare::check_charts(document, &lines).len(), 2, "one, for two sizes of screens");
        let title = texts(document, "h1")[0];
        assert!(title.contains(&store) && title.contains("RocksDB"), "{title}");
        // The page is self-contained, and its links lead to its own sections.
        let ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        let links: Vec<_> = document.descendants().filter_map(|node| node.attribute("href")).collect();
        assert!(links.len() >= 5 && links.iter().all(|link| ids.contains(&link.trim_start_matches('#'))), "{links:?}");
    });
    for word in ["http:", "https:", "<script", "<img", "<link", "@import", "url("] {
        assert!(!page(&place).contains(word), "{word}");
    }
}

/// The engines counted these positives with their own filters.
#[test]
fn the_rates_on_given_keys_are_those_that_the_engine_has() {
    let place = Place::new();
    let tables = ["rocksdb/11.8-bloom-fv5.sst", "rocksdb/11.8-bloom-fv6.sst", "rocksdb/11.8-ribbon-fv7.sst"];
    let fixtures = tables.map(fixture);
    for (number, table) in (1..).zip(tables) {
        take(&place, number, table);
    }
    let [stride, others @ ..] = fixtures.each_ref().map(|fixture| fixture["stride"].as_u64().unwrap());
    assert_eq!(others, [stride; 2], "they have the same absent keys");
    let (absent, store) = (place.write("absent", absent_keys(usize::try_from(stride).unwrap())), place.text("store"));
    let json = run(&["report", &store, "--absent", &absent, "--json"]).expect_code(0).json();
    let rates: Vec<_> = array(&json, "rates")
        .iter()
        .map(|rate| {
            (
                rate["filter"].as_str().unwrap(),
                ["tables", "probes", "positives"].map(|name| rate[name].as_u64().unwrap()),
            )
        })
        .collect();
    let [five, six, ribbon] = fixtures.map(|fixture| fixture["positives"].as_u64().unwrap());
    assert_eq!(rates, [("FastLocalBloom", [2, 200_000, five + six]), ("Standard128Ribbon", [1, 100_000, ribbon])]);
    let reads = json["levels"][0]["useless_reads"].as_f64().unwrap();
    assert!((reads * 100_000.0 - (five + six + ribbon) as f64).abs() < 1e-6, "{reads}");
    assert!(json["absent_from"].as_str().unwrap().contains("(--absent)"), "{json}");
}

#[test]
fn keys_that_are_drawn_measure_the_rate_of_each_kind_and_none_is_a_stored_one() {
    let place = Place::new();
    let lines = lines(0..40_000, |key| format!("key{key:05}"));
    let keys = place.write("keys", lines);
    for (policy, number) in [("bloom", 1), ("ribbon", 2)] {
        let out = place.text(policy);
        let build = ["build", "--input", &keys, "--out", &out, "--policy", policy, "--fpr", "0.05"];
        run(&build).expect_code(0);
        fs::create_dir_all(place.path("store")).unwrap();
        fs::rename(place.path(&format!("{policy}/000001.sst")), place.path(&format!("store/{number:06}.sst"))).unwrap();
    }
    let store = place.text("store");
    let json = run(&["report", &store, "--json"]).expect_code(0).json();
    let rates = array(&json, "rates");
    assert_eq!(rates.len(), 2, "{json}");
    for rate in rates {
        let number = |name: &str| rate[name].as_f64().unwrap();
        assert!(number("probes") > 20_000.0 && number("observed_fpr_margin") < 0.003, "{rate}");
        assert!((number("observed_fpr") - number("expected_fpr")).abs() < 0.005, "a stored key is a positive: {rate}");
    }
    assert!(json["absent_from"].as_str().unwrap().contains("with two bytes (ffa5) added"), "{json}");
    let text = run(&["report", &store]).expect_code(0).stdout;
    assert!(text.contains("assume independent probes"), "{text}");
    assert_eq!(text.matches(" +- ").count(), 2, "a margin for each rate: {text}");

    // A filter of prefixes contains the prefix of each drawn key, so it is not measured, and not called bad.
    take(&place, 3, "rocksdb/7.8-prefix-fixed-only.sst");
    let json = run(&["report", &store, "--json"]).expect_code(0).json();
    assert_eq!((array(&json, "rates").len(), array(&json, "remarks").len()), (2, 0), "{json}");
}

/// Without a report, an operator cannot see that a filter has more false positives than expected.
#[test]
fn a_rate_far_above_the_expected_one_stands_out() {
    let place = Place::new();
    let store = place.build(3_000, &["--policy", "bloom"]);
    // These keys are stored, so the filter looks as if it were far too full.
    let json = run(&["report", &store, "--absent", &place.text("keys.tsv"), "--json"]).expect_code(0).json();
    let stands_out = |json: &Value| json["findings"].to_string().contains("More false positives than expected");
    assert!(stands_out(&json), "{json}");
    assert!(!stands_out(&run(&["report", &store, "--json"]).expect_code(0).json()));
}

#[test]
fn tables_whose_keys_cannot_be_read_are_reported_without_rates() {
    let place = Place::new();
    take(&place, 1, "rocksdb/7.8-codec-bzip2.sst");
    let (store, out) = (place.text("store"), place.text("out"));
    let text = run(&["report", &store, "--out", &out]).expect_code(0).stdout;
    assert!(text.contains("pass some with --absent") && text.contains("bzip2"), "{text}");
    let json: Value = serde_json::from_slice(&fs::read(place.path("out/report.json")).unwrap()).unwrap();
    assert_eq!((&json["absent_keys"], &json["rates"], &json["tables"]), (&0.into(), &Value::Array(vec![]), &1.into()));
    assert!(page(&place).contains("pass some with --absent"));
    // The rest of the report does not depend on the keys.
    assert!(json["settings"]["now"]["bytes"].as_u64().unwrap() > 0, "{json}");
}

#[test]
fn a_store_without_filters_has_a_report_and_one_without_tables_has_none() {
    let place = Place::new();
    take(&place, 1, "rocksdb/7.8-no-policy.sst");
    let (store, out) = (place.text("store"), place.text("out"));
    let text = run(&["report", &store, "--out", &out]).expect_code(0).stdout;
    assert!(text.contains("need a look: 1 of 1 (1 missing)") && !text.contains("no fewer than"), "{text}");
    with_document(&page(&place), |document| assert!(texts(document, "h2").len() >= 5));
    fs::create_dir(place.path("void")).unwrap();
    place.write("void/notes.txt", "no table");
    run(&["report", &place.text("void")]).expect_error("contains no table and no filter block");
    run(&["report", &place.text("missing")]).expect_error("cannot read");
    run(&["report"]).expect_error("<PATH>");
    run(&["report", &store, "--absent", &place.write("empty", "")]).expect_error("contains no key");
}

/// This program can rewrite only its own filters; for others, it refers to their engine.
#[test]
fn a_table_of_ours_without_a_sound_filter_is_to_be_rebuilt_and_the_report_is_clear_then() {
    let place = Place::new();
    let store = place.build(3_000, &["--files", "2", "--policy", "bloom"]);
    let table = place.text("tables/000002.sst");
    let shown = run(&["inspect", "--json", &table]).expect_code(0).json();
    let layout = array(&shown["files"][0]["table"], "layout").to_vec();
    let filter = layout.iter().find(|region| region["name"] == "filter").unwrap();
    flip(&table, usize::try_from(filter["offset"].as_u64().unwrap()).unwrap() + 5);
    let json = run(&["report", &store, "--json"]).expect_code(1).json();
    let commands: Vec<_> = array(&json["remarks"][0], "commands").iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(commands, [format!("sstfilter verify {table}"), format!("sstfilter rebuild {table}")]);
    assert_eq!(json["per_table"][1]["observed_rate"], Value::Null, "a damaged filter has no rate");
    let words: Vec<_> = commands[1].split(' ').skip(1).collect();
    run(&[&words[..], &["--policy", "bloom"]].concat()).expect_code(0);
    let json = run(&["report", &store, "--json"]).expect_code(0).json();
    assert_eq!((array(&json, "remarks").len(), array(&json, "notes").len()), (0, 1), "{json}");
}

/// Shells expand `DIR/*` next to `DIR`: a file that counts twice doubles every figure of a store.
#[test]
fn a_file_that_several_paths_lead_to_counts_once_in_every_command() {
    let place = Place::new();
    let store = place.build(3_000, &["--files", "2", "--policy", "bloom"]);
    let (keys, first) = (place.text("keys.tsv"), format!("{store}/000001.sst"));
    place.write("tables/notes.txt", "no table");
    let again = format!("{store}/../tables/000001.sst");
    let paths = [&first[..], &store, &again, &format!("{store}/."), &first];
    let count = |command: &[&str], field: &str| {
        let json = run(&[command, &paths[..], &["--json"]].concat()).expect_code(0).json();
        json[field].as_u64().unwrap_or_else(|| json[field].as_array().unwrap().len() as u64)
    };
    assert_eq!(count(&["report"], "tables"), 2);
    assert_eq!((count(&["verify"], "sound"), count(&["verify"], "others")), (2, 1));
    assert_eq!(count(&["inspect"], "files"), 2);
    assert_eq!(count(&["probe", "--keys", &keys], "tables"), 2);
    assert_eq!(count(&["probe", "--range", "a", "b"], "tables"), 2);
    assert_eq!(count(&["advise", "--tables"], "tables"), 2);
}

/// A browser does not open a page with a line for each of ten thousand tables.
#[test]
fn the_page_on_a_thousand_tables_is_as_short_as_that_on_fifty() {
    let place = Place::new();
    let store = place.build(3_000, &["--files", "1000"]);
    let out = place.text("out");
    let text = run(&["report", &store, "--out", &out]).expect_code(0).stdout;
    assert!(text.contains("1,000 tables") && text.lines().count() < 25, "{text}");
    let html = page(&place);
    assert!(html.len() < 100_000, "{} bytes", html.len());
    with_document(&html, |document| {
        let more: Vec<_> = texts(document, "p").into_iter().filter(|text| text.contains(" more: ")).collect();
        assert_eq!(more, ["950 more: "], "of all tables; none is a fallback");
        let names = texts(document, "p").into_iter().find(|text| text.matches(".sst, ").count() == 999);
        assert!(names.is_some(), "the tables share a remark, and all are named");
    });
    let json: Value = serde_json::from_slice(&fs::read(place.path("out/report.json")).unwrap()).unwrap();
    assert_eq!((array(&json, "per_table").len(), &json["entries"]), (1_000, &3_000.into()));
}

#[test]
fn a_report_replaces_its_own_files_and_writes_nothing_in_a_database() {
    let place = Place::new();
    let store = place.build(100, &[]);
    let out = place.text("out");
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
    run(&["report", &database, "--out", &database]).expect_error("is the directory of a database (it contains ");
    assert_eq!(names(&database), before);
    run(&["compare", "--generate", "9", "--out", &database]).expect_error("is the directory of a database");
    let file = place.write("file", "not a directory");
    run(&["report", &store, "--out", &file]).expect_error("cannot create the directory");
}

/// A new filter does not bring back data: `rebuild` fails, and the entries in sound blocks are not saved.
#[test]
fn a_table_whose_data_is_damaged_is_to_be_salvaged() {
    let place = Place::new();
    let store = place.build(3_000, &["--files", "3", "--policy", "bloom"]);
    let tables = [1, 2, 3].map(|number| format!("{store}/00000{number}.sst"));
    flip(&tables[0], 20);
    flip(&tables[1], part(&tables[1], "filter").0 + 20);
    flip(&tables[1], 20);
    flip(&tables[2], part(&tables[2], "properties").0 + 20);
    let json = run(&["report", &store, "--json"]).expect_code(1).json();
    for (remark, table) in array(&json, "remarks").iter().zip(&tables) {
        let mut commands = vec![format!("sstfilter verify {table}"), format!("sstfilter dump {table} --salvage")];
        // Without its properties, a table cannot be opened.
        commands.truncate(if *table == tables[2] { 1 } else { 2 });
        assert_eq!((&remark["state"], &remark["commands"]), (&"damaged".into(), &Value::from(commands)));
    }
    assert_eq!(array(&json, "remarks").len(), 3, "{json}");
    let reasons = json["remarks"][1]["reason"].as_str().unwrap();
    assert!(reasons.contains("filter at offset") && reasons.contains("checksum of the data"), "{reasons}");
}

/// Fills `store` with tables of 100 keys. The first `missing` of them have no filter.
fn tables_without_filters(place: &Place, count: u32, missing: u32) -> String {
    let store = place.path("store");
    fs::create_dir_all(&store).unwrap();
    for number in 1..=count {
        let options = TableOptions::default();
        let options = if number <= missing { options.without_filter() } else { options };
        let mut writer = TableWriter::create(store.join(format!("{number:06}.sst")), &options).unwrap();
        (0..100).for_each(|key| writer.add(format!("{key:08}:{number:06}").as_bytes(), b"value").unwrap());
        writer.finish().unwrap();
    }
    place.text("store")
}

/// Ten damaged tables, each with an offset of its own, must not hide that eight others have no filter.
#[test]
fn the_summary_has_a_line_for_each_state_and_the_page_names_all_tables() {
    let place = Place::new();
    let store = tables_without_filters(&place, 18, 8);
    for number in 9..=18 {
        let table = format!("{store}/{number:06}.sst");
        flip(&table, part(&table, "filter").0 + 20);
    }
    let out = place.text("out");
    let text = run(&["report", &store, "--out", &out]).expect_code(1).stdout;
    let missing = format!("- 8 tables: missing: no filter ({store}/000001.sst, {store}/000002.sst, {store}/000003.sst");
    assert!(
        text.contains(&format!("{missing} and 5 more)\n    sstfilter rebuild --only-problems {store}\n")),
        "{text}"
    );
    assert!(text.contains("- 5 more tables: damaged, for other reasons: sstfilter inspect --only-problems"), "{text}");
    let json: Value = serde_json::from_slice(&fs::read(place.path("out/report.json")).unwrap()).unwrap();
    assert_eq!(array(&json, "remarks").len(), 18, "{json}");
    with_document(&page(&place), |document| {
        let paragraphs = texts(document, "p");
        let named = paragraphs.iter().find(|text| text.matches(".sst").count() == 8).unwrap();
        assert!(named.starts_with("000001.sst, ") && named.ends_with(", 000008.sst"), "{named}");
        let items: Vec<_> = texts(document, "b");
        assert!(items.contains(&"8 tables") && items.iter().any(|item| item.ends_with("000018.sst")), "{items:?}");
    });
}

/// The cost of a table without a filter is a read for each key in its range, not the rate of the others.
#[test]
fn reads_that_missing_filters_cause_are_told_and_their_tables_are_left_out_of_other_costs() {
    let place = Place::new();
    let store = tables_without_filters(&place, 4, 2);
    let json = run(&["report", &store, "--json"]).expect_code(0).json();
    let number = |name: &str| json["levels"][0][name].as_f64().unwrap();
    assert!((1.9..=2.0).contains(&number("unfiltered_reads")), "{json}");
    assert!((0.0..0.2).contains(&(number("useless_reads") - number("unfiltered_reads"))), "{json}");
    assert_eq!((&json["settings"]["tables"], array(&json["settings"], "left_out").len()), (&2.into(), 2), "{json}");
    let text = run(&["report", &store]).expect_code(0).stdout;
    assert!(text.contains(" of them because a filter is missing or cannot be used."), "{text}");
    assert!(text.contains("(2 files left out, the first: "), "{text}");
}
