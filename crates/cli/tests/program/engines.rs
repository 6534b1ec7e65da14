//! Tables and databases that other engines wrote (`crates/interop/fixtures/README.md`), and what these engines say of
//! them.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::common::{Place, lines, names};

pub(crate) const FIXTURES: &str = "../interop/fixtures";

/// Absent keys of each fixture.
pub(crate) const ABSENT: usize = 100_000;

/// The tables by path, as their manifest describes them.
pub(crate) fn fixtures() -> BTreeMap<String, Value> {
    let manifest = fs::read(format!("{FIXTURES}/manifest.json")).unwrap();
    let fixtures: Vec<Value> = serde_json::from_slice(&manifest).unwrap();
    fixtures.into_iter().map(|fixture| (format!("{FIXTURES}/{}", fixture["file"].as_str().unwrap()), fixture)).collect()
}

/// The stored and the absent keys of a table whose keys are eight decimal digits.
pub(crate) fn decimal_keys(fixture: &Value) -> [String; 2] {
    let [count, stride] = ["count", "stride"].map(|name| index(&fixture[name]));
    [
        lines(0..count, |key| format!("{:08}", key * stride)),
        lines(0..ABSENT, |key| format!("{:08}", key + key / (stride - 1) + 1)),
    ]
}

/// The directory of a database.
pub(crate) fn database(name: &str) -> String {
    format!("{FIXTURES}/databases/{name}/db")
}

/// What the engine says of a database.
pub(crate) fn expected(name: &str) -> Value {
    serde_json::from_slice(&fs::read(format!("{FIXTURES}/databases/{name}/expected.json")).unwrap()).unwrap()
}

/// The absent keys that the engine looked up in a family, of `expected.json`.
pub(crate) fn absent_keys(family: &Value) -> String {
    let [first, step, count] = ["first", "step", "absent"].map(|name| index(&family[name]));
    lines(0..count, |i| format!("user:{:08}", first + i / 2 * step + 1 + i % 2))
}

/// Copies a database, so that it can be damaged.
pub(crate) fn copied(place: &Place, name: &str) -> String {
    fs::create_dir(place.path(name)).unwrap();
    for file in names(database(name)) {
        fs::copy(format!("{}/{file}", database(name)), place.path(name).join(file)).unwrap();
    }
    place.text(name)
}

pub(crate) fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("expected a number, got {of}"))
}

pub(crate) fn index(of: &Value) -> usize {
    usize::try_from(of.as_u64().unwrap()).unwrap()
}

pub(crate) fn array<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().unwrap_or_else(|| panic!("{name} in {of}"))
}

pub(crate) fn file_name(path: &Value) -> &str {
    path.as_str().unwrap().rsplit('/').next().unwrap()
}
