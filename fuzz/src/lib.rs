//! The fuzz targets' code: each target is a file of a few lines that calls one function of this library. README.md
//! explains how to run them.

pub mod block;
pub mod block_forge;
#[allow(dead_code, reason = "tests of the library use more of it")]
#[path = "../../crates/store/tests/common/container.rs"]
mod container;
pub mod entries;
pub mod foreign_filter;
pub mod foreign_table;
pub mod layers;
pub mod maps;
pub mod metadata;
pub mod partitions;
pub mod pick;
pub mod random;
pub mod ranges;
pub mod sidecar;
pub mod table;
pub mod table_forge;
pub mod table_parts;
pub mod table_round_trip;
