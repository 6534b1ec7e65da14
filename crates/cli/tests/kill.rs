//! A killed build must leave whole tables or nothing: a reader of half a table would lose keys that the table's filter
//! or index does not cover yet. A separate test program, because next to other tests, builds would not get far before
//! they are killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "../../../tests/common/effort.rs"]
mod effort;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use common::{Place, names, program, run};
use sstfilter_table::{Table, TableOptions};

/// How often the program is killed.
fn kills() -> usize {
    if effort::is_long() { 60 } else { 20 }
}

/// A linear congruential generator (Knuth, MMIX): the same moments in every run.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Starts a build that takes far longer than `wait`, and kills it.
fn kill_after(out: &str, wait: Duration) {
    let mut child = program()
        .args(["build", "--generate", "500000000", "--table-bytes", "192K", "--overwrite", "--out", out])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(wait);
    assert!(child.try_wait().unwrap().is_none(), "the build ended before it was killed");
    child.kill().unwrap();
    child.wait().unwrap();
}

fn has_extension(name: &str, expected: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == expected)
}

/// Returns the number of tables. Checks that all are sound and numbered from 1 without a gap, and that all other files
/// are temporary.
fn sound_tables(directory: &Path) -> usize {
    let (tables, others): (Vec<_>, Vec<_>) = names(directory).into_iter().partition(|name| has_extension(name, "sst"));
    for (number, name) in (1..).zip(&tables) {
        assert_eq!(*name, format!("{number:06}.sst"));
        let table = Table::open(directory.join(name), &TableOptions::default()).unwrap();
        table.verify().unwrap();
        assert!(table.filters().block().is_some(), "{name} has no filter");
    }
    for name in &others {
        assert!(name.starts_with(".sstfilter-") && has_extension(name, "tmp"), "{name}");
    }
    assert!(others.len() <= 1, "left-overs of earlier runs were not removed: {others:?}");
    tables.len()
}

// promise: whole-tables
#[test]
fn a_killed_build_leaves_whole_tables_or_nothing() {
    let place = Place::new();
    let out = place.text("tables");
    let mut state = 0x5eed;
    let (mut tables_seen, mut leftovers_seen) = (0, 0);
    for _ in 0..kills() / 2 {
        kill_after(&out, Duration::from_millis(2 + next(&mut state) % 150));
        if !Path::new(&out).exists() {
            continue; // killed before it made its directory
        }
        tables_seen += sound_tables(Path::new(&out));
        leftovers_seen += names(&out).iter().filter(|name| has_extension(name, "tmp")).count();
        fs::remove_dir_all(&out).unwrap();
    }
    println!("{tables_seen} tables, {leftovers_seen} temporary files");
    assert!(tables_seen > kills() / 6, "killed too early to test anything: {tables_seen} tables");
    let too_few = if effort::is_long() { 5 } else { 0 };
    assert!(leftovers_seen > too_few, "never killed within a table: {leftovers_seen}");
}

// promise: whole-tables
#[test]
fn a_killed_build_over_old_tables_leaves_them_as_they_were() {
    let place = Place::new();
    let out = place.build(20_000, &["--files", "5"]);
    let tables = || names(&out).into_iter().filter(|name| has_extension(name, "sst")).collect::<Vec<_>>();
    let contents = || tables().iter().map(|name| fs::read(Path::new(&out).join(name)).unwrap()).collect::<Vec<_>>();
    let before = contents();
    let (mut state, mut complete_seen) = (0x01d, 0);
    for _ in 0..kills() / 2 {
        kill_after(&out, Duration::from_millis(2 + next(&mut state) % 150));
        assert_eq!(sound_tables(Path::new(&out)), 5);
        assert!(contents() == before, "an old table was replaced before all new ones were complete");
        let aside = names(&out).into_iter().filter(|name| has_extension(name, "tmp"));
        complete_seen += aside.map(|name| names(Path::new(&out).join(name)).len().saturating_sub(1)).sum::<usize>();
    }
    println!("{complete_seen} new tables");
    assert!(complete_seen > kills() / 6, "killed too early to test anything: {complete_seen} new tables");
    let arguments = ["build", "--generate", "1000", "--overwrite", "--out", &out];
    run(&arguments).expect_code(0);
    assert_eq!(names(&out), ["000001.sst"], "old tables and left-overs go");
}
