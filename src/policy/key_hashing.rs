//! Hashing a builder's keys, possibly with the caller's function.

use super::{BuildContext, BuildReport, BuiltFilter};
use crate::block::{BlockIdentity, FallbackReason};
use crate::filter::FilterKind;
use crate::hash::{KeyHash, KeyHasher};

/// A builder's hasher, and whether it has ever panicked.
///
/// An engine's own hash function may panic, and the engine may catch the panic and go on: its file then has a key that
/// the filter lacks. Such a filter must not be built.
#[derive(Debug)]
pub(super) struct KeyHashing {
    hasher: KeyHasher,
    identity: BlockIdentity,
    is_interrupted: bool,
}

impl KeyHashing {
    pub(super) fn new(context: &BuildContext) -> Self {
        let identity = BlockIdentity { hash: context.hasher.identity(), file: context.file_id };
        Self { hasher: context.hasher.clone(), identity, is_interrupted: false }
    }

    /// The hash of `key`.
    #[inline]
    pub(super) fn hash(&mut self, key: &[u8]) -> KeyHash {
        if !self.hasher.is_custom() {
            return self.hasher.hash(key);
        }
        let was_interrupted = core::mem::replace(&mut self.is_interrupted, true);
        let hash = self.hasher.hash(key);
        self.is_interrupted = was_interrupted;
        hash
    }

    /// The hash and the file that the block records.
    pub(super) const fn identity(&self) -> BlockIdentity {
        self.identity
    }

    /// The refusal to build a filter, if hashing a key ever panicked.
    pub(super) fn refusal(&self, requested: FilterKind) -> Option<BuiltFilter> {
        let report = || BuildReport { reason: FallbackReason::Interrupted, ..BuildReport::new(requested) };
        self.is_interrupted.then(|| BuiltFilter::new(None, report()))
    }
}
