//! sstfilter's filters in [SlateDB](slatedb): Ribbon and blocked Bloom for SSTs on an object store, and range filters.
//!
//! An absent key costs SlateDB one request for each SST that covers it, to read the filter, and none once filters are
//! cached. Ribbon filters have the false positive rate of SlateDB's own Bloom filters in 70 % of their bytes, so more
//! of them fit into the cache. Pass the builder of a `Db`, a reader, a standalone compactor or a compaction worker to
//! [`SlateFilters::configure`].
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
//! With a range filter in addition to the point filter, scans also skip SSTs: see [`SlateFilters::with_range_filter`].
//!
//! # Safety of keys
//!
//! A filter that is damaged, of a newer version, built with another hash, or of another key range answers "may match".
//! So does a filter that lacks the first or last key of its SST, because a hash function or an extractor then changed
//! without its name. (Keys of 64 bytes or more are not stored with the filter and not probed.) [`SlateFilters::stats`]
//! and metrics count each of these. SlateDB does not use a filter under another name at all. One case remains that no
//! policy can detect, because SlateDB does not pass the SST's id to it: the undamaged filter section of another SST
//! with an overlapping key range, read in place of the right one. [`SlateFilters::audit`] finds it, unless both SSTs
//! begin and end with the same keys.

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
