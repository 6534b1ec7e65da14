//! The identity of a filter, a hash function and a file, and the checks against it.

use alloc::vec::Vec;

use super::held::HeldParts;
use crate::error::BlockError;
use crate::filter::KindRegistry;
use crate::hash::{Domain, HashIdentity, KeyHash, KeyHasher, KeyParts};
use crate::ids::FileId;

/// The hash and the file that a block records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockIdentity {
    /// The hash function of the block's keys.
    pub hash: HashIdentity,
    /// The file that the block is bound to; `None` in an unbound block.
    pub file: Option<FileId>,
}

impl BlockIdentity {
    /// Bytes that binding adds to a block.
    pub const FILE_BYTES: u64 = FILE_BYTES as u64;

    /// Bytes that the file's fingerprint takes in this block: 0 in an unbound one.
    #[must_use]
    pub const fn file_bytes(self) -> u64 {
        if self.file.is_some() { Self::FILE_BYTES } else { 0 }
    }

    /// Checks the identity of a filter against this one, its reader's.
    pub(crate) fn check(self, got: Self) -> Result<(), BlockError> {
        // The hash first: a block of another hash says nothing about this reader's keys, whatever else matches.
        if self.hash != got.hash {
            return Err(BlockError::HashMismatch { expected: self.hash, got: got.hash });
        }
        if self.file == got.file {
            Ok(())
        } else {
            Err(BlockError::FileMismatch { expected: self.file, got: got.file })
        }
    }
}

impl From<HashIdentity> for BlockIdentity {
    fn from(hash: HashIdentity) -> Self {
        Self { hash, file: None }
    }
}

/// Bytes of a fingerprint in a block.
pub(crate) const FILE_BYTES: usize = 8;

/// The reader's side of loading a filter: its hash and parts of keys, the file's id, and keys that the file is known to
/// contain. The filter must match all of it.
///
/// This is the counterpart of [`BuildContext`](crate::BuildContext), for filters of keys and of ranges. To probe for
/// whole keys without a file id and known keys, pass a `&KeyHasher` or a [`HashIdentity`] instead.
///
/// ```
/// use sstfilter::{FileId, KeyHasher, LoadContext};
///
/// let hasher = KeyHasher::default();
/// let file = FileId::random(); // from the file's metadata
/// let known: [&[u8]; 2] = [b"apple", b"plum"]; // the first and the last key of the file
/// let context = LoadContext::new(&hasher).with_file_id(file).with_known_keys(&known);
/// # let _ = context;
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct LoadContext<'a> {
    identity: BlockIdentity,
    /// `None` if the reader has only hashes.
    hasher: Option<&'a KeyHasher>,
    parts: Wanted<'a>,
    known_keys: &'a [&'a [u8]],
    kinds: Option<&'a KindRegistry>,
}

/// The parts of keys that a reader probes for.
#[derive(Clone, Copy, Debug)]
enum Wanted<'a> {
    WholeKeys,
    These(&'a KeyParts),
    /// These, and the file records that its filter holds all of them.
    All(&'a KeyParts),
    /// All parts that the filter holds.
    Any,
}

/// A hash that a filter must contain because of a known key.
pub struct KnownHash<'a> {
    pub key: &'a [u8],
    /// The domain of the part; `None` for the whole key.
    pub domain: Option<Domain>,
    pub hash: KeyHash,
}

impl<'a> LoadContext<'a> {
    /// Creates the context of an unbound block, to be probed with hashes of `hasher`.
    pub const fn new(hasher: &'a KeyHasher) -> Self {
        Self { hasher: Some(hasher), ..Self::of_hash(hasher.identity()) }
    }

    /// The hash and the file that a block must have.
    #[must_use]
    pub const fn identity(&self) -> BlockIdentity {
        self.identity
    }

    /// The reader's hasher; `None` if it has only hashes.
    #[must_use]
    pub const fn hasher(&self) -> Option<&'a KeyHasher> {
        self.hasher
    }

    /// The user-defined kinds, if any.
    #[must_use]
    pub const fn kinds(&self) -> Option<&'a KindRegistry> {
        self.kinds
    }

    /// The keys that the filter must contain.
    #[must_use]
    pub const fn known_keys(&self) -> &'a [&'a [u8]] {
        self.known_keys
    }

    const fn of_hash(hash: HashIdentity) -> Self {
        let identity = BlockIdentity { hash, file: None };
        let parts = Wanted::WholeKeys;
        Self { identity, hasher: None, parts, known_keys: &[], kinds: None }
    }

    /// Requires a block that is bound to this file.
    pub const fn with_file_id(self, file: FileId) -> Self {
        Self { identity: BlockIdentity { file: Some(file), ..self.identity }, ..self }
    }

    /// Sets the parts of keys that the reader probes for; only whole keys by default. The filter must hold at least one
    /// of them. Set them if you probe for prefixes: a probe for a part that is not named here or not held answers "may
    /// be present", and known keys are checked by the parts named here. If the filter holds whole keys, it answers for
    /// them and checks known keys by them in any case.
    pub const fn with_key_parts(self, parts: &'a KeyParts) -> Self {
        Self { parts: Wanted::These(parts), ..self }
    }

    /// Requires a filter that records all of these parts, because its file records them, too. A filter without them
    /// answers "absent" for every such part.
    pub const fn with_all_key_parts(self, parts: &'a KeyParts) -> Self {
        Self { parts: Wanted::All(parts), ..self }
    }

    /// Accepts any parts of keys, and answers for all that the filter holds. Use it in tools that show or verify
    /// filters without knowing what the writer put into them. Known keys are checked only as whole keys.
    pub const fn with_any_key_parts(self) -> Self {
        Self { parts: Wanted::Any, ..self }
    }

    /// Requires a filter that contains these keys of the file, for instance its smallest and largest. Do not pass a
    /// shortened index separator or the bound of a range tombstone, which the filter does not contain. An empty list
    /// checks nothing. If all files begin or end with the same keys (sentinels), add a key from the middle.
    ///
    /// For each extractor, pass at least one key inside its domain. Without such a key, nothing confirms the extractor:
    /// prefix probes by it answer "may be present", and a range filter with it is not used
    /// ([`BlockError::PartNotHeld`]).
    ///
    /// A filter of other keys passes with its false positive rate per known key: at 1 %, two keys detect 99.99 % of
    /// such filters. Only this check detects a custom hash that changed under the same tag. The partitions of a filter
    /// open only after all partitions that must contain these keys were read and found to contain them. If one of these
    /// cannot be read, none opens.
    ///
    /// Known keys need the reader's hasher. With them, a context made from only a [`HashIdentity`] refuses every block,
    /// except a range filter of ordered codes, which has no hash.
    pub const fn with_known_keys(self, known_keys: &'a [&'a [u8]]) -> Self {
        Self { known_keys, ..self }
    }

    /// Also accepts blocks of these user-defined kinds.
    pub const fn with_kinds(self, kinds: &'a KindRegistry) -> Self {
        Self { kinds: Some(kinds), ..self }
    }
}

impl HeldParts<'_> {
    /// Checks a filter's identity and its parts of keys against the reader's.
    ///
    /// # Errors
    ///
    /// A [`BlockError`] that names the difference.
    pub fn check_for(self, context: &LoadContext<'_>, got: BlockIdentity) -> Result<(), BlockError> {
        context.identity.check(got)?;
        match context.parts {
            Wanted::WholeKeys if !self.has_whole_keys() => self.check(&KeyParts::whole_keys()),
            Wanted::These(parts) => self.check(parts),
            Wanted::All(parts) => self.check_all(parts),
            Wanted::WholeKeys | Wanted::Any => Ok(()),
        }
    }

    /// Returns a bit for each extractor of the filter that answers probes: the reader names it and, if there are known
    /// keys, one of them has a part by it. Nothing has confirmed the other extractors.
    #[must_use]
    pub fn answered(self, context: &LoadContext<'_>, known: &[KnownHash<'_>]) -> u64 {
        let is_confirmed =
            |domain| context.known_keys.is_empty() || known.iter().any(|known| known.domain == Some(domain));
        let is_answered = |domain| match context.parts {
            Wanted::WholeKeys => false,
            Wanted::These(parts) | Wanted::All(parts) => {
                parts.domains().any(|named| named == domain) && is_confirmed(domain)
            }
            Wanted::Any => true,
        };
        self.domains().enumerate().fold(0, |bits, (bit, domain)| bits | u64::from(is_answered(domain)) << bit)
    }

    /// Returns all hashes that a filter of these parts must contain because of the known keys: of whole keys, named or
    /// not, and of the named parts.
    ///
    /// # Errors
    ///
    /// [`BlockError::Unreadable`] if there are known keys but no hasher.
    pub fn known_hashes<'a>(self, context: &LoadContext<'a>) -> Result<Vec<KnownHash<'a>>, BlockError> {
        let mut known = Vec::new();
        for &key in context.known_keys {
            let Some(hasher) = context.hasher else {
                let reason = "known keys: expected a context made with the reader's hasher, got one of a hash identity";
                return Err(BlockError::Unreadable { reason: reason.into() });
            };
            let mut hashes = vec![(None, hasher.hash(key))];
            if let Wanted::These(parts) | Wanted::All(parts) = context.parts {
                hashes.extend(parts.key(hasher, key).hashes().map(|(domain, hash)| (Some(domain), hash)));
            }
            let held = hashes.into_iter().filter(|&(domain, _)| self.has(domain));
            known.extend(held.map(|(domain, hash)| KnownHash { key, domain, hash }));
        }
        Ok(known)
    }
}

impl<'a> From<&'a KeyHasher> for LoadContext<'a> {
    fn from(hasher: &'a KeyHasher) -> Self {
        Self::new(hasher)
    }
}

impl From<HashIdentity> for LoadContext<'_> {
    fn from(hash: HashIdentity) -> Self {
        Self::of_hash(hash)
    }
}
