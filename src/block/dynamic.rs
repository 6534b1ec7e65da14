//! The public trait of filters that accept keys while in use, and their conversion to and from blocks.

use bytes::Bytes;

use super::trailer::Trailer;
use super::{FilterBlock, HeldParts, LoadContext, MatchBitmap};
use crate::codec::AlignedBuffer;
use crate::filter::counting_bloom::CountingBloom;
use crate::filter::cuckoo::CuckooFilter;
use crate::filter::dynamic::{Dynamic, StoredFilter};
use crate::filter::error::FilterError;
use crate::filter::health::FilterHealth;
use crate::filter::register_blocked_bloom::RegisterBlockedBloom;
use crate::filter::standard_bloom::{AtomicBloom, StandardBloom};
use crate::filter::{KindId, MAX_KEYS, MAX_PAYLOAD_BYTES};
use crate::hash::{HashIdentity, KeyHash, KeyParts};

/// A filter in memory that accepts keys while in use: [`StandardBloom`], [`AtomicBloom`], [`CountingBloom`],
/// [`RegisterBlockedBloom`] or [`CuckooFilter`].
///
/// The trait is for generic code, also as `dyn DynamicFilter`, and contains everything that all of them share:
/// blocks, batches, health. Each type also has inherent methods `insert`, `insert_all` and `contains`, so plain use
/// needs no trait. Their signatures differ: a Bloom filter always accepts a key and returns whether it was new, a
/// cuckoo filter can be full, and many threads insert into an [`AtomicBloom`] or a [`RegisterBlockedBloom`] through a
/// shared reference. Generic code uses [`try_insert`](Self::try_insert) instead. [`CountingBloom`] and [`CuckooFilter`]
/// also have an inherent `remove`, and three types have an inherent `union`.
///
/// Only this crate implements the trait.
///
/// ```
/// use sstfilter::{CuckooFilter, DynamicFilter, FalsePositiveRate, FilterError, KeyHasher, StandardBloom};
///
/// // Half of the planned keys; the rest may follow later, in the filter itself or in one restored from its block.
/// fn fill(filter: &mut dyn DynamicFilter, hasher: &KeyHasher) -> Result<bytes::Bytes, FilterError> {
///     for key in 0..500_u32 {
///         filter.try_insert(hasher.hash(&key.to_le_bytes()))?;
///     }
///     assert!(!filter.health().is_overfull());
///     filter.to_block()
/// }
///
/// let (hasher, rate) = (KeyHasher::default(), FalsePositiveRate::ONE_PERCENT);
/// let mut bloom = StandardBloom::for_rate(hasher.identity(), 1_000, rate)?;
/// let mut cuckoo = CuckooFilter::for_rate(hasher.identity(), 1_000, rate)?;
/// let blocks = [fill(&mut bloom, &hasher)?, fill(&mut cuckoo, &hasher)?];
/// assert_eq!(CuckooFilter::from_block(&blocks[1], &hasher)?.keys(), 500);
/// # Ok::<(), FilterError>(())
/// ```
#[expect(private_bounds, reason = "only this crate implements the trait, so that methods can be added to it")]
pub trait DynamicFilter: Dynamic {
    /// The kind of the filter's blocks.
    fn kind(&self) -> KindId {
        self.contents().kind()
    }

    /// The hash of the filter's keys.
    fn hash_identity(&self) -> HashIdentity {
        self.contents().hash_identity()
    }

    /// Inserts a key.
    ///
    /// # Errors
    ///
    /// [`FilterError::Full`] if a [`CuckooFilter`] has no slot for the key; the filter is then unchanged.
    fn try_insert(&mut self, hash: KeyHash) -> Result<(), FilterError> {
        self.insert_or_fail(&[hash])
    }

    /// Inserts many keys in order. In large filters, this can be faster than inserting them one by one.
    ///
    /// # Errors
    ///
    /// [`FilterError::Full`] at the first key that a [`CuckooFilter`] has no slot for; the keys before it are inserted.
    fn try_insert_all(&mut self, hashes: &[KeyHash]) -> Result<(), FilterError> {
        self.insert_or_fail(hashes)
    }

    /// Whether the key may have been inserted; `false` is certain.
    fn contains(&self, hash: KeyHash) -> bool {
        self.contents().contains(hash)
    }

    /// Probes for many keys, and stores the answers in `matches` in the same order. This is faster than probing one by
    /// one, above all in a filter larger than the caches.
    fn contains_batch(&self, hashes: &[KeyHash], matches: &mut MatchBitmap) {
        self.contents().contains_batch(hashes, matches.cleared(hashes.len()));
    }

    /// Number of keys in the filter; each type documents what it counts. Filters for many threads
    /// ([`RegisterBlockedBloom`], [`AtomicBloom`](crate::AtomicBloom)) read their whole payload for an estimate; the
    /// others store the count.
    fn keys(&self) -> u64 {
        self.contents().keys()
    }

    /// Removes all keys.
    fn clear(&mut self) {
        self.contents_mut().clear();
    }

    /// Returns how full the filter is, and the resulting false positive rate. Reads the whole payload of a Bloom
    /// filter.
    fn health(&self) -> FilterHealth {
        self.contents().health()
    }

    /// The expected false positive rate with `keys` distinct keys.
    fn expected_fpr(&self, keys: u64) -> f64 {
        self.contents().shape().expected_fpr(keys)
    }

    /// The size of the block that [`to_block`](Self::to_block) returns.
    fn block_bytes(&self) -> u64 {
        self.contents().shape().block_bytes()
    }

    /// Writes the filter's present contents to an unbound block. [`FilterBlock::bound_to`] binds it.
    ///
    /// # Errors
    ///
    /// [`FilterError::NoMemory`] when allocation fails.
    fn to_block(&self) -> Result<Bytes, FilterError> {
        let contents = self.contents();
        let bytes = contents.shape().payload_bytes();
        let mut payload = AlignedBuffer::zeroed(bytes).ok_or(FilterError::NoMemory { bytes })?;
        contents.write_payload(payload.as_mut_slice());
        // Counted after the copy, because other threads may be inserting: no block records fewer keys than it has. A
        // filter that is merged again and again can count more keys than a block can record.
        let shape = contents.shape().encode(contents.keys().min(MAX_KEYS));
        let trailer = Trailer::new(contents.kind(), contents.hash_identity().into(), shape, &payload);
        let too_large = FilterError::TooLarge { max_bytes: MAX_PAYLOAD_BYTES, got: bytes };
        trailer.seal(payload, HeldParts::of_field(&[])).ok_or(too_large)
    }

    /// Restores a filter from its block, if [`FilterBlock::load`] accepts the block for `context` and the block holds
    /// whole keys. The filter forgets which file the block is bound to, and whether it also holds parts of keys: later
    /// insertions add none.
    ///
    /// # Errors
    ///
    /// [`FilterError::Block`] if `block` is damaged (its checksums are compared), has another kind, was built with
    /// another hash, is bound to another file, or holds only parts of keys; [`FilterError::NoMemory`] if allocation
    /// fails.
    fn from_block<'a>(block: &[u8], context: impl Into<LoadContext<'a>>) -> Result<Self, FilterError>
    where
        Self: Sized,
    {
        let block = FilterBlock::load(block, context)?;
        // The filter writes blocks of whole keys and accepts only whole keys, so a block of only parts has no
        // counterpart.
        block.held_parts().check(&KeyParts::whole_keys())?;
        let Trailer { kind, identity, shape, .. } = &block.trailer;
        Self::restore(&StoredFilter { kind: *kind, hash: identity.hash, shape, payload: block.payload() })
    }
}

impl DynamicFilter for StandardBloom {}
impl DynamicFilter for AtomicBloom {}
impl DynamicFilter for CountingBloom {}
impl DynamicFilter for RegisterBlockedBloom {}
impl DynamicFilter for CuckooFilter {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::FalsePositiveRate;

    fn one_of_each_type() -> [Box<dyn DynamicFilter>; 5] {
        let (hash, rate) = (HashIdentity::custom(1), FalsePositiveRate::ONE_PERCENT);
        [
            Box::new(StandardBloom::for_rate(hash, 1_000, rate).unwrap()),
            Box::new(AtomicBloom::for_rate(hash, 1_000, rate).unwrap()),
            Box::new(CountingBloom::for_rate(hash, 1_000, rate).unwrap()),
            Box::new(RegisterBlockedBloom::with_shape(hash, 1 << 10, 2).unwrap()),
            Box::new(CuckooFilter::for_rate(hash, 1_000, rate).unwrap()),
        ]
    }

    #[test]
    fn many_keys_are_inserted_as_one_by_one_and_clearing_leaves_a_new_filter() {
        let hashes: Vec<KeyHash> = (0..500).map(KeyHash::mix).collect();
        let filters = one_of_each_type().into_iter().zip(one_of_each_type()).zip(one_of_each_type());
        for ((mut one_by_one, mut at_once), new) in filters {
            let kind = new.kind();
            hashes.iter().for_each(|&hash| one_by_one.try_insert(hash).unwrap());
            at_once.try_insert_all(&hashes).unwrap();
            assert!(hashes.iter().all(|&hash| at_once.contains(hash)), "{kind:?}");
            assert!((480..=520).contains(&at_once.keys()), "{kind:?}: {}", at_once.keys());
            assert_eq!(at_once.to_block(), one_by_one.to_block(), "{kind:?}");

            at_once.clear();
            assert!(!hashes.iter().any(|&hash| at_once.contains(hash)), "{kind:?}");
            assert_eq!((at_once.keys(), at_once.to_block()), (0, new.to_block()), "{kind:?}");
        }
    }
}
