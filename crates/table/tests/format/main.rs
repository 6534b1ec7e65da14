//! Tables and sidecars that must be the same bytes on every machine. This is the package's program for other platforms;
//! it selects instruction sets for the whole process.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../../../../tests/common/mod.rs"]
mod common;

mod cases;
mod golden;
mod vectors;
