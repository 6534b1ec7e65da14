//! A rebuild that fails, or loses power, at any operation leaves the old sidecar, the new one or none. The failure
//! guarded against: half a sidecar would be refused when its table is opened, but the old one would be lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sstfilter::{BitsPerKey, FixedPolicy};
use sstfilter_table::{Table, TableError, TableOptions};

use super::disk::{Disk, EIO, ENOSPC, Fault, Met, Op, Unsynced, at_every_operation};
use super::tables::{Entries, PATH, bytes_of, entries, lookup_of, read_options, write_options};

const SIDECAR: &str = "/db/000001.sst.filter";

/// Bits per key, which identify a sidecar's filter.
const OLD_BITS: f64 = 6.0;
const NEW_BITS: f64 = 12.0;

fn options(disk: &Disk, bits: f64) -> TableOptions {
    write_options(disk).with_policy(Arc::new(FixedPolicy::bloom(BitsPerKey::new(bits).unwrap()).unwrap()))
}

fn rebuild(disk: &Disk, bits: f64) -> Result<u64, TableError> {
    let (table, options) = (Table::open(PATH, &read_options(disk).without_sidecars())?, options(disk, bits));
    let written = table.install_sidecar(&table.build_sidecar(&options)?, &options)?;
    Ok(written.map_or(0, |(_, bytes)| bytes))
}

fn sidecar_bytes(bits: f64) -> u64 {
    let disk = Disk::with_files(&[(PATH, &bytes_of(&stored()))]);
    rebuild(&disk, bits).unwrap()
}

fn stored() -> Entries {
    entries(0, 400, 20)
}

/// Returns a disk with the table, and with an old sidecar if `has_old`.
fn disk(has_old: bool) -> Disk {
    let disk = Disk::with_files(&[(PATH, &bytes_of(&stored()))]);
    if has_old {
        rebuild(&disk, OLD_BITS).unwrap();
    }
    disk
}

/// Returns the bytes of the sidecar that a reader of the table uses. Checks that no key is lost, and that the sidecar
/// is complete.
fn found(disk: &Disk, stored: &Entries, story: &str) -> Option<u64> {
    let table = Table::open(PATH, &read_options(disk)).unwrap();
    assert!(table.sidecar_problem().is_none(), "{story}: {}", table.sidecar_problem().unwrap());
    for (key, _) in stored.iter().step_by(13) {
        assert_eq!(table.get(key).unwrap(), lookup_of(stored, key), "{story}");
    }
    table.verify().unwrap();
    let is_there = disk.names().iter().any(|name| name == Path::new(SIDECAR));
    assert_eq!(table.uses_sidecar(), is_there, "{story}");
    // The filter, its description without a checksum, and the end.
    let metadata = table.filters().metadata();
    table.uses_sidecar().then(|| metadata.sections()[0].bytes + metadata.encode_covered().len() as u64 + 60)
}

// promise: limited-memory
#[test]
fn whichever_operation_of_a_rebuild_fails_or_meets_a_power_cut_there_is_the_old_sidecar_or_the_new_one() {
    let sizes = [OLD_BITS, NEW_BITS].map(sidecar_bytes);
    let faults = [
        Fault::Once(EIO),
        Fault::Once(ENOSPC),
        Fault::Lasting(EIO),
        Fault::ShortWrite,
        Fault::WriteZero,
        Fault::PowerCut,
    ];
    let (stored, mut points, mut states) = (stored(), 0, 0);
    for (fault, has_old) in faults.into_iter().flat_map(|fault| [(fault, false), (fault, true)]) {
        let (sound, old) = (disk(has_old), has_old.then_some(sizes[0]));
        let (fresh, step) = (|| sound.after_power_cut(0, Unsynced::All), |disk: &Disk| rebuild(disk, NEW_BITS));
        points += at_every_operation(fault, fresh, step, |disk, written, Met { befallen, story, .. }| {
            if fault == Fault::PowerCut {
                for disk in disk.remounted() {
                    let found = found(&disk, &stored, story);
                    assert!(found == Some(sizes[1]) || (written.is_err() && found == old), "{story}: {found:?}");
                    states += 1;
                }
            } else {
                let is_published = written.is_ok() || *befallen == Some(Op::SyncDirectory);
                assert_eq!(found(disk, &stored, story), if is_published { Some(sizes[1]) } else { old }, "{story}");
                let is_temporary = |name: &PathBuf| name.extension().is_some_and(|end| end == "tmp");
                let is_left = disk.names().iter().any(is_temporary);
                assert!(!is_left || matches!(fault, Fault::Lasting(_)), "{story}: {:?}", disk.names());
            }
            match &written {
                Ok(_) => {}
                Err(error) if befallen.is_some() => assert!(error.to_string().contains(PATH), "{story}: {error}"),
                Err(error) => panic!("{story}: {error}"),
            }
        });
    }
    println!("rebuilding: {points} points, {states} disks remounted after a power cut");
    assert!(points >= 100 && states > 100, "{points}, {states}");
}

#[test]
fn whichever_read_of_a_sidecar_fails_the_tables_own_filter_answers_and_the_problem_shows() {
    let expected = stored();
    for fault in [Fault::Once(EIO), Fault::EndOfFile, Fault::WrongBytes, Fault::WrongLength(-1), Fault::WrongLength(1)]
    {
        let mut problems = 0;
        let step = |disk: &Disk| Table::open(PATH, &read_options(disk));
        at_every_operation(
            fault,
            || disk(true),
            step,
            |_, table, Met { befallen, story, .. }| {
                // Other tests cover the table's own parts.
                let Ok(table) = table else { return };
                for (key, _) in expected.iter().step_by(7) {
                    assert_eq!(table.get(key).unwrap(), lookup_of(&expected, key), "{story}");
                }
                if let Some(problem) = table.sidecar_problem() {
                    assert!(problem.to_string().contains(SIDECAR), "{problem}");
                    assert!(table.filter_problem().is_none() && table.filters().block().is_some(), "{story}");
                    problems += 1;
                }
                assert!(table.uses_sidecar() || befallen.is_some(), "{story}");
            },
        );
        println!("reading a sidecar, {fault:?}: {problems} points");
        assert!(problems >= 1, "{fault:?}");
    }
}
