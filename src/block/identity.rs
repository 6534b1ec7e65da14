//! What a filter belongs to: a hash function and a file.

use super::registry::KindRegistry;
use crate::hash::{HashIdentity, KeyHash, KeyHasher};
use crate::ids::FileId;

/// The hash and the file that a block records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockIdentity {
    pub(crate) hash: HashIdentity,
    /// `None` in a block that is bound to no file.
    pub(crate) file: Option<FileId>,
}

impl BlockIdentity {
    /// Bytes that the file's fingerprint adds to a block.
    pub(crate) const fn file_bytes(self) -> u64 {
        if self.file.is_some() { FILE_BYTES as u64 } else { 0 }
    }
}

impl From<HashIdentity> for BlockIdentity {
    fn from(hash: HashIdentity) -> Self {
        Self { hash, file: None }
    }
}

/// Bytes of a fingerprint in a block.
pub(crate) const FILE_BYTES: usize = 8;

/// What a block is checked against when it is loaded: the reader's hash, the file's id, and keys that the file is known
/// to hold.
///
/// The counterpart of [`BuildContext`](crate::BuildContext). Without a file id and known keys, pass a `&KeyHasher` or a
/// [`HashIdentity`] instead.
///
/// ```
/// use sstfilter::{FileId, KeyHasher, LoadContext};
///
/// let hasher = KeyHasher::default();
/// // The first and the last key that were added.
/// let known = [hasher.hash(b"apple"), hasher.hash(b"plum")];
/// let store = 0x1f3a_55c0_7e21_94bb; // random, one per store
/// let context = LoadContext::new(&hasher).with_file_id(FileId::from_parts(store, 7)).with_known_keys(&known);
/// # let _ = context;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LoadContext<'a> {
    pub(crate) identity: BlockIdentity,
    pub(crate) known_keys: &'a [KeyHash],
    pub(crate) kinds: Option<&'a KindRegistry>,
}

impl<'a> LoadContext<'a> {
    /// Expects an unbound block, to be probed with hashes of `hasher`.
    #[must_use]
    pub const fn new(hasher: &KeyHasher) -> Self {
        Self { identity: BlockIdentity { hash: hasher.identity(), file: None }, known_keys: &[], kinds: None }
    }

    /// The block must be bound to this file.
    #[must_use]
    pub const fn with_file_id(mut self, file: FileId) -> Self {
        self.identity.file = Some(file);
        self
    }

    /// The block must contain these keys of the file, for instance its smallest and largest. Do not use a shortened
    /// index separator or the bound of a range tombstone: the filter does not hold those. With an extractor, hash the
    /// extracted parts. An empty list checks nothing.
    ///
    /// A block of other keys passes with its false positive rate per known key: at 1 %, two keys detect 99.99 % of such
    /// blocks. Only this check detects a custom hash that changed while its tag did not.
    #[must_use]
    pub const fn with_known_keys(self, known_keys: &'a [KeyHash]) -> Self {
        Self { known_keys, ..self }
    }

    /// The block may be of one of these kinds, too.
    #[must_use]
    pub const fn with_kinds(self, kinds: &'a KindRegistry) -> Self {
        Self { kinds: Some(kinds), ..self }
    }
}

impl From<&KeyHasher> for LoadContext<'_> {
    fn from(hasher: &KeyHasher) -> Self {
        Self::new(hasher)
    }
}

impl From<HashIdentity> for LoadContext<'_> {
    fn from(hash: HashIdentity) -> Self {
        Self { identity: hash.into(), known_keys: &[], kinds: None }
    }
}
