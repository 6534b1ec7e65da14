//! Descriptions, sidecars and partitioned filters must have the same bytes on every machine. This is the package's test
//! program for other platforms; it selects instruction sets for the whole process.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../common/cases.rs"]
mod cases;
#[path = "../../../../tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../common/container.rs"]
mod container;

mod golden;
mod vectors;
