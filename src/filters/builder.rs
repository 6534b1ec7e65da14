//! The builder of one file's filter.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use crate::block::FallbackReason;
use crate::hash::KeyHash;
use crate::ids::KindId;
use crate::panics::Interruption;
use crate::policy::{BlockBuilder, BuildContext, BuildReport, BuiltFilter, FilterPolicy};

/// Builds the filter of one file: `with_* (add_key | add_hash)* finish`.
///
/// [`Filters::builder`](crate::Filters::builder) makes one. Add every key of the file, including deleted ones: a lookup
/// that misses a tombstone continues to older files, which may still contain the key. Keys may arrive in any order and
/// more than once. A filter never fails the file's write: [`finish`](Self::finish) reports what was built and why.
///
/// Call the `with_*` methods first. After the first key, settings have no effect.
///
/// ```
/// use sstfilter::{BuildPurpose, FileId, Filters};
///
/// let filters = Filters::default();
/// let mut builder = filters
///     .builder(FileId::random())
///     .with_purpose(BuildPurpose::Compaction)
///     .with_level(6)
///     .with_expected_keys(10_000);
/// (0..10_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
/// let built = builder.finish();
/// println!("{} bits per key", built.report.bits_per_key());
/// ```
#[must_use]
pub struct FilterBuilder {
    policy: Arc<dyn FilterPolicy>,
    context: BuildContext,
    /// Created at the first key, when all settings are final. The inner `None` stands for a file without a filter.
    #[expect(clippy::option_option, reason = "not started, or started by a policy that may decline")]
    started: Option<Option<Box<dyn BlockBuilder>>>,
    /// Set if the policy panics: the filter then lacks the key that was being added.
    interruption: Interruption,
}

impl FilterBuilder {
    pub(super) fn new(policy: Arc<dyn FilterPolicy>, context: BuildContext) -> Self {
        Self { policy, context, started: None, interruption: Interruption::default() }
    }

    fn with(mut self, set: impl FnOnce(&mut BuildContext)) -> Self {
        if self.started.is_none() {
            set(&mut self.context);
        }
        self
    }

    crate::build_settings!();

    #[inline]
    fn started(&mut self) -> Option<&mut Box<dyn BlockBuilder>> {
        let started = self.started.get_or_insert_with(|| {
            self.interruption.enter();
            // If the policy panics, `leave` is not reached, and `finish` builds no filter.
            let builder = self.policy.builder(&self.context);
            self.interruption.leave();
            builder
        });
        started.as_mut()
    }

    /// Adds a key: the bytes that lookups ask for, without a sequence number or a timestamp that they do not know.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        if let Some(builder) = self.started() {
            builder.add_key(key);
        }
    }

    /// Adds a key by its hash from [`Filters::hash`](crate::Filters::hash) of the same filters; with another hash, the
    /// key is lost. The block then holds whole keys and no parts of them.
    #[inline]
    pub fn add_hash(&mut self, hash: KeyHash) {
        if let Some(builder) = self.started() {
            builder.add_hash(hash);
        }
    }

    /// Adds many keys by their hashes.
    pub fn add_hashes(&mut self, hashes: &[KeyHash]) {
        if let Some(builder) = self.started() {
            builder.add_hashes(hashes);
        }
    }

    /// Approximate size of the block if it were finished now, for writers that cut files by size; 0 before the first
    /// key.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        self.started.iter().flatten().map(|builder| builder.estimated_bytes()).sum()
    }

    /// Builds the filter. Store its block unchanged, preferably at a multiple of 64 bytes. If there is no block, always
    /// search the file.
    pub fn finish(self) -> BuiltFilter {
        let Self { policy, context, started, interruption } = self;
        let is_interrupted = interruption.has_happened();
        // A file without keys has no builder yet, but gets a filter, too.
        if let Some(builder) = started.unwrap_or_else(|| policy.builder(&context)).filter(|_| !is_interrupted) {
            return builder.finish();
        }
        let reason = if is_interrupted { FallbackReason::Panicked } else { FallbackReason::None };
        // No kind was requested, and 0 is the number of none.
        BuiltFilter::new(None, BuildReport { reason, ..BuildReport::new(KindId::from_code(0)) })
    }
}

impl fmt::Debug for FilterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterBuilder")
            .field("policy", &self.policy.name())
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}
