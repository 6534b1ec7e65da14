//! Measures memory. This is a separate program: its allocator counts what the whole process holds, so each test runs by
//! itself (`allocator::alone`), and any other test would be counted with it.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../../../../tests/common/mod.rs"]
mod common;

#[path = "../../../../tests/memory/allocator.rs"]
mod allocator;
mod budget;
mod build;
#[path = "../common/descriptions.rs"]
mod descriptions;
mod hostile;
mod partitions;
