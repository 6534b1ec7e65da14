//! The file system or the power fails at any operation. The failures guarded against: an engine finds half a table
//! after a crash and uses it; it publishes a table whose sync failed; its readers return another answer, or keep
//! failing, after one failed read.
//!
//! As in `SQLite`'s tests, each scenario is repeated with the first operation failing, then the second, and so on,
//! until a run ends before the fault. To print the number of points tried: `cargo test -p
//! sstfilter-table-tests --test faults -- --nocapture`. It is a separate program, because some tests run it again with
//! a full disk, few open files, or only small files.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

mod disk;
#[cfg(unix)]
mod local;
mod reading;
mod sidecar;
mod tables;
mod writing;
