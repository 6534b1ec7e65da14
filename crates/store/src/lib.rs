//! Decides which files an engine must read: the filters of a whole store, for engines with their own tables.
//!
//! A point read must know which files to read for its key, while files come and go, filters do not all fit into memory,
//! and some are damaged, missing, or older than the store's extractor. This package answers that question without doing
//! any input or output: it says which bytes it needs, and verifies them.
//!
//! - Once per store: a [`FilterStore`] holds the hash, the parts of keys, the policies and the memory budget.
//! - Once per file that is written: a [`FileFilterBuilder`] takes the keys and returns bytes to store, with a small
//!   [description](FilterMetadata) for the engine's manifest.
//! - Once per file that is opened: [`FilterStore::open`] returns [`FileFilters`]. Every failure means "may be present",
//!   is counted, and has a reason.
//! - Once per flush or compaction: [`FilterView::edited`] returns a view of the files after it.
//! - Once per lookup: [`FilterView::candidates`], [`candidates_of_each`](FilterView::candidates_of_each),
//!   [`candidates_by_prefix`](FilterView::candidates_by_prefix) and
//!   [`candidates_in_range`](FilterView::candidates_in_range) return the files to read.
//!
//! ```
//! use std::sync::Arc;
//!
//! use sstfilter::{FileId, Filters, FixedPrefix, KeyParts};
//! use sstfilter_store::{FilterStore, FilterView, ViewEdit};
//!
//! let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4)));
//! let store = FilterStore::new(Filters::default().with_key_parts(parts));
//! let file = |keys: &[&[u8]]| {
//!     let mut builder = store.builder(FileId::random());
//!     keys.iter().for_each(|key| builder.add_key(key));
//!     let (bytes, description) = builder.finish().seal(); // into the file, and into the manifest
//!     Arc::new(store.open(description, bytes))
//! };
//! let (old, new) = (file(&[b"t041:1", b"t042:1"]), file(&[b"t042:1", b"t043:2"]));
//!
//! let edit = ViewEdit::new().add_to_level_0(1, old).add_to_level_0(2, new.clone()); // by age
//! let view = FilterView::new(&store).edited(edit)?; // another lookup may go on in the view before
//! let mut candidates = view.candidates(b"t042:1"); // the newest first
//! while let Some(file) = candidates.next_file() {
//!     assert!(Arc::ptr_eq(file, &new)); // search it; this one has the key, so older files need no search:
//!     candidates.found();
//!     break;
//! }
//! assert_eq!(view.candidates_by_prefix(b"t041").count(), 1);
//! # Ok::<(), sstfilter_store::ViewError>(())
//! ```
//!
//! # Reading
//!
//! Filter bytes come from a [`FilterSource`], which lookups call. An engine whose lookups must not wait uses
//! [`FilterReads`] instead: they say which bytes are needed, and which of them another lookup is reading.
//!
//! A panic in the engine's code (hash, extractor, source) propagates to the caller of the lookup and ends that lookup:
//! drop it, and begin another one.
//!
//! Keys are ordered by their bytes. An engine with another order adds them in any order, cuts no partitions
//! by key range, keeps all files at level 0, and in
//! [`open_without_description`](FilterStore::open_without_description) passes the keys that are smallest and largest
//! by their bytes.
//!
//! # What is trusted
//!
//! The store trusts the engine to pass each file's own description, which contains the file's key bounds. If
//! descriptions are stored apart from their files, store the [file id](FilterMetadata::file_id) in the file as well,
//! and compare both.
//!
//! Filters are bound to their files by that id, which is drawn at random and compared with the description. A
//! description also contains checksums of what the hash and each extractor returned for the file's smallest and largest
//! key. The store computes them again when it opens the file: nothing else shows that a function changed under its
//! name. If one differs, the store uses none of its filters ([`FilterStore::problem`]).

#![deny(clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::float_cmp,
        reason = "tests work on small numbers, and compare floats that are exact"
    )
)]

pub(crate) mod allocation;
mod budget;
mod build;
mod checked;
mod chunk;
mod codec;
mod config;
mod counts;
#[cfg(test)]
#[path = "../../../tests/common/effort.rs"]
mod effort;
mod error;
mod file;
mod filter_store;
mod identity;
#[expect(clippy::indexing_slicing, reason = "it indexes its own plans, never bytes from storage")]
mod levels;
mod lookup;
mod metadata;
#[cfg(not(all(feature = "maps", feature = "ranges")))]
mod never;
mod ongoing;
#[cfg_attr(not(feature = "maps"), path = "no_pages.rs")]
mod pages;
mod partition;
mod probe;
#[cfg_attr(not(feature = "ranges"), path = "no_ranges.rs")]
mod ranges;
mod read;
pub(crate) mod reader;
mod sidecar;
mod source;
mod state;
mod stats;
#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tests/common/vectors.rs"]
mod vectors;
mod verify;
mod view;
#[cfg_attr(not(feature = "maps"), path = "no_writes.rs")]
mod writes;

/// The package of `Bytes`, which filter bytes are.
pub use bytes;

pub use budget::{BudgetStats, FilterBudget, FilterResidency, ResidencyReason};
pub use build::{BuiltFilters, FileFilterBuilder};
pub use config::PointFilters;
pub use error::FilterProblem;
pub use file::FileFilters;
pub use filter_store::FilterStore;
pub use identity::TableIdentity;
pub use levels::{LevelPlan, LevelSize, PlannedLevel};
pub use lookup::{BatchCandidates, Candidates, ScanCandidate, ScanCandidates};
pub use metadata::{FilterMetadata, FilterPart, FilterSection};
pub use pages::PageRead;
pub use partition::{PartitionCut, PartitionIndex, PartitionOptions, PartitionedBuilder};
pub use read::{FilterReads, OngoingRead, PendingRead};
pub use sidecar::sidecar_path;
pub use source::FilterSource;
pub use stats::FileStats;
#[cfg(feature = "maps")]
pub use stats::MapStats;
pub use view::{FilterView, ViewEdit, ViewError};
#[cfg(feature = "maps")]
pub use view::{MapPolicy, MapReason, MapWrite};

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;

/// Compiles and runs the examples of the page for engine authors. The published package does not contain that page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/engines.md")]
pub struct EnginesPage;
