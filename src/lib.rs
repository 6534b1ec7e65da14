//! `sstfilter` is the filter-block component of an LSM storage engine.
//!
//! It builds one filter per SST file, writes it as a self-describing block, and answers "can this key be
//! in this file?", so that a point read skips the file. An absent key then costs nanoseconds per file
//! instead of a disk read, and a key that is there is never denied.
//!
//! # Building and asking
//!
//! ```
//! use sstfilter::{AutoPolicy, BitsPerKey, BuildContext, BuildPurpose, FilterPolicy};
//! use sstfilter::{FileId, GuardedFilter, KeyHasher, LoadContext, Probe};
//!
//! // Once per store: how keys are hashed, and which filters files get.
//! let hasher = KeyHasher::default();
//! let policy = AutoPolicy::new(BitsPerKey::TEN)?;
//!
//! // Once per file, while it is written: add every key, and store the block's bytes in the file. The block is bound to
//! // the file by an id that never comes again: a UUID, or a number beside something random.
//! let file = FileId::from(*b"a UUID: 16 bytes");
//! let context = BuildContext::new(&hasher).with_purpose(BuildPurpose::Compaction).with_file_id(file);
//! let mut builder = policy.builder(&context).expect("this policy never declines");
//! (0..10_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
//! let built = builder.finish();
//! assert!(built.report.bits_per_key() < 7.0);
//! let bytes = built.block.expect("ten thousand keys fit");
//!
//! // Once per file, when it is opened: damage, and the filter of another file, are unusable and never wrong.
//! let filter = GuardedFilter::load(bytes, LoadContext::new(&hasher).with_file_id(file));
//!
//! // Once per lookup: hash the key, probe the filter of every file.
//! let hash = hasher.hash(&4_711_u32.to_be_bytes());
//! assert_eq!(filter.probe(hash), Probe::MaybePresent);
//! # Ok::<(), sstfilter::ConfigError>(())
//! ```
//!
//! For many files, a [`FilterSet`] probes all their filters at once, and a [`TableSet`] whole tables. MISUSE.md lists what
//! a caller can do wrong, and what happens then.
//!
//! # Which filter?
//!
//! Figures for 1,000,000 keys, whole block; the rates are computed, the sizes asserted by tests.
//!
//! | kind | bits per key at 1 % | at 0.1 % | keys |
//! |---|--:|--:|---|
//! | [blocked Bloom](filter::blocked_bloom) (default) | 9.9 | 15.6 | fixed |
//! | [Ribbon](filter::ribbon) | 6.7 | 10.0 | fixed |
//! | [standard Bloom](filter::standard_bloom) | 9.6 | 14.4 | added |
//! | [counting Bloom](filter::counting_bloom) | 38.4 | 57.5 | added, removed |
//! | [two-bit Bloom](filter::two_bit_bloom) | 16.8 | 33.6 | added by many threads |
//! | [cuckoo](filter::cuckoo) | 10.5 | 13.7 | added, removed |
//! | [xor](filter::xor) | 9.8 (0.39 %) | 19.7 | fixed |
//! | [xor+](filter::xor_plus) | 9.1 (0.39 %) | 17.8 | fixed |
//! | [binary fuse](filter::binary_fuse), 4 cells | 7.5 (0.78 %) | 10.7 | fixed |
//! | information bound | 6.64 | 9.97 | |
//!
//! [`advise`] ranks them for a use.
//!
//! [`BloomPolicy`] is the default; [`RibbonPolicy`] falls back to Bloom by itself where Ribbon does not
//! serve, and says so; [`AutoPolicy`] takes Bloom for flushes and Ribbon for large files.
//!
//! # The rooms of the house
//!
//! Each knows only those above it in this list: [`hash`] (key bytes to one [`KeyHash`], once), the codec,
//! the kernels, [`filter`] (the kinds), [`block`] (the on-disk block), [`policy`] (which kind a file gets,
//! and why), [`sst`] (a small table writer and reader, and a set of tables that skips files), and [`advise`].
//!
//! The bytes are specified in FORMAT.md, next to this crate's manifest; PROMISES.md says what holds whatever happens, which
//! tests hold it, and what they were tried with; SECURITY.md what strangers can do.

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

pub mod advise;
#[deny(clippy::indexing_slicing)]
pub mod block;
#[deny(clippy::indexing_slicing)]
mod codec;
mod error;
pub mod filter;
pub mod hash;
mod kernel;
pub mod policy;
pub mod simd;
#[deny(clippy::indexing_slicing)]
pub mod sst;
pub mod stats;
mod units;

pub use block::{
    BlockInfo, FallbackReason, FileId, FilterBlock, FilterSet, GuardedFilter, HitBitmap, HitMatrix, LoadContext,
    LookupOutcome, PreparedKey, Probe,
};
pub use error::{BlockError, ConfigError, FilterError};
pub use filter::FilterKind;
pub use filter::binary_fuse::FuseArity;
pub use filter::counting_bloom::CountingBloom;
pub use filter::cuckoo::{CuckooFilter, CuckooShape};
pub use filter::standard_bloom::StandardBloom;
pub use filter::two_bit_bloom::{TwoBitBloom, TwoBitOptions, WordLayout};
pub use filter::xor::XorWidth;
pub use hash::{
    DEFAULT_HASH_SEED, DelimitedPrefix, FixedPrefix, HashId, HashIdentity, KeyExtractor, KeyHash, KeyHasher, SecretSeed,
};
pub use policy::{
    AutoPolicy, BloomPolicy, BuildContext, BuildPurpose, BuildReport, BuiltFilter, FilterBuilder, FilterPolicy,
    FusePolicy, FuseSizing, RibbonPolicy, RibbonSizing, SelfCheck, StandardBloomPolicy, XorLayout, XorPolicy,
    XorSizing,
};
pub use sst::*;
pub use stats::{FilterHealth, FilterStats, FprAlarm, FprAlarmKind, HealthAlarm, HealthLimits};
pub use units::{BitsPerKey, FalsePositiveRate};

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
