//! The filter in memory, shared by many threads.

use core::fmt;

use super::layout::{self, for_probes, mask, word_index};
use super::rate::{self, Fill};
use super::shape::RegisterBlockedShape;
use crate::filter::cache::{ATOMIC_INSERT_PREFETCH_BYTES, KEYS_AHEAD};
use crate::filter::dynamic::{Contents, Dynamic, StoredFilter, check_same_hash};
use crate::filter::error::FilterError;
use crate::filter::health::FilterHealth;
use crate::filter::words::{AtomicWords, Word, set, with_mut};
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
pub struct RegisterBlockedBloom {
    hash: HashIdentity,
    shape: RegisterBlockedShape,
    /// As many words as the shape requires.
    words: AtomicWords,
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
        Ok(Self { hash, shape, words: AtomicWords::zeroed(shape.payload_bytes())? })
    }

    /// Returns the filter's size in bytes, without a block's trailer.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shape.payload_bytes()
    }

    /// Returns the bits of each key.
    #[must_use]
    pub fn probes(&self) -> u8 {
        self.shape.probes
    }

    /// Inserts a key and returns whether it was new: `false` when all its bits were already set, by itself or by
    /// others. If several threads insert one key at the same moment, all may get `true`.
    ///
    /// It costs one relaxed load, and one atomic OR only when a bit is missing.
    #[inline]
    #[expect(clippy::must_use_candidate, reason = "it inserts a key")]
    pub fn insert(&self, hash: KeyHash) -> bool {
        let hash = hash.get();
        let word = &self.words[word_index(hash, self.shape.index_bits)];
        for_probes!(self.shape.probes, BITS => set(word, mask::<BITS>(hash)))
    }

    /// Inserts many keys and returns how many of them were new. In large filters this is faster than single inserts.
    #[expect(clippy::must_use_candidate, reason = "it inserts keys")]
    pub fn insert_all(&self, hashes: &[KeyHash]) -> u64 {
        for_probes!(self.shape.probes, BITS => self.insert_each::<BITS>(hashes))
    }

    /// Inserts many keys, with prefetches in large filters.
    #[inline(always)]
    fn insert_each<const BITS: u32>(&self, hashes: &[KeyHash]) -> u64 {
        let index_bits = self.shape.index_bits;
        let word = |hash: KeyHash| &self.words[word_index(hash.get(), index_bits)];
        let insert = |hash: KeyHash| u64::from(set(word(hash), mask::<BITS>(hash.get())));
        if self.words.len() * 8 < ATOMIC_INSERT_PREFETCH_BYTES {
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
        let mask = for_probes!(self.shape.probes, BITS => mask::<BITS>(hash));
        let word = self.words.get_mut(word_index(hash, self.shape.index_bits));
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
        layout::contains(&self.words, self.shape.index_bits, self.shape.probes, hash)
    }

    /// Adds all keys of `other` that were inserted before this call; other threads may continue to insert into both.
    ///
    /// # Errors
    ///
    /// [`FilterError::HashMismatch`] unless both have one hash; [`FilterError::ShapeMismatch`] unless both have the
    /// same size and probes.
    pub fn union(&self, other: &Self) -> Result<(), FilterError> {
        check_same_hash(self.hash, other.hash)?;
        if self.shape != other.shape {
            return Err(FilterError::ShapeMismatch { expected: self.size(), got: other.size() });
        }
        self.words.union(&other.words);
        Ok(())
    }

    fn size(&self) -> (u64, u8) {
        (self.shape.bits(), self.probes())
    }

    /// Counts the set bits. Reads the whole filter.
    fn fill(&self) -> Fill {
        Fill::of_words(self.words.iter().map(Word::value), self.shape.probes)
    }

    fn keys_of(&self, fill: Fill) -> u64 {
        rate::keys_of_ones(fill.ones, self.shape.words(), self.shape.probes)
    }
}

impl Contents for RegisterBlockedBloom {
    fn kind(&self) -> KindId {
        KindId::REGISTER_BLOCKED_BLOOM
    }

    fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    fn shape(&self) -> &dyn FilterShape {
        &self.shape
    }

    fn keys(&self) -> u64 {
        self.keys_of(self.fill())
    }

    fn clear(&mut self) {
        self.words.clear();
    }

    fn health(&self) -> FilterHealth {
        let fill = self.fill();
        let fill_ratio = fill.ones as f64 / self.shape.bits() as f64;
        FilterHealth::of_bloom(self.keys_of(fill), fill_ratio, fill.rate)
    }

    fn write_payload(&self, out: &mut [u8]) {
        self.words.write(out);
    }

    fn contains(&self, hash: KeyHash) -> bool {
        self.contains(hash)
    }

    fn contains_batch(&self, hashes: &[KeyHash], matches: &mut [u64]) {
        layout::contains_batch(&self.words, self.shape.index_bits, self.shape.probes, hashes, matches);
    }
}

impl Dynamic for RegisterBlockedBloom {
    fn contents(&self) -> &dyn Contents {
        self
    }

    fn contents_mut(&mut self) -> &mut dyn Contents {
        self
    }

    fn insert_or_fail(&mut self, hashes: &[KeyHash]) -> Result<(), FilterError> {
        for &hash in hashes {
            self.insert_exclusive(hash);
        }
        Ok(())
    }

    /// Restores any payload of the right length: a writer could have produced each of them.
    fn restore(stored: &StoredFilter<'_>) -> Result<Self, FilterError> {
        let mut filter = Self::empty(stored.hash, stored.decode(KindId::REGISTER_BLOCKED_BLOOM)?)?;
        filter.words.read(stored.payload);
        Ok(filter)
    }
}

impl fmt::Debug for RegisterBlockedBloom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisterBlockedBloom")
            .field("bytes", &self.bytes())
            .field("probes", &self.probes())
            .finish_non_exhaustive()
    }
}
