//! File maps: one probe tells which of many immutable files may hold a key.
//!
//! With one filter per file, a lookup probes as many filters as there are files, and their false positives add up. A
//! [`FileMap`] is one structure for all files. The hash of a key leads to a line of 64 bytes, where half of all lookups
//! of absent keys end, and to the ids of the files that may have the key.
//!
//! - Build a map with [`MapBuilder`] from the hashes of each file's keys. Files that are written later are not covered,
//!   and need filters of their own, until they are added.
//! - [`MapMerge`] adds them: it merges maps without keys, and drops files that are gone. The result has the bytes of a
//!   build from keys.
//! - Several processes can share a build: each builds a map of some of the files, and a merge of these maps has the
//!   bytes of one build.
//! - [`MapSet`] answers for the files of a store, whether a map covers them or not.
//! - [`WriteSet`] is for stores whose compactions rewrite files many times: its maps say which flushes wrote a key.
//! - [`MapIndex`] is for maps on disk or in an object store. [`Lookups`] say which bytes they need, and answer from
//!   them. [`Coverage`] is then what [`MapSet`] is for maps in memory.
//!
//! ```
//! use sstfilter::{FalsePositiveRate, FileId, Filters};
//! use sstfilter_map::{Lookups, MapBuilder, MapIndex, MapOptions};
//!
//! # let (filters, file, map) = (Filters::default(), FileId::random(), FileId::random());
//! # let options = MapOptions::for_entries(1_000_000, FalsePositiveRate::ONE_PERCENT)?;
//! # let mut builder = MapBuilder::new(&filters, options);
//! # builder.add_file(file, vec![filters.hash(b"apple")]);
//! # let mut stored = Vec::new();
//! # builder.finish(map, &mut stored)?;
//! // `stored` is an object in a store. Once per map: its end.
//! let length = stored.len() as u64;
//! let end_bytes = MapIndex::end_bytes(&stored[stored.len() - MapIndex::MIN_END_BYTES..])? as usize;
//! let index = MapIndex::load(&stored[stored.len() - end_bytes..], length, &filters, map)?;
//!
//! // Per lookup: a page. In rare cases a second read.
//! let mut lookups = Lookups::new(&index, &[filters.hash(b"apple")]);
//! while let Some(read) = lookups.reads().first() {
//!     let range = read.range().start as usize..read.range().end as usize;
//!     let part = index.open(read, &stored[range]).ok(); // if it is damaged, search all covered files
//!     lookups.answer(read, part.as_ref(), |_, found| {
//!         assert!(found.may_contain(index.local_id(file).expect("covered")));
//!     });
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! **A file may be skipped only if** a map with the reader's hash covers it, the bytes that the lookup needs are sound,
//! and the file is not among the candidates. The types keep to it: only [`MapIndex::local_id`] and answers give out
//! local ids, and damage yields [`MapAnswer::All`]. A map knows hashes, not keys: if the hash function changes under
//! its name, check with [`FileMap::candidates`] that each covered file has its smallest and largest key.

#![deny(clippy::indexing_slicing)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::inline_always,
    reason = "casts drop bits on purpose, after lengths were checked; a lookup is compiled for several instruction \
              sets, and functions that are not inlined into it would be compiled for the baseline"
)]

mod answer;
mod build;
mod encode;
mod error;
mod index;
mod list;
mod map;
mod merge;
mod options;
mod page;
mod pages;
mod read;
mod runs;
mod set;
mod shape;
mod verify;
mod write;
mod write_set;
mod writes;

/// The test vectors, for unit tests.
#[cfg(test)]
#[allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests, and other programs use the rest")]
#[path = "../../../tests/common/vectors.rs"]
mod json;

pub use answer::{LocalIds, MapAnswer};
pub use build::MapBuilder;
pub use error::MapError;
pub use index::{CoveredFile, LocalId, MapIndex};
pub use map::FileMap;
pub use merge::MapMerge;
pub use options::{MapOptions, MapPlan};
pub use read::{Lookups, MapPart, MapRead};
pub use set::{Coverage, MapJudge, MapSet, SetMatch};
pub use verify::MapVerification;
pub use write::MapReport;
pub use write_set::{KeyWrites, WriteSet};
pub use writes::{FileWrites, OutputWrites, WriteId, Writes};

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
