//! The store layer from the outside: which files must be read, while everything around it fails.
//!
//! - `model`: random operations, compared with sets of keys.
//! - `rates`: counts, compared with what was really searched.
//! - `edits`: which edits of a view are refused, and which file is the newer one after the others.
//! - `traps`: one test for each known way to lose a key or a count.
//! - `trust`: hashers and extractors that do not match their names.
//! - `panics`: the engine's code panics.
//! - `damage`: bytes that differ from those that were written.
//! - `key_parts`: what a filter answers for parts of keys that it holds or lacks.
//! - `partitions`, `partition_bytes`: damage, sizes and rates of filters in partitions.
//! - `budget`: what is in memory, while threads probe, plan and load.
//! - `ongoing`: lookups that wait for reads of others.
//! - `maps`: views with file maps.
//! - `paged`: views with file maps that are read by page.
//! - `writes`: views with maps of writes.
//! - `writes_model`: random stores with maps of writes, compared with a map of keys.
//! - `exact`: files of dense ids, whose range filter takes the place of the point filter.
//! - `levels`: a plan of bits by level, measured on its filters.

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
#[path = "../common/descriptions.rs"]
mod descriptions;

mod engine;

mod budget;
mod damage;
mod edits;
mod exact;
mod key_parts;
mod levels;
mod maps;
mod model;
mod ongoing;
mod paged;
mod panics;
mod partition_bytes;
mod partitions;
mod rates;
mod traps;
mod trust;
mod writes;
mod writes_model;
