//! Filter blocks for LSM storage engines: one small filter per SST file, so that point reads skip files without the
//! key.
//!
//! A lookup of an absent key then costs nanoseconds per file instead of a disk read. A filter never hides a key that is
//! in its file.
//!
//! # Building and probing
//!
//! ```
//! use sstfilter::{BuildPurpose, FileId, Filters};
//!
//! // Once per store: how keys are hashed, and which filters files get.
//! let filters = Filters::default();
//!
//! // Once per file that is written. Keep the id in the file's metadata, and never reuse it.
//! let file = FileId::random();
//! let mut builder = filters.builder(file).with_purpose(BuildPurpose::Compaction);
//! for key in [b"apple", b"lemon", b"melon"] {
//!     builder.add_key(key);
//! }
//! let block = builder.finish().block; // bytes to store; None if the policy wants no filter for this file
//!
//! // Once per file that is opened. Loading never fails: if anything is wrong, every key may be present.
//! let filter = filters.load(block, file);
//!
//! // Once per lookup and file.
//! if filter.probe(b"lemon").is_absent() {
//!     // Skip the file.
//! }
//! # assert!(!filter.probe(b"lemon").is_absent());
//! ```
//!
//! To look for one key in many files, hash it once: [`Filters::hash`] and [`FilterReader::probe_hash`], or put the
//! filters of all files into a [`FilterSet`]. MISUSE.md lists what a caller can do wrong, and the consequences.
//!
//! # Which filter?
//!
//! Sizes are for whole blocks of 1,000,000 keys. Rates are computed, and tests assert the sizes.
//!
//! | kind | bits per key at 1 % | at 0.1 % | keys |
//! |---|--:|--:|---|
//! | [blocked Bloom](filter::blocked_bloom) (default) | 9.9 | 15.6 | fixed |
//! | [Ribbon](filter::ribbon) | 6.7 | 10.0 | fixed |
//! | [standard Bloom](filter::standard_bloom) | 9.6 | 14.4 | added |
//! | [counting Bloom](filter::counting_bloom) | 38.4 | 57.5 | added, removed |
//! | [register-blocked Bloom](filter::register_blocked_bloom) | 16.8 | 33.6 | added by many threads |
//! | [cuckoo](filter::cuckoo) | 10.5 | 13.7 | added, removed |
//! | [xor](filter::xor) | 9.8 (0.39 %) | 19.7 | fixed |
//! | [xor+](filter::xor_plus) | 9.1 (0.39 %) | 17.8 | fixed |
//! | [binary fuse](filter::binary_fuse), 3 cells | 7.9 (0.78 %) | 11.3 | fixed |
//! | [binary fuse](filter::binary_fuse), 4 cells | 7.5 (0.78 %) | 10.7 | fixed |
//! | [line ribbon](filter::line_ribbon) | 9.3 (0.39 %) | - | fixed |
//! | information bound | 6.64 | 9.97 | |
//!
//! Blocked Bloom and Ribbon are compiled in by default, each other kind with a [feature](#features). The command
//! `sstfilter advise` ranks the kinds for a workload.
//!
//! [`FixedPolicy`] uses one kind for all files, blocked Bloom by default. If the requested kind would be larger or
//! cannot be built, the policy falls back to blocked Bloom and records why. [`AutoPolicy`] chooses Bloom for flushes
//! and Ribbon for large files. [`kind`] lists all kinds.
//! # Where to start
//!
//! | to | use |
//! |---|---|
//! | configure a store once | [`Filters`] |
//! | choose how keys are hashed | [`KeyHasher`]; [`SecretSeed`] for untrusted keys; [`KeyParts`] for prefixes |
//! | choose filters | [`AutoPolicy`], [`FixedPolicy`], or your own [`FilterPolicy`] |
//! | build one per file | [`FilterBuilder`], [`BuildReport`] |
//! | load and probe one | [`FilterReader`], [`Probe`] |
//! | probe the filters of many files | [`FilterSet`]; [`MatchBitmap`] for one key, [`MatchMatrix`] for many |
//! | work with blocks directly | [`FilterBlock`], [`BuildContext`], [`LoadContext`] |
//! | add keys in memory | [`DynamicFilter`]: [`StandardBloom`], [`AtomicBloom`], [`RegisterBlockedBloom`] |
//! | add keys without bound, after a file was written, or forget old ones | [`layers`] |
//! | combine stored Bloom filters | [`FilterBlock::union`] |
//! | remove keys as well | [`CountingBloom::remove`], [`CuckooFilter::remove`] |
//! | watch rates | [`FilterStats`], [`FilterHealth`] |
//!
//! # Modules
//!
//! Each type has one path. The root contains everything an engine needs to build, load and probe filters. The modules
//! contain the rest:
//!
//! - [`filter`]: a page for each kind of filter: how it works, what it costs, when to choose it
//! - [`kind`]: the list of kinds, and the trait for user-defined kinds
//! - [`layers`]: filters of several parts: late keys, any number of keys, recent keys
//! - [`simd`]: the instruction set in use
//!
//! Two packages build on this one. `sstfilter-range` contains filters for key ranges, with which scans skip files.
//! `sstfilter-store` selects the files that a lookup must read, with memory budgets, partitions, sidecars and levels.
//!
//! FORMAT.md, next to this crate's manifest, and the pages in docs/format specify the bytes. PROMISES.md states the
//! guarantees, and how to find the tests that check them. SECURITY.md describes what an attacker can do, and
//! ARCHITECTURE.md how the modules work together.
//!
//! # Features
//!
//! `ribbon` and `std` are on by default. Blocked Bloom is always there; each other kind is a feature.
//!
//! - `std`: without it, the library needs the feature `libm`, `alloc`, and atomics with compare-and-swap. Hashing,
//!   building, loading, probing and sets work, and write the same bytes, on one thread and without a clock.
//!   [`FileId::random`] and [`KeyHasher::random_secret`] are absent, and kernels use only the instructions that the
//!   target is compiled for.
//! - `ribbon`: the kind Ribbon. Without it, [`AutoPolicy`] builds blocked Bloom filters for large files, too, and
//!   [reports why](FallbackReason::NotCompiled).
//! - `growing`: the kinds that accept keys after they are built. Needs 64-bit atomics.
//! - `fuse`, `line-ribbon`, `xor`: the kinds binary fuse, line ribbon, and xor and xor+.
//! - `all-kinds`: all of these kinds.
//! - `libm`: needed without `std`.
//! - `serde`: makes [`FilterStats`] serializable.
//!
//! If the feature of a block's kind is off, its reader reports an [unknown kind](BlockError::UnknownKind) and answers
//! "may be present".
//!
//! # Stability
//!
//! Versions follow Cargo's rules. You can implement the traits [`FilterPolicy`], [`BlockBuilder`], [`KeyExtractor`] and
//! [`kind::UserKind`]; a minor release may add methods to them, with defaults. Only this crate implements
//! [`DynamicFilter`]. Structs and enums that may grow are `#[non_exhaustive]`. The module `internal` is not part of the
//! interface. The minimum Rust version, now 1.89, rises in minor releases only. FORMAT.md has its own versions.
//! crates/cli/JSON.md states what may change in the output of the program's `--json`.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(
    not(feature = "all-kinds"),
    allow(
        dead_code,
        unreachable_patterns,
        unused_imports,
        unused_macros,
        reason = "some parts are only for some kinds"
    )
)]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::float_cmp,
        reason = "tests use small numbers, and compare floats that are exact"
    )
)]

// For `vec!` and `format!`, which `core` does not have.
#[macro_use]
extern crate alloc;

#[cfg(all(feature = "growing", not(target_has_atomic = "64")))]
compile_error!("the feature `growing` needs 64-bit atomics, which this target does not have");

#[deny(clippy::indexing_slicing)]
mod block;
#[deny(clippy::indexing_slicing)]
mod codec;
#[cfg(test)]
// Shared with the integration tests, which are another package.
#[path = "../tests/common/effort.rs"]
mod effort;
mod error;
pub mod filter;
#[deny(clippy::indexing_slicing)]
mod filters;
mod hash;
mod ids;
mod kernel;
mod key_range;
#[cfg(feature = "growing")]
#[deny(clippy::indexing_slicing)]
pub mod layers;
mod math;
pub mod kind {
    //! The list of the library's kinds, the trait for user-defined kinds, and the limits of the format.
    //!
    //! ```
    //! use sstfilter::{BitsPerKey, kind};
    //!
    //! for entry in kind::all() {
    //!     match entry.configure(BitsPerKey::new(17.0)?) {
    //!         Ok(policy) => println!("{}: {:?} bytes for a million keys", entry.name, policy.block_bytes(1_000_000)),
    //!         Err(error) => println!("{}: {error}", entry.name),
    //!     }
    //! }
    //! # Ok::<(), sstfilter::ConfigError>(())
    //! ```

    #[cfg(feature = "fuse")]
    pub use crate::filter::binary_fuse::kind::BinaryFuseKind;
    pub use crate::filter::blocked_bloom::kind::BlockedBloomKind;
    pub use crate::filter::encoded::{EncodedShape, MAX_KEYS, MAX_PAYLOAD_BYTES};
    pub use crate::filter::kind::Updates;
    #[cfg(feature = "line-ribbon")]
    pub use crate::filter::line_ribbon::kind::LineRibbonKind;
    #[cfg(feature = "ribbon")]
    pub use crate::filter::ribbon::kind::RibbonKind;
    pub use crate::filter::user::UserKind;
    pub use crate::policy::Plan;
    pub use crate::policy::kinds::{KindEntry, all};
}
#[doc(hidden)]
pub mod internal {
    //! Helpers for the workspace's other packages, which depend on one exact release. They change without notice: do
    //! not use them elsewhere.

    /// Where filters probably reside, which decides whether lookups prefetch.
    pub use crate::block::CacheResidency;
    /// Up to 64 filters that are probed together.
    pub use crate::block::FilterGroup;
    /// The parts of keys that a block records.
    pub use crate::block::HeldParts;
    /// A key's hashes, prepared for all filters of a lookup.
    pub use crate::block::PreparedKey;
    /// The positions of the set bits of a word.
    pub use crate::block::bits_of;
    /// The end of a block, read and compared with its checksum.
    pub use crate::block::trailer::CheckedTail;
    /// The end of a block, to be written.
    pub use crate::block::trailer::Ending;
    /// The decoded end of a block.
    pub use crate::block::trailer::Trailer;
    /// Bytes aligned to a cache line, as kernels expect them.
    pub use crate::codec::AlignedBuffer;
    /// Numbers at fixed offsets of a structure.
    pub use crate::codec::Fields;
    /// Numbers of as many bytes as they need.
    pub use crate::codec::varint;
    /// The hashes of keys that arrive in order.
    pub use crate::hash::OrderedKeyHashes;
    /// Sorts hashes.
    pub use crate::hash::sort_hashes;
    /// The line of range filters and file maps.
    pub use crate::kernel::code_line;
    /// Heads of sorted keys, which speed up the search for a key.
    pub use crate::kernel::key_head;
    /// Prefetches a cache line.
    pub use crate::kernel::prefetch::prefetch;
    /// Detects that an earlier call ended with a panic.
    pub use crate::panics::Interruption;
    /// Locks that a panic does not poison.
    #[cfg(feature = "std")]
    pub use crate::panics::locks;
    /// A filter's counts.
    pub use crate::stats::FilterCounters;
    /// Counters of many filters, with one stripe per thread.
    #[cfg(feature = "std")]
    pub use crate::stats::StripedCounters;
    /// The stripe of one thread.
    #[cfg(feature = "std")]
    pub use crate::stats::ThreadCounters;
    /// Shares work among threads.
    pub use crate::threads::share;
}
mod panics;
mod policy;
#[cfg(feature = "std")]
#[deny(clippy::indexing_slicing)]
mod random_access;
pub mod simd;
mod stats;
mod threads;
mod units;
#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../tests/common/vectors.rs"]
mod vectors;

/// The package that defines [`Bytes`](bytes::Bytes), the type of built blocks.
pub use bytes;

pub use block::{
    BlockIdentity, BlockInfo, FallbackReason, FileId, FilterBlock, KindRegistry, LoadContext, MatchBitmap, MatchMatrix,
    Probe,
};
pub use error::{BlockError, ConfigError, ShrinkError};
pub use filters::{FilterBuilder, FilterReader, FilterSet, Filters, LookupOutcome};
pub use hash::{
    DEFAULT_HASH_SEED, DelimitedPrefix, Domain, FixedPrefix, HashId, HashIdentity, KeyExtractor, KeyHash, KeyHasher,
    KeyParts, PrefixWatch, PreparedPrefix, SecretSeed, check_prefix_stability,
};
pub use ids::KindId;
pub use key_range::KeyRange;
pub use policy::{
    AutoPolicy, BlockBuilder, BuildContext, BuildPurpose, BuildReport, BuiltFilter, FilterPolicy, FixedPolicy,
};
#[cfg(feature = "std")]
pub use random_access::RandomAccess;
pub use stats::FilterStats;
pub use units::{BitsPerKey, FalsePositiveRate, Sizing};
#[cfg(feature = "growing")]
pub use {
    block::DynamicFilter, filter::counting_bloom::filter::CountingBloom, filter::cuckoo::filter::CuckooFilter,
    filter::error::FilterError, filter::health::FilterHealth,
    filter::register_blocked_bloom::filter::RegisterBlockedBloom, filter::standard_bloom::atomic::AtomicBloom,
    filter::standard_bloom::filter::StandardBloom,
};

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
