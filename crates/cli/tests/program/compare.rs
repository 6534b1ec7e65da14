//! Users choose a filter by a comparison on their own keys. The failures guarded against: figures that differ from
//! those of the filters that are then built, stored keys that count as absent, a rate that is too precise for few
//! probes, and a kind that is left out silently.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;
use sstfilter::kind;

use crate::common::{Place, lines, names, run, run_with_input};

/// Unpacks the names of Debian 12, and names of a later release that Debian 12 does not have.
fn debian(place: &Place) -> (String, String) {
    let unpack = |name: &str| {
        let packed = fs::read(format!("{}/keys/{name}.gz", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let mut text = String::new();
        GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
        place.write(name, text)
    };
    (unpack("debian-bookworm-packages.tsv"), unpack("debian-sid-only-packages.txt"))
}

fn row<'a>(compared: &'a Value, filter: &str) -> &'a Value {
    let mut rows = compared["rows"].as_array().unwrap().iter();
    rows.find(|row| row["filter"] == filter).unwrap_or_else(|| panic!("no {filter} in {compared}"))
}

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_else(|| panic!("no number {field} in {value}"))
}

fn compare(arguments: &[&str]) -> Value {
    run(&[&["compare", "--json"], arguments].concat()).expect_code(0).json()
}

#[test]
fn the_figures_are_those_of_the_tables_that_are_built() {
    let place = Place::new();
    let (stored, absent) = debian(&place);
    let compared = compare(&["--input", &stored, "--absent", &absent, "--fpr", "0.01"]);
    assert_eq!((&compared["keys"], &compared["absent_keys"]), (&63_666.into(), &22_721.into()));
    assert_eq!(compared["omissions"], Value::Array(Vec::new()));
    for policy in kind::all().iter().map(|entry| entry.name).chain(["auto"]) {
        let out = place.text(&format!("tables-{policy}"));
        let options = ["--policy", policy, "--fpr", "0.01", "--files", "1"];
        let build = [&["build", "--json", "--input", &stored, "--out", &out], &options[..]].concat();
        let built = &run(&build).expect_code(0).json()["written"][0]["filter"];
        let probed = run(&["probe", "--json", &out, "--keys", &absent]).expect_code(0).json();
        let row = row(&compared, policy);
        assert_eq!(row["kind"], built["kind"], "{row} {built}");
        // In a table, a block has 8 bytes more: the fingerprint of the file that it is bound to.
        assert_eq!(row["bytes"].as_u64().unwrap() + 8, built["filter_bytes"].as_u64().unwrap(), "{row} {built}");
        assert_eq!(row["observed_fpr"], probed["observed_rate"], "{row} {probed}");
        assert_eq!(row["expected_fpr"], built["expected_fpr"], "{row} {built}");
        assert!(number(row, "build_ns_per_key") > 0.0 && number(row, "query_one_ns") > 0.0, "{row}");
        assert_eq!(row["lost_keys"], 0);
        let bits = number(row, "bytes") * 8.0 / 63_666.0;
        assert!((number(row, "bits_per_key") - bits).abs() < 1e-9, "{row}");
    }
}

#[test]
fn the_blocks_read_over_many_files_are_those_that_tables_read() {
    let place = Place::new();
    let (stored, absent) = debian(&place);
    let demo = crate::demo::report();
    let bloom = demo["scenario_70_files"].as_array().unwrap().iter().find(|one| one["policy"] == "bloom").unwrap();
    let compared = compare(&["--input", &stored, "--absent", &absent, "--files", "70", "--bits-per-key", "10"]);
    let row = row(&compared, "bloom");
    assert_eq!(row["blocks_per_absent_key"], bloom["data_block_reads_per_absent_lookup"], "{row} {bloom}");
    assert!((69.9..70.0).contains(&number(&compared, "blocks_without_filters")), "{compared}");
    // Too few keys in each file for Ribbon: left out with the reason, where the automatic policy takes Bloom.
    let reason = compared["omissions"][0]["reason"].as_str().unwrap();
    assert!(compared["omissions"][0]["filter"] == "ribbon" && reason.contains("too few keys"), "{reason}");
    assert_eq!(self::row(&compared, "auto")["kind"], "bloom");
}

/// Whether the rate is the expected one within five standard errors.
fn assert_as_expected(row: &Value, absent: f64) {
    let (observed, expected) = (number(row, "observed_fpr"), number(row, "expected_fpr"));
    let sigma = (expected * (1.0 - expected) / absent).sqrt();
    assert!((observed - expected).abs() < 5.0 * sigma, "{row}");
}

#[test]
fn keys_held_out_are_a_share_that_says_what_absent_keys_would() {
    let place = Place::new();
    let (stored, _) = debian(&place);
    let [first, again] = [(); 2].map(|()| compare(&["--input", &stored]));
    let (keys, absent) = (number(&first, "keys"), number(&first, "absent_keys"));
    // Five standard errors of a tenth of 63,666 keys are 378.
    assert!((keys + absent - 63_666.0).abs() < 0.5 && (absent - 6_366.6).abs() < 378.0, "{first}");
    for row in first["rows"].as_array().unwrap() {
        assert_as_expected(row, absent);
        assert_eq!(row["lost_keys"], 0);
        let other = self::row(&again, row["filter"].as_str().unwrap());
        assert_eq!(
            (&row["bytes"], &row["observed_fpr"]),
            (&other["bytes"], &other["observed_fpr"]),
            "not the same keys"
        );
    }
    let half = compare(&["--input", &stored, "--holdout", "50%"]);
    assert!((number(&half, "absent_keys") - 31_833.0).abs() < 631.0, "{half}");
    let text = run(&["compare", "--input", &stored]).expect_code(0).stdout;
    assert!(text.contains("held out (10% of the keys given)") && text.contains(" +- "), "{text}");
    assert!(text.contains("bloom") && text.contains("every filter is positive for all of its keys"), "{text}");
}

#[test]
fn the_conclusion_is_one_sentence_about_what_is_saved() {
    let place = Place::new();
    let (stored, absent) = debian(&place);
    let options = ["compare", "--input", &stored, "--absent", &absent];
    let by_rate = run(&options).expect_code(0).stdout;
    let sentence = by_rate.lines().last().unwrap();
    // 6.8 bits per key instead of 10: README.md.
    assert!(
        sentence.contains("ribbon is smallest: 52.") && sentence.contains("of blocked Bloom, 32 % less, for "),
        "{by_rate}"
    );
    let by_size = run(&[&options[..], &["--bits-per-key", "10"]].concat()).expect_code(0).stdout;
    let sentence = by_size.lines().last().unwrap();
    assert!(
        sentence.starts_with("At 10 bits per key, ribbon reads the fewest data blocks: 0.0010 expected"),
        "{by_size}"
    );
    assert!(sentence.contains("instead of the 0.0097 of blocked Bloom, 90 % fewer"), "{by_size}");
}

#[test]
fn repeated_keys_and_absent_keys_that_are_stored_are_dropped_and_said_to_be() {
    let place = Place::new();
    let keys = place.write("keys", lines(0..3_000, |key| format!("key{key}")) + "key7\tagain\nkey7\n");
    let absent = place.write("absent", lines(2_990..4_500, |key| format!("key{key}")) + "key4000\n");
    let compared = compare(&["--input", &keys, "--absent", &absent]);
    assert_eq!((&compared["keys"], &compared["absent_keys"]), (&3_000.into(), &1_500.into()));
    let notes: Vec<_> = compared["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    assert_eq!(
        notes,
        [
            "--input: 2 repeated keys dropped, because each key counts once",
            "--absent: 1 repeated key dropped, because each key counts once",
            "--absent: 10 keys dropped, because they are also in --input",
        ]
    );
    for row in compared["rows"].as_array().unwrap() {
        assert_as_expected(row, 1_500.0);
    }
}

#[test]
fn rates_of_few_absent_keys_are_said_to_be_rough() {
    let place = Place::new();
    let keys = place.write("keys", lines(0..2_000, |key| format!("key{key}")));
    let absent = place.write("absent", "a\nb\nc\n");
    let text = run(&["compare", "--input", &keys, "--absent", &absent]).expect_code(0).stdout;
    assert!(text.contains("note: only 3 absent keys: measured rates are rough"), "{text}");
    assert!(text.contains("< 100.000 %"), "no false positive among three is no rate of zero: {text}");
}

#[test]
fn a_key_outside_the_range_of_a_file_reads_no_block_of_it() {
    let place = Place::new();
    let keys = place.write("keys", lines(0..2_000, |key| format!("key{key:04}")));
    let absent = place.write("absent", lines(0..5_000, |key| format!("zzz{key}")));
    let compared = compare(&["--input", &keys, "--absent", &absent, "--fpr", "0.1"]);
    assert_eq!(compared["blocks_without_filters"], 0.0);
    for row in compared["rows"].as_array().unwrap() {
        assert_eq!(row["blocks_per_absent_key"], 0.0, "{row}");
        assert_as_expected(row, 5_000.0);
    }
}

/// Returns the part of a report that does not depend on times.
fn figures(compared: &Value) -> Vec<String> {
    let rows = compared["rows"].as_array().unwrap().iter();
    rows.map(|row| format!("{} {} {}", row["filter"], row["bytes"], row["observed_fpr"])).collect()
}

#[test]
fn keys_come_from_tables_pipes_and_files_of_each_format_alike() {
    let place = Place::new();
    let text = lines(0..4_000, |key| format!("key{key:04}"));
    let (tables, keys) = (place.build(4_000, &["--files", "3"]), place.write("keys", &text));
    let expected = compare(&["--input", &keys]);
    assert_eq!(expected["keys"].as_u64().unwrap() + expected["absent_keys"].as_u64().unwrap(), 4_000);
    let compare_in_one_file = |inputs: &[&str]| compare(&[&["--files", "1", "--input"], inputs].concat());
    assert_eq!(figures(&compare_in_one_file(&[&tables])), figures(&expected));

    // Tables are recognized by their bytes, whatever their name; other files of a directory are skipped.
    let [first, second, third] = [1, 2, 3].map(|number| format!("{tables}/00000{number}.sst"));
    fs::rename(&first, format!("{tables}/table")).unwrap();
    fs::write(format!("{tables}/notes.txt"), "not a key\n").unwrap();
    let compared = compare_in_one_file(&[&tables]);
    assert_eq!(figures(&compared), figures(&expected));
    assert!(compared["notes"][0].as_str().unwrap().contains("1 file skipped, not a table (the first: notes.txt)"));
    let compared = compare_in_one_file(&[&second, &format!("{tables}/table"), "--input", &third]);
    assert_eq!(figures(&compared), figures(&expected));

    let nul = text.replace('\n', "\0");
    let hex = text.lines().map(|key| key.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}")) + "\n");
    for (format, input) in [("lines", text.clone()), ("nul", nul), ("hex", hex.collect())] {
        let arguments = ["compare", "--json", "--input", "-", "--keys-format", format];
        assert_eq!(
            figures(&run_with_input(&arguments, input.as_bytes()).expect_code(0).json()),
            figures(&expected),
            "{format}"
        );
    }
}

/// In one file, keys of many small tables would get filters that none of the tables can have.
#[test]
fn keys_of_tables_are_dealt_to_as_many_files_as_tables_unless_told_otherwise() {
    let place = Place::new();
    let tables = place.build(4_000, &["--files", "5"]);
    let first = format!("{tables}/000001.sst");
    let compared = compare(&["--input", &first, &tables]);
    assert_eq!(compared["files"], 5, "{compared}");
    assert_eq!(figures(&compared), figures(&compare(&["--input", &place.text("keys.tsv"), "--files", "5"])));
    assert!(compared["notes"].to_string().contains("5 files, as many as tables"), "{compared}");
    assert_eq!(compare(&["--input", &tables, "--files", "2"])["files"], 2);
    assert_eq!(compare(&["--input", &first])["files"], 1);
    // Half of the keys are held out, so there are fewer keys than tables.
    let tiny = place.text("tiny");
    run(&["build", "--generate", "9", "--files", "9", "--out", &tiny]).expect_code(0);
    let compared = compare(&["--input", &tiny, "--holdout", "50%"]);
    assert_eq!(compared["files"], compared["keys"]);
}

#[test]
fn keys_come_from_tables_of_other_engines_alike() {
    let place = Place::new();
    // The rule that the tables' keys are made by: crates/interop/fixtures/README.md.
    let keys = place.write("keys", lines(0..6_000, |key| format!("{:08}", key * 18)));
    let expected = figures(&compare(&["--input", &keys]));
    let fixtures = format!("{}/../interop/fixtures", env!("CARGO_MANIFEST_DIR"));
    for table in
        ["rocksdb/11.8-bloom-fv7.sst", "leveldb/snappy.ldb", "pebble/rocksdbv2-bloom.sst", "pebble/leveldb-bloom.sst"]
    {
        // Its bytes say what it is.
        let unnamed = place.text("unnamed");
        fs::copy(format!("{fixtures}/{table}"), &unnamed).unwrap();
        assert_eq!(figures(&compare(&["--input", &unnamed])), expected, "{table}");
    }
    // All tables of LevelDB's directory, including those without keys and those whose keys follow other rules.
    let all = compare(&["--input", &format!("{fixtures}/leveldb"), "--files", "1"]);
    assert!(number(&all, "keys") + number(&all, "absent_keys") > 6_000.0, "{all}");
    assert_eq!(row(&all, "ribbon")["lost_keys"], 0);
    let stored = format!("{fixtures}/leveldb/snappy.ldb");
    run(&["compare", "--input", &keys, "--absent", &stored]).expect_error("all 6,000 keys are also in --input");
}

#[test]
fn keys_that_cannot_be_compared_on_are_refused_with_the_reason() {
    let place = Place::new();
    let keys = place.write("keys", lines(0..100, |key| format!("key{key}")));
    let (empty, none) = (place.write("empty", "\n"), place.text("none"));
    for (arguments, words) in [
        (&["--input", &none][..], "none"),
        (&["--input", &empty], "contains no key"),
        (&["--input", &keys, "--absent", &empty], "contains no key"),
        (&["--input", &keys, "--absent", &keys], "--absent: all 100 keys are also in --input"),
        (&["--input", &keys, "--holdout", "0.0001%"], "--holdout 0.0001% of 100 keys is none"),
        (&["--input", &keys, "--holdout", "99.9999%"], "--holdout 99.9999% of 100 keys is all"),
        (&["--input", &keys, "--holdout", "0%"], "expected a share between 0% and 100%"),
        (&["--input", &keys, "--holdout", "100%"], "expected a share between 0% and 100%"),
        (&["--input", &keys, "--holdout", "abc"], "such as 10%, got 'abc'"),
        (&["--input", &keys, "--holdout", "10"], "such as 10%, got '10'"),
        (&["--input", &keys, "--files", "101"], "--files: expected at most 9"),
        (&["--input", &keys, "--files", "0"], "--files"),
        (&["--input", &keys, "--fpr", "2"], "expected a number between 0 and 1"),
        (&["--input", &keys, "--fpr", "1e-30"], "no kind can build filters"),
        (&["--input", &keys, "--fpr", "0.1", "--bits-per-key", "9"], "cannot be used with"),
        (&["--input", &keys, "--absent", &keys, "--holdout", "5%"], "cannot be used with"),
        (&["--input", &place.text("")], "contains no table"),
        (&["--generate", "0"], "--generate"),
        (&["--generate", "9", "--input", &keys], "cannot be used with"),
        (&["--generate", "9", "--absent", &keys], "cannot be used with"),
        (&["--generate", "9", "--holdout", "5%"], "cannot be used with"),
        (&["--generate", "9", "--files", "10"], "--files: expected at most 9"),
        (&[], "required arguments"),
    ] {
        run(&[&["compare"], arguments].concat()).expect_error(words);
    }
    run_with_input(&["compare", "--input", "-", "--absent", "-"], b"a\nb\n").expect_error("only once");
}

#[test]
fn a_damaged_table_is_an_error_and_not_a_set_of_fewer_keys() {
    let place = Place::new();
    let tables = place.build(4_000, &["--files", "1"]);
    crate::common::flip(format!("{tables}/000001.sst"), 1_000);
    run(&["compare", "--input", &tables]).expect_error("checksum");
}

/// If the keys of one table cannot be read, the comparison uses the others, and reports that.
#[test]
fn what_cannot_be_read_is_left_out_and_told_with_how_to_get_its_keys() {
    let place = Place::new();
    let tables = place.build(4_000, &["--files", "2"]);
    let fixtures = format!("{}/../interop/fixtures/rocksdb", env!("CARGO_MANIFEST_DIR"));
    let sound = figures(&compare(&["--input", &tables]));
    for (name, fixture) in [("000008.sst", "11.8-codec-zstd-dictionary.sst"), ("000009.sst", "7.8-codec-bzip2.sst")] {
        fs::copy(format!("{fixtures}/{fixture}"), format!("{tables}/{name}")).unwrap();
    }
    let compared = compare(&["--input", &tables]);
    assert_eq!(figures(&compared), sound);
    let left_out: Vec<_> =
        compared["left_out"].as_array().unwrap().iter().map(|left| left["path"].as_str().unwrap()).collect();
    assert!(
        left_out.len() == 2 && left_out[0].ends_with("000008.sst") && left_out[1].ends_with("000009.sst"),
        "{compared}"
    );
    let page = run(&["compare", "--input", &tables]).expect_code(0).stdout;
    assert!(page.contains("sst_dump --file=TABLE --command=scan --output_hex | sed"), "{page}");
    let alone = format!("{tables}/000009.sst");
    run(&["compare", "--input", &alone]).expect_error("sst_dump --file=TABLE");
    run(&["get", "--keys-only", &alone]).expect_error("sst_dump --file=TABLE");

    fs::write(format!("{tables}/000003.sst"), "what is left of a table").unwrap();
    crate::common::flip(format!("{tables}/000002.sst"), 20_000);
    let damaged = run(&["compare", "--json", "--input", &tables]).expect_code(1).json();
    let why: Vec<_> =
        damaged["left_out"].as_array().unwrap().iter().map(|left| left["why"].as_str().unwrap()).collect();
    assert!(why.len() == 4 && why[0].contains("cut short"), "{why:?}");
    assert!(why[1].starts_with("all after its first 1,") && why[1].contains("checksum"), "{why:?}");
}

/// Returns the nodes of charts with this class: `wide` for large screens, `narrow` for phones.
fn charts<'a>(document: &'a Document<'_>, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.has_tag_name("svg") && node.attribute("class") == Some(class))
}

fn number_of(node: &Node<'_, '_>, attribute: &str) -> i32 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

/// Returns the colour and shape of a node, if it is a mark.
fn mark_of(node: &Node<'_, '_>) -> Option<(String, String)> {
    let colour = || ["fill", "stroke"].map(|name| node.attribute(name).unwrap_or("none")).concat();
    if node.has_tag_name("circle") {
        return (node.attribute("r") == Some("4")).then(|| (colour(), "circle".to_owned()));
    }
    let number = |text: &str| text.parse::<i32>().unwrap();
    let corner = |pair: &str| pair.split_once(',').map(|(x, y)| (number(x), number(y))).unwrap();
    let points = node.attribute("points").filter(|_| node.has_tag_name("polygon"))?;
    let corners: Vec<_> = points.split_whitespace().map(corner).collect();
    let shape: Vec<_> = corners.iter().map(|(x, y)| (x - corners[0].0, y - corners[0].1)).collect();
    Some((colour(), format!("{shape:?}")))
}

/// Fails if a chart of the page has an axis with fewer than three ticks, a falling axis that does not say so, two
/// series of one colour and mark, or labels that overlap. `lines` are the labels of series without marks. Returns the
/// labels of each chart.
pub(crate) fn check_charts(document: &Document<'_>, lines: &[&str]) -> Vec<BTreeSet<String>> {
    let (mut named, white) = (Vec::new(), ("#FFFFFFnone".to_owned(), "circle".to_owned()));
    for chart in charts(document, "wide").chain(charts(document, "narrow")) {
        let texts: Vec<_> = chart.descendants().filter(|node| node.has_tag_name("text")).collect();
        let words = |node: &Node<'_, '_>| node.text().unwrap().trim().to_owned();
        let anchored = |anchor: &str| {
            texts.iter().filter(|node| node.attribute("text-anchor") == Some(anchor)).copied().collect::<Vec<_>>()
        };
        let vertical: Vec<_> = anchored("end").into_iter().filter(|node| number_of(node, "x") < 64).collect();
        for ticks in [anchored("middle"), vertical] {
            let distinct: BTreeSet<_> = ticks.iter().map(words).collect();
            assert!(ticks.len() >= 3 && distinct.len() == ticks.len(), "{distinct:?}");
        }
        let titles: Vec<_> =
            anchored("end").iter().map(words).filter(|title| title.contains("positive rate")).collect();
        assert!(titles.iter().all(|title| title.ends_with("(falls to the right)")), "{titles:?}");

        let labels: Vec<_> = texts.iter().filter(|node| node.attribute("fill") == Some("#1C2430")).collect();
        let names: BTreeSet<_> =
            labels.iter().map(|node| words(node).trim_end_matches(" \u{2191}").to_owned()).collect();
        let marks: BTreeSet<_> = chart.descendants().filter_map(|node| mark_of(&node)).collect();
        let marked = names.iter().filter(|name| !lines.contains(&name.as_str())).count();
        assert_eq!(marks.iter().filter(|mark| **mark != white).count(), marked, "{marks:?} {names:?}");
        if chart.attribute("class") == Some("wide") {
            let mut heights: Vec<_> = labels.iter().map(|label| number_of(label, "y")).collect();
            heights.sort_unstable();
            assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 18), "{heights:?}");
        }
        named.push(names);
    }
    named
}

/// Measuring takes minutes, which are wasted if it ends without its files, or with a page that does not open.
#[test]
fn a_comparison_of_made_up_keys_is_a_page_and_figures_that_agree_and_need_nothing_else() {
    let place = Place::new();
    let out = place.text("new/compared");
    let printed = compare(&["--generate", "3000", "--out", &out]);
    assert_eq!(names(&out), ["compare.html", "compare.json"], "and no left-over");
    assert_eq!((&printed["keys"], &printed["files"]), (&3_000.into(), &1.into()));
    let mut json: Value = serde_json::from_slice(&fs::read(format!("{out}/compare.json")).unwrap()).unwrap();
    json["written"] = printed["written"].clone();
    assert_eq!(json, printed);
    check_curves(&printed["curves"]);
    // A logarithmic axis cannot show a rate of zero.
    let rates = printed["curves"]["rates"].as_array().unwrap().iter();
    let drawn = rates.filter(|point| point["observed_fpr"].as_f64().unwrap() > 4e-6);
    let drawn: BTreeSet<_> = drawn.map(|point| point["filter"].as_str().unwrap().to_owned()).collect();
    assert!(drawn.len() >= 10, "{drawn:?}");
    check_page(&fs::read_to_string(format!("{out}/compare.html")).unwrap(), &drawn);
}

/// Every kind has every figure, or a reason for its absence.
fn check_curves(curves: &Value) {
    let of = |section: &str| curves[section].as_array().unwrap();
    for filter in kind::all().iter().map(|entry| entry.name) {
        let count = |section: &str| of(section).iter().filter(|figure| figure["filter"] == filter).count();
        // Nine rates, and 100, 300, 1,000 and 3,000 keys.
        assert_eq!(count("rates") + count("by_keys") + count("omissions"), 9 + 4, "{filter}");
    }
    for point in of("rates") {
        let (observed, expected) = (number(point, "observed_fpr"), number(point, "expected_fpr"));
        let sigma = (expected / number(point, "probes")).sqrt();
        assert!((observed - expected).abs() < 0.35 * expected + 6.0 * sigma, "{point}");
        assert!(number(point, "bits_per_key") > -expected.log2(), "below the bound: {point}");
    }
    for row in of("by_keys") {
        let times = ["build_ns_per_key", "query_one_ns", "query_batch_ns"];
        assert!(times.iter().all(|time| number(row, time) > 0.0) && row["lost_keys"] == 0, "{row}");
    }
}

fn check_page(html: &str, drawn: &BTreeSet<String>) {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(html, options).unwrap();
    let labels = check_charts(&document, &["information bound"]);
    assert_eq!(labels.len(), 2 * 5, "five charts for two sizes of screens");
    assert!(drawn.is_subset(&labels[0]), "{drawn:?} {labels:?}");
    // Self-contained: nothing is loaded, and links lead to places of the page.
    for word in ["http:", "https:", "<script", "<img", "<link", "@import", "url(\""] {
        assert!(!html.contains(word), "{word}");
    }
    let ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    for link in document.descendants().filter_map(|node| node.attribute("href")) {
        assert!(ids.contains(&link.trim_start_matches('#')), "{link}");
    }
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an identifier stands twice");
}

#[test]
fn a_comparison_that_is_made_again_replaces_its_files_and_no_others() {
    let place = Place::new();
    let keys = place.write("keys", lines(0..300, |key| format!("key{key}")));
    let out = place.text("out");
    let comparing = ["compare", "--input", &keys, "--bits-per-key", "12", "--out", &out];
    fs::create_dir(&out).unwrap();
    for mine in ["out/compare.html", "out/compare.json"] {
        place.write(mine, "{\n  \"program\": \"of mine\"");
        run(&comparing).expect_error("was not written by this command");
        assert_eq!(names(&out).len(), 1, "nothing else is written");
        fs::remove_file(place.path(mine)).unwrap();
    }
    place.write("out/notes.txt", "mine");
    run(&comparing).expect_code(0);
    let text = run(&comparing).expect_code(0).stdout;
    assert!(text.contains("binary-fuse-4") && text.contains("wrote ") && text.contains("compare.html"), "{text}");
    assert_eq!(fs::read_to_string(place.path("out/notes.txt")).unwrap(), "mine");
    assert_eq!(names(&out), ["compare.html", "compare.json", "notes.txt"]);
    let command = compare(&comparing[1..])["command"].as_str().unwrap().to_owned();
    assert_eq!(command, format!("sstfilter compare --input {keys} --holdout 10% --bits-per-key 12 --out DIR"));
    for below in [format!("{keys}/below"), keys] {
        run(&["compare", "--generate", "9", "--out", &below]).expect_error("cannot create the directory");
    }
}

#[test]
fn made_up_keys_are_dealt_to_files_that_may_all_have_an_absent_key() {
    let compared = compare(&["--generate", "8000", "--files", "4", "--fpr", "0.02"]);
    assert_eq!((&compared["keys"], &compared["files"]), (&8_000.into(), &4.into()));
    assert_eq!((&compared["blocks_without_filters"], &compared["curves"]), (&4.0.into(), &Value::Null));
    for row in compared["rows"].as_array().unwrap() {
        let ratio = number(row, "observed_fpr") / number(row, "expected_fpr");
        assert!((0.65..1.35).contains(&ratio), "{row}");
        let expected = 4.0 * number(row, "expected_fpr");
        assert!((number(row, "expected_blocks_per_absent_key") - expected).abs() < 1e-9, "{row}");
        assert_eq!(row["lost_keys"], 0);
    }
}
