//! The hash of a builder's keys, which may be the caller's code.

use super::{BuildContext, BuildReport, BuiltFilter};
use crate::block::{BlockIdentity, FallbackReason};
use crate::filter::FilterKind;
use crate::hash::{KeyHash, KeyHasher};

/// A builder's hasher, and whether it has ever left without an answer.
///
/// A hash function of the engine's own may panic, and the engine may catch that and go on: its file then has a key that
/// the filter has never heard of. Such a filter must not be built.
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

    /// What the block records of its hash and its file.
    pub(super) const fn identity(&self) -> BlockIdentity {
        self.identity
    }

    /// No filter, if there was a key without a hash.
    pub(super) fn refusal(&self, requested: FilterKind) -> Option<BuiltFilter> {
        let report = || BuildReport { reason: FallbackReason::Interrupted, ..BuildReport::new(requested) };
        self.is_interrupted.then(|| BuiltFilter::new(None, report()))
    }
}
