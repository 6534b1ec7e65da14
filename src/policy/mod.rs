//! Policies: which filter a file gets, and why.
//!
//! A [`FilterPolicy`] creates a [`BlockBuilder`] for each new file. The order of calls is
//! `(add_key | add_hash | add_hashes)* finish`; `finish` returns the block's bytes with a [`BuildReport`]. A filter
//! never fails the file's write: if it cannot be built as requested, the builder falls back to blocked Bloom, and as a
//! last resort to no filter. The report and the block record why.

mod auto;
mod builder;
mod kind_policy;
pub(crate) mod kinds;
mod report;
#[cfg(test)]
#[cfg(feature = "fuse")]
mod self_check_tests;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

pub use auto::AutoPolicy;
pub use kind_policy::{FixedPolicy, Plan};
pub use report::{BuildReport, BuiltFilter};

use crate::block::FileId;
use crate::hash::{KeyHash, KeyHasher, KeyParts};

/// Chooses a filter for each file. Implement it for your own rule, or use [`AutoPolicy`] or [`FixedPolicy`].
///
/// ```
/// use sstfilter::{AutoPolicy, BuildContext, BlockBuilder, FilterPolicy};
///
/// /// Leaves out the filters of the last level, where most lookups find their key.
/// #[derive(Debug)]
/// struct OptimizeForHits(AutoPolicy);
///
/// impl FilterPolicy for OptimizeForHits {
///     fn name(&self) -> &str {
///         "optimize-for-hits"
///     }
///
///     fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
///         (!context.bottommost).then(|| self.0.builder(context))
///     }
/// }
/// ```
pub trait FilterPolicy: Send + Sync + fmt::Debug {
    /// The name in options and reports. Readers ignore it because blocks describe themselves: renaming or changing a
    /// policy does not invalidate existing filters.
    fn name(&self) -> &str;

    /// Returns a builder for one file, or for one partition of its filter; `None` for no filter.
    ///
    /// Several threads may build partitions [at the same time](BuildContext::with_threads).
    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>>;

    /// Approximate size in bytes of the block for `keys` distinct keys; `None` if the policy cannot tell. It decides
    /// where partitioned filters are cut, which assume 10 bits per key for `None`.
    fn block_bytes(&self, _context: &BuildContext, _keys: u64) -> Option<u64> {
        None
    }
}

impl<P: FilterPolicy + ?Sized> FilterPolicy for Arc<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        (**self).builder(context)
    }

    fn block_bytes(&self, context: &BuildContext, keys: u64) -> Option<u64> {
        (**self).block_bytes(context, keys)
    }
}

/// Collects the hashes of one file's keys and builds its filter.
///
/// Keys may arrive in any order and more than once. Builders are `Send`, so a flush can move between threads. If the
/// context names [parts of keys](BuildContext::with_key_parts), [`add_key`](Self::add_key) adds those that the previous
/// key has not added.
///
/// If a custom hash function or extractor panics in [`add_key`](Self::add_key), the builder may lack that key. The
/// library's builders then produce no filter ([`FallbackReason::Panicked`](crate::FallbackReason::Panicked)); a
/// user-defined builder must do the same. A builder cannot detect a panic in code that computes a hash for
/// [`add_hash`](Self::add_hash): drop the builder then.
pub trait BlockBuilder: Send + fmt::Debug {
    /// Adds the parts of a key that the context names, hashed with the context's hasher. A user-defined builder must
    /// pass the key to one of the library's builders, which records the parts in the block. It must not add parts with
    /// [`add_hash`](Self::add_hash): the block would claim to hold whole keys, and answer "absent" for all of them.
    fn add_key(&mut self, key: &[u8]);

    /// Adds a whole key by its hash, for engines that have hashed the key already. The hash must come from a hasher
    /// with the context's identity. The block then records whole keys and no parts, whatever the context names.
    fn add_hash(&mut self, hash: KeyHash);

    /// Adds many keys by their hashes.
    fn add_hashes(&mut self, hashes: &[KeyHash]) {
        hashes.iter().for_each(|&hash| self.add_hash(hash));
    }

    /// Approximate size of the block if it were finished now, for writers that cut files by size.
    fn estimated_bytes(&self) -> u64;

    /// Builds the filter.
    fn finish(self: Box<Self>) -> BuiltFilter;
}

/// What an engine can say about a file, as methods of everything that builds its filters: the context of a policy, and
/// the builders of a file's filter or filters. Each is `#[must_use]`, and has a `with` that changes its
/// [`BuildContext`]. A macro and not a trait, which every caller would have to import.
#[doc(hidden)]
#[macro_export]
macro_rules! build_settings {
    () => {
        /// Sets why the file is written; `BuildPurpose::Flush` by default.
        pub fn with_purpose(self, purpose: $crate::BuildPurpose) -> Self {
            self.with(|context| context.purpose = purpose)
        }

        /// Sets the level that the file goes to.
        pub fn with_level(self, level: u32) -> Self {
            self.with(|context| context.level = Some(level))
        }

        /// Marks the file as going to the bottommost level: no older file can contain its keys.
        pub fn at_bottommost_level(self) -> Self {
            self.with(|context| context.bottommost = true)
        }

        /// Sets the number of distinct keys to come, or an upper bound. A Bloom filter of whole keys is then built as
        /// keys arrive, without buffering their hashes. Far more keys than expected make it `is_overfull`: the false
        /// positive rate rises.
        pub fn with_expected_keys(self, keys: u64) -> Self {
            self.with(|context| context.expected_keys = Some(keys))
        }

        /// Says that a memory budget may shrink the filter, as a store with a budget does for all of its files. Its
        /// blocked Bloom filters then take up to 3 % more bytes, and at 10 bits per key the rate 1.27 % instead of
        /// 0.97 %; at half of the bytes they have 9.4 % instead of 12 %, where others often have no half.
        pub fn shrinkable(self) -> Self {
            self.with(|context| context.shrinkable = true)
        }

        /// Limits the memory that building uses in addition to the hashes and the finished filters.
        pub fn with_memory_budget(self, bytes: u64) -> Self {
            self.with(|context| context.memory_budget = Some(bytes))
        }

        /// Builds on up to `threads` threads, including the calling one. The bytes do not depend on it.
        ///
        /// `finish` starts the others and waits for them: one for each 65,536 keys, so that small filters start none,
        /// and no more than the memory budget allows (`kind::Plan` states the bytes per thread). If a thread cannot be
        /// started, the calling one does its work. Ribbon, line ribbon, xor, xor+ and binary fuse filters use several
        /// threads, and partitions cut by hash range are built several at a time. A policy of yours is then called for
        /// them in any order, on any of these threads, and the bytes do not depend on the order if the policy's choices
        /// do not.
        pub fn with_threads(self, threads: usize) -> Self {
            self.with(|context| context.threads = threads)
        }
    };
}

/// What the engine knows about a file before it adds keys to the filter.
///
/// A policy that wraps another one must pass on the context that it received: a filter built from a new context is not
/// bound to the file, so loading it fails.
///
/// ```
/// use sstfilter::{BuildContext, BuildPurpose, KeyHasher};
///
/// let context = BuildContext::new(&KeyHasher::default())
///     .with_purpose(BuildPurpose::Compaction)
///     .with_level(5)
///     .with_expected_keys(1_000_000);
/// assert_eq!(context.expected_keys, Some(1_000_000));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct BuildContext {
    /// The store's hasher.
    pub hasher: KeyHasher,
    /// Why the file is written.
    pub purpose: BuildPurpose,
    /// The level that the file goes to, if known.
    pub level: Option<u32>,
    /// Whether no older file can contain its keys. Most lookups that reach such a file find their key.
    pub bottommost: bool,
    /// The number of distinct keys to come, or an upper bound, if known. Blocked and standard Bloom filters of whole
    /// keys then have this size and are built as keys arrive, without buffering hashes. Far more keys than expected
    /// raise their false positive rate, and [`BuildReport::is_overfull`] says so. All other kinds, and filters of parts
    /// of keys, buffer hashes and take the real number, unless more than 65,536 announced keys rule the kind out.
    pub expected_keys: Option<u64>,
    /// Whether a memory budget may shrink the filter. A policy of yours can then choose a kind that shrinks well.
    pub shrinkable: bool,
    /// Limit on the bytes that building uses in addition to the hashes and the finished block, if any.
    pub memory_budget: Option<u64>,
    /// The maximum number of threads that build the filter in `finish`, including the calling one; 1 by default.
    pub threads: usize,
    /// The file that the block is bound to. Tables bind their blocks themselves.
    pub file_id: Option<FileId>,
    /// The parts of each key that go into the filter; the whole key by default.
    pub key_parts: KeyParts,
}

impl BuildContext {
    /// Creates the context of a flush with an unknown number of keys.
    pub fn new(hasher: &KeyHasher) -> Self {
        Self {
            hasher: hasher.clone(),
            purpose: BuildPurpose::Flush,
            level: None,
            bottommost: false,
            expected_keys: None,
            shrinkable: false,
            memory_budget: None,
            threads: 1,
            file_id: None,
            key_parts: KeyParts::whole_keys(),
        }
    }

    fn with(mut self, set: impl FnOnce(&mut Self)) -> Self {
        set(&mut self);
        self
    }

    crate::build_settings!();

    /// Puts these parts of each key into the filter. The block records which parts it holds, and answers "may be
    /// present" for others. A filter of only whole keys records nothing. A block records up to 63 extractors, whose
    /// names must have 1 to 255 bytes. The builder checks some prefixes of the keys, and leaves out an extractor that
    /// breaks its promise: [`BuildReport::unstable_extractors`] names it.
    pub fn with_key_parts(self, key_parts: KeyParts) -> Self {
        Self { key_parts, ..self }
    }

    /// Binds the block to its file, for 8 bytes: it can then be loaded only with this id.
    pub fn with_file_id(self, file: FileId) -> Self {
        Self { file_id: Some(file), ..self }
    }
}

/// Why a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildPurpose {
    /// A memtable is written. The file is small and soon merged, and writers wait for it.
    Flush,
    /// Files are merged. The result is large and lives long.
    Compaction,
    /// A file is built outside the engine and ingested whole.
    Ingest,
}
