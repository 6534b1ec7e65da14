//! `SurrealKV`'s filters, built and probed by [`sstfilter`]: Ribbon by default, blocked Bloom or any other of its
//! kinds.
//!
//! `SurrealKV` writes one filter for each partition of a table's index, and probes it before it reads the partition. It
//! takes the filter from a [`FilterPolicy`](surrealkv::FilterPolicy). [`SstFilterPolicy`] is one:
//!
//! ```
//! use std::sync::Arc;
//! use sstfilter_surrealkv::SstFilterPolicy;
//! use surrealkv::TreeBuilder;
//!
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().to_owned();
//! let policy = SstFilterPolicy::ribbon();
//! let counters = policy.counters();
//! let tree = TreeBuilder::new().with_path(path).with_filter_policy(Some(Arc::new(policy))).build()?;
//!
//! let mut writing = tree.begin()?;
//! writing.set("apple", "red")?;
//! writing.commit().await?;
//! assert_eq!(tree.begin()?.get("plum")?, None);
//! println!("{:?}", counters.snapshot());
//! # tree.close().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is checked, and by whom
//!
//! The engine passes the policy the bytes of a filter with each lookup, so a block is opened for each probe: in
//! constant time, without allocation, without reading the payload. What each part catches:
//!
//! | | caught by |
//! |---|---|
//! | damage of a partition on the disk | the engine: it compares the checksum of each block that it reads from a table, and searches the data if it differs |
//! | damage of a block's trailer or parameters, a cut block, foreign bytes | the policy, with each probe: the trailer has a checksum of its own |
//! | a block of another hash, of parts of keys alone, a newer version, an unknown kind | the policy, with each probe |
//! | damage of the payload in memory, before the engine computes its checksum or after it has compared it | nobody, as with the engine's own filters |
//!
//! Whatever the policy catches means "may contain", and is counted: [`FilterCounts::unusable`]. A check of the payload
//! once per partition would find nothing that the engine has not found: it compares its checksum, over the same bytes,
//! when it reads the partition into its cache, which is the only time that the policy could tell a partition from those
//! seen before.
//!
//! # Names
//!
//! A table names the policy that wrote its filters, and the engine reads only filters of the name of the policy in use.
//! The name carries what determines which bytes of a filter a key is looked up in: the hash and its seed. The kind of
//! a filter and its size are not part of it: blocks describe themselves, and a policy reads the blocks of all kinds.
//!
//! # Coming from the engine's own filters
//!
//! Tables that another policy wrote keep their filters, which this one does not read until a compaction replaces them.
//! [`SstFilterPolicy::migrating_from`] reads both.

mod counters;
mod migration;
mod policy;
mod stripes;

/// The library, for kinds, sizes and hashers.
pub use sstfilter;

pub use counters::{FilterCounters, FilterCounts, UnusableCounts};
pub use migration::MigrationError;
pub use policy::SstFilterPolicy;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
