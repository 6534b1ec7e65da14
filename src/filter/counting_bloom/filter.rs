//! The filter in memory.

use super::shape::{Counter, CountingBloomShape};
use crate::filter::dynamic::{Contents, InMemory, dynamic};
use crate::filter::error::FilterError;
use crate::filter::standard_bloom::{BloomParams, StandardBloom, planned_by_keys};
use crate::hash::{HashIdentity, KeyHash};
use crate::units::{BitsPerKey, FalsePositiveRate};

/// The highest value of a counter. A counter that reaches it stays there, because it may have lost count.
const SATURATED: u8 = 15;

/// A Bloom filter that keys can be removed from: a counter of four bits in place of each bit.
///
/// It contains every key that was inserted and not removed, as long as only inserted keys are removed.
///
/// **Never remove a key that was not inserted.** [`remove`](Self::remove) refuses if the key is certainly absent. But a
/// false positive looks present; its removal decrements the counters of other keys, and **the filter may answer
/// "absent" for those keys from then on**. The filter cannot detect this. Remove only keys that an exact record (the
/// table, the log) says are present, and each as often as it was inserted.
///
/// [`keys`](crate::DynamicFilter::keys) is the number of insertions minus the number of removals: a key that was
/// inserted twice counts twice.
///
/// ```
/// use sstfilter::{BitsPerKey, CountingBloom, DynamicFilter, FilterError, KeyHasher};
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
    pub(super) contents: InMemory<CountingBloomShape>,
}

impl CountingBloom {
    planned_by_keys!("counters of four bits");

    /// Creates an empty filter with any number of `counters`, and `probes` probes, 1 to 32.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] without counters, or for another number of probes; [`FilterError::TooLarge`] beyond 32
    /// GiB; [`FilterError::NoMemory`] when allocation fails.
    pub fn with_shape(hash: HashIdentity, counters: u64, probes: u8) -> Result<Self, FilterError> {
        Self::empty(hash, BloomParams::new(counters, probes)?)
    }

    pub(super) fn empty(hash: HashIdentity, params: BloomParams) -> Result<Self, FilterError> {
        Ok(Self { contents: InMemory::empty(hash, CountingBloomShape::new(params))? })
    }

    /// Inserts a key, once more if it is present. Returns whether it was certainly absent before.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        // A present key is counted again, because it must be removed as often as it was inserted.
        let is_new = self.increment(hash, self.probes());
        self.contents.keys += 1;
        is_new
    }

    /// Inserts many keys. Returns how many of them were certainly absent before.
    pub fn insert_all(&mut self, hashes: &[KeyHash]) -> u64 {
        hashes.iter().map(|&hash| u64::from(self.insert(hash))).sum()
    }

    /// Removes a key that was inserted, once.
    ///
    /// A block that a policy built contains each key once, even if it was added repeatedly: remove it once.
    ///
    /// Removing a false positive decrements the counters of other keys, which the filter may then report as absent: see
    /// [`CountingBloom`].
    ///
    /// # Errors
    ///
    /// [`FilterError::NotPresent`] when the key is certainly absent; the filter is then unchanged.
    pub fn remove(&mut self, hash: KeyHash) -> Result<(), FilterError> {
        let mut sequence = self.params().sequence(hash);
        for decremented in 0..self.probes() {
            let position = sequence.next();
            if Counter::get(self.contents.bytes(), position) == 0 {
                // Undoes the removal. The decremented counters were not saturated, so incrementing does not saturate
                // them.
                self.increment(hash, decremented);
                return Err(FilterError::NotPresent);
            }
            self.change(position, |counter| counter - 1);
        }
        self.contents.keys = self.contents.keys.saturating_sub(1);
        Ok(())
    }

    /// Increments the first `probes` counters of a key except saturated ones, in sequence: if the key has a counter
    /// twice, it is incremented twice. Returns whether one of them was 0.
    fn increment(&mut self, hash: KeyHash, probes: u8) -> bool {
        let mut sequence = self.params().sequence(hash);
        (0..probes).fold(false, |was_zero, _| self.change(sequence.next(), |counter| counter + 1) == 0 || was_zero)
    }

    /// Changes a counter unless it is saturated, and returns its previous value.
    fn change(&mut self, position: u64, change: impl Fn(u8) -> u8) -> u8 {
        let (byte, shift) = Counter::location(position);
        let Some(byte) = self.contents.payload.as_mut_slice().get_mut(byte) else {
            return SATURATED;
        };
        let before = *byte >> shift & 15;
        // A saturated counter stays: its true count is unknown, and a decrement could lose a key.
        if before != SATURATED {
            *byte = *byte & !(15 << shift) | (change(before) & 15) << shift;
        }
        before
    }

    /// Returns whether the key may be present; `false` is certain, as long as only inserted keys were removed.
    #[must_use]
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.contents.contains(hash)
    }

    /// Returns the number of counters.
    #[must_use]
    pub fn counters(&self) -> u64 {
        self.params().positions
    }

    /// Returns the number of counters of each key.
    #[must_use]
    pub fn probes(&self) -> u8 {
        self.params().probes
    }

    /// Returns how often the key was inserted and not removed, at most: the least of its counters. `Some(0)` means
    /// certainly absent. A block that a policy built has counted each key once. `None` means that all of its counters
    /// have reached 15 and may have lost count, so there is no bound.
    ///
    /// ```
    /// use sstfilter::{BitsPerKey, CountingBloom, HashIdentity, KeyHash};
    ///
    /// let mut filter = CountingBloom::for_size(HashIdentity::default(), 1_000, BitsPerKey::TEN)?;
    /// (0..3).for_each(|_| _ = filter.insert(KeyHash::mix(7)));
    /// assert_eq!((filter.count(KeyHash::mix(7)), filter.count(KeyHash::mix(8))), (Some(3), Some(0)));
    /// # Ok::<(), sstfilter::FilterError>(())
    /// ```
    #[must_use]
    pub fn count(&self, hash: KeyHash) -> Option<u8> {
        let mut sequence = self.params().sequence(hash);
        let counters = (0..self.probes()).map(|_| Counter::get(self.contents.bytes(), sequence.next()));
        counters.min().filter(|&least| least < SATURATED)
    }

    /// Counts the counters of each value, from 0 to 15. In a filter of distinct keys that is neither too full nor
    /// attacked, each value from 2 on has a fraction of the counters that the value before has. Reads the whole filter.
    #[must_use]
    pub fn histogram(&self) -> [u64; 16] {
        let mut counters = [0; 16];
        for position in 0..self.counters() {
            if let Some(count) = counters.get_mut(usize::from(Counter::get(self.contents.bytes(), position))) {
                *count += 1;
            }
        }
        counters
    }

    /// Counts the counters that have reached 15. They are never decremented again, because their true count is lost:
    /// removals leave them behind, and the rate rises with their number. When half of the counters are in use, about
    /// one counter in 10^15 is saturated (Fan et al. 2000). Reads the whole filter.
    #[must_use]
    pub fn saturated(&self) -> u64 {
        self.histogram()[usize::from(SATURATED)]
    }

    /// Returns the number of distinct keys that most likely left this many counters in use (Swamidass and Baldi 2007);
    /// [`u64::MAX`] when all are in use. Reads the whole filter.
    #[must_use]
    pub fn estimated_keys(&self) -> u64 {
        self.contents.estimated_keys()
    }

    /// Returns the standard Bloom filter of the present keys, with a quarter of the size and the same answers, for a
    /// file that will not change.
    ///
    /// # Errors
    ///
    /// [`FilterError::NoMemory`] when allocation fails.
    pub fn to_standard_bloom(&self) -> Result<StandardBloom, FilterError> {
        let mut filter = StandardBloom::empty(self.contents.hash, self.params())?;
        filter.contents.keys = self.contents.keys;
        let bits = filter.contents.payload.as_mut_slice();
        // Four bytes of counters become one byte of bits.
        for (byte, counters) in bits.iter_mut().zip(self.contents.bytes().chunks(4)) {
            let positions = (0..8).filter(|&position| Counter::get(counters, position) > 0);
            *byte = positions.fold(0, |byte, position| byte | 1 << position);
        }
        Ok(filter)
    }

    fn params(&self) -> BloomParams {
        self.contents.shape.params
    }
}

dynamic!(CountingBloom(InMemory<CountingBloomShape>), |filter, hashes| {
    filter.insert_all(hashes);
    Ok(())
});
