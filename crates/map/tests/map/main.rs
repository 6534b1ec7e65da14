//! A map must never say that a file it covers lacks a key that the file has.
//!
//! - `model`: answers, merges and dropped files beside sets of keys.
//! - `rule`: stores whose files and maps disagree.
//! - `shapes`: sizes, rates, keys that many files have, pages that outgrow their bytes.
//! - `damage`: damaged, foreign and swapped bytes.
//! - `walk`: random walks of a store, with damage, stale maps and snapshots.
//! - `forged`: bytes that no writer wrote, whose checksums hold.
//! - `golden`: the maps of `fixtures/v1`.
//! - `vectors`: the vectors of the format.
//! - `verify`: verification, page by page.
//! - `writes`: maps of writes, for files that compactions rewrite.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]
#![expect(clippy::cast_possible_truncation, reason = "tests work on small numbers")]

#[path = "../../../../tests/common/effort.rs"]
mod effort;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../../../../tests/common/vectors.rs"]
mod json;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../../../../tests/common/golden.rs"]
mod stored;

mod damage;
#[allow(dead_code, reason = "the other test program uses the rest")]
mod forge;
mod forged;
mod golden;
mod model;
mod rule;
mod shapes;
mod support;
mod vectors;
mod verify;
mod walk;
mod writes;
