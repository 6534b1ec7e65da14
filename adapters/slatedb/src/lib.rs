//! sstfilter's filters in [SlateDB](slatedb): Ribbon and blocked Bloom for SSTs on an object store, and range filters.
//!
//! An absent key costs SlateDB one request for each SST that covers it, to read the filter, and none once filters are
//! cached. Ribbon filters have the rate of SlateDB's own Bloom filters in 70 % of their bytes, so more of them fit into
//! the cache. [`SlateFilters::configure`] takes the builder of a `Db`, of a reader, of a standalone compactor or of a
//! compaction worker.
//!
//! ```
//! use std::sync::Arc;
//! use slatedb::object_store::memory::InMemory;
//! use slatedb::{Db, DbReader};
//! use sstfilter_slatedb::SlateFilters;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Arc::new(InMemory::new());
//! let filters = SlateFilters::default(); // one for all processes of a store
//!
//! let db = filters.configure(Db::builder("store", store.clone())).build().await?;
//! let reader = filters.configure(DbReader::builder("store", store.clone())).build().await?;
//!
//! // At any time: which SSTs were written by a process that was configured otherwise?
//! println!("{}", filters.audit(DbReader::builder("store", store)).await?);
//! # reader.close().await?;
//! # db.close().await?;
//! # Ok::<(), slatedb::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Scans skip SSTs, too, with a range filter beside the point filter: [`SlateFilters::with_range_filter`].
//!
//! # What is never lost
//!
//! A filter that is damaged, of a newer version, built with another hash, or of another key range answers "may match".
//! So does one that lacks the first or last key of its SST: a hash function or an extractor has then changed while its
//! name did not. (Keys of 64 bytes or more are not stored with the filter, and not looked up.)
//! [`SlateFilters::stats`] counts each of these, and so do metrics. A filter under another name is not used by SlateDB
//! at all. One case remains that no policy can find out, because SlateDB does not say which SST a filter belongs to:
//! the undamaged filter section of another SST with an overlapping key range, read in the place of the right one.
//! [`SlateFilters::audit`] finds it, unless both SSTs begin and end with the same keys.

mod audit;
mod bounds;
mod filter;
mod filters;
mod keys;
mod migration;
mod policy;
mod ranges;
mod stats;

/// The library, for kinds, sizes and hashers.
pub use sstfilter;
/// Its range filters.
pub use sstfilter_range;

pub use audit::{Audit, FilterState, SstAudit};
pub use filters::{OldBloom, SlateFilters, TakesFilters};
pub use keys::FilteredKeys;
pub use stats::{SlateFilterStats, Unusable};

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
