//! Tests of memory use. They are a separate program, because the allocator counts the whole process: each test runs
//! alone (`allocator::alone`), and other tests would be counted, too.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../common/mod.rs"]
mod common;

mod allocator;
mod build;
