//! The filter in memory: inserting by many threads, counting, merging.

use core::fmt;

use super::layout::{for_layout, mask, word_index};
use super::rate::{self, Contents};
use super::shape::{TwoBitOptions, TwoBitShape};
use super::sync::{AtomicU64, Ordering, with_mut};
use super::{WordLayout, probe};
use crate::error::FilterError;
use crate::filter::{FilterShape, Storable, check_same_hash};
use crate::hash::{HashIdentity, KeyHash};
use crate::kernel::prefetch::fetch;
use crate::stats::FilterHealth;

/// Keys between asking for a word and changing it.
const AHEAD: usize = 16;

/// Filters from this size on have the words of a batch fetched ahead.
const FETCHED_FROM_BYTES: u64 = 512 << 10;

/// A Bloom filter of fixed size that many threads add keys to and ask at the same time: all bits of a key are in one
/// atomic word.
///
/// What a thread may rely on: `contains` answers `true` for every key whose insert *happens before* it (in the same
/// thread; before a lock was released, a message sent, a thread ended, that this thread has since acquired, received,
/// joined). Inserts are relaxed: they order nothing by themselves, and a key that another thread is inserting right now
/// may be denied. An insert that found the key present counts as well as the one that put it there. No insert is ever
/// lost.
///
/// ```
/// use sstfilter::{HitBitmap, KeyHasher, TwoBitBloom, TwoBitOptions};
///
/// let hasher = KeyHasher::default();
/// let filter = TwoBitBloom::new(hasher.identity(), TwoBitOptions::default())?;
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
/// // The scope has joined its threads, so all their keys are here.
/// assert!((0..2_000_u32).all(|key| filter.contains(hasher.hash(&key.to_le_bytes()))));
/// assert!((1_900..2_100).contains(&filter.estimated_keys()));
///
/// // Stored, and opened as any block is.
/// let block = filter.to_block()?;
/// assert!(sstfilter::FilterBlock::load(&block, &hasher)?.may_contain(hasher.hash(&7_u32.to_le_bytes())));
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
///
/// # Watching the observed rate
///
/// A probe costs about a nanosecond, a counter shared by all threads several: the filter counts none. Each user keeps
/// a [`FilterStats`](crate::FilterStats) of its own, and they are [merged](crate::FilterStats::merged) to be looked at:
///
/// ```
/// use sstfilter::{FilterStats, HashIdentity, KeyHash, TwoBitBloom, TwoBitOptions};
///
/// let filter = TwoBitBloom::new(HashIdentity::custom(1), TwoBitOptions::default())?;
/// for key in 0..1 << 18 {
///     filter.insert(KeyHash::from_remixed(key));
/// }
/// let mut stats = FilterStats::default();
/// for key in 1 << 18..1 << 19 {
///     match filter.contains(KeyHash::from_remixed(key)) {
///         false => stats.negatives += 1,
///         // Looked up, and not found.
///         true => (stats.positives, stats.false_positives) = (stats.positives + 1, stats.false_positives + 1),
///     }
/// }
/// assert!((stats.observed_fpr().unwrap() - 0.0533).abs() < 0.002);
/// assert!(stats.alarm(filter.expected_fpr()).is_none());
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
pub struct TwoBitBloom {
    hash: HashIdentity,
    shape: TwoBitShape,
    /// As many as the shape says.
    words: Box<[AtomicU64]>,
}

impl TwoBitBloom {
    /// A filter without keys, for keys of `hash`.
    ///
    /// # Errors
    ///
    /// [`FilterError::NoMemory`] without the memory for it.
    pub fn new(hash: HashIdentity, options: TwoBitOptions) -> Result<Self, FilterError> {
        let shape = options.shape();
        let bytes = shape.payload_bytes();
        let count = usize::try_from(shape.machine_words()).map_err(|_| FilterError::NoMemory { bytes })?;
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| FilterError::NoMemory { bytes })?;
        words.resize_with(count, || AtomicU64::new(0));
        Ok(Self { hash, shape, words: words.into_boxed_slice() })
    }

    /// Its size and layout.
    #[must_use]
    pub fn options(&self) -> TwoBitOptions {
        TwoBitOptions::of_shape(self.shape)
    }

    /// Adds a key. Whether it was new: `false` when all its bits were set already, by itself or by others. Threads that
    /// add the same key at the same moment may all be told that it was new.
    ///
    /// One relaxed load, and one atomic OR only when a bit is missing.
    #[inline]
    #[expect(clippy::must_use_candidate, reason = "it adds a key")]
    pub fn insert(&self, hash: KeyHash) -> bool {
        let (hash, index_bits) = (hash.get(), self.shape.index_bits());
        let word = &self.words[word_index(hash, index_bits)];
        for_layout!(self.shape.layout(), WIDTH, PROBES => insert::<WIDTH, PROBES>(word, hash, index_bits))
    }

    /// Adds many keys; how many of them were new. Large filters take them faster than one by one.
    #[expect(clippy::must_use_candidate, reason = "it adds keys")]
    pub fn insert_all(&self, hashes: &[KeyHash]) -> u64 {
        let index_bits = self.shape.index_bits();
        for_layout!(self.shape.layout(), WIDTH, PROBES => {
            self.for_each_ahead(hashes, |word, hash| u64::from(insert::<WIDTH, PROBES>(word, hash, index_bits)))
        })
    }

    /// The sum of `visit` over `hashes`, whose words are fetched ahead where that pays.
    #[inline(always)]
    fn for_each_ahead(&self, hashes: &[KeyHash], visit: impl Fn(&AtomicU64, u64) -> u64) -> u64 {
        let index_bits = self.shape.index_bits();
        let word = |hash: KeyHash| &self.words[word_index(hash.get(), index_bits)];
        let visit = |hash: KeyHash| visit(word(hash), hash.get());
        if self.shape.payload_bytes() < FETCHED_FROM_BYTES {
            return hashes.iter().map(|&hash| visit(hash)).sum();
        }
        let (first, last) = hashes.split_at(hashes.len().saturating_sub(AHEAD));
        let with_ahead = first.iter().zip(hashes.iter().skip(AHEAD)).map(|(&hash, &ahead)| {
            fetch(core::ptr::from_ref(word(ahead)).cast());
            visit(hash)
        });
        with_ahead.sum::<u64>() + last.iter().map(|&hash| visit(hash)).sum::<u64>()
    }

    /// [`insert`](Self::insert) by whoever has the filter alone: no atomic operation, which is several times faster.
    #[inline]
    pub fn insert_mut(&mut self, hash: KeyHash) -> bool {
        let (hash, index_bits) = (hash.get(), self.shape.index_bits());
        let mask = for_layout!(self.shape.layout(), WIDTH, PROBES => mask::<WIDTH, PROBES>(hash, index_bits));
        with_mut(&mut self.words[word_index(hash, index_bits)], |word| {
            let is_new = *word & mask != mask;
            *word |= mask;
            is_new
        })
    }

    /// Whether the key may have been added; `false` is certain, for keys whose insert happens before this.
    #[inline]
    #[must_use]
    pub fn contains(&self, hash: KeyHash) -> bool {
        probe::contains(&self.words, self.shape, hash)
    }

    /// Bit `i % 64` of word `i / 64` of `hits` becomes the answer for hash `i`.
    pub(crate) fn contains_words(&self, hashes: &[KeyHash], hits: &mut [u64]) {
        probe::contains_batch(&self.words, self.shape, hashes, hits);
    }

    /// Takes all keys out.
    pub fn clear(&mut self) {
        self.words.iter_mut().for_each(|word| with_mut(word, |word| *word = 0));
    }

    /// Adds all keys of `other`, which others may go on adding to: what happened before is taken.
    ///
    /// # Errors
    ///
    /// [`FilterError::HashMismatch`] unless both are of one hash; [`FilterError::ShapeMismatch`] unless both have the
    /// same size and layout.
    pub fn union(&self, other: &Self) -> Result<(), FilterError> {
        check_same_hash(self.hash, other.hash)?;
        if self.shape != other.shape {
            let (expected, got) = (self.shape.to_string(), other.shape.to_string());
            return Err(FilterError::ShapeMismatch { expected, got });
        }
        for (word, added) in self.words.iter().zip(&other.words) {
            set(word, added.load(Ordering::Relaxed));
        }
        Ok(())
    }

    /// Counts the ones: reads the whole filter.
    fn contents(&self) -> Contents {
        rate::of_words(self.words.iter().map(|word| word.load(Ordering::Relaxed)), self.shape.layout())
    }

    /// Ones over bits, from 0 to 1; reads the whole filter.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.contents().ones as f64 / self.shape.bits() as f64
    }

    /// The share of absent keys that get through now; reads the whole filter.
    ///
    /// From the words as they are, not from a number of keys: the mean over words of their share of ones to the power of
    /// the bits per key, so words that are fuller than others count as what they are.
    #[must_use]
    pub fn expected_fpr(&self) -> f64 {
        self.contents().rate
    }

    /// Distinct keys, estimated from the fill: exact counting would need a second word that all threads write to. In
    /// 256 KiB it is within 1 % from 65,536 keys to half a million, and it is never 0 in a filter that has keys. This is
    /// what a block of the filter records.
    #[must_use]
    pub fn estimated_keys(&self) -> u64 {
        self.keys_of(self.contents())
    }

    fn keys_of(&self, contents: Contents) -> u64 {
        rate::keys_of_ones(contents.ones, self.shape.words(), self.shape.layout())
    }

    /// Keys (estimated), fill and expected rate, of one pass over the filter.
    ///
    /// ```
    /// use sstfilter::{HashIdentity, HealthAlarm, HealthLimits, KeyHash, TwoBitBloom, TwoBitOptions};
    ///
    /// let mut filter = TwoBitBloom::new(HashIdentity::custom(1), TwoBitOptions::default())?;
    /// for key in 0..1_300_000 {
    ///     filter.insert_mut(KeyHash::from_remixed(key));
    /// }
    /// let alarms = HealthLimits::BLOOM.alarms(&filter.health());
    /// assert!(matches!(alarms[..], [HealthAlarm::Fill { .. }, HealthAlarm::FalsePositiveRate { .. }]));
    /// # Ok::<(), sstfilter::FilterError>(())
    /// ```
    #[must_use]
    pub fn health(&self) -> FilterHealth {
        let contents = self.contents();
        let fill_ratio = contents.ones as f64 / self.shape.bits() as f64;
        FilterHealth { keys: self.keys_of(contents), fill_ratio, expected_fpr: contents.rate }
    }
}

/// Sets the key's bits in its machine word.
#[inline(always)]
fn insert<const WIDTH: u32, const PROBES: u32>(word: &AtomicU64, hash: u64, index_bits: u32) -> bool {
    set(word, mask::<WIDTH, PROBES>(hash, index_bits))
}

/// Sets bits of a word. Loads first: an atomic operation takes the cache line from all other cores, and is not needed
/// when the bits are there.
#[inline(always)]
fn set(word: &AtomicU64, mask: u64) -> bool {
    let is_new = word.load(Ordering::Relaxed) & mask != mask;
    if is_new {
        // Its answer is not used: with it, x86 needs a loop of compare-and-swap instead of one `lock or`.
        word.fetch_or(mask, Ordering::Relaxed);
    }
    is_new
}

impl Storable for TwoBitBloom {
    type Shape = TwoBitShape;

    fn shape(&self) -> TwoBitShape {
        self.shape
    }

    fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    fn keys(&self) -> u64 {
        self.estimated_keys()
    }

    fn write_payload(&self, out: &mut [u8]) {
        for (word, out) in self.words.iter().zip(out.as_chunks_mut().0) {
            *out = word.load(Ordering::Relaxed).to_le_bytes();
        }
    }

    /// Every payload of a shape's length is one that a writer can make.
    fn restore(hash: HashIdentity, shape: TwoBitShape, _keys: u64, payload: &[u8]) -> Result<Self, FilterError> {
        let mut filter = Self::new(hash, TwoBitOptions::of_shape(shape))?;
        for (word, &stored) in filter.words.iter_mut().zip(payload.as_chunks().0) {
            with_mut(word, |word| *word = u64::from_le_bytes(stored));
        }
        Ok(filter)
    }
}

impl fmt::Display for TwoBitShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {}", self.payload_bytes(), self.layout().name())
    }
}

impl fmt::Debug for TwoBitBloom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout: WordLayout = self.shape.layout();
        let (bytes, fill_ratio) = (self.shape.payload_bytes(), self.fill_ratio());
        f.debug_struct("TwoBitBloom")
            .field("bytes", &bytes)
            .field("layout", &layout)
            .field("fill_ratio", &fill_ratio)
            .finish_non_exhaustive()
    }
}
