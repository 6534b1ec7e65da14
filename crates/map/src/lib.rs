//! File maps: one probe tells which of many immutable files may hold a key.

#![deny(clippy::indexing_slicing)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::inline_always,
    reason = "casts drop bits on purpose, after lengths were checked; a lookup is compiled for several instruction \
              sets, and functions that are not inlined into it would be compiled for the baseline"
)]

mod build;
mod candidates;
mod encode;
mod error;
mod index;
mod list;
mod map;
mod merge;
mod options;
mod page;
mod read;
mod set;
mod shape;
mod simd;
mod write;

pub use build::MapBuilder;
pub use candidates::{Candidates, LocalIds};
pub use error::MapError;
pub use index::{CoveredFile, LocalId, MapIndex};
pub use map::FileMap;
pub use merge::MapMerge;
pub use options::MapOptions;
pub use read::{MapPart, MapRead, PartAnswer};
pub use set::MapSet;
pub use write::MapReport;
