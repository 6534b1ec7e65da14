//! `sstfilter` is the filter-block component of an LSM storage engine.
//!
//! It builds one filter per SST file, writes it as a self-describing block, and answers "can this key be
//! in this file?", so that a point read can skip the file. An absent key then costs nanoseconds per file
//! instead of a disk read, and there are no false negatives.
//!
//! # Building and probing
//!
//! ```
//! use sstfilter::{AutoPolicy, BuildContext, BuildPurpose, FileId, FilterReader, KeyHasher, LoadContext, Probe};
//!
//! // Once per store: how keys are hashed, and which filters files get.
//! let (hasher, policy) = (KeyHasher::default(), AutoPolicy::default());
//!
//! // Once per file, while it is written. The block is bound to the file by an id that is never reused.
//! let file = FileId::random();
//! let context = BuildContext::new(&hasher).with_purpose(BuildPurpose::Compaction).with_file_id(file);
//! let mut builder = policy.builder(&context);
//! (0..10_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
//! let block = builder.finish().block.unwrap_or_default();
//!
//! // Once per file, when it is opened: a filter that is damaged, or another file's, answers "may be present".
//! let filter = FilterReader::load(block, LoadContext::new(&hasher).with_file_id(file));
//!
//! // Once per lookup.
//! assert_eq!(filter.probe(hasher.hash(&4_711_u32.to_be_bytes())), Probe::MaybePresent);
//! ```
//!
//! A [`FilterSet`] probes the filters of many files at once. MISUSE.md lists what a caller can do wrong, and the
//! consequences.
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
//! [`KindPolicy`] gives files one of them, blocked Bloom by default. It falls back to blocked Bloom where the
//! requested kind would be larger or cannot be built, and records why. [`AutoPolicy`] chooses Bloom for flushes and
//! Ribbon for large files. [`kind`] lists all kinds.
//!
//! # What to use first
//!
//! | to | use |
//! |---|---|
//! | hash keys once per store | [`KeyHasher`]; [`SecretSeed`] if strangers choose them; [`KeyExtractor`] for prefixes |
//! | choose filters | [`AutoPolicy`], [`KindPolicy`], or a [`FilterPolicy`] of your own |
//! | build one per file | [`BuildContext`], [`FilterBuilder`], [`BuildReport`] |
//! | load and probe one | [`LoadContext`] and [`FilterReader`]; [`FilterBlock`] where damage must be an error |
//! | probe the filters of many files | [`FilterSet`]; [`MatchBitmap`] for one key, [`MatchMatrix`] for many |
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
//! guarantees and the tests that check them, SECURITY.md what an attacker can do, and ARCHITECTURE.md how the modules
//! work together.
//!
//! # Features
//!
//! All are on by default. Without `std`, the library needs `alloc` and atomics that compare and swap: hashing,
//! building, loading, probing and sets work, with the same bytes, on one thread and without a clock. [`FileId::random`]
//! and [`KeyHasher::random_secret`] are left out, and vectors are used as far as the target is compiled for them.
//! Without `growing`, the kinds that take keys once they are built are left out, and without `xor`, xor and xor+; their
//! blocks are then of an [unknown kind](BlockError::UnknownKind), and answer "may be present". `growing` needs atomics
//! of 64 bits.

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

pub use block::{
    BlockIdentity, BlockInfo, FallbackReason, FileId, FilterBlock, FilterReader, FilterSet, KindRegistry, LoadContext,
    LookupOutcome, MatchBitmap, MatchMatrix, Probe,
};
pub use error::{BlockError, ConfigError, ShrinkError};
pub use hash::{
    DEFAULT_HASH_SEED, DelimitedPrefix, Domain, FixedPrefix, HashId, HashIdentity, KeyExtractor, KeyHash, KeyHasher,
    KeyParts, PrefixWatch, PreparedPrefix, SecretSeed, UnstablePart, check_prefix_stability,
};
pub use ids::FilterKind;
pub use policy::{
    AutoPolicy, BuildContext, BuildPurpose, BuildReport, BuiltFilter, FilterBuilder, FilterPolicy, KindPolicy,
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
