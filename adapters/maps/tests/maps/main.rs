//! An engine that skips a file that has the key loses the key. Object stores fail in many ways: objects are gone,
//! requests end early or with other bytes, writers are killed between two steps, and two of them replace one manifest.
//! Whatever happens, an answer must have every file with the key, and a manifest must be that of one of its writers.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests, of small numbers")]

mod faults;
mod manifests;
mod merges;
mod reads;
mod support;
