//! Which filter a file gets, and why.
//!
//! A [`FilterPolicy`] makes a [`FilterBuilder`] for each file that is written. The builder takes the
//! keys' hashes, `(add_key | add_hash | add_hashes)* finish`, and gives the block's bytes with a
//! [`BuildReport`]. It never fails the file's write: a filter that cannot be built as requested falls
//! back to blocked Bloom, and at the very worst to no filter; the report and the block say why.

mod auto;
mod bloom;
mod buffered;
mod collect;
mod fuse;
mod key_hashing;
mod readings;
mod report;
mod ribbon;
#[cfg(test)]
mod self_check_tests;
mod standard_bloom;
mod xor;

use core::fmt;

pub use auto::AutoPolicy;
pub use bloom::BloomPolicy;
pub(crate) use bloom::RATE_KEYS;
pub use fuse::{FusePolicy, FuseSizing};
pub use report::{BuildReport, BuiltFilter};
pub use ribbon::{RibbonPolicy, RibbonSizing};
pub use standard_bloom::StandardBloomPolicy;
pub use xor::{XorLayout, XorPolicy, XorSizing};

use crate::block::FileId;
use crate::hash::{KeyHash, KeyHasher};

/// Chooses a filter for each file. Open to users: an engine can bring its own rule.
///
/// ```
/// use sstfilter::{AutoPolicy, BuildContext, FilterBuilder, FilterPolicy};
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
///     fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
///         if context.bottommost { None } else { self.0.builder(context) }
///     }
/// }
/// ```
pub trait FilterPolicy: Send + Sync + fmt::Debug {
    /// A name for options and reports. Readers never look at it: a block says itself what it is, so
    /// renaming or changing a policy disables no filter that exists.
    fn name(&self) -> &str;

    /// A builder for one file, or `None` for a file that is to have no filter.
    fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>>;
}

/// Takes the hashes of one file's keys and makes its filter.
///
/// Keys come in any order and any number of times. `Send`, so that a flush can move between threads.
///
/// A builder that a panic of the engine's hash function has interrupted in [`add_key`](Self::add_key) may lack that key:
/// ours then give no filter ([`FallbackReason::Interrupted`](crate::FallbackReason::Interrupted)), and an implementation
/// of the engine's own must not finish as if nothing had been either. A hash that the engine computes itself, for
/// [`add_hash`](Self::add_hash), is not seen here if it panics: drop the builder then.
pub trait FilterBuilder: Send + fmt::Debug {
    /// Adds a key, hashed with the context's hasher.
    fn add_key(&mut self, key: &[u8]);

    /// Adds a key by its hash, which must come from a hasher of the context's identity.
    fn add_hash(&mut self, hash: KeyHash);

    /// Adds many.
    fn add_hashes(&mut self, hashes: &[KeyHash]) {
        hashes.iter().for_each(|&hash| self.add_hash(hash));
    }

    /// About how many bytes the block would have if it were finished now: for writers that cut files
    /// by size.
    fn estimated_bytes(&self) -> u64;

    /// Builds the filter.
    fn finish(self: Box<Self>) -> BuiltFilter;
}

/// What is known of a file when its filter is begun.
///
/// A policy of the engine's own that wraps another one passes it on: a filter made of a new context is not bound to the
/// file, and would be refused when it is loaded.
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
    /// The level it goes to, if known.
    pub level: Option<u32>,
    /// Whether no older file can hold its keys: most lookups that come so far find their key.
    pub bottommost: bool,
    /// The number of distinct keys to come, or an upper bound for it, if known. Bloom filters are then
    /// built as keys arrive, and buffer nothing. More keys than expected raise the false positive rate.
    pub expected_keys: Option<u64>,
    /// Bytes that building may use beside the hashes and the finished block, if limited.
    pub memory_budget: Option<u64>,
    /// The file that the block is bound to. `None` where something else binds it: tables do so themselves.
    pub file_id: Option<FileId>,
}

impl BuildContext {
    /// A flush of an unknown number of keys.
    #[must_use]
    pub fn new(hasher: &KeyHasher) -> Self {
        Self {
            hasher: hasher.clone(),
            purpose: BuildPurpose::Flush,
            level: None,
            bottommost: false,
            expected_keys: None,
            memory_budget: None,
            file_id: None,
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

    /// Says that the file goes to the bottommost level.
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

    /// Binds the block to its file, which takes 8 bytes: it can then be loaded with this id only.
    #[must_use]
    pub fn with_file_id(self, file: FileId) -> Self {
        Self { file_id: Some(file), ..self }
    }
}

/// Why a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildPurpose {
    /// A memtable goes to disk: the file is small, young, and soon merged; writers wait for it.
    Flush,
    /// Files are merged: the result is large and lives long.
    Compaction,
    /// A file is built outside the engine, to be taken in whole.
    Ingest,
}

/// Whether a finished filter is asked for every key that went into it before it is handed out.
///
/// It costs one probe per key, and makes Bloom builders buffer their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelfCheck {
    /// Trust the memory and the code.
    #[default]
    Off,
    /// Ask for every key; a filter that denies one is not used.
    On,
}
