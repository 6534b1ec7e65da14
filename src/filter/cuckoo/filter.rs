//! The filter in memory.

use super::insert::Search;
use super::shape::{Buckets, CuckooShape, with_buckets};
use crate::filter::cache::{CUCKOO_PREFETCH_BYTES, KEYS_AHEAD};
use crate::filter::dynamic::{InMemory, dynamic};
use crate::filter::error::FilterError;
use crate::hash::{HashIdentity, KeyHash};
use crate::units::FalsePositiveRate;

/// A filter that accepts and removes keys while it is in use.
///
/// It is a multiset: a key can be present up to eight times (the slots of its two buckets), and must be removed as
/// often as it was inserted. Two keys with the same tag and the same two buckets count as one key; they share the eight
/// slots. The filter contains every key that was inserted and not removed. [`keys`](crate::DynamicFilter::keys) counts
/// each key as often as it is present.
///
/// The same operations in the same order write the same bytes everywhere.
///
/// ```
/// use sstfilter::{CuckooFilter, DynamicFilter, FalsePositiveRate, FilterError, KeyHasher};
///
/// let hasher = KeyHasher::default();
/// let (apple, pear) = (hasher.hash(b"apple"), hasher.hash(b"pear"));
/// let mut filter = CuckooFilter::for_rate(hasher.identity(), 1_000, FalsePositiveRate::new(0.001)?)?;
/// filter.insert(apple)?;
/// filter.insert(pear)?;
/// filter.remove(pear)?;
/// assert!(filter.contains(apple) && !filter.contains(pear));
/// assert_eq!(filter.remove(pear), Err(FilterError::NotPresent));
///
/// // Stored, and restored for more work.
/// let block = filter.to_block()?;
/// let restored = CuckooFilter::from_block(&block, &hasher)?;
/// assert!(restored.contains(apple) && restored.keys() == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CuckooFilter {
    pub(super) contents: InMemory<CuckooShape>,
    search: Search,
}

impl CuckooFilter {
    /// Creates an empty filter for `keys` keys with at most this false positive rate. Its tags have at least 6 bits,
    /// because narrower ones save little and leave some keys without a slot.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] for a rate below that of tags of 32 bits, 1.8e-9, and when the filter would exceed 32
    /// GiB; [`FilterError::NoMemory`] when allocation fails.
    pub fn for_rate(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        Self::empty(hash, CuckooShape::for_rate(keys, rate)?)
    }

    /// Creates an empty filter for `keys` keys with tags of `tag_bits` bits, 4 to 32.
    ///
    /// With 6 bits or more, `keys` distinct keys fit, except in at most one filter of 10,000 (below 100 keys, or with 6
    /// bits from a billion on). With 4 bits, one filter in 250 of a thousand keys fills up early, because too many keys
    /// share tag and buckets, and large ones do so more often; with 5 bits one in 10,000 of three hundred.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] for another width, and when the filter would exceed 32 GiB; [`FilterError::NoMemory`]
    /// when allocation fails.
    pub fn with_tag_bits(hash: HashIdentity, keys: u64, tag_bits: u8) -> Result<Self, FilterError> {
        Self::empty(hash, CuckooShape::with_tag_bits(keys, tag_bits)?)
    }

    pub(super) fn empty(hash: HashIdentity, shape: CuckooShape) -> Result<Self, FilterError> {
        Ok(Self { contents: InMemory::empty(hash, shape)?, search: Search::default() })
    }

    /// Inserts a key; if it is present, it is then present once more.
    ///
    /// # Errors
    ///
    /// [`FilterError::Full`] when no slot can be freed; the filter is then unchanged. This is rare before 95 % of the
    /// slots are taken, except for a key that is present eight times.
    #[inline]
    pub fn insert(&mut self, hash: KeyHash) -> Result<(), FilterError> {
        let Self { contents: InMemory { shape, payload, keys, .. }, search } = self;
        let (key, payload) = (shape.candidates(hash), payload.as_mut_slice());
        if with_buckets!(*shape, payload, mut buckets => buckets.insert(&key, search)) != Some(true) {
            return Err(self.full());
        }
        *keys += 1;
        Ok(())
    }

    /// Inserts many keys, in their order. The bytes are those of single inserts, but the call is faster if the filter
    /// exceeds the caches.
    ///
    /// # Errors
    ///
    /// [`FilterError::Full`] at the first key without a free slot. Only the keys before it are present;
    /// [`keys`](crate::DynamicFilter::keys) has grown by their number.
    pub fn insert_all(&mut self, hashes: &[KeyHash]) -> Result<(), FilterError> {
        // Prefetches pay only when the loads miss L2 and L3.
        let is_cached = self.contents.bytes().len() < CUCKOO_PREFETCH_BYTES;
        let Self { contents: InMemory { shape, payload, keys, .. }, search } = self;
        let mut ahead = if is_cached { &[] } else { hashes.get(KEYS_AHEAD..).unwrap_or_default() }.iter();
        let are_in = with_buckets!(*shape, payload.as_mut_slice(), mut buckets => hashes.iter().all(|&hash| {
            if let Some(&next) = ahead.next() {
                buckets.prefetch(&shape.candidates(next));
            }
            let is_in = buckets.insert(&shape.candidates(hash), search);
            *keys += u64::from(is_in);
            is_in
        }));
        if are_in == Some(true) { Ok(()) } else { Err(self.full()) }
    }

    /// Removes one copy of a key.
    ///
    /// Remove only inserted keys, and each as often as it was inserted. A block that a policy built contains each key
    /// once, even if it was added repeatedly. Removing a false positive removes the tag of another key, which the
    /// filter then reports as absent.
    ///
    /// # Errors
    ///
    /// [`FilterError::NotPresent`] when the key is certainly absent; the filter is then unchanged.
    pub fn remove(&mut self, hash: KeyHash) -> Result<(), FilterError> {
        let InMemory { shape, payload, keys, .. } = &mut self.contents;
        let (key, payload) = (shape.candidates(hash), payload.as_mut_slice());
        if with_buckets!(*shape, payload, mut buckets => buckets.remove(&key)) != Some(true) {
            return Err(FilterError::NotPresent);
        }
        *keys -= 1;
        Ok(())
    }

    /// Returns whether the key may be present; `false` is certain, as long as only inserted keys were removed.
    #[inline]
    #[must_use]
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.contents.shape.probe(self.contents.bytes(), hash)
    }

    /// Returns the bits of a tag.
    #[must_use]
    pub fn tag_bits(&self) -> u8 {
        self.contents.shape.tag_bits
    }

    /// Returns the number of slots; insertions succeed up to a load of 95 %.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.contents.shape.slots()
    }

    fn full(&self) -> FilterError {
        FilterError::Full { keys: self.contents.keys, slots: self.slots() }
    }
}

dynamic!(CuckooFilter(InMemory<CuckooShape>, search: Search::default()), |filter, hashes| filter.insert_all(hashes));
