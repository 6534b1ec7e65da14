//! A set of tables that changes while it is read.
//!
//! # Versions
//!
//! A [`Version`] is the tables of a store at one time, and never changes. A [`VersionSet`] holds the current one.
//! [`VersionSet::apply`] makes the next from it by a [`VersionEdit`], all of it or nothing, and swaps one pointer. A
//! reader that holds a version goes on reading it; its tables stay open until the last version that has them is
//! dropped.
//!
//! # Levels
//!
//! Level 0 has overlapping tables, the newest first, and a lookup goes through all that have the key in their range.
//! The tables of any other level overlap nowhere, so a lookup finds the one that can hold the key. Lower numbers are
//! newer.
//!
//! # Chunks
//!
//! The tables of a level lie in chunks of up to 64 that versions share. An edit rebuilds only the chunks that it
//! touches and the level's list of chunks. Rejected: one list of tables for each level, of which an edit copies
//! everything; and a tree of more than two steps, which pays only beyond the number of files that stores have.
//!
//! A chunk of level 0 has its filters in a group, too, which a lookup probes at once. At any other level a lookup
//! probes one table of a chunk: a group would only be more to rebuild in an edit.
//!
//! ```text
//! Version -> Level (lowest key of each chunk) -> Chunk (ranges of up to 64 tables) -> Table
//! ```

mod batch;
mod chunk;
mod edit;
mod error;
mod level;
mod set;
mod snapshot;

pub use edit::VersionEdit;
pub use error::VersionError;
pub use set::VersionSet;
pub use snapshot::Version;
