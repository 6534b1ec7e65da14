//! The file system fails at any operation, or the power does: the failures guarded against are an engine
//! that finds half a table after a crash and believes it, one that publishes a table whose sync failed, and
//! one whose readers give another answer, or keep failing, after a read that failed once.
//!
//! As `SQLite`'s tests do, each scenario is run again and again, with the first operation failing, then the
//! second, and so on, until a run ends before the fault comes. How many points were tried is printed:
//! `cargo test --release -p sstfilter-table-tests --test faults -- --nocapture`. A program of its own: some of its
//! tests run it again, with a full disk, few open files, or small files only.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

mod disk;
#[cfg(unix)]
mod local;
mod power;
mod reading;
mod sidecar;
mod tables;
mod writing;
