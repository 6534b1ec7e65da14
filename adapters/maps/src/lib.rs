//! [`sstfilter_map`]'s file maps on an object store: one GET of a page tells which of many files may hold a key.
//!
//! - [`MapWriter`] writes maps of new files, lists them in a manifest, and merges them in tiers.
//! - [`MapReader`] follows the manifest. Its [`Snapshot`] is for the list of files that an engine has at one moment. It
//!   says for a key which of them to open.
//! - [`Manifest`] is the object that lists the maps. The package's README specifies its bytes.
//!
//! The [README](https://docs.rs/crate/sstfilter-map-store) has an example, the requests that everything costs, and what
//! happens when a request fails.
//!
//! # What is promised
//!
//! [`Snapshot::candidates`] leaves out a file only if a map covers it by its id, the map's page is sound, and the page
//! says that the file lacks the key. It never fails: a map that is missing, damaged, unreachable or of another hash has
//! all of its files in the answer, and [`Statistics`] count it.
//!
//! A map must have every key of the files that it covers, tombstones too. Never add a file with range tombstones: it
//! must stay uncovered, because a range tombstone deletes keys that the file does not have.

mod ends;
mod error;
mod manifest;
mod pages;
mod reader;
mod stream;
mod writer;

pub use error::{Error, Result};
pub use manifest::{Manifest, MapEntry, Retired};
pub use pages::{Failure, FailureKind, ReaderOptions, Statistics};
pub use reader::{Cuts, MapReader, Snapshot};
pub use writer::{MapWriter, Merged};

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
