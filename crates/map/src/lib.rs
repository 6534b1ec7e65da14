//! File maps: one probe tells which of many immutable files may hold a key.

#![deny(clippy::indexing_slicing)]

mod build;
mod encode;
mod error;
mod index;
mod map;
mod merge;
mod options;
mod page;
mod shape;
mod simd;
mod write;

pub use build::MapBuilder;
pub use error::MapError;
pub use index::{CoveredFile, LocalId, MapIndex};
pub use map::{Candidates, FileMap, LocalIds};
pub use merge::MapMerge;
pub use options::MapOptions;
pub use write::MapReport;
