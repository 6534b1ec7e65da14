//! Which filter a file gets, and why.
//!
//! A [`FilterPolicy`] makes a [`BlockBuilder`] for each file that is written. Calls follow
//! `(add_key | add_hash | add_hashes)* finish`; `finish` returns the block's bytes with a [`BuildReport`]. It never
//! fails the file's write: a filter that cannot be built as requested falls back to blocked Bloom, and as a last resort
//! to no filter. The report and the block record why.

mod auto;
mod builder;
mod kind_policy;
pub(crate) mod kinds;
mod report;
#[cfg(test)]
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

/// Chooses a filter for each file. An engine can implement its own rule.
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
    /// A name for options and reports. Readers ignore it because blocks describe themselves, so renaming or changing a
    /// policy does not invalidate existing filters.
    fn name(&self) -> &str;

    /// A builder for one file, or for one partition of its filter; `None` for one without a filter.
    ///
    /// Partitions may be built [on several threads](BuildContext::with_threads).
    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>>;

    /// About how many bytes the block of a file with `keys` distinct keys has; `None` where the policy cannot say.
    /// Partitioned filters are cut by it, at 10 bits per key where it is `None`.
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
/// Keys may come in any order and repeatedly. Builders are `Send`, so a flush can move between threads. Where the
/// context has [parts of keys](BuildContext::with_key_parts), [`add_key`](Self::add_key) adds them, and leaves out
/// those that the key before has brought.
///
/// If the engine's hash function or extractor panics in [`add_key`](Self::add_key), the builder may lack that key. The
/// library's builders then produce no filter ([`FallbackReason::Panicked`](crate::FallbackReason::Panicked)); an
/// engine's own implementation must do the same. A builder cannot detect a panic while the engine computes a hash for
/// [`add_hash`](Self::add_hash): drop the builder then.
pub trait BlockBuilder: Send + fmt::Debug {
    /// Adds a key: the parts that the context names, hashed with its hasher. An implementation of the engine's own
    /// passes the key to a builder of the library, which records the parts in the block. It must not add parts by
    /// [`add_hash`](Self::add_hash): the block would claim to hold whole keys, and be negative for all of them.
    fn add_key(&mut self, key: &[u8]);

    /// Adds a whole key by its hash, which must come from a hasher of the context's identity. For engines that have
    /// hashed the key already: the block then says that it holds whole keys and no parts, whatever the context names.
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

/// What is known about a file when its filter is started.
///
/// A policy that wraps another one must pass its context on: a filter built from a new context is not bound to the
/// file, and loading it would fail.
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
pub struct BuildContext {
    /// The store's hasher.
    pub hasher: KeyHasher,
    /// Why the file is written.
    pub purpose: BuildPurpose,
    /// The level that the file goes to, if known.
    pub level: Option<u32>,
    /// Whether no older file can hold its keys: most lookups that get this far find their key.
    pub bottommost: bool,
    /// The number of distinct keys to come, or an upper bound, if known: the size of a Bloom filter follows it. Bloom
    /// filters of whole keys are then built as keys arrive, without buffering. More keys than expected raise the false
    /// positive rate. Where a filter holds parts of keys, how many entries they make is known at the end alone, so
    /// their hashes are buffered.
    pub expected_keys: Option<u64>,
    /// Limit on the bytes that building uses beside the hashes and the finished block, if any.
    pub memory_budget: Option<u64>,
    /// The most threads that build the filter in `finish`, the calling one included: 1 unless set.
    pub threads: usize,
    /// The file that the block is bound to. Tables bind their blocks themselves.
    pub file_id: Option<FileId>,
    /// What of each key goes into the filter: the whole key unless set.
    pub key_parts: KeyParts,
}

impl BuildContext {
    /// The context of a flush with an unknown number of keys.
    #[must_use]
    pub fn new(hasher: &KeyHasher) -> Self {
        Self {
            hasher: hasher.clone(),
            purpose: BuildPurpose::Flush,
            level: None,
            bottommost: false,
            expected_keys: None,
            memory_budget: None,
            threads: 1,
            file_id: None,
            key_parts: KeyParts::whole_keys(),
        }
    }

    /// Sets why the file is written.
    #[must_use]
    pub fn with_purpose(self, purpose: BuildPurpose) -> Self {
        Self { purpose, ..self }
    }

    /// Sets the level that the file goes to.
    #[must_use]
    pub fn with_level(self, level: u32) -> Self {
        Self { level: Some(level), ..self }
    }

    /// Marks the file as going to the bottommost level.
    #[must_use]
    pub fn at_bottommost_level(self) -> Self {
        Self { bottommost: true, ..self }
    }

    /// Sets the number of distinct keys to come.
    #[must_use]
    pub fn with_expected_keys(self, keys: u64) -> Self {
        Self { expected_keys: Some(keys), ..self }
    }

    /// Limits the memory used beside the hashes and the finished block.
    #[must_use]
    pub fn with_memory_budget(self, bytes: u64) -> Self {
        Self { memory_budget: Some(bytes), ..self }
    }

    /// Builds the filter on up to `threads` threads, the calling one included. The bytes do not depend on it.
    ///
    /// The others are started in [`finish`](BlockBuilder::finish) and end with it: one for each 65,536 keys, so that
    /// small filters start none, and no more than the memory budget allows ([`Plan`](crate::kind::Plan) says how much
    /// each takes). Where a thread cannot be started, the calling one does its work. Ribbon, xor, xor+ and binary fuse
    /// filters use them; the others are built on the calling thread. Partitions cut by hash range are built several at
    /// a time, whatever their kind: a policy of yours is then called for them in any order, on any of these threads,
    /// and the bytes do not depend on it as long as the policy's choices do not.
    ///
    /// ```
    /// use std::thread::available_parallelism;
    /// use sstfilter::{BuildContext, KeyHasher};
    ///
    /// let cores = available_parallelism().map_or(1, usize::from);
    /// let context = BuildContext::new(&KeyHasher::default()).with_threads(cores);
    /// ```
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Puts these parts of each key into the filter. The block records which it holds, and a reader that probes for
    /// others gets "may be present"; a filter of whole keys alone records nothing. At most 63 extractors are
    /// recorded, those whose names have 1 to 255 bytes. The builder tries some prefixes of the keys, and
    /// leaves out an extractor that breaks its promise: [`BuildReport::unstable_extractors`] names it.
    #[must_use]
    pub fn with_key_parts(self, key_parts: KeyParts) -> Self {
        Self { key_parts, ..self }
    }

    /// Binds the block to its file: it can then be loaded only with this id. The binding takes 8 bytes.
    #[must_use]
    pub fn with_file_id(self, file: FileId) -> Self {
        Self { file_id: Some(file), ..self }
    }
}

/// Why a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildPurpose {
    /// A memtable is written: the file is small and soon merged, and writers wait for it.
    Flush,
    /// Files are merged: the result is large and lives long.
    Compaction,
    /// A file is built outside the engine and ingested whole.
    Ingest,
}
