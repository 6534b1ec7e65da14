//! Behaviour of real file systems: files that change while they are open, things that are not files, full and read-only
//! disks, and a process that may open no more files.
//!
//! A test that needs its own limit or mount runs again in a child process.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use sstfilter_table::{Table, TableError, TableOptions, TableWriter};
use tempfile::TempDir;

use super::tables::{Entries, bytes_of, contents, entries, expect_io, lookup_of, options, write};

const ENOSPC: i32 = 28;
const EMFILE: i32 = 24;
const EFBIG: i32 = 27;
const EROFS: i32 = 30;

/// A directory with one table of 60 keys.
struct Place {
    directory: TempDir,
    path: PathBuf,
    entries: Entries,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("000001.sst");
        let entries = entries(0, 60, 20);
        fs::write(&path, bytes_of(&entries)).unwrap();
        Self { directory, path, entries }
    }

    fn join(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self) -> Table {
        open(&self.path).unwrap()
    }
}

fn open(path: &Path) -> Result<Table, TableError> {
    Table::open(path, &TableOptions::default())
}

/// Checks that every key is found with its value, or that its read fails. Returns the number of failures.
fn check_no_wrong_answer(table: &Table, entries: &Entries) -> usize {
    let mut failed = 0;
    for (key, _) in entries {
        match table.get(key) {
            Ok(found) => assert_eq!(found, lookup_of(entries, key)),
            Err(_) => failed += 1,
        }
    }
    failed
}

fn temporary_files(directory: &Path) -> usize {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with(".sstfilter-")).count()
}

#[test]
fn a_table_that_is_deleted_or_replaced_while_open_is_read_to_its_end() {
    let place = Place::new();
    let (replaced, newest) = (place.open(), entries(1, 30, 5));
    write(&options(), &place.path, &newest).unwrap();
    let deleted = place.open();
    fs::remove_file(&place.path).unwrap();
    assert_eq!(contents(&replaced).unwrap(), place.entries);
    assert_eq!(contents(&deleted).unwrap(), newest);
    assert!(matches!(open(&place.path), Err(TableError::Io { source, .. }) if source.kind() == ErrorKind::NotFound));
}

#[test]
fn a_table_cut_short_at_any_length_while_open_gives_errors_and_no_other_answers() {
    let bytes = bytes_of(&entries(0, 60, 20));
    for length in (0..bytes.len()).step_by(7) {
        let place = Place::new();
        let table = place.open();
        File::options().write(true).open(&place.path).unwrap().set_len(length as u64).unwrap();
        let failed = check_no_wrong_answer(&table, &place.entries);
        assert!(failed > 0 || length > bytes.len() / 2, "{length}");
        let error = table.verify().unwrap_err();
        assert!(error.to_string().contains("000001.sst"), "{error}");
        fs::write(&place.path, &bytes).unwrap();
        assert_eq!(contents(&table).unwrap(), place.entries, "nothing of the failure is kept");
    }
}

// promise: damage
// misuse: changed-bytes
#[test]
fn a_table_overwritten_while_open_gives_errors_or_what_it_had_in_memory() {
    let place = Place::new();
    let kept = Table::open(&place.path, &TableOptions::default().with_block_cache(1 << 30)).unwrap();
    assert_eq!(check_no_wrong_answer(&kept, &place.entries), 0);
    let table = place.open();
    table.get(&place.entries[0].0).unwrap();
    // The file of another table with the same keys and the same offsets of blocks.
    let other: Entries = place.entries.iter().map(|(key, value)| (key.clone(), value.clone().map(flipped))).collect();
    write(&options(), &place.join("other"), &other).unwrap();
    let bytes = fs::read(place.join("other")).unwrap();
    OpenOptions::new().write(true).open(&place.path).unwrap().write_all_at(&bytes, 0).unwrap();
    assert!(check_no_wrong_answer(&table, &place.entries) > 0);
    assert!(table.verify().is_err());
    assert_eq!(check_no_wrong_answer(&kept, &place.entries), 0, "all of it is in memory");
}

fn flipped(mut value: Vec<u8>) -> Vec<u8> {
    value.iter_mut().for_each(|byte| *byte ^= 1);
    value
}

// promise: safe-to-open
#[test]
fn what_is_no_file_is_refused_at_once_and_by_name() {
    let place = Place::new();
    let pipe = place.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    symlink(place.join("loop"), place.join("loop")).unwrap();
    symlink(place.join("missing"), place.join("dangling")).unwrap();
    symlink(&pipe, place.join("to-pipe")).unwrap();
    fs::create_dir(place.join("directory")).unwrap();
    let names = ["pipe", "to-pipe", "loop", "dangling", "directory", "000001.sst/below"].map(|name| place.join(name));
    for path in names.iter().map(PathBuf::as_path).chain(["/dev/zero", "/dev/full", "/dev/null"].map(Path::new)) {
        let error = open(path).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("opening ") && text.contains(path.to_str().unwrap()), "{text}");
    }
}

// promise: safe-to-open
#[test]
fn a_file_that_is_empty_or_vast_and_hollow_is_refused_and_takes_no_memory() {
    let place = Place::new();
    let path = place.join("hollow");
    for length in [0, 1, 63, 64, 4096, 1 << 40] {
        File::create(&path).unwrap().set_len(length).unwrap();
        let error = open(&path).unwrap_err();
        assert!(error.to_string().contains("hollow"), "{error}");
    }
    // A table after a hole, which its footer does not account for.
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_at(&bytes_of(&place.entries), 1 << 40).unwrap();
    file.flush().unwrap();
    assert!(matches!(open(&path), Err(TableError::FileLength { .. })));
}

#[test]
fn links_to_tables_are_read_and_a_new_table_replaces_the_link() {
    let place = Place::new();
    let link = place.join("link");
    symlink(&place.path, &link).unwrap();
    assert_eq!(contents(&open(&link).unwrap()).unwrap(), place.entries);
    let newest = entries(1, 10, 5);
    write(&options(), &link, &newest).unwrap();
    assert_eq!(contents(&open(&link).unwrap()).unwrap(), newest);
    assert_eq!(contents(&place.open()).unwrap(), place.entries);
    assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_table_has_the_permissions_of_any_other_new_file() {
    let place = Place::new();
    TableWriter::create(place.join("2.sst"), &options()).unwrap().finish().unwrap();
    fs::write(place.join("other"), b"").unwrap();
    let mode = |name| fs::metadata(place.join(name)).unwrap().permissions().mode();
    assert_eq!(mode("2.sst"), mode("other"));
}

#[test]
fn a_place_that_cannot_hold_a_table_is_refused_by_name() {
    let place = Place::new();
    symlink(place.join("loop"), place.join("loop")).unwrap();
    for path in [place.join("loop/1.sst"), place.join("000001.sst/1.sst"), "/dev/full/1.sst".into()] {
        let error = TableWriter::create(&path, &options()).unwrap_err();
        let TableError::Io { source, .. } = &error else { panic!("{error}") };
        assert!(source.raw_os_error().is_some() && error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

const CHILD: &str = "SSTFILTER_FAULTS_CHILD";

/// Output of the shell when the limit or mount for a test is set up.
const SET_UP: &str = "set up";

/// Whether this is the child process. Otherwise runs the test `name` in one that the shell prepares with `set_up`,
/// where `$D` is a directory.
fn is_child(name: &str, set_up: &str, directory: &Path) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let script = format!("{{ {set_up}; }} || exit; echo {SET_UP}; exec \"$@\"");
    let needs_mounts = set_up.contains("mount");
    let mut command = Command::new(if needs_mounts { "unshare" } else { "sh" });
    if needs_mounts {
        command.args(["-m", "sh"]);
    }
    command.args(["-c", &script, "sh"]).arg(std::env::current_exe().unwrap());
    let run = command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").env("D", directory).output();
    let run = match run {
        Ok(run) if run.stdout.starts_with(SET_UP.as_bytes()) => run,
        other => {
            // Bypasses the test harness, which hides the output of tests.
            let line = format!("\n#### skipped: {name}: `{set_up}` is not allowed here: {other:?}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return false;
        }
    };
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(text.contains("1 passed"), "{text}");
    false
}

fn directory_of_child() -> PathBuf {
    std::env::var_os("D").unwrap().into()
}

/// Tries to overwrite the table of [`Place`]. Expects the old one to remain, and no other file.
fn expect_no_table(path: &Path, entries: &Entries, code: i32) {
    let error = write(&options(), path, &super::tables::entries(1, 300, 2_000)).unwrap_err();
    expect_io(&error, path, code);
    assert_eq!(&contents(&open(path).unwrap()).unwrap(), entries);
    assert_eq!(temporary_files(path.parent().unwrap()), 0);
}

// promise: whole-tables
#[test]
fn a_read_only_file_system_is_an_error_and_changes_nothing() {
    let place = Place::new();
    let set_up = r#"mount --bind "$D" "$D" && mount -o remount,ro,bind "$D""#;
    if is_child("local::a_read_only_file_system_is_an_error_and_changes_nothing", set_up, place.directory.path()) {
        expect_no_table(&directory_of_child().join("000001.sst"), &place.entries, EROFS);
    }
}

// promise: whole-tables
#[test]
fn a_full_file_system_is_an_error_and_changes_nothing() {
    let place = Place::new();
    let set_up = r#"mount -t tmpfs -o size=64k none "$D""#;
    if is_child("local::a_full_file_system_is_an_error_and_changes_nothing", set_up, place.directory.path()) {
        let path = directory_of_child().join("000001.sst");
        write(&options(), &path, &place.entries).unwrap();
        expect_no_table(&path, &place.entries, ENOSPC);
        let newest = entries(2, 20, 20);
        write(&options(), &path, &newest).unwrap();
        assert_eq!(contents(&open(&path).unwrap()).unwrap(), newest, "the room is given back");
    }
}

#[test]
fn a_file_larger_than_the_process_may_write_is_an_error_and_changes_nothing() {
    let place = Place::new();
    let set_up = "{ trap '' XFSZ && ulimit -f 64; }";
    let name = "local::a_file_larger_than_the_process_may_write_is_an_error_and_changes_nothing";
    if is_child(name, set_up, place.directory.path()) {
        expect_no_table(&directory_of_child().join("000001.sst"), &place.entries, EFBIG);
    }
}

// promise: whole-tables
#[test]
fn a_process_out_of_descriptors_gets_errors_and_no_half_table() {
    let place = Place::new();
    let name = "local::a_process_out_of_descriptors_gets_errors_and_no_half_table";
    if !is_child(name, "ulimit -n 40", place.directory.path()) {
        return;
    }
    let path = directory_of_child().join("000001.sst");
    let table = open(&path).unwrap();
    let newest = entries(1, 30, 5);
    for left in 0..3 {
        let mut taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        taken.truncate(taken.len() - left);
        let (opened, written) = (open(&path).map(drop), write(&options(), &path, &newest));
        drop(taken);
        if left == 0 {
            expect_io(&opened.unwrap_err(), &path, EMFILE);
            expect_io(&written.unwrap_err(), &path, EMFILE);
            assert_eq!(contents(&open(&path).unwrap()).unwrap(), place.entries);
        } else if left == 1 {
            opened.unwrap();
            written.unwrap();
            assert_eq!(contents(&open(&path).unwrap()).unwrap(), newest);
        }
        assert_eq!(contents(&table).unwrap(), place.entries, "an open table needs no descriptor");
        assert_eq!(temporary_files(path.parent().unwrap()), 0);
    }
}
