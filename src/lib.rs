//! Filter blocks for LSM storage engines: one small filter per SST file, which tells a point read that it can skip the
//! file.
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
//! // Once per file that is written. Keep the id in the file's metadata; it is never used again.
//! let file = FileId::random();
//! let mut builder = filters.builder(file).with_purpose(BuildPurpose::Compaction);
//! for key in [b"apple", b"lemon", b"melon"] {
//!     builder.add_key(key);
//! }
//! let block = builder.finish().block; // bytes to store; None: always search this file
//!
//! // Once per file that is opened. Loading never fails: if anything is wrong, every key may be present.
//! let filter = filters.load(block.unwrap(), file);
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
//! For 1,000,000 keys, whole blocks. Rates are computed; tests assert the sizes.
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
//! | information bound | 6.64 | 9.97 | |
//!
//! `sstfilter advise`, a command of the program, ranks them for a workload.
//!
//! [`FixedPolicy`] gives files one of them, blocked Bloom by default. It falls back to blocked Bloom where the
//! requested kind would be larger or cannot be built, and records why. [`AutoPolicy`] chooses Bloom for flushes and
//! Ribbon for large files. [`kind`] lists all kinds.
//!
//! # What to use first
//!
//! | to | use |
//! |---|---|
//! | configure a store once | [`Filters`] |
//! | choose how keys are hashed | [`KeyHasher`]; [`SecretSeed`] if strangers choose keys; [`KeyParts`] for prefixes |
//! | choose filters | [`AutoPolicy`], [`FixedPolicy`], or a [`FilterPolicy`] of your own |
//! | build one per file | [`FilterBuilder`], [`BuildReport`] |
//! | load and probe one | [`FilterReader`], [`Probe`] |
//! | probe the filters of many files | [`FilterSet`]; [`MatchBitmap`] for one key, [`MatchMatrix`] for many |
//! | work with blocks themselves | [`FilterBlock`], [`BuildContext`], [`LoadContext`] |
//! | add keys in memory | [`DynamicFilter`]: [`StandardBloom`], [`RegisterBlockedBloom`] |
//! | remove them, too | [`CountingBloom::remove`], [`CuckooFilter::remove`] |
//! | watch rates | [`FilterStats`], [`FilterHealth`] |
//!
//! # Modules
//!
//! Each type has one path. What an engine needs to build, load and probe filters is here at the root; the modules hold
//! the rest:
//!
//! - [`filter`]: a page for each kind of filter: how it works, what it costs, when to choose it
//! - [`kind`]: the list of kinds, and the trait for a kind of your own
//! - [`simd`]: the instruction set in use
//!
//! Packages of their own: `sstfilter-range` has filters for ranges of keys, by which scans skip files, and
//! `sstfilter-store` tells which of many files must be read: memory budgets, partitions, sidecars, levels.
//!
//! FORMAT.md, next to this crate's manifest, and the pages in docs/format specify the bytes. PROMISES.md states the
//! guarantees and how to find the tests that check them, SECURITY.md what an attacker can do, and ARCHITECTURE.md how
//! the modules work together.
//!
//! # Features
//!
//! All are on by default. Without `std`, the library needs `alloc` and atomics that compare and swap: hashing,
//! building, loading, probing and sets work, with the same bytes, on one thread and without a clock. [`FileId::random`]
//! and [`KeyHasher::random_secret`] are left out, and vectors are used as far as the target is compiled for them.
//! Without `growing`, the kinds that take keys once they are built are left out, and without `xor`, xor and xor+; their
//! blocks are then of an [unknown kind](BlockError::UnknownKind), and answer "may be present". `growing` needs atomics
//! of 64 bits. `serde`, which is off by default, makes [`FilterStats`] serializable.
//!
//! # Stability
//!
//! Versions follow Cargo's rules. The traits [`FilterPolicy`], [`BlockBuilder`], [`KeyExtractor`] and
//! [`kind::UserKind`] are open: a minor release may add methods to them, with defaults. [`DynamicFilter`] is closed.
//! Structs and enums that may grow are `#[non_exhaustive]`. The module `internal` is not part of the interface. The
//! minimum Rust version, now 1.89, rises in minor releases only. FORMAT.md has its own versions, and the program's
//! `--json` says in crates/cli/JSON.md what may change.

#![cfg_attr(not(feature = "std"), no_std)]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::float_cmp,
        clippy::checked_conversions,
        reason = "tests work on small numbers, and compare floats that are exact"
    )
)]

#[macro_use]
extern crate alloc;

#[cfg(all(feature = "growing", not(target_has_atomic = "64")))]
compile_error!("the feature `growing` needs atomics of 64 bits, which this target does not have");

#[deny(clippy::indexing_slicing)]
mod block;
#[deny(clippy::indexing_slicing)]
mod codec;
#[cfg(test)]
#[path = "../tests/common/effort.rs"]
mod effort;
mod error;
pub mod filter;
#[deny(clippy::indexing_slicing)]
mod filters;
mod hash;
mod ids;
mod kernel;
pub mod kind {
    //! The kinds of filter: the list of the library's kinds, a trait for one of your own, and the limits of the format.
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

    pub use crate::filter::binary_fuse::kind::BinaryFuseKind;
    pub use crate::filter::blocked_bloom::kind::BlockedBloomKind;
    pub use crate::filter::encoded::{EncodedShape, MAX_KEYS, MAX_PAYLOAD_BYTES};
    pub use crate::filter::kind::Updates;
    pub use crate::filter::ribbon::kind::RibbonKind;
    pub use crate::filter::user::UserKind;
    pub use crate::policy::Plan;
    pub use crate::policy::kinds::{KindEntry, all};
}
#[doc(hidden)]
pub mod internal {
    //! Helpers for the packages above this one, which name the one release that they need. They change without notice:
    //! do not use them elsewhere.

    /// Where filters probably are, by which lookups prefetch.
    pub use crate::block::CacheResidency;
    /// Up to 64 filters that are probed at once.
    pub use crate::block::FilterGroup;
    /// The parts of keys that a block says that it holds.
    pub use crate::block::HeldParts;
    /// A key's hashes, prepared for all filters of a lookup.
    pub use crate::block::PreparedKey;
    /// The positions of the bits of a word that are set.
    pub use crate::block::bits_of;
    /// What a block ends with, read and compared with its checksum.
    pub use crate::block::trailer::CheckedTail;
    /// The same, to be written.
    pub use crate::block::trailer::Ending;
    /// What a filter's block says after its payload.
    pub use crate::block::trailer::Trailer;
    /// Bytes that begin at a line of the CPU's cache, as kernels expect them.
    pub use crate::codec::AlignedBuffer;
    /// Numbers at fixed places of a structure.
    pub use crate::codec::Fields;
    /// The hashes of keys that come in order.
    pub use crate::hash::OrderedKeyHashes;
    /// Sorts hashes.
    pub use crate::hash::sort_hashes;
    /// An id that nothing else has.
    #[cfg(feature = "std")]
    pub use crate::ids::unique_id;
    /// Asks for memory before it is needed.
    pub use crate::kernel::prefetch::prefetch;
    /// Whether an earlier call ended by a panic.
    pub use crate::panics::Interruption;
    /// A filter's counts.
    pub use crate::stats::FilterCounters;
    /// Counts of many filters, each thread's by themselves.
    #[cfg(feature = "std")]
    pub use crate::stats::StripedCounters;
    /// What one thread counts there.
    #[cfg(feature = "std")]
    pub use crate::stats::ThreadCounters;
    /// Shares work among threads.
    pub use crate::threads::share;
    /// How many threads some work is worth.
    pub use crate::threads::worthwhile;
}
mod panics;
mod policy;
pub mod simd;
mod stats;
mod threads;
mod units;
#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../tests/common/vectors.rs"]
mod vectors;

/// The package of [`Bytes`](bytes::Bytes), of which built blocks are.
pub use bytes;

pub use block::{
    BlockIdentity, BlockInfo, FallbackReason, FileId, FilterBlock, KindRegistry, LoadContext, MatchBitmap, MatchMatrix,
    Probe,
};
pub use error::{BlockError, ConfigError, ShrinkError};
pub use filters::{FilterBuilder, FilterReader, FilterSet, Filters, LookupOutcome};
pub use hash::{
    DEFAULT_HASH_SEED, DelimitedPrefix, Domain, FixedPrefix, HashId, HashIdentity, KeyExtractor, KeyHash, KeyHasher,
    KeyParts, PrefixMismatch, PrefixWatch, PreparedPrefix, SecretSeed, check_prefix_stability,
};
pub use ids::KindId;
pub use policy::{
    AutoPolicy, BlockBuilder, BuildContext, BuildPurpose, BuildReport, BuiltFilter, FilterPolicy, FixedPolicy,
};
pub use stats::FilterStats;
pub use units::{BitsPerKey, FalsePositiveRate, Sizing};
#[cfg(feature = "growing")]
pub use {
    block::DynamicFilter, filter::counting_bloom::filter::CountingBloom, filter::cuckoo::filter::CuckooFilter,
    filter::error::FilterError, filter::health::FilterHealth,
    filter::register_blocked_bloom::filter::RegisterBlockedBloom, filter::standard_bloom::filter::StandardBloom,
};

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
