//! The filter in memory, shared by many threads.

use super::layout::{self, for_probes, mask, word_index};
use super::rate::{self, Fill};
use super::shape::RegisterBlockedShape;
use crate::filter::cache::{ATOMIC_INSERT_PREFETCH_BYTES, KEYS_AHEAD};
use crate::filter::dynamic::{Shared, SharedShape, dynamic};
use crate::filter::error::FilterError;
use crate::filter::health::FilterHealth;
use crate::filter::words::{AtomicU64, Word, set, with_mut};
use crate::filter::{FilterShape, KindId};
use crate::hash::{HashIdentity, KeyHash};
use crate::kernel::prefetch::prefetch;
use crate::units::FalsePositiveRate;

/// A Bloom filter of fixed size that many threads fill and probe at the same time: all bits of a key are in one atomic
/// word.
///
/// The guarantee: `contains` returns `true` for every key whose insert *happens before* it: in the same thread, or
/// before the release of a lock, the sending of a message or the end of a thread that this thread has since acquired,
/// received or joined. Inserts are relaxed: they order nothing by themselves, and a key that another thread is
/// inserting right now may still read as absent. An insert that found the key present counts like the insert that set
/// its bits. No insert is ever lost.
///
/// [`keys`](crate::DynamicFilter::keys) estimates the distinct keys from the fill, because exact counting would need a
/// second word that all threads write to. It reads the whole filter. In 256 KiB it is within 1 % from 65,536 keys to
/// half a million, and it is never 0 in a filter that has keys. Blocks record it.
///
/// ```
/// use sstfilter::{DynamicFilter, FilterBlock, KeyHasher, RegisterBlockedBloom};
///
/// let hasher = KeyHasher::default();
/// let filter = RegisterBlockedBloom::with_shape(hasher.identity(), 256 << 10, 2)?;
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
/// // Stored, and opened as any block is.
/// let block = filter.to_block()?;
/// assert!(FilterBlock::load(&block, &hasher)?.may_contain(hasher.hash(&7_u32.to_le_bytes())));
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
///
/// # Watching the observed rate
///
/// A probe costs about a nanosecond, and a counter shared by all threads several. So the filter does not count probes.
/// Each user keeps its own [`FilterStats`](crate::FilterStats), which can be [merged](crate::FilterStats::merged):
///
/// ```
/// use sstfilter::{DynamicFilter, FilterStats, HashIdentity, KeyHash, RegisterBlockedBloom};
///
/// let filter = RegisterBlockedBloom::with_shape(HashIdentity::custom(1), 256 << 10, 2)?;
/// for key in 0..1 << 18 {
///     filter.insert(KeyHash::mix(key));
/// }
/// let mut stats = FilterStats::default();
/// for key in 1 << 18..1 << 19 {
///     match filter.contains(KeyHash::mix(key)) {
///         false => stats.negatives += 1,
///         // Looked up, and not found.
///         true => (stats.positives, stats.false_positives) = (stats.positives + 1, stats.false_positives + 1),
///     }
/// }
/// assert!((stats.observed_fpr().unwrap() - 0.0533).abs() < 0.002);
/// assert!(stats.alarm(filter.health().expected_fpr).is_none());
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
#[derive(Debug)]
pub struct RegisterBlockedBloom {
    pub(super) contents: Shared<RegisterBlockedShape>,
}

impl RegisterBlockedBloom {
    /// Creates the smallest filter whose expected false positive rate with `keys` keys is at most `rate`. If several
    /// numbers of probes need the same size, it uses the fewest.
    ///
    /// ```
    /// use sstfilter::{FalsePositiveRate, HashIdentity, RegisterBlockedBloom};
    ///
    /// let one_percent = FalsePositiveRate::ONE_PERCENT;
    /// let filter = RegisterBlockedBloom::for_rate(HashIdentity::custom(1), 500_000, one_percent)?;
    /// assert_eq!((filter.bytes(), filter.probes()), (1 << 20, 3));
    /// # Ok::<(), sstfilter::FilterError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] when neither 2^30 bytes nor 1,000 bits per key are enough, which reach about 10^-6;
    /// [`FilterError::NoMemory`] when allocation fails.
    pub fn for_rate(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        Self::empty(hash, RegisterBlockedShape::for_rate(keys, rate)?)
    }

    /// Creates an empty filter of `bytes` bytes, a power of two from 64 to 2^30. Each key sets `probes` bits, 2 to 4,
    /// in a word of 64. 256 KiB fit into second-level caches.
    ///
    /// Two bits are fastest. At 8 bits of filter per key, the false positive rate is 5.33 % with two, 3.76 % with
    /// three, and 3.35 % with four.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] for another size or number of probes; [`FilterError::NoMemory`] when allocation fails.
    pub fn with_shape(hash: HashIdentity, bytes: u64, probes: u8) -> Result<Self, FilterError> {
        Self::empty(hash, RegisterBlockedShape::new(bytes, probes)?)
    }

    pub(super) fn empty(hash: HashIdentity, shape: RegisterBlockedShape) -> Result<Self, FilterError> {
        Ok(Self { contents: Shared::empty(hash, shape)? })
    }

    /// Returns the filter's size in bytes, without a block's trailer.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.contents.shape.payload_bytes()
    }

    /// Returns the bits of each key.
    #[must_use]
    pub fn probes(&self) -> u8 {
        self.contents.shape.probes
    }

    /// Inserts a key and returns whether it was new: `false` when all its bits were already set, by itself or by
    /// others. If several threads insert one key at the same moment, all may get `true`.
    ///
    /// It costs one relaxed load, and one atomic OR only when a bit is missing.
    #[inline]
    #[expect(clippy::must_use_candidate, reason = "it inserts a key")]
    pub fn insert(&self, hash: KeyHash) -> bool {
        let hash = hash.get();
        let word = &self.contents.words[word_index(hash, self.contents.shape.index_bits)];
        for_probes!(self.contents.shape.probes, BITS => set(word, mask::<BITS>(hash)))
    }

    /// Inserts many keys and returns how many of them were new. In large filters this is faster than single inserts.
    #[expect(clippy::must_use_candidate, reason = "it inserts keys")]
    pub fn insert_all(&self, hashes: &[KeyHash]) -> u64 {
        for_probes!(self.contents.shape.probes, BITS => self.insert_each::<BITS>(hashes))
    }

    /// Inserts many keys, with prefetches in large filters.
    #[inline(always)]
    fn insert_each<const BITS: u32>(&self, hashes: &[KeyHash]) -> u64 {
        let index_bits = self.contents.shape.index_bits;
        let word = |hash: KeyHash| &self.contents.words[word_index(hash.get(), index_bits)];
        let insert = |hash: KeyHash| u64::from(set(word(hash), mask::<BITS>(hash.get())));
        if self.contents.words.len() * 8 < ATOMIC_INSERT_PREFETCH_BYTES {
            return hashes.iter().map(|&hash| insert(hash)).sum();
        }
        let (first, last) = hashes.split_at(hashes.len().saturating_sub(KEYS_AHEAD));
        let with_ahead = first.iter().zip(hashes.iter().skip(KEYS_AHEAD)).map(|(&hash, &ahead)| {
            prefetch(word(ahead));
            insert(hash)
        });
        with_ahead.sum::<u64>() + last.iter().map(|&hash| insert(hash)).sum::<u64>()
    }

    /// Like [`insert`](Self::insert), with exclusive access: it needs no atomic operation and is several times faster.
    #[inline]
    pub fn insert_exclusive(&mut self, hash: KeyHash) -> bool {
        let hash = hash.get();
        let mask = for_probes!(self.contents.shape.probes, BITS => mask::<BITS>(hash));
        let word = self.contents.words.get_mut(word_index(hash, self.contents.shape.index_bits));
        word.is_some_and(|word| {
            with_mut(word, |word| {
                let is_new = *word & mask != mask;
                *word |= mask;
                is_new
            })
        })
    }

    /// Returns whether the key may have been inserted; `false` is certain for keys whose insert happens before this
    /// call.
    #[inline]
    #[must_use]
    pub fn contains(&self, hash: KeyHash) -> bool {
        layout::contains(&self.contents.words, self.contents.shape.index_bits, self.contents.shape.probes, hash)
    }

    /// Adds all keys of `other` that were inserted before this call; other threads may continue to insert into both.
    ///
    /// # Errors
    ///
    /// [`FilterError::HashMismatch`] unless both have one hash; [`FilterError::ShapeMismatch`] unless both have the
    /// same size and probes.
    pub fn union(&self, other: &Self) -> Result<(), FilterError> {
        self.contents.union(&other.contents)
    }
}

impl SharedShape for RegisterBlockedShape {
    const KIND: KindId = KindId::REGISTER_BLOCKED_BLOOM;

    fn size(&self) -> (u64, u8) {
        (self.bits(), self.probes)
    }

    fn health(&self, words: &[AtomicU64]) -> FilterHealth {
        let fill = Fill::of_words(words.iter().map(Word::value), self.probes);
        let keys = rate::keys_of_ones(fill.ones, self.words(), self.probes);
        FilterHealth::of_bloom(keys, fill.ones as f64 / self.bits() as f64, fill.rate)
    }

    #[inline]
    fn contains(&self, words: &[AtomicU64], hash: KeyHash) -> bool {
        layout::contains(words, self.index_bits, self.probes, hash)
    }

    fn contains_batch(&self, words: &[AtomicU64], hashes: &[KeyHash], matches: &mut [u64]) {
        layout::contains_batch(words, self.index_bits, self.probes, hashes, matches);
    }
}

dynamic!(RegisterBlockedBloom(Shared<RegisterBlockedShape>), |filter, hashes| {
    for &hash in hashes {
        filter.insert_exclusive(hash);
    }
    Ok(())
});
