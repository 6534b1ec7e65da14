//! The filter in memory.

use super::build::StandardBits;
use super::shape::StandardBloomShape;
use super::spread::{Spread, allocate, size_for_rate};
use crate::error::FilterError;
use crate::filter::{FilterShape, Storable, check_same_hash};
use crate::hash::{HashIdentity, KeyHash};
use crate::stats::FilterHealth;
use crate::units::{BitsPerKey, FalsePositiveRate};

/// The number of keys above which a size for a rate does not depend on it any more.
const MANY_KEYS: u64 = 1 << 24;

/// A standard Bloom filter that takes keys while it is in use.
///
/// It belongs to one hash, which its constructor is given: blocks of it say so, and filters of two hashes cannot be
/// merged.
///
/// It never denies a key that was inserted. More keys than planned raise its rate, up to 1, and nothing else:
/// [`health`](Self::health) tells. Keys cannot be taken out: see [`CountingBloom`](crate::CountingBloom).
///
/// ```
/// use sstfilter::{FalsePositiveRate, KeyHasher, StandardBloom};
///
/// let hasher = KeyHasher::default();
/// let mut filter = StandardBloom::for_rate(hasher.identity(), 1_000, FalsePositiveRate::ONE_PERCENT)?;
/// assert!(filter.insert(hasher.hash(b"apple")));
/// assert!(filter.contains(hasher.hash(b"apple")));
/// assert!(!filter.insert(hasher.hash(b"apple")), "nothing new");
///
/// // Into a file and back, for more keys.
/// let block = filter.to_block()?;
/// let again = StandardBloom::from_block(&block, &hasher)?;
/// assert!(again.contains(hasher.hash(b"apple")));
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
#[derive(Debug)]
pub struct StandardBloom {
    hash: HashIdentity,
    bits: StandardBits,
    keys: u64,
}

impl StandardBloom {
    /// An empty filter for `keys` keys, with the [best number of probes](super::optimal_probes) for its size.
    ///
    /// # Errors
    ///
    /// [`FilterError::TooLarge`] beyond 32 GiB; [`FilterError::NoMemory`] without the memory for it.
    pub fn for_size(hash: HashIdentity, keys: u64, size: BitsPerKey) -> Result<Self, FilterError> {
        Self::of(hash, Spread::for_keys(keys, size))
    }

    /// The smallest filter whose expected rate with `keys` keys is at most `rate`.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] when 100 bits per key are not enough; [`FilterError::TooLarge`] beyond 32 GiB;
    /// [`FilterError::NoMemory`] without the memory for it.
    pub fn for_rate(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        Self::for_size(hash, keys, size_for_rate(keys.clamp(1, MANY_KEYS), rate)?)
    }

    /// An empty filter of `bits` bits, any number, and `probes` probes, 1 to 32.
    ///
    /// ```
    /// use sstfilter::{HashIdentity, KeyHash, StandardBloom};
    ///
    /// // 800 keys in a thousand bits: nine bits of ten are set, and three absent keys of four get through.
    /// let mut saturated = StandardBloom::with_shape(HashIdentity::custom(1), 1_000, 3)?;
    /// (0..800).for_each(|key| { saturated.insert(KeyHash::from_remixed(key)); });
    /// assert!((0.89..0.93).contains(&saturated.fill_ratio()));
    /// assert!((0.70..0.80).contains(&saturated.health().expected_fpr));
    /// # Ok::<(), sstfilter::FilterError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] without bits, or with too few or too many probes; [`FilterError::TooLarge`] beyond
    /// 32 GiB; [`FilterError::NoMemory`] without the memory for it.
    pub fn with_shape(hash: HashIdentity, bits: u64, probes: u8) -> Result<Self, FilterError> {
        Self::of(hash, Spread::new(bits, probes)?)
    }

    fn of(hash: HashIdentity, spread: Spread) -> Result<Self, FilterError> {
        let shape = StandardBloomShape::new(spread);
        let payload = allocate(shape.payload_bytes())?;
        Ok(Self { hash, bits: StandardBits::from_payload(shape, payload), keys: 0 })
    }

    /// A filter whose bits are set by `fill`, none behind the last.
    pub(crate) fn filled(
        hash: HashIdentity,
        spread: Spread,
        keys: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Self, FilterError> {
        let mut filter = Self { keys, ..Self::of(hash, spread)? };
        fill(filter.bits.as_mut_slice());
        Ok(filter)
    }

    /// Inserts a key. Whether that changed the filter: `false` for a key that it seemed to contain already.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let is_new = self.bits.insert(hash);
        self.keys = self.keys.saturating_add(is_new.into());
        is_new
    }

    /// Inserts many, faster than one by one when the filter is larger than the caches; how many of them changed it.
    pub fn insert_all(&mut self, hashes: &[KeyHash]) -> u64 {
        let new = self.bits.insert_all(hashes);
        self.keys = self.keys.saturating_add(new);
        new
    }

    /// Whether the key may have been inserted; `false` is certain.
    #[must_use]
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.bits.shape().may_contain(self.bits.as_slice(), hash)
    }

    /// Bit `i % 64` of word `i / 64` of `hits` becomes the answer for key `i`.
    pub(crate) fn contains_words(&self, hashes: &[KeyHash], hits: &mut [u64]) {
        self.bits.shape().may_contain_batch(self.bits.as_slice(), hashes, hits);
    }

    /// Adds the keys of `other`. [`keys`](Self::keys) then counts those twice that are in both.
    ///
    /// # Errors
    ///
    /// [`FilterError::HashMismatch`] unless both are of one hash; [`FilterError::ShapeMismatch`] unless both have as many
    /// bits and probes.
    pub fn union(&mut self, other: &Self) -> Result<(), FilterError> {
        check_same_hash(self.hash, other.hash)?;
        let (expected, got) = (self.bits.shape(), other.bits.shape());
        if expected != got {
            let describe = |shape: StandardBloomShape| format!("{} bits, {} probes", shape.bits(), shape.probes());
            return Err(FilterError::ShapeMismatch { expected: describe(expected), got: describe(got) });
        }
        let bytes = self.bits.as_mut_slice().iter_mut().zip(other.bits.as_slice());
        bytes.for_each(|(ours, theirs)| *ours |= theirs);
        self.keys = self.keys.saturating_add(other.keys);
        Ok(())
    }

    /// Bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.bits.shape().bits()
    }

    /// Bits of each key.
    #[must_use]
    pub fn probes(&self) -> u8 {
        self.bits.shape().probes()
    }

    /// Keys that set at least one bit when they were inserted: the distinct keys, less those that were let through as
    /// false positives before they came. In a filter that holds what it was planned for, that is about a sixth
    /// of the rate.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// The share of bits that are set; reads the whole filter.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.bits.ones() as f64 / self.bits() as f64
    }

    /// The number of distinct keys that most likely set as many bits as are set (Swamidass and Baldi 2007), also
    /// after a [`union`](Self::union); [`u64::MAX`] when all are. Reads the whole filter.
    #[must_use]
    pub fn estimated_keys(&self) -> u64 {
        self.bits.shape().spread().estimated_keys(self.bits.ones())
    }

    /// Keys, fill, and the rate that follows from the fill; reads the whole filter.
    #[must_use]
    pub fn health(&self) -> FilterHealth {
        let fill_ratio = self.fill_ratio();
        FilterHealth { keys: self.keys, fill_ratio, expected_fpr: self.bits.shape().spread().fpr_at(fill_ratio) }
    }
}

impl Storable for StandardBloom {
    type Shape = StandardBloomShape;

    fn shape(&self) -> StandardBloomShape {
        self.bits.shape()
    }

    fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn write_payload(&self, out: &mut [u8]) {
        out.copy_from_slice(self.bits.as_slice());
    }

    /// Bits behind the last are cleared: no writer sets them.
    fn restore(hash: HashIdentity, shape: StandardBloomShape, keys: u64, payload: &[u8]) -> Result<Self, FilterError> {
        Self::filled(hash, shape.spread(), keys, |bits| {
            bits.copy_from_slice(payload);
            let unused = shape.payload_bytes() * 8 - shape.bits();
            if let Some(last) = bits.last_chunk_mut::<8>() {
                *last = (u64::from_le_bytes(*last) & u64::MAX >> unused).to_le_bytes();
            }
        })
    }
}
