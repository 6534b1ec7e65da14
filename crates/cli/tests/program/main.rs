//! Tests the program from outside, command by command. Tests that kill it (`interrupt.rs`) or trace its system calls
//! (`faults.rs`) are separate programs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod advise;
mod build;
mod compare;
mod described;
#[path = "../../../../tests/common/effort.rs"]
mod effort;
mod foreign;
mod get;
#[cfg(target_os = "linux")]
mod hostile;
mod map;
mod options;
mod probe;
mod rebuild;
mod refused;
#[cfg(unix)]
mod replacing;
mod report;
mod states;
