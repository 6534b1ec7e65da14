//! Makes each of the program's system calls on its files fail in turn. The failures guarded against: an unreadable
//! table that counts as missing, so that older values answer; half a table that is left; and a message that does not
//! name the file or the system's error.
//!
//! `faults/inject.c` runs the program and makes the call with a given number fail, by ptrace; it is compiled with `cc`.
//! If that is impossible, the tests report it and are skipped. It is a separate test program because traced processes
//! are slow next to other tests. By default, a sample of the calls is tried. `SSTFILTER_LONG=1 cargo test
//! --test faults -- --nocapture` tries all calls and prints their number.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "../../../tests/common/effort.rs"]
mod effort;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::{Place, lines, names, program, run, say_skipped};
use sstfilter_table::{Table, TableOptions};

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// Exit code of the injector if the system does not let it trace.
const CANNOT_TRACE: i32 = 77;

/// The fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Fails(i32),
    /// From this call on, all calls that create, grow or sync files fail.
    FailsFromThenOn(i32),
    /// A read or write of half the bytes.
    Short,
}

impl Fault {
    fn argument(self) -> String {
        match self {
            Self::Fails(code) => code.to_string(),
            Self::FailsFromThenOn(code) => format!("+{code}"),
            Self::Short => "short".to_owned(),
        }
    }

    /// Returns the system's message about it.
    fn cause(self) -> String {
        match self {
            Self::Fails(code) | Self::FailsFromThenOn(code) => io::Error::from_raw_os_error(code).to_string(),
            Self::Short => "nothing".to_owned(),
        }
    }
}

/// The call that failed, and its path.
#[derive(Debug)]
struct Hit {
    call: String,
    path: PathBuf,
}

struct Trial {
    code: i32,
    stdout: String,
    stderr: String,
    hit: Option<Hit>,
    calls: usize,
}

/// Compiles and tries the injector. Returns `None`, and reports why, if it cannot be compiled or does not work.
fn injector() -> Option<&'static Path> {
    static INJECTOR: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compiled = INJECTOR.get_or_init(|| {
        let tried = compile_injector().and_then(|program| try_injector(&program).map(|()| program));
        tried.map_err(|reason| say_skipped("all tests that make system calls fail", reason)).ok()
    });
    compiled.as_deref()
}

/// Compiles the injector under a temporary name and renames it, because other test processes may do so at the same
/// time.
fn compile_injector() -> Result<PathBuf, String> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Err("the registers of this CPU are not known".to_owned());
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (program, own) = (directory.join("inject"), directory.join(format!("inject-{}", std::process::id())));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/inject.c");
    let compiled = Command::new("cc").args(["-O1", "-o"]).arg(&own).arg(source).output();
    let compiled = compiled.map_err(|error| format!("cc cannot be run: {error}"))?;
    if !compiled.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&compiled.stderr)));
    }
    fs::rename(&own, &program).map_err(|error| format!("{}: {error}", own.display()))?;
    Ok(program)
}

/// Makes the shell open a file: once without a fault, which must succeed, and once with one, which must fail.
fn try_injector(program: &Path) -> Result<(), String> {
    let place = Place::new();
    let file = place.write("file", "");
    for (number, fires) in [("1000000", false), ("0", true)] {
        let mut command = Command::new(program);
        command.arg(file.as_str()).args([number, &EIO.to_string(), &place.text("log")]);
        let run = command.args(["/bin/sh", "-c", ": < \"$0\"", &file]).output();
        let run = run.map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
        let log = fs::read_to_string(place.path("log")).unwrap_or_default();
        let has_fired = !run.status.success() && log.ends_with(&format!(" {file}\n"));
        let has_not = run.status.success() && log.starts_with("calls ") && !log.starts_with("calls 0");
        if run.status.code() == Some(CANNOT_TRACE) || !(if fires { has_fired } else { has_not }) {
            let text = String::from_utf8_lossy(&run.stderr);
            return Err(format!("processes cannot be traced: {}, log {log:?}, {text}", run.status));
        }
    }
    Ok(())
}

/// A run without a fault, for comparison.
struct Sound {
    stdout: String,
    calls: usize,
    tables: Tables,
}

/// A command and the files that it works on.
struct Scenario {
    name: &'static str,
    place: Place,
    arguments: Vec<String>,
    writes: Writes,
    /// The tables before the command.
    old: Tables,
}

impl Scenario {
    /// Two tables of 20 keys each, a bare filter block, and a file of 30 keys.
    fn new(arguments: &[&'static str], writes: Writes) -> Self {
        let place = Place::new();
        fs::create_dir(place.path("work")).unwrap();
        let built = place.build(40, &["--files", "2"]);
        let block = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(BARE_BLOCK)).unwrap();
        fs::write(place.path("tables/bare.filter"), block).unwrap();
        fs::rename(built, place.path("old")).unwrap();
        place.write("new.tsv", lines(0..30, |key| format!("key{key:04}\tnew{key:04}")));
        let work = place.text("work");
        let (name, arguments) = (arguments[0], arguments.iter().map(|word| word.replace("WORK", &work)).collect());
        let mut scenario = Self { name, place, arguments, writes, old: Tables::new() };
        scenario.make_files();
        scenario.old = scenario.tables();
        assert_eq!(union(scenario.old.values()), build_of(40, "value"));
        scenario
    }

    fn make_files(&self) {
        let work = self.place.path("work");
        fs::remove_dir_all(&work).unwrap();
        fs::create_dir_all(work.join("tables")).unwrap();
        for name in names(self.place.path("old")) {
            fs::copy(self.place.path("old").join(&name), work.join("tables").join(&name)).unwrap();
        }
        fs::copy(self.place.path("new.tsv"), work.join("new.tsv")).unwrap();
    }

    /// Returns all tables with their entries.
    fn tables(&self) -> Tables {
        let paths = files_below(&self.place.path("work")).into_iter();
        let tables = paths.filter(|path| path.extension().is_some_and(|extension| extension == "sst"));
        tables.map(|path| (path.clone(), entries_of(&path, self.name))).collect()
    }

    /// Runs the command without a fault. The tables that it writes must contain all keys, each once.
    fn sound(&self, fault: Fault) -> Option<Sound> {
        let Trial { code, stdout, stderr, calls, .. } = self.trial(usize::MAX >> 1, fault)?;
        assert_eq!(code, 0, "{}: {stderr}", self.name);
        assert!(calls > 5, "{}: {calls} calls", self.name);
        let tables = self.tables();
        let made = || tables.iter().filter(|&(path, entries)| self.old.get(path) != Some(entries));
        if made().next().is_some() {
            assert_eq!(union(made().map(|(_, entries)| entries)), build_of(30, "new"), "{}", self.name);
        }
        Some(Sound { stdout, calls, tables })
    }

    fn trial(&self, number: usize, fault: Fault) -> Option<Trial> {
        if self.writes != Writes::No {
            self.make_files();
        }
        let log = self.place.path("log");
        let run = Command::new(injector()?)
            .arg(self.place.path("work"))
            .args([&number.to_string(), &fault.argument()])
            .arg(&log)
            .arg(program().get_program())
            .args(&self.arguments)
            .output()
            .unwrap();
        let log = fs::read_to_string(log).unwrap();
        let mut hit = None;
        let mut calls = 0;
        for (call, rest) in log.lines().filter_map(|line| line.split_once(' ')) {
            match call {
                "calls" => calls = rest.parse().unwrap(),
                _ => hit = Some(Hit { call: call.to_owned(), path: rest.into() }),
            }
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let code = run.status.code().unwrap();
        Some(Trial { code, stdout: text(run.stdout), stderr: text(run.stderr), hit, calls })
    }

    /// Tries `fault` at the sampled calls, and at others until [`has_told`]. Returns how often each outcome occurred.
    fn try_calls(&self, fault: Fault) -> BTreeMap<&'static str, usize> {
        let mut outcomes = BTreeMap::new();
        let Some(sound) = self.sound(fault) else { return outcomes };
        // By default, one of this many calls is tried; in the long form, all are.
        let every: usize = if self.writes == Writes::No { 5 } else { 13 };
        let every = effort::of_minutes(1, every.div_ceil(2), every);
        let sampled = (fault.argument().len() % every..sound.calls).step_by(every);
        let tried = sampled.len();
        for (position, number) in sampled.chain(0..sound.calls).enumerate() {
            if position >= tried && has_told(&outcomes, fault) {
                break;
            }
            let trial = self.trial(number, fault).unwrap();
            let outcome = self.check(&trial, &sound, fault);
            *outcomes.entry(outcome).or_insert(0) += 1;
        }
        println!("{}, {fault:?}: {} calls, {outcomes:?}", self.name, sound.calls);
        outcomes
    }

    fn check(&self, trial: &Trial, sound: &Sound, fault: Fault) -> &'static str {
        let story = format!(
            "{} {fault:?} at {:?}: code {}\n{}\n{}",
            self.name, trial.hit, trial.code, trial.stdout, trial.stderr
        );
        let Some(hit) = &trial.hit else {
            assert_eq!(trial.code, 0, "{story}");
            return "not applicable";
        };
        if hit.call == "close" && trial.code == 101 && trial.stderr.contains("closedir") {
            // The standard library panics if a listed directory cannot be closed. A build then removes the directory
            // that it created.
            return "std panics";
        }
        assert!(!trial.stderr.contains("panicked"), "{story}");
        self.check_files(is_removal(hit), sound, &story);
        if trial.code != 0 {
            self.check_old_tables(&story);
        }
        if trial.code == 0 {
            // A file whose place in the order is unknown may come last.
            let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
            let is_steady = self.writes != Writes::Yes;
            let is_sound = is_steady && sorted(&trial.stdout) == sorted(&sound.stdout);
            assert!(is_sound || is_absorbed(hit, trial, fault), "{story}");
            assert!(is_sound || !is_steady || names_file(&trial.stdout, hit), "{story}");
            return "absorbed";
        }
        assert_eq!(trial.code, 2, "{story}");
        let is_interrupted =
            fault == Fault::Fails(EINTR) && RETRIED.contains(&hit.call.as_str()) && !was_directory(&hit.path);
        assert!(fault != Fault::Short && !is_interrupted, "not taken up again: {story}");
        let text = format!("{}{}", trial.stderr, trial.stdout);
        assert!(text.contains(&fault.cause()) && names_file(&text, hit), "{story}");
        assert!(text.matches(&fault.cause()).count() <= text.lines().count(), "says it twice: {story}");
        "error"
    }

    /// Checks that every file named like a table or a report is whole, and that nothing else is left unless it could
    /// not be removed. A table must have all entries from before, or all entries of a run without a fault.
    fn check_files(&self, may_be_left: bool, sound: &Sound, story: &str) {
        let may_be_left = may_be_left || story.contains(COMPLETE);
        for path in files_below(&self.place.path("work")) {
            let aside = path.iter().find(|name| name.to_str().unwrap().starts_with(".sstfilter-"));
            assert!(may_be_left || aside.is_none(), "left over: {story}");
            // A table in the subdirectory counts as the table that it would be renamed to.
            let found = path.clone();
            let path: PathBuf = path.iter().filter(|&name| Some(name) != aside).collect();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("sst") => {
                    let entries = entries_of(&found, story);
                    let is_old = self.old.get(&path) == Some(&entries);
                    let is_new = sound.tables.get(&path) == Some(&entries);
                    assert!(is_old || is_new, "{} is of no build: {story}", path.display());
                }
                Some("html") => assert!(fs::read_to_string(&path).unwrap().trim_end().ends_with("</html>"), "{story}"),
                Some("json") => {
                    serde_json::from_str::<serde_json::Value>(&fs::read_to_string(&path).unwrap()).unwrap();
                }
                _ => {}
            }
        }
    }

    /// Checks that a failed build left all old tables, unless the new ones are complete.
    fn check_old_tables(&self, story: &str) {
        for (path, entries) in self.old.iter().filter(|_| !story.contains(COMPLETE)) {
            assert!(path.exists(), "{} went before the new tables were complete: {story}", path.display());
            assert_eq!(entries_of(path, story), *entries, "{}: {story}", path.display());
        }
    }
}

/// The message about new tables from the time on when old ones may be gone.
const COMPLETE: &str = "the new tables are complete, but some may still be in ";

const BARE_BLOCK: &str = "../../fixtures/v1/bloom-1000-keys-10-bits.block";

/// Whether the path is or was a directory: a failed build has removed those that it created. All files here have an
/// extension.
fn was_directory(path: &Path) -> bool {
    path.is_dir() || path.extension().is_none()
}

/// Calls on files that are repeated after a signal interrupts them. Signals do not interrupt the other calls.
const RETRIED: [&str; 7] = ["openat", "read", "pread64", "write", "fsync", "close", "fdatasync"];

/// Whether the program may continue after this fault.
fn is_absorbed(hit: &Hit, trial: &Trial, fault: Fault) -> bool {
    let is_taken_up_again = matches!(fault, Fault::Short | Fault::Fails(EINTR));
    match hit.call.as_str() {
        // In order: written data is synced before; locks may be unsupported; a useless file is removed; a length is
        // only a hint; and a path that may be a file is opened anyway.
        "close" | "flock" | "unlink" | "unlinkat" | "rmdir" => true,
        "statx" | "fstat" | "newfstatat" | "lseek" => hit.path.extension().is_none_or(|extension| extension != "sst"),
        // The program works without the filter, and reports that.
        "pread64" => is_taken_up_again || names_file(&format!("{}{}", trial.stderr, trial.stdout), hit),
        _ => is_taken_up_again,
    }
}

fn is_removal(hit: &Hit) -> bool {
    ["unlink", "unlinkat", "rmdir", "getdents64"].contains(&hit.call.as_str())
}

/// Whether the text names the file of the failed call. Messages about temporary files name their directory.
fn names_file(text: &str, hit: &Hit) -> bool {
    let is_temporary = hit.path.to_str().unwrap().contains("/.sstfilter-");
    let path = if is_temporary { hit.path.parent().unwrap() } else { &hit.path };
    text.contains(path.to_str().unwrap())
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;
type Tables = BTreeMap<PathBuf, Entries>;

/// Returns all entries of a table, which must be whole and not empty.
fn entries_of(path: &Path, story: &str) -> Entries {
    let table = Table::open(path, &TableOptions::default()).unwrap_or_else(|error| panic!("{error}: {story}"));
    table.verify().unwrap_or_else(|error| panic!("{error}: {story}"));
    let entries = table.iter().map(Result::unwrap).map(|entry| (entry.key.into(), entry.value.unwrap().into()));
    let entries: Entries = entries.collect();
    assert!(!entries.is_empty(), "a table without keys: {story}");
    entries
}

/// Returns the entries of tables that have no key in common.
fn union<'a>(tables: impl Iterator<Item = &'a Entries>) -> Entries {
    let mut all = Entries::new();
    for (key, value) in tables.flatten() {
        assert_eq!(all.insert(key.clone(), value.clone()), None, "{}", key.escape_ascii());
    }
    all
}

/// Returns `count` keys of one build, with its values.
fn build_of(count: usize, value: &str) -> Entries {
    let entry = |key| (format!("key{key:04}").into_bytes(), format!("{value}{key:04}").into_bytes());
    (0..count).map(entry).collect()
}

const ALL_FAULTS: [Fault; 4] = [Fault::Fails(EIO), Fault::Fails(EMFILE), Fault::Fails(EINTR), Fault::Short];

/// Whether the fault occurred at some call, and the program reported it if it must.
fn has_told(outcomes: &BTreeMap<&'static str, usize>, fault: Fault) -> bool {
    match fault {
        Fault::Fails(EIO) | Fault::FailsFromThenOn(_) => outcomes.contains_key("error"),
        Fault::Fails(_) | Fault::Short => outcomes.keys().any(|&outcome| outcome != "not applicable"),
    }
}

/// Whether the files are made again for each trial.
#[derive(Clone, Copy, PartialEq)]
enum Writes {
    No,
    /// Files, and the same standard output in every run.
    Steadily,
    Yes,
}

/// The failures guarded against: half a file, a file that counts as missing, damage that is none, and another answer.
#[test]
fn a_command_whose_calls_fail_gives_the_right_answer_or_says_which_file_failed() {
    const EIO_FROM_THEN_ON: Fault = Fault::FailsFromThenOn(EIO);
    const FULL: Fault = Fault::FailsFromThenOn(ENOSPC);
    let [eio, emfile, eintr, short] = ALL_FAULTS;
    let rows: [(&[&'static str], Writes, &[Fault]); 9] = [
        (
            &["build", "--input", "WORK/new.tsv", "--out", "WORK/a/b", "--files", "2"],
            Writes::Yes,
            &[eio, emfile, eintr, short, FULL, EIO_FROM_THEN_ON],
        ),
        (
            &["build", "--input", "WORK/new.tsv", "--out", "WORK/tables", "--files", "3", "--overwrite"],
            Writes::Yes,
            &[eio, emfile, eintr, short, FULL],
        ),
        (&["rebuild", "WORK/tables"], Writes::Steadily, &[eio, emfile, eintr, short, FULL]),
        (&["get", "WORK/tables", "key0000", "key0001", "key0039"], Writes::No, &ALL_FAULTS),
        (&["probe", "WORK/tables", "--keys", "WORK/new.tsv"], Writes::No, &ALL_FAULTS),
        (&["inspect", "WORK/tables/000001.sst", "WORK/tables/bare.filter"], Writes::No, &ALL_FAULTS),
        (&["verify", "WORK/tables"], Writes::No, &ALL_FAULTS),
        (&["compare", "--out", "WORK/compared", "--generate", "100"], Writes::Yes, &[eio, short]),
        // The program draws keys from a table even if its filter could not be read; there is no other effect.
        (&["report", "WORK/tables", "--out", "WORK/report"], Writes::Steadily, &[eio, eintr, short]),
    ];
    for (arguments, writes, faults) in rows {
        let scenario = Scenario::new(arguments, writes);
        for &fault in faults {
            let outcomes = scenario.try_calls(fault);
            if injector().is_none() {
                return;
            }
            assert!(has_told(&outcomes, fault), "{}, {fault:?}: {outcomes:?}", scenario.name);
        }
    }
}

/// Once, each of these was skipped silently, and older tables answered.
#[test]
fn what_has_a_tables_name_and_cannot_be_opened_is_an_error_of_every_command() {
    let make: [fn(&Path); 4] = [
        |path| symlink("nowhere", path).unwrap(),
        |path| symlink(path, path).unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
    ];
    for make in make {
        let place = Place::new();
        let out = place.build(100, &["--files", "2"]);
        let table = place.text("tables/000003.sst");
        make(Path::new(&table));
        run(&["get", &out, "key0000"]).expect_error(&table);
        for (command, words) in [
            (&["probe", &out, "--keys", &place.text("keys.tsv")][..], "without candidates               0"),
            (&["verify", &out], "1 unread"),
        ] {
            let told = run(command).expect_code(2).stdout;
            assert!(told.contains(&table) && told.contains(words), "{told}");
        }
        let code = run(&["inspect", &table]).code.unwrap();
        assert!(code == 1 || code == 2);
    }
}

/// Commands with their results, small and large.
fn commands(place: &Place) -> Vec<Vec<String>> {
    let keys = place.write("large", format!("large\t{}\n", "x".repeat(100_000)));
    let out = place.text("large-tables");
    run(&["build", "--input", &keys, "--out", &out]).expect_code(0);
    let all: [&[&str]; 12] = [
        &["get", &out, "large"],
        &["get", &out, "large", "large"],
        &["get", "--json", &out, "large"],
        &["probe", &out, "--keys", &keys],
        &["inspect", &format!("{out}/000001.sst")],
        &["verify", &out],
        &["advise", "kind", "1000"],
        &["build", "--generate", "10", "--overwrite", "--out", &place.text("fresh")],
        // The generator of completions panics when a write fails.
        &["completions", "bash"],
        &["completions", "man"],
        &["probe", "--help"],
        &["--version"],
    ];
    all.iter().map(|arguments| arguments.iter().map(|argument| (*argument).to_owned()).collect()).collect()
}

#[test]
fn a_full_standard_output_is_an_error_that_says_so_and_closed_streams_are_no_panic() {
    let place = Place::new();
    for arguments in commands(&place) {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let run = program().args(&arguments).stdout(full).output().unwrap();
        let text = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains("cannot write to standard output: No space left on device"), "{arguments:?}: {text}");
        for closing in [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"] {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("exec \"$@\" {closing}"), "sh"]).arg(program().get_program()).args(&arguments);
            let code = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().code();
            assert!(code == Some(0) || code == Some(2), "{arguments:?} {closing}: {code:?}");
        }
    }
    let fresh = entries_of(&place.path("fresh/000001.sst"), "the tables are there all the same");
    assert_eq!(fresh.len(), 10);
}

/// Beyond a limit for files, the system sends a signal.
#[test]
fn a_table_beyond_the_limit_for_files_is_an_error_and_leaves_what_was_there() {
    let (place, script) = (Place::new(), "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\"");
    let out = place.text("tables");
    for remains in ["0 tables before it are complete".to_owned(), format!("the old tables in {out} are unchanged")] {
        let mut limited = Command::new("sh");
        limited.args(["-c", script]).arg(program().get_program());
        let build = limited.args(["build", "--generate", "20000", "--out", &out, "--overwrite"]).output().unwrap();
        let text = String::from_utf8_lossy(&build.stderr);
        assert_eq!(build.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("000001.sst; {remains}")) && text.contains("File too large"), "{text}");
        assert!(!place.path("tables").exists() || names(&out) == ["000001.sst"], "{text}");
        run(&["build", "--generate", "100", "--overwrite", "--out", &out]).expect_code(0);
    }
    run(&["verify", &out]).expect_code(0);
}
