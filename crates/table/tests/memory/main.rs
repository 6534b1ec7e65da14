//! How much memory tables take. A program of its own, as that of the filters, whose allocator it has.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../../../../tests/common/mod.rs"]
mod common;

#[path = "../../../../tests/memory/allocator.rs"]
mod allocator;
mod many_tables;
#[cfg(unix)]
mod untrusted_tables;
