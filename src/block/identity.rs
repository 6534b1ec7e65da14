//! What a filter belongs to: the hash of its keys, and the file that it was built for.

use core::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::open::FilterBlock;
use crate::error::{BlockError, ConfigError};
use crate::hash::{HashIdentity, KeyHash, KeyHasher};

/// The seed of file fingerprints: the ASCII bytes `sstfbind`, read as a big-endian number. A seed of its own, so that
/// no file id has the fingerprint that the same bytes have as a key.
const FINGERPRINT_SEED: u64 = 0x7373_7466_6269_6e64;

/// Most bytes of a file id: those of a UUID.
const MAX_ID_BYTES: usize = 16;

/// The id of the file that a filter block is built for: a UUID, a file number with a generation, any 1 to 16 bytes that
/// no other file ever has, of this store or of another one whose files it may meet.
///
/// A block carries no trace of the file it was written to unless it is *bound*. An unbound block of another file (a
/// swapped sidecar, a misdirected or stale write) has valid checksums, and answers "absent" for nearly every key. So
/// give the id when the filter is built, and again when it is loaded: a block that is bound to another file, or to none,
/// is then [unusable](BlockError::FileMismatch). The block carries a 64-bit fingerprint of the id, in 8 bytes.
///
/// Where an id comes again, a stale block of the former file is believed. A bare file number does so sooner than one
/// thinks: taken from a listing of the directory it comes again after a crash, and a replica, a shard or an exporter has
/// the same numbers. So put something beside it that does not repeat:
///
/// ```
/// use sstfilter::FileId;
///
/// let (store, number) = (0x1f3a_55c0_7e21_94bb_u64, 7_u64); // the first drawn at random when the store was made
/// let id = FileId::new(&[store.to_le_bytes(), number.to_le_bytes()].concat())?;
/// assert_eq!(FileId::from(7), FileId::new(&7_u64.to_le_bytes())?);
/// assert_ne!(id, FileId::from(7));
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
///
/// ```
/// use sstfilter::{BloomPolicy, BuildContext, FileId, FilterPolicy, GuardedFilter, KeyHasher, LoadContext};
///
/// let hasher = KeyHasher::default();
/// let context = BuildContext::new(&hasher).with_file_id(FileId::from(7));
/// let mut builder = BloomPolicy::default().builder(&context).expect("never declines");
/// builder.add_key(b"apple");
/// let block = builder.finish().block.expect("one key fits");
///
/// let load = |number| GuardedFilter::load(&block, LoadContext::new(&hasher).with_file_id(FileId::from(number)));
/// assert!(load(7).block().is_ok());
/// assert!(load(8).block().is_err(), "the filter of another file");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    fingerprint: u64,
}

impl FileId {
    /// The id of these 1 to 16 bytes. Ids of different lengths differ.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] for no bytes, or more than 16.
    pub fn new(id: &[u8]) -> Result<Self, ConfigError> {
        if !(1..=MAX_ID_BYTES).contains(&id.len()) {
            let (option, expected) = ("file id", "1 to 16 bytes");
            return Err(ConfigError::OutOfRange { option, expected, got: id.len() as u64 });
        }
        Ok(Self::of(id))
    }

    /// What a block carries of the id.
    #[must_use]
    pub const fn fingerprint(self) -> u64 {
        self.fingerprint
    }

    /// The id behind a fingerprint that was read from a block.
    pub(super) const fn from_fingerprint(fingerprint: u64) -> Self {
        Self { fingerprint }
    }

    fn of(id: &[u8]) -> Self {
        Self { fingerprint: xxh3_64_with_seed(id, FINGERPRINT_SEED) }
    }
}

impl From<u64> for FileId {
    /// The id of a file number: its eight bytes, little-endian.
    fn from(number: u64) -> Self {
        Self::of(&number.to_le_bytes())
    }
}

impl From<[u8; 16]> for FileId {
    /// The id of a UUID, or of any 16 bytes.
    fn from(id: [u8; 16]) -> Self {
        Self::of(&id)
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileId(fingerprint {:#018x})", self.fingerprint)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fingerprint {:#018x}", self.fingerprint)
    }
}

/// What a block records of where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockIdentity {
    pub(crate) hash: HashIdentity,
    /// `None` in a block that is bound to no file.
    pub(crate) file: Option<FileId>,
}

impl BlockIdentity {
    /// Bytes that the binding takes in a block.
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
pub(super) const FILE_BYTES: usize = 8;

/// What a block must be, to be used: built from the hashes that it will be probed with, for the file that it is
/// loaded for, and of keys that are known.
///
/// The counterpart of [`BuildContext`](crate::BuildContext). Where there is neither a file id nor a known key, a
/// `&KeyHasher` or a [`HashIdentity`] will do in its place.
///
/// ```
/// use sstfilter::{FileId, KeyHasher, LoadContext};
///
/// let hasher = KeyHasher::default();
/// // The first and the last key that were added.
/// let known = [hasher.hash(b"apple"), hasher.hash(b"plum")];
/// let context = LoadContext::new(&hasher).with_file_id(FileId::from(7)).with_known_keys(&known);
/// # let _ = context;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LoadContext<'a> {
    identity: BlockIdentity,
    known_keys: &'a [KeyHash],
}

impl<'a> LoadContext<'a> {
    /// A block that is bound to no file, and will be probed with hashes of `hasher`.
    #[must_use]
    pub const fn new(hasher: &KeyHasher) -> Self {
        Self { identity: BlockIdentity { hash: hasher.identity(), file: None }, known_keys: &[] }
    }

    /// The block must be bound to this file.
    #[must_use]
    pub const fn with_file_id(mut self, file: FileId) -> Self {
        self.identity.file = Some(file);
        self
    }

    /// The block must contain these keys, which were added to it: the smallest and the largest of the file, for instance
    /// (not a shortened separator of an index, nor a bound of a range tombstone, which no filter holds). With an
    /// extractor, the hashes are those of the parts. No keys check nothing.
    ///
    /// A block of other keys passes with its false positive rate for each key, so two keys find 99.99 % of them at 1 %.
    /// This is the only check that sees a custom hash which was changed under its tag.
    #[must_use]
    pub const fn with_known_keys(self, known_keys: &'a [KeyHash]) -> Self {
        Self { known_keys, ..self }
    }

    /// Compares a verified block with what the context says.
    pub(super) fn check<D: AsRef<[u8]>>(&self, block: &FilterBlock<D>) -> Result<(), BlockError> {
        let (expected, got) = (self.identity, block.identity());
        if expected.hash != got.hash {
            return Err(BlockError::HashMismatch { expected: expected.hash, got: got.hash });
        }
        if expected.file != got.file {
            return Err(BlockError::FileMismatch { expected: expected.file, got: got.file });
        }
        if self.known_keys.iter().any(|&hash| !block.may_contain(hash)) {
            return Err(BlockError::DeniesOwnKey { hash: got.hash });
        }
        Ok(())
    }
}

impl From<&KeyHasher> for LoadContext<'_> {
    fn from(hasher: &KeyHasher) -> Self {
        Self::new(hasher)
    }
}

impl From<HashIdentity> for LoadContext<'_> {
    fn from(hash: HashIdentity) -> Self {
        Self { identity: hash.into(), known_keys: &[] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_other_bytes_or_another_length_have_other_fingerprints() {
        let mut seen = std::collections::HashSet::new();
        for length in 1..=16 {
            for byte in [0, 1, 0xff] {
                assert!(seen.insert(FileId::new(&vec![byte; length]).unwrap()), "{length} times {byte}");
            }
        }
        assert!((2..10_000_u64).all(|number| seen.insert(FileId::from(number))));
    }

    #[test]
    fn an_id_has_one_to_sixteen_bytes() {
        for length in [0, 17, 1_000] {
            let refused = FileId::new(&vec![0; length]);
            assert!(matches!(refused, Err(ConfigError::OutOfRange { got, .. }) if got == length as u64));
        }
        assert_eq!(FileId::from(7), FileId::new(&7_u64.to_le_bytes()).unwrap());
        assert_eq!(FileId::from([7; 16]), FileId::new(&[7; 16]).unwrap());
    }

    #[test]
    fn a_fingerprint_is_not_the_hash_of_the_same_bytes_as_a_key() {
        assert_ne!(FileId::from(7).fingerprint(), KeyHasher::default().hash(&7_u64.to_le_bytes()).get());
    }
}
