//! The filter in memory.

use super::shape::{Counter, CountingBloomShape, taken, taken_and_saturated};
use crate::codec::AlignedBuffer;
use crate::error::FilterError;
use crate::filter::standard_bloom::{Spread, StandardBloom, allocate, size_for_rate};
use crate::filter::{FilterShape, Storable};
use crate::hash::{HashIdentity, KeyHash};
use crate::stats::FilterHealth;
use crate::units::{BitsPerKey, FalsePositiveRate};

/// Where a counter stays for good.
const SATURATED: u8 = 15;

/// The number of keys above which a size for a rate does not depend on it any more.
const MANY_KEYS: u64 = 1 << 24;

/// A Bloom filter that keys can be taken out of again: a counter of four bits in place of each bit.
///
/// It never denies a key that is in, as long as only keys are removed that were inserted.
///
/// **Never remove a key that was not inserted.** [`remove`](Self::remove) refuses it when the filter can tell that
/// it is not in. But at the rate of false positives it seems to be in; then its removal takes the counts of other keys
/// down, and **those keys may be denied from then on**. The filter cannot see it happen. Only remove what an exact
/// record (the table, the log) says is in, and as many times as it was inserted.
///
/// ```
/// use sstfilter::{BitsPerKey, CountingBloom, FilterError, KeyHasher};
///
/// let hasher = KeyHasher::default();
/// let (apple, banana) = (hasher.hash(b"apple"), hasher.hash(b"banana"));
/// let mut filter = CountingBloom::for_size(hasher.identity(), 1_000, BitsPerKey::TEN)?;
/// filter.insert(apple);
/// filter.insert(banana);
/// filter.remove(apple)?;
/// assert!(!filter.contains(apple) && filter.contains(banana));
/// assert_eq!(filter.remove(apple), Err(FilterError::NotPresent));
/// assert_eq!(filter.keys(), 1);
/// # Ok::<(), FilterError>(())
/// ```
#[derive(Debug)]
pub struct CountingBloom {
    hash: HashIdentity,
    shape: CountingBloomShape,
    counters: AlignedBuffer,
    keys: u64,
}

impl CountingBloom {
    /// An empty filter for `keys` keys with so many *counters* per key, each of four bits.
    ///
    /// # Errors
    ///
    /// [`FilterError::TooLarge`] beyond 32 GiB; [`FilterError::NoMemory`] without the memory for it.
    pub fn for_size(hash: HashIdentity, keys: u64, counters_per_key: BitsPerKey) -> Result<Self, FilterError> {
        Self::of(hash, Spread::for_keys(keys, counters_per_key))
    }

    /// The smallest filter whose expected rate with `keys` keys is at most `rate`.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] when 100 counters per key are not enough; [`FilterError::TooLarge`] beyond 32 GiB;
    /// [`FilterError::NoMemory`] without the memory for it.
    pub fn for_rate(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        Self::for_size(hash, keys, size_for_rate(keys.clamp(1, MANY_KEYS), rate)?)
    }

    /// An empty filter of `counters` counters, any number, and `probes` probes, 1 to 32.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] without counters, or with too few or too many probes; [`FilterError::TooLarge`] beyond
    /// 32 GiB; [`FilterError::NoMemory`] without the memory for it.
    pub fn with_shape(hash: HashIdentity, counters: u64, probes: u8) -> Result<Self, FilterError> {
        Self::of(hash, Spread::new(counters, probes)?)
    }

    fn of(hash: HashIdentity, spread: Spread) -> Result<Self, FilterError> {
        let shape = CountingBloomShape::new(spread);
        Ok(Self { hash, shape, counters: allocate(shape.payload_bytes())?, keys: 0 })
    }

    /// Inserts a key, once more if it is in. Whether it was seen to be absent before.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let is_new = self.step(hash, self.probes(), |counter| counter + 1);
        self.keys += 1;
        is_new
    }

    /// Inserts many; how many of them were seen to be absent before.
    pub fn insert_all(&mut self, hashes: &[KeyHash]) -> u64 {
        hashes.iter().map(|&hash| u64::from(self.insert(hash))).sum()
    }

    /// Takes a key out that was inserted, once.
    ///
    /// Of a key that was never inserted but looks present, it takes other keys' counts down, and they may then be denied:
    /// see [`CountingBloom`].
    ///
    /// # Errors
    ///
    /// [`FilterError::NotPresent`] when the key is seen not to be in; nothing is changed then.
    pub fn remove(&mut self, hash: KeyHash) -> Result<(), FilterError> {
        let mut walk = self.shape.spread().walk(hash);
        for taken_down in 0..self.probes() {
            let position = walk.next();
            if Counter::get(self.counters.as_slice(), position) == 0 {
                // Put back what was taken down. It was not saturated, so it does not get there either.
                self.step(hash, taken_down, |counter| counter + 1);
                return Err(FilterError::NotPresent);
            }
            self.change(position, |counter| counter - 1);
        }
        self.keys = self.keys.saturating_sub(1);
        Ok(())
    }

    /// Changes the first `probes` counters of a key but those that are saturated, one after the other: a counter that the
    /// key meets twice, twice. Whether one of them was 0.
    fn step(&mut self, hash: KeyHash, probes: u8, change: impl Fn(u8) -> u8) -> bool {
        let mut walk = self.shape.spread().walk(hash);
        (0..probes).fold(false, |was_clear, _| self.change(walk.next(), &change) == 0 || was_clear)
    }

    /// Changes a counter unless it is saturated; what it was.
    fn change(&mut self, position: u64, change: impl Fn(u8) -> u8) -> u8 {
        let (byte, shift) = Counter::place(position);
        let Some(byte) = self.counters.as_mut_slice().get_mut(byte) else {
            return SATURATED;
        };
        let before = *byte >> shift & 15;
        if before != SATURATED {
            *byte = *byte & !(15 << shift) | (change(before) & 15) << shift;
        }
        before
    }

    /// Whether the key may be in; `false` is certain, as long as only inserted keys were removed.
    #[must_use]
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.shape.may_contain(self.counters.as_slice(), hash)
    }

    /// Bit `i % 64` of word `i / 64` of `hits` becomes the answer for key `i`.
    pub(crate) fn contains_words(&self, hashes: &[KeyHash], hits: &mut [u64]) {
        self.shape.may_contain_batch(self.counters.as_slice(), hashes, hits);
    }

    /// Counters.
    #[must_use]
    pub fn counters(&self) -> u64 {
        self.shape.counters()
    }

    /// Counters of each key.
    #[must_use]
    pub fn probes(&self) -> u8 {
        self.shape.spread().probes()
    }

    /// Insertions less removals: a key that was inserted twice counts twice.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Counters that have reached 15. They are never taken down again, because how much more they should have counted is
    /// lost: what is removed leaves them behind, and the rate rises with their number. At half of the counters in use,
    /// about one counter in 10^15 is (Fan et al. 2000). Reads the whole filter.
    #[must_use]
    pub fn saturated(&self) -> u64 {
        self.counters.as_slice().iter().map(|&byte| u64::from(taken_and_saturated(byte).1.count_ones())).sum()
    }

    /// The share of counters in use; reads the whole filter.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        taken(self.counters.as_slice()) as f64 / self.counters() as f64
    }

    /// The number of distinct keys that most likely left as many counters in use as are (Swamidass and Baldi 2007);
    /// [`u64::MAX`] when all are. Reads the whole filter.
    #[must_use]
    pub fn estimated_keys(&self) -> u64 {
        self.shape.spread().estimated_keys(taken(self.counters.as_slice()))
    }

    /// Keys, fill, and the rate that follows from the fill; reads the whole filter.
    #[must_use]
    pub fn health(&self) -> FilterHealth {
        let fill_ratio = self.fill_ratio();
        FilterHealth { keys: self.keys, fill_ratio, expected_fpr: self.shape.spread().fpr_at(fill_ratio) }
    }

    /// The standard Bloom filter of the keys that are in: a quarter of the size, the same answers, for a file that is not
    /// going to change.
    ///
    /// # Errors
    ///
    /// [`FilterError::NoMemory`] without the memory for it.
    pub fn to_standard_bloom(&self) -> Result<StandardBloom, FilterError> {
        StandardBloom::filled(self.hash, self.shape.spread(), self.keys, |bits| {
            for (byte, counters) in bits.iter_mut().zip(self.counters.as_slice().chunks(4)) {
                let positions = (0..8).filter(|&position| Counter::get(counters, position) > 0);
                *byte = positions.fold(0, |byte, position| byte | 1 << position);
            }
        })
    }
}

impl Storable for CountingBloom {
    type Shape = CountingBloomShape;

    fn shape(&self) -> CountingBloomShape {
        self.shape
    }

    fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn write_payload(&self, out: &mut [u8]) {
        out.copy_from_slice(self.counters.as_slice());
    }

    /// Counters behind the last are cleared: no writer uses them.
    fn restore(hash: HashIdentity, shape: CountingBloomShape, keys: u64, payload: &[u8]) -> Result<Self, FilterError> {
        let mut filter = Self { keys, ..Self::of(hash, shape.spread())? };
        let counters = filter.counters.as_mut_slice();
        counters.copy_from_slice(payload);
        let unused = (shape.payload_bytes() * 2 - shape.counters()) * 4;
        if let Some(last) = counters.last_chunk_mut::<8>() {
            *last = (u64::from_le_bytes(*last) & u64::MAX >> unused).to_le_bytes();
        }
        Ok(filter)
    }
}
