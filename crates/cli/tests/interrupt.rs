//! Ctrl-C during a build used to leave a temporary file as large as a table, which nobody looks for, and an empty
//! directory. An interrupted build leaves complete tables and nothing else, and its exit code shows the interruption. A
//! killed one leaves whole tables or nothing, and the next one removes the rest: a reader of half a table would lose
//! keys that the table's filter or index does not cover yet.
//!
//! A separate test program, because next to other tests, builds would not get far before they are killed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "../../../tests/common/effort.rs"]
mod effort;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use common::{Place, lines, names, program, run};
use sstfilter_table::{Table, TableOptions};

/// Returns the program with default signal handling, even if the tests were started with ignored signals, as a script
/// without job control starts its background jobs.
fn attentive_program() -> Command {
    const DEFAULTS: &str = "--default-signal=HUP,INT,TERM";
    // Only GNU's `env` has the option.
    let is_known = Command::new("env").args([DEFAULTS, "true"]).stderr(Stdio::null()).status();
    if !is_known.is_ok_and(|status| status.success()) {
        return program();
    }
    let mut command = Command::new("env");
    command.args([DEFAULTS, env!("CARGO_BIN_EXE_sstfilter")]);
    command
}

/// A build that never ends by itself.
struct Endless(Child);

impl Endless {
    fn spawn(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn build(out: &str, table_bytes: &str) -> Self {
        let arguments = ["build", "--generate", "999G", "--table-bytes", table_bytes, "--overwrite", "--out", out];
        Self::spawn(attentive_program().args(arguments))
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        kill(id, signal).unwrap();
    }

    /// Waits until `is_so`, which comes soon or never.
    fn wait_until(&mut self, is_so: impl Fn() -> bool) {
        self.wait_for(is_so, Duration::from_millis(5));
    }

    /// Checks after every `pause`.
    fn wait_for(&mut self, is_so: impl Fn() -> bool, pause: Duration) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(self.0.try_wait().unwrap().is_none(), "the build ended");
            assert!(Instant::now() < end, "the build did not get so far");
            thread::sleep(pause);
        }
    }

    /// Returns the exit code and the message.
    fn end(mut self) -> (Option<i32>, String) {
        for _ in 0..4_000 {
            if let Some(status) = self.0.try_wait().unwrap() {
                let mut stderr = String::new();
                self.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
                return (status.code(), stderr);
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.0.kill().unwrap();
        panic!("the build goes on");
    }
}

#[test]
fn a_build_that_is_told_to_end_leaves_complete_tables_and_nothing_else() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let place = Place::new();
        let out = place.text("tables");
        let mut build = Endless::build(&out, "192K");
        build.wait_until(|| place.path("tables/000003.sst").exists());
        build.signal(signal);
        let (ended, stderr) = build.end();
        assert_eq!(ended, Some(code), "{stderr}");
        let tables = run(&["verify", &out, "--json"]).expect_code(0).json()["sound"].clone();
        assert_eq!(stderr, format!("interrupted; complete tables in {out}: {tables}\n"));
        assert_eq!(names(&out).len(), tables, "something else was left: {:?}", names(&out));
    }
}

/// Returns the tables of a directory. All must be whole, with filters, and numbered from 1 without a gap, and all other
/// files temporary.
fn whole_tables(directory: &str) -> Vec<Vec<u8>> {
    let has_end = |name: &String, end| Path::new(name).extension().is_some_and(|extension| extension == end);
    let (tables, others): (Vec<_>, Vec<_>) = names(directory).into_iter().partition(|name| has_end(name, "sst"));
    for (number, name) in (1..).zip(&tables) {
        assert_eq!(*name, format!("{number:06}.sst"));
        let table = Table::open(format!("{directory}/{name}"), &TableOptions::default()).unwrap();
        table.verify().unwrap();
        assert!(table.filters().block().is_some(), "{name} has no filter");
    }
    assert!(others.iter().all(|name| name.starts_with(".sstfilter-") && has_end(name, "tmp")), "{others:?}");
    assert!(others.len() <= 1, "left-overs of earlier runs were not removed: {others:?}");
    tables.iter().map(|name| fs::read(format!("{directory}/{name}")).unwrap()).collect()
}

/// Returns the complete new tables of a build that keeps old ones until then.
fn new_tables(directory: &str) -> usize {
    let aside = names(directory).into_iter().filter(|name| name.starts_with(".sstfilter-"));
    aside.map(|name| names(Path::new(directory).join(name)).len().saturating_sub(1)).sum()
}

// promise: whole-tables
#[test]
fn a_build_over_old_tables_that_is_told_to_end_leaves_them_as_they_were() {
    let place = Place::new();
    let out = place.build(2_000, &["--files", "3"]);
    let before = (whole_tables(&out), names(&out));
    let mut build = Endless::build(&out, "192K");
    build.wait_until(|| new_tables(&out) >= 3);
    build.signal(Signal::SIGINT);
    let (ended, stderr) = build.end();
    assert_eq!(ended, Some(130), "{stderr}");
    assert_eq!(stderr, format!("interrupted; the old tables in {out} are unchanged\n"));
    assert!((whole_tables(&out), names(&out)) == before, "{:?}", names(&out));
}

/// Kills builds at different moments after they have begun, and calls `after` after each.
fn kill_builds(out: &str, mut after: impl FnMut()) {
    for round in 0..if effort::is_long() { 30 } else { 10 } {
        let mut build = Endless::build(out, "192K");
        build.wait_until(|| Path::new(out).exists());
        thread::sleep(Duration::from_millis(2 + round * 53 % 150));
        assert!(build.0.try_wait().unwrap().is_none(), "the build ended before it was killed");
        build.0.kill().unwrap();
        build.0.wait().unwrap();
        after();
    }
}

// promise: whole-tables
#[test]
fn a_killed_build_leaves_whole_tables_or_nothing() {
    let place = Place::new();
    let (out, mut tables, mut rests) = (place.text("tables"), 0, 0);
    kill_builds(&out, || {
        let whole = whole_tables(&out).len();
        (tables, rests) = (tables + whole, rests + names(&out).len() - whole);
        fs::remove_dir_all(&out).unwrap();
    });
    assert!(tables > 3, "killed too early to test anything: {tables} tables");
    assert!(rests > 0, "never killed within a table");
}

// promise: whole-tables
#[test]
fn a_killed_build_over_old_tables_leaves_them_as_they_were_and_the_next_one_removes_the_rest() {
    let place = Place::new();
    let out = place.build(20_000, &["--files", "5"]);
    let (before, mut complete) = (whole_tables(&out), 0);
    kill_builds(&out, || {
        assert!(whole_tables(&out) == before, "an old table was replaced before all new ones were complete");
        complete += new_tables(&out);
    });
    assert!(complete > 3, "killed too early to test anything: {complete} new tables");
    run(&["build", "--generate", "1000", "--overwrite", "--out", &out]).expect_code(0);
    assert_eq!(names(&out), ["000001.sst"]);
}

#[test]
fn a_rebuild_that_is_told_to_end_leaves_whole_sidecars_and_nothing_else() {
    let place = Place::new();
    let out = place.build(20_000, &["--files", "8"]);
    let names_before = names(&out);
    let again = vec![out.as_str(); 3_000];
    let mut rebuild = Endless::spawn(attentive_program().arg("rebuild").args(again));
    rebuild.wait_until(|| place.path("tables/000006.sst.filter").exists());
    rebuild.signal(Signal::SIGINT);
    let (ended, stderr) = rebuild.end();
    assert_eq!(ended, Some(130), "{stderr}");
    assert!(stderr.starts_with("interrupted; ") && stderr.ends_with(" rebuilt\n"), "{stderr}");
    run(&["verify", &out]).expect_code(0);
    let sidecars = names(&out).into_iter().filter(|name| !names_before.contains(name));
    let others: Vec<_> = sidecars.filter(|name| !name.ends_with(".sst.filter")).collect();
    assert!(others.is_empty(), "something else was left: {others:?}");
}

#[test]
fn a_map_that_is_not_completed_leaves_no_partial_maps() {
    let place = Place::new();
    fs::create_dir(place.path("lists")).unwrap();
    for list in 0..400 {
        place.write(&format!("lists/{list}"), lines(0..4_000, |key| format!("{list}-{key}")));
    }
    let (lists, out) = (place.text("lists"), place.text("a.map"));
    let arguments = ["map", "build", "--key-lists", &lists, "--bits", "30", "--memory-limit", "1K", "--out", &out];
    let mut build = Endless::spawn(attentive_program().args(arguments));
    build.wait_until(|| names(place.path("")).len() > 3);
    build.signal(Signal::SIGINT);
    assert_eq!(build.end(), (Some(130), "interrupted; no map was written\n".to_owned()));
    assert_eq!(names(place.path("")), ["lists"]);
}

#[test]
fn a_first_table_that_is_not_completed_leaves_no_directory() {
    let place = Place::new();
    let mut build = Endless::build(&place.text("a/b/tables"), "1T");
    let is_begun = || fs::read_dir(place.path("a/b/tables")).is_ok_and(|files| files.count() > 0);
    build.wait_until(is_begun);
    build.signal(Signal::SIGTERM);
    assert_eq!(build.end().0, Some(143));
    assert!(!place.path("a").exists());
}

#[test]
fn a_build_that_waits_for_its_input_ends_at_once_and_leaves_no_directory() {
    // Many directories, so that the signal comes before, while and after they are made.
    let deep = "a".to_owned() + &"/a".repeat(99);
    for depth in (0..100).step_by(9) {
        let place = Place::new();
        let arguments = ["build", "--input", "-", "--out", &place.text(&deep)];
        let mut build = Endless::spawn(attentive_program().args(arguments).stdin(Stdio::piped()));
        build.wait_for(|| place.path(&deep[..=2 * depth]).exists(), Duration::ZERO);
        build.signal(Signal::SIGINT);
        assert_eq!(build.end(), (Some(130), "interrupted\n".to_owned()));
        assert!(!place.path("a").exists());
    }
}

#[test]
fn json_has_one_object_also_after_a_signal() {
    let place = Place::new();
    let (tables, out) = (place.build(9, &[]), place.text("new"));
    for arguments in
        [&["build", "--json", "--input", "-", "--out", &out][..], &["probe", "--json", "--keys", "-", &tables]]
    {
        let mut command = attentive_program();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A pipe has room for less, so the program reads it by the end of this write, and waits for more.
        child.stdin.as_mut().unwrap().write_all(&b"key\n".repeat(100_000)).unwrap();
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
        let input = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(input);
        assert_eq!(output.status.code(), Some(143), "{arguments:?}");
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(object, serde_json::json!({ "error": "interrupted" }));
    }
}

/// `nohup` and scripts with background jobs start commands with ignored signals.
#[cfg(target_os = "linux")]
#[test]
fn signals_that_the_build_was_started_to_ignore_do_not_end_it() {
    let place = Place::new();
    let out = place.text("tables");
    let script = r#"trap "" INT HUP; exec "$0" build --generate 999G --table-bytes 192K --out "$1""#;
    let arguments = ["-c", script, env!("CARGO_BIN_EXE_sstfilter"), &out];
    let mut build = Endless::spawn(Command::new("sh").args(arguments));
    build.wait_until(|| place.path("tables/000001.sst").exists());
    build.signal(Signal::SIGINT);
    build.signal(Signal::SIGHUP);
    let seen = names(&out).len();
    build.wait_until(|| names(&out).len() > seen + 3);
    build.signal(Signal::SIGTERM);
    assert_eq!(build.end().0, Some(143));

    let mut build = Endless::build(&place.text("others"), "192K");
    build.wait_until(|| place.path("others/000001.sst").exists());
    build.signal(Signal::SIGHUP);
    assert_eq!(build.end().0, Some(129));
}
