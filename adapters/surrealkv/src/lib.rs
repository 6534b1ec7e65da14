//! Builds and probes `SurrealKV`'s filters with [`sstfilter`]: Ribbon by default, blocked Bloom or any other kind.
//!
//! `SurrealKV` writes one filter for each partition of a table's index, and probes it before it reads the partition. A
//! [`FilterPolicy`](surrealkv::FilterPolicy) builds and probes these filters. [`SstFilterPolicy`] implements it:
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
//! # Checks
//!
//! The engine passes a filter's bytes with each lookup, so the policy opens a block for each probe: in constant time,
//! without allocation, without reading the payload.
//!
//! | | caught by |
//! |---|---|
//! | damage of a partition on disk | the engine, by the checksum of each block; it then searches the data |
//! | damage of a trailer or parameters, truncation, foreign bytes | the policy: each probe checks the trailer |
//! | another hash, only parts of keys, a newer version, an unknown kind | the policy, with each probe |
//! | payload damage in memory, before the engine's checksum or after its check | nothing, as with its own filters |
//!
//! If the policy catches a fault, it answers "may contain" and counts it in [`FilterCounts::unusable`]. Checking the
//! payload once per partition would find nothing more: the engine compares its own checksum of these bytes when it
//! reads the partition into its cache, and only then could the policy recognize a partition as new.
//!
//! # Names
//!
//! A table stores the name of the policy that wrote its filters, and the engine reads only filters under the name of
//! the policy in use. The name contains the hash and its seed, which determine where a filter is probed for a key. It
//! does not contain the kind and size of a filter: blocks describe themselves, and a policy reads blocks of all kinds.
//!
//! # Coming from the engine's own filters
//!
//! Tables of another policy keep their filters, which this policy does not use; a compaction replaces them.
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
