//! The JSON output is documented. The failure guarded against: a field that only the source explains.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::common::{Place, flip, lines, run};

/// Objects whose fields are names of an engine's properties, or of a kind's parameters.
const OPEN: [&str; 2] = ["properties", "parameters"];

fn fields_of(value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                fields.insert(name.clone());
                let is_open = OPEN.contains(&name.as_str()) && value.as_object().is_some_and(is_of_engine);
                if !is_open {
                    fields_of(value, fields);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields_of(value, fields)),
        _ => {}
    }
}

fn is_of_engine(object: &serde_json::Map<String, Value>) -> bool {
    !object.contains_key("smallest_key")
}

#[test]
fn every_field_of_json_is_on_the_page_of_fields() {
    let page = fs::read_to_string("JSON.md").unwrap();
    let documented: BTreeSet<_> = page.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let place = Place::new();
    let tables = place.build(3_000, &["--files", "2", "--range-filter", "ordered"]);
    let (keys, cut) = (place.text("keys.tsv"), place.text("cut"));
    let absent = place.write("absent", lines(0..500, |key| format!("absent{key}")));
    let first = format!("{tables}/000001.sst");
    let damaged = format!("{cut}/000001.sst");
    let [rocksdb, leveldb] = ["rocksdb/11.8-partitioned-ribbon.sst", "leveldb/6000-keys.ldb"]
        .map(|fixture| format!("../interop/fixtures/{fixture}"));
    let [block, taken, ranges, measured, report] =
        ["own.filter", "taken.filter", "ranges.filter", "measured", "report"].map(|name| place.text(name));
    let pairs = place.write("pairs", "key\tkey2\n");
    let runs: [&[&str]; 22] = [
        &["measure", "--max-keys", "1000", "--out", &measured],
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
        &["advise", "--ranges", &keys],
        &["advise", "--tables", &tables, &leveldb, "../interop/fixtures/rocksdb/7.8-no-policy.sst"],
        &["report", &tables, &leveldb, "../interop/fixtures/rocksdb/7.8-no-policy.sst", "--out", &report],
        &["verify", &tables, &rocksdb, &damaged],
        &["verify", &damaged],
        &["dump", &damaged, "--salvage"],
    ];
    let mut undocumented = BTreeSet::new();
    let mut judge = |report: &Value| {
        let mut fields = BTreeSet::new();
        fields_of(report, &mut fields);
        assert!(fields.len() > 3, "{report}");
        undocumented.extend(fields.into_iter().filter(|field| !documented.contains(field)));
    };
    judge(crate::demo::report());
    for arguments in &runs {
        if arguments == &["verify", &damaged] {
            flip(&damaged, 100);
        }
        judge(&run(&[arguments, &["--json"][..]].concat()).json());
    }
    for written in [format!("{measured}/measure.json"), format!("{report}/report.json")] {
        judge(&serde_json::from_slice(&fs::read(written).unwrap()).unwrap());
    }
    assert!(undocumented.is_empty(), "not in crates/cli/JSON.md: {undocumented:?}");
}
