//! Runs the program as a user does.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The result of one run.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in:\n{}\n{}", self.stdout, self.stderr))
    }

    /// Expects the exit code, and no panic whatever the code.
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Expects a failure whose message contains `words`.
    pub fn expect_error(self, words: &str) {
        let run = self.expect_code(2);
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
        assert!(run.stderr.contains(words), "expected '{words}' in: {}", run.stderr);
    }
}

pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sstfilter"))
}

pub fn run(arguments: &[&str]) -> Run {
    Run::of(program().args(arguments).output().unwrap())
}

/// Runs a command with `--json`, and expects the exit code.
pub fn json(arguments: &[&str], code: i32) -> Value {
    run(&[arguments, &["--json"]].concat()).expect_code(code).json()
}

/// Returns the first group of `probe --json` with these arguments.
pub fn probed(arguments: &[&str], code: i32) -> Value {
    json(&[&["probe"], arguments].concat(), code)["groups"][0].take()
}

/// Runs the program with `input` as its standard input.
pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Run {
    let mut child =
        program().args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // An error is fine: a command closes its input early if it needs no more of it.
    let _ = stdin.write_all(input);
    drop(stdin);
    Run::of(child.wait_with_output().unwrap())
}

/// Reports what is not tested. Bypasses the test harness, which hides the output of tests.
pub fn say_skipped(what: &str, reason: impl std::fmt::Display) {
    std::io::stderr().write_all(format!("\n#### skipped: {what}: {reason}\n").as_bytes()).unwrap();
}

/// A temporary directory that is removed when dropped.
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), contents).unwrap();
        self.text(name)
    }

    /// Builds tables of `keys` (`key0000<TAB>value0000` ...) in `tables` with further options.
    pub fn build(&self, keys: usize, options: &[&str]) -> String {
        let lines = lines(0..keys, |key| format!("key{key:04}\tvalue{key:04}"));
        let input = self.write("keys.tsv", lines);
        let out = self.text("tables");
        run(&[&["build", "--input", &input, "--out", &out], options].concat()).expect_code(0);
        out
    }
}

/// Returns what `inspect` says about one file.
pub fn inspected(arguments: &[&str], code: i32) -> Value {
    json(&[&["inspect"], arguments].concat(), code)["files"][0].take()
}

/// Returns offset and bytes of the part of a file whose name begins like this.
pub fn part(file: &str, name: &str) -> (usize, usize) {
    let report = run(&["inspect", "--json", file]).json()["files"][0].take();
    let is_named = |part: &&Value| part["part"].as_str().unwrap().starts_with(name);
    let part = report["parts"].as_array().unwrap().iter().find(is_named).unwrap_or_else(|| panic!("{report}")).clone();
    let number = |field: &str| usize::try_from(part[field].as_u64().unwrap()).unwrap();
    (number("offset"), number("part_bytes"))
}

/// Returns one line for each number.
pub fn lines(numbers: std::ops::Range<usize>, line: impl Fn(usize) -> String) -> String {
    numbers.fold(String::new(), |text, number| text + &line(number) + "\n")
}

/// Returns the names of the files in `directory`, sorted.
pub fn names(directory: impl AsRef<Path>) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Flips one bit of the file.
pub fn flip(path: impl AsRef<Path>, offset: usize) {
    let mut bytes = fs::read(&path).unwrap();
    bytes[offset] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// A table in a manifest: its number, level, bytes, and smallest and largest key.
pub type ManifestTable<'a> = (u8, u8, u64, [&'a str; 2]);

/// Writes the file CURRENT in `directory`, and a manifest with these tables.
pub fn write_manifest(place: &Place, directory: &str, tables: &[ManifestTable<'_>]) {
    // The next file number.
    let mut record = vec![1, 3, 100];
    for &(number, level, bytes, ends) in tables {
        record.extend([100, level, number]);
        let mut rest = bytes;
        while rest > 127 {
            record.push(rest.to_le_bytes()[0] | 128);
            rest >>= 7;
        }
        record.push(rest.to_le_bytes()[0]);
        for end in ends {
            record.push(u8::try_from(end.len() + 8).unwrap());
            record.extend([end.as_bytes(), &[1; 8]].concat());
        }
        record.extend([1, 1]);
    }
    let directory = place.path(directory);
    fs::write(directory.join("CURRENT"), "MANIFEST-000002\n").unwrap();
    fs::write(directory.join("MANIFEST-000002"), log_record(&record[1..])).unwrap();
}

/// Returns a whole record of a log or a manifest, with its checksum.
pub fn log_record(contents: &[u8]) -> Vec<u8> {
    const WHOLE: u8 = 1;
    let record = [&[WHOLE], contents].concat();
    let crc = crc32c::crc32c(&record).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    [&crc[..], &u16::try_from(contents.len()).unwrap().to_le_bytes(), &record].concat()
}

// Tables and databases that other engines wrote (`crates/interop/fixtures/README.md`), and what these engines say of
// them.

pub const FIXTURES: &str = "../interop/fixtures";

/// Absent keys of each fixture.
pub const ABSENT: usize = 100_000;

/// The tables by path, as their manifest describes them.
pub fn fixtures() -> BTreeMap<String, Value> {
    let manifest = fs::read(format!("{FIXTURES}/manifest.json")).unwrap();
    let fixtures: Vec<Value> = serde_json::from_slice(&manifest).unwrap();
    fixtures.into_iter().map(|fixture| (format!("{FIXTURES}/{}", fixture["file"].as_str().unwrap()), fixture)).collect()
}

/// The stored and the absent keys of a table whose keys are eight decimal digits.
pub fn decimal_keys(fixture: &Value) -> [String; 2] {
    let [count, stride] = ["count", "stride"].map(|name| index(&fixture[name]));
    [
        lines(0..count, |key| format!("{:08}", key * stride)),
        lines(0..ABSENT, |key| format!("{:08}", key + key / (stride - 1) + 1)),
    ]
}

/// The directory of a database.
pub fn database(name: &str) -> String {
    format!("{FIXTURES}/databases/{name}/db")
}

/// The engine's own account of a database.
pub fn expected(name: &str) -> Value {
    serde_json::from_slice(&fs::read(format!("{FIXTURES}/databases/{name}/expected.json")).unwrap()).unwrap()
}

/// The absent keys that the engine looked up in a family, of `expected.json`.
pub fn absent_keys(family: &Value) -> String {
    let [first, step, count] = ["first", "step", "absent"].map(|name| index(&family[name]));
    lines(0..count, |i| format!("user:{:08}", first + i / 2 * step + 1 + i % 2))
}

/// Copies a database, so that it can be damaged.
pub fn copied(place: &Place, name: &str) -> String {
    fs::create_dir(place.path(name)).unwrap();
    for file in names(database(name)) {
        fs::copy(format!("{}/{file}", database(name)), place.path(name).join(file)).unwrap();
    }
    place.text(name)
}

pub fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("expected a number, got {of}"))
}

pub fn index(of: &Value) -> usize {
    usize::try_from(of.as_u64().unwrap()).unwrap()
}

pub fn array<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().unwrap_or_else(|| panic!("{name} in {of}"))
}

pub fn file_name(path: &Value) -> &str {
    path.as_str().unwrap().rsplit('/').next().unwrap()
}
