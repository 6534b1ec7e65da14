//! Users choose a filter by the demonstration, and by a comparison on their own keys. The failures guarded against:
//! figures that differ from those of the filters that are then built, stored keys that count as absent, a rate that is
//! too precise for few probes, a kind that is left out silently, and success although a key was lost.

use std::fs;
use std::io::Read;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use serde_json::Value;
use sstfilter::kind;

use crate::common::{FIXTURES, Place, flip, json, lines, names, number, run};
use crate::report::{check_page, parsed};

/// Unpacks the names of Debian 12, and names of a later release that Debian 12 does not have.
fn debian(place: &Place) -> (String, String) {
    let unpack = |name: &str| {
        let packed = fs::read(format!("keys/{name}.gz")).unwrap();
        let mut text = String::new();
        GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
        place.write(name, text)
    };
    (unpack("debian-bookworm-packages.tsv"), unpack("debian-sid-only-packages.txt"))
}

fn row<'a>(compared: &'a Value, kind: &str) -> &'a Value {
    let mut rows = compared["compared"].as_array().unwrap().iter();
    rows.find(|row| row["requested"] == kind).unwrap_or_else(|| panic!("no {kind} in {compared}"))
}

fn compare(arguments: &[&str]) -> Value {
    json(&[&["compare"], arguments].concat(), 0)
}

fn says(compared: &Value, field: &str, words: &str) {
    assert!(compared[field].to_string().contains(words), "{words} in {field} of {compared}");
}

/// Fails unless each kind has the expected rate, within five standard errors, and all of its keys.
fn assert_as_expected(compared: &Value, probes: f64) {
    for row in compared["compared"].as_array().unwrap() {
        let (observed, expected) = (number(&row["observed_fpr"]), number(&row["expected_fpr"]));
        let sigma = (expected * (1.0 - expected) / probes).sqrt();
        assert!((observed - expected).abs() < 5.0 * sigma && row["lost_keys"] == 0, "{row}");
    }
}

#[test]
fn the_figures_are_those_of_the_tables_that_are_built_and_read() {
    let place = Place::new();
    let (stored, absent) = debian(&place);
    let compared = compare(&["--input", &stored, "--absent", &absent, "--fpr", "0.01"]);
    assert_eq!((&compared["keys"], &compared["absent_keys"]), (&63_666.into(), &22_721.into()));
    assert_as_expected(&compared, 22_721.0);
    for policy in kind::all().iter().map(|entry| entry.name).chain(["auto"]) {
        let out = place.text(&format!("tables-{policy}"));
        let build = ["build", "--json", "--input", &stored, "--out", &out, "--files", "1", "--policy", policy];
        let built = &run(&[&build, &["--fpr", "0.01"][..]].concat()).expect_code(0).json()["written"][0]["filter"];
        let row = row(&compared, policy);
        for field in ["kind", "expected_fpr"] {
            assert_eq!(row[field], built[field], "{row} {built}");
        }
        // In a table, a block has 8 bytes more: the fingerprint of the file that it is bound to.
        assert_eq!(row["filter_bytes"].as_u64().unwrap() + 8, built["filter_bytes"].as_u64().unwrap(), "{row} {built}");
        assert!(number(&row["build_ns"]) > 0.0 && number(&row["probe_ns"]) > 0.0, "{row}");
    }
    let many = compare(&["--input", &stored, "--absent", &absent, "--files", "70", "--bits-per-key", "10"]);
    let read = figure("lookups_in_70_files", &[("method", "bloom".into())], "block_reads");
    assert!((number(&row(&many, "bloom")["block_reads"]) - read).abs() < 1e-9, "{many}");
    assert!((69.9..70.0).contains(&number(&many["block_reads_without_filters"])), "{many}");
    // Too few keys in each file for Ribbon: left out with the reason, where the automatic policy takes Bloom.
    says(&many, "omissions", "ribbon with 10 bits per key: its policy builds a bloom filter instead (too few keys)");
    assert_eq!(row(&many, "auto")["kind"], "bloom");
    // 6.8 bits per key instead of 10: README.md.
    let text = run(&["compare", "--input", &stored, "--absent", &absent, "--fpr", "0.00973"]).expect_code(0).stdout;
    let words = "ribbon is smallest: 52.8 KiB instead of the 77.8 KiB of blocked Bloom, 32 % less, for ";
    assert!(text.contains(words) && text.contains(" +- ") && text.contains("auto builds ribbon"), "{text}");
}

#[test]
fn absent_keys_are_held_out_given_or_made_up_and_never_stored() {
    let place = Place::new();
    let (stored, _) = debian(&place);
    let [first, again] = [(); 2].map(|()| compare(&["--input", &stored]));
    let (keys, absent) = (number(&first["keys"]), number(&first["absent_keys"]));
    // Five standard errors of a tenth of 63,666 keys are 378.
    assert!((keys + absent - 63_666.0).abs() < 0.5 && (absent - 6_366.6).abs() < 378.0, "{first}");
    assert_as_expected(&first, absent);
    assert_eq!(row(&first, "xor")["observed_fpr"], row(&again, "xor")["observed_fpr"], "the same keys each time");
    says(&first, "absent_from", "held out (10% of the keys given)");

    let keys = place.write("keys", lines(0..3_000, |key| format!("key{key}")) + "key7\tagain\nkey7\n");
    let absent = place.write("absent", lines(2_990..4_500, |key| format!("key{key}")) + "key4000\n");
    let given = compare(&["--input", &keys, "--absent", &absent]);
    assert_eq!((&given["keys"], &given["absent_keys"]), (&3_000.into(), &1_500.into()));
    says(&given, "notes", "--input: 2 repeated keys dropped, because each key counts once");
    says(&given, "notes", "--absent: 10 keys dropped, because they are also in --input");
    assert_as_expected(&given, 1_500.0);
    let few = place.write("few", lines(5_000..5_100, |key| format!("key{key}")));
    says(&compare(&["--input", &keys, "--absent", &few]), "notes", "only 100 absent keys: observed rates are rough");

    let made_up = compare(&["--generate", "8000", "--files", "4", "--fpr", "0.02"]);
    assert_eq!(
        (&made_up["keys"], &made_up["dealt_files"], &made_up["curves"]),
        (&8_000.into(), &4.into(), &Value::Null)
    );
    assert_as_expected(&made_up, 4.0 * 32_768.0);
    let bloom = row(&made_up, "bloom");
    assert!((number(&bloom["expected_block_reads"]) - 4.0 * number(&bloom["expected_fpr"])).abs() < 1e-9, "{bloom}");
}

/// Returns the figures that the same keys must give, wherever they come from.
fn figures(compared: &Value) -> Vec<(Value, Value, Value)> {
    let figures = |row: &Value| (row["requested"].clone(), row["filter_bytes"].clone(), row["observed_fpr"].clone());
    compared["compared"].as_array().unwrap().iter().map(figures).collect()
}

#[test]
fn keys_come_from_files_tables_and_directories_of_any_engine_alike() {
    let place = Place::new();
    let tables = place.build(4_000, &["--files", "3"]);
    let keys = place.text("keys.tsv");
    let one_file = |input: &[&str]| figures(&compare(&[&["--files", "1", "--input"], input].concat()));
    let expected = one_file(&[&keys]);
    // Tables are recognized by their bytes, whatever their name; other files of a directory are skipped.
    let [first, second, third] = [1, 2, 3].map(|number| format!("{tables}/00000{number}.sst"));
    fs::rename(&first, format!("{tables}/table")).unwrap();
    fs::write(format!("{tables}/notes.txt"), "not a key\n").unwrap();
    assert_eq!(one_file(&[&tables]), expected);
    assert_eq!(one_file(&[&second, &format!("{tables}/table"), "--input", &third]), expected);
    // In one file, keys of many small tables would get filters that none of the tables can have.
    let dealt = compare(&["--input", &second, &tables]);
    assert_eq!(
        (&dealt["dealt_files"], figures(&dealt)),
        (&3.into(), figures(&compare(&["--input", &keys, "--files", "3"])))
    );
    says(&dealt, "notes", "3 files, as many as tables");
    says(&dealt, "notes", "notes.txt: skipped, because it is not a table");
    let tiny = place.text("tiny");
    run(&["build", "--generate", "9", "--files", "9", "--out", &tiny]).expect_code(0);
    let tiny = compare(&["--input", &tiny, "--holdout", "50%"]);
    assert_eq!(tiny["dealt_files"], tiny["keys"], "fewer keys than tables");

    // The rule that the tables' keys are made by: crates/interop/fixtures/README.md.
    let text = lines(0..6_000, |key| format!("{:08}", key * 18));
    let keys = place.write("keys", &text);
    let expected = one_file(&[&keys]);
    for table in ["rocksdb/11.8-bloom-fv7.sst", "leveldb/snappy.ldb", "pebble/leveldb-bloom.sst"] {
        let unnamed = place.text("unnamed");
        fs::copy(format!("{FIXTURES}/{table}"), &unnamed).unwrap();
        assert_eq!(one_file(&[&unnamed]), expected, "{table}");
    }
    run(&["compare", "--input", &keys, "--absent", &format!("{FIXTURES}/leveldb/snappy.ldb")])
        .expect_error("all 6,000 keys are also in --input");
    // Only live tables of a database count, and its other files are said in one line.
    let database = compare(&["--input", &format!("{FIXTURES}/databases/running/db")]);
    assert_eq!(database["dealt_files"], 2, "{database}");
    says(&database, "notes", "files of the engine, not tables: ");
    says(&database, "notes", "not in the live version of the database");
}

#[test]
fn what_cannot_be_read_is_left_out_with_the_reason() {
    let place = Place::new();
    let tables = place.build(4_000, &["--files", "2"]);
    let sound = figures(&compare(&["--input", &tables]));
    let unread = "rocksdb/11.8-codec-zstd-dictionary.sst";
    fs::copy(format!("{FIXTURES}/{unread}"), format!("{tables}/000008.sst")).unwrap();
    let compared = compare(&["--input", &tables]);
    assert_eq!(figures(&compared), sound);
    says(&compared, "not_read", "000008.sst: ");
    says(&compared, "notes", "sst_dump --file=TABLE --command=scan --output_hex | sed");
    run(&["compare", "--input", &format!("{tables}/000008.sst")]).expect_error("sst_dump --file=TABLE");
    fs::write(format!("{tables}/000003.sst"), "what is left of a table").unwrap();
    flip(format!("{tables}/000002.sst"), 20_000);
    let damaged = json(&["compare", "--input", &tables], 1);
    assert_eq!(damaged["not_read"].as_array().unwrap().len(), 3, "{damaged}");
    says(&damaged, "not_read", "000003.sst: ");
    says(&damaged, "not_read", "000002.sst: all after its first 1,");
}

/// Measuring takes minutes, which are wasted if it ends without its files, or with a page that does not open.
#[test]
fn a_page_and_figures_agree_need_nothing_else_and_replace_no_other_files() {
    let place = Place::new();
    let out = place.text("new/compared");
    let mut printed = compare(&["--generate", "3000", "--out", &out]);
    assert_eq!(names(&out), ["compare.html", "compare.json"], "and no left-over");
    assert_eq!(printed["written_files"].as_array().unwrap().len(), 2);
    printed["written_files"] = Value::Array(Vec::new());
    let json: Value = serde_json::from_slice(&fs::read(format!("{out}/compare.json")).unwrap()).unwrap();
    assert_eq!(json, printed);
    // Every kind has every figure, or a reason for its absence.
    let curves = &printed["curves"];
    let of = |section: &str| curves[section].as_array().unwrap();
    for kind in kind::all().iter().map(|entry| entry.name) {
        let rates = of("by_rate").iter().filter(|point| point["kind"] == kind).count();
        let by_keys = of("by_keys").iter().filter(|row| row["requested"] == kind).count();
        let omissions = printed["omissions"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
        let omissions = omissions.filter(|line| line.starts_with(&format!("{kind} with "))).count();
        // Nine rates, and 100, 300, 1,000 and 3,000 keys.
        assert_eq!(rates + by_keys + omissions, 9 + 4, "{kind}");
    }
    for point in of("by_rate") {
        let (observed, expected) = (number(&point["observed_fpr"]), number(&point["expected_fpr"]));
        let sigma = (expected / number(&point["probes"])).sqrt();
        assert!((observed - expected).abs() < 0.35 * expected + 6.0 * sigma, "{point}");
        assert!(number(&point["bits_per_key"]) > -expected.log2(), "below the bound: {point}");
    }
    let html = fs::read_to_string(format!("{out}/compare.html")).unwrap();
    let document = parsed(&html);
    check_page(&document, 5);
    // A logarithmic axis cannot show a rate of zero.
    let drawn = of("by_rate").iter().filter(|point| number(&point["observed_fpr"]) > 4e-6);
    for kind in drawn.map(|point| point["kind"].as_str().unwrap()) {
        assert!(document.descendants().any(|node| node.text().is_some_and(|text| text.trim() == kind)), "{kind}");
    }
    assert!(!html.contains("and 6 more"));

    let keys = place.write("keys", lines(0..300, |key| format!("key{key}")));
    let comparing = ["compare", "--input", &keys, "--bits-per-key", "12", "--out", &out];
    let command = run(&[&comparing[..], &["--json"]].concat()).expect_code(0).json()["command"].clone();
    assert_eq!(command, format!("sstfilter compare --input {keys} --holdout 10% --bits-per-key 12 --out DIR"));
    place.write("new/compared/compare.json", "{\n  \"program\": \"of mine\"");
    run(&comparing).expect_error("was not written by this command");
    assert_eq!(names(&out), ["compare.html", "compare.json"], "nothing else is written");
}

/// Returns a number that looks random, the same in each run.
fn scattered(number: usize) -> u64 {
    sstfilter::KeyHash::mix(number as u64).get()
}

#[test]
fn range_filters_are_measured_and_advised_by_the_shape_of_keys() {
    let place = Place::new();
    let compare = |lines: String, options: &[&str]| {
        let keys = place.write("keys", lines);
        let arguments = ["compare", "--json", "--keys-format", "hex", "--input", &keys, "--range-length"];
        run(&[&arguments, options].concat()).expect_code(0).json()
    };
    let rates = |compared: &Value| {
        let rate = |row: &Value, field: &str| row[field].as_f64().unwrap_or(f64::NAN);
        let rows = compared["range_filters"].as_array().unwrap().iter();
        rows.map(|row| [rate(row, "independent_fpr"), rate(row, "beside_fpr")]).collect::<Vec<_>>()
    };
    let few_rows = |number: usize| format!("{:016x}{:016x}", scattered(number / 4), scattered(number) >> 34);
    let few = compare(lines(0..20_000, few_rows), &["1024"]);
    assert_eq!((&few["keys_per_prefix"], &few["integer_bytes"]), (&4.into(), &8.into()), "{few}");
    let [ordered, hashed] = rates(&few)[..] else { panic!("{few}") };
    assert!(ordered[0] < 0.02 && ordered[1] > 0.9 && hashed[0] < 0.015 && hashed[1] < 0.015, "{few}");
    says(&few, "advice", "hashed: there are few rows per prefix (4 in the median)");
    let options = few["options"].as_str().unwrap();
    assert_eq!(options, "--range-filter hashed:1024:0.01:8 --range-prefix 8");
    // The options build the filter that was measured.
    let (keys, out) = (place.text("keys"), place.text("out"));
    let build = ["build", "--json", "--keys-format", "hex", "--input", &keys, "--files", "1", "--out", &out];
    let built = run(&[&build[..], &options.split(' ').collect::<Vec<_>>()].concat()).expect_code(0).json();
    let written = &built["written"][0]["range_filter"];
    let [measured, written] = [&few["range_filters"][1], written].map(|filter| number(&filter["bits_per_key"]));
    assert!((measured - written).abs() < 0.01, "{few} {built}");

    let dense = compare(lines(0..20_000, |key| format!("{:016x}", key * 3)), &["1024"]);
    assert!(rates(&dense)[0][1] == 0.0, "{dense}");
    says(&dense, "advice", "ordered: it has no false positives");
    let many_rows = |number: usize| format!("{:016x}{:016x}", scattered(number / 1_000), scattered(number) >> 34);
    let many = compare(lines(0..40_000, many_rows), &["64"]);
    assert_eq!(many["range_length"], 64);
    says(&many, "advice", "Use hashed if ranges begin next to keys");

    let names = lines(0..3_000, |name| format!("name-{}", scattered(name) >> (name % 40)));
    let (names, one) = (place.write("names", names), place.write("one", "k\n"));
    let text = run(&["compare", "--range-length", "9", "--input", &names]).expect_code(0).stdout;
    assert!(text.contains("hashed: not measured: keys of various lengths"), "{text}");
    assert!(text.contains("advice   ordered: "), "{text}");
    let arguments = ["compare", "--json", "--range-length", "9", "--range-prefix", "-", "--input", &names];
    let prefixed = run(&arguments).expect_code(0).json();
    assert_eq!(rates(&prefixed).len(), 2, "{prefixed}");
    run(&["compare", "--range-length", "9", "--input", &one]).expect_code(0);
}

/// The demonstration's report. It takes seconds, so it runs once for all tests.
fn report() -> &'static Value {
    static REPORT: OnceLock<Value> = OnceLock::new();
    REPORT.get_or_init(|| run(&["demo", "--json"]).expect_code(0).json())
}

/// Returns a figure of the row of `scene` that has these values.
fn figure(scene: &str, values: &[(&str, Value)], figure: &str) -> f64 {
    let mut rows = report()[scene].as_array().unwrap().iter();
    let row = rows.find(|row| values.iter().all(|(name, value)| &row[*name] == value));
    row.unwrap_or_else(|| panic!("{values:?} in {scene}"))[figure].as_f64().unwrap()
}

#[test]
fn the_figures_keep_their_bounds_and_no_key_is_lost() {
    let reads = |method: &str| figure("lookups_in_70_files", &[("method", method.into())], "block_reads");
    assert!((69.0..=70.0).contains(&reads("no filter")) && reads("bloom") <= 0.7 && reads("map of all files") < 0.02);
    let of_kind = |kind: &str, name: &str| figure("filters_in_one_file", &[("kind", kind.into())], name);
    assert!(of_kind("ribbon", "bits_per_key") < 0.72 * of_kind("bloom", "bits_per_key"));
    for kind in ["bloom", "ribbon"] {
        let (observed, margin) = (of_kind(kind, "observed_fpr"), of_kind(kind, "observed_fpr_margin"));
        assert!((observed - of_kind(kind, "expected_fpr")).abs() < 2.0 * margin, "{kind}");
    }
    let with_memory = |percent: u64, method: &str| {
        let row = [("memory_percent", percent.into()), ("method", method.into())];
        figure("lookups_with_less_memory", &row, "block_reads")
    };
    assert!(with_memory(25, "shrunk") <= 0.5 * with_memory(25, "kept or dropped"), "a quarter of the memory");
    assert!(with_memory(25, "shrunk partitions") <= 0.2 * with_memory(25, "kept or dropped"));
    let in_vain = |method: &str| {
        figure("scans_of_100_names", &[("stretch", 100.into()), ("method", method.into())], "reads_in_vain")
    };
    assert!(in_vain("no filter") > 40.0 && in_vain("ordered range filter") <= 0.1 * in_vain("no filter"));
    let scenes = ["lookups_in_70_files", "filters_in_one_file", "lookups_with_less_memory", "scans_of_100_names"];
    let lost: Vec<_> = scenes.iter().flat_map(|scene| report()[scene].as_array().unwrap()).collect();
    assert!(lost.len() == 3 + 2 + 8 + 4 && lost.iter().all(|row| row["lost_keys"] == 0), "{lost:?}");
    let text = run(&["demo"]).expect_code(0).stdout;
    assert!(text.contains("\n0 of 63,666 keys are lost."), "{text}");
    assert!(text.lines().filter(|line| !line.ends_with('.')).all(|line| line.chars().count() <= 100), "{text}");
}
