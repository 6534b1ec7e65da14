//! The filter in memory.

use super::build;
use super::params::{BloomParams, planned_by_keys};
use super::shape::StandardBloomShape;
use crate::filter::dynamic::{Contents, InMemory, check_same_hash, dynamic};
use crate::filter::error::FilterError;
use crate::hash::{HashIdentity, KeyHash};
use crate::units::{BitsPerKey, FalsePositiveRate};

/// A standard Bloom filter that accepts keys while in use.
///
/// It belongs to the hash passed to its constructor: its blocks record the hash, and filters of different hashes cannot
/// be merged.
///
/// It contains every key that was inserted. More keys than planned only raise its false positive rate, up to 1;
/// [`health`](crate::DynamicFilter::health) reports the rate. Keys cannot be removed; see
/// [`CountingBloom`](crate::CountingBloom).
///
/// [`keys`](crate::DynamicFilter::keys) counts the keys that set at least one bit when they were inserted: the distinct
/// keys, minus those that were false positives at that time. With the planned number of keys, about a sixth of the rate
/// is missing from the count.
///
/// ```
/// use sstfilter::{DynamicFilter, FalsePositiveRate, KeyHasher, StandardBloom};
///
/// let hasher = KeyHasher::default();
/// let mut filter = StandardBloom::for_rate(hasher.identity(), 1_000, FalsePositiveRate::ONE_PERCENT)?;
/// assert!(filter.insert(hasher.hash(b"apple")));
/// assert!(filter.contains(hasher.hash(b"apple")));
/// assert!(!filter.insert(hasher.hash(b"apple")), "nothing new");
///
/// // Into a block and back, for more keys.
/// let block = filter.to_block()?;
/// let restored = StandardBloom::from_block(&block, &hasher)?;
/// assert!(restored.contains(hasher.hash(b"apple")));
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
#[derive(Debug)]
pub struct StandardBloom {
    pub(crate) contents: InMemory<StandardBloomShape>,
}

impl StandardBloom {
    planned_by_keys!("bits");

    /// Creates an empty filter with any number of `bits`, and `probes` probes, 1 to 32.
    ///
    /// ```
    /// use sstfilter::{DynamicFilter, HashIdentity, KeyHash, StandardBloom};
    ///
    /// // 800 keys in a thousand bits: nine bits of ten are set, and three absent keys of four are false positives.
    /// let mut saturated = StandardBloom::with_shape(HashIdentity::custom(1), 1_000, 3)?;
    /// (0..800).for_each(|key| { saturated.insert(KeyHash::mix(key)); });
    /// assert!((0.89..0.93).contains(&saturated.health().fill_ratio));
    /// assert!((0.70..0.80).contains(&saturated.health().expected_fpr));
    /// # Ok::<(), sstfilter::FilterError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] without bits, or for another number of probes; [`FilterError::TooLarge`] beyond 32 GiB;
    /// [`FilterError::NoMemory`] when allocation fails.
    pub fn with_shape(hash: HashIdentity, bits: u64, probes: u8) -> Result<Self, FilterError> {
        Self::empty(hash, BloomParams::new(bits, probes)?)
    }

    pub(crate) fn empty(hash: HashIdentity, params: BloomParams) -> Result<Self, FilterError> {
        Ok(Self { contents: InMemory::empty(hash, StandardBloomShape::new(params))? })
    }

    /// Inserts a key and returns whether that changed the filter: `false` for a key that it already seemed to contain.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let is_new = build::insert(self.params(), self.contents.payload.as_mut_slice(), hash);
        self.contents.keys = self.contents.keys.saturating_add(is_new.into());
        is_new
    }

    /// Inserts many keys and returns how many of them changed the filter. Faster than single inserts if the filter
    /// exceeds the caches.
    pub fn insert_all(&mut self, hashes: &[KeyHash]) -> u64 {
        let new = build::insert_all(self.params(), self.contents.payload.as_mut_slice(), hashes);
        self.contents.keys = self.contents.keys.saturating_add(new);
        new
    }

    /// Returns whether the key may have been inserted; `false` is certain.
    #[must_use]
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.contents.contains(hash)
    }

    /// Adds the keys of `other`. [`keys`](crate::DynamicFilter::keys) then counts keys that are in both twice.
    ///
    /// # Errors
    ///
    /// [`FilterError::HashMismatch`] unless both have one hash; [`FilterError::ShapeMismatch`] unless both have the
    /// same number of bits and probes.
    pub fn union(&mut self, other: &Self) -> Result<(), FilterError> {
        check_same_hash(self.contents.hash, other.contents.hash)?;
        if self.params() != other.params() {
            return Err(FilterError::ShapeMismatch { expected: self.size(), got: other.size() });
        }
        // Equal shapes, so equal positions: OR is the filter of both sets of keys.
        let bytes = self.contents.payload.as_mut_slice().iter_mut().zip(other.contents.bytes());
        bytes.for_each(|(ours, theirs)| *ours |= theirs);
        self.contents.keys = self.contents.keys.saturating_add(other.contents.keys);
        Ok(())
    }

    /// Returns the number of bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.params().positions
    }

    /// Returns the number of bits of each key.
    #[must_use]
    pub fn probes(&self) -> u8 {
        self.params().probes
    }

    /// Returns the number of distinct keys that most likely set this many bits (Swamidass and Baldi 2007), also after a
    /// [`union`](Self::union); [`u64::MAX`] when all are set. Reads the whole filter.
    #[must_use]
    pub fn estimated_keys(&self) -> u64 {
        self.contents.estimated_keys()
    }

    fn params(&self) -> BloomParams {
        self.contents.shape.params
    }

    fn size(&self) -> (u64, u8) {
        (self.bits(), self.probes())
    }
}

dynamic!(StandardBloom(InMemory<StandardBloomShape>), |filter, hashes| {
    filter.insert_all(hashes);
    Ok(())
});
