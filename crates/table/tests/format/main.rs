//! Tables and sidecars whose bytes must be the same on every machine. This is the package's test program for other
//! platforms. It selects instruction sets for the whole process.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../../../../tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../../../store/tests/common/container.rs"]
mod container;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../../../store/tests/common/cases.rs"]
mod container_cases;

mod golden;
mod vectors;
