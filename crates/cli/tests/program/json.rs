//! The JSON output is documented. The failures guarded against: a field that only the source explains, and a documented
//! field that no command prints, for which a program would wait in vain.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::common::{Place, flip, lines, run};

/// Objects whose fields are names of an engine's properties, or of a kind's parameters.
const OPEN: [&str; 2] = ["properties", "parameters"];

/// Adds the names of all fields; those of open objects to the second set.
fn add_fields(value: &Value, [fields, open]: [&mut BTreeSet<String>; 2]) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                fields.insert(name.clone());
                match value.as_object().filter(|object| OPEN.contains(&name.as_str()) && is_of_engine(object)) {
                    Some(object) => open.extend(object.keys().cloned()),
                    None => add_fields(value, [fields, open]),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| add_fields(value, [fields, open])),
        _ => {}
    }
}

/// Returns the words in backticks, and those of them that are names of fields for certain: words in the first column of
/// a table of fields, and words of several parts. Any other word may also be a value or a command.
fn words_of(page: &str) -> [BTreeSet<String>; 2] {
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let is_name = |word: &String| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let (mut certain, mut is_of_fields) = (BTreeSet::new(), false);
    for line in page.lines() {
        let first = line.strip_prefix("| ").and_then(|row| row.split(" | ").next());
        is_of_fields = first.is_some_and(|first| first == "field" || is_of_fields);
        let first = quoted(first.filter(|_| is_of_fields).unwrap_or_default());
        certain.extend(first.into_iter().chain(quoted(line).into_iter().filter(|word| word.contains('_'))));
    }
    certain.retain(is_name);
    [quoted(page), certain]
}

fn is_of_engine(object: &serde_json::Map<String, Value>) -> bool {
    !object.contains_key("smallest_key")
}

#[test]
fn every_field_of_json_is_on_the_page_of_fields_and_no_other() {
    let [documented, certain] = words_of(&fs::read_to_string("JSON.md").unwrap());
    let place = Place::new();
    let tables = place.build(3_000, &["--files", "2", "--range-filter", "ordered"]);
    let (keys, cut) = (place.text("keys.tsv"), place.text("cut"));
    let absent = place.write("absent", lines(0..500, |key| format!("absent{key}")));
    let first = format!("{tables}/000001.sst");
    let damaged = format!("{cut}/000001.sst");
    let [rocksdb, leveldb] = ["rocksdb/11.8-partitioned-ribbon.sst", "leveldb/6000-keys.ldb"]
        .map(|fixture| format!("../interop/fixtures/{fixture}"));
    let [block, taken, ranges, compared, report] =
        ["own.filter", "taken.filter", "ranges.filter", "compared", "report"].map(|name| place.text(name));
    let pairs = place.write("pairs", "key\tkey2\n");
    let [list, map, merged] = ["list", "a.map", "merged.map"].map(|name| place.text(name));
    let runs: [&[&str]; 29] = [
        &["compare", "--generate", "1000", "--out", &compared],
        &["build", "--input", &keys, "--out", &cut, "--partition-bytes", "1K"],
        &["rebuild", &first],
        &["filter", "build", "--keys", &keys, "--out", &block],
        &["filter", "build", "--keys", &keys, "--out", &ranges, "--range-filter", "hashed:1024", "--range-prefix", "3"],
        &["filter", "extract", &first, "--out", &taken],
        &["get", &tables, "key0001", "none"],
        &["scan", &tables, "key0001", "key0009"],
        &["probe", &tables, &cut, &leveldb, "--keys", &keys, "--per-key"],
        &["probe", &tables, "--range", "key", "key2"],
        &["probe", &tables, "--ranges", &pairs, "--per-range"],
        &[
            "inspect",
            &tables,
            &cut,
            &block,
            &taken,
            &ranges,
            "../../fixtures/v1/partitioned-by-key-bloom.filter",
            "../interop/fixtures/rocksdb",
            "../interop/fixtures/pebble",
            &format!("{first}.filter"),
            &rocksdb,
            &leveldb,
            "--absent",
            &absent,
        ],
        &["compare", "--input", &keys],
        &["advise", "--keys", "1e6"],
        &["advise", "--keys", "1e6", "--updates", "remove"],
        &["advise", "--levels", "40K/4,1e5,1e6"],
        &["advise", "files", "70", "1e4", "10"],
        &["advise", "--ranges", &keys],
        &["advise", "--tables", &tables, &leveldb, "../interop/fixtures/rocksdb/7.8-no-policy.sst"],
        &["report", &tables, &leveldb, "../interop/fixtures/rocksdb/7.8-no-policy.sst", "--out", &report],
        &["verify", &tables, &rocksdb, &damaged],
        &["map", "build", &tables, "--out", &map],
        &["map", "merge", &map, "--out", &merged],
        &["map", "probe", &map, "--keys", &keys, "--per-key"],
        &["map", "info", &map, "--files"],
        &["map", "build", "--key-lists", &list, "--out", &map, "--overwrite"],
        &["map", "verify", &map, "--key-lists", &list],
        &["verify", &damaged],
        &["dump", &damaged, "--salvage"],
    ];
    let (mut printed, mut open) = (BTreeSet::new(), BTreeSet::new());
    let mut judge = |report: &Value| {
        let is_list = report["files"].is_array() || report["maps"].is_array();
        assert!(report.as_object().unwrap().len() > 3 || is_list, "{report}");
        add_fields(report, [&mut printed, &mut open]);
    };
    judge(crate::demo::report());
    for arguments in &runs {
        // A key that the map of the earlier list does not find.
        if arguments.starts_with(&["map", "build", "--key-lists"]) {
            fs::write(&list, "key\n").unwrap();
        } else if arguments.starts_with(&["map", "verify"]) {
            fs::write(&list, "another key\n").unwrap();
        }
        if arguments == &["verify", &damaged] {
            flip(&damaged, 100);
        }
        judge(&run(&[arguments, &["--json"][..]].concat()).json());
    }
    for written in [format!("{compared}/compare.json"), format!("{report}/report.json")] {
        judge(&serde_json::from_slice(&fs::read(written).unwrap()).unwrap());
    }
    let undocumented: Vec<_> = printed.difference(&documented).collect();
    assert!(undocumented.is_empty(), "not in crates/cli/JSON.md: {undocumented:?}");
    let unprinted: Vec<_> = certain.difference(&printed).filter(|name| !open.contains(*name)).collect();
    assert!(unprinted.is_empty(), "in crates/cli/JSON.md, but printed by no command: {unprinted:?}");
}

/// The first line of the part of the page that is generated.
const GENERATED: &str = "<!-- Generated from here on: SSTFILTER_BLESS=1 cargo test -p sstfilter-cli json -->\n";

#[test]
fn the_generated_part_of_the_page_is_that_of_the_records() {
    let page = fs::read_to_string("JSON.md").unwrap();
    let (written, generated) = page.split_once(GENERATED).unwrap();
    let expected = sstfilter_cli::json_page();
    if std::env::var_os("SSTFILTER_BLESS").is_some() {
        return fs::write("JSON.md", format!("{written}{GENERATED}{expected}")).unwrap();
    }
    assert_eq!(generated, expected, "SSTFILTER_BLESS=1 writes the page");
}
