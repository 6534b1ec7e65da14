//! Every operation of writing a table fails in turn, or the power fails before, between and after all of them.

use std::io::Write;
use std::path::Path;

use sstfilter_table::{FileSystem, Table, TableError, TableWriter};

use super::disk::{Disk, EIO, ENOSPC, Fault, Met, Op, at_every_operation};
use super::tables::{Entries, PATH, bytes_of, contents, entries, expect_io, found, read_options, write, write_options};

/// `EMFILE`: too many open files.
const EMFILE: i32 = 24;
const EDQUOT: i32 = 122;

/// Returns a disk without a table and one with an older table; a small table and one that takes several writes.
fn scenarios() -> Vec<(Option<Entries>, Entries)> {
    let old = entries(0, 50, 20);
    let new = [entries(1, 30, 10), entries(1, 40, 20_000)];
    new.into_iter().flat_map(|new| [(None, new.clone()), (Some(old.clone()), new)]).collect()
}

fn disk_with(old: Option<&Entries>) -> Disk {
    let bytes = old.map(bytes_of);
    Disk::with_files(bytes.as_deref().map(|bytes| (PATH, bytes)).as_slice())
}

fn step_named(op: Op) -> &'static str {
    match op {
        Op::Create => "creating a temporary file for",
        Op::Write => "writing",
        Op::Sync => "syncing /db",
        Op::Persist => "renaming a temporary file to",
        Op::SyncDirectory => "syncing the directory of",
        Op::Remove | Op::Open | Op::Length | Op::Read => unreachable!("no step of writing"),
    }
}

/// Checks that the error says which step failed, on which file, and why.
fn check_error(error: &TableError, op: Op, fault: Fault) {
    let code = match fault {
        Fault::Once(code) | Fault::Lasting(code) => code,
        Fault::ShortWrite => ENOSPC,
        _ => {
            let is_named = matches!(error, TableError::Io { path: Some(path), source, .. }
                if path == Path::new(PATH) && source.kind() == std::io::ErrorKind::WriteZero);
            assert!(is_named, "{error}");
            return;
        }
    };
    let text = expect_io(error, Path::new(PATH), code);
    let is_step = text.starts_with(step_named(op)) || (op == Op::Write && text.starts_with("flushing"));
    assert!(is_step, "{op:?}: {text}");
}

/// Fails every operation in turn, and returns the number of points tried.
fn try_every_operation(old: Option<&Entries>, new: &Entries, fault: Fault) -> usize {
    let step = |disk: &Disk| write(&write_options(disk), Path::new(PATH), new);
    at_every_operation(
        fault,
        || disk_with(old),
        step,
        |disk, written, Met { befallen, then, story }| {
            let is_published = match (*befallen, &written) {
                (None | Some(Op::Remove), Ok(_)) => true,
                (Some(Op::Write), Ok(_)) if fault == Fault::Interrupted => true,
                (Some(op), Err(error)) => {
                    check_error(error, op, fault);
                    // By then the rename is done, so the new table is there in spite of the error.
                    op == Op::SyncDirectory
                }
                (_, written) => panic!("{story}: {written:?}"),
            };
            if matches!(fault, Fault::Once(_) | Fault::Lasting(_) | Fault::WriteZero) && written.is_err() {
                // In particular, no failed sync is retried, and no incomplete file renamed.
                assert!(then.iter().all(|op| *op == Op::Remove), "{story}: then {then:?}");
            }
            let expected = if is_published { Some(new) } else { old };
            assert_eq!(found(disk).as_ref(), expected, "{story}");
            let others = disk.names().len() - usize::from(expected.is_some());
            // If every operation fails, so does the removal of the temporary file.
            let may_be_left = matches!(fault, Fault::Lasting(_)) && *befallen != Some(Op::Create);
            assert!(others == 0 || (may_be_left && others == 1), "{story}: {:?}", disk.names());
        },
    )
}

// promise: whole-tables
#[test]
fn whichever_operation_of_a_writer_fails_there_is_the_old_table_or_the_new_one_and_no_other_file() {
    let faults = [
        Fault::Once(EIO),
        Fault::Once(ENOSPC),
        Fault::Once(EMFILE),
        Fault::Once(EDQUOT),
        Fault::Lasting(EIO),
        Fault::Lasting(ENOSPC),
        Fault::ShortWrite,
        Fault::WriteZero,
        Fault::Interrupted,
    ];
    let mut total = 0;
    for fault in faults {
        let points: usize = scenarios().iter().map(|(old, new)| try_every_operation(old.as_ref(), new, fault)).sum();
        println!("writing, {fault:?}: {points} points");
        assert!(points >= 4, "{fault:?}");
        total += points;
    }
    println!("writing: {total} points");
}

#[test]
fn an_unfinished_writer_removes_its_file_and_a_failed_removal_is_no_panic() {
    for is_removable in [true, false] {
        let disk = disk_with(None);
        let mut writer = TableWriter::create(PATH, &write_options(&disk)).unwrap();
        writer.add(b"key", b"value").unwrap();
        if !is_removable {
            disk.plan(0, Fault::Lasting(EIO));
        }
        drop(writer);
        assert_eq!(disk.names().is_empty(), is_removable);
    }
}

/// Checks that the table found is one of `allowed`, and that at most one writer's file remains, without a table's name.
fn check_after_cut(disk: &Disk, allowed: &[Option<&Entries>], story: &str) {
    let found = found(disk);
    assert!(allowed.contains(&found.as_ref()), "{story}: {} keys", found.map_or(0, |found| found.len()));
    // After a power cut, nobody removes the temporary file.
    let others: Vec<_> = disk.names().into_iter().filter(|name| name != Path::new(PATH)).collect();
    assert!(others.len() <= 1, "{story}: {others:?}");
    assert!(others.iter().all(|name| name.extension().is_some_and(|extension| extension == "tmp")), "{others:?}");
}

// promise: whole-tables
#[test]
fn after_a_power_cut_at_any_operation_there_is_the_whole_old_table_or_the_whole_new_one() {
    let (mut points, mut states) = (0, 0);
    // The power fails at an operation, or some time after one that failed.
    for fault in [Fault::PowerCut, Fault::Once(EIO)] {
        for (old, new) in scenarios() {
            let step = |disk: &Disk| write(&write_options(disk), Path::new(PATH), &new);
            points += at_every_operation(
                fault,
                || disk_with(old.as_ref()),
                step,
                |disk, written, met| {
                    // A table whose `finish` succeeded is there. Otherwise, it is whole or absent.
                    let allowed = if written.is_ok() { vec![Some(&new)] } else { vec![old.as_ref(), Some(&new)] };
                    for disk in disk.remounted() {
                        check_after_cut(&disk, &allowed, &met.story);
                        states += 1;
                    }
                    assert_eq!(written.is_err(), met.befallen.is_some());
                },
            );
        }
    }
    println!("power cuts: {points} points, {states} disks remounted");
    assert!(points >= 40);
}

/// Mistakes of writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    NoSync,
    SyncTriedAgain,
    NoDirectorySync,
}

/// Writes a table with a mistake.
fn write_badly(disk: &Disk, bytes: &[u8], mistake: Mistake) {
    let mut file = disk.create(Path::new("/db")).unwrap();
    file.write_all(bytes).unwrap();
    if mistake == Mistake::SyncTriedAgain {
        // The failed sync drops the data, and the second one succeeds without writing it.
        disk.plan(0, Fault::Once(EIO));
        file.sync().unwrap_err();
        file.sync().unwrap();
        disk.heal();
    }
    if mistake == Mistake::NoDirectorySync {
        file.sync().unwrap();
    }
    file.persist(Path::new(PATH)).unwrap();
    if mistake != Mistake::NoDirectorySync {
        disk.sync_directory(Path::new("/db")).unwrap();
    }
}

/// The model of the disk must reveal these mistakes.
#[test]
fn the_disk_finds_writers_out_that_forget_a_sync_or_try_a_failed_one_again() {
    let new = entries(1, 30, 10);
    for mistake in [Mistake::NoSync, Mistake::SyncTriedAgain, Mistake::NoDirectorySync] {
        let disk = disk_with(None);
        write_badly(&disk, &bytes_of(&new), mistake);
        let is_whole = |disk: &Disk| {
            let table = Table::open(PATH, &read_options(disk)).and_then(|table| contents(&table));
            table.is_ok_and(|found| found == new)
        };
        // Reads come from the cache, so no test without power cuts can find these mistakes.
        assert!(is_whole(&disk), "{mistake:?} is seen only after a power cut");
        let lost = disk.remounted().iter().filter(|disk| !is_whole(disk)).count();
        assert!(lost > 0, "{mistake:?} is not found out");
    }
}
