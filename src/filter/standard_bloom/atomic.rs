//! The filter in memory, shared by many threads.

use super::params::{ANY_PROBES, BloomParams, planned_by_keys, with_probes};
use super::shape::{Bit, Cell, StandardBloomShape, contains_any, contains_batch, prefetch_cells};
use crate::filter::dynamic::{Shared, SharedShape, dynamic};
use crate::filter::error::FilterError;
use crate::filter::health::FilterHealth;
use crate::filter::words::{AtomicU64, AtomicWords, Word, set, with_mut};
use crate::filter::{KindId, power};
use crate::hash::{HashIdentity, KeyHash};
use crate::kernel::prefetch::prefetch_to_write;
use crate::units::{BitsPerKey, FalsePositiveRate};

/// Each of a key's words is on its way while the keys before it are inserted.
const AHEAD: usize = 4;

/// A standard Bloom filter that many threads fill and probe at the same time.
///
/// Its blocks have the payload of a [`StandardBloom`](crate::StandardBloom), and either type restores them. Of the
/// two filters for many threads, [`RegisterBlockedBloom`](crate::RegisterBlockedBloom) is several times faster, because
/// all bits of a key are in one word; this one has any size, and any rate.
///
/// The guarantee: `contains` returns `true` for every key whose insert *happens before* it: in the same thread, or
/// before the release of a lock, the sending of a message or the end of a thread that this thread has since acquired,
/// received or joined. Inserts are relaxed: they order nothing by themselves, and a key that another thread is
/// inserting right now may still read as absent. An insert that found the key present counts like the insert that set
/// its bits. No insert is ever lost.
///
/// [`keys`](crate::DynamicFilter::keys) estimates the distinct keys from the fill, because exact counting would need a
/// word that all threads write to. It reads the whole filter.
///
/// ```
/// use sstfilter::{AtomicBloom, DynamicFilter, FalsePositiveRate, KeyHasher, StandardBloom};
///
/// let hasher = KeyHasher::default();
/// let filter = AtomicBloom::for_rate(hasher.identity(), 2_000, FalsePositiveRate::ONE_PERCENT)?;
/// std::thread::scope(|scope| {
///     for worker in 0..2_u32 {
///         let (filter, hasher) = (&filter, &hasher);
///         scope.spawn(move || {
///             (0..1_000_u32).for_each(|key| {
///                 filter.insert(hasher.hash(&(2 * key + worker).to_le_bytes()));
///             })
///         });
///     }
/// });
/// // The scope has joined its threads, so the filter contains all their keys.
/// assert!((0..2_000_u32).all(|key| filter.contains(hasher.hash(&key.to_le_bytes()))));
/// assert!((1_900..2_100).contains(&filter.keys()));
///
/// // One thread may go on with its block.
/// let restored = StandardBloom::from_block(&filter.to_block()?, &hasher)?;
/// assert!(restored.contains(hasher.hash(&7_u32.to_le_bytes())));
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
#[derive(Debug)]
pub struct AtomicBloom {
    contents: Shared<StandardBloomShape>,
}

impl AtomicBloom {
    planned_by_keys!("bits");

    /// Creates an empty filter with any number of `bits`, and `probes` probes, 1 to 32.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] without bits, or for another number of probes; [`FilterError::TooLarge`] beyond 32 GiB;
    /// [`FilterError::NoMemory`] when allocation fails.
    pub fn with_shape(hash: HashIdentity, bits: u64, probes: u8) -> Result<Self, FilterError> {
        Self::empty(hash, BloomParams::new(bits, probes)?)
    }

    fn empty(hash: HashIdentity, params: BloomParams) -> Result<Self, FilterError> {
        Ok(Self { contents: Shared::empty(hash, StandardBloomShape::new(params))? })
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

    /// Inserts a key and returns whether it was new: `false` when all its bits were already set, by itself or by
    /// others. If several threads insert one key at the same moment, all may get `true`.
    ///
    /// Each probe costs a relaxed load, and an atomic OR only when its bit is missing.
    #[expect(clippy::must_use_candidate, reason = "it inserts a key")]
    pub fn insert(&self, hash: KeyHash) -> bool {
        insert::<ANY_PROBES>(self.params(), &self.contents.words, hash)
    }

    /// Inserts many keys and returns how many of them were new. This is faster than single inserts, above all while
    /// other threads insert, but not if most of the keys are there already.
    #[expect(clippy::must_use_candidate, reason = "it inserts keys")]
    pub fn insert_all(&self, hashes: &[KeyHash]) -> u64 {
        let (params, words) = (self.params(), &*self.contents.words);
        let mut coming = hashes.iter().skip(AHEAD);
        with_probes!(params, PROBES => hashes.iter().map(|&hash| {
            if let Some(&coming) = coming.next() {
                prefetch_cells::<Bit, _>(params, words, coming, params.probes_or::<PROBES>(), prefetch_to_write);
            }
            u64::from(insert::<PROBES>(params, words, hash))
        }).sum())
    }

    /// Returns whether the key may have been inserted; `false` is certain for keys whose insert happens before this
    /// call.
    #[must_use]
    pub fn contains(&self, hash: KeyHash) -> bool {
        contains_any::<Bit, _>(self.params(), &self.contents.words, hash)
    }

    /// Adds all keys of `other` that were inserted before this call; other threads may continue to insert into both.
    ///
    /// # Errors
    ///
    /// [`FilterError::HashMismatch`] unless both have one hash; [`FilterError::ShapeMismatch`] unless both have the
    /// same number of bits and probes.
    pub fn union(&self, other: &Self) -> Result<(), FilterError> {
        self.contents.union(&other.contents)
    }

    fn params(&self) -> BloomParams {
        self.contents.shape.params
    }
}

/// Sets a key's bits and returns whether any of them was clear.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of loops over keys")]
fn insert<const PROBES: u8>(params: BloomParams, words: &[AtomicU64], hash: KeyHash) -> bool {
    let mut sequence = params.sequence(hash);
    (0..params.probes_or::<PROBES>()).fold(false, |is_new, _| {
        let position = sequence.next();
        words.get(Bit::word_of(position)).is_some_and(|word| set(word, 1 << (position & 63))) | is_new
    })
}

impl SharedShape for StandardBloomShape {
    const KIND: KindId = KindId::STANDARD_BLOOM;

    fn size(&self) -> (u64, u8) {
        (self.params.positions, self.params.probes)
    }

    fn health(&self, words: &[AtomicU64]) -> FilterHealth {
        let BloomParams { positions, probes } = self.params;
        let ones = words.iter().map(|word| u64::from(word.value().count_ones())).sum();
        let fill_ratio = ones as f64 / positions as f64;
        // At least one key if a bit is set.
        let keys = self.params.estimated_keys(ones).max(ones.min(1));
        FilterHealth::of_bloom(keys, fill_ratio, power(fill_ratio, probes))
    }

    fn contains(&self, words: &[AtomicU64], hash: KeyHash) -> bool {
        contains_any::<Bit, _>(self.params, words, hash)
    }

    fn contains_batch(&self, words: &[AtomicU64], hashes: &[KeyHash], matches: &mut [u64]) {
        contains_batch::<Bit, _>(self.params, words, hashes, matches);
    }

    fn accept(&self, words: &mut AtomicWords) {
        // Bits after the last, which no writer sets, would count as ones.
        let last = words.len().wrapping_sub(1);
        words.get_mut(last).into_iter().for_each(|last| with_mut(last, |word| *word &= self.mask_of_last()));
    }
}

dynamic!(AtomicBloom(Shared<StandardBloomShape>), |filter, hashes| {
    filter.insert_all(hashes);
    Ok(())
});
