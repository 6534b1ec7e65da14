//! What a filter belongs to: a hash function and a file.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::held::HeldParts;
use crate::error::BlockError;
use crate::filter::KindRegistry;
use crate::hash::{Domain, HashIdentity, KeyExtractor, KeyHash, KeyHasher, KeyParts};
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
    pub(crate) identity: BlockIdentity,
    /// `None` where the reader has hashes alone.
    pub(crate) hasher: Option<&'a KeyHasher>,
    parts: Wanted<'a>,
    pub(crate) range_extractor: Option<&'a Arc<dyn KeyExtractor>>,
    pub(crate) known_keys: &'a [&'a [u8]],
    pub(crate) kinds: Option<&'a KindRegistry>,
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
pub(crate) struct KnownHash<'a> {
    pub(crate) key: &'a [u8],
    /// That of the part; `None` for the whole key.
    pub(crate) domain: Option<Domain>,
    pub(crate) hash: KeyHash,
}

impl<'a> LoadContext<'a> {
    /// Expects an unbound block, to be probed with hashes of `hasher`.
    #[must_use]
    pub const fn new(hasher: &'a KeyHasher) -> Self {
        Self { hasher: Some(hasher), ..Self::of_hash(hasher.identity()) }
    }

    const fn of_hash(hash: HashIdentity) -> Self {
        let identity = BlockIdentity { hash, file: None };
        let parts = Wanted::WholeKeys;
        Self { identity, hasher: None, parts, range_extractor: None, known_keys: &[], kinds: None }
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
    pub(crate) const fn with_all_key_parts(self, parts: &'a KeyParts) -> Self {
        Self { parts: Wanted::All(parts), ..self }
    }

    /// The filter may hold any parts of keys, and answers for all of them: for tools that show or verify filters, and
    /// do not know what their writer put into them. Known keys are checked as whole keys alone.
    #[must_use]
    pub const fn with_any_key_parts(self) -> Self {
        Self { parts: Wanted::Any, ..self }
    }

    /// The extractor of the prefixes that ranges are inside of ([`RangePolicy::extractor`]): a range filter of hashed
    /// codes is not used with another one. Other filters have none, and do not look at it.
    ///
    /// [`RangePolicy::extractor`]: crate::range::RangePolicy::extractor
    #[must_use]
    pub const fn with_range_extractor(self, extractor: Option<&'a Arc<dyn KeyExtractor>>) -> Self {
        Self { range_extractor: extractor, ..self }
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

    /// Checks the identity of a filter, and which parts of keys it holds, against those of the reader.
    pub(crate) fn check(&self, got: BlockIdentity, held: HeldParts<'_>) -> Result<(), BlockError> {
        let expected = self.identity;
        if expected.hash != got.hash {
            return Err(BlockError::HashMismatch { expected: expected.hash, got: got.hash });
        }
        if expected.file != got.file {
            return Err(BlockError::FileMismatch { expected: expected.file, got: got.file });
        }
        match self.parts {
            Wanted::WholeKeys if !held.has_whole_keys() => held.check(&KeyParts::whole_keys()),
            Wanted::These(parts) => held.check(parts),
            Wanted::All(parts) => held.check_all(parts),
            Wanted::WholeKeys | Wanted::Any => Ok(()),
        }
    }

    /// A bit for each extractor of a filter whose parts the reader names, and of whose parts a known key has one, if
    /// there are known keys. It answers no probe for others, because nothing has confirmed them.
    pub(crate) fn answered(&self, held: HeldParts<'_>, known: &[KnownHash<'_>]) -> u64 {
        let is_confirmed =
            |domain| self.known_keys.is_empty() || known.iter().any(|known| known.domain == Some(domain));
        let is_answered = |domain| match self.parts {
            Wanted::WholeKeys => false,
            Wanted::These(parts) | Wanted::All(parts) => {
                parts.domains().any(|named| named == domain) && is_confirmed(domain)
            }
            Wanted::Any => true,
        };
        held.domains().enumerate().fold(0, |bits, (bit, domain)| bits | u64::from(is_answered(domain)) << bit)
    }

    /// The known keys, each with all hashes by which a filter of these parts holds it and answers its reader: whole
    /// keys, named or not, and the parts that are named.
    pub(crate) fn known_hashes(&self, held: HeldParts<'_>) -> Result<Vec<KnownHash<'a>>, BlockError> {
        if !self.known_keys.is_empty() && self.hasher.is_none() {
            return Err(BlockError::Unreadable {
                reason: "known keys: expected a context made with the reader's hasher, got one of a hash identity"
                    .into(),
            });
        }
        Ok(self.known_parts().filter(|known| held.has(known.domain)).collect())
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
