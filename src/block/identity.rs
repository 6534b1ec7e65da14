//! What a filter belongs to: a hash function and a file.

use alloc::vec::Vec;

use super::held::HeldParts;
use crate::error::BlockError;
use crate::filter::KindRegistry;
use crate::hash::{Domain, HashIdentity, KeyHash, KeyHasher, KeyParts};
use crate::ids::FileId;

/// The hash and the file that a block records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockIdentity {
    /// How its keys are hashed.
    pub hash: HashIdentity,
    /// `None` in a block that is bound to no file.
    pub file: Option<FileId>,
}

impl BlockIdentity {
    /// Bytes that a file's fingerprint adds to a block.
    pub const FILE_BYTES: u64 = FILE_BYTES as u64;

    /// Bytes that the file's fingerprint adds to a block.
    #[must_use]
    pub const fn file_bytes(self) -> u64 {
        if self.file.is_some() { Self::FILE_BYTES } else { 0 }
    }
}

impl From<HashIdentity> for BlockIdentity {
    fn from(hash: HashIdentity) -> Self {
        Self { hash, file: None }
    }
}

/// Bytes of a fingerprint in a block.
pub(crate) const FILE_BYTES: usize = 8;

/// What a filter is checked against when it is loaded: the reader's hash and parts of keys, the file's id, and keys
/// that the file is known to hold.
///
/// The counterpart of [`BuildContext`](crate::BuildContext), for filters of keys and of ranges. Where whole keys are
/// probed for, without a file id and known keys, pass a `&KeyHasher` or a [`HashIdentity`] instead.
///
/// ```
/// use sstfilter::{FileId, KeyHasher, LoadContext};
///
/// let hasher = KeyHasher::default();
/// let file = FileId::random(); // as the file's metadata have it
/// let known: [&[u8]; 2] = [b"apple", b"plum"]; // the keys that the file begins and ends with
/// let context = LoadContext::new(&hasher).with_file_id(file).with_known_keys(&known);
/// # let _ = context;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LoadContext<'a> {
    identity: BlockIdentity,
    /// `None` where the reader has hashes alone.
    hasher: Option<&'a KeyHasher>,
    parts: Wanted<'a>,
    known_keys: &'a [&'a [u8]],
    kinds: Option<&'a KindRegistry>,
}

/// Which parts of keys a reader probes for.
#[derive(Clone, Copy, Debug)]
enum Wanted<'a> {
    WholeKeys,
    These(&'a KeyParts),
    /// These, each of which the file says that its filter holds.
    All(&'a KeyParts),
    /// Whatever the filter holds.
    Any,
}

/// A hash by which a filter must hold a known key.
pub struct KnownHash<'a> {
    pub key: &'a [u8],
    /// That of the part; `None` for the whole key.
    pub domain: Option<Domain>,
    pub hash: KeyHash,
}

impl<'a> LoadContext<'a> {
    /// Expects an unbound block, to be probed with hashes of `hasher`.
    #[must_use]
    pub const fn new(hasher: &'a KeyHasher) -> Self {
        Self { hasher: Some(hasher), ..Self::of_hash(hasher.identity()) }
    }

    /// The hash and the file that a block must have.
    #[must_use]
    pub const fn identity(&self) -> BlockIdentity {
        self.identity
    }

    /// How the reader hashes; `None` where it has hashes alone.
    #[must_use]
    pub const fn hasher(&self) -> Option<&'a KeyHasher> {
        self.hasher
    }

    /// The kinds of the engine's own, if there are any.
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

    /// The block must be bound to this file.
    #[must_use]
    pub const fn with_file_id(mut self, file: FileId) -> Self {
        self.identity.file = Some(file);
        self
    }

    /// The parts of keys that the reader probes for: whole keys alone unless this is set. The filter must hold at least
    /// one of them. Set it wherever prefixes are probed for: known keys are checked by the parts that are named here,
    /// and a probe for a part that is not named, or not held, answers "may be present". Whole keys are answered, and
    /// checked by known ones, wherever the filter holds them.
    #[must_use]
    pub const fn with_key_parts(self, parts: &'a KeyParts) -> Self {
        Self { parts: Wanted::These(parts), ..self }
    }

    /// The file says, where its filter is named, that it holds all of these parts: the filter must say so, too. It
    /// would be negative for what it never held.
    #[must_use]
    pub const fn with_all_key_parts(self, parts: &'a KeyParts) -> Self {
        Self { parts: Wanted::All(parts), ..self }
    }

    /// The filter may hold any parts of keys, and answers for all of them: for tools that show or verify filters, and
    /// do not know what their writer put into them. Known keys are checked as whole keys alone.
    #[must_use]
    pub const fn with_any_key_parts(self) -> Self {
        Self { parts: Wanted::Any, ..self }
    }

    /// The filter must contain these keys of the file, for instance its smallest and largest. Do not use a shortened
    /// index separator or the bound of a range tombstone: the filter does not hold those. An empty list checks
    /// nothing. If all files begin or end with the same keys (sentinels), add one from the middle. Add one inside the
    /// domain of each extractor that has neither: a prefix probe by an extractor of which no known key has a part
    /// answers "may be present", because nothing has confirmed it. A range filter with an extractor needs such a key,
    /// too: otherwise it is not used ([`BlockError::PartNotHeld`]).
    ///
    /// A filter of other keys passes with its false positive rate per known key: at 1 %, two keys detect 99.99 % of
    /// such filters. Only this check detects a custom hash that changed while its tag did not. No partition of a filter
    /// opens before all that must hold these keys were read and found to hold them; if one cannot be read, none does.
    ///
    /// They need the reader's hasher: a context made of a [`HashIdentity`] alone refuses every block if it has known
    /// keys, except a range filter of ordered codes, which has no hash.
    #[must_use]
    pub const fn with_known_keys(self, known_keys: &'a [&'a [u8]]) -> Self {
        Self { known_keys, ..self }
    }

    fn known_parts(&self) -> impl Iterator<Item = KnownHash<'a>> {
        let named = if let Wanted::These(parts) | Wanted::All(parts) = self.parts { Some(parts) } else { None };
        self.hasher.into_iter().flat_map(move |hasher| {
            self.known_keys.iter().flat_map(move |&key| {
                let parts = named.into_iter().flat_map(move |parts| parts.hashes(hasher, key));
                let parts = parts.filter(|(domain, _)| domain.is_some());
                let hashes = core::iter::once((None, hasher.hash(key))).chain(parts);
                hashes.map(move |(domain, hash)| KnownHash { key, domain, hash })
            })
        })
    }

    /// The block may be of one of these kinds, too.
    #[must_use]
    pub const fn with_kinds(self, kinds: &'a KindRegistry) -> Self {
        Self { kinds: Some(kinds), ..self }
    }
}

impl HeldParts<'_> {
    /// Checks the identity of a filter, and which parts of keys it holds, against those of the reader.
    ///
    /// # Errors
    ///
    /// [`BlockError`] that names what differs.
    pub fn check_for(self, context: &LoadContext<'_>, got: BlockIdentity) -> Result<(), BlockError> {
        let expected = context.identity;
        if expected.hash != got.hash {
            return Err(BlockError::HashMismatch { expected: expected.hash, got: got.hash });
        }
        if expected.file != got.file {
            return Err(BlockError::FileMismatch { expected: expected.file, got: got.file });
        }
        match context.parts {
            Wanted::WholeKeys if !self.has_whole_keys() => self.check(&KeyParts::whole_keys()),
            Wanted::These(parts) => self.check(parts),
            Wanted::All(parts) => self.check_all(parts),
            Wanted::WholeKeys | Wanted::Any => Ok(()),
        }
    }

    /// A bit for each extractor of a filter whose parts the reader names, and of whose parts a known key has one, if
    /// there are known keys. It answers no probe for others, because nothing has confirmed them.
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

    /// The known keys, each with all hashes by which a filter of these parts holds it and answers its reader: whole
    /// keys, named or not, and the parts that are named.
    ///
    /// # Errors
    ///
    /// [`BlockError::Unreadable`] if there are known keys and no hasher.
    pub fn known_hashes<'a>(self, context: &LoadContext<'a>) -> Result<Vec<KnownHash<'a>>, BlockError> {
        if !context.known_keys.is_empty() && context.hasher.is_none() {
            return Err(BlockError::Unreadable {
                reason: "known keys: expected a context made with the reader's hasher, got one of a hash identity"
                    .into(),
            });
        }
        Ok(context.known_parts().filter(|known| self.has(known.domain)).collect())
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
