//! The common part of filters that accept keys while in use. The layer of blocks adds the public trait,
//! [`DynamicFilter`](crate::DynamicFilter).

use core::fmt;

use super::{BuiltPayload, EncodedShape, FallbackReason, FilterShape, KindId, MAX_PAYLOAD_BYTES};
use crate::codec::AlignedBuffer;
use crate::error::BlockError;
use crate::filter::error::FilterError;
use crate::filter::health::FilterHealth;
use crate::filter::words::{AtomicU64, AtomicWords};
use crate::hash::{HashIdentity, KeyHash};

/// A filter in memory that knows nothing of blocks.
pub(crate) trait Dynamic: fmt::Debug + Send + Sync {
    /// The contents that a block stores.
    fn contents(&self) -> &dyn Contents;

    fn contents_mut(&mut self) -> &mut dyn Contents;

    /// Inserts keys in order, up to the first that fails. Fails only for a kind that can be full.
    fn insert_or_fail(&mut self, hashes: &[KeyHash]) -> Result<(), FilterError>;

    /// Restores a stored filter. Its checksum holds, but the payload may still be one that no writer produces. If so,
    /// returns an error or a filter that contains every key inserted from now on.
    fn restore(stored: &StoredFilter<'_>) -> Result<Self, FilterError>
    where
        Self: Sized;
}

/// A shape, a payload, and the hash of its keys.
pub(crate) trait Contents {
    /// Returns the kind of its blocks.
    fn kind(&self) -> KindId;
    fn hash_identity(&self) -> HashIdentity;
    fn shape(&self) -> &dyn FilterShape;
    fn keys(&self) -> u64;
    /// Removes all keys.
    fn clear(&mut self);
    fn health(&self) -> FilterHealth;
    /// Writes the payload to `out`, which has the right length and is all zeros.
    fn write_payload(&self, out: &mut [u8]);
    fn contains(&self, hash: KeyHash) -> bool;
    /// Sets bit `i % 64` of word `i / 64` of `matches` to the answer for key `i`.
    fn contains_batch(&self, hashes: &[KeyHash], matches: &mut [u64]);
}

/// The shape of a filter that only one thread at a time changes.
pub(crate) trait GrowingShape: FilterShape {
    const KIND: KindId;
    fn health(&self, keys: u64, payload: &[u8]) -> FilterHealth;
    /// Checks the properties of a stored payload that inserting and removing rely on. Returns an error for contents
    /// that no writer stores, and corrects harmless deviations.
    fn accept(&self, keys: u64, payload: &mut [u8]) -> Result<(), BlockError>;
}

/// The parts of a block that a filter is restored from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredFilter<'a> {
    pub(crate) kind: KindId,
    pub(crate) hash: HashIdentity,
    pub(crate) shape: &'a EncodedShape,
    /// The payload, as long as the shape requires.
    pub(crate) payload: &'a [u8],
}

impl StoredFilter<'_> {
    /// Decodes the shape, if the block is of kind `expected`.
    pub(crate) fn decode<S: FilterShape>(&self, expected: KindId) -> Result<S, BlockError> {
        if self.kind != expected {
            return Err(BlockError::Kind { expected, got: self.kind });
        }
        S::decode(self.shape)
    }
}

/// The contents of a filter that only one thread at a time changes.
#[derive(Debug)]
pub(crate) struct InMemory<S> {
    pub(crate) hash: HashIdentity,
    pub(crate) shape: S,
    /// As long as the shape requires.
    pub(crate) payload: AlignedBuffer,
    pub(crate) keys: u64,
}

impl<S: FilterShape> InMemory<S> {
    /// Creates a filter without keys: its payload is all zeros.
    pub(crate) fn empty(hash: HashIdentity, shape: S) -> Result<Self, FilterError> {
        let bytes = shape.payload_bytes();
        // Refused at once: a larger filter could be filled but never stored.
        if bytes > MAX_PAYLOAD_BYTES {
            return Err(FilterError::TooLarge { max_bytes: MAX_PAYLOAD_BYTES, got: bytes });
        }
        let payload = AlignedBuffer::zeroed(bytes).ok_or(FilterError::NoMemory { bytes })?;
        Ok(Self { hash, shape, payload, keys: 0 })
    }

    /// Returns the payload of a filter that was filled for a file.
    pub(crate) fn into_payload(self) -> BuiltPayload<S> {
        BuiltPayload::new(self.shape, self.payload)
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.payload.as_slice()
    }
}

impl<S: GrowingShape> InMemory<S> {
    /// Copies a stored payload into a new filter.
    pub(crate) fn restore(stored: &StoredFilter<'_>) -> Result<Self, FilterError> {
        let mut restored = Self::empty(stored.hash, stored.decode(S::KIND)?)?;
        restored.keys = stored.shape.keys;
        let payload = restored.payload.as_mut_slice();
        payload.copy_from_slice(stored.payload);
        // After copying, because `accept` corrects the copy.
        restored.shape.accept(restored.keys, payload)?;
        Ok(restored)
    }
}

impl<S: GrowingShape> Contents for InMemory<S> {
    fn kind(&self) -> KindId {
        S::KIND
    }

    fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    fn shape(&self) -> &dyn FilterShape {
        &self.shape
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn clear(&mut self) {
        self.payload.as_mut_slice().fill(0);
        self.keys = 0;
    }

    fn health(&self) -> FilterHealth {
        self.shape.health(self.keys, self.bytes())
    }

    fn write_payload(&self, out: &mut [u8]) {
        out.copy_from_slice(self.bytes());
    }

    #[inline]
    fn contains(&self, hash: KeyHash) -> bool {
        self.shape.may_contain(self.bytes(), hash)
    }

    fn contains_batch(&self, hashes: &[KeyHash], matches: &mut [u64]) {
        self.shape.may_contain_batch(self.bytes(), hashes, matches);
    }
}

/// The shape of a filter that many threads change at the same time, in atomic words.
pub(crate) trait SharedShape: FilterShape + Copy + PartialEq {
    const KIND: KindId;
    /// Returns the bits of the filter, and those of each key.
    fn size(&self) -> (u64, u8);
    /// Returns the fill, and the number of keys that it suggests. Reads all words.
    fn health(&self, words: &[AtomicU64]) -> FilterHealth;
    fn contains(&self, words: &[AtomicU64], hash: KeyHash) -> bool;
    fn contains_batch(&self, words: &[AtomicU64], hashes: &[KeyHash], matches: &mut [u64]);
    /// Corrects harmless deviations of a stored payload.
    fn accept(&self, _words: &mut AtomicWords) {}
}

/// A filter in memory that many threads change at the same time.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    pub(crate) hash: HashIdentity,
    pub(crate) shape: S,
    /// As many words as the shape requires.
    pub(crate) words: AtomicWords,
}

impl<S: SharedShape> Shared<S> {
    pub(crate) fn empty(hash: HashIdentity, shape: S) -> Result<Self, FilterError> {
        let bytes = shape.payload_bytes();
        if bytes > MAX_PAYLOAD_BYTES {
            return Err(FilterError::TooLarge { max_bytes: MAX_PAYLOAD_BYTES, got: bytes });
        }
        Ok(Self { hash, shape, words: AtomicWords::zeroed(bytes)? })
    }

    pub(crate) fn restore(stored: &StoredFilter<'_>) -> Result<Self, FilterError> {
        let mut restored = Self::empty(stored.hash, stored.decode(S::KIND)?)?;
        restored.words.read(stored.payload);
        restored.shape.accept(&mut restored.words);
        Ok(restored)
    }

    pub(crate) fn union(&self, other: &Self) -> Result<(), FilterError> {
        check_same_hash(self.hash, other.hash)?;
        if self.shape != other.shape {
            return Err(FilterError::ShapeMismatch { expected: self.shape.size(), got: other.shape.size() });
        }
        self.words.union(&other.words);
        Ok(())
    }
}

impl<S: SharedShape> Contents for Shared<S> {
    fn kind(&self) -> KindId {
        S::KIND
    }

    fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    fn shape(&self) -> &dyn FilterShape {
        &self.shape
    }

    fn keys(&self) -> u64 {
        self.health().keys
    }

    fn clear(&mut self) {
        self.words.clear();
    }

    fn health(&self) -> FilterHealth {
        self.shape.health(&self.words)
    }

    fn write_payload(&self, out: &mut [u8]) {
        self.words.write(out);
    }

    fn contains(&self, hash: KeyHash) -> bool {
        self.shape.contains(&self.words, hash)
    }

    fn contains_batch(&self, hashes: &[KeyHash], matches: &mut [u64]) {
        self.shape.contains_batch(&self.words, hashes, matches);
    }
}

/// Implements [`Dynamic`] for a filter around its `contents`; `$insert` inserts keys, and its other fields begin as
/// `$value`.
macro_rules! dynamic {
    ($filter:ident($contents:ty $(, $field:ident: $value:expr)?), $insert:expr) => {
        impl $crate::filter::dynamic::Dynamic for $filter {
            fn contents(&self) -> &dyn $crate::filter::dynamic::Contents {
                &self.contents
            }

            fn contents_mut(&mut self) -> &mut dyn $crate::filter::dynamic::Contents {
                &mut self.contents
            }

            fn insert_or_fail(&mut self, hashes: &[KeyHash]) -> Result<(), FilterError> {
                let insert: fn(&mut Self, &[KeyHash]) -> Result<(), FilterError> = $insert;
                insert(self, hashes)
            }

            fn restore(stored: &$crate::filter::dynamic::StoredFilter<'_>) -> Result<Self, FilterError> {
                Ok(Self { contents: <$contents>::restore(stored)?, $($field: $value)? })
            }
        }
    };
}
pub(crate) use dynamic;

impl From<FilterError> for FallbackReason {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::NoMemory { .. } => Self::MemoryBudget,
            FilterError::Full { .. } => Self::ConstructionFailed,
            // `TooLarge`. No other error occurs while the filter of a file is built.
            _ => Self::TooManyKeys,
        }
    }
}

/// Checks that two filters hold keys of one hash, so that they can be merged.
pub(crate) fn check_same_hash(expected: HashIdentity, got: HashIdentity) -> Result<(), FilterError> {
    if expected == got { Ok(()) } else { Err(FilterError::HashMismatch { expected, got }) }
}
