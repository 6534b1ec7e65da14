//! The power fails before, between and after all operations of writing a table.

use std::io::Write;
use std::path::Path;

use sstfilter_table::{FileSystem, Table};

use super::disk::{Disk, EIO, Fault, UNSYNCED, at_every_operation};
use super::tables::{Entries, PATH, bytes_of, contents, entries, found, read_options, write, write_options};
use super::writing::{disk_with, scenarios};

/// Returns all states of the disk after a power cut.
pub(crate) fn remounted(disk: &Disk) -> Vec<Disk> {
    let changes = 0..=disk.pending_names();
    changes.flat_map(|changes| UNSYNCED.map(|unsynced| disk.after_power_cut(changes, unsynced))).collect()
}

/// Checks that the table found is one of `allowed`, and that at most one writer's file remains, without a table's name.
fn check(disk: &Disk, allowed: &[Option<&Entries>], story: &str) {
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
                    for disk in remounted(disk) {
                        check(&disk, &allowed, &met.story);
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
        let lost = remounted(&disk).iter().filter(|disk| !is_whole(disk)).count();
        assert!(lost > 0, "{mistake:?} is not found out");
    }
}
