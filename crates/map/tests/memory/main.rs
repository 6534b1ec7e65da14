//! Measures memory: a merge must not hold the maps that it merges, and forged bytes must not make it allocate. This is
//! a separate program, because its allocator counts what the whole process holds.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]
#![expect(clippy::cast_possible_truncation, reason = "tests work on small numbers")]

#[path = "../../../../tests/memory/allocator.rs"]
mod allocator;
#[path = "../../../../tests/common/effort.rs"]
mod effort;
#[allow(dead_code, reason = "the other test program uses the rest")]
#[path = "../map/forge.rs"]
mod forge;
mod forged;
mod merge;
#[allow(dead_code, reason = "the other test program uses the rest")]
#[path = "../map/support.rs"]
mod support;
