//! How much memory is taken. A program of its own: its allocator counts what the whole process holds, so each test runs
//! alone (`allocator::alone`), and tests of anything else would be counted with them.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../../../../tests/common/mod.rs"]
mod common;

#[path = "../../../../tests/memory/allocator.rs"]
mod allocator;
mod budget;
mod partitions;
