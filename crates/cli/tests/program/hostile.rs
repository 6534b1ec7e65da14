//! Files that never end, that claim a size they do not have, or whose names are commands to a terminal. Such a file in
//! a directory of tables once made `inspect` wait forever, used all memory, or added a forged line to the report.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{Place, program, run};
use crate::effort;
use crate::report::parsed;

/// Runs the program with a limit on memory, in KiB, and fails if it does not end.
fn run_within(kibibytes: u64, arguments: &[&str], input: Stdio) -> (Option<i32>, String) {
    let script = format!("ulimit -v {kibibytes}; exec \"$0\" \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).arg(program().get_program()).args(arguments);
    let mut child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..6_000 {
        if child.try_wait().unwrap().is_some() {
            let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
            assert!(!text.contains("panicked"), "{arguments:?}: {text}");
            return (status.code(), text);
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("{arguments:?} does not end");
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// All commands that read tables, on the table of a directory, and the directory itself.
fn commands_on_tables<'a>(directory: &'a str, table: &'a str, keys: &'a str, new: &'a str) -> Vec<Vec<&'a str>> {
    vec![
        vec!["get", directory, "key0001"],
        vec!["get", table, "key0001"],
        vec!["get", directory, "--range", "key0001", "key0003"],
        vec!["probe", directory, "--keys", keys],
        vec!["probe", table, "--range", "a", "b"],
        vec!["report", directory],
        vec!["get", table],
        vec!["filter", table, "--out", new, "--overwrite"],
        vec!["inspect", table],
        vec!["inspect", table, "--absent", keys],
        vec!["verify", directory],
        vec!["compare", "--input", directory],
        vec!["advise", "levels", directory],
        vec!["rebuild", directory],
        vec!["build", "--generate", "10", "--out", directory, "--overwrite"],
    ]
}

// promise: safe-to-open
#[test]
fn no_command_waits_for_a_pipe_beside_a_table() {
    for name in ["000001.sst.filter", "000002.sst.filter", "000002.filter", "CURRENT", "notes"] {
        let place = Place::new();
        let out = place.build(100, &[]);
        make_pipe(&place.path("tables").join(name));
        let (table, keys, new) = (format!("{out}/000001.sst"), place.text("keys.tsv"), place.text("new"));
        let before = fs::read(&table).unwrap();
        for arguments in commands_on_tables(&out, &table, &keys, &new) {
            let (code, text) = run_within(4_000_000, &arguments, Stdio::null());
            assert!(code.is_some(), "{arguments:?}: {text}");
            let is_replaced = name == "000002.filter" || name == "notes";
            assert!(arguments[0] != "build" || code == Some(if is_replaced { 0 } else { 2 }), "{name}: {text}");
            assert!(arguments[0] == "build" || fs::read(&table).unwrap() == before);
        }
    }
    // A pipe in place of the manifest that names the comparator of LevelDB's tables.
    let place = Place::new();
    let table = place.text("000005.ldb");
    fs::copy("../interop/fixtures/leveldb/6000-keys.ldb", &table).unwrap();
    place.write("CURRENT", "MANIFEST-000002\n");
    make_pipe(&place.path("MANIFEST-000002"));
    run_within(4_000_000, &["inspect", &table], Stdio::null());
    fs::remove_file(place.path("MANIFEST-000002")).unwrap();
    File::create(place.path("MANIFEST-000002")).unwrap().set_len(1 << 40).unwrap();
    let (code, text) = run_within(2_000_000, &["inspect", &table], Stdio::null());
    assert!(code == Some(0) && text.contains("LevelDB"), "{text}");
}

/// Creates a sparse file of 3 GiB that ends like the one at `path`.
fn hollow(place: &Place, name: &str, path: &str) -> String {
    let bytes = fs::read(path).unwrap();
    let end = &bytes[bytes.len().saturating_sub(4_000)..];
    let mut file = File::create(place.path(name)).unwrap();
    file.seek(SeekFrom::Start(3 << 30)).unwrap();
    file.write_all(end).unwrap();
    place.text(name)
}

// promise: safe-to-open
#[test]
fn hollow_filters_take_no_memory() {
    let place = Place::new();
    let keys = place.write("keys", "a\nb\n");
    for file in [
        "bloom-1000-keys-10-bits.block",
        "bloom-bound-to-file-7.block",
        "range-ordered-fruit.block",
        "partitioned-by-key-bloom.filter",
        "sidecar-2000-entries-bloom.filter",
        "table-2000-entries-ribbon.sst",
    ] {
        let path = hollow(&place, "hollow", &format!("../../fixtures/v1/{file}"));
        for arguments in [&["verify", &path][..], &["inspect", &path], &["probe", &path, "--keys", &keys]] {
            let (code, text) = run_within(2_000_000, arguments, Stdio::null());
            let says_length = text.contains("322122") || text.contains("3,22");
            assert!(code == Some(1) && says_length, "{arguments:?} of {file}: {code:?} {text}");
        }
        run_within(2_000_000, &["filter", &path, "--out", &place.text("new")], Stdio::null());
    }
    let out = place.build(100, &[]);
    hollow(&place, "tables/000001.sst.filter", "../../fixtures/v1/sidecar-2000-entries-bloom.filter");
    for command in [["verify", &out], ["inspect", &format!("{out}/000001.sst")]] {
        let (code, text) = run_within(2_000_000, &command, Stdio::null());
        assert!(code == Some(1) && text.contains("sidecar"), "{text}");
    }
}

/// The long form runs every command with every format; otherwise, the formats take turns.
// promise: safe-to-open
#[test]
fn keys_without_an_end_are_refused_before_they_take_the_memory() {
    let place = Place::new();
    let out = place.build(10, &[]);
    let new = place.text("new");
    let commands = [
        &["probe", &out, "--keys", "/dev/zero"][..],
        &["compare", "--input", "/dev/zero"],
        &["build", "--out", &new, "--input", "/dev/zero"],
        &["get", &out, "--keys-only", "--keys", "/dev/zero"],
        &["filter", "--out", &new, "--keys", "/dev/zero"],
        &["inspect", &format!("{out}/000001.sst"), "--absent", "/dev/zero"],
        &["compare", "--range-length", "9", "--input", "/dev/zero"],
    ];
    let step = effort::sample(4);
    for (number, command) in commands.into_iter().enumerate() {
        for format in ["lines", "crlf", "nul", "hex"].into_iter().skip(number % step).step_by(step) {
            let (code, text) = run_within(1_500_000, &[command, &["--keys-format", format]].concat(), Stdio::null());
            let words = "/dev/zero: expected keys of up to 64.0 MiB";
            assert!(code == Some(2) && text.contains(words), "{command:?} {format}: {text}");
        }
    }
    // A wrong path of a seed must not be read to its end, which may be far away.
    File::create(&new).unwrap().set_len(1 << 40).unwrap();
    for seed in ["/dev/zero", &new] {
        let (code, text) = run_within(1_500_000, &["verify", &out, "--secret-seed-file", seed], Stdio::null());
        let words = "expected a secret seed of 8 bytes or 16 hexadecimal digits, got more than 64 bytes";
        assert!(code == Some(2) && text.contains(words), "{seed}: {text}");
    }
    let mut endless = Command::new("tr");
    endless.args(["\\0", "x"]).stdin(File::open("/dev/zero").unwrap());
    let mut endless = endless.stdout(Stdio::piped()).spawn().unwrap();
    let (code, text) = run_within(1_500_000, &["probe", &out, "--keys", "-"], endless.stdout.take().unwrap().into());
    assert!(code == Some(2) && text.contains("standard input: expected keys of up to 64.0 MiB"), "{text}");
    endless.kill().unwrap();
    endless.wait().unwrap();
}

/// Names that clear the screen, add a line, reverse the text, are not text, or are markup.
const NAMES: [(&[u8], &str); 5] = [
    (b"<script>&'1", "<script>&'1"),
    (b"a\x1b[2J\nEVIL 000009.sst: sound", r"a\x1b[2J\nEVIL 000009.sst: sound"),
    (b"\xff\xfe\t", r"\xff\xfe\t"),
    ("b\u{202e}\u{9b}\\".as_bytes(), r"b\xe2\x80\xae\xc2\x9b\\"),
    (b"c\r\x07\x7f", r"c\r\x07\x7f"),
];

/// Returns the output of a command, which must contain no control characters except line ends.
fn printed(arguments: &[&OsStr]) -> String {
    let Output { stdout, stderr, .. } = program().args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8([stdout, stderr].concat()).unwrap_or_else(|_| panic!("no text: {arguments:?}"));
    let drives = |character: char| character.is_control() && character != '\n' || character == '\u{202e}';
    assert!(!text.contains(drives), "{arguments:?}: {text:?}");
    assert!(text.lines().all(|line| !line.starts_with("EVIL")), "{arguments:?}: {text}");
    text
}

// promise: safe-to-open
#[test]
fn names_of_files_reach_no_terminal_raw_and_can_be_recognised() {
    let place = Place::new();
    let built = place.build(100, &[]);
    let keys = place.write("keys", "key0001\n");
    for (name, shown) in NAMES {
        let directory = place.path("named");
        let named = |end: &str| directory.join(OsStr::from_bytes(&[name, end.as_bytes()].concat()));
        fs::create_dir(&directory).unwrap();
        fs::copy(format!("{built}/000001.sst"), named(".sst")).unwrap();
        fs::write(named(".filter"), "no filter").unwrap();
        fs::write(named(" of another sort"), "no table").unwrap();
        let (table, missing, page) = (named(".sst"), named("missing"), place.path("page"));
        let words = |line: &'static str| {
            let word = |word: &'static str| match word {
                "DIR" => directory.as_os_str(),
                "TABLE" => table.as_os_str(),
                "MISSING" => missing.as_os_str(),
                "KEYS" => keys.as_ref(),
                "PAGE" => page.as_os_str(),
                word => word.as_ref(),
            };
            line.split(' ').map(word).collect::<Vec<&OsStr>>()
        };
        for line in [
            "report DIR --out PAGE",
            "inspect TABLE",
            "verify DIR",
            "get DIR key0001",
            "get MISSING key0001",
            "get MISSING --range a b",
            "get MISSING",
            "probe DIR --keys KEYS",
            "probe DIR --keys MISSING",
            "probe DIR --range a b",
            "rebuild TABLE",
            "filter TABLE --out TABLE",
            "build --generate 9 --out DIR",
        ] {
            let text = printed(&words(line));
            // A rebuild that succeeds sums up.
            assert!(text.contains(shown) || line.starts_with("rebuild"), "{line}: {shown} in {text}");
            let json = program().args(words(line)).arg("--json").stdin(Stdio::null()).output().unwrap().stdout;
            let json = String::from_utf8(json).unwrap().replace("\\\\", "\\");
            assert!(json.is_empty() || json.contains(shown), "{line}: {shown} in {json}");
        }
        let page = fs::read_to_string(page.join("report.html")).unwrap();
        let document = parsed(&page);
        let has = |words: &str| document.descendants().any(|node| node.text().is_some_and(|text| text.contains(words)));
        assert!(has(shown), "{shown} in {page}");
        // Rows of keys and tables, with tabs between columns.
        let listed = program().args(words("probe DIR --list all --keys KEYS")).output().unwrap().stdout;
        let listed = String::from_utf8(listed).unwrap();
        let columns: Vec<_> = listed.trim_end().split('\t').collect();
        assert!(listed.lines().count() == 1 && columns.len() == 4 && columns[2].contains(shown), "{listed:?}");
        fs::remove_dir_all(directory).unwrap();
    }
}

// promise: safe-to-open
#[test]
fn what_is_no_file_is_refused_by_every_command() {
    let place = Place::new();
    let keys = place.write("keys", "key0001\n");
    make_pipe(&place.path("pipe"));
    let (pipe, new) = (place.text("pipe"), place.text("new"));
    for path in [pipe.as_str(), "/dev/zero", "/dev/null"] {
        for arguments in commands_on_tables(path, path, &keys, &new) {
            if arguments[0] == "compare" && path == pipe {
                continue; // keys may come through a pipe, and are waited for
            }
            let (code, text) = run_within(4_000_000, &arguments, Stdio::null());
            assert!(code == Some(1) || code == Some(2), "{arguments:?}: {code:?} {text}");
            assert!(text.contains(path), "{arguments:?}: {text}");
        }
    }
    let (code, text) = run_within(4_000_000, &["build", "--generate", "5", "--out", &pipe], Stdio::null());
    assert!(code == Some(2) && text.contains("expected a directory"), "{text}");
    let script = "printf 'a\\t1\\nb\\t2\\n' > \"$0\" & exec \"$1\" build --input \"$0\" --out \"$2\"";
    let mut build = Command::new("sh");
    build.args(["-c", script, &pipe]).arg(program().get_program()).arg(&new).output().unwrap();
    assert_eq!(run(&["get", &new, "b"]).expect_code(0).stdout, "2\n", "keys may come through a pipe");
}
