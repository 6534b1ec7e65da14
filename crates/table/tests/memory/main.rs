//! Memory use of tables. A separate program with its own allocator, like the one for filters.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../../../../tests/common/mod.rs"]
mod common;

#[path = "../../../../tests/memory/allocator.rs"]
mod allocator;
mod many_tables;
#[cfg(unix)]
mod untrusted_tables;
