//! The filter in memory: keys come and go.

use super::insert::{Search, Table};
use super::probe::{self, FAR_BYTES, KEYS_AHEAD};
use super::shape::CuckooShape;
use crate::codec::AlignedBuffer;
use crate::error::{BlockError, FilterError};
use crate::filter::Storable;
use crate::hash::{HashIdentity, KeyHash};
use crate::stats::FilterHealth;
use crate::units::FalsePositiveRate;

/// A filter that keys can be added to and removed from while it is in use.
///
/// It is a multiset: a key can be in it up to eight times (the places of its two buckets), and is to be removed as
/// often as it was inserted. Two keys with the same tag and the same two buckets are one key to it; they share the
/// eight places. Whatever is inserted and not removed is never denied.
///
/// The same operations in the same order give the same bytes everywhere.
///
/// ```
/// use sstfilter::{CuckooFilter, FalsePositiveRate, FilterError, KeyHasher};
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
    hash: HashIdentity,
    shape: CuckooShape,
    payload: AlignedBuffer,
    keys: u64,
    search: Search,
}

/// Runs a method of the table with the word that its buckets fit in.
macro_rules! with_table {
    ($filter:ident, $table:ident => $call:expr) => {
        if $filter.shape.is_narrow() {
            Table::<u64>::new($filter.shape, $filter.payload.as_mut_slice()).is_some_and(|mut $table| $call)
        } else {
            Table::<u128>::new($filter.shape, $filter.payload.as_mut_slice()).is_some_and(|mut $table| $call)
        }
    };
}

impl CuckooFilter {
    /// An empty filter of this shape.
    ///
    /// # Errors
    ///
    /// [`FilterError::NoMemory`] without the memory for it.
    pub fn new(hash: HashIdentity, shape: CuckooShape) -> Result<Self, FilterError> {
        let bytes = shape.payload_bytes();
        let payload = AlignedBuffer::zeroed(bytes, 0).ok_or(FilterError::NoMemory { bytes })?;
        Ok(Self { hash, shape, payload, keys: 0, search: Search::default() })
    }

    /// An empty filter for `keys` keys with at most this rate of false positives.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] for what [`CuckooShape::for_rate`] refuses; [`FilterError::NoMemory`] without the
    /// memory for it.
    pub fn for_rate(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        Self::new(hash, CuckooShape::for_rate(keys, rate)?)
    }

    /// An empty filter for `keys` keys with tags of `tag_bits` bits, 4 to 32.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] for what [`CuckooShape::with_tag_bits`] refuses; [`FilterError::NoMemory`] without
    /// the memory for it.
    pub fn with_tag_bits(hash: HashIdentity, keys: u64, tag_bits: u8) -> Result<Self, FilterError> {
        Self::new(hash, CuckooShape::with_tag_bits(keys, tag_bits)?)
    }

    /// Adds a key, once more if it is in already.
    ///
    /// # Errors
    ///
    /// [`FilterError::Full`] when no place can be made, and nothing has changed: hardly before 95 % of the places
    /// are taken, or when the key is in eight times.
    #[inline]
    pub fn insert(&mut self, hash: KeyHash) -> Result<(), FilterError> {
        let place = self.shape.place(hash);
        let search = &mut self.search;
        let is_in = with_table!(self, table => table.insert(&place, search));
        self.keys += u64::from(is_in);
        if is_in { Ok(()) } else { Err(self.full()) }
    }

    /// Adds many keys, in their order: faster than one by one in a filter that the caches do not hold, with the same
    /// bytes.
    ///
    /// # Errors
    ///
    /// [`FilterError::Full`] at the first key that there is no place for. Those before it are in, and no other:
    /// as many as [`keys`](Self::keys) has grown by.
    pub fn insert_all(&mut self, hashes: &[KeyHash]) -> Result<(), FilterError> {
        let shape = self.shape;
        if shape.payload_bytes() < FAR_BYTES as u64 {
            return hashes.iter().try_for_each(|&hash| self.insert(hash));
        }
        let (search, keys) = (&mut self.search, &mut self.keys);
        let mut ahead = hashes.get(KEYS_AHEAD..).unwrap_or_default().iter();
        let are_in = with_table!(self, table => hashes.iter().all(|&hash| {
            if let Some(&next) = ahead.next() {
                table.fetch(&shape.place(next));
            }
            let is_in = table.insert(&shape.place(hash), search);
            *keys += u64::from(is_in);
            is_in
        }));
        if are_in { Ok(()) } else { Err(self.full()) }
    }

    /// Takes a key out, once.
    ///
    /// Remove only what was inserted. A key that never was, but looks present, takes with it a key that it cannot
    /// be told from: that one is denied from then on.
    ///
    /// # Errors
    ///
    /// [`FilterError::NotPresent`] when the key is certainly not in, and nothing has changed.
    pub fn remove(&mut self, hash: KeyHash) -> Result<(), FilterError> {
        let place = self.shape.place(hash);
        if with_table!(self, table => table.remove(&place)) {
            self.keys -= 1;
            Ok(())
        } else {
            Err(FilterError::NotPresent)
        }
    }

    /// Whether the key of `hash` may be in; `false` is certain.
    #[inline]
    #[must_use]
    pub fn contains(&self, hash: KeyHash) -> bool {
        probe::may_contain(self.shape, self.payload.as_slice(), hash)
    }

    /// Probes many: bit `i % 64` of word `i / 64` of `hits` becomes the answer for hash `i`.
    pub(crate) fn contains_words(&self, hashes: &[KeyHash], hits: &mut [u64]) {
        probe::may_contain_batch(self.shape, self.payload.as_slice(), hashes, hits);
    }

    /// Width of the tags, and number of buckets.
    #[must_use]
    pub fn shape(&self) -> CuckooShape {
        self.shape
    }

    /// Keys in the filter, each as often as it is in.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Places taken, from 0 to 1.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        self.keys as f64 / self.shape.places() as f64
    }

    /// How full it is, and the rate that follows; see [`HealthLimits::CUCKOO`](crate::HealthLimits::CUCKOO).
    #[must_use]
    pub fn health(&self) -> FilterHealth {
        FilterHealth {
            keys: self.keys,
            fill_ratio: self.fill_ratio(),
            expected_fpr: self.shape.expected_fpr(self.keys),
        }
    }

    fn full(&self) -> FilterError {
        FilterError::Full { keys: self.keys, places: self.shape.places() }
    }
}

impl Storable for CuckooFilter {
    type Shape = CuckooShape;

    fn shape(&self) -> CuckooShape {
        self.shape
    }

    fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn write_payload(&self, out: &mut [u8]) {
        if let Some(out) = out.get_mut(..self.payload.as_slice().len()) {
            out.copy_from_slice(self.payload.as_slice());
        }
    }

    fn restore(hash: HashIdentity, shape: CuckooShape, keys: u64, payload: &[u8]) -> Result<Self, FilterError> {
        let field = |field, expected, got| Err(BlockError::Field { field, expected, got }.into());
        let (tags, behind) = (probe::count(shape, payload), shape.bytes_behind(payload));
        if tags != Some(keys) {
            return field("keys", "the number of tags", keys);
        }
        if let Some(&byte) = behind.iter().find(|&&byte| byte != 0) {
            return field("bytes behind the last bucket", "0", byte.into());
        }
        let mut filter = Self::new(hash, shape)?;
        filter.payload.as_mut_slice().copy_from_slice(payload);
        Ok(Self { keys, ..filter })
    }
}
