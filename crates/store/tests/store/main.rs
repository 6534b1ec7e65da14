//! The store layer from the outside: which files must be read, while everything around goes wrong.
//!
//! - `model`: random operations against sets of keys, the long way to lose one.
//! - `rates`: what is counted, against what was really searched.
//! - `traps`: one test for each known way to lose a key or a count.
//! - `trust`: hashers and extractors that are not what their names say.
//! - `panics`: code of the engine's that panics.
//! - `damage`: bytes that are not those that were written.
//! - `key_parts`: what a filter answers for parts of keys, and for those that it lacks.
//! - `partitions`, `partition_bytes`: damage, sizes and rates of filters in partitions.
//! - `budget`, `budget_partitions`: what is in memory, while threads probe, plan and load.
//! - `levels`: a plan of bits by level, measured.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]
#![expect(clippy::big_endian_bytes, reason = "keys of numbers, in the order of the numbers")]

#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../common/cases.rs"]
mod cases;
#[path = "../../../../tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../common/container.rs"]
mod container;

mod engine;

mod budget;
mod budget_partitions;
mod damage;
mod key_parts;
mod levels;
mod model;
mod panics;
mod partition_bytes;
mod partitions;
mod rates;
mod traps;
mod trust;
