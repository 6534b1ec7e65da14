//! Tests the program from outside, command by command. Tests that kill it (`interrupt.rs`) or trace its system calls
//! (`faults.rs`) are separate programs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod advise;
mod advise_levels;
mod build;
mod compare;
mod damage;
mod databases;
mod demo;
mod described;
#[path = "../../../../tests/common/effort.rs"]
mod effort;
mod engines;
mod export;
mod foreign;
mod get;
#[cfg(target_os = "linux")]
mod hostile;
mod map;
mod map_probe;
mod options;
mod partitions;
mod probe;
mod ranges;
mod rebuild;
mod refused;
#[cfg(unix)]
mod replacing;
mod report;
mod secret_seeds;
mod sidecars;
mod states;
